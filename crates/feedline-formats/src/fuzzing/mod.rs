//! What fuzzing runs: for each parser a function of any bytes, which must neither panic nor take memory that the bytes do
//! not account for. `fuzz/` feeds them new bytes, and a test the ones that were kept.

mod arrays;
#[cfg(feature = "columnar")]
mod columns;
mod json;
mod packed;
mod pieces;
mod protobuf;
mod records;
mod tars;
mod text;

#[cfg(all(test, feature = "columnar"))]
pub(crate) use pieces::File;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// Every target. Adding one: its function, and a file in `fuzz/fuzz_targets`.
pub static TARGETS: &[(&str, Target)] = &[
    #[cfg(feature = "columnar")]
    ("arrow_file", columns::arrow_file),
    ("compressed", packed::compressed),
    ("csv", text::csv),
    ("example", protobuf::example),
    ("fixed_length", text::fixed_length),
    ("index", records::index),
    ("inflate", packed::inflate),
    ("json_example", protobuf::json_example),
    ("json_lines", json::json_lines),
    ("lines", text::lines),
    ("npy", arrays::npy),
    ("npz", arrays::npz),
    #[cfg(feature = "columnar")]
    ("parquet_file", columns::parquet_file),
    #[cfg(feature = "columnar")]
    ("parquet_pages", columns::parquet_pages),
    ("sequence_example", protobuf::sequence_example),
    ("tar", tars::tar),
    ("tar_index", records::tar_index),
    ("tensor_proto", protobuf::tensor_proto),
    ("tfrecord", records::tfrecord_file),
    ("tfrecord_index", records::tfrecord_index),
    ("web_dataset", tars::web_dataset),
];

/// Runs a target by its name, in a process that does nothing else.
pub fn run(name: &str, bytes: &[u8]) {
    pieces::IS_ALONE.store(true, std::sync::atomic::Ordering::Relaxed);
    let (_, target) = TARGETS.iter().find(|(n, _)| *n == name).expect("a target of the table");
    target(bytes);
}
