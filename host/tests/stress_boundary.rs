//! Random exchanges of three ranks as threads, with agents that come and go.
//!
//! Every ghost is compared with what must come, and blocks are dealt anew meanwhile. ThreadSanitizer runs it as well (step
//! `tsan`): values are moved without ordering, so that all order comes from stamps, boards and votes.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[allow(dead_code, unreachable_pub, reason = "other tests use it from a library")]
#[path = "../../tests/src/random_exchanges.rs"]
mod random_exchanges;
mod stress;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use umbra::boundary::{Agent, Attended, Extent, Fabric};
use umbra::sys::segment::Segment;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::boundary::Counts;

use random_exchanges::Exchanges;
use stress::{Dice, count};

const RANKS: u32 = 3;
/// More than one, which have to wait for each other.
const AGENTS: u32 = 2;
/// Exchanges of a round, and of an epoch.
const ROUND: u32 = 120;
const EPOCH: u32 = 30;

/// Exchanges of all ranks; a tenth is what ThreadSanitizer has time for.
fn exchanges() -> u64 {
    if std::env::var_os("TSAN_OPTIONS").is_some() { 2_000 } else { 20_000 }
}

/// How often something happened.
#[derive(Debug, Default)]
struct Seen {
    counts: stress::Counts,
    live: AtomicU64,
    null: AtomicU64,
    overflows: AtomicU64,
    /// Exchanges of a rank without blocks, or with all of them.
    without_peers: AtomicU64,
    /// Looks of an agent that found messages.
    attended: AtomicU64,
    /// Exchanges of a rank that looked out for itself, and the first of those after an agent's.
    alone: AtomicU64,
    alone_again: AtomicU64,
}

impl Seen {
    fn all(&self) -> bool {
        let all = [&self.live, &self.null, &self.overflows, &self.without_peers, &self.attended, &self.alone];
        all.iter().chain(&[&self.alone_again]).all(|count| count.load(Ordering::Relaxed) > 0)
    }

    fn add(&self, counts: &Counts) {
        for (seen, more) in [(&self.live, counts.live), (&self.null, counts.null), (&self.overflows, counts.overflows)]
        {
            seen.fetch_add(more, Ordering::Relaxed);
        }
    }
}

/// Says that a rank has ended, however it did.
struct Ends<'a>(&'a AtomicU64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        count(self.0);
    }
}

/// The memory of three ranks, each of which could own all blocks.
fn extent(random: Exchanges) -> Extent {
    Extent { ranks: RANKS, ..Exchanges { ranks: 1, ..random }.extent().unwrap() }
}

fn without_agents(seen: &Seen, random: Exchanges) {
    let extent = extent(random);
    let segment = Arc::new(Fabric::segment(extent).unwrap());
    thread::scope(|scope| {
        for rank in 0..RANKS {
            let end = Fabric::attach(segment.clone(), extent, rank).unwrap();
            scope.spawn(move || {
                let counts = random.run_dealt(end, EPOCH, |boundary| {
                    count(&seen.counts.operations);
                    if boundary.machine().peers().is_empty() {
                        count(&seen.without_peers);
                    }
                });
                seen.add(&counts.unwrap());
            });
        }
    });
}

/// The exchanges of a rank that has an agent at times.
fn attended(seen: &Seen, random: Exchanges, end: Attended) {
    let mut was_alone = true;
    let counts = random.run_dealt(end, EPOCH, |boundary| {
        count(&seen.counts.operations);
        if boundary.machine().peers().is_empty() {
            return count(&seen.without_peers);
        }
        let is_alone = boundary.transport().is_alone().unwrap();
        if is_alone {
            count(&seen.alone);
        }
        if is_alone && !was_alone {
            count(&seen.alone_again);
        }
        was_alone = is_alone;
    });
    seen.add(&counts.unwrap());
}

/// One agent after the other, until the ranks have ended.
fn agents(seen: &Seen, mut dice: Dice, segment: &Arc<Segment>, extent: Extent, is_over: impl Fn() -> bool) {
    while !is_over() {
        let mut agent = Agent::attach(segment.clone(), extent).unwrap();
        let end = Instant::now() + Duration::from_micros(dice.throw(20_000));
        while !is_over() && Instant::now() < end {
            if agent.look().unwrap() {
                count(&seen.attended);
            } else {
                thread::yield_now();
            }
        }
        assert_eq!(agent.refused().unwrap(), 0, "nothing came twice");
        drop(agent);
        thread::sleep(Duration::from_micros(dice.throw(5_000)));
    }
}

fn with_agents(seen: &Seen, random: Exchanges, dice: &mut Dice) {
    let extent = extent(random);
    let segment = Arc::new(Agent::segment(extent).unwrap());
    let ended = AtomicU64::new(0);
    let is_over = || ended.load(Ordering::Relaxed) == u64::from(RANKS);
    thread::scope(|scope| {
        for rank in 0..RANKS {
            let (end, ends) = (Attended::attach(segment.clone(), extent, rank).unwrap(), Ends(&ended));
            scope.spawn(move || {
                let _ends = ends;
                attended(seen, random, end);
            });
        }
        for _ in 0..AGENTS {
            let (dice, segment, is_over) = (Dice(dice.throw(1 << 31)), &segment, &is_over);
            scope.spawn(move || agents(seen, dice, segment, extent, is_over));
        }
    });
}

#[test]
fn what_is_sent_arrives_whoever_looks_out_for_it_and_whoever_owns_the_blocks() {
    let (seen, mut dice) = (Seen::default(), Dice(7));
    let mut rounds = 0;
    while seen.counts.go_on(seen.all(), exchanges(), rounds) {
        rounds += 1;
        let random = Exchanges { ranks: RANKS, seed: dice.throw(1 << 31), count: ROUND };
        if rounds % 3 == 0 { without_agents(&seen, random) } else { with_agents(&seen, random, &mut dice) }
    }
    println!("{rounds} rounds: {seen:?}");
    assert!(seen.all());
}
