//! What applications link, and everything that needs an operating system.
//!
//! ```text
//! session, group        a rank: look-ups, exported regions, reads of other ranks
//! cache, stencil        which slot holds which data, for threads and for whole neighbourhoods
//! pool, reference       memory that processes share, and its name in bytes
//! channel, stream       messages and conversations between processes
//! gateway               the same of other hosts
//! call                  chained calls: a function on a tree of members
//! boundary, advect      ghost zones of sparse fields, and a program that proves them
//! config, secret, job   which machines, who belongs to them, and starting all of it
//! admin, ask, report    what agents are asked and ordered, and what a run says
//! link, driver, shm, access, verbs, xgvmi    how bytes and frames travel
//! firmware, sim         boards without an operating system, and jobs in one process on virtual time
//! sys                   the operating system, each service once
//! quantity, uid         numbers that people read and write, and that nobody has drawn before
//! ```
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
pub mod input;
pub mod job;
mod known;
pub mod link;
pub mod output;
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
