//! Which group is meant on the command line, and where its table comes from.
//!
//! A table is computed from the counts of a job, as `umbra run` places it, read from a file that `umbra dump` wrote, or
//! fetched from an agent of a running job.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use umbra::admin::ops;
use umbra::driver::now;
use umbra::job::Options;
use umbra::job::grid::{self, Grid};
use umbra::quantity::counted;
use umbra_core::endpoints::{Descriptor, JobKey, Shape, Table, TableBuilder};
use umbra_core::id::Generation;
use umbra_core::peer::{Host, LocalRank, Peer, Rank, Sp, WorldRank};
use umbra_core::placement::Placement;
use umbra_core::time::Time;

use super::Failure;
use super::reach::Reach;

/// More bytes than the table of the largest job.
const FILE_MAX: u64 = 1 << 30;

/// A group as it is named on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Group {
    /// All ranks.
    World,
    /// The ranks of one host.
    Row(u32),
    /// The ranks with one local number.
    Column(u32),
    /// The group whose table lies in this file.
    File(PathBuf),
    /// A group as this service process of a running job holds it.
    Held(u32, Box<Group>),
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Group, String> {
        let numbered = |prefix: &str| {
            let rest = text.strip_prefix(prefix)?;
            rest.trim_start_matches([':', ' ', '=']).parse::<u32>().ok()
        };
        if let Some((sp, group)) = text.strip_prefix("sp:").and_then(|rest| rest.split_once('/')) {
            let sp = sp.parse().map_err(|_| format!("`{sp}` is not the number of a service process"))?;
            Ok(Group::Held(sp, Box::new(group.parse()?)))
        } else if text == "world" {
            Ok(Group::World)
        } else if let Some(row) = numbered("row") {
            Ok(Group::Row(row))
        } else if let Some(column) = numbered("column") {
            Ok(Group::Column(column))
        } else if Path::new(text).is_file() {
            Ok(Group::File(text.into()))
        } else {
            Err("name world, row:N, column:N, a file written by umbra dump --output, or sp:N/world".to_owned())
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Group::World => f.write_str("world"),
            Group::Row(row) => write!(f, "row {row}"),
            Group::Column(column) => write!(f, "column {column}"),
            Group::File(path) => path.display().fmt(f),
            Group::Held(sp, group) => write!(f, "{group} at service process {sp}"),
        }
    }
}

/// The counts of a job, as `umbra run` takes them.
#[derive(Args, Clone, Debug)]
struct Counts {
    /// Hosts of the job
    #[arg(long, value_name = "N", default_value_t = Options::default().hosts, value_parser = super::at_least_one())]
    hosts: u32,
    /// Service processes of each DPU
    #[arg(long, short = 's', value_name = "N", default_value_t = Options::default().service_processes, value_parser = super::at_least_one())]
    service_processes: u32,
    /// Ranks of each host
    #[arg(long, value_name = "N", default_value_t = Options::default().ranks, value_parser = super::at_least_one())]
    ranks: u32,
    /// Shadow service processes of each rank
    #[arg(long, value_name = "N", default_value_t = Options::default().shadows, value_parser = super::at_least_one())]
    shadows: u32,
}

impl Counts {
    /// The bytes of the group's table.
    fn table(&self, group: &Group) -> Result<Vec<u8>, Failure> {
        let size = self.hosts.checked_mul(self.ranks).filter(|&size| size < Peer::CAPACITY).ok_or_else(|| {
            Failure::usage(format!("{} hosts of {} ranks are more than can be named", self.hosts, self.ranks))
        })?;
        let grid = Grid { hosts: self.hosts, ranks: self.ranks };
        let (id, members): (u32, Vec<WorldRank>) = match *group {
            Group::File(ref path) => return read(path),
            Group::Held(..) => return Err(Failure::usage(format!("{group} cannot be computed"))),
            Group::World => (grid::WORLD.0, (0..size).map(WorldRank).collect()),
            Group::Row(row) if row < self.hosts => (grid::ROW, grid.row(row).collect()),
            Group::Column(column) if column < self.ranks => (grid::COLUMN, grid.column(column).collect()),
            Group::Row(_) => {
                return Err(Failure::failed(format!("unknown group {group}: the job has {} rows", self.hosts)));
            }
            Group::Column(_) => {
                return Err(Failure::failed(format!("unknown group {group}: the job has {} columns", self.ranks)));
            }
        };
        let placement =
            Placement::one_dpu_a_host(self.hosts, self.service_processes, self.shadows).map_err(Failure::usage)?;
        let mut bytes = vec![0; Descriptor::bytes_needed(size)];
        let descriptor = match group {
            Group::World => Descriptor::write_world(id, size, &mut bytes),
            _ => Descriptor::write(id, members.iter().copied(), &mut bytes),
        };
        let descriptor = descriptor.map_err(Failure::failed)?;
        // Keys differ from job to job; nothing that is shown here depends on them.
        let shape = Shape::new(&descriptor, JobKey::new([0; 16]).group(&descriptor), &placement);
        let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).map_err(Failure::failed)?;
        for (rank, &world) in (0..).map(Rank).zip(&members) {
            let (host, local) = (Host(world.0 / self.ranks), LocalRank(world.0 % self.ranks));
            let entry = placement.entry(world, host, local).ok_or_else(|| Failure::failed("rank has no place"))?;
            builder.set(rank, &entry).map_err(Failure::failed)?;
        }
        builder.finish(Generation::FIRST).map(<[u8]>::to_vec).map_err(Failure::failed)
    }
}

/// Where tables come from.
#[derive(Args, Debug)]
pub(crate) struct Source {
    #[command(flatten)]
    counts: Counts,
    #[command(flatten)]
    reach: Reach,
}

impl Source {
    /// The files that are read, for a group of a running job.
    pub(crate) fn files(&self) -> [Option<PathBuf>; 2] {
        self.reach.files()
    }

    /// Refuses a running job of which no group is named: its tables are not those that are computed.
    pub(crate) fn check(&self, groups: &[&Group]) -> Result<(), Failure> {
        match self.reach.named() {
            Some(option) if !groups.iter().any(|group| matches!(group, Group::Held(..))) => {
                Err(Failure::usage(format!(
                    "{option} is about a running job: name the group as one of its service processes has it, such as sp:0/world"
                )))
            }
            _ => Ok(()),
        }
    }

    /// The bytes of the groups' tables, not yet checked: all of them within the time that is given.
    pub(crate) fn tables<const N: usize>(&self, groups: [&Group; N]) -> Result<[Vec<u8>; N], Failure> {
        let deadline = self.reach.deadline();
        let mut tables = [const { Vec::new() }; N];
        for (table, group) in tables.iter_mut().zip(groups) {
            *table = self.table(group, deadline)?;
        }
        Ok(tables)
    }

    fn table(&self, group: &Group, deadline: Time) -> Result<Vec<u8>, Failure> {
        match group {
            Group::Held(sp, group) => self.fetch(Sp(*sp), group, deadline),
            _ => self.counts.table(group),
        }
    }

    /// The job that a group's table is computed for, if it is.
    pub(crate) fn supposed(&self, group: &Group) -> Option<String> {
        let Counts { hosts, service_processes, ranks, .. } = self.counts;
        let computed = matches!(group, Group::World | Group::Row(_) | Group::Column(_));
        computed.then(|| {
            let services = counted(service_processes, "service process", "service processes");
            format!("{} × {services} × {}", counted(hosts, "host", "hosts"), counted(ranks, "rank", "ranks"))
        })
    }

    fn fetch(&self, sp: Sp, group: &Group, deadline: Time) -> Result<Vec<u8>, Failure> {
        let leader = match group {
            Group::Row(row) => row.checked_mul(self.counts.ranks).filter(|&leader| leader < Peer::CAPACITY),
            _ => Some(0),
        };
        let leader = leader.ok_or_else(|| {
            Failure::usage(format!("{group} of rows of {} ranks has ranks that cannot be named", self.counts.ranks))
        })?;
        let mut asker = self.reach.connect(sp, deadline)?;
        // A table may come in many pieces.
        let mut ask = |op, body: &[u8]| asker.call(0, op, body, deadline.since(now())).map_err(Failure::failed);
        let listed = String::from_utf8_lossy(&ask(ops::GROUPS, &[])?).into_owned();
        let title = match group {
            Group::Row(_) => format!("group {} led by rank {leader}", grid::ROW),
            Group::Column(column) => format!("group {} led by rank {column}", grid::COLUMN),
            other => other.to_string(),
        };
        let line = listed.lines().find(|line| line.split(": ").next() == Some(&title));
        let handle = line.and_then(|line| line.split_once("handle 0x")).and_then(|(_, rest)| {
            let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
            u64::from_str_radix(digits, 16).ok()
        });
        let handle = handle.ok_or_else(|| {
            let known = if listed.trim().is_empty() { "it has no group" } else { listed.trim() };
            Failure::failed(format!("service process {sp} has no full table of {title}: {known}"))
        })?;
        let mut table: Vec<u8> = Vec::new();
        loop {
            let body = [handle.to_le_bytes(), (table.len() as u64).to_le_bytes()].concat();
            let answer = ask(ops::DUMP, &body)?;
            let (whole, piece) = answer.split_first_chunk().ok_or_else(|| Failure::failed("answer is malformed"))?;
            let whole = u64::from_le_bytes(*whole);
            table.extend_from_slice(piece);
            if table.len() as u64 >= whole || whole > FILE_MAX {
                return Ok(table);
            }
            if piece.is_empty() {
                return Err(Failure::failed(format!("{group} ended while its table was fetched")));
            }
        }
    }
}

/// The content of a dump, not yet checked.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |why: &dyn fmt::Display| Failure::failed(format!("{}: {why}", path.display()));
    let length = std::fs::metadata(path).map_err(|e| failed(&e))?.len();
    if length > FILE_MAX {
        return Err(failed(&"larger than the table of any group"));
    }
    std::fs::read(path).map_err(|e| failed(&e))
}

/// Checks the bytes of a table; `what` names them in the error.
pub(crate) fn attach<'a>(bytes: &'a [u8], what: &Group) -> Result<Table<&'a [u8]>, Failure> {
    Table::attach(bytes).map_err(|e| Failure::failed(format!("{what}: {e}")))
}
