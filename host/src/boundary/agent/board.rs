//! What a rank and its agent tell each other, in the memory that all ranks share.
//!
//! ```text
//! holder, wish    who looks out for this rank, and who would like to
//! spaces          in which space of process numbers these are, and all who came before
//! turns           how often an agent has looked
//! news            a word a slot: how many peers' messages of which exchange are there
//! plan            version, epoch, kind, lengths; then for each peer its fingerprint and its channels
//! refused         messages that were refused on behalf of this rank
//! attended        messages that an agent has found good, not the rank itself
//! seen            a line for each peer: a word a slot, the message in it that was found good
//! inbox           for each peer and slot: what did not fit into the slot
//! ```
//!
//! The words of attended, news, seen and inbox have one writer, the holder: the agent, or the rank itself if there is none. A holder
//! is replaced only when its process is known to be dead or it has left, so no two ever write.

use umbra_core::atomic::AtomicU64;
use umbra_core::boundary::Post;

use super::super::extent::{Extent, LINE, PAGE};
use super::super::transport::TransportError;
use crate::sys::segment::Segment;

const WORDS: usize = LINE / 8;
/// Lines in front of those of the peers.
const LINES: usize = 5;
/// Words of a plan in front of its peers.
pub(super) const VERSION: usize = 0;
pub(super) const EPOCH: usize = 1;
pub(super) const KIND: usize = 2;
pub(super) const LENGTH: usize = 3;

/// Bytes that the boards of all ranks take behind a fabric.
pub(super) fn bytes(extent: &Extent) -> usize {
    board_bytes(extent).saturating_mul(extent.ranks as usize)
}

fn plan_bytes(extent: &Extent) -> usize {
    // The lists of all peers have no more channels than the list in the largest message has.
    (extent.capacity() + (extent.ranks as usize + 1) * LINE).next_multiple_of(LINE)
}

fn inbox(extent: &Extent) -> usize {
    (LINE * (LINES + extent.ranks as usize) + plan_bytes(extent)).next_multiple_of(PAGE)
}

fn board_bytes(extent: &Extent) -> usize {
    let slots = (extent.ranks as usize).saturating_mul(extent.slots as usize);
    slots.saturating_mul(extent.capacity()).saturating_add(inbox(extent))
}

/// The board of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Board<'s> {
    segment: &'s Segment,
    extent: Extent,
    first: usize,
}

impl<'s> Board<'s> {
    pub(super) fn of(segment: &'s Segment, extent: Extent, rank: u32) -> Board<'s> {
        Board { segment, extent, first: extent.bytes() + rank as usize * board_bytes(&extent) }
    }

    fn line(self, nth: usize) -> Result<&'s [AtomicU64], TransportError> {
        Ok(self.segment.words(self.first + nth * LINE, WORDS)?)
    }

    /// Who looks out for the rank, by name.
    pub(super) fn post(self) -> Result<Post<'s>, TransportError> {
        let line = self.line(0)?;
        Ok(Post::new(&line[0], &line[1]))
    }

    /// In which space of process numbers those are that may hold it.
    pub(super) fn spaces(self) -> Result<&'s AtomicU64, TransportError> {
        Ok(&self.line(0)?[2])
    }

    /// How often an agent has looked, in a line of its own.
    pub(super) fn turns(self) -> Result<&'s AtomicU64, TransportError> {
        Ok(&self.line(4)?[0])
    }

    /// The news of a slot.
    pub(super) fn news(self, slot: u32) -> Result<&'s AtomicU64, TransportError> {
        Ok(&self.line(1)?[(slot % self.extent.slots) as usize])
    }

    /// The head of the plan.
    pub(super) fn plan(self) -> Result<&'s [AtomicU64], TransportError> {
        self.line(2)
    }

    /// How many messages were refused.
    pub(super) fn refused(self) -> Result<&'s AtomicU64, TransportError> {
        Ok(&self.line(3)?[0])
    }

    /// How many messages an agent has found good.
    pub(super) fn attended(self) -> Result<&'s AtomicU64, TransportError> {
        Ok(&self.line(3)?[1])
    }

    /// The good message in a slot of a peer: its epoch and exchange.
    pub(super) fn seen(self, from: u32, slot: u32) -> Result<&'s AtomicU64, TransportError> {
        Ok(&self.line(LINES + from as usize)?[(slot % self.extent.slots) as usize])
    }

    /// So many bytes of the plan.
    pub(super) fn list(self, bytes: usize) -> Result<&'s [AtomicU64], TransportError> {
        let capacity = plan_bytes(&self.extent);
        if bytes > capacity {
            return Err(TransportError::SlotTooSmall { end: bytes as u64, capacity: capacity as u64 });
        }
        let first = self.first + LINE * (LINES + self.extent.ranks as usize);
        Ok(self.segment.words(first, bytes.div_ceil(8))?)
    }

    /// Bytes of memory that are held for what did not fit into slots.
    pub(super) fn inbox_held(self) -> u64 {
        let (first, len) = (inbox(&self.extent), board_bytes(&self.extent));
        self.segment.held(self.first + first, len - first)
    }

    /// Where what did not fit into a slot of a peer lies.
    fn beside(self, from: u32, slot: u32) -> usize {
        let nth = from as usize * self.extent.slots as usize + (slot % self.extent.slots) as usize;
        self.first + inbox(&self.extent) + nth * self.extent.capacity()
    }

    /// Gives back the memory of so many bytes that did not fit into a slot of a peer.
    pub(super) fn give_back(self, from: u32, slot: u32, bytes: usize) {
        if bytes > 0 {
            // If the system keeps it, only the memory is lost.
            let bytes = bytes.next_multiple_of(PAGE).min(self.extent.capacity());
            let _ = self.segment.give_back(self.beside(from, slot), bytes);
        }
    }

    /// So many words of what did not fit into a slot of a peer.
    pub(super) fn inbox(
        self,
        from: u32,
        slot: u32,
        first: usize,
        len: usize,
    ) -> Result<&'s [AtomicU64], TransportError> {
        let (end, capacity) = ((first + len) * 8, self.extent.capacity());
        if end > capacity {
            return Err(TransportError::SlotTooSmall { end: end as u64, capacity: capacity as u64 });
        }
        Ok(self.segment.words(self.beside(from, slot) + first * 8, len)?)
    }
}

/// What a word of news says when the messages of so many peers are there.
pub(super) const fn news(epoch: u32, sequence: u32, peers: usize) -> u64 {
    (epoch as u64 & 0xffff) << 48 | (sequence as u64) << 16 | (peers as u64 & 0xffff)
}

/// The stamp of a message.
pub(super) const fn stamp(epoch: u32, sequence: u32) -> u64 {
    (epoch as u64) << 32 | sequence as u64
}
