//! What is simulated: a job's shape, its network's manners, its machines' patience.

use umbra_core::peer::{Host, LocalRank, WorldRank};
use umbra_core::placement::{Placement, PlacementError};
use umbra_core::time::Lapse;
use umbra_core::wire::{BODY_MAX, HEAD};

use super::random::Random;

/// In which order world ranks are dealt out over the hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Host by host.
    #[default]
    Block,
    /// Round robin over the hosts.
    Cyclic,
    /// At random, by the seed.
    Shuffled,
}

/// How the network treats messages; rates are parts of a million.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// Shortest way of a message.
    pub delay: Lapse,
    /// How much longer it may take, at random.
    pub jitter: Lapse,
    /// Messages that are lost.
    pub loss: u32,
    /// Messages that arrive twice.
    pub duplication: u32,
    /// Whether messages of one link may overtake each other.
    pub reorder: bool,
    /// All links between service processes are opened at the start; otherwise only those that are asked for.
    pub mesh: bool,
    /// Within this time, at random, links are opened and ranks start.
    pub start: Lapse,
}

impl Default for Network {
    fn default() -> Self {
        Network {
            delay: Lapse::from_micros(5),
            jitter: Lapse::from_micros(15),
            loss: 0,
            duplication: 0,
            reorder: false,
            mesh: false,
            start: Lapse::from_micros(100),
        }
    }
}

/// A job to be simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Ranks on each host.
    pub ranks_on: Vec<u32>,
    /// Service processes on each host's DPU.
    pub per_dpu: u32,
    /// Order of the ranks.
    pub order: Order,
    /// Children in the tree of service processes.
    pub arity: u32,
    /// The network.
    pub network: Network,
    /// The seed of everything random.
    pub seed: u64,
    /// See [`Config::timeout`](umbra_core::group::service::Config::timeout).
    pub timeout: Lapse,
    /// See [`Config::resend`](umbra_core::group::service::Config::resend).
    pub resend: Lapse,
    /// See [`Config::ping`](umbra_core::group::service::Config::ping).
    pub ping: Lapse,
    /// See [`Config::silence`](umbra_core::group::service::Config::silence); also how long a link may be gone.
    pub silence: Lapse,
    /// See [`Config::rank_grace`](umbra_core::group::service::Config::rank_grace).
    pub rank_grace: Lapse,
    /// Groups beside the world group for which there is room.
    pub groups: u32,
    /// Longest frame that a process sends; what is longer goes in pieces.
    pub frame_bytes: usize,
    /// Keep the event logs of all processes.
    pub keep_events: bool,
}

impl Job {
    /// `hosts` hosts with `ranks` ranks each, one DPU a host with `per_dpu` service processes.
    #[must_use]
    pub fn new(hosts: u32, per_dpu: u32, ranks: u32) -> Job {
        Job {
            ranks_on: vec![ranks; hosts as usize],
            per_dpu,
            order: Order::Block,
            arity: 4,
            network: Network::default(),
            seed: 1,
            timeout: Lapse::from_secs(1),
            resend: Lapse::from_millis(1),
            ping: Lapse::from_millis(50),
            silence: Lapse::from_millis(200),
            rank_grace: Lapse::from_millis(100),
            groups: 8,
            frame_bytes: HEAD + BODY_MAX,
            keep_events: true,
        }
    }

    /// Ranks of the job.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks_on.iter().sum()
    }

    /// The shape of the job.
    ///
    /// # Errors
    /// [`PlacementError`] if there is no host or no service process.
    pub fn placement(&self) -> Result<Placement<'static>, PlacementError> {
        Placement::one_dpu_a_host(u32::try_from(self.ranks_on.len()).unwrap_or(u32::MAX), self.per_dpu, 1)
    }

    /// Host and local rank of every world rank.
    #[must_use]
    pub fn seats(&self) -> Vec<(WorldRank, Host, LocalRank)> {
        let hosts = (0..).zip(&self.ranks_on);
        let mut seats: Vec<(Host, LocalRank)> =
            hosts.flat_map(|(host, &n)| (0..n).map(move |local| (Host(host), LocalRank(local)))).collect();
        match self.order {
            Order::Block => {}
            Order::Cyclic => seats.sort_by_key(|&(host, local)| (local, host)),
            Order::Shuffled => Random::new(self.seed ^ 0x5ea7).shuffle(&mut seats),
        }
        (0..).zip(seats).map(|(rank, (host, local))| (WorldRank(rank), host, local)).collect()
    }
}
