//! Groups of many threads on one stencil cache.
//!
//! There are loads that fail, deadlines, interrupts, and threads that die while they tell the news. ThreadSanitizer runs
//! it as well (step `tsan`): the memory of the slots is touched without ordering, so that all order comes from the cache.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod stress;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use umbra::stencil::{AllocError, Plan, Stencil};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::id::Id;
use umbra_core::stencil::{
    Action, ByNumber, FreeError, Group, GroupError, Input, PreparedError, SubmitError, Unknown, UsageError, waiting,
};

use stress::{Counts, Dice, count, operations};

const SLOTS: u32 = 4;
const IDS: u64 = 14;
/// Inputs of which the cache knows how often each will be used.
const COUNTED: u64 = 6;
const CLIENTS: u64 = 5;
const WORKERS: usize = 2;
/// Groups that a client names in one round.
const ROUND: u64 = 4000;
/// Longer than any machine takes, so whoever waits so long waits for good.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nobody's content.
const NOTHING: u64 = u64::MAX;

/// What is known of a point of this round.
#[derive(Default)]
struct Point {
    /// Its members, a byte each, beginning with how many.
    members: AtomicU64,
    /// Whether its client knows that its group was accepted, or that it was not.
    outcome: AtomicU64,
    /// Ends that were told.
    told: AtomicU64,
}

const ACCEPTED: u64 = 1;
const REFUSED: u64 = 2;

impl Point {
    fn wants(&self) -> impl Iterator<Item = u64> {
        let [len, rest @ ..] = self.members.load(Ordering::Relaxed).to_le_bytes();
        rest.into_iter().take(len.into()).map(u64::from)
    }
}

/// What is to be done for the cache.
enum Work {
    Load { slot: u32, data: u64 },
    Compute { point: u64, group: Id<Group>, slots: Vec<u32> },
    Stop,
}

struct World {
    cache: Stencil<ByNumber, Unknown>,
    memory: [AtomicU64; SLOTS as usize],
    /// What is being loaded into a slot, and one more; 0 for nothing.
    loading: [AtomicU64; SLOTS as usize],
    /// Groups that are computed from a slot.
    readers: [AtomicU64; SLOTS as usize],
    /// Uses of each input that the cache was told of, and those that were made.
    expected: [AtomicU64; COUNTED as usize],
    used: [AtomicU64; COUNTED as usize],
    points: Vec<Point>,
    sender: Sender<Work>,
    receiver: Mutex<Receiver<Work>>,
    /// Work in the queue, or in the hands of a worker.
    pending: AtomicU64,
    counts: Counts,
    /// Loads that failed.
    failed: AtomicU64,
}

impl World {
    fn new() -> World {
        let mut inputs = vec![Input::UNBOUNDED; IDS as usize];
        inputs[..COUNTED as usize].fill(Input::used(0).unwrap());
        let plan = Plan { active: 2, window: 3, horizon: 100 };
        let cache = plan.cache(SLOTS, 3, inputs, Unknown).unwrap().with_overtakers(2);
        let (sender, receiver) = channel();
        World {
            cache: Stencil::new(cache).unwrap(),
            memory: [const { AtomicU64::new(NOTHING) }; SLOTS as usize],
            loading: Default::default(),
            readers: Default::default(),
            expected: Default::default(),
            used: Default::default(),
            points: (0..CLIENTS * ROUND).map(|_| Point::default()).collect(),
            sender,
            receiver: Mutex::new(receiver),
            pending: AtomicU64::new(0),
            counts: Counts::default(),
            failed: AtomicU64::new(0),
        }
    }

    fn enqueue(&self, work: Work) {
        count(&self.pending);
        self.sender.send(work).unwrap();
    }

    /// One thread that names groups, until the interrupt, its death, or the end.
    fn client(&self, number: u64, mut dice: Dice, interrupts: bool) {
        let last = dice.throw(ROUND);
        let dies = dice.throw(4) == 0;
        for at in 0..ROUND {
            count(&self.counts.operations);
            if interrupts && at == last {
                self.cache.interrupt();
            }
            let told = self.name(number * ROUND + at, &mut dice);
            self.news(&mut dice, dies && at >= last);
            if told.is_err() {
                return count(&self.counts.interrupted);
            }
        }
    }

    /// Names one group; an error is the interrupt.
    fn name(&self, at: u64, dice: &mut Dice) -> Result<(), ()> {
        let point = &self.points[at as usize];
        let mut group = [0; 3];
        let group = &mut group[..1 + dice.throw(3) as usize];
        group.fill_with(|| dice.throw(IDS));
        let packed = group.iter().rev().fold(0, |packed, data| packed << 8 | data);
        point.members.store(packed << 8 | group.len() as u64, Ordering::Relaxed);
        for data in group.iter().filter(|&&data| data < COUNTED) {
            match self.cache.expect(*data, 1) {
                Ok(()) => count(&self.expected[*data as usize]),
                Err(UsageError::Interrupted) => return Err(()),
                Err(error) => panic!("{error}"),
            }
        }
        let within = if dice.throw(8) == 0 { dice.brief() } else { PATIENCE };
        let told = match dice.throw(8) {
            0 => self.cache.submit(at, group).map_err(|error| AllocError::from(waiting::AllocError::from(error))),
            _ => self.cache.alloc(at, group, within),
        };
        let outcome = match told {
            Ok(_) => ACCEPTED,
            Err(AllocError::Interrupted) => return Err(()),
            Err(AllocError::Refused(waiting::AllocError::Refused(SubmitError::GroupsFull { .. }))) => REFUSED,
            Err(AllocError::Refused(waiting::AllocError::Failed { data })) if group.contains(&data) => ACCEPTED,
            Err(AllocError::Expired { overdue, .. }) => {
                assert!(within < PATIENCE, "forgotten: {overdue}");
                count(&self.counts.expired);
                match overdue.accepted {
                    None => REFUSED,
                    Some(group) => {
                        point.outcome.store(ACCEPTED, Ordering::Relaxed);
                        self.wait_on(group)?;
                        ACCEPTED
                    }
                }
            }
            Err(error) => panic!("{error}"),
        };
        point.outcome.store(outcome, Ordering::Relaxed);
        Ok(())
    }

    /// Waits again for a group that was accepted, and may have ended since.
    fn wait_on(&self, group: Id<Group>) -> Result<(), ()> {
        match self.cache.assigned(group, PATIENCE) {
            Ok(()) | Err(AllocError::Refused(waiting::AllocError::Ended | waiting::AllocError::Failed { .. })) => {
                Ok(())
            }
            Err(AllocError::Interrupted) => Err(()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Tells what there is to be done, and does half of it at once.
    fn news(&self, dice: &mut Dice, dies: bool) {
        let mut left = None;
        let deliver = || self.cache.deliver(|action| self.told(dice, action, dies.then_some(&mut left)));
        if let Err(payload) = catch_unwind(AssertUnwindSafe(deliver)) {
            // Nobody delivers now: whoever does this tells what else was left, also by those who came meanwhile.
            left.into_iter().for_each(|work| self.enqueue(work));
            resume_unwind(payload);
        }
    }

    /// One piece of news; who dies of it leaves what is to be done.
    fn told(&self, dice: &mut Dice, action: Action, left: Option<&mut Option<Work>>) {
        let work = match action {
            Action::Prepare { slot, data } => {
                let before = self.loading[slot as usize].swap(data + 1, Ordering::Relaxed);
                assert_eq!(before, 0, "two loads into slot {slot}");
                assert_eq!(self.readers[slot as usize].load(Ordering::Relaxed), 0, "slot {slot} is read");
                Some(Work::Load { slot, data })
            }
            Action::Ready { point, group } => {
                self.end(point);
                let mut slots = Vec::new();
                match self.cache.slots(group, |slot| slots.push(slot)) {
                    Ok(()) => {
                        slots.iter().for_each(|&slot| count(&self.readers[slot as usize]));
                        Some(Work::Compute { point, group, slots })
                    }
                    Err(GroupError::Interrupted) => None,
                    Err(error) => panic!("{error}"),
                }
            }
            Action::Failed { point, data } => {
                assert!(self.points[point as usize].wants().any(|wanted| wanted == data), "{point} {data}");
                self.end(point);
                None
            }
            Action::Interrupted { point } => {
                self.end(point);
                None
            }
        };
        let Some(work) = work else { return };
        if let Some(left) = left {
            *left = Some(work);
            count(&self.counts.deaths);
            resume_unwind(Box::new("dies with news"));
        }
        if dice.throw(2) == 0 { self.work(dice, work) } else { self.enqueue(work) }
    }

    fn end(&self, point: u64) {
        let before = self.points[point as usize].told.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "the end of point {point} is told twice");
    }

    fn work(&self, dice: &mut Dice, work: Work) {
        match work {
            Work::Load { slot, data } => self.load(dice, slot, data),
            Work::Compute { point, group, slots } => self.compute(dice, point, group, &slots),
            Work::Stop => {}
        }
    }

    /// Loads into a slot that nobody else may touch, or fails to.
    fn load(&self, dice: &mut Dice, slot: u32, data: u64) {
        let (memory, loading) = (&self.memory[slot as usize], &self.loading[slot as usize]);
        memory.store(NOTHING, Ordering::Relaxed);
        count(&self.counts.loads);
        if dice.throw(64) == 0 {
            thread::yield_now();
        }
        let fails = dice.throw(32) == 0;
        if !fails {
            memory.store(data, Ordering::Relaxed);
        }
        assert_eq!(loading.swap(0, Ordering::Relaxed), data + 1, "two loads into slot {slot}");
        match if fails { self.cache.failed(data) } else { self.cache.prepared(data) } {
            Ok(()) if fails => count(&self.failed),
            Ok(()) => {}
            Err(PreparedError::Interrupted) => assert!(self.cache.settle(slot), "slot {slot} was not being filled"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Compares all content with what was asked for, and frees it at once or one by one.
    fn compute(&self, dice: &mut Dice, point: u64, group: Id<Group>, slots: &[u32]) {
        let point = &self.points[point as usize];
        let found = slots.iter().map(|&slot| self.memory[slot as usize].load(Ordering::Relaxed));
        assert!(found.eq(point.wants()), "{:?}", point.wants().collect::<Vec<_>>());
        let left = |slot: u32| self.readers[slot as usize].fetch_sub(1, Ordering::Relaxed);
        let one_by_one = dice.throw(4) == 0;
        let told = if one_by_one {
            let mut given = [0; 3];
            self.cache.hand_over(group, &mut given).map(|len| assert_eq!(given[..len], *slots))
        } else {
            slots.iter().for_each(|&slot| assert_ne!(left(slot), 0));
            self.cache.free_group(group)
        };
        match told {
            Ok(()) => {
                point.wants().filter(|&data| data < COUNTED).for_each(|data| count(&self.used[data as usize]));
            }
            Err(error) => assert_eq!(error, GroupError::Interrupted),
        }
        if one_by_one {
            for (&slot, data) in slots.iter().zip(point.wants()) {
                left(slot);
                if told.is_ok() {
                    let told = self.cache.free(data);
                    assert!(matches!(told, Ok(()) | Err(FreeError::Interrupted)), "{told:?}");
                }
            }
        }
    }

    /// One thread that loads and computes until it is stopped.
    fn worker(&self, mut dice: Dice) {
        loop {
            let next = self.receiver.lock().unwrap().recv().unwrap();
            if matches!(next, Work::Stop) {
                return;
            }
            self.work(&mut dice, next);
            self.news(&mut dice, false);
            self.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// After all clients have gone: the workers end what is left.
    fn wind_up(&self, dice: &mut Dice) {
        self.news(dice, false);
        let begun = Instant::now();
        while self.pending.load(Ordering::Relaxed) != 0 {
            assert!(begun.elapsed() < PATIENCE, "work is never done");
            thread::yield_now();
        }
    }

    /// Nobody waits, each group has ended and was told of once, all slots are free, and no use is lost.
    fn is_whole(&self) {
        assert_eq!(self.cache.waiting(), 0);
        for point in &self.points {
            let outcome = point.outcome.swap(0, Ordering::Relaxed);
            let told = point.told.swap(0, Ordering::Relaxed);
            assert!(outcome != ACCEPTED || told == 1, "an accepted group is never told of");
            assert!(outcome != REFUSED || told == 0, "a group is told of that was not accepted");
        }
        if self.cache.look(|cache| cache.is_interrupted()) {
            assert_eq!(self.cache.reset(), Ok(()), "all loads were answered");
        }
        assert_eq!(self.cache.look(|cache| cache.under_way()), 0);
        assert!(self.cache.look(|cache| cache.len() == cache.idle()), "somebody holds a slot");
        let unclaimed: Vec<_> = self.cache.look(|cache| cache.unclaimed().collect());
        let left = |data: u64| {
            let [expected, used] = [&self.expected, &self.used].map(|uses| uses[data as usize].load(Ordering::Relaxed));
            (data, (expected - used) as u32)
        };
        assert_eq!(unclaimed, (0..COUNTED).map(left).filter(|&(_, left)| left > 0).collect::<Vec<_>>());
        assert!(self.readers.iter().chain(&self.loading).all(|count| count.load(Ordering::Relaxed) == 0));
    }
}

/// Ends the workers, however a round ends: else a test that fails would wait for them.
struct Stops<'a>(&'a World);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        (0..WORKERS).for_each(|_| _ = self.0.sender.send(Work::Stop));
    }
}

#[test]
fn each_group_gets_its_content_and_one_end_and_no_slot_or_use_is_lost() {
    let world = World::new();
    let counts = &world.counts;
    let mut dice = Dice(7);
    let mut rounds = 0;
    let saw_all = || counts.saw_all() && world.failed.load(Ordering::Relaxed) > 0;
    while counts.go_on(saw_all(), operations(200_000, 20_000), rounds) {
        rounds += 1;
        let interrupter = dice.throw(2 * CLIENTS);
        thread::scope(|scope| {
            let _stops = Stops(&world);
            let mut own = || Dice(dice.throw(1 << 31));
            for _ in 0..WORKERS {
                let (world, own) = (&world, own());
                scope.spawn(move || world.worker(own));
            }
            let clients = (0..CLIENTS).map(|number| {
                let (world, own) = (&world, own());
                scope.spawn(move || world.client(number, own, number == interrupter))
            });
            for client in clients.collect::<Vec<_>>() {
                if let Err(payload) = client.join() {
                    assert_eq!(payload.downcast_ref(), Some(&"dies with news"));
                }
            }
            world.wind_up(&mut dice);
        });
        world.is_whole();
    }
    println!(
        "{} groups: {rounds} rounds, {counts:?}, {:?} failed",
        counts.operations.load(Ordering::Relaxed),
        world.failed
    );
    assert!(saw_all());
}
