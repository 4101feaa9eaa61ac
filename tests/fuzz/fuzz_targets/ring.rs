//! Fuzzes the target `ring` of [`umbra_tests::hostile`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| umbra_tests::hostile::feed("ring", bytes));
