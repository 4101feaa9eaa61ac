//! The transport within a host: all ranks' slots in one segment that all map.
//!
//! Ranks are threads or processes. A message is packed into the slot of its receiver and becomes visible by one store;
//! the receiver sees it by one load. What does not fit the receiver's choice lies in an area of the sender beside it,
//! which the receiver has mapped as well, so fetching it costs nothing. Pages that were never written take no memory, and those
//! that a burst has left are given back.
//!
//! ```text
//! votes     two lines a rank; in the first also the process that has built on the rank's end
//! stamps    a line for each ordered pair: a word a slot, epoch and exchange of the message in it
//! slots     for each ordered pair and slot: capacity bytes of the receiver, then as many of the sender's overflow
//! ```
//!
//! *Cost*: a copy of the values of each side; one cache line a message for the stamp.

mod built;
mod offer;
mod spare;

use std::sync::Arc;

use umbra_core::atomic::{AtomicU64, Ordering, fence};
use umbra_core::boundary::{Entry, Message, Peer, Place, Vote};
use umbra_core::fetch::{fetch_to_read_later, fetch_to_write};
use umbra_core::time::Time;

use super::extent::{Extent, LINE, PAGE, STAMPS};
use super::held::Held;
use super::transport::{Transport, TransportError};
use super::way::{LONG, Way};
use crate::sys::clock::now;
use crate::sys::host;
use crate::sys::segment::{Segment, SegmentError};
pub use offer::{Offer, Unshared};
use spare::Spare;

/// Bytes of a long message that are brought near before they are read. It lies in one piece, so what is read next is known. Of a
/// short one that would be lines of the next, which its sender would have to take back.
const AHEAD: usize = 4096;
const CACHE_LINE: usize = 64;
/// Where a head says how many bytes of payload the message has.
const PAYLOAD: usize = 24;

/// One rank's end of a fabric.
#[derive(Debug)]
pub struct Fabric {
    segment: Arc<Segment>,
    extent: Extent,
    rank: u32,
    /// Whether it is the one that the rank has built on.
    is_built: bool,
    /// The space of process numbers that this end was made in.
    numbers: u64,
    /// Stamps that were taken, of each rank and slot.
    taken: Vec<u64>,
    /// Those of the messages that were looked at last: only these can be taken. What was written there since is another.
    seen: Vec<u64>,
    /// To each rank, and from there.
    ways: Vec<Way>,
    /// Bytes of payload of the message from each rank that was looked at last, as its head says.
    comes: Vec<u32>,
    spare: Spare,
    /// Of the extent: where slots begin, and how large each is.
    areas: usize,
    capacity: usize,
}

impl Fabric {
    /// Makes the segment of a fabric; its ranks attach to it. At most 16 slots a pair are used.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn segment(extent: Extent) -> Result<Segment, SegmentError> {
        Segment::create("umbra-boundary", extent.bytes())
    }

    /// The end of a rank. A rank is built on one end of a fabric, and on no other after it, whatever became of its process: plans
    /// and votes of the old one stay in the memory, so building on another one is [refused](TransportError::WasBuilt). To begin
    /// again, make another segment. Peers that wait for a rank whose process has ended are told so.
    ///
    /// # Errors
    /// [`TransportError`] if the segment is smaller than the extent says, or the rank is none of it.
    pub fn attach(segment: Arc<Segment>, extent: Extent, rank: u32) -> Result<Fabric, TransportError> {
        let extent = extent.usable();
        segment.at_writable(0, extent.bytes())?;
        let [taken, seen] = [(); 2].map(|()| vec![0; extent.ranks as usize * STAMPS as usize]);
        let (areas, capacity) = (extent.areas(), extent.capacity());
        let (ways, comes) = ((0..extent.ranks).map(|_| Way::new()).collect(), vec![0; extent.ranks as usize]);
        let spare = Spare::new(extent.ranks as usize * STAMPS as usize);
        let fabric = Fabric {
            is_built: false,
            numbers: host::namespace(),
            taken,
            seen,
            ways,
            comes,
            spare,
            segment,
            extent,
            rank,
            areas,
            capacity,
        };
        fabric.check(rank)?;
        Ok(fabric)
    }

    pub(super) const fn extent(&self) -> &Extent {
        &self.extent
    }

    #[inline]
    fn check(&self, rank: u32) -> Result<(), TransportError> {
        let ranks = self.extent.ranks;
        if rank < ranks { Ok(()) } else { Err(TransportError::NoRank { rank, ranks }) }
    }

    #[inline]
    fn pair(&self, from: u32, to: u32) -> Result<usize, TransportError> {
        self.check(from)?;
        self.check(to)?;
        Ok(from as usize * self.extent.ranks as usize + to as usize)
    }

    pub(super) fn stamp(&self, from: u32, to: u32, slot: u32) -> Result<&AtomicU64, TransportError> {
        let pair = self.pair(from, to)?;
        Ok(self.segment.word(self.extent.stamps() + pair * LINE + (slot % self.extent.slots) as usize * 8)?)
    }

    /// Where so many words of a place of a message lie.
    #[inline]
    fn offset(
        &self,
        from: u32,
        to: u32,
        slot: u32,
        place: Place,
        behind: usize,
        len: usize,
    ) -> Result<usize, TransportError> {
        let capacity = self.capacity;
        let (area, offset) = match place {
            Place::Slot(at) => (0, at as usize),
            Place::Overflow(at) => (1, at as usize),
        };
        let (start, end) = (offset + behind * 8, offset + (behind + len) * 8);
        if end > capacity {
            return Err(TransportError::SlotTooSmall { end: end as u64, capacity: capacity as u64 });
        }
        Ok(self.area(from, to, slot, area)? + start)
    }

    /// Where a slot begins, and what did not fit into it.
    #[inline]
    fn area(&self, from: u32, to: u32, slot: u32, beside: usize) -> Result<usize, TransportError> {
        let nth = self.pair(from, to)? * self.extent.slots as usize + (slot % self.extent.slots) as usize;
        Ok(self.areas + (nth * 2 + beside) * self.capacity)
    }

    /// The words themselves.
    pub(super) fn words(
        &self,
        from: u32,
        to: u32,
        slot: u32,
        place: Place,
        behind: usize,
        len: usize,
    ) -> Result<&[AtomicU64], TransportError> {
        Ok(self.segment.words(self.offset(from, to, slot, place, behind, len)?, len)?)
    }

    /// Where the stamps of this rank's slot are noted.
    const fn stamp_at(&self, from: u32, slot: u32) -> usize {
        from as usize * STAMPS as usize + (slot % self.extent.slots) as usize
    }

    /// Takes the lines back from a rank that the next message to it will be written to, if that is as short as the last one and
    /// goes through the caches.
    ///
    /// To be called when a message of the rank is there: before it sent that, it has read all that lies in any other slot. So the
    /// lines come while this one is read, and not one after the other when they are written to. Its head is as long as that of
    /// this one, or nearly.
    fn take_back(&self, to: u32, slot: u32, head: usize) {
        let way = &self.ways[to as usize];
        let bytes = head.saturating_add(way.wrote() as usize);
        if bytes > AHEAD || way.is_past() {
            return;
        }
        if let Ok(words) = self.words(self.rank, to, slot, Place::Slot(0), 0, bytes / 8) {
            near(words.as_ptr().cast(), bytes, fetch_to_write);
        }
    }

    fn vote_words(&self, rank: u32, round: u32) -> Result<&[AtomicU64], TransportError> {
        self.check(rank)?;
        Ok(self.segment.words((rank as usize * 2 + (round % 2) as usize) * LINE, 4)?)
    }

    pub(super) fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
        for (word, bytes) in words.iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
    }

    pub(super) fn load_bytes(words: &[AtomicU64], bytes: &mut [u8]) {
        for (word, bytes) in words.iter().zip(bytes.chunks_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..bytes.len()]);
        }
    }
}

/// Has each line of so many bytes from here on brought nearer, by `fetch`.
#[inline]
fn near(from: *const u8, len: usize, fetch: impl Fn(*const u8)) {
    let (mut at, end) = (from, from.wrapping_add(len));
    while at < end {
        fetch(at);
        at = at.wrapping_add(CACHE_LINE);
    }
}

/// The time when all that this thread has written is in its cache or in memory, and no longer in the processor, where it waits for
/// lines that the receiver has.
fn once_written() -> Time {
    fence(Ordering::SeqCst);
    now()
}

impl Transport for Fabric {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.extent.ranks
    }

    fn slots(&self) -> u32 {
        self.extent.slots
    }

    fn plans(&mut self, _epoch: u32, peers: &[Peer], _entries: &[Entry]) -> Result<(), TransportError> {
        self.build()?;
        self.keep_for(peers)
    }

    #[inline]
    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        let offset = self.offset(self.rank, to, slot, place, behind, values.len())?;
        let way = &self.ways[to as usize];
        way.writes(now);
        Ok(self.segment.write_values(offset, values, way.is_past())?)
    }

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        self.spill(message.rank, message.slot, message.overflow as usize)?;
        let words = self.words(self.rank, message.rank, message.slot, Place::Slot(0), 0, head.len().div_ceil(8))?;
        Self::store_bytes(words, head);
        let stamp = u64::from(epoch) << 32 | u64::from(message.sequence);
        let way = &mut self.ways[message.rank as usize];
        if way.is_past() {
            // ORDERING: before the stamp below; values past the caches are in no order with it else.
            self.segment.settle_values();
        }
        way.has_written(message.in_slot.saturating_add(message.overflow), once_written);
        // ORDERING: release; whoever sees the stamp sees head and payload.
        self.stamp(self.rank, message.rank, message.slot)?.store(stamp, Ordering::Release);
        Ok(())
    }

    fn gone(&self, rank: u32) -> Option<TransportError> {
        self.is_gone(rank)
    }

    fn ended(&self, from: u32, sequence: u32) -> Option<TransportError> {
        self.has_ended(from, sequence)
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        // ORDERING: acquire pairs with the release of `publish`.
        let stamp = self.stamp(from, self.rank, slot)?.load(Ordering::Acquire);
        let at = self.stamp_at(from, slot);
        if stamp == self.taken[at] {
            return Ok(false);
        }
        self.seen[at] = stamp;
        let words = self.words(from, self.rank, slot, Place::Slot(0), 0, head.len().div_ceil(8))?;
        Self::load_bytes(words, head);
        // Whoever says more than there is has lines brought near for nothing.
        let payload = words.get(PAYLOAD / 8).map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)));
        let payload = u32::try_from(payload).unwrap_or(u32::MAX);
        if payload >= LONG {
            near(words.as_ptr_range().end.cast(), AHEAD, fetch_to_read_later);
        }
        self.comes[from as usize] = payload;
        self.take_back(from, slot.wrapping_add(1), head.len());
        Ok(true)
    }

    fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), TransportError> {
        self.check(from)?;
        let at = self.stamp_at(from, slot);
        self.taken[at] = self.seen[at];
        // Where a head may be, one is.
        self.keep(from, slot, room.max(1) as usize, false)?;
        self.ways[from as usize].has_read(self.comes[from as usize], now);
        Ok(())
    }

    #[inline]
    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let offset = self.offset(from, self.rank, slot, place, behind, into.len())?;
        if self.comes[from as usize] < LONG {
            self.ways[from as usize].reads(now);
            return Ok(self.segment.read_values(offset, into)?);
        }
        // A longer row the processor follows by itself, and a whole copy of it need not read the lines that it writes to.
        if size_of_val(into) <= AHEAD {
            let ahead = self.segment.at(offset, 0)?.as_ptr().wrapping_add(AHEAD);
            near(ahead, size_of_val(into), fetch_to_read_later);
        }
        Ok(self.segment.read_values(offset, into)?)
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.build()?;
        let words = self.vote_words(self.rank, round)?;
        for (word, value) in words[1..].iter().zip([vote.epoch, vote.sequence, vote.open]) {
            word.store(u64::from(value), Ordering::Relaxed);
        }
        // ORDERING: release; whoever sees the round sees the vote. The line is used again two rounds later, when all
        // have voted in the round between, and so have read this one.
        words[0].store(u64::from(round), Ordering::Release);
        Ok(())
    }

    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        let words = self.vote_words(rank, round)?;
        // ORDERING: acquire pairs with the release of `vote`.
        if words[0].load(Ordering::Acquire) != u64::from(round) {
            return Ok(None);
        }
        let [epoch, sequence, open] = [1, 2, 3].map(|at: usize| words[at].load(Ordering::Relaxed) as u32);
        Ok(Some(Vote { epoch, sequence, open }))
    }

    fn held(&self) -> Option<Held> {
        Some(self.held_bytes())
    }

    fn keeps_plans(&self) -> bool {
        true
    }

    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        let words = self.words(self.rank, to, 0, Place::Overflow(0), 0, 1 + bytes.len().div_ceil(8))?;
        words[0].store(bytes.len() as u64, Ordering::Relaxed);
        Self::store_bytes(&words[1..], bytes);
        self.spill(to, 0, 8 + bytes.len())
    }

    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        let len = self.words(from, self.rank, 0, Place::Overflow(0), 0, 1)?[0].load(Ordering::Relaxed);
        // A length that the area does not have is refused below, before anything is reserved.
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.extent.capacity());
        let words = self.words(from, self.rank, 0, Place::Overflow(0), 1, len.div_ceil(8))?;
        let mut bytes = vec![0; len];
        Self::load_bytes(words, &mut bytes);
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_comes_while_the_one_before_is_refused_is_shown() {
        let extent = Extent { ranks: 2, slots: 2, message: 64 };
        let segment = Arc::new(Fabric::segment(extent).unwrap());
        let [mut sender, mut receiver] = [0, 1].map(|rank| Fabric::attach(segment.clone(), extent, rank).unwrap());
        let (mut head, slot) = ([0; 64], 1);
        let message = |sequence| Message { rank: 1, sequence, slot, head: 64, in_slot: 0, overflow: 0 };
        sender.publish(&message(1), 7, &[1; 64]).unwrap();
        assert!(receiver.look(0, slot, &mut head).unwrap());
        // Between the look and what comes of it.
        sender.publish(&message(3), 7, &[3; 64]).unwrap();
        receiver.taken(0, slot, 0).unwrap();
        assert!(receiver.look(0, slot, &mut head).unwrap() && head == [3; 64]);
        receiver.taken(0, slot, 0).unwrap();
        assert!(!receiver.look(0, slot, &mut head).unwrap());
    }

    #[test]
    fn a_message_to_a_rank_that_there_is_not_is_refused() {
        let extent = Extent { ranks: 2, slots: 2, message: 64 };
        let segment = Arc::new(Fabric::segment(extent).unwrap());
        let mut sender = Fabric::attach(segment, extent, 0).unwrap();
        let message = Message { rank: 5, sequence: 1, slot: 0, head: 64, in_slot: 0, overflow: 0 };
        let refused = sender.publish(&message, 7, &[1; 64]);
        assert!(matches!(refused, Err(TransportError::NoRank { rank: 5, ranks: 2 })), "{refused:?}");
    }

    #[test]
    fn what_lies_beside_slots_is_given_back_between_two_epochs_whomever_it_was_for() {
        let extent = Extent { ranks: 3, slots: 2, message: 3 * PAGE as u32 };
        let segment = Arc::new(Fabric::segment(extent).unwrap());
        let [mut ours, theirs] = [0, 2].map(|rank| Fabric::attach(segment.clone(), extent, rank).unwrap());
        ours.write_plan(2, &[7; 5000]).unwrap();
        assert_eq!(theirs.read_plan(0).unwrap(), Some(vec![7; 5000]));
        assert!(ours.held_bytes().send >= 5000);
        // Nobody is a peer in the next one.
        ours.keep_for(&[]).unwrap();
        assert_eq!(ours.held_bytes().send, 0);
        assert_eq!(theirs.read_plan(0).unwrap(), Some(Vec::new()));
    }
}
