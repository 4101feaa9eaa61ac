//! What the word of a barrier knows of parties of one process, and of slow ones.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::barrier::{Rounds, is_later};

/// A word of the last round that has room in it.
const LAST: u64 = 0xff_ffff << 40;

#[test]
fn a_party_that_was_counted_is_missed_though_another_one_of_its_process_came_in_vain() {
    let (word, note) = (AtomicU64::new(0), AtomicU64::new(0));
    let rounds = Rounds::new(&word, 3);
    let early = rounds.glance();
    assert_eq!(rounds.count_in(early, &note), Ok(false));
    assert_eq!(rounds.count_in(early, &note), Err(rounds.glance()), "somebody came meanwhile");
    rounds.forsake(note.load(Ordering::Relaxed), 2, || true);
    assert!(rounds.glance().is_broken());
}

#[test]
fn who_came_in_vain_alone_is_not_missed() {
    let (word, notes) = (AtomicU64::new(0), [0, 0].map(AtomicU64::new));
    let rounds = Rounds::new(&word, 3);
    let early = rounds.glance();
    assert_eq!(rounds.count_in(early, &notes[0]), Ok(false));
    assert!(rounds.count_in(early, &notes[1]).is_err());
    rounds.forsake(notes[1].load(Ordering::Relaxed), 2, || true);
    assert!(!rounds.glance().is_broken());
}

#[test]
fn a_round_is_later_than_those_before_it_also_when_the_numbers_begin_anew() {
    let last = Rounds::new(&AtomicU64::new(LAST), 1).glance().round();
    for (round, than) in [(1, 0), (0, last), (7, last - 7), (last / 2, 0)] {
        assert!(is_later(round, than) && !is_later(than, round), "{round}, {than}");
    }
    assert!(!is_later(3, 3));
}

#[test]
fn a_slow_party_hears_of_its_own_round_after_others_have_gone_on() {
    for begun in [0, LAST] {
        let (word, notes) = (AtomicU64::new(begun), [0, 0].map(AtomicU64::new));
        let rounds = Rounds::new(&word, 2);
        let whole = || {
            let seen = rounds.glance();
            notes.iter().for_each(|note| rounds.meet(rounds.glance(), note).unwrap());
            seen
        };
        let slow = whole();
        whole();
        assert_eq!(rounds.outcome(slow), Some(true), "others have met again");
        let slow = whole();
        rounds.reset();
        assert_eq!(rounds.outcome(slow), Some(true), "they have begun anew");
        let slow = rounds.glance();
        rounds.meet(slow, &notes[0]).unwrap();
        rounds.abort();
        rounds.reset();
        whole();
        assert_eq!(rounds.outcome(slow), Some(false), "they have met after its round was broken");
        let slow = whole();
        (0..1000).for_each(|_| _ = whole());
        assert_eq!(rounds.outcome(slow), Some(true));
    }
}
