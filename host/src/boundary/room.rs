//! How long memory is kept that messages do not need: of a slot, and beside it.
//!
//! What lies behind the size that the receiver has announced last is not needed: it is given up at once when that is half of what
//! the slot had and 16 KiB less, and else what none of the last sixteen messages could need. Who gives up what is needed again a
//! little later pays for both, so it is not done sooner.
//!
//! What lies beside the slot is needed by messages that do not fit. It is given up, all of it, after many messages in a row that
//! did.

use super::extent::PAGE;

/// Messages of a slot in a row that may need less than it has before the rest is given up.
pub(super) const LESS: u32 = 16;
/// Bytes below which nothing is given up at once.
pub(super) const BURST: usize = 4 * PAGE;

/// Messages of a slot in a row that fit before the memory is given up of one that did not.
pub(super) const CALM: u32 = 64;

/// Bytes beside a slot, for what did not fit into it.
#[derive(Debug, Clone, Default)]
pub(super) struct Spill {
    /// The most since they were given up.
    most: usize,
    /// Messages since the last that did not fit.
    calm: u32,
}

impl Spill {
    /// Bytes that lie there, and are given up now.
    pub(super) fn left(&mut self) -> usize {
        std::mem::take(&mut self.most)
    }

    /// After a message of which so many bytes did not fit: how many bytes lie there that nobody has needed for a while, and are given
    /// up now.
    pub(super) fn idle(&mut self, bytes: usize) -> usize {
        if bytes > 0 {
            (self.most, self.calm) = (bytes.max(self.most), 0);
            return 0;
        }
        if self.most < BURST {
            return 0;
        }
        self.calm += 1;
        if self.calm < CALM { 0 } else { self.left() }
    }
}

/// Bytes of a slot, in whole pages.
#[derive(Debug, Clone, Default)]
pub(super) struct Room {
    /// Those that it has.
    has: usize,
    /// The most that the last messages could need, and how many in a row needed less than it has.
    most: usize,
    less: u32,
}

impl Room {
    /// Bytes that it has.
    pub(super) const fn has(&self) -> usize {
        self.has
    }

    /// The next message needs so many bytes, and the slot has them from now on: where it ends, if what lies behind is given up:
    /// `now`, because it is much, or because it was not needed for a while.
    pub(super) fn needs(&mut self, room: usize, now: bool) -> Option<usize> {
        if room >= self.has {
            *self = Room { has: room, ..Room::default() };
            return None;
        }
        (self.most, self.less) = (self.most.max(room), self.less + 1);
        let end = if now || self.has - room >= BURST.max(room) {
            room
        } else if self.less >= LESS {
            self.most
        } else {
            return None;
        };
        *self = Room { has: end, ..Room::default() };
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_slot_has_not_needed_for_a_while_goes_back_and_much_of_it_at_once() {
        let mut room = Room::default();
        let mut needs = |pages: usize| room.needs(pages * PAGE, false).map(|end| end / PAGE);
        assert_eq!(needs(20), None);
        // As long as one in sixteen needs all of it, all stays.
        for nth in 1..10 * LESS as usize {
            assert_eq!(needs(if nth.is_multiple_of(LESS as usize) { 20 } else { 17 }), None);
        }
        assert_eq!(needs(20), None);
        for _ in 1..LESS {
            assert_eq!(needs(17), None);
        }
        // The most of them, not the last.
        assert_eq!([needs(16), needs(16)], [Some(17), None]);
        assert_eq!([needs(8), needs(8)], [Some(8), None]);
        assert_eq!(room.needs(7 * PAGE, true), Some(7 * PAGE));
        assert_eq!(room.has(), 7 * PAGE);
    }
}
