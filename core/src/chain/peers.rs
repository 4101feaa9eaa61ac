//! What is known of each member: its life, and which of its calls are too old.
//!
//! A call is too old if it cannot be told from a new one.

use super::name::{CallId, Life, Node};

/// What is known of one member; a [`Machine`](super::Machine) is lent one for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerEntry {
    life: Life,
    /// Calls of this life up to this one are forgotten, if any are.
    horizon: Option<u64>,
    pub(super) dead: bool,
    /// It lives on this machine.
    pub(super) at_home: bool,
    /// Which list was last checked for doubles, and where in it the member stands.
    seen: (u32, u32),
}

/// Whether a call may begin here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Age {
    /// It may.
    Current,
    /// Its maker has begun another life, of which this is the first sign.
    NewLife,
    /// Its maker has begun another life since.
    OldLife,
    /// It may have been here before.
    Forgotten,
}

impl PeerEntry {
    pub(super) fn age(&self, call: CallId) -> Age {
        let is_old = self.life.is_after(call.life) && self.life != Life(0);
        if is_old || (self.at_home && self.life != call.life) {
            Age::OldLife
        } else if self.life != call.life {
            Age::NewLife
        } else if self.horizon.is_some_and(|horizon| !CallId::is_after(call.seq, horizon)) {
            Age::Forgotten
        } else {
            Age::Current
        }
    }

    /// Its calls are those of this life from now on. Whether it is dead is another matter: a request that others have passed on
    /// may be of a life that is over.
    pub(super) const fn begin_life(&mut self, life: Life) {
        *self = PeerEntry { life, horizon: None, ..*self };
    }

    /// It lives on this machine.
    pub(super) const fn settle(&mut self, life: Life) {
        self.begin_life(life);
        (self.dead, self.at_home) = (false, true);
    }

    /// A call is not remembered any more.
    pub(super) fn forget(&mut self, call: CallId) {
        if self.life == call.life && self.horizon.is_none_or(|horizon| CallId::is_after(call.seq, horizon)) {
            self.horizon = Some(call.seq);
        }
    }

    /// Notes that the member stands at `position` of list number `list`; where it stood before, if it did.
    pub(super) fn mark(&mut self, list: u32, position: u32) -> Option<u32> {
        if self.seen.0 == list {
            return Some(self.seen.1);
        }
        self.seen = (list, position);
        None
    }

    /// Where the member stands in the list that was checked last, if it does.
    pub(super) const fn position(&self) -> u32 {
        self.seen.1
    }

    /// Forgets in which list the member stood.
    pub(super) const fn unmark(&mut self) {
        self.seen = (0, 0);
    }
}

pub(super) fn is_known(peers: &[PeerEntry], node: Node) -> bool {
    node.index() < peers.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_took_no_part_in_billions_of_calls_takes_part_in_the_next_one() {
        let call = |seq| CallId { root: Node(1), life: Life(1), seq };
        let mut root = PeerEntry::default();
        root.begin_life(Life(1));
        root.forget(call(5));
        for seq in [6, 5 + (1 << 31), 6 + (1 << 31), u64::from(u32::MAX), 5 + (1 << 32), 4 + (1 << 39)] {
            assert_eq!(root.age(call(seq)), Age::Current, "{seq}");
        }
        for seq in [5, 4, 0, (1 << 40) - 1] {
            assert_eq!(root.age(call(seq)), Age::Forgotten, "{seq}");
        }
        assert_eq!(CallId::after((1 << 40) - 1), 0);
    }
}
