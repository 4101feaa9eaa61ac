//! The cached memory in scenarios: runs, groups, turns, bounded work.
#![allow(clippy::unwrap_used, missing_docs)]

use umbra_core::cache::{Dense, ForgetError, Found, FreeError, Line, Slot, Sparse};
use umbra_core::cached_memory::{
    CachedMemory, Lent, LentTooLittle, LineFull, Member, PlaceError, Run, SEEDS, VIEW, bits_needed, records_needed,
};
use umbra_core::memory::{Block, Granule};

type Cached = CachedMemory<Vec<Block>, Vec<Slot>, Vec<Run>, Vec<u32>, Vec<u64>, Sparse<Vec<Line>, Vec<u64>>>;

/// Bytes as granules, so that offsets can be read.
fn cached(places: usize, capacity: u64) -> Cached {
    let records = records_needed(places);
    let lent = Lent {
        blocks: vec![Block::default(); records],
        slots: vec![Slot::EMPTY; records],
        runs: vec![Run::EMPTY; records + 1],
        starts: vec![0; capacity as usize],
        bits: vec![0; bits_needed(capacity, Granule::BYTE)],
    };
    let index = Sparse::new(vec![Line::EMPTY; Line::for_ids(places)], vec![0; records], 1);
    CachedMemory::new(lent, index, capacity, Granule::BYTE).unwrap()
}

/// Loads data and leaves it idle.
fn idle(memory: &mut Cached, data: u64, len: u64) -> u64 {
    let place = memory.alloc(data, len).unwrap();
    if place.found == Found::Empty {
        memory.remember(data).unwrap();
    }
    memory.free(data).unwrap();
    place.offset
}

fn group(wishes: &[(u64, u64)]) -> Vec<Member> {
    wishes.iter().map(|&(data, len)| Member::new(data, len)).collect()
}

fn offsets(members: &[Member]) -> Vec<u64> {
    members.iter().map(|member| member.place().unwrap().offset).collect()
}

#[test]
fn t12_three_clients_and_a_content_that_is_forgotten_at_last() {
    let mut memory = cached(8, 100);
    assert_eq!(memory.alloc(1, 10).unwrap().found, Found::Empty);
    assert_eq!(memory.alloc(1, 10).unwrap().found, Found::Assigned);
    memory.remember(1).unwrap();
    let third = memory.alloc(1, 10).unwrap();
    assert_eq!((third.found, third.references), (Found::Remembered, 3));
    memory.free(1).unwrap();
    memory.free(1).unwrap();
    assert_eq!(memory.forget(1), Err(ForgetError::InUse { data: 1, references: 1 }));
    memory.free(1).unwrap();
    assert_eq!(memory.free(1), Err(FreeError::NotInUse { data: 1 }));
    assert_eq!(memory.forget(1), Ok(true));
    assert_eq!(memory.forget(1), Ok(false));
    assert_eq!(memory.free(1), Err(FreeError::NotAssigned { data: 1 }));
}

#[test]
fn t83_data_has_one_length() {
    let mut memory = cached(8, 100);
    idle(&mut memory, 1, 10);
    assert_eq!(memory.alloc(1, 11), Err(PlaceError::SizeMismatch { data: 1, len: 11, have: 10 }));
    assert_eq!(memory.alloc(1, 10).unwrap().found, Found::Remembered);
}

#[test]
fn t83_what_no_eviction_can_place_evicts_nothing_and_the_free_that_makes_room_is_told() {
    let mut memory = cached(8, 100);
    let offsets: Vec<_> = [30, 20, 30].into_iter().zip(1..).map(|(len, data)| idle(&mut memory, data, len)).collect();
    assert_eq!(offsets, [0, 30, 50]);
    memory.alloc(2, 20).unwrap();
    assert_eq!(memory.alloc(4, 51), Err(PlaceError::Blocked { need: 51, longest: 50 }));
    assert_eq!(memory.idle(), 2, "both are still there");
    let turn = memory.line_up(&group(&[(4, 51)])).unwrap();
    assert_eq!(memory.next_turn(), None);
    assert_eq!(memory.alloc(5, 1), Err(PlaceError::OthersWait), "newcomers wait behind");
    assert_eq!(memory.alloc(1, 30).unwrap().found, Found::Remembered, "hits do not");
    memory.free(1).unwrap();
    assert_eq!(memory.next_turn(), None, "the run is still too short");
    memory.free(2).unwrap();
    assert_eq!(memory.next_turn(), Some(turn));
    memory.alloc_group(Some(turn), &mut group(&[(4, 51)])).unwrap();
    assert_eq!((memory.next_turn(), memory.leave_line(turn)), (None, false));
    assert_eq!(memory.alloc_group(Some(turn), &mut group(&[(6, 1)])), Err(PlaceError::NoTurn));
    assert!(memory.alloc(5, 1).is_ok());
}

/// A memory of idle data of these lengths, and data in use behind each: all of it is taken.
fn striped(idle_lens: &[u64]) -> Cached {
    let mut memory = cached(2 * idle_lens.len() + 2, idle_lens.iter().map(|len| len + 1).sum());
    for (&len, data) in idle_lens.iter().zip((0..).step_by(2)) {
        idle(&mut memory, data, len);
        memory.alloc(data + 1, 1).unwrap();
    }
    memory
}

#[test]
fn t83_a_run_that_is_long_enough_is_found_among_many_that_are_a_little_shorter() {
    let lens: Vec<u64> = [65].into_iter().chain([64; 40]).collect();
    let mut memory = striped(&lens);
    assert_eq!(memory.alloc(1000, 65).map(|place| place.offset), Ok(0));
    assert!(matches!(memory.alloc(1001, 65), Err(PlaceError::Blocked { need: 65, .. })));
}

#[test]
fn t84_a_group_finds_as_many_runs_as_it_has_members() {
    let mut memory = striped(&[2; 40]);
    let wishes: Vec<(u64, u64)> = (1000..1040).map(|data| (data, 2)).collect();
    let mut members = group(&wishes);
    memory.alloc_group(None, &mut members).unwrap();
    let mut found = offsets(&members);
    found.sort_unstable();
    assert_eq!(found, (0..40).map(|run| 3 * run).collect::<Vec<_>>());
    // All there was is in use: another group finds nothing, and has changed nothing.
    assert!(matches!(memory.alloc_group(None, &mut group(&[(2000, 1), (2001, 2)])), Err(PlaceError::Blocked { .. })));
    assert_eq!((memory.in_use(), memory.idle()), ((80, 120), 0));
}

#[test]
fn t84_a_group_waits_for_all_of_its_room_and_holds_nothing_meanwhile() {
    let mut memory = cached(8, 10);
    // Data 9 in use at [4, 6).
    idle(&mut memory, 8, 4);
    assert_eq!(memory.alloc(9, 2).unwrap().offset, 4);
    let mut both = group(&[(1, 2), (2, 5)]);
    assert_eq!(memory.alloc_group(None, &mut both), Err(PlaceError::Blocked { need: 5, longest: 4 }));
    assert!(both.iter().all(|member| member.place().is_none()));
    assert_eq!((memory.in_use(), memory.idle()), ((1, 2), 1), "nothing is held, nothing has left");
    let turn = memory.line_up(&both).unwrap();
    memory.free(9).unwrap();
    assert_eq!(memory.next_turn(), Some(turn));
    memory.alloc_group(Some(turn), &mut both).unwrap();
    assert_eq!(memory.in_use(), (2, 7));
    assert_eq!(memory.statistics().flushes, 0);
}

#[test]
fn t84_data_that_a_group_lists_twice_is_waited_for_once() {
    let mut memory = cached(8, 10);
    for (data, len) in [(1, 5), (2, 1)] {
        memory.alloc(data, len).unwrap();
    }
    let mut twice = group(&[(7, 5), (7, 5)]);
    assert!(matches!(memory.alloc_group(None, &mut twice), Err(PlaceError::Blocked { .. })));
    let turn = memory.line_up(&twice).unwrap();
    memory.free(1).unwrap();
    assert_eq!(memory.next_turn(), Some(turn), "beside data 2");
    memory.alloc_group(Some(turn), &mut twice).unwrap();
    assert_eq!(memory.in_use(), (2, 6));
}

#[test]
fn t84_who_becomes_the_first_is_told_as_those_before_may_have_brought_what_it_needs() {
    let mut memory = cached(8, 16);
    memory.alloc(1, 16).unwrap();
    let wish = || group(&[(7, 10)]);
    assert!(matches!(memory.alloc_group(None, &mut wish()), Err(PlaceError::Blocked { .. })));
    let first = memory.line_up(&wish()).unwrap();
    assert_eq!(memory.alloc_group(None, &mut wish()), Err(PlaceError::OthersWait));
    let second = memory.line_up(&wish()).unwrap();
    memory.free(1).unwrap();
    assert_eq!(memory.next_turn(), Some(first));
    memory.alloc_group(Some(first), &mut wish()).unwrap();
    assert_eq!(memory.next_turn(), Some(second));
    memory.alloc_group(Some(second), &mut wish()).unwrap();
    assert_eq!((memory.in_use(), memory.next_turn()), ((1, 10), None));
}

#[test]
fn t84_the_first_that_is_refused_again_waits_for_what_it_lacks_then() {
    let mut memory = cached(8, 16);
    memory.alloc(1, 16).unwrap();
    let both = || group(&[(7, 10), (8, 6)]);
    let first = memory.line_up(&group(&[(7, 10)])).unwrap();
    let before = memory.line_up(&group(&[(9, 2)])).unwrap();
    let turn = memory.line_up(&both()).unwrap();
    memory.free(1).unwrap();
    memory.alloc_group(Some(first), &mut group(&[(7, 10)])).unwrap();
    memory.alloc_group(Some(before), &mut group(&[(9, 2)])).unwrap();
    assert_eq!(memory.next_turn(), Some(turn));
    assert!(matches!(memory.alloc_group(Some(turn), &mut both()), Err(PlaceError::Blocked { need: 6, .. })));
    assert_eq!(memory.next_turn(), None, "nothing was given back since");
    memory.free(9).unwrap();
    assert_eq!(memory.next_turn(), Some(turn), "6 are enough beside data 7");
    memory.alloc_group(Some(turn), &mut both()).unwrap();
    assert_eq!(memory.in_use(), (2, 16));
}

#[test]
fn t84_what_a_group_has_already_leaves_if_it_is_in_the_way() {
    let mut memory = cached(8, 10);
    idle(&mut memory, 8, 4);
    assert_eq!(idle(&mut memory, 1, 2), 4);
    // Data 1 at [4, 6) is wanted, and leaves no room for 5 beside it.
    let mut both = group(&[(1, 2), (2, 5)]);
    memory.alloc_group(None, &mut both).unwrap();
    assert_eq!(offsets(&both), [5, 0], "the longest lies lowest");
    assert!(both.iter().all(|member| member.place().unwrap().found == Found::Empty));
    assert_eq!(memory.statistics().flushes, 1);
}

#[test]
fn t40_data_listed_twice_has_one_place_and_two_references() {
    let mut memory = cached(8, 10);
    let mut three = group(&[(1, 4), (1, 4), (2, 6)]);
    memory.alloc_group(None, &mut three).unwrap();
    let places: Vec<_> = three.iter().map(|member| member.place().unwrap()).collect();
    assert_eq!((places[0].found, places[1].found), (Found::Empty, Found::Assigned));
    assert_eq!((places[1].offset, places[1].references), (places[0].offset, 2));
    memory.free(1).unwrap();
    memory.free(1).unwrap();
    assert!(memory.free(1).is_err());
}

#[test]
fn t41_t43_a_group_of_none_is_placed_and_one_larger_than_the_memory_never() {
    let mut memory = cached(2, 10);
    assert_eq!(memory.alloc_group(None, &mut []), Ok(()));
    let too_large = PlaceError::TooLarge { need: 11, capacity: 10 };
    assert_eq!(memory.alloc_group(None, &mut group(&[(1, 5), (2, 6)])), Err(too_large));
    let too_many = PlaceError::TooMany { need: 3, places: 2 };
    assert_eq!(memory.alloc_group(None, &mut group(&[(1, 1), (2, 1), (3, 1)])), Err(too_many));
    let differs = PlaceError::SizeMismatch { data: 1, len: 2, have: 1 };
    assert_eq!(memory.alloc_group(None, &mut group(&[(1, 1), (2, 1), (1, 2)])), Err(differs));
    assert_eq!(memory.in_use(), (0, 0));
}

/// Numbers that look random, the same in every run.
fn random(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}

#[test]
fn t56_clients_with_groups_never_block_each_other_for_good_and_go_in_order() {
    const CLIENTS: usize = 6;
    let (mut memory, mut state) = (cached(64, 1000), 7);
    // What each client wants or has; and its turn while it waits.
    let mut groups: Vec<Vec<Member>> = vec![vec![]; CLIENTS];
    let mut turns = [None; CLIENTS];
    let mut has = [false; CLIENTS];
    let (mut served, mut waiting) = (0, std::collections::VecDeque::new());
    for _ in 0..20_000 {
        let client = random(&mut state, CLIENTS as u64) as usize;
        if has[client] {
            for member in groups[client].drain(..) {
                if random(&mut state, 8) > 0 {
                    // Whoever came first may have said so already.
                    let _ = memory.remember(member.data());
                }
                memory.free(member.data()).unwrap();
            }
            has[client] = false;
        } else if turns[client].is_none() {
            // Up to 5 of 40 data, which together fit the memory.
            let count = 1 + random(&mut state, 5);
            let data: Vec<_> = (0..count).map(|_| random(&mut state, 40)).collect();
            groups[client] = group(&data.iter().map(|&data| (data, 20 + data * 4)).collect::<Vec<_>>());
            match memory.alloc_group(None, &mut groups[client]) {
                Ok(()) => has[client] = true,
                Err(PlaceError::Blocked { .. } | PlaceError::NoPlace { .. } | PlaceError::OthersWait) => {
                    turns[client] = Some(memory.line_up(&groups[client]).unwrap());
                    waiting.push_back(client);
                }
                Err(error) => panic!("{error}"),
            }
        }
        while let Some(turn) = memory.next_turn() {
            let first = waiting[0];
            assert_eq!(turns[first], Some(turn), "in the order of arrival");
            if memory.alloc_group(Some(turn), &mut groups[first]).is_err() {
                assert!(has.iter().any(|&has| has), "refused though nobody has anything");
                break;
            }
            (turns[first], has[first]) = (None, true);
            waiting.pop_front();
            served += 1;
        }
        assert!(waiting.is_empty() || has.contains(&true), "all wait and nobody can go");
    }
    assert!(served > 1000, "{served} had to wait");
}

#[test]
fn t85_the_work_for_a_request_is_bounded_and_each_eviction_was_a_load() {
    const CAPACITY: u64 = 1 << 16;
    let mut memory = cached(1 << 15, CAPACITY);
    let mut state = 1;
    // Dust, data in use in between, and now and then a request for a large part of it.
    for round in 0..200_000_u64 {
        let data = random(&mut state, 1 << 20);
        let (data, len) = if round % 1000 == 0 { (1 << 40 | round, CAPACITY / 4) } else { (data, 1 + data % 6) };
        if memory.alloc(data, len).is_ok_and(|place| place.found == Found::Empty) {
            memory.remember(data).unwrap();
        }
        if random(&mut state, 500) > 0 {
            let _ = memory.free(data);
        }
        if round % 20_000 == 0 {
            for data in 0..1 << 20 {
                while memory.free(data).is_ok() {}
            }
        }
    }
    let statistics = memory.statistics();
    assert!(statistics.most_looks as usize <= (SEEDS + 1) * VIEW, "{statistics:?}");
    assert!(statistics.cache.evictions <= statistics.cache.loads);
    assert!(statistics.cache.evictions > 10_000 && statistics.most_evictions > 100, "{statistics:?}");
}

#[test]
fn content_used_longest_ago_leaves_first_and_so_does_content_wanted_late() {
    let mut memory = cached(8, 100);
    for data in 0..10 {
        idle(&mut memory, data % 8, 10);
    }
    // 0 and 1 were used again, so 2 is the oldest; of 8 places none is left.
    memory.alloc(20, 10).unwrap();
    assert_eq!(memory.state(2), Ok(None));
    let mut memory = cached(8, 40);
    for (data, frees) in [(0, 3), (1, 1000), (2, 4), (3, 5)] {
        memory.alloc(data, 10).unwrap();
        memory.remember(data).unwrap();
        memory.free_wanted_in(data, frees).unwrap();
    }
    memory.alloc(20, 10).unwrap();
    assert_eq!(memory.state(1), Ok(None));
}

#[test]
fn a_window_around_what_is_old_is_cleared_though_something_older_is_in_no_run_that_is_long_enough() {
    let mut memory = cached(128, 206);
    idle(&mut memory, 1000, 4);
    memory.alloc(1001, 2).unwrap();
    // Once all, and once more all but three.
    for data in (0..100).chain(0..89).chain(92..100) {
        idle(&mut memory, data, 2);
    }
    assert_eq!(memory.figures().free, 0);
    let offset = memory.alloc(2000, 6).unwrap().offset;
    assert_eq!(offset, 6 + 89 * 2);
    assert_eq!(memory.statistics().cache.evictions, 3);
    assert!(memory.state(1000).unwrap().is_some());
}

#[test]
fn data_of_one_length_leave_without_a_look_at_their_neighbours() {
    let mut memory = cached(64, 600);
    for data in 0..500 {
        idle(&mut memory, data, 10);
    }
    let statistics = memory.statistics();
    assert_eq!((statistics.cache.evictions, statistics.most_evictions), (440, 1));
    assert!(statistics.most_looks as usize <= SEEDS, "{statistics:?}");
}

#[test]
fn what_leaves_costs_as_little_as_any_window_with_old_data_in_it() {
    const CAPACITY: u64 = 300;
    let (mut memory, mut state) = (cached(64, CAPACITY), 3);
    // Where idle data lies, how long it is, and when it was given back.
    let mut there: Vec<(u64, u64, u64, u64)> = vec![];
    let mut cut = 0;
    for now in 1..3000 {
        let (data, len) = (1000 + now, 1 + random(&mut state, 24).pow(2) / 8);
        let cost = |&(_, len, _, freed): &(u64, u64, u64, u64)| (len + 1) * ((1 << 31) / (now - freed));
        let mut oldest: Vec<_> = there.iter().map(|data| data.3).collect();
        oldest.sort_unstable();
        oldest.truncate(SEEDS);
        there.sort_unstable();
        // The end of the data before each, the data, and where the next one begins: free ranges belong to windows.
        let ends = [0].into_iter().chain(there.iter().map(|data| data.0 + data.1));
        let starts = there.iter().map(|data| data.0).skip(1).chain([CAPACITY]);
        let (ends, starts): (Vec<_>, Vec<_>) = (ends.collect(), starts.collect());
        let windows = (0..there.len()).flat_map(|first| (first..there.len()).map(move |last| first..=last));
        let windows = windows.filter(|window| {
            let has_old = there[window.clone()].iter().any(|data| oldest.contains(&data.3));
            has_old && starts[*window.end()] - ends[*window.start()] >= len
        });
        let least = windows.map(|window| there[window].iter().map(cost).sum::<u64>()).min();
        let holes = memory.figures().largest;
        let offset = idle(&mut memory, data, len);
        let (stays, leaves): (Vec<_>, Vec<_>) = there.iter().partition(|data| memory.state(data.2).unwrap().is_some());
        if holes < len {
            // Of a window that begins beside a free range, the old data at the other end may turn out to be superfluous.
            assert!(Some(leaves.iter().map(cost).sum()) <= least, "{leaves:?} for {len} at {now}");
            cut += usize::from(leaves.len() > 1);
        }
        there = stays;
        there.push((offset, len, data, now));
    }
    assert!(cut > 500, "{cut} times several left");
}

#[test]
fn runs_are_those_between_hundreds_of_places_however_long_these_have_been_in_use() {
    const CAPACITY: u64 = 1 << 14;
    let (mut memory, mut state) = (cached(1 << 10, CAPACITY), 5);
    let mut in_use: Vec<u64> = vec![];
    for data in 0..20_000 {
        // Up and down between none and 700.
        let most = if data / 2000 % 2 == 0 { 700 } else { data as usize % 7 };
        while in_use.len() > most {
            let data = in_use.swap_remove(random(&mut state, in_use.len() as u64) as usize);
            memory.free(data).unwrap();
        }
        if memory.alloc(data, 1 + random(&mut state, 20)).is_ok() {
            memory.remember(data).unwrap();
            in_use.push(data);
        }
        if in_use.len() > 20 && random(&mut state, 3) > 0 {
            let data = in_use.swap_remove(random(&mut state, in_use.len() as u64) as usize);
            memory.free(data).unwrap();
        }
        if data % 16 == 0 {
            // Looked at range by range, and then by run.
            let longest = memory.longest_run();
            let mut waited = memory.clone();
            let turn = waited.line_up(&[]).unwrap();
            let run = waited.longest_run();
            assert!(run <= longest && run >= longest - longest / 32, "{run} of {longest}");
            assert!(waited.leave_line(turn));
            let mut other = memory.clone();
            assert!(matches!(waited.alloc(1 << 40, longest + 1), Err(PlaceError::Blocked { .. })));
            assert!(waited.alloc(1 << 40, longest).is_ok() && other.alloc(1 << 40, longest).is_ok());
        }
    }
    assert!(memory.statistics().cache.evictions > 5000);
}

#[test]
fn t30_after_an_interrupt_nothing_has_an_effect_and_fills_under_way_are_known() {
    let mut memory = cached(8, 100);
    memory.alloc(1, 10).unwrap();
    idle(&mut memory, 2, 10);
    let turn = memory.line_up(&group(&[(3, 90)])).unwrap();
    assert!(!memory.settle(1), "only an interrupted memory is told so");
    memory.interrupt();
    memory.interrupt();
    assert_eq!(memory.alloc(2, 10), Err(PlaceError::Interrupted));
    assert_eq!(memory.alloc_group(None, &mut group(&[(2, 10)])), Err(PlaceError::Interrupted));
    assert_eq!(memory.free(1), Err(FreeError::Interrupted));
    assert_eq!(memory.forget(2), Err(ForgetError::Interrupted));
    assert!(memory.remember(1).is_err() && memory.abandon(1).is_err() && memory.state(1).is_err());
    assert_eq!(memory.next_turn(), Some(turn), "who waits is told");
    assert_eq!(memory.outstanding_fills().collect::<Vec<_>>(), [(1, 0)]);
    assert!(!memory.settle(2) && !memory.settle(3), "nobody writes there");
    assert!(memory.settle(1) && !memory.settle(1));
    assert_eq!(memory.outstanding_fills().next(), None);
}

#[test]
fn the_line_has_an_end() {
    let mut memory = cached(8, 100);
    let turns: Vec<_> = (0..64).map(|_| memory.line_up(&[]).unwrap()).collect();
    assert_eq!(memory.line_up(&[]), Err(LineFull));
    assert!(turns.into_iter().all(|turn| memory.leave_line(turn)));
    assert!(memory.alloc(1, 1).is_ok());
}

#[test]
fn storage_that_is_too_small_is_named() {
    let make = |records: usize, starts: usize, bits: usize, (lines, ids), capacity| {
        let (blocks, slots) = (vec![Block::default(); records], vec![Slot::EMPTY; records]);
        let (runs, starts, bits) = (vec![Run::EMPTY; records + 1], vec![0; starts], vec![0; bits]);
        let lent = Lent { blocks, slots, runs, starts, bits };
        CachedMemory::new(lent, Sparse::new(vec![Line::EMPTY; lines], vec![0; ids], 0), capacity, Granule::BYTE)
            .map(drop)
    };
    assert_eq!(make(9, 100, 3, (2, 9), 0), Err(LentTooLittle::Bytes));
    assert_eq!(make(2, 100, 3, (2, 2), 100), Err(LentTooLittle::Records));
    assert_eq!(make(9, 99, 3, (2, 9), 100), Err(LentTooLittle::Starts { need: 100, have: 99 }));
    assert_eq!(make(9, 100, 2, (2, 9), 100), Err(LentTooLittle::Bits { need: 3, have: 2 }));
    assert_eq!(make(9, 100, 3, (0, 9), 100), Err(LentTooLittle::Index { need: 4, have: 0 }));
    assert_eq!(make(9, 100, 3, (1, 8), 100), Err(LentTooLittle::Numbers { need: 9, have: 8 }));
    assert_eq!(make(9, 100, 3, (1, 9), 100), Ok(()));
    // A dense index refuses ids; nothing has changed then.
    let lent = Lent {
        blocks: [Block::default(); 9],
        slots: [Slot::EMPTY; 9],
        runs: [Run::EMPTY; 10],
        starts: [0; 64],
        bits: [0; 1],
    };
    let mut memory = CachedMemory::new(lent, Dense::new([0; 4]), 64, Granule::BYTE).unwrap();
    assert_eq!(memory.alloc(4, 1), Err(PlaceError::OutOfRange { data: 4, ids: 4 }));
    assert_eq!(memory.figures().free, 64);
}
