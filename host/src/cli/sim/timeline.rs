//! What happened when in a simulated job, one line a happening.

use std::collections::HashSet;

use serde::Serialize;
use umbra::quantity::Nanos;
use umbra::sim::{Happening, Outcome};
use umbra_core::endpoints::GroupKey;
use umbra_core::group::message::WORLD;
use umbra_core::group::{Stage, member, service};
use umbra_core::id::Generation;
use umbra_core::peer::Sp;

use super::super::table::{Set, Table};

/// One line.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub(super) struct Line {
    at_ns: u64,
    who: String,
    what: String,
}

/// What is worth telling of what was kept, in the order in which it happened.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let mut complete = HashSet::new();
    let line = |(at, happening): &(umbra_core::time::Time, Happening)| {
        let (who, what) = match happening {
            Happening::Fault(fault) => ("script".to_owned(), Some(fault.to_string())),
            Happening::Service(sp, event) => (format!("service process {sp}"), of_service(*sp, event, &mut complete)),
            Happening::Rank(rank, event) => (format!("rank {rank}"), of_rank(event)),
        };
        Some(Line { at_ns: at.0, who, what: what? })
    };
    let mut lines: Vec<Line> = outcome.timeline.iter().filter_map(line).collect();
    lines.sort_by_key(|line| line.at_ns);
    lines
}

/// The lines as a table.
pub(super) fn table(lines: &[Line]) -> Table {
    let mut table = Table::new(&[("virtual time", Set::Right), ("who", Set::Left), ("what", Set::Left)]);
    for Line { at_ns, who, what } in lines {
        table.row([Nanos(*at_ns).to_string(), who.clone(), what.clone()]);
    }
    table
}

/// A group as a reader can tell it from others.
fn group(key: GroupKey, generation: Generation) -> String {
    let name = if key == WORLD { "the world".to_owned() } else { format!("group {:08x}", key.0 >> 96) };
    match generation.0 {
        0 | 1 => name,
        later => format!("{name}, generation {later},"),
    }
}

fn of_service(sp: Sp, event: &service::Event, complete: &mut HashSet<(Sp, GroupKey, Generation)>) -> Option<String> {
    Some(match *event {
        service::Event::RankConnected { rank, shadow: 0, .. } => format!("rank {rank} has joined"),
        service::Event::RankRefused { rank, status, .. } => format!("rank {rank} is refused: {status}"),
        service::Event::RankDied { rank } => format!("rank {rank} counts as dead"),
        // Whoever has no more to wait for goes on to the exchange at once.
        service::Event::Stage { key, generation, stage: Stage::LocalDone | Stage::Exchanging }
            if complete.insert((sp, key, generation)) =>
        {
            format!("{} is complete here", group(key, generation))
        }
        service::Event::Stage { key, generation, stage: Stage::Revoking } => {
            format!("{} is revoked", group(key, generation))
        }
        service::Event::Full { key, generation, size, .. } => {
            format!("{} is full: {size} {}", group(key, generation), if size == 1 { "rank" } else { "ranks" })
        }
        service::Event::Ended { key, generation, cause } => {
            format!("{} has ended: {cause}", group(key, generation))
        }
        service::Event::PeerFailed { sp, .. } => format!("service process {sp} counts as dead"),
        service::Event::PeerRestarted { sp, .. } => format!("service process {sp} is back in another life"),
        service::Event::Fenced => "learns that it counts as dead".to_owned(),
        _ => return None,
    })
}

fn of_rank(event: &member::Event) -> Option<String> {
    Some(match *event {
        member::Event::Ready { key, generation, .. } => format!("{} is ready", group(key, generation)),
        member::Event::Ended { key, generation, cause } => {
            format!("{} has ended: {cause}", group(key, generation))
        }
        member::Event::Refused { key, status, .. } => {
            format!("{} is refused: {status}", group(key, Generation::FIRST))
        }
        member::Event::ServiceLost { .. } => "misses its service process".to_owned(),
        _ => return None,
    })
}
