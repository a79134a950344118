//! Any bytes as a TensorProto.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    feedline_formats::fuzzing::tensor_proto(data);
});
