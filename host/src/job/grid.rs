//! The groups of a job: the world, and the rows and columns of a grid.
//!
//! The grid is hosts x ranks per host. Rows are the ranks of one host, columns the ranks with one local number. All
//! rows share a context id, and so do all columns, as MPI gives them: they are told apart by their leads.

use umbra_core::peer::WorldRank;

/// Context id and lead of the world group.
pub const WORLD: (u32, u32) = (0, 0);
/// The context id of rows.
pub const ROW: u32 = 1;
/// The context id of columns.
pub const COLUMN: u32 = 2;

/// The shape of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Hosts: rows.
    pub hosts: u32,
    /// Ranks of each host: columns.
    pub ranks: u32,
}

impl Grid {
    /// The members of row `host`, in order.
    pub fn row(self, host: u32) -> impl ExactSizeIterator<Item = WorldRank> {
        (0..self.ranks as usize).map(move |local| WorldRank(host * self.ranks + local as u32))
    }

    /// The members of column `local`, in order.
    pub fn column(self, local: u32) -> impl ExactSizeIterator<Item = WorldRank> {
        (0..self.hosts as usize).map(move |host| WorldRank(host as u32 * self.ranks + local))
    }

    /// Name and members of the group with this context id and lead; `None` if the grid has no such group.
    #[must_use]
    pub fn group(self, group: (u32, u32)) -> Option<(String, Vec<WorldRank>)> {
        match group {
            WORLD => Some(("world".to_owned(), (0..self.hosts * self.ranks).map(WorldRank).collect())),
            (ROW, lead) if lead < self.hosts * self.ranks && lead % self.ranks == 0 => {
                let host = lead / self.ranks;
                Some((format!("row {host}"), self.row(host).collect()))
            }
            (COLUMN, lead) if lead < self.ranks => Some((format!("column {lead}"), self.column(lead).collect())),
            _ => None,
        }
    }

    /// All groups but the world, as context id and lead.
    #[must_use = "an iterator does nothing by itself"]
    pub fn groups(self) -> impl Iterator<Item = (u32, u32)> {
        let rows = (0..self.hosts).map(move |host| (ROW, host * self.ranks));
        rows.chain((0..self.ranks).map(|local| (COLUMN, local)))
    }
}
