//! The main job: real ranks, real agents, every byte checked.
//!
//! A launcher starts `hosts x service_processes` agents and `hosts x ranks` ranks as processes of this
//! machine. Ranks load slices of a file and export them; the groups are bootstrapped (the world, and the
//! rows and columns of the rank grid); every agent reads every rank's slice through the first service
//! process of that rank; the bytes are compared with the file. Nothing is printed here: what happens is
//! told by [`Event`]s while it happens and by one [`Outcome`] at the end.

mod event;
mod options;
mod outcome;

pub use event::{Event, Phase, Process};
pub use options::{DataPath, Options, OptionsError};
pub use outcome::{GroupOutcome, Latency, Leftover, Milestone, Mismatch, Outcome, PathOutcome, Step};
