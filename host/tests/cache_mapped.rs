//! A slot cache in a segment: places, and what is taken back from dead processes.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use umbra::cache::{Mapped, MappedError, Passing, UnfilledError, Unreclaimed};
use umbra_core::cache::{Forgetting, Found, Remembering};
use umbra_core::shared_cache::{
    AllocError, AttachError, Blocked, FreeError, JoinError, ReclaimError, Reclaimed, Sharing,
};

/// Where a process that a test starts finds the memory of its cache.
const MEMORY: &str = "UMBRA_TEST_CACHE";
const THERE: &str = "it holds what it wants";
const CHURN: &str = "processes_that_are_killed_at_any_moment_leave_every_slot_to_the_others";
const ALL_KILLED: &str = "a_cache_whose_processes_were_all_killed_is_used_again";
const IN_THE_WAY: &str = "what_was_taken_back_is_told_also_if_something_was_in_the_way";
const KILLED: &str = "what_a_killed_process_held_is_taken_back_and_its_fill_is_named";

/// Longer than any machine takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn sharing() -> Sharing {
    Sharing::new(2, 31).unwrap()
}

/// Holds content and begins a fill, until it is killed; or until nobody kills it.
fn hold(path: &str) {
    let memory = File::options().read(true).write(true).open(path).unwrap();
    let cache = Mapped::<Remembering>::attach(OwnedFd::from(memory)).unwrap();
    assert_eq!(cache.client().alloc(1).unwrap().found, Found::Remembered);
    assert_eq!(cache.client().alloc(2).unwrap().found, Found::Empty);
    println!("{THERE}");
    thread::sleep(PATIENCE);
}

/// Begins a fill of its own, and waits as [`hold`] does.
fn begin(path: &str) {
    let memory = File::options().read(true).write(true).open(path).unwrap();
    let cache = Mapped::<Remembering>::attach(OwnedFd::from(memory)).unwrap();
    assert_eq!(cache.client().alloc(std::process::id().into()).unwrap().found, Found::Empty);
    println!("{THERE}");
    thread::sleep(PATIENCE);
}

/// Loads and uses data until it is killed, often two at a time, so that content leaves all the time.
fn churn(path: &str) {
    let memory = File::options().read(true).write(true).open(path).unwrap();
    let cache = Mapped::<Remembering>::attach(OwnedFd::from(memory)).unwrap();
    println!("{THERE}");
    let (client, mut dice) = (cache.client(), u64::from(std::process::id()));
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let wanted = [0, 32].map(|shift| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            dice >> shift & 15
        });
        let held = wanted.map(|data| client.alloc(data).ok().map(|grant| (data, grant.found)));
        for (data, found) in held.into_iter().flatten() {
            if found == Found::Empty {
                let _ = cache.within(PATIENCE, |client| client.remember(data));
            }
            let _ = cache.within(PATIENCE, |client| client.free(data));
        }
    }
}

fn start(test: &str, memory: &OwnedFd) -> Child {
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(MEMORY, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(said.map_while(Result::ok).any(|line| line.contains(THERE)), "it ended early");
    child
}

#[test]
fn what_a_killed_process_held_is_taken_back_and_its_fill_is_named() {
    if let Ok(path) = env::var(MEMORY) {
        return hold(&path);
    }
    let cache = Mapped::<Remembering>::create(3, sharing()).unwrap();
    let slot = cache.client().alloc(1).unwrap().slot;
    cache.client().remember(1).unwrap();
    let memory = cache.share().unwrap();
    let mut child = start(KILLED, &memory);
    assert_eq!(cache.client().references(1), Ok(2));
    assert_eq!(cache.filled(2, Duration::ZERO), Err(UnfilledError::Filling { data: 2 }));
    assert_eq!(cache.reclaim(PATIENCE, |_, _| panic!("it lives")), Ok(Reclaimed::default()));
    let third = Mapped::<Remembering>::attach(cache.share().unwrap());
    assert!(matches!(third, Err(MappedError::Join(JoinError::Full { owners: 2 }))));

    child.kill().unwrap();
    child.wait().unwrap();
    let mut abandoned = vec![];
    let taken = cache.reclaim(PATIENCE, |slot, data| abandoned.push((slot, data))).unwrap();
    assert_eq!((taken.references, taken.fills), (2, 1));
    assert!(matches!(abandoned[..], [(other, 2)] if other != slot));
    assert_eq!(cache.client().references(1), Ok(1), "ours");
    assert_eq!(cache.reclaim(PATIENCE, |_, _| panic!("it is told once")), Ok(Reclaimed::default()));

    let third = Mapped::<Remembering>::attach(cache.share().unwrap()).unwrap();
    for data in [2, 3] {
        assert_eq!(third.client().alloc(data).unwrap().found, Found::Empty, "no slot is lost");
    }
}

#[test]
fn a_cache_whose_processes_were_all_killed_is_used_again() {
    if let Ok(path) = env::var(MEMORY) {
        return begin(&path);
    }
    let made = Mapped::<Remembering>::create(3, sharing()).unwrap();
    let memory = made.share().unwrap();
    drop(made);
    let mut children = [0; 2].map(|_| start(ALL_KILLED, &memory));
    let again = || memory.try_clone().unwrap();
    let none_died = Mapped::<Remembering>::attach_or_succeed(again(), |_, _| panic!("they live"));
    assert!(matches!(none_died, Err(MappedError::Join(JoinError::Full { owners: 2 }))));
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let refused = Mapped::<Remembering>::attach(again());
    assert!(matches!(refused, Err(MappedError::Join(JoinError::Full { owners: 2 }))), "the caller decides");
    let mut abandoned = BTreeSet::new();
    let cache = Mapped::<Remembering>::attach_or_succeed(again(), |_, data| assert!(abandoned.insert(data))).unwrap();
    cache.reclaim(PATIENCE, |_, data| assert!(abandoned.insert(data))).unwrap();
    assert_eq!(abandoned, children.iter().map(|child| child.id().into()).collect());
    assert_eq!((cache.client().cache().empty(), cache.client().cache().members().count()), (3, 1));
}

#[test]
fn what_was_taken_back_is_told_also_if_something_was_in_the_way() {
    if let Ok(path) = env::var(MEMORY) {
        return begin(&path);
    }
    let cache = Mapped::<Remembering>::create(3, Sharing::new(3, 7).unwrap()).unwrap();
    let memory = cache.share().unwrap();
    // In this order they get their numbers, and are buried.
    let mut children = [0; 2].map(|_| start(IN_THE_WAY, &memory));
    let [first, second] = children.each_ref().map(|child| u64::from(child.id()));
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let one = Reclaimed { references: 1, fills: 1, emptied: 1 };
    let by = cache.client().owner().number();
    let mut told = vec![];
    let taken = cache.reclaim(PATIENCE, |_, data| {
        let refused = cache.reclaim(Duration::ZERO, |_, data| told.push(data)).unwrap_err();
        assert_eq!(refused, Unreclaimed { done: one, why: ReclaimError::InProgress { by } });
        told.push(data);
    });
    assert_eq!((taken, told), (Ok(one), vec![second, first]));
}

#[test]
fn processes_that_are_killed_at_any_moment_leave_every_slot_to_the_others() {
    if let Ok(path) = env::var(MEMORY) {
        return churn(&path);
    }
    const SLOTS: u64 = 5;
    let cache = Mapped::<Remembering>::create(SLOTS as usize, Sharing::new(5, 7).unwrap()).unwrap();
    let memory = cache.share().unwrap();
    let mut dice = 1_u64;
    for round in 0..15 {
        let mut children = [0; 4].map(|_| start(CHURN, &memory));
        for child in &mut children {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            thread::sleep(Duration::from_micros(dice >> 54));
            child.kill().unwrap();
        }
        for child in &mut children {
            child.wait().unwrap();
        }
        cache.reclaim(PATIENCE, |slot, _| assert!(u64::from(slot) < SLOTS)).unwrap();
        assert_eq!(cache.client().cache().members().count(), 1, "round {round}: only this process is left");
        let mine = 100..100 + SLOTS;
        let slots: BTreeSet<_> = mine.clone().map(|data| cache.client().alloc(data).unwrap().slot).collect();
        assert_eq!(slots.len() as u64, SLOTS, "round {round}");
        mine.for_each(|data| cache.client().free(data).unwrap());
    }
    let statistics = cache.client().cache().statistics();
    assert!(statistics.loads > 15 * SLOTS, "the processes did something: {statistics:?}");
}

#[test]
fn an_alloc_waits_until_another_client_frees_a_slot_or_its_time_is_over() {
    let ours = Mapped::<Remembering>::create(1, sharing()).unwrap();
    let theirs = Mapped::<Remembering>::attach(ours.share().unwrap()).unwrap();
    theirs.client().alloc(1).unwrap();
    theirs.client().remember(1).unwrap();
    let full = AllocError::Full { slots: 1 };
    let mut asked = 0;
    let mut alloc = |within| {
        ours.within(within, |client| {
            asked += 1;
            // Another client frees it once it was refused several times.
            if asked == 4 {
                theirs.client().free(1).unwrap();
            }
            client.alloc(2)
        })
    };
    assert_eq!(alloc(Duration::ZERO), Err(full), "without a time it asks once");
    assert_eq!(alloc(PATIENCE).unwrap().found, Found::Empty);
    assert_eq!(asked, 4);
    let waits = Duration::from_millis(1);
    assert_eq!(theirs.within(waits, |client| client.alloc(3)), Err(full));
    let mut asked = 0;
    let never = ours.within(PATIENCE, |client| {
        asked += 1;
        client.free(7)
    });
    assert_eq!((never, asked), (Err(FreeError::NotAssigned { data: 7 }), 1), "time does not help");
    assert!(full.passes() && Blocked::Busy { owner: 0 }.passes() && !Blocked::Damaged { at: 0 }.passes());
}

/// How often a thread has gone to sleep, if it lives.
fn sleeps(thread: &Path) -> Option<u64> {
    let status = fs::read_to_string(thread.join("status")).ok()?;
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

#[test]
fn content_is_waited_for_until_it_is_there_or_given_up() {
    let ours = Mapped::<Remembering>::create(2, sharing()).unwrap();
    let theirs = Mapped::<Remembering>::attach(ours.share().unwrap()).unwrap();
    let waits = Duration::from_millis(1);
    assert_eq!(ours.filled(1, PATIENCE), Err(UnfilledError::NotAssigned { data: 1 }));
    thread::scope(|scope| {
        for (data, expected) in [(1, Ok(())), (2, Err(UnfilledError::Abandoned { data: 2 }))] {
            theirs.client().alloc(data).unwrap();
            assert_eq!(ours.client().alloc(data).unwrap().found, Found::Assigned);
            assert_eq!(ours.filled(data, waits), Err(UnfilledError::Filling { data }));
            let (waiting, (says, hears)) = (&ours, mpsc::channel());
            let waiter = scope.spawn(move || {
                let thread = Path::new("/proc").join(fs::read_link("/proc/thread-self").unwrap());
                says.send((sleeps(&thread).unwrap(), thread)).unwrap();
                waiting.filled(data, PATIENCE)
            });
            // It has asked a few times and slept in between; who asks only once has ended.
            let (before, thread) = hears.recv().unwrap();
            while !waiter.is_finished() && sleeps(&thread).is_none_or(|slept| slept < before + 4) {
                thread::yield_now();
            }
            let client = theirs.client();
            if expected.is_ok() { client.remember(data) } else { client.abandon(data) }.unwrap();
            assert_eq!(waiter.join().unwrap(), expected);
        }
    });
    ours.client().cache().interrupt();
    assert!(matches!(ours.filled(1, PATIENCE), Err(UnfilledError::Look(error)) if !error.passes()));
}

#[test]
fn a_place_that_is_given_up_holds_nothing() {
    let ours = Mapped::<Remembering>::create(1, sharing()).unwrap();
    for data in 0..3 {
        let theirs = Mapped::<Remembering>::attach(ours.share().unwrap()).unwrap();
        assert_eq!(theirs.client().alloc(data).unwrap().found, Found::Empty);
        theirs.client().remember(data).unwrap();
        drop(theirs);
        assert_eq!(ours.client().references(data), Ok(0));
    }
    assert_eq!(ours.client().cache().statistics().loads, 3);
}

#[test]
fn memory_without_such_a_cache_is_refused() {
    let cache = Mapped::<Remembering>::create(1, sharing()).unwrap();
    let said = Mapped::<Forgetting>::attach(cache.share().unwrap());
    assert!(matches!(said, Err(MappedError::Attach(AttachError::WrongContract))), "{said:?}");
    let file = File::open("/dev/null").unwrap();
    assert!(matches!(Mapped::<Remembering>::attach(file.into()), Err(MappedError::Segment(_))));
    let said = Mapped::<Remembering>::create(0, sharing());
    assert!(matches!(said, Err(MappedError::Attach(AttachError::NoSlots))), "{said:?}");
    let slots = 1 << 31;
    assert!(matches!(Mapped::<Remembering>::create(slots, sharing()), Err(MappedError::TooManySlots { .. })));
}
