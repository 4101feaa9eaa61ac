//! How a run went: a table for people, one object for programs, a page to look at.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use umbra::advect::{Options, Outcome, Problem, RankOutcome};
use umbra::boundary::Mesh as _;
use umbra::quantity::{Bytes, Count, Nanos};
use umbra::report::{Motion, Picture, Report, Verdict};

use crate::cli::{Failure, Out, paint};

/// A run that came to its end.
pub(super) struct Finished<'o> {
    options: &'o Options,
    outcome: Outcome,
    /// The hash of a dense run of one rank, if there was one.
    dense: Option<u64>,
    elapsed: Duration,
    threads: bool,
    /// Nanoseconds of each cycle, of the slowest rank, sorted.
    sorted: Vec<u64>,
}

#[derive(Serialize, Debug)]
struct Percentiles {
    p10: f64,
    p50: f64,
    p90: f64,
}

#[derive(Serialize, Debug)]
struct Held {
    now: u64,
    peak: u64,
}

#[derive(Serialize, Debug)]
struct FieldBytes {
    now: u64,
    peak: u64,
    dense: u64,
}

#[derive(Serialize, Debug)]
struct CommBytes {
    recv: Held,
}

/// The line for programs; times in microseconds, of the slowest rank where there are several.
#[derive(Serialize, Debug)]
#[allow(non_snake_case, reason = "B is the usual name of the cells of a block")]
pub(super) struct Object {
    ok: bool,
    problem: &'static str,
    cycles: u32,
    ranks: u32,
    blocks: u32,
    B: u32,
    d: u32,
    fields: u16,
    dense: bool,
    transport: &'static str,
    t_cycle_us: Percentiles,
    t_pack_us: f64,
    t_wait_us: f64,
    t_set_us: f64,
    t_update_us: f64,
    t_dealloc_us: f64,
    wire_bytes_payload: u64,
    wire_bytes_header: u64,
    wire_msgs: u64,
    live: u64,
    null: u64,
    live_fraction: f64,
    field_bytes: FieldBytes,
    comm_bytes: CommBytes,
    dense_comm_bytes: u64,
    allocs: u64,
    deallocs: u64,
    overflow_msgs: u64,
    max: f64,
    nonzero: u64,
    wrong_cells: Option<u64>,
    dense_hash: Option<String>,
    hash: String,
    elapsed_ms: f64,
}

impl<'o> Finished<'o> {
    pub(super) fn new(
        options: &'o Options,
        outcome: Outcome,
        dense: Option<u64>,
        elapsed: Duration,
        threads: bool,
    ) -> Finished<'o> {
        let slowest = |at: usize| outcome.ranks.iter().filter_map(|rank| rank.cycles_ns.get(at)).max().copied();
        let mut sorted: Vec<u64> = (0..options.cycles as usize).filter_map(slowest).collect();
        sorted.sort_unstable();
        Finished { options, outcome, dense, elapsed, threads, sorted }
    }

    pub(super) fn is_good(&self) -> bool {
        self.outcome.wrong.unwrap_or(0) == 0 && self.dense.is_none_or(|hash| hash == self.outcome.hash)
    }

    fn sum(&self, of: impl Fn(&RankOutcome) -> u64) -> u64 {
        self.outcome.ranks.iter().map(of).sum()
    }

    fn slowest(&self, of: impl Fn(&RankOutcome) -> Duration) -> f64 {
        self.outcome.ranks.iter().map(of).max().unwrap_or_default().as_secs_f64() * 1e6
    }

    fn percentile(&self, percent: usize) -> u64 {
        self.sorted.get(self.sorted.len() * percent / 100).copied().unwrap_or(0)
    }

    fn dense_field_bytes(&self) -> u64 {
        let Ok(mesh) = self.options.mesh() else { return 0 };
        let stages = if self.options.problem == Problem::Smooth { 2 } else { 1 };
        u64::from(mesh.blocks()) * mesh.shape().len() as u64 * u64::from(self.options.fields) * 8 * stages
    }

    /// Payload of one time step between ranks if every block had every field.
    fn dense_step_bytes(&self) -> u64 {
        let Ok(mesh) = self.options.mesh() else { return 0 };
        let shape = mesh.shape();
        let each = |block: u32| -> u64 {
            let apart = shape.elements().filter(|&element| {
                mesh.neighbour(block, element).is_some_and(|other| mesh.owner(other) != mesh.owner(block))
            });
            apart.map(|element| shape.send_box(element).cells() * 8).sum()
        };
        let exchanges = if self.options.problem == Problem::Smooth { 2 } else { u64::from(self.options.dimensions) };
        (0..mesh.blocks()).map(each).sum::<u64>() * u64::from(self.options.fields) * exchanges
    }

    pub(super) fn object(&self) -> Object {
        let (options, outcome) = (self.options, &self.outcome);
        let us = |percent| self.percentile(percent) as f64 / 1e3;
        let (live, null) = (self.sum(|rank| rank.counts[3]), self.sum(|rank| rank.counts[4]));
        Object {
            ok: self.is_good(),
            problem: if options.problem == Problem::Shift { "shift" } else { "smooth" },
            cycles: options.cycles,
            ranks: options.ranks,
            blocks: options.blocks.pow(options.dimensions),
            B: options.cells,
            d: options.dimensions,
            fields: options.fields,
            dense: options.dense,
            transport: if self.threads { "shm-threads" } else { "shm" },
            t_cycle_us: Percentiles { p10: us(10), p50: us(50), p90: us(90) },
            t_pack_us: self.slowest(|rank| rank.times.pack),
            t_wait_us: self.slowest(|rank| rank.times.wait),
            t_set_us: self.slowest(|rank| rank.times.set),
            t_update_us: self.slowest(|rank| rank.times.update),
            t_dealloc_us: self.slowest(|rank| rank.times.dealloc),
            wire_bytes_payload: self.sum(|rank| rank.counts[1]),
            wire_bytes_header: self.sum(|rank| rank.counts[2]),
            wire_msgs: self.sum(|rank| rank.counts[0]),
            live,
            null,
            live_fraction: live as f64 / (live + null).max(1) as f64,
            field_bytes: FieldBytes {
                now: self.sum(|rank| rank.field_bytes),
                peak: outcome.field_bytes_peak,
                dense: self.dense_field_bytes(),
            },
            comm_bytes: CommBytes {
                recv: Held { now: self.sum(|rank| rank.slot_bytes[0]), peak: self.sum(|rank| rank.slot_bytes[1]) },
            },
            dense_comm_bytes: self.sum(|rank| rank.slot_bytes[2]),
            allocs: self.sum(|rank| rank.allocations[0]),
            deallocs: self.sum(|rank| rank.allocations[1]),
            overflow_msgs: self.sum(|rank| rank.counts[5]),
            max: outcome.max,
            nonzero: outcome.nonzero,
            wrong_cells: outcome.wrong,
            dense_hash: self.dense.map(|hash| format!("{hash:016x}")),
            hash: format!("{:016x}", outcome.hash),
            elapsed_ms: self.elapsed.as_secs_f64() * 1e3,
        }
    }

    fn headline(&self) -> String {
        let Options { problem, dimensions, blocks, cells, fields, cycles, ranks, .. } = *self.options;
        let power = |n: u32| vec![n.to_string(); dimensions as usize].join(" × ");
        let name = if problem == Problem::Shift { "shift" } else { "smooth" };
        let kind = if self.threads { "threads" } else { "processes" };
        format!(
            "{name}, {} blocks of {} cells, {fields} fields, {} time steps, {ranks} ranks as {kind}",
            power(blocks),
            power(cells),
            Count(u64::from(cycles))
        )
    }

    fn verdict(&self) -> (bool, String) {
        let text = match (self.outcome.wrong, self.dense) {
            (Some(0), _) => "every cell has the bits of the closed form".to_owned(),
            (Some(wrong), _) => format!("{} cells differ from the closed form", Count(wrong)),
            (None, Some(_)) if self.is_good() => "all bits are those of a dense run of one rank".to_owned(),
            (None, Some(hash)) => format!("hash {:016x}, a dense run of one rank has {hash:016x}", self.outcome.hash),
            (None, None) => "not compared".to_owned(),
        };
        (self.is_good(), text)
    }

    /// What to show: a name and a value.
    fn figures(&self) -> Vec<(String, String)> {
        let of = |part: u64, whole: u64| format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64);
        let object = self.object();
        let steps = u64::from(self.options.cycles).max(1);
        let pairs = [
            ("time step, median", Nanos(self.percentile(50)).to_string()),
            ("p10 to p90", format!("{} to {}", Nanos(self.percentile(10)), Nanos(self.percentile(90)))),
            (
                "live strips",
                format!("{} of {}", of(object.live, object.live + object.null), Count(object.live + object.null)),
            ),
            ("payload a step", Bytes(object.wire_bytes_payload / steps).to_string()),
            ("of dense payload", of(object.wire_bytes_payload, self.dense_step_bytes() * steps)),
            ("heads a step", Bytes(object.wire_bytes_header / steps).to_string()),
            ("messages a step", format!("{:.1}", object.wire_msgs as f64 / steps as f64)),
            ("overflows", Count(object.overflow_msgs).to_string()),
            ("fields at most", Bytes(object.field_bytes.peak).to_string()),
            ("of dense fields", of(object.field_bytes.peak, object.field_bytes.dense)),
            ("slots at most", Bytes(object.comm_bytes.recv.peak).to_string()),
            ("of dense slots", of(object.comm_bytes.recv.peak, object.dense_comm_bytes)),
            ("became present", Count(object.allocs).to_string()),
            ("became absent", Count(object.deallocs).to_string()),
            ("hash", object.hash),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    pub(super) fn print(&self, out: Out<'_>, plot: Option<&Path>) -> Result<(), Failure> {
        writeln!(out, "{}", paint::strong(self.headline()))?;
        for (name, value) in self.figures() {
            writeln!(out, "  {}  {value}", paint::faint(format!("{name:<18}")))?;
        }
        let (good, text) = self.verdict();
        let word = if good { paint::good("agreed:") } else { paint::bad("differs:") };
        writeln!(out, "{word} {text}")?;
        if let Some(path) = plot {
            writeln!(out, "drawn: {}", path.display())?;
        }
        Ok(())
    }

    pub(super) fn report(&self) -> Report {
        let (good, text) = self.verdict();
        let verdict = match (good, self.outcome.wrong, self.dense) {
            (true, None, None) => Verdict::Unchecked,
            (true, ..) => Verdict::Agreed,
            (false, ..) => Verdict::Failed(text),
        };
        Report {
            title: "Sparse advection".to_owned(),
            subtitle: self.headline(),
            verdict,
            figures: self.figures(),
            motion: self.motion(),
            ..Report::default()
        }
    }

    fn motion(&self) -> Motion {
        let Ok(mesh) = self.options.mesh() else { return Motion::default() };
        let ranks = &self.outcome.ranks;
        let frames = ranks.first().map_or(0, |rank| rank.frames.len());
        let picture = |nth: usize| {
            let parts = ranks.iter().filter_map(|rank| rank.frames.get(nth));
            let blocks = parts.clone().flat_map(|frame| frame.blocks.iter().cloned()).collect();
            Picture { cycle: parts.map(|frame| frame.cycle).max().unwrap_or(0), blocks }
        };
        let step = |at: usize| ranks.iter().filter_map(|rank| rank.cycle_bytes.get(at)).sum();
        let ([x, y, _], cells) = (mesh.counts(), self.options.cells);
        Motion {
            counts: [x, y],
            cells: [cells, cells],
            owners: (0..mesh.blocks()).map(|block| mesh.owner(block)).collect(),
            pictures: (0..frames).map(picture).collect(),
            bytes: (0..self.options.cycles as usize).map(step).collect(),
            dense_bytes: self.dense_step_bytes(),
        }
    }
}
