//! Slots for the messages of one other rank, as large as was announced to it.
//!
//! Each slot is registered by itself, so the device lets nobody write beyond it. It is exchanged for a larger or a smaller one only
//! while the other rank may not write to it: between two epochs, and in front of the message that grants credit for it.

use std::sync::Arc;

use umbra_core::atomic::Ordering;
use umbra_core::key::Access;

use super::super::extent::PAGE;
use super::super::room::{CALM, Room};
use super::super::transport::TransportError;
use super::link::{Fetch, code};
use crate::sys::segment::Segment;
use crate::verbs::{Domain, Region, Remote};

/// Words that tell where a slot lies: its address, its length and its key.
const WORDS: usize = 2;
/// Bytes of them.
pub(super) const PLACE: usize = WORDS * 8;

/// A slot, and what did not fit into it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// A message is there.
    pub(super) came: bool,
    /// What has become of the rest of it.
    pub(super) fetch: Fetch,
    /// Bytes of the next message at most.
    wanted: usize,
    room: Room,
    region: Option<Region>,
    fetched: Option<Region>,
    /// Messages in a row that fitted.
    calm: u32,
}

impl Slot {
    /// Has as many bytes as the next message may have, or some more for a while; whether it lies elsewhere now. Nobody may write
    /// to it meanwhile.
    pub(super) fn settle(&mut self, domain: &Arc<Domain>, rank: u32, now: bool) -> Result<bool, TransportError> {
        self.room.needs(self.wanted.next_multiple_of(PAGE), now);
        let bytes = self.room.has();
        if bytes == self.region.as_ref().map_or(0, len) {
            return Ok(false);
        }
        // Not both at once.
        self.region = None;
        if bytes > 0 {
            self.region = Some(registered(domain, rank, bytes, Access::WRITE)?);
        }
        Ok(true)
    }

    /// The first message of an epoch has so many bytes at most, and nothing of an earlier one is needed.
    pub(super) fn begin(&mut self, wanted: usize) {
        (self.wanted, self.fetched, self.calm) = (wanted, None, 0);
    }

    /// The message was used, and the next one has so many bytes at most.
    pub(super) fn taken(&mut self, wanted: usize) {
        self.calm = if self.fetch == Fetch::Not { self.calm.saturating_add(1) } else { 0 };
        if self.calm >= CALM {
            self.fetched = None;
        }
        (self.wanted, self.came, self.fetch) = (wanted, false, Fetch::Not);
    }

    /// Memory for so many bytes that did not fit.
    pub(super) fn room_beside(&mut self, domain: &Arc<Domain>, rank: u32, bytes: usize) -> Result<(), TransportError> {
        let bytes = bytes.next_multiple_of(PAGE);
        if bytes > self.fetched.as_ref().map_or(0, len) {
            self.fetched = None;
            self.fetched = Some(registered(domain, rank, bytes, Access::empty())?);
        }
        Ok(())
    }

    pub(super) const fn region(&self) -> Option<&Region> {
        self.region.as_ref()
    }

    pub(super) const fn fetched(&self) -> Option<&Region> {
        self.fetched.as_ref()
    }

    /// Bytes of memory that it takes.
    pub(super) fn held(&self) -> usize {
        self.region.as_ref().map_or(0, len) + self.fetched.as_ref().map_or(0, len)
    }

    /// Where it lies, for the rank that writes to it.
    pub(super) fn place(&self) -> Place {
        let place = |region: &Region| Place {
            at: Remote { address: region.address(0), rkey: region.rkey() },
            len: u32::try_from(len(region)).unwrap_or(u32::MAX),
        };
        self.region.as_ref().map_or(Place::NONE, place)
    }
}

/// Where a slot lies in the memory of its receiver, as that one has told it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) at: Remote,
    pub(super) len: u32,
}

impl Place {
    const NONE: Place = Place { at: Remote { address: 0, rkey: 0 }, len: 0 };

    /// Tells it in these words of a region.
    pub(super) fn store(self, region: &Region, at: usize) -> Result<(), TransportError> {
        let words = region.segment().words(at, WORDS)?;
        let told = [self.at.address, u64::from(self.len) << 32 | u64::from(self.at.rkey)];
        words.iter().zip(told).for_each(|(word, told)| word.store(told.to_le(), Ordering::Relaxed));
        Ok(())
    }

    /// What was told there. It came before the credit for the slot, so whoever has that reads a whole one.
    pub(super) fn load(region: &Region, at: usize) -> Result<Place, TransportError> {
        let words = region.segment().words(at, WORDS)?;
        let [address, rest] = [0, 1].map(|at: usize| u64::from_le(words[at].load(Ordering::Relaxed)));
        Ok(Place { at: Remote { address, rkey: rest as u32 }, len: (rest >> 32) as u32 })
    }
}

fn len(region: &Region) -> usize {
    region.segment().len()
}

/// Memory for messages of a rank.
pub(super) fn registered(
    domain: &Arc<Domain>,
    rank: u32,
    bytes: usize,
    peers: Access,
) -> Result<Region, TransportError> {
    let segment = Segment::create("umbra-slot", bytes)?;
    let told = |error| TransportError::NotRegistered { rank, bytes: bytes as u64, code: code(&error) };
    Region::register(domain, Arc::new(segment), peers).map_err(told)
}
