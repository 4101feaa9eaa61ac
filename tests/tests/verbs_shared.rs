//! Shared receive queues on a real device: many senders, few buffers (s51).
//!
//! The tests show what happens when the buffers run out. Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra::verbs::{
    Completion, Device, Piece, Port, Queue, Region, Remote, SharedReceives, Verbs, VerbsError, Work, WorkKind,
    WorkStatus,
};
use umbra_core::key::Access;
use umbra_core::transport::{Event, PostError, Transport as _, Work as Task};
use umbra_core::wire::{Frame, Op, Token};
use umbra_tests::transport_conformance::peer;
use umbra_tests::verbs::{DEPTHS, Pair, at, connect, device, hear};

/// Bytes of one message.
const LEN: usize = 64;
/// Longer than anything takes; far longer than a card tries again.
const DEADLINE: Duration = Duration::from_secs(20);

/// Senders, and receivers that share buffers.
struct Many {
    pairs: Vec<[Queue; 2]>,
    receives: SharedReceives,
    inbox: Region,
    outbox: Region,
    pair: Pair,
}

impl Many {
    /// So many connected pairs, and room for so many buffers; none is posted.
    fn new(device: &Arc<Device>, pairs: usize, capacity: u32) -> Many {
        let pair = Pair::new(device);
        let [receives, nothing] = [capacity, 1].map(|room| SharedReceives::new(&pair.domain, room).unwrap());
        let ends = |receives| Queue::sharing(receives, &pair.port, 64).unwrap();
        let pairs = (0..pairs).map(|_| {
            let mut ends = [ends(&nothing), ends(&receives)];
            connect(&mut ends);
            ends
        });
        let pairs = pairs.collect();
        let inbox = pair.memory(capacity as usize * LEN, Access::empty());
        let outbox = pair.memory(256 * LEN, Access::empty());
        Many { pairs, receives, inbox, outbox, pair }
    }

    fn post(&self, buffer: u64) -> Result<(), VerbsError> {
        let into = Piece { region: &self.inbox, offset: buffer as usize * LEN, len: LEN as u32 };
        self.receives.post(buffer, into)
    }

    /// A message that says who sent it and which one it is.
    fn send(&mut self, sender: usize, number: u8) {
        let offset = (sender * 16 + number as usize) * LEN;
        self.outbox.segment().write(offset, &[sender as u8, number, 0xA5]).unwrap();
        let from = Piece { region: &self.outbox, offset, len: 3 };
        self.pairs[sender][0].post(&[(u64::from(number), Work::Send { from })]).unwrap();
    }

    /// So many arrivals: whose queue pair, and the message; each buffer is posted again.
    fn arrivals(&mut self, count: usize) -> Vec<(usize, [u8; 3])> {
        let (begun, mut came) = (Instant::now(), Vec::new());
        while came.len() < count {
            let mut ended: Vec<(u32, Completion)> = Vec::new();
            self.receives.wait(Duration::from_millis(50), &mut |number, done| ended.push((number, done))).unwrap();
            for (number, done) in ended {
                assert_eq!((done.status, done.kind, done.bytes), (WorkStatus::Success, WorkKind::Received, 3));
                let mut message = [0; 3];
                self.inbox.segment().read(done.id as usize * LEN, &mut message).unwrap();
                came.push((self.pairs.iter().position(|ends| ends[1].address().number == number).unwrap(), message));
                self.post(done.id).unwrap();
            }
            assert!(begun.elapsed() < DEADLINE, "{} of {count} came", came.len());
        }
        came
    }
}

#[test]
fn messages_to_several_queue_pairs_take_buffers_from_one_pool() {
    let Some(device) = device() else { return };
    let mut many = Many::new(&device, 5, 8);
    (0..8).for_each(|buffer| many.post(buffer).unwrap());
    for number in 0..12 {
        (0..5).for_each(|sender| many.send(sender, number));
    }
    // More than there are buffers: the others wait until these are posted again.
    let came = many.arrivals(60);
    for sender in 0..5 {
        let of: Vec<_> = came.iter().filter(|(at, _)| *at == sender).map(|(_, message)| *message).collect();
        let sent: Vec<_> = (0..12).map(|number| [sender as u8, number, 0xA5]).collect();
        assert_eq!(of, sent, "in order, and over its own queue pair");
        assert_eq!(hear(&mut many.pairs[sender][0], 12).len(), 12);
    }
}

#[test]
fn senders_wait_while_there_is_no_buffer_and_go_on_when_there_is() {
    let Some(device) = device() else { return };
    // Soft-RoCE of Linux 6.1 counts such a wait as silence, too, and gives up after half a second: on a busy machine it is
    // tried until this test was quick enough.
    let mut many = loop {
        let mut many = Many::new(&device, 2, 4);
        let begun = Instant::now();
        (0..2).for_each(|sender| many.send(sender, 0));
        // Twice as long as a sender without patience tries.
        std::thread::sleep(Duration::from_millis(150));
        let mut early = 0;
        for sender in 0..2 {
            early += many.pairs[sender][0].poll(&mut |_| {}).unwrap();
        }
        if begun.elapsed() < Duration::from_millis(300) {
            assert_eq!(early, 0, "nobody was ready to receive");
            break many;
        }
    };
    (0..2).for_each(|buffer| many.post(buffer).unwrap());
    let mut came = many.arrivals(2);
    came.sort_unstable();
    assert_eq!(came, [(0, [0, 0, 0xA5]), (1, [1, 0, 0xA5])]);
    for sender in 0..2 {
        assert_eq!(hear(&mut many.pairs[sender][0], 1)[0].status, WorkStatus::Success);
    }
}

#[test]
fn a_sender_without_patience_is_told_and_goes_on_after_a_rebuild() {
    let Some(device) = device() else { return };
    let many = Many::new(&device, 0, 4);
    let Pair { domain, port, .. } = &many.pair;
    let mut ends = [Queue::new(domain, port, DEPTHS).unwrap(), Queue::sharing(&many.receives, port, 4).unwrap()];
    connect(&mut ends);
    let send = |ends: &mut [Queue; 2]| {
        ends[0].post(&[(7, Work::Send { from: Piece { region: &many.outbox, offset: 0, len: 3 } })]).unwrap();
        hear(&mut ends[0], 1)[0].status
    };
    assert_eq!(send(&mut ends), WorkStatus::ReceiverNotReady);
    many.post(0).unwrap();
    ends.iter_mut().for_each(|end| end.reset().unwrap());
    connect(&mut ends);
    assert_eq!(send(&mut ends), WorkStatus::Success);
}

#[test]
fn the_device_warns_once_when_few_buffers_are_left() {
    let Some(device) = device() else { return };
    let mut many = Many::new(&device, 1, 16);
    (0..8).for_each(|buffer| many.post(buffer).unwrap());
    for _ in 0..2 {
        many.receives.warn_below(6).unwrap();
        (0..2).for_each(|number| many.send(0, number));
        hear(&mut many.pairs[0][0], 2);
        assert!(!many.receives.is_low().unwrap(), "six are left");
        (2..5).for_each(|number| many.send(0, number));
        hear(&mut many.pairs[0][0], 3);
        let begun = Instant::now();
        while !many.receives.is_low().unwrap() {
            assert!(begun.elapsed() < DEADLINE, "three are left, and nobody warns");
        }
        assert!(!many.receives.is_low().unwrap(), "it was told");
        // All eight are posted again.
        many.arrivals(5);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let Some(device) = device() else { return };
    let mut many = Many::new(&device, 1, 4);
    let capacity = many.receives.capacity();
    let into = Piece { region: &many.inbox, offset: 0, len: LEN as u32 };
    assert!(matches!(many.pairs[0][1].receive(0, into), Err(VerbsError::ReceivesAreShared)));
    let outside = Piece { region: &many.inbox, offset: 4 * LEN, len: 1 };
    assert!(matches!(many.receives.post(0, outside), Err(VerbsError::OutOfBounds { .. })));
    let full = (0..=4 * u64::from(capacity)).map(|id| many.receives.post(id, into)).find(Result::is_err);
    assert!(matches!(full, Some(Err(VerbsError::Full))), "{full:?}");
    let absurd = many.receives.warn_below(u32::MAX).unwrap_err();
    assert!(matches!(absurd, VerbsError::Call { .. }), "{absurd}");
}

#[test]
fn s51_a_broken_queue_pair_leaves_the_shared_buffers_to_others() {
    let Some(device) = device() else { return };
    let mut many = Many::new(&device, 3, 4);
    (0..4).for_each(|buffer| many.post(buffer).unwrap());
    let wrong = Remote { rkey: many.inbox.rkey() ^ 0x55, ..at(&many.inbox, 0) };
    let piece = Piece { region: &many.outbox, offset: 0, len: 8 };
    many.pairs[0][0].post(&[(1, Work::Write { from: piece, to: wrong, immediate: None })]).unwrap();
    assert_eq!(hear(&mut many.pairs[0][0], 1)[0].status, WorkStatus::RemoteAccess);
    // Another one is stopped, and yet another one dropped with what it had taken.
    many.send(2, 0);
    hear(&mut many.pairs[2][0], 1);
    many.pairs[2][1].stop().unwrap();
    assert_eq!(many.arrivals(1), [(2, [2, 0, 0xA5])], "what arrived before is told");
    drop(many.pairs.pop());
    for number in 0..9 {
        many.send(1, number);
    }
    let came = many.arrivals(9);
    assert!(came.iter().enumerate().all(|(at, (from, message))| (*from, message[1]) == (1, at as u8)), "{came:?}");
}

/// A process that speaks with several others.
struct Hub {
    hub: Verbs,
    others: Vec<Verbs>,
}

impl Hub {
    fn new(port: &Port, others: u32) -> Hub {
        let mut hub = Verbs::new(peer(0), port, 4).unwrap();
        let join = |n| {
            let mut other = Verbs::new(peer(n), port, 4).unwrap();
            let hellos = [hub.greet(peer(n)).unwrap(), other.greet(peer(0)).unwrap()];
            hub.connect(peer(n), &hellos[1]).unwrap();
            other.connect(peer(0), &hellos[0]).unwrap();
            other
        };
        let others = (1..=others).map(join).collect();
        Hub { hub, others }
    }

    /// Every other process sends as much as it may; how much that was.
    fn flood(&mut self) -> u64 {
        let mut sent = 0;
        for other in &mut self.others {
            for arg in 0.. {
                let frame = Frame::Null { op: Op(0x0f01), token: Token(9), arg };
                match other.post(peer(0), Task::Send(frame), Token(0)) {
                    Ok(()) => sent += 1,
                    Err(PostError::Full) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        sent
    }

    /// So many frames come, each sender's in order.
    fn all_come(&mut self, count: u64) {
        let (begun, mut came, mut next) = (Instant::now(), 0, vec![0; self.others.len() + 1]);
        while came < count {
            self.hub.poll(&mut |event| match event {
                Event::Frame { from, frame: Frame::Null { arg, .. } } => {
                    let from = (0..next.len()).find(|&n| peer(n as u32) == from).unwrap();
                    assert_eq!(arg, next[from]);
                    next[from] += 1;
                    came += 1;
                }
                other => panic!("{other:?}"),
            });
            assert!(begun.elapsed() < DEADLINE, "{came} of {count} frames came");
        }
    }
}

#[test]
fn a_process_with_many_peers_hears_all_of_them_however_much_they_send_at_once() {
    let Some(device) = device() else { return };
    let port = device.active_port(1, None).unwrap();
    let mut hub = Hub::new(&port, 6);
    for _ in 0..3 {
        // Six times as much as there are cells in the beginning.
        let sent = hub.flood();
        assert!(sent >= 6 * 32, "{sent}");
        hub.all_come(sent);
        // The numbers of taken frames arrive.
        for other in &mut hub.others {
            other.poll(&mut |event| panic!("nobody wrote: {event:?}"));
        }
    }
}

#[test]
fn peers_that_die_take_no_shared_buffers_with_them() {
    let Some(device) = device() else { return };
    let port = device.active_port(1, None).unwrap();
    let mut hub = Hub::new(&port, 1);
    // More than there can be cells, if each death kept some.
    for life in 0..40 {
        let sent = hub.flood();
        hub.others.clear();
        let reborn = Verbs::new(peer(1), &port, 4).unwrap();
        hub.others.push(reborn);
        let hellos = [hub.hub.greet(peer(1)).unwrap(), hub.others[0].greet(peer(0)).unwrap()];
        hub.hub.connect(peer(1), &hellos[1]).unwrap();
        hub.others[0].connect(peer(0), &hellos[0]).unwrap();
        assert!(sent > 0, "life {life}");
        let sent = hub.flood();
        hub.all_come(sent);
    }
}
