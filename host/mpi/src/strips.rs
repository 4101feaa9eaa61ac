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
//! Each strip that leaves or comes is a [`Channel`](umbra_core::boundary::Channel), one for each slot, which counts
//! bytes. So what the table of states forbids is refused, with the key of the channel: a message that is not as long as
//! its strip, a second one while the first is under way.
//!
//! *Cost*: a message and at least one test for each channel.

mod coming;
mod leaving;

use std::ops::Range;
use std::time::Duration;

use umbra::boundary::{Held, Transport, TransportError};
use umbra_core::boundary::{Entry, Key, Message, Peer, Place, Refusal, Vote};

use crate::ballot::{Ballot, STRIPS};
use crate::raw::Communicator;
use coming::In;
use leaving::Out;

/// Two let a peer be one exchange ahead.
const SLOTS: u32 = 2;

/// When memory is taken for what comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Early,
    Probed,
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

/// Bytes of a message that is longer than any strip, or than anybody knows.
const LONGER: u32 = u32::MAX;

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

/// The bytes of strips; a plan has less than 4 GiB.
const fn bytes(entry: &Entry) -> u32 {
    entry.count.saturating_mul(8)
}

impl MpiStrips {
    fn new(world: Communicator, deadline: Option<Duration>, when: When) -> Result<MpiStrips, TransportError> {
        let ballot = Ballot::new(world, deadline)?;
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
        self.ends_mut(to)?.out[(slot % SLOTS) as usize].write(place, behind, values)
    }

    fn publish(&mut self, message: &Message, _epoch: u32, bytes: &[u8]) -> Result<(), TransportError> {
        let world = *self.ballot.world();
        self.ends_mut(message.rank)?.out[(message.slot % SLOTS) as usize].publish(&world, message, bytes)
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        let world = *self.ballot.world();
        self.ends_mut(from)?.into[(slot % SLOTS) as usize].look(&world, from, slot, head)
    }

    fn taken(&mut self, from: u32, slot: u32, _room: u32) -> Result<(), TransportError> {
        let (world, when) = (*self.ballot.world(), self.when);
        self.ends_mut(from)?.into[(slot % SLOTS) as usize].again(&world, from, slot, when)
    }

    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let silent = TransportError::Silent { rank: from };
        let ends = self.peers.get(from as usize).and_then(Option::as_ref).ok_or(silent)?;
        ends.into[(slot % SLOTS) as usize].read(from, place, behind, into)
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.ballot.vote(round, vote)
    }

    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        self.ballot.vote_of(rank, round)
    }

    fn held(&self) -> Option<Held> {
        let mut held = Held::default();
        for ends in self.peers.iter().flatten() {
            held.receive += ends.into.iter().map(In::held).sum::<u64>();
            held.send += ends.out.iter().map(Out::held).sum::<u64>();
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
