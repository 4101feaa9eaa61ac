//! The frame of every bench: turns, medians, rows.
//!
//! A figure alone says little on a machine whose clock drifts and whose neighbours come and go. So every case
//! runs *ours* and a *peer* (a plain copy, a floor, another crate) in turns within one run, and what counts is
//! the ratio: above 1 we are faster, or smaller.
//!
//! ```
//! use std::hint::black_box;
//! use umbra_tests::bench::{Direction, Plan, Report, alternate};
//!
//! let mut report = Report::new(true);
//! let (table, index) = (vec![7_u64; 4096], 17_usize);
//! let turns = alternate(
//!     &Plan::quick(),
//!     |n| (0..n).for_each(|_| drop(black_box(table.get(black_box(index))))),
//!     |n| (0..n).for_each(|_| drop(black_box(table[black_box(index)]))),
//! );
//! report.row(turns.row("checked index", "plain index", "ns", Direction::LowerIsBetter)).bar(0.5);
//! let exit_code = report.finish();
//! ```
//!
//! A bench is a program of its own (`harness = false`) that begins with [`Report::from_args`] and ends with
//! [`Report::finish`], as a failure if a bar was missed; `cargo xtask bench NAME --json` runs it. Benches are never
//! tests: no test fails for a time.

mod clock;
mod machine;
mod pin;
mod program;
mod report;
mod samples;
mod turns;

pub use clock::{Clock, Moment};
pub use pin::{cores, pin};
pub use program::{lines_of, number, output_of};
pub use report::{Added, Direction, Report, Row};
pub use samples::Samples;
pub use turns::{Plan, Turns, alternate, repeat};
