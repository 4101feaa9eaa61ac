//! Requests in flight against a plain list.

use proptest::prelude::*;
use umbra_core::error::{Full, Stale};
use umbra_core::id::Id;
use umbra_core::pending::{Pending, Request};
use umbra_core::time::Time;

#[derive(Clone, Debug)]
enum Step {
    Begin(u64),
    BeginWithoutDeadline,
    Complete(usize),
    End(usize),
    CompleteAgain(usize),
    Postpone(usize, u64),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u64..50).prop_map(Step::Begin),
        1 => Just(Step::BeginWithoutDeadline),
        4 => any::<usize>().prop_map(Step::Complete),
        4 => any::<usize>().prop_map(Step::End),
        2 => any::<usize>().prop_map(Step::CompleteAgain),
        2 => (any::<usize>(), 0u64..50).prop_map(|(i, d)| Step::Postpone(i, d)),
        2 => (0u64..10).prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_request_ends_exactly_once_and_in_the_order_of_deadlines(
        capacity in 0usize..20,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut pending = Pending::new(vec![Request::EMPTY; capacity]);
        let mut live: Vec<(Id<u64>, u64, Time)> = vec![];
        let mut gone: Vec<Id<u64>> = vec![];
        let mut now = Time(0);
        for (value, step) in (0u64..).zip(steps) {
            let mut begin = |deadline| match (pending.next(), pending.begin(value, deadline)) {
                (next, Ok(id)) => {
                    assert_eq!(next, Some(id));
                    assert!(live.iter().all(|l| l.0.index() != id.index()) && !gone.contains(&id));
                    live.push((id, value, deadline));
                }
                (next, Err(Full(back))) => assert!(back == value && live.len() == capacity && next.is_none()),
            };
            match step {
                Step::Begin(lapse) => begin(Time(now.0 + lapse)),
                Step::BeginWithoutDeadline => begin(Time::NEVER),
                Step::Complete(i) if !live.is_empty() => {
                    let (id, value, _) = live.swap_remove(i % live.len());
                    prop_assert_eq!(pending.complete(id), Ok(value));
                    gone.push(id);
                }
                Step::End(i) if !live.is_empty() => {
                    let (id, _, _) = live.swap_remove(i % live.len());
                    prop_assert_eq!(pending.end(id), Ok(()));
                    prop_assert_eq!(pending.end(id), Err(Stale));
                    gone.push(id);
                }
                Step::CompleteAgain(i) if !gone.is_empty() => {
                    prop_assert_eq!(pending.complete(gone[i % gone.len()]), Err(Stale));
                }
                Step::Postpone(i, lapse) if !live.is_empty() => {
                    let i = i % live.len();
                    live[i].2 = Time(now.0 + lapse);
                    prop_assert_eq!(pending.postpone(live[i].0, live[i].2), Ok(()));
                }
                Step::Advance(lapse) => {
                    now = Time(now.0 + lapse);
                    let mut last = Time(0);
                    while let Some((id, value)) = pending.expired(now) {
                        let i = live.iter().position(|l| l.0 == id).expect("expires once");
                        let (_, expected, deadline) = live.swap_remove(i);
                        prop_assert!(value == expected && deadline <= now && deadline >= last);
                        last = deadline;
                        gone.push(id);
                    }
                    prop_assert!(live.iter().all(|l| l.2 > now));
                }
                _ => {}
            }
            let earliest = live.iter().map(|l| l.2).min().filter(|&d| d != Time::NEVER);
            prop_assert_eq!(pending.deadline(), earliest);
            prop_assert_eq!(pending.len(), live.len());
            let mut missing: Vec<u64> = pending.iter().map(|(_, &value)| value).collect();
            let mut expected: Vec<u64> = live.iter().map(|l| l.1).collect();
            missing.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(missing, expected);
            for l in &live {
                prop_assert_eq!(pending.get(l.0), Ok(&l.1));
            }
        }
    }
}
