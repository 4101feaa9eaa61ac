//! What is posted, and what comes of it.

use super::VerbsError;
use super::abi;
use super::memory::Region;
use super::status::{WorkKind, WorkStatus};

/// Local bytes: a part of a registered segment.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The memory.
    pub region: &'a Region,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: u32,
}

impl Piece<'_> {
    pub(super) fn sge(&self) -> Result<abi::Sge, VerbsError> {
        let Piece { region, offset, len } = *self;
        let size = region.segment().len();
        if offset > size || len as usize > size - offset {
            return Err(VerbsError::OutOfBounds { offset, len: len as usize, size });
        }
        Ok(abi::Sge { addr: region.address(offset), length: len, lkey: region.lkey() })
    }
}

/// Where in the peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The address there.
    pub address: u64,
    /// The remote key for it.
    pub rkey: u32,
}

/// Work to post.
#[derive(Clone, Copy, Debug)]
pub enum Work<'a> {
    /// The peer's bytes into ours; the peer's processor is not involved.
    Read {
        /// Theirs.
        from: Remote,
        /// Ours.
        to: Piece<'a>,
    },
    /// Our bytes into the peer's.
    Write {
        /// Ours.
        from: Piece<'a>,
        /// Theirs.
        to: Remote,
        /// If given, the peer gets a completion with this word; it must have posted a buffer.
        immediate: Option<u32>,
    },
    /// Our bytes into the next buffer that the peer posted.
    Send {
        /// Ours.
        from: Piece<'a>,
    },
}

/// Something ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// What it was posted with.
    pub id: u64,
    /// How it ended.
    pub status: WorkStatus,
    /// What it was; means nothing if it failed.
    pub kind: WorkKind,
    /// Bytes that arrived.
    pub bytes: u32,
    /// The word that came with it.
    pub immediate: Option<u32>,
}
