//! A pool of another host, as a client uses it.

use umbra_core::gateway::{Answer, MESSAGE_MAX, PoolRequest, Request};
use umbra_core::heap::BlockId;
use umbra_core::reference::{Object, Reference};

use super::error::Error;
use super::line::{Opening, done, patience};
use super::lines::{Lines, MOST};
use super::registry::Gateways;
use crate::channel::Timeout;
use crate::{pool, reference};

/// Bytes of one request or answer.
const PIECE: usize = MESSAGE_MAX;

/// A pool of another host.
///
/// What is allocated through it is freed when it is dropped, or its line breaks, or its process dies, unless it was
/// [left](RemoteAllocation::leave) to the pool. Threads that allocate do so one after the other; all else goes side by side,
/// so that a thread may free what another one waits for.
pub struct RemotePool {
    bytes: u64,
    uid: u64,
    /// The line whose the allocations are.
    own: Lines,
    lines: Lines,
}

/// How much of a pool is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// Bytes of the pool.
    pub bytes: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that were asked for by those who have the allocations.
    pub asked: u64,
    /// Allocations.
    pub allocations: u64,
    /// Bytes of the longest allocation that could be had.
    pub longest_free: u64,
}

impl RemotePool {
    /// Uses the pool that the bytes of a reference name, or the pool of the allocation that they name, through the gateway of
    /// its host.
    ///
    /// # Errors
    /// [`Error::NoGateway`], [`Error::Local`], [`Error::Reference`], [`Error::Lost`], [`Error::Silent`]; and what the gateway
    /// says when it attaches.
    pub fn attach(bytes: &[u8], gateways: &Gateways, timeout: Timeout) -> Result<RemotePool, Error> {
        let host = gateways.host_of(bytes, |named| matches!(named, Object::Pool | Object::Allocation { .. }))?;
        let own = Lines::new(gateways, host, bytes, Opening::Pool, 1);
        let mut line = own.one();
        let (size, uid) = line.open(timeout, |answer| match answer {
            Answer::Lent { bytes, uid } => Some((bytes, uid)),
            _ => None,
        })?;
        let lines = Lines::new(gateways, host, bytes, Opening::Pool, MOST);
        Ok(RemotePool { bytes: size, uid, own: own.with(line), lines })
    }

    /// The host that it is on.
    #[must_use]
    pub const fn host(&self) -> u64 {
        self.own.host()
    }

    /// The bytes by which it was attached.
    #[must_use]
    pub fn reference(&self) -> &[u8] {
        self.own.reference()
    }

    /// The number that its creator gave it.
    #[must_use]
    pub const fn uid(&self) -> u64 {
        self.uid
    }

    /// Bytes of its data.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn ask<T>(
        &self,
        timeout: Timeout,
        request: PoolRequest<'_>,
        read: impl FnOnce(Answer<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        self.lines.call(&Request::Pool(request), timeout.deadline(), read)
    }

    /// Allocates at least `len` bytes, for what `kind` says, and waits so long for others to free some.
    ///
    /// # Errors
    /// [`Error::Pool`] with what an allocation at hand gets; [`Error::Lost`], [`Error::Silent`], and nothing is allocated then.
    pub fn alloc(&self, len: u64, kind: u32, timeout: Timeout) -> Result<RemoteAllocation<'_>, Error> {
        let deadline = timeout.deadline();
        self.own.by_one(deadline, |line| {
            let request = PoolRequest::Alloc { patience: patience(timeout, deadline), len, kind };
            line.call(&Request::Pool(request), deadline, |answer| self.block(answer))
        })
    }

    /// An allocation by its id, whoever made it.
    ///
    /// # Errors
    /// [`Error::Pool`] if it was freed; [`Error::Lost`], [`Error::Silent`].
    pub fn allocation(&self, id: BlockId, timeout: Timeout) -> Result<RemoteAllocation<'_>, Error> {
        self.ask(timeout, PoolRequest::Look { id }, |answer| self.block(answer))
    }

    /// The allocation of this pool that a reference names; the whole of it, also if that names a range.
    ///
    /// # Errors
    /// [`Error::Reference`] if it names another pool's, or no allocation; those of [`allocation`](Self::allocation).
    pub fn allocation_of(&self, bytes: &[u8], timeout: Timeout) -> Result<RemoteAllocation<'_>, Error> {
        let named = Reference::parse(bytes).map_err(reference::Error::Bytes)?;
        let own = Reference::parse(self.reference()).map_err(reference::Error::Bytes)?;
        if (named.host, named.instance) != (own.host, own.instance) {
            return Err(reference::Error::Replaced.into());
        }
        match named.object {
            Object::Allocation { id, .. } => self.allocation(id, timeout),
            _ => Err(reference::Error::WrongObject.into()),
        }
    }

    const fn block(&self, answer: Answer<'_>) -> Option<RemoteAllocation<'_>> {
        match answer {
            Answer::Block { id, len, kind } => Some(RemoteAllocation { pool: self, id, len, kind }),
            _ => None,
        }
    }

    /// How much is used.
    ///
    /// # Errors
    /// [`Error::Pool`], [`Error::Lost`], [`Error::Silent`].
    pub fn used(&self, timeout: Timeout) -> Result<Used, Error> {
        self.ask(timeout, PoolRequest::Figures, |answer| match answer {
            Answer::Used([bytes, free, asked, allocations, longest_free]) => {
                Some(Used { bytes, free, asked, allocations, longest_free })
            }
            _ => None,
        })
    }
}

/// An allocation of another host's pool; copies name the same.
#[derive(Clone, Copy)]
pub struct RemoteAllocation<'p> {
    pool: &'p RemotePool,
    id: BlockId,
    len: u64,
    kind: u32,
}

impl RemoteAllocation<'_> {
    /// Its name in the pool, on all hosts.
    #[must_use]
    pub const fn id(&self) -> BlockId {
        self.id
    }

    /// Bytes that were asked for.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it is for.
    #[must_use]
    pub const fn kind(&self) -> u32 {
        self.kind
    }

    fn bounds(&self, offset: u64, len: usize) -> Result<(), Error> {
        let (len, size) = (len as u64, self.len);
        if offset <= size && len <= size - offset {
            return Ok(());
        }
        Err(pool::Error::OutOfBounds { offset, len, size }.into())
    }

    /// Copies bytes out, in pieces of less than 64 KiB; others may change them between two.
    ///
    /// # Errors
    /// [`Error::Pool`] if the range is not inside or it was freed; [`Error::Lost`], [`Error::Silent`]. The bytes are
    /// anything then.
    pub fn read(&self, offset: u64, into: &mut [u8], timeout: Timeout) -> Result<(), Error> {
        self.bounds(offset, into.len())?;
        let deadline = timeout.deadline();
        for (at, piece) in (offset..).step_by(PIECE).zip(into.chunks_mut(PIECE)) {
            let len = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let get = PoolRequest::Get { id: self.id, at, len };
            self.pool.ask(timeout.rest(deadline), get, |answer| match answer {
                Answer::Bytes(bytes) if bytes.len() == piece.len() => {
                    piece.copy_from_slice(bytes);
                    Some(())
                }
                _ => None,
            })?;
        }
        Ok(())
    }

    /// Copies bytes in, in pieces of less than 64 KiB.
    ///
    /// # Errors
    /// [`Error::Pool`] if the range is not inside or it was freed; [`Error::Lost`], [`Error::Silent`]: some pieces may
    /// be there then.
    pub fn write(&self, offset: u64, from: &[u8], timeout: Timeout) -> Result<(), Error> {
        self.bounds(offset, from.len())?;
        let deadline = timeout.deadline();
        for (at, bytes) in (offset..).step_by(PIECE).zip(from.chunks(PIECE)) {
            self.pool.ask(timeout.rest(deadline), PoolRequest::Put { id: self.id, at, bytes }, done)?;
        }
        Ok(())
    }

    /// Frees it, whoever allocated it.
    ///
    /// # Errors
    /// [`Error::Pool`] if it was freed before; [`Error::Lost`], [`Error::Silent`].
    pub fn free(&self, timeout: Timeout) -> Result<(), Error> {
        self.pool.ask(timeout, PoolRequest::Free { id: self.id }, done)
    }

    /// Leaves it to the pool: it stays when this handle of the pool goes, until somebody frees it.
    ///
    /// # Errors
    /// [`Error::Pool`] if it was not allocated through this handle, was left before or freed; [`Error::Lost`],
    /// [`Error::Silent`].
    pub fn leave(&self, timeout: Timeout) -> Result<(), Error> {
        self.pool.own.call(&Request::Pool(PoolRequest::Leave { id: self.id }), timeout.deadline(), done)
    }
}
