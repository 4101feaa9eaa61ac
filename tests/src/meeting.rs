//! A barrier for threads of a test, at which nobody waits for ever.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::rig::PATIENCE;

/// Where threads meet again and again. If one of them does not come, because an assertion of it failed, the others say which.
#[derive(Debug)]
pub struct Meeting {
    patience: Duration,
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug)]
struct Now {
    /// Meetings that are over.
    over: u64,
    /// Who meets, and whether it is here.
    all: Vec<(u32, bool)>,
}

impl Meeting {
    /// For these threads. What follows allocates nothing.
    #[must_use]
    pub fn of(all: impl IntoIterator<Item = u32>) -> Meeting {
        let all = all.into_iter().map(|who| (who, false)).collect();
        Meeting { patience: PATIENCE, now: Mutex::new(Now { over: 0, all }), changed: Condvar::new() }
    }

    /// Waits until all have come.
    ///
    /// # Panics
    /// If some do not, and names them.
    pub fn wait(&self, who: u32) {
        let until = Instant::now() + self.patience;
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let meeting = now.over;
        now.all.iter_mut().filter(|(other, _)| *other == who).for_each(|(_, here)| *here = true);
        if now.all.iter().all(|(_, here)| *here) {
            now.over += 1;
            now.all.iter_mut().for_each(|(_, here)| *here = false);
            self.changed.notify_all();
        }
        while now.over == meeting {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing: Vec<u32> = now.all.iter().filter(|(_, here)| !here).map(|(who, _)| *who).collect();
                // The others name who is missing as well.
                drop(now);
                panic!("{missing:?} did not come within {:?}", self.patience);
            }
            let woken = self.changed.wait_timeout(now, left);
            (now, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use umbra_core::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn nobody_goes_on_before_all_have_come() {
        let (meeting, come) = (Meeting::of(0..3), AtomicU32::new(0));
        thread::scope(|scope| {
            for who in 0..3 {
                let (meeting, come) = (&meeting, &come);
                scope.spawn(move || {
                    for turn in 1..=50 {
                        come.fetch_add(1, Ordering::Relaxed);
                        meeting.wait(who);
                        assert!(come.load(Ordering::Relaxed) >= 3 * turn);
                        meeting.wait(who);
                    }
                });
            }
        });
    }

    #[test]
    fn who_does_not_come_is_named_by_all_others() {
        let meeting = Meeting { patience: Duration::from_millis(50), ..Meeting::of(0..4) };
        let said = thread::scope(|scope| {
            [0, 2, 3]
                .map(|who| {
                    scope.spawn({
                        let meeting = &meeting;
                        move || meeting.wait(who)
                    })
                })
                .map(|thread| *thread.join().expect_err("rank 1 never comes").downcast::<String>().expect("a text"))
        });
        assert!(said.iter().all(|said| said == "[1] did not come within 50ms"), "{said:?}");
    }
}
