//! What fuzzing runs: for each parser a function of any bytes, which must neither panic nor take memory that the bytes do
//! not account for. `fuzz/` feeds them new bytes, and a test the ones that were kept.

mod arrays;
#[cfg(feature = "columnar")]
mod columns;
mod packed;
mod protobuf;
mod records;
mod text;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// Every target. Adding one: its function, and a file in `fuzz/fuzz_targets`.
pub static TARGETS: &[(&str, Target)] = &[
    ("csv", text::csv),
    ("example", protobuf::example),
    ("fixed_length", text::fixed_length),
    ("index", records::index),
    ("inflate", packed::inflate),
    ("json_example", protobuf::json_example),
    ("json_lines", text::json_lines),
    ("lines", text::lines),
    ("npy", arrays::npy),
    #[cfg(feature = "columnar")]
    ("parquet_pages", columns::parquet_pages),
    ("sequence_example", protobuf::sequence_example),
    ("tar", text::tar),
    ("tensor_proto", protobuf::tensor_proto),
    ("tfrecord", records::tfrecord_file),
    ("web_dataset", text::web_dataset),
];

/// Runs a target by its name.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(n, _)| *n == name).expect("a target of the table");
    target(bytes);
}
