//! Look-ups while another group replaces a retired one: every interleaving.
//!
//! The other group takes its slot and its space. Reading with a closure follows the same protocol with many more loads,
//! too many for a model; the stress test has it.
#![cfg(loom)]
#![allow(clippy::unwrap_used, missing_docs)]

mod interleavings;
mod oracle;

use interleavings::bounded;
use loom::thread;
use oracle::{entry, table_bytes};
use std::sync::Arc;
use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{Endpoint, Endpoints, LookupError, Reader, Table};
use umbra_core::id::{Generation, Id};
use umbra_core::memory::Block;
use umbra_core::peer::Rank;

type Arena = Endpoints<Arc<[AtomicU64]>, [Block; 5]>;

/// Two groups of two ranks; the first is arithmetic if `affine`, the second never is.
fn tables(affine: bool) -> [Vec<u8>; 2] {
    let first = [entry(1, 0, &[0]), entry(2, if affine { 0 } else { 1 }, &[1])];
    [table_bytes(&first, if affine { 2 } else { 1 }, 1), table_bytes(&[entry(9, 1, &[5]), entry(7, 1, &[2])], 3, 1)]
}

fn arena(slots: u32, table_bytes: usize) -> (Arena, Arc<[AtomicU64]>) {
    let words: Arc<[AtomicU64]> =
        (0..Arena::words_needed(slots, table_bytes)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().into();
    (Endpoints::create(words.clone(), [Block::default(); 5], slots).unwrap(), words)
}

/// Checks every interleaving with at most this many switches between threads that could go on.
fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = bounded(preemptions);
    model.max_branches = 100_000;
    model.check(f);
}

fn retired_under_a_look_up(affine: bool) {
    model(3, move || {
        let tables = tables(affine);
        let [a, b] = tables.each_ref().map(|bytes| Table::attach(bytes).unwrap());
        let (mut endpoints, words) = arena(1, 256);
        let first = endpoints.publish(&a, None).unwrap();
        let second = Id::new(0, Generation(2));
        let (old, new) = (a.endpoint(Rank(1)).unwrap(), b.endpoint(Rank(1)).unwrap());
        let both = [Rank(1), Rank(0)].map(|rank| b.endpoint(rank).unwrap());
        let reader = thread::spawn(move || {
            let reader = Reader::attach(&words).unwrap();
            match reader.lookup(first, Rank(1)) {
                Ok(found) => assert_eq!(found, old, "half of one generation, half of another"),
                Err(error) => assert_eq!(error, LookupError::StaleGeneration),
            }
            let mut found = [Endpoint::default(); 2];
            match reader.lookup_all(second, &[Rank(1), Rank(0)], &mut found) {
                Ok(count) => assert_eq!((count, found), (2, both), "half of one generation, half of another"),
                Err(error) => assert_eq!(error, LookupError::StaleGeneration),
            }
            match reader.lookup(second, Rank(1)) {
                Ok(found) => assert_eq!(found, new, "the table was not complete"),
                Err(error) => assert_eq!(error, LookupError::StaleGeneration),
            }
        });
        endpoints.retire(first).unwrap();
        assert_eq!(endpoints.publish(&b, None), Ok(second));
        reader.join().unwrap();
    });
}

#[test]
fn s30_a_look_up_sees_one_generation_of_arrays_or_none() {
    retired_under_a_look_up(false);
}

#[test]
fn s30_a_look_up_sees_one_generation_of_arithmetic_or_none() {
    retired_under_a_look_up(true);
}

#[test]
fn a_group_that_stays_is_found_while_another_comes_and_goes() {
    model(3, || {
        // Two groups with one home among the four cells of the index: when the first goes, the second moves.
        let tables = [1, 2, 3, 4, 5, 6, 7, 8].map(|id| table_bytes(&[entry(id, 0, &[0])], 1, id));
        let tables = tables.each_ref().map(|bytes| Table::attach(bytes).unwrap());
        let [a, rest @ ..] = &tables;
        let b = rest.iter().find(|b| b.key().0 % 4 == a.key().0 % 4).unwrap();
        let key = b.key();
        let (mut endpoints, words) = arena(2, 512);
        let goes = endpoints.publish(a, None).unwrap();
        let stays = endpoints.publish(b, None).unwrap();
        let reader = thread::spawn(move || {
            let reader = Reader::attach(&words).unwrap();
            assert_eq!(reader.find(key), Ok(stays));
        });
        endpoints.retire(goes).unwrap();
        reader.join().unwrap();
    });
}
