//! All interleavings of a few threads that wait for room in a memory, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_room`. A wake that gets lost leaves a
//! thread parked for good, which loom reports as a deadlock; two owners of one place race for what lies in it.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod parking;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use loom::cell::Cell;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::{Arc, Mutex};
use loom::thread;
use umbra_core::cache::waiting::{ContentError, Lock, Record};
use umbra_core::cache::{Dense, Found, Slot};
use umbra_core::cached_memory::{CachedMemory, Lent, Member, PlaceError, Run};
use umbra_core::memory::{Block, Granule, Offsets};
use umbra_core::room::{Held, Places, Range, Ranges, Shared, Told, WaitError, Waiter, Waiting};

use parking::{Model, check, wait, waker};

type Room = Places<[Block; 9], [Slot; 9], [Run; 10], [u32; 2], [u64; 1], Dense<[u32; 8]>, [Record<Told>; 3]>;
type Line = Waiting<Room, [Waiter; 3]>;

/// A lock around what is too large for the stack of a thread of loom's.
struct Locked(Mutex<Box<Line>>);

impl Lock for Locked {
    type Value = Line;

    fn with<R>(&self, act: impl FnOnce(&mut Line) -> R) -> R {
        act(&mut self.0.lock().unwrap())
    }
}

/// A memory of two granules of a byte, and what lies in it.
struct World {
    places: Shared<Locked>,
    bytes: [Cell<u64>; 2],
    /// Those who had waited, and have what they waited for.
    served: AtomicU32,
}

fn line() -> Box<Line> {
    let lent = Lent {
        blocks: [Block::default(); 9],
        slots: [Slot::EMPTY; 9],
        runs: [Run::EMPTY; 10],
        starts: [0; 2],
        bits: [0],
    };
    let memory = CachedMemory::new(lent, Dense::new([0; 8]), 2, Granule::BYTE).unwrap();
    Box::new(Waiting::new(Places::new(memory, [const { Record::EMPTY }; 3]), [const { Waiter::EMPTY }; 3]))
}

fn world() -> Arc<World> {
    let line = std::thread::spawn(line).join().unwrap();
    let bytes = [Cell::new(0), Cell::new(0)];
    Arc::new(World { places: Shared::new(Locked(Mutex::new(line))), bytes, served: AtomicU32::new(0) })
}

impl World {
    /// References to the content of all, which is written where it is not there.
    fn get<const N: usize>(&self, data: [u64; N]) -> Result<Held<'_, Locked, [Member; N]>, WaitError<PlaceError>> {
        'again: loop {
            let mut members = data.map(|data| Member::new(data, 1));
            wait(self.places.room(&mut members))?;
            let mut held = self.places.held(members);
            for member in held.members() {
                let place = member.place().unwrap();
                if place.found == Found::Empty {
                    self.bytes[place.offset as usize].set(member.data());
                }
            }
            held.remember().unwrap();
            for at in 0..N {
                if held.place(at).unwrap().found == Found::Assigned {
                    match wait(self.places.content(data[at])) {
                        Ok(()) => {}
                        Err(ContentError::Abandoned { .. }) => continue 'again,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            return Ok(held);
        }
    }

    fn check<const N: usize>(&self, held: &Held<'_, Locked, [Member; N]>) {
        for member in held.members() {
            assert_eq!(self.bytes[member.place().unwrap().offset as usize].get(), member.data());
        }
    }
}

fn spawn(world: &Arc<World>, act: impl FnOnce(&World) + Send + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || act(&world))
}

/// All bytes can be had.
fn no_byte_is_lost(world: &World) {
    assert_eq!(world.places.waiting() + world.places.waiting_for_content(), 0);
    assert_eq!(world.places.look(|places| places.in_use()), (0, 0));
    let mut all = [Member::new(7, 2)];
    world.places.take_now(&mut all).unwrap();
}

#[test]
fn groups_that_want_the_same_bytes_get_them_one_after_the_other() {
    check(Some(3), || {
        let world = world();
        let threads = [[1, 2], [2, 3]].map(|data| {
            spawn(&world, move |world| {
                let held = world.get(data).unwrap();
                world.check(&held);
            })
        });
        let held = world.get([3, 1]).unwrap();
        world.check(&held);
        drop(held);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        no_byte_is_lost(&world);
    });
}

#[test]
fn two_wait_for_the_same_and_a_newcomer_passes_nobody() {
    check(Some(3), || {
        let world = world();
        let held = world.get([1, 2]).unwrap();
        let threads = [3, 3].map(|data| {
            spawn(&world, move |world| {
                let held = world.get([data]).unwrap();
                world.check(&held);
                world.served.fetch_add(1, Relaxed);
            })
        });
        let waiting = world.places.waiting();
        drop(held);
        let mut newcomer = [Member::new(4, 2)];
        match world.places.take_now(&mut newcomer) {
            Ok(()) => {
                assert!(world.served.load(Relaxed) >= waiting, "a newcomer has passed those who waited");
                drop(world.places.held(newcomer));
            }
            Err(PlaceError::OthersWait | PlaceError::Blocked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        no_byte_is_lost(&world);
    });
}

#[test]
fn an_interrupt_races_with_room() {
    check(None, || {
        let world = world();
        let held = world.get([1, 2]).unwrap();
        let client = spawn(&world, |world| {
            let mut wish = [Member::new(3, 2)];
            match wait(world.places.room(&mut wish)) {
                Ok(()) => drop(world.places.held(wish)),
                Err(error) => assert_eq!(error, WaitError::Refused(PlaceError::Interrupted)),
            }
        });
        let interrupter = spawn(&world, |world| world.places.interrupt());
        drop(held);
        client.join().unwrap();
        interrupter.join().unwrap();
        assert_eq!(world.places.waiting(), 0);
        assert_eq!(world.places.take_now(&mut [Member::new(3, 1)]), Err(PlaceError::Interrupted));
    });
}

#[test]
fn who_stops_waiting_races_with_room_and_the_next_is_not_forgotten() {
    check(Some(3), || {
        let world = world();
        let held = world.get([1, 2]).unwrap();
        let leaver = spawn(&world, |world| {
            let mut wish = [Member::new(3, 2)];
            let waker = waker();
            let given = {
                let mut room = world.places.room(&mut wish);
                match Pin::new(&mut room).poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(given) => given.is_ok(),
                    Poll::Pending => room.expire().is_ok_and(|given| given.is_ok()),
                }
            };
            if given {
                drop(world.places.held(wish));
            }
        });
        let stayer = spawn(&world, |world| {
            let held = world.get([4]).unwrap();
            world.check(&held);
        });
        drop(held);
        leaver.join().unwrap();
        stayer.join().unwrap();
        no_byte_is_lost(&world);
    });
}

#[test]
fn whoever_waits_for_content_is_told_that_it_was_given_up() {
    check(None, || {
        let world = world();
        let mut wish = [Member::new(1, 2)];
        world.places.take_now(&mut wish).unwrap();
        let fill = world.places.held(wish);
        let client = spawn(&world, |world| match wait(world.places.content(1)) {
            Err(ContentError::Abandoned { data: 1 } | ContentError::NotAssigned { data: 1 }) => {}
            other => panic!("{other:?}"),
        });
        drop(fill);
        client.join().unwrap();
        no_byte_is_lost(&world);
    });
}

#[test]
fn ranges_are_waited_for_in_line() {
    check(Some(3), || {
        let memory = Offsets::new([Block::default(); 9], [0; 2], 2, Granule::BYTE);
        let waiting = Waiting::new(Ranges::new(memory), [const { Waiter::EMPTY }; 3]);
        let memory = Arc::new(Shared::new(Model(Mutex::new(waiting))));
        let threads = [2, 1].map(|len| {
            let memory = memory.clone();
            thread::spawn(move || {
                let mut wish = Range::new(len);
                wait(memory.room(&mut wish)).unwrap();
                memory.free_range(wish.offset().unwrap()).unwrap();
            })
        });
        let mut wish = Range::new(2);
        wait(memory.room(&mut wish)).unwrap();
        drop(memory.held_range(wish));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((memory.waiting(), memory.look(|ranges| ranges.figures().free)), (0, 2));
    });
}

#[test]
fn the_first_in_line_who_waits_on_loses_its_record_to_nobody() {
    check(None, || {
        let memory = Offsets::new([Block::default(); 9], [0; 2], 2, Granule::BYTE);
        let waiting = Waiting::new(Ranges::new(memory), [const { Waiter::EMPTY }; 1]);
        let memory = Arc::new(Shared::new(Model(Mutex::new(waiting))));
        [0, 1].map(|_| memory.take_now(&mut Range::new(1)).unwrap());
        let (waker, mut wish) = (waker(), Range::aligned(1, 2));
        let mut first = memory.room(&mut wish);
        let mut ask = || Pin::new(&mut first).poll(&mut Context::from_waker(&waker));
        assert_eq!(ask(), Poll::Pending);
        let other = thread::spawn({
            let memory = memory.clone();
            move || {
                let (waker, mut wish) = (parking::waker(), Range::new(1));
                let _ = Pin::new(&mut memory.room(&mut wish)).poll(&mut Context::from_waker(&waker));
            }
        });
        memory.free_range(1).unwrap();
        assert_eq!(ask(), Poll::Pending, "what is free is not aligned");
        memory.free_range(0).unwrap();
        assert_eq!(ask(), Poll::Ready(Ok(())));
        other.join().unwrap();
    });
}
