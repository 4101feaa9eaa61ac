//! Waiting in line for the slots of a cache in a segment.
//!
//! In order of arrival, beside processes that are killed or do not answer.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod another;

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use another::{Another, ready, until};
use rustix::process::Signal;
use umbra::cache::{Mapped, UnfilledError, UnservedError};
use umbra_core::cache::{Found, Remembering, State};
use umbra_core::shared_cache::{AllocError, LookError, Sharing};

type Cache = Mapped<Remembering>;

/// Longer than any machine takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of what the process that is killed holds.
const HELD: u64 = 1;

fn make(slots: usize) -> Cache {
    Mapped::create(slots, Sharing::new(4, 31).unwrap()).unwrap()
}

fn beside(cache: &Cache) -> Cache {
    Mapped::attach(cache.share().unwrap()).unwrap()
}

/// Starts a process that does this at the cache.
fn start(what: &str, cache: &Cache) -> Another {
    let memory = cache.share().unwrap();
    Another::start_ready(&format!("{what} /proc/{}/fd/{}", std::process::id(), memory.as_raw_fd())).0
}

#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    let (what, path) = role.split_once(' ').unwrap();
    let memory = File::options().read(true).write(true).open(path).unwrap();
    let cache = Cache::attach(OwnedFd::from(memory)).unwrap();
    if what == "waits" {
        ready("");
        // Its reference is given back with its place.
        cache.alloc(HELD, PATIENCE).unwrap();
        assert_eq!(cache.client().remember(HELD), Ok(()));
        return;
    }
    assert_eq!(cache.client().alloc(HELD).unwrap().found, Found::Empty);
    if what == "holds" {
        cache.client().remember(HELD).unwrap();
    }
    ready("");
    thread::sleep(PATIENCE);
}

#[test]
fn whoever_came_first_is_served_first() {
    const WAITERS: u32 = 40;
    let ours = make(1);
    let theirs = beside(&ours);
    ours.client().alloc(HELD).unwrap();
    let served = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..WAITERS {
            let (cache, served) = (if number % 2 == 0 { &ours } else { &theirs }, &served);
            scope.spawn(move || {
                let data = 100 + u64::from(number);
                assert_eq!(cache.alloc(data, PATIENCE).unwrap().found, Found::Empty);
                // As long as it has the only slot nobody else is served.
                served.lock().unwrap().push(number);
                cache.client().free(data).unwrap();
            });
            until("one more in line", || ours.client().cache().waiting() == number + 1);
        }
        ours.client().free(HELD).unwrap();
    });
    assert_eq!(served.into_inner().unwrap(), (0..WAITERS).collect::<Vec<_>>());
    assert_eq!(ours.client().cache().waiting(), 0);
}

#[test]
fn whoever_comes_while_others_wait_stands_behind_them_unless_the_content_is_present() {
    let cache = make(2);
    let client = cache.client();
    client.alloc(HELD).unwrap();
    client.remember(HELD).unwrap();
    let turn = client.stand(3).unwrap();
    assert_eq!(cache.alloc(HELD, Duration::ZERO).unwrap().found, Found::Remembered);
    let refused = Err(UnservedError::Refused(AllocError::Full { slots: 2 }));
    assert_eq!(cache.alloc(2, Duration::ZERO), refused, "a slot is free, but not for this one");
    assert_eq!(client.alloc(2).unwrap().found, Found::Empty, "who does not ask for the line is not held up by it");
    client.free(2).unwrap();
    assert_eq!(cache.alloc(2, Duration::ZERO), refused, "also not for the data that was in it");
    drop(turn);
    assert_eq!(cache.alloc(2, Duration::ZERO).unwrap().found, Found::Empty);
}

#[test]
fn the_error_of_a_deadline_says_who_holds_what() {
    let ours = make(2);
    let theirs = beside(&ours);
    theirs.client().alloc(1).unwrap();
    theirs.client().alloc(2).unwrap();
    theirs.client().remember(2).unwrap();
    let (within, begun) = (Duration::from_millis(70), Instant::now());
    let error = ours.alloc(3, within).unwrap_err();
    assert!(begun.elapsed() >= within);
    let UnservedError::Expired { data: 3, why: AllocError::Full { slots: 2 }, ref scene, .. } = error else {
        panic!("{error}");
    };
    let told: Vec<_> = scene.holders.iter().map(|of| (of.holding.slots, of.holding.fills, of.lives)).collect();
    assert_eq!(told, [(0, 0, true), (2, 1, true)]);
    let pid = std::process::id();
    let message = error.to_string();
    assert!(message.contains(&format!("owner 1 (process {pid} started")), "{message}");
    assert!(message.contains("has 2 slots, of which it fills 1"), "{message}");
    assert_eq!(ours.client().cache().waiting(), 0, "it stands in line no more");
}

#[test]
fn what_a_killed_process_held_goes_to_who_waits_if_that_was_asked_for() {
    let cache = make(1);
    let mut holder = start("holds", &cache);
    let pid = holder.id().pid;
    let waits = Duration::from_millis(300);
    assert!(cache.alloc(2, waits).is_err(), "it lives");
    holder.kill();
    let late = cache.alloc(2, waits).unwrap_err();
    let UnservedError::Expired { scene, .. } = &late else { panic!("{late}") };
    let dead = scene.holders.iter().find(|of| !of.lives).unwrap();
    assert_eq!((dead.holding.identity.pid(), dead.holding.slots), (pid, 1), "nobody asked for it");
    assert!(late.to_string().contains("is dead (reclaim it)"), "{late}");
    drop(cache);

    let cache = make(1).reclaiming();
    let mut holder = start("holds", &cache);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| cache.alloc(2, PATIENCE));
        until("one in line", || cache.client().cache().waiting() == 1);
        assert_eq!(cache.client().references(HELD), Ok(1));
        holder.kill();
        // Nobody calls `reclaim`.
        assert_eq!(waiter.join().unwrap().unwrap().found, Found::Empty);
    });
    assert_eq!(cache.client().cache().members().count(), 1);
}

#[test]
fn the_fill_of_a_killed_process_counts_as_given_up_if_that_was_asked_for() {
    let cache = make(1).reclaiming();
    let mut filler = start("fills", &cache);
    assert_eq!(cache.client().alloc(HELD).unwrap().found, Found::Assigned);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| cache.filled(HELD, PATIENCE));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished(), "it lives");
        filler.kill();
        assert_eq!(waiter.join().unwrap(), Err(UnfilledError::Abandoned { data: HELD }));
    });
    assert_eq!(cache.alloc(HELD, PATIENCE).unwrap().found, Found::Empty, "it can be filled");
}

#[test]
fn who_was_killed_in_line_is_taken_out_of_it() {
    let cache = make(1);
    cache.client().alloc(2).unwrap();
    let mut first = start("waits", &cache);
    until("one in line", || cache.client().cache().waiting() == 1);
    thread::scope(|scope| {
        let second = scope.spawn(|| cache.alloc(3, PATIENCE));
        until("two in line", || cache.client().cache().waiting() == 2);
        first.kill();
        cache.client().free(2).unwrap();
        // Nobody reclaims anything, and the one who was killed had nothing but his place in line.
        assert_eq!(second.join().unwrap().unwrap().found, Found::Empty);
    });
}

#[test]
fn who_is_stopped_in_line_is_passed_over_and_comes_again() {
    let cache = make(1);
    cache.client().alloc(2).unwrap();
    let first = start("waits", &cache);
    until("one in line", || cache.client().cache().waiting() == 1);
    first.signal(Signal::STOP);
    thread::scope(|scope| {
        let second = scope.spawn(|| cache.alloc(3, PATIENCE));
        until("two in line", || cache.client().cache().waiting() == 2);
        cache.client().free(2).unwrap();
        assert_eq!(second.join().unwrap().unwrap().found, Found::Empty);
        first.signal(Signal::CONT);
        until("one in line", || cache.client().cache().waiting() == 1);
        cache.client().free(3).unwrap();
        until("its turn, and its end", || cache.client().cache().members().count() == 1);
        assert_eq!(cache.client().state(HELD), Ok(Some(State::Idle)), "it had the slot");
    });
}

#[test]
fn an_interrupt_ends_all_waits_at_once() {
    let cache = make(1);
    let client = cache.client();
    client.alloc(HELD).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| cache.alloc(2, PATIENCE));
        let reader = scope.spawn(|| cache.filled(HELD, PATIENCE));
        until("one in line", || client.cache().waiting() == 1);
        client.cache().interrupt();
        assert_eq!(waiter.join().unwrap(), Err(UnservedError::Refused(AllocError::Interrupted)));
        assert_eq!(reader.join().unwrap(), Err(UnfilledError::Look(LookError::Interrupted)));
    });
}
