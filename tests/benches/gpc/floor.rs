//! The least that one process a member costs: a word each way.
//!
//! Nobody is in between; a process calls `sched_yield` while there is nothing.

use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_tests::bench::{cores, pin};

use crate::procs::warm;

/// Words a member has; its own pair of lines.
const WORDS: usize = 16;
const END: u64 = u64::MAX;
const MEMBERS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// The words of a member: what it is asked, and what it has answered.
fn words(segment: &Segment, node: usize) -> (&AtomicU64, &AtomicU64) {
    let word = |at: usize| segment.word((node * WORDS * 2 + at) * 8).expect("within the segment");
    (word(0), word(WORDS))
}

/// What a member's process does until it is told to end.
pub(crate) fn serve(node: &str) {
    let node: usize = node.parse().expect("the number of a member");
    let descriptor = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let segment = Segment::attach(descriptor, Mapping::ReadWrite, MEMBERS * WORDS * 16).expect("the segment");
    let (asked, answered) = words(&segment, node);
    let (mut seen, mut since) = (0, Instant::now());
    loop {
        let now = asked.load(Ordering::Acquire);
        if now == END || since.elapsed() > PATIENCE {
            return;
        }
        if now == seen {
            thread::yield_now();
            continue;
        }
        (seen, since) = (now, Instant::now());
        answered.store(now, Ordering::Release);
    }
}

/// Microseconds from one thread to another on one processor, by `sched_yield`.
pub(crate) fn switch() -> f64 {
    const YIELDS: u32 = 20_000;
    let core = cores().ok().and_then(|cores| cores.first().copied());
    let run = move || {
        core.map(pin);
        (0..YIELDS).for_each(|_| thread::yield_now());
    };
    let start = Instant::now();
    let threads = [thread::spawn(run), thread::spawn(run)];
    threads.into_iter().for_each(|thread| thread.join().expect("it only yields"));
    start.elapsed().as_nanos() as f64 / 1000.0 / f64::from(2 * YIELDS)
}

/// Processes that wait.
pub(crate) struct Floor {
    segment: Segment,
    children: Vec<Child>,
    calls: u64,
}

impl Floor {
    /// Starts all but the first of so many members.
    pub(crate) fn start(members: u16) -> Floor {
        let segment = Segment::create("bench floor", MEMBERS * WORDS * 16).expect("there is memory");
        let program = std::env::current_exe().expect("this program");
        let child = |node: u16| {
            let stdin = Stdio::from(segment.share().expect("a descriptor"));
            Command::new(&program).args(["floor", &node.to_string()]).stdin(stdin).spawn().expect("a process")
        };
        let children = (1..members).map(child).collect();
        let mut floor = Floor { segment, children, calls: 0 };
        warm(|| _ = floor.call());
        floor
    }

    /// Microseconds of one call.
    pub(crate) fn call(&mut self) -> f64 {
        self.calls += 1;
        let start = Instant::now();
        for node in 1..=self.children.len() {
            words(&self.segment, node).0.store(self.calls, Ordering::Release);
        }
        for node in 1..=self.children.len() {
            while words(&self.segment, node).1.load(Ordering::Acquire) != self.calls {
                assert!(start.elapsed() < PATIENCE, "member {node} does not answer");
                thread::yield_now();
            }
        }
        start.elapsed().as_nanos() as f64 / 1000.0
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        for node in 1..=self.children.len() {
            words(&self.segment, node).0.store(END, Ordering::Release);
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
