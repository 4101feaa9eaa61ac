//! `umbra diff`: do two tables say the same?

use std::process::ExitCode;

use clap::Args;
use umbra_core::endpoints::Table;
use umbra_core::entry::Entry;
use umbra_core::peer::Rank;

use super::group::{Counts, Group, attach};
use super::{Done, Out, paint};

/// Differing entries that are shown.
const SHOWN: usize = 20;

/// Compare two tables; the exit code is 0 only if they are equal byte for byte.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diff {
    /// A file written by umbra dump --output, or world, row:N, column:N
    left: Group,
    /// What to compare it with
    right: Group,
    #[command(flatten)]
    counts: Counts,
}

const EXAMPLES: &str = paint::examples!(
    "umbra diff agent0.table agent1.table"   "do two agents hold the same table?";
    "umbra diff world.table world"           "is a kept table what this version would compute?";
);

impl Diff {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let (left, right) = (self.counts.table(&self.left)?, self.counts.table(&self.right)?);
        let (a, b) = (attach(&left, &self.left)?, attach(&right, &self.right)?);
        if left == right {
            let size = a.size();
            writeln!(out, "{} {} bytes, {size} ranks", paint::good("equal:"), left.len())?;
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(out, "{}", paint::bad("different:"))?;
        for (what, left, right) in [
            ("key", a.key().to_string(), b.key().to_string()),
            ("generation", a.generation().0.to_string(), b.generation().0.to_string()),
            ("size", a.size().to_string(), b.size().to_string()),
            ("bytes", left.len().to_string(), right.len().to_string()),
        ] {
            if left != right {
                writeln!(out, "  {}  {left} | {right}", paint::faint(format_args!("{what:<10}")))?;
            }
        }
        let differing: Vec<Rank> =
            (0..a.size().max(b.size())).map(Rank).filter(|&rank| entry(&a, rank) != entry(&b, rank)).collect();
        for &rank in differing.iter().take(SHOWN) {
            let [left, right] =
                [&a, &b].map(|table| entry(table, rank).map_or_else(|| "absent".to_owned(), |e| show(&e)));
            let rank = format!("rank {rank}");
            writeln!(out, "  {}  {left} | {right}", paint::faint(format_args!("{rank:<10}")))?;
        }
        if differing.len() > SHOWN {
            writeln!(out, "  and {} more", differing.len() - SHOWN)?;
        }
        Ok(ExitCode::FAILURE)
    }
}

fn entry(table: &Table<&[u8]>, rank: Rank) -> Option<Entry> {
    table.entry(rank).ok()
}

fn show(entry: &Entry) -> String {
    let shadows: Vec<String> = entry.shadows.iter().map(|sp| sp.0.to_string()).collect();
    format!("world rank {}, host {}, service processes {}", entry.world_rank, entry.host, shadows.join(" "))
}
