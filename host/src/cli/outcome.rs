//! How a job ended, as tables for people and as one JSON object for programs.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use umbra::job::{Latency, Leftover, Options, Outcome, PathOutcome, TableOutcome};
use umbra::quantity::{Bytes, Count, Nanos, Rate, counted};

use super::table::{Set, Table};
use super::{Out, paint};

/// Rows of groups that are shown one by one.
const GROUPS_MAX: usize = 12;
/// Mismatches that are shown one by one.
const MISMATCHES_MAX: usize = 8;

pub(crate) fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Prints the tables and the verdict.
pub(crate) fn print(out: Out<'_>, options: &Options, outcome: &Outcome, report: Option<&Path>) -> io::Result<()> {
    writeln!(out, "\n{}\n", paint::strong(headline(options, outcome)))?;
    groups(outcome).print(out)?;
    writeln!(out)?;
    paths(outcome).print(out)?;
    writeln!(out)?;
    for (what, value) in facts(outcome) {
        writeln!(out, "  {}  {value}", paint::faint(format_args!("{what:<22}")))?;
    }
    writeln!(out)?;
    for mismatch in outcome.mismatches.iter().take(MISMATCHES_MAX) {
        let (reader, rank) = (mismatch.reader, mismatch.rank);
        writeln!(out, "  {} service process {reader} from rank {rank}: {}", paint::bad("✘"), mismatch.what)?;
    }
    if outcome.mismatches.len() > MISMATCHES_MAX {
        writeln!(out, "    and {} more", outcome.mismatches.len() - MISMATCHES_MAX)?;
    }
    if outcome.failed_reads > 0 {
        writeln!(out, "  {} {} failed", paint::bad("✘"), counted(outcome.failed_reads, "read", "reads"))?;
    }
    for leftover in &outcome.leftovers {
        writeln!(out, "  {} left behind: {}", paint::bad("✘"), describe(leftover))?;
    }
    if outcome.is_good() {
        let bytes = Bytes(outcome.bytes);
        writeln!(
            out,
            "  {} all {bytes} that were read agree with the file, nothing was left behind",
            paint::good("✔")
        )?;
    }
    if let Some(path) = report {
        writeln!(out, "  {} {}", paint::faint("report"), paint::name(path.display()))?;
    }
    Ok(())
}

/// `2 hosts × 2 service processes × 4 ranks, 4.21 MiB of data.bin`; with a configuration file
/// `1 host × 4 ranks, 2 service processes (1 ran already), 4.21 MiB of data.bin`.
pub(crate) fn headline(options: &Options, outcome: &Outcome) -> String {
    let name =
        outcome.input.file_name().map_or_else(|| outcome.input.display().to_string(), |n| n.to_string_lossy().into());
    let hosts = counted(options.hosts(), "host", "hosts");
    let services = |n| counted(n, "service process", "service processes");
    let ranks = counted(options.ranks, "rank", "ranks");
    let processes = match &options.site {
        None => format!("{hosts} × {} × {ranks}", services(options.service_processes)),
        Some(_) => {
            let (all, running) = (services(outcome.service_processes), outcome.agents_elsewhere);
            format!("{hosts} × {ranks}, {all} ({running} ran already)")
        }
    };
    format!("{processes}, {} of {name}", Bytes(outcome.input_bytes))
}

/// Single figures: what, value.
pub(crate) fn facts(outcome: &Outcome) -> Vec<(&'static str, String)> {
    vec![
        ("time to full", format!("{} from the start of the first process", nanos(outcome.time_to_full))),
        ("look-ups", Count(outcome.lookups).to_string()),
        ("reading", format!("{}, {}", nanos(outcome.reading), Rate(outcome.throughput_bytes_per_s()))),
        ("our code run in ranks", format!("{} times while they were read", Count(outcome.rank_wakeups))),
        ("BLAKE3 of the file", outcome.digest.clone()),
        ("whole job", nanos(outcome.elapsed).to_string()),
    ]
}

fn describe(leftover: &Leftover) -> String {
    match leftover {
        Leftover::Process(peer, pid) => format!("process {pid} of {peer}"),
        Leftover::File(path) => format!("file {}", path.display()),
        Leftover::Segment(name) => format!("segment {name}"),
        other => format!("{other:?}"),
    }
}

/// Every group, or the first few and the rest in one row.
pub(crate) fn groups(outcome: &Outcome) -> Table {
    let mut table = Table::new(&[
        ("group", Set::Left),
        ("members", Set::Right),
        ("table", Set::Right),
        ("time to full", Set::Right),
    ]);
    let shown = if outcome.groups.len() > GROUPS_MAX { GROUPS_MAX - 1 } else { outcome.groups.len() };
    let (single, rest) = outcome.groups.split_at(shown);
    for group in single {
        let members = Count(group.members.len() as u64).to_string();
        table.row([
            group.name.clone(),
            members,
            Bytes(group.table_bytes).to_string(),
            nanos(group.time_to_full).to_string(),
        ]);
    }
    if let Some(slowest) = rest.iter().map(|g| g.time_to_full).max() {
        let members: usize = rest.iter().map(|g| g.members.len()).sum();
        let bytes = rest.iter().map(|g| g.table_bytes).sum();
        table.row([
            format!("{} more", rest.len()),
            Count(members as u64).to_string(),
            Bytes(bytes).to_string(),
            format!("≤ {}", nanos(slowest)),
        ]);
    }
    table
}

/// What a path is called in the output.
pub(crate) fn path_name(path: &PathOutcome) -> String {
    format!("{}, {}", path.path, if path.own_rank { "own rank" } else { "other's rank" })
}

/// Each data path, then all of them.
pub(crate) fn paths(outcome: &Outcome) -> Table {
    let mut table = Table::new(&[
        ("data path", Set::Left),
        ("reads", Set::Right),
        ("bytes", Set::Right),
        ("p50", Set::Right),
        ("p90", Set::Right),
        ("p99", Set::Right),
        ("one reader", Set::Right),
    ]);
    let mut row = |name: String, reads: u64, bytes: u64, latency: &Latency, rate: f64| {
        let at = |quantile: f64| if reads == 0 { "–".to_owned() } else { Nanos(latency.at(quantile)).to_string() };
        let (reads, bytes) = (Count(reads).to_string(), Bytes(bytes).to_string());
        table.row([name, reads, bytes, at(0.5), at(0.9), at(0.99), Rate(rate).to_string()]);
    };
    let busy = |time: Duration, bytes: u64| if time.is_zero() { 0.0 } else { bytes as f64 / time.as_secs_f64() };
    for path in &outcome.paths {
        row(path_name(path), path.reads, path.bytes, &path.latency, busy(path.busy, path.bytes));
    }
    if outcome.paths.len() > 1 {
        let time = outcome.paths.iter().map(|path| path.busy).sum();
        row("all".to_owned(), outcome.reads, outcome.bytes, &outcome.latency, busy(time, outcome.bytes));
    }
    table
}

#[derive(Serialize, Debug)]
struct LatencyObject {
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl LatencyObject {
    fn new(latency: &Latency) -> LatencyObject {
        LatencyObject { p50: latency.at(0.5), p90: latency.at(0.9), p99: latency.at(0.99), max: latency.max() }
    }
}

#[derive(Serialize, Debug)]
struct PathObject {
    path: &'static str,
    own_rank: bool,
    reads: u64,
    bytes: u64,
    latency_ns: LatencyObject,
}

#[derive(Serialize, Debug)]
struct TableObject {
    group: String,
    digest: String,
    agents: u32,
}

impl TableObject {
    fn new(table: &TableOutcome) -> TableObject {
        TableObject { group: table.group.clone(), digest: table.digest.clone(), agents: table.agents }
    }
}

/// The JSON object of a job that ran to its end.
#[derive(Serialize, Debug)]
pub(crate) struct Object {
    ok: bool,
    hosts: u32,
    service_processes: u32,
    agents_elsewhere: u32,
    ranks: u32,
    groups: usize,
    tables: Vec<TableObject>,
    time_to_full_ms: f64,
    lookups: u64,
    reads: u64,
    bytes: u64,
    mismatches: usize,
    failed_reads: u64,
    data_path: String,
    latency_ns: LatencyObject,
    throughput_bytes_per_s: f64,
    paths: Vec<PathObject>,
    rank_wakeups: u64,
    input: String,
    input_bytes: u64,
    blake3: String,
    seed: u64,
    elapsed_ms: f64,
    leftovers: Vec<String>,
}

fn millis(time: Duration) -> f64 {
    // Microseconds are what the clock is good for here; more digits would be noise.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl Object {
    pub(crate) fn new(options: &Options, outcome: &Outcome) -> Object {
        Object {
            ok: outcome.is_good(),
            hosts: outcome.hosts,
            service_processes: outcome.service_processes,
            agents_elsewhere: outcome.agents_elsewhere,
            ranks: outcome.ranks,
            groups: outcome.groups.len(),
            tables: outcome.tables.iter().map(TableObject::new).collect(),
            time_to_full_ms: millis(outcome.time_to_full),
            lookups: outcome.lookups,
            reads: outcome.reads,
            bytes: outcome.bytes,
            mismatches: outcome.mismatches.len(),
            failed_reads: outcome.failed_reads,
            data_path: outcome.used_paths(),
            latency_ns: LatencyObject::new(&outcome.latency),
            throughput_bytes_per_s: outcome.throughput_bytes_per_s().round(),
            paths: outcome
                .paths
                .iter()
                .map(|path| PathObject {
                    path: path.path.name(),
                    own_rank: path.own_rank,
                    reads: path.reads,
                    bytes: path.bytes,
                    latency_ns: LatencyObject::new(&path.latency),
                })
                .collect(),
            rank_wakeups: outcome.rank_wakeups,
            input: outcome.input.display().to_string(),
            input_bytes: outcome.input_bytes,
            blake3: outcome.digest.clone(),
            seed: options.seed,
            elapsed_ms: millis(outcome.elapsed),
            leftovers: outcome.leftovers.iter().map(describe).collect(),
        }
    }
}

/// The JSON object of a job that failed.
#[derive(Serialize, Debug)]
pub(crate) struct Failed<'a> {
    ok: bool,
    hosts: u32,
    service_processes: u32,
    ranks: u32,
    data_path: &'static str,
    error: &'a str,
}

impl Failed<'_> {
    pub(crate) fn new<'a>(options: &Options, error: &'a str) -> Failed<'a> {
        Failed {
            ok: false,
            hosts: options.hosts(),
            service_processes: options.agents(),
            ranks: options.world_size(),
            data_path: options.data_path.name(),
            error,
        }
    }
}

#[cfg(test)]
mod tests {
    use umbra::job::Mismatch;
    use umbra_core::peer::{Sp, WorldRank};

    use super::super::sample;
    use super::*;

    fn shown(outcome: &Outcome) -> String {
        let mut bytes = Vec::new();
        print(&mut anstream::StripStream::new(&mut bytes), &Options::default(), outcome, None).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_good_outcome_says_so_and_shows_every_path() {
        let text = shown(&sample::outcome(&Options::default()));
        for line in
            ["2 hosts × 2 service processes × 4 ranks, 5.00 MiB of input.bin", "shared, own rank", "✔ all 50.0 MiB"]
        {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains('✘'));
    }

    #[test]
    fn what_went_wrong_is_listed_up_to_a_bound() {
        let mut outcome = sample::outcome(&Options::default());
        let wrong = |rank| Mismatch { reader: Sp(1), rank: WorldRank(rank), what: "byte 17 differs".into() };
        outcome.mismatches = (0..20).map(wrong).collect();
        outcome.failed_reads = 3;
        outcome.leftovers = vec![Leftover::File("job.cfg".into())];
        let text = shown(&outcome);
        assert_eq!(text.matches("byte 17 differs").count(), MISMATCHES_MAX);
        for line in ["and 12 more", "3 reads failed", "left behind: file job.cfg"] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains('✔'));
    }

    #[test]
    fn the_object_has_the_agreed_fields_in_the_agreed_units() {
        let options = Options::default();
        let object = serde_json::to_value(Object::new(&options, &sample::outcome(&options))).unwrap();
        for (field, value) in [("hosts", 2), ("service_processes", 4), ("ranks", 8), ("groups", 3), ("mismatches", 0)] {
            assert_eq!(object[field], value, "{field}");
        }
        assert_eq!(object["time_to_full_ms"], 7.4);
        assert_eq!(object["data_path"], "shared", "what was used, not what was asked for");
        for field in ["p50", "p90", "p99"] {
            assert!(object["latency_ns"][field].is_u64(), "{field}");
        }
        assert!(object["throughput_bytes_per_s"].as_f64().unwrap() > 1e9);
    }
}
