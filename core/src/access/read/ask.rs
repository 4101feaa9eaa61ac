//! What is asked, and why it may not be had.

use core::fmt;

use crate::error::Status;
use crate::machine::Link;
use crate::peer::{Peer, Sp};
use crate::region::Region;
use crate::time::Time;

/// Which bytes are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Get {
    /// Whose memory.
    pub owner: Peer,
    /// The link to the owner's first service process.
    pub via: Link,
    /// First byte, in the owner's address space.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// When to give up.
    pub deadline: Time,
    /// Comes back with every delivery.
    pub tag: u64,
    /// The region, of one who has its ticket: then nobody is asked where the bytes are, and no other
    /// generation will do. Else whatever covers the address now is read.
    pub region: Option<Region>,
}

/// Why a read ended without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ReadError {
    /// The server did not answer in time.
    Timeout {
        /// Who is missing.
        missing: Sp,
    },
    /// The server died or left.
    PeerFailed {
        /// Who.
        sp: Sp,
    },
    /// There is no link of this number.
    NoLink(Link),
    /// The server answered something that its protocol does not have.
    Malformed {
        /// Who.
        sp: Sp,
    },
    /// The server refused.
    Refused(Status),
}

impl From<ReadError> for Status {
    fn from(error: ReadError) -> Status {
        match error {
            ReadError::Timeout { .. } => Status::Timeout,
            ReadError::PeerFailed { .. } | ReadError::NoLink(_) => Status::PeerFailed,
            ReadError::Malformed { .. } => Status::Malformed,
            ReadError::Refused(status) => status,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Timeout { missing } => write!(f, "service process {missing} did not answer in time"),
            ReadError::PeerFailed { sp } => write!(f, "service process {sp} is gone"),
            ReadError::NoLink(link) => write!(f, "there is no link {}: connect before reading", link.0),
            ReadError::Malformed { sp } => write!(f, "service process {sp} answered nonsense"),
            ReadError::Refused(status) => fmt::Display::fmt(status, f),
        }
    }
}
impl core::error::Error for ReadError {}
