//! `umbra channel`: which channels there are, and what waits in them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use umbra::channel::{Kind, Snapshot, find};
use umbra::quantity::Bytes;

use super::found::{Named, User, print_users, used_by};
use super::table::{Set, Table};
use super::{Done, Failure, Out, paint, print_json};

/// Show channels between processes.
///
/// A channel is named by a process that has it and the number of its descriptor there, as `umbra channel ls` shows it, or by
/// the text of a reference. Looking changes nothing, and holds up nobody who uses the channel.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = paint::examples!(
    "umbra channel ls"                   "the channels of this user's processes";
    "umbra channel stat 4711:5"          "one of them: what waits, and who uses it";
    "umbra channel dump 4711:5 --json"   "its first message too, for a script";
);

#[derive(Subcommand, Debug)]
enum What {
    /// List the channels that processes of this user have
    Ls {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show the figures of a channel, and which processes use it
    Stat {
        /// PID:DESCRIPTOR, or the text of a reference
        #[arg(value_name = "CHANNEL")]
        channel: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show the figures of a channel and the beginning of its first message, which stays where it is
    Dump {
        /// PID:DESCRIPTOR, or the text of a reference
        #[arg(value_name = "CHANNEL")]
        channel: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Serialize, Debug)]
pub(super) struct Summary {
    pub(super) channel: String,
    pub(super) uid: u64,
    pub(super) kind: &'static str,
    pub(super) capacity: u32,
    pub(super) block_bytes: u32,
    pub(super) bytes: usize,
    pub(super) messages: u64,
    pub(super) receiving: u64,
    pub(super) at_barrier: u32,
    pub(super) destroyed: bool,
    pub(super) processes: Vec<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first: Option<First>,
}

#[derive(Clone, Serialize, Debug)]
pub(super) struct First {
    bytes: usize,
    hints: u64,
    /// The first bytes, in hexadecimal.
    begins: String,
}

#[derive(Serialize, Debug)]
struct Listing {
    channels: Vec<Summary>,
}

impl Summary {
    pub(super) fn of(channel: String, seen: Snapshot) -> Summary {
        let first = seen.first.map(|(bytes, hints, begins)| First {
            bytes,
            hints,
            begins: begins.iter().map(|byte| format!("{byte:02x}")).collect(),
        });
        Summary {
            channel,
            uid: seen.uid,
            kind: if seen.kind == Kind::Messages { "messages" } else { "semaphore" },
            capacity: seen.capacity,
            block_bytes: seen.block,
            bytes: seen.bytes,
            messages: seen.messages,
            receiving: seen.receiving,
            at_barrier: seen.at_barrier,
            destroyed: seen.is_destroyed,
            processes: seen.members.into_iter().map(|(pid, alive)| User { pid, alive }).collect(),
            first,
        }
    }
}

fn look(channel: &str) -> Result<Summary, Failure> {
    let seen = match Named::of(channel)? {
        Named::At(found) => Snapshot::at(found),
        Named::Reference(bytes) => Snapshot::of_reference(&bytes),
    };
    Ok(Summary::of(channel.to_owned(), seen.map_err(Failure::failed)?))
}

impl Inspect {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        match &self.what {
            What::Ls { json } => ls(out, *json),
            What::Stat { channel, json } => {
                let summary = Summary { first: None, ..look(channel)? };
                show(out, &summary, *json)
            }
            What::Dump { channel, json } => show(out, &look(channel)?, *json),
        }
    }
}

fn ls(out: Out<'_>, json: bool) -> Done {
    let mut channels = Vec::new();
    for found in find()? {
        // It may be gone by now, or be another program's of the same name.
        if let Ok(seen) = Snapshot::at(found) {
            channels.push(Summary { first: None, ..Summary::of(found.to_string(), seen) });
        }
    }
    if json {
        print_json(out, &Listing { channels })?;
        return Ok(ExitCode::SUCCESS);
    }
    if channels.is_empty() {
        writeln!(out, "no process of this user has a channel")?;
        return Ok(ExitCode::SUCCESS);
    }
    let figure = |name| (name, Set::Right);
    let columns = [
        ("channel", Set::Left),
        figure("uid"),
        ("for", Set::Left),
        figure("waiting"),
        figure("room"),
        ("used by", Set::Left),
    ];
    let mut table = Table::new(&columns);
    for one in channels {
        let used_by = used_by(&one.processes, one.destroyed);
        let numbers = [one.messages.to_string(), one.capacity.to_string()];
        let [waiting, room] = numbers;
        table.row([one.channel, one.uid.to_string(), one.kind.to_owned(), waiting, room, used_by]);
    }
    table.print(out)?;
    Ok(ExitCode::SUCCESS)
}

fn show(out: Out<'_>, summary: &Summary, json: bool) -> Done {
    if json {
        print_json(out, summary)?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines = [
        ("uid", summary.uid.to_string()),
        ("for", summary.kind.to_owned()),
        ("room", format!("{} x {}", summary.capacity, Bytes(summary.block_bytes.into()))),
        ("memory", Bytes(summary.bytes as u64).to_string()),
        ("waiting", summary.messages.to_string()),
        ("receiving", summary.receiving.to_string()),
        ("at barrier", summary.at_barrier.to_string()),
        ("used by", used_by(&summary.processes, summary.destroyed)),
    ];
    for (what, value) in lines {
        writeln!(out, "  {what:<12} {value}")?;
    }
    if let Some(first) = &summary.first {
        let more = if first.bytes * 2 > first.begins.len() { " ..." } else { "" };
        writeln!(
            out,
            "  {:<12} {} with {:#x}: {}{more}",
            "first",
            Bytes(first.bytes as u64),
            first.hints,
            first.begins
        )?;
    }
    print_users(out, &summary.processes)?;
    Ok(ExitCode::SUCCESS)
}
