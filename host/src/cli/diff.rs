//! `umbra diff`: do two tables say the same?

use std::io;
use std::process::ExitCode;

use clap::Args;
use umbra::quantity::counted;
use umbra_core::endpoints::Table;

use super::group::{Group, Source, attach};
use super::{Done, Out, paint, verdict};

/// Differences that are shown.
const SHOWN: usize = 20;

/// Compare two tables; the exit code is 0 only if they are equal byte for byte.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diff {
    /// A file written by umbra dump --output, world, row:N, column:N, or sp:N/world in a running job
    left: Group,
    /// What to compare it with
    right: Group,
    #[command(flatten)]
    source: Source,
}

const EXAMPLES: &str = paint::examples!(
    "umbra diff sp:0/world sp:1/world"       "do two agents of the running job hold the same table?";
    "umbra diff world.table world"           "is a kept table what this version would compute?";
);

impl Diff {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        self.source.check(&[&self.left, &self.right])?;
        let [left, right] = self.source.tables([&self.left, &self.right])?;
        let (a, b) = (attach(&left, &self.left)?, attach(&right, &self.right)?);
        if left == right {
            let size = a.size();
            let said =
                writeln!(out, "{} {} bytes, {}", paint::good("equal:"), left.len(), counted(size, "rank", "ranks"));
            return verdict(ExitCode::SUCCESS, said);
        }
        verdict(ExitCode::FAILURE, show(out, &a, &b))
    }
}

fn show(out: Out<'_>, a: &Table<&[u8]>, b: &Table<&[u8]>) -> io::Result<()> {
    writeln!(out, "{}", paint::bad("different:"))?;
    for difference in a.differences(b).take(SHOWN) {
        writeln!(out, "  {difference}")?;
    }
    let more = a.differences(b).skip(SHOWN).count();
    if more > 0 {
        writeln!(out, "  and {more} more")?;
    }
    Ok(())
}
