//! What a job is asked to do, checked before anything starts.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use umbra_core::peer::{Sp, WorldRank};

use super::{JobError, Site};
use crate::input;
use crate::session::Rdma;
use crate::verbs::Choice;

/// Which way bytes travel from a rank to an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DataPath {
    /// The fastest one that works between the two.
    #[default]
    Auto,
    /// The rank's slice lies in a segment that its service process maps.
    Shared,
    /// The rank's slice lies in its heap; its service process copies it out of the rank's address space.
    Cma,
    /// The bytes travel in answers over the control link, as between hosts without RDMA.
    Asked,
    /// Every agent reads the rank's memory by itself, over RDMA.
    Verbs,
    /// The rank's service process reads its memory over RDMA, and others ask that one.
    VerbsAsked,
}

impl DataPath {
    /// Every choice.
    pub const ALL: [DataPath; 6] =
        [DataPath::Auto, DataPath::Shared, DataPath::Cma, DataPath::Asked, DataPath::Verbs, DataPath::VerbsAsked];

    /// How a rank exports its slice over RDMA, if it does.
    #[must_use]
    pub const fn rdma(self) -> Option<Rdma> {
        match self {
            DataPath::Verbs => Some(Rdma::Direct),
            DataPath::VerbsAsked => Some(Rdma::Asked),
            _ => None,
        }
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DataPath::Auto => "auto",
            DataPath::Shared => "shared",
            DataPath::Cma => "cma",
            DataPath::Asked => "asked",
            DataPath::Verbs => "verbs",
            DataPath::VerbsAsked => "verbs-asked",
        }
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DataPath {
    type Err = OptionsError;

    fn from_str(name: &str) -> Result<Self, OptionsError> {
        DataPath::ALL
            .into_iter()
            .find(|path| path.name() == name)
            .ok_or_else(|| OptionsError::UnknownDataPath(name.to_owned()))
    }
}

/// What a job is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Logical hosts, each with one DPU.
    pub hosts: u32,
    /// Service processes of each DPU.
    pub service_processes: u32,
    /// Ranks of each host.
    pub ranks: u32,
    /// Shadow service processes of each rank.
    pub shadows: u32,
    /// The file whose slices the ranks hold; this executable if none is named.
    pub input: Option<PathBuf>,
    /// Which way bytes travel.
    pub data_path: DataPath,
    /// Bytes of one read at most.
    pub size: u64,
    /// Reads at random offsets, from every agent to every rank, after the slices are read whole.
    pub reads: u32,
    /// Chooses the random offsets.
    pub seed: u64,
    /// How long any single wait may take before it fails by naming who is missing.
    pub deadline: Duration,
    /// How long a process may be silent, although its link is up, before it counts as dead; as long as the deadline if
    /// `None`.
    pub silence: Option<Duration>,
    /// The agent's executable; looked for beside this one if none is named.
    pub agent: Option<PathBuf>,
    /// The executable that runs ranks (`umbra rank`); this one if none is named.
    pub rank: Option<PathBuf>,
    /// The RDMA device of all ranks and agents that are started; if not given, what the configuration file says, or else the
    /// first that carries data.
    pub device: Option<Choice>,
    /// Hosts, DPUs and running agents of a configuration file, in place of `hosts` and `service_processes` on this
    /// machine.
    pub site: Option<Site>,
    /// Bytes of memory in which each agent that is started here keeps copies of constant memory for its ranks; 0 for none, and
    /// as many as `umbra-agent` takes by itself if `None`.
    pub stage: Option<u64>,
    /// Which log statements the agents that are started here append to which file: `umbra-agent --log` and `--log-file`.
    pub log: Option<(String, PathBuf)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            hosts: 2,
            service_processes: 2,
            ranks: 4,
            shadows: 1,
            input: None,
            data_path: DataPath::Auto,
            size: 64 * 1024,
            reads: 1000,
            seed: 1,
            deadline: Duration::from_secs(20),
            silence: None,
            agent: None,
            rank: None,
            device: None,
            site: None,
            stage: None,
            log: None,
        }
    }
}

/// A job cannot be asked for like this.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A count that must not be zero is.
    #[error("--{0} must be at least 1")]
    Zero(&'static str),
    /// More processes than one machine should be asked to run.
    #[error("{processes} processes are more than the {max} that one machine is asked to run: use umbra sim")]
    TooManyProcesses {
        /// How many were asked for.
        processes: u64,
        /// The limit.
        max: u64,
    },
    /// More shadow service processes than a DPU runs, or than a rank can have.
    #[error("{shadows} shadow service processes a rank: at most {max} here")]
    TooManyShadows {
        /// How many were asked for.
        shadows: u32,
        /// The limit.
        max: u32,
    },
    /// A read larger than any landing segment.
    #[error("--size {size} is over the largest read, {max} bytes")]
    ReadTooLarge {
        /// What was asked for.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// No such data path.
    #[error("unknown data path {0:?}: use auto, shared, cma, asked, verbs or verbs-asked")]
    UnknownDataPath(String),
}

impl Options {
    /// Processes that one job may start.
    pub const PROCESSES_MAX: u64 = 1024;
    /// Bytes of the largest single read.
    pub const SIZE_MAX: u64 = 16 * 1024 * 1024;
    /// Shadow service processes of a rank at most.
    pub const SHADOWS_MAX: u32 = 8;

    /// Refuses zero and absurd counts.
    ///
    /// # Errors
    /// [`OptionsError`] naming the option.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.check_for(self.processes())
    }

    /// The same of a job that starts so many processes here, whatever the counts say.
    pub(super) fn check_for(&self, processes: u64) -> Result<(), OptionsError> {
        let counts = [("hosts", self.hosts()), ("service-processes", self.per_dpu()), ("ranks", self.ranks)];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(OptionsError::Zero(name));
        }
        if self.shadows == 0 {
            return Err(OptionsError::Zero("shadows"));
        }
        if self.size == 0 {
            return Err(OptionsError::Zero("size"));
        }
        if self.deadline.is_zero() {
            return Err(OptionsError::Zero("deadline"));
        }
        if self.silence.is_some_and(|silence| silence.is_zero()) {
            return Err(OptionsError::Zero("silence"));
        }
        if processes > Self::PROCESSES_MAX {
            return Err(OptionsError::TooManyProcesses { processes, max: Self::PROCESSES_MAX });
        }
        let max = self.per_dpu().min(Self::SHADOWS_MAX);
        if self.shadows > max {
            return Err(OptionsError::TooManyShadows { shadows: self.shadows, max });
        }
        if self.size > Self::SIZE_MAX {
            return Err(OptionsError::ReadTooLarge { size: self.size, max: Self::SIZE_MAX });
        }
        Ok(())
    }

    /// Finds the input and measures it.
    ///
    /// # Errors
    /// [`JobError::Input`] or [`JobError::NotAFile`].
    pub fn open_input(&self) -> Result<(PathBuf, u64), JobError> {
        let path = match &self.input {
            Some(path) => path.clone(),
            None => env::current_exe().map_err(|error| JobError::Io { what: "name this executable", error })?,
        };
        // A pipe would be waited for: what it is is looked at after.
        match input::open(&path).and_then(|file| file.metadata()) {
            Ok(facts) if facts.is_file() => Ok((path, facts.len())),
            Ok(_) => Err(JobError::NotAFile(path)),
            Err(error) => Err(JobError::Input { path, error }),
        }
    }

    /// Processes that the job starts here.
    pub(super) fn processes(&self) -> u64 {
        let agents = self.agents().saturating_sub(self.agents_elsewhere());
        u64::from(agents) + u64::from(self.world_size())
    }

    /// Hosts that have ranks.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.site.as_ref().map_or(self.hosts, Site::hosts_here)
    }

    /// Service processes of each DPU.
    #[must_use]
    pub fn per_dpu(&self) -> u32 {
        self.site.as_ref().map_or(self.service_processes, |site| site.job().service_processes_per_dpu())
    }

    /// Ranks of the whole job.
    #[must_use]
    pub fn world_size(&self) -> u32 {
        self.hosts().saturating_mul(self.ranks)
    }

    /// Service processes of the whole job.
    #[must_use]
    pub fn agents(&self) -> u32 {
        let of_site = self.site.as_ref().map(|site| site.job().service_processes());
        of_site.unwrap_or_else(|| self.hosts.saturating_mul(self.service_processes))
    }

    /// Service processes of the job that run already.
    #[must_use]
    pub fn agents_elsewhere(&self) -> u32 {
        let of_site = |site: &Site| (0..self.agents()).filter(|&sp| !site.starts(Sp(sp))).count() as u32;
        self.site.as_ref().map_or(0, of_site)
    }

    /// The service processes of every host.
    #[must_use]
    pub fn layout(&self) -> Vec<Vec<Sp>> {
        let alone = |host: u32| (host * self.service_processes..(host + 1) * self.service_processes).map(Sp).collect();
        self.site.as_ref().map_or_else(|| (0..self.hosts).map(alone).collect(), Site::layout)
    }

    /// A rank's first shadow service process.
    #[must_use]
    pub fn first_shadow(&self, rank: WorldRank) -> Option<Sp> {
        match &self.site {
            Some(site) => site.first_shadow(rank, self.ranks),
            None => {
                let host = rank.0.checked_div(self.ranks)?;
                let lid = (rank.0 % self.ranks).checked_rem(self.service_processes)?;
                Some(Sp(host * self.service_processes + lid))
            }
        }
    }
}
