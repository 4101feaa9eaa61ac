//! Managed memory: pools of blocks that processes of a host share.
//!
//! A pool is two pieces of shared memory, all bookkeeping in the one and only users' bytes in the other. It is made under
//! a name in `/dev/shm` or without one, in files, on huge pages, or in private memory ([`Memory`]); others attach by the
//! name, by descriptors, or by a [reference](crate::reference) of a few bytes. No lock is held between processes,
//! so nobody's death or stop holds others up. What a process allocated stays when it dies, and says whose it was.
//!
//! ```
//! use std::time::Duration;
//! use umbra::pool::{Attributes, Pool};
//! let pool = Pool::create(None, &Attributes { bytes: 1 << 20, ..Attributes::default() })?;
//! // As another process would, to which the descriptors were handed.
//! let [manifest, data] = pool.share()?;
//! let theirs = Pool::attach_shared(manifest, data)?;
//!
//! let ours = pool.alloc(100, 0)?;
//! ours.write(0, b"hello")?;
//! let same = theirs.allocation(ours.id())?;
//! let mut bytes = [0; 5];
//! same.read(0, &mut bytes)?;
//! assert_eq!(&bytes, b"hello");
//! same.free()?;
//! assert!(!ours.exists() && ours.write(0, b"again").is_err());
//! let waited = pool.alloc_within(1 << 20, 0, Duration::from_millis(10))?;
//! assert!(pool.alloc_within(1 << 20, 0, Duration::from_millis(10)).is_err());
//! waited.free()?;
//! # Ok::<(), umbra::pool::Error>(())
//! ```
//!
//! Files have the mode 0600. A named pool ends with its creator, or with its last user, as its creator chose; what killed
//! processes leave is removed by whoever makes the next pool with a name in the same folder, and by [`clean()`].
//!
//! A child that was forked off may use the handles of its parent: what it allocates is its own, and its end does nothing
//! to what is the parent's. A program that another one is executed in the place of, in the same process, holds what it held
//! until the process ends: drop the handles before. All users are in one space of process numbers.
//!
//! *Cost*: that of [`umbra_core::heap`], a lock of this process that another thread rarely wants, and a look at who waits.

mod attributes;
mod clean;
mod content;
mod end;
mod error;
mod files;
mod lanes;
mod life;
mod memory;
mod once;
mod reference;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::crew::Identity;
use umbra_core::event::EventCount;
use umbra_core::heap::{AllocError, AttachError, Block, BlockId, Figures, Heap, KINDS, PlanError};
use umbra_core::time::{Lapse, Time};

pub use attributes::{Attributes, Lifetime, Memory};
pub use clean::{clean, clean_in, list, list_in};
pub use error::Error;
pub use memory::Allocation;

use crate::known::Stay;
use crate::sys::futex::Futex;
use crate::sys::process::ProcessId;
use crate::sys::segment::Segment;
use crate::sys::shared_heap::SharedHeap;
use crate::sys::{clock, host};
use crate::uid::{self, Claim};
use files::{Files, Made};
use lanes::Lanes;

/// Most bytes of a name.
pub const NAME_MAX: usize = 29;
/// The name of every allocation of no bytes: no entry has so high a number. It takes no place, and nobody owns it.
const NOTHING: BlockId = BlockId::from_bits(u64::MAX);
/// The kind of allocations that are channels: the last one.
pub(crate) const CHANNELS: u32 = KINDS - 1;
/// Looks before a sleep.
const SPINS: u32 = 100;

/// Words of the heap's pocket.
#[derive(Clone, Copy)]
enum Word {
    /// Changes with each free that somebody waits for.
    Event,
    /// How often a place was taken, in steps of two; odd once it is destroyed.
    Users,
    Uid,
    Lifetime,
    CreatorPid,
    CreatorStart,
    Namespace,
    Memory,
    Instance,
    /// Not zero when all the others are there.
    Made,
}

/// A pool that this process uses; dropping it leaves the pool, and the allocations, to the others.
#[derive(Debug)]
pub struct Pool {
    shared: SharedHeap,
    data: Segment,
    lanes: Lanes,
    files: Option<Files>,
    /// Whether this is the handle that made the pool, with which it may end.
    is_creator: bool,
    /// That no other pool of this process has its number.
    claim: Claim,
    /// The last to go, if others of this process may have the [same handle](Self::attach_once).
    stay: Option<Stay>,
}

fn identity(process: ProcessId) -> Identity {
    Identity::new(process.pid, process.start)
}

impl Pool {
    /// Makes a pool, under a name or without one. First what dead owners left beside it is removed.
    ///
    /// # Errors
    /// [`Error`]; nothing is left behind then.
    pub fn create(name: Option<&str>, attributes: &Attributes) -> Result<Pool, Error> {
        let plan = attributes.plan()?;
        let files = match (&attributes.memory, name) {
            (Memory::Folder(folder), Some(name)) => Some(Files::of(folder, name)?),
            (Memory::Shared, Some(name)) => Some(Files::shared(name)?),
            (Memory::Shared, None) => None,
            (Memory::HugePages | Memory::Private, None) => None,
            (Memory::Folder(_), None) | (_, Some(_)) => return Err(Error::Unnamed(attributes.memory.clone())),
        };
        if let Some(files) = &files {
            // What cannot be looked at is in nobody's way, or found in the next step.
            let _ = clean_in(files.folder());
        }
        let bytes = usize::try_from(plan.bytes()).map_err(|_| PlanError::TooLarge)?;
        // Who finds the manifest finds the data.
        let file = files.as_ref().map(|files| (files, &files.data));
        let (data, made) = files::make(file, &attributes.memory, bytes)?;
        let pool = Self::create_over(data, files, attributes)?;
        made.into_iter().for_each(Made::keep);
        Ok(pool)
    }

    /// The rest, when there is memory for the data.
    fn create_over(data: Segment, files: Option<Files>, attributes: &Attributes) -> Result<Pool, Error> {
        // Only the data is worth pages of another size.
        let kind = if attributes.memory == Memory::HugePages { &Memory::Shared } else { &attributes.memory };
        let file = files.as_ref().map(|files| (files, &files.manifest));
        let (manifest, made) = files::make(file, kind, attributes.plan()?.words() * 8)?;
        let pool = Self::begin(manifest, data, files.clone(), attributes)?;
        // If not, another pool may have the name by now, and this one's end leaves its files alone.
        pool.has_files()?;
        made.into_iter().for_each(Made::keep);
        Ok(pool)
    }

    /// Makes a pool for this process alone in memory of the caller's, of which it needs [`Attributes::words`].
    ///
    /// # Errors
    /// [`Error::Plan`] if it is too short, or there can be no such pool.
    pub fn create_in(memory: &'static mut [u64], attributes: &Attributes) -> Result<Pool, Error> {
        let attributes = Attributes { memory: Memory::Private, ..attributes.clone() };
        let (plan, words, bytes) = (attributes.plan()?, attributes.words()?, memory.len() as u64 * 8);
        let Some((manifest, data)) =
            memory.get_mut(..words).and_then(|memory| memory.split_at_mut_checked(plan.words()))
        else {
            return Err(PlanError::TooSmall { bytes, needed: words as u64 * 8 }.into());
        };
        Self::begin(Segment::lent(manifest)?, Segment::lent(data)?, None, &attributes)
    }

    /// Makes a pool in memory that nobody else knows yet.
    fn begin(manifest: Segment, data: Segment, files: Option<Files>, attributes: &Attributes) -> Result<Pool, Error> {
        let claim = Claim::take(uid::Kind::Pool, attributes.uid).ok_or(Error::UidTaken(attributes.uid))?;
        let shared = SharedHeap::create(manifest, attributes.plan()?, &attributes.reserved)?;
        let pool = Pool { shared, data, lanes: Lanes::new(), files, is_creator: true, claim, stay: None };
        pool.with_hand(|_| ())?;
        let me = ProcessId::current()?;
        let instance = crate::reference::draw().map_err(Error::Random)?;
        let words = [
            (Word::Uid, attributes.uid),
            (Word::Lifetime, attributes.lifetime as u64),
            (Word::CreatorPid, me.pid.into()),
            (Word::CreatorStart, me.start),
            (Word::Namespace, host::namespace()),
            (Word::Memory, attributes.memory.number()),
            (Word::Instance, instance),
            // ORDERING: as all of them with release: who finds this one finds the others.
            (Word::Made, 1),
        ];
        words.into_iter().for_each(|(which, value)| pool.word(which).store(value, Ordering::Release));
        Ok(pool)
    }

    /// Uses a pool by its name.
    ///
    /// # Errors
    /// [`Error`] if there is none, or none any more.
    pub fn attach(name: &str) -> Result<Pool, Error> {
        Self::attach_files(Files::shared(name)?)
    }

    /// As [`attach`](Self::attach), of a pool in [files of a folder](Memory::Folder).
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn attach_in(folder: &Path, name: &str) -> Result<Pool, Error> {
        Self::attach_files(Files::of(folder, name)?)
    }

    fn attach_files(files: Files) -> Result<Pool, Error> {
        Self::look(&files)?.unless_over()?.used()
    }

    /// Uses a pool whose descriptors another process [shared](Self::share).
    ///
    /// # Errors
    /// [`Error`].
    pub fn attach_shared(manifest: OwnedFd, data: OwnedFd) -> Result<Pool, Error> {
        Self::over(files::map(manifest)?, files::map(data)?, None)?.used()
    }

    /// Looks at a pool by its name, without being one of its users: for tools.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach), but not for one that is over.
    pub fn inspect(folder: &Path, name: &str) -> Result<Pool, Error> {
        Self::look(&Files::of(folder, name)?)
    }

    fn over(manifest: Segment, data: Segment, files: Option<Files>) -> Result<Pool, Error> {
        let shared = SharedHeap::attach(manifest, data.len() as u64)?;
        let claim = Claim::none(uid::Kind::Pool);
        let pool = Pool { shared, data, lanes: Lanes::new(), files, is_creator: false, claim, stay: None };
        // ORDERING: pairs with the store in `begin`: before it the words are not there.
        if pool.word(Word::Made).load(Ordering::Acquire) == 0 {
            return Err(AttachError::NotAHeap.into());
        }
        if pool.word(Word::Namespace).load(Ordering::Acquire) != host::namespace() {
            return Err(Error::OtherNamespace);
        }
        Ok(pool)
    }

    /// Descriptors of a pool without a name, to hand to another process: manifest and data.
    ///
    /// # Errors
    /// [`Error::Segment`] if no descriptor is free.
    pub fn share(&self) -> Result<[OwnedFd; 2], Error> {
        Ok([self.shared.segment().share()?, self.data.share()?])
    }

    #[inline]
    fn heap(&self) -> &Heap<'_> {
        self.shared.heap()
    }

    fn data(&self) -> &Segment {
        &self.data
    }

    /// Bytes of the data, whatever they are.
    pub(crate) fn range(&self, offset: u64, len: u64) -> Result<BytesMut<'_>, Error> {
        let (Ok(at), Ok(count)) = (usize::try_from(offset), usize::try_from(len)) else { return Err(Error::Damaged) };
        self.data.bytes_mut()?.part(at, count).map_err(|_| Error::Damaged)
    }

    #[inline]
    fn word(&self, which: Word) -> &AtomicU64 {
        &self.heap().pocket()[which as usize]
    }

    #[inline]
    fn event(&self) -> EventCount<'_> {
        EventCount::new(self.word(Word::Event))
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        if self.is_destroyed() { Err(Error::Destroyed) } else { Ok(()) }
    }

    /// Allocates at least `len` bytes, for what `kind` says; does not wait. No bytes are an allocation too, which all share
    /// and which is never [listed](Self::blocks).
    ///
    /// # Errors
    /// [`Error::Alloc`], [`Error::Members`], [`Error::Destroyed`].
    #[inline]
    pub fn alloc(&self, len: u64, kind: u32) -> Result<Allocation<'_>, Error> {
        if kind == CHANNELS {
            return Err(AllocError::BadKind(kind).into());
        }
        if len == 0 {
            return self.allocation(NOTHING);
        }
        let block = self.with_hand(|mut hand| hand.alloc(len, kind))??;
        Ok(Allocation::new(self, block))
    }

    /// As [`alloc`](Self::alloc), but waits as long as that for others to free some; [`Duration::MAX`] is without end.
    ///
    /// # Errors
    /// [`Error::Timeout`] too.
    pub fn alloc_within(&self, len: u64, kind: u32, wait: Duration) -> Result<Allocation<'_>, Error> {
        let deadline = match u64::try_from(wait.as_nanos()) {
            Ok(nanos) => clock::now() + Lapse(nanos),
            Err(_) => Time::NEVER,
        };
        self.alloc_while(len, kind, deadline, || Ok::<_, Error>(()))?.ok_or(Error::Timeout { len })
    }

    /// As [`alloc`](Self::alloc), but waits until the deadline, and then it is `None`; asks at each look, at the latest every
    /// [`SLICE`](umbra_core::event::SLICE), whether there is still a use for it.
    pub(crate) fn alloc_while<E: From<Error>>(
        &self,
        len: u64,
        kind: u32,
        deadline: Time,
        is_of_use: impl Fn() -> Result<(), E>,
    ) -> Result<Option<Allocation<'_>>, E> {
        let look = || match self.alloc(len, kind) {
            Err(Error::Alloc(error)) if error.is_passing() => is_of_use().err().map(Err),
            found => Some(found.map_err(E::from)),
        };
        self.event().wait(&Futex, SPINS, deadline, look).transpose()
    }

    fn own(&self, id: BlockId) -> Result<(), Error> {
        if id == NOTHING {
            return self.check();
        }
        self.with_hand(|hand| hand.own(id))?.map_err(|_| Error::Stale)
    }

    fn rename(&self, id: BlockId, is_forth: bool) -> Result<BlockId, Error> {
        if id == NOTHING {
            return self.check().map(|()| id);
        }
        self.with_hand(|hand| if is_forth { hand.rename(id) } else { hand.rename_back(id) })?.map_err(|_| Error::Stale)
    }

    /// An allocation by its id, whoever made it.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was freed.
    pub fn allocation(&self, id: BlockId) -> Result<Allocation<'_>, Error> {
        Ok(Allocation::new(self, self.block(id)?))
    }

    fn block(&self, id: BlockId) -> Result<Block, Error> {
        self.check()?;
        if id == NOTHING {
            return Ok(Block { id, offset: 0, len: 0, size: 0, kind: 0, owner: 0 });
        }
        self.heap().block(id).map_err(|error| match error {
            umbra_core::heap::LookError::Stale => Error::Stale,
            _ => Error::Damaged,
        })
    }

    /// All blocks that are allocated; each was at some instant while it was looked for.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.heap().blocks()
    }

    /// How much is used.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.heap().figures()
    }
}
