//! Calls of the heap that caches make once they are there.
//!
//! Each side fills its slots, finds all of its ids again, has many more ids than slots, and removes what is left. Ours makes
//! none from the first id on, in every form; what stands beside a peer is the most that one of them makes. A call is an
//! allocation, one that grows or shrinks, or a release.
//!
//! They are counted here because nothing is timed here: the count would be in the times of those who allocate. The ratio of
//! a row has one call more on both sides, because there is none of nothing.

use std::alloc::System;
use std::hint::black_box;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use umbra::cache::{Given, Mapped};
use umbra::stencil::Plan;
use umbra_core::cache::policy::{Clock, Fifo, Lru, Policy, S3Fifo, Sieve};
use umbra_core::cache::{Dense, Forgetful, Forgetting, Found, Index, Line, Slot, Sparse};
use umbra_core::shared_cache::Sharing;
use umbra_core::stencil::{Grid, Input, Shape};
use umbra_tests::bench::{Direction, Report, Row};
use umbra_tests::sweep::{cache, serve};

use crate::peers::{Hashlink, Lru as LruPeer, Moka, Peer, Quick, QuickSync};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Slots, and ids that come after as many as there are slots.
const SLOTS: u32 = 1 << 16;
const MORE: u32 = 1 << 20;
const IDS: u32 = SLOTS + MORE;

/// Calls of the heap during a piece of work; nobody else runs meanwhile.
fn calls(work: impl FnOnce()) -> u64 {
    let region = Region::new(COUNTED);
    work();
    let change = region.change();
    (change.allocations + change.reallocations + change.deallocations) as u64
}

/// What is done with a cache, ours or another's.
trait Side {
    /// Finds an id or gives it a slot.
    fn ask(&mut self, data: u64);
    /// Removes an id, if it is there.
    fn remove(&mut self, data: u64);
}

impl<P: Peer> Side for P {
    fn ask(&mut self, data: u64) {
        black_box(self.get_or_add(data));
    }
    fn remove(&mut self, data: u64) {
        black_box(Peer::remove(self, data));
    }
}

/// By one owner.
struct Alone<I, P>(Forgetful<Vec<Slot>, I, P>);

impl<I: Index, P: Policy> Alone<I, P> {
    fn new(index: I, policy: P) -> Self {
        let cache = Forgetful::new(vec![Slot::EMPTY; SLOTS as usize], index, policy, 0..SLOTS);
        Alone(cache.unwrap_or_else(|error| panic!("{error}")))
    }
}

impl<I: Index, P: Policy> Side for Alone<I, P> {
    fn ask(&mut self, data: u64) {
        if self.0.alloc(data).is_ok_and(|grant| grant.found == Found::Empty) {
            let _ = self.0.remember(data);
        }
        let _ = self.0.free(data);
    }
    fn remove(&mut self, data: u64) {
        let _ = black_box(self.0.forget(data));
    }
}

/// By threads, which would wait in line.
struct OfThreads<I: Index>(umbra::cache::Forgetful<I, Clock>);

impl<I: Index + Send> Side for OfThreads<I> {
    fn ask(&mut self, data: u64) {
        if let Ok(Given::Empty(fill)) = self.0.try_alloc(data) {
            let _ = black_box(fill.remember());
        }
    }
    fn remove(&mut self, data: u64) {
        let _ = black_box(self.0.forget(data));
    }
}

/// By processes, without a lock.
struct Shared(Mapped<Forgetting>);

impl Side for Shared {
    fn ask(&mut self, data: u64) {
        let client = self.0.client();
        if client.alloc(data).is_ok_and(|grant| grant.found == Found::Empty) {
            let _ = client.remember(data);
        }
        let _ = client.free(data);
    }
    fn remove(&mut self, data: u64) {
        let _ = black_box(self.0.client().forget(data));
    }
}

const PHASES: [&str; 4] = ["filling", "hits", "evictions", "removals"];

/// Calls of the heap in each phase.
fn phases(mut side: impl Side) -> [u64; PHASES.len()] {
    let (first, more) = (0..u64::from(SLOTS), u64::from(SLOTS)..u64::from(IDS));
    [
        calls(|| first.clone().for_each(|data| side.ask(data))),
        calls(|| first.clone().for_each(|data| side.ask(data))),
        calls(|| more.for_each(|data| side.ask(data))),
        calls(|| (0..u64::from(IDS)).for_each(|data| side.remove(data))),
    ]
}

/// All forms of ours, by name.
fn ours() -> Vec<(&'static str, [u64; PHASES.len()])> {
    let sparse = || Sparse::new(vec![Line::EMPTY; Line::for_ids(SLOTS as usize)], vec![0; SLOTS as usize], 1);
    let dense = || Dense::new(vec![0; IDS as usize]);
    let shared = Sharing::new(8, 31).and_then(|sharing| Mapped::create(SLOTS as usize, sharing).ok());
    let of_threads = umbra::cache::Forgetful::new(0..SLOTS, sparse(), Clock::new());
    vec![
        ("dense, CLOCK", phases(Alone::new(dense(), Clock::new()))),
        ("sparse, CLOCK", phases(Alone::new(sparse(), Clock::new()))),
        ("sparse, FIFO", phases(Alone::new(sparse(), Fifo::new()))),
        ("sparse, LRU", phases(Alone::new(sparse(), Lru::new()))),
        ("sparse, SIEVE", phases(Alone::new(sparse(), Sieve::new()))),
        ("sparse, S3-FIFO", phases(Alone::new(sparse(), S3Fifo::new()))),
        ("of threads", phases(OfThreads(of_threads.unwrap_or_else(|error| panic!("{error}"))))),
        ("shared", phases(Shared(shared.unwrap_or_else(|| panic!("no segment for the shared cache"))))),
    ]
}

/// A sweep over a plane, by the stencil cache or, input by input, by a peer.
fn sweep(grid: Grid, mut group: impl FnMut(u64, &[u64])) -> u64 {
    let mut members = Vec::with_capacity(grid.largest_group());
    calls(|| {
        for point in 0..u64::from(grid.len()) {
            members.clear();
            members.extend(grid.group(point));
            group(point, &members);
        }
    })
}

fn peer<P: Peer>(grid: Grid, slots: u32) -> u64 {
    let mut peer = P::new(slots);
    sweep(grid, |_, members| members.iter().for_each(|&data| peer.ask(data)))
}

/// All phases, and a sweep.
pub(crate) fn rows(report: &mut Report) {
    let cases =
        PHASES.map(|phase| format!("heap calls, {phase}, {} ids", if phase == "evictions" { MORE } else { SLOTS }));
    if cases.iter().any(|case| report.wants(case)) {
        let ours = ours();
        let peers: [(&str, [u64; PHASES.len()]); 5] = [
            (Quick::NAME, phases(Quick::new(SLOTS))),
            (QuickSync::NAME, phases(QuickSync::new(SLOTS))),
            (Hashlink::NAME, phases(Hashlink::new(SLOTS))),
            (LruPeer::NAME, phases(LruPeer::new(SLOTS))),
            (Moka::NAME, phases(Moka::new(SLOTS))),
        ];
        for (at, case) in cases.iter().enumerate() {
            for (form, made) in ours.iter().filter(|(_, made)| made[at] > 0) {
                report.note(format_args!("{case}: {} of ours, {form}", made[at]));
            }
            let most = ours.iter().map(|(_, made)| made[at]).max().unwrap_or(u64::MAX);
            beside(report, case, most, peers.iter().map(|(name, made)| (*name, made[at])));
        }
    }
    let (case, slots) = ("heap calls, stencil 200x200, radius 3, 1000 slots", 1000);
    let Some(grid) = Grid::new([1, 200, 200], 3, Shape::Box).filter(|_| report.wants(case)) else { return };
    let inputs = vec![Input::UNBOUNDED; grid.len() as usize];
    let mut stencil = cache(slots, grid.largest_group(), inputs, grid, Plan::one(2 * u64::from(grid.len())));
    let ours = sweep(grid, |point, members| serve(&mut stencil, point, members));
    let peers = [
        (Quick::NAME, peer::<Quick>(grid, slots)),
        (QuickSync::NAME, peer::<QuickSync>(grid, slots)),
        (Hashlink::NAME, peer::<Hashlink>(grid, slots)),
        (LruPeer::NAME, peer::<LruPeer>(grid, slots)),
        (Moka::NAME, peer::<Moka>(grid, slots)),
    ];
    beside(report, case, ours, peers.into_iter());
}

fn beside(report: &mut Report, case: &str, ours: u64, peers: impl Iterator<Item = (&'static str, u64)>) {
    for (name, theirs) in [("the goal", 0)].into_iter().chain(peers) {
        let row = Row::new(case, ours as f64, theirs as f64, name, "heap calls", Direction::LowerIsBetter);
        report.row(Row { ratio: (theirs + 1) as f64 / (ours + 1) as f64, ..row }).bar(1.0);
    }
}
