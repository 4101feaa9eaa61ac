//! An agent that looks out for ranks' messages: one load tells that all are there.
//!
//! A rank that computes between sending and receiving makes no progress meanwhile. An [`Agent`], in a thread or a
//! process of its own, sees messages when they come: it compares each head with the rank's plan, refuses and counts
//! what is none of it, fetches what did not fit into the slot, and writes one word when the messages of all peers are
//! there. The rank, whose transport is [`Attended`], loads that word; what it then uses it compares once more, for an
//! agent's word is no better than a peer's.
//!
//! Credit needs no help: it travels with the messages of the other direction, which must have come anyway.
//!
//! An agent that dies is replaced by each rank for itself, at the next look, and nothing is lost or delivered twice,
//! for all that an agent knows stands on the boards. A new agent says that it is there and gets each rank at its next
//! exchange. One that lives and does nothing, or is in another space of process numbers, cannot be replaced, as it may go on at
//! any time: the exchange ends at its deadline with an error that names it beside the missing channels.
//!
//! *Cost*: a load a look for the rank, however many peers it has. Overflow is copied once more.

mod board;
mod lookout;
mod name;
mod space;

use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra_core::atomic::Ordering;
use umbra_core::boundary::{Entry, Message, Peer, Place, Vote};

use super::extent::Extent;
use super::fabric::Fabric;
use super::held::Held;
use super::pause::Pause;
use super::room::Spill;
use super::transport::{Transport, TransportError};
use crate::sys::segment::{Segment, SegmentError};
use board::Board;
use lookout::Lookout;
use name::{Name, OwnName};
use space::Space;

/// Looks in vain after which a rank asks who looks out for it, if it does not take [so long](ALIVE) before.
const LOOKS: u32 = 64;
/// How often it asks whether that process lives, at most; and at least while it looks.
const ALIVE: Duration = Duration::from_millis(10);
/// An agent that has not looked for so long does nothing.
const IDLE: Duration = Duration::from_millis(100);

/// Whoever looks out for the ranks of a fabric.
#[derive(Debug)]
pub struct Agent {
    segment: Arc<Segment>,
    extent: Extent,
    name: OwnName,
    /// By rank: the end that it looks at, and what it knows.
    ranks: Vec<(Fabric, Lookout)>,
}

impl Agent {
    /// Makes the segment of a fabric with boards for an agent.
    ///
    /// # Errors
    /// [`SegmentError`].
    pub fn segment(extent: Extent) -> Result<Segment, SegmentError> {
        Segment::create("umbra-boundary", Agent::bytes(extent))
    }

    /// Bytes of that segment: of addresses, not of memory; `usize::MAX` if they are more than can be counted.
    #[must_use]
    pub fn bytes(extent: Extent) -> usize {
        let extent = extent.usable();
        extent.bytes().saturating_add(board::bytes(&extent))
    }

    /// An agent for all ranks of a fabric whose segment was made by [`segment`](Self::segment).
    ///
    /// # Errors
    /// [`TransportError`] if the segment is smaller than the extent says, or this process has 2,048 agents and ends of ranks.
    pub fn attach(segment: Arc<Segment>, extent: Extent) -> Result<Agent, TransportError> {
        let extent = extent.usable();
        segment.at_writable(0, Agent::bytes(extent))?;
        let space = Space::here();
        let ranks = (0..extent.ranks).map(|rank| {
            space.note(Board::of(&segment, extent, rank).spaces()?);
            Ok((Fabric::attach(segment.clone(), extent, rank)?, Lookout::of_agent(rank)))
        });
        let ranks = ranks.collect::<Result<_, TransportError>>()?;
        Ok(Agent { ranks, segment, extent, name: OwnName::new()? })
    }

    /// Whether somebody looks out for each rank of the segment. Before the ranks have an end each, only an agent can.
    ///
    /// # Errors
    /// [`TransportError`] if the segment is smaller than the extent says.
    pub fn has_begun(segment: &Segment, extent: Extent) -> Result<bool, TransportError> {
        let extent = extent.usable();
        let holder = |rank| Board::of(segment, extent, rank).post().map(|post| post.holder() != 0);
        (0..extent.ranks).try_fold(true, |all, rank| Ok(all && holder(rank)?))
    }

    /// Looks once at the messages of all ranks; true if any had come.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn look(&mut self) -> Result<bool, TransportError> {
        let mut any = false;
        for (rank, (fabric, lookout)) in (0..).zip(&mut self.ranks) {
            let board = Board::of(&self.segment, self.extent, rank);
            if holds(board, &self.name, lookout)? {
                any |= lookout.look(fabric, board)?;
                let turns = board.turns()?;
                // ORDERING: a sign of life; nothing is read by it.
                turns.store(turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            } else {
                board.post()?.ask(self.name.word());
            }
        }
        Ok(any)
    }

    /// Looks again and again, and rests when nothing comes, as long as `go_on` says so.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn attend(&mut self, mut go_on: impl FnMut() -> bool) -> Result<(), TransportError> {
        let mut pause = Pause::default();
        while go_on() {
            if self.look()? {
                pause.worked();
            } else {
                pause.take();
            }
        }
        Ok(())
    }

    /// Messages that were refused, of all ranks and by whoever looked out for them.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn refused(&self) -> Result<u64, TransportError> {
        let of = |rank| Board::of(&self.segment, self.extent, rank).refused().map(|word| word.load(Ordering::Relaxed));
        (0..self.extent.ranks).map(of).sum()
    }
}

impl Drop for Agent {
    /// The ranks look out for themselves.
    fn drop(&mut self) {
        for rank in 0..self.extent.ranks {
            let board = Board::of(&self.segment, self.extent, rank);
            // The whole segment was reached when it was attached.
            if let Ok(post) = board.post() {
                post.leave(self.name.word());
            }
        }
    }
}

/// Whether somebody holds a board, who takes it if nobody does.
fn holds(board: Board<'_>, name: &OwnName, lookout: &mut Lookout) -> Result<bool, TransportError> {
    let taken = board.post()?.take(name.word());
    if taken.is_some_and(|taken| taken.is_new) {
        lookout.begin();
    }
    Ok(taken.is_some())
}

/// One rank's end of a fabric with an agent.
#[derive(Debug)]
pub struct Attended {
    fabric: Fabric,
    segment: Arc<Segment>,
    name: OwnName,
    space: Space,
    /// For the time in which it has no agent.
    lookout: Lookout,
    /// What was fetched, by rank and slot.
    spilled: Vec<Spill>,
    epoch: u32,
    peers: usize,
    /// The exchange that was looked for last, and how often in vain.
    sequence: u32,
    looks: u32,
    asked: Instant,
    /// How often the agent had looked, and since when it has not looked again.
    turns: (u64, Instant),
}

impl Attended {
    /// The end of a rank of a fabric whose segment was made by [`Agent::segment`]. As with [`Fabric::attach`], a rank is built on one.
    ///
    /// # Errors
    /// [`TransportError`] if the segment is smaller than the extent says, the rank is none of it, or this process has 2,048
    /// agents and ends of ranks.
    pub fn attach(segment: Arc<Segment>, extent: Extent, rank: u32) -> Result<Attended, TransportError> {
        let extent = extent.usable();
        segment.at_writable(0, Agent::bytes(extent))?;
        let (fabric, name, space) = (Fabric::attach(segment.clone(), extent, rank)?, OwnName::new()?, Space::here());
        space.note(Board::of(&segment, extent, rank).spaces()?);
        Ok(Attended {
            fabric,
            segment,
            name,
            space,
            lookout: Lookout::new(rank),
            spilled: vec![Spill::default(); (extent.ranks * extent.slots) as usize],
            epoch: 0,
            peers: 0,
            sequence: 0,
            looks: 0,
            asked: Instant::now(),
            turns: (0, Instant::now()),
        })
    }

    const fn spilled_at(&self, from: u32, slot: u32) -> usize {
        let slots = self.fabric.extent().slots;
        (from * slots + slot % slots) as usize
    }

    fn board(&self) -> Board<'_> {
        Board::of(&self.segment, *self.fabric.extent(), self.fabric.rank())
    }

    /// Whether this rank looks out for itself, because it has no agent.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn is_alone(&self) -> Result<bool, TransportError> {
        Ok(self.board().post()?.holder() == self.name.word())
    }

    /// Takes the place of an agent that is gone, and looks.
    fn look_alone(&mut self) -> Result<(), TransportError> {
        let board = Board::of(&self.segment, *self.fabric.extent(), self.fabric.rank());
        let held = board.post()?.holder();
        if held != 0 && held != self.name.word() && self.asked.elapsed() > ALIVE {
            self.asked = Instant::now();
            let turns = board.turns()?.load(Ordering::Relaxed);
            if turns != self.turns.0 {
                self.turns = (turns, self.asked);
            }
            if self.space.lives(board.spaces()?, Name(held)) == Some(false) {
                board.post()?.bury(held);
            }
        }
        if holds(board, &self.name, &mut self.lookout)? {
            self.lookout.look(&self.fabric, board)?;
        }
        Ok(())
    }
}

impl Drop for Attended {
    /// Whoever is this rank's end next, or its agent, can have its place.
    fn drop(&mut self) {
        if let Ok(post) = self.board().post() {
            post.leave(self.name.word());
        }
    }
}

impl Transport for Attended {
    fn rank(&self) -> u32 {
        self.fabric.rank()
    }

    fn ranks(&self) -> u32 {
        self.fabric.ranks()
    }

    fn slots(&self) -> u32 {
        self.fabric.slots()
    }

    fn plans(&mut self, epoch: u32, peers: &[Peer], entries: &[Entry]) -> Result<(), TransportError> {
        self.fabric.plans(epoch, peers, entries)?;
        (self.epoch, self.peers, self.sequence) = (epoch, peers.len(), 0);
        // Nothing is under way: what was fetched has been read.
        let slots = self.slots();
        for at in 0..self.spilled.len() {
            let left = self.spilled[at].left();
            self.board().give_back(at as u32 / slots, at as u32 % slots, left);
        }
        lookout::tell(self.board(), epoch, peers, entries)
    }

    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        self.fabric.write(to, slot, place, behind, values)
    }

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        self.fabric.publish(message, epoch, head)
    }

    fn ready(&mut self, sequence: u32) -> Result<bool, TransportError> {
        let slot = sequence % self.fabric.slots();
        let complete = board::news(self.epoch, sequence, self.peers);
        // ORDERING: acquire pairs with the release of whoever has found the messages.
        if self.board().news(slot)?.load(Ordering::Acquire) == complete {
            return Ok(true);
        }
        if self.sequence != sequence {
            (self.sequence, self.looks) = (sequence, 0);
            let (board, noted) = (self.board(), self.board().spaces()?);
            board.post()?.hand_over(self.name.word(), |next| self.space.lives(noted, Name(next)) == Some(true));
        }
        self.looks = self.looks.wrapping_add(1);
        let is_due = self.looks.is_multiple_of(LOOKS) || self.asked.elapsed() > ALIVE;
        if !is_due && !self.is_alone()? {
            return Ok(false);
        }
        self.look_alone()?;
        Ok(self.board().news(slot)?.load(Ordering::Acquire) == complete)
    }

    fn is_here(&self, from: u32, sequence: u32) -> bool {
        // ORDERING: for a report; nothing of the message is read by it.
        let seen = self.board().seen(from, sequence % self.fabric.slots());
        seen.is_ok_and(|seen| seen.load(Ordering::Relaxed) == board::stamp(self.epoch, sequence))
    }

    fn gone(&self, rank: u32) -> Option<TransportError> {
        self.fabric.gone(rank)
    }

    fn ended(&self, from: u32, sequence: u32) -> Option<TransportError> {
        self.fabric.ended(from, sequence)
    }

    fn hindered(&self) -> Option<TransportError> {
        // Whether messages wait here says nothing: a peer that the same agent has left alone could send none.
        let (board, rank) = (self.board(), self.fabric.rank());
        let held = board.post().ok()?.holder();
        let (turns, since) = self.turns;
        let idle = since.elapsed();
        let looked = board.turns().ok()?.load(Ordering::Relaxed) != turns || idle <= IDLE;
        let agent = held != 0 && held != self.name.word();
        (agent && !looked).then(|| TransportError::Agent { pid: Name(held).pid(), rank, idle })
    }

    fn attended(&self) -> u64 {
        self.board().attended().map_or(0, |attended| attended.load(Ordering::Relaxed))
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        self.fabric.look(from, slot, head)
    }

    fn fetch(&mut self, from: u32, slot: u32, bytes: u32) -> Result<bool, TransportError> {
        let at = self.spilled_at(from, slot);
        if let Some(spilled) = self.spilled.get_mut(at) {
            spilled.idle(bytes as usize);
        }
        Ok(true)
    }

    fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), TransportError> {
        self.fabric.taken(from, slot, room)?;
        // The peer has no credit for the next message in this slot yet, so nobody fetches anything.
        let at = self.spilled_at(from, slot);
        let idle = self.spilled[at].idle(0);
        self.board().give_back(from, slot, idle);
        Ok(())
    }

    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let Place::Overflow(at) = place else { return self.fabric.read(from, slot, place, behind, into) };
        let words = self.board().inbox(from, slot, at as usize / 8 + behind, into.len())?;
        for (value, word) in into.iter_mut().zip(words) {
            *value = f64::from_bits(word.load(Ordering::Relaxed));
        }
        Ok(())
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.fabric.vote(round, vote)
    }

    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        self.fabric.vote_of(rank, round)
    }

    fn held(&self) -> Option<Held> {
        let inbox = self.board().inbox_held();
        self.fabric.held().map(|held| Held { receive: held.receive + inbox, ..held })
    }

    fn keeps_plans(&self) -> bool {
        true
    }

    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.fabric.write_plan(to, bytes)
    }

    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        self.fabric.read_plan(from)
    }
}
