#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| feedline_image::fuzzing::run("jpeg_window", bytes));
