//! `umbra sim`: jobs in one process, on virtual time, with whatever goes wrong.

mod timeline;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;
use umbra::quantity::{Bytes, Count, Nanos, parse_lapse};
use umbra::sim::{self, Options, Outcome, Scripted, Sent};
use umbra_core::peer::WorldRank;
use umbra_core::time::Lapse;

use super::progress::turn;
use super::table::{Set, Table};
use super::{Done, Failure, Out, code_of, paint, print_json, verdict};

/// Errors and violations that are shown one by one.
const SHOWN: usize = 12;

/// Bring up whole jobs in the simulator: the real protocol over a network that loses, repeats and delays as told.
///
/// All randomness comes from the seed, so a run can be repeated. The exit code is 0 only if no rule of the protocol was
/// broken and, where nothing was killed or cut, everybody became full.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Sim {
    /// Hosts, each with one DPU
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    hosts: u32,
    /// Service processes of each DPU
    #[arg(long, short = 's', visible_alias = "sps", value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=1_024))]
    service_processes: u32,
    /// Ranks of each host
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    ranks: u32,
    /// Chooses everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run this many schedules, with seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    schedules: u64,
    /// Draw hosts, counts, network, groups and faults of each schedule from its seed too
    #[arg(long, conflicts_with_all = ["hosts", "service_processes", "ranks", "loss", "duplication", "reorder", "delay",
        "jitter", "groups", "rounds", "timeout", "kill", "restart", "cut", "heal"])]
    random: bool,
    /// Messages that are lost, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = millionths)]
    loss: u32,
    /// Messages that arrive twice, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = millionths)]
    duplication: u32,
    /// Let messages of one link overtake each other
    #[arg(long)]
    reorder: bool,
    /// Shortest way of a message
    #[arg(long, value_name = "TIME", default_value = "5us", value_parser = parse_lapse)]
    delay: Lapse,
    /// How much longer it may take, at random
    #[arg(long, value_name = "TIME", default_value = "15us", value_parser = parse_lapse)]
    jitter: Lapse,
    /// How long a group may take to become full
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_lapse)]
    timeout: Lapse,
    /// Groups of random members that are created and freed meanwhile
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..65_536))]
    groups: u32,
    /// How often each of them is created
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: u32,
    /// Kill a process: sp:3@20ms, rank:5@1ms
    #[arg(long, value_name = "WHO@WHEN", value_parser = |text: &str| format!("kill {text}").parse::<Scripted>())]
    kill: Vec<Scripted>,
    /// Start it again, without memory: sp:3@40ms
    #[arg(long, value_name = "WHO@WHEN", value_parser = |text: &str| format!("restart {text}").parse::<Scripted>())]
    restart: Vec<Scripted>,
    /// Cut a link, for ever or for a while: sp:0-sp:2@5ms+10ms
    #[arg(long, value_name = "A-B@WHEN[+TIME]", value_parser = |text: &str| format!("cut {text}").parse::<Scripted>())]
    cut: Vec<Scripted>,
    /// Mend a link: sp:0-sp:2@15ms
    #[arg(long, value_name = "A-B@WHEN", value_parser = |text: &str| format!("heal {text}").parse::<Scripted>())]
    heal: Vec<Scripted>,
    /// Also print what happened when, in virtual time: who joined, what became complete and full, faults, deaths, ends
    #[arg(long, conflicts_with = "schedules")]
    timeline: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = paint::examples!(
    "umbra sim --hosts 256 --sps 2 --ranks 16"       "how many messages does a large job take to become full?";
    "umbra sim --hosts 4 --kill sp:3@20us"           "who is told what when a service process dies?";
    "umbra sim --kill sp:3@20us --timeline"          "and what happens until then?";
    "umbra sim --loss 20 --duplication 20 --reorder --groups 3 --schedules 1000"
        "the same job under a thousand bad networks";
    "umbra sim --random --schedules 10000"           "other jobs, networks and faults every time";
    "umbra sim --random --seed 4711"                 "one of them again";
);

/// A percentage in parts of a million.
fn millionths(text: &str) -> Result<u32, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok((percent * 10_000.0).round() as u32),
        _ => Err("must be a percentage from 0 to 100".to_owned()),
    }
}

impl Sim {
    fn options(&self, seed: u64) -> Options {
        if self.random {
            let mut options = Options::random(seed);
            options.job.keep_events = self.timeline;
            return options;
        }
        let mut options = Options::new(self.hosts, self.service_processes, self.ranks);
        options.groups = self.groups;
        options.rounds = self.rounds;
        options.faults = [&self.kill, &self.restart, &self.cut, &self.heal].into_iter().flatten().copied().collect();
        let job = &mut options.job;
        (job.seed, job.timeout, job.keep_events) = (seed, self.timeout, self.timeline);
        // Whoever gives up sooner repeats and pings sooner, too.
        (job.resend, job.ping) = (job.resend.min(job.timeout), job.ping.min(job.timeout));
        job.groups = job.groups.max(self.groups + 1);
        let network = &mut job.network;
        (network.loss, network.duplication, network.reorder) = (self.loss, self.duplication, self.reorder);
        (network.delay, network.jitter) = (self.delay, self.jitter);
        options
    }

    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let bar = if self.schedules > 1 && std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(self.schedules), ProgressDrawTarget::stderr_with_hz(5));
            turn(&bar, Duration::from_millis(200));
            bar
        } else {
            ProgressBar::hidden()
        };
        let mut all = All::default();
        for seed in (self.seed..=u64::MAX).take(usize::try_from(self.schedules).unwrap_or(usize::MAX)) {
            let options = self.options(seed);
            let outcome = sim::run(&options).map_err(Failure::usage)?;
            all.add(seed, &options, &outcome);
            bar.inc(1);
            if self.schedules == 1 {
                bar.finish_and_clear();
                let good = is_good(&options, &outcome);
                return verdict(code_of(good), self.show_one(out, seed, &options, &outcome, good));
            }
        }
        bar.finish_and_clear();
        verdict(code_of(all.bad.is_empty()), self.show_all(out, &all))
    }

    fn show_one(
        &self,
        out: Out<'_>,
        seed: u64,
        options: &Options,
        outcome: &Outcome,
        good: bool,
    ) -> Result<(), Failure> {
        let lines = self.timeline.then(|| timeline::lines(outcome));
        if self.json {
            return print_json(out, &Object { timeline: lines, ..Object::new(seed, options, outcome, good) });
        }
        if let Some(lines) = lines {
            timeline::table(&lines).print(out)?;
            writeln!(out)?;
        }
        show(out, seed, options, outcome, good)
    }

    fn show_all(&self, out: Out<'_>, all: &All) -> Result<(), Failure> {
        if self.json {
            print_json(out, all)?;
        } else {
            let (full, told) = (Count(all.full), Count(all.told));
            writeln!(out, "{} schedules, seeds from {}\n", paint::strong(Count(all.schedules)), self.seed)?;
            writeln!(out, "  became full everywhere      {full}")?;
            writeln!(out, "  ended with errors as told   {told}")?;
            writeln!(out, "  messages                    {}\n", Count(all.messages))?;
            for bad in all.bad.iter().take(SHOWN) {
                writeln!(out, "  {} seed {}: {}", paint::bad("✘"), bad.seed, bad.what)?;
            }
            match all.bad.len() {
                0 => writeln!(out, "  {} no rule of the protocol was broken", paint::good("✔"))?,
                n => writeln!(out, "  {n} schedules broke a rule; repeat one with --seed and one schedule")?,
            }
        }
        Ok(())
    }
}

/// No rule was broken, and everybody is full if nothing was done to prevent it.
fn is_good(options: &Options, outcome: &Outcome) -> bool {
    outcome.violations.is_empty() && (!options.faults.is_empty() || outcome.time_to_full.is_some())
}

/// Many schedules in a few numbers.
#[derive(Serialize, Debug, Default)]
struct All {
    schedules: u64,
    full: u64,
    told: u64,
    messages: u64,
    bad: Vec<Bad>,
}

#[derive(Serialize, Debug)]
struct Bad {
    seed: u64,
    what: String,
}

impl All {
    fn add(&mut self, seed: u64, options: &Options, outcome: &Outcome) {
        self.schedules += 1;
        self.full += u64::from(outcome.time_to_full.is_some());
        self.told += u64::from(!outcome.errors.is_empty());
        self.messages += outcome.traffic.services.messages + outcome.traffic.ranks.messages;
        if !is_good(options, outcome) {
            let what = outcome.violations.first().map_or_else(|| "never became full".to_owned(), ToString::to_string);
            self.bad.push(Bad { seed, what });
        }
    }
}

/// Ranks that were told the same, at the same time or not; by the time of the first of them.
fn told(outcome: &Outcome) -> Vec<(Nanos, Vec<WorldRank>, String)> {
    let mut grouped: Vec<(Nanos, Vec<WorldRank>, String)> = Vec::new();
    for (at, rank, cause) in &outcome.errors {
        let cause = cause.to_string();
        match grouped.iter_mut().find(|(_, _, known)| *known == cause) {
            Some((_, ranks, _)) => ranks.push(*rank),
            None => grouped.push((Nanos(at.0), vec![*rank], cause)),
        }
    }
    // What is noted is noted by rank.
    grouped.sort_by_key(|(at, ..)| at.0);
    grouped
}

fn show(out: Out<'_>, seed: u64, options: &Options, outcome: &Outcome, good: bool) -> Result<(), Failure> {
    let job = &options.job;
    let (hosts, services) = (job.ranks_on.len(), job.ranks_on.len() as u64 * u64::from(job.per_dpu));
    let ranks = job.ranks();
    let headline = format!("{hosts} hosts, {services} service processes, {ranks} ranks, seed {seed}, virtual time");
    writeln!(out, "{}\n", paint::strong(headline))?;
    let mut fact = |what: &str, value: String| {
        writeln!(out, "  {}  {value}", paint::faint(format_args!("{what:<22}"))).map_err(Failure::from)
    };
    fact("time to full", outcome.time_to_full.map_or_else(|| "never".to_owned(), |lapse| Nanos(lapse.0).to_string()))?;
    let (full, ready) = (outcome.full_services, outcome.ready_ranks);
    fact("full at the end", format!("{full} of {services} service processes, {ready} of {ranks} ranks"))?;
    fact("rounds of the exchange", outcome.rounds.to_string())?;
    let sent = |sent: Sent| format!("{} messages, {}", Count(sent.messages), Bytes(sent.bytes));
    fact("between services", sent(outcome.traffic.services))?;
    fact("with ranks", sent(outcome.traffic.ranks))?;
    fact("lost on the way", Count(outcome.lost).to_string())?;
    fact("digest of the run", format!("{:016x}", outcome.digest))?;
    writeln!(out)?;
    let mut kinds = Table::new(&[("message", Set::Left), ("number", Set::Right), ("bytes", Set::Right)]);
    for (name, sent) in outcome.traffic.kinds().filter(|(_, sent)| sent.messages > 0) {
        kinds.row([name.to_owned(), Count(sent.messages).to_string(), Bytes(sent.bytes).to_string()]);
    }
    kinds.print(out)?;
    writeln!(out)?;
    for fault in &options.faults {
        writeln!(out, "  {} {}", paint::faint(format_args!("at {:>8}", Nanos(fault.at.0).to_string())), fault.fault)?;
    }
    let told = told(outcome);
    for (at, ranks, cause) in told.iter().take(SHOWN) {
        let whom = match ranks.as_slice() {
            [one] => format!("rank {one} is told"),
            many => format!("{} ranks are told", many.len()),
        };
        writeln!(out, "  {} {whom}: {cause}", paint::faint(format_args!("at {:>8}", at.to_string())))?;
    }
    if told.len() > SHOWN {
        writeln!(out, "  and {} other causes", told.len() - SHOWN)?;
    }
    for violation in outcome.violations.iter().take(SHOWN) {
        writeln!(out, "  {} {violation}", paint::bad("✘"))?;
    }
    match (good, outcome.violations.is_empty()) {
        (true, _) => writeln!(out, "  {} no rule of the protocol was broken", paint::good("✔"))?,
        (false, true) => writeln!(out, "  {} the world group never became full everywhere", paint::bad("✘"))?,
        (false, false) => {}
    }
    Ok(())
}

#[derive(Serialize, Debug)]
struct Object {
    ok: bool,
    seed: u64,
    hosts: usize,
    service_processes: u64,
    ranks: u32,
    time_to_full_ns: Option<u64>,
    full_service_processes: u32,
    ready_ranks: u32,
    rounds: u32,
    service_messages: u64,
    service_bytes: u64,
    rank_messages: u64,
    rank_bytes: u64,
    lost: u64,
    errors: Vec<Told>,
    violations: Vec<String>,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<Vec<timeline::Line>>,
}

#[derive(Serialize, Debug)]
struct Told {
    first_at_ns: u64,
    ranks: Vec<u32>,
    cause: String,
}

impl Object {
    fn new(seed: u64, options: &Options, outcome: &Outcome, ok: bool) -> Object {
        let hosts = options.job.ranks_on.len();
        Object {
            ok,
            seed,
            hosts,
            service_processes: hosts as u64 * u64::from(options.job.per_dpu),
            ranks: options.job.ranks(),
            time_to_full_ns: outcome.time_to_full.map(|lapse| lapse.0),
            full_service_processes: outcome.full_services,
            ready_ranks: outcome.ready_ranks,
            rounds: outcome.rounds,
            service_messages: outcome.traffic.services.messages,
            service_bytes: outcome.traffic.services.bytes,
            rank_messages: outcome.traffic.ranks.messages,
            rank_bytes: outcome.traffic.ranks.bytes,
            lost: outcome.lost,
            errors: told(outcome)
                .into_iter()
                .map(|(at, ranks, cause)| Told {
                    first_at_ns: at.0,
                    ranks: ranks.into_iter().map(|rank| rank.0).collect(),
                    cause,
                })
                .collect(),
            violations: outcome.violations.iter().map(ToString::to_string).collect(),
            digest: format!("{:016x}", outcome.digest),
            timeline: None,
        }
    }
}
