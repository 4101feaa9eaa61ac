//! Simulated processes: a machine, its storage, and what it has reported.

use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{Endpoints, JobKey};
use umbra_core::group::{Member, Service, member, service};
use umbra_core::machine::Link;
use umbra_core::memory::Block;
use umbra_core::peer::{Incarnation, Sp};
use umbra_core::placement::Placement;
use umbra_core::time::Time;

use super::job::Job;
use crate::group::{Capacities, Footprint, Heap};

/// The tables of a simulated service process.
pub type Tables = Endpoints<Vec<AtomicU64>, Vec<Block>>;

/// The key of the simulated job.
pub(super) const JOB_KEY: JobKey = JobKey::new(*b"simulated groups");

/// A simulated service process.
#[derive(Debug)]
pub struct ServiceNode {
    /// Its machine; `None` while it is dead.
    pub machine: Option<Service<'static, Heap, Tables>>,
    /// What it has reported, if events are kept.
    pub events: Vec<(Time, service::Event)>,
    pub(super) incarnation: Incarnation,
}

/// A simulated rank.
#[derive(Debug)]
pub struct RankNode {
    /// Its machine; `None` while it is dead.
    pub machine: Option<Member<Heap>>,
    /// What it has reported, if events are kept.
    pub events: Vec<(Time, member::Event)>,
    /// The service process to which it connects.
    pub sp: Sp,
    pub(super) config: member::Config,
    /// How often it has been started.
    pub(super) lives: u32,
}

/// What both kinds of process have.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    /// Connection behind each link.
    pub(super) links: Vec<Option<u32>>,
    pub(super) wake: Time,
    /// How many messages that carry data came one after the other until here.
    pub(super) depth: u32,
}

impl Wiring {
    pub(super) fn take_link(&mut self, connection: u32) -> Link {
        let at = self.links.iter().position(Option::is_none).unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() - 1
        });
        self.links[at] = Some(connection);
        Link(at as u32)
    }
}

/// Capacities for a simulated process of this job.
pub(super) fn capacities(job: &Job, placement: &Placement<'_>) -> Capacities {
    let most = job.ranks_on.iter().copied().max().unwrap_or(0);
    let local_ranks = most.div_ceil(job.per_dpu) + 2;
    Capacities {
        ranks: job.ranks() + 2,
        local_ranks,
        links: placement.service_processes() + 2 * local_ranks + 8,
        groups: job.groups,
        ..Capacities::for_job(placement)
    }
}

/// What a process has beside its machine: links, messages on their way, what it was told. The most that was measured of any
/// job; of most it is 10 KiB.
const BESIDE: usize = 24 << 10;

/// About what all simulated processes of this job take.
pub(super) fn footprint(job: &Job, placement: &Placement<'_>) -> Footprint {
    let (capacities, [services, ranks]) =
        (capacities(job, placement), [placement.service_processes(), job.ranks()].map(u64::from));
    let machines = capacities.service_footprint().times(services).plus(capacities.member_footprint().times(ranks));
    machines.plus_values::<[u8; BESIDE]>(services + ranks)
}

pub(super) fn service_machine(
    job: &Job,
    placement: Placement<'static>,
    sp: Sp,
    incarnation: Incarnation,
    now: Time,
    adjust: Option<fn(&mut service::Config)>,
) -> Option<Service<'static, Heap, Tables>> {
    let mut config = service::Config {
        arity: job.arity,
        timeout: job.timeout,
        resend: job.resend,
        ping: job.ping,
        silence: job.silence,
        grace: job.silence,
        rank_grace: job.rank_grace,
        ..service::Config::new(sp, incarnation, JOB_KEY)
    };
    if let Some(adjust) = adjust {
        adjust(&mut config);
    }
    let capacities = capacities(job, &placement);
    let shelf = capacities.endpoints().ok()?;
    Some(Service::new(config, placement, shelf, capacities.service(), now))
}

pub(super) fn member_machine(job: &Job, placement: &Placement<'_>, config: member::Config, now: Time) -> Member<Heap> {
    Member::new(config, capacities(job, placement).member(), now)
}
