//! Managed memory: pools of blocks that processes of a host share.
//!
//! A pool is two pieces of shared memory, all bookkeeping in the one and only users' bytes in the other. It is made under
//! a name in `/dev/shm` or without one; others attach by the name, or by descriptors. No lock is held between processes,
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
//! processes leave is removed by whoever makes a pool of that name, and by [`clean`].
//!
//! A process that forks must not use in the child what the parent attached: the child attaches anew. All users are in one
//! space of process numbers.
//!
//! *Cost*: that of [`umbra_core::heap`], a lock of this process that another thread rarely wants, and a look at who waits.

mod error;
mod files;
mod life;
mod memory;

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use umbra_core::atomic::{AtomicU64, AtomicUsize, Ordering};
use umbra_core::crew::{Identity, Member};
use umbra_core::event::EventCount;
use umbra_core::heap::{Block, BlockId, Figures, Grasp, Hand, Heap, Plan};
use umbra_core::time::{Lapse, Time};

pub use error::Error;
pub use files::{clean, list};
pub use memory::Allocation;

use crate::sys::clock;
use crate::sys::futex::Futex;
use crate::sys::process::ProcessId;
use crate::sys::segment::Segment;
use crate::sys::shared_heap::SharedHeap;
use files::Files;

/// Most bytes of a name.
pub const NAME_MAX: usize = 29;
/// Threads of a process that allocate at once without waiting for each other.
const LANES: usize = 8;
/// Looks before a sleep.
const SPINS: u32 = 100;

/// Words of the heap's pocket.
#[derive(Clone, Copy)]
enum Word {
    /// Changes with each free that somebody waits for.
    Event,
    Destroyed,
    Uid,
    Lifetime,
    CreatorPid,
    CreatorStart,
    Namespace,
}

/// When a named pool ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lifetime {
    /// With the handle that made it.
    #[default]
    Creator,
    /// With the last process that uses it.
    LastUser,
}

/// What the creator of a pool chooses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Bytes of data.
    pub bytes: u64,
    /// Bytes that the size of each block is a multiple of; rounded up to a power of two, and to what so many bytes need.
    pub granule: u64,
    /// Most blocks at a time; 0 for as many as a share of the bytes can tell of.
    pub blocks: u32,
    /// So many blocks of so many bytes are kept for that size.
    pub reserved: Vec<(u64, u32)>,
    /// Threads that use it at the same time, in all processes.
    pub members: u16,
    /// A number that its users know it by.
    pub uid: u64,
    /// When it ends, if it has a name.
    pub lifetime: Lifetime,
}

impl Default for Attributes {
    fn default() -> Self {
        let (bytes, granule, lifetime) = (64 << 20, 32, Lifetime::Creator);
        Attributes { bytes, granule, blocks: 0, reserved: Vec::new(), members: 64, uid: 0, lifetime }
    }
}

/// A thread's place at the heap, or several threads' in turn.
#[derive(Debug)]
struct Lane {
    member: Member,
    grasp: Grasp,
}

/// A pool that this process uses; dropping it leaves the pool, and the allocations, to the others.
#[derive(Debug)]
pub struct Pool {
    shared: SharedHeap,
    data: Segment,
    lanes: [Mutex<Option<Lane>>; LANES],
    files: Option<Files>,
    me: ProcessId,
    /// What its handles do to the pool when they are dropped: only looking changes nothing.
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Creator,
    User,
    Onlooker,
}

fn identity(process: ProcessId) -> Identity {
    Identity::new(process.pid, process.start)
}

/// Tells one space of process numbers from another.
fn namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino)
}

impl Pool {
    /// Makes a pool, under a name or without one. A pool of that name that nobody needs any more is removed first.
    ///
    /// # Errors
    /// [`Error`]; nothing is left behind then.
    pub fn create(name: Option<&str>, attributes: &Attributes) -> Result<Pool, Error> {
        let plan = Plan::new(attributes.bytes, attributes.granule, attributes.blocks, attributes.members)?;
        let files = name.map(Files::of).transpose()?;
        if let Some(name) = name {
            files::clean_one(name);
        }
        let bytes = usize::try_from(attributes.bytes).map_err(|_| umbra_core::heap::PlanError::TooLarge)?;
        // Who finds the manifest finds the data.
        let data = files::make(files.as_ref().map(|files| &files.data), bytes)?;
        let made = || -> Result<Pool, Error> {
            let manifest = files::make(files.as_ref().map(|files| &files.manifest), plan.words() * 8)?;
            let shared = SharedHeap::create(manifest, plan, &attributes.reserved).inspect_err(|_| {
                files.iter().for_each(|files| drop(std::fs::remove_file(&files.manifest)));
            })?;
            let me = ProcessId::current()?;
            Ok(Pool { shared, data, lanes: Default::default(), files: files.clone(), me, role: Role::Creator })
        };
        let pool = made().inspect_err(|_| files.iter().for_each(|files| drop(std::fs::remove_file(&files.data))))?;
        let words = [
            (Word::Uid, attributes.uid),
            (Word::Lifetime, attributes.lifetime as u64),
            (Word::CreatorPid, pool.me.pid.into()),
            (Word::CreatorStart, pool.me.start),
            (Word::Namespace, namespace()),
        ];
        pool.with_hand(|_| ())?;
        words.into_iter().for_each(|(which, value)| pool.word(which).store(value, Ordering::Release));
        Ok(pool)
    }

    /// Uses a pool by its name.
    ///
    /// # Errors
    /// [`Error`] if there is none, or none any more.
    pub fn attach(name: &str) -> Result<Pool, Error> {
        let files = Files::of(name)?;
        let pool = Self::look(&files)?;
        if pool.is_over() {
            files.remove();
            return Err(Error::Destroyed);
        }
        pool.used()
    }

    /// Uses a pool whose descriptors another process [shared](Self::share).
    ///
    /// # Errors
    /// [`Error`].
    pub fn attach_shared(manifest: OwnedFd, data: OwnedFd) -> Result<Pool, Error> {
        Self::over(files::map(manifest)?, files::map(data)?, None)?.used()
    }

    /// As one of its users, so that nobody takes it for forsaken.
    fn used(mut self) -> Result<Pool, Error> {
        self.with_hand(|_| ())?;
        self.role = Role::User;
        Ok(self)
    }

    fn look(files: &Files) -> Result<Pool, Error> {
        Self::over(files::open(&files.manifest)?, files::open(&files.data)?, Some(files.clone()))
    }

    fn over(manifest: Segment, data: Segment, files: Option<Files>) -> Result<Pool, Error> {
        let shared = SharedHeap::attach(manifest, data.len() as u64)?;
        let pool =
            Pool { shared, data, lanes: Default::default(), files, me: ProcessId::current()?, role: Role::Onlooker };
        if pool.word(Word::Namespace).load(Ordering::Acquire) != namespace() {
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
        if self.word(Word::Destroyed).load(Ordering::Acquire) == 0 { Ok(()) } else { Err(Error::Destroyed) }
    }

    /// A lane that no other thread of this process uses at the moment.
    #[inline]
    fn lane(&self) -> MutexGuard<'_, Option<Lane>> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static LANE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed)));
        let first = LANE.get();
        let mut lanes = (0..LANES).map(|step| &self.lanes[(first + step) % LANES]);
        let free = lanes.find_map(|lane| lane.try_lock().ok());
        // A thread that panicked left the lane as good as any: what it was doing is undone when the lane is buried.
        free.unwrap_or_else(|| self.lanes[first % LANES].lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    #[inline]
    fn with_hand<R>(&self, act: impl FnOnce(Hand<'_, &mut Grasp>) -> R) -> Result<R, Error> {
        self.check()?;
        let mut lane = self.lane();
        let lane = match &mut *lane {
            Some(lane) => lane,
            none => none.insert(self.join()?),
        };
        Ok(act(self.heap().hand_with(&mut lane.grasp)))
    }

    #[cold]
    fn join(&self) -> Result<Lane, Error> {
        let (crew, identity) = (self.heap().crew(), identity(self.me));
        let member = crew.join(identity).map_err(|_| Error::Members { members: crew.capacity() })?;
        self.set_present(member, true);
        Ok(Lane { member, grasp: Grasp::new(member) })
    }

    /// Allocates at least `len` bytes, for what `kind` says; does not wait.
    ///
    /// # Errors
    /// [`Error::Alloc`], [`Error::Members`], [`Error::Destroyed`].
    #[inline]
    pub fn alloc(&self, len: u64, kind: u32) -> Result<Allocation<'_>, Error> {
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
        let look = || match self.alloc(len, kind) {
            Err(Error::Alloc(error)) if error.is_passing() => None,
            found => Some(found),
        };
        self.event().wait(&Futex, SPINS, deadline, look).unwrap_or(Err(Error::Timeout { len }))
    }

    fn free(&self, id: BlockId) -> Result<(), Error> {
        self.with_hand(|mut hand| hand.free(id))?.map_err(|_| Error::Stale)?;
        self.event().notify_after_swap(&Futex);
        Ok(())
    }

    fn own(&self, id: BlockId) -> Result<(), Error> {
        self.with_hand(|hand| hand.own(id))?.map_err(|_| Error::Stale)
    }

    /// An allocation by its id, whoever made it.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was freed.
    pub fn allocation(&self, id: BlockId) -> Result<Allocation<'_>, Error> {
        self.check()?;
        let block = self.heap().block(id).map_err(|error| match error {
            umbra_core::heap::LookError::Stale => Error::Stale,
            _ => Error::Damaged,
        })?;
        Ok(Allocation::new(self, block))
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

    /// The number that its creator gave it.
    #[must_use]
    pub fn uid(&self) -> u64 {
        self.word(Word::Uid).load(Ordering::Relaxed)
    }
}
