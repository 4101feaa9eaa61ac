//! Calls that are over here: a request that comes again is only answered.
//!
//! A ring: the oldest makes room for the next one. What is forgotten is remembered as a number a member, below which
//! no call of that member is taken any more ([`PeerEntry`](super::peers::PeerEntry)).

use super::machine::OVER;
use super::name::{CallId, Edge, Node};

/// A call that is over; a [`Machine`](super::Machine) is lent an array of places for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tomb(pub(super) Option<Grave>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Grave {
    pub(super) call: CallId,
    /// Whose call it was.
    pub(super) node: Node,
    pub(super) parent: Node,
    pub(super) edge: Edge,
    pub(super) answer: Answer,
}

/// What was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The message, of so many bytes, is kept.
    Kept(u32),
    /// It was too long to be kept.
    Gone,
    /// Nothing; nobody wanted an answer.
    Silent,
}

/// The ring's next place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ring {
    next: u32,
}

impl Ring {
    /// Buries a call; where, and what had to make room.
    #[inline]
    pub(super) fn bury(&mut self, tombs: &mut [Tomb], grave: Grave) -> Option<(u32, Option<Grave>)> {
        let at = self.next;
        let place = tombs.get_mut(at as usize)?;
        let old = place.0.replace(grave);
        // What is beyond has no number of its own in the index.
        let places = tombs.len().min(OVER as usize);
        self.next = if at as usize + 1 < places { at + 1 } else { 0 };
        Some((at, old))
    }
}
