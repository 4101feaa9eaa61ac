//! An agent that looks out for the messages of ranks.
//!
//! The tests have it alone, replaced, killed, stopped, and lied to.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::advect::{Options, Problem, run, run_within, summary};
use umbra::boundary::{
    Agent, Attended, Boundary, BoundaryError, Extent, Field, Fields, Grid, Mesh, Scope, Settings, Store, Transport,
    TransportError, largest_message,
};
use umbra::secret::Secret;
use umbra::sys::segment::Segment;
use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::boundary::{Message, Shape, Sparse};
use umbra_tests::boundary_job::{SETTINGS, long_extent, long_row, send_to_one_that_does_not_receive, sparse};
use umbra_tests::late::beside_one_that_rests;
use umbra_tests::machine;
use umbra_tests::meeting::Meeting;
use umbra_tests::random_exchanges::Exchanges;
use umbra_tests::rig::{self, Guarded, Scratch};

#[test]
fn s10_random_exchanges_arrive_while_agents_come_and_go() {
    for (ranks, count) in [(2, 2_000), (4, 4_000), (8, 300)] {
        random_exchanges_while_agents_come_and_go(Exchanges { ranks, seed: 5, count });
    }
}

fn random_exchanges_while_agents_come_and_go(exchanges: Exchanges) {
    let extent = exchanges.extent().unwrap();
    let segment = Arc::new(Agent::segment(extent).unwrap());
    let ended = AtomicU32::new(0);
    thread::scope(|scope| {
        for rank in 0..exchanges.ranks {
            let (segment, ended) = (segment.clone(), &ended);
            scope.spawn(move || {
                let run = || exchanges.run(Attended::attach(segment, extent, rank).unwrap()).unwrap();
                let counts = panic::catch_unwind(AssertUnwindSafe(run));
                // The agents end also if a rank has failed.
                ended.fetch_add(1, Ordering::Relaxed);
                let counts = counts.unwrap_or_else(|panic| panic::resume_unwind(panic));
                assert!(counts.overflows > 0, "{counts:?}");
            });
        }
        let is_over = || ended.load(Ordering::Relaxed) == exchanges.ranks;
        for life in 0.. {
            let mut agent = Agent::attach(segment.clone(), extent).unwrap();
            let end = Instant::now() + Duration::from_millis(1 + life % 20);
            agent.attend(|| Instant::now() < end && !is_over()).unwrap();
            if is_over() {
                assert_eq!(agent.refused().unwrap(), 0, "nothing came twice");
                break;
            }
        }
    });
}

#[test]
fn s7_a_long_send_to_a_rank_that_never_receives_returns_with_an_agent_and_without() {
    for (smallest_slot, is_attended) in [256, 1 << 18].into_iter().flat_map(|slot| [(slot, false), (slot, true)]) {
        let extent = long_extent();
        let segment = Arc::new(Agent::segment(extent).unwrap());
        let is_over = AtomicU32::new(0);
        thread::scope(|scope| {
            let agent = is_attended.then(|| Agent::attach(segment.clone(), extent).unwrap());
            if let Some(mut agent) = agent {
                let is_over = &is_over;
                scope.spawn(move || agent.attend(|| is_over.load(Ordering::Relaxed) == 0).unwrap());
            }
            let ends = [0, 1].map(|rank| Attended::attach(segment.clone(), extent, rank).unwrap());
            let went = panic::catch_unwind(AssertUnwindSafe(|| send_to_one_that_does_not_receive(ends, smallest_slot)));
            is_over.store(1, Ordering::Relaxed);
            assert!(went.unwrap_or_else(|panic| panic::resume_unwind(panic)), "there is a second slot");
        });
    }
}

#[test]
fn s38_what_was_fetched_is_given_back_with_an_agent_and_without() {
    const STRIP: u64 = 128 * 1024;
    for is_attended in [true, false] {
        let (mesh, fields, extent) = (long_row(), [sparse(0.5, 0.5, 0.0)], long_extent());
        let segment = Arc::new(Agent::segment(extent).unwrap());
        let settings = Settings { smallest_slot: 256, largest_slot: 4096, ..SETTINGS };
        let (ended, together) = (AtomicU32::new(0), Meeting::of(0..2));
        let rank = |rank: u32| {
            let end = Attended::attach(segment.clone(), extent, rank).unwrap();
            let mut boundary = Boundary::build(&mesh, &fields, end, settings).unwrap();
            let mut store = Store::new(2, mesh.shape().len(), &fields, 1);
            store.allocate(rank, 0).unwrap();
            let mut held = [1.0, 0.0, 1.0].map(|value| {
                store.stage(0).values_mut(rank, 0).unwrap().fill(value);
                // In each slot more messages than it takes to give memory back.
                (0..200).for_each(|_| boundary.exchange(&mut store.stage(0)).unwrap());
                // Nobody sends the next message before both have looked.
                together.wait(rank);
                let held = boundary.held().unwrap().receive;
                together.wait(rank);
                held
            });
            boundary.remesh(&mesh).unwrap();
            let after = boundary.held().unwrap().receive;
            let counts = *boundary.counts();
            boundary.close().unwrap();
            ended.fetch_add(1, Ordering::Relaxed);
            assert!((390..=402).contains(&counts.overflows), "{counts:?}");
            // A page a slot, and what was fetched.
            held.iter_mut().for_each(|held| *held -= 2 * 4096);
            (held, after)
        };
        let ranks = thread::scope(|scope| {
            let agent = is_attended.then(|| Agent::attach(segment.clone(), extent).unwrap());
            if let Some(mut agent) = agent {
                let ended = &ended;
                scope.spawn(move || agent.attend(|| ended.load(Ordering::Relaxed) < 2).unwrap());
            }
            let rank = &rank;
            [0, 1].map(|nth| scope.spawn(move || rank(nth))).map(|rank| rank.join().unwrap())
        });
        for (held, after) in ranks {
            let [burst, calm, again] = held;
            assert!(burst >= 2 * (STRIP - 4096) && again == burst && calm == 0, "{held:?}");
            assert!(after <= 2 * 4096, "{after}");
        }
    }
}

/// The program that is the agent of such a run, with its memory.
fn agent(options: &Options, segment: &Segment) -> Guarded {
    let memory: OwnedFd = segment.share().unwrap();
    let mut command = Command::new(&rig::programs().1);
    command.args(["--boundary", &options.extent().unwrap().to_string()]);
    command.stdin(Stdio::from(memory)).spawn().unwrap().into()
}

#[test]
fn s40_an_agent_that_is_killed_again_and_again_changes_no_bit() {
    let options = Options {
        blocks: 4,
        cells: 8,
        fields: 3,
        radius: 2,
        cycles: 1_500,
        ranks: 3,
        delay: Duration::from_micros(300),
        agent: true,
        ..Options::new(Problem::Smooth, 2)
    };
    // Building them would take longer than the run.
    let _ = rig::programs();
    let expected = run(&Options { ranks: 1, agent: false, delay: Duration::ZERO, ..options }, |_| ()).unwrap();
    let segment = Arc::new(Agent::segment(options.extent().unwrap()).unwrap());
    let ended = AtomicU32::new(0);
    let (outcome, killed) = thread::scope(|scope| {
        let run = |rank| {
            let outcome = run_within(&options, rank, segment.clone(), |_| ()).unwrap();
            ended.fetch_add(1, Ordering::Relaxed);
            outcome
        };
        let ranks: Vec<_> = (0..options.ranks).map(|rank| scope.spawn(move || run(rank))).collect();
        let mut killed = 0;
        while ended.load(Ordering::Relaxed) < options.ranks {
            let mut agent = agent(&options, &segment);
            thread::sleep(Duration::from_millis(40 + killed * 7 % 30));
            agent.kill().unwrap();
            agent.wait().unwrap();
            killed += 1;
        }
        (summary(ranks.into_iter().map(|rank| rank.join().unwrap()).collect()), killed)
    });
    assert!(killed > 3, "only {killed} agents were killed");
    assert_eq!((outcome.hash, outcome.nonzero), (expected.hash, expected.nonzero));
    for rank in &outcome.ranks {
        let [messages, ..] = rank.counts;
        assert!(messages <= 2 * 1_500 * 2, "two exchanges a cycle, and two peers");
        assert!(rank.attended > 0 && rank.attended < messages, "agents found {} of {messages}", rank.attended);
    }
}

/// Two blocks in a row, one on each of two ranks, and a field that both have.
fn pair<T: Transport + Send>(
    segment: &Arc<Segment>,
    extent: Extent,
    deadline: Duration,
    end: impl Fn(Attended) -> T + Sync,
) -> [(Boundary<T>, Store); 2] {
    let (mesh, fields) = (mesh(), [field()]);
    let settings = Settings { deadline: Some(rig::PATIENCE), ..Settings::default() };
    let build = |rank| {
        let transport = end(Attended::attach(segment.clone(), extent, rank).unwrap());
        let mut store = Store::new(2, mesh.shape().len(), &fields, 1);
        store.allocate(rank, 0).unwrap();
        store.stage(0).values_mut(rank, 0).unwrap().fill(f64::from(rank) + 1.0);
        let mut boundary = Boundary::build(&mesh, &fields, transport, settings).unwrap();
        boundary.set_deadline(Some(deadline));
        (boundary, store)
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| build(1));
        [build(0), other.join().unwrap()]
    })
}

fn mesh() -> Grid {
    Grid::new(Shape::new([4, 1, 1], [1, 0, 0]).unwrap(), [2, 1, 1], [true; 3], 2)
}

fn field() -> Field {
    Field::sparse(Sparse::new(1e-3, 1e-3, 0.0).unwrap())
}

fn memory() -> (Arc<Segment>, Extent) {
    let extent = Extent { ranks: 2, slots: 2, message: largest_message(&mesh(), &[field()], 2) };
    (Arc::new(Agent::segment(extent).unwrap()), extent)
}

/// One exchange of both ranks in turn, with an agent of this thread if there is one.
fn exchange(ranks: &mut [(Boundary<Attended>, Store); 2], mut agent: Option<&mut Agent>) {
    for (rank, store) in ranks.iter_mut() {
        assert!(rank.send(&store.stage(0), Scope::Any).unwrap().is_ready());
    }
    for (rank, store) in ranks.iter_mut() {
        while rank.receive(&mut store.stage(0), Scope::Any).unwrap().is_pending() {
            agent.as_mut().map(|agent| agent.look().unwrap());
        }
        rank.set(&mut store.stage(0), Scope::Any).unwrap();
    }
    assert_eq!(ranks[0].1.values(0, 0, 0).unwrap()[0], 2.0);
    assert_eq!(ranks[1].1.values(1, 0, 0).unwrap()[5], 1.0);
}

fn is_alone(rank: &(Boundary<Attended>, Store)) -> bool {
    rank.0.transport().is_alone().unwrap()
}

#[test]
fn a_rank_is_alone_until_an_agent_comes_and_again_when_it_has_gone() {
    let (segment, extent) = memory();
    let mut ranks = pair(&segment, extent, Duration::from_secs(60), |end| end);
    exchange(&mut ranks, None);
    assert!(ranks.iter().all(is_alone));
    let mut agent = Agent::attach(segment, extent).unwrap();
    assert!(!agent.look().unwrap(), "it asks for its place");
    exchange(&mut ranks, Some(&mut agent));
    assert!(!ranks.iter().any(is_alone), "it got it with the next exchange");
    for (rank, store) in &mut ranks {
        assert!(rank.send(&store.stage(0), Scope::Any).unwrap().is_ready());
        let mut waits = |_| rank.receive(&mut store.stage(0), Scope::Any).unwrap().is_pending();
        assert!((0..1_000).all(&mut waits), "nobody has looked yet");
    }
    exchange(&mut ranks, Some(&mut agent));
    drop(agent);
    exchange(&mut ranks, None);
    assert!(ranks.iter().all(is_alone));
}

#[test]
fn a_rank_that_looks_seldom_does_not_wait_for_an_agent_that_has_gone() {
    let (segment, extent) = memory();
    let mut ranks = pair(&segment, extent, Duration::from_secs(60), |end| end);
    let mut agent = Agent::attach(segment, extent).unwrap();
    agent.look().unwrap();
    exchange(&mut ranks, Some(&mut agent));
    assert!(!ranks.iter().any(is_alone));
    for (rank, store) in &mut ranks {
        assert!(rank.send(&store.stage(0), Scope::Any).unwrap().is_ready());
    }
    drop(agent);
    for (rank, store) in &mut ranks {
        let mut computes_and_looks = |_| {
            thread::sleep(Duration::from_millis(20));
            rank.receive(&mut store.stage(0), Scope::Any).unwrap().is_ready()
        };
        assert!((0..10).any(&mut computes_and_looks), "what it waits for is there");
    }
}

#[test]
fn a_service_process_looks_out_beside_its_job_and_gives_the_ranks_back_when_it_ends() {
    let (segment, extent) = memory();
    let scratch = Scratch::new("lookout");
    let (config, secret) = (scratch.path().join("job.cfg"), scratch.path().join("secret"));
    Secret::random().unwrap().create(&secret).unwrap();
    let (ip, ports) = rig::address(2);
    std::fs::write(&config, format!("# Format version: 1\nnode1,bf1:{ip}:{}:{}\n", ports[0], ports[1])).unwrap();
    let mut command = rig::bound(&rig::programs().1);
    command.args(["--service-process", "0", "--boundary", &extent.to_string(), "--config"]).arg(&config);
    command.arg("--secret-file").arg(&secret).stdin(Stdio::from(segment.share().unwrap())).stdout(Stdio::piped());
    let mut agent = Guarded::from(command.spawn().unwrap());
    let ready = BufReader::new(agent.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(ready.contains("service process 0 ready"), "{ready}");
    let mut ranks = pair(&segment, extent, Duration::from_secs(60), |end| end);
    // It looks in a thread of its own, that may begin later.
    machine::until("the agent looks out", || {
        exchange(&mut ranks, None);
        !ranks.iter().any(is_alone)
    });
    kill_process(Pid::from_child(&agent), Signal::TERM).unwrap();
    assert!(agent.wait().unwrap().success());
    exchange(&mut ranks, None);
    assert!(ranks.iter().all(is_alone));
}

#[test]
fn an_agent_refuses_a_standard_input_that_is_no_such_memory() {
    let run = |extent: &str, memory: Stdio| {
        let output = Command::new(&rig::programs().1).args(["--boundary", extent]).stdin(memory).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run("2,2,64", Stdio::null());
    assert!(code == Some(1) && said.contains("standard input is not the memory of a boundary exchange"), "{said}");
    let (segment, extent) = memory();
    let larger = Extent { ranks: extent.ranks + 1, ..extent };
    let (code, said) = run(&larger.to_string(), Stdio::from(segment.share().unwrap()));
    assert!(code == Some(1) && said.contains(&format!("of {larger} (ranks, slots, bytes)")), "{said}");
    let (code, said) = run("2,2", Stdio::null());
    assert!(code == Some(2) && said.contains("is no extent"), "{said}");
}

#[test]
fn s40_an_agent_that_lives_and_does_nothing_is_named_beside_the_channels_at_the_deadline() {
    // It may be that a message waits for it, or that a peer that it has left alone as well could send none.
    for sent in [true, false] {
        let (segment, extent) = memory();
        // It takes its places before there are ranks.
        let mut agent = Agent::attach(segment.clone(), extent).unwrap();
        agent.look().unwrap();
        let [(mut sender, mut from), (mut receiver, mut into)] =
            pair(&segment, extent, Duration::from_secs(2), |end| end);
        if sent {
            assert!(sender.send(&from.stage(0), Scope::Any).unwrap().is_ready());
        }
        assert!(receiver.send(&into.stage(0), Scope::Any).unwrap().is_ready());
        let error = receiver.wait(&mut into.stage(0), Scope::Any).unwrap_err();
        let BoundaryError::Late(late) = &error else { panic!("{error}") };
        assert!(late.count > 0 && late.missing[0].rank == 0, "{error}");
        let Some(TransportError::Agent { pid, rank: 1, idle }) = late.hindered else { panic!("{error}") };
        assert!(pid == std::process::id() && (100..60_000).contains(&idle.as_millis()), "{error}");
        // Once it goes on so does the exchange.
        assert!(sender.send(&from.stage(0), Scope::Any).unwrap().is_ready());
        assert!(agent.look().unwrap());
        for (rank, store) in [(&mut sender, &mut from), (&mut receiver, &mut into)] {
            rank.wait(&mut store.stage(0), Scope::Any).unwrap();
            rank.set(&mut store.stage(0), Scope::Any).unwrap();
        }
    }
}

/// A thread that rests is away for a fraction of that where there is a processor for it.
const STANDS_STILL: Duration = Duration::from_millis(25);

/// How a rank waits in vain while its agent looks.
fn fails_beside<T: Transport + Send>(
    agent: &mut Agent,
    (receiver, into): (&mut Boundary<T>, &mut Store),
) -> BoundaryError {
    let over = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| agent.attend(|| over.load(Ordering::Relaxed) == 0).unwrap());
        let error = receiver.wait(&mut into.stage(0), Scope::Any).unwrap_err();
        over.store(1, Ordering::Relaxed);
        error
    })
}

#[test]
fn an_agent_that_looks_is_not_blamed_for_a_peer_that_sends_nothing() {
    let attempt = || {
        let (segment, extent) = memory();
        let mut agent = Agent::attach(segment.clone(), extent).unwrap();
        agent.look().unwrap();
        let [_, (mut receiver, mut into)] = pair(&segment, extent, Duration::from_secs(2), |end| end);
        assert!(receiver.send(&into.stage(0), Scope::Any).unwrap().is_ready());
        match fails_beside(&mut agent, (&mut receiver, &mut into)) {
            BoundaryError::Late(late) if late.count > 0 => late.hindered,
            error => panic!("{error}"),
        }
    };
    // Where the machine stands still at the deadline the agent has done so as well: that shows in who rests as often as it.
    let on_time = |_| match beside_one_that_rests(attempt) {
        (None, _) => true,
        (Some(agent), longest) => {
            assert!(longest >= STANDS_STILL, "{agent}, and who rests beside it was away for {longest:?} at most");
            false
        }
    };
    assert!((0..20).any(on_time), "this machine does nothing but stand still");
}

/// An end whose heads are damaged on their way.
struct Damaging(Attended);

impl Transport for Damaging {
    umbra_tests::hands_on!();

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        let mut head = head.to_vec();
        head[24] ^= 1;
        self.0.publish(message, epoch, &head)
    }
    fn ready(&mut self, sequence: u32) -> Result<bool, TransportError> {
        self.0.ready(sequence)
    }
    fn hindered(&self) -> Option<TransportError> {
        self.0.hindered()
    }
    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.0.write_plan(to, bytes)
    }
    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        self.0.read_plan(from)
    }
}

#[test]
fn s45_a_damaged_head_is_refused_and_counted_by_the_agent_and_never_seen_by_the_rank() {
    let (segment, extent) = memory();
    let mut agent = Agent::attach(segment.clone(), extent).unwrap();
    agent.look().unwrap();
    let [(mut sender, from), (mut receiver, mut into)] = pair(&segment, extent, Duration::from_secs(2), Damaging);
    let mut from = from;
    assert!(sender.send(&from.stage(0), Scope::Any).unwrap().is_ready());
    assert!(receiver.send(&into.stage(0), Scope::Any).unwrap().is_ready());
    let error = fails_beside(&mut agent, (&mut receiver, &mut into));
    assert!(matches!(&error, BoundaryError::Late(late) if late.missing[0].rank == 0), "{error}");
    assert_eq!(agent.refused().unwrap(), 2, "each once");
    assert_eq!(receiver.counts().refused, 0);
}
