//! What holds for every function of the table, tried with arguments and attributes at random: nothing panics, results keep
//! the promised type, and whole chunks give what single rows give.

use super::super::{Arg, Attrs, Func, RowAt, RowsAt, Work, run, run_several};
use super::all;
use super::philox::Philox;
use super::testing::exactly;
use crate::element::{Column, DType, Dims, Leaf, Pos, Ragged, Sparse, Tensor, Value};
use serde_json::{Value as Json, json};
use std::sync::Arc;

struct Dice(Philox);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }
    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
    fn shape(&mut self) -> Vec<usize> {
        let rank = self.pick(&[0, 0, 1, 1, 1, 2, 2, 3]);
        (0..rank).map(|_| self.pick(&[0, 1, 1, 2, 2, 3, 3, 4])).collect()
    }
    /// Of a picture, or of a batch of them.
    fn picture(&mut self) -> Vec<usize> {
        let mut shape = vec![self.below(5) + 1, self.below(5) + 1, self.pick(&[1, 1, 2, 3, 3, 3, 4])];
        if self.below(3) == 0 {
            shape.insert(0, self.below(3));
        }
        shape
    }
    fn tensor(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let n = shape.iter().product();
        if dtype == DType::String {
            // The last one is an Example, and a SequenceExample of no lists: `a` is [1, 2], `d` is [1].
            let example = "\x0a\x19\x0a\x0b\x0a\x01a\x12\x06\x1a\x04\x0a\x02\x01\x02\x0a\x0a\x0a\x01d\x12\x05\x1a\x03\x0a\x01\x01";
            let words = ["", "a", "b", "a b", " 12", "-3.5", "x,y,,z", "né", "\u{1f600}!", "1", "2", example];
            let items: Vec<&str> = (0..n).map(|_| self.pick(&words)).collect();
            return Tensor::strings(shape, &items);
        }
        let small = self.below(4) > 0;
        let items: Vec<f64> = (0..n)
            .map(|_| match small {
                true => self.pick(&[0.0, 1.0, 2.0, 1.0, 2.0, 3.0, -1.0, 0.5]),
                false => self.pick(&[0.0, -0.0, 40.0, -1e19, 1e19, f64::NAN, f64::INFINITY, -2.5, 3e-30, 25.0, -12.0]),
            })
            // The ends of the smaller integers are sizes that a large machine might even serve.
            .map(|x: f64| if dtype.is_int() && dtype.size() < 8 { x.clamp(-40.0, 40.0) } else { x })
            .collect();
        super::cast::cast(Tensor::from_items(shape, &items), dtype).unwrap()
    }
    fn dtype(&mut self) -> DType {
        use DType::*;
        let common = [Int32, Int64, Float32, Bool, String, Uint8];
        if self.below(3) > 0 { self.pick(&common) } else { self.pick(&DType::ALL) }
    }
    fn value(&mut self, dtype: DType, shape: &[usize], kind: usize) -> Value {
        match kind {
            0 => {
                let lengths: Vec<i64> =
                    (0..shape.first().copied().unwrap_or(2)).map(|_| self.below(4) as i64).collect();
                let mut splits = vec![0];
                lengths.iter().for_each(|n| splits.push(splits.last().unwrap() + n));
                let mut inner = vec![*splits.last().unwrap() as usize];
                inner.extend(shape.iter().skip(1));
                let values = self.tensor(dtype, &inner);
                Value::Ragged(Arc::new(Ragged { values, splits: vec![splits.into()], splits_dtype: DType::Int64 }))
            }
            1 => {
                let n = self.below(3);
                let index: Vec<i64> = (0..n * shape.len()).map(|_| self.below(5) as i64 - 1).collect();
                Value::Sparse(Arc::new(Sparse {
                    indices: Tensor::from_items([n, shape.len()], &index),
                    values: self.tensor(dtype, &[n]),
                    shape: shape.iter().map(|d| *d as i64).collect(),
                }))
            }
            _ => Value::Tensor(self.tensor(dtype, shape)),
        }
    }
    fn int(&mut self) -> i64 {
        self.pick(&[-3, -2, -1, -1, 0, 0, 1, 1, 2, 3, 4, 7, i64::MAX, i64::MIN])
    }
    fn ints(&mut self) -> Json {
        let n = self.below(4);
        match self.below(3) {
            0 => json!(self.int()),
            1 => json!((0..n).map(|_| self.int()).collect::<Vec<_>>()),
            _ => json!((0..n).map(|_| self.pick(&[-1, 0, 1, 2, 3])).collect::<Vec<_>>()),
        }
    }
    fn attr(&mut self, name: &str) -> Json {
        match name {
            "dtype" | "out_type" | "output_type" => json!(self.dtype().name()),
            "keepdims" | "exclusive" | "reverse" | "truncated" | "transpose_a" | "transpose_b" | "scientific"
            | "shortest" | "replace_global" => json!(self.below(2) == 1),
            "separator" | "sep" => json!(self.pick(&["", " ", ",", "ab"])),
            "unit" => json!(self.pick(&["BYTE", "UTF8_CHAR", "x"])),
            "encoding" => json!(self.pick(&["", "utf-8"])),
            "mode" => json!(self.pick(&["CONSTANT", "REFLECT", "SYMMETRIC"])),
            "direction" => json!(self.pick(&["ASCENDING", "DESCENDING"])),
            "side" => json!(self.pick(&["left", "right"])),
            "pattern" => json!(self.pick(&["a", "(\\w)(.)?", "", "[0-9]+", "("])),
            "rewrite" => json!(self.pick(&["", "<\\0>", "\\1", "\\\\", "\\"])),
            "fill" => json!(self.pick(&["", "0", "-", "+", " "])),
            "alpha" | "beta" => json!(self.pick(&[0.0, 0.25, 1.0, 3.5])),
            "mean" | "std" | "scale" | "ratio" | "sigma" | "value" | "area_range" if self.below(4) > 0 => {
                let n = self.below(3) + 1;
                json!((0..n).map(|i| 0.25 * (i + 1) as f64).collect::<Vec<_>>())
            }
            "minval" | "maxval" | "mean" | "stddev" | "p" | "on_value" | "off_value" | "constant_value" | "default" => {
                match self.below(4) {
                    0 => json!(self.int()),
                    1 => json!(self.pick(&["", "nan", "-inf", "x"])),
                    _ => json!(self.pick(&[0.0, 1.0, 0.25, -2.5, 3.0])),
                }
            }
            "steps" => {
                let step = |func: &str| json!({"func": func, "attrs": {}, "args": []});
                let next = self.pick(&["image.flip_left_right", "image.transpose", "image.rgb_to_grayscale"]);
                json!([step("image.decode"), step(next)])
            }
            "size" | "kernel_size" if self.below(4) > 0 => json!([self.below(4) + 1, self.below(4) + 1]),
            "channels_first" | "saturate" | "use_image_if_no_bounding_boxes" => json!(self.below(2) == 1),
            "num" | "index" | "width" | "depth" | "num_buckets" if self.below(8) > 0 => json!(self.below(4)),
            "columns" => {
                let column = |d: &mut Dice| match d.below(3) {
                    0 => json!({"dtype": d.pick(&["string", "float32"])}),
                    1 => json!({"dtype": "string", "default": "x"}),
                    _ => json!({"dtype": d.pick(&["int32", "float64", "int64"]), "default": 7}),
                };
                json!((0..self.below(2) + 1).map(|_| column(self)).collect::<Vec<_>>())
            }
            "paddings" => {
                let n = self.below(4);
                json!((0..n).map(|_| [self.below(3), self.below(3)]).collect::<Vec<_>>())
            }
            "compression_type" => json!(self.pick(&["", "GZIP", "ZLIB", "ZSTD", "x"])),
            "features" | "lists" => {
                let features = [
                    json!({"name": "a", "kind": "fixed", "dtype": "int64", "shape": [2]}),
                    json!({"name": "b", "kind": "fixed", "dtype": "float32", "shape": [], "default": 1}),
                    json!({"name": "c", "kind": "sequence", "dtype": "string", "shape": [], "allow_missing": true}),
                    json!({"name": "d", "kind": "varlen", "dtype": "int64"}),
                    json!({"name": "e", "kind": "ragged", "dtype": "int64", "value": "a", "splits": "int32",
                           "partitions": [{"row_lengths": "d"}, {"uniform": 2}]}),
                    json!({"name": "f", "kind": "sparse", "dtype": "float32", "value": "b", "index": ["d"], "size": [3]}),
                ];
                json!(features.into_iter().filter(|_| self.below(3) == 0).collect::<Vec<_>>())
            }
            "spec" => {
                let n = self.below(4);
                json!(
                    (0..n)
                        .map(|_| match self.below(5) {
                            0 => json!("new"),
                            1 => json!("ellipsis"),
                            2 => json!({"i": self.pick(&[-2, -1, 0, 1, 5])}),
                            _ => {
                                let end = |d: &mut Dice| if d.below(2) == 0 { json!(null) } else { json!(d.int()) };
                                json!({"s": [end(self), end(self), self.pick(&[1, 1, -1, 2, -2, i64::MIN])]})
                            }
                        })
                        .collect::<Vec<_>>()
                )
            }
            _ => self.ints(),
        }
    }
}

/// Attributes that some function reads. Each call gets a few of them.
const ATTRS: &[&str] = &[
    "area_range",
    "axis",
    "axis",
    "batch_dims",
    "channels_first",
    "compression_type",
    "constant_value",
    "default",
    "depth",
    "direction",
    "dtype",
    "dtype",
    "encoding",
    "exclusive",
    "fill",
    "index",
    "k",
    "keepdims",
    "kernel_size",
    "maxsplit",
    "maxval",
    "mean",
    "minval",
    "mode",
    "multiples",
    "n",
    "num",
    "num_buckets",
    "num_columns",
    "num_rows",
    "off_value",
    "on_value",
    "out_type",
    "output_type",
    "p",
    "paddings",
    "pattern",
    "perm",
    "precision",
    "ratio",
    "repeats",
    "replace_global",
    "reverse",
    "rewrite",
    "saturate",
    "scale",
    "scientific",
    "sep",
    "separator",
    "shape",
    "shift",
    "shortest",
    "side",
    "sigma",
    "size",
    "spec",
    "std",
    "stddev",
    "transpose_a",
    "transpose_b",
    "truncated",
    "unit",
    "use_image_if_no_bounding_boxes",
    "value",
    "width",
];
/// Without these a function refuses: they are mostly given.
const NEEDED: &[(&str, &[&str])] = &[
    ("cast", &["dtype"]),
    ("saturate_cast", &["dtype"]),
    ("bitcast", &["dtype"]),
    ("getitem", &["spec"]),
    ("expand_dims", &["axis"]),
    ("split_at", &["num", "index"]),
    ("roll", &["shift"]),
    ("one_hot", &["depth"]),
    ("linspace", &["num"]),
    ("eye", &["num_rows"]),
    ("pad", &["paddings"]),
    ("strings.regex_replace", &["pattern", "rewrite"]),
    ("strings.regex_full_match", &["pattern"]),
    ("strings.to_hash_bucket_fast", &["num_buckets"]),
    ("strings.ngrams", &["width"]),
    ("random.integers", &["maxval"]),
    ("random.gamma", &["alpha"]),
    ("random.beta", &["alpha", "beta"]),
    ("io.decode_raw", &["out_type"]),
    ("io.parse_tensor", &["out_type"]),
    ("io.parse_example", &["features"]),
    ("io.parse_single_example", &["features"]),
    ("io.parse_sequence_example", &["features", "lists"]),
    ("io.parse_single_sequence_example", &["features", "lists"]),
    ("io.decode_csv", &["columns"]),
    ("image.chain", &["steps"]),
    ("image.convert_image_dtype", &["dtype"]),
    ("image.crop_and_resize", &["size"]),
    ("image.gaussian_blur", &["kernel_size"]),
    ("image.normalize", &["mean", "std"]),
    ("image.random_crop_box", &["size"]),
    ("image.random_erasing", &["value"]),
    ("image.resize_with_pad", &["size"]),
];

/// What an argument should look like, where arguments at random would hardly ever be taken.
#[derive(Clone, Copy)]
enum Hint {
    Text,
    Picture,
    Batch,
    Number,
    Truth,
    /// [y, x, height, width]
    Box,
    /// [height, width, channels]
    Sides,
    Seed,
    /// Parts of a picture: [y_min, x_min, y_max, x_max].
    Objects,
    /// Two of them.
    Parts,
    /// 2 x 3
    Matrix,
}
use Hint::*;

/// The arguments that a function mostly gets; some of the last ones are left out now and then.
const HINTS: &[(&str, &[Hint])] = &[
    ("image.adjust_brightness", &[Picture, Number]),
    ("image.adjust_contrast", &[Picture, Number]),
    ("image.adjust_gamma", &[Picture, Number, Number]),
    ("image.adjust_hue", &[Picture, Number]),
    ("image.adjust_saturation", &[Picture, Number]),
    ("image.affine_transform", &[Picture, Matrix]),
    ("image.augment", &[Picture, Truth, Number]),
    ("image.blend_batch", &[Batch, Number]),
    ("image.chain", &[Text]),
    ("image.convert_image_dtype", &[Picture]),
    ("image.crop", &[Picture, Box]),
    ("image.crop_and_resize", &[Batch, Parts, Seed]),
    ("image.decode", &[Text]),
    ("image.decode_and_crop_jpeg", &[Text, Box]),
    ("image.flip_left_right", &[Picture, Truth]),
    ("image.flip_up_down", &[Picture, Truth]),
    ("image.gaussian_blur", &[Picture, Number]),
    ("image.grayscale_to_rgb", &[Picture]),
    ("image.hsv_to_rgb", &[Picture]),
    ("image.normalize", &[Picture]),
    ("image.pad_to_bounding_box", &[Picture, Box]),
    ("image.paste_batch", &[Batch, Box]),
    ("image.per_image_standardization", &[Picture]),
    ("image.random_crop_box", &[Sides, Seed]),
    ("image.random_crop_offset", &[Sides, Seed]),
    ("image.random_erasing", &[Picture]),
    ("image.random_resized_crop_box", &[Sides, Seed]),
    ("image.resize", &[Picture, Seed]),
    ("image.resize_with_crop_or_pad", &[Picture, Seed]),
    ("image.resize_with_pad", &[Picture]),
    ("image.rgb_to_grayscale", &[Picture]),
    ("image.rgb_to_hsv", &[Picture]),
    ("image.rgb_to_yiq", &[Picture]),
    ("image.rgb_to_yuv", &[Picture]),
    ("image.rot90", &[Picture, Truth]),
    ("image.sample_distorted_bounding_box", &[Sides, Objects, Seed]),
    ("image.transpose", &[Picture]),
    ("image.yiq_to_rgb", &[Picture]),
    ("image.yuv_to_rgb", &[Picture]),
    ("random.stateless_uniform", &[Seed]),
];

impl Dice {
    /// The dtype of an argument, and its shape.
    fn like(&mut self, hint: Hint) -> (DType, Vec<usize>) {
        use DType::*;
        match hint {
            Picture if self.below(4) > 0 => (self.pick(&[Uint8, Float32]), self.picture()),
            Picture => (self.dtype(), self.picture()),
            Text => (String, vec![]),
            Batch => (self.pick(&[Uint8, Float32]), vec![2, self.below(3) + 1, self.below(3) + 1, 2]),
            Parts => (Float32, vec![2, 4]),
            Matrix => (self.pick(&[Float32, Float64, Int32]), vec![2, 3]),
            Number => (self.pick(&[Float32, Float32, Float64, Int32]), vec![]),
            Truth => (self.pick(&[Bool, Int32]), vec![]),
            Box => (self.pick(&[Int32, Int64]), vec![4]),
            Sides => (self.pick(&[Int32, Int64]), vec![3]),
            Seed => (self.pick(&[Int32, Int64]), vec![2]),
            Objects => (Float32, vec![1, self.below(3), 4]),
        }
    }
    fn hinted(&mut self, hint: Hint, dtype: DType, shape: &[usize]) -> Value {
        let n: usize = shape.iter().product();
        let items: Vec<f64> = match hint {
            Box => (0..n).map(|i| self.below(3) as f64 + if i > 1 { 1.0 } else { 0.0 }).collect(),
            Sides => (0..n).map(|_| self.below(9) as f64).collect(),
            Seed => (0..n).map(|_| self.below(5) as f64).collect(),
            Objects | Parts => (0..n).map(|i| 0.125 * (self.below(4) + if i % 4 > 1 { 4 } else { 0 }) as f64).collect(),
            Text | Picture | Batch | Number | Truth | Matrix => return Value::Tensor(self.tensor(dtype, shape)),
        };
        Value::Tensor(super::cast::cast(Tensor::from_items(shape, &items), dtype).unwrap())
    }
}

/// One call at random; true if the function took it.
fn try_one(func: &Func, dice: &mut Dice) -> bool {
    let args = dice.pick(&[1, 1, 1, 2, 2, 2, 3, 3, 0, 4]);
    let mut attrs = Attrs::default();
    for (name, _) in NEEDED.iter().filter(|n| n.0 == func.name).flat_map(|n| n.1).map(|n| (*n, ())) {
        attrs.0.insert(name.into(), dice.attr(name));
    }
    for _ in 0..dice.below(4) {
        let name = dice.pick(ATTRS);
        attrs.0.insert(name.into(), dice.attr(name));
    }
    let rows = dice.pick(&[0, 1, 2, 3]);
    // Dtypes mostly agree, and shapes often do.
    let (first, shape) = (dice.dtype(), dice.shape());
    let mut hints = HINTS.iter().filter(|h| h.0 == func.name).map(|h| h.1);
    let (hints, args) = match hints.next() {
        Some(hints) if dice.below(8) > 0 => (hints, hints.len() - dice.below(hints.len())),
        _ => (&[][..], args),
    };
    let mut leaves = Vec::new();
    let mut columns = Vec::new();
    for i in 0..args {
        let hint = hints.get(i).copied();
        let text = ["strings.", "io."].iter().any(|room| func.name.starts_with(room));
        let text = text && leaves.is_empty() && dice.below(4) > 0;
        let dtype = if text { DType::String } else { if dice.below(2) == 0 { first } else { dice.dtype() } };
        let kind = if func.name.starts_with("ragged.") || func.name.starts_with("sparse.") { dice.below(3) } else { 9 };
        let own = if dice.below(2) == 0 { shape.clone() } else { dice.shape() };
        let (dtype, own) = hint.map_or((dtype, own), |hint| dice.like(hint));
        let mut values: Vec<Value> = Vec::new();
        let vary = dice.below(4) == 0;
        for _ in 0..rows.max(1) {
            let shape = if vary && dice.below(2) == 0 { dice.shape() } else { own.clone() };
            let shape = if kind < 2 || (hint.is_some() && dice.below(4) > 0) { own.clone() } else { shape };
            values.push(match hint.filter(|_| shape == own) {
                Some(hint) => dice.hinted(hint, dtype, &shape),
                None => dice.value(dtype, &shape, kind),
            });
        }
        let exact = values.iter().map(|v| Leaf::of(v).unwrap()).reduce(|a, b| a.join(&b).unwrap()).unwrap();
        leaves.push(match (dice.below(3), exact) {
            (0, Leaf::Tensor { dtype, .. }) => Leaf::tensor(dtype, Dims::unknown()),
            (1, Leaf::Tensor { dtype, shape: Dims(Some(d)) }) => {
                Leaf::tensor(dtype, Dims::of(d.into_iter().map(|d| if dice.below(2) == 0 { d } else { None })))
            }
            (_, exact) => exact,
        });
        columns.push(match dice.below(3) {
            0 => Arg::Same(values[0].clone()),
            _ => Arg::Rows(Column::from_values(values[..rows].to_vec())),
        });
    }
    let Ok(made) = (func.make)(&leaves, &attrs) else { return false };
    let about = || format!("{}{} with {columns:?} of {leaves:?}", func.name, json!(attrs.0));
    let pos = Pos::Run(7);
    let want: Vec<_> = (0..rows)
        .map(|row| {
            let values: Vec<Value> = columns.iter().map(|c| c.get(row)).collect();
            made.work.row(&values, RowAt { epoch: 1, pos: pos.at(row) })
        })
        .collect();
    let hold = (dice.below(2) == 0).then(|| columns.clone());
    let own: Vec<Arg> = columns
        .iter()
        .map(|c| match c {
            // Memory of its own, so that it may be written over.
            Arg::Rows(Column::Dense(t)) if hold.is_none() => {
                Arg::Rows(Column::Dense(Tensor::join(t.dtype(), t.shape(), [t].into_iter())))
            }
            c => c.clone(),
        })
        .collect();
    let at = RowsAt { epoch: 1, pos: &pos };
    let got = match &made.work {
        Work::One(kernel) => run(&**kernel, own, rows, at, None).map(|column| vec![column]),
        Work::Several(specs, kernel) => run_several(&**kernel, own, specs.len(), rows, at),
    };
    match (got, want.iter().find_map(|w| w.as_ref().err())) {
        (Ok(got), None) => {
            for (k, (got, spec)) in got.iter().zip(made.specs()).enumerate() {
                assert_eq!(got.rows(), rows, "{}", about());
                for (row, want) in want.iter().enumerate() {
                    let want = &want.as_ref().unwrap()[k];
                    assert!(spec.accepts(want), "{} gives {want:?}, not {spec}", about());
                    assert_eq!(exactly(&got.get(row)), exactly(want), "{}", about());
                }
            }
        }
        (Err(got), Some(_)) => assert_ne!(got.kind(), crate::Kind::Internal, "{}: {got}", about()),
        (Ok(_), Some(e)) => panic!("{}: a row fails ({e}), all rows do not", about()),
        (Err(e), None) => panic!("{}: all rows fail ({e}), none does alone", about()),
    }
    true
}

#[test]
fn rows_agree_with_row_and_nothing_panics() {
    let setting = |name: &str| std::env::var(name).ok();
    let tries: usize = setting("LAW_TRIES").and_then(|n| n.parse().ok()).unwrap_or(400);
    let only = setting("LAW_FUNC");
    let mut wrong = Vec::new();
    for (k, func) in all().enumerate().filter(|(_, f)| only.as_deref().is_none_or(|n| n == f.name)) {
        let mut taken = 0;
        for i in 0..tries {
            let mut dice = Dice(Philox::new(k as u64, i as u64));
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| try_one(func, &mut dice))) {
                Ok(called) => taken += usize::from(called),
                Err(_) => {
                    wrong.push(format!("{} at try {i}", func.name));
                    break;
                }
            }
        }
        if taken < tries / 200 && wrong.last().is_none_or(|w| !w.starts_with(func.name)) {
            wrong.push(format!("{} was called {taken} times only", func.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_are_distinct_and_described() {
    let mut names: Vec<&str> = all().map(|f| f.name).collect();
    names.sort();
    let n = names.len();
    names.dedup();
    assert_eq!(names.len(), n);
    let bare: Vec<&str> = all().filter(|f| !f.doc.ends_with('.') || f.doc.len() < 8).map(|f| f.name).collect();
    assert!(bare.is_empty(), "{bare:?}");
}
