//! Boundary exchange over RDMA: messages are written into the receiver's memory.
//!
//! Each pair of ranks has a queue pair. A message is one WRITE with immediate data into the slot of the receiver;
//! whoever completes it knows that head and payload are there, without another round trip. The immediate data is a
//! doorbell only: what the head says decides. What does not fit into the slot that the receiver has chosen stays in
//! registered memory of the sender, from where the receiver READs it. Votes and plans travel as messages do.
//!
//! ```text
//! word       kind (2 bits), slot or round (6), exchange (24)
//! board      for each rank, what it tells: its votes, where its slots lie, how long its plan is
//! slot       one message, registered by itself
//! outbox     for each rank: what is told there, two messages, and what did not fit into its slots, or its plan
//! ```
//!
//! A slot is as large as was announced, in whole pages. Before a rank grants credit for a slot that has become another one, it
//! tells on the same queue pair where that lies; so who has credit knows the place. What a peer tells is not believed: no message
//! is written that is longer than the slot, and a place with a wrong key breaks the queue pair of the two ranks, as a rank that
//! ends does. Plans, and what did not fit, are read into memory that is registered for it, and given back after a while.
//!
//! Ranks meet outside: each [greets](VerbsRing::greeting) all others and [connects](VerbsRing::connect) to them, before
//! any of them builds an exchange. A rank that ends breaks its queue pairs; the others find out in about half a second.
//!
//! *Cost*: one request and one completion a message; a copy more than within a machine. A slot that changes its size is registered
//! anew, and its place is one more request. The outbox is registered once, for the largest message.

mod link;
mod plan;
mod slot;

use std::cell::{RefCell, RefMut};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::boundary::{Entry, HEAD, Message, Peer, Place as At, Vote, bitmap_bytes};
use umbra_core::key::Access;

use super::extent::Extent;
use super::fabric::Fabric;
use super::held::Held;
use super::transport::{Transport, TransportError};
use crate::sys::segment::Segment;
use crate::verbs::{Domain, PIECE_MAX, Piece, Port, Region, Remote, VerbsError, Work};
use link::{BALLOT, BOARD, FETCHED, Fetch, Layout, Link, MESSAGE, SLOTS, TOLD, VOTE, WRITTEN, post, word};
pub use link::{GREETING_BYTES, Greeting};
use slot::{PLACE, Place, Slot};

/// How long a rank that ends waits until what it sent last has arrived.
const LINGER: Duration = Duration::from_secs(1);
/// Where the head of a message says which exchange of the other side was given up.
const CREDIT: usize = 48;

/// One rank's end.
#[derive(Debug)]
pub struct VerbsRing {
    rank: u32,
    layout: Layout,
    board: Region,
    outbox: Region,
    /// By rank; `None` for this one.
    links: Vec<Option<RefCell<Link>>>,
    /// Bytes in front of the first payload of a message, by rank: to it, and from it.
    heads: Vec<[usize; 2]>,
    own: [Option<(u32, Vote)>; 2],
}

impl VerbsRing {
    /// The end of one of so many ranks, whose messages are as large as the extent says, on a port of a device.
    ///
    /// # Errors
    /// [`VerbsError`], mostly because not so much memory may be locked; [`VerbsError::TooLong`] if a message can be longer than 1 GiB.
    pub fn new(port: &Port, extent: Extent, rank: u32) -> Result<VerbsRing, VerbsError> {
        let len = extent.message.into();
        if len > PIECE_MAX {
            return Err(VerbsError::TooLong { len, most: PIECE_MAX });
        }
        let domain = Domain::new(&port.device)?;
        let (ranks, layout) = (extent.ranks as usize, Layout { capacity: extent.capacity() });
        let region = |name, part: usize, peers| {
            let failed =
                |error| VerbsError::Call { what: "making memory for slots", error: std::io::Error::other(error) };
            let segment = Segment::create(name, ranks.max(1) * part).map_err(failed)?;
            Region::register(&domain, Arc::new(segment), peers)
        };
        let board = region("umbra-board", BOARD, Access::WRITE)?;
        let outbox = region("umbra-outbox", layout.outbox(), Access::READ)?;
        let link = |to: u32| match to == rank {
            true => Ok(None),
            false => Link::new(&domain, port, &board).map(|link| Some(RefCell::new(link))),
        };
        let links = (0..extent.ranks).map(link).collect::<Result<_, _>>()?;
        Ok(VerbsRing { rank, layout, board, outbox, links, heads: vec![[0; 2]; ranks], own: [None; 2] })
    }

    /// What another rank must know of this one to connect to it.
    #[must_use]
    pub fn greeting(&self, to: u32) -> Option<Greeting> {
        let link = self.links.get(to as usize)?.as_ref()?.borrow();
        let part = |region: &Region, bytes: usize| Remote {
            address: region.address(to as usize * bytes),
            rkey: region.rkey(),
        };
        let (board, outbox) = (part(&self.board, BOARD), part(&self.outbox, self.layout.outbox()));
        Some(Greeting { address: link.queue.address(), board, outbox })
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
        link.poll(rank, &self.board)?;
        Ok(link)
    }

    /// So many bytes of the outbox for a rank.
    fn piece(&self, to: u32, at: usize, bytes: usize) -> Piece<'_> {
        let offset = to as usize * self.layout.outbox() + at;
        Piece { region: &self.outbox, offset, len: u32::try_from(bytes).unwrap_or(u32::MAX) }
    }

    /// What this rank writes to the board of another one: so many bytes, which lie at the same place of the outbox for it.
    fn told(
        &self,
        to: u32,
        link: &Link,
        at: usize,
        bytes: usize,
        immediate: Option<u32>,
    ) -> Result<Work<'_>, TransportError> {
        let Some(Greeting { board, .. }) = link.peer else { return Err(TransportError::Silent { rank: to }) };
        let there = Remote { address: board.address.wrapping_add(at as u64), rkey: board.rkey };
        Ok(Work::Write { from: self.piece(to, at, bytes), to: there, immediate })
    }

    /// Tells a rank something on its board, with a word.
    fn tell(&self, to: u32, at: usize, bytes: usize, word: u32) -> Result<(), TransportError> {
        let link = &mut *self.link(to)?.borrow_mut();
        let told = self.told(to, link, at, bytes, Some(word))?;
        post(&mut link.queue, link.broken, to, &[(TOLD, told)])
    }

    /// Makes a slot for messages of a rank as large as they may be, and what tells where it lies, if that has changed. The rank may
    /// not write to the slot meanwhile.
    fn settle(&self, from: u32, link: &mut Link, slot: u32, now: bool) -> Result<Option<Work<'_>>, TransportError> {
        let nth = (slot % SLOTS) as usize;
        if !link.slots[nth].settle(self.board.domain(), from, now)? {
            return Ok(None);
        }
        let at = Layout::place(slot);
        link.slots[nth].place().store(&self.outbox, from as usize * self.layout.outbox() + at)?;
        self.told(from, link, at, PLACE, None).map(Some)
    }

    /// Bytes that a message of a rank may have, if it announced so many: its head is there in any case.
    fn room(&self, from: u32, announced: u32) -> usize {
        let head = self.heads.get(from as usize).map_or(0, |heads| heads[1]);
        head.max(announced as usize).min(self.layout.capacity)
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
        for from in (0..self.ranks()).filter(|&from| from != self.rank) {
            let peer = peers.iter().find(|peer| peer.rank() == from);
            let head = |channels: &Range<u32>| HEAD + bitmap_bytes(channels.len() as u32);
            let heads = peer.map_or([0; 2], |peer| [head(peer.out()), head(peer.inbound())]);
            self.heads[from as usize] = heads;
            let room = self.room(from, peer.map_or(0, Peer::slot_bytes));
            let link = &mut *self.polled(from)?;
            for slot in 0..SLOTS {
                link.slots[slot as usize].begin(room);
                if let Some(place) = self.settle(from, link, slot, true)? {
                    post(&mut link.queue, link.broken, from, &[(TOLD, place)])?;
                }
            }
        }
        Ok(())
    }

    fn may_write(&mut self, to: u32, slot: u32) -> Result<bool, TransportError> {
        Ok(!self.polled(to)?.sending[(slot % SLOTS) as usize])
    }

    fn write(&mut self, to: u32, slot: u32, place: At, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        let (part, at) = match place {
            At::Slot(at) => (self.layout.slot(slot), at as usize),
            At::Overflow(at) => (self.layout.overflow(slot), at as usize),
        };
        let part = to as usize * self.layout.outbox() + part;
        let words = self.words(&self.outbox, part, at / 8 + behind, values.len())?;
        for (word, value) in words.iter().zip(values) {
            word.store(value.to_bits().to_le(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn publish(&mut self, message: &Message, _epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        let Message { rank: to, slot, sequence, .. } = *message;
        let at = self.layout.slot(slot);
        let part = to as usize * self.layout.outbox() + at;
        Fabric::store_bytes(self.words(&self.outbox, part, 0, head.len().div_ceil(8))?, head);
        let first = self.heads.get(to as usize).map_or(0, |heads| heads[0]);
        let bytes = if message.in_slot > 0 { first + message.in_slot as usize } else { head.len() };
        let there = Place::load(&self.board, to as usize * BOARD + Layout::place(slot))?;
        if bytes > there.len as usize {
            return Err(TransportError::NoRoom { rank: to, bytes: bytes as u64, room: there.len.into() });
        }
        let link = &mut *self.link(to)?.borrow_mut();
        // The slot that this message grants credit for is the one of the exchange before: until then nobody writes to it.
        let before = sequence.wrapping_sub(1);
        let credit = head.get(CREDIT..).and_then(|head| head.first_chunk().copied()).map(u32::from_le_bytes);
        let place = if credit == Some(before) { self.settle(to, link, slot.wrapping_sub(1), false)? } else { None };
        let id = WRITTEN + u64::from(slot % SLOTS);
        let immediate = Some(word(MESSAGE, slot % SLOTS, sequence));
        let message = Work::Write { from: self.piece(to, at, bytes), to: there.at, immediate };
        match place {
            Some(place) => post(&mut link.queue, link.broken, to, &[(id, place), (id, message)])?,
            None => post(&mut link.queue, link.broken, to, &[(id, message)])?,
        }
        link.sending[(slot % SLOTS) as usize] = true;
        Ok(())
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        let link = self.polled(from)?;
        let slot = &link.slots[(slot % SLOTS) as usize];
        let Some(region) = slot.region().filter(|_| slot.came) else { return Ok(false) };
        // The head of another rank may be longer than all of this slot.
        let len = head.len().min(region.segment().len());
        Fabric::load_bytes(self.words(region, 0, 0, len.div_ceil(8))?, &mut head[..len]);
        Ok(true)
    }

    fn fetch(&mut self, from: u32, slot: u32, bytes: u32) -> Result<bool, TransportError> {
        let (nth, at) = ((slot % SLOTS) as usize, self.layout.overflow(slot));
        let (end, capacity) = (bytes.into(), self.layout.capacity as u64);
        if end > capacity {
            return Err(TransportError::SlotTooSmall { end, capacity });
        }
        let Link { queue, slots, peer, broken, .. } = &mut *self.polled(from)?;
        let slot = &mut slots[nth];
        if slot.fetch == Fetch::Not {
            let Some(Greeting { outbox, .. }) = *peer else { return Err(TransportError::Silent { rank: from }) };
            slot.room_beside(self.board.domain(), from, bytes as usize)?;
            let Some(region) = slot.fetched() else { return Ok(false) };
            let there = Remote { address: outbox.address.wrapping_add(at as u64), rkey: outbox.rkey };
            let read = Work::Read { from: there, to: Piece { region, offset: 0, len: bytes } };
            post(queue, *broken, from, &[(FETCHED + nth as u64, read)])?;
            slot.fetch = Fetch::Asked;
        }
        Ok(slot.fetch == Fetch::Done)
    }

    fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), TransportError> {
        let room = self.room(from, room);
        self.link(from)?.borrow_mut().slots[(slot % SLOTS) as usize].taken(room);
        Ok(())
    }

    fn read(&self, from: u32, slot: u32, place: At, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let link = self.link(from)?.borrow();
        let slot = &link.slots[(slot % SLOTS) as usize];
        let (region, at) = match place {
            At::Slot(at) => (slot.region(), at as usize),
            At::Overflow(at) => (slot.fetched(), at as usize),
        };
        let (end, capacity) = (((at / 8 + behind + into.len()) * 8) as u64, 0);
        let region = region.ok_or(TransportError::SlotTooSmall { end, capacity })?;
        let words = self.words(region, 0, at / 8 + behind, into.len())?;
        for (value, word) in into.iter_mut().zip(words) {
            *value = f64::from_bits(u64::from_le(word.load(Ordering::Relaxed)));
        }
        Ok(())
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.own[(round % 2) as usize] = Some((round, vote));
        let at = Layout::vote(round);
        for to in (0..self.ranks()).filter(|&to| to != self.rank) {
            let words = self.outbox.segment().words(to as usize * self.layout.outbox() + at, VOTE / 8)?;
            for (word, number) in words.iter().zip([round, vote.epoch, vote.sequence, vote.open]) {
                word.store(u64::from(number).to_le(), Ordering::Relaxed);
            }
            self.tell(to, at, VOTE, word(BALLOT, round % 2, round))?;
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
        let of = |link: &Link| {
            let plan = link.plan.as_ref().map_or(0, |plan| plan.into.segment().len());
            link.slots.iter().map(Slot::held).sum::<usize>() + plan
        };
        let slots: usize = self.links.iter().flatten().map(|link| of(&link.borrow())).sum();
        let [board, outbox] = [&self.board, &self.outbox].map(|region| region.segment().len());
        Some(Held { receive: (board + slots) as u64, send: outbox as u64 })
    }

    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.show_plan(to, bytes)
    }

    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        self.ask_plan(from)
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
