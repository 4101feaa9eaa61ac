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
//! Each strip that leaves or comes is a [`Channel`], one for each slot, which counts bytes. So what the table of states
//! forbids is refused, with the key of the channel: a message that is not as long as its strip, a second one while the
//! first is under way.
//!
//! *Cost*: a message and at least one test for each channel.

use std::ops::Range;
use std::time::Duration;

use umbra::boundary::{Transport, TransportError};
use umbra_core::boundary::{
    Channel, Entry, HEAD, Key, Message, Peer, Place, Refusal, Role, Sent, Start, Vote, bitmap_bytes,
};

use crate::ballot::{Ballot, STRIPS};
use crate::heads;
use crate::raw::{Buffer, Came, Communicator};

/// Two let a peer be one exchange ahead.
const SLOTS: u32 = 2;

/// When memory is taken for what comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Early,
    Probed,
}

/// A strip that leaves; its values lie in the area of its peer.
#[derive(Debug)]
struct Leaving {
    key: Key,
    channel: Channel<()>,
}

/// A strip that comes.
#[derive(Debug)]
struct Coming {
    key: Key,
    channel: Channel<Buffer>,
    /// Receives a null that was seen before, for which the channel has no storage.
    null: Buffer,
}

/// All messages to a peer in an exchange.
#[derive(Debug)]
struct Out {
    in_slot: Buffer,
    overflow: Buffer,
    head: Buffer,
    strips: Vec<Leaving>,
}

/// All messages of a peer's exchange.
#[derive(Debug)]
struct In {
    head: Buffer,
    /// What has come as the head.
    came: Option<Came>,
    strips: Vec<Coming>,
    /// Where the payloads would lie in one message, in order, and whose they are.
    places: Vec<(bool, u32, usize)>,
    whole: bool,
}

/// Both directions with one peer, by slot.
#[derive(Debug)]
struct Ends {
    out: Vec<Out>,
    into: Vec<In>,
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

/// What a channel refuses, as the error of a message from or to this rank.
fn refused(rank: u32, key: Key, refusal: Refusal) -> TransportError {
    match refusal {
        Refusal::SizeMismatch { count, came } => {
            let came = (came != LONGER).then_some(u64::from(came));
            TransportError::StripSize { rank, key, bytes: u64::from(count), came }
        }
        refusal => TransportError::Channel { rank, key, refusal },
    }
}

/// Bytes of a message that is longer than any strip, or than anybody knows.
const LONGER: u32 = u32::MAX;

fn elements(came: Came) -> u32 {
    came.bytes().map_or(LONGER, |bytes| u32::try_from(bytes).unwrap_or(LONGER))
}

/// The bytes of strips; a plan has less than 4 GiB.
const fn bytes(entry: &Entry) -> u32 {
    entry.count.saturating_mul(8)
}

impl Coming {
    fn new(entry: &Entry, when: When) -> Coming {
        let role = if when == When::Early { Role::Receiver } else { Role::SparseReceiver };
        Coming { key: entry.key, channel: Channel::new(role, bytes(entry)), null: Buffer::new(0) }
    }

    /// Posts a receive, if it is time for one; false if not even the message of a sparse receiver is there.
    fn start(&mut self, world: &Communicator, from: u32, tag: u32) -> Result<bool, TransportError> {
        let Coming { key, channel, null } = self;
        let count = channel.count() as usize;
        let mut start = || channel.try_start_receive(|| Some(Buffer::new(count)));
        let refused = |refusal| refused(from, *key, refusal);
        let mut started = start().map_err(refused)?;
        if started == Start::Nothing
            && channel.role() == Role::SparseReceiver
            && channel.incoming().is_none()
            && null.is_idle()
        {
            let Some(seen) = world.probe(from, tag)? else { return Ok(false) };
            channel.on_message(elements(Came::Bytes(seen))).map_err(refused)?;
            started = channel.try_start_receive(|| Some(Buffer::new(count))).map_err(refused)?;
        }
        match (started, channel.incoming()) {
            (Start::Nothing, _) => {}
            (Start::Post, Some(buffer)) => buffer.receive(world, from, tag, count)?,
            (Start::Post | Start::PostNull, _) => null.receive(world, from, tag, 0)?,
        }
        Ok(true)
    }

    /// Whether it is here.
    fn poll(&mut self, world: &Communicator, from: u32, tag: u32) -> Result<bool, TransportError> {
        if self.channel.state().is_received() {
            return Ok(true);
        }
        if !self.start(world, from, tag)? {
            return Ok(false);
        }
        let Coming { key, channel, null } = self;
        let refused = |refusal| refused(from, *key, refusal);
        let early = channel.role() == Role::Receiver;
        let buffer = channel.incoming().unwrap_or(null);
        // It is idle already if what came was refused.
        if !buffer.is_idle() {
            let Some(came) = buffer.test()? else { return Ok(false) };
            if early {
                channel.on_message(elements(came)).map_err(refused)?;
            }
        }
        channel.try_receive(|| None).map_err(refused)
    }

    /// Gives up what came.
    fn again(&mut self, from: u32) -> Result<(), TransportError> {
        self.channel.stale().map_err(|refusal| refused(from, self.key, refusal))
    }

    fn came(&self) -> Option<&Buffer> {
        self.channel.payload().ok()
    }
}

impl In {
    fn new(entries: &[Entry], when: When) -> In {
        let strips = entries.iter().map(|entry| Coming::new(entry, when)).collect();
        let head = Buffer::new(HEAD + bitmap_bytes(entries.len() as u32));
        In { head, came: None, strips, places: Vec::new(), whole: false }
    }

    /// Bytes of the longest head.
    fn head_bytes(&self) -> usize {
        HEAD + bitmap_bytes(self.strips.len() as u32)
    }

    /// Ready for an exchange.
    fn post(&mut self, world: &Communicator, from: u32, slot: u32, when: When) -> Result<(), TransportError> {
        (self.whole, self.came) = (false, None);
        self.places.clear();
        if when == When::Early {
            for (channel, strip) in self.strips.iter_mut().enumerate() {
                strip.start(world, from, tag(slot, channel))?;
            }
        }
        Ok(self.head.receive(world, from, slot % SLOTS, self.head_bytes())?)
    }

    /// Whether all of it is here.
    fn poll(&mut self, world: &Communicator, from: u32, slot: u32) -> Result<bool, TransportError> {
        if self.came.is_none() {
            self.came = self.head.test()?;
        }
        let mut whole = self.came.is_some();
        for (channel, strip) in self.strips.iter_mut().enumerate() {
            whole &= strip.poll(world, from, tag(slot, channel))?;
        }
        Ok(whole)
    }

    /// Where each strip would lie in one message. What came must be what the head announces; a head that is none, or that
    /// of another plan, is refused by the exchange.
    fn place(&mut self, from: u32, head: &[u8], came: usize) -> Result<(), TransportError> {
        let Some((head, live, len)) = heads::inspect(from, head, came, self.head_bytes())? else { return Ok(()) };
        heads::same(from, len, came)?;
        if head.channels as usize != self.strips.len() {
            return Ok(());
        }
        let in_slot = head.payload - u64::from(head.overflow);
        let (mut used, mut over) = (0u64, 0u64);
        let first = self.head_bytes() as u64;
        for (nth, strip) in self.strips.iter().enumerate() {
            let (bytes, here) = (u64::from(strip.channel.count()), strip.came().is_some());
            if here != live.is(nth) {
                let (bytes, came) = if here { (0, bytes) } else { (bytes, 0) };
                return Err(TransportError::StripSize { rank: from, key: strip.key, bytes, came: Some(came) });
            }
            if here {
                let (is_over, sum, from) =
                    if used < in_slot { (false, &mut used, first) } else { (true, &mut over, 0) };
                self.places.push((is_over, (from + *sum) as u32, nth));
                *sum += bytes;
            }
        }
        Ok(())
    }
}

impl Out {
    fn new(entries: &[Entry]) -> Out {
        let head = HEAD + bitmap_bytes(entries.len() as u32);
        let dense = entries.iter().map(|entry| bytes(entry) as usize).sum::<usize>() + head;
        let leaving = |entry: &Entry| Leaving { key: entry.key, channel: Channel::new(Role::Sender, bytes(entry)) };
        let strips = entries.iter().map(leaving).collect();
        Out { in_slot: Buffer::new(dense), overflow: Buffer::new(dense), head: Buffer::new(head), strips }
    }

    /// Whether everything of it is carried, so that the next exchange may be packed.
    fn is_carried(&mut self, to: u32) -> Result<bool, TransportError> {
        for buffer in [&mut self.in_slot, &mut self.overflow, &mut self.head] {
            if buffer.test()?.is_none() {
                return Ok(false);
            }
        }
        let mut all = true;
        for Leaving { key, channel } in &mut self.strips {
            channel.on_sent();
            all &= channel.is_available_for_write().map_err(|refusal| refused(to, *key, refusal))?;
        }
        Ok(all)
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
            let part = |range: &Range<u32>| &entries[range.start as usize..range.end as usize];
            let mut into: Vec<_> = (0..SLOTS).map(|_| In::new(part(peer.inbound()), when)).collect();
            for (slot, coming) in (0..).zip(&mut into) {
                coming.post(&world, peer.rank(), slot, when)?;
            }
            let ends = Ends { out: (0..SLOTS).map(|_| Out::new(part(peer.out()))).collect(), into };
            let ranks = self.peers.len() as u32;
            let place = self.peers.get_mut(peer.rank() as usize);
            *place.ok_or(TransportError::NoRank { rank: peer.rank(), ranks })? = Some(ends);
        }
        Ok(())
    }

    fn may_write(&mut self, to: u32, slot: u32) -> Result<bool, TransportError> {
        self.ends_mut(to)?.out[(slot % SLOTS) as usize].is_carried(to)
    }

    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        let out = &mut self.ends_mut(to)?.out[(slot % SLOTS) as usize];
        let (buffer, at) = match place {
            Place::Slot(at) => (&mut out.in_slot, at as usize),
            Place::Overflow(at) => (&mut out.overflow, at as usize),
        };
        crate::slot::store(buffer.words_mut().unwrap_or(&mut []), at / 8 + behind, values)
    }

    fn publish(&mut self, message: &Message, _epoch: u32, bytes: &[u8]) -> Result<(), TransportError> {
        let (world, to, slot) = (*self.ballot.world(), message.rank, message.slot);
        let Out { in_slot, overflow, head, strips } = &mut self.ends_mut(to)?.out[(slot % SLOTS) as usize];
        for (word, bytes) in head.words_mut().unwrap_or(&mut []).iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        // Our own head, which says which strips are there.
        let first = HEAD + bitmap_bytes(strips.len() as u32);
        let own = heads::inspect(world.rank(), bytes, bytes.len(), first)?;
        let Some((_, live, _)) = own else { return Err(TransportError::Silent { rank: world.rank() }) };
        let (end, mut used, mut above) = (first + message.in_slot as usize, first, 0);
        for (nth, Leaving { key, channel }) in strips.iter_mut().enumerate() {
            let size = channel.count() as usize;
            let sent = if live.is(nth) {
                channel.allocate(|| Some(())).and_then(|()| channel.send())
            } else {
                channel.send_null()
            };
            let (buffer, from, len) = match sent.map_err(|refusal| refused(to, *key, refusal))? {
                Sent::Null => (&mut *head, 0, 0),
                Sent::Live if used < end => (&mut *in_slot, used, size),
                Sent::Live => (&mut *overflow, above, size),
            };
            buffer.send(&world, to, tag(slot, nth), from..from + len)?;
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
        let into = &mut self.ends_mut(from)?.into[(slot % SLOTS) as usize];
        if !into.whole && !into.poll(&world, from, slot)? {
            return Ok(false);
        }
        let came = heads::copy(from, into.came, &into.head, into.head_bytes(), head)?;
        if !into.whole {
            into.places.clear();
            into.place(from, head, came)?;
            into.whole = true;
        }
        Ok(true)
    }

    fn taken(&mut self, from: u32, slot: u32, _room: u32) -> Result<(), TransportError> {
        let (world, when) = (*self.ballot.world(), self.when);
        let into = &mut self.ends_mut(from)?.into[(slot % SLOTS) as usize];
        into.strips.iter_mut().try_for_each(|strip| strip.again(from))?;
        into.post(&world, from, slot, when)
    }

    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let silent = TransportError::Silent { rank: from };
        let ends = self.peers.get(from as usize).and_then(Option::as_ref).ok_or(silent)?;
        let coming = &ends.into[(slot % SLOTS) as usize];
        let at = match place {
            Place::Slot(at) => (false, at),
            Place::Overflow(at) => (true, at),
        };
        let at = coming.places.binary_search_by_key(&at, |&(over, at, _)| (over, at)).map_err(|_| silent)?;
        let strip = &coming.strips[coming.places[at].2];
        let payload = strip.channel.payload().map_err(|refusal| refused(from, strip.key, refusal))?;
        crate::slot::load(payload.words().unwrap_or(&[]), behind, into)
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
