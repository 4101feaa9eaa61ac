//! Sleeping on a word in shared memory, and waking those who do.
//!
//! ```
//! use umbra::sys::futex::Futex;
//! use umbra::sys::clock::now;
//! use umbra_core::atomic::AtomicU64;
//! use umbra_core::event::EventCount;
//! use umbra_core::time::Lapse;
//! let word = AtomicU64::new(0);
//! let nothing = EventCount::new(&word).wait(&Futex, 0, now() + Lapse::from_millis(1), || None::<()>);
//! assert!(nothing.is_none(), "the deadline passed");
//! ```
//!
//! Source: `futex(2)`; `FUTEX_WAIT_BITSET` takes an absolute time on the monotonic clock.

use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;
use umbra_core::atomic::{AtomicU64, SystemWord};
use umbra_core::event::Wait;
use umbra_core::time::Time;

use super::clock;

/// Waits in the kernel; works between processes that map the same memory, and between threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Futex;

/// The half of a word that its value modulo 2^32 lies in; the kernel knows words of 32 bits only.
fn lower_half(word: &AtomicU64) -> &SystemWord {
    let half = usize::from(cfg!(target_endian = "big"));
    let at = word.as_ptr().cast::<u32>().wrapping_add(half);
    // SAFETY: either half of an aligned word of eight bytes is an aligned one of four, as long-lived as the word. It is
    // an atomic, and only the kernel looks at it by this reference.
    unsafe { SystemWord::from_ptr(at) }
}

/// Most words that one can sleep on at once.
pub const MOST: usize = 128;

/// Sleeps while the lower half of each word is what was seen of it, until one is woken and at most until `until`; at most
/// [`MOST`] words. May return early, but not where there is no word.
pub fn sleep_any(words: &[(&AtomicU64, u32)], until: Time) {
    if words.is_empty() {
        // The system refuses to wait for none.
        return std::thread::sleep(Duration::from_nanos(until.since(clock::now()).0));
    }
    let waiter = |&(word, seen): &(&AtomicU64, u32)| {
        let mut waiter = futex::Wait::new();
        waiter.val = seen.into();
        waiter.uaddr = futex::WaitPtr::new(std::ptr::from_ref(lower_half(word)).cast_mut().cast());
        waiter.flags = futex::WaitFlags::SIZE_U32;
        waiter
    };
    let waiters: Vec<_> = words.iter().map(waiter).collect();
    let woken = futex::waitv(&waiters, futex::WaitvFlags::empty(), Some(&timespec(until)), futex::ClockId::Monotonic);
    if let Err(Errno::NOSYS | Errno::INVAL | Errno::PERM) = woken {
        // Linux before 5.16: looks again and again, seldom enough to use little of the processor.
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn timespec(until: Time) -> Timespec {
    let tv_sec = i64::try_from(until.0 / 1_000_000_000).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: (until.0 % 1_000_000_000) as _ }
}

impl Wait for Futex {
    #[inline]
    fn now(&self) -> Time {
        clock::now()
    }

    fn sleep(&self, word: &AtomicU64, seen: u32, until: Time) {
        let until = timespec(until);
        // Whatever ends the sleep (a wake, the time, a signal, another value), the caller looks again.
        let _ =
            futex::wait_bitset(lower_half(word), futex::Flags::empty(), seen, Some(&until), core::num::NonZeroU32::MAX);
    }

    fn wake(&self, word: &AtomicU64) {
        // Fails only for an address that is not mapped, which a reference is not.
        let _ = futex::wake(lower_half(word), futex::Flags::empty(), i32::MAX as u32);
    }

    fn pause(&self) {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use umbra_core::atomic::Ordering;
    use umbra_core::event::{EventCount, SPIN};
    use umbra_core::time::Lapse;

    use super::*;

    #[test]
    fn every_change_is_seen_by_one_who_sleeps_between() {
        let (word, back, value) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let deadline = clock::now() + Lapse::from_secs(60);
        let until = |event: &AtomicU64, wanted: u64, spins| {
            let look = || (value.load(Ordering::Acquire) == wanted).then_some(());
            EventCount::new(event).wait(&Futex, spins, deadline, look).unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..2000 {
                    until(&word, 2 * n + 1, 0);
                    value.fetch_add(1, Ordering::SeqCst);
                    EventCount::new(&back).notify_after_swap(&Futex);
                }
            });
            for n in 0..2000 {
                value.store(2 * n + 1, Ordering::Release);
                EventCount::new(&word).notify(&Futex);
                until(&back, 2 * n + 2, if n % 2 == 0 { 0 } else { 100 });
            }
        });
    }

    #[test]
    fn a_wait_ends_at_its_deadline_asleep_or_not() {
        let word = AtomicU64::new(0);
        for spins in [0, 10, SPIN] {
            let start = Instant::now();
            let deadline = clock::now() + Lapse::from_millis(120);
            assert_eq!(EventCount::new(&word).wait(&Futex, spins, deadline, || None::<()>), None);
            let waited = start.elapsed();
            assert!(waited >= Duration::from_millis(120), "{waited:?} with {spins} looks");
            assert!(waited < Duration::from_secs(20), "{waited:?} with {spins} looks");
        }
    }

    #[test]
    fn who_sleeps_on_no_word_sleeps_until_the_end() {
        let until = clock::now() + Lapse::from_millis(50);
        sleep_any(&[], until);
        assert!(clock::now() >= until, "nothing can wake it before");
        // As one whose end has passed.
        sleep_any(&[], until);
    }

    #[test]
    fn a_change_that_nobody_told_is_found_by_looking_again() {
        let (word, value) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                value.store(1, Ordering::Release);
            });
            let deadline = clock::now() + Lapse::from_secs(60);
            let look = || Some(()).filter(|()| value.load(Ordering::Acquire) == 1);
            assert_eq!(EventCount::new(&word).wait(&Futex, 0, deadline, look), Some(()));
            assert!(clock::now() < deadline, "the notifier may have been killed before he could tell");
        });
    }
}
