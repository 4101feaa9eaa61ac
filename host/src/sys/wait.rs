//! Waiting: spin while work is likely, yield, then sleep until a doorbell rings.
//!
//! A busy agent polls and never enters the kernel; an idle one sleeps and uses no processor. Between them
//! lies a word in shared memory: the sleeper sets it, and a sender that finds it set rings the sleeper's
//! eventfd. A sender whose peer is awake pays one load, no system call.
//!
//! ```text
//! sleeper                          sender
//! word = 1                         write the ring's cell
//! fence                            fence
//! look into the ring once more     word set?  -> word = 0, write eventfd
//! poll(eventfd, sockets, ...)
//! ```
//!
//! One of the two looks always comes after the other side's store, so no message is slept through. A peer
//! that misuses the word can only make us sleep until our own timeout or wake for nothing.
//!
//! ```
//! use std::time::Duration;
//! use umbra::sys::wait::{Doorbell, Patience, Step};
//! let bell = Doorbell::create()?;
//! let ringer = bell.ringer()?;
//! let mut patience = Patience::new(10, 2);
//! while patience.pause() != Step::Sleep {}
//! bell.arm();
//! ringer.ring();
//! assert!(bell.sleep(Duration::from_secs(5))?, "the ring ends the sleep");
//! # Ok::<(), umbra::sys::wait::WaitError>(())
//! ```

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fs::FileType;
use rustix::io::Errno;
use umbra_core::atomic::{AtomicU32, Ordering, fence, spin_hint};
use umbra_core::time::{Lapse, Time};

use super::clock::now;
use super::segment::{Mapping, Segment, SegmentError};

/// Bytes of the shared memory behind a doorbell: the word has its own pair of lines.
pub const DOORBELL_BYTES: usize = 128;

/// Why a doorbell cannot be made or waited on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The word's shared memory.
    #[error("doorbell: {0}")]
    Segment(#[from] SegmentError),
    /// The eventfd or the sleep itself.
    #[error("cannot sleep on a doorbell: {0}")]
    Sleep(Errno),
    /// What was handed over as an eventfd is something else.
    #[error("a doorbell was handed over whose first descriptor is no eventfd: its peer is broken or hostile")]
    NoEventfd,
}

/// What a loop that found nothing to do shall do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Look again at once.
    Again,
    /// Sleep: arm the doorbell, look once more, then wait for it.
    Sleep,
}

/// How long a loop keeps looking before it sleeps.
///
/// *Cost* of [`pause`](Self::pause): one processor hint while spinning, one `sched_yield` while yielding.
#[derive(Clone, Debug)]
pub struct Patience {
    spins: u32,
    yields: u32,
    idle: u32,
}

impl Patience {
    /// Spins `spins` times, then yields `yields` times, then asks for sleep.
    #[must_use]
    pub const fn new(spins: u32, yields: u32) -> Self {
        Patience { spins, yields, idle: 0 }
    }

    /// There was work: be patient again.
    #[inline]
    pub const fn worked(&mut self) {
        self.idle = 0;
    }

    /// There was none: pauses and says whether to look again or to sleep.
    #[inline]
    pub fn pause(&mut self) -> Step {
        self.idle = self.idle.saturating_add(1);
        if self.idle <= self.spins {
            spin_hint();
            Step::Again
        } else if self.idle - self.spins <= self.yields {
            std::thread::yield_now();
            Step::Again
        } else {
            Step::Sleep
        }
    }
}

/// Spins for some microseconds, yields for some more.
impl Default for Patience {
    fn default() -> Self {
        Patience::new(4_000, 64)
    }
}

/// Longer than giving way takes if nobody else wants the processor, and shorter than if somebody does.
const ALONE: Lapse = Lapse(1_000);

/// Whether others want the processor of this thread, as the last [time](Self::give_way) told that it gave way to them.
///
/// Who is alone on his processor looks again and again while he waits; who is not keeps those from it by that who are to
/// answer, and does better to give way at once.
#[derive(Clone, Debug, Default)]
pub struct Crowd {
    is_there: Cell<bool>,
}

impl Crowd {
    /// How often to look before giving way: so often alone, and else not at all.
    #[must_use]
    pub const fn spins(&self, alone: u32) -> u32 {
        if self.is_there.get() { 0 } else { alone }
    }

    /// Lets others have the processor first, if they want it. It is `before`; the time afterwards.
    ///
    /// *Cost*: a `sched_yield`, and the clock.
    #[must_use = "whoever gives way again saves a look at the clock"]
    pub fn give_way(&self, before: Time) -> Time {
        std::thread::yield_now();
        let after = now();
        self.took(after.since(before));
        after
    }

    fn took(&self, lapse: Lapse) {
        self.is_there.set(lapse > ALONE);
    }
}

/// What a process sleeps on.
#[derive(Debug)]
pub struct Doorbell {
    event: OwnedFd,
    word: Word,
}

/// What a process wakes another one with.
#[derive(Clone, Debug)]
pub struct Ringer {
    event: Arc<OwnedFd>,
    word: Word,
}

#[derive(Clone, Debug)]
struct Word(Arc<Segment>);

impl Word {
    fn new(segment: Segment) -> Result<Word, SegmentError> {
        segment.half_word(0)?;
        Ok(Word(Arc::new(segment)))
    }

    /// The word itself; `new` has seen that it is there.
    #[inline]
    fn get(&self) -> Option<&AtomicU32> {
        self.0.half_word(0).ok()
    }

    #[inline]
    fn set(&self, value: u32) {
        if let Some(word) = self.get() {
            // ORDERING: Relaxed: `arm` adds the fence; after `disarm` a sender that still sees the old value rings
            // for nothing.
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Whether somebody sleeps or is about to; a ring too many does no harm.
    #[inline]
    fn is_set(&self) -> bool {
        self.get().is_none_or(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Takes the announcement; of several senders one gets it.
    fn take(&self) -> bool {
        // ORDERING: Relaxed: the swap only elects who makes the system call.
        self.get().is_none_or(|word| word.swap(0, Ordering::Relaxed) != 0)
    }
}

impl Doorbell {
    /// Makes a doorbell; nobody rings it before [`parts`](Self::parts) are handed out.
    ///
    /// # Errors
    /// [`WaitError`] if no descriptor or memory is left.
    pub fn create() -> Result<Doorbell, WaitError> {
        let word = Word::new(Segment::create("umbra-doorbell", DOORBELL_BYTES)?)?;
        let event =
            rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(WaitError::Sleep)?;
        Ok(Doorbell { event, word })
    }

    /// The two descriptors that let another process ring: eventfd and segment of the word.
    ///
    /// # Errors
    /// [`WaitError`] if no descriptor is left.
    pub fn parts(&self) -> Result<[OwnedFd; 2], WaitError> {
        let event = self.event.try_clone().map_err(|_| WaitError::Sleep(Errno::MFILE))?;
        Ok([event, self.word.0.share()?])
    }

    /// A ringer within this process.
    ///
    /// # Errors
    /// [`WaitError`] if no descriptor is left.
    pub fn ringer(&self) -> Result<Ringer, WaitError> {
        let event = self.event.try_clone().map_err(|_| WaitError::Sleep(Errno::MFILE))?;
        Ok(Ringer { event: Arc::new(event), word: self.word.clone() })
    }

    /// Announces that this process is about to sleep. Look for work once more after this.
    #[inline]
    pub fn arm(&self) {
        // ORDERING: Relaxed store, then a full fence: pairs with the fence in `Ringer::ring`. Either our last
        // look sees the sender's cell, or the sender's load sees this store.
        self.word.set(1);
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement back and empties the eventfd. True if it had been rung.
    pub fn disarm(&self) -> bool {
        self.word.set(0);
        let mut count = [0; 8];
        rustix::io::read(&self.event, &mut count).is_ok()
    }

    /// Sleeps until rung, at most `bound`; then disarms. True if it was rung. For a loop that waits for
    /// other descriptors too: poll them together with this one, then [`disarm`](Self::disarm).
    ///
    /// # Errors
    /// [`WaitError::Sleep`] if the system call fails for another reason than a signal.
    pub fn sleep(&self, bound: Duration) -> Result<bool, WaitError> {
        let timeout = Timespec {
            tv_sec: i64::try_from(bound.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(bound.subsec_nanos()),
        };
        match rustix::event::poll(&mut [PollFd::new(&self.event, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(self.disarm()),
            Err(errno) => {
                self.disarm();
                Err(WaitError::Sleep(errno))
            }
        }
    }
}

/// Readable when rung.
impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Ringer {
    /// Builds a ringer from what another process handed over ([`Doorbell::parts`]).
    ///
    /// # Errors
    /// [`WaitError`] if the eventfd or the segment is not one.
    pub fn attach([event, segment]: [OwnedFd; 2]) -> Result<Ringer, WaitError> {
        // A write into a pipe or socket that nobody reads would end a program that is not ready for SIGPIPE, as those
        // in C are. Only what is no file at all, as an eventfd, has no type.
        if FileType::from_raw_mode(rustix::fs::fstat(&event).map_err(WaitError::Sleep)?.st_mode) != FileType::Unknown {
            return Err(WaitError::NoEventfd);
        }
        // A blocking descriptor in place of an eventfd could hold us up for ever in `ring`.
        rustix::io::ioctl_fionbio(&event, true).map_err(WaitError::Sleep)?;
        let word = Word::new(Segment::attach(segment, Mapping::ReadWrite, DOORBELL_BYTES)?)?;
        Ok(Ringer { event: Arc::new(event), word })
    }

    /// Wakes the other side if it sleeps; call it after the message is in its ring.
    ///
    /// *Cost*: a fence and a load while the other side is awake; one system call when it sleeps.
    #[inline]
    pub fn ring(&self) {
        // ORDERING: a full fence between the message's store and this load; pairs with `Doorbell::arm`.
        fence(Ordering::SeqCst);
        if self.word.is_set() {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.word.take() {
            // A full counter means that it was rung often enough; a closed one that nobody sleeps there.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_gave_way_to_others_gives_way_at_once() {
        let crowd = Crowd::default();
        assert_eq!(crowd.spins(100), 100, "alone until told otherwise");
        crowd.took(ALONE);
        assert_eq!(crowd.spins(100), 100);
        crowd.took(Lapse(ALONE.0 + 1));
        assert_eq!(crowd.spins(100), 0);
        crowd.took(Lapse(0));
        assert_eq!(crowd.spins(100), 100, "alone again");
    }

    #[test]
    fn a_sleep_without_a_ring_ends_at_its_bound() {
        let bell = Doorbell::create().unwrap();
        bell.arm();
        assert!(!bell.sleep(Duration::from_millis(1)).unwrap());
    }

    #[test]
    fn a_ring_while_awake_costs_no_wake_up() {
        let bell = Doorbell::create().unwrap();
        bell.ringer().unwrap().ring();
        assert!(!bell.disarm());
    }

    #[test]
    fn every_message_is_seen_although_the_receiver_sleeps_between() {
        let bell = Doorbell::create().unwrap();
        let ringer = Ringer::attach(bell.parts().unwrap()).unwrap();
        let mailbox = Arc::new(Segment::create("mailbox", 64).unwrap());
        let sender = {
            let mailbox = mailbox.clone();
            std::thread::spawn(move || {
                for n in 1..=2000u64 {
                    while mailbox.word(8).unwrap().load(Ordering::Acquire) != n - 1 {
                        std::thread::yield_now();
                    }
                    mailbox.word(0).unwrap().store(n, Ordering::Release);
                    ringer.ring();
                }
            })
        };
        let mut seen = 0;
        while seen < 2000 {
            bell.arm();
            if mailbox.word(0).unwrap().load(Ordering::Acquire) == seen {
                assert!(bell.sleep(Duration::from_secs(20)).unwrap(), "slept through message {}", seen + 1);
            } else {
                bell.disarm();
            }
            let now = mailbox.word(0).unwrap().load(Ordering::Acquire);
            if now != seen {
                seen = now;
                mailbox.word(8).unwrap().store(seen, Ordering::Release);
            }
        }
        sender.join().unwrap();
    }
}
