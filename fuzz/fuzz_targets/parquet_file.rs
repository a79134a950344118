//! Any bytes as a Parquet file. Panics of the crates that decode them are errors to the reader.
#![no_main]

#[path = "../guarded.rs"]
mod guarded;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| guarded::run(|| feedline_formats::fuzzing::run("parquet_file", bytes)));
