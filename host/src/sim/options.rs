//! A whole simulated run from one value.
//!
//! `umbra sim` and the random schedules start from it.
//!
//! ```
//! use umbra::sim::{Options, run};
//!
//! let mut options = Options::new(2, 2, 4);
//! options.faults.push("kill sp:3@20us".parse()?);
//! let outcome = run(&options)?;
//! assert!(outcome.violations.is_empty());
//! assert!(!outcome.errors.is_empty(), "the ranks of the dead service process are missed");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use umbra_core::peer::{Sp, WorldRank};
use umbra_core::placement::PlacementError;
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::ARITY_MAX;

use crate::group::Footprint;
use crate::quantity::Nanos;
use crate::sys::heap;

use super::churn::Churn;
use super::job::{Job, Network, Order};
use super::node::footprint;
use super::outcome::Outcome;
use super::random::Random;
use super::run::Sim;
use super::script::{Fault, Process, Scripted};

/// What is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The job, its network and its patience.
    pub job: Job,
    /// What goes wrong, and when.
    pub faults: Vec<Scripted>,
    /// Groups of random members that are joined and left while all this happens.
    pub groups: u32,
    /// How often each member joins each of them.
    pub rounds: u32,
    /// Virtual time after which the run is over, whatever its state; by default what all time-outs together may take.
    pub at_most: Option<Lapse>,
}

/// Why a run cannot start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A count is zero, or larger than a simulation can be.
    #[error("{what} must be from 1 to {most}, not {given}")]
    Count {
        /// Of what.
        what: &'static str,
        /// What was asked for.
        given: u64,
        /// The most that can be had.
        most: u64,
    },
    /// A time that must pass is none.
    #[error("{0} must be longer than nothing")]
    Nothing(&'static str),
    /// A time is longer than a simulation lasts.
    #[error("{what} must be at most {}, not {}", Nanos(.most.0), Nanos(.given.0))]
    Long {
        /// Which time.
        what: &'static str,
        /// What was asked for.
        given: Lapse,
        /// The most that can be had.
        most: Lapse,
    },
    /// Hosts and service processes do not fit together.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// There is no memory for all processes.
    #[error(
        "no memory for {bytes} bytes of {services} service processes and {ranks} ranks: take fewer hosts, service processes, \
         ranks or groups"
    )]
    NoMemory {
        /// Service processes of the job.
        services: u32,
        /// Ranks of the job.
        ranks: u32,
        /// Bytes, about.
        bytes: u64,
    },
    /// A fault names a process that the job does not have.
    #[error("`{fault}` names {process}, but the job has {services} service processes and {ranks} ranks")]
    NoSuchProcess {
        /// The fault as it is written.
        fault: String,
        /// The process that is not there.
        process: Process,
        /// Service processes of the job.
        services: u32,
        /// Ranks of the job.
        ranks: u32,
    },
}

fn count(what: &'static str, given: u64, most: u64) -> Result<(), SimError> {
    if (1..=most).contains(&given) { Ok(()) } else { Err(SimError::Count { what, given, most }) }
}

/// The longest time that anything in a simulation takes.
const LONGEST: Lapse = Lapse::from_secs(3600);

fn lapse(what: &'static str, given: Lapse) -> Result<(), SimError> {
    within(what, given, LONGEST)
}

fn within(what: &'static str, given: Lapse, most: Lapse) -> Result<(), SimError> {
    if given <= most { Ok(()) } else { Err(SimError::Long { what, given, most }) }
}

/// As [`within`], for a time that must pass.
fn passing(what: &'static str, given: Lapse, most: Lapse) -> Result<(), SimError> {
    if given.0 == 0 { Err(SimError::Nothing(what)) } else { within(what, given, most) }
}

impl Options {
    /// `hosts` hosts with `ranks` ranks each, one DPU a host with `per_dpu` service processes; nothing goes wrong.
    #[must_use]
    pub fn new(hosts: u32, per_dpu: u32, ranks: u32) -> Options {
        Options { job: Job::new(hosts, per_dpu, ranks), faults: Vec::new(), groups: 0, rounds: 1, at_most: None }
    }

    /// A small job on a bad network, all of it drawn from the seed: one to three hosts, random members in up to two
    /// groups that are made again and again, and in every second job up to three faults.
    #[must_use]
    pub fn random(seed: u64) -> Options {
        let mut random = Random::new(seed);
        let hosts = 1 + random.below(3) as u32;
        let per_dpu = 1 + random.below(2) as u32;
        let ranks_on = (0..hosts).map(|_| 1 + random.below(3) as u32).collect();
        let orders = [Order::Block, Order::Cyclic, Order::Shuffled];
        let network = Network {
            delay: Lapse(1 + random.below(20_000)),
            jitter: Lapse(random.below(200_000)),
            loss: random.below(2) as u32 * random.below(200_000) as u32,
            duplication: random.below(2) as u32 * random.below(300_000) as u32,
            reorder: random.below(2) == 0,
            mesh: random.below(2) == 0,
            start: Lapse(random.below(3_000_000)),
        };
        let job = Job {
            ranks_on,
            order: orders[random.below(3) as usize],
            arity: 1 + random.below(3) as u32,
            network,
            seed: random.bits(),
            groups: 4,
            keep_events: false,
            ..Job::new(hosts, per_dpu, 1)
        };
        let groups = random.below(3) as u32;
        let rounds = 1 + random.below(3) as u32;
        let mut options = Options { job, groups, rounds, ..Options::new(1, 1, 1) };
        let (services, ranks) = (u64::from(hosts * per_dpu), u64::from(options.job.ranks()));
        let process = |random: &mut Random| {
            if random.below(2) == 0 {
                Process::Service(Sp(random.below(services) as u32))
            } else {
                Process::Rank(WorldRank(random.below(ranks) as u32))
            }
        };
        for _ in 0..random.below(2) * (1 + random.below(3)) {
            let at = Time(random.below(20_000_000));
            let (one, other) = (process(&mut random), process(&mut random));
            let later = Lapse(random.below(600_000_000));
            let mut plan = |at, fault, lasts| options.faults.push(Scripted { at, fault, lasts });
            match random.below(3) {
                0 => plan(at, Fault::Kill(one), None),
                1 => {
                    plan(at, Fault::Kill(one), None);
                    plan(at + later, Fault::Restart(one), None);
                }
                _ if one != other => plan(at, Fault::Cut(one, other), Some(later)),
                _ => {}
            }
        }
        options
    }

    /// Whether the run can start.
    ///
    /// # Errors
    /// [`SimError`] names what is out of range.
    pub fn check(&self) -> Result<(), SimError> {
        let job = &self.job;
        count("number of hosts", job.ranks_on.len() as u64, 1 << 16)?;
        count("number of service processes per DPU", u64::from(job.per_dpu), 1 << 10)?;
        count("number of service processes", job.ranks_on.len() as u64 * u64::from(job.per_dpu), 1 << 16)?;
        count("number of ranks", job.ranks_on.iter().map(|&n| u64::from(n)).sum(), 1 << 20)?;
        count("arity of the tree", u64::from(job.arity), u64::from(ARITY_MAX))?;
        passing("time-out", job.timeout, LONGEST)?;
        passing("interval of repetitions", job.resend, job.timeout)?;
        passing("interval of pings", job.ping, job.timeout)?;
        lapse("silence", job.silence)?;
        lapse("shortest way of a message", job.network.delay)?;
        lapse("random part of its way", job.network.jitter)?;
        lapse("start of the processes", job.network.start)?;
        count("rounds", u64::from(self.rounds), 1 << 16)?;
        count("number of groups, with that of all ranks,", u64::from(job.groups), 1 << 16)?;
        count("number of groups, with that of all ranks,", u64::from(self.groups) + 1, u64::from(job.groups))?;
        let services = job.placement()?.service_processes();
        let ranks = job.ranks();
        for scripted in &self.faults {
            lapse("time of a fault", Lapse(scripted.at.0))?;
            lapse("length of a fault", scripted.lasts.unwrap_or_default())?;
            let known = |process: &Process| match *process {
                Process::Service(sp) => sp.0 < services,
                Process::Rank(rank) => rank.0 < ranks,
            };
            if let Some(process) = scripted.fault.processes().find(|process| !known(process)) {
                return Err(SimError::NoSuchProcess { fault: scripted.fault.to_string(), process, services, ranks });
            }
        }
        Ok(())
    }

    /// Whether there is memory for the run; to be asked after [`check`](Self::check).
    ///
    /// # Errors
    /// [`SimError::NoMemory`], [`SimError::Placement`].
    pub fn fits(&self) -> Result<(), SimError> {
        let (placement, ranks) = (self.job.placement()?, self.job.ranks());
        let services = placement.service_processes();
        let Footprint { written, all } = footprint(&self.job, &placement);
        let refused = |bytes| Err(SimError::NoMemory { services, ranks, bytes });
        if !heap::has(written) {
            return refused(written);
        }
        // What grows is copied, and threads have memory of their own.
        let promised = all.saturating_add(all / 2);
        if heap::may_have(promised) { Ok(()) } else { refused(promised) }
    }

    /// By then everybody who waits has heard something, if the protocol keeps its promises.
    fn patience(&self) -> Lapse {
        let last = self.faults.iter().map(|f| f.at.0.saturating_add(f.lasts.unwrap_or_default().0)).max().unwrap_or(0);
        // A round that fails costs at most twice the time-out; the world group has one of its own.
        let rounds = u64::from(self.rounds * u32::from(self.groups > 0)) + 2;
        Lapse(last + self.job.network.start.0 + self.job.silence.0 + self.job.timeout.0.saturating_mul(2 * rounds))
    }
}

/// Runs a job until everybody has what it waited for, or has been told why not.
///
/// # Errors
/// [`SimError`] if the options make no job; what goes wrong in the job is part of the outcome.
pub fn run(options: &Options) -> Result<Outcome, SimError> {
    options.check()?;
    options.fits()?;
    let mut sim = Sim::new(options.job.clone())?;
    for &scripted in &options.faults {
        sim.plan(scripted);
    }
    let mut churn = Churn::new(&mut sim, options.groups, options.rounds);
    churn.run(&mut sim, options.at_most.unwrap_or_else(|| options.patience()));
    Ok(sim.outcome())
}
