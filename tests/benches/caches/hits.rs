//! Single ids: hits of ids that are equally likely, and skewed ids.

use std::convert::Infallible;
use std::hint::black_box;
use std::mem::size_of;
use std::time::Duration;

use umbra::sys::heap::reserved;
use umbra_core::cache::policy::{Clock, Lru, Policy, S3Fifo, Sieve};
use umbra_core::cache::{Cache, Dense, Found, Grant, Index, Line, Slot, Sparse};
use umbra_tests::bench::{Direction, Plan, Report, Row, Turns, alternate};

use crate::SLOTS;
use crate::peers::{self, Peer};

/// Ids of those cases in which few are asked for.
const HOT: u32 = 1000;
/// Slots of the small cases: the blocks that one worker keeps for itself.
const FEW: u32 = 625;
/// Ids that are asked for in a row; a power of two.
pub(crate) const ASKED: usize = 1 << 21;
/// Skewed ids before anything is counted, those of which the hits are counted, and all of them.
const WARM: usize = 1 << 22;
const COUNTED: usize = 1 << 22;
const SKEWED: usize = WARM + COUNTED + (1 << 23);
/// Ids of a batch: a box of radius 1 in space.
pub(crate) const BATCH: usize = 27;

/// A table as `umbra::cache` makes its own.
pub(crate) fn table<T: Clone>(value: T, count: usize) -> Vec<T> {
    reserved(count, || value.clone()).unwrap_or_else(|error| panic!("{error}"))
}
pub(crate) fn dense(ids: u32) -> Dense<Vec<u32>> {
    Dense::new(table(0, ids as usize))
}
/// A sparse index for so many ids.
pub(crate) fn sparse(ids: u32) -> Sparse<Vec<Line>, Vec<u64>> {
    Sparse::new(table(Line::EMPTY, Line::for_ids(ids as usize)), table(0, ids as usize), 1)
}
fn cache<I: Index, P: Policy>(slots: u32, index: I, policy: P) -> Cache<Vec<Slot>, I, P> {
    let records = table(Slot::EMPTY, slots as usize);
    Cache::new(records, index, policy, 0..slots).unwrap_or_else(|error| panic!("{error}"))
}

/// An even generator: the same ids for all.
pub(crate) struct Random(pub(crate) u64);
impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scatter(self.0)
    }
    /// In 0..1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// One id of 64 bits for each small one.
pub(crate) fn scatter(small: u64) -> u64 {
    let mixed = (small ^ (small >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Bytes of memory that this process has.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or(f64::NAN) * 4096.0
}

/// Bytes a slot, with references, state and order, beside a cache that has only the order.
pub(crate) fn bytes(report: &mut Report) {
    if !report.wants("bytes a slot") {
        return;
    }
    let slots = f64::from(SLOTS);
    let before = resident();
    let mut peer = peers::Hashlink::new(SLOTS);
    (0..u64::from(SLOTS)).for_each(|data| peer.add(data));
    let theirs = (resident() - before) / slots;
    drop(peer);
    let record = size_of::<Slot>() as f64;
    let lines = (Line::for_ids(SLOTS as usize) * size_of::<Line>()) as f64 / slots;
    let (dense, sparse) = (size_of::<u32>() as f64, lines + size_of::<u64>() as f64);
    // Every order lies in the records.
    for (form, index, goal) in [("dense", dense, 28.0), ("sparse", sparse, 45.0)] {
        let case = format!("bytes a slot, {form}");
        let row = |peer, name| Row::new(&case, record + index, peer, name, "B", Direction::LowerIsBetter);
        report.row(row(theirs, peers::Hashlink::NAME)).bar(1.0);
        report.row(Row { case: format!("{case}, goal"), ..row(goal, "the goal") }).bar(1.0);
    }
}

/// Fills a cache with all ids that will be asked for.
fn fill<I: Index>(slots: u32, index: I, id: fn(u64) -> u64) -> Cache<Vec<Slot>, I, Clock> {
    let mut cache = cache(slots, index, Clock::new());
    for data in (0..u64::from(slots)).map(id) {
        let _ = (cache.alloc(data), cache.remember(data), cache.free(data));
    }
    assert_eq!(cache.len(), Ok(slots));
    cache
}

fn filled<P: Peer>(slots: u32, id: fn(u64) -> u64) -> P {
    // Some peers give up ids before they are full; hits are what is measured.
    let mut peer = P::new(slots + slots / 4);
    (0..u64::from(slots)).map(id).for_each(|data| peer.add(data));
    peer
}

/// Runs through the asked ids, around and around, so many at a time.
fn each<const COUNT: usize>(asked: &[u64], mut work: impl FnMut(&[u64; COUNT])) -> impl FnMut(u64) {
    let mut at = 0;
    move |count| {
        for _ in 0..count.div_ceil(COUNT as u64) {
            let Some(ids) = asked[at..].first_chunk() else { unreachable!("it starts again before the end") };
            work(ids);
            at = if at + 2 * COUNT > asked.len() { 0 } else { at + COUNT };
        }
    }
}

fn hits<'a, P: Peer + 'a>(mut peer: P, asked: &'a [u64]) -> impl FnMut(u64) + 'a {
    each(asked, move |&[data]| {
        black_box(peer.find(data));
    })
}

/// Turns in which each record is used some times: a cache is measured, not how it comes back after another one had the
/// processor's caches.
pub(crate) fn long_turns() -> Plan {
    Plan { rounds: 9, batch: Duration::from_millis(200), ..Plan::standard() }
}

/// Hits of ids that are equally likely: of all, of some that stay in the processor's caches, and in a small cache.
pub(crate) fn uniform(report: &mut Report) {
    uniform_ids(report, "dense", dense, |data| data, [SLOTS, SLOTS]);
    uniform_ids(report, "sparse", sparse, scatter, [SLOTS, SLOTS]);
    uniform_ids(report, "dense of 1000", dense, |data| data, [SLOTS, HOT]);
    uniform_ids(report, "sparse of 1000", sparse, scatter, [SLOTS, HOT]);
    uniform_ids(report, "dense, 625 slots", dense, |data| data, [FEW, FEW]);
    uniform_ids(report, "sparse, 625 slots", sparse, scatter, [FEW, FEW]);
}

/// `slots` and of how many ids in them one is asked for.
fn uniform_ids<I: Index>(
    report: &mut Report,
    form: &str,
    index: fn(u32) -> I,
    id: fn(u64) -> u64,
    [slots, ids]: [u32; 2],
) {
    let forms = ["", ", in one step", &format!(", batch of {BATCH}")].map(|how| format!("hit {form}{how}"));
    if !forms.iter().any(|case| report.wants(case)) {
        return;
    }
    let mut random = Random(1);
    let asked: Vec<u64> = (0..ASKED).map(|_| id(random.next() % u64::from(ids))).collect();
    let plan = if ids == SLOTS { long_turns() } else { Plan::standard() };
    let mut single = fill(slots, index(slots), id);
    let mut one = each(&asked, move |&[data]| {
        black_box(single.alloc(data).ok().map(|grant| grant.slot));
        black_box(single.free(data).is_ok());
    });
    let mut alone = fill(slots, index(slots), id);
    let mut step = each(&asked, move |&[data]| {
        black_box(alone.get_or_fill(data, |_| Err(())).ok());
    });
    let mut batched = fill(slots, index(slots), id);
    let mut grants = [Grant::NONE; BATCH];
    let mut batch = each::<BATCH>(&asked, move |ids| {
        let _ = black_box((batched.alloc_all(ids, &mut grants), batched.free_all_granted(ids, &grants)));
        black_box(&grants);
    });
    let mut figures = [f64::NAN; 2];
    let mut against = |report: &mut Report, name: &str, peer: &mut dyn FnMut(u64)| {
        let turns: Turns = alternate(&plan, &mut one, &mut *peer);
        figures[0] = turns.ours.median();
        report.row(turns.row(&forms[0], name, "ns", Direction::LowerIsBetter)).bar(1.0);
        let turns = alternate(&plan, &mut step, &mut *peer);
        report.row(turns.row(&forms[1], name, "ns", Direction::LowerIsBetter)).bar(1.0);
        let turns = alternate(&plan, &mut batch, &mut *peer);
        figures[1] = turns.ours.median();
        report.row(turns.row(&forms[2], name, "ns", Direction::LowerIsBetter)).bar(1.0);
    };
    against(report, peers::Quick::NAME, &mut hits(filled::<peers::Quick>(slots, id), &asked));
    against(report, peers::QuickSync::NAME, &mut hits(filled::<peers::QuickSync>(slots, id), &asked));
    against(report, peers::Hashlink::NAME, &mut hits(filled::<peers::Hashlink>(slots, id), &asked));
    against(report, peers::Lru::NAME, &mut hits(filled::<peers::Lru>(slots, id), &asked));
    against(report, peers::Moka::NAME, &mut hits(filled::<peers::Moka>(slots, id), &asked));
    let goals = [(figures[0], "", 45.0), (figures[1], ", batch of 27", 16.0)];
    for (figure, batch, goal) in goals.into_iter().filter(|_| ids == SLOTS) {
        let case = format!("hit {form}{batch}, goal");
        report.row(Row::new(&case, figure, goal, "the goal", "ns", Direction::LowerIsBetter)).bar(1.0);
    }
}

/// Ids with this skew: the first is the most likely. By inversion of the continuous distribution, which differs from
/// the exact one in the first few ids only.
fn skewed(skew: f64, ids: f64, count: usize) -> Vec<u64> {
    let mut random = Random(2);
    let power = 1.0 - skew;
    let all = (ids + 1.0).powf(power) - 1.0;
    (0..count).map(|_| scatter(((random.part() * all + 1.0).powf(1.0 / power)) as u64)).collect()
}

/// A side of a comparison.
struct Counted<'a> {
    side: Box<dyn FnMut(u64) + 'a>,
    /// Of as many ids as all sides got before, once the cache was full.
    hit_rate: f64,
}

impl<'a> Counted<'a> {
    /// `add` tells whether the id was missing.
    fn new(asked: &'a [u64], mut add: impl FnMut(u64) -> bool + 'a) -> Self {
        // The rest is enough not to be used twice: repeated ids would be known.
        let (first, rest) = asked.split_at(WARM);
        let (counted, rest) = rest.split_at(COUNTED);
        for &data in first {
            add(data);
        }
        let hits = counted.iter().filter(|&&data| !add(data)).count();
        let side = each(rest, move |&[data]| {
            black_box(add(data));
        });
        Counted { side: Box::new(side), hit_rate: hits as f64 / COUNTED as f64 }
    }
}

/// Loaded at once, by one who has the cache to himself.
fn ours<'a, P: Policy + 'a>(slots: u32, asked: &'a [u64], policy: P) -> Counted<'a> {
    let mut cache = cache(slots, sparse(slots), policy);
    Counted::new(asked, move |data| {
        let mut missing = false;
        let load = |_| {
            missing = true;
            Ok::<_, Infallible>(())
        };
        black_box(cache.get_or_fill(data, load).is_ok());
        missing
    })
}

/// With a reference, that others could have meanwhile, too.
fn held<'a, P: Policy + 'a>(slots: u32, asked: &'a [u64], policy: P) -> Counted<'a> {
    let mut cache = cache(slots, sparse(slots), policy);
    Counted::new(asked, move |data| {
        let missing = cache.alloc(data).is_ok_and(|grant| grant.found == Found::Empty);
        if missing {
            let _ = cache.remember(data);
        }
        let _ = cache.free(data);
        missing
    })
}

fn theirs<'a, P: Peer + 'a>(slots: u32, asked: &'a [u64]) -> (&'static str, Counted<'a>) {
    let mut peer = P::new(slots);
    (P::NAME, Counted::new(asked, move |data| peer.get_or_add(data)))
}

/// Get-or-insert of skewed ids, ten times as many as slots.
pub(crate) fn zipf(report: &mut Report) {
    for (slots, size) in [(SLOTS, ""), (FEW, ", 625 slots")] {
        for skew in [0.99, 0.7] {
            zipf_ids(report, &format!("zipf {skew}{size}"), slots, skew);
        }
    }
}

fn zipf_ids(report: &mut Report, form: &str, slots: u32, skew: f64) {
    if !report.wants(form) {
        return;
    }
    let asked = skewed(skew, f64::from(slots) * 10.0, SKEWED);
    let plan = Plan { rounds: 7, batch: Duration::from_millis(20), ..Plan::standard() };
    let mut contenders = [
        theirs::<peers::Quick>(slots, &asked),
        theirs::<peers::QuickSync>(slots, &asked),
        theirs::<peers::Hashlink>(slots, &asked),
        theirs::<peers::Lru>(slots, &asked),
        theirs::<peers::Moka>(slots, &asked),
    ];
    let policies = [
        ("SIEVE", ours(slots, &asked, Sieve::new())),
        ("S3-FIFO", ours(slots, &asked, S3Fifo::new())),
        ("CLOCK", ours(slots, &asked, Clock::new())),
        ("LRU", ours(slots, &asked, Lru::new())),
        ("SIEVE, held", held(slots, &asked, Sieve::new())),
        ("S3-FIFO, held", held(slots, &asked, S3Fifo::new())),
    ];
    let ours = policies.iter().map(|(_, ours)| ours.hit_rate);
    let best = contenders.iter().map(|(_, peer)| peer.hit_rate).chain(ours).fold(0.0, f64::max);
    let mut taken: Option<Row> = None;
    for (policy, mut ours) in policies {
        let rows = contenders.iter_mut().map(|(name, peer)| {
            let turns = alternate(&plan, &mut ours.side, &mut peer.side);
            turns.row(&format!("{form}, {policy}"), name, "ns", Direction::LowerIsBetter)
        });
        let rows: Vec<Row> = rows.collect();
        let fastest = rows.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio)).cloned();
        for row in rows {
            report.row(row).bar(1.0);
        }
        let case = format!("{form}, {policy}, hit rate");
        report.row(Row::new(&case, ours.hit_rate, best, "the best of all", "hits", Direction::HigherIsBetter));
        let fastest = fastest.filter(|_| ours.hit_rate >= 0.99 * best);
        taken = taken.into_iter().chain(fastest).max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    }
    // The policy for such ids is one that finds as much as any, but for one per cent; beside the fastest peer.
    let none = || Row::new("", f64::NAN, f64::NAN, "no policy of ours", "ns", Direction::LowerIsBetter);
    let taken = taken.unwrap_or_else(none);
    report.row(Row { case: format!("{form}, of all hits but 1 %"), ..taken }).bar(1.0);
}
