//! The queue pair with one rank, and where things lie in the memory it reaches.

use std::sync::Arc;

use umbra_core::atomic::Ordering;
use umbra_core::boundary::Vote;
use umbra_core::codec::{Reader, filled};

use super::super::extent::PAGE;
use super::super::transport::TransportError;
use super::plan::Reading;
use super::slot::{PLACE, Slot};
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
/// Bytes of the board of one rank: votes, places of slots, and the length of a plan.
pub(super) const BOARD: usize = 128;
/// Buffers for words that come: of two messages, two votes and a plan, and as many again.
const DEPTHS: Depths = Depths { work: 32, receives: 10 };

// Kinds of words.
pub(super) const MESSAGE: u32 = 0;
pub(super) const BALLOT: u32 = 1;
pub(super) const PLAN: u32 = 2;

// What ended: a number of posted work.
pub(super) const WRITTEN: u64 = 0;
pub(super) const FETCHED: u64 = 0x100;
pub(super) const PLANNED: u64 = 0x200;
/// Words of which no end is waited for.
pub(super) const TOLD: u64 = u64::MAX;

pub(super) const fn word(kind: u32, slot: u32, sequence: u32) -> u32 {
    kind << 30 | (slot & 0x3f) << 24 | sequence & 0x00ff_ffff
}

/// What a rank must know of another to connect to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// Of the queue pair that is for the rank that is greeted.
    pub address: Address,
    /// Where that rank writes what it tells: votes, where its slots lie, how long its plan is.
    pub board: Remote,
    /// Where it reads plans from, and what did not fit.
    pub outbox: Remote,
}

impl Greeting {
    /// The bytes for whatever carries them there, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; GREETING_BYTES] {
        filled(|to| {
            to.bytes(&self.address.to_bytes())?;
            [self.board, self.outbox]
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
        Some(Greeting { address, board: place()?, outbox: place()? })
    }
}

/// Places on the board of one rank, and in the part of the outbox for one, which begins with what is written to the board there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) capacity: usize,
}

impl Layout {
    pub(super) const fn vote(round: u32) -> usize {
        (round % 2) as usize * VOTE
    }

    pub(super) const fn place(slot: u32) -> usize {
        2 * VOTE + (slot % SLOTS) as usize * PLACE
    }

    pub(super) const PLAN: usize = 2 * VOTE + SLOTS as usize * PLACE;

    pub(super) const fn slot(self, slot: u32) -> usize {
        PAGE + (slot % SLOTS) as usize * self.capacity
    }

    /// What did not fit into a slot; between exchanges, the plan beside the first of them.
    pub(super) const fn overflow(self, slot: u32) -> usize {
        self.slot(slot) + SLOTS as usize * self.capacity
    }

    pub(super) const fn outbox(self) -> usize {
        PAGE + 2 * SLOTS as usize * self.capacity
    }
}

const _: () = assert!(Layout::PLAN + 8 <= BOARD && BOARD <= PAGE);

/// What is under way with one rank.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) queue: Queue,
    pub(super) peer: Option<Greeting>,
    pub(super) slots: [Slot; SLOTS as usize],
    pub(super) plan: Option<Reading>,
    /// Messages that are still being sent, by slot.
    pub(super) sending: [bool; SLOTS as usize],
    pub(super) votes: [Option<(u32, Vote)>; 2],
    pub(super) broken: Option<WorkStatus>,
}

/// What has become of what did not fit: nothing, it was asked for, or it is there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Fetch {
    #[default]
    Not,
    Asked,
    Done,
}

impl Link {
    pub(super) fn new(domain: &Arc<Domain>, port: &Port, board: &Region) -> Result<Link, VerbsError> {
        let mut queue = Queue::new(domain, port, DEPTHS)?;
        (0..DEPTHS.receives).try_for_each(|_| queue.receive(0, nothing(board)))?;
        let (slots, sending) = ([Slot::default(), Slot::default()], [false; SLOTS as usize]);
        Ok(Link { queue, peer: None, slots, plan: None, sending, votes: [None; 2], broken: None })
    }

    /// Takes note of what has ended.
    pub(super) fn poll(&mut self, rank: u32, board: &Region) -> Result<(), TransportError> {
        let (mut words, mut ended) = (0, false);
        let at = |round| rank as usize * BOARD + Layout::vote(round);
        while !ended {
            let Link { queue, slots, plan, sending, votes, broken, .. } = self;
            let mut sink = |done: Completion| match (done.status, done.kind, done.immediate) {
                (WorkStatus::Success, WorkKind::Written, Some(word)) => {
                    words += 1;
                    let slot = word >> 24 & 0x3f;
                    match word >> 30 {
                        MESSAGE => slots[(slot % SLOTS) as usize].came = true,
                        BALLOT => votes[(slot % 2) as usize] = vote(board, at(slot)),
                        // How long a plan is stands on the board.
                        _ => {}
                    }
                }
                (WorkStatus::Success, WorkKind::Write, _) => {
                    if let Some(sending) = sending.get_mut(done.id as usize) {
                        *sending = false;
                    }
                }
                (WorkStatus::Success, WorkKind::Read, _) if done.id == PLANNED => {
                    plan.iter_mut().for_each(|plan| plan.is_done = true);
                }
                (WorkStatus::Success, WorkKind::Read, _) => {
                    slots[(done.id % u64::from(SLOTS)) as usize].fetch = Fetch::Done;
                }
                (WorkStatus::Success, ..) => {}
                (status, ..) => *broken = broken.or(Some(status)),
            };
            ended = queue.poll(&mut sink).map_err(|error| refused(rank, &error))? == 0;
        }
        if let Some(status) = self.broken {
            return Err(TransportError::Broken { rank, status });
        }
        (0..words).try_for_each(|_| self.queue.receive(0, nothing(board))).map_err(|error| refused(rank, &error))
    }
}

/// Posts work for a rank, in this order; the last of it says when all has ended.
pub(super) fn post(
    queue: &mut Queue,
    broken: Option<WorkStatus>,
    rank: u32,
    works: &[(u64, Work<'_>)],
) -> Result<(), TransportError> {
    queue.post(works).map_err(|error| match broken {
        Some(status) => TransportError::Broken { rank, status },
        None => refused(rank, &error),
    })
}

/// A buffer for a word alone.
const fn nothing(region: &Region) -> Piece<'_> {
    Piece { region, offset: 0, len: 0 }
}

pub(super) fn refused(rank: u32, error: &VerbsError) -> TransportError {
    TransportError::Refused { rank, code: code(error) }
}

/// What the system said; -1 if it said nothing.
pub(super) fn code(error: &VerbsError) -> i32 {
    match error {
        VerbsError::Call { error, .. } => error.raw_os_error().unwrap_or(-1),
        VerbsError::LockedMemory { .. } => libc::ENOMEM,
        _ => -1,
    }
}

/// What was written to this place of the board.
fn vote(board: &Region, at: usize) -> Option<(u32, Vote)> {
    let words = board.segment().words(at, VOTE / 8).ok()?;
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
        let [board, outbox] = [(1 << 40 | 3, 11), (2 << 40, u32::MAX)].map(|(address, rkey)| Remote { address, rkey });
        let greeting = Greeting { address, board, outbox };
        assert_eq!(Greeting::from_bytes(&greeting.to_bytes()), Some(greeting));
        assert_eq!(Greeting::from_bytes(&[0xff; GREETING_BYTES]), None, "no queue pair has this number");
    }
}
