//! Fuzzes the target `head` of [`umbra_tests::hostile`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| umbra_tests::hostile::feed("head", bytes));
