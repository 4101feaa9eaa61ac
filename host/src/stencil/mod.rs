//! Stencils over data that is larger than memory.
//!
//! [`umbra_core::stencil`] decides which input is in which slot and when; here are the threads that load and compute, and
//! the memory. [`Run`] drives a cache of groups through a list of [`Groups`]: a [`Source`] fills slots, and points whose
//! inputs are all there come out, as calls of closures in threads ([`Run::each`]), or as a channel that is a stream of
//! tasks too ([`Run::with`]). Loads write into the slots that points are computed from; nothing is copied between.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use umbra::stencil::{Groups, Known, Plan, Run, Stop};
//! use umbra_core::stencil::{Grid, Input, Shape};
//! // Each point is the sum of its two neighbours and itself; inputs are single bytes.
//! let grid = Grid::new([1, 1, 100], 1, Shape::Box).ok_or("too large")?;
//! let groups: Groups = (0..100).map(|point| grid.group(point)).collect();
//! let plan = Plan { active: 3, window: 6, horizon: 100 };
//! let inputs = vec![Input::UNBOUNDED; groups.inputs()];
//! let mut cache = plan.cache(5, groups.largest(), inputs, Known::new(&groups)?)?;
//! let mut memory = [0; 5];
//! let load = |data: u64, into: &mut [u8], _: Instant| {
//!     into[0] = data as u8;
//!     Ok(())
//! };
//! let run = Run {
//!     groups: &groups,
//!     source: &load,
//!     memory: &mut memory,
//!     slot_bytes: 1,
//!     active: 3,
//!     loads: 2,
//!     deadline: Duration::from_secs(10),
//!     stop: Stop::default(),
//! };
//! let (progress, _) = run.each(&mut cache, 2, &mut (), || |point| {
//!     let sum: u64 = (0..point.members().len()).filter_map(|at| point.input(at)).map(|input| u64::from(input[0])).sum();
//!     assert_eq!(sum, point.members().iter().sum());
//!     Ok(())
//! })?;
//! assert_eq!((progress.done, progress.statistics.loads), (100, 100));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arena;
mod cache;
mod drive;
mod error;
pub mod field;
mod foresight;
mod groups;
mod known;
mod line;
pub mod optimum;
mod plain;
mod plan;
mod ready;
mod rings;
mod run;
mod source;

pub use cache::{Cache, Next};
pub use error::{BuildError, ComputeError, RunError};
pub use groups::Groups;
pub use known::Known;
pub use line::{AllocError, Stencil};
pub use plain::Plain;
pub use plan::{Plan, Vectors};
pub use ready::Ready;
pub use rings::{Client, ClientError, Completion, Owner, Rings, RingsError, ServeError};
pub use run::{Idle, Observe, Points, Progress, Run, Stop};
pub use source::{LoadError, Source};
