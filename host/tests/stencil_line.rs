//! The scenarios of stencil caches whose clients are threads that wait.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use umbra::pool;
use umbra::session::SessionError;
use umbra::stencil::{AllocError, BuildError, ClientError, Plan, RingsError, RunError, ServeError, Stencil};
use umbra_core::chain::StartError;
use umbra_core::stencil::waiting::Overdue;
use umbra_core::stencil::{Action, ByNumber, GroupError, Input, SubmitError, Unknown};

type Cache = Stencil<ByNumber, Unknown>;

/// Longer than any machine takes, so whoever waits so long would wait for good.
const PATIENCE: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_millis(20);

fn cache(slots: u32, active: u32, groups: usize) -> Cache {
    let plan = Plan { active, window: groups, horizon: 100 };
    Stencil::new(plan.cache(slots, 3, vec![Input::UNBOUNDED; 1000], Unknown).unwrap()).unwrap()
}

/// Returns when so many are waiting.
fn until_waiting(cache: &Cache, count: u32) {
    let begun = Instant::now();
    while cache.waiting() != count {
        assert!(begun.elapsed() < PATIENCE, "{} wait instead of {count}", cache.waiting());
        thread::yield_now();
    }
}

/// Loads and computes at once, and tells the points.
fn serve(cache: &Cache, mut ready: impl FnMut(u64)) {
    cache.deliver(|action| match action {
        Action::Prepare { data, .. } => cache.prepared(data).unwrap(),
        Action::Ready { point, group } => {
            ready(point);
            cache.free_group(group).unwrap();
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn s33_threads_get_records_in_the_order_in_which_they_came() {
    let cache = cache(3, 1, 1);
    let first = cache.alloc(0, &[0], PATIENCE).unwrap();
    let (sender, served) = channel();
    thread::scope(|scope| {
        for point in 1..9 {
            let (cache, sender) = (&cache, sender.clone());
            scope.spawn(move || {
                let group = cache.alloc(point, &[point], PATIENCE).unwrap();
                sender.send(point).unwrap();
                // The next one is not accepted before this one has gone.
                while let Some(action) = cache.poll() {
                    if let Action::Prepare { data, .. } = action {
                        cache.prepared(data).unwrap();
                    }
                }
                cache.free_group(group).unwrap();
            });
            until_waiting(cache, point as u32);
        }
        assert!(matches!(cache.submit(9, &[]), Err(SubmitError::GroupsFull { .. })), "nobody passes the line");
        let (prepare, ready) = (cache.poll(), cache.prepared(0).map(|()| cache.poll()));
        assert!(prepare.is_some() && matches!(ready, Ok(Some(Action::Ready { point: 0, .. }))));
        cache.free_group(first).unwrap();
        drop(sender);
        assert!(served.iter().eq(1..9));
    });
}

#[test]
fn s54_threads_sweep_together_and_every_point_is_told_once() {
    let cache = cache(12, 3, 4);
    let told: Vec<AtomicU32> = (0..400).map(|_| AtomicU32::new(0)).collect();
    let points = told.len() as u64;
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let point = next.fetch_add(1, Ordering::Relaxed);
                    if point >= points {
                        return;
                    }
                    cache.alloc(point, &[point, point + 1, point + 2], PATIENCE).unwrap();
                    serve(&cache, |point| {
                        told[point as usize].fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    let told: Vec<u32> = told.into_iter().map(AtomicU32::into_inner).collect();
    assert!(told.iter().all(|&times| times == 1), "{told:?}");
    assert_eq!(cache.look(|stencil| stencil.idle()), cache.look(|stencil| stencil.len()));
}

#[test]
fn s62_who_is_told_may_call_back_and_one_thread_sweeps_without_recursion() {
    let cache = cache(4, 2, 4);
    let (depth, deepest, next) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0));
    let submit = || {
        let point = next.load(Ordering::Relaxed);
        if point < 1000 / 3 && cache.submit(point, &[point, point + 1, point + 2]).is_ok() {
            next.store(point + 1, Ordering::Relaxed);
        }
    };
    let mut points = Vec::new();
    submit();
    cache.deliver(|action| {
        deepest.fetch_max(depth.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        match action {
            Action::Prepare { data, .. } => cache.prepared(data).unwrap(),
            Action::Ready { point, group } => {
                points.push(point);
                cache.free_group(group).unwrap();
                submit();
                submit();
            }
            other => panic!("{other:?}"),
        }
        // The news of these calls are left to the one who is at it: this one, later.
        cache.deliver(|action| panic!("{action:?} within another"));
        assert_eq!(cache.poll(), None);
        depth.fetch_sub(1, Ordering::Relaxed);
    });
    assert!(points.into_iter().eq(0..1000 / 3));
    assert_eq!(deepest.into_inner(), 1);
}

#[test]
fn who_tells_the_news_cannot_wait_for_them_and_others_can() {
    let cache = cache(3, 1, 1);
    cache.alloc(1, &[1], PATIENCE).unwrap();
    let mut told = None;
    thread::scope(|scope| {
        cache.deliver(|action| match action {
            Action::Prepare { data, .. } => {
                told =
                    Some((cache.alloc(2, &[2], PATIENCE), cache.assigned(umbra_core::id::Id::from_bits(7), PATIENCE)));
                scope.spawn(|| cache.alloc(3, &[3], PATIENCE).unwrap());
                until_waiting(&cache, 1);
                cache.prepared(data).unwrap();
            }
            Action::Ready { group, .. } => cache.free_group(group).unwrap(),
            other => panic!("{other:?}"),
        });
    });
    assert_eq!(told, Some((Err(AllocError::WouldDeadlock), Err(AllocError::WouldDeadlock))));
    serve(&cache, |point| assert_eq!(point, 3));
    assert!(cache.alloc(4, &[4], PATIENCE).is_ok(), "it is over");
}

#[test]
fn s63_a_cache_ends_while_a_thread_waits_and_nothing_was_ever_loaded() {
    let slots = 4;
    let cache = cache(slots, 100, 100);
    thread::scope(|scope| {
        let client = scope.spawn(|| (0..=u64::from(slots)).find_map(|n| cache.alloc(n, &[n], PATIENCE).err()));
        until_waiting(&cache, 1);
        cache.interrupt();
        assert_eq!(client.join().unwrap(), Some(AllocError::Interrupted));
    });
    assert_eq!(cache.alloc(9, &[9], PATIENCE), Err(AllocError::Interrupted), "also those to come");
    drop(cache);
}

#[test]
fn s34_a_deadline_says_who_holds_the_slots_and_an_accepted_group_goes_on() {
    let cache = cache(3, 1, 2);
    let first = cache.alloc(7, &[1, 2, 3], PATIENCE).unwrap();
    assert!(matches!(cache.poll(), Some(Action::Prepare { data: 1, .. })));
    let error = cache.alloc(8, &[4], BRIEF).unwrap_err();
    let text = error.to_string();
    let AllocError::Expired { overdue, .. } = error else { panic!("{text}") };
    let Overdue { point: 8, accepted: Some(group), active: 1, loading: Some(1), .. } = *overdue else {
        panic!("{text}")
    };
    let expected = "not within 20ms: the group of point 8 is accepted and waits for slots; 1 group has its own and is not \
                    freed, for the points 7; the load of data 1 was not answered; others that wait: 0; answer the loads";
    assert!(text.starts_with(expected), "{text}");
    let text = cache.alloc(9, &[5], Duration::ZERO).unwrap_err().to_string();
    assert!(text.contains("the group of point 9 waits to be accepted"), "{text}");
    assert!(matches!(cache.assigned(group, BRIEF), Err(AllocError::Expired { .. })));
    cache.prepared(1).unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(|| cache.assigned(group, PATIENCE));
        until_waiting(&cache, 1);
        serve(&cache, |_| {});
        assert!(matches!(client.join().unwrap(), Ok(())));
    });
    assert!(matches!(cache.assigned(first, PATIENCE), Err(AllocError::Refused(_))), "it has ended");
    assert_eq!(cache.waiting(), 0);
}

#[test]
fn a_thread_that_panics_with_news_leaves_the_others_to_the_next() {
    let cache = cache(3, 2, 2);
    cache.alloc(1, &[1, 2], PATIENCE).unwrap();
    thread::scope(|scope| {
        let dies = scope.spawn(|| cache.deliver(|_| std::panic::resume_unwind(Box::new("dies with a load"))));
        assert!(dies.join().is_err());
    });
    let mut told = Vec::new();
    cache.deliver(|action| told.push(action));
    assert!(matches!(told[..], [Action::Prepare { data: 2, .. }]), "{told:?}");
}

#[test]
fn s75_what_there_is_no_memory_for_is_refused() {
    let plan = Plan { active: 1, window: usize::MAX / 64, horizon: 1 };
    let refused = plan.cache(1, 1, vec![Input::UNBOUNDED; 1], Unknown).map(drop);
    assert!(matches!(refused, Err(BuildError::NoMemory { .. })), "{refused:?}");
}

#[test]
fn what_there_is_one_of_is_not_told_as_many() {
    let said = [
        SubmitError::GroupsFull { groups: 1 }.to_string(),
        SubmitError::TooManyMembers { have: 1 }.to_string(),
        GroupError::TooShort { need: 1 }.to_string(),
        RingsError::InUse { groups: 1 }.to_string(),
        ClientError::GroupsFull { groups: 1 }.to_string(),
        ServeError::Expired { within: BRIEF, groups: 1 }.to_string(),
        ServeError::Left { groups: 1 }.to_string(),
        RunError::InUse { groups: 1, slots: 1 }.to_string(),
        RunError::Active { active: 1 }.to_string(),
        StartError::TooDeep { height: 1, max: 0 }.to_string(),
        pool::Error::Members { members: 1 }.to_string(),
        SessionError::NoMember { members: 1, local: 1 }.to_string(),
    ];
    for said in said {
        assert!(!["1 groups", "1 members", "1 levels", "1 slots"].iter().any(|many| said.contains(many)), "{said}");
    }
}
