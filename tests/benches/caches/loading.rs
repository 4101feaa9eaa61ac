//! A sweep whose loads take time, by several threads.
//!
//! Ours has threads that load and threads that compute, and lets some points have their inputs at the same time. A peer
//! knows neither groups nor the end of a load, but has one thread load what several want: so each of as many threads gets
//! the inputs of its next point one by one, loads those that are missing, and computes. Its inputs stay as long as a point
//! needs them, by a reference, also when they have left the cache.
//!
//! What is computed is whether each input is the right one.

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use umbra::stencil::optimum::loads as fewest_loads;
use umbra::stencil::{Groups, Known, Plan, Run, Stop};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::stencil::{Grid, Input, Shape};
use umbra_tests::bench::{Direction, Report, Row, Samples};
use umbra_tests::sweep::{cache, rows};

/// How long a load sleeps.
const LOAD: Duration = Duration::from_micros(100);
/// Threads that load, and that compute.
const LOADERS: usize = 8;
const COMPUTERS: usize = 2;
/// Points that have all their inputs at the same time.
const ACTIVE: u32 = 16;
/// Bytes of an input.
const BLOCK: usize = 4096;
/// Sweeps of each side.
const SWEEPS: usize = 5;

/// Too few for each input to be loaded once: that takes two rows and three.
const SLOTS: u32 = 300;

type Block = Arc<[u8]>;

fn fill(data: u64, into: &mut [u8]) {
    thread::sleep(LOAD);
    let (words, _) = into.as_chunks_mut();
    words.fill(data.to_le_bytes());
}

/// # Panics
/// If an input is not what it should be.
fn compute<'b>(members: &[u64], inputs: impl Iterator<Item = Option<&'b [u8]>>) {
    let right = |data: u64, bytes: Option<&[u8]>| {
        bytes.is_some_and(|bytes| bytes.as_chunks().0.iter().all(|word| u64::from_le_bytes(*word) == data))
    };
    let all = members.iter().zip(inputs).filter(|&(&data, bytes)| right(data, bytes)).count();
    assert_eq!(black_box(all), members.len());
}

/// What a sweep came to.
struct Swept {
    /// Microseconds a point.
    point: f64,
    /// How long threads waited before each point, in microseconds.
    waits: Vec<f64>,
    loads: u64,
}

type Sweep = fn(&Groups) -> Swept;

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// So many threads, each of which does this until it gives how long it waited for each of its points.
fn threads(count: usize, work: impl Fn() -> Vec<f64> + Sync) -> Vec<f64> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(&work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    })
}

fn ours(groups: &Groups) -> Swept {
    let inputs = vec![Input::UNBOUNDED; groups.inputs()];
    let horizon = groups.len() as u64;
    let known = Known::new(groups).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan { active: ACTIVE, window: ACTIVE as usize, horizon };
    let mut stencil = cache(SLOTS, groups.largest(), inputs, known, plan);
    let mut memory = vec![0; SLOTS as usize * BLOCK];
    let source = |data: u64, into: &mut [u8], _: Instant| {
        fill(data, into);
        Ok(())
    };
    let run = Run {
        groups,
        source: &source,
        memory: &mut memory,
        slot_bytes: BLOCK,
        active: ACTIVE as usize,
        loads: LOADERS,
        deadline: Duration::from_secs(60),
        stop: Stop::default(),
    };
    let start = Instant::now();
    let done = run.with(&mut stencil, &mut (), |points| {
        threads(COMPUTERS, || {
            let mut waits = Vec::new();
            loop {
                let wait = Instant::now();
                let Ok(ready) = points.recv_blocking() else { return waits };
                waits.push(microseconds(wait.elapsed()));
                compute(ready.members(), (0..ready.members().len()).map(|at| ready.input(at)));
            }
        })
    });
    let (progress, waits) = done.unwrap_or_else(|error| panic!("{error}"));
    let point = microseconds(start.elapsed()) / groups.len() as f64;
    Swept { point, waits, loads: progress.statistics.loads }
}

/// A cache that calls whoever finds nothing to load it, and lets others wait meanwhile.
trait Loading: Sync {
    const NAME: &'static str;
    fn new() -> Self;
    fn get(&self, data: u64, load: impl FnOnce() -> Block) -> Block;
}

struct Quick(quick_cache::sync::Cache<u64, Block>);
impl Loading for Quick {
    const NAME: &'static str = "quick_cache 0.7 sync";
    fn new() -> Self {
        Quick(quick_cache::sync::Cache::new(SLOTS as usize))
    }
    fn get(&self, data: u64, load: impl FnOnce() -> Block) -> Block {
        let loaded: Result<Block, std::convert::Infallible> = self.0.get_or_insert_with(&data, || Ok(load()));
        loaded.unwrap_or_else(|never| match never {})
    }
}

struct Moka(moka::sync::Cache<u64, Block>);
impl Loading for Moka {
    const NAME: &'static str = "moka 0.12 sync";
    fn new() -> Self {
        Moka(moka::sync::Cache::new(u64::from(SLOTS)))
    }
    fn get(&self, data: u64, load: impl FnOnce() -> Block) -> Block {
        self.0.get_with(data, load)
    }
}

fn theirs<C: Loading>(groups: &Groups) -> Swept {
    let cache = C::new();
    // Relaxed: nothing but the numbers themselves is passed on.
    let (next, loads) = (AtomicU64::new(0), AtomicU64::new(0));
    let load = |data| {
        loads.fetch_add(1, Ordering::Relaxed);
        let mut block = vec![0; BLOCK];
        fill(data, &mut block);
        Block::from(block)
    };
    let start = Instant::now();
    let waits = threads(LOADERS + COMPUTERS, || {
        let mut waits = Vec::new();
        loop {
            let point = next.fetch_add(1, Ordering::Relaxed) as usize;
            if point >= groups.len() {
                return waits;
            }
            let members = groups.get(point);
            let wait = Instant::now();
            let inputs: Vec<Block> = members.iter().map(|&data| cache.get(data, || load(data))).collect();
            waits.push(microseconds(wait.elapsed()));
            compute(members, inputs.iter().map(|block| Some(&**block)));
        }
    });
    Swept { point: microseconds(start.elapsed()) / groups.len() as f64, waits, loads: loads.into_inner() }
}

/// The same sweep by all sides, in turns.
pub(crate) fn sweeps(report: &mut Report) {
    let case = format!("sweep with loads of {} us, 60x200, {SLOTS} slots", LOAD.as_micros());
    let Some(grid) = Grid::new([1, 60, 200], 1, Shape::Box).filter(|_| report.wants(&case)) else { return };
    let groups = rows(&grid);
    let Some(fewest) = fewest_loads(&groups, SLOTS as usize) else { return };
    let sides: [(&str, Sweep); 3] = [("ours", ours), (Quick::NAME, theirs::<Quick>), (Moka::NAME, theirs::<Moka>)];
    let mut all: [Vec<Swept>; 3] = Default::default();
    for turn in 0..SWEEPS {
        for at in 0..sides.len() {
            let side = (at + turn) % sides.len();
            all[side].push(sides[side].1(&groups));
        }
    }
    let middle = |figures: Vec<f64>| Samples::new(figures).map_or(f64::NAN, |figures| figures.median());
    let figures = all.map(|sweeps| {
        let points = middle(sweeps.iter().map(|swept| swept.point).collect());
        let loads = middle(sweeps.iter().map(|swept| swept.loads as f64 / fewest as f64).collect());
        let waits = Samples::new(sweeps.into_iter().flat_map(|swept| swept.waits).collect());
        let wait = |percent| waits.as_ref().map_or(f64::NAN, |waits| waits.percentile(percent));
        [points, loads, wait(50.0), wait(99.0)]
    });
    let [ours, peers @ ..] = figures;
    let what = [("", "us/point"), (", loads", "loads/optimum"), (", wait", "us"), (", one wait in a hundred", "us")];
    for (at, (what, unit)) in what.into_iter().enumerate() {
        for ((name, _), peer) in sides[1..].iter().zip(&peers) {
            let case = format!("{case}{what}");
            report.row(Row::new(&case, ours[at], peer[at], name, unit, Direction::LowerIsBetter)).bar(1.0);
        }
    }
}
