//! What carries an exchange: slots of the receiver, overflow of the sender, votes.
//!
//! Values are packed into the receiver's slot one row after the other, and used from there. A transport without memory
//! that both sides reach keeps what is packed until it was carried. No call waits.

use std::time::Duration;

use umbra_core::boundary::{Entry, Key, Message, Peer, Place, Refusal, Vote};

use super::fabric::Unshared;
use super::held::Held;
use super::nodes::NodesError;

/// Why a transport could not do what was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The rank is none of this fabric's.
    #[error("rank {rank} is none of the {ranks} ranks of this fabric")]
    NoRank {
        /// The rank.
        rank: u32,
        /// Ranks of the fabric.
        ranks: u32,
    },
    /// A slot is smaller than what is written to it or read from it.
    #[error("{end} bytes do not fit into a slot of {capacity}: make the fabric with larger slots")]
    SlotTooSmall {
        /// Where the row ends.
        end: u64,
        /// Bytes of a slot.
        capacity: u64,
    },
    /// The memory of the fabric cannot be reached.
    #[error("memory of the fabric: {0}")]
    Memory(#[from] crate::sys::segment::SegmentError),
    /// A library that carries messages has refused a call.
    #[error("{call} failed with code {code}: the manual of that library says why")]
    Library {
        /// Which call.
        call: &'static str,
        /// What it returned.
        code: i32,
    },
    /// A message is longer than such a library can carry. Nothing of it was sent.
    #[error(
        "a message of {bytes} bytes, and one has at most {most}: exchange fewer fields at a time, deal the blocks to more \
         ranks, or choose smaller slots"
    )]
    TooLong {
        /// Bytes of the message, or of the slot that it would come into.
        bytes: u64,
        /// Bytes of one message at most.
        most: u64,
    },
    /// The agent of this rank does nothing and cannot be replaced, because it is alive, or in another space of process numbers, where
    /// it is not known here whether it is.
    #[error(
        "the agent of rank {rank}, process {pid}, has not looked for {} ms: let it go on, or end it and the rank looks \
         for itself, unless it is of another space of process numbers: then make a new fabric", .idle.as_millis()
    )]
    Agent {
        /// The process.
        pid: u32,
        /// The rank.
        rank: u32,
        /// For how long the rank has seen no sign of life.
        idle: Duration,
    },
    /// The queue pair to a rank is broken: the rank has ended, or the network between is down.
    #[error("the way to rank {rank} is broken ({status}): see why it ended, or whether its link is up")]
    Broken {
        /// The rank.
        rank: u32,
        /// How the first work ended that did not end well.
        status: crate::verbs::WorkStatus,
    },
    /// The process of a rank has ended before the rank had sent all.
    #[error("process {pid} of rank {rank} has ended: see why")]
    Ended {
        /// The rank.
        rank: u32,
        /// The process.
        pid: u32,
    },
    /// The device refuses work for a rank.
    #[error("the device refuses work for rank {rank}, code {code}: see whether it is still there")]
    Refused {
        /// The rank.
        rank: u32,
        /// Of the system.
        code: i32,
    },
    /// Memory for messages of a rank cannot be registered with the device.
    #[error(
        "{bytes} bytes for messages of rank {rank} cannot be registered, code {code}: raise the limit of locked memory \
         (`ulimit -l`), or choose smaller slots"
    )]
    NotRegistered {
        /// The rank.
        rank: u32,
        /// Bytes.
        bytes: u64,
        /// Of the system.
        code: i32,
    },
    /// A rank has told of a slot that is smaller than the messages it announced to take.
    #[error(
        "rank {rank} has a slot of {room} bytes for a message of {bytes}: both sides must run the same program and plan"
    )]
    NoRoom {
        /// The rank.
        rank: u32,
        /// Bytes of the message.
        bytes: u64,
        /// Bytes of the slot, as it was told.
        room: u64,
    },
    /// This process cannot say who it is.
    #[error("{0}")]
    Process(crate::sys::process::ProcessError),
    /// Agents and ends of ranks hold boards by name, and this process has as many as it can have at a time.
    #[error(
        "this process has {most} agents and ends of ranks, as many as can be told apart: drop some, or use another process"
    )]
    NoName {
        /// How many it can have.
        most: u32,
    },
    /// The rank was built in this memory before, and what its peers have seen of that is still there.
    #[error(
        "rank {rank} was built on this fabric by process {pid} before: make a new fabric, and build all ranks anew"
    )]
    WasBuilt {
        /// The rank.
        rank: u32,
        /// The process, which may have ended.
        pid: u32,
    },
    /// Two ends of a process would take what is sent to each other.
    #[error("this process has an end among these ranks already: drop it before the next one is made")]
    HasEnd,
    /// Messages would be read of other processes than those that the end is made for.
    #[error(
        "the window is one of other processes than those of the communicator: make both of the same ones, in one order"
    )]
    OtherProcesses,
    /// The communicator is the program's own, which may free it.
    #[error("no end is made on a communicator of the program itself: make it on a duplicate")]
    Lent,
    /// The message of a strip, where each strip has one, is not as long as the strip, or is not the null that was announced.
    #[error(
        "rank {rank}: {key}: {} bytes came for a strip of {bytes}: both sides must build the same plan", count(.came)
    )]
    StripSize {
        /// The rank that has sent it.
        rank: u32,
        /// The channel.
        key: Key,
        /// Bytes that should have come: of the strip, or none.
        bytes: u64,
        /// Bytes that came; `None`: more, and nobody knows how many.
        came: Option<u64>,
    },
    /// A message is not as long as it says itself, or longer than may come.
    #[error(
        "rank {rank}: a message of {} bytes came where {bytes} should: both sides must run the same program and plan",
        count(.came)
    )]
    MessageSize {
        /// The rank that has sent it.
        rank: u32,
        /// Bytes that should have come.
        bytes: u64,
        /// Bytes that came; `None`: more, and nobody knows how many.
        came: Option<u64>,
    },
    /// The order of calls for a channel that has a message of its own.
    #[error("rank {rank}: {key}: {refusal}")]
    Channel {
        /// The rank at its other end.
        rank: u32,
        /// The channel.
        key: Key,
        /// Why.
        refusal: Refusal,
    },
    /// Two transports are not those of one rank of a node.
    #[error("{0}")]
    Nodes(#[from] NodesError),
    /// A rank cannot use memory that all ranks of its node share.
    #[error(
        "rank {rank} {why}: see that the processes of a node find each other in /proc and have memory and descriptors left, or \
         use a transport that needs no memory in common, as MpiSlot"
    )]
    NotShared {
        /// The rank.
        rank: u32,
        /// Why.
        why: Unshared,
    },
    /// What a rank sends to all others does not come in time.
    #[error("nothing came from rank {rank}: see why it ended, or whether it runs the same mesh")]
    Silent {
        /// The rank.
        rank: u32,
    },
}

impl TransportError {
    /// The rank that cannot be reached any more, or is not there.
    pub(super) const fn unreached(&self) -> Option<u32> {
        match self {
            TransportError::Broken { rank, .. }
            | TransportError::Ended { rank, .. }
            | TransportError::Refused { rank, .. }
            | TransportError::Silent { rank } => Some(*rank),
            _ => None,
        }
    }

    /// The same of the rank that all know by another number, if it is about one: each error of one that is seen by its number
    /// within a node goes through this.
    pub(super) fn about(mut self, known: impl FnOnce(u32) -> Option<u32>) -> TransportError {
        match &mut self {
            TransportError::NoRank { rank, .. }
            | TransportError::Agent { rank, .. }
            | TransportError::Broken { rank, .. }
            | TransportError::Ended { rank, .. }
            | TransportError::Refused { rank, .. }
            | TransportError::NotRegistered { rank, .. }
            | TransportError::NoRoom { rank, .. }
            | TransportError::WasBuilt { rank, .. }
            | TransportError::StripSize { rank, .. }
            | TransportError::MessageSize { rank, .. }
            | TransportError::Channel { rank, .. }
            | TransportError::NotShared { rank, .. }
            | TransportError::Silent { rank } => *rank = known(*rank).unwrap_or(*rank),
            TransportError::SlotTooSmall { .. }
            | TransportError::Memory(_)
            | TransportError::Library { .. }
            | TransportError::TooLong { .. }
            | TransportError::Process(_)
            | TransportError::NoName { .. }
            | TransportError::HasEnd
            | TransportError::OtherProcesses
            | TransportError::Lent
            | TransportError::Nodes(_) => {}
        }
        self
    }
}

/// Bytes that came, in words.
fn count(came: &Option<u64>) -> String {
    came.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string())
}

/// Carries the messages of one rank.
pub trait Transport {
    /// This rank.
    fn rank(&self) -> u32;
    /// All ranks.
    fn ranks(&self) -> u32;
    /// Slots of each pair.
    fn slots(&self) -> u32;

    /// The ranks that messages go to and come from, with their plans: after the first build and after each change of the
    /// mesh, when nothing is under way, and before the first message of this epoch. Into each slot the first message has at most the peer's
    /// [`slot_bytes`](Peer::slot_bytes).
    ///
    /// # Errors
    /// [`TransportError`].
    fn plans(&mut self, _epoch: u32, _peers: &[Peer], _entries: &[Entry]) -> Result<(), TransportError> {
        Ok(())
    }

    /// Whether a message may be packed into this slot: what was packed there before is carried. That there is credit says
    /// so too, where both sides use the same memory.
    ///
    /// # Errors
    /// [`TransportError`].
    fn may_write(&mut self, _to: u32, _slot: u32) -> Result<bool, TransportError> {
        Ok(true)
    }

    /// Writes values of a strip into a message to a rank that is being packed: `place`, and so many values further.
    ///
    /// # Errors
    /// [`TransportError`].
    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError>;

    /// Lets the receiver see a message, after its last value was written.
    ///
    /// # Errors
    /// [`TransportError`].
    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError>;

    /// Whether it is worth to look for the messages of this exchange; asked before any of them is looked at.
    ///
    /// # Errors
    /// [`TransportError`].
    fn ready(&mut self, _sequence: u32) -> Result<bool, TransportError> {
        Ok(true)
    }

    /// Whether the message of a rank in this exchange is known to be here, although not all are and it was not shown; asked after
    /// the deadline.
    fn is_here(&self, _from: u32, _sequence: u32) -> bool {
        false
    }

    /// That a rank has ended; asked now and then by who waits for its vote.
    fn gone(&self, _rank: u32) -> Option<TransportError> {
        None
    }

    /// That a rank has ended, and has not sent its message of this exchange; asked now and then by who waits for that.
    fn ended(&self, _from: u32, _sequence: u32) -> Option<TransportError> {
        None
    }

    /// What else than the peers may keep the open exchange from being over, after its deadline.
    fn hindered(&self) -> Option<TransportError> {
        None
    }

    /// Messages that an agent has found for this rank, which has not looked for them itself.
    fn attended(&self) -> u64 {
        0
    }

    /// Copies the head out if there is a message in this slot that was not [taken](Self::taken) yet.
    ///
    /// # Errors
    /// [`TransportError`].
    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError>;

    /// Whether so many bytes that did not fit into this slot are here; asked again until they are. Where the receiver
    /// reaches the sender's memory, they are.
    ///
    /// # Errors
    /// [`TransportError`].
    fn fetch(&mut self, _from: u32, _slot: u32, _bytes: u32) -> Result<bool, TransportError> {
        Ok(true)
    }

    /// The message in this slot was used or refused: do not show it again. The next one in it has at most `room` bytes.
    ///
    /// # Errors
    /// [`TransportError`].
    fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), TransportError>;

    /// Reads values of a strip of a message.
    ///
    /// # Errors
    /// [`TransportError`].
    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError>;

    /// Tells all ranks what this one says in a round; rounds are counted from 1, and nobody is more than one ahead.
    ///
    /// # Errors
    /// [`TransportError`].
    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError>;

    /// What a rank says in a round, if it has said anything.
    ///
    /// # Errors
    /// [`TransportError`].
    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError>;

    /// Bytes of memory that this end holds, if it can say so; not asked in an exchange.
    fn held(&self) -> Option<Held> {
        None
    }

    /// Whether a plan stays where it was written, so that reading finds the last one, or nothing where none was. If not, plans are
    /// messages, each is read once and waited for; so all ranks write to all, also to those that they share no channel with.
    fn keeps_plans(&self) -> bool {
        false
    }

    /// Writes this rank's list of channels to a rank, for comparison; nothing if they share none. Between exchanges only.
    ///
    /// # Errors
    /// [`TransportError`].
    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError>;

    /// Reads what a rank has written by [`write_plan`](Self::write_plan); nothing if it is a message that is not all here. It is
    /// asked again then, until the deadline of a vote.
    ///
    /// # Errors
    /// [`TransportError`].
    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError>;
}
