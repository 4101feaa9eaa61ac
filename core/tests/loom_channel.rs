//! All interleavings of a few operations on the queue of a channel, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_channel`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use std::sync::OnceLock;

use interleavings::check;
use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::channel::{Claim, Position, Queue, ReceiveError, SendError, Shape};

/// The word in which senders say how far receivers are.
const TAKEN_BEFORE: usize = 16 + 2;

/// A queue, and beside each slot the message that lies there; loom reports any overlap of two who use it.
struct Table {
    words: Vec<AtomicU64>,
    messages: Vec<Cell<u32>>,
}

impl Table {
    fn new(capacity: u32, spares: u32) -> Arc<Table> {
        let shape = Shape { capacity, spares, block: 0 };
        let words: Vec<_> = (0..shape.words().unwrap()).map(|_| AtomicU64::new(0)).collect();
        Queue::create(&words, shape).unwrap();
        Arc::new(Table { words, messages: (0..capacity + spares).map(|_| Cell::new(0)).collect() })
    }
    fn queue(&self) -> Queue<'_> {
        Queue::attach(&self.words).unwrap()
    }
    fn claim(&self, by: u16, message: u32) -> Result<Claim, SendError> {
        let claim = self.queue().claim(by)?;
        self.messages[claim.slot()].set(message);
        Ok(claim)
    }
    fn send(&self, by: u16, message: u32) -> Result<Position, SendError> {
        self.queue().publish(self.claim(by, message)?)
    }
    fn receive(&self, by: u16) -> Result<u32, ReceiveError> {
        loop {
            let first = self.queue().first()?;
            if let Some(take) = self.queue().take(&first, by) {
                let message = self.messages[take.slot()].get();
                self.queue().release(take);
                return Ok(message);
            }
        }
    }
    fn drain(&self) -> Vec<u32> {
        std::iter::from_fn(|| self.receive(9).ok()).collect()
    }
    /// With nothing in it and nobody at it, it is as good as new.
    fn is_at_rest(&self) -> bool {
        let shape = self.queue().shape();
        let rest = (0..).take_while(|_| self.send(9, 0).is_ok()).count();
        let empty = self.drain().len();
        let free = self.queue().free_slots();
        (rest, empty, free) == (shape.capacity as usize, rest, (shape.capacity + shape.spares) as usize)
    }
}

#[test]
fn two_senders_and_a_receiver_keep_every_message_once_and_in_order() {
    check(2, || {
        let table = Table::new(4, 0);
        let senders = [0_u16, 1].map(|n| {
            let table = table.clone();
            thread::spawn(move || (1..=2).for_each(|k| assert!(table.send(n, u32::from(n) * 10 + k).is_ok())))
        });
        let mut seen: Vec<u32> = (0..2).filter_map(|_| table.receive(2).ok()).collect();
        for sender in senders {
            sender.join().unwrap();
        }
        seen.extend(table.drain());
        for n in [0, 10] {
            let of_one: Vec<_> = seen.iter().copied().filter(|m| m / 10 == n / 10).collect();
            assert_eq!(of_one, [n + 1, n + 2], "{seen:?}");
        }
        assert!(table.is_at_rest());
    });
}

#[test]
fn a_channel_of_one_message_with_a_spare_holds_one() {
    check(2, || {
        let table = Table::new(1, 1);
        let senders = [0, 1].map(|n| {
            let table = table.clone();
            thread::spawn(move || table.send(n, u32::from(n) + 1))
        });
        let received = table.receive(2);
        let sent: Vec<_> = senders.into_iter().map(|s| s.join().unwrap()).collect();
        let sent = sent.iter().filter(|s| s.is_ok()).count();
        assert!(sent >= 1 && table.queue().len() <= 1);
        assert_eq!(sent, usize::from(received.is_ok()) + table.drain().len());
        assert!(table.is_at_rest());
    });
}

#[test]
fn room_that_there_is_because_a_channel_was_destroyed_is_nobodys() {
    check(3, || {
        let table = Table::new(1, 1);
        table.send(0, 1).unwrap();
        let sender = {
            let table = table.clone();
            thread::spawn(move || [2, 3].map(|k| table.send(1, k)))
        };
        assert!(table.queue().destroy());
        assert_eq!(table.drain(), [1]);
        let sent = sender.join().unwrap();
        assert!(sent.iter().all(Result::is_err), "{sent:?}");
        assert_eq!(table.send(1, 4), Err(SendError::Destroyed));
    });
}

/// There is room for one message. One sender looks how far receivers are when the channel is destroyed and emptied, another
/// learns that from him: who finds room by it sees also that the channel was destroyed before.
#[test]
fn room_that_another_sender_saw_in_a_destroyed_channel_is_nobodys() {
    static REFUSED: OnceLock<()> = OnceLock::new();
    check(1, || {
        let table = Table::new(4, 2);
        (1..=4).for_each(|message| assert!(table.send(0, message).is_ok()));
        assert_eq!(table.receive(9), Ok(1));
        // Nothing is learned by taking a slot that somebody gave back.
        let [looks, fills, learns] = [5, 6, 7].map(|message| table.claim(1, message).unwrap());
        // The first thread is the first to run: then the others need no preemption to see some of what it did.
        let destroyer = {
            let table = table.clone();
            thread::spawn(move || {
                let sent = table.queue().publish(fills);
                // Senders look at the position of this message, and not at the next.
                let learner = sent.is_ok().then(|| {
                    let table = table.clone();
                    thread::spawn(move || table.queue().publish(learns))
                });
                assert!(table.queue().destroy());
                (sent, learner, table.receive(9))
            })
        };
        let looker = {
            let table = table.clone();
            thread::spawn(move || table.queue().publish(looks))
        };
        let (filled, learner, received) = destroyer.join().unwrap();
        let looked = looker.join().unwrap();
        let learned = learner.map(|learner| learner.join().unwrap());
        let (message, late) = if looked.is_ok() { (5, filled) } else { (6, looked) };
        for refused in [Some(late), learned].into_iter().flatten() {
            assert!(matches!(refused, Err(SendError::Full | SendError::Destroyed)), "{refused:?}");
        }
        // The first message that waits was taken, and a sender has seen that.
        if table.words[TAKEN_BEFORE].load(Ordering::Acquire) == 10 && learned == Some(Err(SendError::Destroyed)) {
            REFUSED.get_or_init(|| ());
        }
        assert_eq!((received, table.drain()), (Ok(2), vec![3, 4, message]));
    });
    assert!(REFUSED.get().is_some(), "nobody could learn from another that there is room");
}

#[test]
fn two_receivers_share_what_laps_of_the_ring_bring() {
    check(2, || {
        let table = Table::new(1, 0);
        let receivers = [1, 2].map(|n| {
            let table = table.clone();
            thread::spawn(move || table.receive(n).ok())
        });
        let mut sent: Vec<u32> = (1..=3).filter(|&k| table.send(0, k).is_ok()).collect();
        let mut got: Vec<u32> = receivers.into_iter().filter_map(|r| r.join().unwrap()).collect();
        got.extend(table.drain());
        got.sort_unstable();
        sent.sort_unstable();
        assert_eq!(got, sent);
        assert!(table.is_at_rest());
    });
}

#[test]
fn a_stopped_receiver_and_a_stopped_sender_are_in_nobodys_way() {
    check(2, || {
        let table = Table::new(1, 2);
        // One stopped with a slot that it was filling, one with a message that it had taken.
        let unsent = table.queue().claim(7).unwrap();
        table.send(0, 1).unwrap();
        let first = table.queue().first().unwrap();
        let taken = table.queue().take(&first, 8).unwrap();
        let other = {
            let table = table.clone();
            thread::spawn(move || table.send(1, 2).is_ok())
        };
        let got = table.receive(2).ok();
        assert!(other.join().unwrap(), "there is room");
        assert_eq!(got.or(table.receive(2).ok()), Some(2));
        table.queue().give_up(unsent);
        table.queue().release(taken);
        assert!(table.is_at_rest());
    });
}

#[test]
fn reclaim_beside_a_receiver_frees_what_was_not_sent_and_keeps_what_was() {
    check(2, || {
        let table = Table::new(2, 1);
        table.send(7, 1).unwrap();
        std::mem::forget(table.queue().claim(7).unwrap());
        let reapers = [0, 1].map(|_| {
            let table = table.clone();
            thread::spawn(move || table.queue().reclaim(7))
        });
        let got = table.receive(1).ok();
        let reclaimed = reapers.map(|r| r.join().unwrap());
        assert_eq!(reclaimed.iter().map(|r| r.unsent).sum::<usize>(), 1, "freed once");
        assert_eq!(reclaimed.iter().map(|r| r.taken).sum::<usize>(), 0);
        assert_eq!(got, Some(1), "published before its sender died");
        assert!(table.is_at_rest());
    });
}

#[test]
fn reclaim_of_a_receiver_beside_a_sender_frees_the_message_once() {
    check(2, || {
        let table = Table::new(1, 1);
        table.send(0, 1).unwrap();
        let first = table.queue().first().unwrap();
        std::mem::forget(table.queue().take(&first, 7).unwrap());
        let reaper = {
            let table = table.clone();
            thread::spawn(move || table.queue().reclaim(7))
        };
        let sender = {
            let table = table.clone();
            thread::spawn(move || table.send(0, 2).is_ok())
        };
        assert_eq!(reaper.join().unwrap().taken, 1);
        assert!(sender.join().unwrap());
        assert_eq!(table.drain(), [2]);
        assert!(table.is_at_rest());
    });
}

#[test]
fn what_is_seen_of_the_first_message_is_whole_if_it_still_waits() {
    check(3, || {
        let table = Table::new(1, 0);
        table.send(0, 1).unwrap();
        let receiver = {
            let table = table.clone();
            thread::spawn(move || {
                let got = table.receive(1);
                let again = table.send(0, 2);
                (got.ok(), again.is_ok())
            })
        };
        // Twice, so that the message may change between.
        for _ in 0..2 {
            if let Ok(first) = table.queue().first()
                && table.queue().still(&first)
                && let Some(take) = table.queue().take(&first, 2)
            {
                let message = table.messages[take.slot()].get();
                assert!(message == 1 || message == 2);
                table.queue().release(take);
            }
        }
        receiver.join().unwrap();
        table.drain();
        assert!(table.is_at_rest());
    });
}

#[test]
fn a_slot_that_becomes_free_beside_a_claim_is_found() {
    check(3, || {
        let table = Table::new(1, 0);
        let held = table.queue().claim(7).unwrap();
        let other = {
            let table = table.clone();
            thread::spawn(move || table.queue().give_up(held))
        };
        // It stumbles over the slot in use.
        if let Ok(claim) = table.queue().claim(1) {
            table.queue().give_up(claim);
        }
        other.join().unwrap();
        assert!(table.is_at_rest());
    });
}

#[test]
fn a_slot_that_two_claims_want_while_it_becomes_free_is_one_s_and_found_again() {
    check(3, || {
        let table = Table::new(1, 0);
        let held = table.queue().claim(7).unwrap();
        let claimers = [0, 1].map(|n| {
            let table = table.clone();
            thread::spawn(move || {
                if let Ok(claim) = table.queue().claim(n) {
                    table.messages[claim.slot()].set(u32::from(n));
                    table.queue().give_up(claim);
                }
            })
        });
        table.queue().give_up(held);
        for claimer in claimers {
            claimer.join().unwrap();
        }
        assert!(table.is_at_rest());
    });
}

#[test]
fn a_slot_that_a_reclaim_frees_beside_a_claim_is_found() {
    check(3, || {
        let table = Table::new(1, 0);
        std::mem::forget(table.queue().claim(7).unwrap());
        let reaper = {
            let table = table.clone();
            thread::spawn(move || table.queue().reclaim(7))
        };
        if let Ok(claim) = table.queue().claim(1) {
            table.queue().give_up(claim);
        }
        assert_eq!(reaper.join().unwrap().unsent, 1);
        assert!(table.is_at_rest());
    });
}
