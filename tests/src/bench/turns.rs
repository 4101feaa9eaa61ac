//! Two sides measured in turns, so that drift hits both.
//!
//! Each side first finds how many iterations fill a batch. Then batches alternate, and the side that begins
//! alternates too. The ratio is the median of the ratios of neighbouring batches: a frequency step in the
//! middle of a run changes both sides of one pair and cancels out.

use std::time::{Duration, Instant};

use super::{Clock, Direction, Row, Samples};

/// How long to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Pairs of batches; at least 1 is run.
    pub rounds: usize,
    /// What one batch should last.
    pub batch: Duration,
    /// Iterations of a batch at most, for cases whose iteration consumes something.
    pub most_iterations: u64,
}

impl Plan {
    /// 41 rounds of 2 ms a side: some 0.2 s a case.
    #[must_use]
    pub fn standard() -> Self {
        Self { rounds: 41, batch: Duration::from_millis(2), most_iterations: u64::MAX }
    }

    /// 3 rounds of 50 us a side: to see that a bench works, not to quote.
    #[must_use]
    pub fn quick() -> Self {
        Self { rounds: 3, batch: Duration::from_micros(50), most_iterations: u64::MAX }
    }

    /// The same plan with at most `most` iterations a batch.
    #[must_use]
    pub fn at_most(self, most: u64) -> Self {
        Self { most_iterations: most, ..self }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self::standard()
    }
}

/// What [`alternate`] measured: nanoseconds an iteration of both sides, and how they compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Turns {
    /// Nanoseconds an iteration of our side, one reading a batch.
    pub ours: Samples,
    /// Nanoseconds an iteration of the other side, one reading a batch.
    pub peer: Samples,
    /// Peer's time by our time, one reading a round: above 1 we are faster.
    pub ratios: Samples,
}

impl Turns {
    /// Both sides measured several times from a new start, as one: where threads settle in one of several modes for as long
    /// as they live, no start alone says which is the usual one.
    ///
    /// `None` without any.
    #[must_use]
    pub fn joined(starts: Vec<Turns>) -> Option<Turns> {
        let all =
            |which: fn(&Turns) -> &Samples| Samples::new(starts.iter().flat_map(|turns| which(turns).all()).collect());
        Some(Turns { ours: all(|t| &t.ours)?, peer: all(|t| &t.peer)?, ratios: all(|t| &t.ratios)? })
    }

    /// The row that says so: medians of both sides, and the ratio of the pairs.
    ///
    /// `unit` is for the eye only and should say what an iteration was ("ns", "ns/item"). With
    /// [`Direction::HigherIsBetter`] the figures become iterations a microsecond.
    #[must_use]
    pub fn row(&self, case: &str, peer_name: &str, unit: &str, direction: Direction) -> Row {
        let figure = |samples: &Samples| match direction {
            Direction::LowerIsBetter => samples.median(),
            Direction::HigherIsBetter => 1000.0 / samples.median(),
        };
        Row {
            case: case.to_owned(),
            ours: figure(&self.ours),
            peer: figure(&self.peer),
            peer_name: peer_name.to_owned(),
            unit: unit.to_owned(),
            ratio: self.ratios.median(),
        }
    }
}

/// Measures both sides in turns; each closure runs the given number of iterations.
///
/// The closures must keep their work alive with [`std::hint::black_box`]; nothing here can do that for them.
pub fn alternate(plan: &Plan, mut ours: impl FnMut(u64), mut peer: impl FnMut(u64)) -> Turns {
    let clock = Clock::new();
    let our_count = iterations(plan, &mut ours);
    let peer_count = iterations(plan, &mut peer);
    let (mut our_times, mut peer_times, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds.max(1) {
        let (our_time, peer_time);
        if round % 2 == 0 {
            our_time = batch(&clock, our_count, &mut ours);
            peer_time = batch(&clock, peer_count, &mut peer);
        } else {
            peer_time = batch(&clock, peer_count, &mut peer);
            our_time = batch(&clock, our_count, &mut ours);
        }
        our_times.push(our_time);
        peer_times.push(peer_time);
        ratios.push(peer_time / our_time);
    }
    Turns { ours: settled(our_times), peer: settled(peer_times), ratios: settled(ratios) }
}

/// Measures one side alone, in nanoseconds an iteration; for floors and for figures without a peer.
pub fn repeat(plan: &Plan, mut work: impl FnMut(u64)) -> Samples {
    let clock = Clock::new();
    let count = iterations(plan, &mut work);
    settled((0..plan.rounds.max(1)).map(|_| batch(&clock, count, &mut work)).collect())
}

/// Doubles the iterations until they fill a batch; that warms caches and predictors as well.
///
/// A batch counts as filled when it was filled twice in a row: a thread that starts, or a core that is lost
/// for a moment, makes one iteration look like a whole batch.
fn iterations(plan: &Plan, work: &mut impl FnMut(u64)) -> u64 {
    let most = plan.most_iterations.max(1);
    let mut count = 1_u64;
    loop {
        let filled = fills(plan, count, work);
        if count >= most || (filled && fills(plan, count, work)) {
            return count.min(most);
        }
        count = count.saturating_mul(2).min(most);
    }
}

fn fills(plan: &Plan, count: u64, work: &mut impl FnMut(u64)) -> bool {
    let start = Instant::now();
    work(count);
    start.elapsed() >= plan.batch
}

/// Nanoseconds an iteration of one batch; never 0, so that ratios stay finite.
fn batch(clock: &Clock, count: u64, work: &mut impl FnMut(u64)) -> f64 {
    let start = clock.now();
    work(count);
    let end = clock.now();
    clock.nanoseconds(start, end).max(1) as f64 / count as f64
}

/// Readings as samples; batches are counted and divided here, so there is one at least and each is a number.
fn settled(readings: Vec<f64>) -> Samples {
    Samples::new(readings).unwrap_or_else(|| unreachable!("a plan runs at least one batch of at least 1 ns"))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn sides_alternate_and_so_does_who_begins() {
        let log = RefCell::new(String::new());
        let plan = Plan { rounds: 4, batch: Duration::ZERO, most_iterations: 1 };
        alternate(&plan, |_| log.borrow_mut().push('o'), |_| log.borrow_mut().push('p'));
        assert_eq!(log.into_inner(), concat!("op", "op", "po", "op", "po"));
    }

    #[test]
    fn starts_are_joined_reading_by_reading() {
        let turns = |readings: &[f64]| {
            let samples = Samples::new(readings.to_vec()).unwrap();
            Turns { ours: samples.clone(), peer: samples.clone(), ratios: samples }
        };
        let joined = Turns::joined(vec![turns(&[1.0, 9.0]), turns(&[2.0]), turns(&[3.0, 4.0])]).unwrap();
        assert_eq!((joined.ours.median(), joined.ratios.median(), joined.peer.lowest()), (3.0, 3.0, 1.0));
        assert_eq!(Turns::joined(Vec::new()), None);
    }

    #[test]
    fn a_batch_never_exceeds_the_most_iterations() {
        let most = Cell::new(0);
        let plan = Plan { rounds: 2, batch: Duration::from_secs(1), most_iterations: 100 };
        let samples = repeat(&plan, |n| most.set(most.get().max(n)));
        assert_eq!(most.get(), 100);
        assert!(samples.lowest() > 0.0);
    }
}
