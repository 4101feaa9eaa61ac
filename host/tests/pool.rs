//! Pools of managed memory between threads and processes: A01, A12, A13, A17, A18.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod another;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use umbra::channel::Channel;
use umbra::pool::{Allocation, Attributes, Error, Lifetime, Memory, NAME_MAX, Pool, clean, list};
use umbra::reference::{from_text, to_text};
use umbra::sys::process::ProcessId;

use another::{Another, ready, until};

const MIB: u64 = 1 << 20;
/// What two pools are both called by their makers.
const TWIN: u64 = 77;

fn attributes(bytes: u64) -> Attributes {
    Attributes { bytes, ..Attributes::default() }
}

/// Of a pool that ends with its last user.
fn kept() -> Attributes {
    Attributes { lifetime: Lifetime::LastUser, ..attributes(MIB) }
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

/// A process that attaches to a pool or makes one, and sleeps until it is killed.
fn other(what: &str, name: &str) -> Another {
    Another::start(&format!("{what} {name}"))
}

/// Where a process is to work that makes a pool in its working directory.
const ELSEWHERE: &str = "UMBRA_TEST_ELSEWHERE";
const ALL_IS_RIGHT: &str = "all is right elsewhere";

/// As a test of its own it does nothing: the working directory is that of all tests of a process.
#[test]
fn one_who_works_elsewhere() {
    let Some(elsewhere) = std::env::var_os(ELSEWHERE) else { return };
    let here = std::env::current_dir().unwrap();
    let memory = Memory::Folder(".".into());
    let pool = Pool::create(Some("x"), &Attributes { memory, ..attributes(MIB) }).unwrap();
    let reference = pool.reference().unwrap();
    std::env::set_current_dir(elsewhere).unwrap();
    pool.alloc(100, 9).unwrap();
    let theirs = Pool::attach_reference(&reference).unwrap();
    assert_eq!(theirs.blocks().map(|block| block.kind).collect::<Vec<_>>(), [9]);
    let missing = Pool::attach_in(Path::new("."), "x").map(drop);
    assert!(matches!(&missing, Err(Error::Missing { folder, .. }) if folder.is_absolute()), "{missing:?}");
    drop((pool, theirs));
    assert_eq!(std::fs::read_dir(here).unwrap().count(), 0, "nothing is left behind");
    println!("{ALL_IS_RIGHT}");
}

#[test]
fn a_pool_in_a_relative_folder_is_found_and_removed_from_another_one() {
    let top = std::env::temp_dir().join(name("umbra-relative"));
    let [here, elsewhere] = ["here", "elsewhere"].map(|folder| top.join(folder));
    [&here, &elsewhere].iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let said = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "one_who_works_elsewhere", "--nocapture"])
        .current_dir(&here)
        .env(ELSEWHERE, &elsewhere)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success() && words.contains(ALL_IS_RIGHT), "{said:?}");
    std::fs::remove_dir_all(top).unwrap();
}

#[test]
fn a_folder_that_is_no_text_has_no_reference_and_no_folder_no_pool() {
    let mut path = std::env::temp_dir().join(name("umbra-untold")).into_os_string().into_vec();
    path.push(0xff);
    let folder = PathBuf::from(OsString::from_vec(path));
    std::fs::create_dir(&folder).unwrap();
    let within = |folder: &Path| Attributes { memory: Memory::Folder(folder.to_owned()), ..attributes(MIB) };
    let pool = Pool::create(Some("x"), &within(&folder)).unwrap();
    assert_eq!(pool.reference(), Err(Error::Reference(umbra::reference::Error::Path)));
    drop(pool);
    std::fs::remove_dir(&folder).unwrap();
    let none = Pool::create(Some("x"), &within(Path::new(""))).map(drop);
    assert!(matches!(none, Err(Error::File { .. })), "{none:?}");
}

#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    let (what, name) = role.split_once(' ').unwrap();
    let pool = match what {
        "create" => Pool::create(Some(name), &attributes(MIB)).unwrap(),
        "create-kept" => Pool::create(Some(name), &kept()).unwrap(),
        "twin" => {
            let pool = Pool::create(None, &Attributes { uid: TWIN, ..attributes(MIB) }).unwrap();
            let block = pool.alloc(100, 0).unwrap();
            block.write(0, b"other").unwrap();
            ready(to_text(&block.reference().unwrap()));
            return std::thread::sleep(Duration::from_secs(60));
        }
        "attach" => Pool::attach(name).unwrap(),
        churned => {
            let seed = churned.strip_prefix("churn-").unwrap().parse().unwrap();
            // A million takes and frees by all four.
            return churn(&Pool::attach(name).unwrap(), seed, 250_000);
        }
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
    let folder = PathBuf::from("/dev/shm");
    let exists = Error::Exists { name: longest.clone(), folder: folder.clone() };
    assert_eq!(Pool::create(Some(&longest), &attributes(MIB)).unwrap_err(), exists);
    drop(Pool::attach(&longest).unwrap());
    drop(pool);
    assert!(is_gone(&longest));
    assert_eq!(Pool::attach(&longest).unwrap_err(), Error::Missing { name: longest, folder });
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
    let too_long = Attributes { reserved: vec![(64, 10), (100_000, 1)], ..Attributes::default() };
    let refused = Pool::create(None, &too_long).unwrap_err();
    assert_eq!(refused.code(), "INVALID_ARGUMENT");
    let said = "no such pool can be made: 1 blocks of 100000 bytes (entry 1) cannot be reserved: \
                blocks of at most 65536 bytes can be, in this heap";
    assert_eq!(refused.to_string(), said);
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
    let mut other = other("attach", &name);
    until("its blocks", || pool.blocks().count() == 9);
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
    let mut others = [other("create", &ends), other("create-kept", &stays)];
    let full = |name: &str| Pool::attach(name).is_ok_and(|pool| pool.blocks().count() == 9);
    until("the first pool", || Path::new(&files(&ends)[0]).exists() && full(&ends));
    until("the second pool", || full(&stays));
    let (user, survivor) = (Pool::attach(&stays).unwrap(), Pool::attach(&ends).unwrap());
    others.iter_mut().for_each(Another::kill);
    // Whoever makes a pool at the same time removes it too.
    let over = Pool::attach(&ends).unwrap_err();
    assert!(matches!(over, Error::Destroyed | Error::Missing { .. }), "{over}");
    assert!(is_gone(&ends));
    assert_eq!(survivor.alloc(10, 0).unwrap().len(), 10, "only the name is gone");
    assert!(!clean().unwrap().contains(&stays), "somebody uses it");
    assert_eq!(user.alloc(10, 0).unwrap().len(), 10);
    drop(user);
    assert!(is_gone(&stays), "its last user is gone");
}

#[test]
fn a_pool_whose_users_were_killed_is_removed_though_the_process_that_made_it_lives() {
    let name = name("outlived");
    let made = Pool::create(Some(&name), &kept()).unwrap();
    let mut user = other("attach", &name);
    until("its blocks", || made.blocks().count() == 9);
    drop(made);
    assert!(!is_gone(&name), "somebody uses it");
    user.kill();
    clean().unwrap();
    assert!(is_gone(&name));
}

#[test]
fn who_only_looked_at_a_pool_and_then_used_it_is_its_last_user() {
    let name = name("looked");
    let made = Pool::create(Some(&name), &kept()).unwrap();
    let [looks, uses] = [(); 2].map(|()| Pool::inspect(Path::new("/dev/shm"), &name).unwrap());
    let block = uses.alloc(100, 0).unwrap();
    drop((made, looks));
    assert!(!is_gone(&name), "somebody uses it");
    block.free().unwrap();
    drop(uses);
    assert!(is_gone(&name));
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
fn threads_share_the_places_of_a_pool_that_has_fewer() {
    let pool = Pool::create(None, &Attributes { members: 1, ..attributes(MIB) }).unwrap();
    let uses = || (0..200).try_for_each(|_| pool.alloc(100, 0)?.free());
    std::thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(uses));
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
    });
    let [manifest, data] = pool.share().unwrap();
    assert_eq!(Pool::attach_shared(manifest, data).unwrap_err(), Error::Members { members: 1 }, "it is another user");
}

#[test]
fn a12_a_uid_is_one_pools_of_a_process_as_long_as_that_lives() {
    let with = |uid| Attributes { uid, ..attributes(MIB) };
    let uid = umbra::uid::draw().unwrap();
    let name = name("uid");
    let first = Pool::create(Some(&name), &with(uid)).unwrap();
    let taken = Pool::create(None, &with(uid)).unwrap_err();
    assert_eq!((&taken, taken.code()), (&Error::UidTaken(uid), "INVALID_ARGUMENT"));
    let beside = format!("{name}2");
    assert_eq!(Pool::create(Some(&beside), &with(uid)).unwrap_err(), taken);
    assert!(is_gone(&beside), "nothing is left behind");
    // Attaching is not making, and no number is none.
    let same = Pool::attach(&name).unwrap();
    assert_eq!(same.uid(), uid);
    let nameless = [0, 0].map(|uid| Pool::create(None, &with(uid)).unwrap());
    drop(same);
    assert!(Pool::create(None, &with(uid)).is_err(), "the first one lives");
    first.destroy().unwrap();
    let second = Pool::create(None, &with(uid)).unwrap();
    drop(first);
    assert!(Pool::create(None, &with(uid)).is_err(), "the second one lives");
    drop(second);
    Pool::create(None, &with(uid)).unwrap();
    drop(nameless);
    // Channels have numbers of their own.
    let channels = umbra::channel::Attributes { uid, ..umbra::channel::Attributes::default() };
    let third = Pool::create(None, &with(uid)).unwrap();
    let channel = Channel::create(&channels).unwrap();
    let taken = Channel::create(&channels).unwrap_err();
    assert_eq!((&taken, taken.code()), (&umbra::channel::Error::UidTaken(uid), "INVALID_ARGUMENT"));
    channel.destroy().unwrap();
    Channel::create(&channels).unwrap();
    assert_eq!(third.uid(), uid);
}

#[test]
fn a12_pools_of_two_processes_with_one_uid_are_never_taken_for_each_other() {
    let first = Pool::create(None, &Attributes { uid: TWIN, ..attributes(MIB) }).unwrap();
    let (_other, reference) = Another::start_ready("twin of it");
    let ours = first.alloc(100, 0).unwrap();
    ours.write(0, b"first").unwrap();
    let references = [ours.reference().unwrap(), from_text(&reference).unwrap()];
    let second = Pool::attach_reference(&references[1]).unwrap();
    let theirs = second.allocation_of(&references[1]).unwrap();
    // The same place in both, and the same id.
    assert_eq!((ours.id(), first.uid()), (theirs.id(), second.uid()));
    let replaced = Err(Error::Reference(umbra::reference::Error::Replaced));
    assert_eq!(first.allocation_of(&references[1]).map(drop), replaced);
    assert_eq!(second.allocation_of(&references[0]).map(drop), replaced);
    assert!(!theirs.is_same(&ours));
    let mut bytes = [0; 5];
    theirs.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"other");
    theirs.free().unwrap();
    ours.read(0, &mut bytes).unwrap();
    assert_eq!((&bytes, ours.exists(), theirs.exists()), (b"first", true, false));
    second.destroy().unwrap();
    first.alloc(100, 0).unwrap();
    assert_eq!(second.alloc(100, 0).map(drop), Err(Error::Destroyed));
}

/// Takes and frees blocks of up to 4096 bytes at random. Each is full of its own number, and is looked at before it is
/// freed: somebody else's bytes in it would be those of another block at the same place.
fn churn(pool: &Pool, seed: u64, operations: usize) {
    let mut state = seed;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % n
    };
    // Copied and not counted out byte by byte: that would take most of the time where nothing is optimised.
    let pattern = |block: &Allocation<'_>| {
        let len = usize::try_from(block.len()).unwrap();
        let mut bytes = block.id().to_bits().to_le_bytes().repeat(len.div_ceil(8));
        bytes.truncate(len);
        bytes
    };
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..operations {
        if held.len() < 200 && below(2) == 0 {
            match pool.alloc(below(4096) as u64 + 1, 0) {
                Ok(block) => {
                    block.write(0, &pattern(&block)).unwrap();
                    held.push(block);
                }
                Err(error) => {
                    assert!(matches!(error, Error::Alloc(_)), "seed {seed}: {error}");
                    refused += 1;
                }
            }
        } else if !held.is_empty() {
            check_and_free(&held.swap_remove(below(held.len())), &pattern);
        }
    }
    held.iter().for_each(|block| check_and_free(block, &pattern));
    assert!(refused < operations / 4, "seed {seed}: the pool was full {refused} times");
}

fn check_and_free(block: &Allocation<'_>, pattern: &impl Fn(&Allocation<'_>) -> Vec<u8>) {
    let mut bytes = vec![0; usize::try_from(block.len()).unwrap()];
    block.read(0, &mut bytes).unwrap();
    assert!(bytes == pattern(block), "block {:?} is not only its owner's", block.id());
    block.free().unwrap();
}

#[test]
fn a01_blocks_of_four_processes_never_overlap_and_all_of_the_pool_is_there_at_the_end() {
    let name = name("churned");
    let pool = Pool::create(Some(&name), &Attributes { granule: 32, ..attributes(MIB) }).unwrap();
    let others: Vec<Another> = (0..4).map(|seed| other(&format!("churn-{seed}"), &name)).collect();
    others.into_iter().for_each(Another::finish);
    pool.reclaim().unwrap();
    assert_eq!(pool.blocks().count(), 0);
    pool.alloc(MIB, 0).unwrap();
}
