//! What an exchange knows of a peer: plans, sequence numbers, credits, slot sizes.

use core::ops::Range;

use super::header::{HEAD, bitmap_bytes, bitmap_words};
use super::plan::{Entry, PlanError, fingerprint};

/// Exchanges in a row with less in them before a slot becomes smaller.
const CALM: u32 = 16;
/// Messages that the usual size is an average of, the last one counting most.
const USUAL: u32 = 32;
/// Messages in a row that do not fit before the last one counts as usual.
const TIGHT: u32 = 8;

/// A rank that we exchange with; an [`Exchange`](super::Exchange) is lent one for each.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(super) rank: u32,
    /// Channels to it and from it, as indices of entries.
    pub(super) out: Range<u32>,
    pub(super) into: Range<u32>,
    pub(super) prints: [u64; 2],
    /// The last exchange whose message we sent, whose message it has given up, whose message came, and that we gave up.
    pub(super) sent: u32,
    pub(super) credit: u32,
    pub(super) seen: u32,
    pub(super) released: u32,
    /// A message to it was packed, and is still with the transport.
    pub(super) held: bool,
    /// A channel from it is of a dense field.
    pub(super) always: bool,
    /// Where the bits of its channels lie among those of all peers: first those to it, then those from it.
    pub(super) first_word: usize,
    /// Bytes that it takes in a slot, in this exchange and as it announced last.
    pub(super) room: u32,
    pub(super) announced: u32,
    /// Bytes that we announced to take, now and before.
    pub(super) wish: u32,
    pub(super) wished: u32,
    limits: [u32; 2],
    /// Bytes of the largest message.
    dense: u32,
    largest: u32,
    average: u32,
    /// Messages that the average is of.
    averaged: u32,
    /// Messages in a row that did not fit, and that would fit into less.
    tight: u32,
    calm: u32,
    pub(super) arrived: Option<Arrived>,
}

/// A message of which the strips were not all used yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrived {
    /// Bytes of payload in the slot.
    pub(super) in_slot: u32,
    /// Bytes of payload that are still with the sender, or were fetched.
    pub(super) overflow: u32,
    /// Channels of which the payload lies in the slot, as it is the first so many; the others are fetched.
    pub(super) whole: u32,
    pub(super) fetched: bool,
}

impl Arrived {
    /// Whether the payload of a channel is there, by its place in the plan.
    pub(super) const fn has(&self, nth: u32) -> bool {
        self.fetched || nth < self.whole
    }
}

impl Peer {
    /// A rank with its channels, as ranges of the entries that the exchange is lent.
    #[must_use]
    pub const fn new(rank: u32, out: Range<u32>, into: Range<u32>) -> Peer {
        Peer {
            rank,
            out,
            into,
            prints: [0; 2],
            sent: 0,
            credit: 0,
            seen: 0,
            released: 0,
            held: false,
            always: false,
            first_word: 0,
            room: 0,
            announced: 0,
            wish: 0,
            wished: 0,
            limits: [0; 2],
            dense: 0,
            largest: 0,
            average: 0,
            averaged: 0,
            tight: 0,
            calm: 0,
            arrived: None,
        }
    }

    /// The same peer, for whoever knows it by another number.
    #[must_use]
    pub fn seen_as(&self, rank: u32) -> Peer {
        Peer { rank, ..self.clone() }
    }

    /// Its rank.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// The channels to it.
    #[must_use]
    pub const fn out(&self) -> &Range<u32> {
        &self.out
    }

    /// The channels from it.
    #[must_use]
    pub const fn inbound(&self) -> &Range<u32> {
        &self.into
    }

    /// Words for a bit of each of its channels.
    #[must_use]
    pub fn words(&self) -> usize {
        bitmap_words(self.out.len()) + bitmap_words(self.into.len())
    }

    pub(super) fn out_words(&self) -> Range<usize> {
        self.first_word..self.first_word + bitmap_words(self.out.len())
    }

    pub(super) fn inbound_words(&self) -> Range<usize> {
        self.out_words().end..self.first_word + self.words()
    }

    /// Bytes of its message that are still to be fetched.
    #[must_use]
    pub const fn fetching(&self) -> Option<u32> {
        match self.arrived {
            Some(arrived) if !arrived.fetched => Some(arrived.overflow),
            _ => None,
        }
    }

    /// The fingerprints of the plans to it and from it.
    #[must_use]
    pub const fn fingerprints(&self) -> [u64; 2] {
        self.prints
    }

    /// Bytes that its messages may have in one of our slots.
    #[must_use]
    pub fn slot_bytes(&self) -> u32 {
        self.wish.max(self.wished)
    }

    /// Bytes of a slot that every message would fit into.
    #[must_use]
    pub const fn dense_bytes(&self) -> u32 {
        self.dense
    }

    pub(super) fn plan(&mut self, epoch: u32, entries: &[Entry], slot: [u32; 2]) -> Result<(), PlanError> {
        let part = |range: &Range<u32>| entries.get(range.start as usize..range.end as usize).unwrap_or(&[]);
        let (out, into) = (part(&self.out), part(&self.into));
        self.prints = [fingerprint(epoch, out)?, fingerprint(epoch, into)?];
        let head = |plan: &[Entry]| (HEAD + bitmap_bytes(plan.len() as u32)) as u64;
        let dense = |plan: &[Entry]| plan.iter().map(Entry::bytes).sum::<u64>() + head(plan);
        let narrow = |bytes: u64| u32::try_from(bytes).map_err(|_| PlanError::TooLarge);
        let [smallest, largest] = slot;
        // What a side begins with, before anything was announced, follows from the plan and the bounds of a slot.
        let limits = |plan: &[Entry]| {
            let most = narrow(dense(plan))?.min(largest);
            Ok([narrow(head(plan))?.max(smallest).min(most), most])
        };
        [self.room, _] = limits(out)?;
        self.announced = self.room;
        self.always = into.iter().any(|entry| entry.always);
        (self.limits, self.dense) = (limits(into)?, narrow(dense(into))?);
        (self.wish, self.wished) = (self.limits[0], self.limits[0]);
        self.largest = narrow(into.iter().map(Entry::bytes).max().unwrap_or(0))?;
        Ok(())
    }

    /// Chooses the slot for the messages to come, after one with so many live bytes: a quarter more than usual and a
    /// strip. It grows at once after a message of more than twice a slot, or after several that did not fit; it shrinks
    /// after many exchanges with less.
    pub(super) fn settle(&mut self, live: u32, head: usize) {
        let fits = u64::from(live) + head as u64 <= u64::from(self.wish);
        self.tight = if fits { 0 } else { self.tight + 1 };
        self.averaged = (self.averaged + 1).min(USUAL);
        self.average = if live / 2 > self.wish || self.tight >= TIGHT {
            self.tight = 0;
            live
        } else if live > self.average {
            self.average + (live - self.average).div_ceil(self.averaged)
        } else {
            self.average - (self.average - live).div_ceil(self.averaged)
        };
        let usual = u64::from(self.average) * 5 / 4 + u64::from(self.largest) + head as u64;
        let best = (usual.min(u64::from(u32::MAX)) as u32).clamp(self.limits[0], self.limits[1]);
        self.wished = self.wish;
        if best >= self.wish {
            (self.wish, self.calm) = (best, 0);
        } else {
            self.calm += 1;
            if self.calm >= CALM {
                (self.wish, self.calm) = (best, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s38_slots_grow_at_once_and_shrink_after_a_while() {
        let mut peer = Peer { wish: 100, wished: 100, limits: [100, 1000], largest: 10, ..Peer::new(0, 0..0, 0..0) };
        peer.settle(400, 64);
        assert_eq!((peer.wish, peer.slot_bytes()), (574, 574));
        let mut shrunk = 0;
        for _ in 0..400 {
            let before = peer.wish;
            peer.settle(0, 64);
            assert!(peer.wish <= before && peer.slot_bytes() == before);
            shrunk += u32::from(peer.wish < before);
        }
        assert!((1..=400 / CALM).contains(&shrunk), "{shrunk} times");
        assert_eq!(peer.wish, 100);
        peer.settle(10_000, 64);
        assert_eq!(peer.wish, 1000, "never more than everything");
    }
}
