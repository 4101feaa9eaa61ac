//! Those who wait for a slot against a list, and in crafted states.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::layout::tests;
use super::super::{AllocError, Cache, Grant, Identity, Sharing, Turn};
use super::*;
use crate::cache::Found;

fn memory() -> Vec<AtomicU64> {
    (0..WORDS).map(|_| AtomicU64::new(u64::MAX)).collect()
}

fn owner(number: u8) -> Owner {
    Owner::new(number).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Stand(u8),
    Leave(usize),
    Answer(usize),
    Call,
    PassOver(usize),
    Die(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u8).prop_map(Step::Stand),
        3 => any::<usize>().prop_map(Step::Leave),
        3 => any::<usize>().prop_map(Step::Answer),
        3 => Just(Step::Call),
        1 => any::<usize>().prop_map(Step::PassOver),
        1 => (0..3_u8).prop_map(Step::Die),
    ]
}

/// What a list of those who wait says: owner, ticket, and whether he was called.
#[derive(Default)]
struct Model(VecDeque<(u8, u32, bool)>);

impl Model {
    fn call_first(&mut self) {
        if let Some((_, _, called)) = self.0.front_mut() {
            *called = true;
        }
    }

    fn remove(&mut self, ticket: u32) {
        self.0.retain(|&(_, other, _)| other != ticket);
    }
}

fn play(queue: Queue<'_>, steps: &[Step]) {
    let mut model = Model::default();
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut last = None;
    for &step in steps {
        match step {
            Step::Stand(number) => match Turn::take(queue, owner(number), u64::from(number)) {
                Some(turn) => {
                    let follows = last.is_none_or(|last: u32| turn.ticket() == last.wrapping_add(1));
                    assert!(follows, "tickets count up: {} after {last:?}", turn.ticket());
                    last = Some(turn.ticket());
                    model.0.push_back((number, turn.ticket(), false));
                    turns.push(turn);
                }
                None => {
                    let (first, next) = (model.0.front().unwrap().1, last.unwrap().wrapping_add(1));
                    assert_eq!(next.wrapping_sub(first), RECORDS as u32, "there was room");
                }
            },
            Step::Leave(at) if !turns.is_empty() => {
                let turn = turns.swap_remove(at % turns.len());
                model.remove(turn.ticket());
                model.call_first();
                drop(turn);
            }
            Step::Answer(at) if !turns.is_empty() => {
                let turn = &turns[at % turns.len()];
                let waiter = model.0.iter_mut().find(|(_, ticket, _)| *ticket == turn.ticket());
                let seen = turn.answer();
                assert_eq!(seen.is_some(), waiter.is_some(), "who was passed over knows it");
                if let (Some(seen), Some((_, _, called))) = (seen, waiter) {
                    assert_eq!(turn.word().load(Ordering::Relaxed) as u32, seen);
                    *called = false;
                }
            }
            Step::Call => {
                queue.call_first();
                model.call_first();
            }
            Step::PassOver(at) if !turns.is_empty() => {
                let turn = &turns[at % turns.len()];
                if let Some(first) = turn.ahead() {
                    assert_eq!(first.is_called(), model.0[0].2);
                    turn.pass_over(first);
                    model.0.pop_front();
                    model.call_first();
                }
            }
            Step::Die(number) => {
                queue.forsake(owner(number));
                queue.call_first();
                model.0.retain(|&(other, _, _)| other != number);
                model.call_first();
            }
            Step::Leave(_) | Step::Answer(_) | Step::PassOver(_) => {}
        }
        let first = queue.first().map(|word| (word.owner(), word.ticket(), word.is_called()));
        assert_eq!(first, model.0.front().copied());
        assert_eq!(queue.is_awaited(), !model.0.is_empty(), "a free looks at this alone");
        let of_first = model.0.iter().filter(|&&(number, _, _)| number == 0).count();
        assert_eq!(queue.places_of(owner(0)) as usize, of_first);
    }
    drop(turns);
    assert_eq!(queue.count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, ..ProptestConfig::default() })]
    #[test]
    fn a_list_of_those_who_wait_says_the_same(steps in prop::collection::vec(step(), 1..if cfg!(miri) { 30 } else { 700 })) {
        let memory = memory();
        let queue = Queue::new(&memory).unwrap();
        queue.clear();
        play(queue, &steps);
        // And where tickets begin anew.
        let first = 0_u32.wrapping_sub(40);
        queue.ends.store(u64::from(first) << 32, Ordering::Relaxed);
        for ticket in (first..=u32::MAX).chain(0..RECORDS as u32 - 40) {
            queue.record(ticket).store(Record::before(ticket).0, Ordering::Relaxed);
        }
        play(queue, &steps);
    }
}

#[test]
fn the_line_is_as_long_as_there_are_records_and_no_longer() {
    let memory = memory();
    let queue = Queue::new(&memory).unwrap();
    queue.clear();
    let mut turns: Vec<_> = (0..RECORDS).map(|_| Turn::take(queue, owner(1), 7).unwrap()).collect();
    assert!(Turn::take(queue, owner(1), 7).is_none());
    // Who leaves in the middle makes no room: the ring is as long as before.
    drop(turns.remove(5));
    assert!(Turn::take(queue, owner(1), 7).is_none());
    drop(turns.remove(0));
    assert!(Turn::take(queue, owner(1), 7).is_some());
}

#[test]
fn damaged_words_end_each_call() {
    for value in [0, 1, u64::MAX, 1 << 32, u64::MAX >> 1] {
        let memory: Vec<_> = (0..WORDS).map(|at| AtomicU64::new(value ^ (at as u64 & 3))).collect();
        let queue = Queue::new(&memory).unwrap();
        let turn = Turn::take(queue, owner(1), 7);
        let _ = turn.as_ref().and_then(Turn::answer);
        queue.call_first();
        queue.call_all();
        queue.forsake(owner(1));
        drop(turn);
    }
}

#[test]
fn who_came_and_was_killed_before_he_noted_it_is_in_line() {
    let memory = memory();
    let queue = Queue::new(&memory).unwrap();
    queue.clear();
    let record = queue.record(0);
    let word = Record::of(record);
    word.replace(record, word.taken(0, owner(2), 7));
    assert!(!queue.is_awaited());
    let second = Turn::take(queue, owner(1), 7).unwrap();
    assert_eq!((second.ticket(), queue.count()), (1, 2));
    assert_eq!(second.ahead().and_then(|first| first.owner()), Some(owner(2)));
    queue.forsake(owner(2));
    assert_eq!((second.ahead(), queue.count()), (None, 1));
}

std::thread_local! {
    /// Where each word lies whose sleepers were woken.
    static WOKEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn all_who_wait_for_the_same_data_are_woken_once_when_it_gets_a_slot() {
    let sharing = Sharing::new(2, 7).unwrap();
    let words = tests::memory(1, sharing);
    let cache = Cache::create(&words, 1, sharing, 7).unwrap();
    let cache = cache.waking(|word| WOKEN.with_borrow_mut(|woken| woken.push(std::ptr::from_ref(word).addr())));
    let [holder, client] = [1, 2].map(|pid| cache.join(Identity::new(pid, 0)).unwrap());
    holder.alloc(1).unwrap();
    let turns: Vec<_> = [5, 6, 5, 7, 5].into_iter().map(|data| (data, client.stand(data).unwrap())).collect();
    let look = |at: usize| -> Result<Grant, AllocError> {
        let (data, turn) = &turns[at];
        turn.answer().unwrap();
        if turn.ahead().is_none() { client.alloc_in_turn(*data, turn) } else { client.alloc_behind(*data) }
    };
    let woken = || {
        let words = WOKEN.take().into_iter();
        let of = |word| turns.iter().position(|(_, turn)| std::ptr::from_ref(turn.word()).addr() == word).unwrap();
        words.map(of).collect::<Vec<_>>()
    };
    let full = Err(AllocError::Full { slots: 1 });
    (0..turns.len()).for_each(|at| assert_eq!(look(at), full));
    assert_eq!(woken(), []);

    holder.free(1).unwrap();
    assert_eq!(woken(), [0], "the first alone may take a slot");
    assert_eq!(look(0).map(|grant| grant.found), Ok(Found::Empty));
    assert_eq!(woken(), [2, 4], "these need none any more, though others stand before them");
    [2, 4].into_iter().for_each(|at| assert_eq!(look(at).map(|grant| grant.found), Ok(Found::Assigned)));
    [1, 3].into_iter().for_each(|at| assert_eq!(look(at), full));
    assert_eq!(woken(), []);

    // Who stands in no line tells them as well, also the first.
    (0..3).for_each(|_| client.free(5).unwrap());
    assert_eq!(woken(), [0]);
    assert_eq!(holder.alloc(7).map(|grant| grant.found), Ok(Found::Empty));
    assert_eq!(woken(), [3]);
}
