//! kill -9 and stop of processes that own or serve memory, with reads in flight.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use umbra::access::source::Sources;
use umbra::driver::now;
use umbra::shm::{CELL, FrameLane};
use umbra::sys::process::{Process, ProcessId};
use umbra::sys::segment::Segment;
use umbra_core::access::message::{EXPORT, EXPORT_MAX, Export};
use umbra_core::access::read::{Bytes, Get, Landing, Piece, Place, ReadError, Reader, Server, Waiting};
use umbra_core::access::serve::{Action as Serving, Asker, Copy, Job, Reply, STEP, Serve};
use umbra_core::atomic::Ordering;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::machine::{Action, Link};
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::pending::Request;
use umbra_core::region::{Entry, Secret};
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{Frame, Token};
use umbra_tests::crash::reads::{BASE, FRAMES, HANG, MEMORY, NEWS, OWNER, SERVER, SLOT, SLOTS, pattern};
use umbra_tests::memory_server::{SERVICE, rank};

/// The other process: killed and reaped however the test ends. It finds what is shared with it at the descriptors of
/// this one, so they stay open as long.
struct Other {
    child: Child,
    _shared: Vec<OwnedFd>,
}

impl Other {
    fn start(role: &str, shared: Vec<OwnedFd>) -> Other {
        let paths = shared.iter().map(|fd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_memory-child"));
        let child = command.arg(role).args(paths).spawn().unwrap();
        Other { child, _shared: shared }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the process, and returns when it has stopped: the signal is only sent by `kill`, and until it is
    /// taken the process may go on serving.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let status = waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED).unwrap();
        assert!(status.is_some_and(|(_, status)| status.stopped()), "{status:?}");
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Both fail only if it has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(news: &Segment) -> u64 {
    let start = Instant::now();
    loop {
        match news.word(0).unwrap().load(Ordering::Acquire) {
            0 => assert!(start.elapsed() < HANG, "the other process does not start"),
            value => return value,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

type Asking = Reader<Vec<Request<Waiting>>, Vec<Slot<Piece>>, Vec<Place>, Vec<Server>>;

fn asking(landing: Landing) -> Asking {
    let requests = (0..32).map(|_| Request::EMPTY).collect();
    let pieces = (0..32).map(|_| Slot::EMPTY).collect();
    let mut reader: Asking = Reader::new(requests, pieces, vec![Place::default(); 8], vec![Server::default(); 1]);
    reader.on_link(Link(0), SERVICE, landing).unwrap();
    reader
}

fn get(tag: u64, base: u64, len: usize, deadline: Time) -> Get {
    Get { owner: rank(), via: Link(0), address: base, len: len as u64, deadline, tag, region: None }
}

#[test]
fn kill_9_of_the_owner_with_reads_in_flight_is_owner_gone() {
    let news = Segment::create("news", NEWS).unwrap();
    let mut owner = Other::start(OWNER, vec![news.share().unwrap()]);
    let heap = wait_for(&news);
    let id = ProcessId::of(owner.child.id()).unwrap();

    let jobs: Vec<Slot<Job>> = (0..8).map(|_| Slot::EMPTY).collect();
    let mut serve = Serve::new(SERVICE, vec![Entry::VACANT; 8], jobs, vec![Asker::default(); 2]);
    let mut sources = Sources::new(8);
    let landing = Segment::create("landing", SLOT * SLOTS as usize).unwrap();
    serve.on_link(Link(0), rank(), Incarnation(3), 0, 0).unwrap();
    let asker = Peer::service(Sp(1)).unwrap();
    serve.on_link(Link(1), asker, Incarnation(4), landing.len() as u64, SLOTS).unwrap();
    let locator = Locator::Process { pid: id.pid, start: id.start };
    let ticket = Ticket { key: Key::new(rank(), 0, 1), base: heap, len: MEMORY as u64, access: Access::READ, locator };
    let export = Export { ticket, secret: Secret([1; 32]), shadows: [SERVICE].into_iter().collect() };
    let mut body = [0; EXPORT_MAX];
    let len = export.emit(&mut body).unwrap();
    let call = Frame::Call { op: EXPORT, token: Token(1), body: &body[..len] };
    let Reply::Attach(attach) = serve.on_frame(Link(0), &call) else { panic!("an export is attached") };
    let status = sources.attach(&attach, None, Some(id.pid));
    assert_eq!(serve.attached(&attach, status).status, Status::Ok);

    let mut reader = asking(Landing::Segment { slots: SLOTS, slot_bytes: SLOT as u64 });
    let (mut to, mut from): (VecDeque<[u8; CELL]>, VecDeque<[u8; CELL]>) = (VecDeque::new(), VecDeque::new());
    let deadline = now() + Lapse::from_secs(60);
    for tag in 0..8 {
        reader.get(get(tag, heap, MEMORY, deadline)).unwrap();
    }
    let (mut delivered, mut copies, mut ended) = (0, 0, Vec::new());
    let half_a_read = MEMORY as u64 / STEP / 2;
    let start = Instant::now();
    while ended.len() < 8 {
        assert!(start.elapsed() < HANG, "{} of 8 reads ended", ended.len());
        let mut cell = [0; CELL];
        while let Some(action) = reader.poll(&mut cell) {
            match action {
                Action::Send { .. } => to.push_back(std::mem::replace(&mut cell, [0; CELL])),
                Action::Event(end) => ended.push(end.outcome),
                other => panic!("{other:?}"),
            }
        }
        let mut copy = |serve: &mut Serve<_, _, _>, copy: Copy| {
            copies += 1;
            if copies == half_a_read {
                owner.kill();
            }
            let status = sources.carry_out(&copy, Some(&landing), &mut []);
            serve.copied(copy, status)
        };
        let mut answers = Vec::new();
        if let Some(bytes) = to.pop_front() {
            let len = Frame::announced_len(bytes.first_chunk().unwrap()).unwrap();
            match serve.on_frame(Link(1), &Frame::parse(&bytes[..len]).unwrap()) {
                Reply::Answer(answer) => answers.push(answer),
                Reply::Copy(c) => answers.extend(copy(&mut serve, c)),
                Reply::Later => {}
                other => panic!("{other:?}"),
            }
        }
        match serve.poll() {
            Some(Serving::Copy(c)) => answers.extend(copy(&mut serve, c)),
            Some(Serving::Answer(answer)) => answers.push(answer),
            _ => {}
        }
        for answer in answers {
            let mut cell = [0; CELL];
            answer.frame().emit(&mut cell).unwrap();
            from.push_back(cell);
        }
        if let Some(bytes) = from.pop_front() {
            let len = Frame::announced_len(bytes.first_chunk().unwrap()).unwrap();
            if let Some(delivery) = reader.on_frame(Link(0), &Frame::parse(&bytes[..len]).unwrap())
                && let Bytes::Landed(landed) = delivery.bytes
            {
                let mut bytes = vec![0; landed.len as usize];
                landing.read(landed.offset as usize, &mut bytes).unwrap();
                let right = (delivery.at as usize..).zip(&bytes).all(|(at, &byte)| byte == pattern(at));
                assert!(right, "bytes that were delivered are the owner's");
                delivered += bytes.len();
                reader.consumed(landed);
            }
        }
    }
    assert!(copies > half_a_read && delivered < 8 * MEMORY);
    for outcome in &ended {
        assert_eq!(*outcome, Err(ReadError::Refused(Status::OwnerGone)));
    }
    // The link to the rank ends with it; then nobody has to try to know.
    serve.on_gone(Link(0));
    let Some(Serving::Detach { place, .. }) = serve.poll() else { panic!("its memory is let go") };
    sources.detach(place);
}

/// A server in another process, and the asker's side of it.
struct Served {
    other: Other,
    process: Process,
    lane: FrameLane,
    landing: Segment,
    reader: Asking,
    ended: Vec<(u64, Result<(), ReadError>)>,
}

impl Served {
    fn start() -> Served {
        let news = Segment::create("news", NEWS).unwrap();
        let memory = Segment::create("memory", MEMORY).unwrap();
        memory.write(0, &(0..MEMORY).map(pattern).collect::<Vec<u8>>()).unwrap();
        let landing = Segment::create("landing", SLOT * SLOTS as usize).unwrap();
        let lane = FrameLane::create(FRAMES).unwrap();
        let segments = [&news, &memory, &landing].map(|segment| segment.share().unwrap());
        let other = Other::start(SERVER, segments.into_iter().chain([lane.share().unwrap()]).collect());
        wait_for(&news);
        let process = Process::open(ProcessId::of(other.child.id()).unwrap()).unwrap();
        let reader = asking(Landing::Segment { slots: SLOTS, slot_bytes: SLOT as u64 });
        Served { other, process, lane, landing, reader, ended: Vec::new() }
    }

    /// One turn of an asking service process.
    fn turn(&mut self) {
        let mut cell = [0; CELL];
        while let Some(action) = self.reader.poll(&mut cell) {
            match action {
                Action::Send { .. } => {
                    self.lane.send_cell(&cell).unwrap();
                    cell = [0; CELL];
                }
                Action::Event(end) => self.ended.push((end.tag, end.outcome)),
                other => panic!("{other:?}"),
            }
        }
        while let Some(cell) = self.lane.receive() {
            let Some(delivery) = self.reader.on_frame(Link(0), &cell.frame().unwrap()) else { continue };
            let Bytes::Landed(landed) = delivery.bytes else { panic!("bytes land") };
            let mut bytes = vec![0; landed.len as usize];
            self.landing.read(landed.offset as usize, &mut bytes).unwrap();
            let right = (delivery.at as usize..).zip(&bytes).all(|(at, &byte)| byte == pattern(at));
            assert!(right, "bytes that were delivered are the owner's");
            self.reader.consumed(landed);
            if delivery.last {
                self.ended.push((delivery.tag, Ok(())));
            }
        }
        self.reader.on_time(now());
        if !self.process.is_alive() {
            self.reader.on_gone(Link(0));
        }
    }

    fn until_ended(&mut self, reads: usize) {
        let start = Instant::now();
        while self.ended.len() < reads {
            assert!(start.elapsed() < HANG, "{} of {reads} reads ended", self.ended.len());
            self.turn();
        }
    }
}

#[test]
fn kill_9_of_the_server_with_reads_in_flight_is_peer_failed() {
    let mut served = Served::start();
    let deadline = now() + Lapse::from_secs(60);
    served.reader.get(get(0, BASE, MEMORY, deadline)).unwrap();
    served.until_ended(1);
    assert_eq!(served.ended, [(0, Ok(()))]);
    served.other.stop();
    for tag in 1..9 {
        served.reader.get(get(tag, BASE, MEMORY, deadline)).unwrap();
    }
    (0..10).for_each(|_| served.turn());
    served.other.kill();
    served.until_ended(9);
    for (tag, outcome) in &served.ended[1..] {
        assert_eq!(*outcome, Err(ReadError::PeerFailed { sp: SERVICE }), "read {tag}");
    }
    assert!(now() < deadline, "nobody waited for a deadline");
    served.reader.get(get(9, BASE, 8, deadline)).unwrap();
    served.until_ended(10);
    assert_eq!(served.ended[9].1, Err(ReadError::NoLink(Link(0))));
}

#[test]
fn a_server_that_is_stopped_is_named_at_the_deadline_and_its_late_answers_hurt_nobody() {
    let mut served = Served::start();
    let long = Lapse::from_secs(60);
    served.reader.get(get(0, BASE, 8, now() + long)).unwrap();
    served.until_ended(1);
    served.other.stop();
    for tag in 1..6 {
        served.reader.get(get(tag, BASE, SLOT, now() + Lapse::from_millis(50))).unwrap();
    }
    served.until_ended(6);
    for (tag, outcome) in &served.ended[1..] {
        assert_eq!(*outcome, Err(ReadError::Timeout { missing: SERVICE }), "read {tag}");
    }
    served.other.signal(Signal::CONT);
    // Slots whose answers are late are not used before those came; then all goes on.
    for tag in 6..12 {
        served.reader.get(get(tag, BASE, 100_000, now() + long)).unwrap();
    }
    served.until_ended(12);
    assert!(served.ended[6..].iter().all(|(_, outcome)| *outcome == Ok(())));
}
