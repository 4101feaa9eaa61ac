//! The reading phases: orders to agents, whose bytes are compared with the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::time::Duration;

use umbra_core::codec::Reader;
use umbra_core::peer::{Peer, PeerKind, Sp, WorldRank};

use super::super::verify::{Digesting, Digests, digest_all_random};
use super::super::{DataPath, Event, JobError, Latency, Mismatch, PathOutcome, Phase};
use super::{Run, lapse, no_thread};
use crate::admin::{Body as _, PathTotals, ReadOrder, ReadResult, ReadTotals, Slice, ops};
use crate::driver;
use crate::quantity::counted;

/// What the agents brought.
#[derive(Default)]
pub(super) struct Results {
    pub(super) lookups: u64,
    pub(super) reads: u64,
    pub(super) failed: u64,
    pub(super) bytes: u64,
    pub(super) reading: Duration,
    pub(super) rank_wakeups: u64,
    pub(super) mismatches: Vec<Mismatch>,
    pub(super) paths: BTreeMap<(DataPath, bool), PathOutcome>,
}

impl Run<'_> {
    pub(super) fn read(&mut self, digests: &Digests) -> Result<(), JobError> {
        let slices: Vec<Slice> = self
            .exported
            .iter()
            .map(|(&rank, exported)| Slice { rank, address: exported.address, len: exported.len })
            .collect();
        for part in slices.chunks(2000) {
            self.ask(self.agents(), ops::PLAN, 0, &Slice::list_to_body(part), |_, _, _| Ok(()))?;
        }
        let (size, reads) = (self.options.size, self.options.reads);
        let agents = u64::from(self.options.agents());
        let whole: u64 = slices.iter().map(|s| s.len.div_ceil(size)).sum();
        let holders: u64 = slices.iter().filter(|s| s.len > 0).count() as u64;
        let random_bytes: u64 = slices.iter().map(|s| s.len.min(size) * u64::from(reads)).sum();
        let total: u64 = slices.iter().map(|s| s.len).sum();
        (self.on_event)(Event::Planned {
            reads: agents * (whole + holders * u64::from(reads)),
            bytes: agents * (total + random_bytes),
        });
        let patience = lapse(self.options.deadline).0;
        let order = ReadOrder { size, reads, seed: self.options.seed, patience };

        self.enter(Phase::Slices);
        let began = driver::now();
        self.ask(self.agents(), ops::SLICES, 1, &order.to_body(), |run, peer, body| {
            run.take_results(peer, body, |_, rank| digests.slices.get(rank.index()).copied())
        })?;
        self.enter(Phase::Random);
        let (path, _) = self.launcher.input();
        let input = |error| JobError::Input { path: path.to_owned(), error };
        let file = File::open(path).map_err(input)?;
        let mut random = Vec::new();
        self.ask(self.agents(), ops::RANDOM, 2, &order.to_body(), |_, peer, body| {
            random.push((peer, body.to_vec()));
            Ok(())
        })?;
        self.results.reading = Duration::from_nanos(driver::now().since(began).0);
        let slices: Vec<_> = (0..self.options.world_size()).map(|rank| self.launcher.slice(WorldRank(rank))).collect();
        let agents = self.options.agents();
        let digesting =
            Digesting::start(move || digest_all_random(&file, &slices, agents, order)).map_err(no_thread)?;
        let expected = self.listen_until(digesting)?;
        for (peer, body) in random {
            self.take_results(peer, &body, |reader, rank| expected.get(&(reader, rank)).copied())?;
        }
        for path in DataPath::ALL.into_iter().filter(|path| *path != DataPath::Auto) {
            self.ask(self.agents(), ops::LATENCY, path as u64, &[], |run, peer, body| {
                run.take_paths(peer, body).ok_or(JobError::BadAnswer(peer))
            })?;
        }
        Ok(())
    }

    fn take_results(
        &mut self,
        peer: Peer,
        body: &[u8],
        expected: impl Fn(Sp, WorldRank) -> Option<[u8; 32]>,
    ) -> Result<(), JobError> {
        let bad = |_| JobError::BadAnswer(peer);
        let PeerKind::Service(reader) = peer.kind() else { return Err(JobError::BadAnswer(peer)) };
        let mut r = Reader::new(body);
        let totals = ReadTotals::get(&mut r).map_err(bad)?;
        let results = ReadResult::list_from_body(r.rest()).map_err(bad)?;
        self.results.lookups += totals.lookups;
        let mut seen = BTreeSet::new();
        for result in &results {
            seen.insert(result.rank);
            self.results.reads += result.reads;
            self.results.bytes += result.bytes;
            self.results.failed += result.failed;
            let what = if result.failed > 0 {
                format!("{} failed: {}", counted(result.failed, "read", "reads"), result.status)
            } else if expected(reader, result.rank) != Some(result.digest) {
                "digest of the bytes differs from the file's".to_owned()
            } else {
                continue;
            };
            self.results.mismatches.push(Mismatch { reader, rank: result.rank, what });
        }
        // Who does not answer for a rank has not read it.
        for rank in (0..self.options.world_size()).map(WorldRank).filter(|r| !seen.contains(r)) {
            self.results.mismatches.push(Mismatch { reader, rank, what: "was not read".to_owned() });
        }
        if totals.contradictions > 0 {
            let what = format!("{} look-ups contradicted each other", totals.contradictions);
            self.results.mismatches.push(Mismatch { reader, rank: WorldRank(0), what });
        }
        Ok(())
    }

    fn take_paths(&mut self, _: Peer, body: &[u8]) -> Option<()> {
        let mut r = Reader::new(body);
        while !r.rest().is_empty() {
            let totals = PathTotals::get(&mut r).ok()?;
            let path = DataPath::ALL.into_iter().find(|p| *p as u8 == totals.path)?;
            let outcome = self.results.paths.entry((path, totals.own_rank)).or_insert_with(|| PathOutcome {
                path,
                own_rank: totals.own_rank,
                reads: 0,
                bytes: 0,
                busy: Duration::ZERO,
                latency: Latency::default(),
            });
            outcome.reads += totals.reads;
            outcome.bytes += totals.bytes;
            outcome.busy += Duration::from_nanos(totals.busy);
            for _ in 0..totals.pairs {
                outcome.latency.record(r.u64().ok()?, r.u64().ok()?).ok()?;
            }
        }
        Some(())
    }
}
