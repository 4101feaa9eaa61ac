//! One agent process: sockets, memory and clock around an agent.
//!
//! A single thread turns: wait for the links, hand what came to the machines, carry out what they want. Nothing in
//! it blocks but the wait, and the wait ends at the first deadline of any machine.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use umbra::access::source::Sources;
use umbra::admin::{Progress, Slice};
use umbra::driver::{self, Driver, Limits, LinkId};
use umbra::job::DataPath;
use umbra::link::{Identity, Party as LinkParty};
use umbra::secret;
use umbra::sys::wait::{Doorbell, Patience, Step};
use umbra_core::endpoints::Group;
use umbra_core::error::Status;
use umbra_core::id::Id;
use umbra_core::log;
use umbra_core::machine::Link;
use umbra_core::peer::{Incarnation, Peer, PeerKind, Rank, Sp, WorldRank};
use umbra_core::region::Region;
use umbra_core::time::Time;
use umbra_core::wire::{BODY_MAX, HEAD};

use super::calls::Calls;
use super::early::Early;
use super::error::{ProcessError, cannot};
use super::linked::Linked;
use super::lives::Lasting;
use super::machines::{self, LINKS, Machines};
use super::orders::Broken;
use super::own::{Copies, OwnRead};
use super::rdma::Rdma;
use super::reading::{PathCost, Reading};
use super::settings::Settings;
use super::staging::Staging;

/// Pieces of one read that may be under way on one link, and their size.
pub(super) const SLOTS: u32 = 8;
pub(super) const SLOT_BYTES: u64 = 256 * 1024;
pub(super) const LANDING: u64 = SLOTS as u64 * SLOT_BYTES;
/// Unsent bytes of one link at most: more ends it.
pub(super) const OUTBOUND: usize = 4 << 20;
/// Reads of an order that are outstanding at once.
pub(super) const OUTSTANDING: usize = 4;

/// How long lanes are looked at before the process sleeps: a hand-over takes a fraction of a microsecond. Where
/// agents and ranks share processors nobody looks: who spins keeps the one that it waits for from answering.
const SPINS: u32 = 400;
const YIELDS: u32 = 8;
/// Turns in which only lanes are looked at, as long as they bring something.
const TURNS: u32 = 32;

/// Why an agent's life ends; of several reasons the last one in this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// Its job is over.
    JobOver,
    /// It was asked to end, or its launcher is gone.
    Asked,
    /// The others have declared it dead.
    Fenced,
}

/// One life of an agent process.
pub(super) struct Process {
    pub(super) settings: Settings,
    pub(super) driver: Driver,
    pub(super) machines: Machines,
    pub(super) sources: Sources,
    pub(super) links: HashMap<LinkId, Linked>,
    /// The link to each service process.
    pub(super) routes: HashMap<Sp, Link>,
    pub(super) early: Early,
    /// Service processes that this one dials.
    pub(super) dialled: HashMap<Sp, LinkId>,
    /// The Unix socket's name, to be removed at the end.
    pub(super) socket: Option<PathBuf>,
    pub(super) supervisor: Option<LinkId>,
    pub(super) signals: usize,
    /// Why this life is about to end, if it is.
    end: Option<End>,
    /// The world group of the job has ended.
    pub(super) world_ended: bool,
    /// What peers ring after they have put a frame into a lane.
    pub(super) bell: Doorbell,
    /// Links that have a lane.
    pub(super) lanes: Vec<LinkId>,
    patience: Patience,
    /// Turns until the links are looked at again.
    turns: u32,
    pub(super) slices: Vec<Slice>,
    /// Who told the slices, in which life.
    pub(super) planner: Option<Incarnation>,
    /// In which groups each rank of the plan is, and as which rank.
    pub(super) memberships: HashMap<WorldRank, Vec<(Id<Group>, Rank)>>,
    /// The order that is being carried out, and who gave it, if that one is still linked.
    pub(super) reading: Option<(Option<LinkId>, Reading)>,
    /// Reads of that order that are made again, the earliest first.
    pub(super) broken: VecDeque<Broken>,
    pub(super) next_tag: u64,
    /// The read of a rank of ours that is being made, and the region that the last one was in.
    pub(super) own: Option<OwnRead>,
    pub(super) own_region: Option<Region>,
    /// Copies out of ranks' memory by how they were made, for whomever.
    pub(super) copies: Copies,
    /// By the way of the bytes, and whether the rank is one of ours.
    pub(super) costs: HashMap<(DataPath, bool), PathCost>,
    pub(super) progress: Progress,
    pub(super) progress_due: Time,
    pub(super) failed: u64,
    /// Reads that were made for ranks, and their bytes.
    pub(super) for_ranks: (u64, u64),
    pub(super) failures: HashMap<Status, u64>,
    pub(super) started: Time,
    pub(super) lookups: u64,
    pub(super) contradictions: u64,
    /// Memory that a network card reads.
    pub(super) rdma: Rdma,
    /// Copies that are kept for ranks.
    pub(super) staging: Staging,
    /// Members of chained calls, as soon as anybody has asked for them.
    pub(super) calls: Option<Calls>,
    pub(super) scratch: Vec<u8>,
}

impl Process {
    /// Prepares everything; nobody can connect yet.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub(super) fn new(settings: Settings, lasting: &Lasting) -> Result<Process, ProcessError> {
        let life = u64::from_le_bytes(secret::random::<8>().map_err(cannot("get random bytes"))?) | 1;
        let incarnation = Incarnation(life);
        let peer = Peer::service(settings.sp).ok_or(machines::MachinesError::TooMany)?;
        let me = Identity { party: LinkParty::Peer(peer), incarnation };
        let limits = Limits { links: LINKS, outbound: OUTBOUND, ..Limits::default() };
        let mut driver = Driver::new(me, settings.secret.clone(), limits);
        let signals = driver.watch(lasting.signals()?);
        let bell = Doorbell::create()?;
        driver.watch(bell.as_fd().try_clone_to_owned().map_err(cannot("watch the doorbell"))?);
        let machines = Machines::new(&settings, lasting.placement, incarnation, driver::now())?;
        let sources = Sources::new(machines.regions());
        let staging = Staging::new(&settings)?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let roomy = cores > 2 * settings.job.service_processes() as usize;
        let patience = if roomy { Patience::new(SPINS, YIELDS) } else { Patience::new(0, 0) };
        Ok(Process {
            settings,
            driver,
            machines,
            sources,
            links: HashMap::new(),
            routes: HashMap::new(),
            early: Early::default(),
            dialled: HashMap::new(),
            socket: None,
            supervisor: None,
            signals,
            end: None,
            world_ended: false,
            bell,
            lanes: Vec::new(),
            patience,
            turns: 0,
            slices: Vec::new(),
            planner: None,
            memberships: HashMap::new(),
            reading: None,
            broken: VecDeque::new(),
            next_tag: 0,
            own: None,
            own_region: None,
            copies: Copies::default(),
            costs: HashMap::new(),
            progress: Progress::default(),
            progress_due: Time::ZERO,
            failed: 0,
            for_ranks: (0, 0),
            failures: HashMap::new(),
            started: driver::now(),
            lookups: 0,
            contradictions: 0,
            rdma: Rdma::new(),
            staging,
            calls: None,
            scratch: vec![0; HEAD + BODY_MAX],
        })
    }

    /// Turns until there is a reason to end.
    ///
    /// # Errors
    /// [`ProcessError`] if the system refuses to wait.
    pub(super) fn run(&mut self) -> Result<End, ProcessError> {
        let mut frame = Vec::new();
        let mut busy = false;
        let end = loop {
            if let Some(end) = self.end {
                break end;
            }
            self.wait(busy)?;
            busy = self.turn(&mut frame);
        };
        self.driver.flush();
        log!(info, "service process {} ends", self.settings.sp);
        Ok(end)
    }

    /// Hands out what came, lets time pass and carries out what the machines want; true if they want more.
    fn turn(&mut self, frame: &mut Vec<u8>) -> bool {
        while let Some(event) = self.driver.next(frame) {
            self.on_event(event, frame);
            self.pump();
        }
        let mut busy = self.take_cells();
        // What came since is still to be heard: if this process was stopped, its peers were not silent.
        let now = self.driver.looked();
        if self.machines.agent.deadline().is_some_and(|due| due <= now) {
            self.fetches_late(now);
            self.machines.agent.on_time(now);
        }
        self.rdma_on_time(now);
        self.early_on_time(now);
        self.copies_late(now);
        busy |= self.turn_calls();
        busy |= self.pump();
        if !self.settings.supervised && self.world_ended && self.is_alone() {
            self.stop(End::JobOver);
        }
        busy
    }

    /// There is a reason to end.
    pub(super) fn stop(&mut self, end: End) {
        self.end = self.end.max(Some(end));
    }

    /// Whether neither a rank nor a tool is connected.
    fn is_alone(&self) -> bool {
        let is_service = |party| matches!(party, LinkParty::Peer(p) if matches!(p.kind(), PeerKind::Service(_)));
        self.links.values().all(|linked| is_service(linked.party))
    }

    /// Looks at the links; sleeps in the kernel if there is nothing else to do, after a moment of looking at the
    /// lanes only, for a frame there is likely to be followed by another.
    fn wait(&mut self, busy: bool) -> Result<(), ProcessError> {
        // However busy the lanes are, links and signals get their turn.
        self.turns = if busy { 0 } else { self.turns.saturating_sub(1) };
        if self.turns > 0 && self.take_cells() {
            return Ok(());
        }
        if busy || self.turns == 0 {
            self.turns = TURNS;
            self.driver.wait(Time::ZERO).map_err(cannot("wait"))?;
            if busy || self.driver.has_events() {
                self.patience.worked();
                return Ok(());
            }
        }
        if !self.lanes.is_empty() {
            while self.patience.pause() == Step::Again {
                if self.take_cells() {
                    self.patience.worked();
                    return Ok(());
                }
            }
            self.bell.arm();
            if self.take_cells() {
                self.bell.disarm();
                self.patience.worked();
                return Ok(());
            }
        }
        if self.rdma.arm() || self.arm_calls() {
            self.bell.disarm();
            self.patience.worked();
            return self.driver.wait(Time::ZERO).map_err(cannot("wait"));
        }
        let again = self.broken.front().map_or(Time::NEVER, |broken| broken.due);
        let due = self.machines.agent.deadline().unwrap_or(Time::NEVER).min(self.rdma.deadline());
        let due = due.min(self.staging.deadline()).min(self.early.deadline()).min(again).min(self.calls_due());
        let result = self.driver.wait(due).map_err(cannot("wait"));
        self.bell.disarm();
        if self.driver.has_events() {
            self.patience.worked();
        }
        result
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            // Whoever finds it later would find nobody behind it.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use umbra::config::Platform;
    use umbra::driver::Event;
    use umbra::link::{Address, Listener};
    use umbra::secret::Secret;
    use umbra_core::group::ops::PING;
    use umbra_core::time::Lapse;
    use umbra_core::wire::{Frame, Token};

    use super::*;

    const SILENCE: Duration = Duration::from_millis(100);

    #[test]
    fn peers_that_spoke_while_a_process_was_stopped_are_not_taken_for_dead() {
        let line = "# Format version: 1\nhost,dpu:127.0.0.1:1&2:3&4\n";
        let settings = Settings {
            sp: Sp(0),
            job: Platform::parse(line, "job.cfg").and_then(|platform| platform.job(&["dpu"])).unwrap(),
            secret: Secret::from_bytes([1; 32]),
            sockets: None,
            here: Vec::new(),
            shadows: 1,
            deadline: Duration::from_secs(60),
            silence: Some(SILENCE),
            device: None,
            stage: 0,
            members: 0,
            asked: true,
            supervised: false,
        };
        let mut process = Process::new(settings.clone(), &Lasting::new(&settings).unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        process.listen(Listener::Tcp(listener)).unwrap();

        // The other service process is played.
        let party = |sp| LinkParty::Peer(Peer::service(Sp(sp)).unwrap());
        let me = Identity { party: party(1), incarnation: Incarnation(7) };
        let mut other = Driver::new(me, settings.secret, Limits::default());
        let end = driver::now() + Lapse::from_secs(30);
        let link = other.dial(address, party(0), end).unwrap();
        let mut frame = Vec::new();
        let mut is_up = false;
        while !is_up {
            assert!(driver::now() < end, "they are not linked");
            other.wait(Time::ZERO).unwrap();
            is_up = matches!(other.next(&mut frame), Some(Event::Up { .. }));
            process.wait(true).unwrap();
            // No time passes for it before the other one can speak.
            if process.routes.is_empty() {
                process.turn(&mut frame);
            }
        }
        let mut speak = || {
            // Who is taken for dead has no link any more, which is told below.
            let _ = other.send(link, &Frame::Null { op: PING, token: Token(0), arg: 0 }, Vec::new());
            other.flush();
        };

        let failed = |process: &mut Process| process.machines.agent.group().counters().peers_failed;
        let mut stops = 0;
        while stops < 3 {
            assert!(driver::now() < end, "this machine is too slow to tell");
            speak();
            process.wait(true).unwrap();
            let heard = driver::now();
            process.turn(&mut frame);
            process.wait(true).unwrap();
            // Else it is the machine that was silent.
            if Duration::from_nanos(process.driver.looked().since(heard).0) < SILENCE {
                thread::sleep(SILENCE);
                speak();
                process.turn(&mut frame);
                stops += 1;
            }
        }
        assert_eq!(failed(&mut process), 0, "it spoke");
        while failed(&mut process) == 0 {
            assert!(driver::now() < end, "it is silent now");
            process.wait(true).unwrap();
            process.turn(&mut frame);
        }
    }
}
