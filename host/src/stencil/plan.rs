//! A stencil cache in vectors.

use std::ops::Range;

use umbra_core::cache::Slot;
use umbra_core::stencil::{ByNumber, Future, Group, Input, Limits, Names, Reference, Stencil, Storage};

use super::error::BuildError;
use crate::sys::heap::reserved;

/// Buckets of the calendar of next uses: the most that are used.
const BUCKETS: usize = 4096;

/// All that a stencil cache works in.
pub type Vectors = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;

/// What a cache is made with, beside its slots.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Groups that have their slots at the same time.
    pub active: u32,
    /// Groups that are submitted at the same time, so that their uses are known.
    pub window: usize,
    /// How far ahead next uses are told apart.
    pub horizon: u64,
}

impl Plan {
    /// One group at a time.
    #[must_use]
    pub fn one(horizon: u64) -> Self {
        Plan { active: 1, window: 1, horizon }
    }

    /// One group at a time, so many known.
    #[must_use]
    pub fn window(window: usize) -> Self {
        Plan { active: 1, window, horizon: window as u64 }
    }

    /// An empty cache with so many slots, for groups of up to this many different inputs.
    ///
    /// # Errors
    /// [`BuildError`] if some group could not be served, or without memory.
    pub fn cache<F: Future>(
        self,
        slots: u32,
        largest: usize,
        inputs: Vec<Input>,
        future: F,
    ) -> Result<Stencil<Vectors, ByNumber, F>, BuildError> {
        self.cache_in(0..slots, largest, largest, inputs, future)
    }

    /// [`Plan::cache`] that hands out the slots of the range, for groups of up to `members`, of which so many may be
    /// different.
    ///
    /// # Errors
    /// As for [`Plan::cache`].
    pub fn cache_in<F: Future>(
        self,
        slots: Range<u32>,
        different: usize,
        members: usize,
        inputs: Vec<Input>,
        future: F,
    ) -> Result<Stencil<Vectors, ByNumber, F>, BuildError> {
        self.cache_of(slots, different, members, inputs, ByNumber, future)
    }

    /// [`Plan::cache_in`] for inputs that have other names than the numbers of their records, which the future is asked by.
    ///
    /// # Errors
    /// As for [`Plan::cache`].
    pub fn cache_of<N: Names, F: Future>(
        self,
        slots: Range<u32>,
        different: usize,
        members: usize,
        inputs: Vec<Input>,
        names: N,
        future: F,
    ) -> Result<Stencil<Vectors, N, F>, BuildError> {
        let storage = Storage {
            slots: reserved(slots.len(), || Slot::EMPTY)?,
            buckets: reserved(BUCKETS, || 0)?,
            inputs,
            groups: reserved(self.window, || Group::EMPTY)?,
            references: reserved(self.window.saturating_mul(members.max(1)), || Reference::EMPTY)?,
        };
        let largest_group = u32::try_from(different).unwrap_or(u32::MAX);
        let limits = Limits { largest_group, active: self.active, horizon: self.horizon };
        Ok(Stencil::new(storage, names, future, slots, limits)?)
    }
}
