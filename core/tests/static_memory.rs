//! Rings and slots in memory that a program has from its start.
//!
//! Firmware has such memory: nobody allocates any. That the library builds for boards is checked by the steps
//! `bare-metal` and `firmware` of `cargo xtask test`.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::thread;

use umbra_core::atomic::AtomicU64;
use umbra_core::ring::PushError;
use umbra_core::ring::line::{self, Line, Ring};
use umbra_core::shared_slots::{self, Owner, SharedSlots};

const LINES: usize = 8;
const SLOTS: usize = 100;
const MESSAGES: u64 = 20_000;

/// As many words as are needed; none for what nobody can make.
const fn words(needed: Option<usize>) -> usize {
    match needed {
        Some(words) => words,
        None => 0,
    }
}

const RING_WORDS: usize = words(line::words_for(LINES));
const TABLE_WORDS: usize = words(shared_slots::words_for(SLOTS));
static RING: [AtomicU64; RING_WORDS] = [const { AtomicU64::new(0) }; RING_WORDS];
static TABLE: [AtomicU64; TABLE_WORDS] = [const { AtomicU64::new(0) }; TABLE_WORDS];

#[test]
fn a71_a_ring_in_static_memory_carries_messages_in_their_order() {
    let mut sender = Ring::create(&RING, LINES).unwrap().sender().unwrap();
    let mut receiver = Ring::attach(&RING).unwrap().receiver().unwrap();
    // Byte 5 of a line is zero.
    let line = |n: u64| Line::new([n % 1000, n, !n, 0, 0, 0, 0, n * n]).unwrap();
    (0..LINES as u64).for_each(|n| sender.push(line(n)).unwrap());
    assert_eq!(sender.push(line(8)), Err(PushError::Full(line(8))));
    (0..LINES as u64).for_each(|n| assert_eq!(receiver.pop(), Some(line(n))));
    assert_eq!(receiver.pop(), None);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..MESSAGES {
                while sender.push(line(n)).is_err() {
                    thread::yield_now();
                }
            }
        });
        for n in 0..MESSAGES {
            let received = loop {
                match receiver.pop() {
                    Some(received) => break received,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(received, line(n));
        }
    });
}

#[test]
fn a71_slots_in_static_memory_have_one_taker_each_and_come_back() {
    let slots = SharedSlots::create(&TABLE, SLOTS).unwrap();
    let [first, second] = [0, 1].map(|number| Owner::new(number).unwrap());
    thread::scope(|scope| {
        for owner in [first, second] {
            scope.spawn(move || {
                let slots = SharedSlots::attach(&TABLE).unwrap();
                for _ in 0..2_000 {
                    let taken: Vec<_> = (0..SLOTS / 2).map(|_| slots.take(owner).unwrap()).collect();
                    assert!(taken.iter().all(|&id| slots.holds(id, owner)));
                    for id in taken {
                        assert_eq!(slots.release(id, owner), Ok(true));
                        assert!(slots.release(id, owner).is_err());
                    }
                }
            });
        }
    });
    let taken: Vec<_> = (0..SLOTS).map(|_| slots.take(first).unwrap()).collect();
    assert!(slots.take(second).is_err());
    assert_eq!((slots.reclaim(first), slots.free(), slots.held_by(first)), (SLOTS, SLOTS, 0));
    assert!(taken.iter().all(|&id| slots.release(id, first).is_err()));
}
