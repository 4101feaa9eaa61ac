//! The reference case of the demonstrator, sparse beside dense.
//!
//! Eight blobs move through 8 x 8 blocks of 32 x 32 cells for 512 time steps, on four ranks over shared memory, which are
//! threads of this process and bound to no core. Four threads on two cores are dealt in one of several ways for as long as a
//! run lasts, so runs of both take turns, and what the time step takes is the median of theirs, as is their ratio. What comes out
//! is the closed form, bit for bit, or there are no rows.

use umbra::advect::{Options, Outcome, Problem, run};

use umbra_tests::bench::{Row, Samples};

use crate::{Bench, LOWER};

const NAME: &str = "reference A2, 4 ranks";
const DENSE: &str = "the same, dense";
/// Runs of each; odd, so that one of them is in the middle.
const TURNS: usize = 9;

/// What a sparse run needs at most, as the specification has it, of what a dense one needs.
const TIME: f64 = 0.4;
const FIELDS: f64 = 0.0625;
const SLOTS: f64 = 0.3;

/// What a run needs.
struct Run {
    /// Microseconds of a time step of the slowest rank: median.
    time: f64,
    /// Bytes of fields of all ranks, at most.
    fields: f64,
    /// Bytes to receive into, the sum of what each rank has announced at most.
    slots: f64,
    /// And of what its transport has held at most.
    held: f64,
    /// Bytes that ranks send each other in a time step.
    payload: f64,
    /// The most messages that a rank sends in an exchange.
    messages: f64,
}

fn measure(options: &Options) -> Run {
    let Outcome { ranks, wrong, field_bytes_peak, .. } = run(options, |_| ()).expect("the reference case runs");
    assert_eq!(wrong, Some(0), "cells that differ from the closed form");
    let slowest = |cycle: usize| ranks.iter().map(|rank| rank.cycles_ns[cycle]).max().unwrap_or(0) as f64 / 1e3;
    let times = Samples::new((0..options.cycles as usize).map(slowest).collect());
    Run {
        time: times.map_or(f64::NAN, |times| times.percentile(50.0)),
        fields: field_bytes_peak as f64,
        slots: ranks.iter().map(|rank| rank.slot_bytes[1]).sum::<u64>() as f64,
        held: ranks.iter().map(|rank| rank.held_bytes[0]).sum::<u64>() as f64,
        payload: ranks.iter().map(|rank| rank.counts[1]).sum::<u64>() as f64 / f64::from(options.cycles),
        messages: ranks.iter().map(|rank| rank.messages_each).max().unwrap_or(0) as f64,
    }
}

/// Its rows.
pub(crate) fn rows(bench: &mut Bench) {
    if !bench.report.wants(NAME) {
        return;
    }
    let options = Options::new(Problem::Shift, 2);
    let dense = Options { dense: true, ..options };
    let turns: Vec<_> = (0..TURNS).map(|_| (measure(&dense), measure(&options))).collect();
    let middle = |figure: fn(&(Run, Run)) -> f64| {
        Samples::new(turns.iter().map(figure).collect()).map_or(f64::NAN, |figures| figures.median())
    };
    let step = format!("{NAME}, a time step");
    let mut row = Row::new(&step, middle(|turn| turn.1.time), middle(|turn| turn.0.time), DENSE, "us", LOWER);
    row.ratio = middle(|turn| turn.0.time / turn.1.time);
    bench.report.row(row).bar(1.0 / TIME);
    // All turns say the same of these, but for what a transport holds.
    let Some((dense, sparse)) = turns.last() else { return };
    for (what, ours, peer, unit, most) in [
        ("fields at most", sparse.fields, dense.fields, "B", Some(FIELDS)),
        ("memory announced", sparse.slots, dense.slots, "B", Some(SLOTS)),
        ("memory held", sparse.held, dense.held, "B", Some(SLOTS)),
        ("payload of a time step", sparse.payload, dense.payload, "B", None),
    ] {
        let name = format!("{NAME}, {what}");
        let added = bench.report.row(Row::new(&name, ours, peer, DENSE, unit, LOWER));
        if let Some(most) = most {
            added.bar(1.0 / most);
        }
    }
    let (name, peers) = (format!("{NAME}, messages of a rank in an exchange"), f64::from(options.ranks - 1));
    bench.report.row(Row::new(&name, sparse.messages, peers, "one a peer", "", LOWER)).bar(1.0);
}
