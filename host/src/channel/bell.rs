//! A descriptor that is readable when a set of channels has something to report.
//!
//! It is for `epoll(7)` and its like. Senders know nothing of sets, so somebody has to wait for the channels and tell
//! the descriptor: a thread of the caller's, which runs [`ring`](super::ChannelSet::ring). The bell rings once, and stays
//! rung until it is [taken back](Bell::rearm); then it rings again at once if a member is ready still. So who asks the set
//! until it has nothing more, and only then takes the ring back, misses nothing.
//!
//! ```
//! use umbra::channel::{Attributes, Bell, Channel, ChannelSet, Event, SendOptions, Timeout, WaitMode};
//! let channel = Channel::create(&Attributes::default())?;
//! let (set, bell) = (ChannelSet::new([&channel], Event::In)?, Bell::new()?);
//! std::thread::scope(|scope| {
//!     let ringing = scope.spawn(|| set.ring(&bell));
//!     channel.sender(SendOptions::default())?.send(b"hello", 0, Timeout::Never)?;
//!     let mut ready = [rustix::event::PollFd::new(&bell, rustix::event::PollFlags::IN)];
//!     rustix::event::poll(&mut ready, None).expect("a bell can be polled for");
//!     while let Ok(ready) = set.poll(WaitMode::Idle, Timeout::Now) {
//!         assert_eq!(ready.index, 0);
//!         channel.receiver(WaitMode::Idle)?.pop(Timeout::Now)?;
//!     }
//!     bell.rearm()?;
//!     bell.end();
//!     ringing.join().expect("it ended")
//! })?;
//! # Ok::<(), umbra::channel::Error>(())
//! ```
//!
//! *Cost*: what the set costs that sleeps, and two system calls a ring.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::event::EventCount;
use umbra_core::time::Time;

use super::error::Error;
use super::layout::refuse_heirs;
use crate::sys::fork;
use crate::sys::futex::Futex;

const SILENT: u64 = 0;
const RUNG: u64 = 1;
const ENDED: u64 = 2;

/// An eventfd, and whether it was rung.
#[derive(Debug)]
pub struct Bell {
    descriptor: OwnedFd,
    state: AtomicU64,
    changes: AtomicU64,
    /// Of the process that made it: a child that was forked off has the same descriptor, and a state of its own.
    life: u32,
}

impl Bell {
    /// One that nobody rings yet.
    ///
    /// # Errors
    /// [`Error::Descriptor`] if no descriptor is free.
    pub fn new() -> Result<Bell, Error> {
        fork::watch();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor = rustix::event::eventfd(0, flags).map_err(Error::Descriptor)?;
        Ok(Bell { descriptor, state: AtomicU64::new(SILENT), changes: AtomicU64::new(0), life: fork::life() })
    }

    /// Refuses a child that was forked off: what it would read is its parent's ring.
    pub(super) fn refuse_heirs(&self) -> Result<(), Error> {
        refuse_heirs(self.life)
    }

    /// Takes the ring back: the descriptor is not readable any more, until a member is found ready again.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn rearm(&self) -> Result<(), Error> {
        self.refuse_heirs()?;
        // Nothing to read is nothing to take back.
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
        // ORDERING: what the caller took out of the channels is seen by the thread that looks at them after this.
        if self.state.compare_exchange(RUNG, SILENT, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.changes().notify(&Futex);
        }
        Ok(())
    }

    /// Ends whoever rings it; it does not ring again.
    pub fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
        self.changes().notify(&Futex);
    }

    /// Told of each change that is not a ring.
    pub(super) fn changes(&self) -> EventCount<'_> {
        EventCount::new(&self.changes)
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    /// Waits until a ring was taken back, or the end.
    pub(super) fn await_silence(&self) {
        let look = || (self.state.load(Ordering::Acquire) != RUNG).then_some(());
        let _ = self.changes().wait(&Futex, 0, Time::NEVER, look);
    }

    pub(super) fn strike(&self) {
        if self.state.compare_exchange(SILENT, RUNG, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // It is full only after 2^64 - 2 of them, and is readable then.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
