//! What is posted, and what comes of it.

use super::VerbsError;
use super::abi;
use super::memory::Region;
use super::numbers::WITH_IMM;
use super::status::{WorkKind, WorkStatus};

/// Bytes of one piece of work, at most, that every device takes.
pub(crate) const PIECE_MAX: u64 = 1 << 30;

/// Memory that work may name as local: registered here, or another function's by an alias of its key.
///
/// What a key opens is the card's business. An implementation that names the wrong key gains nothing: only memory that
/// is registered as a [`Region`] in the same domain, or that its owner let this domain use, can be reached at all. The
/// processor itself touches only what [`registered`](Self::registered) names.
pub trait Local: std::fmt::Debug {
    /// The local key.
    fn lkey(&self) -> u32;

    /// The address by which the card knows byte `offset`.
    fn address(&self, offset: usize) -> u64;

    /// Bytes.
    fn size(&self) -> usize;

    /// The memory of this process that it is, and by which everything else is told then; `None` for memory elsewhere,
    /// whose addresses mean nothing here.
    fn registered(&self) -> Option<&Region> {
        None
    }
}

impl Local for Region {
    fn lkey(&self) -> u32 {
        Region::lkey(self)
    }

    fn address(&self, offset: usize) -> u64 {
        Region::address(self, offset)
    }

    fn size(&self) -> usize {
        self.segment().len()
    }

    fn registered(&self) -> Option<&Region> {
        Some(self)
    }
}

/// Local bytes: a part of such memory.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The memory.
    pub region: &'a dyn Local,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: u32,
}

impl Piece<'_> {
    /// For the card, and whether the processor may read it too.
    pub(super) fn sge(&self) -> Result<(abi::Sge, bool), VerbsError> {
        let Piece { region, offset, len } = *self;
        let here = region.registered();
        // What is here is described by the region itself, whatever the implementation of the trait says.
        let region = here.map_or(region, |region| region);
        let size = region.size();
        if offset > size || len as usize > size - offset {
            return Err(VerbsError::OutOfBounds { offset, len: len as usize, size });
        }
        Ok((abi::Sge { addr: region.address(offset), length: len, lkey: region.lkey() }, here.is_some()))
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

impl Completion {
    /// What a driver wrote; of work that failed it writes name and status only.
    pub(super) fn of(wc: &abi::Wc) -> Completion {
        let (id, status) = (wc.wr_id, WorkStatus::from_code(wc.status));
        if status != WorkStatus::Success {
            return Completion { id, status, kind: WorkKind::Failed, bytes: 0, immediate: None };
        }
        // SAFETY: any 32 bits are a word.
        let word = unsafe { wc.imm_data_invalidated_rkey_union.imm_data };
        let immediate = (wc.wc_flags & WITH_IMM != 0).then(|| u32::from_be(word));
        Completion { id, status, kind: WorkKind::from_code(wc.opcode), bytes: wc.byte_len, immediate }
    }
}
