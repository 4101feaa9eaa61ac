//! A host and a DPU as two guests with a cable between them: two processors, one job.

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
    let scripts = [host_script(&programs.join("umbra")), dpu_script(&built)];
    let socket = bench.workspace.scratch.join("cable.sock");
    let console = Log::create(&bench.workspace.folder("xtask-logs")?.join("dpu-console.log"), false)?;
    let printed = run_both([host, dpu], &scripts, &socket, [bench.log, &console])?;
    match printed.iter().find(|line| line.contains("skipped: ")) {
        Some(_) => Err(Failure::new(tail(&printed))),
        None => Ok(Verdict::Passed("x86-64 and aarch64, soft-RoCE between them".to_owned())),
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

/// Gives a guest its address and its device, and waits until the device can be used.
fn network(umbra: &Path, address: &str) -> String {
    let umbra = umbra.display();
    format!(
        "set -e\n\
         ulimit -l unlimited\n\
         ip link set lo up\n\
         ip address add {address}/24 dev eth0\n\
         ip link set eth0 up\n\
         rdma link add rxe0 type rxe netdev eth0\n\
         for wait in $(seq 60); do '{umbra}' devices | grep -q preferred && break; sleep 1; done\n\
         '{umbra}' devices\n"
    )
}

fn host_script(umbra: &Path) -> String {
    let network = network(umbra, HOST);
    format!(
        "{network}\
         for wait in $(seq 200); do echo done | busybox nc -w 5 {DPU} {DONE} && exit 0; sleep 1; done\n\
         echo 'no answer from the DPU'\n\
         exit 1\n"
    )
}

fn dpu_script(built: &Built) -> String {
    let (network, agent) = (network(&built.umbra, DPU), built.agent.display());
    format!(
        "{network}\
         '{agent}' --version\n\
         timeout 280 nc -l -p {DONE}\n"
    )
}
