//! Whether a wait ends in time, on a machine that may do something else.

use std::thread;
use std::time::{Duration, Instant};

use umbra_core::atomic::{AtomicU32, Ordering};

/// How long after its deadline a wait may end, on a machine that does nothing else.
pub const GRACE: Duration = Duration::from_secs(1);
/// Rests of a wait between two of its looks at the clock, and how long each is, as the exchange of boundaries has them.
const RESTS: u32 = 64;
const REST: Duration = Duration::from_micros(100);

/// Runs what should end so long after it began at the latest, and returns what it does. It may take longer by [`GRACE`], and by as
/// much as a thread is late that does nothing but sleep: that is asked of the wait, not of the machine.
///
/// # Panics
/// If it ends later.
pub fn in_time<R>(deadline: Duration, wait: impl FnOnce() -> R) -> R {
    within(deadline, GRACE, wait)
}

/// Runs this beside a thread that does nothing but rest, and returns how long that one did not get a processor at most.
pub fn beside_one_that_rests<R>(run: impl FnOnce() -> R) -> (R, Duration) {
    let over = AtomicU32::new(0);
    thread::scope(|scope| {
        let rests = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while over.load(Ordering::Relaxed) == 0 {
                let begun = Instant::now();
                thread::sleep(REST);
                longest = longest.max(begun.elapsed());
            }
            longest
        });
        let outcome = run();
        over.store(1, Ordering::Relaxed);
        (outcome, rests.join().expect("it only sleeps"))
    })
}

fn within<R>(deadline: Duration, grace: Duration, wait: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let sleeper = thread::spawn(move || {
        thread::sleep(deadline);
        (0..RESTS).for_each(|_| thread::sleep(REST));
        begun.elapsed().saturating_sub(deadline)
    });
    let outcome = wait();
    let took = begun.elapsed();
    // Whoever was in time does not wait for the other.
    if took > deadline + grace {
        let late = sleeper.join().expect("it only sleeps");
        assert!(
            took <= deadline + grace + late,
            "a wait with a deadline of {deadline:?} took {took:?}; who only sleeps was late by {late:?}"
        );
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_until_the_deadline_is_in_time() {
        let woke = in_time(Duration::from_millis(50), || {
            thread::sleep(Duration::from_millis(50));
            "awake"
        });
        assert_eq!(woke, "awake");
    }

    #[test]
    fn who_rests_gets_a_processor_again_while_another_one_waits() {
        let ((), longest) = beside_one_that_rests(|| thread::sleep(Duration::from_millis(50)));
        assert!(longest >= REST, "{longest:?}");
    }

    #[test]
    #[should_panic(expected = "took")]
    fn who_takes_longer_than_a_sleeper_is_not() {
        // However late the sleeper is, this one begins to sleep for as long after it.
        within(Duration::from_millis(10), Duration::from_millis(10), || {
            let begun = Instant::now();
            thread::sleep(Duration::from_millis(50));
            thread::sleep(10 * begun.elapsed());
        });
    }
}
