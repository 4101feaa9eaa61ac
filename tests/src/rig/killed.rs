//! A job of which one process is killed.

use std::collections::BTreeMap;

use rustix::process::{Pid, Signal, kill_process};
use umbra::job::{Event, JobError, Options, Phase, run};
use umbra_core::peer::Peer;

use super::{all_gone, directory_of};

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process has a positive number");
    kill_process(pid, Signal::KILL).expect("it runs");
}

/// Runs a job, kills `victim` (signal 9) when it enters `at`, and gives the error with which the job ends; nothing of the
/// job may be left then.
///
/// # Panics
/// If the job ends well, or something is left.
#[must_use]
pub fn killed(options: &Options, victim: Peer, at: Phase) -> JobError {
    let mut pids = BTreeMap::new();
    let mut directory = None;
    let mut done = false;
    let result = run(options, &mut |event| match event {
        Event::Started { process, .. } => {
            pids.insert(process.peer, process.pid);
            directory = directory.take().or_else(|| directory_of(process.pid));
            if process.peer == victim && at <= Phase::World && !done {
                done = true;
                kill(process.pid);
            }
        }
        Event::Phase { phase, .. } if phase == at && at > Phase::World => {
            done = true;
            kill(pids[&victim]);
        }
        _ => {}
    });
    assert!(done, "the job never came to {at:?}: {result:?}");
    all_gone(&pids.values().copied().collect::<Vec<_>>());
    let directory = directory.expect("agents name their directory");
    assert!(!directory.exists(), "{} is left", directory.display());
    match result {
        Ok(outcome) => panic!("{victim} was killed at {at:?}, yet all went well: {outcome:?}"),
        Err(error) => error,
    }
}
