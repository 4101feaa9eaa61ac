//! The one door for tests, benches and figures.
#![forbid(unsafe_code)]
fn main() {}
