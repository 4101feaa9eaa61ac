//! Boundary exchange over MPI with one message a peer, into a posted slot.
//!
//! The receiver's slot is posted before the sender sends. What the receiver chose as the size of a slot is what it
//! keeps memory for, and what it has posted. What does not fit follows in a second message, for which the receiver
//! takes exactly the memory that it needs, when it knows the size.
//!
//! ```text
//! tag 2n      message into slot n: head, bitmap, payloads
//! tag 2n + 1  what did not fit into slot n, behind a word: epoch and exchange of the message that it belongs to
//! ```
//!
//! A message that is refused may have had such a second one, of which its head cannot be believed. It stays queued until one of
//! a later message is fetched from the same slot, and is dropped then if its first word is another one.
//!
//! A message that is not as long as its head says is refused, with the rank that has sent it: it has no part for each strip.
//!
//! *Cost*: two calls of MPI a message, three more where not all of it fits, and one test a look; a copy from the field and one
//! into it; the head of what came is read once more.

use std::time::Duration;

use umbra::boundary::{Held, Transport, TransportError};
use umbra_core::boundary::{Entry, HEAD, Message, Peer, Place, Vote, bitmap_bytes};

use crate::ballot::Ballot;
use crate::heads;
use crate::raw::{Buffer, Came, Communicator, count};

/// Two let a peer be one exchange ahead. With more, a sender could know of a slot before the receiver has posted it.
pub(crate) const SLOTS: u32 = 2;

/// Bytes of the word in front of what did not fit.
const NAME: usize = size_of::<u64>();

/// The word that names a message.
const fn name(epoch: u32, sequence: u32) -> u64 {
    (epoch as u64) << 32 | sequence as u64
}

/// How far what did not fit into a slot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fetching {
    /// A second message of so many bytes was seen and is being received.
    Coming(usize),
    /// That of the message in the slot is here, with so many bytes behind its name.
    Here(usize),
}

/// A slot and what does not fit into it.
#[derive(Debug)]
struct Two {
    slot: Buffer,
    overflow: Buffer,
    /// Bytes that may come into the slot.
    room: usize,
    /// The message is here and was not taken yet.
    came: Option<Came>,
    /// Which message that is, if its head says so.
    name: Option<u64>,
    fetching: Option<Fetching>,
}

impl Two {
    fn new(slot: usize, overflow: usize) -> Two {
        let (slot, overflow, room) = (Buffer::new(slot), Buffer::new(overflow), slot);
        Two { slot, overflow, room, came: None, name: None, fetching: None }
    }

    fn area(&self, place: Place) -> (&Buffer, usize) {
        match place {
            Place::Slot(at) => (&self.slot, at as usize),
            Place::Overflow(at) => (&self.overflow, NAME + at as usize),
        }
    }

    /// Whether so many bytes that came beside the slot belong to the message in it.
    fn is_own(&self, bytes: usize) -> bool {
        let first = self.overflow.words().and_then(<[u64]>::first).copied().map(u64::from_le);
        bytes >= NAME && first.is_some() && first == self.name
    }
}

/// Both directions with one peer.
#[derive(Debug)]
struct Ends {
    out: Vec<Two>,
    into: Vec<Two>,
    /// Bytes in front of the first payload of a message to it.
    head: usize,
    /// The same of a message from it.
    head_of: usize,
    /// Bytes of all its strips, of whichever epoch they are the most: more can be beside no slot.
    dense_of: usize,
}

/// One rank's end.
#[derive(Debug)]
pub struct MpiSlot {
    ballot: Ballot,
    /// By rank; `None` for those that nothing is exchanged with.
    peers: Vec<Option<Ends>>,
}

impl MpiSlot {
    /// The end of this process among those of a communicator; each has one at a time: drop it before the next one is made, or that is
    /// [`TransportError::HasEnd`]. All processes call this, and it waits for all, until the deadline if there is one. A process
    /// that does not come is named, and no end is made on this communicator any more.
    ///
    /// # Errors
    /// [`TransportError::Silent`] names who did not come, also each time after that.
    pub fn new(world: Communicator, deadline: Option<Duration>) -> Result<MpiSlot, TransportError> {
        let ballot = Ballot::new(world, deadline)?;
        Ok(MpiSlot { peers: (0..world.size()).map(|_| None).collect(), ballot })
    }

    const fn world(&self) -> &Communicator {
        self.ballot.world()
    }

    fn ends(&self, rank: u32) -> Result<&Ends, TransportError> {
        let none = TransportError::NoRank { rank, ranks: self.peers.len() as u32 };
        self.peers.get(rank as usize).and_then(Option::as_ref).ok_or(none)
    }

    fn ends_mut(&mut self, rank: u32) -> Result<&mut Ends, TransportError> {
        let none = TransportError::NoRank { rank, ranks: self.peers.len() as u32 };
        self.peers.get_mut(rank as usize).and_then(Option::as_mut).ok_or(none)
    }
}

/// Of the message into a slot, and of what belongs to it.
pub(crate) const fn tags(slot: u32) -> (u32, u32) {
    (2 * (slot % SLOTS), 2 * (slot % SLOTS) + 1)
}

/// Writes values from a word on.
pub(crate) fn store(words: &mut [u64], first: usize, values: &[f64]) -> Result<(), TransportError> {
    let (end, capacity) = ((first + values.len()) as u64 * 8, words.len() as u64 * 8);
    let words = words.get_mut(first..first + values.len()).ok_or(TransportError::SlotTooSmall { end, capacity })?;
    for (word, value) in words.iter_mut().zip(values) {
        *word = value.to_bits().to_le();
    }
    Ok(())
}

/// Reads values from a word on.
pub(crate) fn load(words: &[u64], first: usize, into: &mut [f64]) -> Result<(), TransportError> {
    let (end, capacity) = ((first + into.len()) as u64 * 8, words.len() as u64 * 8);
    let words = words.get(first..first + into.len()).ok_or(TransportError::SlotTooSmall { end, capacity })?;
    for (value, word) in into.iter_mut().zip(words) {
        *value = f64::from_bits(u64::from_le(*word));
    }
    Ok(())
}

impl Transport for MpiSlot {
    fn rank(&self) -> u32 {
        self.world().rank()
    }

    fn ranks(&self) -> u32 {
        self.world().size()
    }

    fn slots(&self) -> u32 {
        SLOTS
    }

    fn plans(&mut self, _epoch: u32, peers: &[Peer], entries: &[Entry]) -> Result<(), TransportError> {
        let world = *self.world();
        // Nothing is under way but the receives that were posted for exchanges that never were, and what refused messages have left.
        let before = self.peers.iter_mut().map(|ends| ends.take().map_or(0, |ends| ends.dense_of));
        let before: Vec<usize> = before.collect();
        for peer in peers {
            let (out, room) = (peer.out(), peer.slot_bytes() as usize);
            let [head, head_of] = [&out, &peer.inbound()].map(|entries| HEAD + bitmap_bytes(entries.len() as u32));
            let [payload, dense_of] = [&out, &peer.inbound()].map(|part| {
                let bytes: u64 = entries[part.start as usize..part.end as usize].iter().map(Entry::bytes).sum();
                usize::try_from(bytes).unwrap_or(usize::MAX)
            });
            let dense = payload.saturating_add(head);
            let dense_of = before.get(peer.rank() as usize).map_or(dense_of, |&before| before.max(dense_of));
            let mut into: Vec<_> = (0..SLOTS).map(|_| Two::new(room, 0)).collect();
            for (slot, two) in (0..).zip(&mut into) {
                two.slot.receive(&world, peer.rank(), tags(slot).0, room)?;
            }
            let out = (0..SLOTS).map(|_| Two::new(dense, NAME + dense)).collect();
            let ranks = self.peers.len() as u32;
            let place = self.peers.get_mut(peer.rank() as usize);
            *place.ok_or(TransportError::NoRank { rank: peer.rank(), ranks })? =
                Some(Ends { out, into, head, head_of, dense_of });
        }
        Ok(())
    }

    fn may_write(&mut self, to: u32, slot: u32) -> Result<bool, TransportError> {
        let two = &mut self.ends_mut(to)?.out[(slot % SLOTS) as usize];
        Ok(two.slot.test()?.is_some() && two.overflow.test()?.is_some())
    }

    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        let two = &mut self.ends_mut(to)?.out[(slot % SLOTS) as usize];
        let (buffer, at) = match place {
            Place::Slot(at) => (&mut two.slot, at as usize),
            Place::Overflow(at) => (&mut two.overflow, NAME + at as usize),
        };
        store(buffer.words_mut().unwrap_or(&mut []), at / 8 + behind, values)
    }

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        let (world, (tag, overflow)) = (*self.world(), tags(message.slot));
        let ends = self.ends_mut(message.rank)?;
        let bytes = if message.in_slot > 0 { ends.head + message.in_slot as usize } else { head.len() };
        let above = NAME + message.overflow as usize;
        // Whoever gets the first part waits for the second.
        count("MPI_Isend", above)?;
        let two = &mut ends.out[(message.slot % SLOTS) as usize];
        let words = two.slot.words_mut().unwrap_or(&mut []);
        for (word, bytes) in words.iter_mut().zip(head.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        two.slot.send(&world, message.rank, tag, 0..bytes)?;
        if message.overflow > 0 {
            let first = two.overflow.words_mut().and_then(<[u64]>::first_mut);
            first.into_iter().for_each(|word| *word = name(epoch, message.sequence).to_le());
            two.overflow.send(&world, message.rank, overflow, 0..above)?;
        }
        Ok(())
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        let ends = self.ends_mut(from)?;
        let (most, two) = (ends.head_of, &mut ends.into[(slot % SLOTS) as usize]);
        if two.came.is_none() {
            two.came = two.slot.test()?;
        }
        if two.came.is_none() {
            return Ok(false);
        }
        let inspected = heads::in_slot(from, two.came, (&two.slot, two.room), head, most)?;
        two.name = inspected.map(|head| name(head.epoch, head.sequence));
        Ok(true)
    }

    fn fetch(&mut self, from: u32, slot: u32, bytes: u32) -> Result<bool, TransportError> {
        let (world, (_, tag)) = (*self.world(), tags(slot));
        let ends = self.ends_mut(from)?;
        let (most, two) = (ends.dense_of, &mut ends.into[(slot % SLOTS) as usize]);
        if two.fetching.is_none() {
            // Messages do not overtake each other, so this is the oldest, which may be of a message that was refused.
            let Some(seen) = world.probe(from, tag)? else { return Ok(false) };
            let came = seen.saturating_sub(NAME);
            if came > most {
                return heads::same(from, bytes as usize, came).map(|()| false);
            }
            two.overflow.resize(seen);
            two.overflow.receive(&world, from, tag, seen)?;
            two.fetching = Some(Fetching::Coming(seen));
        }
        if let Some(Fetching::Coming(seen)) = two.fetching {
            if two.overflow.test()?.is_none() {
                return Ok(false);
            }
            // One that is dropped is all for this look: a call does not go on as long as such come.
            two.fetching = if two.is_own(seen) { Some(Fetching::Here(seen - NAME)) } else { None };
        }
        match two.fetching {
            Some(Fetching::Here(came)) => heads::same(from, bytes as usize, came).map(|()| true),
            _ => Ok(false),
        }
    }

    fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), TransportError> {
        let (world, (tag, _)) = (*self.world(), tags(slot));
        let two = &mut self.ends_mut(from)?.into[(slot % SLOTS) as usize];
        (two.came, two.name, two.fetching, two.room) = (None, None, None, room as usize);
        two.overflow.resize(0);
        two.slot.resize(room as usize);
        Ok(two.slot.receive(&world, from, tag, room as usize)?)
    }

    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let (buffer, at) = self.ends(from)?.into[(slot % SLOTS) as usize].area(place);
        load(buffer.words().unwrap_or(&[]), at / 8 + behind, into)
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.ballot.vote(round, vote)
    }

    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        self.ballot.vote_of(rank, round)
    }

    fn held(&self) -> Option<Held> {
        let bytes = |ends: &[Two]| ends.iter().map(|two| two.slot.bytes() + two.overflow.bytes()).sum::<u64>();
        let mut held = Held::default();
        for ends in self.peers.iter().flatten() {
            held.receive += bytes(&ends.into);
            held.send += bytes(&ends.out);
        }
        Some(held)
    }

    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.ballot.write_plan(to, bytes)
    }

    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        self.ballot.read_plan(from)
    }
}
