//! One process a member.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use umbra::call::{Capacities, Member, Shape, Station, built_in};
use umbra::sys::slices;
use umbra_core::chain::{Call, Config, Node, Plan, Verdict, Work};
use umbra_core::tree::Shape as Tree;
use umbra_tests::bench::{Report, Row, cores};
use umbra_tests::rig::Guarded;

use crate::floor::{self, Floor};
use crate::mpi::Peers;
use crate::{LOWER, SUM, bulk, call, death, median, replies, sum};

const ROUNDS: usize = 5;
/// Calls over each tree before one is chosen.
const CALIBRATION: u32 = 30;
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// What the processes of members are told that run in short time slices.
const SHORT: &str = "short";
/// How long processes, also those of `bcast_ack.c`, make calls before one is measured.
const WARM: Duration = Duration::from_millis(500);
/// How long a member serves whose maker has gone.
const SERVED: Duration = Duration::from_secs(300);

fn member(station: &Station, node: Node) -> Member {
    let capacities = Capacities::new(station.shape().all);
    let settings = |config: Config| Config { classes: 0, ..config };
    let mut member = Member::join_with(station, node, capacities, settings).expect("a free seat");
    let work = move |work: &mut Work<'_>| match death::never(node) {
        Some(verdict) if work.header == death::ENDLESS => verdict,
        _ => sum(work),
    };
    member.register(SUM, work).expect("the first function");
    member.register_local(bulk::PAGES, bulk::pages).expect("the second function");
    let mut numbers = Vec::new();
    let vector = move |work: &mut Work<'_>| {
        if numbers.is_empty() {
            numbers = replies::numbers();
        }
        replies::vector(work, &numbers)
    };
    member.register(replies::VECTOR, vector).expect("the third function");
    // What agents have as well, whose other members wait for this one.
    member.register(built_in::BARRIER, |_| Verdict::Pending).expect("the fourth function");
    member
}

/// What a member's process does until it is killed.
pub(crate) fn serve(node: &str, slices: &str) {
    let node = Node(node.parse().expect("the number of a member"));
    let descriptor = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let station = Station::attach(descriptor).expect("the meeting place");
    let _short = Short::start(slices == SHORT);
    member(&station, node).serve_until(SERVED, |_| false);
}

/// What a process does that takes a processor from others.
pub(crate) fn be_busy() {
    let start = Instant::now();
    while start.elapsed() < SERVED {
        std::hint::black_box((0..1000_u64).sum::<u64>());
    }
}

/// Processes of members, from the second one on.
pub(crate) struct Children(Vec<Guarded>);

impl Children {
    /// Kills the process of a member; not of the first.
    pub(crate) fn kill(&mut self, node: Node) {
        let child = node.index().checked_sub(1).and_then(|at| self.0.get_mut(at));
        child.expect("a process of ours").kill().expect("it lives");
    }
}

/// Starts this program once more; it is killed and reaped in the end.
fn spawn(arguments: &[&str], stdin: Stdio) -> Guarded {
    let program = std::env::current_exe().expect("this program");
    Guarded::from(Command::new(program).args(arguments).stdin(stdin).spawn().expect("a process"))
}

/// The process of a member.
pub(crate) fn process(station: &Station, node: Node) -> Guarded {
    process_with(SHORT, station, node)
}

fn process_with(slices: &str, station: &Station, node: Node) -> Guarded {
    let stdin = Stdio::from(station.share().expect("a descriptor"));
    spawn(&["member", &node.0.to_string(), slices], stdin)
}

/// Members in processes; the first is this one.
pub(crate) struct Members {
    pub(crate) first: Member,
    pub(crate) all: Vec<Node>,
    tree: Tree,
    pub(crate) children: Children,
    /// As long as this is there.
    pub(crate) short: Option<Short>,
}

impl Members {
    pub(crate) fn start(members: u16) -> Members {
        Members::with(SHORT, Shape::new(members))
    }

    /// In a meeting place of this shape.
    pub(crate) fn shaped(shape: Shape) -> Members {
        Members::with(SHORT, shape)
    }

    fn with(slices: &str, shape: Shape) -> Members {
        let (members, shape) = (shape.members, Shape { offer_bytes: bulk::BYTES as u64, ..shape });
        let station = Station::create("bench procs", shape).expect("there is memory");
        let short = Short::start(slices == SHORT);
        let first = member(&station, Node(0));
        let children = (1..u32::from(members)).map(Node);
        let children = Children(children.map(|node| process_with(slices, &station, node)).collect());
        let all = (0..u32::from(members)).map(Node).collect();
        let mut members = Members { first, all, tree: Tree::FLAT, children, short };
        warm(|| _ = members.call());
        members
    }

    /// The same, who are called over the tree that is the fastest now.
    fn calibrated(slices: &str, members: u16) -> Members {
        let mut members = Members::with(slices, Shape::new(members));
        let [fastest, ..] = members.first.calibrate(&call(&members.all), CALIBRATION).expect("good answers");
        members.tree = fastest.tree;
        members
    }

    /// Microseconds of one call.
    fn call(&mut self) -> f64 {
        let start = Instant::now();
        let call = Call { plan: Plan::Shape(self.tree), ..call(&self.all) };
        let handle = self.first.start(&call).expect("room for one call");
        let reply = self.first.wait(handle, PATIENCE).expect("a good answer");
        assert_eq!(usize::try_from(reply.members), Ok(self.all.len()));
        start.elapsed().as_nanos() as f64 / 1000.0
    }
}

/// This process has a member, which runs in short slices; what is started after that, beside or instead, does not.
pub(crate) struct Short;

impl Short {
    /// If it is to be so.
    fn start(is_wanted: bool) -> Option<Short> {
        is_wanted.then(|| {
            slices::shorten().expect("no sandbox");
            Short
        })
    }
}

impl Drop for Short {
    fn drop(&mut self) {
        let _ = slices::restore();
    }
}

/// Makes calls until the system has dealt the processes to the processors: that takes it some tenths of a second, in which one
/// processor has six of eight. Before that, one for which all of them have to be there.
pub(crate) fn warm(mut call: impl FnMut()) {
    call();
    let start = Instant::now();
    while start.elapsed() < WARM {
        call();
    }
}

/// Half of the calls' times are below the first, and their mean.
fn figures(calls: usize, mut call: impl FnMut() -> f64) -> (f64, f64) {
    let times: Vec<f64> = (0..calls).map(|_| call()).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    (median(times), mean)
}

fn quiet(report: &mut Report, members: u16, peers: &Peers) -> f64 {
    let case = format!("procs {members} ids 8 B");
    let calls = (20_000 / usize::from(members)).max(200);
    let (mut ours, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut beside = peers.beside(report, &case);
    let mut trees = Vec::new();
    for _ in 0..ROUNDS {
        let (p50, _) = {
            let mut members = Members::calibrated(SHORT, members);
            trees.push(members.tree);
            figures(calls, || members.call())
        };
        let (floor, _) = {
            let mut floor = Floor::start(members);
            figures(calls, || floor.call())
        };
        ours.push(p50);
        floors.push(floor);
        ratios.push(floor / p50);
        beside.round(report, (members, 8), p50, |theirs| theirs.p50);
    }
    report.note(format!("{case}: the trees that were the fastest: {trees:?}"));
    let ours = median(ours);
    let row = Row::new(&case, ours, median(floors), "a word each way and sched_yield", "us", LOWER);
    report.row(Row { ratio: median(ratios), ..row });
    let processors = cores().map_or(1.0, |cores| cores.len() as f64);
    let bound = f64::from(members) * floor::switch() / processors;
    let row = Row::new(&format!("{case} bound"), ours, bound, "gate G3: everybody runs once", "us", LOWER);
    report.row(row).bar(1.0 / 4.0);
    // At most 0.7 of the best peer's time.
    beside.rows(report, "", Some(("G4", 1.0 / 0.7)));
    ours
}

/// The mean beside processes that compute, as many as there are processors but one.
fn loaded(report: &mut Report, members: u16, quiet: f64, peers: &Peers) {
    let others = cores().map_or(1, |cores| cores.len().saturating_sub(1).max(1));
    let _busy: Vec<Guarded> = (0..others).map(|_| spawn(&["busy"], Stdio::null())).collect();
    let calls = (5000 / usize::from(members)).max(100);
    let case = format!("procs {members} ids 8 B loaded");
    let mean = |slices| {
        let mut members = Members::calibrated(slices, members);
        figures(calls, || members.call()).1
    };
    let (mut ours, mut beside) = (Vec::new(), peers.beside(report, &case));
    let mut usual = Vec::new();
    for _ in 0..ROUNDS {
        let short = mean(SHORT);
        ours.push(short);
        usual.push(mean("usual"));
        beside.round(report, (members, 8), short, |theirs| theirs.mean);
    }
    let ours = median(ours);
    let label = "for reference: the same in time slices of the usual length, mean";
    report.row(Row::new(&format!("{case}, slices"), ours, median(usual), label, "us", LOWER));
    beside.rows(report, ", mean", Some(("G4", 1.0)));
    if members == 64 {
        report.row(Row::new(&case, ours, 10.0 * quiet, "gate G12: ten times the quiet p50", "us", LOWER)).bar(1.0);
    }
}

pub(crate) fn rows(report: &mut Report, peers: &Peers) {
    for members in [8, 16, 32, 64] {
        if report.wants(&format!("procs {members} ids 8 B")) {
            let quiet = quiet(report, members, peers);
            loaded(report, members, quiet, peers);
        }
    }
}
