//! What allocations contain: compared, hashed, copied and cleared as a whole.
//!
//! Others may write at the same time, so bytes are copied out before they are looked at, some at a time.

use std::time::Duration;

use super::Pool;
use super::error::Error;
use super::memory::Allocation;

/// Bytes that are looked at at once.
const STEP: usize = 4096;

impl<'p> Allocation<'p> {
    /// Whether both are of one allocation, whatever part of it.
    #[must_use]
    pub fn is_same(&self, other: &Allocation<'_>) -> bool {
        self.id() == other.id() && self.pool().instance() == other.pool().instance()
    }

    /// Calls `look` with each step of the bytes; true as long as it says so.
    fn steps(&self, mut look: impl FnMut(u64, &[u8]) -> Result<bool, Error>) -> Result<bool, Error> {
        let mut buffer = [0; STEP];
        let mut at = 0;
        while at < self.len() {
            let len = (self.len() - at).min(STEP as u64) as usize;
            let step = buffer.get_mut(..len).ok_or(Error::Damaged)?;
            self.read(at, step)?;
            if !look(at, step)? {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    }

    /// Whether both have the same bytes.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn equals(&self, other: &Allocation<'_>) -> Result<bool, Error> {
        if self.len() != other.len() {
            return Ok(false);
        }
        let mut theirs = [0; STEP];
        self.steps(|at, ours| {
            let theirs = theirs.get_mut(..ours.len()).ok_or(Error::Damaged)?;
            other.read(at, theirs)?;
            Ok(ours == theirs)
        })
    }

    /// 64 bits of the BLAKE3 digest of the bytes: the same in every process and every version.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn hash(&self) -> Result<u64, Error> {
        let mut hasher = blake3::Hasher::new();
        self.steps(|_, bytes| {
            hasher.update(bytes);
            Ok(true)
        })?;
        let digest = hasher.finalize();
        Ok(digest.as_bytes().first_chunk().map_or(0, |&bytes| u64::from_le_bytes(bytes)))
    }

    /// Makes a range of it zero.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Stale`].
    pub fn clear(&self, offset: u64, len: u64) -> Result<(), Error> {
        let part = self.part(offset, len)?;
        let zeros = [0; STEP];
        let mut at = 0;
        while at < len {
            let step = (len - at).min(STEP as u64);
            part.write(at, zeros.get(..step as usize).ok_or(Error::Damaged)?)?;
            at += step;
        }
        Ok(())
    }

    /// A new allocation with the same bytes, in this pool or another one, of the same kind; for room there it waits so
    /// long.
    ///
    /// # Errors
    /// [`Error::Stale`], and those of [`Pool::alloc_within`].
    pub fn copy_into<'q>(&self, pool: &'q Pool, wait: Duration) -> Result<Allocation<'q>, Error> {
        let kind = self.kind()?;
        let copy = pool.alloc_within(self.len(), kind, wait)?;
        // Nobody else knows the copy yet.
        self.copy_to(&copy).inspect_err(|_| drop(copy.free()))?;
        Ok(copy)
    }

    /// All of the allocation that this is a range of.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn whole(&self) -> Result<Allocation<'p>, Error> {
        self.pool().allocation(self.id())
    }
}
