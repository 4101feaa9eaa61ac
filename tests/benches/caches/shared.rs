//! The caches that processes and threads share, beside caches for many threads.
//!
//! Hits are by one thread, and by two at the same time.

use std::hint::{black_box, spin_loop};
use std::thread;

use umbra::cache::{Cache, Given, Mapped};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::policy::Clock;
use umbra_core::cache::{Dense, Grant, Index, Remembering};
use umbra_core::shared_cache::{Client, Sharing, words_for};
use umbra_tests::bench::{Direction, Report, Row, alternate, pin};

use crate::SLOTS;
use crate::hits::{ASKED, BATCH, Random, long_turns, scatter, sparse, table};

/// Kinds of hits of the cache that processes share.
const KINDS: [&str; 3] = ["hit", "pin", "batch of 27"];
/// And of the cache of threads.
const IN_LINE: [&str; 2] = ["hit", "batch of 27"];

/// Hit after hit of the asked ids, around and around.
trait Hits: Sync {
    fn run(&self, asked: &[u64]);
}

struct ById<'a>(Client<'a, Remembering>);
impl Hits for ById<'_> {
    fn run(&self, asked: &[u64]) {
        for &data in asked {
            black_box(self.0.alloc(data).ok().map(|grant| grant.slot));
            black_box(self.0.free(data).is_ok());
        }
    }
}

struct ByPin<'a>(Client<'a, Remembering>);
impl Hits for ByPin<'_> {
    fn run(&self, asked: &[u64]) {
        for &data in asked {
            let pin = self.0.pin(data).ok();
            black_box(pin.as_ref().map(|pin| pin.grant().slot));
            black_box(pin.is_some_and(|pin| self.0.free_pin(pin).is_ok()));
        }
    }
}

struct InBatches<'a>(Client<'a, Remembering>);
impl Hits for InBatches<'_> {
    fn run(&self, asked: &[u64]) {
        let mut grants = [None; BATCH];
        for ids in asked.chunks(BATCH) {
            let _ = black_box((self.0.alloc_all(ids, &mut grants), self.0.free_all(ids)));
        }
    }
}

/// The cache that threads share by a lock, whatever its index.
trait Locked: Sync {
    /// Gives the id a slot with content.
    fn fill(&self, data: u64);
    fn hit(&self, data: u64);
    fn hits(&self, data: &[u64], grants: &mut [Grant; BATCH]);
}
impl<I: Index + Send> Locked for Cache<I, Clock> {
    fn fill(&self, data: u64) {
        if let Ok(Given::Empty(fill)) = self.try_alloc(data) {
            let _ = fill.remember();
        }
    }
    fn hit(&self, data: u64) {
        // Given back where it goes.
        black_box(
            self.try_alloc(data).is_ok_and(|given| matches!(given, Given::Remembered(held) if held.slot() < SLOTS)),
        );
    }
    fn hits(&self, data: &[u64], grants: &mut [Grant; BATCH]) {
        let _ = black_box((self.try_alloc_all(data, grants), self.free_all_granted(data, grants)));
    }
}

fn made<I: Index>(index: I) -> Cache<I, Clock> {
    Cache::new(0..SLOTS, index, Clock::new()).unwrap_or_else(|error| panic!("{error}"))
}

struct OneByOne<'a>(&'a dyn Locked);
impl Hits for OneByOne<'_> {
    fn run(&self, asked: &[u64]) {
        asked.iter().for_each(|&data| self.0.hit(data));
    }
}

struct ManyAtOnce<'a>(&'a dyn Locked);
impl Hits for ManyAtOnce<'_> {
    fn run(&self, asked: &[u64]) {
        let mut grants = [Grant::NONE; BATCH];
        asked.chunks(BATCH).for_each(|ids| self.0.hits(ids, &mut grants));
    }
}

struct Quick(quick_cache::sync::Cache<u64, u32>);
impl Hits for Quick {
    fn run(&self, asked: &[u64]) {
        for data in asked {
            black_box(self.0.get(data));
        }
    }
}

struct Moka(moka::sync::Cache<u64, u32>);
impl Hits for Moka {
    fn run(&self, asked: &[u64]) {
        for data in asked {
            black_box(self.0.get(data));
        }
    }
}

/// Runs so many hits, from where the last ones ended.
fn turns<'a>(hits: &'a dyn Hits, asked: &'a [u64]) -> impl FnMut(u64) + 'a {
    let mut at = 0;
    move |count| {
        let mut left = count as usize;
        while left > 0 {
            let here = left.min(asked.len() - at);
            hits.run(&asked[at..at + here]);
            at = (at + here) % asked.len();
            left -= here;
        }
    }
}

/// The other thread, which does for each of two sides what it is asked for. One for both, because the core that it
/// waits on is its own.
struct Other {
    /// Twice the number of hits, and the side; 0 if it has done them.
    asked: AtomicU64,
}
const END: u64 = u64::MAX;

impl Other {
    fn serve(&self, core: Option<&usize>, sides: [&dyn Hits; 2], asked: &[u64]) {
        let _ = core.map(|&core| pin(core));
        let mut sides = sides.map(|hits| turns(hits, asked));
        loop {
            match self.asked.load(Ordering::Acquire) {
                0 => spin_loop(),
                END => break,
                call => {
                    sides[(call & 1) as usize](call >> 1);
                    self.asked.store(0, Ordering::Release);
                }
            }
        }
    }

    /// Hits of one side by the other thread and by this one, at the same time.
    fn both<'a>(&'a self, side: u64, hits: &'a dyn Hits, asked: &'a [u64]) -> impl FnMut(u64) + 'a {
        let mut ours = turns(hits, asked);
        move |count| {
            self.asked.store(count << 1 | side, Ordering::Release);
            ours(count);
            while self.asked.load(Ordering::Acquire) != 0 {
                spin_loop();
            }
        }
    }
}

/// Hits of ids that are equally likely; `core` is for the other thread.
pub(crate) fn uniform(report: &mut Report, core: Option<&usize>) {
    for (form, id) in [("dense", (|data| data) as fn(u64) -> u64), ("sparse", scatter)] {
        uniform_ids(report, core, form, id);
    }
}

/// Peers that have these ids.
fn filled(all: impl Iterator<Item = u64>) -> (Quick, Moka) {
    // Some peers give up ids before they are full; hits are what is measured.
    let quick = Quick(quick_cache::sync::Cache::new((SLOTS + SLOTS / 4) as usize));
    let moka = Moka(moka::sync::Cache::new(u64::from(SLOTS + SLOTS / 4)));
    for data in all {
        quick.0.insert(data, data as u32);
        moka.0.insert(data, data as u32);
    }
    (quick, moka)
}

/// The cache of threads, which wait for its slots in line.
fn in_line<A: Iterator<Item = u64>>(
    report: &mut Report,
    core: Option<&usize>,
    form: &str,
    asked: &[u64],
    all: A,
    peers: [(&str, &dyn Hits); 2],
) {
    let cache: Box<dyn Locked> = match form {
        "dense" => Box::new(made(Dense::new(table(0_u32, SLOTS as usize)))),
        _ => Box::new(made(sparse(SLOTS))),
    };
    all.for_each(|data| cache.fill(data));
    let sides: [&dyn Hits; 2] = [&OneByOne(&*cache), &ManyAtOnce(&*cache)];
    for (kind, ours) in IN_LINE.iter().zip(sides) {
        beside(report, core, &format!("{kind} of threads {form}"), ours, peers, asked);
    }
}

fn uniform_ids(report: &mut Report, core: Option<&usize>, form: &str, id: fn(u64) -> u64) {
    let wants = |kinds: &[&str], whose: &str| kinds.iter().any(|what| report.wants(&format!("{what} {whose} {form}")));
    let (of_threads, shared) = (wants(&IN_LINE, "of threads"), wants(&KINDS, "shared"));
    if !of_threads && !shared {
        return;
    }
    let mut random = Random(1);
    let asked: Vec<u64> = (0..ASKED).map(|_| id(random.next() % u64::from(SLOTS))).collect();
    let all = || (0..u64::from(SLOTS)).map(id);
    let (quick, moka) = filled(all());
    let peers: [(&str, &dyn Hits); 2] = [("quick_cache 0.7 sync", &quick), ("moka 0.12 sync", &moka)];
    if of_threads {
        in_line(report, core, form, &asked, all(), peers);
    }
    if shared {
        in_segment(report, core, form, &asked, all(), peers);
    }
}

/// The cache that processes share.
fn in_segment<A: Iterator<Item = u64>>(
    report: &mut Report,
    core: Option<&usize>,
    form: &str,
    asked: &[u64],
    all: A,
    peers: [(&str, &dyn Hits); 2],
) {
    let count = Sharing::new(8, 31).and_then(|sharing| Some((sharing, words_for(SLOTS as usize, sharing)?)));
    let Some((sharing, count)) = count else { return };
    let cache = Mapped::create(SLOTS as usize, sharing).unwrap_or_else(|error| panic!("{error}"));
    let ours = cache.client();
    for data in all {
        let _ = (ours.alloc(data), ours.remember(data), ours.free(data));
    }
    assert_eq!(ours.cache().empty(), 0);
    let bytes = count as f64 * 8.0 / f64::from(SLOTS);
    let case = format!("bytes a slot, shared {form}, goal");
    report.row(Row::new(&case, bytes, 45.0, "the goal", "B", Direction::LowerIsBetter)).bar(1.0);

    let (by_id, by_pin, in_batches) = (ById(ours), ByPin(ours), InBatches(ours));
    let sides: [&dyn Hits; 3] = [&by_id, &by_pin, &in_batches];
    for (what, ours) in KINDS.iter().zip(sides) {
        let figure = beside(report, core, &format!("{what} shared {form}"), ours, peers, asked);
        let case = format!("{what} shared {form}, one thread, goal");
        report.row(Row::new(&case, figure, 55.0, "the goal", "ns", Direction::LowerIsBetter)).bar(1.0);
    }
}

/// Rows of one kind of hits beside those of peers, by one thread and by two; the least time by one.
fn beside(
    report: &mut Report,
    core: Option<&usize>,
    kind: &str,
    ours: &dyn Hits,
    peers: [(&str, &dyn Hits); 2],
    asked: &[u64],
) -> f64 {
    let (plan, mut figure) = (long_turns(), f64::INFINITY);
    for (name, peer) in peers {
        let turns = alternate(&plan, turns(ours, asked), turns(peer, asked));
        figure = turns.ours.median().min(figure);
        report.row(turns.row(&format!("{kind}, one thread"), name, "ns", Direction::LowerIsBetter)).bar(1.0);
    }
    for (name, peer) in peers {
        let other = Other { asked: AtomicU64::new(0) };
        let (first, second) = asked.split_at(asked.len() / 2);
        let turns = thread::scope(|scope| {
            scope.spawn(|| other.serve(core, [ours, peer], second));
            let turns = alternate(&plan, other.both(0, ours, first), other.both(1, peer, first));
            other.asked.store(END, Ordering::Release);
            turns
        });
        let case = format!("{kind}, each of two threads");
        report.row(turns.row(&case, name, "ns", Direction::LowerIsBetter)).bar(1.0);
    }
    figure
}
