//! The loop: take what happens next and hand it to whom it concerns.

use std::collections::HashSet;

use umbra_core::endpoints::GroupKey;
use umbra_core::group::message::WORLD;
use umbra_core::group::{Member, Service, member, service};
use umbra_core::peer::{Incarnation, Sp, WorldRank};
use umbra_core::placement::{Placement, PlacementError};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Op;

use super::job::Job;
use super::links::{Agenda, Connection, Happens};
use super::node::{JOB_KEY, RankNode, ServiceNode, Tables, Wiring, member_machine, service_machine};
use super::outcome::{Timeline, Traffic};
use super::random::Random;
use super::watch::Watch;
use crate::group::Heap;

/// A simulated job.
#[derive(Debug)]
pub struct Sim {
    pub(super) job: Job,
    pub(super) placement: Placement<'static>,
    pub(super) now: Time,
    pub(super) random: Random,
    pub(super) agenda: Agenda,
    pub(super) services: Vec<ServiceNode>,
    pub(super) ranks: Vec<RankNode>,
    pub(super) wiring: Vec<Wiring>,
    pub(super) connections: Vec<Connection>,
    /// Pairs that cannot connect.
    pub(super) cut: HashSet<(usize, usize)>,
    pub(super) adjust: Option<fn(&mut service::Config)>,
    pub(super) lives: u64,
    pub(super) digest: u64,
    pub(super) time_to_full: Option<Lapse>,
    pub(super) rounds: u32,
    pub(super) lost: u64,
    /// Requests of a kind about a group to a process that are lost next, and how many.
    pub(super) doomed: Vec<(usize, Op, GroupKey, u32)>,
    pub(super) traffic: Traffic,
    pub(super) faults: Timeline,
    pub(super) watch: Watch,
    /// Whose turn it is in a random workload.
    pub(super) turn: Option<u32>,
    /// When the last fault happens that is known of, if there is one.
    pub(super) last_fault: Option<Time>,
    /// Buffers of messages that have arrived.
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) buffer: Vec<u8>,
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
            doomed: Vec::new(),
            traffic: Traffic::default(),
            faults: Vec::new(),
            watch: Watch::new(job.ranks()),
            turn: None,
            last_fault: None,
            spare: Vec::new(),
            buffer: vec![0; job.frame_bytes],
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
            let config = member::Config::new(incarnation, JOB_KEY, rank, size, host, local, n_local);
            sim.add_rank(config, sp);
        }
        for node in 0..count {
            sim.settle(node);
        }
        Ok(sim)
    }

    pub(super) fn new_life(&mut self) -> Incarnation {
        self.lives += 1;
        Incarnation(self.random.bits() << 24 | self.lives)
    }

    pub(super) fn soon(&mut self) -> Time {
        self.now + Lapse(self.random.below(self.job.network.start.0 + 1))
    }

    /// Adds a process that claims to be a rank and connects to `sp`; its index among the ranks. Its patience is set
    /// to the job's.
    pub fn add_rank(&mut self, config: member::Config, sp: Sp) -> usize {
        let Job { timeout, resend, ping, silence, .. } = self.job;
        let config = member::Config { sp: Some(sp), timeout, resend, ping, silence, grace: silence, ..config };
        let machine = Some(member_machine(&self.job, &self.placement, config.clone(), self.now));
        self.ranks.push(RankNode { machine, events: Vec::new(), sp, config, lives: 1 });
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

    /// Lets the next thing happen, unless it lies after `until`.
    pub fn step(&mut self, until: Time) -> bool {
        let Some((at, what)) = self.agenda.next(until) else { return false };
        self.now = self.now.max(at);
        match what {
            Happens::Arrive { connection, end, bytes, depth } => {
                self.arrive(connection, end, &bytes, depth);
                self.spare.push(bytes);
            }
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
            Happens::Turn(turn) => self.turn = Some(turn),
        }
        true
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
}
