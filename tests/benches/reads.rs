//! Reads of another process's memory, against UCX and what the machine allows.
//!
//! Two processes: the reader on the first core, the owner of the memory (and, where it serves, its service
//! process) on the second. "warm": the memory is left alone between reads. "fresh": its owner, on the other
//! core, rewrote all of it just before each read. A served read is ours from `Reader::get` to the delivery:
//! request frame, the server's machine, one copy, answer frame.

#[path = "reads/owner.rs"]
mod owner;
#[path = "reads/raw.rs"]
mod raw;
#[path = "reads/reader.rs"]
mod reader;
#[path = "reads/ucx.rs"]
mod ucx;

use std::cell::RefCell;
use std::hint::black_box;
use std::process::ExitCode;

use umbra::access::mapped::MappedRegion;
use umbra::sys::peer_memory::PeerMemory;
use umbra_core::key::{Access, Key};
use umbra_core::peer::Incarnation;
use umbra_core::region::Region;
use umbra_tests::bench::{Clock, Direction, Plan, Report, Row, Samples, Turns, alternate, cores, pin, repeat};

use owner::{BASE, MOST, Order, Owner, rank};
use raw::Mapped;
use reader::{Asker, round_trips};
use ucx::Ucx;

const SIZES: [usize; 5] = [8, 4096, 65_536, 1 << 20, 16 << 20];

fn name(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// How many timed reads a fresh row has.
fn samples(bytes: usize) -> usize {
    match bytes {
        0..=65_536 => 600,
        65_537..=1_048_576 => 200,
        _ => 30,
    }
}

/// Times ours and the peer's read in turns, each after the owner rewrote the memory.
fn fresh(
    owner: &mut Owner,
    touch: Order,
    bytes: usize,
    mut ours: impl FnMut(&mut Owner),
    mut peer: impl FnMut(&mut Owner),
) -> (Samples, Samples) {
    let clock = Clock::new();
    let timed = |owner: &mut Owner, read: &mut dyn FnMut(&mut Owner)| {
        owner.ask_wait(touch, bytes as u64);
        let start = clock.now();
        read(owner);
        let end = clock.now();
        clock.nanoseconds(start, end).max(1) as f64
    };
    let (mut our_times, mut peer_times) = (Vec::new(), Vec::new());
    for _ in 0..samples(bytes) {
        our_times.push(timed(owner, &mut ours));
        peer_times.push(timed(owner, &mut peer));
    }
    let settled = |times| Samples::new(times).unwrap_or_else(|| unreachable!("at least one sample"));
    (settled(our_times), settled(peer_times))
}

fn compare(report: &mut Report, case: &str, (ours, peer): &(Samples, Samples), peer_name: &str, bar: f64) {
    let row = Row::new(case, ours.median(), peer.median(), peer_name, "ns", Direction::LowerIsBetter);
    report.row(row).bar(bar);
}

/// A row against a figure of UCX, or a remark that there is none.
fn against_ucx(report: &mut Report, case: &str, ours: f64, peer: Result<f64, String>, peer_name: &str, bar: f64) {
    match peer {
        Ok(peer) => report.row(Row::new(case, ours, peer, peer_name, "ns", Direction::LowerIsBetter)).bar(bar),
        Err(why) => report.note(format_args!("skipped: {case} against {peer_name}: {why}")),
    }
}

fn direct(report: &mut Report, owner: &mut Owner, ucx: &Ucx) {
    let region = Region {
        key: Key::new(rank(), 0, 1),
        incarnation: Incarnation(3),
        base: BASE,
        len: MOST as u64,
        access: Access::READ,
    };
    let mapped = MappedRegion::new(owner.segment.clone(), 0, &region).unwrap_or_else(|error| panic!("{error}"));
    let mut into = vec![2_u8; MOST];
    let mut other = vec![2_u8; MOST];
    let warm_bars = [0.5, 0.8, 0.95, 0.95, 0.95];
    let fresh_bars = [0.83, 0.9, 0.95, 0.95, 0.95];
    let strict_bars = [2.0, 1.25, 0.98, 0.98, 0.95];
    for (at, bytes) in SIZES.into_iter().enumerate() {
        let raw = Mapped::new(&owner.segment, bytes);
        let case = format!("direct read, mapped, warm, {}", name(bytes));
        if report.wants(&case) {
            let turns = alternate(
                &Plan::standard(),
                |n| {
                    for _ in 0..n {
                        let read = mapped.read(black_box(region.key), black_box(0), black_box(&mut into[..bytes]));
                        assert_eq!(read, Ok(()));
                    }
                },
                |n| (0..n).for_each(|_| raw.copy(black_box(&mut other[..bytes]))),
            );
            let ours = turns.ours.median();
            report.row(turns.row(&case, "memcpy", "ns", Direction::LowerIsBetter)).bar(warm_bars[at]);
            against_ucx(
                report,
                &case,
                ours,
                ucx.get("mapped", "warm", bytes),
                &ucx.name("mapped get"),
                strict_bars[at],
            );
            report.note(format_args!("skipped: {case} against UCX 1.22 default get: that UCX is not installed"));
        }
        let case = format!("direct read, mapped, fresh, {}", name(bytes));
        if report.wants(&case) {
            let both = fresh(
                owner,
                Order::TouchSegment,
                bytes,
                |_| assert_eq!(mapped.read(black_box(region.key), 0, black_box(&mut into[..bytes])), Ok(())),
                |_| raw.copy(black_box(&mut other[..bytes])),
            );
            compare(report, &case, &both, "memcpy", fresh_bars[at]);
        }
    }
}

fn process_memory(report: &mut Report, owner: &mut Owner) {
    let memory = PeerMemory::open(owner.id).unwrap_or_else(|error| panic!("{error}"));
    let (heap, pid) = (owner.heap(), owner.id.pid);
    // One target for both: which pages a large buffer got makes more of a difference than the two calls.
    let target = RefCell::new(vec![2_u8; MOST]);
    let bars = [0.91, 0.91, 0.95, 0.95, 0.95];
    for (at, bytes) in SIZES.into_iter().enumerate() {
        let ours = |n: u64| {
            let mut into = target.borrow_mut();
            (0..n).for_each(|_| assert_eq!(memory.read(heap, black_box(&mut into[..bytes])), Ok(())));
        };
        let raw = |n: u64| {
            let mut into = target.borrow_mut();
            (0..n).for_each(|_| raw::process_vm_readv(pid, heap, black_box(&mut into[..bytes])));
        };
        let case = format!("heap read, process memory, warm, {}", name(bytes));
        if report.wants(&case) {
            let turns = alternate(&Plan::standard(), ours, raw);
            report.row(turns.row(&case, "process_vm_readv", "ns", Direction::LowerIsBetter)).bar(bars[at]);
            report.note(format_args!("skipped: {case} against UCX 1.22 default get: that UCX is not installed"));
        }
        let case = format!("heap read, process memory, fresh, {}", name(bytes));
        if report.wants(&case) {
            let both = fresh(owner, Order::TouchHeap, bytes, |_| ours(1), |_| raw(1));
            compare(report, &case, &both, "process_vm_readv", bars[at]);
        }
    }
}

/// Two processes take turns at longer pieces than one: fewer rounds will do.
fn short() -> Plan {
    Plan { rounds: 31, ..Plan::standard() }
}

/// Served reads in turns with their floor, a round trip of one line and a bare copy.
fn beside_floor(owner: &mut Owner, raw: &Mapped, other: &mut [u8], mut read: impl FnMut(&mut Owner, u64)) -> Turns {
    let owner = RefCell::new(owner);
    alternate(
        &short(),
        |n| {
            let mut owner = owner.borrow_mut();
            owner.ask(Order::Serve, n);
            read(&mut owner, n);
            owner.wait();
        },
        |n| {
            round_trips(&mut owner.borrow_mut(), n);
            (0..n).for_each(|_| raw.copy(black_box(&mut *other)));
        },
    )
}

fn served(report: &mut Report, owner: &mut Owner, ucx: &Ucx) {
    let mut asker = Asker::new();
    let mut other = vec![2_u8; MOST];
    let floor_bars = [0.74, 0.71, 0.83, 0.91, 0.91];
    let ucx_bars = [1.25, 2.5, 2.5, 1.66, 1.0];
    let used_bars = [1.0, 0.83, 0.71, 1.05, 1.0];
    // The first read also asks where the memory is.
    owner.ask(Order::Serve, 1);
    asker.read(owner, 8);
    owner.wait();
    for (at, bytes) in SIZES.into_iter().enumerate() {
        let raw = Mapped::new(&owner.segment, bytes);
        let case = format!("served read, until completion, warm, {}", name(bytes));
        if report.wants(&case) {
            let turns = beside_floor(owner, &raw, &mut other, |owner, n| {
                (0..n).for_each(|_| asker.read(owner, bytes));
            });
            let ours = turns.ours.median();
            let row = turns.row(&case, "line round trip + memcpy", "ns", Direction::LowerIsBetter);
            report.row(row).bar(floor_bars[at]);
            against_ucx(report, &case, ours, ucx.get("served", "warm", bytes), &ucx.name("served get"), ucx_bars[at]);
            report.note(format_args!("skipped: {case} against UCX 1.22 served get: that UCX is not installed"));
        }
        let case = format!("served read, until completion, fresh, {}", name(bytes));
        if report.wants(&case) {
            let both = served_fresh(owner, &mut asker, bytes, &raw, &mut other);
            compare(report, &case, &both, "line round trip + memcpy, fresh", floor_bars[at]);
        }
        let case = format!("served read, then used, warm, {}", name(bytes));
        if report.wants(&case) {
            let ours = repeat(&short(), |n| {
                owner.ask(Order::Serve, n);
                (0..n).for_each(|_| asker.read_and_use(owner, bytes));
                owner.wait();
            });
            let peer = ucx.get("served", "warm", bytes);
            against_ucx(report, &case, ours.median(), peer, &ucx.name("served get"), used_bars[at]);
            report.note(format_args!("skipped: {case} against UCX 1.22 served get: that UCX is not installed"));
        }
        let case = format!("served read, 16 outstanding, {}", name(bytes));
        if bytes <= 1 << 20 && report.wants(&case) {
            let turns = beside_floor(owner, &raw, &mut other, |owner, n| asker.stream(owner, n, bytes));
            let ours = turns.ours.median();
            let row = turns.row(&case, "line round trip + memcpy", "ns a read", Direction::LowerIsBetter);
            report.row(row);
            against_ucx(report, &case, ours, ucx.get("served", "stream", bytes), &ucx.name("served stream"), 1.0);
            report.note(format_args!("skipped: {case} against UCX 1.22 served stream: that UCX is not installed"));
        }
    }
}

/// Served reads of memory that the reader, who is the rank here, has just rewritten: the server meets lines
/// that this core holds.
fn served_fresh(
    owner: &mut Owner,
    asker: &mut Asker,
    bytes: usize,
    raw: &Mapped,
    other: &mut [u8],
) -> (Samples, Samples) {
    let clock = Clock::new();
    let news = vec![3_u8; bytes];
    let (mut our_times, mut peer_times) = (Vec::new(), Vec::new());
    let rounds = samples(bytes) as u64;
    for _ in 0..rounds {
        let written = owner.segment.write(0, &news);
        assert_eq!(written, Ok(()));
        owner.ask(Order::Serve, 1);
        // The server is polling when the clock starts.
        (0..2000).for_each(|_| std::hint::spin_loop());
        let start = clock.now();
        asker.read(owner, bytes);
        let end = clock.now();
        owner.wait();
        our_times.push(clock.nanoseconds(start, end).max(1) as f64);

        let trips = repeat(&Plan { rounds: 1, batch: std::time::Duration::ZERO, most_iterations: 64 }, |n| {
            round_trips(owner, n * 64);
        });
        owner.ask_wait(Order::TouchSegment, bytes as u64);
        let start = clock.now();
        raw.copy(black_box(&mut other[..bytes]));
        let end = clock.now();
        peer_times.push(trips.median() / 64.0 + clock.nanoseconds(start, end).max(1) as f64);
    }
    let settled = |times| Samples::new(times).unwrap_or_else(|| unreachable!("at least one sample"));
    (settled(our_times), settled(peer_times))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--owner") {
        if let Err(error) = owner::main(&arguments[1..]) {
            eprintln!("owner: {error}");
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    }
    let mut report = Report::from_args();
    let ucx = Ucx::measure();
    // Before this process is pinned: a child is bound to what its parent is bound to.
    let mut owner = Owner::start();
    match cores() {
        Ok(cores) if cores.len() > 1 => {
            if let Err(error) = pin(cores[0]) {
                report.note(format_args!("not pinned: {error}"));
            }
        }
        _ => report.note("fewer than two cores: figures of two processes mean nothing here"),
    }
    direct(&mut report, &mut owner, &ucx);
    process_memory(&mut report, &mut owner);
    served(&mut report, &mut owner, &ucx);
    drop(owner);
    report.finish()
}
