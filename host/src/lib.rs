//! What applications link, and everything that needs an operating system.
#![deny(unsafe_code)]

pub mod config;
pub mod job;
pub mod secret;
