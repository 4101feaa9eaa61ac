//! Memory of pools that is sent instead of bytes.

use std::sync::Arc;

use umbra_core::heap::BlockId;
use umbra_core::stream::Reference;

use super::error::Error;
use crate::channel::{Timeout, block};
use crate::pool::{Allocation, Pool};

/// The receiver is to have it, and to free it.
const HANDED: u64 = 1;
/// Above this bit a reference says what was drawn for its pool: another process may know another pool of the same uid.
const DRAWN: u32 = 32;

/// The pools that a process knows at an adapter; one is told from the others by its uid.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools(Vec<Arc<Pool>>);

/// Memory that is being read, or was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'a> {
    pub(super) allocation: Allocation<'a>,
    /// Whether it is ours, to be freed when it was read.
    pub(super) is_ours: bool,
    pub(super) arg: u64,
    /// Bytes of it that were read.
    pub(super) done: u64,
}

/// Puts bytes into a new block of a pool. Who waits for it asks meanwhile whether there is still a use for it.
pub(super) fn place<'p>(
    pool: &'p Pool,
    bytes: &[u8],
    timeout: Timeout,
    is_of_use: impl Fn() -> Result<(), Error>,
) -> Result<Allocation<'p>, Error> {
    let placed = block(pool, bytes.len() as u64, timeout, is_of_use)?.ok_or(Error::Timeout)?;
    placed.write(0, bytes)?;
    Ok(placed)
}

/// As much as a reference has room for of what was drawn when the pool was made.
fn drawn(pool: &Pool) -> u64 {
    pool.instance() >> DRAWN
}

impl Pools {
    pub(super) fn new(pools: impl IntoIterator<Item = Arc<Pool>>) -> Result<Pools, Error> {
        let pools: Vec<_> = pools.into_iter().collect();
        let twice = pools.iter().enumerate().find(|(at, pool)| pools[..*at].iter().any(|p| p.uid() == pool.uid()));
        match twice {
            Some((_, pool)) => Err(Error::SameUid(pool.uid())),
            None => Ok(Pools(pools)),
        }
    }

    fn find(&self, uid: u64) -> Result<&Pool, Error> {
        self.0.iter().find(|pool| pool.uid() == uid).map(|pool| &**pool).ok_or(Error::UnknownPool(uid))
    }

    /// The pool that something was written about.
    fn named(&self, reference: &Reference) -> Result<&Pool, Error> {
        let pool = self.find(reference.pool)?;
        let is_it = drawn(pool) == reference.flags >> DRAWN;
        if is_it { Ok(pool) } else { Err(Error::UnknownPool(reference.pool)) }
    }

    /// The pool in which received bytes are placed.
    pub(super) fn home(&self, uid: Option<u64>) -> Result<&Pool, Error> {
        match uid {
            Some(uid) => self.find(uid),
            None => self.0.first().map(|pool| &**pool).ok_or(Error::NoPool),
        }
    }

    /// What is written about an allocation of one of the pools.
    pub(super) fn refer(&self, to: &Allocation<'_>, is_handed: bool) -> Result<Reference, Error> {
        let (pool, offset) = to.origin()?;
        let known = self.find(pool.uid())?;
        if !std::ptr::eq(known, pool) {
            return Err(Error::UnknownPool(pool.uid()));
        }
        let handed = if is_handed { HANDED } else { 0 };
        let flags = handed | (drawn(pool) << DRAWN);
        Ok(Reference { pool: pool.uid(), block: to.id().to_bits(), offset, len: to.len(), flags })
    }

    /// The memory that was written about; from now on it is ours, if it was handed over.
    pub(super) fn hold(&self, reference: Reference, arg: u64) -> Result<Held<'_>, Error> {
        let whole = self.named(&reference)?.allocation(BlockId::from_bits(reference.block))?;
        let allocation = whole.part(reference.offset, reference.len)?;
        let is_ours = reference.flags & HANDED != 0;
        if is_ours {
            allocation.own()?;
        }
        Ok(Held { allocation, is_ours, arg, done: 0 })
    }

    /// Frees what was handed over and will not be read.
    pub(super) fn forget(&self, reference: Reference) {
        if reference.flags & HANDED != 0
            && let Ok(pool) = self.named(&reference)
            && let Ok(allocation) = pool.allocation(BlockId::from_bits(reference.block))
        {
            // Somebody else may have begun to clear up, and died.
            let _ = allocation.free();
        }
    }
}

impl<'a> Held<'a> {
    pub(super) fn left(&self) -> u64 {
        self.allocation.len() - self.done
    }

    /// The same as a length in this process, where there is none so long.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.left()).unwrap_or(usize::MAX)
    }

    /// The part that was not read yet.
    pub(super) fn rest(&self) -> Result<Allocation<'a>, Error> {
        Ok(self.allocation.part(self.done, self.left())?)
    }

    /// Copies the next bytes out, as many as there are and fit.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, Error> {
        let len = self.len().min(into.len());
        self.allocation.read(self.done, into.get_mut(..len).unwrap_or_default())?;
        self.done += len as u64;
        Ok(len)
    }

    /// Frees it if it is ours.
    pub(super) fn release(self) {
        if self.is_ours {
            // The sender kept its id, and may have freed what he had given away.
            let _ = self.allocation.free();
        }
    }
}
