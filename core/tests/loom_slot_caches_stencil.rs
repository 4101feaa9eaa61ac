//! All interleavings of threads that wait for a stencil cache and tell its news.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_slot_caches_stencil`. A wake or a
//! piece of news that gets lost leaves a thread parked for good, which loom reports as a deadlock; two that tell at the
//! same time, and a slot that is read while it is written or without having seen its writer, as a race.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod parking;

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use loom::cell::Cell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use umbra_core::cache::Slot;
use umbra_core::id::Id;
use umbra_core::stencil::waiting::{AllocError, Shared, Waiter, Waiting};
use umbra_core::stencil::{
    Action, ByNumber, Group, GroupError, Input, Limits, PreparedError, Reference, Stencil, Storage, SubmitError,
    Unknown,
};

use parking::{Model, check, wait, waker};

type Vecs = Storage<Vec<Slot>, [u32; 1], [Input; 9], Vec<Group>, Vec<Reference>>;
type Locked = Model<Waiting<Vecs, ByNumber, Unknown, [Waiter; 3]>>;

/// A cache, the memory of its slots, and what was told.
struct World {
    cache: Shared<Locked>,
    memory: Vec<Cell<u64>>,
    /// The points that were ready, each a bit. Only who tells the news touches it.
    ready: Cell<u64>,
    /// The points in the order in which they were told, a digit each.
    order: Cell<u64>,
}

fn world(slots: u32, groups: usize) -> Arc<World> {
    let largest = slots.min(3);
    let storage = Storage {
        slots: vec![Slot::EMPTY; slots as usize],
        buckets: [0; 1],
        inputs: [Input::UNBOUNDED; 9],
        groups: vec![Group::EMPTY; groups],
        references: vec![Reference::EMPTY; groups * largest as usize],
    };
    let limits = Limits { largest_group: largest, active: groups as u32, horizon: 9 };
    let stencil = Stencil::new(storage, ByNumber, Unknown, 0..slots, limits).unwrap();
    let waiting = Waiting::new(stencil, [const { Waiter::EMPTY }; 3]);
    let memory = (0..slots).map(|_| Cell::new(0)).collect();
    Arc::new(World { cache: Shared::new(Model(Mutex::new(waiting))), memory, ready: Cell::new(0), order: Cell::new(0) })
}

impl World {
    /// Loads and computes all that is to be done, unless somebody is at it; `false` after an interrupt.
    fn serve(&self, teller: u64) {
        self.cache.deliver(teller, |action| match action {
            Action::Prepare { slot, data } => {
                self.memory[slot as usize].set(data);
                let told = self.cache.prepared(data);
                assert!(matches!(told, Ok(()) | Err(PreparedError::Interrupted)));
            }
            Action::Ready { point, group } => self.compute(point, group),
            Action::Interrupted { point } => self.tell(point),
            Action::Failed { .. } => panic!("no load fails"),
        });
    }

    fn tell(&self, point: u64) {
        let before = self.ready.get();
        assert_eq!(before & (1 << point), 0, "point {point} is told twice");
        self.ready.set(before | 1 << point);
        self.order.set(self.order.get() * 10 + point);
    }

    fn compute(&self, point: u64, group: Id<Group>) {
        self.tell(point);
        let told = self.cache.slots(group, |slot| assert_ne!(self.memory[slot as usize].get(), 0));
        if told.is_ok() {
            assert!(matches!(self.cache.free_group(group), Ok(()) | Err(GroupError::Interrupted)));
        } else {
            assert_eq!(told, Err(GroupError::Interrupted));
        }
    }
}

fn spawn(world: &Arc<World>, act: impl FnOnce(&World) + Send + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || act(&world))
}

#[test]
fn s56_s59_two_groups_that_fit_one_after_the_other_are_both_told_once_by_one_at_a_time() {
    check(None, || {
        let world = world(2, 2);
        let other = spawn(&world, |world| {
            wait(world.cache.alloc(1, &[1, 2])).unwrap();
            world.serve(1);
        });
        wait(world.cache.alloc(2, &[3, 4])).unwrap();
        world.serve(2);
        other.join().unwrap();
        assert_eq!(world.ready.get(), 0b110, "whoever comes last leaves nothing untold");
        assert_eq!((world.cache.waiting(), world.cache.look(Stencil::idle)), (0, Ok(2)));
    });
}

#[test]
fn s56_two_groups_of_three_that_fit_only_one_after_the_other_beside_a_pair_are_both_told() {
    check(Some(2), || {
        let world = world(5, 3);
        wait(world.cache.alloc(1, &[1, 2])).unwrap();
        let clients = [(2, [3, 4, 5]), (3, [6, 7, 8])].map(|(point, group)| {
            spawn(&world, move |world| {
                wait(world.cache.alloc(point, &group)).unwrap();
                world.serve(point);
            })
        });
        world.serve(1);
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(world.ready.get(), 0b1110);
        assert_eq!((world.cache.waiting(), world.cache.look(Stencil::idle)), (0, Ok(5)));
    });
}

#[test]
fn s57_a_record_that_becomes_free_wakes_who_came_to_the_line_at_that_moment() {
    check(Some(3), || {
        let world = world(1, 1);
        let clients = [1, 2].map(|point| {
            spawn(&world, move |world| {
                wait(world.cache.alloc(point, &[point])).unwrap();
                world.serve(point);
            })
        });
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(world.ready.get(), 0b110);
        assert_eq!(world.cache.waiting(), 0);
    });
}

#[test]
fn s59_groups_that_wait_for_one_load_are_told_in_the_order_of_submission_whoever_tells() {
    check(Some(3), || {
        let world = world(2, 3);
        // The members are loaded in their order, and groups that one load makes ready are told in theirs.
        for (point, group) in [(1, [1, 2]), (2, [2, 1]), (3, [2, 2])] {
            world.cache.submit(point, &group).unwrap();
        }
        let loads = [1, 2].map(|expected| match world.cache.poll() {
            Some(Action::Prepare { slot, data }) if data == expected => (slot, data),
            other => panic!("{other:?}"),
        });
        let loads = loads.map(|(slot, data)| {
            spawn(&world, move |world| {
                world.memory[slot as usize].set(data);
                world.cache.prepared(data).unwrap();
                world.serve(data);
            })
        });
        world.serve(3);
        loads.into_iter().for_each(|load| load.join().unwrap());
        // What waits for the second input alone may be told before the first is there; the others follow in order.
        assert!([123, 312].contains(&world.order.get()), "{}", world.order.get());
        assert_eq!(world.cache.look(Stencil::idle), Ok(2));
    });
}

#[test]
fn s60_what_a_load_wrote_is_seen_and_what_was_read_is_over_before_the_next_load() {
    check(Some(3), || {
        let world = world(1, 2);
        let first = wait(world.cache.alloc(1, &[1])).unwrap();
        let Some(Action::Prepare { slot, data: 1 }) = world.cache.poll() else { panic!("nothing to load") };
        let loader = spawn(&world, move |world| {
            world.memory[slot as usize].set(1);
            world.cache.prepared(1).unwrap();
        });
        let next = spawn(&world, |world| {
            wait(world.cache.alloc(2, &[2])).unwrap();
            // Only one that has the slot is told to load into it.
            let Some(Action::Prepare { slot, data: 2 }) = world.cache.poll() else { panic!("nothing to load") };
            world.memory[slot as usize].set(2);
        });
        loader.join().unwrap();
        assert_eq!(world.cache.poll(), Some(Action::Ready { point: 1, group: first }));
        assert_eq!(world.memory[slot as usize].get(), 1);
        world.cache.free_group(first).unwrap();
        next.join().unwrap();
    });
}

#[test]
fn s61_an_interrupt_meets_a_group_that_waits_a_load_that_ends_and_a_slot_that_is_freed() {
    check(Some(3), || {
        let world = world(1, 2);
        wait(world.cache.alloc(1, &[1])).unwrap();
        let client = spawn(&world, |world| match wait(world.cache.alloc(2, &[2])) {
            Ok(_) => world.serve(2),
            Err(error) => assert_eq!(error, AllocError::Refused(SubmitError::Interrupted)),
        });
        let interrupter = spawn(&world, |world| world.cache.interrupt());
        world.serve(1);
        client.join().unwrap();
        interrupter.join().unwrap();
        world.serve(3);
        // Point 2 is told of only if its group was accepted.
        assert_ne!(world.ready.get() & 0b10, 0);
        assert_eq!(world.cache.waiting(), 0);
        world.cache.settle(0);
        assert_eq!(world.cache.reset(), Ok(()));
        assert_eq!(world.cache.submit(3, &[3]).map(drop), Ok(()));
    });
}

#[test]
fn s34_who_stops_waiting_races_with_its_turn() {
    check(Some(3), || {
        let world = world(1, 1);
        wait(world.cache.alloc(1, &[1])).unwrap();
        let impatient = spawn(&world, |world| {
            let group = [2];
            let mut wait = world.cache.alloc(2, &group);
            let waker = waker();
            if Pin::new(&mut wait).poll(&mut Context::from_waker(&waker)).is_pending() {
                // A group that was accepted goes on: whoever tells news will tell of it.
                let _ = wait.expire();
            }
            world.serve(2);
        });
        let patient = spawn(&world, |world| {
            wait(world.cache.alloc(3, &[3])).unwrap();
            world.serve(3);
        });
        world.serve(1);
        impatient.join().unwrap();
        patient.join().unwrap();
        assert_eq!(world.ready.get() & 0b1010, 0b1010);
        assert_eq!((world.cache.waiting(), world.cache.look(Stencil::idle)), (0, Ok(1)));
    });
}
