//! All interleavings of a few threads that wait for a slot cache, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_slot_caches`. A wake that gets lost
//! leaves a thread parked for good, which loom reports as a deadlock; content that is read while it is written, or
//! without having seen its writer, as a race.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod parking;

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use loom::cell::Cell;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::{Arc, Mutex};
use loom::thread;
use umbra_core::cache::policy::Fifo;
use umbra_core::cache::waiting::{ContentError, Fill, Given, Held, Shared, WaitError, Waiter, Waiting};
use umbra_core::cache::{AllocError, Dense, Forgetful, Forgetting, Slot};

use parking::{Model, check, wait, waker};

type Locked = Model<Waiting<[Slot; 2], Dense<[u32; 8]>, Fifo, Forgetting, [Waiter; 3]>>;

/// A cache, and the memory of its slots.
struct World {
    cache: Shared<Locked>,
    memory: [Cell<u64>; 2],
    /// Those who had waited, and have what they waited for.
    served: AtomicU32,
}

fn world(slots: u32) -> Arc<World> {
    let cache = Forgetful::new([Slot::EMPTY; 2], Dense::new([0; 8]), Fifo::new(), 0..slots).unwrap();
    let waiting = Waiting::new(cache, [const { Waiter::EMPTY }; 3]);
    let memory = [Cell::new(0), Cell::new(0)];
    Arc::new(World { cache: Shared::new(Model(Mutex::new(waiting))), memory, served: AtomicU32::new(0) })
}

impl World {
    /// A reference to content, which is written if it is not there.
    fn get(&self, data: u64) -> Result<Held<'_, Locked>, WaitError> {
        loop {
            match wait(self.cache.slot(data))? {
                Given::Empty(fill) => return Ok(self.load(fill)),
                Given::Remembered(held) => return Ok(held),
                Given::Assigned(held) => match wait(self.cache.content(data)) {
                    Ok(()) => return Ok(held),
                    Err(ContentError::Abandoned { .. }) => {}
                    Err(error) => panic!("{error}"),
                },
            }
        }
    }

    fn load<'a>(&self, fill: Fill<'a, Locked>) -> Held<'a, Locked> {
        self.memory[fill.slot() as usize].set(fill.data());
        fill.remember().unwrap()
    }

    fn check(&self, held: &Held<'_, Locked>) {
        assert_eq!(self.memory[held.slot() as usize].get(), held.data());
    }
}

fn spawn(world: &Arc<World>, act: impl FnOnce(&World) + Send + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || act(&world))
}

/// Every slot can be had.
fn no_slot_is_lost(world: &World, slots: u32) {
    assert_eq!(world.cache.waiting(), 0);
    let held: Vec<_> = (0..slots).map(|n| world.cache.try_alloc(6 + u64::from(n)).unwrap()).collect();
    assert!(held.iter().all(|given| matches!(given, Given::Empty(_))));
}

#[test]
fn s60_content_is_seen_by_who_uses_it_and_its_use_by_who_writes_the_next() {
    check(Some(4), || {
        let world = world(1);
        let threads = [1, 2].map(|data| {
            spawn(&world, move |world| {
                let held = world.get(data).unwrap();
                world.check(&held);
            })
        });
        let held = world.get(1).unwrap();
        world.check(&held);
        drop(held);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        no_slot_is_lost(&world, 1);
    });
}

#[test]
fn s26_s29_two_wait_for_the_same_and_a_newcomer_passes_nobody() {
    check(Some(4), || {
        let world = world(1);
        let held = world.get(1).unwrap();
        let threads = [2, 2].map(|data| {
            spawn(&world, move |world| {
                let held = world.get(data).unwrap();
                world.check(&held);
                world.served.fetch_add(1, Relaxed);
            })
        });
        let waiting = world.cache.waiting();
        drop(held);
        if let Ok(given) = world.cache.try_alloc(3) {
            assert!(world.served.load(Relaxed) >= waiting, "a newcomer has passed those who waited");
            let Given::Empty(fill) = given else { panic!("never filled") };
            world.check(&world.load(fill));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        no_slot_is_lost(&world, 1);
    });
}

#[test]
fn s33_an_interrupt_races_with_a_gift() {
    check(None, || {
        let world = world(1);
        let held = world.get(1).unwrap();
        let client = spawn(&world, |world| match wait(world.cache.slot(2)) {
            Ok(given) => drop(given),
            Err(error) => assert_eq!(error, WaitError::Refused(AllocError::Interrupted)),
        });
        let interrupter = spawn(&world, |world| world.cache.interrupt());
        drop(held);
        client.join().unwrap();
        interrupter.join().unwrap();
        // A client that had the slot before the interrupt may be writing to it.
        world.cache.settle(0);
        assert_eq!(world.cache.reset(), Ok(()));
        no_slot_is_lost(&world, 1);
    });
}

#[test]
fn s34_who_stops_waiting_races_with_a_gift() {
    check(None, || {
        let world = world(1);
        let held = world.get(1).unwrap();
        let impatient = spawn(&world, |world| {
            let mut slot = world.cache.slot(2);
            let waker = waker();
            if Pin::new(&mut slot).poll(&mut Context::from_waker(&waker)).is_pending() {
                match slot.expire() {
                    Ok(given) => drop(given),
                    Err(scene) => assert_eq!(scene.data, 2),
                }
            }
        });
        let patient = spawn(&world, |world| drop(world.get(2).unwrap()));
        drop(held);
        impatient.join().unwrap();
        patient.join().unwrap();
        no_slot_is_lost(&world, 1);
    });
}

#[test]
fn s18_who_waits_for_content_hears_that_it_is_there_or_was_given_up() {
    check(None, || {
        let world = world(1);
        let Ok(Given::Empty(fill)) = world.cache.try_alloc(1) else { panic!("not empty") };
        let fill = (fill.slot(), fill.unremembered().into_pin().unwrap());
        let client = spawn(&world, |world| {
            let held = world.get(1).unwrap();
            world.check(&held);
        });
        world.cache.abandon(1).unwrap();
        world.cache.free_pin(fill.1).unwrap();
        client.join().unwrap();
        no_slot_is_lost(&world, 1);
    });
}
