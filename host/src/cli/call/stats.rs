//! `umbra call stats`: the counters of agents, and what they make together.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;
use umbra::admin::{Body as _, Figures, ops};
use umbra::call::{self, tell};
use umbra::quantity::{Bytes, Count, Nanos};
use umbra_core::chain::Node;

use super::super::table::{Set, Table};
use super::super::{Failure, Out};

/// The name by which the shell knows it.
pub(super) const NAME: &str = "stats";

/// The header of the call over so many members, whose reply has so much room.
pub(super) fn question(members: usize, room: u32) -> Result<[u8; 6], Failure> {
    let most = room as usize / tell::needed(Figures::BYTES);
    if members > most {
        return Err(Failure::usage(format!(
            "{members} members do not fit into one answer, at most {most} do: name a part of them with --members"
        )));
    }
    Ok(tell::question(ops::FIGURES.0, members, room))
}

/// What one agent told.
#[derive(Debug)]
pub(super) struct Row {
    service_process: u32,
    figures: Figures,
}

/// What the agents told, in the order of their numbers: each once, however many of its members were asked.
pub(super) fn rows(place: impl Fn(Node) -> u32, reply: &[u8]) -> Result<Vec<Row>, Failure> {
    let mut rows = BTreeMap::new();
    for told in tell::told(reply) {
        let figures = Figures::from_body(told.bytes).map_err(|_| {
            Failure::failed(format!("the answer of member {} is malformed: is it of one build?", told.node))
        })?;
        rows.entry(place(told.node)).or_insert(figures);
    }
    Ok(rows.into_iter().map(|(service_process, figures)| Row { service_process, figures }).collect())
}

/// The same for members of a station.
pub(super) fn rows_at(shape: call::Shape, reply: &[u8]) -> Result<Vec<Row>, Failure> {
    rows(|node| shape.place(node), reply)
}

fn together(rows: &[Row]) -> Figures {
    rows.iter().fold(Figures::default(), |sum, row| sum.with(&row.figures))
}

/// The answer for programs.
#[derive(Serialize, Debug)]
pub(super) struct Answer {
    service_processes: Vec<Object>,
    together: BTreeMap<&'static str, u64>,
}

#[derive(Serialize, Debug)]
struct Object {
    service_process: u32,
    #[serde(flatten)]
    figures: BTreeMap<&'static str, u64>,
}

impl Answer {
    pub(super) fn of(rows: &[Row]) -> Answer {
        let named = |figures: &Figures| Figures::NAMES.iter().copied().zip(figures.words()).collect();
        let object = |row: &Row| Object { service_process: row.service_process, figures: named(&row.figures) };
        Answer { service_processes: rows.iter().map(object).collect(), together: named(&together(rows)) }
    }
}

/// Prints a row for each agent, and one for all of them if they are several.
pub(super) fn print(out: Out<'_>, rows: &[Row]) -> io::Result<()> {
    let mut table = Table::new(&[
        ("service process", Set::Left),
        ("runs for", Set::Right),
        ("ranks", Set::Right),
        ("links", Set::Right),
        ("full", Set::Right),
        ("of groups", Set::Right),
        ("reads", Set::Right),
        ("read", Set::Right),
        ("reads served", Set::Right),
        ("served", Set::Right),
        ("call messages", Set::Right),
        ("wakes", Set::Right),
    ]);
    let count = |number: u64| Count(number).to_string();
    let mut row = |name: String, figures: &Figures| {
        table.row([
            name,
            Nanos(figures.uptime_ms.saturating_mul(1_000_000)).to_string(),
            count(figures.ranks),
            count(figures.links),
            count(figures.groups_full),
            count(figures.groups),
            count(figures.reads),
            Bytes(figures.read_bytes).to_string(),
            count(figures.served),
            Bytes(figures.served_bytes).to_string(),
            count(figures.call_messages),
            count(figures.wakeups),
        ]);
    };
    rows.iter().for_each(|one| row(one.service_process.to_string(), &one.figures));
    if rows.len() > 1 {
        row("together".to_owned(), &together(rows));
    }
    table.print(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(node: u32, figures: Figures) -> Vec<u8> {
        let body = figures.to_body();
        let len = body.len() as u32 + 1;
        [&node.to_le_bytes()[..], &len.to_le_bytes(), &[0], &body].concat()
    }

    #[test]
    fn agents_count_once_in_the_order_of_their_numbers_and_together() {
        let one = Figures { uptime_ms: 5, groups: 3, reads: 10, wakeups: 1, ..Figures::default() };
        let other = Figures { uptime_ms: 9, groups: 2, reads: 32, ..Figures::default() };
        let reply = [told(16, other), told(1, one), told(0, one)].concat();
        let rows = rows(|node| node.0 / 16, &reply).unwrap();
        assert_eq!(rows.iter().map(|row| row.service_process).collect::<Vec<_>>(), [0, 1]);
        let expected = Figures { uptime_ms: 9, groups: 3, reads: 42, wakeups: 1, ..Figures::default() };
        assert_eq!(together(&rows), expected);
        let object = serde_json::to_value(Answer::of(&rows)).unwrap();
        assert_eq!((&object["together"]["reads"], &object["service_processes"][1]["reads"]), (&42.into(), &32.into()));
        let mut text = Vec::new();
        print(&mut text, &rows).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.lines().count() == 4 && text.contains("together"), "{text}");
    }

    #[test]
    fn answers_that_were_cut_or_do_not_fit_are_refused() {
        let mut reply = told(0, Figures::default());
        reply.pop();
        reply[4] -= 1;
        assert!(rows(|_| 0, &reply).is_err());
        assert!(question(48, 6144).is_ok() && question(64, 6144).is_err());
    }
}
