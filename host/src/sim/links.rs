//! Connections between simulated processes, and messages under way.

use std::collections::BinaryHeap;

use umbra_core::machine::Link;
use umbra_core::time::{Lapse, Time};

use super::job::Network;
use super::random::Random;
use super::script::Fault;

/// A connection of two processes, numbered as in [`Sim`](super::Sim): service processes first, then ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) ends: [(usize, Link); 2],
    pub(super) up: bool,
    /// When the last message in each direction arrives, for links that keep order.
    pub(super) last: [Time; 2],
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Happens {
    /// A message arrives at one end of a connection.
    Arrive { connection: u32, end: usize, bytes: Vec<u8>, depth: u32 },
    /// A process tries to reach another.
    Connect { from: usize, to: usize, attempt: u32 },
    /// A process hears that a connection is gone.
    Gone { node: usize, link: Link, connection: u32 },
    /// A machine's deadline.
    Wake { node: usize },
    /// Scripted.
    Fault(Fault),
    /// A member of a random group does something.
    Turn(u32),
}

#[derive(Debug)]
struct Queued {
    at: Time,
    order: u64,
    what: Happens,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Queued {}
impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Queued {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        // The heap gives the largest first; the earliest is wanted.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// What will happen, earliest first; ties in the order in which they were planned.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Queued>,
    planned: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, at: Time, what: Happens) {
        self.planned += 1;
        self.heap.push(Queued { at, order: self.planned, what });
    }

    pub(super) fn next(&mut self, until: Time) -> Option<(Time, Happens)> {
        if self.heap.peek()?.at > until {
            return None;
        }
        self.heap.pop().map(|queued| (queued.at, queued.what))
    }
}

/// How long a message takes.
pub(super) fn way(network: &Network, random: &mut Random) -> Lapse {
    Lapse(network.delay.0 + random.below(network.jitter.0 + 1))
}
