//! The agents of the job here: what one call over all of them tells at each look.

use std::time::Instant;

use serde::Serialize;
use umbra::admin::{Body as _, Figures, ops};
use umbra::quantity::Nanos;
use umbra_core::time::Lapse;

use super::super::Failure;
use super::super::gather::{Agents, Told};
use super::super::reach::Reach;
use super::super::table::Set;
use super::row::{Cell, Section};
use super::view::per_second;

/// An agent at one moment.
#[derive(Clone, Debug)]
pub(super) struct SeenAgent {
    at: Instant,
    sp: u32,
    dpu: String,
    figures: Result<Figures, String>,
    is_called: bool,
}

/// The agents that are looked at again and again.
pub(super) struct Watched<'a> {
    reach: &'a Reach,
    is_named: bool,
    patience: Lapse,
    agents: Option<Agents>,
}

impl Watched<'_> {
    /// The job that is named, else the only one that runs here, as soon as there is one.
    pub(super) fn new(reach: &Reach, patience: Lapse) -> Watched<'_> {
        Watched { reach, is_named: reach.is_named(), patience, agents: None }
    }

    pub(super) fn look(&mut self) -> Result<Vec<SeenAgent>, Failure> {
        if self.agents.is_none() {
            match self.reach.site() {
                Ok(site) => self.agents = Some(Agents::new(site, self.patience)),
                Err(failure) if self.is_named => return Err(failure),
                Err(_) => {}
            }
        }
        let Some(agents) = &mut self.agents else { return Ok(Vec::new()) };
        let at = Instant::now();
        let told = agents.ask(ops::FIGURES)?;
        let seen = told.into_iter().map(|Told { target, answer, passed_by }| SeenAgent {
            at,
            sp: target.sp.0,
            dpu: agents.site.dpu(target.sp),
            figures: answer
                .map_err(|error| error.to_string())
                .and_then(|body| Figures::from_body(&body).map_err(|_| "its answer is malformed".to_owned())),
            is_called: passed_by.is_none(),
        });
        let seen: Vec<SeenAgent> = seen.collect();
        if !self.is_named && seen.iter().all(|agent| agent.figures.is_err()) {
            // The job is over; another one may come.
            self.agents = None;
            return Ok(Vec::new());
        }
        Ok(seen)
    }
}

/// An agent as it is shown.
#[derive(Serialize, Debug)]
pub(super) struct AgentRow {
    service_process: u32,
    dpu: String,
    /// `call` if a call over all agents brought its figures, `link` if it was asked by itself.
    asked: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    uptime_ms: u64,
    ranks: u64,
    links: u64,
    groups: u64,
    groups_full: u64,
    reads_per_second: Option<f64>,
    read_bytes_per_second: Option<f64>,
    served_per_second: Option<f64>,
    served_bytes_per_second: Option<f64>,
    call_messages_per_second: Option<f64>,
    wakeups_per_second: Option<f64>,
}

/// What two looks say.
pub(super) fn rows(now: &[SeenAgent], before: &[SeenAgent]) -> Vec<AgentRow> {
    let row = |one: &SeenAgent| {
        let figures = one.figures.clone().unwrap_or_default();
        let same = |old: &&SeenAgent| {
            let lives_on = old.figures.as_ref().is_ok_and(|old| old.uptime_ms <= figures.uptime_ms);
            old.sp == one.sp && lives_on && one.figures.is_ok()
        };
        let old = before.iter().find(same);
        let seconds = old.map(|old| one.at.duration_since(old.at).as_secs_f64());
        let old = old.and_then(|old| old.figures.clone().ok()).unwrap_or_default();
        let rate = |now, old| per_second(now, Some(old), seconds);
        AgentRow {
            service_process: one.sp,
            dpu: one.dpu.clone(),
            asked: if one.is_called { "call" } else { "link" },
            error: one.figures.as_ref().err().cloned(),
            uptime_ms: figures.uptime_ms,
            ranks: figures.ranks,
            links: figures.links,
            groups: figures.groups,
            groups_full: figures.groups_full,
            reads_per_second: rate(figures.reads, old.reads),
            read_bytes_per_second: rate(figures.read_bytes, old.read_bytes),
            served_per_second: rate(figures.served, old.served),
            served_bytes_per_second: rate(figures.served_bytes, old.served_bytes),
            call_messages_per_second: rate(figures.call_messages, old.call_messages),
            wakeups_per_second: rate(figures.wakeups, old.wakeups),
        }
    };
    now.iter().map(row).collect()
}

/// The table of agents.
pub(super) fn section(rows: &[AgentRow]) -> Section {
    let row = |one: &AgentRow| {
        let up = Nanos(one.uptime_ms.saturating_mul(1_000_000)).to_string();
        vec![
            Cell::text(format!("{} {}", one.service_process, one.dpu)),
            Cell::text(if one.error.is_none() { up } else { "no answer".to_owned() }),
            Cell::Count(one.ranks),
            Cell::Count(one.links),
            Cell::Count(one.groups_full),
            Cell::Count(one.groups),
            Cell::Rate(one.reads_per_second),
            Cell::ByteRate(one.read_bytes_per_second),
            Cell::Rate(one.served_per_second),
            Cell::ByteRate(one.served_bytes_per_second),
            Cell::Rate(one.wakeups_per_second),
            Cell::text(one.asked),
        ]
    };
    Section { title: "service processes", columns: COLUMNS, rows: rows.iter().map(row).collect() }
}

const COLUMNS: &[(&str, Set)] = &[
    ("service process", Set::Left),
    ("runs for", Set::Left),
    ("ranks", Set::Right),
    ("links", Set::Right),
    ("full", Set::Right),
    ("of groups", Set::Right),
    ("reads/s", Set::Right),
    ("read", Set::Right),
    ("served/s", Set::Right),
    ("served", Set::Right),
    ("wakes/s", Set::Right),
    ("asked by", Set::Left),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seen(at: Instant, uptime_ms: u64, reads: u64) -> SeenAgent {
        let figures = Ok(Figures { uptime_ms, reads, ..Figures::default() });
        SeenAgent { at, sp: 3, dpu: "bf1".to_owned(), figures, is_called: true }
    }

    #[test]
    fn rates_are_those_of_one_life() {
        let first = Instant::now();
        let then = first + Duration::from_secs(2);
        let before = [seen(first, 1000, 10)];
        assert_eq!(rows(&[seen(then, 3000, 30)], &before)[0].reads_per_second, Some(10.0));
        assert_eq!(rows(&[seen(then, 500, 30)], &before)[0].reads_per_second, None, "it was started anew");
        let dead = SeenAgent { figures: Err("gone".to_owned()), ..seen(then, 0, 0) };
        let row = &rows(&[dead], &before)[0];
        assert_eq!((row.reads_per_second, row.error.as_deref()), (None, Some("gone")));
        assert_eq!(section(std::slice::from_ref(row)).rows[0][1], Cell::text("no answer"));
    }
}
