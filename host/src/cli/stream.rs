//! `umbra stream`: which streams there are, and who talks with whom.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use umbra::quantity::Bytes;
use umbra::stream::{Class, Mode, Seen, Snapshot, Stage, find};

use super::found::{Named, User, print_users, used_by};
use super::table::{Set, Table};
use super::{Done, Failure, Out, paint, print_json};

/// Show streams between processes.
///
/// Streams are named by a process that has them and the number of its descriptor there, as `umbra stream ls` shows it, or by
/// the text of a reference. Looking changes nothing, and holds up nobody who uses them.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = paint::examples!(
    "umbra stream ls"                  "the streams of this user's processes";
    "umbra stream stat 4711:5"         "some of them: how many are in use, and by whom";
    "umbra stream dump 4711:5 --json"  "each conversation too, for a script";
);

#[derive(Subcommand, Debug)]
enum What {
    /// List the streams that processes of this user have
    Ls {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show the figures of streams, and which processes use them
    Stat {
        /// PID:DESCRIPTOR, or the text of a reference
        #[arg(value_name = "STREAMS")]
        streams: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show the figures of streams and each conversation: who sends, who receives, and how far they are
    Dump {
        /// PID:DESCRIPTOR, or the text of a reference
        #[arg(value_name = "STREAMS")]
        streams: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Serialize, Debug)]
pub(super) struct Summary {
    pub(super) streams: String,
    pub(super) uid: u64,
    pub(super) mode: &'static str,
    pub(super) capacity: u32,
    pub(super) ring_bytes: u32,
    pub(super) messages: u32,
    pub(super) block_bytes: u32,
    pub(super) bytes: usize,
    pub(super) idle: usize,
    pub(super) waiting: usize,
    pub(super) offered: usize,
    pub(super) kept: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tasks: Option<u64>,
    pub(super) destroyed: bool,
    pub(super) processes: Vec<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) conversations: Option<Vec<Conversation>>,
}

#[derive(Clone, Serialize, Debug)]
pub(super) struct Conversation {
    place: usize,
    of: &'static str,
    stage: &'static str,
    sender: Option<u32>,
    receiver: Option<u32>,
    keeper: Option<u32>,
    /// `null` if the words of the place contradict each other.
    under_way_bytes: Option<usize>,
}

#[derive(Serialize, Debug)]
struct Listing {
    streams: Vec<Summary>,
}

const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Nominal => "nominal",
        Mode::Buffered => "buffered",
        Mode::SenderSupplied => "sender supplied",
        Mode::ReceiverSupplied => "receiver supplied",
        Mode::Single => "single",
    }
}

const fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Idle => "idle",
        Stage::Kept => "kept",
        Stage::Begun => "begun",
        Stage::Waits => "waits",
        Stage::Offered => "offered",
        Stage::Open => "open",
        Stage::Ended => "ended",
        Stage::Forsaken => "sender died",
        Stage::Unheard => "receiver gone",
    }
}

impl Summary {
    pub(super) fn of(streams: String, seen: &Snapshot) -> Summary {
        let (shape, counts) = (seen.shape, seen.counts);
        Summary {
            streams,
            uid: seen.uid,
            mode: mode(shape.mode),
            capacity: shape.streams,
            ring_bytes: shape.ring,
            messages: shape.messages,
            block_bytes: shape.block,
            bytes: seen.bytes,
            idle: counts.idle,
            waiting: counts.waiting,
            offered: counts.offered,
            kept: counts.kept,
            tasks: seen.tasks,
            destroyed: seen.is_destroyed,
            processes: seen.members.iter().map(|&(_, pid, alive)| User { pid, alive }).collect(),
            conversations: None,
        }
    }

    /// With each place in which something is going on.
    fn with_conversations(self, seen: &Snapshot) -> Summary {
        let pid = |number: Option<u16>| {
            let member = seen.members.iter().find(|member| Some(member.0) == number);
            member.map(|&(_, pid, _)| pid)
        };
        let shown = |(place, one): (usize, &Seen)| Conversation {
            place,
            of: if one.class == Class::Stream { "stream" } else { "message" },
            stage: stage(one.stage),
            sender: pid(one.sender),
            receiver: pid(one.receiver),
            keeper: pid(one.keeper),
            under_way_bytes: one.under_way,
        };
        let busy = seen.places.iter().enumerate().filter(|(_, one)| one.stage != Stage::Idle);
        Summary { conversations: Some(busy.map(shown).collect()), ..self }
    }
}

fn look(streams: &str) -> Result<Snapshot, Failure> {
    let seen = match Named::of(streams)? {
        Named::At(found) => Snapshot::at(found),
        Named::Reference(bytes) => Snapshot::of_reference(&bytes),
    };
    seen.map_err(Failure::failed)
}

impl Inspect {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        match &self.what {
            What::Ls { json } => ls(out, *json),
            What::Stat { streams, json } => show(out, &Summary::of(streams.clone(), &look(streams)?), *json),
            What::Dump { streams, json } => {
                let seen = look(streams)?;
                show(out, &Summary::of(streams.clone(), &seen).with_conversations(&seen), *json)
            }
        }
    }
}

fn ls(out: Out<'_>, json: bool) -> Done {
    // They may be gone by now, or be another program's of the same name.
    let seen = find()?.into_iter().filter_map(|found| Some((found.to_string(), Snapshot::at(found).ok()?)));
    let streams: Vec<_> = seen.map(|(name, seen)| Summary::of(name, &seen)).collect();
    if json {
        print_json(out, &Listing { streams })?;
        return Ok(ExitCode::SUCCESS);
    }
    if streams.is_empty() {
        writeln!(out, "no process of this user has streams")?;
        return Ok(ExitCode::SUCCESS);
    }
    let figure = |name| (name, Set::Right);
    let columns = [
        ("streams", Set::Left),
        figure("uid"),
        ("mode", Set::Left),
        figure("idle"),
        figure("of"),
        figure("waiting"),
        ("used by", Set::Left),
    ];
    let mut table = Table::new(&columns);
    for one in streams {
        let [uid, idle, waiting] = [one.uid, one.idle as u64, one.waiting as u64].map(|figure| figure.to_string());
        let (of, used_by) = (one.capacity.to_string(), used_by(&one.processes, one.destroyed));
        table.row([one.streams, uid, one.mode.to_owned(), idle, of, waiting, used_by]);
    }
    table.print(out)?;
    Ok(ExitCode::SUCCESS)
}

fn show(out: Out<'_>, summary: &Summary, json: bool) -> Done {
    if json {
        print_json(out, summary)?;
        return Ok(ExitCode::SUCCESS);
    }
    let places = |count: u32, bytes: u32| format!("{count} x {}", Bytes(bytes.into()));
    let lines = [
        ("uid", Some(summary.uid.to_string())),
        ("mode", Some(summary.mode.to_owned())),
        ("streams", Some(places(summary.capacity, summary.ring_bytes))),
        ("messages", Some(places(summary.messages, summary.block_bytes))),
        ("memory", Some(Bytes(summary.bytes as u64).to_string())),
        ("idle", Some(summary.idle.to_string())),
        ("waiting", Some(format!("{} senders, {} receivers", summary.waiting, summary.offered))),
        ("kept", Some(summary.kept.to_string())),
        ("tasks", summary.tasks.map(|tasks| tasks.to_string())),
        ("used by", Some(used_by(&summary.processes, summary.destroyed))),
    ];
    for (what, value) in lines {
        if let Some(value) = value {
            writeln!(out, "  {what:<12} {value}")?;
        }
    }
    print_users(out, &summary.processes)?;
    if let Some(conversations) = &summary.conversations {
        let figure = |name| (name, Set::Right);
        let columns = [
            figure("place"),
            ("of", Set::Left),
            ("stage", Set::Left),
            figure("sender"),
            figure("receiver"),
            figure("keeper"),
            figure("under way"),
        ];
        let mut table = Table::new(&columns);
        let pid = |pid: Option<u32>| pid.map_or_else(String::new, |pid| pid.to_string());
        for one in conversations {
            let under_way = one.under_way_bytes.map_or("damaged".to_owned(), |bytes| Bytes(bytes as u64).to_string());
            let [sender, receiver, keeper] = [one.sender, one.receiver, one.keeper].map(pid);
            let (of, stage) = (one.of.to_owned(), one.stage.to_owned());
            table.row([one.place.to_string(), of, stage, sender, receiver, keeper, under_way]);
        }
        writeln!(out)?;
        table.print(out)?;
    }
    Ok(ExitCode::SUCCESS)
}
