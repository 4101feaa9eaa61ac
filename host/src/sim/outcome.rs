//! What came of a simulated run.

use umbra_core::group::{Cause, GroupReport, member, service};
use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::{Lapse, Time};

use super::script::Fault;

/// One thing worth telling.
#[derive(Clone, PartialEq, Debug)]
pub enum Happening {
    /// A service process has reported it.
    Service(Sp, service::Event),
    /// A rank has reported it.
    Rank(WorldRank, member::Event),
    /// It was scripted.
    Fault(Fault),
}

/// What happened when.
pub type Timeline = Vec<(Time, Happening)>;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Virtual time now.
    pub now: Time,
    /// From the start until the world group was full everywhere.
    pub time_to_full: Option<Lapse>,
    /// Service processes at which the world group is full now.
    pub full_services: u32,
    /// Ranks for which it is ready now.
    pub ready_ranks: u32,
    /// Messages between service processes.
    pub service_messages: u64,
    /// Their bytes.
    pub service_bytes: u64,
    /// Messages between service processes and ranks.
    pub rank_messages: u64,
    /// Their bytes.
    pub rank_bytes: u64,
    /// Messages that the network lost.
    pub lost: u64,
    /// The longest chain of messages with entries or tables, each sent because the one before had come.
    pub rounds: u32,
    /// Every group at every live service process.
    pub groups: Vec<(Sp, GroupReport)>,
    /// Generations that ended otherwise than by everybody leaving, as ranks were told.
    pub errors: Vec<(Time, WorldRank, Cause)>,
    /// All events, if they are kept.
    pub timeline: Timeline,
    /// Equal for equal runs.
    pub digest: u64,
}
