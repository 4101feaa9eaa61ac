//! `umbra top`: what processes share, and the agents of the job, as they change.
//!
//! Processes share pools, channels and streams; who uses them is shown, too.

mod agents;
mod live;
mod row;
mod screen;
mod seen;
mod view;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use umbra::quantity::parse_lapse;
use umbra_core::time::Lapse;

use super::reach::Reach;
use super::{Done, Failure, Out, paint, print_json};
use agents::Watched;
use seen::Seen;
use view::View;

/// Watch pools, channels, streams, the processes that use them or wait for them, and the service processes of the job.
///
/// The job is the one that the command line or the environment names, else the only one of yours that runs here; the figures
/// of all its service processes are gathered by one chained call.
/// Looking changes nothing, and holds up nobody. Rates are those between the last two looks. Keys: q ends it, the arrows
/// choose a table and a row, s and S the column that a table is sorted by, r turns the order round, the space bar stops the
/// clock.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    /// How long to wait between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_lapse)]
    interval: Lapse,
    /// Look twice, print what a screen would show as plain text, and end
    #[arg(long)]
    once: bool,
    /// Look twice, print one JSON object, and end
    #[arg(long, conflicts_with = "once")]
    json: bool,
    #[command(flatten)]
    reach: Reach,
    /// Look for pools in this folder
    #[arg(long, value_name = "FOLDER", default_value = "/dev/shm")]
    folder: PathBuf,
}

const EXAMPLES: &str = paint::examples!(
    "umbra top"                           "what this user's processes share, once a second";
    "umbra top --interval 200ms"          "more often";
    "umbra top --once --interval 10s"     "the rates of ten seconds, for a log";
    "umbra top --json | jq .channels"     "for a script";
);

/// The shortest time between two looks: each goes through the descriptors of all processes of this user.
const SHORTEST: Duration = Duration::from_millis(50);
/// How long agents may keep a live view waiting.
const GLANCE: Lapse = Lapse::from_millis(500);

impl Top {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let interval = Duration::from_nanos(self.interval.0);
        if interval < SHORTEST {
            return Err(Failure::usage(format!("--interval is at least {} ms", SHORTEST.as_millis())));
        }
        if !self.once && !self.json {
            if !std::io::stdout().is_terminal() {
                return Err(Failure::usage("standard output is no terminal: use --once or --json"));
            }
            // Whoever waits for an agent that hangs answers no key meanwhile.
            let patience = self.reach.patience().min(GLANCE);
            return live::watch(&self.folder, Watched::new(&self.reach, patience), interval);
        }
        let mut watched = Watched::new(&self.reach, self.reach.patience());
        let before = Seen::look(&self.folder, &mut watched)?;
        std::thread::sleep(interval);
        let view = View::of(&Seen::look(&self.folder, &mut watched)?, Some(&before));
        if self.json {
            print_json(out, &view)?;
        } else {
            view.print(out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
