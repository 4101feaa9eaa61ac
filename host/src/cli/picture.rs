//! The outcome of a job as the data of its report page.

use std::collections::BTreeMap;
use std::time::Duration;

use umbra::job::{Latency, Milestone, Options, Outcome, Step};
use umbra::quantity::{Bytes, Count, Nanos, Rate, counted};
use umbra::report::{Histogram, Host, Lane, LaneKind, Path, Phase, Report, ServiceProcess, Table, Verdict};
use umbra_core::peer::{Peer, PeerKind, Sp, WorldRank};
use umbra_core::tree::Tree;

use super::outcome::{self, nanos};

/// Everything that the page tells about this job.
pub(crate) fn of(options: &Options, outcome: &Outcome) -> Report {
    Report {
        title: "umbra run".to_owned(),
        subtitle: format!(
            "{} · data path {} · BLAKE3 {}…",
            outcome::headline(options, outcome),
            outcome.used_paths(),
            outcome.digest.get(..16).unwrap_or(&outcome.digest)
        ),
        verdict: verdict(outcome),
        figures: figures(outcome),
        hosts: hosts(options),
        links: links(options),
        lanes: lanes(options, outcome),
        paths: outcome
            .paths
            .iter()
            .map(|path| Path {
                name: outcome::path_name(path),
                reads: path.reads,
                bytes: path.bytes,
                latency: histogram(&path.latency),
            })
            .collect(),
        tables: vec![table("Reads by data path", &outcome::paths(outcome)), table("Groups", &outcome::groups(outcome))],
        ..Report::default()
    }
}

fn verdict(outcome: &Outcome) -> Verdict {
    if outcome.is_good() {
        Verdict::Agreed
    } else if !outcome.mismatches.is_empty() {
        Verdict::Differed(outcome.mismatches.len() as u64)
    } else if outcome.failed_reads > 0 {
        Verdict::Failed(format!("{} failed", counted(outcome.failed_reads, "read", "reads")))
    } else {
        let left = counted(outcome.leftovers.len() as u64, "thing was", "things were");
        Verdict::Failed(format!("{left} left behind"))
    }
}

fn figures(outcome: &Outcome) -> Vec<(String, String)> {
    let at = |quantile| Nanos(outcome.latency.at(quantile)).to_string();
    [
        ("time to full", nanos(outcome.time_to_full).to_string()),
        ("groups", Count(outcome.groups.len() as u64).to_string()),
        ("look-ups", Count(outcome.lookups).to_string()),
        ("reads", Count(outcome.reads).to_string()),
        ("bytes", Bytes(outcome.bytes).to_string()),
        ("read, median", at(0.5)),
        ("read, p99", at(0.99)),
        ("throughput", Rate(outcome.throughput_bytes_per_s()).to_string()),
    ]
    .map(|(what, value)| (what.to_owned(), value))
    .into()
}

fn table(title: &str, table: &super::table::Table) -> Table {
    Table { title: title.to_owned(), columns: table.columns(), rows: table.rows().to_vec() }
}

fn histogram(latency: &Latency) -> Histogram {
    Histogram::from_counts(latency.counts())
}

fn hosts(options: &Options) -> Vec<Host> {
    let mut ranks: BTreeMap<Sp, Vec<u32>> = BTreeMap::new();
    for rank in 0..options.world_size() {
        if let Some(sp) = options.first_shadow(WorldRank(rank)) {
            ranks.entry(sp).or_default().push(rank);
        }
    }
    let mut service_process = |sp: Sp| ServiceProcess { number: sp.0, ranks: ranks.remove(&sp).unwrap_or_default() };
    let hosts = options.layout().into_iter();
    hosts.map(|sps| Host { service_processes: sps.into_iter().map(&mut service_process).collect() }).collect()
}

/// Milestones of the world group and of no group, told apart by process, as lanes.
fn lanes(options: &Options, outcome: &Outcome) -> Vec<Lane> {
    // A little room behind the last one shows that everybody is full.
    let end = nanos(outcome.time_to_full + outcome.time_to_full / 20).0;
    let services = (0..outcome.service_processes).filter_map(|sp| Peer::service(Sp(sp)));
    let ranks = (0..outcome.ranks).filter_map(|rank| Peer::rank(WorldRank(rank)));
    services.chain(ranks).map(|peer| lane(options, peer, &outcome.timeline, end)).collect()
}

fn lane(options: &Options, peer: Peer, timeline: &[Milestone], end: u64) -> Lane {
    let (name, kind) = match peer.kind() {
        PeerKind::Service(sp) => (format!("agent {sp}"), LaneKind::ServiceProcess),
        PeerKind::Rank(rank) => {
            (format!("rank {rank}"), LaneKind::Rank(options.first_shadow(rank).map_or(0, |sp| sp.0)))
        }
    };
    let world = |m: &&Milestone| m.peer == peer && m.group.as_deref().is_none_or(|group| group == "world");
    let mut phases = Vec::new();
    let mut from = None;
    for milestone in timeline.iter().filter(world) {
        let at = time(milestone.at).min(end);
        let leads_here = match (milestone.step, kind) {
            (Step::Started, _) => None,
            (Step::Listening, _) | (Step::Linked, LaneKind::Rank(_)) => Some("starting"),
            (Step::Linked, LaneKind::ServiceProcess) => Some("linking"),
            (Step::LocalComplete, _) => Some("collecting its ranks"),
            (Step::Full, LaneKind::ServiceProcess) => Some("exchanging"),
            (Step::Full, LaneKind::Rank(_)) => Some("joining"),
            _ => continue,
        };
        if let (Some(name), Some(from)) = (leads_here, from) {
            phases.push(Phase { name: name.to_owned(), from_ns: from, until_ns: at });
        }
        from = Some(at);
        if milestone.step == Step::Full {
            phases.push(Phase { name: "full".to_owned(), from_ns: at, until_ns: end });
            break;
        }
    }
    Lane { name, kind, phases }
}

fn time(at: Duration) -> u64 {
    nanos(at).0
}

/// Arity of the tree along which agents exchange their parts.
const ARITY: u32 = 4;

/// The tree of the world group, rooted at the lowest service process.
fn links(options: &Options) -> Vec<(u32, u32)> {
    let Some(tree) = Tree::new(options.agents(), 0, ARITY) else { return Vec::new() };
    (0..options.agents()).filter_map(|sp| Some((tree.parent(sp)?, sp))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn every_process_has_a_lane_and_every_lane_ends_full() {
        let options = Options { hosts: 3, service_processes: 2, ranks: 5, ..Options::default() };
        let report = of(&options, &sample::outcome(&options));
        assert_eq!(report.lanes.len(), 6 + 15);
        for lane in &report.lanes {
            assert_eq!(lane.phases.last().map(|p| p.name.as_str()), Some("full"), "{}", lane.name);
            assert!(lane.phases.windows(2).all(|w| w[0].until_ns == w[1].from_ns), "{} has a gap", lane.name);
        }
        let ranks: Vec<u32> = report.hosts[1].service_processes[1].ranks.clone();
        assert_eq!(ranks, [6, 8], "host 1 has ranks 5 to 9, its second service process the odd local ones");
    }

    #[test]
    fn the_page_of_a_job_is_one_file_that_fetches_nothing() {
        let options = Options::default();
        let page = of(&options, &sample::outcome(&options)).to_html();
        assert_eq!(page.matches("<svg").count(), 3);
        for foreign in ["<script", "src=", "url(", "@import", "<link"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
