//! The places of a process's threads at the heap of a pool.
//!
//! A thread that allocates needs a hand, and a hand belongs to one member. So that threads do not wait for each other a
//! process has several, and a thread mostly comes back to the one that it used before; if the pool has no place for one
//! more, threads wait for each other. A child that was forked off has its parent's hands in its memory, but must not use
//! them: it joins by itself.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use umbra_core::atomic::{AtomicU64, AtomicUsize, Ordering};
use umbra_core::crew::{BuryError, Member};
use umbra_core::heap::{Grasp, Hand, Keep};
use umbra_core::time::{Lapse, Time};

use super::error::Error;
use super::{Pool, identity};
use crate::sys::process::{ProcessId, Processes};
use crate::sys::shared_heap::SharedHeap;
use crate::sys::{clock, fork};

/// Threads of a process that allocate at once without waiting for each other.
const LANES: usize = 8;
/// How long a child waits for lanes that threads of its parent held when it was forked off.
const FORKED: Duration = Duration::from_secs(1);
/// How long a full pool is taken for one: to look whether a member died asks the system about each.
const FULL: Lapse = Lapse(10_000_000);

/// A thread's place at the heap, or several threads' in turn.
#[derive(Debug)]
struct Lane {
    member: Member,
    grasp: Grasp,
    /// In which process it was made.
    life: u32,
}

/// Its place, or where one will be noted, for as long as no other thread uses it.
type Guard<'a> = MutexGuard<'a, Option<Lane>>;

thread_local! {
    /// The lane that a thread tries first.
    static FIRST: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed))
    };
}

/// What is seen, if it is within the [time](FORKED) that a child waits: who holds a lane may not have come along.
fn come_along<R>(see: impl Fn() -> Option<R>) -> Result<R, Error> {
    let until = Instant::now() + FORKED;
    loop {
        match see() {
            Some(seen) => return Ok(seen),
            None if Instant::now() >= until => return Err(Error::Forked),
            None => std::thread::yield_now(),
        }
    }
}

/// A lane, if no other thread uses it. One that panicked left it as good as any: what it was doing is undone when the lane
/// is buried.
#[inline]
fn free(lane: &Mutex<Option<Lane>>) -> Option<Guard<'_>> {
    match lane.try_lock() {
        Ok(lane) => Some(lane),
        Err(TryLockError::Poisoned(lane)) => Some(lane.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The same, when no other thread uses it any more.
fn waited(lane: &Mutex<Option<Lane>>) -> Guard<'_> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All places of a process.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: [Mutex<Option<Lane>>; LANES],
    /// In which process the handle was made.
    life: u32,
    /// Until when there is no look for a place: a thread shares one that this process has.
    full_until: AtomicU64,
}

impl Lanes {
    pub(super) fn new() -> Lanes {
        fork::watch();
        Lanes { lanes: Default::default(), life: fork::life(), full_until: AtomicU64::new(0) }
    }

    /// Whether the handle was made by a process that this one was forked off from.
    #[inline]
    pub(super) fn is_inherited(&self) -> bool {
        self.life != fork::life()
    }

    /// Whether this process has taken a place.
    pub(super) fn has_place(&mut self) -> bool {
        let life = fork::life();
        let lanes = self.lanes.iter_mut().map(|lane| lane.get_mut().unwrap_or_else(PoisonError::into_inner));
        lanes.flatten().any(|lane| lane.life == life)
    }

    /// Leaves the heap with all members of this process, to the marks of whose pockets `absent` attends first; those that
    /// stay, as the owners of blocks.
    pub(super) fn leave(&mut self, shared: &SharedHeap, absent: impl Fn(Member)) -> Vec<Member> {
        let lanes =
            std::mem::take(&mut self.lanes).map(|lane| lane.into_inner().unwrap_or_else(PoisonError::into_inner));
        // Those of a parent are the parent's.
        let own = lanes.into_iter().flatten().filter(|lane| lane.life == fork::life());
        own.filter_map(|Lane { member, mut grasp, .. }| {
            absent(member);
            shared.heap().hand_with(&mut grasp).rest();
            // Nobody buries the living; if the heap says so all the same, another process has damaged it.
            let left = shared.heap().bury(member, member.number, Keep::Blocks);
            matches!(left, Err(BuryError::Failed(_))).then_some(member)
        })
        .collect()
    }

    /// The lanes, in the order in which this thread tries them.
    #[inline]
    fn in_order(&self) -> impl Iterator<Item = &Mutex<Option<Lane>>> {
        let first = FIRST.get();
        (0..LANES).map(move |step| &self.lanes[(first + step) % LANES])
    }

    /// A lane that no other thread of this process uses at the moment.
    #[inline]
    fn lane(&self) -> Result<Guard<'_>, Error> {
        let any = || self.in_order().find_map(free);
        match any() {
            Some(lane) => Ok(lane),
            None if self.is_inherited() => come_along(any),
            None => Ok(waited(&self.lanes[FIRST.get() % LANES])),
        }
    }

    /// Whether the pool was full a moment ago, and this process has a place, which it keeps as long as the handle; a child
    /// may have none.
    fn is_full(&self) -> bool {
        !self.is_inherited() && clock::now() < Time(self.full_until.load(Ordering::Relaxed))
    }

    /// A lane that has a place, if there is one, in turn with the threads that use it.
    fn shared(&self, life: u32) -> Result<Option<Guard<'_>>, Error> {
        let has_place = |lane: &Guard<'_>| lane.as_ref().is_some_and(|lane| lane.life == life);
        if !self.is_inherited() {
            return Ok(self.in_order().map(waited).find(has_place));
        }
        come_along(|| {
            let mut is_one_used = false;
            let found = self.in_order().find_map(|lane| {
                let lane = free(lane);
                is_one_used |= lane.is_none();
                lane.filter(has_place)
            });
            (found.is_some() || !is_one_used).then_some(found)
        })
    }
}

impl Pool {
    /// Does something with a hand of this thread's, or one that it shares with others for lack of places. It must not use
    /// the pool otherwise: in a full one that would wait for the lane that it has.
    #[inline]
    pub(super) fn with_hand<R>(&self, act: impl FnOnce(Hand<'_, &mut Grasp>) -> R) -> Result<R, Error> {
        self.check()?;
        let mut lane = self.lanes.lane()?;
        let life = fork::life();
        if lane.as_ref().is_none_or(|lane| lane.life != life) {
            lane = self.placed(lane, life)?;
        }
        // There is one by now.
        let lane = lane.as_mut().ok_or(Error::Damaged)?;
        Ok(act(self.heap().hand_with(&mut lane.grasp)))
    }

    /// The lane with a place, or another one that has a place if there is none for it.
    #[cold]
    fn placed<'a>(&'a self, mut lane: Guard<'a>, life: u32) -> Result<Guard<'a>, Error> {
        let is_full = self.lanes.is_full();
        if !is_full {
            match self.join(life) {
                Ok(joined) => {
                    *lane = Some(joined);
                    return Ok(lane);
                }
                Err(Error::Members { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // Not while others may wait for this one.
        drop(lane);
        let shared = self.lanes.shared(life)?.ok_or(Error::Members { members: self.heap().crew().capacity() })?;
        if !is_full {
            self.lanes.full_until.store((clock::now() + FULL).0, Ordering::Relaxed);
        }
        Ok(shared)
    }

    fn join(&self, life: u32) -> Result<Lane, Error> {
        let member = self.take_place()?;
        self.come()?;
        Ok(Lane { member, grasp: Grasp::new(member), life })
    }

    /// A place, not yet [counted](Self::come): one that this process left, a free one, or that of a dead member.
    pub(super) fn take_place(&self) -> Result<Member, Error> {
        let (heap, identity) = (self.heap(), identity(ProcessId::current()?));
        if let Some(member) = self.come_back(identity) {
            return Ok(member);
        }
        let crew = heap.crew();
        // What the dead one was doing ends; blocks that it has, as one of so many that there is no other place, are the
        // newcomer's. Those without blocks come first.
        let end = |dead: Member, inherits: bool| match heap.recover(dead.number, Keep::Blocks) {
            Err(holds) if !inherits => Err(holds),
            _ => Ok(()),
        };
        let member = crew
            .join_or_succeed(identity, &Processes, |dead| end(dead, false))
            .or_else(|_| crew.join_or_succeed(identity, &Processes, |dead| end(dead, true)))
            .map_err(|_| Error::Members { members: crew.capacity() })?;
        self.set_present(member, true);
        Ok(member)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::pool::Attributes;

    /// A pool with one place, which is taken, as a child uses it that was forked off.
    fn inherited() -> Pool {
        let attributes = Attributes { bytes: 1 << 20, members: 1, ..Attributes::default() };
        let mut pool = Pool::create(None, &attributes).unwrap();
        pool.lanes.life = pool.lanes.life.wrapping_sub(1);
        assert!(pool.lanes.is_inherited());
        pool
    }

    #[test]
    fn threads_of_a_forked_child_use_the_only_place_in_turn() {
        let pool = inherited();
        let (began, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                pool.with_hand(|_| {
                    began.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(20));
                })
            });
            begun.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!((pool.with_hand(|_| ()), other.join().unwrap()), (Ok(()), Ok(())));
        });
    }

    #[test]
    fn a_full_pool_leaves_it_to_a_thread_where_it_begins_in_others() {
        let attributes = Attributes { bytes: 1 << 20, members: 1, ..Attributes::default() };
        let pool = Pool::create(None, &attributes).unwrap();
        let other = FIRST.get() + 1;
        FIRST.set(other);
        assert_eq!((pool.with_hand(|_| ()), FIRST.get()), (Ok(()), other));
    }

    #[test]
    fn a_full_pool_is_taken_for_one_only_for_a_moment() {
        let pool = Pool::create(None, &Attributes { bytes: 1 << 20, members: 2, ..Attributes::default() }).unwrap();
        let places = || {
            FIRST.set(FIRST.get() + 1);
            assert_eq!(pool.with_hand(|_| ()), Ok(()));
            pool.heap().crew().members().count()
        };
        pool.lanes.full_until.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(places(), 1, "there is no look for one more");
        pool.lanes.full_until.store(0, Ordering::Relaxed);
        assert_eq!((places(), pool.lanes.is_full()), (2, false));
        let before = clock::now();
        assert_eq!(places(), 2);
        assert!(Time(pool.lanes.full_until.load(Ordering::Relaxed)) >= before + FULL);
    }

    #[test]
    fn a_forked_child_takes_no_pool_for_full_whose_lanes_it_cannot_look_at() {
        let pool = inherited();
        let life = fork::life();
        let held = pool.lanes.shared(life).unwrap().unwrap();
        assert_eq!(pool.with_hand(|_| ()), Err(Error::Forked));
        drop(held);
        assert_eq!(pool.with_hand(|_| ()), Ok(()));
        assert!(pool.lanes.shared(life.wrapping_add(1)).unwrap().is_none(), "all were looked at");
    }
}
