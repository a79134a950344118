//! The pictures and the function of training that several benchmarks run.

use feedline::Dataset;
use feedline::element::{DType, Spec, StringsBuilder, Tree};
use feedline::expr::{Attrs, Builder, Graph};
use serde_json::json;
use std::path::Path;

/// JPEGs of the benchmark, if they were made, else noise.
pub fn photos() -> Vec<Vec<u8>> {
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
pub fn train() -> Graph {
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

/// These pictures as a dataset of strings.
pub fn source(photos: &[Vec<u8>]) -> Dataset {
    let mut text = StringsBuilder::with_capacity(photos.len());
    photos.iter().for_each(|p| text.push(p));
    Dataset::from_tensor_slices(vec![text.tensor([photos.len()])]).expect("strings")
}
