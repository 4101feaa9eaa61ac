//! Which service process serves which rank, from the shape of the job.
//!
//! Hosts are numbered in configuration order, DPUs in the order of the job's list of DPUs, and every DPU runs the
//! same number of service processes. The rank with local rank `l` on a host is served by the service process with
//! lid `l % service_processes_per_dpu` of the host's DPU; with `k` shadow service processes per rank the others
//! follow in order: `(l + j) % service_processes_per_dpu`. A host with several DPUs deals its local ranks out over
//! the service processes of all of them, DPU by DPU; the shadows of one rank stay on one DPU.
//!
//! ```
//! use umbra_core::peer::{Host, LocalRank, Sp};
//! use umbra_core::placement::Placement;
//!
//! // Two hosts with one DPU each, two service processes on a DPU, one shadow service process a rank.
//! let job = Placement::one_dpu_a_host(2, 2, 1)?;
//! assert_eq!(job.sp_of(Host(1), LocalRank(4)), Some(Sp(2)));
//! // Of five ranks on host 0 the first service process waits for three, the second for two.
//! assert_eq!(job.expected_ranks(Sp(0), 5), Some(3));
//! assert_eq!(job.expected_ranks(Sp(1), 5), Some(2));
//! # Ok::<(), umbra_core::placement::PlacementError>(())
//! ```
//!
//! *Cost*: every answer is O(1); which ranks a service process waits for is O(DPUs of its host). Source: spec 1.1, appendix C.

use core::fmt;

use crate::entry::{Entry, MAX_SHADOWS, Shadows};
use crate::peer::{Dpu, Host, LocalRank, Peer, Sp, SpLid, WorldRank};

/// The shape of a job: hosts, DPUs, service processes.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    hosts: u32,
    dpus: u32,
    per_dpu: u32,
    shadows: u32,
    dpus_of: Dpus<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Dpus<'a> {
    /// DPU `i` belongs to host `i`.
    OneAHost,
    /// `first[h]..first[h + 1]` is the range of `of_host` that holds the DPUs of host `h`.
    Listed { host_of: &'a [Host], first: &'a [u32], of_host: &'a [u32] },
}

/// The DPUs of one host: `count` of them from position `start` on.
#[derive(Clone, Copy)]
struct HostDpus<'a> {
    start: u32,
    count: u32,
    dpus_of: Dpus<'a>,
}

impl HostDpus<'_> {
    fn nth(&self, n: u32) -> Option<Dpu> {
        match self.dpus_of {
            Dpus::OneAHost => Some(Dpu(self.start + n)),
            Dpus::Listed { of_host, .. } => of_host.get((self.start + n) as usize).copied().map(Dpu),
        }
    }
}

/// Why numbers do not describe a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PlacementError {
    /// There is no host.
    NoHosts,
    /// A DPU has no service process.
    NoServiceProcesses,
    /// More service processes than a [`Peer`] can name.
    TooManyServiceProcesses,
    /// The number of shadow service processes per rank is zero, over [`MAX_SHADOWS`] or over what one DPU runs.
    BadShadows(u32),
    /// A DPU is said to belong to a host that does not exist.
    DpuOnUnknownHost {
        /// The DPU.
        dpu: Dpu,
        /// Its alleged host.
        host: Host,
    },
    /// A host has no DPU, so nobody would serve its ranks.
    HostWithoutDpu(Host),
    /// The lent storage is shorter than [`Placement::words_needed`].
    StorageTooSmall {
        /// 32-bit words that are needed.
        needed: usize,
    },
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlacementError::NoHosts => f.write_str("job has no host: name at least one"),
            PlacementError::NoServiceProcesses => f.write_str("a DPU runs no service process: ask for at least one"),
            PlacementError::TooManyServiceProcesses => {
                write!(f, "more than {} service processes cannot be named: use fewer", Peer::CAPACITY)
            }
            PlacementError::BadShadows(n) => {
                write!(f, "{n} shadow service processes per rank: use 1 to {MAX_SHADOWS}, and no more than a DPU runs")
            }
            PlacementError::DpuOnUnknownHost { dpu, host } => {
                write!(f, "DPU {dpu} belongs to host {host}, which the job does not have")
            }
            PlacementError::HostWithoutDpu(host) => write!(f, "host {host} has no DPU: give it one or leave it out"),
            PlacementError::StorageTooSmall { needed } => {
                write!(f, "storage of the placement is too small: lend {needed} words")
            }
        }
    }
}
impl core::error::Error for PlacementError {}

/// An entry names a place that the job does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Misplaced {
    /// No such host.
    UnknownHost(Host),
    /// No such service process.
    UnknownServiceProcess(Sp),
    /// The service process belongs to another host than the rank.
    ForeignServiceProcess {
        /// The service process.
        sp: Sp,
        /// Its host.
        host: Host,
    },
    /// The entry names no service process.
    NoServiceProcess,
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misplaced::UnknownHost(host) => write!(f, "entry names host {host}, which the job does not have"),
            Misplaced::UnknownServiceProcess(sp) => {
                write!(f, "entry names service process {sp}, which the job does not have")
            }
            Misplaced::ForeignServiceProcess { sp, host } => {
                write!(f, "entry names service process {sp}, which belongs to host {host} and not to the rank's")
            }
            Misplaced::NoServiceProcess => f.write_str("entry names no service process"),
        }
    }
}
impl core::error::Error for Misplaced {}

impl Placement<'static> {
    /// A job in which DPU `i` belongs to host `i`; needs no storage.
    ///
    /// # Errors
    /// [`PlacementError`] if the numbers do not describe a job.
    pub fn one_dpu_a_host(hosts: u32, per_dpu: u32, shadows: u32) -> Result<Placement<'static>, PlacementError> {
        Placement { hosts, dpus: hosts, per_dpu, shadows, dpus_of: Dpus::OneAHost }.checked()
    }
}

impl<'a> Placement<'a> {
    /// 32-bit words of storage that [`listed`](Self::listed) needs.
    #[must_use]
    pub const fn words_needed(hosts: u32, dpus: usize) -> usize {
        (hosts as usize).saturating_add(1).saturating_add(dpus)
    }

    /// A job in which DPU `i` belongs to host `host_of[i]`; the index by host is kept in `storage`.
    ///
    /// # Errors
    /// [`PlacementError`] if the numbers do not describe a job or the storage is too small.
    pub fn listed(
        storage: &'a mut [u32],
        hosts: u32,
        host_of: &'a [Host],
        per_dpu: u32,
        shadows: u32,
    ) -> Result<Placement<'a>, PlacementError> {
        let needed = Self::words_needed(hosts, host_of.len());
        let too_small = PlacementError::StorageTooSmall { needed };
        let storage = storage.get_mut(..needed).ok_or(too_small)?;
        let (first, of_host) = storage.split_at_mut_checked(hosts as usize + 1).ok_or(too_small)?;
        let dpus = u32::try_from(host_of.len()).map_err(|_| PlacementError::TooManyServiceProcesses)?;
        // A counting sort that leaves `first[h]` at the start of host h's DPUs.
        first.fill(0);
        for (dpu, &host) in (0..).zip(host_of) {
            let count = first.get_mut(host.index()).filter(|_| host.0 < hosts);
            *count.ok_or(PlacementError::DpuOnUnknownHost { dpu: Dpu(dpu), host })? += 1;
        }
        let mut end = 0;
        for (host, slot) in (0..).zip(first.iter_mut()) {
            if *slot == 0 && host < hosts {
                return Err(PlacementError::HostWithoutDpu(Host(host)));
            }
            end += *slot;
            *slot = end;
        }
        for (dpu, &host) in (0..dpus).zip(host_of).rev() {
            if let Some(slot) = first.get_mut(host.index()) {
                *slot -= 1;
                if let Some(place) = of_host.get_mut(*slot as usize) {
                    *place = dpu;
                }
            }
        }
        Placement { hosts, dpus, per_dpu, shadows, dpus_of: Dpus::Listed { host_of, first, of_host } }.checked()
    }

    fn checked(self) -> Result<Self, PlacementError> {
        if self.hosts == 0 {
            return Err(PlacementError::NoHosts);
        }
        if self.per_dpu == 0 {
            return Err(PlacementError::NoServiceProcesses);
        }
        if self.dpus.checked_mul(self.per_dpu).is_none_or(|n| n > Peer::CAPACITY) {
            return Err(PlacementError::TooManyServiceProcesses);
        }
        if self.shadows == 0 || self.shadows > self.per_dpu || self.shadows as usize > MAX_SHADOWS {
            return Err(PlacementError::BadShadows(self.shadows));
        }
        Ok(self)
    }

    /// Hosts of the job.
    #[must_use]
    pub const fn hosts(&self) -> u32 {
        self.hosts
    }

    /// DPUs of the job.
    #[must_use]
    pub const fn dpus(&self) -> u32 {
        self.dpus
    }

    /// Service processes on each DPU.
    #[must_use]
    pub const fn service_processes_per_dpu(&self) -> u32 {
        self.per_dpu
    }

    /// Service processes of the job.
    #[must_use]
    pub const fn service_processes(&self) -> u32 {
        self.dpus * self.per_dpu
    }

    /// Shadow service processes of each rank.
    #[must_use]
    pub const fn shadows_per_rank(&self) -> u32 {
        self.shadows
    }

    /// The DPU on which a service process runs.
    #[must_use]
    pub fn dpu_of(&self, sp: Sp) -> Option<Dpu> {
        (sp.0 < self.service_processes()).then(|| Dpu(sp.0 / self.per_dpu))
    }

    /// The number of a service process on its DPU.
    #[must_use]
    pub fn lid_of(&self, sp: Sp) -> Option<SpLid> {
        (sp.0 < self.service_processes()).then(|| SpLid(sp.0 % self.per_dpu))
    }

    /// The host that a service process serves.
    #[must_use]
    pub fn host_of(&self, sp: Sp) -> Option<Host> {
        self.host_of_dpu(self.dpu_of(sp)?)
    }

    /// The host to which a DPU belongs.
    #[must_use]
    pub fn host_of_dpu(&self, dpu: Dpu) -> Option<Host> {
        match self.dpus_of {
            Dpus::OneAHost => (dpu.0 < self.dpus).then_some(Host(dpu.0)),
            Dpus::Listed { host_of, .. } => host_of.get(dpu.index()).copied(),
        }
    }

    fn dpus_of_host(&self, host: Host) -> Option<HostDpus<'a>> {
        let (start, end) = match self.dpus_of {
            Dpus::OneAHost => (host.0 < self.hosts).then(|| (host.0, host.0 + 1))?,
            Dpus::Listed { first, .. } => (*first.get(host.index())?, *first.get(host.index() + 1)?),
        };
        Some(HostDpus { start, count: end.checked_sub(start)?, dpus_of: self.dpus_of })
    }

    /// All service processes of a host, DPU by DPU; empty if there is no such host.
    pub fn service_processes_of(&self, host: Host) -> impl Iterator<Item = Sp> + use<'a> {
        let per_dpu = self.per_dpu;
        let dpus = self.dpus_of_host(host);
        let dpus = dpus.into_iter().flat_map(|dpus| (0..dpus.count).filter_map(move |n| dpus.nth(n)));
        dpus.flat_map(move |dpu| (0..per_dpu).map(move |lid| Sp(dpu.0 * per_dpu + lid)))
    }

    /// The first shadow service process of a rank: the one to which it connects; `None` if there is no such host.
    #[must_use]
    pub fn sp_of(&self, host: Host, local: LocalRank) -> Option<Sp> {
        let dpus = self.dpus_of_host(host)?;
        let place = local.0.checked_rem(dpus.count.checked_mul(self.per_dpu)?)?;
        Some(Sp(dpus.nth(place / self.per_dpu)?.0 * self.per_dpu + place % self.per_dpu))
    }

    /// All shadow service processes of a rank, in order; empty if there is no such host.
    #[must_use]
    pub fn shadows(&self, host: Host, local: LocalRank) -> Shadows {
        let mut shadows = Shadows::new();
        if let Some(first) = self.sp_of(host, local) {
            let (base, lid) = (first.0 - first.0 % self.per_dpu, first.0 % self.per_dpu);
            // `checked` bounds the number of shadows by the capacity, so nothing is cut off.
            shadows.extend((0..self.shadows).map(|j| Sp(base + (lid + j) % self.per_dpu)));
        }
        shadows
    }

    /// What the endpoint cache says about a rank placed here; `None` if there is no such host.
    #[must_use]
    pub fn entry(&self, world_rank: WorldRank, host: Host, local: LocalRank) -> Option<Entry> {
        let shadows = self.shadows(host, local);
        (!shadows.is_empty()).then_some(Entry { world_rank, host, shadows })
    }

    /// Where a service process stands in the dealing-out of its host's local ranks, and among how many.
    fn place_of(&self, sp: Sp) -> Option<(u32, u32)> {
        let dpu = self.dpu_of(sp)?;
        let dpus = self.dpus_of_host(self.host_of_dpu(dpu)?)?;
        let n = (0..dpus.count).find(|&n| dpus.nth(n) == Some(dpu))?;
        Some((n * self.per_dpu + sp.0 % self.per_dpu, dpus.count.checked_mul(self.per_dpu)?))
    }

    /// How many of the `n_local` ranks on its host a service process waits for; `None` if there is no such process.
    #[must_use]
    pub fn expected_ranks(&self, sp: Sp, n_local: u32) -> Option<u32> {
        let (place, of) = self.place_of(sp)?;
        Some(n_local.checked_div(of)? + u32::from(place < n_local.checked_rem(of)?))
    }

    /// The local ranks that a service process waits for, ascending; empty if there is no such process.
    pub fn expected_local_ranks(&self, sp: Sp, n_local: u32) -> impl Iterator<Item = LocalRank> + use<'a> {
        let (place, of) = self.place_of(sp).unwrap_or((n_local, 1));
        (place..n_local).step_by(of as usize).map(LocalRank)
    }

    /// Checks that an entry names only places that the job has.
    ///
    /// # Errors
    /// [`Misplaced`], naming what is wrong.
    pub fn check(&self, entry: &Entry) -> Result<(), Misplaced> {
        if entry.host.0 >= self.hosts {
            return Err(Misplaced::UnknownHost(entry.host));
        }
        if entry.shadows.is_empty() {
            return Err(Misplaced::NoServiceProcess);
        }
        for &sp in &entry.shadows {
            match self.host_of(sp) {
                None => return Err(Misplaced::UnknownServiceProcess(sp)),
                Some(host) if host != entry.host => return Err(Misplaced::ForeignServiceProcess { sp, host }),
                Some(_) => {}
            }
        }
        Ok(())
    }
}
