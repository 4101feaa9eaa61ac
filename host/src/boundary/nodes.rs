//! Two transports as one: one among the ranks of a node, and one among all.
//!
//! What goes to a rank of this node takes the *near* transport, which numbers the ranks of a node by their *seats*;
//! what goes to any other takes the *far* one, which has all ranks. So ranks that share memory use it, whatever
//! joins the nodes.
//!
//! ```
//! use std::sync::Arc;
//! use umbra::boundary::{Extent, Fabric, Nodes, Transport as _};
//! // Rank 2 of four, of which the odd ones are on another node.
//! let end = |ranks, rank| {
//!     let extent = Extent { ranks, slots: 2, message: 4096 };
//!     Fabric::attach(Arc::new(Fabric::segment(extent)?), extent, rank)
//! };
//! let nodes = Nodes::new(end(2, 1)?, end(4, 2)?, &[0, 2])?;
//! assert_eq!((nodes.rank(), nodes.ranks()), (2, 4));
//! assert!(Nodes::new(end(2, 1)?, end(4, 2)?, &[0, 3]).is_err(), "rank 2 is on its own node");
//! # Ok::<(), umbra::boundary::TransportError>(())
//! ```
//!
//! Plans and votes travel by the far transport, to all ranks. Votes are told within the node as well: that of a rank that has ended
//! is there, also where the far transport does not bring it any more.
//!
//! *Cost*: a look into a table more than the transport that a message takes.

use std::cell::Cell;

use umbra_core::boundary::{Entry, Message, Peer, Place, Vote};

use super::held::Held;
use super::transport::{Transport, TransportError};

/// Why two transports are not those of one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodesError {
    /// A slot must have the same number on both.
    #[error("a pair has {near} slots within the node and {far} between nodes: make both with the same number")]
    Slots {
        /// Of the near transport.
        near: u32,
        /// Of the far one.
        far: u32,
    },
    /// The near transport is not among the ranks that are named.
    #[error(
        "{named} ranks are named as those of this node, and its transport has {ranks}: name all of them, and no others"
    )]
    Count {
        /// Ranks that are named.
        named: usize,
        /// Of the near transport.
        ranks: u32,
    },
    /// The ranks of a node are named in rising order, and each once.
    #[error("rank {rank} is named after rank {before}: name the ranks of a node in rising order, each once")]
    Order {
        /// The rank.
        rank: u32,
        /// The one in front of it.
        before: u32,
    },
    /// A rank of the node is none of all.
    #[error("rank {rank} is named as one of this node, and there are {ranks} ranks: name ranks of the far transport")]
    NoRank {
        /// The rank.
        rank: u32,
        /// Of the far transport.
        ranks: u32,
    },
    /// Memory of a node has one size of messages.
    #[error("rank {rank} makes messages of {bytes} bytes and rank 0 of {first}: all name the same mesh and fields")]
    Message {
        /// The first rank with another size.
        rank: u32,
        /// Bytes of its largest message.
        bytes: u64,
        /// Bytes of that of rank 0.
        first: u64,
    },
    /// This rank is not where the near transport has it.
    #[error(
        "rank {rank} is named at {}, and has seat {seat} within the node: the seat of a rank is its place among the ranks \
         that are named", .named.map_or_else(|| "no place".to_owned(), |named| format!("place {named}"))
    )]
    Seat {
        /// This rank.
        rank: u32,
        /// Its place among the ranks that are named, if it is.
        named: Option<u32>,
        /// Its number in the near transport.
        seat: u32,
    },
}

/// One rank's end of both.
#[derive(Debug)]
pub struct Nodes<N, F> {
    near: N,
    far: F,
    /// By rank: the number within this node.
    seats: Vec<Option<u32>>,
    /// By seat: the rank.
    ranks: Vec<u32>,
    /// By seat: whether that rank is known to have ended.
    ended: Vec<Cell<bool>>,
    /// Whether there is nothing to look for in this exchange, near and far.
    waits: [bool; 2],
    /// Whether messages come from there.
    has_peers: [bool; 2],
}

impl<N: Transport, F: Transport> Nodes<N, F> {
    /// The end of a rank that has an end of `near`, among the ranks of its node, and one of `far`, among all. `ranks` are those of
    /// the node, this one included: numbers of `far` in rising order, whose places are the numbers of `near`. All ranks of a
    /// node are given the same.
    ///
    /// # Errors
    /// [`TransportError::Nodes`] if these are not the ends of one rank.
    pub fn new(near: N, far: F, ranks: &[u32]) -> Result<Nodes<N, F>, TransportError> {
        if near.slots() != far.slots() {
            return Err(NodesError::Slots { near: near.slots(), far: far.slots() }.into());
        }
        if u32::try_from(ranks.len()) != Ok(near.ranks()) {
            return Err(NodesError::Count { named: ranks.len(), ranks: near.ranks() }.into());
        }
        if let Some((&before, &rank)) = ranks.iter().zip(ranks.iter().skip(1)).find(|(before, rank)| before >= rank) {
            return Err(NodesError::Order { rank, before }.into());
        }
        let mut seats = vec![None; far.ranks() as usize];
        for (seat, &rank) in (0..).zip(ranks) {
            let none = NodesError::NoRank { rank, ranks: far.ranks() };
            *seats.get_mut(rank as usize).ok_or(none)? = Some(seat);
        }
        let (rank, seat) = (far.rank(), near.rank());
        let named = seats.get(rank as usize).copied().flatten();
        if named != Some(seat) {
            return Err(NodesError::Seat { rank, named, seat }.into());
        }
        let ended = vec![Cell::new(false); ranks.len()];
        Ok(Nodes { near, far, seats, ranks: ranks.to_vec(), ended, waits: [false; 2], has_peers: [false; 2] })
    }

    /// The end within the node.
    pub const fn near(&self) -> &N {
        &self.near
    }

    /// The end between nodes.
    pub const fn far(&self) -> &F {
        &self.far
    }

    /// The number of a rank within this node, if it is there.
    #[inline]
    fn seat(&self, rank: u32) -> Option<u32> {
        self.seats.get(rank as usize).copied().flatten()
    }

    /// An error of the near transport, about a rank as all know it.
    #[cold]
    fn known(&self, error: TransportError) -> TransportError {
        error.about(|seat| self.ranks.get(seat as usize).copied())
    }
}

/// Asks the transport that reaches a rank, which is the first argument.
macro_rules! ask {
    ($self:ident . $call:ident ($rank:expr $(, $more:expr)*)) => {
        match $self.seat($rank) {
            Some(seat) => $self.near.$call(seat $(, $more)*).map_err(|error| $self.known(error)),
            None => $self.far.$call($rank $(, $more)*),
        }
    };
}

impl<N: Transport, F: Transport> Transport for Nodes<N, F> {
    fn rank(&self) -> u32 {
        self.far.rank()
    }

    fn ranks(&self) -> u32 {
        self.far.ranks()
    }

    fn slots(&self) -> u32 {
        self.far.slots()
    }

    fn plans(&mut self, epoch: u32, peers: &[Peer], entries: &[Entry]) -> Result<(), TransportError> {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for peer in peers {
            match self.seat(peer.rank()) {
                Some(seat) => near.push(peer.seen_as(seat)),
                None => far.push(peer.clone()),
            }
        }
        self.has_peers = [!near.is_empty(), !far.is_empty()];
        self.waits = [false; 2];
        self.near.plans(epoch, &near, entries).map_err(|error| self.known(error))?;
        self.far.plans(epoch, &far, entries)
    }

    #[inline]
    fn may_write(&mut self, to: u32, slot: u32) -> Result<bool, TransportError> {
        ask!(self.may_write(to, slot))
    }

    #[inline]
    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        ask!(self.write(to, slot, place, behind, values))
    }

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        let Some(seat) = self.seat(message.rank) else { return self.far.publish(message, epoch, head) };
        let published = self.near.publish(&Message { rank: seat, ..*message }, epoch, head);
        published.map_err(|error| self.known(error))
    }

    /// Either may have something to look for: a library makes progress only where it is called.
    fn ready(&mut self, sequence: u32) -> Result<bool, TransportError> {
        let [has_near, has_far] = self.has_peers;
        let near = has_near && self.near.ready(sequence).map_err(|error| self.known(error))?;
        let far = has_far && self.far.ready(sequence)?;
        self.waits = [!near, !far];
        Ok(near || far)
    }

    fn is_here(&self, from: u32, sequence: u32) -> bool {
        match self.seat(from) {
            Some(seat) => self.near.is_here(seat, sequence),
            None => self.far.is_here(from, sequence),
        }
    }

    fn gone(&self, rank: u32) -> Option<TransportError> {
        match self.seat(rank) {
            Some(seat) => {
                let why = self.near.gone(seat)?;
                self.ended.get(seat as usize)?.set(true);
                Some(self.known(why))
            }
            None => self.far.gone(rank),
        }
    }

    fn ended(&self, from: u32, sequence: u32) -> Option<TransportError> {
        match self.seat(from) {
            Some(seat) => self.near.ended(seat, sequence).map(|why| self.known(why)),
            None => self.far.ended(from, sequence),
        }
    }

    fn hindered(&self) -> Option<TransportError> {
        self.near.hindered().map(|why| self.known(why)).or_else(|| self.far.hindered())
    }

    fn attended(&self) -> u64 {
        self.near.attended() + self.far.attended()
    }

    #[inline]
    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        let [near_waits, far_waits] = self.waits;
        match self.seat(from) {
            Some(seat) if !near_waits => self.near.look(seat, slot, head).map_err(|error| self.known(error)),
            None if !far_waits => self.far.look(from, slot, head),
            _ => Ok(false),
        }
    }

    fn fetch(&mut self, from: u32, slot: u32, bytes: u32) -> Result<bool, TransportError> {
        ask!(self.fetch(from, slot, bytes))
    }

    fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), TransportError> {
        ask!(self.taken(from, slot, room))
    }

    #[inline]
    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        ask!(self.read(from, slot, place, behind, into))
    }

    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        // Also where the near one takes none, because another end was built there, the others are to hear a refusal.
        let near = self.near.vote(round, vote);
        self.far.vote(round, vote)?;
        near.map_err(|error| self.known(error))
    }

    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        let vote = self.far.vote_of(rank, round)?;
        // While it lives, its far vote comes, and would be left there if another one counted before.
        match self.seat(rank).filter(|&seat| vote.is_none() && self.ended[seat as usize].get()) {
            Some(seat) => self.near.vote_of(seat, round).map_err(|error| self.known(error)),
            None => Ok(vote),
        }
    }

    fn held(&self) -> Option<Held> {
        let (near, far) = (self.near.held()?, self.far.held()?);
        Some(Held { receive: near.receive + far.receive, send: near.send + far.send })
    }

    fn keeps_plans(&self) -> bool {
        self.far.keeps_plans()
    }

    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.far.write_plan(to, bytes)
    }

    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        self.far.read_plan(from)
    }
}
