//! What a channel refuses, in words and by the name that the C interface gives it.

use rustix::io::Errno;
use umbra_core::channel::{AttachError, ReceiveError, SendError, ShapeError};
use umbra_core::crew::Identity;

use crate::pool;
use crate::reference;
use crate::sys::heap::NoMemory;
use crate::sys::process::ProcessError;
use crate::sys::segment::SegmentError;

/// Why an operation on a channel did nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// One try, and no message waits.
    #[error("channel is empty: wait until a message is sent")]
    Empty,
    /// One try, and there is no room.
    #[error("channel is full: wait until a message is received")]
    Full,
    /// What was waited for did not happen in time.
    #[error("timed out: what was waited for did not happen before the deadline")]
    Timeout,
    /// The message was sent, but nobody received it in time; it is still in the channel.
    #[error("message was sent, but nobody received it before the deadline")]
    NotReceived,
    /// Somebody destroyed the channel, or its owner ended.
    #[error("channel was destroyed")]
    Destroyed,
    /// A channel that this process made, and that lives, has the number already.
    #[error("channel {0} of this process lives: destroy it first, or take another uid")]
    UidTaken(u64),
    /// A capacity of zero.
    #[error("capacity 0 is below the minimum of one message")]
    CapacityTooSmall,
    /// The block of a message is too small.
    #[error("a block of {0} bytes is below the minimum of {min} bytes", min = super::BLOCK_MIN)]
    BlockTooSmall(u32),
    /// Capacity or block is larger than a channel can have.
    #[error("{0}")]
    TooLarge(ShapeError),
    /// The message does not fit into a block, and no pool is known at the channel to put it into.
    #[error("message of {len} bytes does not fit into a block of {block} bytes, and there is no pool to put it into")]
    MessageTooLarge {
        /// Bytes of the message.
        len: usize,
        /// Bytes of a block.
        block: usize,
    },
    /// The message does not fit into the memory that it was to land in; it is still the first.
    #[error("message of {len} bytes does not fit into {pad} bytes: it is kept, offer more memory")]
    PadTooSmall {
        /// Bytes of the message.
        len: usize,
        /// Bytes of the memory.
        pad: usize,
    },
    /// Bytes can be received as memory only into a pool.
    #[error("no pool is known at the channel: create it or attach to it with one")]
    NoPool,
    /// Memory of a pool that this process does not know at the channel cannot be sent.
    #[error("memory of pool {0}, which this process does not know at the channel: attach to it with that pool")]
    UnknownPool(u64),
    /// The first message is about memory of a pool with this [instance](pool::Pool::instance), which this process does not know
    /// at the channel; it is still the first.
    #[error(
        "message is about memory of the pool with instance {0:#x}, which this process does not know at the channel: it is \
         kept, attach to the channel with that pool"
    )]
    UnknownMemory(u64),
    /// A channel in a pool has no descriptor of its own.
    #[error("channel lies in a pool, and has no descriptor: hand its reference on")]
    Pooled,
    /// The memory is its sender's, who let us read it.
    #[error("memory was lent to be read: it is its sender's to change and to free")]
    Lent,
    /// A pool, or memory of one.
    #[error("channel: {0}")]
    Pool(#[from] pool::Error),
    /// No event has this number, or none that can be polled for.
    #[error("{0} is no event that can be polled for")]
    UnknownEvent(i32),
    /// A semaphore is asked for messages or a barrier, or another channel for a semaphore.
    #[error("a semaphore has no messages and no barrier, and other channels are no semaphores")]
    WrongKind,
    /// The barrier is broken until it is reset.
    #[error("barrier is broken: a party gave up, timed out or died; reset it")]
    BarrierBroken,
    /// One try, and others are still to come, or to take what they were released by; this party was not counted.
    #[error("barrier is not complete, or its last round not over: wait for the others")]
    BarrierTryAgain,
    /// Parties of the barrier's other form are in the round.
    #[error("barrier: parties that wait in one call and parties in two steps cannot meet in one round")]
    BarrierMixed,
    /// A bounded semaphore is at its bound, or a count at 2^64 - 1.
    #[error("semaphore is at its bound")]
    SemaphoreFull,
    /// More channels than one can wait for at once.
    #[error("a set of {members} channels is too large: one can wait for {most} at once", most = crate::sys::futex::MOST)]
    SetTooLarge {
        /// Channels asked for.
        members: usize,
    },
    /// No descriptor to wait for a set by.
    #[error("no descriptor to wait for channels by: {0}")]
    Descriptor(Errno),
    /// Which of the processes that use the channel live cannot be told from here.
    #[error("channel belongs to another space of process numbers: processes of one container share a channel")]
    OtherNamespace,
    /// A sender, receiver, barrier, semaphore, set or bell, or a message that is being written, is that of the process that this
    /// one was forked off from.
    #[error("handle of a channel belongs to the process that forked this one off: open one in this process")]
    Forked,
    /// No memory for what is to be looked at of a message, which is still the first.
    #[error("channel: {0}")]
    NoMemory(#[from] NoMemory),
    /// More processes than can be told apart.
    #[error("a channel for {0} processes: it can be for at most {most}", most = umbra_core::crew::MOST)]
    Members(u16),
    /// As many processes use the channel as it has room for.
    #[error("{0} finds no room: as many processes use the channel as it was made for")]
    TooManyMembers(Identity),
    /// What is attached is no channel, or one of another version.
    #[error("{0}")]
    NotChannel(AttachError),
    /// The layout is of another version.
    #[error("channel has layout version {0}, this program knows version {known}", known = super::layout::VERSION)]
    VersionMismatch(u64),
    /// The words of the channel contradict each other.
    #[error("channel is damaged: give it up")]
    Damaged,
    /// A reference cannot be used.
    #[error(transparent)]
    Reference(#[from] reference::Error),
    /// No random number, by which the channel is told from others.
    #[error("no random number: {0}")]
    Random(Errno),
    /// The shared memory.
    #[error("channel: {0}")]
    Segment(#[from] SegmentError),
    /// This process cannot tell who it is.
    #[error("channel: {0}")]
    Process(#[from] ProcessError),
}

impl Error {
    /// The name of its code in the C interface.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Error::Empty => "CHANNEL_EMPTY",
            Error::Full => "CHANNEL_FULL",
            Error::Timeout | Error::NotReceived => "TIMEOUT",
            Error::Destroyed => "OBJECT_DESTROYED",
            Error::CapacityTooSmall => "CHANNEL_CAPACITY_BELOW_REQUIRED_MINIMUM",
            Error::BlockTooSmall(_) => "CHANNEL_BLOCKSIZE_BELOW_REQUIRED_MINIMUM",
            Error::TooLarge(_) => "CHANNEL_BLOCKSIZE_OVER_ALLOWED_MAXIMUM",
            Error::PadTooSmall { .. } => "CHANNEL_RECV_INVALID_DESTINATION_MEMORY",
            Error::MessageTooLarge { .. }
            | Error::Members(_)
            | Error::NoPool
            | Error::UidTaken(_)
            | Error::UnknownPool(_)
            | Error::UnknownMemory(_)
            | Error::UnknownEvent(_)
            | Error::WrongKind
            | Error::NotChannel(_) => "INVALID_ARGUMENT",
            Error::Lent | Error::Pooled | Error::BarrierMixed | Error::OtherNamespace | Error::Forked => {
                "INVALID_OPERATION"
            }
            Error::Pool(error) => error.code(),
            Error::SetTooLarge { .. } => "CHANNEL_EVENT_CAPACITY_EXCEEDED",
            Error::BarrierBroken => "BARRIER_BROKEN",
            Error::BarrierTryAgain => "BARRIER_WAIT_TRY_AGAIN",
            Error::SemaphoreFull => "INVALID_VALUE",
            Error::TooManyMembers(_) => "OUT_OF_SPACE",
            Error::VersionMismatch(_) => "VERSION_MISMATCH",
            Error::Damaged => "CHANNEL_BUFFER_ERROR",
            Error::Segment(_) | Error::NoMemory(_) => "MEMORY_ERRNO",
            Error::Reference(error) => error.code(),
            Error::Random(_) | Error::Descriptor(_) | Error::Process(_) => "FAILURE",
        }
    }
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Full => Error::Full,
            SendError::TooLarge { len, block } => Error::MessageTooLarge { len, block },
            SendError::Destroyed => Error::Destroyed,
            _ => Error::Damaged,
        }
    }
}

impl From<ReceiveError> for Error {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Empty => Error::Empty,
            ReceiveError::PadTooSmall { len, pad } => Error::PadTooSmall { len, pad },
            ReceiveError::Destroyed => Error::Destroyed,
            _ => Error::Damaged,
        }
    }
}
