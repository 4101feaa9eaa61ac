//! The agent that runs beside the ranks.
//!
//! [`agent`] assembles the machines of a service process over lent storage and needs no operating system. With the
//! feature `std` (the default) [`hosted`] puts sockets, shared memory and a clock around it; the executable
//! `umbra-agent` is that and a command line. [`station`] is the engine of firmware, which has no links: it serves host
//! processes over a window of shared memory.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

pub mod agent;
#[cfg(feature = "std")]
pub mod hosted;
pub mod station;
