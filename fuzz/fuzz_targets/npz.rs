#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feedline_formats::fuzzing::run("npz", bytes));
