//! What handles name, and how to get at it.
//!
//! They name sessions, groups, regions, reads, caches, memories, pools, objects, channels, exchanges and members.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use umbra::cache::{self, CachedMemory, Caches, EndsShared};
use umbra::call::Station;
use umbra::channel::{Bell, Channel};
use umbra::gateway::{Gateways, RemoteChannel, RemotePool, RemoteStreams};
use umbra::pool::Pool;
use umbra::session::{Exported, Posted, Session};
use umbra::sys::segment::Segment;
use umbra_core::cache::keyed::InUse;
use umbra_core::cache::{Line, Sparse};
use umbra_core::chain::Node;
use umbra_core::id::Id;
use umbra_core::key::Key;

use crate::bounded::Bounded;
use crate::cached::Cached;
use crate::conversed::{Ear, FarEar, FarSpeech, Place, Set, Speaker, Streams};
use crate::gateway_socket::Served;
use crate::handle::Handles;
use crate::joint::Joint;
use crate::maker::Maker;
use crate::member::{Seat, Seated};
use crate::owners::Owned;
use crate::standing::Standing;
use crate::status::{Code, Failure};
use crate::stenciled::Stenciled;
use crate::woven::Woven;

/// Everything that C holds.
pub(crate) static HANDLES: Handles<Object> = Handles::new();

/// What a handle names.
pub(crate) enum Object {
    Session(Arc<Joined>),
    Group(Grouped),
    Region(Held),
    Read(Reading),
    Cache(Box<dyn Cached>),
    Caches(Caches<Tenant>),
    SharedCache(Joint),
    Memory(Box<cache::Memory>),
    CachedMemory(Box<CachedMemory<Sparse<Vec<Line>, Vec<u64>>>>),
    Stencil(Box<Stenciled>),
    Objects(Owned),
    Pool(Arc<Pool>),
    FarPool(RemotePool),
    Channel(Arc<Channel>),
    FarChannel(RemoteChannel),
    Set(Set),
    Bell(Bell),
    Gateways(Gateways),
    Gateway(Served),
    Stream(Streams),
    Supplied(Place),
    Sender(Mutex<Speaker>),
    Receiver(Mutex<Ear>),
    FarStream(RemoteStreams),
    FarSender(Mutex<FarSpeech>),
    FarReceiver(Mutex<FarEar>),
    Fabric(Woven),
    Boundary(Box<Bounded>),
    Station(Station),
    Member(Box<Seated>),
    /// Of another package that is built on this one.
    Foreign(Box<dyn Any + Send + Sync>),
}

/// A session; its insides are gone once the job was left.
///
/// In a child that was forked off it is stale: a thread that the child lacks may have the lock.
pub(crate) struct Joined {
    maker: Maker,
    session: RwLock<Option<Session>>,
}

/// A group, and the session that looks it up.
pub(crate) struct Grouped {
    pub(crate) session: Arc<Joined>,
    pub(crate) group: Standing,
    pub(crate) is_world: bool,
}

/// A region: ours alone, exported, or taken back.
pub(crate) struct Held {
    pub(crate) session: Arc<Joined>,
    pub(crate) memory: Mutex<Memory>,
}

/// A read that was posted.
pub(crate) struct Reading {
    pub(crate) session: Arc<Joined>,
    /// Bytes that it brings.
    pub(crate) len: usize,
    pub(crate) state: Mutex<Progress>,
}

/// How far a read is.
pub(crate) enum Progress {
    Flying(Id<Posted>),
    Done(Vec<u8>),
    Failed(Code, String),
}

/// In whose hands memory is.
pub(crate) enum Memory {
    /// Not exported (any more).
    Ours(Exported),
    /// Owned by the session while service processes may read it, also after an export that failed.
    Exported(Key),
    /// Between the two, or freed.
    Gone,
}

/// A cache in a table, and its handle, which goes with it.
pub(crate) struct Tenant {
    handle: u64,
    object: Arc<Object>,
}

impl Tenant {
    /// The cache that a handle names.
    pub(crate) fn new(handle: u64) -> Result<Tenant, Failure> {
        Ok(Tenant { handle, object: HANDLES.get(handle)? })
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }
}

impl EndsShared for Tenant {
    fn end_unused(&self) -> Result<(), InUse> {
        match &*self.object {
            Object::Cache(cache) => cache.end_unused(),
            _ => Ok(()),
        }
    }

    fn interrupt(&self) {
        if let Object::Cache(cache) = &*self.object {
            cache.interrupt();
        }
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.interrupt();
        // It may have been destroyed by itself.
        let _ = HANDLES.release(self.handle);
    }
}

impl Joined {
    pub(crate) fn new(session: Session) -> Arc<Joined> {
        Arc::new(Joined { maker: Maker::this(), session: RwLock::new(Some(session)) })
    }

    /// The session's lock, in the process that joined.
    fn own(&self) -> Result<&RwLock<Option<Session>>, Failure> {
        let detail = "the session belongs to the process that forked this one off: join in this process";
        self.maker.refuse_heirs(detail).map(|()| &self.session)
    }

    /// Locks something that stands beside the session, and is locked while that is used.
    pub(crate) fn lock<'a, T>(&self, beside: &'a Mutex<T>) -> Result<MutexGuard<'a, T>, Failure> {
        self.maker.lock(beside)
    }

    /// Asks the session; many may at once.
    pub(crate) fn ask<R>(&self, ask: impl FnOnce(&Session) -> Result<R, Failure>) -> Result<R, Failure> {
        let guard: RwLockReadGuard<'_, Option<Session>> = self.own()?.read().map_err(|_| Code::Panic)?;
        ask(guard.as_ref().ok_or(Code::Stale)?)
    }

    /// Changes the session; one at a time.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Session) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut guard: RwLockWriteGuard<'_, Option<Session>> = self.own()?.write().map_err(|_| Code::Panic)?;
        change(guard.as_mut().ok_or(Code::Stale)?)
    }

    /// Takes the session out for good.
    pub(crate) fn take(&self) -> Result<Session, Failure> {
        let session = self.own()?.write().unwrap_or_else(PoisonError::into_inner).take();
        session.ok_or(Code::Stale.into())
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if self.maker.is_parent() {
            // A thread of the parent may have been in the middle of changing it.
            std::mem::forget(self.session.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// The session that a handle names.
pub(crate) fn session(handle: u64) -> Result<Arc<Joined>, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Session(session) => Ok(Arc::clone(session)),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the group that a handle names.
pub(crate) fn with_group<R>(handle: u64, act: impl FnOnce(&Grouped) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Group(group) => act(group),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the region that a handle names.
pub(crate) fn with_region<R>(handle: u64, act: impl FnOnce(&Held) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Region(region) => act(region),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the read that a handle names.
pub(crate) fn with_read<R>(handle: u64, act: impl FnOnce(&Reading) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Read(reading) => act(reading),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the slot cache that a handle names; many may at once.
pub(crate) fn with_cache<R>(handle: u64, act: impl FnOnce(&dyn Cached) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Cache(cache) => act(&**cache),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the table of caches that a handle names; many may at once.
pub(crate) fn with_caches<R>(
    handle: u64,
    act: impl FnOnce(&Caches<Tenant>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Caches(caches) => act(caches),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the place at a shared cache that a handle names; many may at once.
pub(crate) fn with_shared_cache<R>(handle: u64, act: impl FnOnce(&Joint) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::SharedCache(joint) => act(joint),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the memory that a handle names; many may at once.
pub(crate) fn with_memory<R>(
    handle: u64,
    act: impl FnOnce(&cache::Memory) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Memory(memory) => act(memory),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the cached memory that a handle names; many may at once.
pub(crate) fn with_cached_memory<R>(
    handle: u64,
    act: impl FnOnce(&CachedMemory<Sparse<Vec<Line>, Vec<u64>>>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::CachedMemory(memory) => act(memory),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the stencil cache that a handle names.
pub(crate) fn with_stencil<R>(handle: u64, act: impl FnOnce(&Stenciled) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Stencil(stencil) => act(stencil),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the pool of objects that a handle names; many may at once.
pub(crate) fn with_objects<R>(handle: u64, act: impl FnOnce(&Owned) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Objects(objects) => act(objects),
        _ => Err(Code::WrongKind.into()),
    }
}

fn with_shared_pool<R>(handle: u64, act: impl FnOnce(&Arc<Pool>) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Pool(pool) => act(pool),
        Object::FarPool(_) => Err(Code::NonLocal.into()),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the pool of this host that a handle names; many may at once.
pub(crate) fn with_pool<R>(handle: u64, act: impl FnOnce(&Pool) -> Result<R, Failure>) -> Result<R, Failure> {
    with_shared_pool(handle, |pool| act(pool))
}

/// The pool of this host that a handle names, for what stays with it.
pub(crate) fn shared_pool(handle: u64) -> Result<Arc<Pool>, Failure> {
    with_shared_pool(handle, |pool| Ok(Arc::clone(pool)))
}

/// Uses the channel of this host that a handle names; many may at once.
pub(crate) fn with_channel<R>(handle: u64, act: impl FnOnce(&Channel) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Channel(channel) => act(channel),
        Object::FarChannel(_) => Err(Code::NonLocal.into()),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the fabric that a handle names.
pub(crate) fn with_fabric<R>(handle: u64, act: impl FnOnce(&Woven) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Fabric(fabric) => act(fabric),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the meeting place that a handle names; many may at once.
pub(crate) fn with_station<R>(handle: u64, act: impl FnOnce(&Station) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Station(station) => act(station),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Uses the exchange that a handle names.
pub(crate) fn with_boundary<R>(handle: u64, act: impl FnOnce(&Bounded) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Boundary(bounded) => act(bounded),
        _ => Err(Code::WrongKind.into()),
    }
}

fn seated<R>(handle: u64, act: impl FnOnce(&Seated) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Member(seated) => {
            seated.refuse_heirs()?;
            act(seated)
        }
        _ => Err(Code::WrongKind.into()),
    }
}

/// The number of the member that a handle names.
pub(crate) fn node_of(handle: u64) -> Result<Node, Failure> {
    seated(handle, |seated| Ok(seated.node()))
}

/// Leaves the seat of the member that a handle names, in turn.
pub(crate) fn leave_seat(handle: u64) -> Result<(), Failure> {
    seated(handle, Seated::leave)
}

/// Serves the calls of others with the member that a handle names, in turn.
pub(crate) fn serve_seat(handle: u64, patience: Duration) -> Result<(), Failure> {
    seated(handle, |seated| seated.serve(patience))
}

/// Uses the member that a handle names, in turn.
pub(crate) fn with_member<R>(handle: u64, act: impl FnOnce(&mut Seat) -> Result<R, Failure>) -> Result<R, Failure> {
    seated(handle, |seated| seated.enter(act))
}

/// Uses the member that a handle names, if its turn comes within that time; `act` gets what is left of it.
pub(crate) fn with_member_within<R>(
    handle: u64,
    patience: Duration,
    act: impl FnOnce(&mut Seat, Duration) -> Result<R, Failure>,
) -> Result<R, Failure> {
    seated(handle, |seated| seated.enter_within(patience, act))
}

/// Fresh zeroed memory that can be exported.
pub(crate) fn allocate(len: usize) -> Result<Memory, Failure> {
    let segment = Segment::create("umbra-region", len).map_err(|e| Failure::new(Code::System, e))?;
    Ok(Memory::Ours(Exported::Segment(segment)))
}
