//! Channels in a pool: who has their memory, and when it is the pool's again.
//!
//! They lie there as A69 wants streams to.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use umbra::channel::{Attributes, Channel, Error, SendOptions, Snapshot, Timeout, WaitMode};
use umbra::pool::{self, Pool};
use umbra::reference::{from_text, to_text};

use another::Another;

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
const LONG: Timeout = Timeout::After(Duration::from_secs(60));
/// The 64 bits beside a reference of a pool.
const MAKE: u64 = u64::MAX;

fn pool() -> Arc<Pool> {
    Arc::new(Pool::create(None, &pool::Attributes { bytes: 4 << 20, ..pool::Attributes::default() }).unwrap())
}

fn channel(pool: &Arc<Pool>) -> Channel {
    let uid = umbra::uid::draw().unwrap();
    Channel::create_in(pool, &Attributes { capacity: 4, block: 256, uid, ..Attributes::default() }).unwrap()
}

/// A process that answers over the second channel what comes over the first one: the bytes, or, to a reference of a pool,
/// the reference of a channel that it made there. As a test of its own it does nothing.
#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    let (from, to) = role.split_once(' ').unwrap();
    let [from, to] = [from, to].map(|text| Channel::attach_reference(&from_text(text).unwrap()).unwrap());
    let (receiver, sender) = (from.receiver(WaitMode::Idle).unwrap(), to.sender(SendOptions::default()).unwrap());
    let mut pad = [0; 2000];
    loop {
        let message = receiver.receive(&mut pad, LONG).unwrap();
        let bytes = &pad[..message.len];
        if message.hints == MAKE {
            let pool = Arc::new(Pool::attach_reference(bytes).unwrap());
            let made = Channel::create_in(&pool, &Attributes::default()).unwrap();
            sender.send(&made.reference().unwrap(), 0, LONG).unwrap();
        } else {
            sender.send(bytes, message.hints + 1, LONG).unwrap();
        }
    }
}

/// That process, for these channels.
fn echo(channels: [&Channel; 2]) -> Another {
    Another::start(&channels.map(|channel| to_text(&channel.reference().unwrap())).join(" "))
}

#[test]
fn a_channel_in_a_pool_is_attached_by_its_reference_and_freed_by_the_last_who_leaves_it_destroyed() {
    let pool = pool();
    let (ours, back) = (channel(&pool), channel(&pool));
    assert_eq!(pool.blocks().count(), 2);
    assert_ne!(ours.uid(), back.uid());
    assert_eq!(ours.share().unwrap_err(), Error::Pooled);
    let nobodys = Attributes { members: 0, ..Attributes::default() };
    assert!(Channel::create_in(&pool, &nobodys).is_err());
    assert_eq!(pool.blocks().count(), 2, "what could not be made leaves nothing");
    let mut other = echo([&ours, &back]);
    let (sender, receiver) = (ours.sender(SendOptions::default()).unwrap(), back.receiver(WaitMode::Idle).unwrap());
    // The second message goes through the pool in which the channels are.
    for len in [10, 1000] {
        let bytes = vec![len as u8; len];
        sender.send(&bytes, 1, LONG).unwrap();
        let mut pad = [0; 2000];
        let message = receiver.receive(&mut pad, LONG).unwrap();
        assert_eq!((&pad[..message.len], message.hints), (&bytes[..], 2));
    }
    let reference = ours.reference().unwrap();
    let seen = Snapshot::of_reference(&reference).unwrap();
    assert_eq!((seen.uid, seen.capacity, seen.members.len()), (ours.uid().unwrap(), 4, 2));
    let known = Channel::attach_reference_with(&reference, [pool.clone()]).unwrap();
    known.destroy().unwrap();
    assert!(matches!(Channel::attach_reference(&reference), Err(Error::Destroyed)));
    drop(known);
    other.kill();
    assert_eq!(pool.blocks().count(), 2, "we have it still");
    drop(ours);
    assert_eq!(pool.blocks().count(), 1, "we left it as the last one who lives");
    assert!(Channel::attach_reference(&reference).is_err());
    back.destroy().unwrap();
    drop(back);
    // The other process kept something to itself.
    pool.reclaim().unwrap();
    pool.alloc(4 << 20, 0).unwrap();
}

#[test]
fn a_destroyed_channel_whose_last_member_was_killed_is_freed_by_who_reclaims_it_or_makes_another_one() {
    for makes in [false, true] {
        let pool = pool();
        let (ours, back) = (channel(&pool), channel(&pool));
        let mut other = echo([&ours, &back]);
        let (sender, receiver) = (ours.sender(SendOptions::default()).unwrap(), back.receiver(WaitMode::Idle).unwrap());
        sender.send(b"are you there", 1, LONG).unwrap();
        receiver.receive(&mut [0; 256], LONG).unwrap();
        other.signal(Signal::STOP);
        ours.destroy().unwrap();
        drop(ours);
        assert_eq!((Channel::reclaim_in(&pool), pool.blocks().count()), (0, 2), "who is stopped has it still");
        other.kill();
        pool.reclaim().unwrap();
        assert_eq!(pool.blocks().count(), 2, "nobody has looked after channels");
        if makes {
            let next = channel(&pool);
            assert_eq!(pool.blocks().count(), 2);
            next.destroy().unwrap();
            drop(next);
        }
        assert_eq!((Channel::reclaim_in(&pool), pool.blocks().count()), (usize::from(!makes), 1));
        back.destroy().unwrap();
        drop(back);
        pool.reclaim().unwrap();
        pool.alloc(4 << 20, 0).unwrap();
    }
}

#[test]
fn a_channel_in_a_pool_outlives_its_maker() {
    let pool = pool();
    let (ours, back) = (channel(&pool), channel(&pool));
    let mut other = echo([&ours, &back]);
    let (sender, receiver) = (ours.sender(SendOptions::default()).unwrap(), back.receiver(WaitMode::Idle).unwrap());
    sender.send(&pool.reference().unwrap(), MAKE, LONG).unwrap();
    let mut pad = [0; 400];
    let made = receiver.receive(&mut pad, LONG).unwrap();
    let lasting = Channel::attach_reference_with(&pad[..made.len], [pool.clone()]).unwrap();
    let maker = other.id();
    other.kill();
    pool.free_allocations_of(maker).unwrap();
    let echo = (lasting.sender(SendOptions::default()).unwrap(), lasting.receiver(WaitMode::Idle).unwrap());
    echo.0.send(b"still here", 0, LONG).unwrap();
    assert_eq!(echo.1.receive(&mut pad, LONG).unwrap().len, 10);
    assert_eq!(pool.blocks().count(), 3, "what others may use is not freed with its maker");
    lasting.destroy().unwrap();
    drop(lasting);
    assert_eq!(pool.blocks().count(), 2);
}

#[test]
fn whoever_comes_while_a_channel_ends_writes_into_nobody_elses_memory() {
    let pool = pool();
    let ended = AtomicBool::new(false);
    let size = {
        let channel = channel(&pool);
        let size = pool.blocks().next().unwrap().size;
        channel.destroy().unwrap();
        size
    };
    assert_eq!(pool.blocks().count(), 0);
    let start = Instant::now();
    thread::scope(|scope| {
        // The place of the channel is somebody's who checks that nobody else writes to it, as soon as it is free.
        scope.spawn(|| {
            let pattern = vec![0; 64];
            while !ended.load(Ordering::Relaxed) {
                let Ok(memory) = pool.alloc(size, 0) else { continue };
                memory.clear(0, size).unwrap();
                thread::yield_now();
                for at in (0..size - 64).step_by(64) {
                    let mut seen = vec![1; 64];
                    memory.read(at, &mut seen).unwrap();
                    assert_eq!(seen, pattern, "somebody wrote at {at}");
                }
                memory.free().unwrap();
            }
        });
        while start.elapsed() < Duration::from_millis(700) {
            let channel = channel(&pool);
            let reference = channel.reference().unwrap();
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let came = Channel::attach_reference_with(&reference, [pool.clone()]);
                        if let Ok(came) = came {
                            let sent = came.sender(SendOptions::default()).unwrap().send(b"x", 0, Timeout::Now);
                            assert!(matches!(sent, Ok(()) | Err(Error::Destroyed)), "{sent:?}");
                        }
                    });
                }
                channel.destroy().unwrap();
                drop(channel);
            });
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(pool.blocks().count(), 0, "whoever left as the last one freed it");
}

#[test]
fn the_block_of_a_channel_is_freed_by_nobody_who_only_sees_the_block() {
    let pool = pool();
    let ours = channel(&pool);
    let sender = ours.sender(SendOptions::default()).unwrap();
    let block = pool.blocks().next().unwrap();
    let allocation = || pool.allocation(block.id).unwrap();
    assert_eq!(allocation().free(), Err(pool::Error::IsChannel));
    assert_eq!(allocation().own(), Err(pool::Error::IsChannel));
    let sent = sender.send_memory(allocation(), 1, Timeout::Now);
    assert_eq!(sent, Err(Error::Pool(pool::Error::IsChannel)));
    let mine = pool.alloc(block.len, 0).unwrap();
    mine.clear(0, block.len).unwrap();
    sender.send(b"lies in the channel", 1, Timeout::Now).unwrap();
    let mut bytes = vec![1; block.len as usize];
    mine.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0), "the next one's memory is its own");
    mine.free().unwrap();
    ours.destroy().unwrap();
    drop(ours);
    assert_eq!(pool.blocks().count(), 0);
}

#[test]
fn whoever_waits_at_a_channel_hears_that_its_pool_was_destroyed() {
    let pool = pool();
    let small = Attributes { capacity: 2, spares: 0, block: 256, ..Attributes::default() };
    let channels = [(); 3].map(|()| Channel::create_in(&pool, &small).unwrap());
    let [empty, full, met] = &channels;
    let sender = full.sender(SendOptions::default()).unwrap();
    while sender.send(b"there", 0, Timeout::Now).is_ok() {}
    let begun = Instant::now();
    thread::scope(|scope| {
        let receives = || {
            let mut pad = [0; 256];
            empty.receiver(WaitMode::Idle).unwrap().receive(&mut pad, LONG).map(drop)
        };
        let waits = [
            scope.spawn(receives),
            scope.spawn(receives),
            scope.spawn(|| sender.send(b"one too many", 0, LONG)),
            scope.spawn(|| met.barrier().unwrap().wait(WaitMode::Idle, LONG).map(drop)),
        ];
        thread::sleep(Duration::from_millis(300));
        pool.destroy().unwrap();
        for (nth, wait) in waits.into_iter().enumerate() {
            assert_eq!(wait.join().unwrap(), Err(Error::Destroyed), "wait {nth}");
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(sender.send(b"late", 0, Timeout::Now), Err(Error::Destroyed));
}
