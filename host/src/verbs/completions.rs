//! Completion queues, and sleeping for them.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::VerbsError;
use super::abi::{self, Plain as _};
use super::memory::Domain;

/// Pieces of work, or completions, in one call.
pub const BATCH: usize = 16;

/// Room for the completions of one call. A driver writes only those fields of a completion that mean something, so the
/// others must hold a value of before: it is zeroed once, and most polls, which find nothing, write nothing.
struct Batch([abi::Wc; BATCH]);

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Batch(..)")
    }
}

/// A completion queue and its channel; queue pairs that use it keep it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) domain: Arc<Domain>,
    channel: NonNull<abi::CompChannel>,
    pub(super) cq: NonNull<abi::Cq>,
}

// SAFETY: rdma-core's calls on completion queues and their channels may be made from any thread.
unsafe impl Send for Place {}
// SAFETY: as above; nothing changes after it was made.
unsafe impl Sync for Place {}

/// Where completions wait, and how to sleep for them.
#[derive(Debug)]
pub(super) struct Completions {
    pub(super) place: Arc<Place>,
    batch: Batch,
    /// The next completion makes an event, or one has and it was not taken.
    armed: bool,
}

impl Completions {
    pub(super) fn new(domain: &Arc<Domain>, room: u32) -> Result<Completions, VerbsError> {
        let (library, context) = (domain.device.library, domain.device.context);
        let room = c_int::try_from(room).unwrap_or(c_int::MAX);
        // SAFETY: the context is open.
        let channel = unsafe { (library.create_comp_channel)(context.as_ptr()) };
        let channel = NonNull::new(channel).ok_or_else(|| VerbsError::last("making a completion channel"))?;
        // SAFETY: context and channel live; the completion queue carries no pointer of ours.
        let cq = unsafe { (library.create_cq)(context.as_ptr(), room, std::ptr::null_mut(), channel.as_ptr(), 0) };
        let Some(cq) = NonNull::new(cq) else {
            let error = VerbsError::last("making a completion queue");
            // SAFETY: just made, and used by nothing.
            unsafe { (library.destroy_comp_channel)(channel.as_ptr()) };
            return Err(error);
        };
        let batch = Batch([const { abi::Wc::ZERO }; BATCH]);
        Ok(Completions { place: Arc::new(Place { domain: domain.clone(), channel, cq }), batch, armed: false })
    }

    /// Takes up to a batch of completions.
    pub(super) fn poll(&mut self) -> Result<&[abi::Wc], VerbsError> {
        // SAFETY: the queue lives, and at most `BATCH` completions are written to an array of so many.
        let count = unsafe { abi::poll_cq(self.place.cq.as_ptr(), BATCH as c_int, self.batch.0.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| VerbsError::last("polling completions"))?;
        Ok(&self.batch.0[..count.min(BATCH)])
    }

    /// Asks for an event at the next completion, unless there will be one anyway: events that nobody takes pile up in
    /// the kernel.
    pub(super) fn arm(&mut self) -> Result<(), VerbsError> {
        if self.armed {
            return Ok(());
        }
        // SAFETY: the queue lives.
        VerbsError::check("asking for a completion event", unsafe { abi::req_notify_cq(self.place.cq.as_ptr(), 0) })?;
        self.armed = true;
        Ok(())
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives as long as `self`, and its descriptor never changes.
        let descriptor = unsafe { self.place.channel.as_ref() }.fd;
        // SAFETY: the channel, which is closed on drop, owns the descriptor.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    }

    /// Takes the event that made the descriptor readable.
    pub(super) fn take_event(&mut self) -> Result<(), VerbsError> {
        let Place { domain, channel, .. } = &*self.place;
        let (library, mut cq, mut of) = (domain.device.library, std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel lives, and both results are written to live pointers.
        let code = unsafe { (library.get_cq_event)(channel.as_ptr(), &raw mut cq, &raw mut of) };
        if code != 0 {
            return Err(VerbsError::last("taking a completion event"));
        }
        self.armed = false;
        // SAFETY: the event came from this queue, the only one on its channel; each is acknowledged once.
        unsafe { (library.ack_cq_events)(self.place.cq.as_ptr(), 1) };
        Ok(())
    }

    /// Sleeps until the event that was asked for, at most so long, and takes it; whether it came.
    pub(super) fn sleep(&mut self, at_most: Duration) -> Result<bool, VerbsError> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let descriptor = self.descriptor();
        let timeout = Timespec::try_from(at_most).ok();
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => self.take_event().map(|()| true),
            Err(errno) => Err(VerbsError::Call { what: "waiting for a completion", error: errno.into() }),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let library = self.domain.device.library;
        // SAFETY: made once, freed once; the queue pairs that used it hold an `Arc` of this and are gone.
        unsafe { (library.destroy_cq)(self.cq.as_ptr()) };
        // SAFETY: made once, freed once, after its only completion queue.
        unsafe { (library.destroy_comp_channel)(self.channel.as_ptr()) };
    }
}
