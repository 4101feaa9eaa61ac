//! What an agent is told by command line, environment and configuration file.

use std::path::PathBuf;
use std::time::Duration;

use umbra::config::{ConfigError, ConfigFault, Environment, EnvironmentError, Job, Platform};
use umbra::quantity::parse_bytes;
use umbra::secret::{Secret, SecretError};
use umbra::verbs::Choice;
use umbra_core::peer::{Dpu, Sp, SpLid};

/// Options of the command line; what is not given comes from the environment.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Configuration file, format version 1 [env: UMBRA_CONFIG, OFFLOAD_CONFIG_FILE_PATH]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The job's DPUs in order, with commas; all of the file if not given [env: UMBRA_DPUS, DPU_OFFLOAD_LIST_DPUS]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub dpus: Vec<String>,
    /// Number of this service process in the job [env: UMBRA_SERVICE_PROCESS, DPU_OFFLOAD_SERVICE_PROCESS_GLOBAL_ID]
    #[arg(long, value_name = "N")]
    pub service_process: Option<u32>,
    /// Number of this service process on its DPU; must agree with its number in the job
    #[arg(long, value_name = "N")]
    pub lid: Option<u32>,
    /// File with the job's secret, readable only by its user [env: UMBRA_SECRET_FILE]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Directory for Unix sockets of agents on this machine, over which memory can be shared
    #[arg(long, value_name = "DIR")]
    pub sockets: Option<PathBuf>,
    /// The DPUs whose agents have their Unix sockets in that directory too, with commas: all others are dialled over TCP.
    /// All if not given
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "sockets")]
    pub here: Vec<String>,
    /// Shadow service processes of each rank
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub shadows: u32,
    /// How long a group may take to become full, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub deadline_ms: u64,
    /// How long another agent may be silent, although its link is up, before it counts as dead: on a busy machine the
    /// living are silent too. As long as --deadline-ms if not given; the same in the whole job
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub silence_ms: Option<u64>,
    /// RDMA device, as `umbra devices` names them [env: UMBRA_DEVICE]; what the configuration file says if not given, then the
    /// first that carries data
    #[arg(long, value_name = "NAME[:PORT[:GID_INDEX]]")]
    pub device: Option<Choice>,
    /// Memory for copies of other ranks' constant regions that are kept for the ranks served here; 0 to keep none
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = parse_bytes)]
    pub stage: u64,
    /// Members of chained calls that live here: at least as many as this host has ranks, each of which sleeps while its member
    /// does its part
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=480))]
    pub members: u16,
    /// Share no memory with other agents: bytes travel in answers over TCP
    #[arg(long)]
    pub asked: bool,
    /// Take sockets and orders from the launcher at the standard input
    #[arg(long, hide = true)]
    pub supervised: bool,
}

/// Everything an agent needs to know, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which service process this is.
    pub sp: Sp,
    /// The job's hosts and DPUs.
    pub job: Job,
    /// The job's secret.
    pub secret: Secret,
    /// Directory for Unix sockets.
    pub sockets: Option<PathBuf>,
    /// The DPUs whose agents have theirs there too; all if empty.
    pub here: Vec<Dpu>,
    /// Shadow service processes of each rank.
    pub shadows: u32,
    /// How long a group may take to become full.
    pub deadline: Duration,
    /// How long a peer may be silent although its link is up; `None` for as long as the deadline.
    pub silence: Option<Duration>,
    /// The RDMA device; the first that carries data if not given.
    pub device: Option<Choice>,
    /// Bytes for copies that are kept for ranks.
    pub stage: u64,
    /// Members of chained calls that live here.
    pub members: u16,
    /// Share no memory with other agents.
    pub asked: bool,
    /// A launcher is at the standard input.
    pub supervised: bool,
}

/// The agent cannot know what it should do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The environment contradicts itself.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The secret cannot be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Something is given neither by the command line nor by the environment.
    #[error("{0} is not given: use {1} or set {2}")]
    Missing(&'static str, &'static str, &'static str),
    /// The job has no such service process.
    #[error("job has {count} service processes, numbered from 0: there is no {sp}")]
    NoSuchServiceProcess {
        /// The number given.
        sp: u32,
        /// How many there are.
        count: u32,
    },
    /// The job has no such DPU.
    #[error("no DPU of the job is called {0:?}")]
    NoSuchDpu(String),
    /// The two numbers contradict each other.
    #[error("service process {sp} has number {expected} on its DPU, not {lid}")]
    WrongLid {
        /// The number in the job.
        sp: u32,
        /// The number on the DPU that was given.
        lid: u32,
        /// The number that follows from the configuration.
        expected: u32,
    },
}

impl SettingsError {
    /// Whether options are invalid, those of the environment included, and not what they name.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        match self {
            SettingsError::Environment(_)
            | SettingsError::Missing(..)
            | SettingsError::NoSuchServiceProcess { .. }
            | SettingsError::NoSuchDpu(_)
            | SettingsError::WrongLid { .. } => true,
            SettingsError::Config(error) => matches!(
                error.fault,
                ConfigFault::UnknownDpu(_)
                    | ConfigFault::EmptyJob
                    | ConfigFault::RepeatedDpu(_)
                    | ConfigFault::PerDpuDiffers { .. }
            ),
            SettingsError::Secret(_) => false,
        }
    }
}

impl Settings {
    /// Whether a service process has its Unix socket where this one has its own, if they have any.
    #[must_use]
    pub fn is_here(&self, sp: Sp) -> bool {
        let dpu = sp.0.checked_div(self.job.service_processes_per_dpu()).map(Dpu);
        self.here.is_empty() || dpu.is_some_and(|dpu| self.here.contains(&dpu))
    }
}

impl Options {
    /// Reads environment and files.
    ///
    /// # Errors
    /// [`SettingsError`], naming what to give.
    pub fn settle(self, environment: Environment) -> Result<Settings, SettingsError> {
        let (job, secret) = self.job(&environment)?;
        let (sp, lid) = match (self.service_process, environment.service_process) {
            (Some(sp), _) => (sp, self.lid),
            (None, Some((sp, lid))) => (sp, self.lid.or(Some(lid))),
            (None, None) => {
                let missing = "the number of this service process";
                return Err(SettingsError::Missing(missing, "--service-process", "UMBRA_SERVICE_PROCESS"));
            }
        };
        let (count, per_dpu) = (job.service_processes(), job.service_processes_per_dpu());
        let found = job.service_process(Dpu(sp / per_dpu.max(1)), SpLid(sp % per_dpu.max(1)));
        let found = found.ok_or(SettingsError::NoSuchServiceProcess { sp, count })?;
        if let Some(lid) = lid.filter(|lid| *lid != sp % per_dpu) {
            return Err(SettingsError::WrongLid { sp, lid, expected: sp % per_dpu });
        }
        let named = || job.dpu_device(Dpu(sp / per_dpu.max(1))).cloned();
        let device = self.device.or(environment.device).or_else(named);
        let here = self.here.iter().map(|name| job.dpu(name).ok_or_else(|| SettingsError::NoSuchDpu(name.clone())));
        let here = here.collect::<Result<Vec<Dpu>, _>>()?;
        Ok(Settings {
            sp: found,
            here,
            job,
            secret,
            sockets: self.sockets,
            shadows: self.shadows,
            deadline: Duration::from_millis(self.deadline_ms),
            silence: self.silence_ms.map(Duration::from_millis),
            device,
            stage: self.stage,
            members: self.members,
            asked: self.asked,
            supervised: self.supervised,
        })
    }

    /// The job and its secret, without a place in it; what a tool needs.
    ///
    /// # Errors
    /// [`SettingsError`], naming what to give.
    pub fn job(&self, environment: &Environment) -> Result<(Job, Secret), SettingsError> {
        let config = self.config.clone().or_else(|| environment.config.clone());
        let config = config.ok_or(SettingsError::Missing("the configuration", "--config", "UMBRA_CONFIG"))?;
        let secret = self.secret_file.clone().or_else(|| environment.secret_file.clone());
        let secret = secret.ok_or(SettingsError::Missing("the job's secret", "--secret-file", "UMBRA_SECRET_FILE"))?;
        let platform = Platform::read(config)?;
        if let Some(environment) = environment.per_dpu
            && environment as usize != platform.service_processes_per_dpu()
        {
            let file = platform.service_processes_per_dpu();
            let fault = ConfigFault::PerDpuDiffers { file, environment };
            return Err(ConfigError { path: platform.path().to_owned(), line: None, fault }.into());
        }
        let names: Vec<&str> = match (self.dpus.as_slice(), environment.dpus.as_slice()) {
            ([], []) => platform.dpu_names(),
            ([], list) | (list, _) => list.iter().map(String::as_str).collect(),
        };
        Ok((platform.job(&names)?, Secret::read(&secret)?))
    }
}
