//! How long functions take per item: `cargo bench -p feedline --bench functions`.

use feedline::element::{Column, Leaf, Pos, Spec, Tensor, Value};
use feedline::expr::{Builder, Graph, RowsAt};
use serde_json::{Value as Json, json};
use std::time::Instant;

/// A chain of calls: each takes the result of the one before (argument `None`) and constants.
type Step<'a> = (&'a str, Vec<Option<Tensor>>, Json);

fn graph(x: &Tensor, steps: &[Step<'_>]) -> Graph {
    let mut b = Builder::new(&Spec::leaf(Leaf::of_tensor(&x.row(0))));
    let mut at = 0;
    for (name, args, json) in steps {
        let args: Vec<_> =
            args.iter().map(|a| a.as_ref().map_or(at, |t| b.constant(Value::Tensor(t.clone())).unwrap())).collect();
        at = b.call(name, &args, serde_json::from_value(json.clone()).unwrap()).unwrap();
    }
    b.finish(&feedline::element::Tree::Leaf(at))
}

fn time(what: &str, x: Tensor, steps: &[Step<'_>]) {
    let graph = graph(&x, steps);
    let (rows, items) = (x.rows(), x.len().max(1));
    let column = [Column::Dense(x)];
    let pos = Pos::Run(0);
    let once = || graph.eval(&column, &[], rows, RowsAt { epoch: 0, pos: &pos }).unwrap();
    let mut best = f64::MAX;
    let begin = Instant::now();
    while begin.elapsed().as_millis() < 150 {
        let start = Instant::now();
        (0..4).for_each(|_| drop(std::hint::black_box(once())));
        best = best.min(start.elapsed().as_nanos() as f64 / 4.0);
    }
    println!("{what:36} {:9.3} ns/item {:12.1} us/chunk", best / items as f64, best / 1e3);
}

fn main() {
    let none = || json!({});
    let with = |t: Tensor| vec![None, Some(t)];
    let ints = Tensor::from_items([4096], &(0..4096i64).collect::<Vec<_>>());
    let bytes = Tensor::from_items([64, 28, 28], &vec![7u8; 64 * 784]);
    let floats = Tensor::from_items([64, 784], &(0..64 * 784).map(|i| i as f32).collect::<Vec<_>>());
    let image = Tensor::from_items([8, 224, 224, 3], &vec![7u8; 8 * 224 * 224 * 3]);
    let rgb = |x: f32| Tensor::from_items([3], &[x, x, x]);
    let words = Tensor::strings([4096], &(0..4096).map(|i| format!("word number {i}")).collect::<Vec<_>>());
    let two = Tensor::scalar(2i64);
    time(
        "x * 2 + 1, int64",
        ints.clone(),
        &[("multiply", with(two.clone()), none()), ("add", with(Tensor::scalar(1i64)), none())],
    );
    time("x * 2, int64", ints.clone(), &[("multiply", with(two.clone()), none())]);
    time("x % 2 == 0", ints.clone(), &[("mod", with(two), none()), ("equal", with(Tensor::scalar(0i64)), none())]);
    time("x % 7", ints.clone(), &[("mod", with(Tensor::scalar(7i64)), none())]);
    time("x < 100", ints.clone(), &[("less", with(Tensor::scalar(100i64)), none())]);
    time("cast uint8 to float32", bytes.clone(), &[("cast", vec![None], json!({"dtype": "float32"}))]);
    time("cast int64 to float32", ints.clone(), &[("cast", vec![None], json!({"dtype": "float32"}))]);
    time("cast float32 to uint8", floats.clone(), &[("cast", vec![None], json!({"dtype": "uint8"}))]);
    time("cast float32 to float16", floats.clone(), &[("cast", vec![None], json!({"dtype": "float16"}))]);
    time("x / 255, float32", floats.clone(), &[("truediv", with(Tensor::scalar(255f32)), none())]);
    time(
        "cast and / 255",
        bytes,
        &[("cast", vec![None], json!({"dtype": "float32"})), ("truediv", with(Tensor::scalar(255f32)), none())],
    );
    let f32s =
        |t: &Tensor| Tensor::from_items(t.shape(), &t.items::<u8>().iter().map(|&x| f32::from(x)).collect::<Vec<_>>());
    time(
        "image: cast, / 255, - mean, / std",
        image.clone(),
        &[
            ("cast", vec![None], json!({"dtype": "float32"})),
            ("truediv", with(Tensor::scalar(255f32)), none()),
            ("subtract", with(rgb(0.5)), none()),
            ("truediv", with(rgb(0.25)), none()),
        ],
    );
    time("image: - mean", f32s(&image), &[("subtract", with(rgb(0.5)), none())]);
    time("image: transpose to CHW", f32s(&image), &[("transpose", vec![None], json!({"perm": [2, 0, 1]}))]);
    time(
        "image: crop",
        image.clone(),
        &[("getitem", vec![None], json!({"spec": [{"s": [16, 208, 1]}, {"s": [16, 208, 1]}]}))],
    );
    time("image: flip", image.clone(), &[("reverse", vec![None], json!({"axis": [1]}))]);
    let number = |x: f32| with(Tensor::scalar(x));
    let middle = Tensor::from_items([4], &[16i32, 16, 192, 192]);
    time("image.crop", image.clone(), &[("image.crop", with(middle), json!({"size": [192, 192]}))]);
    time("image.flip_left_right", image.clone(), &[("image.flip_left_right", vec![None], none())]);
    time("image.rot90", image.clone(), &[("image.rot90", vec![None], json!({"k": 1}))]);
    for (what, x) in [("uint8", image.clone()), ("float32", f32s(&image))] {
        let how = json!({"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "scale": 1.0 / 255.0});
        let mut first = how.clone();
        first["channels_first"] = json!(true);
        let one = |name: &str, args: Vec<Option<Tensor>>, how: Json| {
            time(&format!("{name}, {what}"), x.clone(), &[(name, args, how)]);
        };
        one("image.normalize", vec![None], how);
        one("image.normalize", vec![None], first);
        one("image.adjust_brightness", number(0.1), none());
        one("image.adjust_contrast", number(0.9), none());
        one("image.adjust_saturation", number(0.9), none());
        one("image.adjust_hue", number(0.1), none());
        one("image.per_image_standardization", vec![None], none());
        one("image.rgb_to_grayscale", vec![None], none());
        one("image.gaussian_blur", vec![None], json!({"kernel_size": 5, "sigma": 1.0}));
        let to = if what == "uint8" { "float32" } else { "uint8" };
        one("image.convert_image_dtype", vec![None], json!({"dtype": to}));
    }
    time("reduce_sum, axis 0, float32", floats.clone(), &[("reduce_sum", vec![None], none())]);
    time("reduce_mean of images, axes 0 1", f32s(&image), &[("reduce_mean", vec![None], json!({"axis": [0, 1]}))]);
    time("reduce_max, int64 rows of 1", ints.clone(), &[("reduce_max", vec![None], none())]);
    time("exp, float32", floats.clone(), &[("exp", vec![None], none())]);
    time("sqrt, float32", floats.clone(), &[("sqrt", vec![None], none())]);
    time("floor, float32", floats.clone(), &[("floor", vec![None], none())]);
    time(
        "clip, float32",
        floats.clone(),
        &[("clip", vec![None, Some(Tensor::scalar(0f32)), Some(Tensor::scalar(9f32))], none())],
    );
    time("one_hot of 10", ints.clone(), &[("one_hot", vec![None], json!({"depth": 10}))]);
    time("reshape", floats.clone(), &[("reshape", vec![None], json!({"shape": [28, 28, 1]}))]);
    time(
        "random.uniform scalar + x",
        ints.clone(),
        &[("cast", vec![None], json!({"dtype": "float32"})), ("zeros_like", vec![None], none())],
    );
    time("strings.length", words.clone(), &[("strings.length", vec![None], none())]);
    time("strings.upper", words.clone(), &[("strings.upper", vec![None], none())]);
    time("strings.split", words.clone(), &[("strings.split", vec![None], none())]);
    time(
        "strings.to_hash_bucket_fast",
        words,
        &[("strings.to_hash_bucket_fast", vec![None], json!({"num_buckets": 1000}))],
    );
    time("strings.as_string, int64", ints, &[("strings.as_string", vec![None], none())]);
}
