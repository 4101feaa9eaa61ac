//! The C face of Umbra.
#![deny(unsafe_code)]
