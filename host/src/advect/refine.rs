//! Which blocks of a run are refined, and how that is written in a command line.
//!
//! ```
//! use umbra::advect::Refine;
//! let middle: Refine = "2..6".parse()?;
//! assert_eq!(middle, Refine { from: 2, to: 6 });
//! assert!(middle.meets([2, 5, 0], 2) && !middle.meets([2, 6, 0], 2));
//! assert_eq!(middle.to_string(), "2..6");
//! assert!("6..2".parse::<Refine>().is_err() && "2".parse::<Refine>().is_err());
//! # Ok::<(), umbra::advect::RefineTextError>(())
//! ```

use std::fmt;
use std::str::FromStr;

/// A box of blocks that are refined once: along each dimension those from the first number on, up to below the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refine {
    /// The first.
    pub from: u32,
    /// The one behind the last.
    pub to: u32,
}

impl Refine {
    /// Whether a block that lies there, in so many dimensions, is refined.
    #[must_use]
    pub fn meets(&self, position: [u32; 3], dimensions: u32) -> bool {
        position.iter().take(dimensions as usize).all(|at| (self.from..self.to).contains(at))
    }
}

impl fmt::Display for Refine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.from, self.to)
    }
}

/// A text that is no box.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is no box of blocks: write the first along each dimension, two dots, and the one behind the last, as 2..6"
)]
pub struct RefineTextError(String);

impl FromStr for Refine {
    type Err = RefineTextError;

    fn from_str(text: &str) -> Result<Refine, RefineTextError> {
        let ends = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        match ends {
            Some((from, to)) if from < to => Ok(Refine { from, to }),
            _ => Err(RefineTextError(text.to_owned())),
        }
    }
}
