//! Threads that work on one structure for a while; fit for ThreadSanitizer.
//!
//! Every wait is bounded by progress of another thread, and gives the core away.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::ring::line::{self, Line};
use umbra_core::ring::mailbox::{self, Mailbox};
use umbra_core::ring::{Backoff, Place, mpmc, spsc};
use umbra_core::shared_slots::{Owner, SharedSlots};
use umbra_core::{id::Id, shared_slots};

/// Items a sender sends.
const ITEMS: u64 = if cfg!(miri) { 200 } else { 20_000 };

fn wait(backoff: &mut Backoff) {
    if backoff.spent() {
        thread::yield_now();
    } else {
        backoff.spin();
    }
}

/// Calls `attempt` until it succeeds.
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut backoff = Backoff::new();
    loop {
        match attempt() {
            Some(value) => return value,
            None => wait(&mut backoff),
        }
    }
}

fn memory(count: usize) -> Vec<u64> {
    vec![0; count]
}

#[test]
fn spsc_streams_in_order() {
    let mut ring = spsc::Ring::new((0..64).map(|_| Place::new()).collect::<Vec<_>>()).unwrap();
    let (mut sender, mut receiver) = ring.split();
    thread::scope(|s| {
        s.spawn(move || {
            let mut next = 0;
            while next < ITEMS {
                let batch: Vec<[u64; 3]> = (next..ITEMS.min(next + 7)).map(|n| [n, !n, n * 3]).collect();
                let mut rest = &batch[..];
                while !rest.is_empty() {
                    let sent = until(|| Some(sender.push_all(rest)).filter(|&sent| sent > 0));
                    rest = &rest[sent..];
                }
                next += batch.len() as u64;
            }
        });
        let mut next = 0;
        while next < ITEMS {
            let item = until(|| receiver.pop());
            assert_eq!(item, [next, !next, next * 3]);
            next += 1;
            let mut items = [[0; 3]; 5];
            let count = receiver.pop_all(&mut items);
            for item in &items[..count] {
                assert_eq!(*item, [next, !next, next * 3]);
                next += 1;
            }
        }
    });
}

/// What a receiver got: (sender, number) in the order of receipt.
type Got = Vec<(u64, u64)>;

/// Nothing lost, nothing twice, and each receiver saw each sender's messages in order.
fn complete(receivers: Vec<Got>, senders: u64) {
    let mut all = HashSet::new();
    for got in &receivers {
        for sender in 0..senders {
            assert!(got.iter().filter(|g| g.0 == sender).map(|g| g.1).is_sorted(), "order of sender {sender}");
        }
        for &item in got {
            assert!(all.insert(item), "{item:?} came twice");
        }
    }
    assert_eq!(all.len() as u64, senders * ITEMS);
}

#[test]
fn mpmc_loses_nothing_among_two_senders_and_two_receivers() {
    let mut ring = mpmc::Ring::new((0..16).map(|_| mpmc::Cell::new()).collect::<Vec<_>>()).unwrap();
    let (sender, receiver) = ring.split();
    let left = AtomicU64::new(2 * ITEMS);
    let receivers = thread::scope(|s| {
        for from in 0..2 {
            s.spawn(move || {
                let mut next = 0;
                while next < ITEMS {
                    let batch: Vec<(u64, u64)> = (next..ITEMS.min(next + 3)).map(|n| (from, n)).collect();
                    next += until(|| Some(sender.push_all(&batch)).filter(|&sent| sent > 0)) as u64;
                    if next < ITEMS {
                        until(|| sender.push((from, next)).ok());
                        next += 1;
                    }
                }
            });
        }
        let receiving = [1, 4].map(|batch| {
            let left = &left;
            s.spawn(move || {
                let mut got = Got::new();
                let mut backoff = Backoff::new();
                while left.load(Ordering::Relaxed) > 0 {
                    let mut items = [(0, 0); 4];
                    let count = receiver.pop_all(&mut items[..batch]);
                    got.extend_from_slice(&items[..count]);
                    left.fetch_sub(count as u64, Ordering::Relaxed);
                    if count == 0 {
                        wait(&mut backoff);
                    } else {
                        backoff.reset();
                    }
                }
                got
            })
        });
        receiving.map(|r| r.join().unwrap()).into()
    });
    complete(receivers, 2);
}

fn line_of(from: u64, n: u64) -> Line {
    Line::new([n, from, !n, n, n, n, n, n ^ from]).unwrap()
}
fn parse(line: Line) -> (u64, u64) {
    let &[n, from, ..] = line.words();
    assert_eq!(line, line_of(from, n), "a line is whole");
    (from, n)
}

#[test]
fn line_streams_in_order_while_ends_are_replaced() {
    let mut memory = memory(line::words_for(8).unwrap());
    let count = memory.len();
    let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
    let ring = line::Ring::create(words, 8).unwrap();
    thread::scope(|s| {
        s.spawn(move || {
            let mut sender = ring.sender().unwrap();
            for n in 0..ITEMS {
                if n % 100 == 0 {
                    sender = ring.sender().unwrap();
                }
                until(|| sender.push(line_of(0, n)).ok());
            }
        });
        let mut receiver = ring.receiver().unwrap();
        for n in 0..ITEMS {
            if n % 77 == 0 {
                receiver = ring.receiver().unwrap();
            }
            assert_eq!(parse(until(|| receiver.pop())), (0, n));
        }
    });
}

#[test]
fn mailbox_loses_nothing_among_two_senders_and_two_receivers_beside_a_reaper() {
    let mut memory = memory(mailbox::words_for(8).unwrap());
    let count = memory.len();
    let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
    let mailbox = Mailbox::create(words, 8).unwrap();
    let owner = |n| Owner::new(n).unwrap();
    let left = AtomicU64::new(2 * ITEMS);
    let receivers = thread::scope(|s| {
        for from in 0..2_u8 {
            s.spawn(move || {
                for n in 0..ITEMS {
                    until(|| mailbox.push(owner(from), line_of(from.into(), n)).ok());
                }
            });
        }
        // Owners that do not exist die all the time.
        let left = &left;
        s.spawn(move || {
            while left.load(Ordering::Relaxed) > 0 {
                assert_eq!(mailbox.reclaim(owner(9)), 0);
                thread::yield_now();
            }
        });
        let receiving = [2, 3].map(|number| {
            s.spawn(move || {
                let mut got = Got::new();
                let mut backoff = Backoff::new();
                while left.load(Ordering::Relaxed) > 0 {
                    match mailbox.pop(owner(number)).unwrap() {
                        Some(line) => {
                            got.push(parse(line));
                            left.fetch_sub(1, Ordering::Relaxed);
                            backoff.reset();
                        }
                        None => wait(&mut backoff),
                    }
                }
                got
            })
        });
        receiving.map(|r| r.join().unwrap()).into()
    });
    complete(receivers, 2);
    assert_eq!((mailbox.pop(owner(0)), mailbox.slots().free()), (Ok(None), 8));
}

#[test]
fn shared_slots_never_have_two_takers() {
    const SLOTS: usize = 3;
    let mut memory = memory(shared_slots::words_for(SLOTS).unwrap());
    let count = memory.len();
    let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
    let slots = SharedSlots::create(words, SLOTS).unwrap();
    let users: Vec<AtomicU64> = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
    let start = Barrier::new(4);
    thread::scope(|s| {
        for number in 0..4 {
            let (users, start) = (&users, &start);
            s.spawn(move || {
                let owner = Owner::new(number).unwrap();
                start.wait();
                for _ in 0..ITEMS {
                    let id: Id<_> = until(|| slots.take(owner).ok());
                    let user = &users[id.index() as usize];
                    assert_eq!(user.swap(u64::from(number) + 1, Ordering::Relaxed), 0, "somebody has this slot");
                    assert_eq!(user.swap(0, Ordering::Relaxed), u64::from(number) + 1);
                    assert_eq!(slots.release(id, owner), Ok(true));
                }
            });
        }
    });
    let owner = Owner::new(0).unwrap();
    assert_eq!((0..).take_while(|_| slots.take(owner).is_ok()).count(), SLOTS, "no hint was lost");
}
