//! Pools of managed memory, between threads and between processes: A12, A13, A17, A18.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use umbra::pool::{Attributes, Error, Lifetime, NAME_MAX, Pool, clean, list};
use umbra::sys::process::ProcessId;

const MIB: u64 = 1 << 20;

fn attributes(bytes: u64) -> Attributes {
    Attributes { bytes, ..Attributes::default() }
}

/// A name that no other test, and no other run, uses.
fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

fn files(name: &str) -> [PathBuf; 2] {
    ["m", "d"].map(|end| PathBuf::from(format!("/dev/shm/umbra-pool.{name}.{end}")))
}

fn is_gone(name: &str) -> bool {
    !files(name).iter().any(|path| path.exists())
}

/// This program again, as a process that attaches to a pool or makes one, and sleeps until it is killed.
struct Other(Child);

impl Other {
    fn start(what: &str, name: &str) -> Other {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "another_process", "--nocapture"])
            .env("UMBRA_TEST_POOL", format!("{what} {name}"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Other(child)
    }

    fn id(&self) -> ProcessId {
        ProcessId::of(self.0.id()).unwrap()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_process() {
    let Ok(task) = std::env::var("UMBRA_TEST_POOL") else { return };
    let (what, name) = task.split_once(' ').unwrap();
    let pool = match what {
        "create" => Pool::create(Some(name), &attributes(MIB)).unwrap(),
        "create-kept" => {
            let kept = Attributes { lifetime: Lifetime::LastUser, ..attributes(MIB) };
            Pool::create(Some(name), &kept).unwrap()
        }
        _ => Pool::attach(name).unwrap(),
    };
    for _ in 0..30 {
        for len in [40, 1000, 50_000] {
            if pool.blocks().count() < 9 {
                pool.alloc(len, 3).unwrap();
            }
        }
    }
    std::thread::sleep(Duration::from_secs(60));
}

/// Waits for what another process does.
fn until(mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < Duration::from_secs(50), "the other process does nothing");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a12_a13_names_are_checked_and_files_are_private_and_gone_at_the_end() {
    let longest = format!("{:x<NAME_MAX$}", name("limits"));
    for bad in ["", "a/b", "a\0b", &format!("{longest}x")] {
        assert_eq!(Pool::create(Some(bad), &attributes(MIB)).unwrap_err(), Error::BadName(bad.to_owned()));
    }
    let pool = Pool::create(Some(&longest), &attributes(MIB)).unwrap();
    assert!(list().unwrap().contains(&longest));
    for path in files(&longest) {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(matches!(Pool::create(Some(&longest), &attributes(MIB)), Err(Error::File { .. })), "it is there");
    drop(Pool::attach(&longest).unwrap());
    drop(pool);
    assert!(is_gone(&longest));
    assert!(matches!(Pool::attach(&longest), Err(Error::File { .. })));
}

#[test]
fn a_pool_that_cannot_be_made_leaves_nothing() {
    let name = name("refused");
    let refused = [
        Attributes { bytes: 0, ..Attributes::default() },
        Attributes { bytes: 100, ..Attributes::default() },
        Attributes { members: 0, ..attributes(MIB) },
        // Far more than any /dev/shm has.
        attributes((1 << 40) - 1),
        Attributes { reserved: vec![(64, 1 << 20)], ..attributes(MIB) },
    ];
    for attributes in refused {
        assert!(Pool::create(Some(&name), &attributes).is_err(), "{attributes:?}");
        assert!(is_gone(&name), "{attributes:?}");
    }
}

#[test]
fn views_stay_inside_and_go_stale() {
    let pool = Pool::create(None, &attributes(MIB)).unwrap();
    let all = pool.alloc(100, 0).unwrap();
    for (offset, len) in [(101, 0), (0, 101), (1, u64::MAX), (u64::MAX, 2), (50, 51)] {
        assert_eq!(all.part(offset, len).unwrap_err(), Error::OutOfBounds { offset, len, size: 100 });
    }
    let part = all.part(10, 50).unwrap().part(5, 20).unwrap();
    part.write(0, b"inner").unwrap();
    let mut bytes = [0; 5];
    all.read(15, &mut bytes).unwrap();
    assert_eq!((&bytes, part.len(), all.part(100, 0).unwrap().len()), (b"inner", 20, 0));
    assert!(part.write(16, b"inner").is_err());
    let other = pool.alloc(100, 0).unwrap();
    all.copy_to(&other).unwrap();
    other.read(15, &mut bytes).unwrap();
    assert_eq!(&bytes, b"inner");
    assert!(all.copy_to(&part).is_err());
    part.free().unwrap();
    assert!(!all.exists() && all.free() == Err(Error::Stale) && all.read(0, &mut bytes) == Err(Error::Stale));
}

#[test]
fn a_pool_that_is_destroyed_wakes_who_waits_and_refuses_who_comes() {
    let name = name("destroyed");
    let pool = Pool::create(Some(&name), &attributes(MIB)).unwrap();
    let theirs = Pool::attach(&name).unwrap();
    let all = theirs.alloc(MIB, 0).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pool.alloc_within(1, 0, Duration::from_secs(50)).map(|_| ()));
        std::thread::sleep(Duration::from_millis(20));
        theirs.destroy().unwrap();
        assert_eq!(waits.join().unwrap(), Err(Error::Destroyed));
    });
    assert!(is_gone(&name));
    assert_eq!((all.free(), pool.destroy()), (Err(Error::Destroyed), Err(Error::Destroyed)));
}

#[test]
fn a17_what_a_killed_process_held_stays_until_somebody_frees_it() {
    let name = name("killed");
    let pool = Pool::create(Some(&name), &attributes(MIB)).unwrap();
    let ours = pool.alloc(77, 1).unwrap();
    let mut other = Other::start("attach", &name);
    until(|| pool.blocks().count() == 9);
    let process = other.id();
    assert_eq!(pool.allocations_of(process).len(), 8);
    assert_eq!(pool.free_allocations_of(process), Err(Error::Lives(process)));
    other.kill();
    assert_eq!(pool.reclaim(), Ok(0), "it still holds blocks");
    let later = ProcessId { start: process.start + 1, ..process };
    assert_eq!((pool.free_allocations_of(later), pool.allocations_of(process).len()), (Ok(0), 8));
    assert_eq!(pool.free_allocations_of(process), Ok(8));
    assert_eq!(pool.blocks().map(|block| block.id).collect::<Vec<_>>(), [ours.id()]);
    ours.free().unwrap();
    pool.alloc(MIB, 0).unwrap();
}

#[test]
fn a18_pools_of_killed_processes_are_removed() {
    let (ends, stays) = (name("ends"), name("stays"));
    let mut others = [Other::start("create", &ends), Other::start("create-kept", &stays)];
    let full = |name: &str| Pool::attach(name).is_ok_and(|pool| pool.blocks().count() == 9);
    until(|| Path::new(&files(&ends)[0]).exists() && full(&ends));
    until(|| full(&stays));
    let user = Pool::attach(&stays).unwrap();
    others.iter_mut().for_each(Other::kill);
    // Whoever makes a pool at the same time removes it too.
    let over = Pool::attach(&ends).unwrap_err();
    assert!(matches!(over, Error::Destroyed | Error::File { .. }), "{over}");
    assert!(is_gone(&ends));
    assert!(!clean().unwrap().contains(&stays), "somebody uses it");
    assert_eq!(user.alloc(10, 0).unwrap().len(), 10);
    drop(user);
    assert!(is_gone(&stays), "its last user is gone");
}

#[test]
fn threads_share_a_handle() {
    let pool = Pool::create(None, &attributes(MIB)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..12_u64 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..2000 {
                    let Ok(memory) = pool.alloc(1 + (thread * 97 + round) % 3000, 0) else { continue };
                    memory.write(0, &[thread as u8]).unwrap();
                    let mut byte = [0];
                    memory.read(0, &mut byte).unwrap();
                    assert_eq!(byte, [thread as u8]);
                    memory.free().unwrap();
                }
            });
        }
    });
    pool.alloc(MIB, 0).unwrap();
}

#[test]
fn a12_two_pools_with_one_uid_are_never_taken_for_each_other() {
    let make = || Pool::create(None, &Attributes { uid: 77, ..attributes(MIB) }).unwrap();
    let (first, second) = (make(), make());
    let ours = first.alloc(100, 0).unwrap();
    ours.write(0, b"first").unwrap();
    // The same place in both, and the same id.
    let theirs = second.alloc(100, 0).unwrap();
    theirs.write(0, b"other").unwrap();
    assert_eq!((ours.id(), first.uid()), (theirs.id(), second.uid()));
    let references = [ours.reference().unwrap(), theirs.reference().unwrap()];
    let replaced = Err(Error::Reference(umbra::reference::Error::Replaced));
    assert_eq!(first.allocation_of(&references[1]).map(drop), replaced);
    assert_eq!(second.allocation_of(&references[0]).map(drop), replaced);
    let again = Pool::attach_reference(&references[1]).unwrap();
    let same = again.allocation_of(&references[1]).unwrap();
    assert!(same.is_same(&theirs) && !same.is_same(&ours));
    theirs.free().unwrap();
    let mut bytes = [0; 5];
    ours.read(0, &mut bytes).unwrap();
    assert_eq!((&bytes, ours.exists(), same.exists()), (b"first", true, false));
    second.destroy().unwrap();
    first.alloc(100, 0).unwrap();
    assert_eq!(again.alloc(100, 0).map(drop), Err(Error::Destroyed));
}
