//! What a shared cache answers.

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
