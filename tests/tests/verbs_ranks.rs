//! Ranks that say frame by frame what no session says (s46, s50).
//!
//! One says that it refuses, and one dies before an answer. Without a device each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra::access::exposure::{Exposure, any_port};
use umbra::admin::{Body as _, ReadOrder, Slice, ops};
use umbra::driver::{Driver, Event, Limits, LinkId, now};
use umbra::job::{DataPath, Options};
use umbra::link::{Address, Identity, Party};
use umbra::session::{Session, Settings};
use umbra::sys::segment::Segment;
use umbra::verbs;
use umbra_core::access::direct::{CONNECT, Connect};
use umbra_core::access::message::{EXPORT, EXPORT_MAX, Export, REVOKE, Revoke};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::peer::{Incarnation, Sp, WorldRank};
use umbra_core::region::Secret;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Token};
use umbra_tests::agents::Agents;
use umbra_tests::rig::{self, service};
use umbra_tests::verbs::port;

/// Bytes of one read.
const LEN: u64 = 4096;
/// Times that a region is made an orphan of, until it was one in mid read.
const ROUNDS: usize = 8;
/// Memory of a rank: where it is, its length, its remote key.
type Place = (u64, u64, u32);

/// Agents that share no memory; `None` where there is no device, which is told.
fn agents(hosts: u32, ranks: u32) -> Option<Agents> {
    port()?;
    // Far longer than anything here takes: what ends at a deadline must not pass for what ends by itself.
    let deadline = Duration::from_secs(60);
    Some(Agents::of(Options { data_path: DataPath::Verbs, deadline, ..rig::options(hosts, 1, ranks) }))
}

/// A life of a rank that is no session: its link to its service process.
struct Life {
    rank: u32,
    sp: Sp,
    driver: Driver,
    link: LinkId,
}

/// What a rank is told about memory.
#[derive(PartialEq, Eq, Debug)]
enum Heard {
    /// Somebody wants to connect.
    Connect(Token, Connect),
    /// An export was answered.
    Exported(Status, Vec<u8>),
}

impl Life {
    /// Connects; `n` tells it from other lives.
    fn new(agents: &Agents, rank: u32, sp: Sp, n: u64) -> Life {
        let me = Identity { party: Party::Peer(rig::rank(rank)), incarnation: Incarnation(n) };
        let mut driver = Driver::new(me, agents.settings(rank).secret, Limits::default());
        let address = Address::Tcp(agents.job().address(sp).unwrap().ranks.into());
        let deadline = now() + Lapse::from_secs(30);
        let link = driver.dial(address, Party::Peer(service(sp.0)), deadline).unwrap();
        let (mut life, mut frame) = (Life { rank, sp, driver, link }, Vec::new());
        loop {
            life.driver.wait(deadline).unwrap();
            match life.driver.next(&mut frame) {
                Some(Event::Up { .. }) => return life,
                Some(other) => panic!("{other:?}"),
                None => assert!(now() < deadline, "no link"),
            }
        }
    }

    fn call(&mut self, frame: &Frame<'_>) {
        self.driver.send(self.link, frame, Vec::new()).unwrap();
        self.driver.flush();
    }

    /// Waits for the next word that is about memory.
    fn hear(&mut self) -> Heard {
        let (deadline, mut bytes) = (now() + Lapse::from_secs(30), Vec::new());
        loop {
            while let Some(event) = self.driver.next(&mut bytes) {
                let Event::Frame { .. } = event else { panic!("{event:?}") };
                match Frame::parse(&bytes).unwrap() {
                    Frame::Call { op: CONNECT, token, body } => {
                        return Heard::Connect(token, Connect::parse(body).unwrap());
                    }
                    Frame::Done { op: EXPORT, status, body, .. } => return Heard::Exported(status, body.to_vec()),
                    _ => {}
                }
            }
            assert!(now() < deadline, "nothing is heard");
            self.driver.wait(deadline).unwrap();
        }
    }

    fn answer(&mut self, token: Token, status: Status, body: &[u8]) {
        self.call(&Frame::Done { op: CONNECT, token, status, body });
    }

    /// Exports a region of this number.
    fn export(&mut self, number: u32, (base, len, rkey): Place) -> Key {
        let key = Key::new(rig::rank(self.rank), number, 1);
        let locator = Locator::Verbs { rkey, direct: true };
        let ticket = Ticket { key, base, len, access: Access::READ, locator };
        let export = Export { ticket, secret: Secret([7; 32]), shadows: [self.sp].into_iter().collect() };
        let mut body = [0; EXPORT_MAX];
        let used = export.emit(&mut body).unwrap();
        self.call(&Frame::Call { op: EXPORT, token: Token(1), body: &body[..used] });
        key
    }

    /// Hears that a reader wants to connect, and lets it.
    fn connect(&mut self, exposure: &mut Exposure) {
        let Heard::Connect(token, Connect { reader, endpoint, .. }) = self.hear() else { panic!("no reader") };
        let address = exposure.connect(reader, &verbs::Address::from_bytes(&endpoint).unwrap()).unwrap();
        self.answer(token, Status::Ok, &address.to_bytes());
    }
}

#[test]
fn a_rank_is_not_told_what_another_one_lacks() {
    let Some(agents) = agents(1, 2) else { return };
    let mut lives = [0, 1].map(|rank| Life::new(&agents, rank, Sp(0), 1));
    let somewhere = (0x10000, LEN, 1);
    let mut refuse = |rank: usize, (status, why): (Status, &str)| {
        lives[rank].export(0, somewhere);
        let Heard::Connect(token, _) = lives[rank].hear() else { panic!("nobody connects") };
        lives[rank].answer(token, status, why.as_bytes());
        lives[rank].hear()
    };
    let lacks = "it has no queue pair left";
    let told = refuse(0, (Status::Unreachable, lacks));
    assert!(
        matches!(&told, Heard::Exported(Status::Unreachable, why) if String::from_utf8_lossy(why).contains(lacks)),
        "{told:?}"
    );
    // This one does not say why.
    assert_eq!(refuse(1, (Status::Full, "")), Heard::Exported(Status::Unreachable, Vec::new()));
}

#[test]
fn s46_s50_a_region_that_was_asked_back_is_given_back_when_its_owner_dies() {
    // A card that gives up at once, or a machine that is slow, may have ended the read before its owner died.
    for _ in 0..ROUNDS {
        match a_region_is_given_back() {
            None | Some(true) => return,
            Some(false) => {}
        }
    }
    panic!("no read was under way when its owner died, {ROUNDS} times");
}

/// Has an agent read memory of a life that then asks for it back and dies; whether a read was under way until then. `None`
/// where there is no device.
fn a_region_is_given_back() -> Option<bool> {
    let mut agents = agents(2, 1)?;
    let settings = (0..2).map(|rank| Settings { sockets: None, ..agents.settings(rank) });
    // The tables are of the ranks' sessions; what one of the ranks exports is of a life that is none.
    let _sessions: Vec<Session> = std::thread::scope(|scope| {
        let joins: Vec<_> = settings.map(|settings| scope.spawn(|| Session::join(settings))).collect();
        joins.into_iter().map(|join| join.join().unwrap().unwrap()).collect()
    });
    let mut exposure = Exposure::new(&any_port().unwrap()).unwrap();
    let segment = Segment::create("umbra-test", 16 * LEN as usize).unwrap();
    let memory = exposure.register(Arc::new(segment), Access::READ).unwrap();
    let base = memory.segment().base().as_ptr() as u64;
    let places = [(base, LEN, memory.rkey()), (base + LEN, 3 * LEN, memory.rkey())];
    let mut life = Life::new(&agents, 1, Sp(1), 2);
    let first = life.export(0, places[0]);
    life.connect(&mut exposure);
    assert_eq!(life.hear(), Heard::Exported(Status::Ok, Vec::new()));
    life.export(1, places[1]);
    assert_eq!(life.hear(), Heard::Exported(Status::Ok, Vec::new()));
    let slice = Slice { rank: WorldRank(1), address: base, len: 4 * LEN };
    let _ = agents.ask(0, ops::PLAN, Token(1), &Slice::list_to_body(&[slice]));
    let order = ReadOrder { size: LEN, reads: 0, seed: 0, patience: 60_000_000_000 }.to_body();
    let read = |agents: &mut Agents| {
        agents.launcher.call(service(0), ops::SLICES, Token(2), &order, Vec::new()).unwrap();
        // It has begun when the agent answers this.
        let _ = agents.status(0);
    };
    read(&mut agents);
    life.connect(&mut exposure);
    let _ = agents.answer(ops::SLICES);
    // The other agent opens what it has asked for until now, and reads both by itself from here on.
    let _ = agents.ask(0, ops::SLICES, Token(2), &order);
    assert_eq!(agents.status(1)["regions_opened_for_others"], 2);
    // What it reads now is under way until its card gives up: nobody is at the other end.
    exposure.disconnect(Sp(0));
    read(&mut agents);
    // One region is asked back; then its owner dies, and the other one is taken by force.
    life.call(&Frame::Call { op: REVOKE, token: Token(3), body: &Revoke { key: first, forced: false }.to_bytes() });
    drop(life);
    let end = Instant::now() + Duration::from_secs(10);
    while agents.status(1)["regions_opened_for_others"] > 0 {
        assert!(Instant::now() < end, "a region is never given back");
    }
    // What the reader's card had not ended by then.
    Some(agents.status(0)["regions_orphaned"] > 0)
}
