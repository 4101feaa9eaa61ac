//! The second process of the bench: owns the memory, and serves it.

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::Arc;

use umbra::shm::FrameLane;
use umbra::sys::process::ProcessId;
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::{AtomicU64, Ordering, spin_hint};
use umbra_tests::bench::pin;
use umbra_tests::memory_server::MemoryServer;
pub(crate) use umbra_tests::memory_server::{SERVICE, rank};

/// The largest read.
pub(crate) const MOST: usize = 16 << 20;
/// Bytes of the landing segment: 16 slots of the largest read.
pub(crate) const SLOTS: u32 = 16;
pub(crate) const LANDING: usize = MOST * SLOTS as usize;
/// Frames of the lane, each way.
pub(crate) const LINES: usize = 64;
/// Where the rank's memory begins, as the endpoint cache would say.
pub(crate) const BASE: u64 = 0x7000_0000_0000;
const CONTROL: usize = 4096;

/// What the reader asks of the owner.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(crate) enum Order {
    Stop = 1,
    /// Rewrite the first `argument` bytes of the segment.
    TouchSegment,
    /// Rewrite the first `argument` bytes of the heap.
    TouchHeap,
    /// Echo `argument` words.
    Echo,
    /// Serve `argument` reads.
    Serve,
}

/// Words that both sides spin on, each on its own pair of lines.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    Command,
    Argument,
    Done,
    Ping,
    Pong,
    Heap,
}

pub(crate) struct Control(pub(crate) Segment);

impl Control {
    pub(crate) fn word(&self, word: Word) -> &AtomicU64 {
        self.0.word(word as usize * 128).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Spins until a word has a value, and gives up when the other side is gone.
#[inline]
pub(crate) fn until(word: &AtomicU64, value: u64) {
    let mut spins = 0_u64;
    while word.load(Ordering::Acquire) != value {
        spin_hint();
        spins += 1;
        assert!(spins < 20_000_000_000, "the other process does not answer");
    }
}

/// The reader's handle of the owner.
pub(crate) struct Owner {
    child: Child,
    pub(crate) control: Control,
    pub(crate) segment: Arc<Segment>,
    pub(crate) landing: Segment,
    pub(crate) lane: FrameLane,
    pub(crate) id: ProcessId,
    turn: u64,
}

impl Owner {
    pub(crate) fn start() -> Owner {
        let make = |name: &str, len| Segment::create(name, len).unwrap_or_else(|error| panic!("{error}"));
        let control = Control(make("bench-control", CONTROL));
        let segment = Arc::new(make("bench-rank", MOST));
        let landing = make("bench-landing", LANDING);
        let lane = FrameLane::create(LINES).unwrap_or_else(|error| panic!("{error}"));
        let shared = lane.share().unwrap_or_else(|error| panic!("{error}"));
        let number = |segment: &Segment| segment.number().unwrap_or_else(|error| panic!("{error}"));
        let fds = [number(&control.0), number(&segment), number(&landing)].map(|number| number.to_string());
        let me = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
        let mut command = Command::new(me);
        command.arg("--owner").arg(std::process::id().to_string());
        command.args(fds).arg(shared.as_raw_fd().to_string());
        let child = command.spawn().unwrap_or_else(|error| panic!("{error}"));
        let id = ProcessId::of(child.id()).unwrap_or_else(|error| panic!("{error}"));
        let mut owner = Owner { child, control, segment, landing, lane, id, turn: 0 };
        owner.wait();
        owner
    }

    /// Where the owner's heap is.
    pub(crate) fn heap(&self) -> u64 {
        self.control.word(Word::Heap).load(Ordering::Acquire)
    }

    pub(crate) fn ask(&mut self, what: Order, argument: u64) {
        self.turn += 1;
        self.control.word(Word::Argument).store(argument, Ordering::Relaxed);
        self.control.word(Word::Command).store(self.turn << 8 | what as u64, Ordering::Release);
    }

    /// Waits until the owner did what it was asked.
    pub(crate) fn wait(&mut self) {
        let done = self.control.word(Word::Done);
        let mut spins = 0_u64;
        while done.load(Ordering::Acquire) != self.turn + 1 {
            spin_hint();
            spins += 1;
            if spins.is_multiple_of(1 << 24) {
                let ended = self.child.try_wait();
                assert!(matches!(ended, Ok(None)), "the owner ended: {ended:?}");
            }
        }
    }

    pub(crate) fn ask_wait(&mut self, what: Order, argument: u64) {
        self.ask(what, argument);
        self.wait();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.ask(Order::Stop, 0);
        // Killing a process that has ended already is an error that tells nothing.
        if std::thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The process of its own.
pub(crate) fn main(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [parent, fds @ ..] = arguments else { return Err("--owner PID FD...".into()) };
    let open = |n: usize| -> Result<OwnedFd, Box<dyn std::error::Error>> {
        let path = format!("/proc/{parent}/fd/{}", fds.get(n).ok_or("too few descriptors")?);
        Ok(OpenOptions::new().read(true).write(true).open(path)?.into())
    };
    if let Some(&core) = umbra_tests::bench::cores()?.get(1) {
        pin(core)?;
    }
    let control = Control(Segment::attach(open(0)?, Mapping::ReadWrite, CONTROL)?);
    let segment = Segment::attach(open(1)?, Mapping::ReadWrite, MOST)?;
    let landing = Segment::attach(open(2)?, Mapping::ReadWrite, LANDING)?;
    let lane = FrameLane::attach(open(3)?, LINES)?;
    let mut server = MemoryServer::new(segment.share()?, BASE, MOST as u64, landing, SLOTS, lane);
    let mut heap = vec![1_u8; MOST];
    let fill = vec![0_u8; MOST];
    segment.write(0, &heap)?;
    control.word(Word::Heap).store(heap.as_ptr() as u64, Ordering::Release);
    let parent = ProcessId::of(parent.parse()?)?;
    let parent = umbra::sys::process::Process::open(parent)?;
    let (mut seen, mut spins) = (0, 0_u64);
    control.word(Word::Done).store(1, Ordering::Release);
    loop {
        let command = control.word(Word::Command).load(Ordering::Acquire);
        if command == seen {
            spin_hint();
            spins += 1;
            // Whoever outlives its parent would spin for ever.
            if spins.is_multiple_of(1 << 24) && !parent.is_alive() {
                return Ok(());
            }
            continue;
        }
        seen = command;
        let argument = control.word(Word::Argument).load(Ordering::Relaxed);
        let len = (argument as usize).min(MOST);
        match command & 0xff {
            c if c == Order::TouchSegment as u64 => segment.write(0, &fill[..len])?,
            c if c == Order::TouchHeap as u64 => std::hint::black_box(&mut heap)[..len].fill(command as u8),
            c if c == Order::Echo as u64 => {
                let (ping, pong) = (control.word(Word::Ping), control.word(Word::Pong));
                let first = ping.load(Ordering::Acquire);
                let _ = first;
                for _ in 0..argument {
                    let next = pong.load(Ordering::Relaxed) + 1;
                    until(ping, next);
                    pong.store(next, Ordering::Release);
                }
            }
            c if c == Order::Serve as u64 => server.serve(argument),
            _ => return Ok(()),
        }
        control.word(Word::Done).store((command >> 8) + 1, Ordering::Release);
    }
}
