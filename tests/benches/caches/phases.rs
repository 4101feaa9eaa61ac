//! The phases of many slots, in order and not.
//!
//! All ids are taken, taken again, remembered, given back, forgotten.
//!
//! Beside them the call of a peer that comes nearest, if it has one: insert, get, remove.

use std::hint::black_box;

use umbra_core::cache::policy::Clock as ByClock;
use umbra_core::cache::{Forgetful, Index, Slot};
use umbra_tests::bench::{Clock, Direction, Report, Row, Samples};

use crate::hits::{Random, dense, scatter, sparse, table};
use crate::peers::{self, Peer};

/// Whole runs through all phases, of which the middle one counts.
const RUNS: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Take,
    TakeAgain,
    Remember,
    GiveBackTwice,
    Forget,
}

impl Phase {
    const ALL: [Phase; 5] = [Phase::Take, Phase::TakeAgain, Phase::Remember, Phase::GiveBackTwice, Phase::Forget];

    fn name(self) -> &'static str {
        match self {
            Phase::Take => "take",
            Phase::TakeAgain => "take again",
            Phase::Remember => "remember",
            Phase::GiveBackTwice => "give back twice",
            Phase::Forget => "forget",
        }
    }

    /// Whether peers have such a call, too.
    fn is_known_to_peers(self) -> bool {
        !matches!(self, Phase::Remember | Phase::GiveBackTwice)
    }
}

/// A cache, ours or another's: one phase with each of these ids, in nanoseconds an id.
trait Side {
    fn run(&mut self, phase: Phase, ids: &[u64]) -> f64;
}

struct Ours<I>(Forgetful<Vec<Slot>, I, ByClock>);

impl<I: Index> Ours<I> {
    fn new(slots: u32, index: I) -> Self {
        let records = table(Slot::EMPTY, slots as usize);
        Ours(Forgetful::new(records, index, ByClock::new(), 0..slots).unwrap_or_else(|error| panic!("{error}")))
    }
}

impl<I: Index> Side for Ours<I> {
    fn run(&mut self, phase: Phase, ids: &[u64]) -> f64 {
        let cache = &mut self.0;
        match phase {
            Phase::Take | Phase::TakeAgain => time(ids, |data| cache.alloc(data).is_ok()),
            Phase::Remember => time(ids, |data| cache.remember(data).is_ok()),
            Phase::GiveBackTwice => time(ids, |data| cache.free(data).is_ok() && cache.free(data).is_ok()),
            Phase::Forget => time(ids, |data| cache.forget(data) == Ok(true)),
        }
    }
}

impl<P: Peer> Side for P {
    fn run(&mut self, phase: Phase, ids: &[u64]) -> f64 {
        match phase {
            Phase::Take => time(ids, |data| {
                self.add(data);
                true
            }),
            Phase::Forget => time(ids, |data| self.remove(data)),
            _ => time(ids, |data| self.find(data).is_some()),
        }
    }
}

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
fn ids(slots: u32, id: fn(u64) -> u64, in_order: bool) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..u64::from(slots)).map(id).collect();
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
        for slots in [640_000, 1 << 20] {
            let ids = |id| ids(slots, id, in_order);
            beside(
                report,
                &format!("{order}, {slots} slots"),
                slots,
                || ids(scatter),
                || Ours::new(slots, sparse(slots)),
            );
            let form = format!("dense, {order}, {slots} slots");
            beside(report, &form, slots, || ids(|data| data), || Ours::new(slots, dense(slots)));
        }
    }
}

/// All phases of one form.
fn beside<S: Side + 'static>(
    report: &mut Report,
    form: &str,
    slots: u32,
    ids: impl Fn() -> Vec<u64>,
    ours: impl Fn() -> S,
) {
    let case = |phase: Phase| format!("phase {}, {form}", phase.name());
    if !Phase::ALL.iter().any(|&phase| report.wants(&case(phase))) {
        return;
    }
    let ids = ids();
    let mut times: [[Vec<f64>; SIDES]; Phase::ALL.len()] = Default::default();
    for run in 0..RUNS {
        let mut sides = sides(slots, ours());
        for (phase, times) in Phase::ALL.into_iter().zip(&mut times) {
            for at in 0..SIDES {
                let side = (at + run) % SIDES;
                times[side].push(sides[side].run(phase, &ids));
            }
        }
    }
    for (phase, times) in Phase::ALL.into_iter().zip(times) {
        let [ours, peers @ ..] = times.map(|times| Samples::new(times).map_or(f64::NAN, |samples| samples.median()));
        for (name, peer) in NAMES.into_iter().zip(peers) {
            // A phase that peers know nothing of stands beside their look at an id.
            let known = phase.is_known_to_peers();
            let name = if known { name.to_owned() } else { format!("{name}, a get") };
            let entry = report.row(Row::new(&case(phase), ours, peer, &name, "ns/id", Direction::LowerIsBetter));
            if known {
                entry.bar(1.0);
            }
        }
    }
}

/// Ours and the peers.
const SIDES: usize = 1 + NAMES.len();
const NAMES: [&str; 4] = [peers::Quick::NAME, peers::Hashlink::NAME, peers::Lru::NAME, peers::Moka::NAME];

fn sides(slots: u32, ours: impl Side + 'static) -> [Box<dyn Side>; SIDES] {
    // Some peers give up ids before they are full; all of them have to be found.
    let room = slots + slots / 4;
    [
        Box::new(ours),
        Box::new(peers::Quick::new(room)),
        Box::new(peers::Hashlink::new(room)),
        Box::new(peers::Lru::new(room)),
        Box::new(peers::Moka::new(room)),
    ]
}
