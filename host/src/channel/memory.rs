//! Memory of pools that is sent instead of bytes.
//!
//! What travels is a record of four words: the pool's instance, the block, and the range of it. Memory that is handed over
//! is given a new id when it is sent, so that its sender's handle is stale from then on; it stays his in the pool's books
//! until the receiver makes it his own, so that it is always somebody's, whoever is killed.

use std::ptr::NonNull;
use std::sync::Arc;

use umbra_core::cell::Bytes;
use umbra_core::channel::Header;
use umbra_core::heap::BlockId;

use super::error::Error;
use super::layout::View;
use super::receive::Message;
use super::wait::{Timeout, Watch};
use crate::pool::{self, Allocation, Pool};

/// The bytes of a message are a [`Record`].
pub(super) const REFERS: u32 = 1;
/// Its memory is the receiver's, who frees it.
pub(super) const HANDED: u32 = 2;
const WORD: usize = size_of::<u64>();

/// The pools that this process knows at a channel; the first is where received bytes are put.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools(Vec<Arc<Pool>>);

/// What is known by those who only look.
pub(super) static NONE: Pools = Pools(Vec::new());

/// Which memory a message is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) instance: u64,
    block: u64,
    offset: u64,
    pub(super) len: u64,
}

impl Record {
    pub(super) const BYTES: usize = 4 * WORD;

    pub(super) fn to_bytes(self) -> [u8; Record::BYTES] {
        let mut bytes = [0; Record::BYTES];
        let (words, _) = bytes.as_chunks_mut::<WORD>();
        for (to, from) in words.iter_mut().zip([self.instance, self.block, self.offset, self.len]) {
            *to = from.to_le_bytes();
        }
        bytes
    }

    /// What a message is about, if it is about memory.
    pub(super) fn of(header: &Header, bytes: Bytes<'_>) -> Option<Record> {
        let mut record = [0; Record::BYTES];
        if header.flags & REFERS == 0 {
            return None;
        }
        bytes.read(0, &mut record).ok()?;
        Record::parse(header, &record)
    }

    pub(super) fn parse(header: &Header, bytes: &[u8]) -> Option<Record> {
        if header.flags & REFERS == 0 {
            return None;
        }
        let word = |at: usize| bytes.get(at * WORD..)?.first_chunk().map(|&word| u64::from_le_bytes(word));
        Some(Record { instance: word(0)?, block: word(1)?, offset: word(2)?, len: word(3)? })
    }
}

impl Pools {
    pub(super) fn new(pools: impl IntoIterator<Item = Arc<Pool>>) -> Pools {
        Pools(pools.into_iter().collect())
    }

    /// The same, and behind them another one.
    pub(super) fn and(mut self, pool: Option<&Arc<Pool>>) -> Pools {
        self.0.extend(pool.filter(|pool| self.named(pool.instance()).is_none()).cloned());
        self
    }

    pub(super) fn named(&self, instance: u64) -> Option<Arc<Pool>> {
        self.0.iter().find(|pool| pool.instance() == instance).cloned()
    }

    fn find(&self, instance: u64) -> Option<&Pool> {
        self.0.iter().find(|pool| pool.instance() == instance).map(|pool| &**pool)
    }

    /// The pool in which bytes are put.
    pub(super) fn home(&self) -> Result<&Pool, Error> {
        self.0.first().map(|pool| &**pool).ok_or(Error::NoPool)
    }

    /// What is sent about an allocation, by the id that it has from now on.
    pub(super) fn refer(&self, memory: &Allocation<'_>) -> Result<Record, Error> {
        let (pool, offset) = memory.origin()?;
        self.find(pool.instance()).ok_or(Error::UnknownPool(pool.uid()))?;
        Ok(Record { instance: pool.instance(), block: memory.id().to_bits(), offset, len: memory.len() })
    }

    /// Whether memory can be received, as far as that does not change.
    pub(super) fn check(&self, record: &Record) -> Result<(), Error> {
        self.find(record.instance).map(|_| ()).ok_or(Error::UnknownMemory(record.instance))
    }

    /// The memory of a message.
    pub(super) fn look(&self, record: &Record, header: &Header) -> Result<Held<'_>, Error> {
        let pool = self.find(record.instance).ok_or(Error::UnknownMemory(record.instance))?;
        let memory = pool.allocation(BlockId::from_bits(record.block))?.part(record.offset, record.len)?;
        Ok(Held { memory, is_lent: header.flags & HANDED == 0 })
    }

    /// Frees what was handed over and will not be received.
    pub(super) fn forget(&self, header: Header, bytes: Bytes<'_>) {
        if header.flags & HANDED != 0
            && let Some(record) = Record::of(&header, bytes)
            && let Ok(held) = self.look(&record, &header)
        {
            // Somebody else may have begun to clear up, and died.
            let _ = held.memory.free();
        }
    }
}

/// A new block of a pool, for so many bytes; `None` if there is no room within this time. Who finds none asks at each look
/// whether there is still a use for it.
pub(crate) fn block<E: From<pool::Error>>(
    pool: &Pool,
    len: u64,
    timeout: Timeout,
    is_of_use: impl Fn() -> Result<(), E>,
) -> Result<Option<Allocation<'_>>, E> {
    if timeout != Timeout::Now {
        return pool.alloc_while(len, 0, timeout.deadline(), is_of_use);
    }
    pool.alloc(len, 0).map(Some).or_else(|error| {
        if matches!(&error, pool::Error::Alloc(error) if error.is_passing()) {
            is_of_use()?;
        }
        Err(error.into())
    })
}

/// A [`block`] for a message of this channel. Who waits for it learns meanwhile if the channel was destroyed, which frees
/// nothing.
pub(super) fn room<'p>(
    pool: &'p Pool,
    len: u64,
    timeout: Timeout,
    channel: &View<'_>,
) -> Result<Allocation<'p>, Error> {
    let watch = Watch::new(*channel);
    let is_there = || {
        watch.patrol();
        if channel.messages.queue().is_destroyed() { Err(Error::Destroyed) } else { Ok(()) }
    };
    block(pool, len, timeout, is_there)?.ok_or(Error::Timeout)
}

/// Memory of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'a> {
    pub(super) memory: Allocation<'a>,
    pub(super) is_lent: bool,
}

/// A message as memory of a pool. Whoever receives one that was not lent has to free it; dropped, it stays allocated.
#[derive(Debug)]
pub struct Parcel<'a> {
    held: Held<'a>,
    message: Message,
}

impl<'a> Parcel<'a> {
    pub(super) const fn new(held: Held<'a>, message: Message) -> Parcel<'a> {
        Parcel { held, message }
    }

    /// How long it is, and what came along.
    #[must_use]
    pub const fn message(&self) -> Message {
        self.message
    }

    /// Whether it is still its sender's: then it may only be read.
    #[must_use]
    pub const fn is_lent(&self) -> bool {
        self.held.is_lent
    }

    /// The name of its memory in the pool, and where in the allocation the message begins.
    ///
    /// # Errors
    /// [`Error::Pool`] if it was freed.
    pub fn place(&self) -> Result<(BlockId, u64), Error> {
        Ok((self.held.memory.id(), self.held.memory.origin()?.1))
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`Error::Pool`] if they are not inside, or its sender freed what he had lent.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        Ok(self.held.memory.read(offset, into)?)
    }

    /// Where it is in this process, to be read. Others may change the bytes at any time: never make a reference to them.
    ///
    /// # Errors
    /// [`Error::Pool`] if it was freed.
    pub fn pointer(&self) -> Result<NonNull<u8>, Error> {
        Ok(self.held.memory.pointer()?)
    }

    /// The memory, to do anything with.
    ///
    /// # Errors
    /// [`Error::Lent`].
    pub fn allocation(&self) -> Result<Allocation<'a>, Error> {
        if self.held.is_lent { Err(Error::Lent) } else { Ok(self.held.memory) }
    }

    /// Frees it.
    ///
    /// # Errors
    /// [`Error::Lent`]; [`Error::Pool`] if it was freed.
    pub fn free(self) -> Result<(), Error> {
        Ok(self.allocation()?.free()?)
    }
}
