//! Agents that serve chained calls allocate nothing (scenario 55).
//!
//! Two agents are in this process, each as if alone on its host, with all of their threads; they speak TCP to each other. Who makes
//! the calls is another process. Allocations of all threads are counted, so there is no harness, whose own thread may
//! allocate at any time.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod rig;

use std::alloc::System;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use rig::start_agent;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use umbra::admin::ops;
use umbra::ask::{Asker, Target};
use umbra::call::{Member, Number, Operator, Station, below, built_in, reduction};
use umbra::config::Platform;
use umbra::link::{Address, socket_path};
use umbra::secret::Secret;
use umbra_core::chain::{Call, Node, Plan};
use umbra_core::peer::Sp;
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PATIENCE: Duration = Duration::from_secs(60);
const HOSTS: u32 = 2;
/// Members at each agent.
const RESIDENTS: u32 = 8;
/// Says to this program that it makes the calls, and where the agents have their sockets.
const MAKER: &str = "UMBRA_TEST_MAKER";
const SECRET: [u8; 32] = [7; 32];
/// Calls of each kind in a round.
const CALLS: usize = 100;
/// Rounds of calls; the first one uses memory for the first time.
const ROUNDS: usize = 8;
/// Most buffers that grow in a round of seven hundred calls.
const GROWTHS: usize = 8;

fn allocations() -> usize {
    let counted = COUNTED.stats();
    counted.allocations + counted.reallocations
}

/// The folder of a host's sockets.
fn folder(all: &Path, host: u32) -> PathBuf {
    all.join(format!("host{host}"))
}

/// Removed with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Ended with the test.
struct Maker(Child);

impl Drop for Maker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes rounds of calls over all members of both hosts; between two it waits to be told to go on.
fn make(all: &Path) {
    let address = Address::Unix(socket_path(&folder(all, 0), Sp(0)));
    let patience = Lapse::from_secs(60);
    let mut asker = Asker::connect(Secret::from_bytes(SECRET), vec![Target { sp: Sp(0), address }], patience).unwrap();
    let (_, descriptor) = asker.call_for(0, ops::CALLS, &[], patience).unwrap();
    let station = Station::attach(descriptor).unwrap();
    let shape = station.shape();
    let mut member = Member::join(&station, Node(shape.first + 2 * RESIDENTS)).unwrap();
    member.serve_built_ins(0).unwrap();
    let everywhere = shape.residents(RESIDENTS);
    let parents = below(&station.parents(&everywhere, Shape::BINARY).unwrap());
    let combine = reduction(Operator::Sum, Number::U64);
    let (one, value) = (1_i64.to_le_bytes(), [3; 64]);
    let kinds: [Call<'_>; 6] = [
        built_in::barrier(&everywhere),
        built_in::count(&everywhere, &one),
        built_in::broadcast(&everywhere, &value),
        built_in::reduce(&everywhere, &combine, 64),
        built_in::gather(&everywhere, 4096),
        // Fails: all values are longer.
        built_in::gather(&everywhere, 8),
    ];
    let mut make = |call: &Call<'_>| {
        let call = Call { plan: Plan::Parents(&parents), at_root: false, budget: patience, ..*call };
        let handle = member.start(&call).unwrap();
        member.wait(handle, PATIENCE).is_ok()
    };
    for _ in 0..ROUNDS {
        for (kind, call) in kinds.iter().enumerate() {
            for _ in 0..CALLS {
                assert_eq!(make(call), kind < 5, "call of kind {kind}");
                // One that fails ends before all have had it, and an inbox has room for some messages only.
                assert!(kind < 5 || make(&kinds[0]), "all have had it");
            }
        }
        io::stdout().write_all(b"r").unwrap();
        io::stdout().flush().unwrap();
        io::stdin().read_exact(&mut [0]).unwrap();
    }
}

fn main() {
    if let Some(all) = env::var_os(MAKER) {
        return make(Path::new(&all));
    }
    let all = Folder(env::temp_dir().join(format!("umbra-allocations-{}", std::process::id())));
    let held: Vec<TcpListener> = (0..2 * HOSTS).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<u16> = held.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    drop(held);
    let mut config = "# Format version: 1\n".to_owned();
    for (host, ports) in ports.chunks(2).enumerate() {
        config += &format!("node{host},bf{host}:127.0.0.1:{}:{}\n", ports[0], ports[1]);
    }
    let platform = Platform::parse(&config, "job.cfg").unwrap();
    let job = platform.job(&platform.dpu_names()).unwrap();
    for host in 0..HOSTS {
        fs::create_dir_all(folder(&all.0, host)).unwrap();
        let here = vec![job.dpu(&format!("bf{host}")).unwrap()];
        start_agent(job.clone(), Secret::from_bytes(SECRET), |settings| {
            (settings.sp, settings.here) = (Sp(host), here);
            (settings.sockets, settings.members) = (Some(folder(&all.0, host)), RESIDENTS as u16);
        });
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(MAKER, &all.0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut maker = Maker(command.spawn().unwrap());
    let (mut says, mut hears) = (maker.0.stdout.take().unwrap(), maker.0.stdin.take().unwrap());
    let mut counts = [0; ROUNDS];
    for count in &mut counts {
        let before = allocations();
        says.read_exact(&mut [0]).unwrap();
        *count = allocations() - before;
        hears.write_all(b"g").unwrap();
    }
    assert!(maker.0.wait().unwrap().success());
    assert!(counts[0] > 0, "allocations are counted");
    // A call needs none. A buffer grows where more comes at once than ever before, as on a busy machine.
    let [_, later @ ..] = counts;
    assert!(later.contains(&0) && later.iter().all(|&count| count <= GROWTHS), "by rounds of calls: {counts:?}");
}
