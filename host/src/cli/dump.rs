//! `umbra dump`: the whole table of a group, to read or to keep.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use umbra::quantity::{Bytes, counted};
use umbra_core::endpoints::Table;
use umbra_core::peer::{Host, Rank};

use super::group::{Group, Source, attach};
use super::output::{Output, apart, beside};
use super::table::{Set, Table as Shown};
use super::{Done, Out, interrupt, paint, print_json};

/// Show the table of a group, or write its bytes to a file.
///
/// The bytes are the same that travel as snapshot and that the ranks of a host share.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dump {
    /// world, row:N, column:N, a file written by umbra dump --output, or sp:N/world in a running job
    group: Group,
    #[command(flatten)]
    source: Source,
    /// Write the bytes of the table to this file instead of showing it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

const EXAMPLES: &str = paint::examples!(
    "umbra dump row:0"                                      "the ranks of host 0 with their service processes";
    "umbra dump world --hosts 64 --output world.table"      "keep the table of a larger job";
    "umbra dump world.table --json"                         "every entry of a kept table for a script";
);

#[derive(Serialize, Debug)]
struct Object {
    group: String,
    key: String,
    size: u32,
    generation: u32,
    bytes: usize,
    regular: bool,
    hosts: Vec<u32>,
    service_processes: Vec<u32>,
    entries: Vec<Row>,
}

#[derive(Serialize, Debug)]
struct Row {
    rank: u32,
    world_rank: u32,
    host: u32,
    shadows: Vec<u32>,
}

fn entries(table: &Table<&[u8]>) -> impl Iterator<Item = Row> {
    (0..table.size()).filter_map(|rank| {
        let entry = table.entry(Rank(rank)).ok()?;
        let shadows = entry.shadows.iter().map(|sp| sp.0).collect();
        Some(Row { rank, world_rank: entry.world_rank.0, host: entry.host.0, shadows })
    })
}

impl Dump {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        self.source.check(&[&self.group])?;
        let kept = if let Group::File(path) = &self.group { Some(path.clone()) } else { None };
        let [config, secret] = self.source.files();
        apart(&[&kept, &config, &secret], &[&self.output])?;
        let [bytes] = self.source.tables([&self.group])?;
        let table = attach(&bytes, &self.group)?;
        if let Some(path) = &self.output {
            interrupt::clean_up()?;
            let mut output = Output::create("table", path)?;
            output.write(&bytes)?;
            output.keep()?;
            let mut errors = anstream::stderr();
            let out = beside(Some(&output), out, &mut errors);
            writeln!(out, "{}: {} of {}", path.display(), Bytes(bytes.len() as u64), summary(&self.group, &table))?;
        } else if self.json {
            let object = Object {
                group: self.group.to_string(),
                key: table.key().to_string(),
                size: table.size(),
                generation: table.generation().0,
                bytes: bytes.len(),
                regular: table.is_affine(),
                hosts: table.hosts().map(|Host(host)| host).collect(),
                service_processes: table.involved().map(|sp| sp.0).collect(),
                entries: entries(&table).collect(),
            };
            print_json(out, &object)?;
        } else {
            let columns = [("rank", Set::Right), ("world rank", Set::Right), ("host", Set::Right)];
            let mut shown = Shown::new(&[columns[0], columns[1], columns[2], ("service processes", Set::Left)]);
            for row in entries(&table) {
                let shadows: Vec<String> = row.shadows.iter().map(u32::to_string).collect();
                shown.row([row.rank.to_string(), row.world_rank.to_string(), row.host.to_string(), shadows.join(" ")]);
            }
            shown.print(out)?;
            writeln!(out, "\n  {}, {}", summary(&self.group, &table), Bytes(bytes.len() as u64))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn summary(group: &Group, table: &Table<&[u8]>) -> String {
    format!(
        "{group}: {}, {}, {}, generation {}, {}",
        counted(table.size(), "rank", "ranks"),
        counted(table.involved_count(), "service process", "service processes"),
        counted(table.host_count(), "host", "hosts"),
        table.generation().0,
        if table.is_affine() { "regular placement" } else { "explicit entries" },
    )
}
