//! What a rank is told when it joins a job.

use std::path::PathBuf;
use std::time::Duration;

use umbra_core::group::member;
use umbra_core::peer::{Host, Incarnation, LocalRank, Sp, WorldRank};
use umbra_core::placement::Placement;
use umbra_core::time::Lapse;

use super::{SessionError, job_key};
use crate::config::Job;
use crate::link::{Address, socket_path};
use crate::secret::Secret;

/// Which rank a process is, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// Its rank in the world group.
    pub rank: WorldRank,
    /// Ranks in the world group.
    pub size: u32,
    /// Its host, by the order of the configuration file.
    pub host: Host,
    /// Its number among the ranks of its host.
    pub local: LocalRank,
    /// Ranks on its host.
    pub n_local: u32,
}

/// What a rank needs to know to join.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The job's hosts and DPUs.
    pub job: Job,
    /// The job's secret.
    pub secret: Secret,
    /// Which rank this is.
    pub seat: Seat,
    /// Where the service processes have Unix sockets, if they run on this machine; only over these can memory be
    /// shared.
    pub sockets: Option<PathBuf>,
    /// Shadow service processes of each rank; the same in the whole job.
    pub shadows: u32,
    /// How long any call may wait; the same in the whole job.
    pub deadline: Duration,
}

impl Settings {
    /// Settings with one shadow service process, no Unix sockets, and ten seconds of patience.
    #[must_use]
    pub const fn new(job: Job, secret: Secret, seat: Seat) -> Settings {
        Settings { job, secret, seat, sockets: None, shadows: 1, deadline: Duration::from_secs(10) }
    }

    pub(super) fn lapse(&self) -> Lapse {
        Lapse(u64::try_from(self.deadline.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn member_config(&self, incarnation: Incarnation) -> member::Config {
        let Seat { rank, size, host, local, n_local } = self.seat;
        let job = job_key(&self.secret);
        let config = member::Config::new(incarnation, job, rank, size, host, local, n_local);
        let silence = Lapse(self.lapse().0 / 4);
        let sp = self.shadows().ok().and_then(|shadows| shadows.first().copied());
        member::Config { sp, timeout: self.lapse(), silence, ping: Lapse(silence.0 / 8), ..config }
    }

    /// The rank's shadow service processes, by the rule that the whole job follows.
    pub(super) fn shadows(&self) -> Result<Vec<Sp>, SessionError> {
        let hosts = u32::try_from(self.job.hosts().len()).map_err(|_| SessionError::NoSuchSeat)?;
        let host_of: Vec<Host> = self.job.dpus().map(|(_, host)| host).collect();
        let mut storage = vec![0; Placement::words_needed(hosts, host_of.len())];
        let per_dpu = self.job.service_processes_per_dpu();
        let placement =
            Placement::listed(&mut storage, hosts, &host_of, per_dpu, self.shadows).map_err(SessionError::Placement)?;
        let shadows = placement.shadows(self.seat.host, self.seat.local).to_vec();
        if shadows.is_empty() { Err(SessionError::NoSuchSeat) } else { Ok(shadows) }
    }

    pub(super) fn address(&self, sp: Sp) -> Option<Address> {
        match (&self.sockets, self.job.address(sp)) {
            (Some(dir), _) => Some(Address::Unix(socket_path(dir, sp))),
            (None, Some(address)) => Some(Address::Tcp(address.ranks.into())),
            (None, None) => None,
        }
    }
}
