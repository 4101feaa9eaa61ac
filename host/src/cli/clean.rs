//! `umbra clean`: what killed processes left in shared memory goes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use umbra::pool::clean_in;

use super::{Done, Failure, Out, paint, print_json};

/// Remove pools that nobody needs any more.
///
/// These are pools of this user whose processes are all dead, or whose creator is, if they were to end with it. Whoever makes
/// a pool with a name does the same first.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Clean {
    /// Look in this folder
    #[arg(long, value_name = "FOLDER", default_value = "/dev/shm")]
    folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = paint::examples!(
    "umbra clean"                       "remove what dead processes left in /dev/shm";
    "umbra clean --folder /tmp/pools"   "and in a folder of pools in files";
);

#[derive(Serialize, Debug)]
struct Object {
    removed: Vec<String>,
}

impl Clean {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let removed = clean_in(&self.folder).map_err(Failure::failed)?;
        if self.json {
            print_json(out, &Object { removed })?;
        } else {
            for name in &removed {
                writeln!(out, "removed pool {}", paint::name(paint::clean(name)))?;
            }
            if removed.is_empty() {
                writeln!(out, "nothing to remove in {}", self.folder.display())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
