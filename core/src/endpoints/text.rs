//! What a table says, in words: the dump of a group, and how two tables differ.
//!
//! ```text
//! group 7 key 00112233445566778899aabbccddeeff generation 1: 8 ranks, 4 service processes, 2 hosts, block
//! host 0: ranks 4, service processes 0 1
//! …
//! rank 0: world rank 0, host 0, shadows 0
//! …
//! ```

use core::fmt;

use super::layout::Kind;
use super::table::Table;
use super::words::Words;
use crate::entry::Entry;
use crate::peer::{HostInGroup, Rank};

/// Writes everything that a table says (L25); made by [`Table::dump`].
#[derive(Clone, Copy, Debug)]
pub struct Dump<'t, W>(&'t Table<W>);

impl<W: Words> Table<W> {
    /// The table in words, a line for each host and each rank.
    #[must_use]
    pub const fn dump(&self) -> Dump<'_, W> {
        Dump(self)
    }

    /// What this table and another say differently, in order: about the group, then about each rank.
    pub fn differences<V: Words>(&self, other: &Table<V>) -> impl Iterator<Item = Difference> {
        let numbers = [
            ("id", self.id(), other.id()),
            ("generation", self.generation().0, other.generation().0),
            ("size", self.size(), other.size()),
            ("service processes per DPU", self.service_processes_per_dpu(), other.service_processes_per_dpu()),
        ];
        let key = (self.key() != other.key()).then_some(Difference::Key);
        let numbers = numbers.into_iter().filter(|(_, ours, theirs)| ours != theirs);
        let numbers = numbers.map(|(what, ours, theirs)| Difference::Number { what, ours, theirs });
        let ranks = (0..self.size().max(other.size())).map(Rank).filter_map(|rank| {
            let (ours, theirs) = (self.entry(rank).ok(), other.entry(rank).ok());
            (ours != theirs).then_some(Difference::Rank { rank, ours, theirs })
        });
        key.into_iter().chain(numbers).chain(ranks)
    }
}

impl<W: Words> fmt::Display for Dump<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.0;
        let kind = match table.head.kind {
            Kind::Explicit => "explicit",
            Kind::Block => "block",
            Kind::Cyclic => "cyclic",
        };
        let world = if table.is_world() { " (world)" } else { "" };
        writeln!(
            f,
            "group {}{world} key {} generation {}: {} ranks, {} service processes, {} hosts, {kind}, {} bytes",
            table.id(),
            table.key(),
            table.generation().0,
            table.size(),
            table.involved_count(),
            table.host_count(),
            table.len_bytes(),
        )?;
        for (index, host) in (0..).map(HostInGroup).zip(table.hosts()) {
            let count = table.rank_count_on(index).map_err(|_| fmt::Error)?;
            write!(f, "host {host}: ranks {count}, service processes")?;
            for sp in table.involved_on(index).map_err(|_| fmt::Error)? {
                write!(f, " {sp}")?;
            }
            writeln!(f)?;
        }
        for rank in (0..table.size()).map(Rank) {
            let entry = table.entry(rank).map_err(|_| fmt::Error)?;
            writeln!(f, "rank {rank}: {}", Said(&entry))?;
        }
        Ok(())
    }
}

struct Said<'e>(&'e Entry);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "world rank {}, host {}, shadows", self.0.world_rank, self.0.host)?;
        self.0.shadows.iter().try_for_each(|sp| write!(f, " {sp}"))
    }
}

/// One thing that two tables say differently.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Difference {
    /// They are about different groups.
    Key,
    /// A number of the group.
    Number {
        /// What it counts.
        what: &'static str,
        /// In the first table.
        ours: u32,
        /// In the second table.
        theirs: u32,
    },
    /// A rank; `None` where a table has no such rank.
    Rank {
        /// The rank.
        rank: Rank,
        /// In the first table.
        ours: Option<Entry>,
        /// In the second table.
        theirs: Option<Entry>,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Key => f.write_str("the tables are about different groups: their keys differ"),
            Difference::Number { what, ours, theirs } => write!(f, "{what}: {ours} against {theirs}"),
            Difference::Rank { rank, ours, theirs } => {
                let side = |f: &mut fmt::Formatter<'_>, entry: &Option<Entry>| match entry {
                    Some(entry) => Said(entry).fmt(f),
                    None => f.write_str("absent"),
                };
                write!(f, "rank {rank}: ")?;
                side(f, ours)?;
                f.write_str(" against ")?;
                side(f, theirs)
            }
        }
    }
}
