//! A service process reduced to serving, for benches and crash tests.
//!
//! It serves one rank's segment to one asker over one lane.

use std::os::fd::OwnedFd;

use umbra::access::source::Sources;
use umbra::shm::FrameLane;
use umbra::sys::segment::Segment;
use umbra_core::access::message::{EXPORT, EXPORT_MAX, Export};
use umbra_core::access::serve::{Action, Answer, Asker, Copy, Job, Reply, Serve};
use umbra_core::atomic::spin_hint;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::machine::Link;
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::region::{Entry, Secret};
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::wire::{Frame, Token};

/// The service process that serves.
pub const SERVICE: Sp = Sp(0);
const LIFE: Incarnation = Incarnation(3);
const RANK: Link = Link(0);
const ASKER: Link = Link(1);

/// The rank whose memory is served.
#[must_use]
pub fn rank() -> Peer {
    Peer::rank(WorldRank(0)).unwrap_or_else(|| unreachable!("rank 0 has a name"))
}

type Serving = Serve<Vec<Entry>, Vec<Slot<Job>>, Vec<Asker>>;

/// A service process that serves one rank to one asker.
#[derive(Debug)]
pub struct MemoryServer {
    serve: Serving,
    sources: Sources,
    lane: FrameLane,
    landing: Segment,
}

impl MemoryServer {
    /// Serves the first `len` bytes of a segment, which the rank has at `base`, to one asker that lends
    /// `landing` and may have `credit` requests outstanding.
    ///
    /// # Panics
    /// If the memory cannot be mapped.
    #[must_use]
    pub fn new(segment: OwnedFd, base: u64, len: u64, landing: Segment, credit: u32, lane: FrameLane) -> MemoryServer {
        let jobs: Vec<Slot<Job>> = (0..64).map(|_| Slot::EMPTY).collect();
        let mut serve: Serving = Serve::new(SERVICE, vec![Entry::VACANT; 64], jobs, vec![Asker::default(); 2]);
        let asker = Peer::service(Sp(1)).unwrap_or_else(|| unreachable!("service process 1 has a name"));
        let linked = serve.on_link(RANK, rank(), LIFE, 0, 0);
        let linked = linked.and(serve.on_link(ASKER, asker, Incarnation(4), landing.len() as u64, credit));
        assert_eq!(linked, Ok(()));
        let mut sources = Sources::new(64);
        let locator = Locator::Segment { segment: 1, offset: 0, size: len };
        let ticket = Ticket { key: Key::new(rank(), 0, 1), base, len, access: Access::READ, locator };
        let export = Export { ticket, secret: Secret([9; 32]), shadows: [SERVICE].into_iter().collect() };
        let mut body = [0; EXPORT_MAX];
        let len = export.emit(&mut body).unwrap_or_else(|error| panic!("{error}"));
        match serve.on_frame(RANK, &Frame::Call { op: EXPORT, token: Token(0), body: &body[..len] }) {
            Reply::Attach(attach) => {
                let status = sources.attach(&attach, Some(segment), None);
                assert_eq!(serve.attached(&attach, status).status, Status::Ok);
            }
            other => panic!("{other:?}"),
        }
        MemoryServer { serve, sources, lane, landing }
    }

    #[inline(always)]
    fn answer(&mut self, answer: &Answer) {
        let sent = self.lane.send(&answer.frame());
        assert_eq!(sent, Ok(()), "credits bound what can be outstanding");
    }

    #[inline(always)]
    fn copy(&mut self, copy: Copy) -> u64 {
        let status = self.sources.carry_out(&copy, Some(&self.landing), &mut []);
        match self.serve.copied(copy, status) {
            Some(answer) => {
                self.answer(&answer);
                1
            }
            None => 0,
        }
    }

    /// Takes what came and serves it; returns how many requests that ended.
    ///
    /// # Panics
    /// If the asker breaks the rules.
    #[inline]
    pub fn step(&mut self) -> u64 {
        let mut served = 0;
        while let Some(cell) = self.lane.receive() {
            let Ok(frame) = cell.frame() else { panic!("the asker sends frames") };
            match self.serve.read_now(ASKER, &frame, |piece| Some(self.sources.land(piece, &self.landing))) {
                Some(answer) => {
                    self.answer(&answer);
                    served += 1;
                }
                None if self.take_up(&frame) => {}
                None => break,
            }
        }
        match self.serve.poll() {
            Some(action) => served + self.go_on(action),
            None => served,
        }
    }

    /// What is not a short read: true if more may be taken before others have their turn.
    #[inline(never)]
    fn take_up(&mut self, frame: &Frame<'_>) -> bool {
        match self.serve.on_frame(ASKER, frame) {
            Reply::Answer(answer) => self.answer(&answer),
            Reply::Later => return false,
            Reply::Copy(_) | Reply::Store(..) | Reply::Attach(_) => panic!("the asker only reads, into its landing"),
        }
        true
    }

    #[inline(never)]
    fn go_on(&mut self, action: Action) -> u64 {
        match action {
            Action::Copy(copy) => return self.copy(copy),
            Action::Answer(answer) => self.answer(&answer),
            Action::Detach { .. } => {}
        }
        0
    }

    /// Serves `reads` reads.
    ///
    /// # Panics
    /// If the asker breaks the rules, or stops asking.
    pub fn serve(&mut self, reads: u64) {
        let (mut served, mut idle) = (0, 0_u64);
        while served < reads {
            let now = self.step();
            served += now;
            idle = if now == 0 { idle + 1 } else { 0 };
            assert!(idle < 20_000_000_000, "the asker does not ask");
            spin_hint();
        }
    }
}
