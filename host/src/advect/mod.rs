//! Sparse advection: blobs in a mesh, with a proof that every bit arrived.
//!
//! Fields are blobs that move through an empty box. Blocks that a blob enters get the field, blocks that it has left
//! give it back, and only what is there is computed and exchanged. Two problems:
//!
//! - [`Problem::Shift`]: blobs move by exactly one cell a sweep. What must come out is known in closed form, bit for
//!   bit.
//! - [`Problem::Smooth`]: an ordinary upwind scheme of second order in time. What must come out is what one rank gets
//!   that keeps every field on every block; the [`hash`](Outcome::hash) of all bits says whether it did. Some of the
//!   blocks may be [refined](Options::refine).
//!
//! Blocks may be [dealt anew](Options::remesh) among the ranks while it runs, with all that belongs to them; no bit changes.
//!
//! ```
//! use umbra::advect::{Options, Problem, run};
//! let two_ranks = Options { ranks: 2, cycles: 12, ..Options::tiny(Problem::Smooth, 2) };
//! let one_dense = Options { ranks: 1, dense: true, ..two_ranks };
//! assert_eq!(run(&two_ranks, |_| ())?.hash, run(&one_dense, |_| ())?.hash);
//! # Ok::<(), umbra::advect::AdvectError>(())
//! ```

mod deal;
mod domain;
mod finished;
mod gather;
mod options;
mod packed;
mod rank;
mod rank_outcome;
mod refine;
mod shift;
mod smooth;
#[cfg(feature = "progress")]
mod watch;

pub use finished::Finished;
pub use gather::{Outcome, Progress, run, run_within, summary};
pub use options::{AdvectError, Options, Problem};
pub use rank::run_rank;
pub use rank_outcome::{Frame, RankOutcome, Times};
pub use refine::{Refine, RefineTextError};
#[cfg(feature = "progress")]
pub use watch::{Shown, Watch};

#[cfg(test)]
mod tests;
