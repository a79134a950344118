//! Any bytes as a SequenceExample, which must read as `prost` reads it.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/feedline-formats/tests/protobuf/oracle.rs"]
mod oracle;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    feedline_formats::fuzzing::sequence_example(data);
    oracle::sequence_example(data);
});
