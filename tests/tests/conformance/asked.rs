//! Asking a service process over a link of frames.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use umbra::access::source::Sources;
use umbra::driver::{Driver, Event as DriverEvent, Limits, LinkId};
use umbra::link::{Identity, Party, Side};
use umbra::secret::Secret;
use umbra::sys::segment::Segment;
use umbra_core::access::asked::{Asked, Frames, Job};
use umbra_core::access::message::{EXPORT, EXPORT_MAX, Export, REVOKE, Revoke};
use umbra_core::access::serve::{Action, Answer, Asker, Copy, Direction, Job as Long, Reply, Serve};
use umbra_core::access::{Event, MemoryAccess};
use umbra_core::error::Status;
use umbra_core::key::Key;
use umbra_core::machine::Link;
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::region::{Entry, Region};
use umbra_core::slots::Slot;
use umbra_core::ticket::Locator;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{BODY_MAX, Frame, HEAD, Token};
use umbra_tests::conformance::{DEEP, LANDING, LIFE, ME, REGIONS, Rig, owner};

use super::local::{Kind, Owners};

const ASKER: Link = Link(2);
/// Of an owner in its next life, while the link of the one before is up.
const NEXT: Link = Link(3);

type Pipe = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// What carries the frames.
pub(crate) trait Carrier {
    /// One end of it.
    type End: Frames;
    /// A link between two ends.
    fn connect() -> [Self::End; 2];
}

/// One end of a link in memory.
pub(crate) struct End {
    out: Pipe,
    into: Pipe,
}

/// Queues in memory.
pub(crate) struct InMemory;

impl Carrier for InMemory {
    type End = End;
    fn connect() -> [End; 2] {
        let (there, back) = (Pipe::default(), Pipe::default());
        [End { out: there.clone(), into: back.clone() }, End { out: back, into: there }]
    }
}

/// A control link over a Unix socket, with its handshake, sequence numbers and digests.
pub(crate) struct OverSocket;

/// One end of it.
pub(crate) struct SocketEnd {
    driver: Driver,
    link: LinkId,
    gone: bool,
}

impl Carrier for OverSocket {
    type End = SocketEnd;
    fn connect() -> [SocketEnd; 2] {
        let (one, other) = UnixStream::pair().unwrap();
        let secret = Secret::random().unwrap();
        let adopt = |n: u32, socket: UnixStream, side| {
            let party = Party::Peer(Peer::service(Sp(n)).unwrap());
            let me = Identity { party, incarnation: Incarnation(u64::from(n) + 1) };
            let mut driver = Driver::new(me, secret.clone(), Limits::default());
            let link = driver.adopt(socket.into(), true, side).unwrap();
            SocketEnd { driver, link, gone: false }
        };
        let mut ends = [adopt(ME.0, one, Side::Initiator), adopt(0, other, Side::Acceptor)];
        let (mut up, mut frame) = (0, Vec::new());
        for _ in 0..1000 {
            for end in &mut ends {
                end.driver.wait(Time::ZERO).unwrap();
                while let Some(event) = end.driver.next(&mut frame) {
                    match event {
                        DriverEvent::Up { .. } => up += 1,
                        other => panic!("{other:?}"),
                    }
                }
            }
            if up == 2 {
                return ends;
            }
        }
        panic!("the handshake did not end");
    }
}

impl Frames for SocketEnd {
    fn send(&mut self, frame: &Frame<'_>) -> bool {
        self.driver.send(self.link, frame, Vec::new()).is_ok()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Status> {
        let mut frame = Vec::new();
        self.driver.wait(Time::ZERO).unwrap();
        match self.driver.next(&mut frame) {
            Some(DriverEvent::Frame { .. }) => {
                buffer[..frame.len()].copy_from_slice(&frame);
                Ok(Some(frame.len()))
            }
            Some(DriverEvent::Gone { .. }) => {
                self.gone = true;
                Err(Status::PeerFailed)
            }
            _ if self.gone => Err(Status::PeerFailed),
            _ => Ok(None),
        }
    }
}

impl Frames for End {
    fn send(&mut self, frame: &Frame<'_>) -> bool {
        self.out.borrow_mut().push_back(emit(frame));
        true
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Status> {
        let Some(bytes) = self.into.borrow_mut().pop_front() else { return Ok(None) };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(Some(bytes.len()))
    }
}

fn emit(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; frame.len_bytes()];
    frame.emit(&mut bytes).unwrap();
    bytes
}

/// A service process with its sources.
struct Server<E> {
    serve: Serve<Vec<Entry>, Vec<Slot<Long>>, Vec<Asker>>,
    sources: Sources,
    end: E,
    failing: [bool; 2],
    /// Revocations that its owners were told have drained.
    drained: Vec<Key>,
    waiting: Option<Key>,
}

impl<E: Frames> Server<E> {
    fn new(end: E) -> Server<E> {
        let jobs = (0..8).map(|_| Slot::EMPTY).collect();
        let mut serve = Serve::new(Sp(0), vec![Entry::VACANT; REGIONS], jobs, vec![Asker::default(); 4]);
        for n in 0..2 {
            serve.on_link(Link(n as u32), owner(n), LIFE, 0, 0).unwrap();
        }
        serve.on_link(ASKER, Peer::service(ME).unwrap(), Incarnation(1), 0, 2 * DEEP as u32).unwrap();
        Server { serve, sources: Sources::new(REGIONS), end, failing: [false; 2], drained: Vec::new(), waiting: None }
    }

    /// Takes one frame of a link.
    fn hear(&mut self, link: Link, bytes: &[u8], descriptor: Option<std::os::fd::OwnedFd>) -> Option<Answer> {
        let frame = Frame::parse(bytes).unwrap();
        match self.serve.on_frame(link, &frame) {
            Reply::Answer(answer) => Some(answer),
            Reply::Attach(attach) => {
                let status = self.sources.attach(&attach, descriptor, None);
                Some(self.serve.attached(&attach, status))
            }
            Reply::Copy(copy) => self.copy(copy, &mut []),
            Reply::Store(copy, bytes) => self.copy(copy, &mut bytes.to_vec()),
            Reply::Later => None,
        }
    }

    fn copy(&mut self, copy: Copy, inline: &mut [u8]) -> Option<Answer> {
        let mut body = vec![0; copy.len as usize];
        let to_frame = copy.direction == Direction::ToFrame;
        let key = self.serve.regions().iter().find(|r| self.serve.regions().place(r.key) == Some(copy.place));
        let failing = (0..2).any(|n| self.failing[n] && key.is_some_and(|r| r.key.owner() == owner(n)));
        let status = match (failing, to_frame) {
            (true, _) => Status::CopyFailed,
            (false, true) => self.sources.carry_out(&copy, None, &mut body),
            (false, false) => self.sources.carry_out(&copy, None, inline),
        };
        let answer = self.serve.copied(copy, status)?;
        if to_frame && status == Status::Ok {
            let Frame::Done { op, token, status, .. } = answer.frame() else { panic!("an answer is a Done") };
            assert!(self.end.send(&Frame::Done { op, token, status, body: &body }));
            return None;
        }
        Some(answer)
    }

    fn step(&mut self) {
        let mut buffer = vec![0; HEAD + BODY_MAX];
        for _ in 0..64 {
            let Ok(Some(len)) = self.end.receive(&mut buffer) else { break };
            if let Some(answer) = self.hear(ASKER, &buffer[..len], None) {
                assert!(self.end.send(&answer.frame()));
            }
        }
        while let Some(action) = self.serve.poll() {
            match action {
                Action::Detach { place, .. } => self.sources.detach(place),
                Action::Answer(answer) => {
                    assert_eq!((answer.op, answer.status), (REVOKE, Status::Ok));
                    self.drained.extend(self.waiting.take());
                }
                Action::Copy(_) => panic!("inline transfers are one step"),
            }
        }
    }
}

type Way<E> = Asked<E, Vec<Entry>, Vec<Slot<Job>>, Vec<u8>>;

pub(crate) struct Asking<K, C: Carrier> {
    owners: Owners,
    way: Way<C::End>,
    server: Server<C::End>,
    /// Drained here and not yet at the server.
    ours: Vec<Key>,
    /// What was told while an import was waited for.
    early: Vec<Event>,
    kind: PhantomData<K>,
}

impl<K: Kind, C: Carrier> Rig for Asking<K, C> {
    type Way = Way<C::End>;

    fn new() -> Self {
        let [frames, theirs] = C::connect();
        let jobs = (0..=DEEP).map(|_| Slot::EMPTY).collect();
        let patience = Lapse::from_secs(1);
        let way = Asked::new(ME, frames, vec![Entry::VACANT; REGIONS], jobs, vec![0; LANDING as usize], patience);
        Asking {
            owners: Owners::new(),
            way,
            server: Server::new(theirs),
            ours: Vec::new(),
            early: Vec::new(),
            kind: PhantomData,
        }
    }

    fn way(&mut self) -> &mut Self::Way {
        &mut self.way
    }

    fn memory(&self, n: usize) -> &Segment {
        self.owners.memory(n)
    }

    fn locate(&mut self, n: usize, region: &Region) -> Locator {
        K::locate(n, region.base - self.base(n))
    }

    fn hand_over(&mut self, n: usize, export: &Export, life: Incarnation) -> Result<(), Status> {
        let mut body = [0; EXPORT_MAX];
        let len = export.emit(&mut body).unwrap();
        let call = emit(&Frame::Call { op: EXPORT, token: Token(1), body: &body[..len] });
        let link = if life == LIFE { Link(n as u32) } else { NEXT };
        self.server.serve.on_link(link, owner(n), life, 0, 0).unwrap();
        let answer = self.server.hear(link, &call, self.owners.descriptor::<K>(n)).unwrap();
        assert_eq!(answer.status, Status::Ok, "the server shadows both owners");
        self.way.import(export, life)?;
        for _ in 0..10 {
            let events = self.progress();
            let imported = events.iter().find_map(|event| match *event {
                Event::Imported { key, status } => Some((key, status)),
                _ => None,
            });
            self.early.extend(events.into_iter().filter(|event| !matches!(event, Event::Imported { .. })));
            if let Some((key, status)) = imported {
                assert_eq!(key, export.ticket.key);
                return if status == Status::Ok { Ok(()) } else { Err(status) };
            }
        }
        panic!("the server did not answer the import");
    }

    fn begin_revoke(&mut self, key: Key) {
        self.way.revoke(key).unwrap();
        let n = (0..2).find(|&n| owner(n) == key.owner()).unwrap();
        let body = Revoke { key, forced: false }.to_bytes();
        let call = emit(&Frame::Call { op: REVOKE, token: Token(2), body: &body });
        match self.server.hear(Link(n as u32), &call, None) {
            Some(answer) => {
                assert_eq!(answer.status, Status::Ok);
                self.server.drained.push(key);
            }
            None => self.server.waiting = Some(key),
        }
    }

    fn progress(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.early);
        self.way.poll(Time(1), &mut |event| events.push(event));
        self.server.step();
        self.way.poll(Time(1), &mut |event| events.push(event));
        // The region is taken back when nobody touches it any more, neither here nor at the server.
        events.retain(|event| match event {
            Event::Revoked { key } => {
                self.ours.push(*key);
                false
            }
            _ => true,
        });
        let drained = &self.server.drained;
        let (both, ours): (Vec<Key>, Vec<Key>) = self.ours.drain(..).partition(|key| drained.contains(key));
        self.ours = ours;
        events.extend(both.into_iter().map(|key| Event::Revoked { key }));
        events
    }

    fn fault(&mut self, n: usize, on: bool) {
        self.server.failing[n] = on;
    }
}

/// A rig whose importer believes to be on the list of a region, and the server knows that it is not.
fn stranger() -> (Asking<super::local::Shared, InMemory>, Key) {
    let mut rig = Asking::<super::local::Shared, InMemory>::new();
    let (base, locator) = (rig.base(0), super::local::Shared::locate(0, 0));
    let key = Key::new(owner(0), 0, 1);
    let ticket = umbra_core::ticket::Ticket { key, base, len: 64, access: umbra_core::key::Access::READ, locator };
    let secret = umbra_tests::conformance::SECRET;
    let told = |shadows: &[Sp]| Export { ticket, secret, shadows: shadows.iter().copied().collect() };
    let mut body = [0; EXPORT_MAX];
    let len = told(&[Sp(0)]).emit(&mut body).unwrap();
    let call = emit(&Frame::Call { op: EXPORT, token: Token(1), body: &body[..len] });
    let descriptor = rig.owners.descriptor::<super::local::Shared>(0);
    assert_eq!(rig.server.hear(Link(0), &call, descriptor).unwrap().status, Status::Ok);
    // The stranger puts itself on the list; the server's list is the owner's.
    assert_eq!(rig.way.import(&told(&[ME]), LIFE), Ok(()));
    (rig, key)
}

#[test]
fn s49_the_server_refuses_a_stranger_who_did_not_check_himself() {
    let (mut rig, key) = stranger();
    let events: Vec<Event> = (0..3).flat_map(|_| rig.progress()).collect();
    assert_eq!(events, [Event::Imported { key, status: Status::NotShadow }]);
    let span = umbra_core::key::Span { key, offset: 0, len: 1 };
    assert!(rig.way.read(span, 0, Token(3)).is_err());
}

#[test]
fn s49_what_a_stranger_posted_ends_with_the_refusal_and_its_revocation_is_told_once() {
    let (mut rig, key) = stranger();
    rig.way.read(umbra_core::key::Span { key, offset: 0, len: 8 }, 0, Token(3)).unwrap();
    rig.way.revoke(key).unwrap();
    let mut events = Vec::new();
    for _ in 0..3 {
        rig.way.poll(Time(1), &mut |event| events.push(event));
        rig.server.step();
    }
    let status = Status::NotShadow;
    let refused = [Event::Imported { key, status }, Event::Done { token: Token(3), status }];
    assert_eq!(events, [refused[0], refused[1], Event::Revoked { key }]);
}

#[test]
fn a_server_that_says_nothing_is_a_timeout_and_its_late_answer_is_ignored() {
    let mut rig = Asking::<super::local::Shared, InMemory>::new();
    let (base, locator) = (rig.base(0), super::local::Shared::locate(0, 0));
    let key = Key::new(owner(0), 0, 1);
    let ticket = umbra_core::ticket::Ticket { key, base, len: 64, access: umbra_core::key::Access::READ, locator };
    let secret = umbra_tests::conformance::SECRET;
    let export = Export { ticket, secret, shadows: [Sp(0), ME].into_iter().collect() };
    assert_eq!(rig.hand_over(0, &export, LIFE), Ok(()));
    rig.way.read(umbra_core::key::Span { key, offset: 0, len: 8 }, 0, Token(7)).unwrap();
    let mut events = Vec::new();
    rig.way.poll(Time(1), &mut |event| events.push(event));
    rig.way.poll(Time(2_000_000_000), &mut |event| events.push(event));
    assert_eq!(events, [Event::Done { token: Token(7), status: Status::Timeout }]);
    rig.server.step();
    rig.way.poll(Time(2_000_000_001), &mut |event| events.push(event));
    assert_eq!(events.len(), 1);
}
