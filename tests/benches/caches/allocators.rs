//! Slots alone: one that is taken is given back, and another one taken.
//!
//! Peers are tables that hand out numbers of places, and a queue of the numbers that are free, which checks nothing.

use std::hint::black_box;

use crossbeam_queue::ArrayQueue;
use umbra::sys::heap::reserved;
use umbra_core::atomic::AtomicU64;
use umbra_core::shared_slots::{Owner, SharedSlots, words_for};
use umbra_core::slots::{Slot, Slots};
use umbra_tests::bench::{Direction, Report, alternate};

use crate::SLOTS;
use crate::hits::{Random, long_turns, table};

/// Slots that are taken all the time.
const TAKEN: u32 = SLOTS / 10 * 9;

/// Gives one of those back that are taken, and takes another one instead: any of them, or always the same.
fn churn<'a, T: Copy + 'a>(
    any: bool,
    mut take: impl FnMut(u32) -> Option<T> + 'a,
    mut give_back: impl FnMut(T) -> bool + 'a,
) -> impl FnMut(u64) + 'a {
    let mut take = move |value| take(value).unwrap_or_else(|| panic!("a table of {SLOTS} slots is full"));
    let mut taken: Vec<T> = (0..TAKEN).map(&mut take).collect();
    let mut random = Random(4);
    move |count| {
        for _ in 0..count {
            let at = if any { (random.next() % u64::from(TAKEN)) as u32 } else { 0 };
            let slot = &mut taken[at as usize];
            assert!(black_box(give_back(*slot)));
            *slot = black_box(take(at));
        }
    }
}

/// All tables, with slots at random and with the same one again and again.
pub(crate) fn rows(report: &mut Report) {
    for (what, any) in [("any", true), ("the last", false)] {
        let cases = [format!("slot taken, {what} given back"), format!("shared slot taken, {what} given back")];
        if report.wants(&cases[0]) {
            alone(report, &cases[0], any);
        }
        if report.wants(&cases[1]) {
            shared(report, &cases[1], any);
        }
    }
}

/// The tables of one owner.
fn alone(report: &mut Report, case: &str, any: bool) {
    let slots = std::cell::RefCell::new(Slots::new(table(Slot::<u32>::EMPTY, SLOTS as usize)));
    let ours = churn(any, |value| slots.borrow_mut().take(value).ok(), |id| slots.borrow_mut().release(id).is_ok());
    let slab = std::cell::RefCell::new(slab::Slab::with_capacity(SLOTS as usize));
    let theirs =
        churn(any, |value| Some(slab.borrow_mut().insert(value)), |key| slab.borrow_mut().try_remove(key).is_some());
    let turns = alternate(&long_turns(), ours, theirs);
    report.row(turns.row(case, "slab 0.4", "ns", Direction::LowerIsBetter)).bar(1.0);
}

/// The tables of several, used by one.
fn shared(report: &mut Report, case: &str, any: bool) {
    let words = words_for(SLOTS as usize).and_then(|count| reserved(count, || AtomicU64::new(0)).ok());
    let (Some(words), Some(owner)) = (words, Owner::new(0)) else { return };
    let slots = SharedSlots::create(&words, SLOTS as usize).unwrap_or_else(|error| panic!("{error}"));
    let mut ours = churn(any, |_| slots.take(owner).ok(), |id| slots.release(id, owner).is_ok());
    let slab = sharded_slab::Slab::new();
    let theirs = churn(any, |value| slab.insert(value), |key| slab.remove(key));
    let turns = alternate(&long_turns(), &mut ours, theirs);
    report.row(turns.row(case, "sharded-slab 0.1", "ns", Direction::LowerIsBetter)).bar(1.0);
    let free = ArrayQueue::new(SLOTS as usize);
    (0..SLOTS).for_each(|slot| assert!(free.push(slot).is_ok()));
    let theirs = churn(any, |_| free.pop(), |slot| free.push(slot).is_ok());
    let turns = alternate(&long_turns(), &mut ours, theirs);
    report.row(turns.row(case, "crossbeam ArrayQueue 0.3", "ns", Direction::LowerIsBetter)).bar(1.0);
}
