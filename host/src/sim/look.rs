//! What a user of the job does and sees: joins, leaves, tables, and the outcome.

use umbra_core::endpoints::{Descriptor, GroupKey};
use umbra_core::error::Status;
use umbra_core::group::member::{JoinError, LeaveError};
use umbra_core::group::message::WORLD;
use umbra_core::group::{Shelf, member};
use umbra_core::id::Generation;
use umbra_core::peer::{Sp, WorldRank};

use super::node::{RankNode, capacities};
use super::outcome::{Happening, Outcome};
use super::run::Sim;

impl Sim {
    /// Whether a group is full at all live service processes, in one generation, and ready at all live members that
    /// have not left it.
    #[must_use]
    pub fn is_full(&self, key: GroupKey) -> bool {
        let mut handles = self.services.iter().flat_map(|node| &node.machine).map(|machine| machine.handle(key));
        let waiting = |rank: &RankNode| {
            let state = rank.machine.as_ref().map_or(member::State::Out, |machine| machine.state(key));
            matches!(state, member::State::Waiting | member::State::Joining | member::State::Joined)
        };
        !self.ranks.iter().any(waiting) && handles.all(|handle| handle.is_some())
    }

    /// A rank joins a group of these world ranks.
    ///
    /// # Errors
    /// [`JoinError`] if the machine refuses.
    pub fn join(&mut self, rank: WorldRank, id: u32, members: &[WorldRank]) -> Result<GroupKey, JoinError> {
        let mut bytes = vec![0; Descriptor::bytes_needed(members.len() as u32)];
        let descriptor =
            Descriptor::write(id, members.iter().copied(), &mut bytes).map_err(|_| JoinError::NotAMember)?;
        let now = self.now;
        let machine = self.ranks.get_mut(rank.index()).and_then(|rank| rank.machine.as_mut());
        let joined = machine.ok_or(JoinError::NotAMember)?.join(&descriptor, now);
        self.settle(self.services.len() + rank.index());
        joined
    }

    /// A rank leaves a group.
    ///
    /// # Errors
    /// [`LeaveError`] if it is no member.
    pub fn leave(&mut self, rank: WorldRank, key: GroupKey) -> Result<(), LeaveError> {
        let machine = self.ranks.get_mut(rank.index()).and_then(|rank| rank.machine.as_mut());
        let left = machine.ok_or(LeaveError::UnknownGroup)?.leave(key);
        self.settle(self.services.len() + rank.index());
        left
    }

    /// The bytes of a group's table at a service process.
    #[must_use]
    pub fn table(&self, sp: Sp, key: GroupKey) -> Option<Vec<u8>> {
        let service = self.service(sp)?;
        let handle = service.handle(key)?;
        let (len, _) = service.shelf().measure(handle)?;
        let mut bytes = vec![0; len as usize];
        let copied = service.shelf().copy(handle, 0, &mut bytes);
        (copied == bytes.len()).then_some(bytes)
    }

    /// Bytes of storage that one service process of this job is lent for tables.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        capacities(&self.job, &self.placement).arena_bytes()
    }

    /// What has come of it so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let machines = || (0..).map(Sp).zip(&self.services).filter_map(|(sp, node)| Some((sp, node.machine.as_ref()?)));
        let ready = |rank: &&RankNode| {
            rank.machine.as_ref().is_some_and(|machine| machine.state(WORLD) == member::State::Ready)
        };
        let mut timeline = self.faults.clone();
        let mut errors = Vec::new();
        for (sp, node) in (0..).map(Sp).zip(&self.services) {
            timeline.extend(node.events.iter().map(|&(at, event)| (at, Happening::Service(sp, event))));
        }
        for (rank, node) in (0..).map(WorldRank).zip(&self.ranks) {
            timeline.extend(node.events.iter().map(|&(at, event)| (at, Happening::Rank(rank, event))));
            for &(at, event) in &node.events {
                match event {
                    member::Event::Ended { cause, .. } if cause.status != Status::Ok => errors.push((at, rank, cause)),
                    _ => {}
                }
            }
        }
        timeline.sort_by_key(|&(at, _)| at);
        Outcome {
            now: self.now,
            time_to_full: self.time_to_full,
            full_services: machines().filter(|(_, machine)| machine.world().is_some()).count() as u32,
            ready_ranks: self.ranks.iter().filter(ready).count() as u32,
            traffic: self.traffic,
            lost: self.lost,
            rounds: self.rounds,
            groups: machines()
                .flat_map(|(sp, machine)| machine.reports().map(move |report| (sp, report)).collect::<Vec<_>>())
                .collect(),
            errors,
            timeline,
            violations: self.watch.violations.clone(),
            digest: self.digest,
        }
    }

    /// The generation of a group at a service process.
    #[must_use]
    pub fn generation(&self, sp: Sp, key: GroupKey) -> Option<Generation> {
        self.service(sp)?.report(key).map(|report| report.generation)
    }
}
