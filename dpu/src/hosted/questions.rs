//! Questions of tools: how the agent is, which groups it has, what it waits for.

use std::fmt::Write as _;

use umbra::admin::{Body as _, Figures, ops};
use umbra::driver::LinkId;
use umbra::job::grid;
use umbra::quantity::counted;
use umbra_core::codec::Reader;
use umbra_core::endpoints::{Group, LookupError};
use umbra_core::error::Status;
use umbra_core::group::message::WORLD;
use umbra_core::group::service::GroupReport;
use umbra_core::group::{Shelf as _, Stage};
use umbra_core::id::Id;
use umbra_core::peer::{Rank, Sp};
use umbra_core::wire::{Op, Token};

use super::process::Process;

/// Bytes of a table in one answer.
const DUMP_MAX: usize = 32 * 1024;
/// Bytes of a longer text that are told, so that the answer finds room on a link that nobody has read for a while.
const TEXT_MAX: usize = 512 * 1024;

impl Process {
    pub(super) fn on_question(&mut self, link: LinkId, op: Op, token: Token, body: &[u8]) {
        let answer = match op {
            ops::DUMP => self.dump(body),
            ops::LOOKUP => self.entry_of(body),
            _ => self.knows(op).ok_or(Status::Malformed),
        };
        match answer {
            Ok(body) => self.done_whole(link, op, token, &body),
            Err(status) => self.done(link, op, token, status, &[]),
        }
    }

    /// What it tells about itself, whether a tool asks over its link or by a call over all agents. `None`: nothing of that.
    pub(super) fn knows(&mut self, op: Op) -> Option<Vec<u8>> {
        match op {
            ops::STATUS => Some(self.status().into_bytes()),
            ops::GROUPS => Some(shortened(self.groups(), TEXT_MAX).into_bytes()),
            ops::DOCTOR => Some(shortened(self.complaints(), TEXT_MAX).into_bytes()),
            ops::FIGURES => Some(self.figures().to_body()),
            _ => None,
        }
    }

    fn figures(&mut self) -> Figures {
        let served = self.machines.agent.serve().counters();
        let group = self.machines.agent.group();
        let crossed = self.calls.as_ref().map(|calls| calls.border.crossings()).unwrap_or_default();
        Figures {
            uptime_ms: umbra::driver::now().since(self.started).0 / 1_000_000,
            ranks: group.connected().count() as u64,
            links: self.links.len() as u64,
            groups: group.counters().groups,
            groups_full: group.counters().full,
            reads: self.progress.reads + self.for_ranks.0,
            read_bytes: self.progress.bytes + self.for_ranks.1,
            served: served.served,
            served_bytes: served.bytes,
            call_messages: crossed.sent + crossed.received,
            wakeups: self.driver.wakeups(),
        }
    }

    /// One line `name value` for each figure.
    fn status(&mut self) -> String {
        let mut text = String::new();
        let uptime = umbra::driver::now().since(self.started).0 / 1_000_000;
        let served = self.machines.agent.serve().counters();
        let group = self.machines.agent.group();
        let counters = *group.counters();
        let connected = group.connected().count() as u64;
        let regions = self.machines.agent.serve().regions().iter().count() as u64;
        let mut line = |name: &str, value: u64| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {value}");
        };
        line("service_process", u64::from(self.settings.sp.0));
        line("uptime_ms", uptime);
        line("links", self.links.len() as u64);
        line("links_to_services", self.routes.len() as u64);
        line("ranks_connected", connected);
        line("regions", regions);
        line("groups", counters.groups);
        line("groups_full", counters.full);
        line("groups_ended", counters.ended);
        line("groups_timed_out", counters.timeouts);
        line("slowest_to_full_us", counters.slowest.0 / 1000);
        line("frames_received", counters.received);
        line("malformed", counters.malformed + served.malformed);
        line("duplicates_dropped", counters.duplicates);
        line("stale_dropped", counters.stale + counters.stale_peer);
        line("conflicts", counters.conflicts);
        line("foreign", counters.foreign);
        line("refused", counters.refused);
        line("no_room", counters.no_room);
        line("repeats", counters.repeats);
        line("ranks_died", counters.ranks_died);
        line("services_failed", counters.peers_failed);
        line("bootstrap_messages_sent", counters.messages_to_services + counters.messages_to_ranks);
        line("bootstrap_bytes_sent", counters.bytes_to_services + counters.bytes_to_ranks);
        line("reads_served", served.served);
        line("bytes_served", served.bytes);
        line("requests_refused", served.refused);
        line("copies_mapped", self.copies.mapped);
        line("copies_process", self.copies.process);
        line("copies_rdma", self.rdma.copies);
        line("queue_pairs", self.rdma.card.as_mut().map_or(0, super::card::Card::queue_pairs) as u64);
        line("regions_opened_for_others", self.rdma.grants.len() as u64);
        line("regions_orphaned", self.rdma.orphans);
        line("reads_made", self.progress.reads);
        line("bytes_read", self.progress.bytes);
        line("reads_failed", self.failed);
        line("reads_for_ranks", self.for_ranks.0);
        line("bytes_for_ranks", self.for_ranks.1);
        for (name, value) in self.staging.figures() {
            line(name, value);
        }
        if let Some(calls) = &self.calls {
            let crossed = calls.border.crossings();
            line("call_messages_sent", crossed.sent);
            line("call_messages_received", crossed.received);
            line("call_requests_refused", crossed.refused);
            line("call_messages_stale", crossed.stale);
            line("call_messages_lost", crossed.lost);
            line("call_bytes_given", crossed.given_bytes);
            line("call_bytes_fetched", crossed.fetched_bytes);
        }
        line("wakeups", self.driver.wakeups());
        for (status, count) in &self.failures {
            line(&format!("reads_failed{{{status:?}}}"), *count);
        }
        text
    }

    fn groups(&self) -> String {
        let mut text = String::new();
        for report in self.machines.agent.group().reports() {
            let name = self.title(&report);
            let GroupReport { generation, stage, size, digest, .. } = report;
            let _ = write!(text, "{name}: generation {}, {stage:?}, {size} ranks", generation.0);
            if let Some(handle) = report.handle {
                let _ = write!(text, ", handle {:#x}, digest {digest:016x}", handle.to_bits());
            }
            text.push('\n');
        }
        text
    }

    fn title(&self, report: &GroupReport) -> String {
        match report.handle.and_then(|handle| self.name_of(handle)) {
            Some(grid::WORLD) => "world".to_owned(),
            _ if report.key == WORLD => "world".to_owned(),
            Some((id, lead)) => format!("group {id} led by rank {lead}"),
            None => format!("group {:?}", report.key),
        }
    }

    /// What is missing, one line each; nothing if all is well.
    fn complaints(&self) -> String {
        let mut text = String::new();
        let group = self.machines.agent.group();
        let failed: Vec<Sp> = group.failed().collect();
        for sp in (0..self.settings.job.service_processes()).map(Sp).filter(|sp| *sp != self.settings.sp) {
            if failed.contains(&sp) {
                let _ = writeln!(text, "service process {sp} has failed");
            } else if !self.routes.contains_key(&sp) {
                let _ = writeln!(text, "no link to service process {sp}");
            }
        }
        if group.is_fenced() {
            text.push_str("the others have declared this service process dead: start it again\n");
        }
        let mut world_seen = false;
        for report in group.reports() {
            world_seen |= report.key == WORLD;
            let name = self.title(&report);
            let GroupReport { stage, missing, .. } = report;
            match (stage, report.cause) {
                (Stage::Collecting | Stage::LocalDone | Stage::Exchanging, _) => {
                    let _ = writeln!(text, "{name} is not full ({stage:?}): missing {missing}");
                }
                (Stage::Ended, Some(cause)) if cause.status != Status::Ok => {
                    let _ = writeln!(text, "{name} ended: {cause}");
                }
                _ => {}
            }
        }
        for (sp, why) in self.calls.iter().flat_map(|calls| &calls.apart) {
            let _ = writeln!(text, "no chained calls with service process {sp}: {why}");
        }
        if let Some(trouble) = &self.rdma.trouble {
            let _ = writeln!(text, "RDMA: {trouble}");
        }
        for (owner, why) in &self.rdma.refusals {
            let _ = writeln!(text, "RDMA: {owner}: {why}");
        }
        if !world_seen {
            text.push_str("no rank has come yet\n");
        }
        text
    }

    fn dump(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let mut r = Reader::new(body);
        let (handle, offset) =
            r.u64().and_then(|handle| Ok((Id::<Group>::from_bits(handle), r.u64()?))).map_err(|_| Status::Malformed)?;
        let shelf = self.machines.agent.group().shelf();
        let (len, _) = shelf.measure(handle).ok_or(Status::UnknownGroup)?;
        let offset = u32::try_from(offset).ok().filter(|o| o % 8 == 0).ok_or(Status::OutOfBounds)?;
        let mut bytes = vec![0; DUMP_MAX];
        let copied = shelf.copy(handle, offset, &mut bytes);
        bytes.truncate(copied);
        Ok([u64::from(len).to_le_bytes().as_slice(), &bytes].concat())
    }

    /// World rank, host, and all shadow service processes of a rank.
    fn entry_of(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let mut r = Reader::new(body);
        let (handle, rank) = r
            .u64()
            .and_then(|handle| Ok((Id::<Group>::from_bits(handle), Rank(r.u32()?))))
            .map_err(|_| Status::Malformed)?;
        let reader = self.tables().ok_or(Status::UnknownGroup)?;
        let entry = reader.ask(handle, |table| table.entry(rank)).map_err(|error| match error {
            LookupError::RankOutOfRange { .. } => Status::RankOutOfRange,
            LookupError::StaleGeneration => Status::StaleGeneration,
            _ => Status::UnknownGroup,
        })?;
        let mut out = Vec::new();
        for word in [entry.world_rank.0, entry.host.0].into_iter().chain(entry.shadows.iter().map(|sp| sp.0)) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        Ok(out)
    }
}

/// As many whole lines of a text as find room, and how many do not.
fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let told = text.as_bytes()[..most].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let left = text.split_off(told).lines().count();
        let _ = writeln!(text, "and {} more", counted(left as u64, "line", "lines"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let text = "one\ntwö\nthree\n";
        assert_eq!(shortened(text.to_owned(), text.len()), text);
        // In the middle of a character, too.
        for most in 9..15 {
            assert_eq!(shortened(text.to_owned(), most), "one\ntwö\nand 1 line more\n");
        }
        assert_eq!(shortened(text.to_owned(), 7), "one\nand 2 lines more\n");
        assert_eq!(shortened(text.to_owned(), 2), "and 3 lines more\n");
    }
}
