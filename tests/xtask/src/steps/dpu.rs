//! A host and a DPU as two guests with a cable between them: two processors, one job.
//!
//! The agents of the DPU are started by hand in its guest. `umbra run` in the host's guest starts ranks and the agents of
//! another DPU, lets all of them build their tables, and every agent read every rank. What it tells as JSON is kept. There
//! are several [jobs](JOBS), one after the other, each with agents of its own.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cross::{self, Built};
use crate::guest::{Guest, Kind, Link, tail};
use crate::run::{Log, Run};
use crate::step::{Bench, Failure, Verdict};
use crate::steps::tests::PROFILE;

/// Seconds that one guest may take from power-on to power-off, on a machine that is busy with other things.
const LIMIT: u64 = 300;
/// The guests' addresses, and the port over which the host tells the DPU that it is done.
const HOST: &str = "10.77.0.1";
const DPU: &str = "10.77.0.2";
const DONE: u16 = 9000;

/// One run of `umbra run`.
struct Job {
    /// What it is about, and what its artefact is called.
    name: &'static str,
    /// Options beside those that all have.
    options: &'static str,
    /// What its JSON must hold.
    told: &'static [&'static str],
}

/// The agents of `bf0` run in the host's guest, those of `bf1` in the DPU's.
const JOBS: &[Job] = &[
    // The DPU's agents ask the host's for what they read.
    Job {
        name: "asked",
        options: "--here node0 --start bf0",
        told: &[
            r#""ok":true,"hosts":1,"service_processes":4,"agents_elsewhere":2,"ranks":4,"#,
            r#"{"path":"asked","own_rank":false,"#,
            r#""rank_wakeups":0,"#,
        ],
    },
    // Ranks of both hosts run in the host's guest: those of `node1` are served by the DPU's agents, over RDMA like all.
    Job {
        name: "verbs",
        options: "--start bf0 --ranks 2 --data-path verbs",
        told: &[
            r#""ok":true,"hosts":2,"service_processes":4,"agents_elsewhere":2,"ranks":4,"#,
            r#""data_path":"verbs","#,
            r#"{"path":"verbs","own_rank":true,"#,
            r#"{"path":"verbs","own_rank":false,"#,
        ],
    },
];
/// Seconds that the processes wait for each other.
const PATIENCE: u64 = 120;

/// Builds for both processors, boots both guests, and lets them work together.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let built = match cross::build(bench.workspace, PROFILE, bench.log)? {
        Ok(built) => built,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let build = Run::cargo().words("build --package umbra --package umbra-dpu").args(["--profile", PROFILE]);
    build.succeed(bench.log)?;
    let guest = |kind| Guest::prepare(bench.workspace, kind, bench.log);
    let (host, dpu) = match (guest(Kind::Host)?, guest(Kind::Dpu)?) {
        (Ok(host), Ok(dpu)) => (host, dpu),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Verdict::Skipped(reason)),
    };
    let programs = bench.workspace.target.join(PROFILE);
    let kept = bench.workspace.folder("dpu")?;
    describe_jobs(&kept)?;
    let scripts = [host_script(&programs.join("umbra"), &kept), dpu_script(&built, &kept)];
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

/// Writes the configurations and a new secret. No two jobs have a port in common: the agents of the last one may not
/// have ended yet.
fn describe_jobs(folder: &Path) -> Result<(), Failure> {
    let mut random = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(folder.join("job.secret"), secret + "\n")?;
    for (job, first) in JOBS.iter().zip((7000..).step_by(100)) {
        let ports = format!("{}&{}:{}&{}", first, first + 1, first + 2, first + 3);
        let config = format!("# Format version: 1\nnode0,bf0:{HOST}:{ports}\nnode1,bf1:{DPU}:{ports}\n");
        fs::write(folder.join(format!("{}.cfg", job.name)), config)?;
    }
    Ok(())
}

/// Whether a job told what it should.
fn judge(job: &Job, object: &str) -> Result<(), String> {
    let all = [r#""mismatches":0,"failed_reads":0,"#];
    if let Some(part) = all.iter().chain(job.told).find(|part| !object.contains(**part)) {
        return Err(format!("{part} is not in what the job {} told", job.name));
    }
    let world = object.split('{').find(|part| part.starts_with(r#""group":"world","#));
    if world.is_some_and(|world| world.contains(r#""agents":4}"#)) {
        return Ok(());
    }
    Err(format!("not every agent of the job {} has the same table of the world", job.name))
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

/// Gives a guest its address and its device, waits until the device can be used, and takes the secret over: it must
/// belong to the guest's user.
fn begin(umbra: &Path, address: &str, kept: &Path) -> String {
    let (umbra, kept) = (umbra.display(), kept.display());
    format!(
        "set -e\n\
         ulimit -l unlimited\n\
         ip link set lo up\n\
         ip address add {address}/24 dev eth0\n\
         ip link set eth0 up\n\
         rdma link add rxe0 type rxe netdev eth0\n\
         for wait in $(seq 60); do '{umbra}' devices | grep -q preferred && break; sleep 1; done\n\
         '{umbra}' devices\n\
         (umask 077; cat '{kept}/job.secret' > /tmp/job.secret)\n"
    )
}

/// Runs the jobs on half a mebibyte of a file, and tells the DPU after each that it is done.
fn host_script(umbra: &Path, kept: &Path) -> String {
    let mut script = begin(umbra, HOST, kept);
    let (umbra, kept) = (umbra.display(), kept.display());
    script += &format!("head -c 500000 '{umbra}' > /tmp/input\n");
    for Job { name, options, .. } in JOBS {
        script += &format!(
            "'{umbra}' run --config '{kept}/{name}.cfg' --secret /tmp/job.secret {options} --quiet --json \
             --input /tmp/input --size 4K --reads 50 --timeout {PATIENCE}s\n\
             told=no\n\
             for wait in $(seq 60); do echo {name} done | busybox nc -w 5 {DPU} {DONE} && told=yes && break; sleep 1; done\n\
             test $told = yes\n"
        );
    }
    script
}

/// Runs the DPU's agents of each job until the host is done with it; all must end well.
fn dpu_script(built: &Built, kept: &Path) -> String {
    let mut script = begin(&built.umbra, DPU, kept);
    let (agent, kept) = (built.agent.display(), kept.display());
    for Job { name, .. } in JOBS {
        let start = format!(
            "'{agent}' --config '{kept}/{name}.cfg' --secret-file /tmp/job.secret --deadline-ms {PATIENCE}000 \
             --service-process"
        );
        script += &format!(
            "{start} 2 & first=$!\n\
             {start} 3 & second=$!\n\
             timeout 280 nc -l -p {DONE}\n\
             kill $first $second\n\
             wait $first\n\
             wait $second\n"
        );
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_judged_by_what_it_told() {
        let job = Job { name: "sample", options: "", told: &[r#""ok":true,"#] };
        let good =
            r#"{"ok":true,"tables":[{"group":"world","digest":"0a","agents":4}],"mismatches":0,"failed_reads":0,}"#;
        assert_eq!(judge(&job, good), Ok(()));
        for (part, other) in [("true", "false"), ("\"agents\":4", "\"agents\":3"), ("hes\":0", "hes\":1")] {
            assert!(judge(&job, &good.replace(part, other)).is_err(), "{part}");
        }
        assert!(judge(&job, "").is_err());
    }
}
