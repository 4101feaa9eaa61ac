//! What came of a simulated run.

use umbra_core::group::message::ops;
use umbra_core::group::{Cause, GroupReport, member, service};
use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Op;

use super::script::Fault;
use super::watch::Violation;

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

/// A number of messages and their bytes, heads included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// How many messages.
    pub messages: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Sent {
    const fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// What was sent, by kind of message; answers count with what they answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Between service processes.
    pub services: Sent,
    /// Between service processes and ranks.
    pub ranks: Sent,
    kinds: [Sent; ops::ALL.len()],
}

impl Traffic {
    pub(super) fn count(&mut self, op: Op, between_services: bool, bytes: u64) {
        if between_services {
            self.services.add(bytes)
        } else {
            self.ranks.add(bytes)
        }
        let kind = ops::ALL.iter().position(|&known| known == op);
        if let Some(kind) = kind.and_then(|kind| self.kinds.get_mut(kind)) {
            kind.add(bytes);
        }
    }

    /// Every kind of message with its name.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, Sent)> + '_ {
        ops::ALL.iter().map(|&op| name(op)).zip(self.kinds.iter().copied())
    }
}

const fn name(op: Op) -> &'static str {
    match op {
        ops::HELLO => "hello",
        ops::JOIN => "join",
        ops::LEAVE => "leave",
        ops::READY => "ready",
        ops::ENDED => "ended",
        ops::PING => "ping",
        ops::PART => "part",
        ops::SNAPSHOT => "snapshot",
        ops::END => "end",
        ops::VIEW => "view",
        _ => "other",
    }
}

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
    /// What was sent, lost or not.
    pub traffic: Traffic,
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
    /// What contradicts the rules of the protocol; nothing, in a run that is worth anything.
    pub violations: Vec<Violation>,
    /// Equal for equal runs.
    pub digest: u64,
}
