//! News of the bootstrap, and look-ups in what it filled.

use umbra::job::{Step, grid};
use umbra_core::endpoints::{Endpoint, Group, Table};
use umbra_core::error::Status;
use umbra_core::group::Stage;
use umbra_core::group::message::WORLD;
use umbra_core::group::service::Event;
use umbra_core::id::Id;
use umbra_core::peer::{Peer, PeerKind, Rank, WorldRank};

use super::process::{End, Process};

impl Process {
    pub(super) fn on_group(&mut self, event: Event) {
        match event {
            Event::Full { handle, .. } => {
                let bytes = self.tables().and_then(|r| r.read(handle, Table::len_bytes).ok()).unwrap_or(0);
                let name = self.name_of(handle);
                self.mark(Step::Full, name, bytes as u64);
            }
            Event::Stage { key, stage: Stage::LocalDone | Stage::Exchanging, .. } if key == WORLD => {
                self.mark(Step::LocalComplete, Some(grid::WORLD), 0);
            }
            // The others have gone on without this life; nothing that it tells a rank from now on would be true.
            Event::Fenced => self.stop(End::Fenced),
            Event::Ended { key, .. } if key == WORLD => self.world_ended = true,
            _ => {}
        }
    }

    pub(super) fn tables(&self) -> Option<umbra_core::endpoints::Reader<'_>> {
        self.machines.agent.group().shelf().reader().ok()
    }

    /// Context id and lead of a group; the world group has a name of its own.
    pub(super) fn name_of(&self, handle: Id<Group>) -> Option<(u32, u32)> {
        if self.machines.agent.group().world() == Some(handle) {
            return Some(grid::WORLD);
        }
        let reader = self.tables()?;
        let id = reader.read(handle, Table::id).ok()?;
        let PeerKind::Rank(lead) = reader.lookup(handle, Rank(0)).ok()?.peer.kind() else { return None };
        Some((id, lead.0))
    }

    /// Notes for every rank of the plan in which groups it is.
    pub(super) fn learn_groups(&mut self) {
        let mut memberships = std::mem::take(&mut self.memberships);
        memberships.clear();
        if let Some(reader) = self.tables() {
            for group in reader.groups() {
                for rank in (0..group.size).map(Rank) {
                    if let Ok(endpoint) = reader.lookup(group.handle, rank)
                        && let PeerKind::Rank(world) = endpoint.peer.kind()
                    {
                        memberships.entry(world).or_default().push((group.handle, rank));
                    }
                }
            }
        }
        self.memberships = memberships;
    }

    /// Where a rank is, by the endpoint cache: asked in every group that it is in; all must agree.
    pub(super) fn look_up(&mut self, rank: WorldRank) -> Result<Endpoint, Status> {
        let (mut found, mut lookups, mut contradictions) = (None, 0, 0);
        if let Ok(reader) = self.machines.agent.group().shelf().reader() {
            for &(group, member) in self.memberships.get(&rank).into_iter().flatten() {
                lookups += 1;
                let endpoint = reader.lookup(group, member).map_err(|_| Status::StaleGeneration)?;
                if endpoint.peer != Peer::rank(rank).unwrap_or(endpoint.peer)
                    || found.is_some_and(|other| other != endpoint)
                {
                    contradictions += 1;
                }
                found = Some(endpoint);
            }
        }
        self.lookups += lookups;
        self.contradictions += contradictions;
        found.ok_or(Status::UnknownGroup)
    }
}
