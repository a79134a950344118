//! JPEG to batch: what the kernels do alone in a loop on some threads, and what a pipeline makes of them. Pictures are
//! those of the benchmark, if they were made, else noise. `cargo bench -p feedline --features turbo --bench pictures`

use feedline::element::{DType, Spec, StringsBuilder, Tensor, Tree, Value};
use feedline::expr::{Attrs, Builder, Graph, RowAt};
use feedline::{Dataset, Options};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

fn photos() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/files/photos/classes");
    let classes = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = classes.flat_map(|class| std::fs::read_dir(class.path()).into_iter().flatten().flatten());
    let found: Vec<Vec<u8>> = files.filter_map(|file| std::fs::read(file.path()).ok()).take(500).collect();
    if found.is_empty() {
        let noise: Vec<u8> = (0..375 * 500 * 3u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 25) as u8 + 64).collect();
        let size = feedline_image::Size::new(375, 500, 3);
        return vec![feedline_image::codec::jpeg::encode(&noise, size, Default::default()).expect("a picture"); 500];
    }
    found
}

/// Decode, random-resized crop to 224 x 224, random flip, normalise.
fn train() -> Graph {
    let mut b = Builder::new(&Spec::scalar(DType::String));
    let mut call = |name: &str, args: &[usize], attrs: serde_json::Value| {
        b.call(name, args, Attrs(attrs.as_object().expect("attributes").clone())).expect("a call")
    };
    let picture = call("image.decode", &[0], json!({"channels": 3}));
    let shape = call("shape", &[picture], json!({}));
    let how = json!({"scale": [0.08, 1.0], "ratio": [0.75, 4.0 / 3.0], "seed": 1, "use": 0});
    let rect = call("image.random_resized_crop_box", &[shape], how);
    let crop = call("image.crop", &[picture, rect], json!({}));
    let small = call("image.resize", &[crop], json!({"size": [224, 224], "antialias": true}));
    let coin = call("random.bernoulli", &[], json!({"shape": [], "p": 0.5, "seed": 1, "use": 1}));
    let flipped = call("image.flip_left_right", &[small, coin], json!({}));
    let how = json!({"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "scale": 1.0 / 255.0});
    let out = call("image.normalize", &[flipped], how);
    b.finish(&Tree::Leaf(out))
}

/// Pictures a second.
fn rate(pictures: usize, run: impl Fn()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    pictures as f64 / best
}

fn main() {
    let photos = photos();
    let chain = train().with_picture_chains().expect("one call");
    let mut text = StringsBuilder::with_capacity(photos.len());
    photos.iter().for_each(|p| text.push(p));
    let source = Dataset::from_tensor_slices(vec![text.tensor([photos.len()])]).expect("strings");
    let mut alone = Vec::new();
    for threads in [1, 2] {
        let loops = rate(photos.len(), || {
            std::thread::scope(|scope| {
                for part in photos.chunks(photos.len().div_ceil(threads)) {
                    let chain = &chain;
                    scope.spawn(move || {
                        for (pos, photo) in part.iter().enumerate() {
                            let element = smallvec::smallvec![Value::Tensor(Tensor::string(photo))];
                            let made = chain.eval_one(&element, &[], RowAt { epoch: 0, pos: pos as u64 });
                            std::hint::black_box(made.expect("a picture"));
                        }
                    });
                }
            });
        });
        let pipeline = source.map_graph(train()).and_then(|ds| ds.batch(64, false)).expect("a pipeline");
        let options = Options { cpu_budget: Some(threads), ..Options::default() };
        let pipeline = pipeline.with_options(options).expect("options");
        let piped = rate(photos.len(), || {
            pipeline.iter().expect("an iterator").for_each(|batch| drop(std::hint::black_box(batch.expect("a batch"))));
        });
        println!(
            "{threads} threads: {loops:7.0} pictures/s in a loop, {piped:7.0} by a pipeline ({:.2})",
            piped / loops
        );
        alone.push((loops, piped));
    }
    println!("from 1 to 2: {:.2} in a loop, {:.2} by a pipeline", alone[1].0 / alone[0].0, alone[1].1 / alone[0].1);
}
