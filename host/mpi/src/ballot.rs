//! What ranks tell each other between exchanges: their votes, and their plans.
//!
//! A rank has one end after the other on a communicator. What was sent to an end that is gone is still on its way or queued,
//! and could be taken for the same message to the next one. Therefore each end begins with a message to all others, and
//! receives all that they sent before theirs. One round of these is enough: who has that of a rank knows that the end before is
//! gone there, with the receives that it had posted and with what it read here, and what is sent to that rank from then on is
//! behind the message that it drops up to. If one of these does not come in time, it would still come when the next end
//! waits for another one; therefore no end is made on that communicator any more. A communicator for each end would not do: a
//! library may give a new one the context of one that was freed, and with it what is queued there.
//!
//! Source: MPI 3.1, 3.5: messages from one process to another do not overtake each other.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use umbra::boundary::TransportError;
use umbra_core::boundary::Vote;

use crate::raw::{Buffer, Communicator, Ends, MpiError};

/// Tags beside those of slots, which are smaller, and of strips, which are larger.
const VOTE: u32 = 4;
const PLAN: u32 = 5;
const BEGIN: u32 = 6;
/// Tags below this one are not a strip's.
pub(crate) const STRIPS: u32 = 8;
/// Bytes of a vote: its round, and its three numbers.
const BYTES: usize = 16;
/// The last two votes of a rank with their rounds, by the last bit of the round.
type Votes = [Option<(u32, Vote)>; 2];

/// A message that was seen and is being received. It may be long, and its sender may stall in the middle of it.
#[derive(Debug)]
struct Coming {
    from: u32,
    tag: u32,
    bytes: usize,
    buffer: Buffer,
}

impl Coming {
    fn into_bytes(self) -> Vec<u8> {
        let words = self.buffer.words().unwrap_or(&[]);
        words.iter().flat_map(|word| word.to_ne_bytes()).take(self.bytes).collect()
    }
}

/// Votes and plans of one rank.
#[derive(Debug)]
pub(crate) struct Ballot {
    world: Communicator,
    /// Of this process on it.
    ends: &'static Cell<Ends>,
    /// Of each rank.
    heard: RefCell<Vec<Votes>>,
    /// What was seen, and is not all here.
    coming: RefCell<Vec<Coming>>,
    /// What was sent and may still be under way.
    sent: Vec<Buffer>,
}

impl Ballot {
    /// Begins an end, together with those of all other processes, and drops what came for the one before. Nobody comes
    /// back before all have come here, and none of the ends before is there any more.
    pub(crate) fn new(world: Communicator, deadline: Option<Duration>) -> Result<Ballot, TransportError> {
        let ends = world.ends().ok_or(TransportError::Lent)?;
        match ends.get() {
            // Until it is made.
            Ends::None => ends.set(Ends::Without(world.rank())),
            Ends::One => return Err(TransportError::HasEnd),
            Ends::Without(rank) => return Err(TransportError::Silent { rank }),
        }
        let heard = RefCell::new(vec![[None; 2]; world.size() as usize]);
        let mut ballot = Ballot { world, ends, heard, coming: RefCell::default(), sent: Vec::new() };
        let until = deadline.and_then(|deadline| Instant::now().checked_add(deadline));
        ballot.meet(until)?;
        ends.set(Ends::One);
        Ok(ballot)
    }

    /// Tells all others that this end begins, and waits until all have told it; what else they have sent before is dropped.
    fn meet(&mut self, until: Option<Instant>) -> Result<(), TransportError> {
        self.send_all(BEGIN, &[])?;
        for rank in self.others() {
            loop {
                // What came while this process was stopped is heard before a rank is taken for absent.
                let is_late = until.is_some_and(|until| Instant::now() > until);
                match self.receive(rank, None)?.map(|came| came.tag) {
                    Some(BEGIN) => break,
                    Some(_) => {}
                    None if is_late => {
                        self.ends.set(Ends::Without(rank));
                        return Err(TransportError::Silent { rank });
                    }
                    None => std::thread::yield_now(),
                }
            }
        }
        Ok(())
    }

    pub(crate) const fn world(&self) -> &Communicator {
        &self.world
    }

    fn send(&mut self, to: u32, tag: u32, bytes: &[u8]) -> Result<(), MpiError> {
        for at in (0..self.sent.len()).rev() {
            if self.sent[at].test()?.is_some() {
                self.sent.swap_remove(at);
            }
        }
        let mut buffer = Buffer::new(bytes.len());
        for (word, bytes) in buffer.words_mut().unwrap_or(&mut []).iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        buffer.send(&self.world, to, tag, 0..bytes.len())?;
        self.sent.push(buffer);
        Ok(())
    }

    /// All ranks but this one.
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let me = self.world.rank();
        (0..self.world.size()).filter(move |&rank| rank != me)
    }

    fn send_all(&mut self, tag: u32, bytes: &[u8]) -> Result<(), MpiError> {
        self.others().try_for_each(|rank| self.send(rank, tag, bytes))
    }

    /// The next message of a rank, with this tag or with any, if all of it is here. Nobody waits for the rest.
    fn receive(&self, from: u32, tag: Option<u32>) -> Result<Option<Coming>, MpiError> {
        let mut coming = self.coming.borrow_mut();
        let wanted = |coming: &Coming| coming.from == from && tag.is_none_or(|tag| coming.tag == tag);
        let at = if let Some(at) = coming.iter().position(wanted) {
            at
        } else {
            let seen = match tag {
                Some(tag) => self.world.probe(from, tag)?.map(|bytes| (tag, bytes)),
                None => self.world.probe_any(from)?,
            };
            let Some((tag, bytes)) = seen else { return Ok(None) };
            let mut buffer = Buffer::new(bytes);
            buffer.receive(&self.world, from, tag, bytes)?;
            coming.push(Coming { from, tag, bytes, buffer });
            coming.len() - 1
        };
        Ok(coming[at].buffer.test()?.map(|_| coming.remove(at)))
    }

    pub(crate) fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        let Vote { epoch, sequence, open } = vote;
        let numbers = [round, epoch, sequence, open];
        let bytes: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
        self.send_all(VOTE, &bytes)?;
        let me = self.world.rank();
        if let Some(own) = self.heard.get_mut().get_mut(me as usize) {
            own[(round % 2) as usize] = Some((round, vote));
        }
        Ok(())
    }

    pub(crate) fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        let ranks = self.world.size();
        let mut heard = self.heard.borrow_mut();
        let heard = heard.get_mut(rank as usize).ok_or(TransportError::NoRank { rank, ranks })?;
        while rank != self.world.rank()
            && let Some(came) = self.receive(rank, Some(VOTE))?
        {
            let bytes = came.into_bytes();
            let [round, epoch, sequence, open] = [0, 1, 2, 3].map(|at| {
                let number = bytes.get(at * 4..).and_then(|bytes| bytes.first_chunk());
                number.map_or(0, |number| u32::from_le_bytes(*number))
            });
            if bytes.len() == BYTES {
                heard[(round % 2) as usize] = Some((round, Vote { epoch, sequence, open }));
            }
        }
        Ok(heard[(round % 2) as usize].filter(|(of, _)| *of == round).map(|(_, vote)| vote))
    }

    pub(crate) fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        Ok(self.send(to, PLAN, bytes)?)
    }

    /// It was sent before the vote that has come already, and is soon here.
    pub(crate) fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        Ok(self.receive(from, Some(PLAN))?.map(Coming::into_bytes))
    }
}

impl Drop for Ballot {
    fn drop(&mut self) {
        if self.ends.get() == Ends::One {
            self.ends.set(Ends::None);
        }
    }
}
