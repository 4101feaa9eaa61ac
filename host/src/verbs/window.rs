//! Memory windows: keys for part of a region, taken back in microseconds.
//!
//! A window of type 2B is bound by a request in a queue pair's own order and works for that queue pair's peer alone.
//! Each binding makes a new key. Once the completion of [`Queue::invalidate`] is there, the card refuses the key, and
//! the region itself is still registered: to revoke costs a request, not the kernel's unpinning of memory.
//!
//! Soft-RoCE of Linux 6.1 checks a window's key, rights and queue pair, but the bounds of the whole region: there a
//! window protects no part of a region from another.

use std::ptr::NonNull;
use std::sync::Arc;

use umbra_core::key::Access;

use super::abi::{self, Plain};
use super::memory::{Domain, Region, peers_flags};
use super::numbers::{WINDOW_TYPE_2, opcode, send};
use super::work::{Piece, Remote};
use super::{Queue, VerbsError};

/// A window, bound or not. Dropping it ends its key, too.
#[derive(Debug)]
pub struct Window {
    mw: NonNull<abi::Mw>,
    /// What it was made from stays.
    _domain: Arc<Domain>,
    /// Memory that it is bound to stays registered.
    region: Option<Arc<Region>>,
}

// SAFETY: rdma-core's calls on a window may be made from any thread, one at a time here.
unsafe impl Send for Window {}

impl Window {
    /// A window that is not bound to anything.
    ///
    /// # Errors
    /// [`VerbsError::NoWindows`] if the device has none of this type, [`VerbsError::Call`] if it has no more.
    pub fn new(domain: &Arc<Domain>) -> Result<Window, VerbsError> {
        if !domain.device.has_windows() {
            return Err(VerbsError::NoWindows { device: domain.device.name().to_owned() });
        }
        // SAFETY: the domain lives.
        let mw = unsafe { abi::alloc_mw(domain.pd.as_ptr(), WINDOW_TYPE_2) };
        let mw = NonNull::new(mw).ok_or_else(|| VerbsError::last("making a memory window"))?;
        Ok(Window { mw, _domain: domain.clone(), region: None })
    }

    /// The key that it has, or had last.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        // SAFETY: the window lives, and only `self` writes it.
        unsafe { self.mw.as_ref() }.rkey
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: made once, freed once, before the region that it may be bound to.
        unsafe { abi::dealloc_mw(self.mw.as_ptr()) };
    }
}

impl Queue {
    /// Binds a window to a part of a region, for this queue's peer; what it was bound to before must be invalidated. The
    /// peer may use what is returned once this work has completed well.
    ///
    /// # Errors
    /// [`VerbsError::NotConnected`], [`VerbsError::Full`] or [`VerbsError::OutOfBounds`]; [`VerbsError::Call`] if the
    /// driver refuses, which breaks the queue.
    pub fn bind(
        &mut self,
        id: u64,
        window: &mut Window,
        region: &Arc<Region>,
        (offset, len): (usize, u32),
        access: Access,
    ) -> Result<Remote, VerbsError> {
        let addr = Piece { region: &**region, offset, len }.sge()?.0.addr;
        // The low byte of a key is ours to choose: a key that was used must not come back at once.
        let rkey = window.rkey() & !0xff | window.rkey().wrapping_add(1) & 0xff;
        let bind_info = abi::BindInfo {
            mr: region.mr(),
            addr,
            length: u64::from(len),
            mw_access_flags: peers_flags(access).cast_unsigned(),
        };
        let bind_mw = abi::Bind { mw: window.mw.as_ptr(), rkey, bind_info };
        let mut request = abi::SendWr {
            wr_id: id,
            opcode: opcode::BIND_WINDOW,
            send_flags: send::SIGNALED,
            bind_mw_tso_union: abi::BindOrSegments { bind_mw },
            ..Plain::ZERO
        };
        self.post_one(&mut request)?;
        // SAFETY: the window lives, and only `self` reads or writes this field of it; the driver wants the key there that
        // is bound.
        unsafe { window.mw.as_mut() }.rkey = rkey;
        window.region = Some(region.clone());
        Ok(Remote { address: addr, rkey })
    }

    /// Ends a window's key; once this work has completed well, the card refuses it.
    ///
    /// # Errors
    /// [`VerbsError::NotConnected`] or [`VerbsError::Full`]; [`VerbsError::Call`] if the driver refuses, which breaks the
    /// queue.
    pub fn invalidate(&mut self, id: u64, window: &Window) -> Result<(), VerbsError> {
        let mut request = abi::SendWr {
            wr_id: id,
            opcode: opcode::LOCAL_INVALIDATE,
            send_flags: send::SIGNALED,
            imm_data_invalidated_rkey_union: abi::Word { invalidated_rkey: window.rkey() },
            ..Plain::ZERO
        };
        self.post_one(&mut request)
    }
}
