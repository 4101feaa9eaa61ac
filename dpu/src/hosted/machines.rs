//! The machines of an agent process over vectors: how large everything is.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use umbra::group::Heap;
use umbra::session::{Patience, job_key};
use umbra::sys::segment::{Segment, SegmentError};
use umbra_core::access::read::{Piece, Place, Reader, Server, Waiting};
use umbra_core::access::relay::{self, Ask, Fetches, Flight, Relay};
use umbra_core::access::serve::{Asker, Job, Serve};
use umbra_core::group::Record;
use umbra_core::group::service::{Answer, Config, Lent, LinkSlot, LocalSlot, PeerSlot, Service};
use umbra_core::map::Entry;
use umbra_core::memory::Block;
use umbra_core::peer::{Host, Incarnation};
use umbra_core::pending::Request;
use umbra_core::placement::{Placement, PlacementError};
use umbra_core::region;
use umbra_core::slots::Slot;
use umbra_core::time::{Lapse, Time};

use super::arena::{self, Tables, TablesError};
use super::settings::Settings;
use crate::agent::{Agent, CREDIT, Memory};

/// Links that can be open at once.
pub(super) const LINKS: usize = 2048;
/// Groups that are alive or remembered.
const GROUPS: usize = 4096;
/// Bytes of published tables.
const TABLES: usize = 64 << 20;
/// Words for groups that are being filled.
const WORDS: usize = 4 << 20;
/// Ranks that one service process serves.
const LOCALS: usize = 1024;
const REGIONS: usize = 4096;
const JOBS: usize = 1024;
/// Reads that have not ended, beside one over each link.
const REQUESTS: usize = 256;
/// Every rank may have its whole credit waiting.
pub(super) const ASKS: usize = LOCALS * relay::CREDIT as usize;
const KNOWN: usize = 4096;
const EVENTS: usize = 1024;
const ANSWERS: usize = 4096;

impl Memory for Heap {
    type Regions = Vec<region::Entry>;
    type Jobs = Vec<Slot<Job>>;
    type Askers = Vec<Asker>;
    type Requests = Vec<Request<Waiting>>;
    type Pieces = Vec<Slot<Piece>>;
    type Known = Vec<Place>;
    type Servers = Vec<Server>;
    type Asks = Vec<Request<Ask>>;
    type Flights = Vec<Flight>;
    type Fetches = Vec<Fetches>;
}

/// The machines cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachinesError {
    /// The job's numbers do not describe a job.
    #[error("configuration: {0}")]
    Placement(PlacementError),
    /// The endpoint cache cannot be made.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// The number of this service process cannot be named.
    #[error("job has more service processes than can be named")]
    TooMany,
    /// There are not enough links.
    #[error(
        "job has {service_processes} service processes, but an agent has {LINKS} links and needs one to each of the others \
         and to each of its ranks: take fewer of them a DPU"
    )]
    TooFewLinks {
        /// Of the job.
        service_processes: u32,
    },
}

/// The machines of one agent process.
pub(super) struct Machines {
    pub(super) agent: Agent<'static, Heap, Tables>,
    arena: Arc<Segment>,
}

impl Machines {
    /// Machines for one job.
    ///
    /// # Errors
    /// [`MachinesError`].
    pub(super) fn new(
        settings: &Settings,
        placement: Placement<'static>,
        incarnation: Incarnation,
        now: Time,
    ) -> Result<Machines, MachinesError> {
        let service_processes = settings.job.service_processes();
        if service_processes as usize > LINKS {
            return Err(MachinesError::TooFewLinks { service_processes });
        }
        let Patience { deadline, silence, grace, ping } = Patience::new(settings.deadline, settings.silence);
        let config = Config {
            timeout: deadline,
            silence,
            grace,
            ping,
            rank_silence: Lapse(u64::MAX),
            ..Config::new(settings.sp, incarnation, job_key(&settings.secret))
        };
        let lent: Lent<Heap> = Lent {
            records: vec![Record::default(); GROUPS],
            index: vec![Entry::EMPTY; GROUPS * 4 / 3 + 1],
            words: vec![0; WORDS],
            blocks: vec![Block::default(); 8 * GROUPS],
            links: vec![LinkSlot::default(); LINKS],
            peers: vec![PeerSlot::default(); service_processes as usize],
            locals: vec![LocalSlot::default(); LOCALS],
            answers: vec![Answer::default(); ANSWERS],
            events: vec![None; EVENTS],
        };
        let (tables, arena) = arena::create(GROUPS as u32, TABLES, incarnation)?;
        let group = Service::new(config, placement, tables, lent, now);
        let serve = Serve::new(
            settings.sp,
            vec![region::Entry::VACANT; REGIONS],
            (0..JOBS).map(|_| Slot::default()).collect(),
            vec![Asker::default(); LINKS],
        );
        // A link to each other service process, and one that it has begun anew while the last is not known to be gone. None
        // of them takes from another, however long its service process does not answer.
        let servers = LINKS.min(2 * service_processes as usize);
        let requests = REQUESTS + servers;
        let reader = Reader::new(
            (0..requests).map(|_| Request::default()).collect(),
            (0..servers * CREDIT as usize).map(|_| Slot::default()).collect(),
            vec![Place::default(); KNOWN],
            vec![Server::default(); LINKS],
        );
        let relay = Relay::new(
            (0..ASKS).map(|_| Request::default()).collect(),
            vec![Flight::default(); requests],
            vec![Fetches::default(); LINKS],
        );
        Ok(Machines { agent: Agent::new(group, serve, reader, relay), arena })
    }

    /// Places for exported regions.
    pub(super) const fn regions(&self) -> usize {
        REGIONS
    }

    /// A descriptor of the arena of all full groups, and its length in bytes.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub(super) fn arena(&self) -> Result<(OwnedFd, u64), SegmentError> {
        Ok((self.arena.share()?, self.arena.len() as u64))
    }
}

/// The shape of the job; its storage lives as long as the process.
pub(super) fn placement(settings: &Settings) -> Result<Placement<'static>, MachinesError> {
    let job = &settings.job;
    let hosts = u32::try_from(job.hosts().len()).map_err(|_| MachinesError::TooMany)?;
    let host_of: Vec<Host> = job.dpus().map(|(_, host)| host).collect();
    let storage = vec![0; Placement::words_needed(hosts, host_of.len())].leak();
    Placement::listed(storage, hosts, host_of.leak(), job.service_processes_per_dpu(), settings.shadows)
        .map_err(MachinesError::Placement)
}
