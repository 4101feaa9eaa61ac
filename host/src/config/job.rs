//! The part of a platform that one job uses, with every service process numbered.
//!
//! `sp = dpu_index * service_processes_per_dpu + lid`, where the DPU's index is its place in the job's
//! list, not in the file. Hosts keep the order of the file, the only order that is equal everywhere
//! (spec 1.1).

use std::collections::{HashMap, HashSet};
use std::net::SocketAddrV4;

use umbra_core::peer::{Dpu, Host, LocalRank, Peer, Sp, SpLid};
use umbra_core::placement::{Placement, PlacementError};

use super::error::{ConfigError, ConfigFault};
use super::file::{DpuLine, Platform};
use crate::verbs::Choice;

/// Where one service process listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceAddress {
    /// For other service processes.
    pub services: SocketAddrV4,
    /// For ranks.
    pub ranks: SocketAddrV4,
}

/// The hosts and DPUs of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    hosts: Vec<String>,
    /// Name and host of every DPU, in the job's order.
    dpus: Vec<(String, Host)>,
    per_dpu: u32,
    services: Vec<ServiceAddress>,
    /// RDMA devices of hosts and DPUs, by name.
    devices: Vec<(String, Choice)>,
}

impl Platform {
    /// The job that uses the DPUs `list`, in that order; hosts without one of them are left out.
    ///
    /// # Errors
    /// [`ConfigError`] for an empty list, an unknown or repeated name, or too many service processes.
    pub fn job(&self, list: &[impl AsRef<str>]) -> Result<Job, ConfigError> {
        if list.is_empty() {
            return Err(self.whole_file(ConfigFault::EmptyJob));
        }
        let count = list.len().saturating_mul(self.per_dpu);
        if count > Peer::CAPACITY as usize || self.per_dpu > Peer::CAPACITY as usize {
            return Err(self.whole_file(ConfigFault::TooMany(count)));
        }
        let used: HashSet<&str> = list.iter().map(AsRef::as_ref).collect();
        let hosts: Vec<_> =
            self.hosts.iter().filter(|h| h.dpus.iter().any(|d| used.contains(d.name.as_str()))).collect();
        let mut left: HashMap<&str, (Host, &DpuLine)> = (0u32..)
            .zip(&hosts)
            .flat_map(|(at, host)| host.dpus.iter().map(move |dpu| (dpu.name.as_str(), (Host(at), dpu))))
            .collect();
        let mut job = Job {
            hosts: hosts.iter().map(|h| h.name.clone()).collect(),
            dpus: Vec::with_capacity(list.len()),
            per_dpu: self.per_dpu as u32,
            services: Vec::with_capacity(count),
            devices: self.devices.iter().map(|line| (line.of.clone(), line.device.clone())).collect(),
        };
        for name in list {
            let name = name.as_ref();
            let Some((host, dpu)) = left.remove(name) else {
                let is_repeated = job.dpus.iter().any(|(known, _)| known == name);
                let fault = if is_repeated { ConfigFault::RepeatedDpu } else { ConfigFault::UnknownDpu };
                return Err(self.whole_file(fault(name.to_owned())));
            };
            job.dpus.push((name.to_owned(), host));
            job.services.extend(dpu.service_ports.iter().zip(&dpu.rank_ports).map(|(&service, &rank)| {
                ServiceAddress {
                    services: SocketAddrV4::new(dpu.address, service),
                    ranks: SocketAddrV4::new(dpu.address, rank),
                }
            }));
        }
        Ok(job)
    }
}

impl Job {
    /// Names of the hosts, by [`Host`].
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The host called exactly `name`.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<Host> {
        (0u32..).zip(&self.hosts).find(|(_, n)| *n == name).map(|(i, _)| Host(i))
    }

    /// The DPU called exactly `name`.
    #[must_use]
    pub fn dpu(&self, name: &str) -> Option<Dpu> {
        (0u32..).zip(&self.dpus).find(|(_, (n, _))| n == name).map(|(i, _)| Dpu(i))
    }

    /// Name and host of every DPU, by [`Dpu`].
    pub fn dpus(&self) -> impl ExactSizeIterator<Item = (&str, Host)> {
        self.dpus.iter().map(|(name, host)| (name.as_str(), *host))
    }

    /// Service processes of each DPU.
    #[must_use]
    pub const fn service_processes_per_dpu(&self) -> u32 {
        self.per_dpu
    }

    /// Service processes of the job.
    #[must_use]
    pub fn service_processes(&self) -> u32 {
        self.services.len() as u32
    }

    fn device(&self, of: &str) -> Option<&Choice> {
        self.devices.iter().find(|(name, _)| name == of).map(|(_, device)| device)
    }

    /// The RDMA device that the file names for the ranks of a host, if it does.
    #[must_use]
    pub fn host_device(&self, host: Host) -> Option<&Choice> {
        self.device(self.hosts.get(host.index())?)
    }

    /// The RDMA device that the file names for the service processes of a DPU, if it does.
    #[must_use]
    pub fn dpu_device(&self, dpu: Dpu) -> Option<&Choice> {
        self.device(&self.dpus.get(dpu.index())?.0)
    }

    /// Where a service process listens, or `None` if the job has no such one.
    #[must_use]
    pub fn address(&self, sp: Sp) -> Option<ServiceAddress> {
        self.services.get(sp.index()).copied()
    }

    /// The shadow service processes of a rank, `count` of them, by the rule that the whole job follows; none if the job
    /// has no such host.
    ///
    /// # Errors
    /// [`PlacementError`] if a DPU does not run so many.
    pub fn shadows(&self, host: Host, local: LocalRank, count: u32) -> Result<Vec<Sp>, PlacementError> {
        let hosts = self.hosts.len() as u32;
        let host_of: Vec<Host> = self.dpus.iter().map(|(_, host)| *host).collect();
        let mut storage = vec![0; Placement::words_needed(hosts, host_of.len())];
        let placement = Placement::listed(&mut storage, hosts, &host_of, self.per_dpu, count)?;
        Ok(placement.shadows(host, local).to_vec())
    }

    /// The service process `lid` of a DPU, or `None` if the job has no such one.
    #[must_use]
    pub fn service_process(&self, dpu: Dpu, lid: SpLid) -> Option<Sp> {
        if dpu.index() < self.dpus.len() && lid.0 < self.per_dpu {
            Some(Sp(dpu.0 * self.per_dpu + lid.0))
        } else {
            None
        }
    }
}
