//! What applications link, and everything that needs an operating system.
#![deny(unsafe_code)]

pub mod access;
pub mod admin;
pub mod advect;
pub mod ask;
pub mod boundary;
pub mod cache;
pub mod call;
pub mod channel;
pub mod config;
pub mod driver;
pub mod firmware;
pub mod gateway;
pub mod group;
pub mod job;
mod known;
pub mod link;
pub mod pool;
pub mod quantity;
pub mod reference;
pub mod report;
pub mod secret;
pub mod session;
pub mod shm;
pub mod sim;
pub mod stencil;
pub mod stream;
// The operating system, each service once.
#[allow(unsafe_code)]
pub mod sys;
pub mod uid;
// Remote memory access by libibverbs: foreign functions, behind safe types.
#[allow(unsafe_code)]
pub mod verbs;
mod windows;
#[cfg(feature = "xgvmi")]
pub mod xgvmi;
