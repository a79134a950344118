//! Random tensors. The numbers depend on the seed, the epoch, the element's position and which call it is (`use`), and on
//! nothing else: not on chunks, threads or order.

use super::super::chance::Seed;
use super::super::{Arg, Attrs, ByRow, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use super::broadcast::{check_room, room};
use super::lead::{check_integers, integers, sizes, take_axis};
use super::number::{Number, numbers};
use super::philox::Philox;
use super::shape::shape_dims;
use crate::element::{B8, Column, DType, Dims, Leaf, Shape, Tensor, Value};
use crate::error::{Error, Result};

pub static FUNCS: &[Func] = &[
    Func {
        name: "random.uniform",
        doc: "Floats in [minval, maxval), or integers if the dtype is one.",
        make: make_uniform,
        pure: false,
    },
    Func {
        name: "random.normal",
        doc: "Floats of a normal distribution; `truncated` draws again what is further than two standard deviations away.",
        make: make_normal,
        pure: false,
    },
    Func {
        name: "random.gamma",
        doc: "Floats of a gamma distribution of shape `alpha` and rate `beta`.",
        make: make_gamma,
        pure: false,
    },
    Func {
        name: "random.beta",
        doc: "Floats between 0 and 1, of a beta distribution of the shapes `alpha` and `beta`.",
        make: make_beta,
        pure: false,
    },
    Func {
        name: "random.stateless_uniform",
        doc: "Floats in [minval, maxval) that follow from a pair of seeds alone, wherever the call stands.",
        make: make_stateless_uniform,
        pure: true,
    },
    Func { name: "random.integers", doc: "Integers in [minval, maxval).", make: make_integers, pure: false },
    Func { name: "random.bernoulli", doc: "True with probability p.", make: make_bernoulli, pure: false },
    Func {
        name: "random.permutation",
        doc: "The numbers from 0 to n - 1 in random order, as int64; for a tensor, n is the size of its first axis.",
        make: make_permutation,
        pure: false,
    },
    Func {
        name: "random.shuffle",
        doc: "The rows of the first axis in random order.",
        make: make_shuffle,
        pure: false,
    },
];

/// Which stream of random numbers a call draws from.
#[derive(Clone)]
pub(super) struct Source {
    seed: Seed,
    call: u64,
}

impl Source {
    pub(super) fn of(attrs: &Attrs) -> Result<Source> {
        let number = |name: &str| -> Result<u64> {
            match attrs.get(name) {
                None => Ok(0),
                Some(v) => v
                    .as_u64()
                    .or(v.as_i64().map(|i| i as u64))
                    .ok_or_else(|| Error::usage(format!("{name} must be an integer, not {v}"))),
            }
        };
        Ok(Source { seed: Seed::of(number("seed")?, attrs), call: number("use")? })
    }
    /// The numbers of one element: the key stirs seed, epoch and call together, the position picks the stream.
    pub(super) fn at(&self, at: RowAt) -> Philox {
        self.of_key(self.key(at.epoch), at.pos)
    }
    fn key(&self, epoch: u64) -> u64 {
        Philox::new(Philox::new(self.seed.get(), epoch).next_u64(), self.call).next_u64()
    }
    fn of_key(&self, key: u64, pos: u64) -> Philox {
        Philox::new(key, pos)
    }
}

/// Fills tensors of one shape with random numbers.
struct Fill<F> {
    source: Source,
    dtype: DType,
    /// Without it, the only argument is the shape.
    shape: Option<Shape>,
    fill: F,
}

impl<F: Fn(&mut Philox, &mut Tensor) -> Result<()> + Send + Sync> Fill<F> {
    fn made(args: &[Leaf], attrs: &Attrs, dtype: DType, fill: F) -> Result<Made>
    where
        F: 'static,
    {
        let source = Source::of(attrs)?;
        if let [_] = args {
            let (of, shape) = dense(args, 0)?;
            let dims = shape_dims("the shape", of, shape)?;
            return Made::new(Leaf::tensor(dtype, dims), Fill { source, dtype, shape: None, fill });
        }
        arity::<0>(args)?;
        let shape = shape_attr(attrs, dtype)?;
        Made::new(Leaf::tensor(dtype, Dims::known(&shape)), Fill { source, dtype, shape: Some(shape), fill })
    }
}

impl<F: Fn(&mut Philox, &mut Tensor) -> Result<()> + Send + Sync> Kernel for Fill<F> {
    fn row(&self, args: &[Value], at: RowAt) -> Result<Value> {
        let mut out = match &self.shape {
            Some(shape) => Tensor::new(self.dtype, shape.clone()),
            None => room(self.dtype, &sizes(args[0].tensor())?)?,
        };
        (self.fill)(&mut self.source.at(at), &mut out)?;
        Ok(Value::Tensor(out))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, at: RowsAt<'_>) -> Result<Option<Column>> {
        let inner = match (&self.shape, &*args) {
            (Some(shape), _) => shape.clone(),
            (None, [Arg::Same(Value::Tensor(t))]) => match sizes(t) {
                Ok(shape) => shape,
                Err(_) => return Ok(None),
            },
            _ => return Ok(None),
        };
        let mut shape = inner.clone();
        shape.insert(0, rows);
        if check_room(self.dtype, &shape).is_err() || shape.contains(&0) {
            return Ok(None);
        }
        let n: usize = inner.iter().product();
        // Each row is drawn on its own and copied: its numbers must not depend on its neighbours.
        let mut out = Tensor::new(self.dtype, shape);
        let mut one = Tensor::new(self.dtype, inner);
        let key = self.source.key(at.epoch);
        for (row, to) in out.bytes_mut().chunks_exact_mut(n * self.dtype.size()).enumerate() {
            (self.fill)(&mut self.source.of_key(key, at.pos.at(row)), &mut one)?;
            to.copy_from_slice(one.bytes());
        }
        Ok(Some(Column::Dense(out)))
    }
}

/// The shape of the result where it is an attribute; a scalar without it.
fn shape_attr(attrs: &Attrs, dtype: DType) -> Result<Shape> {
    let shape = attrs.i64s("shape")?.unwrap_or_default();
    let shape: Shape = shape
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| Error::usage(format!("shape {shape:?} has a negative size"))))
        .collect::<Result<_>>()?;
    check_room(dtype, &shape).map_err(|e| Error::usage(e.message()))?;
    Ok(shape)
}

fn float_dtype(attrs: &Attrs) -> Result<DType> {
    match attrs.dtype("dtype")?.unwrap_or(DType::Float32) {
        d if d.is_float() => Ok(d),
        d => Err(Error::usage(format!("dtype must be a float dtype, not {d}"))),
    }
}

fn make_uniform(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    if attrs.dtype("dtype")?.is_some_and(|d| d.is_int()) {
        return make_integers(args, attrs);
    }
    let (dtype, fill) = uniform(attrs)?;
    Fill::made(args, attrs, dtype, fill)
}

/// The dtype of floats in a range, and what draws them.
fn uniform(attrs: &Attrs) -> Result<(DType, impl Fn(&mut Philox, &mut Tensor) -> Result<()> + Send + Sync + 'static)> {
    let dtype = float_dtype(attrs)?;
    let (low, high) = (attrs.f64("minval")?.unwrap_or(0.0), attrs.f64("maxval")?.unwrap_or(1.0));
    if !(low < high && (high - low).is_finite()) {
        return Err(Error::usage(format!("minval must be less than maxval, but they are {low} and {high}")));
    }
    let fill = move |random: &mut Philox, out: &mut Tensor| {
        match out.dtype() {
            DType::Float64 => {
                // Rounding may reach the upper end, which does not belong to the range.
                let top = high.next_down();
                out.items_mut::<f64>().iter_mut().for_each(|x| *x = (low + random.unit_f64() * (high - low)).min(top));
            }
            DType::Float32 => {
                let (low, high) = (low as f32, high as f32);
                let (span, top) = (high - low, high.next_down().max(low));
                for x in out.items_mut::<f32>() {
                    let unit = (random.next_u32() >> 8) as f32 * (1.0 / (1 << 24) as f32);
                    *x = (low + unit * span).min(top);
                }
            }
            // The half types draw as many bits as they hold, so that nothing is rounded up to the end.
            dtype => {
                let bits = if dtype == DType::Float16 { 11 } else { 8 };
                let unit = |random: &mut Philox| f64::from(random.next_u32() >> (32 - bits)) / f64::from(1u32 << bits);
                numbers!(dtype, T => all {
                    let (low, high) = (T::of_f64(low).to_f64(), T::of_f64(high));
                    for x in out.items_mut::<T>() {
                        *x = T::of_f64(low + unit(random) * (high.to_f64() - low));
                        if *x >= high {
                            *x = T::of_f64(low);
                        }
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    };
    Ok((dtype, fill))
}

/// The numbers that belong to a pair of seeds, for functions that draw the same for the same pair wherever they stand.
pub(super) fn seeded(seed: &Tensor) -> Result<Philox> {
    match integers(seed)?.as_slice() {
        [a, b] => Ok(Philox::new(*a as u64, *b as u64)),
        other => Err(Error::data(format!("a seed is a pair of integers, not {other:?}"))),
    }
}

/// Refuses what is no pair of seeds, when a function is traced.
pub(super) fn check_seed(args: &[Leaf], i: usize) -> Result<()> {
    let (dtype, shape) = dense(args, i)?;
    check_integers("seed", dtype)?;
    match shape.compatible(&Dims::known(&[2])) {
        true => Ok(()),
        false => Err(Error::usage(format!("a seed is a pair of integers, not a tensor of shape {shape}"))),
    }
}

fn make_stateless_uniform(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    check_seed(args, 0)?;
    let (dtype, fill) = uniform(attrs)?;
    let (shape, dims) = match args.len() {
        1 => {
            let shape = shape_attr(attrs, dtype)?;
            let dims = Dims::known(&shape);
            (Some(shape), dims)
        }
        _ => {
            arity::<2>(args)?;
            let (of, shape) = dense(args, 1)?;
            (None, shape_dims("the shape", of, shape)?)
        }
    };
    let kernel = ByRow(move |args: &[Value]| {
        let mut out = match &shape {
            Some(shape) => Tensor::new(dtype, shape.clone()),
            None => room(dtype, &sizes(args[1].tensor())?)?,
        };
        fill(&mut seeded(args[0].tensor())?, &mut out)?;
        Ok(Value::Tensor(out))
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

/// Two normal numbers at a time (Box and Muller).
#[derive(Default)]
pub(super) struct Normal {
    spare: Option<f64>,
}

impl Normal {
    pub(super) fn next(&mut self, random: &mut Philox) -> f64 {
        if let Some(x) = self.spare.take() {
            return x;
        }
        let radius = (-2.0 * (1.0 - random.unit_f64()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * random.unit_f64()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}

fn make_normal(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let dtype = float_dtype(attrs)?;
    let (mean, stddev) = (attrs.f64("mean")?.unwrap_or(0.0), attrs.f64("stddev")?.unwrap_or(1.0));
    let truncated = attrs.bool("truncated")?.unwrap_or(false);
    Fill::made(args, attrs, dtype, move |random, out| {
        let mut normal = Normal::default();
        let mut draw = || loop {
            let x = normal.next(random);
            if !truncated || x.abs() <= 2.0 {
                return mean + stddev * x;
            }
        };
        numbers!(out.dtype(), T => all {
            out.items_mut::<T>().iter_mut().for_each(|x| *x = T::of_f64(draw()));
            Ok(())
        })
    })
}

/// The logarithm of a number of the gamma distribution of rate 1 (Marsaglia and Tsang, "A simple method for generating gamma
/// variables", 2000). Numbers of small shapes are too close to 0 to be written otherwise.
fn ln_gamma(shape: f64, random: &mut Philox) -> f64 {
    if shape < 1.0 {
        return ln_gamma(shape + 1.0, random) + (1.0 - random.unit_f64()).ln() / shape;
    }
    let d = shape - 1.0 / 3.0;
    let mut normal = Normal { spare: None };
    loop {
        let x = normal.next(random);
        let v = (1.0 + x / (9.0 * d).sqrt()).powi(3);
        let u = 1.0 - random.unit_f64();
        if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return (d * v).ln();
        }
    }
}

/// The attributes `alpha` and `beta`, which must be positive.
fn two_shapes(attrs: &Attrs, beta: Option<f64>) -> Result<(f64, f64)> {
    let positive = |name: &str, default: Option<f64>| match attrs.f64(name)?.or(default) {
        Some(x) if x > 0.0 && x.is_finite() => Ok(x),
        Some(x) => Err(Error::usage(format!("{name} must be positive, but is {x}"))),
        None => Err(Error::usage(format!("{name} is missing"))),
    };
    Ok((positive("alpha", None)?, positive("beta", beta)?))
}

fn make_gamma(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, (alpha, beta)) = (float_dtype(attrs)?, two_shapes(attrs, Some(1.0))?);
    Fill::made(args, attrs, dtype, move |random, out| {
        numbers!(out.dtype(), T => all {
            out.items_mut::<T>().iter_mut().for_each(|x| *x = T::of_f64(ln_gamma(alpha, random).exp() / beta));
            Ok(())
        })
    })
}

fn make_beta(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, (alpha, beta)) = (float_dtype(attrs)?, two_shapes(attrs, None)?);
    Fill::made(args, attrs, dtype, move |random, out| {
        numbers!(out.dtype(), T => all {
            for x in out.items_mut::<T>() {
                let (a, b) = (ln_gamma(alpha, random), ln_gamma(beta, random));
                *x = T::of_f64(1.0 / (1.0 + (b - a).exp()));
            }
            Ok(())
        })
    })
}

fn make_integers(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let dtype = attrs.dtype("dtype")?.unwrap_or(DType::Int64);
    if !dtype.is_int() {
        return Err(Error::usage(format!("dtype must be an integer dtype, not {dtype}")));
    }
    let bound = |name: &str| -> Result<Option<i128>> {
        match attrs.get(name) {
            None => Ok(None),
            Some(v) => v
                .as_i64()
                .map(i128::from)
                .or(v.as_u64().map(i128::from))
                .map(Some)
                .ok_or_else(|| Error::usage(format!("{name} must be an integer, not {v}"))),
        }
    };
    let low = bound("minval")?.unwrap_or(0);
    let high = attrs.need("maxval", bound("maxval")?)?;
    let bits = 8 * dtype.size() as u32;
    let (least, most) = match dtype.is_signed() {
        true => (-1i128 << (bits - 1), 1i128 << (bits - 1)),
        false => (0, 1i128 << bits),
    };
    if low >= high {
        return Err(Error::usage(format!("minval must be less than maxval, but they are {low} and {high}")));
    }
    if low < least || high > most {
        return Err(Error::usage(format!("the range from {low} to {high} does not fit into {dtype}")));
    }
    // The whole range of 64 bits is the one span that does not fit into 64 bits.
    let span = u64::try_from(high - low).ok();
    Fill::made(args, attrs, dtype, move |random, out| {
        numbers!(out.dtype(), T => int {
            for x in out.items_mut::<T>() {
                let step = match span {
                    Some(span) => random.below(span),
                    None => random.next_u64(),
                };
                *x = (low + i128::from(step)) as T;
            }
            Ok(())
        })
    })
}

fn make_bernoulli(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let p = attrs.f64("p")?.unwrap_or(0.5);
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::usage(format!("p must lie between 0 and 1, but is {p}")));
    }
    Fill::made(args, attrs, DType::Bool, move |random, out| {
        out.items_mut::<B8>().iter_mut().for_each(|x| *x = B8::from(random.unit_f64() < p));
        Ok(())
    })
}

/// Numbers below `n` in random order.
fn permutation(n: usize, random: &mut Philox) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// A kernel of one tensor and random numbers.
struct ByRowRandom<F>(Source, F);

impl<F: Fn(&[Value], Philox) -> Result<Value> + Send + Sync> Kernel for ByRowRandom<F> {
    fn row(&self, args: &[Value], at: RowAt) -> Result<Value> {
        (self.1)(args, self.0.at(at))
    }
}

fn make_permutation(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let source = Source::of(attrs)?;
    let fixed = attrs.i64("n")?;
    let dims = match (fixed, args) {
        (Some(n), []) => Dims::of([usize::try_from(n).ok()]),
        (None, [_]) => {
            let (dtype, shape) = dense(args, 0)?;
            match shape.rank() {
                Some(0) => {
                    check_integers("n", dtype)?;
                    Dims::of([None])
                }
                Some(_) => Dims::of([shape.first()]),
                None => Dims::of([None]),
            }
        }
        _ => return Err(Error::usage("takes a number, a tensor, or n=…")),
    };
    if fixed.is_some_and(|n| n < 0) {
        return Err(Error::usage("n must not be negative"));
    }
    let kernel = ByRowRandom(source, move |args: &[Value], mut random: Philox| {
        let n = match (fixed, args) {
            (Some(n), _) => n,
            (_, [x]) if x.tensor().rank() > 0 => x.tensor().rows() as i64,
            (_, [x]) if x.tensor().dtype().is_int() => integers(x.tensor())?[0],
            _ => return Err(Error::data("n must be an integer")),
        };
        let n = usize::try_from(n).map_err(|_| Error::data(format!("n must not be negative, but is {n}")))?;
        let mut out = room(DType::Int64, &[n])?;
        let order = permutation(n, &mut random);
        out.items_mut::<i64>().iter_mut().zip(order).for_each(|(o, i)| *o = i as i64);
        Ok(Value::Tensor(out))
    });
    Made::new(Leaf::tensor(DType::Int64, dims), kernel)
}

fn make_shuffle(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    if shape.is_scalar() {
        return Err(Error::usage("a scalar has no rows to shuffle"));
    }
    let kernel = ByRowRandom(Source::of(attrs)?, |args: &[Value], mut random: Philox| {
        let t = args[0].tensor();
        if t.rank() == 0 {
            return Err(Error::data("a scalar has no rows to shuffle"));
        }
        let order = permutation(t.rows(), &mut random);
        Ok(Value::Tensor(take_axis(t, 0, &order)?))
    });
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::cast::cast;
    use super::super::testing::{attrs, call, refused};
    use super::*;
    use serde_json::json;

    fn draw(name: &str, a: serde_json::Value) -> Tensor {
        call(name, &[], a)
    }
    fn at(name: &str, a: serde_json::Value, epoch: u64, pos: u64) -> Tensor {
        let made = (super::super::find(name).unwrap().make)(&[], &attrs(a)).unwrap();
        made.kernel().row(&[], RowAt { epoch, pos }).unwrap().tensor().clone()
    }

    #[test]
    fn numbers_depend_on_place_only() {
        let a = |seed: u64, n: u64| json!({"shape": [4], "seed": seed, "use": n});
        let x = at("random.uniform", a(1, 0), 0, 0);
        assert_eq!(x, at("random.uniform", a(1, 0), 0, 0));
        for other in [
            at("random.uniform", a(2, 0), 0, 0),
            at("random.uniform", a(1, 1), 0, 0),
            at("random.uniform", a(1, 0), 1, 0),
            at("random.uniform", a(1, 0), 0, 1),
        ] {
            assert_ne!(x, other);
        }
    }

    #[test]
    fn a_pair_of_seeds_says_it_all() {
        let seed = |a: i64, b: i64| Tensor::from_items([2], &[a, b]);
        let draw = |s: Tensor| call("random.stateless_uniform", &[s], json!({"shape": [3], "maxval": 2.0}));
        assert_eq!(draw(seed(1, 2)), draw(seed(1, 2)));
        assert_ne!(draw(seed(1, 2)), draw(seed(2, 1)));
        assert!(draw(seed(1, 2)).items::<f32>().iter().all(|x| (0.0..2.0).contains(x)));
        let shape = Tensor::from_items([1], &[3i32]);
        let by_tensor = call("random.stateless_uniform", &[seed(1, 2), shape], json!({"maxval": 2.0}));
        assert_eq!(by_tensor, draw(seed(1, 2)));
        assert!(refused("random.stateless_uniform", &[Tensor::scalar(1i64)], json!({})).message().contains("pair"));
    }

    #[test]
    fn uniform_stays_inside() {
        let x = draw("random.uniform", json!({"shape": [1000], "minval": -2.0, "maxval": 3.0, "seed": 5}));
        assert!(x.items::<f32>().iter().all(|x| (-2.0..3.0).contains(x)));
        let mean: f32 = x.items::<f32>().iter().sum::<f32>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.2, "{mean}");
        for dtype in ["float16", "bfloat16", "float64"] {
            let x = draw("random.uniform", json!({"shape": [3000], "dtype": dtype}));
            let x = cast(x, DType::Float64).unwrap();
            assert!(x.items::<f64>().iter().all(|x| (0.0..1.0).contains(x)), "{dtype}");
        }
        assert!(refused("random.uniform", &[], json!({"minval": 2, "maxval": 1})).message().contains("less"));
        let by_tensor = call("random.uniform", &[Tensor::from_items([2], &[2i32, 3])], json!({}));
        assert_eq!(by_tensor.shape(), [2, 3]);
    }

    #[test]
    fn normal_has_its_moments() {
        let x = draw("random.normal", json!({"shape": [4001], "mean": 3.0, "stddev": 2.0, "dtype": "float64"}));
        let x = x.items::<f64>();
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        assert!((mean - 3.0).abs() < 0.15 && (var - 4.0).abs() < 0.4, "{mean} {var}");
        let t = draw("random.normal", json!({"shape": [1000], "truncated": true}));
        assert!(t.items::<f32>().iter().all(|x| x.abs() <= 2.0));
    }

    #[test]
    fn gamma_and_beta_have_their_moments() {
        let mean = |name: &str, alpha: f64, beta: f64| {
            let x = draw(name, json!({"shape": [6001], "alpha": alpha, "beta": beta, "dtype": "float64", "seed": 4}));
            assert!(x.items::<f64>().iter().all(|x| *x >= 0.0 && x.is_finite()));
            x.items::<f64>().iter().sum::<f64>() / 6001.0
        };
        for (alpha, beta) in [(0.2, 1.0), (1.0, 2.0), (4.5, 0.5)] {
            let (gamma, want) = (mean("random.gamma", alpha, beta), alpha / beta);
            assert!((gamma / want - 1.0).abs() < 0.12, "{alpha} {beta} {gamma}");
            let (ratio, want) = (mean("random.beta", alpha, beta), alpha / (alpha + beta));
            assert!((ratio - want).abs() < 0.03, "{alpha} {beta} {ratio}");
        }
        // So close to 0 that both of its parts vanish.
        let tiny = draw("random.beta", json!({"shape": [500], "alpha": 1e-4, "beta": 1e-4}));
        assert!(tiny.items::<f32>().iter().all(|x| (0.0..=1.0).contains(x)));
        assert!(refused("random.gamma", &[], json!({"alpha": 0})).message().contains("positive"));
        assert!(refused("random.beta", &[], json!({"alpha": 1})).message().contains("beta is missing"));
    }

    #[test]
    fn integers_cover_their_range() {
        let x = draw("random.integers", json!({"shape": [500], "minval": -2, "maxval": 3, "dtype": "int8"}));
        let mut seen: Vec<i8> = x.items::<i8>().to_vec();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, [-2, -1, 0, 1, 2]);
        draw("random.integers", json!({"shape": [2], "minval": i64::MIN, "maxval": i64::MAX}));
        draw("random.integers", json!({"shape": [2], "maxval": u64::MAX, "dtype": "uint64"}));
        assert!(refused("random.integers", &[], json!({"maxval": 300, "dtype": "uint8"})).message().contains("fit"));
        let coins = draw("random.bernoulli", json!({"shape": [1000], "p": 0.25}));
        let heads = coins.items::<B8>().iter().filter(|b| b.get()).count();
        assert!((180..320).contains(&heads), "{heads}");
    }

    #[test]
    fn orders_are_whole() {
        let p = draw("random.permutation", json!({"n": 50, "seed": 3}));
        let mut items = p.items::<i64>().to_vec();
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
        assert_eq!(call("random.permutation", &[Tensor::scalar(4i32)], json!({})).shape(), [4]);
        let rows = Tensor::from_items([3, 2], &[0i32, 0, 1, 1, 2, 2]);
        let s = call("random.shuffle", &[rows], json!({}));
        assert!(s.items::<i32>().chunks(2).all(|r| r[0] == r[1]));
        assert_eq!(s.items::<i32>().iter().sum::<i32>(), 6);
        assert_eq!(call("random.shuffle", &[Tensor::strings([0], &[""; 0])], json!({})).shape(), [0]);
    }
}
