//! The one suite of transports, for every one there is; and what a faulty one does.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::cell::RefCell;
use std::sync::Arc;

use umbra::shm::Shm;
use umbra::sys::segment::Segment;
use umbra_core::error::Status;
use umbra_core::faulty::{Faults, Faulty, Held};
use umbra_core::key::{Access, Key, Span};
use umbra_core::loopback::{Cell, Hub, Member, Registered};
use umbra_core::transport::{Event, Transport, Work};
use umbra_core::wire::{Frame, Op, Token};
use umbra_tests::owned::{peek, poke};
use umbra_tests::shm::{Life, pair, window};
use umbra_tests::transport_conformance::{MEMORY, Rig, open, peer, read_only};
use umbra_tests::transport_suite;

transport_suite!(loopback, Loop::new(Faults::default()));
transport_suite!(shared_memory, Shared::new());

type TestHub = Hub<[Member; 2], Vec<Cell>, [Registered; 3], Vec<u8>>;

/// Two ends of a loopback, each behind a wrapper that does nothing.
struct Loop {
    hub: RefCell<TestHub>,
    faults: Faults,
    seed: u64,
}

impl Loop {
    fn new(faults: Faults) -> Loop {
        let everything = Access::READ | Access::WRITE;
        let registered = |key, start, access| Registered { key, start, len: MEMORY, access };
        let registered = [
            registered(open(0), 0, everything),
            registered(open(1), MEMORY, everything),
            registered(read_only(), 2 * MEMORY, Access::READ),
        ];
        let members = [Member::new(peer(0)), Member::new(peer(1))];
        let hub = Hub::new(members, vec![Cell::EMPTY; 16], registered, vec![0; 3 * MEMORY as usize]);
        Loop { hub: RefCell::new(hub), faults, seed: 1 }
    }

    fn range(key: Key, offset: u64, len: usize) -> std::ops::Range<usize> {
        let number = if key == open(0) { 0 } else { u64::from(key.region()) };
        let start = (number * MEMORY + offset) as usize;
        start..start + len
    }
}

impl Rig for Loop {
    fn with<T>(&mut self, n: u32, with: impl FnOnce(&mut dyn Transport) -> T) -> T {
        let end = Hub::end(&self.hub, peer(n)).unwrap();
        with(&mut Faulty::new(end, [const { Held::EMPTY }; 4], self.faults, self.seed))
    }
    fn poke(&mut self, key: Key, offset: u64, bytes: &[u8]) {
        self.hub.borrow_mut().memory()[Self::range(key, offset, bytes.len())].copy_from_slice(bytes);
    }
    fn peek(&mut self, key: Key, offset: u64, len: usize) -> Vec<u8> {
        self.hub.borrow_mut().memory()[Self::range(key, offset, len)].to_vec()
    }
    fn kill_second(&mut self) {
        self.hub.borrow_mut().kill(peer(1));
    }
}

/// Two ends over shared memory in this process.
struct Shared {
    ends: [Shm; 2],
    memory: Vec<(Key, Arc<Segment>)>,
    life: Life,
}

impl Shared {
    fn new() -> Shared {
        let (mut ends, life) = pair(16, 4);
        let everything = Access::READ | Access::WRITE;
        let windows = [(open(0), everything), (open(1), everything), (read_only(), Access::READ)];
        let memory = windows.map(|(key, access)| (key, window(&mut ends, key, MEMORY as usize, access)));
        Shared { ends, memory: memory.into(), life }
    }

    fn segment(&self, key: Key) -> &Segment {
        &self.memory.iter().find(|(k, _)| *k == key).unwrap().1
    }
}

impl Rig for Shared {
    fn with<T>(&mut self, n: u32, with: impl FnOnce(&mut dyn Transport) -> T) -> T {
        with(&mut self.ends[n as usize])
    }
    fn poke(&mut self, key: Key, offset: u64, bytes: &[u8]) {
        poke(self.segment(key), offset, bytes);
    }
    fn peek(&mut self, key: Key, offset: u64, len: usize) -> Vec<u8> {
        peek(self.segment(key), offset, len)
    }
    fn kill_second(&mut self) {
        self.life.end();
    }
}

/// Sends numbered frames through faults, and returns what arrived, in its order.
fn through(faults: Faults, seed: u64) -> Vec<u64> {
    let rig = Loop::new(faults);
    let end = Hub::end(&rig.hub, peer(0)).unwrap();
    let mut sender = Faulty::new(end, vec![Held::EMPTY; 8], faults, seed);
    let mut receiver = Hub::end(&rig.hub, peer(1)).unwrap();
    let mut came = Vec::new();
    for n in 0..1000 {
        let frame = Frame::Null { op: Op(1), token: Token(n), arg: 0 };
        sender.post(peer(1), Work::Send(frame), Token(0)).unwrap();
        sender.poll(&mut |_| {});
        receiver.poll(&mut |event| {
            if let Event::Frame { frame, .. } = event {
                came.push(frame.token().0);
            }
        });
    }
    for _ in 0..300 {
        sender.poll(&mut |_| {});
        receiver.poll(&mut |event| {
            if let Event::Frame { frame, .. } = event {
                came.push(frame.token().0);
            }
        });
    }
    came
}

#[test]
fn a_seed_decides_what_is_lost_doubled_and_late() {
    let all: Vec<u64> = (0..1000).collect();
    assert_eq!(through(Faults::default(), 3), all);
    let lossy = through(Faults { loss: 200, ..Faults::default() }, 3);
    assert!(lossy.is_sorted() && lossy.len() > 700 && lossy.len() < 900, "{}", lossy.len());
    let doubled = through(Faults { duplicate: 200, ..Faults::default() }, 3);
    assert!(doubled.is_sorted() && doubled.len() > 1100 && doubled.len() < 1300, "{}", doubled.len());
    let late = through(Faults { delay: 300, polls: 5, ..Faults::default() }, 3);
    assert!(!late.is_sorted(), "some overtake others");
    let mut sorted = late.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, all, "but none is lost");
    let wild = Faults { loss: 50, duplicate: 50, delay: 300, polls: 9, broken: 0 };
    assert_eq!(through(wild, 77), through(wild, 77), "a run repeats");
    assert_ne!(through(wild, 77), through(wild, 78));
}

#[test]
fn a_broken_queue_is_a_completion_without_bytes_and_a_crash_is_silence() {
    let mut rig = Loop::new(Faults::default());
    rig.poke(open(1), 0, b"theirs");
    let end = Hub::end(&rig.hub, peer(0)).unwrap();
    let mut faulty = Faulty::new(end, vec![Held::EMPTY; 8], Faults { broken: 1000, ..Faults::default() }, 1);
    let span = |key| Span { key, offset: 0, len: 6 };
    faulty.post(peer(1), Work::Read { from: span(open(1)), to: span(open(0)) }, Token(5)).unwrap();
    let mut ended = Vec::new();
    faulty.poll(&mut |event| {
        if let Event::Done { token, status } = event {
            ended.push((token, status));
        }
    });
    assert_eq!(ended, [(Token(5), Status::QueueBroken)]);
    faulty.crash();
    assert!(faulty.post(peer(1), Work::Read { from: span(open(1)), to: span(open(0)) }, Token(6)).is_err());
    assert_eq!(faulty.poll(&mut |_| {}), 0);
    assert_eq!(rig.peek(open(0), 0, 6), [0; 6]);
}
