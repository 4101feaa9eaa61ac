//! How a run went: a table for people, one object for programs.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use umbra::quantity::{Bytes, Count, Nanos, Rate, counted};
use umbra::report::{Report, SlotUse, Verdict};
use umbra::stencil::Progress;
use umbra::stencil::field::{Difference, Element};

use crate::cli::outcome::nanos;
use crate::cli::{Out, paint};

/// A run that came to its end.
pub(super) struct Outcome {
    pub(super) shape: Vec<u64>,
    pub(super) element: Element,
    pub(super) bytes: u64,
    pub(super) neighbours: usize,
    pub(super) brick: [u32; 3],
    pub(super) bricks: u64,
    pub(super) source: String,
    /// Ranks that held the bricks, if these came from ranks.
    pub(super) ranks: Option<u32>,
    /// What the agent did, if they came from ranks.
    pub(super) agent: Option<Agent>,
    pub(super) order: String,
    pub(super) policy: String,
    pub(super) slots: u32,
    pub(super) slot_bytes: u64,
    pub(super) threads: u32,
    pub(super) loads_in_flight: u32,
    pub(super) active: u32,
    pub(super) references: u64,
    /// Different bricks that groups name: each is loaded once at least.
    pub(super) compulsory: u64,
    /// The fewest loads in this order, one brick of the output at a time; if it was computed.
    pub(super) optimum: Option<u64>,
    /// The same with as many at a time as there may be.
    pub(super) optimum_of_active: Option<u64>,
    pub(super) progress: Progress,
    pub(super) idle: Duration,
    /// The outcome of the comparison; if it was made.
    pub(super) verified: Option<Option<Difference>>,
    pub(super) slot_use: SlotUse,
}

/// Reads that an agent made for this process.
#[derive(Clone, Copy)]
pub(super) struct Agent {
    /// Answered out of copies that it had kept.
    pub(super) hits: u64,
    /// All of them.
    pub(super) reads: u64,
    /// Spans that it has read ahead, or wanted to.
    pub(super) prefetched: u64,
    /// Those of them that this process then read.
    pub(super) used: u64,
    /// Those of them that left before.
    pub(super) wasted: u64,
}

#[derive(Serialize, Debug)]
pub(super) struct Object {
    ok: bool,
    shape: Vec<u64>,
    r#type: &'static str,
    bytes: u64,
    neighbours: usize,
    brick: Vec<u32>,
    bricks: u64,
    source: String,
    ranks: Option<u32>,
    agent_reads: Option<u64>,
    agent_hits: Option<u64>,
    agent_prefetched: Option<u64>,
    agent_prefetched_used: Option<u64>,
    agent_prefetched_wasted: Option<u64>,
    order: String,
    policy: String,
    slots: u32,
    slot_bytes: u64,
    threads: u32,
    loads_in_flight: u32,
    active: u32,
    references: u64,
    loads: u64,
    compulsory: u64,
    loads_per_compulsory: f64,
    optimum: Option<u64>,
    loads_per_optimum: Option<f64>,
    optimum_of_active: Option<u64>,
    loads_per_optimum_of_active: Option<f64>,
    hits: u64,
    hit_rate: f64,
    evictions: u64,
    waits: u64,
    idle_ns: u64,
    elapsed_ns: u64,
    bricks_per_s: f64,
    verified: bool,
    differing_points: Option<u64>,
    first_difference: Option<u64>,
}

impl Outcome {
    pub(super) fn is_good(&self) -> bool {
        !matches!(self.verified, Some(Some(_)))
    }

    fn loads(&self) -> u64 {
        self.progress.statistics.loads
    }

    fn hits(&self) -> u64 {
        self.progress.statistics.hits + self.progress.statistics.joins
    }

    fn hit_rate(&self) -> f64 {
        self.hits() as f64 / (self.hits() + self.loads()).max(1) as f64
    }

    fn per_optimum(&self) -> Option<f64> {
        self.optimum.map(|fewest| self.per(fewest))
    }

    fn per_compulsory(&self) -> f64 {
        self.per(self.compulsory)
    }

    fn per(&self, fewest: u64) -> f64 {
        self.loads() as f64 / fewest.max(1) as f64
    }

    fn bricks_per_s(&self) -> f64 {
        self.bricks as f64 / self.progress.elapsed.as_secs_f64().max(1e-9)
    }

    fn brick_edges(&self) -> &[u32] {
        &self.brick[3 - self.shape.len().min(3)..]
    }

    pub(super) fn object(&self) -> Object {
        let difference = self.verified.as_ref().and_then(Option::as_ref);
        Object {
            ok: self.is_good(),
            shape: self.shape.clone(),
            r#type: self.element.name(),
            bytes: self.bytes,
            neighbours: self.neighbours,
            brick: self.brick_edges().to_vec(),
            bricks: self.bricks,
            source: self.source.clone(),
            ranks: self.ranks,
            agent_reads: self.agent.map(|agent| agent.reads),
            agent_hits: self.agent.map(|agent| agent.hits),
            agent_prefetched: self.agent.map(|agent| agent.prefetched),
            agent_prefetched_used: self.agent.map(|agent| agent.used),
            agent_prefetched_wasted: self.agent.map(|agent| agent.wasted),
            order: self.order.clone(),
            policy: self.policy.clone(),
            slots: self.slots,
            slot_bytes: self.slot_bytes,
            threads: self.threads,
            loads_in_flight: self.loads_in_flight,
            active: self.active,
            references: self.references,
            loads: self.loads(),
            compulsory: self.compulsory,
            loads_per_compulsory: self.per_compulsory(),
            optimum: self.optimum,
            loads_per_optimum: self.per_optimum(),
            optimum_of_active: self.optimum_of_active,
            loads_per_optimum_of_active: self.optimum_of_active.map(|fewest| self.per(fewest)),
            hits: self.hits(),
            hit_rate: self.hit_rate(),
            evictions: self.progress.statistics.evictions,
            waits: self.progress.waits,
            idle_ns: nanos(self.idle).0,
            elapsed_ns: nanos(self.progress.elapsed).0,
            bricks_per_s: self.bricks_per_s(),
            verified: self.verified.is_some(),
            differing_points: self.verified.is_some().then(|| difference.map_or(0, |difference| difference.points)),
            first_difference: difference.map(|difference| difference.point),
        }
    }

    fn headline(&self) -> String {
        let product = |numbers: &[String]| numbers.join(" × ");
        let shape: Vec<String> = self.shape.iter().map(|&extent| Count(extent).to_string()).collect();
        let brick: Vec<String> = self.brick_edges().iter().map(ToString::to_string).collect();
        format!(
            "{} {}, {} in {} of {}",
            product(&shape),
            self.element,
            Bytes(self.bytes),
            counted(self.bricks, "brick", "bricks"),
            product(&brick)
        )
    }

    /// What, value.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let slots = Bytes(self.slot_bytes.saturating_mul(u64::from(self.slots)));
        let loaded = self.loads().saturating_mul(self.slot_bytes) as f64;
        let elapsed = self.progress.elapsed;
        let share = self.idle.as_secs_f64() / (elapsed.as_secs_f64() * f64::from(self.threads)).max(1e-9);
        let of = |fewest| format!("{:.3} (optimum {})", self.per(fewest), Count(fewest));
        let of_optimum = self.optimum.map_or_else(|| "not computed: it would take too much memory".to_owned(), of);
        let rate = Rate(loaded / elapsed.as_secs_f64().max(1e-9));
        let source = match self.ranks {
            None => "the file".to_owned(),
            Some(1) => "the memory of a rank, through agents".to_owned(),
            Some(ranks) => format!("the memory of {ranks} ranks, through agents"),
        };
        let mut facts = vec![
            ("bricks come from", source),
            ("neighbours of a point", Count(self.neighbours as u64).to_string()),
            ("slots", format!("{}, {slots}", Count(u64::from(self.slots)))),
            ("order", self.order.clone()),
            ("policy", self.policy.clone()),
            ("loads", format!("{}, up to {rate}", Count(self.loads()))),
            ("loads / compulsory", format!("{:.3}", self.per_compulsory())),
            ("loads / optimum", of_optimum),
            ("found in a slot", format!("{:.2} % of {}", 100.0 * self.hit_rate(), Count(self.references))),
            ("had to wait for a load", counted(self.progress.waits, "brick", "bricks")),
            ("threads", format!("{}, {:.0} % of their time without work", self.threads, 100.0 * share)),
            ("whole sweep", format!("{}, {:.0} bricks/s", nanos(elapsed), self.bricks_per_s())),
        ];
        if let Some(fewest) = self.optimum_of_active.filter(|_| self.active > 1) {
            let after = facts.iter().position(|&(what, _)| what == "loads / optimum").map_or(0, |at| at + 1);
            facts.insert(after, ("with as many at a time", format!("{}: {}", self.active, of(fewest))));
        }
        if let Some(Agent { hits, reads, prefetched, used, wasted }) = self.agent {
            let kept = format!("{} of {} reads", Count(hits), Count(reads));
            facts.insert(1, ("kept by the agent", kept));
            let ahead = format!("{}: {} used, {} wasted", Count(prefetched), Count(used), Count(wasted));
            facts.insert(2, ("read ahead by it", ahead));
        }
        facts
    }

    pub(super) fn print(&self, out: Out<'_>, output: Option<&Path>, plot: Option<&Path>) -> io::Result<()> {
        writeln!(out, "\n{}\n", paint::strong(self.headline()))?;
        for (what, value) in self.facts() {
            writeln!(out, "  {}  {value}", paint::faint(format_args!("{what:<22}")))?;
        }
        writeln!(out)?;
        match &self.verified {
            Some(None) => {
                writeln!(out, "  {} every number is that of a plain sweep in memory, bit for bit", paint::good("✔"))?;
            }
            Some(Some(Difference { point, points })) => {
                let points = Count(*points);
                writeln!(out, "  {} {points} numbers differ from a plain sweep, first point {point}", paint::bad("✘"))?;
            }
            None => writeln!(out, "  {} not compared with a plain sweep", paint::faint("–"))?,
        }
        for (what, path) in [("output", output), ("plot", plot)] {
            if let Some(path) = path {
                writeln!(out, "  {} {}", paint::faint(what), paint::name(path.display()))?;
            }
        }
        Ok(())
    }

    /// The page with the drawing.
    pub(super) fn report(&self) -> Report {
        Report {
            title: "Stencil".to_owned(),
            subtitle: format!(
                "{}, {} slots, order {}, policy {}",
                self.headline(),
                self.slots,
                self.order,
                self.policy
            ),
            verdict: match &self.verified {
                Some(Some(difference)) => Verdict::Failed(format!("{} numbers differ", Count(difference.points))),
                Some(None) => Verdict::Agreed,
                None => Verdict::Unchecked,
            },
            figures: vec![
                ("loads".to_owned(), Count(self.loads()).to_string()),
                ("loads / compulsory".to_owned(), format!("{:.3}", self.per_compulsory())),
                (
                    "loads / optimum".to_owned(),
                    self.per_optimum().map_or_else(|| "–".to_owned(), |r| format!("{r:.3}")),
                ),
                ("whole sweep".to_owned(), Nanos(nanos(self.progress.elapsed).0).to_string()),
            ],
            slots: self.slot_use.clone(),
            ..Report::default()
        }
    }
}
