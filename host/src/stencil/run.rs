//! A whole run: threads that load, and whoever takes the points that are ready.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::cache::Statistics;

use super::Groups;
use super::arena::Arena;
use super::cache::Cache;
use super::drive::{Driver, State};
use super::error::{ComputeError, RunError};
use super::ready::{Consumer, Load, Ready};
use super::source::Source;

/// Longer than anybody waits: what is far longer is no time of a clock.
const FAR: Duration = Duration::from_secs(u32::MAX as u64);

/// The points that are ready: `recv_blocking` for threads, `recv` and the trait `Stream` for tasks; clones share what
/// comes. It ends with the run, whatever its end is.
pub type Points<'a, G> = async_channel::Receiver<Ready<'a, G>>;

/// What a run is made of, beside its cache.
pub struct Run<'a, S: ?Sized> {
    /// The groups, in the order in which they are served.
    pub groups: &'a Groups,
    /// Where inputs come from.
    pub source: &'a S,
    /// The memory of all slots; as many as the cache hands out. A cache that was used before remembers what its slots
    /// hold: it goes with the same memory and the same source.
    pub memory: &'a mut [u8],
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// Groups at most that the cache lets have all their slots at the same time.
    pub active: usize,
    /// Loads at the same time: threads that call the source.
    pub loads: usize,
    /// How long it may take until something happens: a load or a point is done.
    pub deadline: Duration,
    /// Ends the run from elsewhere.
    pub stop: Stop,
}

/// Ends a run from another thread; clones are one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicU32>);

impl Stop {
    /// The run ends with [`RunError::Stopped`] as soon as what is under way is over.
    pub fn set(&self) {
        // Nothing but the number itself is passed on.
        self.0.store(1, Ordering::Relaxed);
    }

    /// Whether it shall end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Points that are done.
    pub done: u64,
    /// All points.
    pub groups: u64,
    /// What the cache counted.
    pub statistics: Statistics,
    /// Points that could not begin before a load was over.
    pub waits: u64,
    /// Slots that are being filled.
    pub loading: u32,
    /// Slots with content that points under way use.
    pub held: u32,
    /// Slots with content that nobody uses now.
    pub idle: u32,
    /// Slots without content.
    pub empty: u32,
    /// Since the start.
    pub elapsed: Duration,
}

/// Who is told what happens; called by the thread that drives the run.
pub trait Observe {
    /// An input is being loaded into a slot.
    fn load(&mut self, _slot: u32, _data: u64) {}
    /// A point is ready, with these slots.
    fn ready(&mut self, _number: u64, _slots: &[u32]) {}
    /// The run begins with nothing done, news came, or nothing did for a moment.
    fn progress(&mut self, _progress: &Progress) {}
    /// Nothing happened for so long that the run ends; it returns when what is under way is over.
    fn late(&mut self, _waited: Duration) {}
}

impl Observe for () {}

/// How long the threads that computed had nothing to do, all together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Idle(pub Duration);

impl<'a, S: Source + ?Sized> Run<'a, S> {
    /// Bytes of memory that a run takes for each slot, beside the slot: its handle, and room for its load in a queue.
    pub const BYTES_OF_SLOT: usize = Arena::BYTES_OF_SLOT + size_of::<Load<'static, u64>>() + size_of::<usize>();

    /// Runs all groups; `consume` takes the points that are ready, in whatever way it likes: in threads, as a stream of
    /// tasks. A point counts as computed when it is dropped. Points that wait for each other wait for ever.
    ///
    /// # Errors
    /// [`RunError`]; when it is returned, nothing writes to the memory any more.
    pub fn with<C: Cache, R: Send>(
        self,
        cache: &mut C,
        observe: &mut dyn Observe,
        consume: impl FnOnce(Points<'a, C::Group>) -> R + Send,
    ) -> Result<(Progress, R), RunError> {
        let (done, progress, value) = self.conduct(cache, observe, consume)?;
        done.map(|()| (progress, value))
    }

    /// As [`with`](Self::with); also of a run that failed, how far it came, and what `consume` made.
    fn conduct<C: Cache, R: Send>(
        self,
        cache: &mut C,
        observe: &mut dyn Observe,
        consume: impl FnOnce(Points<'a, C::Group>) -> R + Send,
    ) -> Result<(Result<(), RunError>, Progress, R), RunError> {
        let Run { groups, source, memory, slot_bytes, active, loads, deadline, stop } = self;
        if loads == 0 {
            return Err(RunError::Zero("the number of loads in flight"));
        }
        let arena = Arena::new(memory, slot_bytes);
        // No more are ever under way than there are groups and members, whatever the caller allows.
        let most_loads = arena.len().min(groups.references());
        let (to_load, queue) = async_channel::bounded::<Load<'a, C::Group>>(most_loads.max(1));
        let (to_compute, points) = async_channel::bounded(active.min(groups.len()).max(1));
        let (news, told) = channel();
        thread::scope(|scope| {
            // Closes both queues however this function is left, so that all threads end.
            let queues = Queues { loads: queue.clone(), points: points.clone() };
            for number in 0..loads {
                let queue = queue.clone();
                let work = move || {
                    while let Ok(load) = queue.recv_blocking() {
                        load.fill(|data, into| source.load(data, into, Instant::now() + deadline.min(FAR)));
                    }
                };
                let builder = thread::Builder::new().name(format!("load {number}"));
                builder.spawn_scoped(scope, work).map_err(RunError::Thread)?;
            }
            let left = Consumer(news.clone());
            let consume = move || {
                let _left = left;
                consume(points)
            };
            let builder = thread::Builder::new().name("points".into());
            let consumer = builder.spawn_scoped(scope, consume).map_err(RunError::Thread)?;
            let state = State::new();
            let mut driver = Driver {
                cache,
                arena,
                groups,
                source,
                observe,
                stop,
                deadline,
                to_load,
                to_compute,
                news,
                told,
                state,
            };
            let done = driver.run();
            let progress = driver.progress();
            drop(queues);
            let value = consumer.join().unwrap_or_else(|panic| resume_unwind(panic));
            Ok((done, progress, value))
        })
    }

    /// Runs all groups, and computes the points in so many threads; `worker` makes what each of them calls.
    ///
    /// # Errors
    /// [`RunError`]; when it is returned, nothing writes to the memory any more.
    pub fn each<C: Cache, W>(
        self,
        cache: &mut C,
        threads: usize,
        observe: &mut dyn Observe,
        worker: impl Fn() -> W + Sync,
    ) -> Result<(Progress, Idle), RunError>
    where
        W: FnMut(&Ready<'a, C::Group>) -> Result<(), ComputeError>,
    {
        if threads == 0 {
            return Err(RunError::Zero("the number of threads"));
        }
        let work = |points: Points<'a, C::Group>| {
            let mut compute = worker();
            let mut idle = Duration::ZERO;
            loop {
                let start = Instant::now();
                let Ok(ready) = points.recv_blocking() else { return idle };
                idle += start.elapsed();
                if let Err(error) = compute(&ready) {
                    ready.fail(error);
                }
            }
        };
        let consume = |points: Points<'a, C::Group>| {
            thread::scope(|scope| {
                let start = |number| {
                    let (work, points) = (&work, points.clone());
                    let builder = thread::Builder::new().name(format!("compute {number}"));
                    builder.spawn_scoped(scope, move || work(points))
                };
                // If one can't be started, those that run would go on alone: dropping all receivers ends the run.
                let workers: Result<Vec<_>, _> = (0..threads).map(start).collect();
                if workers.is_err() {
                    points.close();
                }
                drop(points);
                let workers = workers.map_err(RunError::Thread)?;
                Ok(workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).sum())
            })
        };
        let (done, progress, idle) = self.conduct(cache, observe, consume)?;
        // That a thread could not be started is why the run was left.
        let idle: Result<Duration, RunError> = idle;
        let idle = idle?;
        done.map(|()| (progress, Idle(idle)))
    }
}

/// The ends of the queues that threads take from.
struct Queues<L, P> {
    loads: async_channel::Receiver<L>,
    points: async_channel::Receiver<P>,
}

impl<L, P> Drop for Queues<L, P> {
    fn drop(&mut self) {
        self.loads.close();
        self.points.close();
        // What nobody has begun is not begun any more.
        while self.loads.try_recv().is_ok() {}
        while self.points.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::cache::policy::Lru;
    use umbra_core::stencil::{Input, Unknown};

    use super::super::{Plain, Plan};
    use super::*;

    #[test]
    fn a_cache_whose_slots_a_failed_run_still_holds_is_refused_at_once() {
        let groups: Groups = [[0], [1]].into_iter().collect();
        let source = |_: u64, _: &mut [u8], _: Instant| Ok(());
        let mut cache = Plain::new(2, 2, Lru::new(), 1).unwrap();
        let mut ends = |fails: bool| {
            let deadline = Duration::from_secs(20);
            let (source, memory, stop) = (&source, &mut [0; 2], Stop::default());
            let run = Run { groups: &groups, source, memory, slot_bytes: 1, active: 1, loads: 1, deadline, stop };
            let worker = || move |_: &Ready<'_, u64>| if fails { Err("no".into()) } else { Ok(()) };
            run.each(&mut cache, 1, &mut (), worker).map(drop).unwrap_err()
        };
        assert!(matches!(ends(true), RunError::Compute { number: 0, .. }));
        let error = ends(false);
        assert!(error.to_string().contains("take a new cache"), "{error}");
    }

    #[test]
    fn as_many_groups_at_the_same_time_as_can_be_said_take_no_more_memory_than_those_that_there_are() {
        let groups: Groups = [[0], [1], [0]].into_iter().collect();
        let source = |_: u64, _: &mut [u8], _: Instant| Ok(());
        let mut cache = Plain::new(2, 2, Lru::new(), usize::MAX).unwrap();
        let (source, memory, stop) = (&source, &mut [0; 2], Stop::default());
        let deadline = Duration::from_secs(20);
        let run = Run { groups: &groups, source, memory, slot_bytes: 1, active: usize::MAX, loads: 1, deadline, stop };
        let (progress, _) = run.each(&mut cache, 1, &mut (), || |_: &Ready<'_, u64>| Ok(())).unwrap();
        assert_eq!(progress.done, 3);
    }

    #[test]
    fn a_run_that_was_told_of_fewer_groups_than_its_cache_lets_begin_says_so() {
        let groups: Groups = [[], []].into_iter().collect();
        let source = |_: u64, _: &mut [u8], _: Instant| Ok(());
        let mut cache = Plan { active: 2, window: 2, horizon: 2 }.cache(1, 1, vec![Input::UNBOUNDED], Unknown).unwrap();
        let (source, memory, stop) = (&source, &mut [0], Stop::default());
        let deadline = Duration::from_secs(20);
        let run = Run { groups: &groups, source, memory, slot_bytes: 1, active: 1, loads: 1, deadline, stop };
        // Nobody takes what is ready before the run has ended.
        let wait = |points: Points<'_, _>| {
            while !points.is_closed() {
                thread::yield_now()
            }
        };
        let error = run.with(&mut cache, &mut (), wait).map(drop).unwrap_err();
        assert!(matches!(error, RunError::Active { active: 1 }), "{error}");
    }

    /// A run with a cache in which a group is that needs no slot.
    fn refused<C: Cache>(cache: &mut C) {
        cache.submit(7, &[]).unwrap();
        let groups: Groups = [[0]].into_iter().collect();
        let source = |_: u64, _: &mut [u8], _: Instant| Ok(());
        let (source, memory, stop) = (&source, &mut [0; 2], Stop::default());
        let deadline = Duration::from_secs(20);
        let run = Run { groups: &groups, source, memory, slot_bytes: 1, active: 1, loads: 1, deadline, stop };
        let error = run.each(cache, 1, &mut (), || |_: &Ready<'_, C::Group>| Ok(())).unwrap_err();
        assert!(matches!(error, RunError::InUse { groups: 1, slots: 0 }), "{error}");
    }

    #[test]
    fn a_cache_with_groups_that_need_no_slot_is_refused_as_well() {
        refused(&mut Plain::new(2, 2, Lru::new(), 2).unwrap());
        refused(&mut Plan::one(9).cache(2, 1, vec![Input::UNBOUNDED; 2], Unknown).unwrap());
    }
}
