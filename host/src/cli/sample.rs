//! A made-up outcome for tests of what is shown.

use std::time::Duration;

use umbra::job::{DataPath, GroupOutcome, Latency, Milestone, Options, Outcome, PathOutcome, Step, TableOutcome};
use umbra_core::peer::{Peer, Sp, WorldRank};

pub(crate) fn latency(values: impl IntoIterator<Item = u64>) -> Latency {
    let mut latency = Latency::default();
    values.into_iter().for_each(|value| latency.record(value, 1).unwrap());
    latency
}

/// What a job with these options might have told.
pub(crate) fn outcome(options: &Options) -> Outcome {
    let at = Duration::from_micros;
    let (agents, ranks) = (options.agents(), options.world_size());
    let mut timeline = Vec::new();
    let mut step = |peer: Option<Peer>, micros: u64, group: Option<&str>, step| {
        timeline.push(Milestone { at: at(micros), peer: peer.unwrap(), group: group.map(str::to_owned), step });
    };
    for sp in 0..agents {
        let (peer, late) = (Peer::service(Sp(sp)), u64::from(sp) * 130);
        step(peer, late, None, Step::Started);
        step(peer, 1_100 + late, None, Step::Listening);
        step(peer, 1_900 + late, None, Step::Linked);
        step(peer, 4_000 + 2 * late, Some("world"), Step::LocalComplete);
        step(peer, 5_200 + 2 * late, Some("world"), Step::Full);
    }
    for rank in 0..ranks {
        let (peer, late) = (Peer::rank(WorldRank(rank)), u64::from(rank) * 90);
        step(peer, 1_500 + late, None, Step::Started);
        step(peer, 2_600 + late, None, Step::Linked);
        step(peer, 6_500 + late, Some("world"), Step::Full);
        step(peer, 9_500, None, Step::Exported);
    }
    timeline.sort_by_key(|m| m.at);
    let path = |path, own_rank, scale: u64| PathOutcome {
        path,
        own_rank,
        reads: 400,
        bytes: 400 << 16,
        busy: Duration::from_nanos(400 * 40 * scale),
        latency: latency((1..400).map(|i| scale * (20 + i % 37 + i / 11))),
    };
    let group = |name: String, members: Vec<u32>| GroupOutcome {
        name,
        time_to_full: at(400 + 60 * members.len() as u64),
        table_bytes: 200 + 16 * members.len() as u64,
        members: members.into_iter().map(WorldRank).collect(),
    };
    let mut groups = vec![group("world".into(), (0..ranks).collect())];
    groups.extend(
        (0..options.hosts).map(|h| group(format!("row {h}"), (h * options.ranks..(h + 1) * options.ranks).collect())),
    );
    Outcome {
        hosts: options.hosts,
        agents_elsewhere: 0,
        service_processes: agents,
        ranks,
        data_path: DataPath::Auto,
        input: "data/input.bin".into(),
        input_bytes: 5 << 20,
        digest: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262".into(),
        time_to_full: at(7_400),
        elapsed: at(61_000),
        groups,
        tables: vec![TableOutcome { group: "world".into(), digest: "00ff".into(), agents }],
        lookups: 128_000,
        reads: 800,
        failed_reads: 0,
        bytes: 800 << 16,
        reading: at(21_000),
        rank_wakeups: 0,
        mismatches: Vec::new(),
        latency: latency((1..800).map(|i| 100 + i * 10)),
        paths: vec![path(DataPath::Shared, true, 30), path(DataPath::Shared, false, 110)],
        timeline,
        leftovers: Vec::new(),
    }
}
