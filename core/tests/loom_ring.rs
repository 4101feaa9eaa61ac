//! All interleavings of a few operations on the queues, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_ring`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use interleavings::check;
use loom::thread;
use umbra_core::atomic::{AtomicU64, spin_hint};
use umbra_core::ring::line::{self, Line};
use umbra_core::ring::mailbox::{self, Mailbox};
use umbra_core::ring::{Place, mpmc, spsc};
use umbra_core::shared_slots::Owner;

/// Storage that is freed when the model's iteration ends.
struct Lent<T>(*mut T);
impl<T: 'static> Lent<T> {
    fn get(&self) -> &'static mut T {
        // SAFETY: made by `lend` from a box, freed only by the drop after all threads were joined.
        unsafe { &mut *self.0 }
    }
}
impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: as in `get`; this is the only drop.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
fn lend<T: 'static>(value: T) -> Lent<T> {
    Lent(Box::into_raw(Box::new(value)))
}

fn words(count: usize) -> Lent<Vec<AtomicU64>> {
    lend((0..count).map(|_| AtomicU64::new(0)).collect())
}

fn line_of(n: u64) -> Line {
    Line::new([n, n, 0, 0, 0, 0, 0, n]).unwrap()
}
fn number_of(line: Line) -> u64 {
    let n = line.words()[0];
    assert_eq!(line, line_of(n), "a line is whole");
    n
}

#[test]
fn spsc_hands_over_every_item_once_and_in_order() {
    check(3, || {
        let ring = lend(spsc::Ring::new((0..2).map(|_| Place::new()).collect::<Vec<_>>()).unwrap());
        let (mut sender, mut receiver) = ring.get().split();
        let sending = thread::spawn(move || {
            while sender.push(1).is_err() {
                spin_hint();
            }
            let mut rest: &[u64] = &[2, 3];
            while !rest.is_empty() {
                let sent = sender.push_all(rest);
                rest = &rest[sent..];
                if sent == 0 {
                    spin_hint();
                }
            }
        });
        let mut got = vec![];
        while got.len() < 3 {
            let mut items = [0; 2];
            let count = receiver.pop_all(&mut items);
            got.extend_from_slice(&items[..count]);
            match receiver.pop() {
                Some(item) => got.push(item),
                None => spin_hint(),
            }
        }
        assert_eq!(got, [1, 2, 3]);
        sending.join().unwrap();
    });
}

#[test]
fn a72_mpmc_gives_every_item_to_one_receiver() {
    check(3, || {
        let ring = lend(mpmc::Ring::new((0..2).map(|_| mpmc::Cell::new()).collect::<Vec<_>>()).unwrap());
        let (sender, receiver) = ring.get().split();
        let sending = thread::spawn(move || (1..=2).take_while(|&item| sender.push(item).is_ok()).count());
        let receiving = thread::spawn(move || (receiver.pop(), receiver.pop()));
        let sent = sender.push(10).is_ok();
        let (a, b) = receiving.join().unwrap();
        let sent = sending.join().unwrap() + usize::from(sent);
        let mut left = vec![];
        while let Some(item) = receiver.pop() {
            left.push(item);
        }
        let mut all: Vec<u64> = a.into_iter().chain(b).chain(left).collect();
        let order: Vec<u64> = all.iter().copied().filter(|&i| i < 10).collect();
        assert!(order.is_sorted(), "one sender's items stay in order");
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "nothing twice: {all:?}");
        assert_eq!(all.len(), sent, "nothing lost: {all:?}");
    });
}

#[test]
fn mpmc_batches_are_whole() {
    check(3, || {
        let ring = lend(mpmc::Ring::new((0..4).map(|_| mpmc::Cell::new()).collect::<Vec<_>>()).unwrap());
        let (sender, mut receiver) = ring.get().many_to_one();
        let others = [10_u64, 20].map(|first| thread::spawn(move || sender.push_all(&[first, first + 1])));
        let mut got = vec![];
        while got.len() < 4 {
            let mut items = [0; 4];
            let count = receiver.pop_all(&mut items);
            got.extend_from_slice(&items[..count]);
            if count == 0 {
                spin_hint();
            }
        }
        assert!(got == [10, 11, 20, 21] || got == [20, 21, 10, 11], "{got:?}");
        for other in others {
            assert_eq!(other.join().unwrap(), 2);
        }
    });
}

#[test]
fn mpmc_with_a_sole_sender_keeps_the_order_among_receivers() {
    check(3, || {
        let ring = lend(mpmc::Ring::new((0..2).map(|_| mpmc::Cell::new()).collect::<Vec<_>>()).unwrap());
        let (mut sender, receiver) = ring.get().one_to_many();
        let other = thread::spawn(move || receiver.pop());
        let sent = [1, 2, 3].map(|item| sender.push(item).is_ok());
        let first = other.join().unwrap();
        assert!(sent[0] && sent[1] && matches!(first, None | Some(1)));
        let mut next = if first.is_some() { 2 } else { 1 };
        while let Some(item) = receiver.pop() {
            assert_eq!(item, next);
            next += 1;
        }
        assert_eq!(next, if sent[2] { 4 } else { 3 });
    });
}

#[test]
fn line_hands_over_whole_lines_and_reuses_cells_safely() {
    check(3, || {
        let memory = words(line::words_for(2).unwrap());
        let ring = line::Ring::create(memory.get(), 2).unwrap();
        let (mut sender, mut receiver) = (ring.sender().unwrap(), ring.receiver().unwrap());
        let sending = thread::spawn(move || {
            let mut sent = 0;
            while sent < 3 {
                match sender.push(line_of(sent + 1)) {
                    Ok(()) => sent += 1,
                    Err(_) => spin_hint(),
                }
            }
        });
        let mut next = 1;
        while next < 4 {
            match receiver.pop() {
                Some(line) => {
                    assert_eq!(number_of(line), next);
                    next += 1;
                }
                None => spin_hint(),
            }
        }
        sending.join().unwrap();
    });
}

#[test]
fn a_successor_of_a_line_sender_continues_behind_what_was_published() {
    check(3, || {
        let memory = words(line::words_for(2).unwrap());
        let ring = line::Ring::create(memory.get(), 2).unwrap();
        let mut receiver = ring.receiver().unwrap();
        let mut first = ring.sender().unwrap();
        first.push(line_of(1)).unwrap();
        let receiving = thread::spawn(move || {
            let mut got = vec![];
            while got.len() < 2 {
                match receiver.pop() {
                    Some(line) => got.push(number_of(line)),
                    None => spin_hint(),
                }
            }
            got
        });
        let mut second = ring.sender().unwrap();
        second.push(line_of(2)).unwrap();
        assert_eq!(receiving.join().unwrap(), [1, 2]);
    });
}

fn mailbox(memory: &Lent<Vec<AtomicU64>>, capacity: usize) -> Mailbox<'static> {
    Mailbox::create(memory.get(), capacity).unwrap()
}

#[test]
fn mailbox_gives_every_message_to_one_receiver() {
    check(2, || {
        let memory = words(mailbox::words_for(2).unwrap());
        let mailbox = mailbox(&memory, 2);
        let [a, b, c] = [0, 1, 2].map(|n| Owner::new(n).unwrap());
        let sending = thread::spawn(move || mailbox.push(a, line_of(1)).is_ok());
        let receiving = thread::spawn(move || mailbox.pop(b).unwrap().map(number_of));
        let sent = mailbox.push(c, line_of(2)).is_ok();
        let taken = mailbox.pop(c).unwrap().map(number_of);
        let other = receiving.join().unwrap();
        assert!(sending.join().unwrap() && sent, "two slots suffice for two messages");
        let mut all: Vec<u64> = taken.into_iter().chain(other).collect();
        while let Some(line) = mailbox.pop(c).unwrap() {
            all.push(number_of(line));
        }
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert_eq!(mailbox.slots().free(), 2);
    });
}

#[test]
fn mailbox_reuses_its_only_slot_safely() {
    check(3, || {
        let memory = words(mailbox::words_for(1).unwrap());
        let mailbox = mailbox(&memory, 1);
        let [a, b] = [0, 1].map(|n| Owner::new(n).unwrap());
        let sending =
            thread::spawn(move || (1..=2).map(|n| usize::from(mailbox.push(a, line_of(n)).is_ok())).sum::<usize>());
        let mut got: Vec<u64> = (0..2).filter_map(|_| mailbox.pop(b).unwrap().map(number_of)).collect();
        let sent = sending.join().unwrap();
        got.extend(mailbox.pop(b).unwrap().map(number_of));
        assert!(got.len() == sent && got.is_sorted());
        assert_eq!((mailbox.pop(b), mailbox.slots().free()), (Ok(None), 1));
    });
}

#[test]
fn mailbox_reclaims_beside_a_receiver_without_loss_or_duplicate() {
    check(3, || {
        let memory = words(mailbox::words_for(2).unwrap());
        let mailbox = mailbox(&memory, 2);
        let [dead, live, reaper] = [0, 1, 2].map(|n| Owner::new(n).unwrap());
        // The dead one published one message and took a slot for another.
        mailbox.push(dead, line_of(1)).unwrap();
        mailbox.slots().take(dead).unwrap();
        let receiving = thread::spawn(move || mailbox.pop(live).unwrap().map(number_of));
        mailbox.reclaim(dead);
        let sent = mailbox.push(reaper, line_of(2)).is_ok();
        assert!(sent, "what the dead one held is free");
        assert_eq!(receiving.join().unwrap(), Some(1), "what the dead one published is received");
        assert_eq!(mailbox.pop(reaper).unwrap().map(number_of), Some(2));
        assert_eq!(mailbox.slots().free(), 2);
    });
}
