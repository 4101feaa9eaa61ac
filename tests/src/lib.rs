//! Simulator, rigs, conformance suites and the frame of the benches.
#![forbid(unsafe_code)]

pub mod bench;
