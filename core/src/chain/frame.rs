//! How far members have come whose children are dealt with in one place.

use super::layout::{FRAME, Layout};
use super::reply::Written;
use crate::tree::Piece;

/// In which role the user's code of a member without a place runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// The function of the child at hand.
    Func,
    /// The callback for its answer, at the member above it.
    Callback,
}

/// How far a member has come whose children are dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    /// Its subtree, in the list of the call at the top.
    pub(super) piece: Piece,
    /// The first place in it that nothing was done about.
    pub(super) next: u32,
    /// Which child stands there.
    pub(super) ordinal: u32,
    /// Of the places before: whose members failed, and were not reached.
    pub(super) failed: u32,
    pub(super) unreached: u32,
    pub(super) reply: Written,
}

impl Frame {
    pub(super) const fn new(piece: Piece, reply: Written) -> Frame {
        Frame { piece, next: piece.start + 1, ordinal: 0, failed: 0, unreached: 0, reply }
    }

    pub(super) const fn end(&self) -> u32 {
        self.piece.start + self.piece.len
    }

    pub(super) const fn is_well(&self) -> bool {
        self.failed | self.unreached == 0
    }

    /// The child at hand is done with.
    pub(super) const fn pass(&mut self, child: Piece) {
        self.next = child.start + child.len;
        self.ordinal += 1;
    }

    fn to_words(self) -> [u64; FRAME / 8] {
        let Frame { piece, next, ordinal, failed, unreached, reply } = self;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            pair(piece.start, piece.len),
            pair(next, ordinal),
            pair(failed, unreached),
            pair(reply.data, reply.overflow),
            u64::from(reply.header),
        ]
    }

    const fn from_words([a, b, c, d, e]: [u64; FRAME / 8]) -> Frame {
        Frame {
            piece: Piece { start: a as u32, len: (a >> 32) as u32 },
            next: b as u32,
            ordinal: (b >> 32) as u32,
            failed: c as u32,
            unreached: (c >> 32) as u32,
            reply: Written { data: d as u32, overflow: (d >> 32) as u32, header: e as u16 },
        }
    }

    #[inline]
    pub(super) fn save(self, layout: &Layout, memory: &mut [u64], level: u16) {
        let range = layout.frame_range(level);
        if let Some(place) = memory.get_mut(range.start / 8..range.end / 8) {
            place.copy_from_slice(&self.to_words());
        }
    }

    /// Where the subtree begins of the member that is kept at this level.
    #[inline]
    pub(super) fn start_of(layout: &Layout, memory: &[u64], level: u16) -> Option<u32> {
        memory.get(layout.frame_range(level).start / 8).map(|&word| word as u32)
    }

    #[inline]
    pub(super) fn load(layout: &Layout, memory: &[u64], level: u16) -> Option<Frame> {
        let range = layout.frame_range(level);
        memory.get(range.start / 8..range.end / 8)?.try_into().ok().map(Frame::from_words)
    }
}

/// A walk through the members below a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Walk {
    pub(super) goes_on: bool,
    /// It goes on, is over, or was not possible.
    pub(super) was_tried: bool,
    /// The child at hand is done well, and its answer is to be combined.
    pub(super) combines: bool,
    /// The level of the member whose children are dealt with.
    pub(super) level: u16,
    pub(super) top: Frame,
    pub(super) child: Piece,
    /// Its reply.
    pub(super) answer: Written,
}

impl Walk {
    pub(super) const NONE: Walk = Walk {
        goes_on: false,
        was_tried: false,
        combines: false,
        level: 0,
        top: Frame::new(Piece { start: 0, len: 0 }, Written::NOTHING),
        child: Piece { start: 0, len: 0 },
        answer: Written::NOTHING,
    };
}
