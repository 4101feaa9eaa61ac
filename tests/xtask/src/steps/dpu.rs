//! A host and a DPU as two guests with a cable between them: two processors, one job.
//!
//! The agents of the DPU are started by hand in its guest. `umbra run` in the host's guest starts ranks and the agents of
//! another DPU, lets all of them build their tables, and every agent read every rank. What it tells as JSON is kept.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
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

/// Two hosts with a DPU of two service processes each: agents of `bf0` run in the host's guest, those of `bf1` in the
/// DPU's.
const CONFIG: &str = "# Format version: 1\n\
                      node0,bf0:10.77.0.1:7010&7011:9010&9011\n\
                      node1,bf1:10.77.0.2:7010&7011:9010&9011\n";
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
    describe_job(&kept)?;
    let scripts = [host_script(&programs.join("umbra"), &kept), dpu_script(&built, &kept)];
    let socket = bench.workspace.scratch.join("cable.sock");
    let console = Log::create(&bench.workspace.folder("xtask-logs")?.join("dpu-console.log"), false)?;
    let printed = run_both([host, dpu], &scripts, &socket, [bench.log, &console])?;
    let told = keep(&printed, &kept)?;
    Ok(Verdict::Passed(format!("agents on x86-64 and aarch64 agree; {}", told.display())))
}

/// Writes the configuration and a new secret.
fn describe_job(folder: &Path) -> Result<(), Failure> {
    let mut random = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(folder.join("job.secret"), secret + "\n")?;
    Ok(fs::write(folder.join("job.cfg"), CONFIG)?)
}

/// Keeps what the run told, if it is what it should be.
fn keep(printed: &[String], folder: &Path) -> Result<PathBuf, Failure> {
    let object = printed.iter().find(|line| line.starts_with('{')).map(String::as_str).unwrap_or_default();
    let path = folder.join("asked.json");
    fs::write(&path, format!("{object}\n"))?;
    let wanted = [
        r#""ok":true,"hosts":1,"service_processes":4,"agents_elsewhere":2,"ranks":4,"#,
        r#""mismatches":0,"failed_reads":0,"#,
        r#"{"path":"asked","own_rank":false,"#,
        r#""rank_wakeups":0,"#,
    ];
    let world = object.split('{').find(|part| part.starts_with(r#""group":"world","#));
    let missing = wanted.into_iter().find(|part| !object.contains(part));
    match (missing, world.is_some_and(|world| world.contains(r#""agents":4}"#))) {
        (None, true) => Ok(path),
        (None, false) => Err(Failure::new(format!("not every agent has the same table of the world: {object}"))),
        (Some(part), _) => Err(Failure::new(format!("{}\n{part} is not in what the run told", tail(printed)))),
    }
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
fn begin(umbra: &Path, address: &str, job: &Path) -> String {
    let (umbra, job) = (umbra.display(), job.display());
    format!(
        "set -e\n\
         ulimit -l unlimited\n\
         ip link set lo up\n\
         ip address add {address}/24 dev eth0\n\
         ip link set eth0 up\n\
         rdma link add rxe0 type rxe netdev eth0\n\
         for wait in $(seq 60); do '{umbra}' devices | grep -q preferred && break; sleep 1; done\n\
         '{umbra}' devices\n\
         (umask 077; cat '{job}/job.secret' > /tmp/job.secret)\n\
         job='--config {job}/job.cfg'\n"
    )
}

/// Runs the job on half a mebibyte of a file, and tells the DPU that it is done.
fn host_script(umbra: &Path, job: &Path) -> String {
    let (begin, umbra) = (begin(umbra, HOST, job), umbra.display());
    format!(
        "{begin}\
         head -c 500000 '{umbra}' > /tmp/input\n\
         '{umbra}' run $job --secret /tmp/job.secret --here node0 --start bf0 --quiet --json --input /tmp/input \
         --size 4K --reads 50 --timeout {PATIENCE}s\n\
         for wait in $(seq 60); do echo done | busybox nc -w 5 {DPU} {DONE} && exit 0; sleep 1; done\n\
         echo 'no answer from the DPU'\n\
         exit 1\n"
    )
}

/// Runs the DPU's agents until the host is done; both must end well.
fn dpu_script(built: &Built, job: &Path) -> String {
    let (begin, agent) = (begin(&built.umbra, DPU, job), built.agent.display());
    format!(
        "{begin}\
         agent() {{ exec '{agent}' $job --secret-file /tmp/job.secret --deadline-ms {PATIENCE}000 --service-process $1; }}\n\
         agent 2 & first=$!\n\
         agent 3 & second=$!\n\
         timeout 280 nc -l -p {DONE}\n\
         kill $first $second\n\
         wait $first\n\
         wait $second\n"
    )
}
