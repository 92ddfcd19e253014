#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| windlass_fuzz::run("payloads", bytes));
