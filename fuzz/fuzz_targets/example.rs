//! Any bytes as an Example, which must read as `prost` reads it.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/feedline-formats/tests/protobuf/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    feedline_formats::fuzzing::run("example", bytes);
    oracle::example(bytes);
});
