//! Boundary exchange over RDMA: messages are written into the receiver's memory.
//!
//! Each pair of ranks has a queue pair. A message is one WRITE with immediate data into the slot of the receiver;
//! whoever completes it knows that head and payload are there, without another round trip. The immediate data is a
//! doorbell only: what the head says decides. What does not fit into the slot that the receiver has chosen stays in
//! registered memory of the sender, from where the receiver READs it. Votes and plans travel as messages do.
//!
//! ```text
//! word       kind (2 bits), slot or round (6), exchange (24)
//! inbox      for each rank: its slots, its votes, its plan
//! outbox     for each rank: what is sent to those places, and then what did not fit there
//! ```
//!
//! Ranks meet outside: each [greets](VerbsRing::greeting) all others and [connects](VerbsRing::connect) to them, before
//! any of them builds an exchange. A rank that ends breaks its queue pairs; the others find out in about half a second.
//!
//! *Cost*: one request and one completion a message; a copy more than within a machine. Slots are registered as large
//! as the largest message, so that much is held whatever is announced; the choice of the receiver bounds what is written.

mod link;

use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::boundary::{Entry, HEAD, Message, Peer, Place, Vote, bitmap_bytes};
use umbra_core::key::Access;

use super::extent::Extent;
use super::fabric::Fabric;
use super::held::Held;
use super::transport::{Transport, TransportError};
use crate::sys::segment::Segment;
use crate::verbs::{Domain, Piece, Port, Region, Remote, VerbsError, Work};
use link::{BALLOT, FETCHED, Fetch, Layout, Link, MESSAGE, PLAN, SLOTS, VOTE, WRITTEN, word};
pub use link::{GREETING_BYTES, Greeting};

/// How long a rank that ends waits until what it sent last has arrived.
const LINGER: Duration = Duration::from_secs(1);

/// One rank's end.
#[derive(Debug)]
pub struct VerbsRing {
    rank: u32,
    layout: Layout,
    inbox: Region,
    outbox: Region,
    fetched: Region,
    /// By rank; `None` for this one.
    links: Vec<Option<RefCell<Link>>>,
    /// Bytes in front of the first payload of a message, by rank.
    heads: Vec<usize>,
    own: [Option<(u32, Vote)>; 2],
}

impl VerbsRing {
    /// The end of one of so many ranks, whose messages are as large as the extent says, on a port of a device.
    ///
    /// # Errors
    /// [`VerbsError`], mostly because not so much memory may be locked.
    pub fn new(port: &Port, extent: Extent, rank: u32) -> Result<VerbsRing, VerbsError> {
        let domain = Domain::new(&port.device)?;
        let (ranks, layout) = (extent.ranks as usize, Layout { capacity: extent.capacity() });
        let region = |name, part: usize, peers| {
            let failed =
                |error| VerbsError::Call { what: "making memory for slots", error: std::io::Error::other(error) };
            let segment = Segment::create(name, ranks.max(1) * part).map_err(failed)?;
            Region::register(&domain, Arc::new(segment), peers)
        };
        let inbox = region("umbra-inbox", layout.inbox(), Access::WRITE)?;
        let outbox = region("umbra-outbox", layout.outbox(), Access::READ)?;
        let fetched = region("umbra-fetched", SLOTS as usize * layout.capacity, Access::empty())?;
        let link = |to: u32| match to == rank {
            true => Ok(None),
            false => Link::new(&domain, port, &inbox).map(|link| Some(RefCell::new(link))),
        };
        let links = (0..extent.ranks).map(link).collect::<Result<_, _>>()?;
        Ok(VerbsRing { rank, layout, inbox, outbox, fetched, links, heads: vec![0; ranks], own: [None; 2] })
    }

    /// What another rank must know of this one to connect to it.
    #[must_use]
    pub fn greeting(&self, to: u32) -> Option<Greeting> {
        let link = self.links.get(to as usize)?.as_ref()?.borrow();
        let part = |region: &Region, bytes: usize| Remote {
            address: region.address(to as usize * bytes),
            rkey: region.rkey(),
        };
        let (inbox, outbox) = (part(&self.inbox, self.layout.inbox()), part(&self.outbox, self.layout.outbox()));
        Some(Greeting { address: link.queue.address(), inbox, outbox })
    }

    /// Connects to a rank that connects to this one likewise.
    ///
    /// # Errors
    /// [`VerbsError`].
    pub fn connect(&mut self, from: u32, greeting: &Greeting) -> Result<(), VerbsError> {
        let Some(link) = self.links.get(from as usize).and_then(Option::as_ref) else { return Ok(()) };
        let link = &mut *link.borrow_mut();
        link.queue.connect(&greeting.address)?;
        link.peer = Some(*greeting);
        Ok(())
    }

    fn link(&self, rank: u32) -> Result<&RefCell<Link>, TransportError> {
        let none = TransportError::NoRank { rank, ranks: self.links.len() as u32 };
        self.links.get(rank as usize).and_then(Option::as_ref).ok_or(none)
    }

    /// The link to a rank, after what has ended was noted.
    fn polled(&self, rank: u32) -> Result<RefMut<'_, Link>, TransportError> {
        let mut link = self.link(rank)?.borrow_mut();
        let votes = [0, 1].map(|round| rank as usize * self.layout.inbox() + self.layout.vote(round));
        link.poll(rank, &self.inbox, votes)?;
        Ok(link)
    }

    /// Sends so many bytes of the outbox for a rank to the same place of the inbox there.
    fn send(&self, to: u32, id: u64, at: usize, bytes: usize, word: u32) -> Result<(), TransportError> {
        let mut link = self.link(to)?.borrow_mut();
        let Some(Greeting { inbox, .. }) = link.peer else { return Err(TransportError::Silent { rank: to }) };
        let from = Piece {
            region: &self.outbox,
            offset: to as usize * self.layout.outbox() + at,
            len: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        let there = Remote { address: inbox.address.wrapping_add(at as u64), rkey: inbox.rkey };
        link.post(to, id, Work::Write { from, to: there, immediate: Some(word) })?;
        if let Some(sending) = link.sending.get_mut(id as usize) {
            *sending = true;
        }
        Ok(())
    }

    /// So many words of a part of a region, from one on, of those that a message may have.
    fn words<'r>(
        &self,
        region: &'r Region,
        part: usize,
        first: usize,
        len: usize,
    ) -> Result<&'r [AtomicU64], TransportError> {
        let (end, capacity) = (((first + len) * 8) as u64, self.layout.capacity as u64);
        if end > capacity {
            return Err(TransportError::SlotTooSmall { end, capacity });
        }
        Ok(region.segment().words(part + first * 8, len)?)
    }

    fn inbox(&self, from: u32, slot: u32) -> usize {
        from as usize * self.layout.inbox() + self.layout.slot(slot)
    }

    const fn fetched(&self, from: u32, slot: u32) -> usize {
        from as usize * SLOTS as usize * self.layout.capacity + self.layout.slot(slot)
    }
}

impl Transport for VerbsRing {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.links.len() as u32
    }

    fn slots(&self) -> u32 {
        SLOTS
    }

    fn plans(&mut self, _epoch: u32, peers: &[Peer], _: &[Entry]) -> Result<(), TransportError> {
        for peer in peers {
            if let Some(head) = self.heads.get_mut(peer.rank() as usize) {
                *head = HEAD + bitmap_bytes(peer.out().len() as u32);
            }
        }
        Ok(())
    }

    fn may_write(&mut self, to: u32, slot: u32) -> Result<bool, TransportError> {
        Ok(!self.polled(to)?.sending[(slot % SLOTS) as usize])
    }

    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        let (part, at) = match place {
            Place::Slot(at) => (self.layout.slot(slot), at as usize),
            Place::Overflow(at) => (self.layout.overflow(slot), at as usize),
        };
        let part = to as usize * self.layout.outbox() + part;
        let words = self.words(&self.outbox, part, at / 8 + behind, values.len())?;
        for (word, value) in words.iter().zip(values) {
            word.store(value.to_bits().to_le(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn publish(&mut self, message: &Message, _epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        let Message { rank: to, slot, .. } = *message;
        let at = self.layout.slot(slot);
        let part = to as usize * self.layout.outbox() + at;
        Fabric::store_bytes(self.words(&self.outbox, part, 0, head.len().div_ceil(8))?, head);
        let first = self.heads.get(to as usize).copied().unwrap_or(0);
        let bytes = if message.in_slot > 0 { first + message.in_slot as usize } else { head.len() };
        let id = WRITTEN + u64::from(slot % SLOTS);
        self.send(to, id, at, bytes, word(MESSAGE, slot % SLOTS, message.sequence))
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        if !self.polled(from)?.came[(slot % SLOTS) as usize] {
            return Ok(false);
        }
        let words = self.words(&self.inbox, self.inbox(from, slot), 0, head.len().div_ceil(8))?;
        Fabric::load_bytes(words, head);
        Ok(true)
    }

    fn fetch(&mut self, from: u32, slot: u32, bytes: u32) -> Result<bool, TransportError> {
        let nth = (slot % SLOTS) as usize;
        let (offset, at) = (self.fetched(from, slot), self.layout.overflow(slot));
        self.words(&self.fetched, offset, 0, bytes.div_ceil(8) as usize)?;
        let mut link = self.polled(from)?;
        if link.fetch[nth] == Fetch::Not {
            let Some(Greeting { outbox, .. }) = link.peer else { return Err(TransportError::Silent { rank: from }) };
            let to = Piece { region: &self.fetched, offset, len: bytes };
            let there = Remote { address: outbox.address.wrapping_add(at as u64), rkey: outbox.rkey };
            link.post(from, FETCHED + nth as u64, Work::Read { from: there, to })?;
            link.fetch[nth] = Fetch::Asked;
        }
        Ok(link.fetch[nth] == Fetch::Done)
    }

    fn taken(&mut self, from: u32, slot: u32, _room: u32) -> Result<(), TransportError> {
        let mut link = self.link(from)?.borrow_mut();
        link.came[(slot % SLOTS) as usize] = false;
        link.fetch[(slot % SLOTS) as usize] = Fetch::Not;
        Ok(())
    }

    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let (region, part, at) = match place {
            Place::Slot(at) => (&self.inbox, self.inbox(from, slot), at as usize),
            Place::Overflow(at) => (&self.fetched, self.fetched(from, slot), at as usize),
        };
        let words = self.words(region, part, at / 8 + behind, into.len())?;
        for (value, word) in into.iter_mut().zip(words) {
            *value = f64::from_bits(u64::from_le(word.load(Ordering::Relaxed)));
        }
        Ok(())
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.own[(round % 2) as usize] = Some((round, vote));
        let at = self.layout.vote(round);
        for to in (0..self.ranks()).filter(|&to| to != self.rank) {
            let words = self.outbox.segment().words(to as usize * self.layout.outbox() + at, VOTE / 8)?;
            for (word, number) in words.iter().zip([round, vote.epoch, vote.sequence, vote.open]) {
                word.store(u64::from(number).to_le(), Ordering::Relaxed);
            }
            self.send(to, u64::MAX, at, VOTE, word(BALLOT, round % 2, round))?;
        }
        Ok(())
    }

    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        let votes = if rank == self.rank { self.own } else { self.polled(rank)?.votes };
        Ok(votes[(round % 2) as usize].filter(|(of, _)| *of == round).map(|(_, vote)| vote))
    }

    fn keeps_plans(&self) -> bool {
        true
    }

    fn held(&self) -> Option<Held> {
        let bytes = |region: &Region| region.segment().len() as u64;
        Some(Held { receive: bytes(&self.inbox) + bytes(&self.fetched), send: bytes(&self.outbox) })
    }

    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        let at = self.layout.plan();
        let part = to as usize * self.layout.outbox() + at;
        let words = self.words(&self.outbox, part, 0, 1 + bytes.len().div_ceil(8))?;
        words[0].store((bytes.len() as u64).to_le(), Ordering::Relaxed);
        Fabric::store_bytes(&words[1..], bytes);
        self.send(to, u64::MAX, at, words.len() * 8, word(PLAN, 0, 0))
    }

    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        // It came before the vote that has come, on the same queue pair.
        let part = from as usize * self.layout.inbox() + self.layout.plan();
        let len = u64::from_le(self.words(&self.inbox, part, 0, 1)?[0].load(Ordering::Relaxed));
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.layout.capacity);
        let words = self.words(&self.inbox, part, 1, len.div_ceil(8))?;
        let mut bytes = vec![0; len];
        Fabric::load_bytes(words, &mut bytes);
        Ok(Some(bytes))
    }
}

impl Drop for VerbsRing {
    /// What was sent last arrives before the memory goes that it is sent from, if its receiver lives.
    fn drop(&mut self) {
        let begun = Instant::now();
        let ranks = 0..self.ranks();
        for rank in ranks.filter(|&rank| rank != self.rank) {
            while begun.elapsed() < LINGER {
                match self.polled(rank) {
                    Ok(link) if link.queue.is_busy() => {}
                    _ => break,
                }
                std::thread::yield_now();
            }
        }
    }
}
