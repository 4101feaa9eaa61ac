//! What the owner is told, and what it can ask.

use crate::endpoints::{Group, GroupKey};
use crate::error::Status;
use crate::id::{Generation, Id};
use crate::machine::Link;
use crate::peer::{Incarnation, Sp, WorldRank};
use crate::time::Lapse;

use super::super::cause::{Cause, Missing};
use super::super::message::WORLD;
use super::super::record::{Phase, Stage};
use super::super::shelf::Shelf;
use super::super::timers::NIL;
use super::local::Set;
use super::{Service, Storage};

/// News for the owner of a service process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A rank was admitted. With `shadow > 0` it only wants its memory served.
    RankConnected {
        /// Its link.
        link: Link,
        /// Its world rank, checked.
        rank: WorldRank,
        /// Which of its shadow service processes this is.
        shadow: u32,
    },
    /// A rank was refused; it has been told why.
    RankRefused {
        /// Its link.
        link: Link,
        /// The world rank that it claims.
        rank: WorldRank,
        /// Why.
        status: Status,
    },
    /// A rank did not come back after its link broke.
    RankDied {
        /// Its world rank.
        rank: WorldRank,
    },
    /// A group has another state here.
    Stage {
        /// Which group; [`WORLD`] for the world group.
        key: GroupKey,
        /// Which generation.
        generation: Generation,
        /// The state.
        stage: Stage,
    },
    /// A table was published.
    Full {
        /// Which group.
        key: GroupKey,
        /// Which generation.
        generation: Generation,
        /// Its handle.
        handle: Id<Group>,
        /// Ranks.
        size: u32,
        /// Since the first news of the group here.
        took: Lapse,
    },
    /// A generation is over; its table was retired.
    Ended {
        /// Which group.
        key: GroupKey,
        /// Which generation.
        generation: Generation,
        /// Why.
        cause: Cause,
    },
    /// A service process failed.
    PeerFailed {
        /// Which.
        sp: Sp,
        /// The life that ended.
        incarnation: Incarnation,
    },
    /// A service process came back.
    PeerRestarted {
        /// Which.
        sp: Sp,
        /// Its new life.
        incarnation: Incarnation,
    },
    /// The others have declared this process dead: it has to be started again, under a new incarnation.
    Fenced,
}

/// Numbers since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Frames that arrived.
    pub received: u64,
    /// Frames or bodies that are none of ours.
    pub malformed: u64,
    /// Entries and messages that were known already.
    pub duplicates: u64,
    /// Messages of generations that have ended.
    pub stale: u64,
    /// Messages of earlier lives of their senders.
    pub stale_peer: u64,
    /// Descriptions that contradict each other.
    pub conflicts: u64,
    /// Messages that name a host or service process that the job does not have.
    pub foreign: u64,
    /// Links and ranks that were refused.
    pub refused: u64,
    /// Requests for which a table had no room.
    pub no_room: u64,
    /// Groups remembered now, ended ones included.
    pub groups: u64,
    /// Tables published.
    pub full: u64,
    /// Generations ended.
    pub ended: u64,
    /// Groups that were not full in time.
    pub timeouts: u64,
    /// Ranks that died.
    pub ranks_died: u64,
    /// Service processes that failed.
    pub peers_failed: u64,
    /// Repetitions of what was not acknowledged in time.
    pub repeats: u64,
    /// Entries sent to parents.
    pub entries_sent: u64,
    /// Messages with entries sent to parents.
    pub parts_sent: u64,
    /// Pieces of tables sent.
    pub snapshots_sent: u64,
    /// Frames sent to service processes.
    pub messages_to_services: u64,
    /// Their bytes.
    pub bytes_to_services: u64,
    /// Frames sent to ranks.
    pub messages_to_ranks: u64,
    /// Their bytes.
    pub bytes_to_ranks: u64,
    /// The longest time from the first news of a group to its table.
    pub slowest: Lapse,
}

/// One group as a service process sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GroupReport {
    /// Which group; [`WORLD`] for the world group.
    pub key: GroupKey,
    /// Which generation.
    pub generation: Generation,
    /// Its state.
    pub stage: Stage,
    /// Ranks; 0 or 1 if only its end is known.
    pub size: u32,
    /// The handle of its table, if it is full.
    pub handle: Option<Id<Group>>,
    /// The digest of its table, if it is full.
    pub digest: u64,
    /// Its authority.
    pub root: Sp,
    /// The parent in its tree; `None` at the authority.
    pub parent: Option<Sp>,
    /// Ranks of the subtree that have joined, as far as is known; all if it is full.
    pub joined: u32,
    /// Who is missing, seen from here.
    pub missing: Missing,
    /// Why it ended, if it has.
    pub cause: Option<Cause>,
}

#[derive(Debug)]
pub(crate) struct Events<E> {
    cells: E,
    front: usize,
    len: usize,
    pub(crate) lost: u64,
}

impl<E: AsRef<[Option<Event>]> + AsMut<[Option<Event>]>> Events<E> {
    pub(crate) fn new(cells: E) -> Self {
        Events { cells, front: 0, len: 0, lost: 0 }
    }

    pub(crate) fn push(&mut self, event: Event) {
        let cells = self.cells.as_mut();
        let capacity = cells.len();
        if self.len >= capacity {
            self.lost += 1;
        } else if let Some(cell) = cells.get_mut((self.front + self.len) % capacity) {
            *cell = Some(event);
            self.len += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.len == 0 {
            return None;
        }
        let cells = self.cells.as_mut();
        let capacity = cells.len();
        let event = cells.get_mut(self.front).and_then(Option::take);
        self.front = (self.front + 1) % capacity;
        self.len -= 1;
        event
    }
}

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    pub(super) fn stage(&self, at: u32) -> Stage {
        let record = self.rec(at);
        match record.phase {
            Phase::Unused => Stage::Absent,
            Phase::Ended => Stage::Ended,
            Phase::Gathering if record.locals.is_some() && !self.all_joined(at) => Stage::Collecting,
            Phase::Gathering => match self.parent(at) {
                Some(parent) if self.link_to(parent).is_none() => Stage::LocalDone,
                _ => Stage::Exchanging,
            },
            Phase::Full if record.left.count > 0 || self.set(at, Set::Left).iter().any(|&w| w != 0) => Stage::Revoking,
            Phase::Full if self.locals_know(at) => Stage::Pushed,
            Phase::Full => Stage::Full,
        }
    }

    /// All groups that are known here, the ended ones included.
    pub fn reports(&self) -> impl Iterator<Item = GroupReport> + '_ {
        let used = |&at: &u32| self.rec(at).phase != Phase::Unused;
        (0..self.records.as_ref().len() as u32).filter(used).map(|at| self.report_on(at))
    }

    /// One group; the world group is asked for by [`WORLD`].
    #[must_use]
    pub fn report(&self, key: GroupKey) -> Option<GroupReport> {
        self.find(key).map(|at| self.report_on(at))
    }

    fn report_on(&self, at: u32) -> GroupReport {
        let record = self.rec(at);
        GroupReport {
            key: record.key,
            generation: record.generation,
            stage: self.stage(at),
            size: record.size,
            handle: record.handle,
            digest: record.digest,
            root: self.root_of(at),
            parent: self.parent(at),
            joined: if record.phase == Phase::Full { record.size } else { record.joined.count },
            missing: self.missing(at),
            cause: (record.phase == Phase::Ended).then_some(record.cause),
        }
    }

    /// Service processes that are believed dead.
    pub fn failed(&self) -> impl Iterator<Item = Sp> + '_ {
        (0..self.placement.service_processes()).map(Sp).filter(|&sp| self.is_dead(sp))
    }

    /// Whether the others have declared this process dead.
    #[must_use]
    pub const fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// Ranks served here that are connected.
    pub fn connected(&self) -> impl Iterator<Item = WorldRank> + '_ {
        self.locals.as_ref().iter().filter(|slot| slot.used && slot.link.is_some()).map(|slot| slot.world_rank)
    }

    /// The handle of the world group's table, once it is full.
    #[must_use]
    pub fn world(&self) -> Option<Id<Group>> {
        if self.world == NIL { None } else { self.handle(WORLD) }
    }

    /// Bytes of the lent words that groups hold now.
    #[must_use]
    pub fn bytes_in_use(&self) -> u64 {
        self.heap.used_bytes()
    }
}
