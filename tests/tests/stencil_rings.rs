//! A stencil cache behind rings: one thread owns it, another one computes.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::thread;
use std::time::{Duration, Instant};

use umbra::sim::Random;
use umbra::stencil::{ClientError, Completion, Groups, Plan, Rings, RingsError, ServeError, Vectors};
use umbra_core::ring::Unfit;
use umbra_core::stencil::{ByNumber, Input, PreparedError, Stencil, SubmitError, Unknown};

/// Longer than any machine takes, so whoever waits so long would wait for good.
const PATIENCE: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_millis(20);
const AT_ONCE: Duration = Duration::ZERO;

fn cache(slots: u32, window: usize, inputs: usize) -> Stencil<Vectors, ByNumber, Unknown> {
    let plan = Plan { active: 3, window, horizon: 100 };
    plan.cache_in(0..slots, slots as usize, 9, vec![Input::UNBOUNDED; inputs], Unknown).unwrap()
}

/// Groups of anything, duplicates too, with up to six different inputs.
fn groups(count: usize, random: &mut Random) -> Groups {
    (0..count).map(|_| (0..random.below(7)).map(|_| random.below(30)).collect::<Vec<_>>()).collect()
}

/// Loads, computes and frees in any order; returns how often each group was ready, and how many loads failed.
fn drive(
    rings: &mut Rings,
    stencil: &mut Stencil<Vectors, ByNumber, Unknown>,
    groups: &Groups,
    memory: &mut [Option<u64>],
    seed: u64,
) -> (Vec<u32>, u64) {
    let mut random = Random::new(seed);
    let (mut owner, mut client) = rings.split(stencil, groups, 5).unwrap();
    thread::scope(|scope| {
        let served = scope.spawn(move || owner.serve(PATIENCE));
        let (mut ready, mut failures) = (vec![0; groups.len()], 0);
        let (mut loading, mut computing) = (Vec::new(), Vec::new());
        let (mut left, mut todo) = (groups.len(), (0..groups.len() as u64).rev().collect::<Vec<_>>());
        while left > 0 {
            while client.has_room()
                && let Some(number) = todo.pop()
            {
                client.submit(number, PATIENCE).unwrap();
            }
            let busy = !loading.is_empty() || !computing.is_empty();
            match client.next(if busy { AT_ONCE } else { PATIENCE }) {
                Ok(Completion::Prepare { slot, data }) => {
                    memory[slot as usize] = None;
                    loading.push((slot, data));
                }
                Ok(Completion::Ready { number, group, slots }) => {
                    let content = slots.iter().map(|&slot| memory[slot as usize]);
                    assert!(content.eq(groups.get(number as usize).iter().copied().map(Some)), "group {number}");
                    ready[number as usize] += 1;
                    computing.push(group);
                }
                Ok(Completion::Failed { number, data }) => {
                    assert!(groups.get(number as usize).contains(&data));
                    todo.push(number);
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => assert!(busy && error == ClientError::Expired { within: AT_ONCE }, "{error}"),
            }
            if random.below(3) == 0 && !loading.is_empty() {
                let (slot, data) = loading.swap_remove(random.below(loading.len() as u64) as usize);
                if random.below(8) == 0 {
                    failures += 1;
                    client.failed(data, PATIENCE).unwrap();
                } else {
                    memory[slot as usize] = Some(data);
                    client.prepared(data, PATIENCE).unwrap();
                }
            }
            if random.below(3) == 0 && !computing.is_empty() {
                let group = computing.swap_remove(random.below(computing.len() as u64) as usize);
                client.free_group(group, PATIENCE).unwrap();
                left -= 1;
            }
        }
        drop(client);
        assert_eq!(served.join().unwrap(), Ok(()), "all groups have ended");
        (ready, failures)
    })
}

#[test]
fn two_threads_compute_each_group_once_from_the_right_slots() {
    let mut random = Random::new(1);
    // Rings of two items are full most of the time.
    for (seed, items) in [2, 4, 64].into_iter().enumerate() {
        let groups = groups(1500, &mut random);
        let mut stencil = cache(6, 5, 30);
        let (mut rings, mut memory) = (Rings::new(items).unwrap(), [None; 6]);
        // What the first client has loaded is there for the second one.
        for turn in 0..2 {
            let before = stencil.statistics().loads;
            let (ready, failures) = drive(&mut rings, &mut stencil, &groups, &mut memory, seed as u64 * 2 + turn);
            assert!(ready.iter().all(|&times| times == 1), "{items} items: {ready:?}");
            assert!(failures > 0 && stencil.statistics().loads - before > 30, "{items} items");
            assert_eq!(stencil.idle(), stencil.len(), "nobody holds anything");
        }
    }
}

#[test]
fn what_the_client_must_not_do_is_refused_and_the_owner_goes_on() {
    assert_eq!(Rings::new(3).unwrap_err(), RingsError::Unfit(Unfit(3)));
    let groups: Groups = [vec![0, 1, 2], vec![3], vec![99]].into_iter().collect();
    let mut stencil = cache(3, 2, 10);
    let mut rings = Rings::new(8).unwrap();
    // More may be submitted than the cache has records of groups: the third one waits for one.
    let (mut owner, mut client) = rings.split(&mut stencil, &groups, 3).unwrap();
    assert_eq!(client.submit(3, AT_ONCE), Err(ClientError::NoGroup { number: 3, have: 3 }));
    for number in [0, 1, 1] {
        client.submit(number, AT_ONCE).unwrap();
    }
    assert_eq!(client.submit(0, AT_ONCE), Err(ClientError::GroupsFull { groups: 3 }));
    assert_eq!(owner.turn(), Ok(true));
    for data in 0..3 {
        let told = client.next(AT_ONCE).unwrap();
        assert!(matches!(told, Completion::Prepare { data: told, .. } if told == data), "{told:?}");
        client.prepared(data, AT_ONCE).unwrap();
    }
    assert_eq!(owner.turn(), Ok(true));
    let Completion::Ready { number: 0, group, slots: &[_, _, _] } = client.next(AT_ONCE).unwrap() else {
        panic!("the first group is ready")
    };
    client.free_group(group, AT_ONCE).unwrap();
    client.submit(2, AT_ONCE).unwrap();
    assert_eq!(owner.turn(), Ok(true));
    assert!(matches!(client.next(AT_ONCE), Ok(Completion::Prepare { data: 3, .. })));
    client.prepared(3, AT_ONCE).unwrap();
    assert_eq!(owner.turn(), Ok(true));
    for _ in 0..2 {
        let Ok(Completion::Ready { number: 1, group, slots: &[_] }) = client.next(AT_ONCE) else {
            panic!("both are ready")
        };
        client.free_group(group, AT_ONCE).unwrap();
    }
    assert_eq!(owner.turn(), Ok(true));
    let error = SubmitError::UnknownData { data: 99 };
    assert_eq!(client.next(AT_ONCE), Ok(Completion::Refused { number: 2, error }));
    // An answer that nobody asked for ends the owner, and the client is told.
    client.submit(0, AT_ONCE).unwrap();
    client.prepared(7, AT_ONCE).unwrap();
    assert_eq!(owner.serve(PATIENCE), Err(ServeError::Answer(PreparedError::NotFilling { data: 7 })));
    drop(owner);
    assert_eq!(client.next(PATIENCE), Err(ClientError::Gone));
    assert_eq!(client.prepared(3, PATIENCE), Err(ClientError::Gone));
    drop(client);
    assert_eq!(rings.split(&mut stencil, &groups, 2).err(), Some(RingsError::InUse { groups: 1 }));
}

#[test]
fn a_full_ring_stops_neither_answers_nor_a_group_that_is_half_told() {
    let groups: Groups = [[0, 1, 2]; 4].into_iter().collect();
    let mut stencil = cache(3, 2, 10);
    let mut rings = Rings::new(2).unwrap();
    let (mut owner, mut client) = rings.split(&mut stencil, &groups, 2).unwrap();
    client.submit(0, AT_ONCE).unwrap();
    client.submit(1, AT_ONCE).unwrap();
    assert_eq!(client.prepared(0, BRIEF), Err(ClientError::Expired { within: BRIEF }), "the ring is full");
    owner.turn().unwrap();
    // Two of three loads fit. Their answers are taken while the third still waits for a place.
    for data in 0..2 {
        assert!(matches!(client.next(AT_ONCE), Ok(Completion::Prepare { data: told, .. }) if told == data));
        client.prepared(data, AT_ONCE).unwrap();
    }
    assert_eq!(client.next(AT_ONCE), Err(ClientError::Expired { within: AT_ONCE }));
    owner.turn().unwrap();
    assert!(matches!(client.next(AT_ONCE), Ok(Completion::Prepare { data: 2, .. })));
    client.prepared(2, AT_ONCE).unwrap();
    owner.turn().unwrap();
    // The group and its first slot are there, the other slots still with the owner.
    assert_eq!(client.next(BRIEF), Err(ClientError::Expired { within: BRIEF }));
    owner.turn().unwrap();
    assert_eq!(client.next(BRIEF).map(drop), Ok(()), "nothing is lost");
}

#[test]
fn whoever_waits_for_an_end_that_does_nothing_is_told_in_time() {
    let groups: Groups = [vec![0, 1, 2]].into_iter().collect();
    let mut stencil = cache(3, 2, 10);
    let mut rings = Rings::new(8).unwrap();
    let (mut owner, mut client) = rings.split(&mut stencil, &groups, 1).unwrap();
    let begun = Instant::now();
    assert_eq!(client.next(BRIEF), Err(ClientError::Expired { within: BRIEF }));
    assert_eq!(owner.serve(BRIEF), Err(ServeError::Expired { within: BRIEF, groups: 0 }));
    assert!(begun.elapsed() >= 2 * BRIEF && begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    // It goes on where it was, and then the client leaves a load that is under way.
    client.submit(0, AT_ONCE).unwrap();
    assert_eq!(owner.serve(BRIEF), Err(ServeError::Expired { within: BRIEF, groups: 1 }));
    assert!(matches!(client.next(AT_ONCE), Ok(Completion::Prepare { data: 0, .. })));
    drop(client);
    assert_eq!(owner.serve(PATIENCE), Err(ServeError::Left { groups: 1 }));
    assert_eq!(owner.stencil().outstanding_fills().count(), 3);
}

#[test]
fn an_interrupt_answers_each_group_once_and_the_cache_can_be_used_again() {
    let groups: Groups = [vec![0], vec![1, 2], vec![0, 3], vec![4]].into_iter().collect();
    let mut stencil = cache(3, 3, 10);
    let mut rings = Rings::new(8).unwrap();
    let (mut owner, mut client) = rings.split(&mut stencil, &groups, 4).unwrap();
    client.submit(0, AT_ONCE).unwrap();
    owner.turn().unwrap();
    assert!(matches!(client.next(AT_ONCE), Ok(Completion::Prepare { data: 0, .. })));
    client.prepared(0, AT_ONCE).unwrap();
    owner.turn().unwrap();
    // One is being loaded, one waits for slots, and the last one for a record.
    (1..4).for_each(|number| client.submit(number, AT_ONCE).unwrap());
    owner.turn().unwrap();
    let Ok(Completion::Ready { number: 0, group, .. }) = client.next(AT_ONCE) else { panic!("the first is ready") };
    client.interrupt(AT_ONCE).unwrap();
    client.submit(3, AT_ONCE).unwrap_err();
    owner.turn().unwrap();
    let (mut loading, mut ended) = (Vec::new(), Vec::new());
    while let Ok(completion) = client.next(AT_ONCE) {
        match completion {
            Completion::Prepare { data, .. } => loading.push(data),
            Completion::Interrupted { number } => ended.push(number),
            other => panic!("{other:?}"),
        }
    }
    ended.sort_unstable();
    assert_eq!((loading.as_slice(), ended.as_slice()), (&[1, 2][..], &[1, 2, 3][..]));
    client.submit(3, AT_ONCE).unwrap();
    owner.turn().unwrap();
    let error = SubmitError::Interrupted;
    assert_eq!(client.next(AT_ONCE), Ok(Completion::Refused { number: 3, error }));
    // What was begun is brought to its end, however that is.
    client.free_group(group, AT_ONCE).unwrap();
    client.prepared(1, AT_ONCE).unwrap();
    client.interrupt(AT_ONCE).unwrap();
    owner.turn().unwrap();
    assert_eq!(owner.stencil().outstanding_fills().map(|(_, data)| data).collect::<Vec<_>>(), [2]);
    client.failed(2, AT_ONCE).unwrap();
    drop(client);
    assert_eq!(owner.serve(PATIENCE), Ok(()));
    drop(owner);
    stencil.reset().unwrap();
    let (ready, _) = drive(&mut rings, &mut stencil, &groups, &mut [None; 6], 7);
    assert_eq!(ready, [1; 4]);
}

#[test]
fn an_interrupted_cache_whose_client_leaves_a_load_is_told_of_and_its_answers_are_still_looked_at() {
    let groups: Groups = [[0, 1]].into_iter().collect();
    for wrong in [false, true] {
        let mut stencil = cache(3, 3, 10);
        let mut rings = Rings::new(8).unwrap();
        let (mut owner, mut client) = rings.split(&mut stencil, &groups, 1).unwrap();
        client.submit(0, AT_ONCE).unwrap();
        owner.turn().unwrap();
        owner.interrupt();
        owner.turn().unwrap();
        if wrong {
            client.prepared(7, AT_ONCE).unwrap();
        }
        drop(client);
        let expected = if wrong {
            ServeError::Answer(PreparedError::NotFilling { data: 7 })
        } else {
            ServeError::Left { groups: 1 }
        };
        assert_eq!(owner.serve(PATIENCE), Err(expected));
    }
}

#[test]
fn however_far_groups_are_an_interrupt_ends_each_of_them_once() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let groups = groups(300, &mut random);
        let mut stencil = cache(6, 4, 30);
        let mut rings = Rings::new(4).unwrap();
        let (mut owner, mut client) = rings.split(&mut stencil, &groups, 5).unwrap();
        let last = random.below(600);
        thread::scope(|scope| {
            let served = scope.spawn(move || owner.serve(PATIENCE));
            let (mut submitted, mut ended, mut turns) = (0, vec![0; groups.len()], 0);
            let (mut loading, mut computing) = (Vec::new(), Vec::new());
            loop {
                let interrupted = turns > last;
                if turns == last {
                    client.interrupt(PATIENCE).unwrap();
                }
                turns += 1;
                if !interrupted && client.has_room() && submitted < 300 {
                    client.submit(submitted, PATIENCE).unwrap();
                    submitted += 1;
                }
                match client.next(if interrupted { BRIEF } else { AT_ONCE }) {
                    Ok(Completion::Prepare { data, .. }) => loading.push(data),
                    Ok(Completion::Ready { number, group, .. }) => computing.push((number, group)),
                    Ok(Completion::Interrupted { number } | Completion::Refused { number, .. }) => {
                        ended[number as usize] += 1;
                    }
                    Err(error) => assert!(matches!(error, ClientError::Expired { .. }), "{error}"),
                    Ok(other) => panic!("{other:?}"),
                }
                if random.below(2) == 0
                    && let Some(data) = loading.pop()
                {
                    client.prepared(data, PATIENCE).unwrap();
                }
                if random.below(2) == 0
                    && let Some((number, group)) = computing.pop()
                {
                    client.free_group(group, PATIENCE).unwrap();
                    ended[number as usize] += 1;
                }
                let all = ended.iter().take(submitted as usize).all(|&times| times == 1);
                if interrupted && all && loading.is_empty() && computing.is_empty() {
                    break;
                }
            }
            drop(client);
            assert_eq!(served.join().unwrap(), Ok(()), "seed {seed}");
            assert!(ended.iter().all(|&times| times <= 1), "seed {seed}: {ended:?}");
        });
        stencil.reset().unwrap();
        assert_eq!((stencil.len(), stencil.under_way()), (Ok(0), 0));
    }
}
