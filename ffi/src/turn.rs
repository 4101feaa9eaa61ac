//! Turns at what one call at a time uses.
//!
//! They come in the order of asking, so nobody who comes again and again is in front of who waits; and nobody waits for his
//! longer than he says.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who waits, and whether somebody has the turn.
#[derive(Default)]
struct Line {
    is_taken: bool,
    waiting: VecDeque<u64>,
    /// Who asked last.
    last: u64,
}

/// Gives turns.
#[derive(Default)]
pub(crate) struct Turns {
    line: Mutex<Line>,
    moved: Condvar,
}

/// A turn, which ends when it is dropped.
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// The turn, unless it does not come within this time; [`Duration::MAX`] is without end.
    pub(crate) fn take(&self, patience: Duration) -> Option<Turn<'_>> {
        let mut line = self.line();
        if !line.is_taken && line.waiting.is_empty() {
            line.is_taken = true;
            return Some(Turn(self));
        }
        let deadline = Instant::now().checked_add(patience);
        line.last += 1;
        let me = line.last;
        line.waiting.push_back(me);
        while line.is_taken || line.waiting.front() != Some(&me) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            line = match left {
                None => self.moved.wait(line).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    line.waiting.retain(|&waits| waits != me);
                    self.moved.notify_all();
                    return None;
                }
                Some(left) => self.moved.wait_timeout(line, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        line.waiting.pop_front();
        line.is_taken = true;
        Some(Turn(self))
    }

    /// A line is whole whatever its user was doing.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut line = self.0.line();
        line.is_taken = false;
        // To wake is a system call, also where nobody waits.
        if !line.waiting.is_empty() {
            self.0.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn who_asks_first_is_next_and_who_runs_out_of_patience_is_in_nobody_s_way() {
        let turns = Turns::default();
        let first = turns.take(Duration::ZERO).unwrap();
        assert!(turns.take(Duration::from_millis(5)).is_none());
        let (says, heard) = channel();
        thread::scope(|scope| {
            for name in 0..3_u64 {
                let (turns, says) = (&turns, says.clone());
                scope.spawn(move || {
                    let patience = if name == 0 { Duration::from_millis(20) } else { Duration::MAX };
                    let turn = turns.take(patience);
                    says.send((name, turn.is_some())).unwrap();
                });
                while turns.line().last < name + 2 {
                    thread::yield_now();
                }
            }
            assert_eq!(heard.recv().unwrap(), (0, false));
            drop(first);
            assert_eq!([heard.recv().unwrap(), heard.recv().unwrap()], [(1, true), (2, true)]);
        });
        assert!(turns.take(Duration::ZERO).is_some());
    }
}
