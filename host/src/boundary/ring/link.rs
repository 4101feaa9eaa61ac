//! The queue pair with one rank, and where things lie in the memory it reaches.

use std::sync::Arc;

use umbra_core::atomic::Ordering;
use umbra_core::boundary::Vote;
use umbra_core::codec::{Reader, filled};

use super::super::extent::PAGE;
use super::super::transport::TransportError;
use crate::verbs::{
    ADDRESS_BYTES, Address, Completion, Depths, Domain, Piece, Port, Queue, Region, Remote, VerbsError, Work, WorkKind,
    WorkStatus,
};

/// Two let a peer be one exchange ahead.
pub(super) const SLOTS: u32 = 2;
/// Bytes of a [`Greeting`].
pub const GREETING_BYTES: usize = ADDRESS_BYTES + 2 * 12;
/// Bytes of a vote.
pub(super) const VOTE: usize = 32;
/// Buffers for words that come: of two messages, two votes and a plan, and as many again.
const DEPTHS: Depths = Depths { work: 32, receives: 10 };

// Kinds of words.
pub(super) const MESSAGE: u32 = 0;
pub(super) const BALLOT: u32 = 1;
pub(super) const PLAN: u32 = 2;

// What ended: a number of posted work.
pub(super) const WRITTEN: u64 = 0;
pub(super) const FETCHED: u64 = 0x100;

pub(super) const fn word(kind: u32, slot: u32, sequence: u32) -> u32 {
    kind << 30 | (slot & 0x3f) << 24 | sequence & 0x00ff_ffff
}

/// What a rank must know of another to connect to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// Of the queue pair that is for the rank that is greeted.
    pub address: Address,
    /// Where that rank writes to.
    pub inbox: Remote,
    /// Where it reads from what did not fit.
    pub outbox: Remote,
}

impl Greeting {
    /// The bytes for whatever carries them there, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; GREETING_BYTES] {
        filled(|to| {
            to.bytes(&self.address.to_bytes())?;
            [self.inbox, self.outbox]
                .iter()
                .try_for_each(|place| to.u64(place.address).and_then(|()| to.u32(place.rkey)))
        })
    }

    /// Reads the bytes; `None` if no rank can have said them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; GREETING_BYTES]) -> Option<Greeting> {
        let from = &mut Reader::new(bytes);
        let address = Address::from_bytes(&from.array().ok()?)?;
        let mut place = || Some(Remote { address: from.u64().ok()?, rkey: from.u32().ok()? });
        Some(Greeting { address, inbox: place()?, outbox: place()? })
    }
}

/// Places in the part of an inbox or outbox that is for one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) capacity: usize,
}

impl Layout {
    pub(super) const fn slot(self, slot: u32) -> usize {
        (slot % SLOTS) as usize * self.capacity
    }

    pub(super) const fn plan(self) -> usize {
        SLOTS as usize * self.capacity
    }

    pub(super) const fn vote(self, round: u32) -> usize {
        self.plan() + self.capacity + (round % 2) as usize * VOTE
    }

    pub(super) const fn inbox(self) -> usize {
        self.plan() + self.capacity + PAGE
    }

    pub(super) const fn overflow(self, slot: u32) -> usize {
        self.inbox() + self.slot(slot)
    }

    pub(super) const fn outbox(self) -> usize {
        self.inbox() + SLOTS as usize * self.capacity
    }
}

/// What is under way with one rank.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) queue: Queue,
    pub(super) peer: Option<Greeting>,
    /// Messages that are there, by slot, and overflow that was asked for or is there.
    pub(super) came: [bool; SLOTS as usize],
    pub(super) fetch: [Fetch; SLOTS as usize],
    /// Messages that are still being sent, by slot.
    pub(super) sending: [bool; SLOTS as usize],
    pub(super) votes: [Option<(u32, Vote)>; 2],
    pub(super) broken: Option<WorkStatus>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fetch {
    Not,
    Asked,
    Done,
}

impl Link {
    pub(super) fn new(domain: &Arc<Domain>, port: &Port, inbox: &Region) -> Result<Link, VerbsError> {
        let mut queue = Queue::new(domain, port, DEPTHS)?;
        (0..DEPTHS.receives).try_for_each(|_| queue.receive(0, nothing(inbox)))?;
        let (came, fetch, sending) = ([false; SLOTS as usize], [Fetch::Not; SLOTS as usize], [false; SLOTS as usize]);
        Ok(Link { queue, peer: None, came, fetch, sending, votes: [None; 2], broken: None })
    }

    /// Takes note of what has ended.
    pub(super) fn poll(&mut self, rank: u32, inbox: &Region, votes: [usize; 2]) -> Result<(), TransportError> {
        let (mut words, mut ended) = (0, false);
        while !ended {
            let Link { queue, came, fetch, sending, votes: heard, broken, .. } = self;
            let mut sink = |done: Completion| match (done.status, done.kind, done.immediate) {
                (WorkStatus::Success, WorkKind::Written, Some(word)) => {
                    words += 1;
                    let slot = word >> 24 & 0x3f;
                    match word >> 30 {
                        MESSAGE => came[(slot % SLOTS) as usize] = true,
                        BALLOT => heard[(slot % 2) as usize] = vote(inbox, votes[(slot % 2) as usize]),
                        // A plan is read where it lies.
                        _ => {}
                    }
                }
                (WorkStatus::Success, WorkKind::Write, _) => {
                    if let Some(sending) = sending.get_mut(done.id as usize) {
                        *sending = false;
                    }
                }
                (WorkStatus::Success, WorkKind::Read, _) => fetch[(done.id % u64::from(SLOTS)) as usize] = Fetch::Done,
                (WorkStatus::Success, ..) => {}
                (status, ..) => *broken = broken.or(Some(status)),
            };
            ended = queue.poll(&mut sink).map_err(|error| refused(rank, &error))? == 0;
        }
        if let Some(status) = self.broken {
            return Err(TransportError::Broken { rank, status });
        }
        (0..words).try_for_each(|_| self.queue.receive(0, nothing(inbox))).map_err(|error| refused(rank, &error))
    }

    pub(super) fn post(&mut self, rank: u32, id: u64, work: Work<'_>) -> Result<(), TransportError> {
        self.queue.post(&[(id, work)]).map_err(|error| match self.broken {
            Some(status) => TransportError::Broken { rank, status },
            None => refused(rank, &error),
        })
    }
}

/// A buffer for a word alone.
const fn nothing(region: &Region) -> Piece<'_> {
    Piece { region, offset: 0, len: 0 }
}

pub(super) fn refused(rank: u32, error: &VerbsError) -> TransportError {
    let code = match error {
        VerbsError::Call { error, .. } => error.raw_os_error().unwrap_or(-1),
        _ => -1,
    };
    TransportError::Refused { rank, code }
}

/// What was written to this place of an inbox.
fn vote(inbox: &Region, at: usize) -> Option<(u32, Vote)> {
    let words = inbox.segment().words(at, VOTE / 8).ok()?;
    // What a card has written before it completed a word is seen by whoever has taken that completion.
    let [round, epoch, sequence, open] =
        [0, 1, 2, 3].map(|at: usize| u64::from_le(words[at].load(Ordering::Relaxed)) as u32);
    Some((round, Vote { epoch, sequence, open }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_give_the_greeting_back_and_others_are_refused() {
        let address = Address { number: 7, first_packet: 9, mtu: 4096, lid: 0, reads: 16, gid: [5; 16] };
        let [inbox, outbox] = [(1 << 40 | 3, 11), (2 << 40, u32::MAX)].map(|(address, rkey)| Remote { address, rkey });
        let greeting = Greeting { address, inbox, outbox };
        assert_eq!(Greeting::from_bytes(&greeting.to_bytes()), Some(greeting));
        assert_eq!(Greeting::from_bytes(&[0xff; GREETING_BYTES]), None, "no queue pair has this number");
    }
}
