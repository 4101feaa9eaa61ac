//! The two machines of the bootstrap, in a job of two hosts.
//!
//! Each host has one service process and one rank; one of the four is under test.

use std::collections::VecDeque;

use umbra::group::{Capacities, Heap};
use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{Descriptor, Endpoints, JobKey};
use umbra_core::group::message::WORLD;
use umbra_core::group::{Member, Service, member, service};
use umbra_core::machine::{Action, Identity, Link, Machine, Role};
use umbra_core::memory::Block;
use umbra_core::peer::{Host, Incarnation, LocalRank, Peer, PeerKind, Sp, WorldRank};
use umbra_core::placement::Placement;
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Frame;

use super::script::{Script, Step, Writer};
use super::{LINKS, WISHES};

const JOB: JobKey = JobKey::new([7; 16]);
/// Hosts; each has one service process and one rank.
const HOSTS: u32 = 2;
/// Bytes of the buffer that a machine fills: short, so that messages are cut.
const BUFFER: usize = 512;
/// What only a rank does: joins, and leaves, one of some groups.
const JOIN: u8 = 0;
const LEAVE: u8 = 1;

type Tables = Endpoints<Vec<AtomicU64>, Vec<Block>>;
type ServiceMachine = Service<'static, Heap, Tables>;

fn job() -> Placement<'static> {
    Placement::one_dpu_a_host(HOSTS, 1, 1).expect("the job is a job")
}

fn capacities() -> Capacities {
    Capacities { ranks: HOSTS + 2, local_ranks: 2, links: LINKS as u32, groups: 3, ..Capacities::for_job(&job()) }
}

fn service(sp: u32) -> ServiceMachine {
    let config = service::Config::new(Sp(sp), Incarnation(u64::from(sp) + 1), JOB);
    let shelf = capacities().endpoints().expect("the capacities make an arena");
    Service::new(config, job(), shelf, capacities().service(), Time::ZERO)
}

fn member(rank: u32) -> Member<Heap> {
    let (life, host) = (Incarnation(u64::from(HOSTS + rank) + 1), Host(rank));
    let config = member::Config::new(life, JOB, WorldRank(rank), HOSTS, host, LocalRank(0), 1);
    Member::new(member::Config { sp: Some(Sp(rank)), ..config }, capacities().member(), Time::ZERO)
}

/// Joins or leaves a group of both ranks; refusals are right too.
fn own(member: &mut Member<Heap>, what: u8, which: u8, now: Time) {
    let mut buffer = [0; 64];
    let ranks = (0..HOSTS).map(WorldRank);
    let group = Descriptor::write(u32::from(which), ranks, &mut buffer).expect("the group is small");
    let key = member.key(&group);
    match what % 2 {
        JOIN => drop(member.join(&group, now)),
        _ => drop(member.leave(if which == 0 { WORLD } else { key })),
    }
}

/// Whatever comes: the service process 0 of the job lives with it.
pub(in super::super) fn service_feed(bytes: &[u8]) {
    feed(&mut service(0), bytes, |_, _, _, _| {});
}

/// Whatever comes: rank 0 of the job lives with it.
pub(in super::super) fn member_feed(bytes: &[u8]) {
    feed(&mut member(0), bytes, own);
}

fn feed<M: Machine>(machine: &mut M, bytes: &[u8], mut own: impl FnMut(&mut M, u8, u8, Time)) {
    let (mut now, mut up) = (Time::ZERO, [false; LINKS]);
    for step in Script(bytes) {
        match step {
            Step::Link(link, peer, incarnation) => {
                if std::mem::replace(&mut up[link], true) {
                    machine.on_gone(Link(link as u32), now);
                }
                machine.on_link(Link(link as u32), identity(peer, incarnation), now);
            }
            Step::Gone(link) if std::mem::replace(&mut up[link], false) => machine.on_gone(Link(link as u32), now),
            Step::Frame(link, bytes) if up[link] => {
                if let Ok(frame) = Frame::parse(bytes) {
                    machine.on_frame(Link(link as u32), &frame, now);
                }
            }
            Step::Pass(lapse) => {
                now = now + lapse;
                machine.on_time(now);
            }
            Step::Own(what, which) => own(machine, what, which, now),
            Step::Gone(_) | Step::Frame(..) => {}
        }
        rest(machine, &mut up, now);
    }
    // A driver that waits for the deadline must not find that it has always passed.
    machine.on_time(now);
    rest(machine, &mut up, now);
    assert!(machine.deadline().is_none_or(|due| due > now), "due at {:?}, and it is {now:?}", machine.deadline());
}

/// Polls until there is nothing to do.
fn rest<M: Machine>(machine: &mut M, up: &mut [bool; LINKS], now: Time) {
    let mut buffer = [0; BUFFER];
    for _ in 0..WISHES {
        match machine.poll(now, &mut buffer) {
            None => return,
            Some(Action::Send { link, len_bytes }) => {
                assert!(up[link.index()], "sent over {link:?}, which is down");
                Frame::parse(&buffer[..len_bytes]).expect("what is sent is a frame");
            }
            Some(Action::Close { link, .. }) => up[link.index()] = false,
            Some(Action::Connect { sp }) => assert!(sp.0 < HOSTS, "there is no service process {sp}"),
            Some(Action::Event(_)) => {}
        }
    }
    panic!("the machine does not come to rest");
}

fn identity(peer: Peer, incarnation: Incarnation) -> Identity {
    let role = match peer.kind() {
        PeerKind::Service(sp) => Role::Service(sp),
        PeerKind::Rank(_) => Role::Rank,
    };
    Identity { role, incarnation }
}

pub(in super::super) fn service_seeds() -> Vec<Vec<u8>> {
    conversations(0)
}

pub(in super::super) fn member_seeds() -> Vec<Vec<u8>> {
    conversations(HOSTS as usize)
}

/// What happened to process `of` of the job in some lives of it: service processes first, then ranks.
fn conversations(of: usize) -> Vec<Vec<u8>> {
    let world = |net: &mut Net| net.turn(8);
    let group = |net: &mut Net| {
        net.own(JOIN, 5);
        net.turn(8);
    };
    let end = |net: &mut Net| {
        net.own(LEAVE, 5);
        net.turn(8);
        net.own(LEAVE, 0);
        net.turn(8);
    };
    let apart = |net: &mut Net| {
        net.cut();
        net.turn(4);
    };
    let lives: [&[Chapter<'_>]; 4] = [&[&world], &[&world, &group, &end], &[&world, &apart], &[&group, &world]];
    let live = |life: &&[Chapter<'_>]| {
        let mut net = Net::new();
        life.iter().for_each(|chapter| chapter(&mut net));
        net.scripts.swap_remove(of).0
    };
    lives.iter().map(live).collect()
}

/// The whole job, and what happens to each of its processes.
struct Net {
    services: Vec<ServiceMachine>,
    members: Vec<Member<Heap>>,
    scripts: Vec<Writer>,
    now: Time,
}

/// Something that happens to it.
type Chapter<'a> = &'a dyn Fn(&mut Net);

/// Both ends of each connection: process and its link.
const WIRES: [[(usize, u32); 2]; 3] = [[(0, 0), (1, 0)], [(0, 1), (2, 0)], [(1, 1), (3, 0)]];

impl Net {
    fn new() -> Net {
        let mut net = Net {
            services: (0..HOSTS).map(service).collect(),
            members: (0..HOSTS).map(member).collect(),
            scripts: vec![Writer::default(); 2 * HOSTS as usize],
            now: Time::ZERO,
        };
        for wire in WIRES {
            let [one, other] = wire;
            net.link(one, other.0);
            net.link(other, one.0);
        }
        net
    }

    fn link(&mut self, (at, link): (usize, u32), to: usize) {
        let hosts = HOSTS as usize;
        let peer = if to < hosts { Peer::service(Sp(to as u32)) } else { Peer::rank(WorldRank((to - hosts) as u32)) };
        let identity = identity(peer.expect("a small number"), Incarnation(to as u64 + 1));
        match to.checked_sub(hosts) {
            None => self.scripts[at].service(link as u8, to as u8, to as u8),
            Some(rank) => self.scripts[at].rank(link as u8, rank as u8, to as u8),
        }
        let now = self.now;
        self.with(
            at,
            |service| service.on_link(Link(link), identity, now),
            |member| {
                member.on_link(Link(link), identity, now);
            },
        );
    }

    /// The link between the service processes breaks.
    fn cut(&mut self) {
        let now = self.now;
        for (at, link) in WIRES[0] {
            self.scripts[at].gone(link as u8);
            self.services[at].on_gone(Link(link), now);
        }
    }

    fn own(&mut self, what: u8, which: u8) {
        for rank in 0..self.members.len() {
            self.scripts[HOSTS as usize + rank].own(what, which);
            own(&mut self.members[rank], what, which, self.now);
        }
    }

    /// Carries frames, and lets a little time pass whenever there are none.
    fn turn(&mut self, times: usize) {
        for _ in 0..times {
            while self.carry() {}
            self.now = self.now + Lapse::from_millis(20);
            for at in 0..self.scripts.len() {
                self.scripts[at].pass(20);
                let now = self.now;
                self.with(at, |service| service.on_time(now), |member| member.on_time(now));
            }
        }
    }

    fn carry(&mut self) -> bool {
        let (mut frames, mut buffer) = (VecDeque::new(), [0; BUFFER]);
        for at in 0..self.scripts.len() {
            let now = self.now;
            let mut sent = Vec::new();
            let buffer = &mut buffer;
            match at.checked_sub(HOSTS as usize) {
                None => all(&mut self.services[at], now, buffer, &mut sent),
                Some(rank) => all(&mut self.members[rank], now, buffer, &mut sent),
            }
            for (link, frame) in sent {
                let wire = WIRES.iter().find(|wire| wire.contains(&(at, link))).expect("a link is an end of a wire");
                let (to, link) = wire[usize::from(wire[0] == (at, link))];
                frames.push_back((to, link, frame));
            }
        }
        let any = !frames.is_empty();
        for (to, link, bytes) in frames {
            self.scripts[to].frame(link as u8, &bytes);
            let (frame, now) = (Frame::parse(&bytes).expect("it was just emitted"), self.now);
            self.with(
                to,
                |service| service.on_frame(Link(link), &frame, now),
                |member| {
                    member.on_frame(Link(link), &frame, now);
                },
            );
        }
        any
    }

    fn with(&mut self, at: usize, service: impl FnOnce(&mut ServiceMachine), member: impl FnOnce(&mut Member<Heap>)) {
        match at.checked_sub(HOSTS as usize) {
            None => service(&mut self.services[at]),
            Some(rank) => member(&mut self.members[rank]),
        }
    }
}

/// Polls until there is nothing to do, and keeps the frames.
fn all<M: Machine>(machine: &mut M, now: Time, buffer: &mut [u8], sent: &mut Vec<(u32, Vec<u8>)>) {
    while let Some(action) = machine.poll(now, buffer) {
        if let Action::Send { link, len_bytes } = action {
            sent.push((link.0, buffer[..len_bytes].to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::group::member::State;

    use super::*;

    #[test]
    fn the_conversations_come_to_their_end_and_fit_into_an_input() {
        let mut net = Net::new();
        net.turn(8);
        assert!(net.services[0].world().is_some());
        assert!(net.members.iter().all(|member| member.state(WORLD) == State::Ready));
        for seed in service_seeds().into_iter().chain(member_seeds()) {
            assert!((50..4096).contains(&seed.len()), "{} bytes", seed.len());
        }
    }
}
