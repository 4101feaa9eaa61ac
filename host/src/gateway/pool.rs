//! A pool of another host, as a client uses it.

use std::ops::Range;
use std::time::Duration;

use umbra_core::gateway::{Answer, MESSAGE_MAX, PoolRequest, Request};
use umbra_core::heap::BlockId;
use umbra_core::reference::{Object, Reference};
use umbra_core::time::Time;

use super::error::Error;
use super::line::{Opening, Term, done};
use super::lines::{Lines, MOST};
use super::registry::Gateways;
use crate::channel::Timeout;
use crate::{pool, reference};

/// Bytes of one request or answer.
const PIECE: usize = MESSAGE_MAX;

/// A pool of another host.
///
/// What is allocated through it is freed when it is dropped, or its line breaks, or its process dies, unless it was
/// [left](RemoteAllocation::leave) to the pool. Threads that allocate or leave do so one after the other; all else goes side by
/// side, so that a thread may free what another one waits for.
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
    /// [`Error::NoGateway`], [`Error::Local`], [`Error::Reference`], [`Error::Lost`], [`Error::Unreached`], [`Error::Silent`]; and
    /// what the gateway says when it attaches.
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
        self.lines.call(&Request::Pool(request), Term::of(timeout), read)
    }

    /// Allocates at least `len` bytes, for what `kind` says, and waits so long for others to free some.
    ///
    /// # Errors
    /// [`Error::Pool`] with what an allocation at hand gets; [`Error::Lost`], [`Error::Silent`], and nothing is allocated then.
    pub fn alloc(&self, len: u64, kind: u32, timeout: Timeout) -> Result<RemoteAllocation<'_>, Error> {
        let term = Term::of(timeout);
        self.own.by_one(term, |line| {
            let request = PoolRequest::Alloc { patience: term.patience(), len, kind };
            line.call(&Request::Pool(request), term, |answer| self.block(answer))
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

    /// What is left of the time for a piece; one try is one for each of them.
    fn left_for_piece(
        &self,
        (timeout, deadline): (Timeout, Time),
        piece: &Range<usize>,
        (_, len): (u64, usize),
    ) -> Result<Timeout, Error> {
        match timeout.rest(deadline) {
            // The last piece comes first, and is always tried.
            Timeout::After(Duration::ZERO) if piece.end < len => {
                Err(Error::Partly { host: self.host(), copied: len - piece.end, len })
            }
            left => Ok(left),
        }
    }

    /// Copies bytes out of an allocation, as [`RemoteAllocation::read`], for those who know its id and not how long it is.
    ///
    /// # Errors
    /// As for that.
    pub fn read(&self, id: BlockId, offset: u64, into: &mut [u8], timeout: Timeout) -> Result<(), Error> {
        let (deadline, whole) = (timeout.deadline(), (offset, into.len()));
        for (at, range) in pieces(whole) {
            let left = self.left_for_piece((timeout, deadline), &range, whole)?;
            let Some(piece) = into.get_mut(range) else { break };
            let len = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let read = self.ask(left, PoolRequest::Get { id, at, len }, |answer| match answer {
                Answer::Bytes(bytes) if bytes.len() == piece.len() => {
                    piece.copy_from_slice(bytes);
                    Some(())
                }
                _ => None,
            });
            read.map_err(|error| of_the_whole(error, whole))?;
        }
        Ok(())
    }

    /// Copies bytes into an allocation, as [`RemoteAllocation::write`], for those who know its id and not how long it is.
    ///
    /// # Errors
    /// As for that.
    pub fn write(&self, id: BlockId, offset: u64, from: &[u8], timeout: Timeout) -> Result<(), Error> {
        let (deadline, whole) = (timeout.deadline(), (offset, from.len()));
        for (at, range) in pieces(whole) {
            let left = self.left_for_piece((timeout, deadline), &range, whole)?;
            let Some(bytes) = from.get(range) else { break };
            let put = PoolRequest::Put { id, at, bytes };
            self.ask(left, put, done).map_err(|error| of_the_whole(error, whole))?;
        }
        Ok(())
    }

    /// Frees an allocation by its id, whoever made it.
    ///
    /// # Errors
    /// As for [`RemoteAllocation::free`].
    pub fn free(&self, id: BlockId, timeout: Timeout) -> Result<(), Error> {
        self.ask(timeout, PoolRequest::Free { id }, done)
    }

    /// Leaves an allocation to the pool by its id, as [`RemoteAllocation::leave`].
    ///
    /// # Errors
    /// As for that.
    pub fn leave(&self, id: BlockId, timeout: Timeout) -> Result<(), Error> {
        self.own.call(&Request::Pool(PoolRequest::Leave { id }), Term::of(timeout), done)
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

/// Where the pieces of a range begin in their allocation, and which bytes they are: the last one first, so that nothing of a
/// range is copied that is not inside.
fn pieces((offset, len): (u64, usize)) -> impl Iterator<Item = (u64, Range<usize>)> {
    let piece = move |number: usize| {
        let from = number * PIECE;
        (offset.saturating_add(from as u64), from..len.min(from + PIECE))
    };
    // Of no bytes it is asked as well whether they are inside.
    (0..len.div_ceil(PIECE).max(1)).rev().map(piece)
}

/// What is refused of a piece, as it is refused of the range.
fn of_the_whole(error: Error, (offset, len): (u64, usize)) -> Error {
    match error {
        Error::Pool(pool::Error::OutOfBounds { size, .. }) => {
            pool::Error::OutOfBounds { offset, len: len as u64, size }.into()
        }
        error => error,
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
    /// [`Error::Pool`] if the range is not inside or it was freed; [`Error::Partly`], [`Error::Lost`], [`Error::Silent`]. The
    /// bytes are anything then.
    pub fn read(&self, offset: u64, into: &mut [u8], timeout: Timeout) -> Result<(), Error> {
        self.bounds(offset, into.len())?;
        self.pool.read(self.id, offset, into, timeout)
    }

    /// Copies bytes in, in pieces of less than 64 KiB.
    ///
    /// # Errors
    /// [`Error::Pool`] if the range is not inside or it was freed; [`Error::Partly`], [`Error::Lost`], [`Error::Silent`]:
    /// some pieces may be there then.
    pub fn write(&self, offset: u64, from: &[u8], timeout: Timeout) -> Result<(), Error> {
        self.bounds(offset, from.len())?;
        self.pool.write(self.id, offset, from, timeout)
    }

    /// Frees it, whoever allocated it.
    ///
    /// # Errors
    /// [`Error::Pool`] if it was freed before; [`Error::Lost`], [`Error::Silent`].
    pub fn free(&self, timeout: Timeout) -> Result<(), Error> {
        self.pool.free(self.id, timeout)
    }

    /// Leaves it to the pool: it stays when this handle of the pool goes, until somebody frees it.
    ///
    /// # Errors
    /// [`Error::Pool`] if it was not allocated through this handle, was left before or freed; [`Error::Lost`],
    /// [`Error::Silent`].
    pub fn leave(&self, timeout: Timeout) -> Result<(), Error> {
        self.pool.leave(self.id, timeout)
    }
}
