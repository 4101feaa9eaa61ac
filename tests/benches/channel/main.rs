//! Channels beside what the machine can do at least, and beside published ones.
//!
//! Two threads take the place of two processes: each attaches the channel for itself, so they map it at different
//! addresses, and lines, copies and sleeps cost what they cost between processes. `pair` sends and receives on one thread;
//! `round trip` goes to another core and back over two channels; `one way` is nanoseconds a message of a stream. A floor
//! is the same shape without a channel: one line to and fro, a bare futex, one copy of the bytes. Some cases have a goal
//! instead, in nanoseconds ([`goals`]).
//!
//! `UMBRA_DRAGON=FOLDER` names the programs `chan_bench`, `wake_bench` and `footprint` of a build for `dragonhpc`, which are run in the
//! same session; `UMBRA_ICEORYX2=FOLDER` the program `iox2_peer` of a build with `iceoryx2`. Without them those rows are left
//! out.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a bench that cannot be set up ends")]

mod dragon;
mod floors;
mod goals;
mod iceoryx2;
mod lent;
mod loaded;

use std::hint::black_box;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use umbra::channel::{Attributes, Channel, Receiver, SendOptions, Sender, Timeout, WaitMode};
use umbra::sys::futex::Futex;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::channel::Shape;
use umbra_core::event::Wait;
use umbra_tests::bench::{Direction, Plan, Report, Row, Samples, alternate, cores, pin, repeat};

const CROSSBEAM: &str = "crossbeam ArrayQueue 0.3, in one process";
/// Beside the value of a message: the partner shall end.
const END: u64 = u64::MAX;
const LOWER: Direction = Direction::LowerIsBetter;

fn channel(capacity: u32, block: u32) -> Channel {
    Channel::create(&Attributes { capacity, block, ..Attributes::default() }).expect("there is memory")
}

fn ends(channel: &Channel, mode: WaitMode) -> (Sender<'_>, Receiver<'_>) {
    let sender = channel.sender(SendOptions { mode, ..SendOptions::default() }).expect("it has messages");
    (sender, channel.receiver(mode).expect("it has messages"))
}

/// Calls `work` while a partner on the first core does his part with the same channels, attached anew.
fn with_partner<R>(
    core: usize,
    channels: &[Channel],
    partner: impl FnOnce(&[Channel]) + Send,
    work: impl FnOnce() -> R,
) -> R {
    let descriptors: Vec<_> = channels.iter().map(|channel| channel.share().expect("a descriptor is free")).collect();
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pin(core);
            let theirs: Vec<_> =
                descriptors.into_iter().map(|fd| Channel::attach(fd).expect("it is a channel")).collect();
            partner(&theirs);
        });
        work()
    })
}

/// Sends back what comes until the last message.
fn echo(channels: &[Channel], len: usize, mode: WaitMode) {
    let ((_, receiver), (sender, _)) = (ends(&channels[0], mode), ends(&channels[1], mode));
    let mut pad = vec![0; len];
    while receiver.receive(&mut pad, Timeout::Never).expect("the other side lives").hints != END {
        sender.send(&pad, 0, Timeout::Never).expect("the other side lives");
    }
}

/// Nanoseconds of a round trip over two channels.
fn round_trip(core: usize, plan: &Plan, len: usize, mode: WaitMode) -> Samples {
    let channels = [channel(100, 4096), channel(100, 4096)];
    with_partner(
        core,
        &channels,
        |channels| echo(channels, len, mode),
        || {
            let ((sender, _), (_, receiver)) = (ends(&channels[0], mode), ends(&channels[1], mode));
            let mut pad = vec![0; len];
            let samples = repeat(plan, |n| {
                for _ in 0..n {
                    sender.send(&pad, 0, Timeout::Never).expect("the other side lives");
                    receiver.receive(&mut pad, Timeout::Never).expect("the other side lives");
                }
            });
            sender.send(&pad, END, Timeout::Never).expect("the other side lives");
            samples
        },
    )
}

/// Nanoseconds a message of a stream.
fn one_way(core: usize, plan: &Plan, len: usize) -> Samples {
    let channels = [channel(100, u32::try_from(len.max(256)).expect("a small block"))];
    let receive = |channels: &[Channel]| {
        let (_, receiver) = ends(&channels[0], WaitMode::Spin);
        let mut pad = vec![0; len];
        while receiver.receive(&mut pad, Timeout::Never).expect("the other side lives").hints != END {}
    };
    with_partner(core, &channels, receive, || {
        let (sender, _) = ends(&channels[0], WaitMode::Spin);
        let bytes = vec![7; len];
        let send = |n| (0..n).for_each(|_| sender.send(&bytes, 0, Timeout::Never).expect("the other side lives"));
        // The pages of the channel are brought first.
        send(1000);
        let samples = repeat(plan, send);
        sender.send(&bytes, END, Timeout::Never).expect("the other side lives");
        samples
    })
}

/// Nanoseconds for which this thread was on a core.
fn on_core() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// Nanoseconds of a send to a receiver that has slept for a while, and until it has the message, medians; and per cent of
/// a core that the receiver was on it.
fn wake(core: usize, trials: usize, pause: Duration) -> (f64, f64, f64) {
    let (woken, busy) = (AtomicU64::new(0), AtomicU64::new(0));
    let channels = [channel(4, 256)];
    let sleep = |channels: &[Channel]| {
        let (_, receiver) = ends(&channels[0], WaitMode::Idle);
        let (before, start) = (on_core(), Futex.now());
        while receiver.receive(&mut [0; 8], Timeout::Never).expect("the other side lives").hints != END {
            woken.store(Futex.now().0, Ordering::Release);
        }
        let share = (on_core() - before) * 100.0 / Futex.now().since(start).0 as f64;
        busy.store(share.to_bits(), Ordering::Release);
    };
    let (call, delay) = with_partner(core, &channels, sleep, || {
        let (sender, _) = ends(&channels[0], WaitMode::Idle);
        let send = || sender.send(&[0; 8], 0, Timeout::Now).expect("there is room");
        let figures = floors::wakes(trials, pause, &woken, send);
        sender.send(&[0; 8], END, Timeout::Never).expect("the other side lives");
        figures
    });
    (call, delay, f64::from_bits(busy.load(Ordering::Acquire)))
}

/// The least that a shape asks for.
#[derive(Clone, Copy)]
struct Floor {
    name: &'static str,
    measure: fn(usize, &Plan) -> Samples,
}

const LINE: Floor = Floor { name: "one line to and fro", measure: floors::line };
const FUTEX: Floor = Floor { name: "bare futex", measure: floors::futex };

struct Bench {
    report: Report,
    plan: Plan,
    cores: Vec<usize>,
}

impl Bench {
    /// One thread, one channel; the peer moves the same bytes as a value.
    fn pair<const N: usize>(&mut self) {
        let case = format!("pair {N} B");
        if !self.report.wants(&case) {
            return;
        }
        let channel = channel(100, 1024);
        let (sender, receiver) = ends(&channel, WaitMode::Spin);
        let (source, mut pad, peers) = ([7_u8; N], [0_u8; N], ArrayQueue::<[u8; N]>::new(100));
        let turns = alternate(
            &self.plan,
            |n| {
                for _ in 0..n {
                    sender.send(black_box(&source), 1, Timeout::Now).expect("there is room");
                    black_box(receiver.receive(&mut pad, Timeout::Now).expect("it was sent"));
                }
            },
            |n| {
                for _ in 0..n {
                    peers.push(black_box(source)).expect("there is room");
                    black_box(peers.pop().expect("it was sent"));
                }
            },
        );
        self.report.row(turns.row(&case, CROSSBEAM, "ns/message", LOWER));
    }

    /// To another core and back, beside the least that this takes.
    fn round_trip(&mut self, len: usize, mode: WaitMode, name: &str, floor: Floor, bar: Option<f64>) {
        let case = format!("round trip {len} B {name}");
        let [core, _, ..] = *self.cores else { return };
        if self.report.wants(&case) {
            // The floor before and after, so that drift hits both.
            let before = (floor.measure)(core, &self.plan).median();
            let ours = round_trip(core, &self.plan, len, mode).median();
            let after = (floor.measure)(core, &self.plan).median();
            let entry = self.report.row(Row::new(&case, ours, (before + after) / 2.0, floor.name, "ns", LOWER));
            if let Some(bar) = bar {
                entry.bar(bar);
            }
        }
    }

    /// A stream to another core; the floor is one copy of as many bytes.
    fn one_way(&mut self, len: usize) {
        let case = format!("one way {len} B");
        let [core, _, ..] = *self.cores else { return };
        if self.report.wants(&case) {
            let ours = one_way(core, &self.plan, len).median();
            let (from, mut to) = (vec![7_u8; len], vec![0_u8; len]);
            let copy = repeat(&self.plan, |n| {
                for _ in 0..n {
                    to.copy_from_slice(black_box(&from));
                    black_box(&mut to);
                }
            });
            self.report.row(Row::new(&case, ours, copy.median(), "one copy of the bytes", "ns/message", LOWER));
        }
    }

    /// A sender that finds the receiver asleep: how long the call takes, and until the receiver has the message.
    fn wake(&mut self) {
        let [core, _, ..] = *self.cores else { return };
        if self.report.wants("wake: ") {
            let (trials, pause) = (200, Duration::from_millis(5));
            let (least_call, least_delay) = floors::wake(core, trials, pause);
            let (call, delay, _) = wake(core, trials, pause);
            let row = |case, ours, least| Row::new(case, ours, least, FUTEX.name, "ns", LOWER);
            self.report.row(row("wake: the sender's call", call, least_call)).bar(0.8);
            self.report.row(row("wake: until received", delay, least_delay)).bar(0.8);
        }
    }

    /// What a channel needs beside its blocks.
    fn footprint(&mut self) {
        let case = "bytes beside 100 blocks of 256 B";
        if self.report.wants(case) {
            self.report.row(Row::new(case, beside(), 8192.0, "the goal", "B", LOWER)).bar(0.8);
        }
    }
}

/// Bytes of a channel beside its 100 blocks of 256.
fn beside() -> f64 {
    let shape = Shape { capacity: 100, block: 256, ..Shape::default() };
    (shape.words().expect("a small channel") * 8 - 100 * 256) as f64
}

fn main() -> ExitCode {
    loaded::burn_if_asked();
    let report = Report::from_args();
    let cores = cores().unwrap_or_default();
    match cores.as_slice() {
        [] | [_] => report.note("cases with two threads need two cores and are left out"),
        [.., mine] => {
            if let Err(error) = pin(*mine) {
                report.note(format_args!("not pinned: {error}"));
            }
        }
    }
    let mut bench = Bench { report, plan: Plan::standard(), cores };
    bench.pair::<8>();
    bench.pair::<64>();
    bench.pair::<1024>();
    bench.round_trip(8, WaitMode::Spin, "spin", LINE, None);
    bench.round_trip(4096, WaitMode::Spin, "spin", LINE, None);
    bench.round_trip(8, WaitMode::Adaptive, "adaptive", LINE, None);
    bench.round_trip(8, WaitMode::Idle, "idle", FUTEX, Some(0.8));
    bench.one_way(8);
    bench.one_way(4096);
    bench.one_way(1 << 20);
    bench.wake();
    bench.footprint();
    goals::rows(&mut bench.report, &bench.plan, &bench.cores);
    dragon::rows(&mut bench.report, &bench.plan, &bench.cores);
    iceoryx2::rows(&mut bench.report, &bench.plan, &bench.cores);
    bench.report.finish()
}
