//! Simulator, rigs, conformance suites, hostile bytes and the frame of the benches.
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, reason = "this package is test code: an expectation that breaks is a finding")]

pub mod agents;
pub mod answer;
pub mod bench;
pub mod boundary_job;
pub mod call;
pub mod chain;
pub mod conformance;
pub mod crash;
pub mod crowd;
pub mod fake_card;
pub mod far;
pub mod ferry;
pub mod firmware;
pub mod forged;
pub mod hands_on;
pub mod hostile;
pub mod hosts;
pub mod late;
pub mod lost;
pub mod machine;
pub mod meeting;
pub mod memory_server;
pub mod nodes;
pub mod owned;
pub mod random_exchanges;
pub mod rig;
pub mod schedule;
pub mod shm;
pub mod steady;
pub mod sweep;
pub mod transport_conformance;
pub mod verbs;
