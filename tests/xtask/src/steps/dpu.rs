//! A host and a DPU as two guests joined by a cable: two processors, one job.
//!
//! The agents of the DPU are started by hand in its guest. `umbra run` in the host's guest starts ranks and the agents
//! of another DPU, lets all of them build their tables, and every agent read every rank. What it tells as JSON is kept.
//! There are several [jobs](JOBS), one after the other, each with agents of its own; in some of them something breaks.

mod jobs;
mod scripts;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cross;
use crate::guest::{Guest, Kind, Link, tail};
use crate::run::{Log, Run};
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::{PROFILE, PROGRAMS};
use crate::steps::{self, rdma};

use jobs::{JOBS, TEST, describe, judge};
use scripts::{of_dpu, of_host};

/// Seconds that one guest may take from power-on to power-off, on a machine that is busy with other things.
const LIMIT: u64 = 600;

/// Builds for both processors, boots both guests, and lets them work together.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let built = match cross::build(bench.workspace, cross::WITH_TESTS, steps::cross::PROFILE, bench.log)? {
        Ok(built) => built,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    Run::cargo().words("build").words(PROGRAMS).succeed(bench.log)?;
    let test =
        rdma::programs(Run::cargo().words("test --workspace --profile").arg(PROFILE), &[TEST], bench.log)?.remove(0);
    let guest = |kind| Guest::prepare(bench.workspace, kind, bench.log);
    let (host, dpu) = match (guest(Kind::Host)?, guest(Kind::Dpu)?) {
        (Ok(host), Ok(dpu)) => (host, dpu),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Verdict::Skipped(reason)),
    };
    let programs = bench.workspace.target.join(PROFILE);
    let kept = bench.workspace.folder("dpu")?;
    describe(&kept)?;
    let scripts = [of_host(&programs, &test, &kept), of_dpu(&built, &kept)];
    let socket = bench.workspace.scratch.join("cable.sock");
    let console = Log::create(&bench.workspace.folder("xtask-logs")?.join("dpu-console.log"), false)?;
    let printed = run_both([host, dpu], &scripts, &socket, [bench.log, &console])?;
    let objects: Vec<&str> = printed.iter().map(String::as_str).filter(|line| line.starts_with('{')).collect();
    let mut told = Vec::new();
    for (at, job) in JOBS.iter().enumerate() {
        let object = objects.get(at).copied().unwrap_or_default();
        let path = kept.join(format!("{}.json", job.name));
        fs::write(&path, format!("{object}\n"))?;
        judge(job, object).map_err(|what| Failure::new(format!("{}\n{what}", tail(&printed))))?;
        told.push(path.display().to_string());
    }
    Ok(Verdict::Passed(format!("agents on x86-64 and aarch64 agree: {}", told.join(", "))))
}

/// Runs both guests to their ends; when one fails, the other is not wanted any more. Gives what the first one printed.
fn run_both(
    [host, dpu]: [Guest; 2],
    [host_script, dpu_script]: &[String; 2],
    socket: &Path,
    [host_log, dpu_log]: [&Log; 2],
) -> Result<Vec<String>, Failure> {
    let unwanted = Arc::new(AtomicBool::new(false));
    let end = |first| Link { socket: socket.to_owned(), first };
    let host = host.linked(end(true)).limit(LIMIT).unless(&unwanted);
    let dpu = dpu.linked(end(false)).limit(LIMIT).unless(&unwanted);
    let give_up = |failure| {
        unwanted.store(true, Ordering::Relaxed);
        failure
    };
    let (of_host, of_dpu) = thread::scope(|scope| {
        let of_host = scope.spawn(|| host.run(host_script, host_log).map_err(give_up));
        let of_dpu = wait_for(socket, &unwanted).and_then(|()| dpu.run(dpu_script, dpu_log)).map_err(give_up);
        (of_host.join().unwrap_or_else(|_| Err(Failure::new("the host's thread stopped"))), of_dpu)
    });
    // An emulator that was killed has not removed it; one that ended has.
    let _ = fs::remove_file(socket);
    match (of_host, of_dpu) {
        (Ok(printed), Ok(_)) => Ok(printed),
        (Ok(_), Err(dpu)) => Err(Failure::new(format!("the DPU:\n{dpu}"))),
        (Err(host), Ok(_)) => Err(Failure::new(format!("the host:\n{host}"))),
        (Err(host), Err(dpu)) => Err(Failure::new(format!("the host:\n{host}\nthe DPU:\n{dpu}"))),
    }
}

/// The second guest can only be plugged in once the first one is there.
fn wait_for(socket: &Path, unwanted: &AtomicBool) -> Result<(), Failure> {
    let start = Instant::now();
    while !socket.exists() {
        if unwanted.load(Ordering::Relaxed) || start.elapsed() > Duration::from_secs(60) {
            return Err(Failure::new("the other guest made no socket"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
