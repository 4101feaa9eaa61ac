//! Control links: frames between two processes that proved to be of one job.
//!
//! A link is a TCP or Unix stream. Before anything else both ends exchange who they are and a fresh
//! random challenge, and prove that they hold the job's [`Secret`](crate::secret::Secret) without sending
//! it. After that every frame carries a sequence number and a 16-byte keyed digest: a byte that changes,
//! repeats, is missing or comes from elsewhere closes the link with a typed [`Close`]. Unix links pass
//! file descriptors along with frames.
//!
//! [`Codec`] is all of that without a socket (sans-I/O), so that damaged bytes are a unit test;
//! [`Stream`] puts it on a socket; [`Dial`] connects with retries; [`driver`](crate::driver) polls many.
//!
//! What this protects: only holders of the secret take part, and nobody can change or replay what they
//! say. What it does not: the bytes are not encrypted.

mod codec;
mod dial;
mod handshake;
mod stream;

pub use codec::{Codec, Input, Sending, Side};
pub use dial::{Address, Dial, Listener, socket_path};
pub use handshake::PROTOCOL_VERSION;
pub use stream::Stream;

use core::fmt;

use umbra_core::error::Status;
use umbra_core::peer::{Incarnation, Peer};
use umbra_core::wire::FrameError;

/// Which process is at an end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Party {
    /// A rank or a service process.
    Peer(Peer),
    /// A launcher or an administrator's tool; takes part in no group.
    Tool,
}

impl Party {
    const TOOL: u32 = u32::MAX;

    /// The wire form.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        match self {
            Party::Peer(peer) => peer.to_bits(),
            Party::Tool => Self::TOOL,
        }
    }

    /// Reads the wire form.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Party> {
        match (bits, Peer::from_bits(bits)) {
            (Self::TOOL, _) => Some(Party::Tool),
            (_, Some(peer)) => Some(Party::Peer(peer)),
            (_, None) => None,
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::Peer(peer) => peer.fmt(f),
            Party::Tool => f.write_str("tool"),
        }
    }
}

/// Who speaks, and in which life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    /// Which process.
    pub party: Party,
    /// Which life of it; never 0.
    pub incarnation: Incarnation,
}

/// Why a link ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Close {
    /// The other end closed or died.
    #[error("peer closed the link")]
    Ended,
    /// The system reported an error; its number.
    #[error("link failed: {}", std::io::Error::from_raw_os_error(*.0))]
    Io(i32),
    /// The first bytes are not those of a link.
    #[error("first bytes are not those of an umbra link")]
    NotALink,
    /// The other end speaks another version.
    #[error("peer speaks protocol version {0}, this is version {PROTOCOL_VERSION}")]
    WrongVersion(u16),
    /// The other end does not hold the job's secret.
    #[error("job secret does not match")]
    Unauthenticated,
    /// The other end said why it does not talk to us.
    #[error("peer refused the link: {0}")]
    Refused(Status),
    /// The other end is not the process that was expected.
    #[error("reached {0} instead of the expected process")]
    WrongParty(Party),
    /// A handshake message holds something impossible.
    #[error("handshake message is malformed")]
    BadHandshake,
    /// No connection or no handshake in time.
    #[error(
        "handshake did not end in time: the process there is stopped, busy or cut off; see that it runs and can be reached, \
         or wait longer"
    )]
    HandshakeTimeout,
    /// A frame's digest does not match: bytes were changed, lost, repeated or made up.
    #[error("digest of frame {0} does not match")]
    BadDigest(u64),
    /// An authentic record holds no frame.
    #[error("malformed frame: {0}")]
    BadFrame(FrameError),
    /// A record announces more bytes than any frame has.
    #[error("record announces {0} bytes, more than any frame has")]
    TooLarge(u32),
    /// File descriptors came that no frame announced, or fewer than announced.
    #[error("file descriptors do not match the frames")]
    Descriptors,
    /// This side ended the link.
    #[error("closed by this side")]
    Local,
}

impl Close {
    /// Whether trying again later can help.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Close::Ended | Close::Io(_) | Close::HandshakeTimeout)
    }
}

/// A frame was not queued.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The queue to the peer is full: send again after progress.
    #[error("queue to the peer is full: send again after progress")]
    Full,
    /// The handshake has not ended, or the link is gone.
    #[error("link is not up")]
    NotUp,
    /// The body is larger than a frame carries.
    #[error("frame is larger than a link carries")]
    TooLarge,
    /// Only Unix links pass file descriptors, at most 8 with one frame.
    #[error("this link cannot pass these file descriptors")]
    Descriptors,
}
