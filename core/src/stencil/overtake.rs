//! A group with all its inputs passes one that waits for slots, so many times.

use super::future::Future;
use super::group::Stage;
use super::input::Names;
use super::machine::Stencil;
use super::storage::Lent;
use crate::cache::slot::{NIL, VALID};

/// How often groups may pass the one whose turn it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overtaking {
    most: u32,
    /// How many have passed the group whose turn it is.
    passed: u32,
}

impl Overtaking {
    /// It is the next group's turn.
    pub(super) fn next_turn(&mut self) {
        self.passed = 0;
    }
}

impl<L: Lent, N: Names, F: Future> Stencil<L, N, F> {
    /// Lets a group that is submitted while another one waits for slots pass that one, and all behind it, if the content
    /// of all its inputs is there; at most so many times for each that waits, without which it could wait for ever.
    /// Unless this is said, groups get their slots in the order of submission.
    ///
    /// Who passes takes no slot that somebody waits for: while the first in line waits, every slot is in use. It counts as
    /// an active group. A [`Future`] takes its uses for such that are still to come until its number is reached.
    #[must_use]
    pub fn with_overtakers(mut self, most: u32) -> Self {
        self.overtaking.most = most;
        self
    }

    /// Whether the group with these references, the last that was submitted, may pass the one that waits.
    pub(super) fn may_pass(&self, references: core::ops::Range<u32>) -> bool {
        let Overtaking { most, passed } = self.overtaking;
        if passed >= most || self.active >= self.limit {
            return false;
        }
        let head = self.groups.as_ref().get(self.waiting.first as usize);
        if head.is_none_or(|head| head.stage != Stage::Assigning) {
            return false;
        }
        let mut references = self.references.as_ref()[references.start as usize..references.end as usize].iter();
        references.all(|reference| {
            let slot = self.inputs.as_ref()[reference.input as usize].slot;
            slot != NIL && self.pool.at(slot).is(VALID)
        })
    }

    /// The group has its slots, without having had its turn.
    pub(super) fn pass(&mut self, index: u32) {
        let members = self.groups.as_ref()[index as usize].members;
        let first = index * self.stride;
        self.alone = NIL;
        let (inputs, mut slots) = (self.inputs.as_ref(), self.pool.retaining());
        for reference in &mut self.references.as_mut()[first as usize..][..members as usize] {
            reference.slot = inputs[reference.input as usize].slot;
            let there = slots.retain_content(reference.slot);
            debug_assert_eq!(there, Some(true), "the content was there");
        }
        drop(slots);
        self.pool.statistics.hits += u64::from(members);
        self.overtaking.passed += 1;
        self.active += 1;
        let groups = self.groups.as_mut();
        groups[index as usize].stage = Stage::Ready;
        self.outbox.push(groups, index);
    }
}
