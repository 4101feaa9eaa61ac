//! What a rank is told when it joins a job.

use std::path::PathBuf;
use std::time::Duration;

use umbra_core::group::member;
use umbra_core::peer::{Host, Incarnation, LocalRank, Sp, WorldRank};
use umbra_core::time::Lapse;

use super::{SessionError, job_key};
use crate::config::Job;
use crate::link::{Address, socket_path};
use crate::secret::Secret;
use crate::verbs::Choice;

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

/// How long the processes of a job wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// For a group to become full, and for any call of a rank.
    pub deadline: Lapse,
    /// For a word from a process to which there is a link.
    pub silence: Lapse,
    /// For a link that is gone to come back: a quarter of the deadline.
    pub grace: Lapse,
    /// Between two signs of life on a link that has nothing else to carry: several of them in the shorter of silence
    /// and grace.
    pub ping: Lapse,
}

impl Patience {
    /// Derives all from the two that can be chosen; without a silence it is the deadline.
    #[must_use]
    pub fn new(deadline: Duration, silence: Option<Duration>) -> Patience {
        let lapse = |time: Duration| Lapse(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let (deadline, silence) = (lapse(deadline), lapse(silence.unwrap_or(deadline)));
        let grace = Lapse(deadline.0 / 4);
        Patience { deadline, silence, grace, ping: Lapse(silence.0.min(grace.0) / 8) }
    }
}

/// Whether service processes reach exported memory over RDMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rdma {
    /// Where they cannot map or copy it, because there is no Unix socket to them.
    #[default]
    WhereNeeded,
    /// Always, and every service process of the job may read it by itself.
    Direct,
    /// Always, but only the rank's shadow service processes; others ask these.
    Asked,
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
    /// shared. Without, the tables of this rank's groups come over TCP.
    pub sockets: Option<PathBuf>,
    /// Shadow service processes of each rank; the same in the whole job.
    pub shadows: u32,
    /// How long any call may wait; the same in the whole job.
    pub deadline: Duration,
    /// How long the service process may be silent, although its link is up, before it counts as failed; `None` for as
    /// long as the deadline. The same in the whole job.
    pub silence: Option<Duration>,
    /// Whether exported memory is registered with an RDMA device.
    pub rdma: Rdma,
    /// With which one; if not given, with the one that the configuration names for this host, or else the first that carries
    /// data.
    pub device: Option<Choice>,
}

impl Settings {
    /// Settings with one shadow service process, no Unix sockets, and ten seconds of patience.
    #[must_use]
    pub const fn new(job: Job, secret: Secret, seat: Seat) -> Settings {
        let (deadline, rdma) = (Duration::from_secs(10), Rdma::WhereNeeded);
        Settings { job, secret, seat, sockets: None, shadows: 1, deadline, silence: None, rdma, device: None }
    }

    pub(super) fn device(&self) -> Option<&Choice> {
        self.device.as_ref().or_else(|| self.job.host_device(self.seat.host))
    }

    pub(super) fn lapse(&self) -> Lapse {
        Patience::new(self.deadline, self.silence).deadline
    }

    pub(super) fn member_config(&self, incarnation: Incarnation) -> member::Config {
        let Seat { rank, size, host, local, n_local } = self.seat;
        let job = job_key(&self.secret);
        let config = member::Config::new(incarnation, job, rank, size, host, local, n_local);
        let Patience { deadline, silence, grace, ping } = Patience::new(self.deadline, self.silence);
        let sp = self.shadows().ok().and_then(|shadows| shadows.first().copied());
        member::Config { sp, timeout: deadline, silence, grace, ping, ..config }
    }

    /// The rank's shadow service processes, by the rule that the whole job follows.
    pub(super) fn shadows(&self) -> Result<Vec<Sp>, SessionError> {
        let Seat { host, local, .. } = self.seat;
        let shadows = self.job.shadows(host, local, self.shadows).map_err(SessionError::Placement)?;
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
