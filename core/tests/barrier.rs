//! What the word of a barrier knows of parties of one process.
#![cfg(not(loom))]

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::barrier::Rounds;

#[test]
fn a_party_that_was_counted_is_missed_though_another_one_of_its_process_came_in_vain() {
    let (word, note) = (AtomicU64::new(0), AtomicU64::new(0));
    let rounds = Rounds::new(&word, 3);
    let early = rounds.glance();
    assert_eq!(rounds.count_in(early, &note), Ok(false));
    assert_eq!(rounds.count_in(early, &note), Err(rounds.glance()), "somebody came meanwhile");
    rounds.forsake(note.load(Ordering::Relaxed), 2, true);
    assert!(rounds.glance().is_broken());
}

#[test]
fn who_came_in_vain_alone_is_not_missed() {
    let (word, notes) = (AtomicU64::new(0), [0, 0].map(AtomicU64::new));
    let rounds = Rounds::new(&word, 3);
    let early = rounds.glance();
    assert_eq!(rounds.count_in(early, &notes[0]), Ok(false));
    assert!(rounds.count_in(early, &notes[1]).is_err());
    rounds.forsake(notes[1].load(Ordering::Relaxed), 2, true);
    assert!(!rounds.glance().is_broken());
}
