//! Registered memory.

use std::ptr::NonNull;
use std::sync::Arc;

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

/// A segment that a device may reach: pinned, with the keys for it.
///
/// Dropping it takes it back: once the drop is done the card refuses its keys, whatever was posted before.
#[derive(Debug)]
pub struct Region {
    domain: Arc<Domain>,
    mr: NonNull<abi::Mr>,
    segment: Arc<Segment>,
    local: u32,
    remote: u32,
}

// SAFETY: rdma-core's calls on a region may be made from any thread.
unsafe impl Send for Region {}
// SAFETY: as above; nothing changes after it was made.
unsafe impl Sync for Region {}

impl Region {
    /// Registers a whole segment; `peers` says what others may do to it by its remote key.
    ///
    /// # Errors
    /// [`VerbsError::LockedMemory`] if it cannot be pinned, [`VerbsError::Call`] for any other reason, among them that
    /// a segment mapped for reading is to be written.
    pub fn register(domain: &Arc<Domain>, segment: Arc<Segment>, peers: Access) -> Result<Region, VerbsError> {
        let local = if segment.mapping() == Mapping::ReadWrite { access::LOCAL_WRITE } else { 0 };
        let windows = if domain.device.has_windows() { access::WINDOW_BIND } else { 0 };
        let flags = local | windows | peers_flags(peers);
        let (library, len) = (domain.device.library, segment.len());
        // SAFETY: the segment is mapped for `len` bytes as long as it lives, which is longer than the region does; it
        // is never referred to by plain references, so the card may read and write it at any time.
        let mr = unsafe { (library.reg_mr)(domain.pd.as_ptr(), segment.base().as_ptr().cast(), len, flags) };
        let Some(mr) = NonNull::new(mr) else { return Err(refused(len)) };
        // SAFETY: just made, and its keys never change.
        let &abi::Mr { lkey: local, rkey: remote, .. } = unsafe { mr.as_ref() };
        Ok(Region { domain: domain.clone(), mr, segment, local, remote })
    }

    /// The domain that it is registered in.
    #[must_use]
    pub const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The segment.
    #[must_use]
    pub const fn segment(&self) -> &Arc<Segment> {
        &self.segment
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
    pub fn address(&self, offset: usize) -> u64 {
        (self.segment.base().as_ptr() as u64).wrapping_add(offset as u64)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered once, taken back once, before the segment can be unmapped.
        unsafe { (self.domain.device.library.dereg_mr)(self.mr.as_ptr()) };
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
