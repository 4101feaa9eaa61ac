//! The loop: take what happens next, hand it to a machine, carry out what the machine wants.

use std::collections::HashSet;

use umbra_core::endpoints::{Descriptor, GroupKey};
use umbra_core::error::Status;
use umbra_core::group::member::{JoinError, LeaveError};
use umbra_core::group::message::{WORLD, ops};
use umbra_core::group::{Member, Service, Shelf, member, service};
use umbra_core::id::Generation;
use umbra_core::machine::{Action, Identity, Link, Machine, Role};
use umbra_core::peer::{Incarnation, Sp, WorldRank};
use umbra_core::placement::{Placement, PlacementError};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{BODY_MAX, Frame, HEAD};

use super::job::Job;
use super::links::{Agenda, Connection, Happens, way};
use super::node::{RankNode, ServiceNode, Tables, Wiring, capacities, member_machine, service_machine};
use super::outcome::{Happening, Outcome, Timeline};
use super::random::Random;
use super::script::{Fault, Process, Scripted};
use crate::group::Heap;

/// A simulated job.
#[derive(Debug)]
pub struct Sim {
    job: Job,
    placement: Placement<'static>,
    now: Time,
    random: Random,
    agenda: Agenda,
    services: Vec<ServiceNode>,
    ranks: Vec<RankNode>,
    wiring: Vec<Wiring>,
    connections: Vec<Connection>,
    /// Pairs that cannot connect.
    cut: HashSet<(usize, usize)>,
    adjust: Option<fn(&mut service::Config)>,
    lives: u64,
    digest: u64,
    time_to_full: Option<Lapse>,
    rounds: u32,
    lost: u64,
    traffic: [(u64, u64); 2],
    faults: Timeline,
    buffer: Vec<u8>,
}

impl Sim {
    /// A job whose processes start within the network's start time.
    ///
    /// # Errors
    /// [`PlacementError`] if the job has no host or no service process.
    pub fn new(job: Job) -> Result<Sim, PlacementError> {
        Sim::with(job, None)
    }

    /// As [`new`](Self::new), with other settings of the service processes.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(job: Job, adjust: Option<fn(&mut service::Config)>) -> Result<Sim, PlacementError> {
        let placement = job.placement()?;
        let count = placement.service_processes() as usize;
        let random = Random::new(job.seed);
        let mut sim = Sim {
            placement,
            now: Time::ZERO,
            random,
            agenda: Agenda::default(),
            services: Vec::with_capacity(count),
            ranks: Vec::new(),
            wiring: Vec::new(),
            connections: Vec::new(),
            cut: HashSet::new(),
            adjust,
            lives: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            time_to_full: None,
            rounds: 0,
            lost: 0,
            traffic: [(0, 0); 2],
            faults: Vec::new(),
            buffer: vec![0; HEAD + BODY_MAX],
            job,
        };
        for sp in (0..count as u32).map(Sp) {
            let incarnation = sim.new_life();
            let machine = service_machine(&sim.job, placement, sp, incarnation, Time::ZERO, adjust);
            sim.services.push(ServiceNode { machine, events: Vec::new(), incarnation });
            sim.wiring.push(Wiring::default());
        }
        if sim.job.network.mesh {
            for b in 0..count {
                for a in 0..b {
                    let at = sim.soon();
                    sim.agenda.plan(at, Happens::Connect { from: a, to: b, attempt: 0 });
                }
            }
        }
        for (rank, host, local) in sim.job.seats() {
            let Some(sp) = placement.sp_of(host, local) else { continue };
            let n_local = sim.job.ranks_on.get(host.index()).copied().unwrap_or(0);
            let incarnation = sim.new_life();
            let size = sim.job.ranks();
            let config = member::Config::new(incarnation, super::node::JOB_KEY, rank, size, host, local, n_local);
            sim.add_rank(config, sp);
        }
        for node in 0..count {
            sim.settle(node);
        }
        Ok(sim)
    }

    fn new_life(&mut self) -> Incarnation {
        self.lives += 1;
        Incarnation(self.random.bits() << 24 | self.lives)
    }

    fn soon(&mut self) -> Time {
        self.now + Lapse(self.random.below(self.job.network.start.0 + 1))
    }

    /// Adds a process that claims to be a rank and connects to `sp`; its index among the ranks. Its patience is set
    /// to the job's.
    pub fn add_rank(&mut self, config: member::Config, sp: Sp) -> usize {
        let Job { timeout, resend, ping, silence, .. } = self.job;
        let config = member::Config { timeout, resend, ping, silence, ..config };
        let machine = Some(member_machine(&self.job, &self.placement, config.clone(), self.now));
        self.ranks.push(RankNode { machine, events: Vec::new(), sp, config });
        self.wiring.push(Wiring { wake: Time::NEVER, ..Wiring::default() });
        let node = self.wiring.len() - 1;
        let at = self.soon();
        self.agenda.plan(at, Happens::Connect { from: node, to: sp.index(), attempt: 0 });
        self.settle(node);
        self.ranks.len() - 1
    }

    /// The job.
    #[must_use]
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// The shape of the job.
    #[must_use]
    pub const fn placement(&self) -> &Placement<'static> {
        &self.placement
    }

    /// Virtual time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// A service process; `None` while it is dead.
    #[must_use]
    pub fn service(&self, sp: Sp) -> Option<&Service<'static, Heap, Tables>> {
        self.services.get(sp.index())?.machine.as_ref()
    }

    /// All service processes.
    #[must_use]
    pub fn services(&self) -> &[ServiceNode] {
        &self.services
    }

    /// All ranks, in the order of their world ranks, and then the ones that were added.
    #[must_use]
    pub fn ranks(&self) -> &[RankNode] {
        &self.ranks
    }

    /// A rank; `None` while it is dead.
    #[must_use]
    pub fn member(&self, rank: WorldRank) -> Option<&Member<Heap>> {
        self.ranks.get(rank.index())?.machine.as_ref()
    }

    /// Has something happen later.
    pub fn plan(&mut self, scripted: Scripted) {
        self.agenda.plan(scripted.at.max(self.now), Happens::Fault(scripted.fault));
    }

    /// Has something happen now.
    pub fn fault(&mut self, fault: Fault) {
        if self.job.keep_events {
            self.faults.push((self.now, Happening::Fault(fault)));
        }
        match fault {
            Fault::Kill(process) => self.kill(process),
            Fault::Restart(process) => self.restart(process),
            Fault::Cut(a, b) => {
                let (a, b) = (self.node(a), self.node(b));
                self.cut.insert((a.min(b), a.max(b)));
                for at in 0..self.connections.len() as u32 {
                    let [one, other] = self.connections[at as usize].ends.map(|(node, _)| node);
                    if (one.min(other), one.max(other)) == (a.min(b), a.max(b)) {
                        self.disconnect(at);
                    }
                }
            }
            Fault::Heal(a, b) => {
                let (a, b) = (self.node(a), self.node(b));
                self.cut.remove(&(a.min(b), a.max(b)));
            }
        }
    }

    fn node(&self, process: Process) -> usize {
        match process {
            Process::Service(sp) => sp.index(),
            Process::Rank(rank) => self.services.len() + rank.index(),
        }
    }

    fn kill(&mut self, process: Process) {
        let node = self.node(process);
        match process {
            Process::Service(sp) => {
                if let Some(service) = self.services.get_mut(sp.index()) {
                    service.machine = None;
                }
            }
            Process::Rank(rank) => {
                if let Some(rank) = self.ranks.get_mut(rank.index()) {
                    rank.machine = None;
                }
            }
        }
        for at in 0..self.connections.len() as u32 {
            if self.connections[at as usize].ends.iter().any(|&(end, _)| end == node) {
                self.disconnect(at);
            }
        }
        if let Some(wiring) = self.wiring.get_mut(node) {
            *wiring = Wiring { wake: Time::NEVER, ..Wiring::default() };
        }
    }

    fn restart(&mut self, process: Process) {
        self.kill(process);
        let node = self.node(process);
        let life = self.new_life();
        match process {
            Process::Service(sp) => {
                let machine = service_machine(&self.job, self.placement, sp, life, self.now, self.adjust);
                if let Some(service) = self.services.get_mut(sp.index()) {
                    service.machine = machine;
                    service.incarnation = life;
                }
            }
            Process::Rank(rank) => {
                let Some(config) = self.ranks.get(rank.index()).map(|rank| rank.config.clone()) else { return };
                let config = member::Config { incarnation: life, ..config };
                let machine = member_machine(&self.job, &self.placement, config.clone(), self.now);
                if let Some(rank) = self.ranks.get_mut(rank.index()) {
                    rank.machine = Some(machine);
                    rank.config = config;
                    let to = rank.sp.index();
                    self.agenda.plan(self.now, Happens::Connect { from: node, to, attempt: 0 });
                }
            }
        }
        self.settle(node);
    }

    /// Ends a connection; both ends hear of it a little later.
    fn disconnect(&mut self, at: u32) {
        let connection = &mut self.connections[at as usize];
        if !core::mem::replace(&mut connection.up, false) {
            return;
        }
        for (node, link) in connection.ends {
            let when = self.now + way(&self.job.network, &mut self.random);
            self.agenda.plan(when, Happens::Gone { node, link, connection: at });
        }
    }

    fn alive(&self, node: usize) -> bool {
        match self.services.get(node) {
            Some(service) => service.machine.is_some(),
            None => self.ranks.get(node - self.services.len()).is_some_and(|rank| rank.machine.is_some()),
        }
    }

    fn identity(&self, node: usize) -> Identity {
        match self.services.get(node) {
            Some(service) => Identity { role: Role::Service(Sp(node as u32)), incarnation: service.incarnation },
            None => {
                let incarnation = self.ranks[node - self.services.len()].config.incarnation;
                Identity { role: Role::Rank, incarnation }
            }
        }
    }

    fn connected(&self, a: usize, b: usize) -> bool {
        self.wiring[a].links.iter().flatten().any(|&at| {
            let connection = &self.connections[at as usize];
            connection.up && connection.ends.iter().any(|&(end, _)| end == b)
        })
    }

    fn connect(&mut self, from: usize, to: usize, attempt: u32) {
        let is_rank = from >= self.services.len();
        if !self.alive(from) || from == to || to >= self.services.len() || self.connected(from, to) {
            return;
        }
        if !self.alive(to) || self.cut.contains(&(from.min(to), from.max(to))) {
            if is_rank || self.job.network.mesh {
                // A rank's driver tries again by itself, with back-off; so does one that opens the whole mesh.
                let wait = Lapse(self.job.resend.0 << attempt.min(6));
                self.agenda.plan(self.now + wait, Happens::Connect { from, to, attempt: attempt + 1 });
            }
            return;
        }
        let at = self.connections.len() as u32;
        let ends = [(from, self.wiring[from].take_link(at)), (to, self.wiring[to].take_link(at))];
        self.connections.push(Connection { ends, up: true, last: [self.now; 2] });
        for end in 0..2 {
            let (node, link) = ends[end];
            let identity = self.identity(ends[1 - end].0);
            self.with_machine(node, |machine, now| machine.on_link(link, identity, now));
            self.settle(node);
        }
    }

    fn with_machine(&mut self, node: usize, act: impl FnOnce(&mut dyn Hear, Time)) {
        let now = self.now;
        let count = self.services.len();
        if node < count {
            if let Some(machine) = &mut self.services[node].machine {
                act(machine, now);
            }
        } else if let Some(machine) = &mut self.ranks[node - count].machine {
            act(machine, now);
        }
    }

    /// Carries out what a machine wants, until it wants nothing, and plans its next waking.
    fn settle(&mut self, node: usize) {
        let count = self.services.len();
        loop {
            let (now, buffer) = (self.now, self.buffer.as_mut_slice());
            let action = if node < count {
                let Some(machine) = &mut self.services[node].machine else { return };
                machine
                    .poll(now, buffer)
                    .map(|action| split(action, |event| Happening::Service(Sp(node as u32), event)))
            } else {
                let rank = node - count;
                let Some(machine) = &mut self.ranks[rank].machine else { return };
                machine
                    .poll(now, buffer)
                    .map(|action| split(action, |event| Happening::Rank(WorldRank(rank as u32), event)))
            };
            match action {
                None => break,
                Some(Action::Send { link, len_bytes }) => self.send(node, link, len_bytes),
                Some(Action::Connect { sp }) => {
                    let at = self.now + way(&self.job.network, &mut self.random);
                    self.agenda.plan(at, Happens::Connect { from: node, to: sp.index(), attempt: 0 });
                }
                Some(Action::Close { link, reason }) => self.close(node, link, reason),
                Some(Action::Event(happening)) => self.note(happening),
            }
        }
        let deadline = if node < count {
            self.services[node].machine.as_ref().and_then(Machine::deadline)
        } else {
            self.ranks[node - count].machine.as_ref().and_then(Machine::deadline)
        };
        let wiring = &mut self.wiring[node];
        if let Some(at) = deadline.map(|at| at.max(self.now + Lapse(1)))
            && (at < wiring.wake || wiring.wake <= self.now)
        {
            wiring.wake = at;
            self.agenda.plan(at, Happens::Wake { node });
        }
    }

    fn note(&mut self, happening: Happening) {
        if !self.job.keep_events {
            return;
        }
        match happening {
            Happening::Service(sp, event) => self.services[sp.index()].events.push((self.now, event)),
            Happening::Rank(rank, event) => self.ranks[rank.index()].events.push((self.now, event)),
            Happening::Fault(_) => self.faults.push((self.now, happening)),
        }
    }

    fn close(&mut self, node: usize, link: Link, _reason: Status) {
        let Some(&Some(at)) = self.wiring[node].links.get(link.index()) else { return };
        self.wiring[node].links[link.index()] = None;
        let connection = &mut self.connections[at as usize];
        if core::mem::replace(&mut connection.up, false)
            && let Some(&(other, link)) = connection.ends.iter().find(|&&(end, _)| end != node)
        {
            let when = self.now + way(&self.job.network, &mut self.random);
            self.agenda.plan(when, Happens::Gone { node: other, link, connection: at });
        }
    }

    fn send(&mut self, node: usize, link: Link, len: usize) {
        let Some(&Some(at)) = self.wiring[node].links.get(link.index()) else { return };
        let network = self.job.network;
        let connection = &self.connections[at as usize];
        if !connection.up {
            return;
        }
        let end = usize::from(connection.ends[0].0 == node);
        let between_services = connection.ends.iter().all(|&(end, _)| end < self.services.len());
        let traffic = &mut self.traffic[usize::from(!between_services)];
        traffic.0 += 1;
        traffic.1 += len as u64;
        let depth = self.wiring[node].depth + 1;
        let copies = if self.random.happens(network.loss) {
            self.lost += 1;
            0
        } else {
            1 + u32::from(self.random.happens(network.duplication))
        };
        for _ in 0..copies {
            let mut when = self.now + way(&network, &mut self.random);
            if !network.reorder {
                let last = &mut self.connections[at as usize].last[end];
                when = when.max(*last);
                *last = when;
            }
            let bytes = self.buffer[..len].to_vec();
            self.agenda.plan(when, Happens::Arrive { connection: at, end, bytes, depth });
        }
    }

    /// Lets the next thing happen, unless it lies after `until`.
    pub fn step(&mut self, until: Time) -> bool {
        let Some((at, what)) = self.agenda.next(until) else { return false };
        self.now = self.now.max(at);
        match what {
            Happens::Arrive { connection, end, bytes, depth } => self.arrive(connection, end, &bytes, depth),
            Happens::Connect { from, to, attempt } => self.connect(from, to, attempt),
            Happens::Gone { node, link, connection } => {
                if self.wiring[node].links.get(link.index()) == Some(&Some(connection)) {
                    self.wiring[node].links[link.index()] = None;
                    self.with_machine(node, |machine, now| machine.on_gone(link, now));
                    self.settle(node);
                    if node >= self.services.len() {
                        let to = self.ranks[node - self.services.len()].sp.index();
                        self.agenda.plan(self.now, Happens::Connect { from: node, to, attempt: 0 });
                    }
                }
            }
            Happens::Wake { node } => {
                if self.wiring[node].wake <= self.now {
                    self.wiring[node].wake = Time::NEVER;
                    self.with_machine(node, |machine, now| machine.on_time(now));
                    self.settle(node);
                }
            }
            Happens::Fault(fault) => self.fault(fault),
        }
        true
    }

    fn arrive(&mut self, at: u32, end: usize, bytes: &[u8], depth: u32) {
        let connection = &self.connections[at as usize];
        if !connection.up {
            return;
        }
        let (node, link) = connection.ends[end];
        let Ok(frame) = Frame::parse(bytes) else { return };
        // FNV-1a over what arrives where and when.
        for word in [self.now.0, node as u64, u64::from(frame.op().0), bytes.len() as u64] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01b3);
        }
        let data = matches!(frame, Frame::Call { op: ops::PART | ops::SNAPSHOT, .. });
        if data && self.time_to_full.is_none() {
            let wiring = &mut self.wiring[node];
            wiring.depth = wiring.depth.max(depth);
            self.rounds = self.rounds.max(wiring.depth);
        }
        self.with_machine(node, |machine, now| machine.on_frame(link, &frame, now));
        self.settle(node);
    }

    /// Hands bytes to a process as if they had come over a link, whatever they are.
    pub fn inject(&mut self, to: Process, link: Link, frame: &Frame<'_>) {
        let node = self.node(to);
        self.with_machine(node, |machine, now| machine.on_frame(link, frame, now));
        self.settle(node);
    }

    /// The link of a process to another, if there is one.
    #[must_use]
    pub fn link(&self, of: Process, to: Process) -> Option<Link> {
        let (of, to) = (self.node(of), self.node(to));
        let at = self.wiring.get(of)?.links.iter().position(|at| {
            at.is_some_and(|at| {
                let connection = &self.connections[at as usize];
                connection.up && connection.ends.iter().any(|&(end, _)| end == to)
            })
        })?;
        Some(Link(at as u32))
    }

    /// Runs until `now` is `until`.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Runs until something is the case, at most so long; whether it is.
    pub fn run_for(&mut self, at_most: Lapse, mut is_so: impl FnMut(&Sim) -> bool) -> bool {
        let until = self.now + at_most;
        loop {
            if is_so(self) {
                return true;
            }
            if !self.step(until) {
                self.now = until;
                return false;
            }
        }
    }

    /// Runs until the world group is full at all live processes, at most so long; whether it is.
    pub fn run_until_world_is_full(&mut self, at_most: Lapse) -> bool {
        let start = self.now;
        // Looking at everybody after every message would cost more than the messages.
        let mut turn = 0;
        let stride = (self.wiring.len() as u64 / 4).max(1);
        let full = self.run_for(at_most, |sim| {
            turn += 1;
            turn % stride == 0 && sim.is_full(WORLD)
        });
        let full = full || self.is_full(WORLD);
        if full && self.time_to_full.is_none() {
            self.time_to_full = Some(self.now.since(start));
        }
        full
    }

    /// Whether a group is full at all live service processes, in one generation, and ready at all live members that
    /// have not left it.
    #[must_use]
    pub fn is_full(&self, key: GroupKey) -> bool {
        let mut handles = self.services.iter().flat_map(|node| &node.machine).map(|machine| machine.handle(key));
        let waiting = |rank: &RankNode| {
            let state = rank.machine.as_ref().map_or(member::State::Out, |machine| machine.state(key));
            matches!(state, member::State::Waiting | member::State::Joining | member::State::Joined)
        };
        !self.ranks.iter().any(waiting) && handles.all(|handle| handle.is_some())
    }

    /// A rank joins a group of these world ranks.
    ///
    /// # Errors
    /// [`JoinError`] if the machine refuses.
    pub fn join(&mut self, rank: WorldRank, id: u32, members: &[WorldRank]) -> Result<GroupKey, JoinError> {
        let mut bytes = vec![0; Descriptor::bytes_needed(members.len() as u32)];
        let descriptor =
            Descriptor::write(id, members.iter().copied(), &mut bytes).map_err(|_| JoinError::NotAMember)?;
        let now = self.now;
        let machine = self.ranks.get_mut(rank.index()).and_then(|rank| rank.machine.as_mut());
        let joined = machine.ok_or(JoinError::NotAMember)?.join(&descriptor, now);
        self.settle(self.services.len() + rank.index());
        joined
    }

    /// A rank leaves a group.
    ///
    /// # Errors
    /// [`LeaveError`] if it is no member.
    pub fn leave(&mut self, rank: WorldRank, key: GroupKey) -> Result<(), LeaveError> {
        let machine = self.ranks.get_mut(rank.index()).and_then(|rank| rank.machine.as_mut());
        let left = machine.ok_or(LeaveError::UnknownGroup)?.leave(key);
        self.settle(self.services.len() + rank.index());
        left
    }

    /// The bytes of a group's table at a service process.
    #[must_use]
    pub fn table(&self, sp: Sp, key: GroupKey) -> Option<Vec<u8>> {
        let service = self.service(sp)?;
        let handle = service.handle(key)?;
        let (len, _) = service.shelf().measure(handle)?;
        let mut bytes = vec![0; len as usize];
        let copied = service.shelf().copy(handle, 0, &mut bytes);
        (copied == bytes.len()).then_some(bytes)
    }

    /// Bytes of storage that one service process of this job is lent for tables.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        capacities(&self.job, &self.placement).arena_bytes()
    }

    /// What has come of it so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let machines = || (0..).map(Sp).zip(&self.services).filter_map(|(sp, node)| Some((sp, node.machine.as_ref()?)));
        let ready = |rank: &&RankNode| {
            rank.machine.as_ref().is_some_and(|machine| machine.state(WORLD) == member::State::Ready)
        };
        let mut timeline = self.faults.clone();
        let mut errors = Vec::new();
        for (sp, node) in (0..).map(Sp).zip(&self.services) {
            timeline.extend(node.events.iter().map(|&(at, event)| (at, Happening::Service(sp, event))));
        }
        for (rank, node) in (0..).map(WorldRank).zip(&self.ranks) {
            timeline.extend(node.events.iter().map(|&(at, event)| (at, Happening::Rank(rank, event))));
            for &(at, event) in &node.events {
                match event {
                    member::Event::Ended { cause, .. } if cause.status != Status::Ok => errors.push((at, rank, cause)),
                    _ => {}
                }
            }
        }
        timeline.sort_by_key(|&(at, _)| at);
        Outcome {
            now: self.now,
            time_to_full: self.time_to_full,
            full_services: machines().filter(|(_, machine)| machine.world().is_some()).count() as u32,
            ready_ranks: self.ranks.iter().filter(ready).count() as u32,
            service_messages: self.traffic[0].0,
            service_bytes: self.traffic[0].1,
            rank_messages: self.traffic[1].0,
            rank_bytes: self.traffic[1].1,
            lost: self.lost,
            rounds: self.rounds,
            groups: machines()
                .flat_map(|(sp, machine)| machine.reports().map(move |report| (sp, report)).collect::<Vec<_>>())
                .collect(),
            errors,
            timeline,
            digest: self.digest,
        }
    }

    /// The generation of a group at a service process.
    #[must_use]
    pub fn generation(&self, sp: Sp, key: GroupKey) -> Option<Generation> {
        self.service(sp)?.report(key).map(|report| report.generation)
    }
}

fn split<E>(action: Action<E>, note: impl FnOnce(E) -> Happening) -> Action<Happening> {
    match action {
        Action::Send { link, len_bytes } => Action::Send { link, len_bytes },
        Action::Connect { sp } => Action::Connect { sp },
        Action::Close { link, reason } => Action::Close { link, reason },
        Action::Event(event) => Action::Event(note(event)),
    }
}

/// What both machines can be told, whatever they report.
trait Hear {
    fn on_link(&mut self, link: Link, identity: Identity, now: Time);
    fn on_frame(&mut self, link: Link, frame: &Frame<'_>, now: Time);
    fn on_gone(&mut self, link: Link, now: Time);
    fn on_time(&mut self, now: Time);
}

impl<M: Machine> Hear for M {
    fn on_link(&mut self, link: Link, identity: Identity, now: Time) {
        Machine::on_link(self, link, identity, now);
    }
    fn on_frame(&mut self, link: Link, frame: &Frame<'_>, now: Time) {
        Machine::on_frame(self, link, frame, now);
    }
    fn on_gone(&mut self, link: Link, now: Time) {
        Machine::on_gone(self, link, now);
    }
    fn on_time(&mut self, now: Time) {
        Machine::on_time(self, now);
    }
}
