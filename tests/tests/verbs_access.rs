//! The one suite of memory access, over RDMA on a real device (s44 to s51).
//!
//! Memory is reached by RDMA READ and WRITE; beside it are tests of what only a card does. Without a device each test
//! says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use umbra::access::exposure::{Exposure, any_port};
use umbra::access::rdma::Rdma;
use umbra::sys::segment::Segment;
use umbra::verbs::{Address, Region, VerbsError};
use umbra_core::access::device::{Device, Moved, Piece};
use umbra_core::access::message::Export;
use umbra_core::access::queues::{Lane, Posted, Queues};
use umbra_core::access::{Event, MemoryAccess};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::region::Entry;
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Time;
use umbra_core::transport::PostError;
use umbra_core::wire::Token;
use umbra_tests::conformance::{DEEP, LANDING, LIFE, ME, MEMORY, REGIONS, Rig, SECRET, owner};
use umbra_tests::memory_access_suite;
use umbra_tests::verbs::port;

type Way = Queues<Rdma, Vec<Entry>, Vec<Slot<Posted>>, Vec<Lane>>;

/// An owner in this process, with a queue pair and a domain of its own.
struct Owner {
    exposure: Exposure,
    memory: Arc<Segment>,
    region: Option<Region>,
    /// Answers greetings.
    answers: bool,
}

impl Owner {
    fn remote_key(&self) -> u32 {
        self.region.as_ref().unwrap().rkey()
    }
}

/// Two owners and an importer, all on one port.
struct Wire {
    owners: [Owner; 2],
    way: Way,
}

impl Rig for Wire {
    type Way = Way;
    const FAULT: Status = Status::PeerFailed;

    fn missing() -> Option<String> {
        match any_port() {
            Ok(_) => None,
            Err(why @ (VerbsError::NoDevice | VerbsError::NoLibrary(_))) => Some(why.to_string()),
            Err(why) => panic!("{why}"),
        }
    }

    fn new() -> Self {
        let port = any_port().unwrap();
        let owners = ["owner 0", "owner 1"].map(|name| {
            let exposure = Exposure::new(&port).unwrap();
            let memory = Arc::new(Segment::create(name, MEMORY as usize).unwrap());
            let region = Some(exposure.register(memory.clone(), Access::READ | Access::WRITE).unwrap());
            Owner { exposure, memory, region, answers: true }
        });
        let landing = Arc::new(Segment::create("landing", LANDING as usize).unwrap());
        let device = Rdma::new(&port, REGIONS, DEEP as u32 + 1, landing).unwrap();
        let work = (0..=DEEP).map(|_| Slot::EMPTY).collect();
        let way = Queues::new(ME, device, vec![Entry::VACANT; REGIONS], work, vec![Lane::default(); REGIONS]);
        Wire { owners, way }
    }

    fn way(&mut self) -> &mut Way {
        &mut self.way
    }

    fn memory(&self, n: usize) -> &Segment {
        &self.owners[n].memory
    }

    fn locate(&mut self, n: usize, _: &umbra_core::region::Region) -> Locator {
        Locator::Verbs { rkey: self.owners[n].remote_key(), direct: true }
    }

    fn progress(&mut self) -> Vec<Event> {
        while let Some((peer, address)) = self.way.device().greet() {
            let n = (0..2).find(|&n| owner(n) == peer).unwrap();
            let there = &mut self.owners[n];
            if there.answers {
                // What travels is bytes.
                let heard = Address::from_bytes(&address.to_bytes()).unwrap();
                let answer = there.exposure.connect(ME, &heard).unwrap();
                self.way.device().welcome(peer, &answer).unwrap();
            } else {
                self.way.device().refuse(peer, Status::PeerFailed);
            }
        }
        let mut events = Vec::new();
        if self.way.poll(Time(1), &mut |event| events.push(event)) == 0 {
            std::thread::sleep(Duration::from_micros(10));
        }
        events
    }

    fn fault(&mut self, n: usize, on: bool) {
        self.owners[n].answers = !on;
        if on {
            self.owners[n].exposure.disconnect(ME);
        }
    }
}

memory_access_suite!(rdma, Wire);

/// A rig in which nothing was exported, or none, which is told.
fn wire() -> Option<Wire> {
    port().map(|_| Wire::new())
}

/// What the importer is told.
fn export(ticket: Ticket) -> Export {
    Export { ticket, secret: SECRET, shadows: [ME].into_iter().collect() }
}

impl Wire {
    fn ticket(&mut self, n: usize, generation: u32) -> Ticket {
        let (base, locator) = (self.base(n), Locator::Verbs { rkey: self.owners[n].remote_key(), direct: true });
        Ticket { key: Key::new(owner(n), 0, generation), base, len: MEMORY, access: Access::READ, locator }
    }

    fn import(&mut self, ticket: Ticket) -> Key {
        self.way.import(&export(ticket), LIFE).unwrap();
        ticket.key
    }

    fn read(&mut self, key: Key, token: u64) -> Result<(), PostError> {
        self.way.read(Span { key, offset: 0, len: 64 }, 64 * token, Token(token))
    }

    /// Waits until `count` accesses have ended; what else was told.
    fn ended(&mut self, count: usize) -> (Vec<(u64, Status)>, Vec<Event>) {
        let (begun, mut ended, mut others) = (std::time::Instant::now(), Vec::new(), Vec::new());
        while ended.len() < count {
            for event in self.progress() {
                match event {
                    Event::Done { token, status } => ended.push((token.0, status)),
                    other => others.push(other),
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{ended:?}");
        }
        (ended, others)
    }

    fn landed(&self, token: u64) -> [u8; 64] {
        let mut bytes = [0; 64];
        self.way.take(64 * token, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn s46_after_the_revocation_the_card_itself_refuses_whoever_skips_the_check() {
    let Some(mut wire) = wire() else { return };
    let ticket = wire.ticket(0, 1);
    let key = wire.import(ticket);
    wire.read(key, 0).unwrap();
    assert_eq!(wire.ended(1).0, [(0, Status::Ok)]);
    wire.way.revoke(key).unwrap();
    assert!(wire.progress().contains(&Event::Revoked { key }));
    // Acknowledged: the owner takes its memory back from the card, and uses it for something else.
    wire.owners[0].region = None;
    wire.poke(0, 0, &[0xEE; 64]);
    assert_eq!(wire.read(key, 1), Err(PostError::Refused(Status::KeyRevoked)), "the check");
    // Past the check, as a reader with a bug or without a conscience would.
    let piece = Piece { place: 0, offset: 0, address: ticket.base, landing: 128, len: 64 };
    wire.way.device().attach(0, &export(ticket)).unwrap();
    assert_eq!(wire.way.device().copy(Access::READ, &piece, 77), Ok(Moved::Begun));
    let end = loop {
        if let Some(end) = wire.way.device().ended() {
            break end;
        }
    };
    assert_eq!(end, (77, Status::KeyRevoked), "the card");
    assert_eq!(wire.landed(2), [0; 64], "not one byte moved");
}

#[test]
fn s51_a_bad_key_breaks_its_own_queue_which_is_rebuilt_on_both_sides() {
    let Some(mut wire) = wire() else { return };
    wire.poke(0, 0, &[1; 64]);
    wire.poke(1, 0, &[2; 64]);
    let mut bad = wire.ticket(0, 1);
    let Locator::Verbs { rkey, direct } = bad.locator else { panic!("{bad:?}") };
    bad.locator = Locator::Verbs { rkey: rkey ^ 0x55, direct };
    let (bad, good) = (wire.import(bad), wire.ticket(1, 1));
    let good = wire.import(good);
    for token in 0..20 {
        wire.read(if token % 2 == 0 { bad } else { good }, token).unwrap();
    }
    let (ended, others) = wire.ended(20);
    for (token, status) in ended {
        match token {
            0 => assert_eq!(status, Status::KeyRevoked),
            token if token % 2 == 0 => assert_eq!(status, Status::QueueBroken),
            _ => assert_eq!((status, wire.landed(token)), (Status::Ok, [2; 64])),
        }
    }
    assert_eq!(others, [Event::Broken { owner: owner(0) }]);
    assert_eq!(wire.read(bad, 0), Err(PostError::Refused(Status::QueueBroken)));
    wire.way.revoke(bad).unwrap();
    wire.progress();
    wire.way.rebuild(owner(0));
    let newer = wire.ticket(0, 2);
    let newer = wire.import(newer);
    wire.read(newer, 30).unwrap();
    assert_eq!(wire.ended(1).0, [(30, Status::Ok)]);
    assert_eq!(wire.landed(30), [1; 64]);
}

#[test]
fn a_reader_sleeps_until_the_bell_rings() {
    let Some(mut wire) = wire() else { return };
    let ticket = wire.ticket(0, 1);
    let key = wire.import(ticket);
    wire.progress();
    for token in 0..3 {
        wire.read(key, token).unwrap();
        let mut events = Vec::new();
        wire.way.poll(Time(1), &mut |event| events.push(event));
        while events.is_empty() {
            if !wire.way.device().arm() {
                let bell = wire.way.device().bell();
                let rung = poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&Timespec { tv_sec: 20, tv_nsec: 0 }));
                assert_eq!(rung, Ok(1), "the bell did not ring");
                wire.way.device().quiet();
            }
            wire.way.poll(Time(1), &mut |event| events.push(event));
        }
        assert_eq!(events, [Event::Done { token: Token(token), status: Status::Ok }]);
    }
}

#[test]
fn what_waits_for_a_connection_ends_when_it_is_refused() {
    let Some(mut wire) = wire() else { return };
    wire.owners[0].answers = false;
    let ticket = wire.ticket(0, 1);
    let key = wire.import(ticket);
    wire.read(key, 0).unwrap();
    wire.read(key, 1).unwrap();
    wire.way.poll(Time(1), &mut |event| panic!("{event:?}"));
    let (ended, _) = wire.ended(2);
    assert_eq!(ended, [(0, Status::PeerFailed), (1, Status::PeerFailed)]);
}
