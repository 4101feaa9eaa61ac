//! Registered memory.

use std::ptr::NonNull;
use std::sync::Arc;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::key::Access;

use super::abi;
use super::numbers::access;
use super::{Device, VerbsError};
use crate::sys::segment::{Mapping, Segment};

/// A protection domain: queue pairs and keys of one domain work together, and only those.
#[derive(Debug)]
pub struct Domain {
    pub(super) device: Arc<Device>,
    pub(super) pd: NonNull<abi::Pd>,
}

// SAFETY: rdma-core's calls on a protection domain may be made from any thread.
unsafe impl Send for Domain {}
// SAFETY: as above; nothing changes after it was made.
unsafe impl Sync for Domain {}

impl Domain {
    /// A domain on a device.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the device has no more.
    pub fn new(device: &Arc<Device>) -> Result<Arc<Domain>, VerbsError> {
        // SAFETY: the context is open.
        let pd = unsafe { (device.library.alloc_pd)(device.context.as_ptr()) };
        let pd = NonNull::new(pd).ok_or_else(|| VerbsError::last("making a protection domain"))?;
        Ok(Arc::new(Domain { device: device.clone(), pd }))
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; what belongs to it holds an `Arc` of this and is gone.
        unsafe { (self.device.library.dealloc_pd)(self.pd.as_ptr()) };
    }
}

/// Memory that a device may reach: pinned, with the keys for it. [`Region`] is a segment, [`HeapRegion`] bytes of the heap.
///
/// [`close`](Self::close) takes it back: once that is done the card refuses its keys, whatever was posted before, and the
/// memory is its owner's again. Dropping it does the same, but can tell nobody of a failure: it is logged and counted
/// ([`never_taken_back`]), and the memory stays mapped until the process ends, as the card may still reach it.
#[derive(Debug)]
pub struct Registered<M: Clone> {
    domain: Arc<Domain>,
    mr: NonNull<abi::Mr>,
    memory: M,
    /// The card knows it.
    open: bool,
    base: u64,
    local: u32,
    remote: u32,
}

/// A segment that a device may reach.
pub type Region = Registered<Arc<Segment>>;

/// Bytes of the heap that a device may read for others.
pub type HeapRegion = Registered<Arc<Vec<u8>>>;

// SAFETY: rdma-core's calls on a region may be made from any thread.
unsafe impl<M: Clone + Send> Send for Registered<M> {}
// SAFETY: as above; nothing changes after it was made.
unsafe impl<M: Clone + Sync> Sync for Registered<M> {}

/// Memory that was not taken back: the card may still reach it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct StillRegistered<M: Clone + std::fmt::Debug> {
    /// The memory, to try it again.
    pub region: Registered<M>,
    /// Why it was not taken back.
    #[source]
    pub error: VerbsError,
}

/// Memory that was dropped and not taken back, in this process.
static NEVER_TAKEN_BACK: AtomicU64 = AtomicU64::new(0);

/// How many pieces of registered memory were dropped in this process that the card would not forget: a revocation that did
/// not happen. 0 in a program without a mistake, on a device that works.
#[must_use]
pub fn never_taken_back() -> u64 {
    // ORDERING: a number to be shown; nothing is read by it.
    NEVER_TAKEN_BACK.load(Ordering::Relaxed)
}

impl<M: Clone> Registered<M> {
    /// # Safety
    /// So many bytes from `base` on belong to `memory` and stay where they are as long as one clone of it lives. The card may
    /// read them at any time, and write them if `flags` say so: no plain reference says otherwise.
    unsafe fn new(
        domain: &Arc<Domain>,
        memory: M,
        (base, len): (NonNull<u8>, usize),
        flags: i32,
    ) -> Result<Registered<M>, VerbsError> {
        let windows = if domain.device.has_windows() { access::WINDOW_BIND } else { 0 };
        // SAFETY: by contract; the memory is taken along and outlives the registration.
        let mr =
            unsafe { (domain.device.library.reg_mr)(domain.pd.as_ptr(), base.as_ptr().cast(), len, flags | windows) };
        let Some(mr) = NonNull::new(mr) else { return Err(refused(len)) };
        // SAFETY: just made, and its keys never change.
        let &abi::Mr { lkey: local, rkey: remote, .. } = unsafe { mr.as_ref() };
        let base = base.as_ptr() as u64;
        Ok(Registered { domain: domain.clone(), mr, memory, open: true, base, local, remote })
    }

    fn take_back(&mut self) -> Result<(), VerbsError> {
        // SAFETY: registered once, and taken back once: after it was, nobody calls this again.
        let code = unsafe { (self.domain.device.library.dereg_mr)(self.mr.as_ptr()) };
        match code {
            0 => self.open = false,
            code => return Err(VerbsError::StillRegistered(std::io::Error::from_raw_os_error(code))),
        }
        Ok(())
    }

    /// The domain that it is registered in.
    #[must_use]
    pub const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// What is registered.
    #[must_use]
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// Its remote key: what a peer names it by.
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        self.remote
    }

    pub(super) const fn mr(&self) -> *mut abi::Mr {
        self.mr.as_ptr()
    }

    pub(super) const fn lkey(&self) -> u32 {
        self.local
    }

    /// The address by which a peer names byte `offset`.
    #[must_use]
    pub const fn address(&self, offset: usize) -> u64 {
        self.base.wrapping_add(offset as u64)
    }
}

impl<M: Clone + std::fmt::Debug> Registered<M> {
    /// Takes it back. When this has returned well, the card refuses its keys.
    ///
    /// # Errors
    /// [`StillRegistered`], with the region, if the card does not forget it: a window that is bound to it, or a device that is
    /// gone.
    pub fn close(mut self) -> Result<M, StillRegistered<M>> {
        match self.take_back() {
            Ok(()) => Ok(self.memory.clone()),
            Err(error) => Err(StillRegistered { region: self, error }),
        }
    }
}

impl Region {
    /// Registers a whole segment; `peers` says what others may do to it by its remote key.
    ///
    /// # Errors
    /// [`VerbsError::LockedMemory`] if it cannot be pinned, [`VerbsError::Call`] for any other reason, among them that
    /// a segment mapped for reading is to be written.
    pub fn register(domain: &Arc<Domain>, segment: Arc<Segment>, peers: Access) -> Result<Region, VerbsError> {
        let local = if segment.mapping() == Mapping::ReadWrite { access::LOCAL_WRITE } else { 0 };
        let (base, len) = (segment.base(), segment.len());
        // SAFETY: the segment is mapped for `len` bytes as long as it lives; it is never referred to by plain references, so
        // the card may read and write it at any time.
        unsafe { Registered::new(domain, segment, (base, len), local | peers_flags(peers)) }
    }

    /// The segment.
    #[must_use]
    pub const fn segment(&self) -> &Arc<Segment> {
        &self.memory
    }
}

impl HeapRegion {
    /// Registers bytes of the heap, which peers may read by its remote key; nobody writes them while they are registered.
    ///
    /// # Errors
    /// As [`Region::register`].
    pub fn register_bytes(domain: &Arc<Domain>, bytes: impl Into<Arc<Vec<u8>>>) -> Result<HeapRegion, VerbsError> {
        let bytes: Arc<Vec<u8>> = bytes.into();
        let (base, len) = (NonNull::from(bytes.as_slice()).cast(), bytes.len());
        // SAFETY: the bytes lie in the heap until the last clone is dropped, and nobody can change a shared vector; the card,
        // too, only reads them.
        unsafe { Registered::new(domain, bytes, (base, len), access::REMOTE_READ) }
    }
}

impl<M: Clone> Drop for Registered<M> {
    fn drop(&mut self) {
        if self.open
            && let Err(error) = self.take_back()
        {
            // ORDERING: as in `never_taken_back`.
            NEVER_TAKEN_BACK.fetch_add(1, Ordering::Relaxed);
            // The remote key still opens it, so it is not told.
            umbra_core::log!(error, "registered memory was not taken back, peers may still reach it: {:?}", error);
            // What the card may still reach must not become something else.
            std::mem::forget((self.memory.clone(), self.domain.clone()));
        }
    }
}

/// What others may do, as the card is told.
pub(super) fn peers_flags(peers: Access) -> i32 {
    let rights = [(Access::READ, access::REMOTE_READ), (Access::WRITE, access::REMOTE_WRITE)];
    rights.into_iter().filter(|&(right, _)| peers.contains(right)).fold(0, |flags, (_, flag)| flags | flag)
}

/// Why memory was not registered, from what the call left in `errno`.
fn refused(len: usize) -> VerbsError {
    let error = std::io::Error::last_os_error();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let pinned = pinned().unwrap_or(0);
    match (error.raw_os_error(), limit) {
        (Some(libc::ENOMEM | libc::EAGAIN), Some(limit)) if limit < pinned.saturating_add(len as u64) => {
            VerbsError::LockedMemory { len, pinned, limit }
        }
        _ => VerbsError::Call { what: "registering memory", error },
    }
}

/// Bytes that this process has pinned, of which the kernel counts registered memory.
fn pinned() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}
