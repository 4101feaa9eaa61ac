//! The main job: real ranks, real agents, every byte checked.
//!
//! A launcher starts `hosts x service_processes` agents and `hosts x ranks` ranks as processes of this
//! machine. Ranks load slices of a file and export them; the groups are bootstrapped (the world, and the
//! rows and columns of the rank grid); every agent reads every rank's slice through the first service
//! process of that rank; the bytes are compared with the file. With a [`Site`], hosts and DPUs are those of a
//! configuration file, and agents may run elsewhere already. Nothing is printed here: what happens is
//! told by [`Event`]s while it happens and by one [`Outcome`] at the end.
//!
//! A [`FieldJob`] is another job of the same processes: its ranks hold the bricks of a field, for a stencil.

mod child;
mod directory;
mod error;
mod event;
mod field;
pub mod grid;
mod latency;
mod launcher;
mod leftovers;
mod options;
mod outcome;
mod programs;
mod rank;
mod run;
mod site;
mod verify;

pub use child::{Child, launcher_link};
pub use directory::{AllRemoved, DirectoryError, JobDirectory};
pub use error::JobError;
pub use event::{Event, Phase, Process};
pub use field::FieldJob;
pub use latency::{Latency, Unrecorded};
pub use launcher::{Launcher, News};
pub use options::{DataPath, Options, OptionsError};
pub use outcome::{GroupOutcome, Leftover, Milestone, Mismatch, Outcome, PathOutcome, Step, TableOutcome};
pub use programs::{AGENT, Programs};
pub use rank::rank_main;
pub use run::run;
pub use site::{Chosen, Site, SiteError};
pub use verify::{Digests, Offsets, digest_random, digest_slices};
