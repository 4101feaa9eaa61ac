//! What streams refuse, in words and by the name that the C interface gives it.

use umbra_core::crew::Identity;
use umbra_core::stream::{AttachError, ReadError, ShapeError, WriteError};

use crate::sys::heap::NoMemory;
use crate::sys::process::ProcessError;
use crate::sys::segment::SegmentError;
use crate::{pool, reference};

/// Why an operation on streams did nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// One try, and nothing has come, nobody talks, or no stream is idle.
    #[error("nothing to receive, or no idle stream: wait for the others")]
    Empty,
    /// One try, and the receiver has to read first.
    #[error("stream is full: wait until the receiver reads")]
    Full,
    /// What was waited for did not happen in time.
    #[error("timed out: the other end did nothing before the deadline")]
    Timeout,
    /// The deadline came in the middle of a message; the rest goes before whatever is sent next, or with the close.
    #[error("{sent} of {len} bytes were sent before the deadline; the rest goes before what is sent next")]
    Partly {
        /// Bytes that went.
        sent: usize,
        /// Bytes of the message.
        len: usize,
    },
    /// The sender has said everything, and it was received. Not a failure.
    #[error("the stream has ended")]
    Ended,
    /// The receiver has closed, and nobody listens. Not a failure: close too.
    #[error("the receiver has closed the stream: close it too")]
    Unheard,
    /// The process at the other end died, or gave up in the middle.
    #[error("the process at the other end of the stream died or gave up: close it")]
    PeerDead,
    /// The rest of a message that was begun could not be kept, so the receiver is told that it will not come.
    #[error("the conversation was broken off, as there was no memory for the rest of a message: begin another one")]
    BrokenOff,
    /// Somebody destroyed the streams.
    #[error("streams were destroyed")]
    Destroyed,
    /// The last 256 values of the 64 bits beside a message are not the user's.
    #[error("argument {0:#x} is reserved: it must be below 2^64 - 256")]
    ReservedArgument(u64),
    /// In this mode a stream must be brought along.
    #[error("whoever begins here brings a stream: ask the adapter to supply one")]
    StreamNeeded,
    /// In this mode a stream cannot be brought along, or it is another adapter's.
    #[error("no stream can be brought along here, or it is another adapter's")]
    StreamRefused,
    /// The conversation is to be one message, for which the adapter has no room at all, or the other way round.
    #[error("the adapter was made without {0}")]
    NoSuchPlace(&'static str),
    /// A conversation of one message cannot be ended by its receiver.
    #[error("a conversation of one message cannot be cut short")]
    NotBrief,
    /// The message of this conversation was sent.
    #[error("the one message of this conversation was sent: begin another one")]
    AlreadySent,
    /// Not possible in a conversation that is one message.
    #[error("a conversation of one message has no memory of a pool")]
    Buffered,
    /// The message does not fit into a block, and there is no pool to put it into; or a gateway does not keep so much.
    #[error("message of {len} bytes is longer than {most} bytes, and there is no pool to put it into")]
    MessageTooLarge {
        /// Bytes of the message.
        len: usize,
        /// Bytes of a block, or those that a gateway keeps.
        most: usize,
    },
    /// No memory for a whole message. One that was to be received comes again, and can be read in parts.
    #[error("stream: {0}")]
    NoMemory(#[from] NoMemory),
    /// Memory can be received only into a pool.
    #[error("no pool is known at the adapter: attach with one")]
    NoPool,
    /// Memory of a pool that this process does not know at the adapter.
    #[error("memory of pool {0}, which this process does not know at the adapter")]
    UnknownPool(u64),
    /// Pools at one adapter are told apart by their uid.
    #[error("two pools have the uid {0}: give them different ones")]
    SameUid(u64),
    /// The adapter was made without tasks.
    #[error("the adapter counts no tasks")]
    NoTasks,
    /// More tasks are done than there were, or more than can be counted.
    #[error("no task is open, or too many are")]
    TaskCount,
    /// Which of the processes that use the streams live cannot be told from here.
    #[error("streams belong to another space of process numbers: processes of one container share them")]
    OtherNamespace,
    /// The streams, or this end of a conversation, are those of the process that this one was forked off from.
    #[error("streams belong to the process that forked this one off: attach in this process")]
    Forked,
    /// More processes than can be told apart.
    #[error("streams for {0} processes: they can be for at most {most}", most = umbra_core::crew::MOST)]
    Members(u16),
    /// As many processes use the adapter as it has room for.
    #[error("{0} finds no room: as many processes use the streams as they were made for")]
    TooManyMembers(Identity),
    /// What was asked for is impossible.
    #[error("{0}")]
    Shape(ShapeError),
    /// What is attached holds no streams.
    #[error("{0}")]
    NotStreams(AttachError),
    /// The layout is of another version.
    #[error("streams have layout version {0}, this program knows version {known}", known = super::layout::VERSION)]
    VersionMismatch(u64),
    /// The words contradict each other.
    #[error("stream is damaged: give it up")]
    Damaged,
    /// A pool.
    #[error("stream: {0}")]
    Pool(#[from] pool::Error),
    /// A file at one end of a stream.
    #[error("stream: {0}")]
    File(rustix::io::Errno),
    /// The shared memory.
    #[error("stream: {0}")]
    Segment(#[from] SegmentError),
    /// A name at which others meet has 1 to [`NAME_MAX`](super::NAME_MAX) bytes.
    #[error("name of {0} bytes: it must have 1 to {most}", most = super::NAME_MAX)]
    NameLength(usize),
    /// Somebody waits under this name to have the same end.
    #[error("another process already {0} under this name: take another name, or the other end")]
    NameTaken(&'static str),
    /// A process of another user holds this name.
    #[error("user {0} holds this name: take another one")]
    OtherUser(u32),
    /// The socket at which two processes meet.
    #[error("cannot meet the other process: {0}")]
    Meeting(rustix::io::Errno),
    /// The reference to it.
    #[error("stream: {0}")]
    Reference(#[from] reference::Error),
    /// The system gives no random number.
    #[error("no random number for new streams: {0}")]
    Random(rustix::io::Errno),
    /// This process cannot tell who it is.
    #[error("stream: {0}")]
    Process(#[from] ProcessError),
}

impl Error {
    /// The name of its code in the C interface.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Error::Empty => "CHANNEL_EMPTY",
            Error::Full => "CHANNEL_FULL",
            Error::Timeout | Error::Partly { .. } => "TIMEOUT",
            Error::Ended | Error::Unheard => "EOT",
            Error::PeerDead => "PEER_DEAD",
            Error::Destroyed => "OBJECT_DESTROYED",
            Error::Buffered | Error::TaskCount | Error::OtherNamespace | Error::Forked => "INVALID_OPERATION",
            Error::NoTasks => "SEMAPHORE_NOT_FOUND",
            Error::TooManyMembers(_) => "OUT_OF_SPACE",
            Error::VersionMismatch(_) => "VERSION_MISMATCH",
            Error::Damaged => "INVALID_STATE",
            Error::Segment(_) | Error::File(_) | Error::NoMemory(_) | Error::BrokenOff => "MEMORY_ERRNO",
            Error::Reference(error) => error.code(),
            Error::Process(_) | Error::Pool(_) | Error::Random(_) | Error::Meeting(_) => "FAILURE",
            _ => "INVALID_ARGUMENT",
        }
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Full => Error::Full,
            WriteError::TooLarge { len, most } => Error::MessageTooLarge { len, most },
            WriteError::Unheard => Error::Unheard,
            WriteError::PeerDead => Error::PeerDead,
            WriteError::Destroyed => Error::Destroyed,
            _ => Error::Damaged,
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Empty => Error::Empty,
            ReadError::Ended => Error::Ended,
            ReadError::PeerDead => Error::PeerDead,
            ReadError::Destroyed => Error::Destroyed,
            _ => Error::Damaged,
        }
    }
}

/// As `std::io` says it; an end is none of these.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error {
            Error::Empty | Error::Full => ErrorKind::WouldBlock,
            Error::Timeout | Error::Partly { .. } => ErrorKind::TimedOut,
            Error::Unheard => ErrorKind::BrokenPipe,
            Error::PeerDead => ErrorKind::ConnectionReset,
            Error::NoMemory(_) => ErrorKind::OutOfMemory,
            _ => ErrorKind::Other,
        };
        std::io::Error::new(kind, error)
    }
}
