//! `umbra pool`: which pools of managed memory there are, and what is in them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use umbra::pool::{Pool, list_in};
use umbra::quantity::{Bytes, counted};
use umbra::reference::from_text;

use super::table::{Set, Table};
use super::{Done, Failure, Out, paint, print_json};

/// Show pools of managed memory.
///
/// Looking changes nothing, and holds up nobody who uses the pool.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = paint::examples!(
    "umbra pool ls"                "the pools with a name, and how full they are";
    "umbra pool stat sums"         "one of them: its figures and its processes";
    "umbra pool dump sums --json"  "every allocation, for a script";
);

#[derive(Subcommand, Debug)]
enum What {
    /// List the pools that have a name
    Ls {
        #[command(flatten)]
        how: How,
    },
    /// Show the figures of a pool, and which processes use it
    Stat {
        /// Its name, or the text of a reference
        #[arg(value_name = "POOL")]
        pool: String,
        #[command(flatten)]
        how: How,
    },
    /// Show every allocation of a pool
    Dump {
        /// Its name, or the text of a reference
        #[arg(value_name = "POOL")]
        pool: String,
        #[command(flatten)]
        how: How,
    },
}

#[derive(Args, Debug)]
struct How {
    /// Look in this folder
    #[arg(long, value_name = "FOLDER", default_value = "/dev/shm")]
    folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Serialize, Debug)]
pub(super) struct Summary {
    pub(super) name: String,
    pub(super) uid: u64,
    pub(super) memory: &'static str,
    pub(super) bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) asked_bytes: u64,
    pub(super) longest_free_bytes: u64,
    pub(super) allocations: u64,
    /// Nobody needs it any more.
    pub(super) over: bool,
    pub(super) processes: Vec<User>,
}

#[derive(Clone, Serialize, Debug)]
pub(super) struct User {
    pub(super) pid: u32,
    pub(super) alive: bool,
    pub(super) allocations: usize,
}

#[derive(Serialize, Debug)]
struct Allocation {
    id: u64,
    offset: u64,
    bytes: u64,
    block_bytes: u64,
    kind: u32,
    pid: Option<u32>,
    alive: bool,
}

#[derive(Serialize, Debug)]
struct Listing {
    pools: Vec<Listed>,
}

#[derive(Serialize, Debug)]
#[serde(untagged)]
enum Listed {
    Seen(Summary),
    Refused { name: String, error: String },
}

#[derive(Serialize, Debug)]
struct Dump {
    name: String,
    allocations: Vec<Allocation>,
}

impl Summary {
    pub(super) fn of(name: &str, pool: &Pool) -> Summary {
        let figures = pool.figures();
        let blocks: Vec<_> = pool.blocks().collect();
        let mut processes: Vec<User> = Vec::new();
        // A process may use it through several members.
        for (member, alive) in pool.users() {
            let (pid, owned) = (member.identity.pid(), blocks.iter().filter(|b| b.owner == member.number).count());
            match processes.iter_mut().find(|user| user.pid == pid && user.alive == alive) {
                Some(user) => user.allocations += owned,
                None => processes.push(User { pid, alive, allocations: owned }),
            }
        }
        Summary {
            name: name.to_owned(),
            uid: pool.uid(),
            memory: pool.memory(),
            bytes: figures.bytes,
            free_bytes: figures.free,
            asked_bytes: figures.asked,
            longest_free_bytes: figures.longest_free,
            allocations: figures.blocks,
            over: pool.is_over(),
            processes,
        }
    }

    pub(super) fn state(&self) -> String {
        let alive = self.processes.iter().filter(|user| user.alive).count();
        if self.over { "nobody needs it".to_owned() } else { counted(alive as u64, "process", "processes") }
    }
}

fn open(folder: &Path, pool: &str) -> Result<Pool, Failure> {
    let opened = match from_text(pool) {
        Ok(bytes) => Pool::inspect_reference(&bytes),
        Err(_) => Pool::inspect(folder, pool),
    };
    opened.map_err(Failure::failed)
}

impl Inspect {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        match &self.what {
            What::Ls { how } => ls(out, how),
            What::Stat { pool, how } => stat(out, pool, how),
            What::Dump { pool, how } => dump(out, pool, how),
        }
    }
}

fn ls(out: Out<'_>, how: &How) -> Done {
    let mut pools = Vec::new();
    for name in list_in(&how.folder).map_err(Failure::failed)? {
        pools.push(match Pool::inspect(&how.folder, &name) {
            Ok(pool) => Listed::Seen(Summary::of(&name, &pool)),
            Err(error) => Listed::Refused { name, error: error.to_string() },
        });
    }
    if how.json {
        print_json(out, &Listing { pools })?;
        return Ok(ExitCode::SUCCESS);
    }
    if pools.is_empty() {
        writeln!(out, "no pools in {}", how.folder.display())?;
        return Ok(ExitCode::SUCCESS);
    }
    let figure = |name| (name, Set::Right);
    let columns = [("pool", Set::Left), figure("bytes"), figure("free"), figure("allocations"), ("used by", Set::Left)];
    let mut table = Table::new(&columns);
    for pool in pools {
        table.row(match pool {
            Listed::Seen(pool) => {
                let state = pool.state();
                let free = Bytes(pool.free_bytes).to_string();
                [paint::clean(&pool.name), Bytes(pool.bytes).to_string(), free, pool.allocations.to_string(), state]
            }
            Listed::Refused { name, error } => {
                [paint::clean(&name), String::new(), String::new(), String::new(), paint::clean(&error)]
            }
        });
    }
    table.print(out)?;
    Ok(ExitCode::SUCCESS)
}

fn stat(out: Out<'_>, name: &str, how: &How) -> Done {
    let summary = Summary::of(name, &open(&how.folder, name)?);
    if how.json {
        print_json(out, &summary)?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines = [
        ("uid", summary.uid.to_string()),
        ("memory", summary.memory.to_owned()),
        ("size", Bytes(summary.bytes).to_string()),
        ("free", format!("{}, the longest block {}", Bytes(summary.free_bytes), Bytes(summary.longest_free_bytes))),
        ("allocations", format!("{} of {} in all", summary.allocations, Bytes(summary.asked_bytes))),
        ("used by", summary.state()),
    ];
    for (what, value) in lines {
        writeln!(out, "  {what:<12} {value}")?;
    }
    let mut table = Table::new(&[("pid", Set::Right), ("process", Set::Left), ("allocations", Set::Right)]);
    for user in &summary.processes {
        let life = if user.alive { "lives" } else { "is dead" };
        table.row([user.pid.to_string(), life.to_owned(), user.allocations.to_string()]);
    }
    writeln!(out)?;
    table.print(out)?;
    Ok(ExitCode::SUCCESS)
}

fn dump(out: Out<'_>, name: &str, how: &How) -> Done {
    let pool = open(&how.folder, name)?;
    let users: Vec<_> = pool.users().collect();
    let allocations: Vec<Allocation> = pool
        .blocks()
        .map(|block| {
            let owner = users.iter().find(|(member, _)| member.number == block.owner);
            Allocation {
                id: block.id.to_bits(),
                offset: block.offset,
                bytes: block.len,
                block_bytes: block.size,
                kind: block.kind,
                pid: owner.map(|(member, _)| member.identity.pid()),
                alive: owner.is_some_and(|&(_, alive)| alive),
            }
        })
        .collect();
    if how.json {
        print_json(out, &Dump { name: name.to_owned(), allocations })?;
        return Ok(ExitCode::SUCCESS);
    }
    let figure = |name| (name, Set::Right);
    let columns = [figure("id"), figure("offset"), figure("bytes"), figure("block"), figure("kind"), figure("pid")];
    let mut table = Table::new(&columns);
    for one in &allocations {
        let dead = if one.alive { "" } else { " (dead)" };
        let pid = one.pid.map_or_else(|| "unknown".to_owned(), |pid| format!("{pid}{dead}"));
        let numbers = [format!("{:x}", one.id), one.offset.to_string(), one.bytes.to_string()];
        let [id, offset, bytes] = numbers;
        table.row([id, offset, bytes, one.block_bytes.to_string(), one.kind.to_string(), pid]);
    }
    table.print(out)?;
    writeln!(out, "\n  {}", counted(allocations.len() as u64, "allocation", "allocations"))?;
    Ok(ExitCode::SUCCESS)
}
