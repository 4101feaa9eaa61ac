//! What the connection manager tells, one event after the other.

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::super::abi;
use super::super::library::Manager;
use super::super::{Hello, VerbsError};

/// Where events arrive.
#[derive(Debug)]
pub(super) struct Channel {
    manager: &'static Manager,
    channel: NonNull<abi::CmChannel>,
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; the identifier that used it is gone.
        unsafe { (self.manager.destroy_event_channel)(self.channel.as_ptr()) };
    }
}

impl Channel {
    pub(super) fn new(manager: &'static Manager) -> Result<Channel, VerbsError> {
        // SAFETY: the call has no arguments; its result is checked.
        let channel = unsafe { (manager.create_event_channel)() };
        let channel = NonNull::new(channel)
            .ok_or_else(|| VerbsError::last("opening the connection manager (is the module rdma_ucm loaded?)"))?;
        let channel = Channel { manager, channel };
        // An event may turn out to be none for us while the library takes it.
        let descriptor = channel.descriptor();
        let failed =
            |errno: rustix::io::Errno| VerbsError::Call { what: "opening the connection manager", error: errno.into() };
        let flags = fcntl_getfl(descriptor).map_err(failed)?;
        fcntl_setfl(descriptor, flags | OFlags::NONBLOCK).map_err(failed)?;
        Ok(channel)
    }

    pub(super) const fn as_ptr(&self) -> *mut abi::CmChannel {
        self.channel.as_ptr()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives as long as `self`, and its descriptor never changes.
        let descriptor = unsafe { self.channel.as_ref() }.fd;
        // SAFETY: the channel, which is closed on drop, owns the descriptor.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    }

    /// The next event; `who` is missing if there is none in time.
    pub(super) fn next(&self, who: &str, within: Duration) -> Result<Event, VerbsError> {
        let begun = Instant::now();
        loop {
            let mut event = std::ptr::null_mut();
            // SAFETY: the channel lives, and the result is written to a live pointer.
            let code = unsafe { (self.manager.get_event)(self.channel.as_ptr(), &raw mut event) };
            if let (0, Some(event)) = (code, NonNull::new(event)) {
                return Ok(Event { manager: self.manager, event });
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(VerbsError::Call { what: "taking an event of the connection manager", error });
            }
            let left = within.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(VerbsError::Late { who: who.to_owned(), waited: within });
            }
            let descriptor = self.descriptor();
            match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Timespec::try_from(left).ok().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    return Err(VerbsError::Call { what: "waiting for the connection manager", error: errno.into() });
                }
            }
        }
    }
}

/// An event, acknowledged when it is dropped.
#[derive(Debug)]
pub(super) struct Event {
    manager: &'static Manager,
    event: NonNull<abi::CmEvent>,
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: taken once, acknowledged once.
        unsafe { (self.manager.ack_event)(self.event.as_ptr()) };
    }
}

impl Event {
    fn event(&self) -> &abi::CmEvent {
        // SAFETY: it stays as it is until it is acknowledged.
        unsafe { self.event.as_ref() }
    }

    /// What happened: a number of `numbers::manager`.
    pub(super) fn kind(&self) -> u32 {
        self.event().event
    }

    /// To whom.
    pub(super) fn id(&self) -> *mut abi::CmId {
        self.event().id
    }

    /// Why it went wrong: a negated error number, or something of the protocol below.
    pub(super) fn error(&self) -> io::Error {
        let status: c_int = self.event().status;
        match status {
            ..0 => io::Error::from_raw_os_error(status.saturating_neg()),
            _ => io::Error::other(format!("event {} with status {status}", self.kind())),
        }
    }

    /// What the other side said of its queue pairs, if it makes sense.
    pub(super) fn hello(&self) -> Option<Hello> {
        // SAFETY: an identifier of reliable connections has no other kind of parameters; both kinds begin with the data
        // and its length.
        let told = unsafe { self.event().param.conn };
        if told.private_data.is_null() || usize::from(told.private_data_len) < Hello::BYTES {
            return None;
        }
        // SAFETY: so many bytes lie there until the event is acknowledged.
        let bytes = unsafe { told.private_data.cast::<[u8; Hello::BYTES]>().read() };
        Hello::from_bytes(&bytes)
    }
}
