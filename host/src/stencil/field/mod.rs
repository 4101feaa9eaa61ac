//! Fields of numbers in files, larger than memory, and stencils over them.
//!
//! A [`Field`] is an array file of NumPy with one to three coordinates. [`Bricks`] cut it: a brick is what is loaded into a
//! slot, and what is computed at a time. A [`Pattern`] says from which neighbours a point is computed. [`compute()`] does it
//! from bricks in slots, [`check()`] compares the outcome with a plain sweep in memory, bit for bit.
//! Bricks are loaded from the file ([`BrickFile`]), or from the memory of ranks over which they are [spread](Spread)
//! ([`BrickRanks`]).

mod bricks;
mod compute;
mod element;
mod file;
mod npy;
mod pattern;
mod spread;

pub use bricks::{Brick, Bricks};
pub use compute::{CheckError, Difference, Scratch, check, compute};
pub use element::{Element, Value};
pub use file::{BrickFile, Field, FieldError, FormatError};
pub use pattern::{Neighbour, Pattern, PatternError};
pub use spread::{BrickRanks, Spread};
