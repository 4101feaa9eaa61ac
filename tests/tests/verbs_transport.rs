//! The one suite of transports, over queue pairs of a real device (s46, s51).
//!
//! Beside it are tests of what breaks the queue pairs. Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra::sys::segment::Segment;
use umbra::verbs::{Region, Remote, Verbs};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::transport::{Event, PostError, Transport, Work};
use umbra_core::wire::{Frame, Op, Token};
use umbra_tests::owned::{peek, poke};
use umbra_tests::transport_conformance::{self as promise, MEMORY, Rig, open, peer, read_only};
use umbra_tests::verbs::{device, ends_on};

/// Two ends in this process, on one port.
struct Wire {
    ends: [Option<Verbs>; 2],
    memory: Vec<(Key, Arc<Region>)>,
}

impl Wire {
    /// None where there is no device, which is told.
    fn new() -> Option<Wire> {
        let device = device()?;
        let port = device.active_port(1, None).unwrap();
        let mut ends = ends_on(&port, 16);
        let mut memory = Vec::new();
        let everything = Access::READ | Access::WRITE;
        for (owner, key, access) in [(0, open(0), everything), (1, open(1), everything), (1, read_only(), Access::READ)]
        {
            let segment = Arc::new(Segment::create("window", MEMORY as usize).unwrap());
            let region = Arc::new(Region::register(ends[owner].domain(), segment, access).unwrap());
            ends[owner].window(key, region.clone(), 0, MEMORY).unwrap();
            let first = Remote { address: region.address(0), rkey: region.rkey() };
            ends[1 - owner].remote_window(key, first, MEMORY, access);
            memory.push((key, region));
        }
        Some(Wire { ends: ends.map(Some), memory })
    }

    fn segment(&self, key: Key) -> &Segment {
        self.memory.iter().find(|(k, _)| *k == key).unwrap().1.segment()
    }

    fn read(&mut self, key: Key, token: u64) -> Result<(), PostError> {
        let span = |key| Span { key, offset: 0, len: 64 };
        let work = Work::Read { from: span(key), to: span(open(0)) };
        self.with(0, |end| end.post(peer(1), work, Token(token)))
    }

    /// The ends of so many spans.
    fn ended(&mut self, count: usize) -> Vec<(u64, Status)> {
        let (begun, mut ended) = (Instant::now(), Vec::new());
        while ended.len() < count {
            self.with(0, |end| {
                end.poll(&mut |event| {
                    if let Event::Done { token, status } = event {
                        ended.push((token.0, status));
                    }
                })
            });
            assert!(begun.elapsed() < Duration::from_secs(20), "{ended:?}");
        }
        ended
    }

    fn rebuild(&mut self) {
        let [a, b] = [0, 1].map(|n: usize| self.ends[n].as_mut().unwrap().rebuild(peer(1 - n as u32)).unwrap());
        self.ends[0].as_mut().unwrap().reconnect(peer(1), &b).unwrap();
        self.ends[1].as_mut().unwrap().reconnect(peer(0), &a).unwrap();
    }
}

impl Rig for Wire {
    fn with<T>(&mut self, n: u32, with: impl FnOnce(&mut dyn Transport) -> T) -> T {
        with(self.ends[n as usize].as_mut().unwrap())
    }
    fn poke(&mut self, key: Key, offset: u64, bytes: &[u8]) {
        poke(self.segment(key), offset, bytes);
    }
    fn peek(&mut self, key: Key, offset: u64, len: usize) -> Vec<u8> {
        peek(self.segment(key), offset, len)
    }
    fn kill_second(&mut self) {
        self.ends[1] = None;
    }
}

#[test]
fn frames_arrive_in_order_once() {
    if let Some(wire) = Wire::new() {
        promise::frames_arrive_in_order_once(wire);
    }
}

#[test]
fn a_frame_is_one_cell() {
    if let Some(wire) = Wire::new() {
        promise::a_frame_is_one_cell(wire);
    }
}

#[test]
fn spans_are_copied_once() {
    if let Some(wire) = Wire::new() {
        promise::spans_are_copied_once(wire);
    }
}

#[test]
fn refusals_come_at_once() {
    if let Some(wire) = Wire::new() {
        promise::refusals_come_at_once(wire);
    }
}

#[test]
fn a_death_is_told() {
    if let Some(wire) = Wire::new() {
        promise::a_death_is_told(wire);
    }
}

#[test]
fn s46_s51_a_key_that_was_taken_back_breaks_the_spans_alone_until_they_are_rebuilt() {
    let Some(mut wire) = Wire::new() else { return };
    let taken = wire.memory.iter().position(|(key, _)| *key == read_only()).unwrap();
    let (_, region) = wire.memory.remove(taken);
    region.segment().write(0, &[0xEE; 64]).unwrap();
    wire.ends[1].as_mut().unwrap().close(read_only());
    // The last holder: the card forgets the key. Our own table still knows it, so only the card can refuse.
    drop(region);
    wire.read(read_only(), 1).unwrap();
    wire.read(open(1), 2).unwrap();
    assert_eq!(wire.ended(2), [(1, Status::KeyRevoked), (2, Status::QueueBroken)]);
    assert_eq!(wire.peek(open(0), 0, 64), [0; 64], "not one byte moved");
    assert_eq!(wire.read(open(1), 3), Err(PostError::Refused(Status::QueueBroken)));
    // Frames have a queue pair of their own.
    let frame = Frame::Null { op: Op(0x0f01), token: Token(9), arg: 0 };
    wire.with(0, |end| end.post(peer(1), Work::Send(frame), Token(0))).unwrap();
    let (begun, mut came) = (Instant::now(), 0);
    while came == 0 {
        wire.with(1, |end| end.poll(&mut |event| came += usize::from(matches!(event, Event::Frame { .. }))));
        assert!(begun.elapsed() < Duration::from_secs(20), "the frame did not come");
    }
    wire.poke(open(1), 0, &[7; 64]);
    wire.rebuild();
    wire.read(open(1), 4).unwrap();
    assert_eq!(wire.ended(1), [(4, Status::Ok)]);
    assert_eq!(wire.peek(open(0), 0, 64), [7; 64]);
}

#[test]
fn a_frame_to_a_peer_that_is_not_connected_yet_is_posted_again() {
    let Some(device) = device() else { return };
    let port = device.active_port(1, None).unwrap();
    let [mut first, mut second] = [0, 1].map(|n| Verbs::new(peer(n), &port, 16).unwrap());
    let [to_second, to_first] = [first.greet(peer(1)).unwrap(), second.greet(peer(0)).unwrap()];
    let frame = || Work::Send(Frame::Null { op: Op(0x0f01), token: Token(9), arg: 0 });
    assert_eq!(first.post(peer(1), frame(), Token(0)), Err(PostError::Full));
    first.connect(peer(1), &to_first).unwrap();
    second.connect(peer(0), &to_second).unwrap();
    first.post(peer(1), frame(), Token(0)).unwrap();
    let (begun, mut came) = (Instant::now(), 0);
    while came == 0 {
        first.poll(&mut |_| {});
        second.poll(&mut |event| came += usize::from(matches!(event, Event::Frame { .. })));
        assert!(begun.elapsed() < Duration::from_secs(20), "the frame did not come");
    }
}

#[test]
fn spans_to_a_peer_that_is_greeted_again_end_once() {
    let Some(mut wire) = Wire::new() else { return };
    for token in 0..3 {
        wire.read(open(1), token).unwrap();
    }
    wire.ends[0].as_mut().unwrap().greet(peer(1)).unwrap();
    let mut ended = wire.ended(3);
    ended.sort_unstable_by_key(|&(token, _)| token);
    assert_eq!(ended, [0, 1, 2].map(|token| (token, Status::PeerFailed)));
    assert_eq!(wire.read(open(1), 3), Err(PostError::Refused(Status::QueueBroken)), "not connected yet");
}
