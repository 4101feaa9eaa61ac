//! What a shared cache answers.

use super::word::GENERATION_BITS;
use crate::cache::Found;

/// A slot, and what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Grant {
    /// The slot, counted from 0.
    pub slot: u32,
    /// What is in it.
    pub found: Found,
    /// References of this process to the data, this one included.
    pub mine: u32,
    pub(super) generation: u16,
    pub(super) place: u32,
}

/// Set in every mark, so that none is 0.
const MARKED: u64 = 1 << 48;
/// Above a mark, in a packed grant.
const FOUND: u32 = 49;

impl Grant {
    /// Where the reference is counted, as a number for those who cannot keep a [`Pin`]; never 0. It is worth something to this
    /// process only, at this cache; see [`Client::free_marked`](super::Client::free_marked).
    #[must_use]
    pub const fn mark(&self) -> u64 {
        MARKED | (self.generation as u64) << 32 | self.place as u64
    }
}

/// The place and the generation that a mark names, if it is one.
pub(super) const fn marked(mark: u64) -> Option<(u32, u16)> {
    // A generation has no bits above its own, where a word has its state.
    let is_one = mark >> (32 + GENERATION_BITS) == MARKED >> (32 + GENERATION_BITS);
    if is_one { Some((mark as u32, (mark >> 32) as u16)) } else { None }
}

/// A grant from a function that is not inlined, in two words: so the grants of those that are stay in registers, and lie
/// nowhere in memory where that function could have put its own.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    mark: u64,
    slot: u64,
}

impl Packed {
    #[inline(always)]
    pub(super) fn new(grant: Grant) -> Packed {
        let found = match grant.found {
            Found::Empty => 0,
            Found::Assigned => 1,
            Found::Remembered => 2,
        };
        Packed { mark: grant.mark() | found << FOUND, slot: u64::from(grant.mine) << 32 | u64::from(grant.slot) }
    }

    #[inline(always)]
    pub(super) fn grant(self) -> Grant {
        let found = match self.mark >> FOUND {
            0 => Found::Empty,
            1 => Found::Assigned,
            _ => Found::Remembered,
        };
        let (slot, mine) = (self.slot as u32, (self.slot >> 32) as u32);
        Grant { slot, found, mine, generation: (self.mark >> 32) as u16, place: self.mark as u32 }
    }
}

/// A reference that is given back exactly once: it can't be copied, and giving it back consumes it.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a pin that is dropped keeps its slot until the process leaves: give it back with `free_pin`"]
pub struct Pin {
    pub(super) data: u64,
    pub(super) grant: Grant,
}

impl Pin {
    /// The data whose slot this is.
    #[must_use]
    pub const fn data(&self) -> u64 {
        self.data
    }

    /// The slot, and what was in it when the reference was taken.
    #[must_use]
    pub const fn grant(&self) -> Grant {
        self.grant
    }
}
