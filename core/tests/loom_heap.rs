//! All interleavings of a few operations on a heap, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_heap`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use std::time::Duration;

use interleavings::bounded;
use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;
use umbra_core::atomic::AtomicU64;
use umbra_core::crew::{Identity, Member};
use umbra_core::heap::{Block, Hand, Heap, Keep, Plan};

const GRANULE: u64 = 8;

/// A heap and its bytes: loom reports that two use them at once.
struct Place {
    words: Vec<AtomicU64>,
    content: Vec<Cell<u64>>,
    bytes: u64,
}

impl Place {
    fn new(bytes: u64) -> Arc<Place> {
        let plan = Plan::new(bytes, GRANULE, 0, 3).unwrap();
        let words: Vec<_> = (0..plan.words()).map(|_| AtomicU64::new(0)).collect();
        Heap::create(&words, plan, &[]).unwrap();
        Arc::new(Place { words, content: (0..bytes / GRANULE).map(|_| Cell::new(0)).collect(), bytes })
    }

    fn heap(&self) -> Heap<'_> {
        Heap::attach(&self.words, self.bytes).unwrap()
    }

    fn join(&self, pid: u32) -> Member {
        self.heap().crew().join(Identity::new(pid, 0)).unwrap()
    }

    fn alloc(&self, hand: &mut Hand<'_>, len: u64) -> Option<Block> {
        let block = hand.alloc(len, 0).ok()?;
        let granules = block.offset / GRANULE..(block.offset + block.size) / GRANULE;
        granules.for_each(|at| assert_eq!(self.content[at as usize].replace(block.id.to_bits()), 0));
        Some(block)
    }

    fn free(&self, hand: &mut Hand<'_>, block: Block) {
        let granules = block.offset / GRANULE..(block.offset + block.size) / GRANULE;
        granules.for_each(|at| assert_eq!(self.content[at as usize].replace(0), block.id.to_bits()));
        hand.free(block.id).unwrap();
    }

    /// Makes entries for long blocks, which takes many steps, before anything happens at once.
    fn prepare(&self, hand: &mut Hand<'_>) {
        self.at_rest(hand);
        hand.rest();
    }

    /// Everything is free, and in one piece.
    fn at_rest(&self, hand: &mut Hand<'_>) {
        let block = hand.alloc(self.heap().longest(), 0).unwrap();
        hand.free(block.id).unwrap();
    }
}

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    check_for(None, preemptions, body);
}

/// As many interleavings as are tried in that time, where there are too many for all.
fn check_for(most: Option<Duration>, preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = bounded(preemptions);
    model.max_duration = most;
    model.max_branches = 20_000;
    model.check(body);
}

fn beside<T: 'static>(place: &Arc<Place>, act: impl FnOnce(&Place) -> T + 'static) -> thread::JoinHandle<T> {
    let place = place.clone();
    thread::spawn(move || act(&place))
}

#[test]
fn runs_of_two_lengths_are_taken_and_freed_beside_each_other() {
    // 16 units: two levels, so that the one splits what the other wants whole.
    check(1, || {
        let place = Place::new(16 * GRANULE);
        let (a, b) = (place.join(1), place.join(2));
        let mut hand = place.heap().hand(a);
        place.prepare(&mut hand);
        let other = beside(&place, move |place| {
            let mut hand = place.heap().hand(b);
            let block = place.alloc(&mut hand, GRANULE * 16);
            block.into_iter().for_each(|block| place.free(&mut hand, block));
        });
        let block = place.alloc(&mut hand, GRANULE * 2);
        block.into_iter().for_each(|block| place.free(&mut hand, block));
        other.join().unwrap();
        place.at_rest(&mut hand);
    });
}

#[test]
fn a_block_is_freed_once() {
    check(3, || {
        let place = Place::new(16 * GRANULE);
        let (a, b) = (place.join(1), place.join(2));
        let mut hand = place.heap().hand(a);
        let id = hand.alloc(1, 0).unwrap().id;
        let other = beside(&place, move |place| place.heap().hand(b).free(id).is_ok());
        assert!(hand.free(id).is_ok() != other.join().unwrap());
        place.at_rest(&mut hand);
    });
}

#[test]
fn a_span_that_is_closed_is_not_used_any_more() {
    // Spans of four granules; the other hand wants all, so it closes the span in between.
    check_for(Some(Duration::from_secs(20)), 2, || {
        let place = Place::new(16 * GRANULE);
        let (a, b) = (place.join(1), place.join(2));
        let mut hand = place.heap().hand(a);
        place.prepare(&mut hand);
        let first = place.alloc(&mut hand, 1).unwrap();
        place.free(&mut hand, first);
        let other = beside(&place, move |place| {
            let mut hand = place.heap().hand(b);
            let block = place.alloc(&mut hand, GRANULE * 16);
            block.into_iter().for_each(|block| place.free(&mut hand, block));
        });
        let block = place.alloc(&mut hand, 1);
        other.join().unwrap();
        block.into_iter().for_each(|block| place.free(&mut hand, block));
        place.at_rest(&mut hand);
    });
}

#[test]
fn what_a_dead_member_held_is_given_back_beside_others() {
    check(2, || {
        let place = Place::new(16 * GRANULE);
        let (a, dead, b) = (place.join(1), place.join(2), place.join(3));
        let mut theirs = place.heap().hand(dead);
        let block = place.alloc(&mut theirs, GRANULE * 8).unwrap();
        // Its block is freed by somebody else while it is buried.
        let other = beside(&place, move |place| {
            let mut hand = place.heap().hand(b);
            hand.free(block.id).is_ok()
        });
        let buried = place.heap().bury(dead, a.number, Keep::Nothing).unwrap();
        assert!((buried.freed == 1) != other.join().unwrap());
        place.at_rest(&mut place.heap().hand(a));
    });
}

/// A block that is freed, and whose entry is the next one's, while somebody looks at it.
fn look_beside_the_end(len: u64, next: u64) {
    check(2, move || {
        let place = Place::new(16 * GRANULE);
        let mut hand = place.heap().hand(place.join(1));
        place.prepare(&mut hand);
        let block = hand.alloc(len, 7).unwrap();
        let other = beside(&place, move |place| place.heap().block(block.id));
        hand.free(block.id).unwrap();
        assert!(hand.alloc(next, 5).unwrap().id.is_at(block.id), "the same entry");
        let seen = other.join().unwrap();
        assert!(seen.is_err() || seen == Ok(block), "{seen:?}");
    });
}

#[test]
fn who_looks_at_a_small_block_beside_its_end_is_not_told_of_the_next_one() {
    look_beside_the_end(1, 2);
}

#[test]
fn who_looks_at_a_long_block_beside_its_end_is_not_told_of_the_next_one() {
    look_beside_the_end(GRANULE * 8, GRANULE * 16);
}

#[test]
fn a_block_is_there_while_it_changes_hands() {
    check(3, || {
        let place = Place::new(16 * GRANULE);
        let (a, b) = (place.join(1), place.join(2));
        let block = place.heap().hand(a).alloc(GRANULE * 8, 0).unwrap();
        let other = beside(&place, move |place| (place.heap().block(block.id), place.heap().blocks().count()));
        place.heap().hand(b).own(block.id).unwrap();
        let (seen, listed) = other.join().unwrap();
        assert_eq!((seen.map(|seen| (seen.offset, seen.size)), listed), (Ok((block.offset, block.size)), 1));
    });
}

#[test]
fn a_block_that_gets_another_id_goes_with_its_dead_owner() {
    check(3, || {
        let place = Place::new(16 * GRANULE);
        let (a, dead, b) = (place.join(1), place.join(2), place.join(3));
        let block = place.heap().hand(dead).alloc(GRANULE * 8, 0).unwrap();
        let other = beside(&place, move |place| _ = place.heap().hand(b).rename(block.id));
        assert_eq!(place.heap().bury(dead, a.number, Keep::Nothing).map(|buried| buried.freed), Ok(1));
        other.join().unwrap();
        assert_eq!(place.heap().blocks().count(), 0);
        place.at_rest(&mut place.heap().hand(a));
    });
}
