//! Where the processes of a job run.
//!
//! A job either has this machine for itself, or uses hosts and DPUs of a configuration file. Then its ranks run here,
//! for one host of the file or for several, and agents that were started by hand, here or elsewhere, are used over
//! TCP. Who holds the job's secret belongs to it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use umbra_core::peer::{Dpu, Host, LocalRank, Sp, WorldRank};

use crate::config::{ConfigError, DpuLine, Job, Platform};
use crate::secret::{Secret, SecretError};
use crate::session::Seat;
use crate::verbs::Choice;

/// What of a configuration file a job uses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chosen {
    /// The configuration file.
    pub config: PathBuf,
    /// The file with the job's secret.
    pub secret: PathBuf,
    /// The job's DPUs, in order; all of the file if empty.
    pub dpus: Vec<String>,
    /// The hosts whose ranks run here; all of the job if empty.
    pub here: Vec<String>,
    /// The DPUs whose agents are started here; all others' run already.
    pub start: Vec<String>,
}

/// The hosts and DPUs of a job, and what of it runs here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    platform: Platform,
    dpus: Vec<String>,
    job: Job,
    secret: Secret,
    here: Vec<Host>,
    started: BTreeSet<Sp>,
}

/// A configuration file cannot be used like this.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The file or its list of DPUs is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The secret cannot be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A host has no part in the job.
    #[error("no host of the job is called {name:?}: it has {}", known.join(", "))]
    UnknownHost {
        /// What it was called.
        name: String,
        /// The job's hosts.
        known: Vec<String>,
    },
    /// A DPU has no part in the job.
    #[error("no DPU of the job is called {name:?}: it has {}", known.join(", "))]
    UnknownDpu {
        /// What it was called.
        name: String,
        /// The job's DPUs.
        known: Vec<String>,
    },
    /// A host is named twice.
    #[error("host {0:?} is named twice")]
    RepeatedHost(String),
}

impl Site {
    /// Reads the files.
    ///
    /// # Errors
    /// [`SiteError`], naming file, host or DPU.
    pub fn read(chosen: &Chosen) -> Result<Site, SiteError> {
        let platform = Platform::read(&chosen.config)?;
        let secret = Secret::read(&chosen.secret)?;
        let dpus = match chosen.dpus.as_slice() {
            [] => platform.dpu_names().into_iter().map(str::to_owned).collect(),
            dpus => dpus.to_vec(),
        };
        let job = platform.job(&dpus)?;
        let mut here = Vec::new();
        for name in &chosen.here {
            let host = job.host(name).ok_or_else(|| {
                let (name, known) = (name.clone(), job.hosts().to_vec());
                SiteError::UnknownHost { name, known }
            })?;
            if here.contains(&host) {
                return Err(SiteError::RepeatedHost(name.clone()));
            }
            here.push(host);
        }
        if here.is_empty() {
            here = (0..).zip(job.hosts()).map(|(host, _)| Host(host)).collect();
        }
        let per_dpu = job.service_processes_per_dpu();
        let mut started = BTreeSet::new();
        for name in &chosen.start {
            let dpu = job.dpu(name).ok_or_else(|| {
                let (name, known) = (name.clone(), dpus.clone());
                SiteError::UnknownDpu { name, known }
            })?;
            started.extend((dpu.0 * per_dpu..(dpu.0 + 1) * per_dpu).map(Sp));
        }
        Ok(Site { platform, dpus, job, secret, here, started })
    }

    /// Hosts with one DPU each, all on this machine.
    ///
    /// # Errors
    /// [`ConfigError`] if the lines do not make a job.
    pub(super) fn alone(path: PathBuf, dpus: Vec<DpuLine>, secret: Secret) -> Result<Site, ConfigError> {
        let names: Vec<String> = dpus.iter().map(|dpu| dpu.name.clone()).collect();
        let lines = dpus.into_iter().enumerate().map(|(host, dpu)| (format!("host{host}"), vec![dpu]));
        let platform = Platform::of_hosts(path, lines);
        let job = platform.job(&names)?;
        let here = (0..).zip(job.hosts()).map(|(host, _)| Host(host)).collect();
        let started = (0..job.service_processes()).map(Sp).collect();
        Ok(Site { platform, dpus: names, job, secret, here, started })
    }

    /// All hosts and DPUs that the file lists.
    #[must_use]
    pub const fn platform(&self) -> &Platform {
        &self.platform
    }

    /// The job's DPUs, in order.
    #[must_use]
    pub fn dpus(&self) -> &[String] {
        &self.dpus
    }

    /// The job.
    #[must_use]
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// The job's secret.
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// How many hosts have their ranks here.
    #[must_use]
    pub fn hosts_here(&self) -> u32 {
        self.here.len() as u32
    }

    /// Whether this agent is started here.
    #[must_use]
    pub fn starts(&self, sp: Sp) -> bool {
        self.started.contains(&sp)
    }

    /// The DPUs whose agents are started here.
    pub fn dpus_here(&self) -> impl Iterator<Item = &str> {
        let per_dpu = self.job.service_processes_per_dpu();
        (0..).zip(&self.dpus).filter(move |(dpu, _)| self.starts(Sp(dpu * per_dpu))).map(|(_, name)| name.as_str())
    }

    /// The RDMA devices of the hosts and DPUs whose ranks and agents are started here, by the file; `None` where it names
    /// none.
    pub fn devices_here(&self) -> impl Iterator<Item = Option<&Choice>> {
        let per_dpu = self.job.service_processes_per_dpu();
        let dpus = (0..).map(Dpu).zip(&self.dpus).filter(move |(dpu, _)| self.starts(Sp(dpu.0 * per_dpu)));
        let hosts = self.here.iter().map(|&host| self.job.host_device(host));
        hosts.chain(dpus.map(|(dpu, _)| self.job.dpu_device(dpu)))
    }

    /// The seat of a rank, if each host that is here has so many; `None` if there is no such rank.
    #[must_use]
    pub fn seat(&self, rank: WorldRank, per_host: u32) -> Option<Seat> {
        let host = *self.here.get(rank.0.checked_div(per_host)? as usize)?;
        let size = self.hosts_here().saturating_mul(per_host);
        Some(Seat { rank, size, host, local: LocalRank(rank.0 % per_host), n_local: per_host })
    }

    /// A rank's first shadow service process; `None` if there is no such rank.
    #[must_use]
    pub fn first_shadow(&self, rank: WorldRank, per_host: u32) -> Option<Sp> {
        let seat = self.seat(rank, per_host)?;
        self.job.shadows(seat.host, seat.local, 1).ok()?.first().copied()
    }

    /// The service processes of every host of the job.
    #[must_use]
    pub fn layout(&self) -> Vec<Vec<Sp>> {
        let per_dpu = self.job.service_processes_per_dpu();
        let mut layout = vec![Vec::new(); self.job.hosts().len()];
        for (dpu, (_, host)) in (0..).zip(self.job.dpus()) {
            if let Some(of_host) = layout.get_mut(host.index()) {
                of_host.extend((dpu * per_dpu..(dpu + 1) * per_dpu).map(Sp));
            }
        }
        layout
    }
}
