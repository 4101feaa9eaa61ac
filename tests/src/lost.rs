//! Ranks of a boundary exchange as processes, one of which is killed or stopped.
//!
//! Over any transport. Each is the program of the test again, with the memory in which all meet as its standard input. It checks
//! what is true of it, and tells it line by line.

use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::boundary::{
    Agent, Attended, Boundary, BoundaryError, Extent, Fabric, Field, Greeting, Grid, Late, Mesh as _, Nodes, Settings,
    Store, Transport, TransportError, VerbsRing, largest_message,
};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::boundary::Missing;

use crate::boundary_job::{SETTINGS, shape, sparse};
use crate::late::in_time;
use crate::machine::until;
use crate::rig::{self, Guarded, PATIENCE};
use crate::verbs::device;

const RANK: &str = "UMBRA_TEST_RANK";
const WHEN: &str = "UMBRA_TEST_WHEN";
/// Of the exchange that is waited for in vain, and of what follows it.
const DEADLINE: Duration = Duration::from_secs(2);
const RANKS: u32 = 3;
/// The one that is killed.
const LOST: u32 = 1;
/// In front of what a rank tells.
const TOLD: &str = "told: ";
/// Exchanges between two looks at whether all are looked out for.
const ROUND: u32 = 50;
/// Words behind the memory of a transport: who has come, whether the agent is gone, and of each rank whether one looks out for it.
const HERE: usize = 0;
const GONE: usize = 8;
const ATTENDED: usize = 16;
const WORDS: usize = 16 + RANKS as usize * 8;

/// What ranks exchange over.
pub trait End: Transport + Sized {
    /// Whether a way breaks when its rank is lost. Then the others are told at once, and stop sending to each other too.
    const BREAKS: bool = false;
    /// Whether a process looks out for the ranks.
    const ATTENDED: bool = false;

    /// Bytes of the memory in which ranks meet.
    fn bytes(extent: Extent) -> usize;

    /// The end of a rank; all ranks come to `meet`.
    fn of(segment: &Arc<Segment>, extent: Extent, rank: u32, meet: &mut dyn FnMut()) -> Self;

    /// Whether the rank has to look out for itself.
    fn is_alone(&self) -> bool {
        true
    }
}

impl End for Fabric {
    fn bytes(extent: Extent) -> usize {
        extent.bytes()
    }

    fn of(segment: &Arc<Segment>, extent: Extent, rank: u32, _: &mut dyn FnMut()) -> Fabric {
        Fabric::attach(segment.clone(), extent, rank).expect("the memory is large enough")
    }
}

impl End for Attended {
    const ATTENDED: bool = true;

    fn bytes(extent: Extent) -> usize {
        Agent::bytes(extent)
    }

    fn of(segment: &Arc<Segment>, extent: Extent, rank: u32, _: &mut dyn FnMut()) -> Attended {
        Attended::attach(segment.clone(), extent, rank).expect("the memory is large enough")
    }

    fn is_alone(&self) -> bool {
        Attended::is_alone(self).expect("the memory is there")
    }
}

/// Ranks of a node, one of which is lost; the others are alone on theirs.
const NODE: [u32; 2] = [0, LOST];

impl End for Nodes<Fabric, Fabric> {
    /// What all share, then what those of the node do, and what each of the others has of its own.
    fn bytes(extent: Extent) -> usize {
        let within = |ranks| Extent { ranks, ..extent }.bytes();
        extent.bytes() + within(NODE.len() as u32) + extent.ranks as usize * within(1)
    }

    fn of(segment: &Arc<Segment>, extent: Extent, rank: u32, _: &mut dyn FnMut()) -> Nodes<Fabric, Fabric> {
        let far = Fabric::attach(segment.clone(), extent, rank).expect("the memory is large enough");
        let alone = [rank];
        let ranks = if NODE.contains(&rank) { &NODE[..] } else { &alone };
        let within = |ranks| Extent { ranks, ..extent };
        let node = extent.bytes();
        let own = node + within(NODE.len() as u32).bytes() + rank as usize * within(1).bytes();
        let (within, first) = (within(ranks.len() as u32), if ranks.len() > 1 { node } else { own });
        let memory = segment.share().expect("a descriptor");
        let memory = Segment::attach_at(memory, Mapping::ReadWrite, first, within.bytes()).expect("it is as large");
        let seat = ranks.iter().position(|&other| other == rank).expect("it is there");
        let near = Fabric::attach(Arc::new(memory), within, seat as u32).expect("the memory is large enough");
        Nodes::new(near, far, ranks).expect("ends of one rank")
    }
}

/// Words for a greeting.
const GREETING: usize = 8 * umbra::boundary::GREETING_BYTES.div_ceil(8);

impl End for VerbsRing {
    const BREAKS: bool = true;

    /// Greetings of each rank to each.
    fn bytes(extent: Extent) -> usize {
        (extent.ranks * extent.ranks) as usize * GREETING
    }

    fn of(segment: &Arc<Segment>, extent: Extent, rank: u32, meet: &mut dyn FnMut()) -> VerbsRing {
        let port = device().expect("the test found it").active_port(1, None).expect("it carries data");
        let words = |from: u32, to: u32| {
            let at = (from * extent.ranks + to) as usize * GREETING;
            segment.words(at, GREETING / 8).expect("the memory is large enough")
        };
        let mut end = VerbsRing::new(&port, extent, rank).expect("the device has room");
        let others = || (0..extent.ranks).filter(|&other| other != rank);
        for to in others() {
            let greeting = end.greeting(to).expect("another rank").to_bytes();
            for (word, bytes) in words(rank, to).iter().zip(greeting.chunks(8)) {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
            }
        }
        meet();
        for from in others() {
            let bytes: Vec<u8> =
                words(from, rank).iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
            let greeting = bytes.first_chunk().and_then(Greeting::from_bytes).expect("it has greeted");
            end.connect(from, &greeting).expect("it is there");
        }
        // Nobody sends to a rank that has not connected.
        meet();
        end
    }
}

/// When a rank is killed, or that it is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before an exchange of an epoch that had many.
    Exchanging,
    /// Before the first exchange of an epoch, of which there were some with one each.
    EarlyInEpoch,
    /// Before an exchange, after the agent.
    AgentToo,
    /// Before the others vote, with no exchange open.
    InVote,
    /// It is stopped before an exchange: its process is there, and no way to it breaks.
    Stopped,
}

impl When {
    const ALL: [When; 5] = [When::Exchanging, When::EarlyInEpoch, When::AgentToo, When::InVote, When::Stopped];

    const fn word(self) -> &'static str {
        match self {
            When::Exchanging => "exchanging",
            When::EarlyInEpoch => "early",
            When::AgentToo => "agent",
            When::InVote => "vote",
            When::Stopped => "stopped",
        }
    }
}

/// A ring, so that each rank is a neighbour of both others.
fn ring() -> (Grid, [Field; 2], Extent) {
    let mesh = Grid::new(shape(2, 4, 2), [RANKS, 1, 1], [true, false, false], RANKS);
    // One that is nowhere, and one that is everywhere.
    let fields = [sparse(0.5, 0.5, 0.0), Field::DENSE];
    let extent = Extent { ranks: RANKS, slots: 2, message: largest_message(&mesh, &fields, RANKS) };
    (mesh, fields, extent)
}

/// Words that all ranks and the test see.
struct Words {
    segment: Arc<Segment>,
    first: usize,
    /// Meetings of this rank.
    met: u64,
}

impl Words {
    fn at(&self, at: usize) -> &AtomicU64 {
        self.segment.word(self.first + at).expect("the memory has these words")
    }

    /// Waits until all ranks have come.
    fn meet(&mut self) {
        self.met += 1;
        // ORDERING: what a rank wrote before it came is read by who has seen it come.
        self.at(HERE).fetch_add(1, Ordering::AcqRel);
        until("all ranks are here", || self.at(HERE).load(Ordering::Acquire) >= self.met * u64::from(RANKS));
    }

    /// Whether something holds of all ranks; they ask together.
    fn all(&mut self, rank: u32, holds: bool) -> bool {
        self.at(ATTENDED + rank as usize * 8).store(holds.into(), Ordering::Release);
        self.meet();
        let all = (0..RANKS as usize).all(|rank| self.at(ATTENDED + rank * 8).load(Ordering::Acquire) == 1);
        self.meet();
        all
    }
}

/// Is a process of the ring, if the test has started it as one.
///
/// # Panics
/// If something is not as it should be.
pub fn be<E: End>() {
    let Some(rank) = std::env::var_os(RANK) else { return };
    let rank: u32 = rank.to_str().and_then(|rank| rank.parse().ok()).expect("the number of a rank");
    let (mesh, fields, extent) = ring();
    let memory = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let segment = Segment::attach(memory, Mapping::ReadWrite, E::bytes(extent) + WORDS);
    let segment = Arc::new(segment.expect("the memory of the test"));
    let mut words = Words { segment: segment.clone(), first: E::bytes(extent), met: 0 };
    // Processes start as slowly as they like, and the deadline is for those that wait in vain.
    words.meet();
    let end = E::of(&segment, extent, rank, &mut || words.meet());
    let settings = Settings { deadline: Some(PATIENCE), ..SETTINGS };
    let mut boundary = Boundary::build(&mesh, &fields, end, settings).expect("the same mesh");
    let mut store = Store::new(RANKS, mesh.shape().len(), &fields, 1);
    store.allocate(rank, 1).expect("memory");
    let begun = Instant::now();
    loop {
        (0..ROUND).for_each(|_| boundary.exchange(&mut store.stage(0)).expect("all ranks are here"));
        if words.all(rank, boundary.transport().is_alone() != E::ATTENDED) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the agent does not come");
    }
    boundary.set_deadline(Some(DEADLINE));
    println!("{TOLD}exchanged");
    let when = std::env::var(WHEN).ok().and_then(|word| When::ALL.into_iter().find(|when| when.word() == word));
    let when = when.expect("a word");
    if when == When::AgentToo {
        until("the agent is gone", || words.at(GONE).load(Ordering::Acquire) == 1);
        assert!(!boundary.transport().is_alone(), "nobody has looked since");
        words.meet();
        in_time(DEADLINE, || boundary.exchange(&mut store.stage(0))).expect("the ranks look for themselves");
        assert!(boundary.transport().is_alone());
        words.meet();
        println!("{TOLD}exchanged alone");
    }
    if when == When::EarlyInEpoch {
        // The numbers of exchanges begin anew, with what was sent before still in the slots.
        for _ in 0..2 {
            boundary.remesh(&mesh).expect("all ranks are here");
            boundary.exchange(&mut store.stage(0)).expect("all ranks are here");
        }
        boundary.remesh(&mesh).expect("all ranks are here");
        words.meet();
        println!("{TOLD}remeshed");
    }
    if rank == LOST {
        // It computes until it is killed or stopped.
        std::thread::sleep(PATIENCE);
        return;
    }
    let mut fails = |what: &str, act: &mut dyn FnMut(&mut Boundary<E>) -> Result<(), BoundaryError>| {
        let begun = Instant::now();
        let error = in_time(DEADLINE, || act(&mut boundary)).expect_err("a rank is lost");
        let took = begun.elapsed();
        let (BoundaryError::Late(late) | BoundaryError::StillOpen(late) | BoundaryError::Lost(late)) = &error else {
            panic!("{error:?}")
        };
        let breaks = E::BREAKS && when != When::Stopped;
        assert!(is_missing(late, rank, breaks), "{error}");
        // Which process has ended is known long before the deadline; a queue pair may take longer to break.
        let is_known = what == "exchange" && !E::BREAKS && when != When::Stopped;
        assert!(!is_known || matches!(error, BoundaryError::Lost(_)), "{error:?}");
        // Nothing is known of one that is stopped until then.
        let is_late = matches!(error, BoundaryError::Late(_)) && took >= DEADLINE;
        assert!(what != "exchange" || when != When::Stopped || is_late, "{error:?} after {took:?}");
        println!("{TOLD}{what}: {error}");
    };
    if when == When::InVote {
        let error = in_time(DEADLINE, || boundary.remesh(&mesh)).expect_err("a rank is lost");
        assert!(
            matches!(error, BoundaryError::Transport(TransportError::Ended { rank: LOST, .. })) && boundary.is_spent(),
            "{error:?}"
        );
        println!("{TOLD}vote: {error}");
        return;
    }
    fails("exchange", &mut |boundary| boundary.exchange(&mut store.stage(0)));
    fails("remesh", &mut |boundary| boundary.remesh(&mesh));
    fails("close", &mut Boundary::close);
    // A second for what may still arrive.
    in_time(Duration::from_secs(1), || drop(boundary));
    println!("{TOLD}ended");
}

/// Whether what is missing is what the lost rank should have sent, and what others have not sent only if ways break.
fn is_missing(late: &Late, rank: u32, breaks: bool) -> bool {
    let (lost, others): (Vec<&Missing>, Vec<&Missing>) = late.missing.iter().partition(|missing| missing.rank == LOST);
    let sent = |field: u16| (LOST, rank, field);
    let keys: Vec<_> = lost.iter().map(|Missing { key, .. }| (key.sender, key.receiver, key.field)).collect();
    keys == [sent(0), sent(1)] && (breaks || others.is_empty())
}

/// A process of the ring, as this test of the program that runs.
fn rank(test: &str, rank: u32, segment: &Segment, when: When) -> Guarded {
    let mut command = Command::new(std::env::current_exe().expect("this program has a name"));
    command.args(["--exact", test, "--nocapture"]).env(RANK, rank.to_string()).env(WHEN, when.word());
    let command = command.stdin(segment.share().expect("a descriptor")).stdout(Stdio::piped());
    Guarded::from(command.spawn().expect("it starts"))
}

/// Runs a ring whose ranks are this test of the program that runs, which calls [`be`], and kills or stops one of them; the others must
/// tell rank, block and field in time, or the rank where they vote, and end.
///
/// # Panics
/// If something is not as it should be.
pub fn lose<E: End>(test: &str, when: When) {
    let (_, _, extent) = ring();
    let segment = Segment::create("umbra-lost", E::bytes(extent) + WORDS).expect("memory");
    let mut agent = E::ATTENDED.then(|| {
        let mut command = Command::new(&rig::programs().1);
        command.args(["--boundary", &extent.to_string()]).stdin(segment.share().expect("a descriptor"));
        Guarded::from(command.spawn().expect("it starts"))
    });
    let mut ranks: Vec<Guarded> = (0..RANKS).map(|nth| rank(test, nth, &segment, when)).collect();
    let mut lost = ranks.remove(LOST as usize);
    let said = BufReader::new(lost.stdout.take().expect("a pipe"));
    let mut said = said.lines().map_while(Result::ok).filter_map(|line| Some(line.split_once(TOLD)?.1.to_owned()));
    let killed = |process: &mut Guarded| {
        process.kill().expect("it runs");
        assert_eq!(process.wait().expect("a child").signal(), Some(9));
    };
    assert_eq!(said.next().as_deref(), Some("exchanged"));
    if when == When::AgentToo {
        killed(agent.as_mut().expect("there is one"));
        segment.word(E::bytes(extent) + GONE).expect("a word").store(1, Ordering::Release);
        assert_eq!(said.next().as_deref(), Some("exchanged alone"));
    }
    if when == When::EarlyInEpoch {
        assert_eq!(said.next().as_deref(), Some("remeshed"));
    }
    if when == When::Stopped {
        kill_process(Pid::from_child(&lost), Signal::STOP).expect("it runs");
    } else {
        killed(&mut lost);
    }
    for (rank, process) in [0, 2].into_iter().zip(ranks) {
        let output = process.finish(Instant::now() + PATIENCE);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        let told: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once(TOLD)?.1)).collect();
        if when == When::InVote {
            let last = told.last().expect("it says what has become of the vote");
            assert!(
                last.starts_with("vote: process ") && last.contains(&format!(" of rank {LOST} has ended")),
                "{last}"
            );
            continue;
        }
        let from = told.iter().position(|line| line.starts_with("exchange: ")).expect("an exchange that fails");
        for (what, line) in ["exchange: ", "remesh: ", "close: "].into_iter().zip(&told[from..]) {
            let named = format!("rank {LOST}: block {LOST} to block {rank}, field 0, element (");
            assert!(line.starts_with(what) && line.contains(&named), "{line}");
        }
        assert_eq!(told.last(), Some(&"ended"), "{told:?}");
    }
}
