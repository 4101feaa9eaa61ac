//! One allocation of a pool, or a part of it, as this process sees it.

use std::ptr::NonNull;

use umbra_core::cell::Bytes;
use umbra_core::heap::{Block, BlockId};

use super::error::Error;
use super::{CHANNELS, NOTHING, Pool};

/// An allocation, or a range of it. Copies are views of the same; freeing one frees all, and the others are stale.
#[derive(Clone, Copy, Debug)]
pub struct Allocation<'p> {
    pool: &'p Pool,
    id: BlockId,
    /// Where the view begins in the pool.
    offset: u64,
    len: u64,
}

impl<'p> Allocation<'p> {
    pub(super) fn new(pool: &'p Pool, block: Block) -> Self {
        Allocation { pool, id: block.id, offset: block.offset, len: block.len }
    }

    pub(super) fn pool(&self) -> &'p Pool {
        self.pool
    }

    /// The block that it is a range of.
    pub(super) fn block(&self) -> Result<Block, Error> {
        self.pool.block(self.id)
    }

    /// Where in the pool it begins.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// What the allocation is for.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was freed.
    pub fn kind(&self) -> Result<u32, Error> {
        Ok(self.block()?.kind)
    }

    /// Makes it one of the channels, a kind that is not for users: whoever looks for channels finds one in it from then on.
    pub(crate) fn set_channel(&self) -> Result<(), Error> {
        // It is below the bound.
        self.pool.with_hand(|hand| hand.set_kind(self.id, CHANNELS))?.map_err(|_| Error::Stale)
    }

    /// Whose it is: the number of a member.
    pub(crate) fn owner(&self) -> Result<u16, Error> {
        Ok(self.block()?.owner)
    }

    /// Where in its allocation it begins.
    pub(super) fn start(&self) -> Result<u64, Error> {
        self.offset.checked_sub(self.block()?.offset).ok_or(Error::Damaged)
    }

    /// Its name in the pool, in all processes: [`Pool::allocation`] finds it.
    #[must_use]
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// The pool, and where the view begins in the whole allocation.
    pub(crate) fn origin(&self) -> Result<(&'p Pool, u64), Error> {
        let whole = self.pool.allocation(self.id)?;
        Ok((self.pool, self.offset.checked_sub(whole.offset).ok_or(Error::Damaged)?))
    }

    /// Bytes that were asked for, or that the view has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the view has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether nobody freed it.
    #[must_use]
    pub fn exists(&self) -> bool {
        if self.id == NOTHING { self.pool.check().is_ok() } else { self.pool.heap().block(self.id).is_ok() }
    }

    /// A range of it.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn part(&self, offset: u64, len: u64) -> Result<Allocation<'p>, Error> {
        if offset > self.len || len > self.len - offset {
            return Err(Error::OutOfBounds { offset, len, size: self.len });
        }
        Ok(Allocation { offset: self.offset + offset, len, ..*self })
    }

    /// Where a range of it begins in the data, if nobody freed it.
    fn place(&self, offset: u64, len: usize) -> Result<usize, Error> {
        let part = self.part(offset, len as u64)?;
        if !self.exists() {
            return Err(self.pool.check().err().unwrap_or(Error::Stale));
        }
        usize::try_from(part.offset).map_err(|_| Error::Damaged)
    }

    /// Where it is in this process. Other processes may change the bytes at any time: never make a reference to them.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn pointer(&self) -> Result<NonNull<u8>, Error> {
        Ok(self.pool.data().at(self.place(0, 0)?, usize::try_from(self.len).map_err(|_| Error::Damaged)?)?)
    }

    /// Its bytes, also when somebody frees it: they may be another allocation's then.
    pub(crate) fn bytes(&self) -> Bytes<'p> {
        let all = self.pool.data().bytes();
        let part = usize::try_from(self.offset).ok().zip(usize::try_from(self.len).ok());
        // Views lie inside of the data; of one that does not nothing is shown.
        part.and_then(|(at, len)| all.part(at, len).ok()).unwrap_or_else(Bytes::none)
    }

    /// Copies shared bytes, of which there are as many, to it.
    pub(crate) fn fill(&self, bytes: Bytes<'_>) -> Result<(), Error> {
        let at = self.place(0, bytes.len())?;
        self.pool.data().bytes_mut()?.copy(at, bytes, 0, bytes.len()).map_err(|_| Error::Damaged)
    }

    /// Refuses a channel: what frees it, or hands it on, must know that nobody uses it.
    fn is_no_channel(&self) -> Result<(), Error> {
        if self.kind() == Ok(CHANNELS) { Err(Error::IsChannel) } else { Ok(()) }
    }

    /// The same allocation by a new id, which makes all other handles stale.
    pub(crate) fn renamed(&self) -> Result<Allocation<'p>, Error> {
        self.is_no_channel()?;
        self.renamed_channel()
    }

    /// The same of a channel that nobody uses.
    pub(crate) fn renamed_channel(&self) -> Result<Allocation<'p>, Error> {
        Ok(Allocation { id: self.pool.rename(self.id, true)?, ..*self })
    }

    /// The same allocation by the id before its last renaming, after which nobody learned the new one.
    pub(crate) fn renamed_back(&self) -> Result<Allocation<'p>, Error> {
        Ok(Allocation { id: self.pool.rename(self.id, false)?, ..*self })
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Stale`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        Ok(self.pool.data().read(self.place(offset, into.len())?, into)?)
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Stale`].
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        Ok(self.pool.data().write(self.place(offset, from.len())?, from)?)
    }

    /// Copies all of it into the beginning of another one.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if that is shorter; [`Error::Stale`].
    pub fn copy_to(&self, other: &Allocation<'_>) -> Result<(), Error> {
        let len = usize::try_from(self.len).map_err(|_| Error::Damaged)?;
        let (from, to) = (self.place(0, len)?, other.place(0, len)?);
        Ok(self.pool.data().copy(from, other.pool.data(), to, len)?)
    }

    /// Makes all of the allocation this process's, whoever made it: it goes with
    /// [`free_allocations_of`](Pool::free_allocations_of) this one now.
    ///
    /// # Errors
    /// [`Error::Stale`] if somebody freed it, or made it his own at the same moment; [`Error::IsChannel`].
    pub fn own(&self) -> Result<(), Error> {
        self.is_no_channel()?;
        self.pool.own(self.id)
    }

    /// Frees all of the allocation, whoever made it, and whatever part this is. One of no bytes can be freed again and again.
    ///
    /// # Errors
    /// [`Error::Stale`] if somebody freed it before; [`Error::IsChannel`]. Nothing is changed then.
    pub fn free(self) -> Result<(), Error> {
        self.is_no_channel()?;
        self.free_channel()
    }

    /// The same of a channel that nobody uses.
    pub(crate) fn free_channel(self) -> Result<(), Error> {
        self.pool.free(self.id)
    }
}
