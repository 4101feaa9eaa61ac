//! Boundary exchange over MPI as mesh codes do it: a message for each strip.
//!
//! The message is empty where there is nothing. The transport is kept to compare with, and because programs with the
//! same messages exist. *Early*: a receive as large as the strip is posted for each channel before the sender sends.
//! *Probe*: a receive of the right size is posted when the message was seen, so memory is taken for strips that hold
//! something only. One message more for each peer carries the head.
//!
//! ```text
//! tag slot                    the head
//! tag 2 (channel + 4) + slot  a strip, by its place in the plan
//! ```
//!
//! *Cost*: a message and at least one test for each channel.

use std::time::Duration;

use umbra::boundary::{Transport, TransportError};
use umbra_core::boundary::{Entry, HEAD, Head, Message, Peer, Place, Vote, bitmap_bytes};

use crate::ballot::{Ballot, STRIPS};
use crate::raw::{Buffer, Communicator};

/// Two let a peer be one exchange ahead.
const SLOTS: u32 = 2;

/// When memory is taken for what comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Early,
    Probed,
}

/// A strip that comes.
#[derive(Debug)]
struct Strip {
    bytes: usize,
    buffer: Buffer,
    /// A receive was posted for it.
    posted: bool,
    /// Its bytes, once it is here.
    came: Option<usize>,
}

/// All messages of a peer's exchange.
#[derive(Debug)]
struct Coming {
    head: Strip,
    strips: Vec<Strip>,
    /// Where the payloads would lie in one message, in order, and whose they are.
    places: Vec<(bool, u32, usize)>,
    whole: bool,
}

/// Both directions with one peer.
#[derive(Debug)]
struct Ends {
    /// Slot, overflow, and the head.
    out: Vec<[Buffer; 3]>,
    sizes: Vec<usize>,
    into: Vec<Coming>,
}

/// One rank's end.
#[derive(Debug)]
pub struct MpiStrips {
    ballot: Ballot,
    when: When,
    /// By rank; `None` for those that nothing is exchanged with.
    peers: Vec<Option<Ends>>,
}

const fn tag(slot: u32, channel: usize) -> u32 {
    STRIPS + 2 * channel as u32 + slot % SLOTS
}

impl Strip {
    fn new(bytes: usize) -> Strip {
        Strip { bytes, buffer: Buffer::new(0), posted: false, came: None }
    }

    fn post(&mut self, world: &Communicator, from: u32, tag: u32, bytes: usize) -> Result<(), TransportError> {
        self.buffer.resize(bytes);
        self.buffer.receive(world, from, tag, bytes)?;
        self.posted = true;
        Ok(())
    }

    /// Whether it is here; looks for it first if it was not posted.
    fn poll(&mut self, world: &Communicator, from: u32, tag: u32) -> Result<bool, TransportError> {
        if self.came.is_none() && !self.posted {
            let Some(bytes) = world.probe(from, tag)? else { return Ok(false) };
            self.post(world, from, tag, bytes)?;
        }
        if self.came.is_none() {
            self.came = self.buffer.test()?;
        }
        Ok(self.came.is_some())
    }
}

impl Coming {
    /// Ready for the next exchange.
    fn again(&mut self, world: &Communicator, from: u32, slot: u32, when: When) -> Result<(), TransportError> {
        self.whole = false;
        self.places.clear();
        for (channel, strip) in self.strips.iter_mut().enumerate() {
            (strip.posted, strip.came) = (false, None);
            if when == When::Early {
                strip.post(world, from, tag(slot, channel), strip.bytes)?;
            }
        }
        (self.head.posted, self.head.came) = (false, None);
        self.head.post(world, from, slot % SLOTS, self.head.bytes)
    }

    fn head(&self, head: &mut [u8]) {
        // Behind the end of a short message is nothing: not what lay there before.
        head.fill(0);
        let words = self.head.buffer.words().unwrap_or(&[]);
        for (to, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words).take(self.head.came.unwrap_or(0) / 8) {
            *to = word.to_ne_bytes();
        }
    }

    /// Where each strip would lie in one message. A head that says anything else than came is refused by the exchange.
    fn place(&mut self, head: &[u8]) {
        let in_slot = Head::parse(head).map_or(0, |(head, _)| head.payload.saturating_sub(u64::from(head.overflow)));
        let (mut used, mut over) = (0u64, 0u64);
        let first = (HEAD + bitmap_bytes(self.strips.len() as u32)) as u64;
        for (channel, strip) in self.strips.iter().enumerate().filter(|(_, strip)| strip.came != Some(0)) {
            let (is_over, sum, from) = if used < in_slot { (false, &mut used, first) } else { (true, &mut over, 0) };
            self.places.push((is_over, (from + *sum) as u32, channel));
            *sum += strip.bytes as u64;
        }
    }
}

impl MpiStrips {
    fn new(world: Communicator, deadline: Option<Duration>, when: When) -> Result<MpiStrips, TransportError> {
        let ballot = Ballot::new(world, deadline, || Ok(()))?;
        Ok(MpiStrips { when, peers: (0..world.size()).map(|_| None).collect(), ballot })
    }

    /// The end of this process, with a receive posted for each strip; made as [`MpiSlot`](crate::MpiSlot::new).
    ///
    /// # Errors
    /// [`TransportError::Silent`] names who did not come.
    pub fn early(world: Communicator, deadline: Option<Duration>) -> Result<MpiStrips, TransportError> {
        MpiStrips::new(world, deadline, When::Early)
    }

    /// The end of this process, with receives for what was seen; otherwise as [`early`](Self::early).
    ///
    /// # Errors
    /// [`TransportError::Silent`] names who did not come.
    pub fn probing(world: Communicator, deadline: Option<Duration>) -> Result<MpiStrips, TransportError> {
        MpiStrips::new(world, deadline, When::Probed)
    }

    fn ends_mut(&mut self, rank: u32) -> Result<&mut Ends, TransportError> {
        let none = TransportError::NoRank { rank, ranks: self.peers.len() as u32 };
        self.peers.get_mut(rank as usize).and_then(Option::as_mut).ok_or(none)
    }
}

impl Transport for MpiStrips {
    fn rank(&self) -> u32 {
        self.ballot.world().rank()
    }

    fn ranks(&self) -> u32 {
        self.ballot.world().size()
    }

    fn slots(&self) -> u32 {
        SLOTS
    }

    fn plans(&mut self, _epoch: u32, peers: &[Peer], entries: &[Entry]) -> Result<(), TransportError> {
        let (world, when) = (*self.ballot.world(), self.when);
        self.peers.iter_mut().for_each(|ends| *ends = None);
        for peer in peers {
            let sizes = |range: &std::ops::Range<u32>| -> Vec<usize> {
                let entries = &entries[range.start as usize..range.end as usize];
                entries.iter().map(|entry| entry.count as usize * 8).collect()
            };
            let (out, inbound) = (sizes(peer.out()), sizes(peer.inbound()));
            let head = |strips: usize| HEAD + bitmap_bytes(strips as u32);
            let dense = out.iter().sum::<usize>() + head(out.len());
            let coming = || Coming {
                head: Strip::new(head(inbound.len())),
                strips: inbound.iter().map(|&bytes| Strip::new(bytes)).collect(),
                places: Vec::new(),
                whole: false,
            };
            let mut into: Vec<_> = (0..SLOTS).map(|_| coming()).collect();
            for (slot, coming) in (0..).zip(&mut into) {
                coming.again(&world, peer.rank(), slot, when)?;
            }
            let areas = |_| [Buffer::new(dense), Buffer::new(dense), Buffer::new(head(out.len()))];
            let ends = Ends { out: (0..SLOTS).map(areas).collect(), sizes: out, into };
            let ranks = self.peers.len() as u32;
            let place = self.peers.get_mut(peer.rank() as usize);
            *place.ok_or(TransportError::NoRank { rank: peer.rank(), ranks })? = Some(ends);
        }
        Ok(())
    }

    fn may_write(&mut self, to: u32, slot: u32) -> Result<bool, TransportError> {
        let mut all = true;
        for buffer in &mut self.ends_mut(to)?.out[(slot % SLOTS) as usize] {
            all &= buffer.test()?.is_some();
        }
        Ok(all)
    }

    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        let [in_slot, over, _] = &mut self.ends_mut(to)?.out[(slot % SLOTS) as usize];
        let (buffer, at) = match place {
            Place::Slot(at) => (in_slot, at as usize),
            Place::Overflow(at) => (over, at as usize),
        };
        crate::slot::store(buffer.words_mut().unwrap_or(&mut []), at / 8 + behind, values)
    }

    fn publish(&mut self, message: &Message, _epoch: u32, bytes: &[u8]) -> Result<(), TransportError> {
        let (world, to, slot) = (*self.ballot.world(), message.rank, message.slot);
        let Ends { out, sizes, .. } = self.ends_mut(to)?;
        let [in_slot, over, head] = &mut out[(slot % SLOTS) as usize];
        for (word, bytes) in head.words_mut().unwrap_or(&mut []).iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        // Our own head, which says which strips are there.
        let Ok((_, live)) = Head::parse(bytes) else { return Err(TransportError::Silent { rank: world.rank() }) };
        let first = HEAD + bitmap_bytes(sizes.len() as u32);
        let (end, mut used, mut above) = (first + message.in_slot as usize, first, 0);
        for (channel, &size) in sizes.iter().enumerate() {
            let (buffer, from, len) = match live.is(channel) {
                false => (&mut *head, 0, 0),
                true if used < end => (&mut *in_slot, used, size),
                true => (&mut *over, above, size),
            };
            buffer.send(&world, to, tag(slot, channel), from..from + len)?;
            if used < end {
                used += len;
            } else {
                above += len;
            }
        }
        Ok(head.send(&world, to, slot % SLOTS, 0..bytes.len())?)
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        let world = *self.ballot.world();
        let coming = &mut self.ends_mut(from)?.into[(slot % SLOTS) as usize];
        if !coming.whole {
            let mut whole = coming.head.poll(&world, from, slot % SLOTS)?;
            for (channel, strip) in coming.strips.iter_mut().enumerate() {
                whole &= strip.poll(&world, from, tag(slot, channel))?;
            }
            if !whole {
                return Ok(false);
            }
            coming.whole = true;
            coming.head(head);
            coming.place(head);
        }
        coming.head(head);
        Ok(true)
    }

    fn taken(&mut self, from: u32, slot: u32, _room: u32) -> Result<(), TransportError> {
        let (world, when) = (*self.ballot.world(), self.when);
        self.ends_mut(from)?.into[(slot % SLOTS) as usize].again(&world, from, slot, when)
    }

    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let silent = TransportError::Silent { rank: from };
        let ends = self.peers.get(from as usize).and_then(Option::as_ref).ok_or(silent)?;
        let coming = &ends.into[(slot % SLOTS) as usize];
        let key = match place {
            Place::Slot(at) => (false, at),
            Place::Overflow(at) => (true, at),
        };
        let at = coming.places.binary_search_by_key(&key, |&(over, at, _)| (over, at)).map_err(|_| silent)?;
        let strip = &coming.strips[coming.places[at].2];
        crate::slot::load(strip.buffer.words().unwrap_or(&[]), behind, into)
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.ballot.vote(round, vote)
    }

    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        self.ballot.vote_of(rank, round)
    }

    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.ballot.write_plan(to, bytes)
    }

    fn read_plan(&self, from: u32) -> Result<Vec<u8>, TransportError> {
        self.ballot.read_plan(from)
    }
}
