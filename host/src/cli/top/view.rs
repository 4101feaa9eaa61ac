//! What two looks say: figures, rates, and which process waits for what.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;
use umbra::quantity::Count;
use umbra::stream::{Class, Stage};

use super::super::table::{Set, Table};
use super::super::{Out, channel, paint, pool, stream};
use super::agents::{self, AgentRow};
use super::row::{Cell, Section};
use super::seen::Seen;

#[derive(Serialize, Debug)]
struct PoolRow {
    #[serde(flatten)]
    now: pool::Summary,
    /// Somebody waits until something is freed.
    awaited: bool,
    allocations_per_second: Option<f64>,
}

#[derive(Serialize, Debug)]
struct ChannelRow {
    #[serde(flatten)]
    now: channel::Summary,
    /// Processes that wait for a message.
    receivers: Vec<u32>,
    /// Somebody waits for room.
    room_awaited: bool,
    sent_per_second: Option<f64>,
    received_per_second: Option<f64>,
}

#[derive(Serialize, Debug)]
struct StreamRow {
    #[serde(flatten)]
    now: stream::Summary,
    /// Conversations that both ends are in.
    open: usize,
    conversations_per_second: Option<f64>,
    bytes_per_second: Option<f64>,
}

/// A process that uses something.
#[derive(Serialize, Default, Debug)]
struct ProcessRow {
    pid: u32,
    command: String,
    /// As the system says it.
    state: String,
    waits_for: Vec<String>,
    pools: usize,
    allocations: usize,
    channels: usize,
    streams: usize,
}

/// All of it.
#[derive(Serialize, Debug)]
pub(super) struct View {
    /// Between the two looks; `null` if there was one only.
    seconds: Option<f64>,
    pools: Vec<PoolRow>,
    channels: Vec<ChannelRow>,
    streams: Vec<StreamRow>,
    processes: Vec<ProcessRow>,
    service_processes: Vec<AgentRow>,
}

/// Times a second, of what a counter said before and says now; one that began anew counts from zero.
pub(super) fn per_second(now: u64, before: Option<u64>, seconds: Option<f64>) -> Option<f64> {
    let seconds = seconds.filter(|seconds| *seconds > 0.0)?;
    // What is new has counted since it was made, which was after the look before.
    Some(now.saturating_sub(before.unwrap_or(0)) as f64 / seconds)
}

impl View {
    pub(super) fn of(seen: &Seen, before: Option<&Seen>) -> View {
        let seconds = before.map(|before| seen.at.duration_since(before.at).as_secs_f64());
        let rate = |now, before| per_second(now, before, seconds);
        let pools = seen.pools.iter().map(|one| {
            let last = before.and_then(|all| all.pools.iter().find(|old| old.instance == one.instance));
            PoolRow {
                now: one.summary.clone(),
                awaited: one.is_awaited,
                allocations_per_second: rate(one.uses, last.map(|old| old.uses)),
            }
        });
        let channels = seen.channels.iter().map(|(name, one)| {
            let last = before.and_then(|all| all.channels.iter().find(|(_, old)| old.instance == one.instance));
            ChannelRow {
                now: channel::Summary { first: None, ..channel::Summary::of(name.clone(), one.clone()) },
                receivers: one.receivers.clone(),
                room_awaited: one.is_room_awaited,
                sent_per_second: rate(one.sent, last.map(|(_, old)| old.sent)),
                received_per_second: rate(one.taken, last.map(|(_, old)| old.taken)),
            }
        });
        let streams = seen.streams.iter().map(|(name, one)| {
            let last = before.and_then(|all| all.streams.iter().find(|(_, old)| old.instance == one.instance));
            let ended = |of: &umbra::stream::Snapshot| of.places.iter().map(|place| u64::from(place.ended)).sum();
            // The ring of a conversation begins at zero.
            let written = one.places.iter().enumerate().map(|(at, place)| {
                let old = last.and_then(|(_, old)| old.places.get(at)).filter(|old| old.ended == place.ended);
                place.written.saturating_sub(old.map_or(0, |old| old.written))
            });
            let is_open = |place: &&umbra::stream::Seen| matches!(place.stage, Stage::Open | Stage::Ended);
            StreamRow {
                now: stream::Summary::of(name.clone(), one),
                open: one.places.iter().filter(|place| place.class == Class::Stream).filter(is_open).count(),
                conversations_per_second: rate(ended(one), last.map(|(_, old)| ended(old))),
                bytes_per_second: rate(written.sum(), None),
            }
        });
        let (pools, channels, streams) = (pools.collect(), channels.collect(), streams.collect());
        let service_processes = agents::rows(&seen.agents, before.map_or(&[], |before| &before.agents));
        View { seconds, processes: processes(seen), pools, channels, streams, service_processes }
    }

    /// The tables that are shown.
    pub(super) fn sections(&self) -> [Section; 5] {
        let agents = agents::section(&self.service_processes);
        [self.pool_section(), self.channel_section(), self.stream_section(), self.process_section(), agents]
    }

    fn pool_section(&self) -> Section {
        let row = |one: &PoolRow| {
            let used = one.now.bytes.saturating_sub(one.now.free_bytes);
            vec![
                Cell::text(&one.now.name),
                Cell::Bytes(used),
                Cell::Bytes(one.now.bytes),
                Cell::Percent(100.0 * used as f64 / one.now.bytes.max(1) as f64),
                Cell::Count(one.now.allocations),
                Cell::Rate(one.allocations_per_second),
                Cell::text(if one.awaited { "for memory" } else { "" }),
                Cell::text(one.now.state()),
            ]
        };
        Section { title: "pools", columns: POOLS, rows: self.pools.iter().map(row).collect() }
    }

    fn channel_section(&self) -> Section {
        let row = |one: &ChannelRow| {
            let mut waits = Vec::new();
            if one.now.receiving > 0 {
                waits.push(format!("{} to receive", one.now.receiving));
            }
            if one.room_awaited {
                waits.push("for room".to_owned());
            }
            if one.now.at_barrier > 0 {
                waits.push(format!("{} at barrier", one.now.at_barrier));
            }
            vec![
                Cell::text(&one.now.channel),
                Cell::text(one.now.kind),
                Cell::Count(one.now.messages),
                Cell::Count(one.now.capacity.into()),
                Cell::Rate(one.sent_per_second),
                Cell::Rate(one.received_per_second),
                Cell::text(waits.join(", ")),
                Cell::text(super::super::found::used_by(&one.now.processes, one.now.destroyed)),
            ]
        };
        Section { title: "channels", columns: CHANNELS, rows: self.channels.iter().map(row).collect() }
    }

    fn stream_section(&self) -> Section {
        let row = |one: &StreamRow| {
            let mut waits = Vec::new();
            if one.now.waiting > 0 {
                waits.push(format!("{} to be heard", one.now.waiting));
            }
            if one.now.offered > 0 {
                waits.push(format!("{} to hear", one.now.offered));
            }
            vec![
                Cell::text(&one.now.streams),
                Cell::text(one.now.mode),
                Cell::Count(one.open as u64),
                Cell::Count(one.now.capacity.into()),
                Cell::Rate(one.conversations_per_second),
                Cell::ByteRate(one.bytes_per_second),
                Cell::text(waits.join(", ")),
                Cell::text(super::super::found::used_by(&one.now.processes, one.now.destroyed)),
            ]
        };
        Section { title: "streams", columns: STREAMS, rows: self.streams.iter().map(row).collect() }
    }

    fn process_section(&self) -> Section {
        let row = |one: &ProcessRow| {
            vec![
                Cell::text(one.pid.to_string()),
                Cell::text(&one.command),
                Cell::text(&one.state),
                Cell::text(one.waits_for.join(", ")),
                Cell::Count(one.pools as u64),
                Cell::Count(one.allocations as u64),
                Cell::Count(one.channels as u64),
                Cell::Count(one.streams as u64),
            ]
        };
        Section { title: "processes", columns: PROCESSES, rows: self.processes.iter().map(row).collect() }
    }

    /// As plain text.
    pub(super) fn print(&self, out: Out<'_>) -> io::Result<()> {
        for (at, mut section) in self.sections().into_iter().enumerate() {
            section.sort(0, false);
            if at > 0 {
                writeln!(out)?;
            }
            writeln!(out, "{} {}", paint::strong(section.title), Count(section.rows.len() as u64))?;
            if !section.rows.is_empty() {
                let mut table = Table::new(section.columns);
                section.rows.into_iter().for_each(|row| table.push(row.iter().map(Cell::to_string).collect()));
                table.print(out)?;
            }
        }
        Ok(())
    }
}

const POOLS: &[(&str, Set)] = &[
    ("pool", Set::Left),
    ("used", Set::Right),
    ("of", Set::Right),
    ("full", Set::Right),
    ("blocks", Set::Right),
    ("alloc/s", Set::Right),
    ("waits", Set::Left),
    ("used by", Set::Left),
];
const CHANNELS: &[(&str, Set)] = &[
    ("channel", Set::Left),
    ("for", Set::Left),
    ("holds", Set::Right),
    ("of", Set::Right),
    ("sent/s", Set::Right),
    ("received/s", Set::Right),
    ("waits", Set::Left),
    ("used by", Set::Left),
];
const STREAMS: &[(&str, Set)] = &[
    ("streams", Set::Left),
    ("mode", Set::Left),
    ("open", Set::Right),
    ("of", Set::Right),
    ("ended/s", Set::Right),
    ("written", Set::Right),
    ("waits", Set::Left),
    ("used by", Set::Left),
];
const PROCESSES: &[(&str, Set)] = &[
    ("pid", Set::Left),
    ("command", Set::Left),
    ("state", Set::Left),
    ("waits for", Set::Left),
    ("pools", Set::Right),
    ("blocks", Set::Right),
    ("channels", Set::Right),
    ("streams", Set::Right),
];

/// Who uses what, and waits for what.
fn processes(seen: &Seen) -> Vec<ProcessRow> {
    let mut all: BTreeMap<u32, ProcessRow> = BTreeMap::new();
    let of = |all: &mut BTreeMap<u32, ProcessRow>, pid: u32, note: &dyn Fn(&mut ProcessRow)| {
        note(all.entry(pid).or_insert_with(|| {
            let (command, state) = process(pid).unwrap_or_else(|| (String::new(), "gone".to_owned()));
            ProcessRow { pid, command, state, ..ProcessRow::default() }
        }));
    };
    for user in seen.pools.iter().flat_map(|pool| &pool.summary.processes) {
        of(&mut all, user.pid, &|row| {
            row.pools += 1;
            row.allocations += user.allocations;
        });
    }
    for (name, channel) in &seen.channels {
        for &(pid, _) in &channel.members {
            of(&mut all, pid, &|row| row.channels += 1);
        }
        for &pid in &channel.receivers {
            of(&mut all, pid, &|row| row.waits_for.push(format!("message in {name}")));
        }
    }
    for (name, streams) in &seen.streams {
        for &(_, pid, _) in &streams.members {
            of(&mut all, pid, &|row| row.streams += 1);
        }
        let pid = |number: Option<u16>| {
            let member = streams.members.iter().find(|member| Some(member.0) == number);
            member.map(|member| member.1)
        };
        for place in &streams.places {
            match (place.stage, pid(place.sender), pid(place.receiver)) {
                (Stage::Waits, Some(sender), _) => {
                    of(&mut all, sender, &|row| row.waits_for.push(format!("receiver in {name}")));
                }
                (Stage::Offered, _, Some(receiver)) => {
                    of(&mut all, receiver, &|row| row.waits_for.push(format!("sender in {name}")));
                }
                _ => {}
            }
        }
    }
    all.into_values().collect()
}

/// The name of a process and what it does, in a word.
fn process(pid: u32) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, also brackets.
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let state = match rest.chars().next()? {
        'R' => "runs",
        'S' | 'I' => "sleeps",
        'D' => "in the kernel",
        'T' | 't' => "stopped",
        'Z' | 'X' => "is dead",
        _ => "",
    };
    Some((paint::clean(name), state.to_owned()))
}
