//! A cache that serves whole groups, as the driver sees it.

use umbra_core::cache::Statistics;
use umbra_core::id::Id;
use umbra_core::stencil::{Action, Future, Group, GroupError, Lent, Names, PreparedError, Stencil, SubmitError};

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<G> {
    /// Load an input into a slot, then say so.
    Prepare {
        /// The slot.
        slot: u32,
        /// The input.
        data: u64,
    },
    /// All inputs of a group are in their slots.
    Ready {
        /// The number that the group was submitted with.
        number: u64,
        /// The group, to be freed.
        group: G,
    },
    /// A group won't be ready.
    Ended {
        /// The number that the group was submitted with.
        number: u64,
    },
}

/// A cache of groups. Groups get their slots in the order of submission.
pub trait Cache {
    /// How a group is named until it is freed.
    type Group: Copy + Send;

    /// Accepts a group.
    ///
    /// # Errors
    /// [`SubmitError`]; `GroupsFull` is no failure, but says that groups must be freed before.
    fn submit(&mut self, number: u64, members: &[u64]) -> Result<(), SubmitError>;

    /// What is to be done next; to be asked until there is nothing, after each other call.
    fn poll(&mut self) -> Option<Next<Self::Group>>;

    /// An input was loaded.
    ///
    /// # Errors
    /// [`PreparedError`] if nobody was told to load it.
    fn prepared(&mut self, data: u64) -> Result<(), PreparedError>;

    /// The slots of a ready group, in the order of its members.
    ///
    /// # Errors
    /// [`GroupError`] if it is not ready.
    fn slots(&self, group: Self::Group, tell: &mut dyn FnMut(u32)) -> Result<(), GroupError>;

    /// The group is done with.
    ///
    /// # Errors
    /// [`GroupError`] if it is not ready.
    fn free_group(&mut self, group: Self::Group) -> Result<(), GroupError>;

    /// Whether an input has a slot: it is there, or being loaded.
    fn has_slot(&self, data: u64) -> bool;

    /// What happened so far.
    fn statistics(&self) -> Statistics;

    /// Slots with content or on the way to it, and those of them that nobody uses.
    fn occupied(&self) -> (u32, u32);

    /// Groups that were submitted and have not ended.
    fn under_way(&self) -> usize;
}

impl<L: Lent, N: Names, F: Future> Cache for Stencil<L, N, F> {
    type Group = Id<Group>;

    fn submit(&mut self, number: u64, members: &[u64]) -> Result<(), SubmitError> {
        Stencil::submit(self, number, members).map(drop)
    }

    fn poll(&mut self) -> Option<Next<Id<Group>>> {
        Some(match Stencil::poll(self)? {
            Action::Prepare { slot, data } => Next::Prepare { slot, data },
            Action::Ready { point, group } => Next::Ready { number: point, group },
            Action::Failed { point, .. } | Action::Interrupted { point } => Next::Ended { number: point },
        })
    }

    fn prepared(&mut self, data: u64) -> Result<(), PreparedError> {
        Stencil::prepared(self, data)
    }

    fn slots(&self, group: Id<Group>, tell: &mut dyn FnMut(u32)) -> Result<(), GroupError> {
        Stencil::slots(self, group).map(|slots| slots.for_each(tell))
    }

    fn free_group(&mut self, group: Id<Group>) -> Result<(), GroupError> {
        Stencil::free_group(self, group)
    }

    fn has_slot(&self, data: u64) -> bool {
        Stencil::has_slot(self, data)
    }

    fn statistics(&self) -> Statistics {
        Stencil::statistics(self)
    }

    fn occupied(&self) -> (u32, u32) {
        (self.len().unwrap_or(0), self.idle().unwrap_or(0))
    }

    fn under_way(&self) -> usize {
        Stencil::under_way(self)
    }
}
