//! All interleavings of a barrier in two steps and of those who break it, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_barrier`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use interleavings::check;
use loom::sync::{Arc, Mutex};
use loom::thread;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::barrier::{BROKEN_NUMBER, NotReleased, Rounds};

/// A barrier, what its parties noted, and what was handed out.
struct Table {
    word: AtomicU64,
    notes: [AtomicU64; 3],
    told: Mutex<Vec<u64>>,
    parties: u32,
}

impl Table {
    fn new(parties: u32) -> Arc<Table> {
        let zero = || AtomicU64::new(0);
        Arc::new(Table { word: zero(), notes: [zero(), zero(), zero()], told: Mutex::new(Vec::new()), parties })
    }
    fn rounds(&self) -> Rounds<'_> {
        Rounds::new(&self.word, self.parties)
    }
    /// Counts process `me` in, unless the barrier is broken; whether it is the last one.
    fn count_in(&self, me: usize) -> Option<bool> {
        let mut seen = self.rounds().glance();
        while !seen.is_broken() {
            match self.rounds().count_in(seen, &self.notes[me]) {
                Ok(is_last) => return Some(is_last),
                Err(now) => seen = now,
            }
        }
        None
    }
    fn tell(&self, number: u64) -> bool {
        self.told.lock().unwrap().push(number);
        true
    }
    fn release(&self, me: u16) -> Result<bool, NotReleased> {
        self.rounds().begin_release(me)?;
        Ok(self.rounds().hand_out(|number| self.tell(number)))
    }
    fn settle(&self, me: u16) {
        if self.rounds().settle(me) {
            self.rounds().hand_out(|number| self.tell(number));
        }
    }
    /// Buries process `dead`, as process `me`; whether all messages are taken is asked then.
    fn bury_if(&self, dead: u16, me: u16, taken: impl Fn() -> bool) {
        self.rounds().forsake(self.notes[usize::from(dead)].load(Ordering::Relaxed), dead, taken);
        self.settle(me);
    }
    /// The same where not all messages can be taken, or all are.
    fn bury(&self, dead: u16, me: u16, taken: bool) {
        self.bury_if(dead, me, || taken);
    }
    fn told(&self) -> Vec<u64> {
        self.told.lock().unwrap().clone()
    }
}

#[test]
fn one_of_the_parties_is_the_last_and_each_number_is_handed_out_once() {
    check(3, || {
        let table = Table::new(2);
        let come = |me: usize| {
            let table = table.clone();
            thread::spawn(move || {
                let is_last = table.count_in(me).unwrap();
                is_last.then(|| table.release(me as u16).unwrap())
            })
        };
        let released = [come(0), come(1)].map(|party| party.join().unwrap());
        assert!(released == [None, Some(true)] || released == [Some(true), None], "{released:?}");
        assert_eq!((table.told(), table.rounds().glance().came()), (vec![0, 1], 0));
    });
}

#[test]
fn whoever_breaks_it_everybody_who_was_counted_is_told_something() {
    check(3, || {
        let table = Table::new(2);
        let counted = table.count_in(0).unwrap();
        let other = {
            let table = table.clone();
            thread::spawn(move || {
                let is_last = table.count_in(1);
                if is_last == Some(true) {
                    let _ = table.release(1);
                }
                is_last.is_some()
            })
        };
        table.rounds().abort();
        table.settle(0);
        let came = 1 + usize::from(other.join().unwrap());
        let told = table.told();
        assert_eq!((counted, told.len()), (false, came), "{told:?}");
        // Numbers first, and then that it is broken.
        let numbers = told.iter().take_while(|&&number| number != BROKEN_NUMBER).count();
        assert!(told.iter().skip(numbers).all(|&number| number == BROKEN_NUMBER), "{told:?}");
        assert!((0..numbers as u64).eq(told.iter().copied().take(numbers)), "{told:?}");
        assert!(table.rounds().glance().is_broken());
        table.rounds().reset();
        table.settle(0);
        assert_eq!((table.rounds().glance().is_broken(), table.told().len()), (false, came));
    });
}

#[test]
fn a_party_that_died_beside_a_release_breaks_it_before_or_after() {
    check(3, || {
        let table = Table::new(2);
        // It dies with that.
        let dead = table.count_in(0).unwrap();
        let burier = {
            let table = table.clone();
            thread::spawn(move || table.bury(0, 2, false))
        };
        let last = table.count_in(1);
        let released = last.map(|is_last| table.release(1).unwrap_or_else(|_| !is_last));
        burier.join().unwrap();
        let told = table.told();
        assert!(!dead && table.rounds().glance().is_broken(), "{released:?}");
        assert_eq!(told.len(), if last.is_some() { 2 } else { 1 }, "{told:?}");
    });
}

#[test]
fn what_a_dead_one_was_handing_out_is_handed_out_once_by_one_of_those_who_bury_it() {
    check(3, || {
        let table = Table::new(2);
        assert_eq!([0, 1].map(|me| table.count_in(me)), [Some(false), Some(true)]);
        table.rounds().begin_release(1).unwrap();
        // It dies with the message sent and not noted.
        assert!(table.tell(0));
        let burier = {
            let table = table.clone();
            thread::spawn(move || table.bury(1, 0, false))
        };
        table.bury(1, 2, false);
        burier.join().unwrap();
        assert_eq!(table.told(), [0, BROKEN_NUMBER, BROKEN_NUMBER], "one too many, of a broken round");
        assert_eq!((table.rounds().glance().is_broken(), table.rounds().glance().came()), (true, 0));
    });
}

#[test]
fn a_reset_beside_a_release_leaves_it_whole_and_nobody_untold() {
    check(3, || {
        let table = Table::new(2);
        assert_eq!([0, 1].map(|me| table.count_in(me)), [Some(false), Some(true)]);
        let releasing = {
            let table = table.clone();
            thread::spawn(move || table.release(1))
        };
        table.rounds().reset();
        table.settle(0);
        // After the reset nobody had come yet.
        let breaks = releasing.join().unwrap() == Err(NotReleased::TooEarly);
        assert_eq!(table.told().len(), 2);
        assert_eq!((table.rounds().glance().is_broken(), table.rounds().glance().came()), (breaks, 0));
    });
}

#[test]
fn a_party_that_was_counted_is_missed_though_another_one_of_its_process_came_in_vain_beside_it() {
    check(3, || {
        let table = Table::new(3);
        let seen = table.rounds().glance();
        let other = {
            let table = table.clone();
            thread::spawn(move || table.rounds().count_in(seen, &table.notes[0]).is_ok())
        };
        let came = table.rounds().count_in(seen, &table.notes[0]).is_ok();
        assert!(came != other.join().unwrap(), "they saw the same word");
        table.bury(0, 1, false);
        assert!(table.rounds().glance().is_broken());
    });
}

#[test]
fn a_party_that_was_counted_is_missed_while_another_one_of_its_process_comes_to_the_round_before() {
    check(3, || {
        let table = Table::new(3);
        let seen = table.rounds().glance();
        let late = {
            let table = table.clone();
            thread::spawn(move || table.rounds().count_in(seen, &table.notes[0]).is_ok())
        };
        table.rounds().reset();
        table.settle(0);
        assert_eq!(table.count_in(0), Some(false));
        // As if both died now, wherever the other one is.
        table.bury(0, 1, false);
        assert!(table.rounds().glance().is_broken());
        late.join().unwrap();
    });
}

#[test]
fn who_leaves_in_order_breaks_the_round_unless_he_was_told_before() {
    check(3, || {
        let table = Table::new(2);
        assert_eq!([0, 1].map(|me| table.count_in(me)), [Some(false), Some(true)]);
        let last = {
            let table = table.clone();
            thread::spawn(move || table.release(1))
        };
        let is_told = table.told.lock().unwrap().pop().is_some();
        if is_told {
            table.rounds().received(&table.notes[0]);
        }
        table.rounds().leave(&table.notes[0]);
        table.bury_if(0, 2, || table.told().is_empty());
        let released = last.join().unwrap();
        assert_eq!(table.rounds().glance().is_broken(), !is_told, "{released:?}");
    });
}
