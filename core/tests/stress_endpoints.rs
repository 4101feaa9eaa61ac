//! Readers that never stop while groups are retired and re-created.
//!
//! A re-created group has the id of the one before it, and other members.
#![allow(clippy::unwrap_used, missing_docs)]

mod oracle;

use std::sync::atomic::{AtomicBool, AtomicU64 as Count, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oracle::{Oracle, entry, table_bytes, world};
use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{Endpoint, Endpoints, LookupError, Reader, Table};
use umbra_core::id::{Generation, Id};
use umbra_core::memory::Block;
use umbra_core::peer::Rank;
use umbra_core::placement::Placement;

/// How often a group is re-created; small, for the sanitizer's and the interpreter's sake.
const ROUNDS: u32 = if cfg!(miri) { 20 } else { 4_000 };

#[test]
fn s30_every_answer_is_of_exactly_one_generation() {
    let job = Placement::one_dpu_a_host(4, 2, 1).unwrap();
    let block = world(&job, &[8; 4], false);
    // Four memberships of different size and form; generation g of the slot holds membership g % 4.
    let groups = [
        block.clone(),
        world(&job, &[3; 4], true),
        [31, 24, 30, 7, 2, 26, 25, 0].into_iter().map(|rank: usize| block[rank].clone()).collect(),
        vec![entry(9, 1, &[3]), entry(4, 3, &[6]), entry(5, 3, &[7])],
    ];
    let tables: Vec<Vec<u8>> = groups.iter().map(|entries| table_bytes(entries, 2, 5)).collect();
    let tables: Vec<_> = tables.iter().map(|bytes| Table::attach(bytes).unwrap()).collect();
    let oracles = groups.map(|entries| Oracle { entries, per_dpu: 2 });

    let words: Vec<_> =
        (0..Endpoints::<&[AtomicU64], [Block; 3]>::words_needed(1, 1024)).map(|_| AtomicU64::new(0)).collect();
    let mut endpoints = Endpoints::create(&words[..], [Block::default(); 3], 1).unwrap();
    let (done, answers, stale) = (AtomicBool::new(false), Count::new(0), Count::new(0));
    thread::scope(|scope| {
        for seed in 1..3_u32 {
            let (words, tables, oracles) = (&words, &tables, &oracles);
            let (done, answers, stale) = (&done, &answers, &stale);
            scope.spawn(move || {
                let reader = Reader::attach(words).unwrap();
                let mut pick = seed;
                while !done.load(Ordering::Relaxed) {
                    let Some(handle) = reader.current(0) else { continue };
                    let which = handle.generation().0 as usize % 4;
                    pick = pick.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let rank = Rank((pick >> 16) % tables[which].size());
                    match reader.lookup(handle, rank) {
                        Ok(found) => {
                            assert_eq!(Ok(found), tables[which].endpoint(rank));
                            answers.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(LookupError::StaleGeneration) => _ = stale.fetch_add(1, Ordering::Relaxed),
                        Err(error) => panic!("{error}"),
                    }
                    let mut found = [Endpoint::default(); 2];
                    match reader.lookup_all(handle, &[rank, Rank(0)], &mut found) {
                        Ok(count) => {
                            assert_eq!((count, found.map(Ok)), (2, [rank, Rank(0)].map(|r| tables[which].endpoint(r))))
                        }
                        Err(error) => assert_eq!(error, LookupError::StaleGeneration),
                    }
                    let entry = reader.ask(handle, |table| table.entry(rank));
                    if entry != Err(LookupError::StaleGeneration) {
                        assert_eq!(entry.as_ref(), Ok(&oracles[which].entries[rank.index()]));
                    }
                    match reader.find(tables[which].key()) {
                        Ok(found) => assert_eq!(found.generation().0 as usize % 4, which),
                        Err(error) => assert_eq!(error, LookupError::UnknownGroup),
                    }
                }
            });
        }
        for generation in 1..=ROUNDS {
            let handle = endpoints.publish(&tables[generation as usize % 4], None).unwrap();
            assert_eq!(handle, Id::new(0, Generation(generation)));
            if generation % 16 == 0 {
                thread::yield_now();
            }
            endpoints.retire(handle).unwrap();
        }
        // Somebody must have seen something, however the threads were scheduled.
        endpoints.publish(&tables[(ROUNDS as usize + 1) % 4], None).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while answers.load(Ordering::Relaxed) == 0 && Instant::now() < deadline {
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(answers.into_inner() > 0);
}
