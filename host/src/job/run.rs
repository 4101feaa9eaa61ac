//! The whole job, from the first process to the check for leftovers.

mod gather;
mod tables;

use gather::Results;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::time::Duration;

use umbra_core::error::Status;
use umbra_core::peer::{Peer, PeerKind, Sp, WorldRank};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{Op, Token};

use super::grid::{self, Grid};
use super::launcher::{Launcher, News};
use super::leftovers;
use super::verify::{Digesting, Digests, digest_slices};
use super::{
    Event, GroupOutcome, JobError, Latency, Leftover, Milestone, Options, Outcome, PathOutcome, Phase, Process, Step,
    TableOutcome,
};
use crate::admin::{Exported, Mark, ops};
use crate::driver;

/// How often somebody looks whether digests are computed.
const PAUSE: Lapse = Lapse::from_millis(2);

/// Runs a job as asked and tells how it ended; `on_event` hears what happens meanwhile.
///
/// # Errors
/// [`JobError`] if it did not come to its end; all processes are gone and all files removed then too. Bytes that
/// differ and reads that fail are no errors but part of the [`Outcome`].
pub fn run(options: &Options, on_event: &mut dyn FnMut(Event)) -> Result<Outcome, JobError> {
    let launcher = Launcher::new(options)?;
    let (path, bytes) = launcher.input();
    on_event(Event::Input { path: path.to_owned(), bytes, named: options.input.is_some() });
    let lens: Vec<u64> = (0..options.world_size()).map(|r| launcher.slice(WorldRank(r)).1).collect();
    let path = path.to_owned();
    let digesting = Digesting::start(move || digest_slices(&path, &lens)).map_err(no_thread)?;
    let mut run = Run {
        options,
        on_event,
        launcher,
        phase: Phase::Agents,
        timeline: Vec::new(),
        exported: BTreeMap::new(),
        results: Results::default(),
    };
    run.start()?;
    let digests = run.listen_until(digesting)?;
    run.read(&digests)?;
    let tables = run.compare_tables()?;
    run.leave()?;
    run.finish(digests, tables)
}

struct Run<'a> {
    options: &'a Options,
    on_event: &'a mut dyn FnMut(Event),
    launcher: Launcher,
    phase: Phase,
    timeline: Vec<(Time, Peer, Mark)>,
    exported: BTreeMap<WorldRank, Exported>,
    results: Results,
}

impl Run<'_> {
    fn grid(&self) -> Grid {
        Grid { hosts: self.options.hosts(), ranks: self.options.ranks }
    }

    fn agents(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..self.options.agents()).filter_map(|sp| Peer::service(Sp(sp)))
    }

    /// Agents that were started here.
    fn own_agents(&self) -> BTreeSet<Peer> {
        self.agents().filter(|&peer| self.launcher.pid(peer).is_some()).collect()
    }

    fn ranks(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..self.options.world_size()).filter_map(|rank| Peer::rank(WorldRank(rank)))
    }

    fn at(&self, time: Time) -> Duration {
        Duration::from_nanos(time.since(self.launcher.start()).0)
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        let at = self.at(driver::now());
        (self.on_event)(Event::Phase { phase, at });
    }

    /// Starts everything and waits until every rank has exported its slice.
    fn start(&mut self) -> Result<(), JobError> {
        self.enter(Phase::Agents);
        for sp in (0..self.options.agents()).map(Sp) {
            if self.launcher.starts(sp) {
                let pid = self.launcher.start_agent(sp)?;
                self.started(Peer::service(sp), pid);
            } else {
                self.launcher.link_agent(sp)?;
            }
        }
        let own = self.own_agents();
        self.wait_for(self.agents().collect(), |news| match news {
            News::Mark(peer, mark) if mark.step == Step::Listening as u8 => Some(*peer),
            News::Linked(peer) if !own.contains(peer) => Some(*peer),
            _ => None,
        })?;
        let running: Vec<Peer> = self.agents().filter(|peer| !own.contains(peer)).collect();
        self.ask(running.into_iter(), ops::STATUS, 4, &[], |_, peer, body| {
            let text = String::from_utf8_lossy(body);
            let groups = text.lines().find_map(|line| line.strip_prefix("groups "));
            if groups == Some("0") { Ok(()) } else { Err(JobError::Used(peer)) }
        })?;
        self.enter(Phase::World);
        for rank in (0..self.options.world_size()).map(WorldRank) {
            let pid = self.launcher.start_rank(rank)?;
            self.started(Peer::rank(rank), pid);
        }
        self.wait_for(self.ranks().collect(), |news| match news {
            News::Mark(peer, mark) if mark.step == Step::Full as u8 && mark.group == Some(grid::WORLD) => Some(*peer),
            _ => None,
        })?;
        self.wait_for_tables()?;
        self.enter(Phase::Groups);
        let already: BTreeSet<Peer> = self.exported.keys().filter_map(|&r| Peer::rank(r)).collect();
        let missing = self.ranks().filter(|peer| !already.contains(peer)).collect();
        self.wait_for(missing, |news| match news {
            News::Exported(rank, _) => Peer::rank(*rank),
            _ => None,
        })
    }

    fn started(&mut self, peer: Option<Peer>, pid: u32) {
        let Some(peer) = peer else { return };
        let now = driver::now();
        let mark = Mark { at: now, step: Step::Started as u8, group: None, value: 0 };
        self.timeline.push((now, peer, mark));
        let at = self.at(now);
        (self.on_event)(Event::Started { process: Process { peer, pid }, at });
    }

    /// Waits until `which` has named every peer of `missing`. The deadline counts from the last news; that one makes progress
    /// is news only of that one, so it counts from when all of them have last made some.
    fn wait_for(
        &mut self,
        mut missing: BTreeSet<Peer>,
        mut which: impl FnMut(&News) -> Option<Peer>,
    ) -> Result<(), JobError> {
        let mut silent = missing.clone();
        let mut deadline = driver::now() + lapse(self.options.deadline);
        while !missing.is_empty() {
            let Some(news) = self.launcher.next(deadline)? else {
                let missing = silent.into_iter().collect();
                return Err(JobError::Timeout { phase: self.phase, after: self.options.deadline, missing });
            };
            if let Some(peer) = which(&news) {
                missing.remove(&peer);
            }
            if let News::Progress(sp, _) = news {
                let _ = Peer::service(sp).map(|peer| silent.remove(&peer));
            } else {
                silent.clear();
            }
            if silent.is_empty() {
                silent.clone_from(&missing);
                deadline = driver::now() + lapse(self.options.deadline);
            }
            self.note(news)?;
        }
        Ok(())
    }

    /// Hears the processes until digests are computed: one that ends or gives up meanwhile ends the job at once.
    fn listen_until<T: Send + 'static>(&mut self, digesting: Digesting<T>) -> Result<T, JobError> {
        while !digesting.is_finished() {
            if let Some(news) = self.launcher.next(driver::now() + PAUSE)? {
                self.note(news)?;
            }
        }
        digesting.finish().map_err(|error| {
            let path = self.launcher.input().0.to_owned();
            match error.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::InvalidData => JobError::InputChanged(path),
                _ => JobError::Input { path, error },
            }
        })
    }

    /// Keeps what belongs to the outcome; a process that ends early or gives up ends the job.
    fn note(&mut self, news: News) -> Result<(), JobError> {
        match news {
            News::Mark(peer, mark) => {
                if mark.step == Step::Listening as u8 || mark.step == Step::Exported as u8 {
                    let at = self.at(mark.at);
                    (self.on_event)(Event::Ready { peer, at });
                }
                self.timeline.push((mark.at, peer, mark));
            }
            News::Exported(rank, exported) => {
                self.exported.insert(rank, exported);
            }
            News::Progress(sp, progress) => {
                if let Some(peer) = Peer::service(sp) {
                    (self.on_event)(Event::Progress { peer, reads: progress.reads, bytes: progress.bytes });
                }
            }
            News::Ended(peer, status) => {
                // Agents are asked to end, ranks end by themselves: both only in the last phase.
                if !(self.phase >= Phase::Leaving && status.success()) {
                    return Err(self.died(peer, status.to_string()));
                }
            }
            News::Lost(peer, why) => return Err(JobError::Link { peer, why }),
            News::Failed(peer, failure) => {
                // Whoever fails because another process died is not the news.
                let until = driver::now() + Lapse::from_millis(500);
                while failure.culprit.is_some()
                    && let Some(news) = self.launcher.next(until)?
                {
                    if let News::Ended(dead, status) = news
                        && Some(dead) == failure.culprit
                    {
                        return Err(self.died(dead, status.to_string()));
                    }
                }
                return Err(JobError::Failed { peer, failure });
            }
            News::Linked(_) | News::Answer { .. } => {}
        }
        Ok(())
    }

    fn died(&self, peer: Peer, how: String) -> JobError {
        JobError::Died { peer, phase: self.phase, how, words: self.launcher.last_words(peer) }
    }

    /// Sends `body` to every peer and hands the good answers to `take`.
    fn ask(
        &mut self,
        peers: impl Iterator<Item = Peer>,
        op: Op,
        token: u64,
        body: &[u8],
        mut take: impl FnMut(&mut Self, Peer, &[u8]) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        let missing: BTreeSet<Peer> = peers.collect();
        for &peer in &missing {
            self.launcher.call(peer, op, Token(token), body, Vec::new())?;
        }
        let mut answers = Vec::new();
        let mut refused = None;
        self.wait_for(missing, |news| match news {
            News::Answer { peer, op: o, token: t, status, body } if *o == op && t.0 == token => {
                if *status == Status::Ok {
                    answers.push((*peer, body.clone()));
                } else {
                    refused = Some((*peer, *status));
                }
                Some(*peer)
            }
            _ => None,
        })?;
        if let Some((peer, status)) = refused {
            let failure = crate::admin::Failure { status, culprit: None, text: status.to_string() };
            return Err(JobError::Failed { peer, failure });
        }
        answers.into_iter().try_for_each(|(peer, body)| take(self, peer, &body))
    }

    fn leave(&mut self) -> Result<(), JobError> {
        self.enter(Phase::Leaving);
        self.ask(self.ranks(), ops::LEAVE, 3, &[], |run, peer, body| {
            let wakeups = <[u8; 8]>::try_from(body).map_err(|_| JobError::BadAnswer(peer))?;
            let PeerKind::Rank(rank) = peer.kind() else { return Err(JobError::BadAnswer(peer)) };
            let before = run.exported.get(&rank).map_or(0, |e| e.wakeups);
            run.results.rank_wakeups += u64::from_le_bytes(wakeups).saturating_sub(before);
            Ok(())
        })?;
        let ended = |news: &News| match news {
            News::Ended(peer, _) => Some(*peer),
            _ => None,
        };
        // Some have ended while others still answered.
        let running = self.ranks().filter(|&rank| self.launcher.running_pid(rank).is_some()).collect();
        self.wait_for(running, ended)?;
        let own = self.own_agents();
        for &peer in &own {
            self.launcher.terminate(peer);
        }
        self.wait_for(own, ended)
    }

    fn finish(mut self, digests: Digests, tables: Vec<TableOutcome>) -> Result<Outcome, JobError> {
        self.enter(Phase::Leftovers);
        let leftovers: Vec<Leftover> = leftovers::find(&self.launcher);
        let start = self.launcher.start();
        let elapsed = self.at(driver::now());
        let grid = self.grid();
        self.timeline.sort_by_key(|&(at, peer, _)| (at, peer));
        let groups = std::iter::once(grid::WORLD)
            .chain(grid.groups())
            .filter_map(|group| {
                let (name, members) = grid.group(group)?;
                let about = || self.timeline.iter().filter(move |(_, _, mark)| mark.group == Some(group));
                let full = about().filter(|(_, _, mark)| mark.step == Step::Full as u8);
                let first = about().map(|(at, ..)| *at).min().unwrap_or(start);
                let last = full.clone().map(|(at, ..)| *at).max().unwrap_or(first);
                let table_bytes = full.map(|(_, _, mark)| mark.value).max().unwrap_or(0);
                let time_to_full = Duration::from_nanos(last.since(first).0);
                Some(GroupOutcome { name, members, time_to_full, table_bytes })
            })
            .collect();
        let full_everywhere = self
            .timeline
            .iter()
            .filter(|(_, _, mark)| mark.step == Step::Full as u8 && mark.group == Some(grid::WORLD));
        let time_to_full = self.at(full_everywhere.map(|(at, ..)| *at).max().unwrap_or(start));
        let timeline = self
            .timeline
            .iter()
            .filter_map(|(at, peer, mark)| {
                let step = Step::from_code(mark.step)?;
                let group = mark.group.and_then(|g| grid.group(g)).map(|(name, _)| name);
                Some(Milestone { at: self.at(*at), peer: *peer, group, step })
            })
            .collect();
        let paths: Vec<PathOutcome> = self.results.paths.into_values().filter(|p| p.reads > 0).collect();
        let mut latency = Latency::default();
        for path in &paths {
            // What one histogram took, another one takes.
            let _ = latency.add(&path.latency);
        }
        let (input, input_bytes) = self.launcher.input();
        Ok(Outcome {
            hosts: self.options.hosts(),
            service_processes: self.options.agents(),
            agents_elsewhere: self.options.agents_elsewhere(),
            ranks: self.options.world_size(),
            data_path: self.options.data_path,
            input: input.to_owned(),
            input_bytes,
            digest: digests.whole,
            time_to_full,
            elapsed,
            groups,
            tables,
            lookups: self.results.lookups,
            reads: self.results.reads,
            failed_reads: self.results.failed,
            bytes: self.results.bytes,
            reading: self.results.reading,
            rank_wakeups: self.results.rank_wakeups,
            mismatches: self.results.mismatches,
            latency,
            paths,
            timeline,
            leftovers,
        })
    }
}

fn no_thread(error: io::Error) -> JobError {
    JobError::Io { what: "start a thread", error }
}

fn lapse(duration: Duration) -> Lapse {
    Lapse(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_process_that_dies_while_digests_are_computed_ends_the_job() {
        let dies = Some("/bin/false".into());
        let input = std::env::current_exe().ok();
        let options = Options {
            hosts: 1,
            service_processes: 1,
            ranks: 1,
            input,
            agent: dies.clone(),
            rank: dies,
            ..Options::default()
        };
        let mut run = Run {
            options: &options,
            on_event: &mut |_| {},
            launcher: Launcher::new(&options).unwrap(),
            phase: Phase::Agents,
            timeline: Vec::new(),
            exported: BTreeMap::new(),
            results: Results::default(),
        };
        run.launcher.start_agent(Sp(0)).unwrap();
        let (end, ends) = mpsc::channel::<()>();
        let digesting = Digesting::start(move || Ok(ends.recv_timeout(Duration::from_secs(20)))).unwrap();
        let error = run.listen_until(digesting).unwrap_err();
        assert!(matches!(error, JobError::Died { peer, .. } if Some(peer) == Peer::service(Sp(0))), "{error}");
        drop(end);
    }
}
