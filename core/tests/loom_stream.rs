//! All interleavings of a few operations on the places of conversations, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_stream`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use interleavings::check;
use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;
use umbra_core::atomic::AtomicU64;
use umbra_core::stream::{Class, Conversation, Counts, End, Hearer, Mode, Outcome, Shape, Speaker, Table};

/// Places, and beside each what was said in it; loom reports any overlap of two who use it.
struct Room {
    words: Vec<AtomicU64>,
    said: Vec<Cell<u32>>,
}

impl Room {
    fn new(streams: u32) -> Arc<Room> {
        let shape = Shape { mode: Mode::Nominal, streams, ring: 64, messages: 0, block: 0 };
        let words: Vec<_> = (0..shape.words().unwrap()).map(|_| AtomicU64::new(0)).collect();
        Table::create(&words, shape).unwrap();
        Arc::new(Room { words, said: (0..streams).map(|_| Cell::new(0)).collect() })
    }
    fn table(&self) -> Table<'_> {
        Table::attach(&self.words).unwrap()
    }
    fn scrub(&self, place: usize) {
        self.said[place].set(0);
    }
    fn say(&self, by: u16, what: u32) -> Option<Conversation> {
        let begun = self.table().claim(by, Class::Stream, false)?;
        assert_eq!(self.said[begun.place()].replace(what), 0, "the place was cleared");
        assert!(self.table().deposit(begun, by));
        Some(begun)
    }
    fn end(&self, begun: Conversation, by: u16, how: End) -> Outcome {
        self.table().end(begun, by, how, |place| self.scrub(place))
    }
    fn leave(&self, met: Conversation, by: u16) -> Outcome {
        self.table().leave(met, by, |place| self.scrub(place))
    }
    fn reclaim(&self, dead: u16) -> umbra_core::stream::Reclaimed {
        self.table().reclaim(dead, |place| self.scrub(place))
    }
    fn hear(&self, by: u16) -> Option<(Conversation, u32)> {
        let met = self.table().meet(by)?;
        Some((met, self.said[met.place()].get()))
    }
    /// Receives all that waits.
    fn drain(&self) -> Vec<u32> {
        std::iter::from_fn(|| {
            let (met, said) = self.hear(9)?;
            assert_eq!(self.leave(met, 9), Outcome::Free);
            Some(said)
        })
        .collect()
    }
    fn assert_at_rest(&self) {
        assert_eq!(self.table().counts(), Counts { idle: self.said.len(), ..Counts::default() });
        assert!(self.said.iter().all(|said| said.get() == 0));
    }
}

#[test]
fn two_senders_and_a_receiver_lose_no_conversation_and_no_place() {
    check(2, || {
        let room = Room::new(2);
        let senders = [0_u16, 1].map(|by| {
            let room = room.clone();
            thread::spawn(move || {
                let begun = room.say(by, u32::from(by) + 1).unwrap();
                assert_eq!(room.table().hearer(begun, by), Some(Hearer::There));
                assert_ne!(room.end(begun, by, End::Complete), Outcome::Stale);
            })
        });
        let mut heard = vec![];
        if let Some((met, said)) = room.hear(2) {
            heard.push(said);
            // Not to the end: then the sender clears up, unless he has ended.
            assert_ne!(room.leave(met, 2), Outcome::Stale);
        }
        for sender in senders {
            sender.join().unwrap();
        }
        heard.extend(room.drain());
        heard.sort_unstable();
        assert_eq!(heard, [1, 2]);
        room.assert_at_rest();
    });
}

#[test]
fn conversations_of_one_sender_are_met_in_the_order_in_which_he_began_them() {
    check(3, || {
        let room = Room::new(3);
        // The places differ in their order from the conversations.
        let blocked = room.table().claim(7, Class::Stream, false).unwrap();
        let sender = {
            let room = room.clone();
            thread::spawn(move || {
                room.say(0, 1).unwrap();
                assert_eq!(room.end(blocked, 7, End::Broken), Outcome::Free);
                room.say(0, 2).unwrap();
            })
        };
        let first = room.hear(1).map(|(_, said)| said);
        let second = room.hear(1).map(|(_, said)| said);
        sender.join().unwrap();
        match (first, second) {
            (None, None | Some(1)) | (Some(1), None | Some(2)) => {}
            seen => panic!("{seen:?}"),
        }
    });
}

#[test]
fn one_of_two_receivers_meets_a_conversation() {
    check(3, || {
        let room = Room::new(1);
        let begun = room.say(0, 5).unwrap();
        let receivers = [1, 2].map(|by| {
            let room = room.clone();
            thread::spawn(move || room.hear(by).map(|(met, said)| (by, met, said)))
        });
        let met: Vec<_> = receivers.into_iter().filter_map(|receiver| receiver.join().unwrap()).collect();
        let [(by, met, 5)] = met[..] else { panic!("{met:?}") };
        assert_eq!(room.table().speaker(met, by), Some(Speaker::There));
        room.end(begun, 0, End::Complete);
        assert_eq!(room.table().speaker(met, by), Some(Speaker::Done));
        assert_eq!(room.leave(met, by), Outcome::Free);
        room.assert_at_rest();
    });
}

#[test]
fn the_last_of_two_who_go_at_once_clears_up() {
    check(3, || {
        let room = Room::new(1);
        let begun = room.say(0, 5).unwrap();
        let (met, _) = room.hear(1).unwrap();
        let sender = {
            let room = room.clone();
            thread::spawn(move || room.end(begun, 0, End::Complete))
        };
        let outcomes = [room.leave(met, 1), sender.join().unwrap()];
        assert!(outcomes.contains(&Outcome::Free) && outcomes.contains(&Outcome::Open), "{outcomes:?}");
        room.assert_at_rest();
    });
}

#[test]
fn a_dead_sender_is_buried_beside_a_receiver_who_meets_and_leaves() {
    check(3, || {
        let room = Room::new(1);
        room.say(7, 5).unwrap();
        let next = {
            let room = room.clone();
            thread::spawn(move || room.table().claim(3, Class::Stream, false))
        };
        let receiver = {
            let room = room.clone();
            thread::spawn(move || {
                let (met, said) = room.hear(1).unwrap();
                assert_eq!(said, 5, "what the dead one said is heard");
                room.leave(met, 1)
            })
        };
        let reclaimed = room.reclaim(7);
        assert_eq!(reclaimed.sent, 1);
        assert_ne!(receiver.join().unwrap(), Outcome::Stale);
        if let Some(begun) = next.join().unwrap() {
            assert_eq!(room.said[begun.place()].get(), 0, "who gets the place finds it cleared");
            room.end(begun, 3, End::Broken);
        }
        room.assert_at_rest();
    });
}

#[test]
fn a_dead_receiver_is_buried_beside_a_sender_who_ends() {
    check(3, || {
        let room = Room::new(1);
        let begun = room.say(0, 5).unwrap();
        room.hear(7).unwrap();
        let sender = {
            let room = room.clone();
            thread::spawn(move || room.end(begun, 0, End::Complete))
        };
        assert_eq!(room.reclaim(7).received, 1);
        assert_ne!(sender.join().unwrap(), Outcome::Stale);
        room.assert_at_rest();
    });
}

#[test]
fn a_dead_sender_and_its_dead_receiver_are_buried_by_two() {
    check(3, || {
        let room = Room::new(1);
        room.say(6, 5).unwrap();
        room.hear(7).unwrap();
        let other = {
            let room = room.clone();
            thread::spawn(move || room.reclaim(6).sent)
        };
        assert_eq!((room.reclaim(7).received, other.join().unwrap()), (1, 1));
        room.assert_at_rest();
    });
}

#[test]
fn a_keeper_who_dies_beside_one_who_accepts_leaves_no_place_behind() {
    check(3, || {
        let room = Room::new(1);
        let kept = room.table().keep(7).unwrap();
        room.table().offer_kept(kept, 7).unwrap();
        let sender = {
            let room = room.clone();
            thread::spawn(move || {
                let begun = room.table().accept(0, false)?;
                room.said[begun.place()].set(5);
                Some(room.end(begun, 0, End::Complete))
            })
        };
        let reclaimed = room.reclaim(7);
        assert_eq!((reclaimed.kept, reclaimed.received), (1, 1));
        assert_ne!(sender.join().unwrap(), Some(Outcome::Stale));
        room.assert_at_rest();
    });
}
