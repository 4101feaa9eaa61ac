//! Simulator, rigs and conformance suites.
#![forbid(unsafe_code)]
