//! The same shapes without a channel: the least that this machine asks for them.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

use umbra::sys::futex::Futex;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::event::Wait;
use umbra_core::time::{Lapse, Time};
use umbra_tests::bench::{Plan, Samples, pin, repeat};

/// What ends the partner.
const END: u64 = u32::MAX as u64;

/// A word on lines of its own.
#[repr(align(128))]
struct Apart(AtomicU64);

fn to_and_fro(core: usize, plan: &Plan, put: fn(&AtomicU64, u64), get: fn(&AtomicU64, u64) -> u64) -> Samples {
    let (there, back) = (Apart(AtomicU64::new(0)), Apart(AtomicU64::new(0)));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(core);
            let mut seen = 0;
            loop {
                seen = get(&there.0, seen);
                if seen == END {
                    break;
                }
                put(&back.0, seen);
            }
        });
        let mut n = 0;
        let samples = repeat(plan, |count| {
            for _ in 0..count {
                // Stays below the value that ends the partner.
                let next = (n + 1) % END;
                put(&there.0, next);
                get(&back.0, n);
                n = next;
            }
        });
        put(&there.0, END);
        samples
    })
}

/// One line to another core and one back.
pub(crate) fn line(core: usize, plan: &Plan) -> Samples {
    to_and_fro(
        core,
        plan,
        |word, value| word.store(value, Ordering::Release),
        |word, seen| loop {
            let now = word.load(Ordering::Acquire);
            if now != seen {
                return now;
            }
            spin_loop();
        },
    )
}

/// Two sleepers that wake each other.
pub(crate) fn futex(core: usize, plan: &Plan) -> Samples {
    to_and_fro(
        core,
        plan,
        |word, value| {
            word.store(value, Ordering::Release);
            Futex.wake(word);
        },
        sleep,
    )
}

/// Calls `wake` after a pause, again and again: how long the call took, and how long until `woken` says when it was
/// noticed; medians in nanoseconds.
pub(crate) fn wakes(trials: usize, pause: Duration, woken: &AtomicU64, mut wake: impl FnMut()) -> (f64, f64) {
    let (mut calls, mut delays) = (Vec::new(), Vec::new());
    for _ in 0..trials {
        thread::sleep(pause);
        woken.store(0, Ordering::Release);
        let start = Futex.now();
        wake();
        calls.push(Futex.now().since(start).0 as f64);
        let at = loop {
            let at = woken.load(Ordering::Acquire);
            if at != 0 {
                break Time(at);
            }
            thread::sleep(Duration::from_micros(50));
        };
        delays.push(at.since(start).0 as f64);
    }
    let median = |readings| Samples::new(readings).map_or(f64::NAN, |samples| samples.median());
    (median(calls), median(delays))
}

/// The same with a bare futex.
pub(crate) fn wake(core: usize, trials: usize, pause: Duration) -> (f64, f64) {
    let (word, woken) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(core);
            let mut seen = 0;
            loop {
                seen = sleep(&word, seen);
                if seen == END {
                    break;
                }
                woken.store(Futex.now().0, Ordering::Release);
            }
        });
        let ring = |value| {
            word.store(value, Ordering::Release);
            Futex.wake(&word);
        };
        let mut n = 0;
        let figures = wakes(trials, pause, &woken, || {
            n += 1;
            ring(n);
        });
        ring(END);
        figures
    })
}

/// Sleeps until the word is another.
fn sleep(word: &AtomicU64, seen: u64) -> u64 {
    loop {
        let now = word.load(Ordering::Acquire);
        if now != seen {
            return now;
        }
        Futex.sleep(word, seen as u32, Futex.now() + Lapse::from_secs(1));
    }
}
