//! Any bytes as an Example in JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    feedline_formats::fuzzing::json_example(data);
});
