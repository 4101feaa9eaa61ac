//! `umbra lookup`: what the endpoint cache says about one rank of a group.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use umbra::quantity::counted;
use umbra_core::endpoints::{LookupError, Table};
use umbra_core::peer::Rank;

use super::group::{Group, Source, attach};
use super::{Done, Failure, Out, paint, print_json};

/// Look up a rank of a group: its process, host and service processes.
///
/// The table of the group is computed for a job with the given counts, as `umbra run` places it, read from a dump, or
/// fetched from an agent of a running job.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lookup {
    /// world, row:N, column:N, a file written by umbra dump --output, or sp:N/world in a running job
    group: Group,
    /// Rank in the group
    rank: u32,
    #[command(flatten)]
    source: Source,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = paint::examples!(
    "umbra lookup world 5"                            "which service process answers for rank 5 of the main job?";
    "umbra lookup column:1 0 --hosts 16 --ranks 64"   "the same in a group of a larger job";
    "umbra lookup world.table 5"                      "the same from a file that umbra dump wrote";
    "umbra lookup sp:0/world 5 --job DIR"             "what service process 0 of a running job says";
);

/// All answers about one rank.
#[derive(Serialize, Debug)]
struct Answer {
    group: String,
    size: u32,
    generation: u32,
    rank: u32,
    world_rank: u32,
    host: u32,
    service_process: u32,
    shadows: Vec<u32>,
    involved_on_host: Vec<u32>,
    index_on_host: u32,
    ranks_on_host: u32,
}

impl Answer {
    fn new(group: &Group, table: &Table<&[u8]>, rank: Rank) -> Result<Answer, LookupError> {
        let entry = table.entry(rank)?;
        let host = table.host_index_of(rank)?;
        Ok(Answer {
            group: group.to_string(),
            size: table.size(),
            generation: table.generation().0,
            rank: rank.0,
            world_rank: entry.world_rank.0,
            host: entry.host.0,
            service_process: table.endpoint(rank)?.sp.0,
            shadows: entry.shadows.iter().map(|sp| sp.0).collect(),
            involved_on_host: table.involved_beside(rank)?.map(|sp| sp.0).collect(),
            index_on_host: table.index_on_host(rank)?,
            ranks_on_host: table.rank_count_on(host)?,
        })
    }
}

impl Lookup {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        self.source.check(&[&self.group])?;
        let [bytes] = self.source.tables([&self.group])?;
        let table = attach(&bytes, &self.group)?;
        let answer = Answer::new(&self.group, &table, Rank(self.rank))
            .map_err(|e| Failure::failed(format!("{}: {e}", self.group)))?;
        if self.json {
            print_json(out, &answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let job = self.source.supposed(&self.group).map_or_else(String::new, |job| format!(", in a job of {job}"));
        writeln!(out, "{}\n", paint::strong(format_args!("rank {} of {}{job}", answer.rank, answer.group)))?;
        for (what, value) in [
            ("first service process", answer.service_process.to_string()),
            ("all its shadows", list(&answer.shadows)),
            ("world rank", answer.world_rank.to_string()),
            ("host", answer.host.to_string()),
            ("involved on that host", list(&answer.involved_on_host)),
            ("number on that host", format!("{} of {}", answer.index_on_host, answer.ranks_on_host)),
            ("group", format!("{}, generation {}", counted(answer.size, "rank", "ranks"), answer.generation)),
        ] {
            writeln!(out, "  {}  {value}", paint::faint(format_args!("{what:<22}")))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
