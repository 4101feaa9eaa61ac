//! The shared cache in crafted states.
//!
//! A few instructions of one process, or many calls in an awkward order, leave them behind. Moments at which a process
//! dies are written into the words as it would leave them: `layout.rs` says where they lie.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::panic::{self, AssertUnwindSafe};
use std::thread;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::{Found, State};
use umbra_core::cell::BytesMut;
use umbra_core::shared_cache::{
    AllocError, Blocked, Cache, Contract, Forgetful, FreeError, Identity, ReclaimError, Sharing, SlotCache, Stack,
    words_for,
};
use umbra_core::shared_slots::Owner;

/// The hand of the eviction.
const HAND: usize = 16;
const HEADER: usize = 32;
/// Words of an owner's record.
const OWNER: usize = 16;
/// States of a place: an owner has it to himself, whose number is in the middle of the word; nobody fills it; it has no slot; it
/// gets the slot of the place whose number is in the lowest bits.
const CLAIMED: u64 = 1 << 61;
const ABANDONED: u64 = 3 << 61;
const BARE: u64 = 5 << 61;
const MOVING: u64 = 6 << 61;
const STATE: u64 = 7 << 61;
/// The number of an owner in the word of a place.
const BY: u32 = 40;
/// The number and one of whoever has a line to himself, in the second of its words.
const LOCK: u32 = 59;

fn with_words<R>(slots: usize, sharing: Sharing, body: impl FnOnce(&[AtomicU64]) -> R) -> R {
    let mut memory = vec![0; words_for(slots, sharing).unwrap()];
    let count = memory.len();
    body(BytesMut::from_words(&mut memory).words(0, count).unwrap())
}

fn sharing(owners: u8) -> Sharing {
    Sharing::new(owners, 3).unwrap()
}

/// The lines of the index.
fn lines(words: &[AtomicU64], slots: usize, owners: u8) -> &[[AtomicU64; 8]] {
    let first = HEADER + OWNER * usize::from(owners);
    let count = (9 * slots).div_ceil(16).next_multiple_of(8);
    words[first..first + 8 * count].as_chunks().0
}

/// Word and data of each place.
fn places(lines: &[[AtomicU64; 8]]) -> impl Iterator<Item = [&AtomicU64; 2]> {
    lines.iter().flat_map(|line| line[2..5].iter().zip(&line[5..8])).map(|(word, data)| [word, data])
}

/// Ids that belong into a line.
fn of_home<C: Contract>(cache: &SlotCache<'_, C>, home: usize) -> impl Iterator<Item = u64> {
    (2..).filter(move |&data| cache.home(data).0 == home)
}

fn identity(life: u32) -> Identity {
    Identity::new(life + 1, u64::from(life))
}

/// The record of an owner, with the mark of whoever takes back what he held.
fn marked(pid: u64, start: u64, by: Owner) -> u64 {
    1 << 63 | (pid << 31 | start) << 10 | u64::from(by.number() + 1)
}

#[test]
fn who_was_killed_while_it_left_is_reclaimed_by_another() {
    with_words(3, sharing(3), |words| {
        let cache = Cache::create(words, 3, sharing(3), 1).unwrap();
        let (other, dead) = (cache.join(identity(0)).unwrap(), cache.join(identity(1)).unwrap());
        dead.alloc(7).unwrap();
        let record = &words[HEADER + OWNER * usize::from(dead.owner().number())];
        record.store(marked(2, 1, dead.owner()), Ordering::Relaxed);

        assert!(matches!(dead.leave(), Err(ReclaimError::InProgress { .. })), "one leave at a time");
        assert!(other.reclaim(dead.owner(), identity(2), |_, _| ()).is_err(), "not in the name of another life");
        let mut told = vec![];
        let reclaimed = other.reclaim(dead.owner(), identity(1), |_, data| told.push(data)).unwrap();
        assert_eq!((reclaimed.references, told), (1, vec![7]));
        assert_eq!(cache.members().count(), 1);

        // Whoever another owner is burying is that one's to bury.
        let dead = cache.join(identity(3)).unwrap();
        let third = cache.join(identity(4)).unwrap();
        record.store(marked(4, 3, third.owner()), Ordering::Relaxed);
        let in_progress = ReclaimError::InProgress { by: third.owner().number() };
        assert_eq!(other.reclaim(dead.owner(), identity(3), |_, _| ()), Err(in_progress));
    });
}

#[test]
fn slots_that_are_filled_again_in_place_do_not_hide_the_empty_ones() {
    const SLOTS: u64 = 1000;
    with_words(SLOTS as usize, sharing(1), |words| {
        let stack = Stack::create(words, SLOTS as usize, sharing(1), 1).unwrap();
        let client = stack.join(identity(0)).unwrap();
        (0..SLOTS).for_each(|data| assert!(client.alloc(data).is_ok()));
        (0..SLOTS).for_each(|data| assert!(client.free(data).is_ok()));
        (0..600).for_each(|data| assert!(client.alloc(data).is_ok()));
        assert_eq!(stack.empty(), 400);
        for data in 5000..5400 {
            assert_eq!(client.alloc(data).map(|grant| grant.found), Ok(Found::Empty), "data {data}");
        }
        assert_eq!(client.alloc(5400), Err(AllocError::Full { slots: SLOTS as u32 }));
    });
    with_words(SLOTS as usize, sharing(1), |words| {
        let cache = Forgetful::create(words, SLOTS as usize, sharing(1), 1).unwrap();
        let client = cache.join(identity(0)).unwrap();
        for data in 0..SLOTS {
            client.alloc(data).unwrap();
            client.remember(data).unwrap();
            client.free(data).unwrap();
        }
        (0..600).for_each(|data| assert_eq!(client.forget(data), Ok(true)));
        (0..300).for_each(|data| assert!(client.alloc(data).is_ok()));
        (5000..5300).for_each(|data| assert!(client.alloc(data).is_ok()));
        assert_eq!((cache.empty(), cache.statistics().evictions), (0, 0));
        assert!(client.alloc(5300).is_ok());
        assert_eq!(cache.statistics().evictions, 1);
    });
}

#[test]
fn an_empty_slot_is_found_behind_any_number_of_wrong_hints() {
    const SLOTS: usize = 1000;
    with_words(SLOTS, sharing(1), |words| {
        let client = Stack::create(words, SLOTS, sharing(1), 1).unwrap().join(identity(0)).unwrap();
        (1..SLOTS as u64).for_each(|data| assert!(client.alloc(data).is_ok()));
        // Hints lie behind everything else: a bit a place, and a bit for each word of those.
        let places = places(lines(words, SLOTS, 1)).count();
        let hints = &words[words.len() - places.div_ceil(64) - 1..];
        hints.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        assert!(client.alloc(5000).is_ok());
        assert_eq!(client.alloc(5001), Err(AllocError::Full { slots: SLOTS as u32 }));
    });
}

#[test]
fn one_that_shares_the_hand_with_others_finds_the_only_idle_slot() {
    const SLOTS: usize = 64;
    const ROUNDS: u64 = if cfg!(miri) { 5 } else { 20_000 };
    with_words(SLOTS, sharing(1), |words| {
        let client = Cache::create(words, SLOTS, sharing(1), 1).unwrap().join(identity(0)).unwrap();
        (0..SLOTS as u64).for_each(|data| assert!(client.alloc(data).is_ok()));
        client.remember(40).unwrap();
        client.free(40).unwrap();
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            // What others do who look for a slot, and find none.
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) == 0 {
                    words[HAND].fetch_add(1, Ordering::Relaxed);
                }
            });
            // No panic here: the other thread would go on for ever.
            let use_once =
                |data| client.alloc(data).is_ok() && client.remember(data).is_ok() && client.free(data).is_ok();
            let refused = (1000..1000 + ROUNDS).find(|&data| !use_once(data));
            done.store(1, Ordering::Relaxed);
            assert_eq!(refused, None);
        });
    });
}

#[test]
fn a_burial_waits_for_nobody_and_gives_lines_back() {
    const SLOTS: usize = 3;
    with_words(SLOTS, sharing(2), |words| {
        let cache = Cache::create(words, SLOTS, sharing(2), 1).unwrap();
        let (dead, other) = (cache.join(identity(0)).unwrap(), cache.join(identity(1)).unwrap());
        dead.alloc(1).unwrap();
        dead.alloc(1).unwrap();
        dead.alloc(2).unwrap();
        assert_eq!(cache.empty(), 1);
        // It died when it had the last slot and a line to itself, and a third has all other lines.
        let lines = lines(words, SLOTS, 2);
        let [last, _] = places(lines).find(|[word, _]| word.load(Ordering::Relaxed) == 0).unwrap();
        last.store(CLAIMED | u64::from(dead.owner().number()) << BY, Ordering::Relaxed);
        let third = 9_u64;
        let had =
            |owner: u64| move |[_, head, ..]: &[AtomicU64; 8]| head.fetch_or((owner + 1) << LOCK, Ordering::Relaxed);
        lines[..1].iter().for_each(|line| _ = had(dead.owner().number().into())(line));
        lines[1..].iter().for_each(|line| _ = had(third)(line));

        let mut told = vec![];
        let all = other.reclaim(dead.owner(), identity(0), |_, data| told.push(data)).unwrap();
        told.sort_unstable();
        assert_eq!((all.references, all.fills, all.emptied, told), (3, 2, 3, vec![1, 2]));
        assert_eq!(cache.empty(), 3);
        // Ids of every line: only that of the dead one is free, and the third is named to those who need his.
        let outcomes: Vec<_> = (16..32).map(|data| other.alloc(data)).collect();
        let busy = AllocError::Blocked { why: Blocked::Busy { owner: third as u8 } };
        assert_eq!(outcomes.iter().filter(|&outcome| outcome == &Err(busy)).count(), 14);
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 2);
    });
}

/// What one that died left of a move, and of the burial by another that died too.
struct Left {
    /// Stores of the move.
    steps: usize,
    /// Somebody else had begun to give the first place up.
    forgotten: bool,
    /// Somebody else had buried what stands before the second place.
    buried: bool,
}

#[test]
fn a_slot_that_was_moved_when_its_claimant_died_is_in_one_place() {
    for steps in 0..=6 {
        for (forgotten, buried) in [(false, false), (true, false), (false, true), (true, true)] {
            is_buried(&Left { steps, forgotten, buried });
        }
    }
}

fn is_buried(Left { steps, forgotten, buried }: &Left) {
    const SLOTS: usize = 3;
    const NIL: u64 = 0xffff_ffff;
    with_words(SLOTS, sharing(3), |words| {
        let cache = Cache::create(words, SLOTS, sharing(3), 1).unwrap();
        let [dead, second, other] = [0, 1, 2].map(|life| cache.join(identity(life)).unwrap());
        let [first_home, second_home] =
            [0, 1].map(|home| of_home(&cache, home).find(|&data| cache.home(data).1 == 0).unwrap());
        let lines = lines(words, SLOTS, 3);
        // Also, the dead one fills a slot between the two places.
        dead.alloc(second_home).unwrap();
        let by = u64::from(dead.owner().number()) << BY;
        // From the first place of a line to the second of the next; each has its slot in one half of a word.
        let ([from, _, source, _, _, key, ..], [to, _, _, target, ..]) = (&lines[0], &lines[1]);
        let before = [from, source, target, to].map(|word| word.load(Ordering::Relaxed));
        assert_eq!(before, [NIL << 32, 0, BARE, NIL << 32 | 1]);
        let elsewhere = u64::from(cache.home(0).0 == 0);
        source.store(CLAIMED | by, Ordering::Relaxed);
        key.store(if *forgotten { elsewhere } else { first_home }, Ordering::Relaxed);
        let moves: [&dyn Fn(); 6] = [
            &|| target.store(MOVING | by, Ordering::Relaxed),
            &|| _ = to.fetch_and(NIL, Ordering::Relaxed),
            &|| _ = from.fetch_or(NIL, Ordering::Relaxed),
            &|| target.store(CLAIMED | by, Ordering::Relaxed),
            &|| key.store(elsewhere, Ordering::Relaxed),
            &|| source.store(BARE, Ordering::Relaxed),
        ];
        moves.iter().take(*steps).for_each(|step| step());
        if *buried {
            let dies = |_, _| panic::resume_unwind(Box::new(()));
            let burial = AssertUnwindSafe(|| second.reclaim(dead.owner(), identity(0), dies));
            assert!(panic::catch_unwind(burial).is_err(), "it dies when it is told of the fill");
            other.reclaim(second.owner(), identity(1), |_, _| ()).unwrap();
        }
        let mut told = vec![];
        let all = other.reclaim(dead.owner(), identity(0), |slot, data| told.push((slot, data))).unwrap();
        // Half of it was told to the one who died over it.
        let fills = if *buried { vec![] } else { vec![(1, second_home)] };
        assert_eq!((all.fills, told, cache.empty()), (fills.len() as u64, fills, 3), "after {steps} steps");
        if !buried {
            assert_eq!((all.references, all.emptied), (1, 2), "after {steps} steps");
        }
        for (number, [word, data]) in places(lines).enumerate() {
            if word.load(Ordering::Relaxed) & STATE != ABANDONED {
                let (home, _) = cache.home(data.load(Ordering::Relaxed));
                assert_ne!(home, number / 3, "after {steps} steps nobody stops at place {number}");
            }
        }
        let mut slots: Vec<u32> = (0..3).map(|data| other.alloc(data).unwrap().slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2], "after {steps} steps");
        assert_eq!(other.alloc(3), Err(AllocError::Full { slots: 3 }));
    });
}

#[test]
fn a_slot_at_home_moves_to_the_place_where_its_data_is_looked_for_first() {
    const NIL: u64 = 0xffff_ffff;
    for first in 0..3 {
        with_words(3, sharing(1), |words| {
            let cache = Cache::create(words, 3, sharing(1), 1).unwrap();
            let client = cache.join(identity(0)).unwrap();
            // The slot of the first line is in its second place, and the others are bare.
            let line = &lines(words, 3, 1)[0];
            let store = |at: usize, word| line[at].store(word, Ordering::Relaxed);
            [(0, NIL), (2, BARE), (3, 0)].iter().for_each(|&(at, word)| store(at, word));
            let data = of_home(&cache, 0).find(|&data| cache.home(data).1 == first).unwrap();
            assert_eq!(client.alloc(data).map(|grant| grant.slot), Ok(0));
            let word = |at: usize| line[at].load(Ordering::Relaxed);
            for at in 0..3 {
                assert_eq!(word(2 + at) & STATE == BARE, at != first, "first {first}, place {at}");
            }
            assert_eq!(word(5 + first), data);
            let slots = [word(0) & NIL, word(0) >> 32, word(1) & NIL];
            assert_eq!(slots, [0, 1, 2].map(|at| if at == first { 0 } else { NIL }), "first {first}");
            // Once it is taken, the next one that is looked for there has another place.
            let next = of_home(&cache, 0).filter(|&data| cache.home(data).1 == first).nth(1).unwrap();
            assert!(client.alloc(next).is_ok());
            assert_eq!((word(5 + first), client.references(next)), (data, Ok(1)));
        });
    }
}

#[test]
fn data_far_from_home_is_back_when_the_one_who_died_with_its_home_is_buried() {
    const SLOTS: usize = 40;
    with_words(SLOTS, sharing(2), |words| {
        let cache = Cache::create(words, SLOTS, sharing(2), 1).unwrap();
        let (dead, client) = (cache.join(identity(0)).unwrap(), cache.join(identity(1)).unwrap());
        let ids: Vec<u64> = of_home(&cache, 0).take(SLOTS).collect();
        let pins: Vec<_> = ids.iter().map(|&data| client.pin(data).unwrap()).collect();
        ids.iter().for_each(|&data| client.remember(data).unwrap());
        lines(words, SLOTS, 2)[0][1].fetch_or((u64::from(dead.owner().number()) + 1) << LOCK, Ordering::Relaxed);

        let busy = Blocked::Busy { owner: dead.owner().number() };
        let near: Vec<u64> = ids.iter().copied().filter(|&data| client.alloc(data).is_ok()).collect();
        assert!((18..=27).contains(&near.len()), "eight lines beyond the home: {}", near.len());
        for &data in &ids {
            let expected = if near.contains(&data) { Ok(()) } else { Err(FreeError::Blocked { why: busy }) };
            assert_eq!(client.free(data), expected);
        }
        // Who knows the place need not look for it.
        for pin in pins {
            assert_eq!(client.free_pin(pin), Ok(()));
        }
        client.reclaim(dead.owner(), identity(0), |_, _| ()).unwrap();
        for &data in &ids {
            assert_eq!(client.alloc(data).map(|grant| (grant.found, grant.mine)), Ok((Found::Remembered, 1)));
        }
    });
}

#[test]
fn a_pin_of_another_cache_gives_nothing_back() {
    with_words(1, sharing(1), |words| {
        let client = Cache::create(words, 1, sharing(1), 1).unwrap().join(identity(0)).unwrap();
        client.alloc(6).unwrap();
        let foreign = with_words(1, sharing(1), |words| {
            Cache::create(words, 1, sharing(1), 1).unwrap().join(identity(0)).unwrap().pin(5).unwrap()
        });
        assert_eq!(client.free_pin(foreign), Err(FreeError::NotAssigned { data: 5 }));
        assert_eq!(client.references(6), Ok(1));
    });
}

#[test]
fn counts_that_nobody_wrote_are_added_up_as_far_as_they_fit() {
    let widest = Sharing::new(1, u32::MAX).unwrap();
    with_words(1, widest, |words| {
        let client = Cache::create(words, 1, widest, 1).unwrap().join(identity(0)).unwrap();
        // Not 0 or 1, which places without data have.
        client.alloc(5).unwrap();
        client.remember(5).unwrap();
        let [word, _] = places(lines(words, 1, 1)).find(|[_, data]| data.load(Ordering::Relaxed) == 5).unwrap();
        word.fetch_or((1 << BY) - 1, Ordering::Relaxed);
        assert_eq!((client.references(5), client.state(5)), (Ok(u32::MAX), Ok(Some(State::InUse))));
    });
}

#[test]
fn a_mark_gives_back_a_reference_of_this_process_to_this_data_and_nothing_else() {
    with_words(2, sharing(2), |words| {
        let cache = Cache::create(words, 2, sharing(2), 7).unwrap();
        let a = cache.join(Identity::new(1, 0)).unwrap();
        let b = cache.join(Identity::new(2, 0)).unwrap();
        let mark = a.alloc(5).unwrap().mark();
        a.remember(5).unwrap();
        let other = b.alloc(6).unwrap().mark();
        let no_line = mark | 0xffff_ffff;
        let made_up = [
            0,
            mark & !(1 << 48),
            mark | 1 << 46,
            mark | 1 << 47,
            mark | 1 << 49,
            mark ^ 1 << 32,
            no_line,
            u64::MAX,
            other,
        ];
        // There are three places in each line.
        let no_places = (3..8).map(|at| mark & !7 | at);
        for made_up in made_up.into_iter().chain(no_places) {
            assert_eq!(a.free_marked(5, made_up), Err(FreeError::NotAssigned { data: 5 }), "{made_up:x}");
        }
        assert!(a.free_marked(6, mark).is_err(), "other data");
        assert!(a.free_marked(6, other).is_err(), "the reference of another process");
        assert!(b.free_marked(5, mark).is_err(), "the reference of another process");
        assert_eq!((a.references(5), a.references(6)), (Ok(1), Ok(1)));

        assert_eq!(a.free_marked(5, mark), Ok(()));
        assert_eq!(a.free_marked(5, mark), Err(FreeError::NotAssigned { data: 5 }), "once");
        b.remember(6).unwrap();
        b.free(6).unwrap();
        // Other data gets both slots, and then the first data one again.
        for data in [8, 9, 5] {
            a.alloc(data).unwrap();
            a.remember(data).unwrap();
            if data != 5 {
                a.free(data).unwrap();
            }
        }
        assert_eq!(a.free_marked(5, mark), Err(FreeError::NotAssigned { data: 5 }), "it was assigned anew");
        cache.interrupt();
        assert_eq!(a.free_marked(5, mark), Err(FreeError::Interrupted));
    });
}

#[test]
fn bits_above_the_generation_make_no_mark_of_content_that_leaves() {
    with_words(2, sharing(2), |words| {
        let client = Forgetful::create(words, 2, sharing(2), 7).unwrap().join(identity(0)).unwrap();
        let mark = client.alloc(5).unwrap().mark();
        client.remember(5).unwrap();
        assert_eq!(client.forget_later(5), Ok(true));
        for above in [1 << 46, 1 << 47, 3 << 46] {
            assert_eq!(client.free_marked(5, mark | above), Err(FreeError::NotAssigned { data: 5 }), "{above:x}");
        }
        assert_eq!((client.free_marked(5, mark), client.state(5)), (Ok(()), Ok(None)));
    });
}
