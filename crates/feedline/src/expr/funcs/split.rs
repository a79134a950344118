//! Strings taken apart: one string gives a vector, a vector of strings gives rows of unequal length.

use super::super::{Arg, Attrs, ByRow, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use super::broadcast::room;
use super::lead::integers;
use super::strings::is_space;
use crate::element::{Column, DType, Dims, Leaf, Ragged, Shape, StringsBuilder, Tensor, Value, Values};
use crate::error::{Error, Result};
use feedline_io::Counted;
use std::marker::PhantomData;
use std::sync::Arc;

pub static FUNCS: &[Func] = &[
    Func {
        name: "strings.split",
        doc: "The parts between separators; without one, the words between white space.",
        make: make_split,
        pure: true,
    },
    Func {
        name: "strings.bytes_split",
        doc: "The bytes, each as a string.",
        make: |args, _| explode(args, Strings, |s, out| s.iter().for_each(|b| out.push(&[*b]))),
        pure: true,
    },
    Func {
        name: "strings.unicode_split",
        doc: "The characters, each as a string; bytes that are not UTF-8 become U+FFFD.",
        make: |args, _| {
            explode(args, Strings, |s, out| {
                let mut buf = [0; 4];
                String::from_utf8_lossy(s).chars().for_each(|c| out.push(c.encode_utf8(&mut buf).as_bytes()));
            })
        },
        pure: true,
    },
    Func {
        name: "strings.unicode_decode",
        doc: "The code points, as int32; bytes that are not UTF-8 become U+FFFD.",
        make: |args, _| explode(args, Codes, |s, out| out.extend(String::from_utf8_lossy(s).chars().map(|c| c as i32))),
        pure: true,
    },
    Func {
        name: "strings.unicode_encode",
        doc: "Code points along the last axis as one string; what is none becomes U+FFFD.",
        make: make_encode,
        pure: true,
    },
    Func {
        name: "strings.ngrams",
        doc: "All runs of `width` neighbours in a vector of strings, joined by a separator.",
        make: make_ngrams,
        pure: true,
    },
];

/// What parts are collected in.
trait Parts: Copy + Send + Sync + 'static {
    const DTYPE: DType;
    type Out: Default;
    fn len(out: &Self::Out) -> usize;
    fn tensor(out: Self::Out) -> Tensor;
}
#[derive(Clone, Copy)]
struct Strings;
impl Parts for Strings {
    const DTYPE: DType = DType::String;
    type Out = StringsBuilder;
    fn len(out: &StringsBuilder) -> usize {
        out.len()
    }
    fn tensor(out: StringsBuilder) -> Tensor {
        let n = out.len();
        out.tensor([n])
    }
}
#[derive(Clone, Copy)]
struct Codes;
impl Parts for Codes {
    const DTYPE: DType = DType::Int32;
    type Out = Counted<i32>;
    fn len(out: &Counted<i32>) -> usize {
        out.len()
    }
    fn tensor(out: Counted<i32>) -> Tensor {
        Tensor::from_items([out.len()], &out)
    }
}

/// One string to a vector. The parts of all rows of a chunk lie in one list, of which each row is a piece.
struct Explode<P, F> {
    f: F,
    parts: PhantomData<P>,
}

impl<P: Parts, F: Fn(&[u8], &mut P::Out) + Send + Sync> Kernel for Explode<P, F> {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let mut out = P::Out::default();
        (self.f)(args[0].tensor().str_at(0), &mut out);
        Ok(Value::Tensor(P::tensor(out)))
    }
    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let [Arg::Rows(Column::Dense(t))] = &*args else { return Ok(None) };
        let mut out = P::Out::default();
        let mut ends = Vec::with_capacity(rows);
        for s in t.strs() {
            (self.f)(s, &mut out);
            ends.push(P::len(&out));
        }
        let all = P::tensor(out);
        let each = ends.first().copied().unwrap_or(0);
        if ends.iter().enumerate().all(|(i, end)| *end == (i + 1) * each) && rows > 0 {
            return Ok(Some(Column::Dense(all.into_reshaped([rows, each]))));
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let values: Values = starts.zip(&ends).map(|(a, b)| Value::Tensor(all.slice(a..*b))).collect();
        Ok(Some(Column::Rows(values, 0..rows)))
    }
}

fn explode<P: Parts>(args: &[Leaf], _: P, f: impl Fn(&[u8], &mut P::Out) + Send + Sync + 'static) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    if dtype != DType::String {
        return Err(Error::usage(format!("expects strings, not {dtype}")));
    }
    match shape.dims() {
        Some([]) => Made::new(Leaf::tensor(P::DTYPE, Dims::of([None])), Explode { f, parts: PhantomData::<P> }),
        Some([n]) => Made::new(
            Leaf::Ragged { dtype: P::DTYPE, shape: Dims::of([*n, None]), ragged_rank: 1, splits: DType::Int64 },
            ByRow(move |args: &[Value]| {
                let mut out = P::Out::default();
                let mut splits = vec![0];
                for s in args[0].tensor().strs() {
                    f(s, &mut out);
                    splits.push(P::len(&out) as i64);
                }
                Ok(Value::Ragged(Arc::new(Ragged {
                    values: P::tensor(out),
                    splits: vec![splits.into()],
                    splits_dtype: DType::Int64,
                })))
            }),
        ),
        Some(_) => Err(Error::usage(format!("expects a string or a vector of strings, not shape {shape}; reshape it"))),
        None => Err(Error::usage("the rank must be known here; say it with ensure_shape")),
    }
}

fn make_split(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let sep = attrs.str("sep")?.unwrap_or("").as_bytes().to_vec();
    // How many cuts may be made; all of them by default.
    let most = match attrs.i64("maxsplit")?.unwrap_or(-1) {
        n if n < 0 => usize::MAX,
        n => n as usize,
    };
    explode(args, Strings, move |s, out| match sep.is_empty() {
        true => words(s, most, out),
        false => pieces(s, &sep, most, out),
    })
}

fn words(mut s: &[u8], most: usize, out: &mut StringsBuilder) {
    let mut cuts = 0;
    loop {
        let skip = s.iter().take_while(|b| is_space(**b)).count();
        s = &s[skip..];
        if s.is_empty() {
            return;
        }
        let len = s.iter().take_while(|b| !is_space(**b)).count();
        if cuts == most {
            return out.push(s);
        }
        out.push(&s[..len]);
        s = &s[len..];
        cuts += 1;
    }
}

fn pieces(mut s: &[u8], sep: &[u8], most: usize, out: &mut StringsBuilder) {
    for _ in 0..most {
        let Some(at) = s.windows(sep.len()).position(|w| w == sep) else { break };
        out.push(&s[..at]);
        s = &s[at + sep.len()..];
    }
    out.push(s);
}

fn make_encode(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    super::lead::check_integers("code points", dtype)?;
    if shape.is_scalar() {
        return Err(Error::usage("expects code points along a last axis, not a scalar"));
    }
    let dims = Dims(shape.dims().map(|d| d[..d.len() - 1].to_vec()));
    let kernel = super::lead::Lead::new(|args: &[Tensor], lead: usize| {
        let t = &args[0];
        let Some((&n, outer)) = t.shape()[lead..].split_last() else {
            return Err(Error::data("expects code points along a last axis, not a scalar"));
        };
        let codes = integers(t)?;
        let mut shape: Shape = t.shape()[..lead].into();
        shape.extend_from_slice(outer);
        let count: usize = shape.iter().product();
        let mut out = StringsBuilder::with_capacity(count);
        for k in 0..count {
            let char_of = |c: &i64| u32::try_from(*c).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
            let text: String = codes[k * n..(k + 1) * n].iter().map(char_of).collect();
            out.push(text.as_bytes());
        }
        Ok(out.tensor(shape))
    });
    Made::new(Leaf::tensor(DType::String, dims), kernel)
}

fn make_ngrams(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    if dtype != DType::String || shape.rank().is_some_and(|r| r != 1) {
        return Err(Error::usage(format!("expects a vector of strings, not {}", args[0])));
    }
    let width = attrs.need("width", attrs.i64("width")?)?;
    let width = usize::try_from(width).ok().filter(|w| *w > 0);
    let width = width.ok_or_else(|| Error::usage("width must be positive"))?;
    let separator = attrs.str("separator")?.unwrap_or(" ").as_bytes().to_vec();
    let dims = Dims::of([shape.first().map(|n| (n + 1).saturating_sub(width))]);
    let kernel = ByRow(move |args: &[Value]| {
        let t = args[0].tensor();
        if t.rank() != 1 {
            return Err(Error::data(format!("expects a vector, not shape {:?}", t.shape())));
        }
        let n = (t.len() + 1).saturating_sub(width);
        room(DType::Uint8, &[n])?;
        let mut out = StringsBuilder::with_capacity(n);
        let mut text = Vec::new();
        for i in 0..n {
            text.clear();
            for k in i..i + width {
                if k > i {
                    text.extend_from_slice(&separator);
                }
                text.extend_from_slice(t.str_at(k));
            }
            out.push(&text);
        }
        Ok(Value::Tensor(out.tensor([n])))
    });
    Made::new(Leaf::tensor(DType::String, dims), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, call_value, refused};
    use super::*;
    use serde_json::json;

    fn split(text: &str, a: serde_json::Value) -> Vec<String> {
        let t = call("strings.split", &[Tensor::string(text.as_bytes())], a);
        t.strs().map(|s| String::from_utf8(s.to_vec()).unwrap()).collect()
    }

    #[test]
    fn splits_like_python() {
        assert_eq!(split(" a  b\tc ", json!({})), ["a", "b", "c"]);
        assert_eq!(split("a b  c ", json!({"maxsplit": 1})), ["a", "b  c "]);
        assert_eq!(split("a,,b", json!({"sep": ","})), ["a", "", "b"]);
        assert_eq!(split("a,b,c", json!({"sep": ",", "maxsplit": 1})), ["a", "b,c"]);
        assert_eq!(split("", json!({})), [""; 0]);
        assert_eq!(split("", json!({"sep": ","})), [""]);
        assert_eq!(split("a--b", json!({"sep": "--"})), ["a", "b"]);
        let v = Value::Tensor(Tensor::strings([3], &["a b", "", "c"]));
        let Value::Ragged(r) = call_value("strings.split", &[v], json!({})) else { panic!("not ragged") };
        assert_eq!(&*r.splits[0], [0, 2, 2, 3]);
        assert_eq!(r.values, Tensor::strings([3], &["a", "b", "c"]));
        let m = Tensor::strings([1, 1], &["a"]);
        assert!(refused("strings.split", &[m], json!({})).message().contains("reshape"));
    }

    #[test]
    fn characters() {
        let x = Tensor::string("né".as_bytes());
        assert_eq!(call("strings.bytes_split", &[x.clone()], json!({})).len(), 3);
        assert_eq!(call("strings.unicode_split", &[x.clone()], json!({})), Tensor::strings([2], &["n", "é"]));
        let codes = call("strings.unicode_decode", &[x.clone()], json!({}));
        assert_eq!(codes.items::<i32>(), ['n' as i32, 'é' as i32]);
        assert_eq!(call("strings.unicode_encode", &[codes], json!({})), x);
        assert_eq!(call("strings.unicode_decode", &[Tensor::string(&[0xff])], json!({})).items::<i32>(), [0xfffd]);
    }

    #[test]
    fn neighbours() {
        let x = Tensor::strings([3], &["a", "b", "c"]);
        assert_eq!(call("strings.ngrams", &[x.clone()], json!({"width": 2})), Tensor::strings([2], &["a b", "b c"]));
        assert_eq!(call("strings.ngrams", &[x], json!({"width": 4})).shape(), [0]);
    }
}
