//! Buffers that several queue pairs receive into: a shared receive queue.
//!
//! A queue pair with buffers of its own needs as many as its peer may use at once; most of them lie idle. Shared buffers are
//! taken by whoever sends first, so that they need only be as many as all peers together use. Where they run out, senders
//! wait, and their cards try again until a buffer is posted. What arrived is told in one place for all queue pairs, so a look
//! at it costs the same for one peer and for a thousand.
//!
//! *Cost*: a post and a poll are one call into the driver each.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use umbra_core::atomic::{AtomicU32, Ordering};

use super::abi::{self, Plain as _};
use super::completions::{Completions, Place};
use super::memory::Domain;
use super::numbers::SHARED_LIMIT;
use super::numbers::event::SHARED_LIMIT_REACHED;
use super::work::{Completion, Piece};
use super::{Device, VerbsError};

/// Events of a device that one look takes in.
const EVENTS: usize = 64;

/// The shared queue itself; queue pairs that receive from it keep it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) srq: NonNull<abi::Srq>,
    /// Where it tells what arrived.
    pub(super) completions: Arc<Place>,
    /// Not 0 once its number of buffers fell below the limit; the driver knows this word by its address.
    low: Box<AtomicU32>,
}

// SAFETY: rdma-core's calls on a shared receive queue may be made from any thread.
unsafe impl Send for Shared {}
// SAFETY: as above; what changes here is atomic.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; the queue pairs that used it hold an `Arc` of this and are gone.
        unsafe { (self.completions.domain.device.library.destroy_srq)(self.srq.as_ptr()) };
    }
}

/// The request that posts a buffer; it is valid as long as the piece is.
pub(super) fn request(wr_id: u64, piece: &mut abi::Sge) -> abi::RecvWr {
    let num_sge = c_int::from(piece.length > 0);
    abi::RecvWr { wr_id, next: std::ptr::null_mut(), sg_list: piece, num_sge }
}

/// Takes what a device told unasked, and notes it where it concerns a shared queue.
fn take_events(device: &Device) -> Result<(), VerbsError> {
    for _ in 0..EVENTS {
        let mut event = abi::AsyncEvent::ZERO;
        // SAFETY: the context is open, and the struct has the layout that the function fills.
        let code = unsafe { (device.library.get_async_event)(device.context.as_ptr(), &raw mut event) };
        if code != 0 {
            let error = std::io::Error::last_os_error();
            return match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => Ok(()),
                _ => Err(VerbsError::Call { what: "reading the device's events", error }),
            };
        }
        if event.event_type == SHARED_LIMIT_REACHED {
            // SAFETY: events of this kind are about a shared queue.
            let srq = unsafe { event.element.srq };
            // SAFETY: it is not destroyed before the event is acknowledged, below.
            let place = unsafe { srq.as_ref() }.map(|srq| srq.srq_context.cast::<AtomicU32>());
            // SAFETY: all shared queues are made here, with the address of a word that outlives them.
            if let Some(low) = place.and_then(|place| unsafe { place.as_ref() }) {
                // ORDERING: the word is all that is told.
                low.store(1, Ordering::Relaxed);
            }
        }
        // SAFETY: taken once, acknowledged once.
        unsafe { (device.library.ack_async_event)(&raw mut event) };
    }
    Ok(())
}

/// Buffers that several queue pairs receive into.
#[derive(Debug)]
pub struct SharedReceives {
    shared: Arc<Shared>,
    completions: Completions,
    capacity: u32,
}

impl SharedReceives {
    /// Room for so many posted buffers, or for as many as the device allows.
    ///
    /// # Errors
    /// [`VerbsError::NoSharedReceives`] if the device has none, or [`VerbsError::Call`].
    pub fn new(domain: &Arc<Domain>, capacity: u32) -> Result<SharedReceives, VerbsError> {
        let device = &domain.device;
        let capacity = capacity.min(device.shared_receives());
        if capacity == 0 {
            return Err(VerbsError::NoSharedReceives { device: device.name().to_owned() });
        }
        // Each posted buffer completes once, so that nothing is ever lost for want of room.
        let completions = Completions::new(domain, capacity)?;
        let low = Box::new(AtomicU32::new(0));
        let place: *const AtomicU32 = &raw const *low;
        let attr = abi::SrqAttr { max_wr: capacity, max_sge: 1, ..abi::SrqAttr::ZERO };
        let mut wanted = abi::SrqInitAttr { srq_context: place.cast_mut().cast::<c_void>(), attr };
        // SAFETY: the domain lives; the flag lives longer than the queue does.
        let srq = unsafe { (device.library.create_srq)(domain.pd.as_ptr(), &raw mut wanted) };
        let srq = NonNull::new(srq).ok_or_else(|| VerbsError::last("making a shared receive queue"))?;
        let shared = Arc::new(Shared { srq, completions: completions.place.clone(), low });
        Ok(SharedReceives { shared, completions, capacity })
    }

    pub(super) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The domain that it belongs to.
    #[must_use]
    pub fn domain(&self) -> &Arc<Domain> {
        &self.shared.completions.domain
    }

    /// Buffers that may be posted at once.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Posts a buffer for the next SEND, or WRITE with immediate data, of any peer.
    ///
    /// # Errors
    /// [`VerbsError::OutOfBounds`], [`VerbsError::Full`], or [`VerbsError::Call`].
    pub fn post(&self, id: u64, into: Piece<'_>) -> Result<(), VerbsError> {
        let (mut piece, _) = into.sge()?;
        let mut request = request(id, &mut piece);
        let mut refused = std::ptr::null_mut();
        // SAFETY: the queue lives; request and piece live through the call, which copies them; the local bytes belong to
        // registered memory, which stays mapped until it is taken back from the card.
        let code = unsafe { abi::post_srq_recv(self.shared.srq.as_ptr(), &raw mut request, &raw mut refused) };
        match code {
            libc::ENOMEM => Err(VerbsError::Full),
            code => VerbsError::check("posting a shared buffer", code),
        }
    }

    /// Wants to be told, once, when fewer than `limit` buffers are left; [`is_low`](Self::is_low) tells it.
    ///
    /// # Errors
    /// [`VerbsError::NoWarning`] if the device cannot do that, or [`VerbsError::Call`].
    pub fn warn_below(&self, limit: u32) -> Result<(), VerbsError> {
        let device = &self.shared.completions.domain.device;
        let mut wanted = abi::SrqAttr { srq_limit: limit, ..abi::SrqAttr::ZERO };
        // SAFETY: the queue lives; the call reads the struct and keeps nothing of it.
        let code = unsafe { (device.library.modify_srq)(self.shared.srq.as_ptr(), &raw mut wanted, SHARED_LIMIT) };
        match code {
            libc::ENOSYS | libc::EOPNOTSUPP => {
                let (device, error) = (device.name().to_owned(), std::io::Error::from_raw_os_error(code));
                Err(VerbsError::NoWarning { device, error })
            }
            code => VerbsError::check("setting the limit of a shared receive queue", code),
        }
    }

    /// Whether there were fewer buffers than the limit since this was asked last; then the limit has to be set anew.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the device's events cannot be read.
    pub fn is_low(&self) -> Result<bool, VerbsError> {
        take_events(&self.shared.completions.domain.device)?;
        // ORDERING: as in `take_events`.
        Ok(self.shared.low.swap(0, Ordering::Relaxed) != 0)
    }

    /// Tells up to [`BATCH`](super::BATCH) buffers that are not posted any more, each with the number of the queue pair that took it; how
    /// many. A buffer whose status is not that of success holds nothing, and its queue pair is broken.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the driver fails.
    pub fn poll(&mut self, sink: &mut dyn FnMut(u32, Completion)) -> Result<usize, VerbsError> {
        let ended = self.completions.poll()?;
        ended.iter().for_each(|wc| sink(wc.qp_num, Completion::of(wc)));
        Ok(ended.len())
    }

    /// Makes [`descriptor`](Self::descriptor) readable at the next arrival; what arrived before does not.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn arm(&mut self) -> Result<(), VerbsError> {
        self.completions.arm()
    }

    /// Readable once something arrived after [`arm`](Self::arm).
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.completions.descriptor()
    }

    /// Takes the event that made the descriptor readable; waits for one if it is not.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn take_event(&mut self) -> Result<(), VerbsError> {
        self.completions.take_event()
    }

    /// As [`poll`](Self::poll), but sleeps if there is nothing, at most so long.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn wait(&mut self, at_most: Duration, sink: &mut dyn FnMut(u32, Completion)) -> Result<usize, VerbsError> {
        self.completions.arm()?;
        // What arrived before it was armed makes no event.
        let told = self.poll(sink)?;
        if told == 0 && self.completions.sleep(at_most)? { self.poll(sink) } else { Ok(told) }
    }
}
