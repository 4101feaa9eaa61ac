//! What is left of an exchange to a rank that computes after it has sent.
//!
//! One of two ranks sends, computes for 200 us, and then receives and sets its ghosts; what counts is the time from the end of the
//! computing until ghosts are set. The other only exchanges, so that its core is free for an agent, which has looked for the messages
//! meanwhile. The peer is a bare copy of the same bytes into the same arrays, with zeros where nothing came and the rank has the
//! field: another thread has written them into memory that both share, before it computed as long.

use std::thread;
use std::time::Duration;

use umbra::boundary::{Agent, Attended, Boundary, BoundaryError, Extent, Fabric, Scope, Transport, largest_message};
use umbra::sys::segment::Segment;
use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_tests::bench::{Clock, Row, Samples, pin};

use crate::strips::{Pair, Strips, live};
use crate::threads::{Case, Meeting, all, attach, fields, settings};
use crate::{Bench, LOWER};

const NAME: &str = "overlap";
const WORK: Duration = Duration::from_micros(200);
/// The rank that computes, on the first core.
const COMPUTES: u32 = 1;
/// Bytes of strips, and what may be left with an agent: of a bare copy of the large ones, and microseconds with the others.
const MIDDLE: u32 = 8192;
const LARGE: u32 = 131_072;
const OF_COPY: f64 = 1.3;
const MOST: f64 = 10.0;

/// What a rank computes.
fn work(clock: &Clock) {
    let begun = clock.now();
    while u128::from(clock.nanoseconds(begun, clock.now())) < WORK.as_nanos() {
        std::hint::spin_loop();
    }
}

/// Microseconds that each batch had left of an exchange, if it is the rank that computes.
fn left<T: Transport>(
    case: Case,
    boundary: &mut Boundary<T>,
    rank: u32,
    meeting: &Meeting,
) -> Result<Vec<f64>, BoundaryError> {
    let mut strips = Strips::new(rank, case.channels, case.bytes, case.sides);
    let (clock, mut times, mut met) = (Clock::new(), Vec::new(), 0);
    for batch in 0..=case.batches {
        meeting.wait(rank, &mut met);
        let mut nanoseconds = 0;
        for _ in 0..case.exchanges {
            strips.touch();
            boundary.start_receive(Scope::Any)?;
            while boundary.send(&strips, Scope::Any)?.is_pending() {
                let _ = boundary.receive(&mut strips, Scope::Nonlocal)?;
            }
            if rank == COMPUTES {
                work(&clock);
            }
            let begun = clock.now();
            boundary.wait(&mut strips, Scope::Any)?;
            boundary.set(&mut strips, Scope::Any)?;
            nanoseconds += clock.nanoseconds(begun, clock.now());
            strips.check();
        }
        if batch > 0 && rank == COMPUTES {
            times.push(nanoseconds as f64 / 1e3 / f64::from(case.exchanges));
        }
    }
    Ok(times)
}

fn tenth(times: Vec<f64>) -> f64 {
    Samples::new(times).map_or(f64::NAN, |times| times.percentile(10.0))
}

fn extent(case: Case) -> Extent {
    Extent { ranks: 2, slots: 2, message: largest_message(&Pair::new(case.bytes, 1), &fields(case.channels), 2) }
}

/// Without an agent.
fn alone(case: Case, cores: &[usize]) -> f64 {
    let (extent, meeting) = (extent(case), Meeting::new(2));
    let segment = Fabric::segment(extent).unwrap();
    tenth(all(2, cores, |rank| {
        let fabric = Fabric::attach(attach(&segment), extent, rank).unwrap();
        let (pair, fields) = (Pair::new(case.bytes, 1), fields(case.channels));
        let mut boundary = Boundary::build(&pair, &fields, fabric, settings()).unwrap();
        left(case, &mut boundary, rank, &meeting).unwrap()
    }))
}

/// Tells the agent when this is gone, be it by a panic.
struct Over<'a>(&'a AtomicU32);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

/// With an agent, which has a core of its own if there are three, and else that of the rank that waits.
fn attended(case: Case, cores: &[usize]) -> f64 {
    let (extent, meeting, is_over) = (extent(case), Meeting::new(2), AtomicU32::new(0));
    let segment = Agent::segment(extent).unwrap();
    let mut agent = Agent::attach(attach(&segment), extent).unwrap();
    thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| {
            let _ = cores.get(cores.len() / 2).map(|core| pin(*core));
            agent.attend(|| is_over.load(Ordering::Relaxed) == 0).unwrap();
        });
        let times = all(2, cores, |rank| {
            let end = Attended::attach(attach(&segment), extent, rank).unwrap();
            let (pair, fields) = (Pair::new(case.bytes, 1), fields(case.channels));
            let mut boundary = Boundary::build(&pair, &fields, end, settings()).unwrap();
            let times = left(case, &mut boundary, rank, &meeting).unwrap();
            assert!(!boundary.transport().is_alone().unwrap(), "rank {rank} has looked out for itself");
            times
        });
        drop(over);
        tenth(times)
    })
}

/// The bare copy.
fn copy(case: Case, cores: &[usize]) -> f64 {
    let (len, area) = (case.bytes as usize / 8, case.channels as usize * case.bytes as usize);
    let (segment, meeting) = (Segment::create("umbra-bench-copy", 2 * area).unwrap(), Meeting::new(2));
    tenth(all(2, cores, |rank| {
        let (segment, clock) = (attach(&segment), Clock::new());
        let mut arrays = vec![vec![f64::from(rank); 2 * len]; case.channels as usize];
        let (mut times, mut met) = (Vec::new(), 0);
        for batch in 0..=case.batches {
            let mut nanoseconds = 0;
            for turn in 0..case.exchanges {
                let turn = batch as u64 * u64::from(case.exchanges) + u64::from(turn);
                let place = |of: u32, nth: usize| of as usize * area + nth * case.bytes as usize;
                let sent = (0..case.channels as usize).filter(|&strip| live(turn, rank, strip));
                for (nth, strip) in sent.enumerate() {
                    segment.write_values(place(rank, nth), &arrays[strip][..len], false).unwrap();
                }
                meeting.wait(rank, &mut met);
                if rank == COMPUTES {
                    work(&clock);
                    let begun = clock.now();
                    let mut nth = 0;
                    for (strip, array) in arrays.iter_mut().enumerate() {
                        if live(turn, 1 - rank, strip) {
                            segment.read_values(place(1 - rank, nth), &mut array[len..]).unwrap();
                            nth += 1;
                        } else if live(turn, rank, strip) {
                            array[len..].fill(0.0);
                        }
                    }
                    nanoseconds += clock.nanoseconds(begun, clock.now());
                }
                // Nobody writes what is still read.
                meeting.wait(rank, &mut met);
            }
            if batch > 0 && rank == COMPUTES {
                times.push(nanoseconds as f64 / 1e3 / f64::from(case.exchanges));
            }
        }
        times
    }))
}

/// Its rows.
pub(crate) fn rows(bench: &mut Bench) {
    for (bytes, batches) in [(MIDDLE, 101), (LARGE, 61)] {
        let case = Case { channels: 64, bytes, sides: 1, ranks: 2, batches, exchanges: 10 };
        for is_attended in [true, false] {
            let agent = if is_attended { "an agent" } else { "no agent" };
            let name = format!("{NAME}, {} strips of {bytes} B, {agent}", case.channels);
            if !bench.report.wants(&name) {
                continue;
            }
            let before = copy(case, &bench.cores);
            let ours = if is_attended { attended(case, &bench.cores) } else { alone(case, &bench.cores) };
            let bare = (before + copy(case, &bench.cores)) / 2.0;
            let row = Row::new(&name, ours, bare, "a bare copy of what came, and zeros", "us", LOWER);
            match (is_attended, bytes) {
                (true, LARGE) => bench.report.row(row).bar(1.0 / OF_COPY),
                (true, _) => {
                    bench.report.row(row);
                    bench.report.row(Row::new(&name, ours, MOST, "what is allowed", "us", LOWER)).bar(1.0);
                }
                _ => drop(bench.report.row(row)),
            }
        }
    }
}
