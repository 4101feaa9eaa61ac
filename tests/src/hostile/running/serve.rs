//! The machine that serves memory, and a driver that takes its time with copies.

use std::collections::{HashMap, HashSet};

use umbra_core::access::message::{
    EXPORT, Export, IMPORT, Import, LOCATE, Locate, READ, REVOKE, Revoke, Transfer, WRITE,
};
use umbra_core::access::serve::{Action, Asker, Attach, Copy, Direction, INLINE_MAX, Reply, Serve};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::machine::Link;
use umbra_core::peer::{Incarnation, Peer, PeerKind, Sp, WorldRank};
use umbra_core::region::{Entry, Secret};
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::wire::{Frame, Op, Token};

use super::script::{Script, Step, Writer};
use super::{LINKS, WISHES};

/// The service process under test.
const ME: Sp = Sp(0);
/// Memory that service processes lend for answers.
const LANDING: u64 = 1 << 20;
const CREDIT: u32 = 4;
/// Copies that the driver has begun and not reported.
const BEGUN: usize = 16;
const REGION: u64 = 100_000;
const BASE: u64 = 0x10_0000;
const SECRET: Secret = Secret([9; 32]);

type Machine = Serve<Vec<Entry>, Vec<Slot<umbra_core::access::serve::Job>>, Vec<Asker>>;

/// A driver: what it maps, and what it copies right now.
struct Driver {
    machine: Machine,
    mapped: HashMap<usize, (Key, u64, u64)>,
    begun: Vec<Copy>,
    /// What was taken away without waiting for copies: forced, or because its owner went.
    forced: HashSet<Key>,
}

impl Driver {
    fn new() -> Driver {
        let regions = vec![Entry::VACANT; 8];
        let jobs = (0..6).map(|_| Slot::default()).collect();
        let machine = Serve::new(ME, regions, jobs, vec![Asker::default(); LINKS]);
        Driver { machine, mapped: HashMap::new(), begun: Vec::new(), forced: HashSet::new() }
    }

    fn frame(&mut self, link: Link, frame: &Frame<'_>) {
        if let Frame::Call { op: REVOKE, body, .. } = frame
            && let Ok(Revoke { key, forced: true }) = Revoke::parse(body)
        {
            self.forced.insert(key);
        }
        if self.frame_now(link, frame) {
            return;
        }
        match self.machine.on_frame(link, frame) {
            Reply::Answer(answer) => assert_eq!(answer.link, link),
            Reply::Copy(copy) => self.begin(copy),
            Reply::Store(copy, bytes) => {
                assert_eq!((copy.direction, copy.len), (Direction::FromFrame, bytes.len() as u64));
                self.begin(copy);
            }
            Reply::Attach(attach) => self.attach(&attach),
            Reply::Later => {}
        }
    }

    /// Copies at once if it may, and if the second bit of the token says so.
    fn frame_now(&mut self, link: Link, frame: &Frame<'_>) -> bool {
        let answer = self.machine.read_now(link, frame, |piece| {
            let &(key, base, len) = self.mapped.get(&piece.place).expect("the memory is mapped");
            assert!(piece.offset <= len && piece.len <= len - piece.offset, "{piece:?} leaves {key:?} of {len} bytes");
            assert_eq!(piece.address, base + piece.offset);
            assert!(piece.landing <= LANDING && piece.len <= LANDING - piece.landing, "{piece:?} leaves the landing");
            (frame.token().0 & 2 == 2).then_some(Status::Ok)
        });
        answer.is_some()
    }

    /// Maps the memory, unless the low bit of the token says that it cannot.
    fn attach(&mut self, attach: &Attach) {
        let refused = attach.token.0 & 1 == 1;
        if !refused {
            let region = attach.region;
            self.mapped.insert(attach.place, (region.key, region.base, region.len));
        }
        let status = if refused { Status::UnknownRegion } else { Status::Ok };
        assert_eq!(self.machine.attached(attach, status).status, status);
    }

    /// Only memory that is mapped is touched, and only within its bounds.
    fn begin(&mut self, copy: Copy) {
        let &(key, base, len) = self.mapped.get(&copy.place).expect("the memory is mapped");
        assert!(copy.offset <= len && copy.len <= len - copy.offset, "{copy:?} leaves {key:?} of {len} bytes");
        assert_eq!(copy.address, base + copy.offset);
        match copy.direction {
            Direction::ToLanding | Direction::FromLanding => {
                assert!(copy.landing <= LANDING && copy.len <= LANDING - copy.landing, "{copy:?} leaves the landing");
            }
            Direction::ToFrame | Direction::FromFrame => assert!(copy.len <= INLINE_MAX),
        }
        self.begun.push(copy);
        if self.begun.len() > BEGUN {
            self.report(0);
        }
    }

    fn report(&mut self, which: usize) {
        if !self.begun.is_empty() {
            let copy = self.begun.swap_remove(which % self.begun.len());
            let status = if which % 7 == 6 { Status::OwnerGone } else { Status::Ok };
            // A link that is gone is answered no more.
            let _ = self.machine.copied(copy, status);
        }
    }

    fn gone(&mut self, link: Link) {
        self.forced.extend(self.mapped.values().map(|(key, ..)| *key));
        self.machine.on_gone(link);
        self.rest();
    }

    /// Polls until there is nothing to do.
    fn rest(&mut self) {
        for _ in 0..WISHES {
            match self.machine.poll() {
                None => return,
                Some(Action::Copy(copy)) => self.begin(copy),
                Some(Action::Answer(_)) => {}
                Some(Action::Detach { place, key }) => {
                    let copied = self.begun.iter().any(|copy| copy.place == place);
                    assert!(self.forced.contains(&key) || !copied, "{key:?} is unmapped while it is copied");
                    self.mapped.remove(&place);
                }
            }
        }
        panic!("the machine does not come to rest");
    }
}

/// Whatever comes: bytes are touched only inside of what a rank has exported and not taken back.
pub(in super::super) fn serve_feed(bytes: &[u8]) {
    let (mut driver, mut up) = (Driver::new(), [false; LINKS]);
    for step in Script(bytes) {
        match step {
            Step::Link(at, peer, incarnation) => {
                let link = Link(at as u32);
                if std::mem::replace(&mut up[at], true) {
                    driver.gone(link);
                }
                let landing = if matches!(peer.kind(), PeerKind::Service(_)) { LANDING } else { 0 };
                driver.machine.on_link(link, peer, incarnation, landing, CREDIT).expect("there is a place for it");
            }
            Step::Gone(at) if std::mem::replace(&mut up[at], false) => driver.gone(Link(at as u32)),
            Step::Frame(at, bytes) if up[at] => {
                if let Ok(frame) = Frame::parse(bytes) {
                    driver.frame(Link(at as u32), &frame);
                }
            }
            Step::Own(_, which) => driver.report(usize::from(which)),
            Step::Gone(_) | Step::Frame(..) | Step::Pass(_) => {}
        }
        driver.rest();
    }
    // Whatever happened: once all copies are reported and all links are gone, nothing is mapped any more.
    while !driver.begun.is_empty() {
        driver.report(0);
        driver.rest();
    }
    for at in (0..LINKS).filter(|&at| up[at]) {
        driver.gone(Link(at as u32));
        while !driver.begun.is_empty() {
            driver.report(0);
            driver.rest();
        }
    }
    assert!(driver.mapped.is_empty(), "{:?} stays mapped", driver.mapped);
}

/// A rank that exports and takes back, a service process that reads and writes meanwhile.
pub(in super::super) fn serve_seeds() -> Vec<Vec<u8>> {
    let (rank, life) = (5, 7);
    let owner = Peer::rank(WorldRank(u32::from(rank))).expect("a small rank is a peer");
    let incarnation = Incarnation(u64::from(life) + 1);
    let key = Key::new(owner, 1, 7);
    let mut opened = Writer::default();
    opened.rank(0, rank, life);
    opened.service(1, 1, 3);
    let locator = Locator::Process { pid: 42, start: 99 };
    let ticket = Ticket { key, base: BASE, len: REGION, access: Access::READ | Access::WRITE, locator };
    let shadows = [ME, Sp(1)].into_iter().collect();
    let mut body = [0; 512];
    let len = Export { ticket, secret: SECRET, shadows }.emit(&mut body).expect("an export is short");
    call(&mut opened, 0, EXPORT, 2, &body[..len]);
    call(&mut opened, 1, LOCATE, 4, &Locate { owner, address: BASE + 5 }.to_bytes());
    call(&mut opened, 1, IMPORT, 6, &Import { key, secret: SECRET }.to_bytes());
    let transfer = |len, landing| Transfer { span: Span { key, offset: 16, len }, incarnation, landing }.to_bytes();
    let take_back = |script: &mut Writer, forced| call(script, 0, REVOKE, 20, &Revoke { key, forced }.to_bytes());

    let mut short = opened.clone();
    call(&mut short, 1, READ, 8, &transfer(100, None));
    call(&mut short, 1, WRITE, 10, &[transfer(4, None).as_slice(), b"four"].concat());
    (0..2).for_each(|which| short.own(0, which));
    take_back(&mut short, false);

    let mut long = opened.clone();
    call(&mut long, 1, READ, 12, &transfer(60_000, Some(4096)));
    call(&mut long, 1, WRITE, 14, &transfer(40_000, Some(0)));
    long.own(0, 0);
    take_back(&mut long, false);
    (0..12).for_each(|which| long.own(0, which));

    let mut forced = long.clone();
    take_back(&mut forced, true);
    // A rank comes again before its earlier life is seen to go, and exports nothing.
    let mut reborn = opened.clone();
    reborn.rank(2, rank, life + 1);
    reborn.gone(0);
    reborn.gone(2);
    let mut broken = opened;
    call(&mut broken, 1, READ, 12, &transfer(60_000, Some(4096)));
    broken.gone(0);
    broken.own(0, 0);
    broken.gone(1);
    vec![short.0, long.0, forced.0, broken.0, reborn.0]
}

fn call(script: &mut Writer, link: u8, op: Op, token: u64, body: &[u8]) {
    let mut bytes = [0; 1024];
    let len = Frame::Call { op, token: Token(token), body }.emit(&mut bytes).expect("the frame is short");
    script.frame(link, &bytes[..len]);
}
