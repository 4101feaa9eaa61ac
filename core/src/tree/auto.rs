//! Which tree a call takes if nobody says which.
//!
//! ```
//! use umbra_core::tree::{Shape, auto};
//! assert_eq!(auto::shape(16, 8, false), Shape::FLAT);
//! assert_eq!(auto::shape(16, 8, true), Shape::BINARY);
//! ```
//!
//! Cost: a few comparisons; no memory.
//!
//! Source: "Chained calls" in the project's benchmarks. One process a member, up to 64 and with few bytes, the flat tree was
//! the fastest of five in 19 of 20 calibrations; members at one machine were measured in a binary tree. More members, and
//! more bytes, are decided by sections 3.1 and 3.3 of the specification of chained calls, not by a measurement: for small
//! requests wide trees of few levels, for large ones few children, so that nobody sends, or keeps room for, very much.

use super::shape::Shape;

/// Members below the maker to whom it sends itself.
pub const FLAT_MAX: u32 = 64;
/// Bytes of a request and its answer, without names, from which on a tree is to be narrow.
pub const LARGE: usize = 4096;

const WIDE: Shape = match Shape::knomial(4) {
    Some(shape) => shape,
    None => Shape::FLAT,
};

/// The tree over a maker and so many below it, with so many bytes down and up each edge; members may all live together, at
/// one machine.
#[must_use]
pub const fn shape(below: u32, bytes: usize, together: bool) -> Shape {
    if together || bytes >= LARGE {
        Shape::BINARY
    } else if below <= FLAT_MAX {
        Shape::FLAT
    } else {
        WIDE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_members_and_few_bytes_take_one_level() {
        assert_eq!([1, 64, 65, 16_383].map(|below| shape(below, 4095, false)), [Shape::FLAT, Shape::FLAT, WIDE, WIDE]);
        assert_eq!([1, 64, 65].map(|below| shape(below, 4096, false)), [Shape::BINARY; 3]);
        assert_eq!([1, 64, 65].map(|below| shape(below, 0, true)), [Shape::BINARY; 3]);
        assert_eq!(WIDE.depth(16_384), 7);
    }
}
