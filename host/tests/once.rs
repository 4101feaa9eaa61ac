//! Attaching pools and channels as often as one likes, with one place in each.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra::channel::{self, Channel, SendOptions, Timeout, WaitMode};
use umbra::pool::{self, Lifetime, Pool, list};
use umbra::reference::{self, from_text, to_text};

mod another;
use another::{Another, ready, role};

/// Places of what the tests make: one is the maker's.
const PLACES: u16 = 2;
const TIMES: usize = 200;

fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

fn make(name: Option<&str>) -> Arc<Pool> {
    let attributes = pool::Attributes { bytes: 1 << 20, members: PLACES, ..pool::Attributes::default() };
    Arc::new(Pool::create(name, &attributes).unwrap())
}

fn channel_attributes() -> channel::Attributes {
    channel::Attributes { members: PLACES, ..channel::Attributes::default() }
}

/// Makes a pool, or leaves a block in one, or attaches a pool and a channel many times, says so, and waits until it is killed; as a test of its own
/// it does nothing.
#[test]
fn another_process() {
    let Some(role) = role() else { return };
    if let Some(name) = role.strip_prefix("makes ") {
        let pool = make(Some(name));
        ready(to_text(&pool.reference().unwrap()));
        loop {
            std::thread::park();
        }
    }
    if let Some(reference) = role.strip_prefix("leaves ") {
        let pool = Pool::attach_reference(&from_text(reference).unwrap()).unwrap();
        pool.alloc(100, 0).unwrap();
        drop(pool);
        ready("left");
        loop {
            std::thread::park();
        }
    }
    let references: Vec<_> = role.split(' ').map(|text| from_text(text).unwrap()).collect();
    let pools: Vec<_> = (0..TIMES).map(|_| Pool::attach_reference_once(&references[0]).unwrap()).collect();
    let channels: Vec<_> = (0..TIMES).map(|_| Channel::attach_reference_once(&references[1]).unwrap()).collect();
    ready(pools.len() + channels.len());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_pool_is_attached_many_times_in_one_place_which_the_last_handle_gives_up() {
    let name = name("once");
    let made = make(Some(&name));
    let block = made.alloc(100, 0).unwrap();
    let references = [made.reference().unwrap(), block.reference().unwrap()];
    let mut handles: Vec<_> = (0..TIMES).map(|_| Pool::attach_once(&name).unwrap()).collect();
    handles.extend((0..TIMES).map(|time| Pool::attach_reference_once(&references[time % 2]).unwrap()));
    assert_eq!(made.users().count(), 2);
    assert!(Pool::attach(&name).is_err(), "a handle of its own would need a third place");
    // Whoever goes leaves the others what they have.
    for _ in 1..handles.len() {
        drop(handles.swap_remove(handles.len() / 3));
        assert!(handles[0].allocation(block.id()).unwrap().exists());
    }
    assert_eq!(made.users().count(), 2);
    handles.clear();
    assert_eq!(made.users().count(), 1);
    for _ in 0..TIMES {
        assert!(Pool::attach_once(&name).is_ok());
    }
    assert_eq!(made.users().count(), 1);
}

#[test]
fn threads_that_attach_and_leave_at_once_share_a_place() {
    let made = make(None);
    let reference = made.reference().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    let pool = Pool::attach_reference_once(&reference).unwrap();
                    assert!(pool.users().count() >= 2 && pool.figures().bytes == 1 << 20);
                }
            });
        }
    });
    assert_eq!(made.users().count(), 1);
}

#[test]
fn who_left_blocks_behind_comes_back_to_his_place() {
    let made = make(None);
    let reference = made.reference().unwrap();
    let blocks: Vec<_> = (0..TIMES)
        .map(|time| {
            let pool = if time % 2 == 0 { Pool::attach_reference(&reference) } else { made.share().and_then(attach) };
            let id = pool.unwrap().alloc(100, 0).unwrap().id();
            assert_eq!(made.users().count(), 2);
            id
        })
        .collect();
    assert_eq!(made.blocks().count(), TIMES);
    blocks.into_iter().for_each(|id| made.allocation(id).unwrap().free().unwrap());
    // With no blocks of its own left the place goes with the handle that comes back to it.
    drop(Pool::attach_reference(&reference).unwrap());
    assert_eq!(made.users().count(), 1);
}

fn attach([manifest, data]: [OwnedFd; 2]) -> Result<Pool, pool::Error> {
    Pool::attach_shared(manifest, data)
}

#[test]
fn threads_that_leave_blocks_behind_come_back_each_to_another_place() {
    const THREADS: u16 = 4;
    let attributes = pool::Attributes { bytes: 8 << 20, members: 1 + THREADS, ..pool::Attributes::default() };
    let made = Pool::create(None, &attributes).unwrap();
    let reference = made.reference().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let reference = &reference;
            scope.spawn(move || {
                for time in 0..TIMES {
                    let pool = if thread % 2 == 0 {
                        Arc::new(Pool::attach_reference(reference).unwrap())
                    } else {
                        Pool::attach_reference_once(reference).unwrap()
                    };
                    // One in three is of no consequence for the place.
                    let block = pool.alloc(1 + time as u64, 1 + u32::from(thread)).unwrap();
                    if time % 3 == 0 {
                        block.free().unwrap();
                    }
                }
            });
        }
    });
    for thread in 0..THREADS {
        let of_thread = made.blocks().filter(|block| block.kind == 1 + u32::from(thread));
        assert_eq!(of_thread.count(), TIMES - TIMES.div_ceil(3));
    }
    assert!(made.users().count() <= usize::from(1 + THREADS));
}

#[test]
fn the_place_that_another_process_left_stays_its_own() {
    let name = name("left");
    let lifetime = Lifetime::LastUser;
    let attributes = pool::Attributes { bytes: 1 << 20, members: 3, lifetime, ..pool::Attributes::default() };
    let made = Pool::create(Some(&name), &attributes).unwrap();
    let reference = made.reference().unwrap();
    let (mut another, _) = Another::start_ready(&format!("leaves {}", to_text(&reference)));
    assert_eq!(made.users().count(), 2);
    let ours = Pool::attach_reference(&reference).unwrap();
    ours.alloc(100, 0).unwrap();
    assert_eq!(made.users().count(), 3, "we did not take the other's place");
    let owners = made.blocks().map(|block| block.owner).collect::<BTreeSet<_>>();
    assert_eq!(owners.len(), 2);
    // A process that left does not use the pool.
    drop(made);
    drop(ours);
    assert!(!list().unwrap().contains(&name));
    another.kill();
}

#[test]
fn a_channel_is_attached_many_times_in_one_place_which_the_last_handle_gives_up() {
    let pool = make(None);
    let own = Channel::create(&channel_attributes()).unwrap();
    let pooled = Channel::create_in(&pool, &channel_attributes()).unwrap();
    for made in [own, pooled] {
        let reference = made.reference().unwrap();
        let mut handles: Vec<_> = (0..TIMES).map(|_| Channel::attach_reference_once(&reference).unwrap()).collect();
        assert_eq!(pool.users().count(), if made.share().is_ok() { 1 } else { 2 });
        assert!(Channel::attach_reference(&reference).is_err(), "a handle of its own would need a third place");
        while let Some(handle) = handles.pop() {
            handle.sender(SendOptions::default()).unwrap().send(b"here", 0, Timeout::Now).unwrap();
            let message = made.receiver(WaitMode::Idle).unwrap().receive(&mut [0; 8], Timeout::Now).unwrap();
            assert_eq!(message.len, 4);
        }
        assert_eq!(pool.users().count(), 1);
        // As many others as there are places come after them.
        drop(Channel::attach_reference(&reference).unwrap());
        let handle = Channel::attach_reference_once(&reference).unwrap();
        made.destroy().unwrap();
        assert_eq!(Channel::attach_reference_once(&reference).unwrap_err(), channel::Error::Destroyed);
        drop(handle);
        assert!(Channel::attach_reference_once(&reference).is_err());
    }
}

#[test]
fn what_is_over_is_not_attached_again_and_nothing_else_in_its_place() {
    let name = name("over");
    let made = make(Some(&name));
    let reference = made.reference().unwrap();
    let before = Pool::attach_once(&name).unwrap();
    made.destroy().unwrap();
    assert_eq!(Pool::attach_reference_once(&reference).unwrap_err(), pool::Error::Destroyed);
    assert!(matches!(Pool::attach_once(&name), Err(pool::Error::Missing { .. })));
    // Another one by the same name is another one, also while somebody still has the first.
    let made = make(Some(&name));
    let after = Pool::attach_once(&name).unwrap();
    assert!(!Arc::ptr_eq(&before, &after) && after.instance() == made.instance());
    drop(before);
    let gone = Pool::attach_reference_once(&reference).unwrap_err();
    assert_eq!(gone, pool::Error::Reference(reference::Error::Replaced));
    let channel = Channel::create(&channel_attributes()).unwrap().reference().unwrap();
    let wrong = Pool::attach_reference_once(&channel).unwrap_err();
    assert_eq!(wrong, pool::Error::Reference(reference::Error::WrongObject));
}

#[test]
fn an_old_handle_does_nothing_to_a_new_pool_by_the_same_name() {
    let name = name("renewed");
    let (mut another, said) = Another::start_ready(&format!("makes {name}"));
    let reference = from_text(&said).unwrap();
    let old = Pool::attach_reference_once(&reference).unwrap();
    another.kill();
    let made = Pool::create(Some(&name), &pool::Attributes { bytes: 1 << 20, ..pool::Attributes::default() }).unwrap();
    let is_there = || Pool::attach(&name).is_ok_and(|found| found.instance() == made.instance());
    assert!(is_there() && old.instance() != made.instance());
    assert_eq!(Pool::attach_reference_once(&reference).unwrap_err(), pool::Error::Destroyed);
    assert!(is_there(), "the old pool is over, and another one has its place");
    assert_eq!(old.destroy(), Ok(()));
    assert!(is_there(), "who destroys the old pool has nothing of the new one");
    drop(old);
    assert!(is_there());
    drop(made);
    assert!(!list().unwrap().contains(&name));
}

#[test]
fn a_killed_process_that_attached_many_times_leaves_nothing() {
    let name = name("killed");
    let attributes = pool::Attributes {
        bytes: 1 << 20,
        members: PLACES,
        lifetime: Lifetime::LastUser,
        ..pool::Attributes::default()
    };
    let pool = Pool::create(Some(&name), &attributes).unwrap();
    let channel = Channel::create(&channel_attributes()).unwrap();
    let role = [pool.reference().unwrap(), channel.reference().unwrap()].map(|bytes| to_text(&bytes)).join(" ");
    for _ in 0..5 {
        let (mut another, said) = Another::start_ready(&role);
        assert_eq!((said, pool.users().count()), ((2 * TIMES).to_string(), 2));
        another.kill();
        assert_eq!(pool.reclaim(), Ok(1));
        assert_eq!((pool.users().count(), channel.reap()), (1, Ok(1)));
    }
    drop(pool);
    assert!(!list().unwrap().contains(&name));
}
