//! How a run went: figures for people, one object for programs, a page to look at.
//!
//! Whatever carried the messages, all of it is said in the same way.

use std::time::Duration;

use super::deal;
use super::gather::Outcome;
use super::options::{Options, Problem};
use super::rank_outcome::{Frame, RankOutcome, Times};
use crate::boundary::touch::touches;
use crate::boundary::{Mesh as _, Tree};
use crate::quantity::{Bytes, Count, Nanos};
use crate::report::{Held, Motion, Picture, Place, Report, Verdict};

// Places of `RankOutcome::counts`.
const MESSAGES: usize = 0;
const PAYLOAD: usize = 1;
const HEADS: usize = 2;
const LIVE: usize = 3;
const NULL: usize = 4;
const OVERFLOWS: usize = 5;

/// A run that came to its end.
#[derive(Debug)]
pub struct Finished<'o> {
    options: &'o Options,
    outcome: Outcome,
    /// The hash of a dense run of one rank, if there was one.
    dense: Option<u64>,
    elapsed: Duration,
    transport: &'static str,
    /// Nanoseconds of each cycle, of the slowest rank, sorted.
    sorted: Vec<u64>,
}

impl<'o> Finished<'o> {
    /// What the ranks say, the hash of a dense run of one rank if there was one, how long it took, and over what.
    #[must_use]
    pub fn new(
        options: &'o Options,
        outcome: Outcome,
        dense: Option<u64>,
        elapsed: Duration,
        transport: &'static str,
    ) -> Finished<'o> {
        let slowest = |at: usize| outcome.ranks.iter().filter_map(|rank| rank.cycles_ns.get(at)).max().copied();
        let mut sorted: Vec<u64> = (0..options.cycles as usize).filter_map(slowest).collect();
        sorted.sort_unstable();
        Finished { options, outcome, dense, elapsed, transport, sorted }
    }

    /// Whether all bits are right, as far as they were compared.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.outcome.wrong.unwrap_or(0) == 0 && self.dense.is_none_or(|hash| hash == self.outcome.hash)
    }

    fn sum(&self, of: impl Fn(&RankOutcome) -> u64) -> u64 {
        self.outcome.ranks.iter().map(of).sum()
    }

    fn count(&self, at: usize) -> u64 {
        self.sum(|rank| rank.counts[at])
    }

    fn slots(&self, at: usize) -> u64 {
        self.sum(|rank| rank.slot_bytes[at])
    }

    fn packed(&self, at: usize) -> u64 {
        self.sum(|rank| rank.packed_bytes[at])
    }

    fn slowest(&self, of: impl Fn(&RankOutcome) -> Duration) -> f64 {
        self.outcome.ranks.iter().map(of).max().unwrap_or_default().as_secs_f64() * 1e6
    }

    fn percentile(&self, percent: usize) -> u64 {
        self.sorted.get(self.sorted.len() * percent / 100).copied().unwrap_or(0)
    }

    fn dense_field_bytes(&self) -> u64 {
        let Ok(mesh) = self.options.mesh() else { return 0 };
        let stages = self.options.stages() as u64;
        u64::from(mesh.blocks()) * mesh.shape().len() as u64 * u64::from(self.options.fields) * 8 * stages
    }

    /// Payload of one time step between ranks if every block had every field; the mean, where blocks are dealt anew.
    fn dense_step_bytes(&self) -> u64 {
        let Ok(mesh) = self.options.mesh() else { return 0 };
        let (cycles, ranks) = (self.options.cycles, self.options.ranks);
        let Some(every) = self.options.remesh.filter(|&every| every > 0) else { return self.step_bytes(&mesh) };
        // After this many deals they are as they were first.
        let around = ranks.saturating_mul(2);
        let (mut steps, first) = (vec![0u64; around as usize], deal::owners(&mesh));
        (0..cycles).for_each(|cycle| steps[(cycle / every % around) as usize] += 1);
        let all = (0..).zip(steps).filter(|(_, steps)| *steps > 0).map(|(deals, steps)| {
            steps * self.step_bytes(&mesh.clone().with_owners(&deal::dealt(&first, ranks, deals)))
        });
        all.sum::<u64>() / u64::from(cycles.max(1))
    }

    fn step_bytes(&self, mesh: &Tree) -> u64 {
        let shape = mesh.shape();
        let each = |block: u32| -> u64 {
            let mut cells = 0;
            for element in shape.elements() {
                touches(mesh, &shape, block, element, |touch| {
                    if touch.out && mesh.owner(touch.other) != mesh.owner(block) {
                        cells += shape.passage(touch.element, touch.step).cells();
                    }
                });
            }
            8 * cells
        };
        let exchanges = if self.options.problem == Problem::Smooth { 2 } else { u64::from(self.options.dimensions) };
        (0..mesh.blocks()).map(each).sum::<u64>() * u64::from(self.options.fields) * exchanges
    }

    /// One JSON object; times in microseconds, of the slowest rank where there are several.
    #[must_use]
    pub fn json(&self) -> String {
        let (options, outcome) = (self.options, &self.outcome);
        let us = |percent| number(self.percentile(percent) as f64 / 1e3);
        let time = |of: fn(&Times) -> Duration| number(self.slowest(|rank| of(&rank.times)));
        let text = |text: &str| format!("\"{text}\"");
        let hash = |hash: u64| text(&format!("{hash:016x}"));
        let bytes = |[now, peak]: [u64; 2]| object(&[("now", now.to_string()), ("peak", peak.to_string())]);
        let or_null = |member: Option<String>| member.unwrap_or_else(|| "null".to_owned());
        let (live, null) = (self.count(LIVE), self.count(NULL));
        let members = [
            ("ok", self.is_good().to_string()),
            ("problem", text(options.problem.name())),
            ("cycles", options.cycles.to_string()),
            ("ranks", options.ranks.to_string()),
            ("blocks", options.mesh().map_or(0, |mesh| mesh.blocks()).to_string()),
            ("refine", or_null(options.refine.map(|refine| text(&refine.to_string())))),
            ("B", options.cells.to_string()),
            ("d", options.dimensions.to_string()),
            ("fields", options.fields.to_string()),
            ("dense", options.dense.to_string()),
            ("remesh", or_null(options.remesh.map(|every| every.to_string()))),
            ("transport", text(self.transport)),
            ("t_cycle_us", object(&[("p10", us(10)), ("p50", us(50)), ("p90", us(90))])),
            ("t_pack_us", time(|times| times.pack)),
            ("t_send_us", time(|times| times.send)),
            ("t_wait_us", time(|times| times.wait)),
            ("t_set_us", time(|times| times.set)),
            ("t_update_us", time(|times| times.update)),
            ("t_dealloc_us", time(|times| times.dealloc)),
            ("t_remesh_us", time(|times| times.remesh)),
            ("wire_bytes_payload", self.count(PAYLOAD).to_string()),
            ("wire_bytes_header", self.count(HEADS).to_string()),
            ("wire_msgs", self.count(MESSAGES).to_string()),
            ("live", live.to_string()),
            ("null", null.to_string()),
            ("live_fraction", number(live as f64 / (live + null).max(1) as f64)),
            (
                "field_bytes",
                object(&[
                    ("now", self.sum(|rank| rank.field_bytes).to_string()),
                    ("peak", outcome.field_bytes_peak.to_string()),
                    ("dense", self.dense_field_bytes().to_string()),
                ]),
            ),
            (
                "comm_bytes",
                object(&[
                    ("send", bytes([self.packed(0), self.packed(1)])),
                    (
                        "recv",
                        object(&[
                            ("now", self.slots(0).to_string()),
                            ("peak", self.slots(1).to_string()),
                            ("held", self.sum(|rank| rank.held_bytes[0]).to_string()),
                        ]),
                    ),
                ]),
            ),
            ("dense_comm_bytes", self.slots(2).to_string()),
            ("allocs", self.sum(|rank| rank.allocations[0]).to_string()),
            ("deallocs", self.sum(|rank| rank.allocations[1]).to_string()),
            ("moved_blocks", self.sum(|rank| rank.moved_blocks).to_string()),
            ("overflow_msgs", self.count(OVERFLOWS).to_string()),
            ("attended_msgs", self.sum(|rank| rank.attended).to_string()),
            ("max", number(outcome.max)),
            ("nonzero", outcome.nonzero.to_string()),
            ("wrong_cells", or_null(outcome.wrong.map(|wrong| wrong.to_string()))),
            ("dense_hash", or_null(self.dense.map(hash))),
            ("hash", hash(outcome.hash)),
            ("elapsed_ms", number(self.elapsed.as_secs_f64() * 1e3)),
        ];
        object(&members)
    }

    /// What ran.
    #[must_use]
    pub fn headline(&self) -> String {
        let Options { dimensions, blocks, cells, fields, cycles, ranks, .. } = *self.options;
        let power = |n: u32| vec![n.to_string(); dimensions as usize].join(" × ");
        let refined = self.options.refine.map_or_else(String::new, |refine| format!(", {refine} of them refined"));
        let dealt = self
            .options
            .remesh
            .map_or_else(String::new, |every| format!(", blocks dealt anew every {}", Count(every.into())));
        format!(
            "{}, {} blocks of {} cells{refined}, {fields} fields, {} time steps{dealt}, {ranks} ranks over {}",
            self.options.problem.name(),
            power(blocks),
            power(cells),
            Count(u64::from(cycles)),
            self.transport
        )
    }

    /// Whether it is right, and in which way that was found.
    #[must_use]
    pub fn verdict(&self) -> (bool, String) {
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
    #[must_use]
    pub fn figures(&self) -> Vec<(String, String)> {
        let of = |part: u64, whole: u64| format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64);
        let (live, null) = (self.count(LIVE), self.count(NULL));
        let payload = self.count(PAYLOAD);
        let steps = u64::from(self.options.cycles).max(1);
        let mut pairs = vec![
            ("time step, median", Nanos(self.percentile(50)).to_string()),
            ("p10 to p90", format!("{} to {}", Nanos(self.percentile(10)), Nanos(self.percentile(90)))),
            ("live strips", format!("{} of {}", of(live, live + null), Count(live + null))),
            ("payload a step", Bytes(payload / steps).to_string()),
            ("of dense payload", of(payload, self.dense_step_bytes() * steps)),
            ("heads a step", Bytes(self.count(HEADS) / steps).to_string()),
            ("messages a step", format!("{:.1}", self.count(MESSAGES) as f64 / steps as f64)),
            ("overflows", Count(self.count(OVERFLOWS)).to_string()),
            ("fields at most", Bytes(self.outcome.field_bytes_peak).to_string()),
            ("of dense fields", of(self.outcome.field_bytes_peak, self.dense_field_bytes())),
            ("slots at most", Bytes(self.slots(1)).to_string()),
            ("of dense slots", of(self.slots(1), self.slots(2))),
            ("held for them", Bytes(self.sum(|rank| rank.held_bytes[0])).to_string()),
            ("became present", Count(self.sum(|rank| rank.allocations[0])).to_string()),
            ("became absent", Count(self.sum(|rank| rank.allocations[1])).to_string()),
            ("packed at most", Bytes(self.packed(1)).to_string()),
        ];
        if self.options.agent {
            pairs.push(("found by the agent", Count(self.sum(|rank| rank.attended)).to_string()));
        }
        if self.options.remesh.is_some() {
            pairs.push(("blocks moved", Count(self.sum(|rank| rank.moved_blocks)).to_string()));
        }
        pairs.push(("hash", format!("{:016x}", self.outcome.hash)));
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// A page of figures and pictures.
    #[must_use]
    pub fn report(&self) -> Report {
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
            let parts = (0..).zip(ranks).filter_map(|(rank, said)| Some((rank, said.frames.get(nth)?)));
            let held = |(owner, frame): (u32, &Frame)| {
                let each = frame.blocks.clone().into_iter();
                each.map(move |(block, cells)| Held { block, owner, cells }).collect::<Vec<_>>()
            };
            let cycle = parts.clone().map(|(_, frame)| frame.cycle).max().unwrap_or(0);
            Picture { cycle, blocks: parts.flat_map(held).collect() }
        };
        let step = |at: usize| ranks.iter().filter_map(|rank| rank.cycle_bytes.get(at)).sum();
        let ([x, y, _], cells) = (mesh.counts(), self.options.cells);
        let place = |block| {
            let [x, y, _] = mesh.position(block);
            Place { at: [x, y], level: mesh.level(block) }
        };
        Motion {
            counts: [x, y],
            cells: [cells, cells],
            blocks: (0..mesh.blocks()).map(place).collect(),
            pictures: (0..frames).map(picture).collect(),
            bytes: (0..self.options.cycles as usize).map(step).collect(),
            dense_bytes: self.dense_step_bytes(),
        }
    }
}

/// A number as JSON has it, which knows neither infinity nor NaN.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { "null".to_owned() }
}

/// An object of members that are JSON already.
fn object(members: &[(&str, String)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}
