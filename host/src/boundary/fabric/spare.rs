//! What a fabric holds, and which of its pages are given back.
//!
//! A page that a message has touched stays in memory until it is given back to the system: of a slot, what lies behind the size
//! that its receiver has announced last, at once when that is half of what it was and 16 KiB less, and else what none of the last
//! sixteen messages could need; of what did not fit, all, after many messages in a row that did. Each is done by the only rank that
//! may write there at that moment: the receiver before it grants credit for the slot, the sender when it has credit for it. Who
//! gives pages back that are needed again a little later pays for both, so it is not done sooner.
//!
//! *Cost*: a few comparisons a message; a system call where something is given back.

use umbra_core::boundary::Peer;

use super::{Fabric, PAGE};
use crate::boundary::held::Held;
use crate::boundary::room::{Room, Spill};
use crate::boundary::transport::TransportError;

/// What messages need of the areas of a rank, by peer and slot.
#[derive(Debug)]
pub(super) struct Spare {
    rooms: Vec<Room>,
    /// What did not fit into slots of peers.
    spilled: Vec<Spill>,
}

impl Spare {
    pub(super) fn new(count: usize) -> Spare {
        Spare { rooms: vec![Room::default(); count], spilled: vec![Spill::default(); count] }
    }
}

impl Fabric {
    /// The next message of a rank in a slot has at most so many bytes; what the slot has beside them goes back, now or when it is much
    /// or was not needed for a while.
    pub(super) fn keep(&mut self, from: u32, slot: u32, room: usize, now: bool) -> Result<(), TransportError> {
        let (at, room) = (self.stamp_at(from, slot), room.next_multiple_of(PAGE));
        if let Some(end) = self.spare.rooms[at].needs(room, now) {
            let area = self.area(from, self.rank, slot, 0)?;
            // If the system keeps it, only the memory is lost.
            let _ = self.segment.give_back(area + end, self.capacity.saturating_sub(end));
        }
        Ok(())
    }

    /// This rank has written so many bytes of a message, or of a plan, beside a slot.
    pub(super) fn spill(&mut self, to: u32, slot: u32, bytes: usize) -> Result<(), TransportError> {
        self.check(to)?;
        let at = self.stamp_at(to, slot);
        let idle = self.spare.spilled[at].idle(bytes);
        self.give_back_beside(to, slot, idle)
    }

    /// Gives so many bytes beside a slot back.
    fn give_back_beside(&self, to: u32, slot: u32, bytes: usize) -> Result<(), TransportError> {
        if bytes > 0 {
            let area = self.area(self.rank, to, slot, 1)?;
            // As above.
            let _ = self.segment.give_back(area, bytes.next_multiple_of(PAGE).min(self.capacity));
        }
        Ok(())
    }

    /// Between two epochs nothing is under way: what the peers of the next need stays, and what lies beside slots has been read.
    pub(super) fn keep_for(&mut self, peers: &[Peer]) -> Result<(), TransportError> {
        for (to, slot) in (0..self.extent.ranks).flat_map(|to| (0..self.extent.slots).map(move |slot| (to, slot))) {
            let at = self.stamp_at(to, slot);
            let left = self.spare.spilled[at].left();
            self.give_back_beside(to, slot, left)?;
        }
        for from in 0..self.extent.ranks {
            let peer = peers.iter().find(|peer| peer.rank() == from);
            let room = peer.map_or(0, |peer| peer.slot_bytes() as usize);
            (0..self.extent.slots).try_for_each(|slot| self.keep(from, slot, room, true))?;
        }
        Ok(())
    }

    pub(super) fn held_bytes(&self) -> Held {
        let mut held = Held::default();
        let areas = (0..self.extent.ranks).flat_map(|rank| (0..self.extent.slots).map(move |slot| (rank, slot)));
        for (rank, slot) in areas.filter(|&(rank, _)| rank != self.rank) {
            let bytes = |area: Result<usize, _>| area.map_or(0, |area| self.segment.held(area, self.capacity));
            held.receive += bytes(self.area(rank, self.rank, slot, 0));
            held.send += bytes(self.area(self.rank, rank, slot, 1));
        }
        held
    }
}
