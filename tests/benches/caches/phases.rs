//! The phases of many slots, in order and not.
//!
//! All ids are taken, taken again, remembered, given back, forgotten.
//!
//! Beside them the call of a peer that comes nearest, if it has one: insert, get, remove.

use std::hint::black_box;

use umbra_core::cache::policy::Clock as ByClock;
use umbra_core::cache::{Forgetful, Slot, Sparse};
use umbra_tests::bench::{Clock, Direction, Report, Row, Samples};

use crate::hits::{Random, lines, scatter, table};

/// Whole runs through all phases, of which the middle one counts.
const RUNS: usize = 5;

type Ours = Forgetful<Vec<Slot>, Sparse<Vec<umbra_core::cache::Line>>, ByClock>;
type Theirs = hashlink::LruCache<u64, u32>;

/// What is done with each id, and what a peer does meanwhile.
struct Phase {
    name: &'static str,
    ours: fn(&mut Ours, u64) -> bool,
    theirs: Option<fn(&mut Theirs, u64) -> bool>,
}

const PHASES: [Phase; 5] = [
    Phase {
        name: "take",
        ours: |cache, data| cache.alloc(data).is_ok(),
        theirs: Some(|cache, data| cache.insert(data, 1).is_none()),
    },
    Phase {
        name: "take again",
        ours: |cache, data| cache.alloc(data).is_ok(),
        theirs: Some(|cache, data| cache.get(&data).is_some()),
    },
    Phase { name: "remember", ours: |cache, data| cache.remember(data).is_ok(), theirs: None },
    Phase {
        name: "give back twice",
        ours: |cache, data| cache.free(data).is_ok() && cache.free(data).is_ok(),
        theirs: None,
    },
    Phase {
        name: "forget",
        ours: |cache, data| cache.forget(data) == Ok(true),
        theirs: Some(|cache, data| cache.remove(&data).is_some()),
    },
];

/// Nanoseconds an id.
fn time(ids: &[u64], mut step: impl FnMut(u64) -> bool) -> f64 {
    let clock = Clock::new();
    let start = clock.now();
    for &data in ids {
        assert!(black_box(step(data)));
    }
    clock.nanoseconds(start, clock.now()) as f64 / ids.len() as f64
}

/// The ids of a case, in the order in which every phase has them.
fn ids(slots: u32, in_order: bool) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..u64::from(slots)).map(scatter).collect();
    if in_order {
        ids.sort_unstable();
    } else {
        let mut random = Random(3);
        for at in (1..ids.len()).rev() {
            ids.swap(at, (random.next() % (at as u64 + 1)) as usize);
        }
    }
    ids
}

/// All phases, with as many ids as slots.
pub(crate) fn rows(report: &mut Report) {
    for (order, in_order) in [("in order", true), ("at random", false)] {
        for slots in [640_000_u32, 1 << 20] {
            let case = |phase: &Phase| format!("phase {}, {order}, {slots} slots", phase.name);
            if PHASES.iter().any(|phase| report.wants(&case(phase))) {
                let ids = ids(slots, in_order);
                let times = times(slots, &ids);
                for (phase, [ours, theirs]) in PHASES.iter().zip(times) {
                    // A phase that peers know nothing of stands beside their look at an id.
                    let name = if phase.theirs.is_some() { "hashlink 0.12" } else { "hashlink 0.12, a get" };
                    let row = Row::new(&case(phase), ours, theirs, name, "ns/id", Direction::LowerIsBetter);
                    let entry = report.row(row);
                    if phase.theirs.is_some() {
                        entry.bar(1.0);
                    }
                }
            }
        }
    }
}

/// The middle time of each phase, ours and the peer's.
fn times(slots: u32, ids: &[u64]) -> [[f64; 2]; PHASES.len()] {
    let mut all: [[Vec<f64>; 2]; PHASES.len()] = Default::default();
    for _ in 0..RUNS {
        let records = table(Slot::EMPTY, slots as usize);
        let index = Sparse::new(lines(slots), 1);
        let mut ours =
            Forgetful::new(records, index, ByClock::new(), 0..slots).unwrap_or_else(|error| panic!("{error}"));
        let mut theirs = Theirs::new(slots as usize);
        for (phase, [mine, peers]) in PHASES.iter().zip(&mut all) {
            mine.push(time(ids, |data| (phase.ours)(&mut ours, data)));
            let look: fn(&mut Theirs, u64) -> bool = |cache, data| cache.get(&data).is_some();
            peers.push(time(ids, |data| phase.theirs.unwrap_or(look)(&mut theirs, data)));
        }
    }
    all.map(|sides| sides.map(|times| Samples::new(times).map_or(f64::NAN, |samples| samples.median())))
}
