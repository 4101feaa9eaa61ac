//! From a full set to a published table.
//!
//! The authority builds the table, and everybody else receives it.

use crate::endpoints::{Descriptor, Entry, Group, GroupKey, Shadows, Shape};
use crate::error::Status;
use crate::id::Id;
use crate::peer::{Rank, Sp, WorldRank};
use crate::placement::Placement;
use crate::time::Time;

use super::super::bits;
use super::super::cause::Cause;
use super::super::heap::Piece;
use super::super::message::{Entries, Snapshot};
use super::super::record::{NEIGHBOURS, Phase};
use super::super::shelf::{Shelf, ShelfError};
use super::super::timers::{MOST, NIL};
use super::local::Set;
use super::records::Deadlines;
use super::report::Event;
use super::{Service, Storage};

/// The entry of a process whose first shadow is `sp`.
fn entry(placement: &Placement<'_>, world_rank: WorldRank, sp: Sp) -> Option<Entry> {
    let host = placement.host_of(sp)?;
    let per_dpu = placement.service_processes_per_dpu();
    let lid = sp.0.checked_rem(per_dpu)?;
    let mut shadows = Shadows::new();
    for j in 0..placement.shadows_per_rank() {
        shadows.push(Sp(sp.0 - lid + (lid + j) % per_dpu)).ok()?;
    }
    Some(Entry { world_rank, host, shadows })
}

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    /// Publishes the table if this is the authority and nobody is missing.
    pub(super) fn check_full(&mut self, at: u32, now: Time) {
        let record = self.rec(at);
        let complete = record.phase == Phase::Gathering && record.size > 0 && record.joined.count == record.size;
        if !complete || !self.is_root(at) || (!record.is_world() && record.descriptor_len == 0) {
            return;
        }
        match self.build(at, now) {
            Ok(handle) => self.became_full(at, handle, now),
            Err(ShelfError::Full) => self.end(at, Cause::of(Status::Full), now),
            Err(_) => self.end(at, Cause::of(Status::Conflict), now),
        }
    }

    /// The key under which the world group is published: that of its descriptor.
    fn world_key(&self, size: u32) -> Option<GroupKey> {
        let mut bytes = [0; Descriptor::WORLD_BYTES];
        Descriptor::write_world(0, size, &mut bytes).ok().map(|d| self.config.job.group(&d))
    }

    fn table_key(&self, at: u32) -> Option<GroupKey> {
        let record = self.rec(at);
        if record.is_world() { self.world_key(record.size) } else { Some(record.key) }
    }

    fn build(&mut self, at: u32, now: Time) -> Result<Id<Group>, ShelfError> {
        let record = self.rec(at);
        let (size, generation, wish) = (record.size, record.generation, record.wish);
        let placement = self.placement;
        let key = self.table_key(at).ok_or(ShelfError::Incomplete)?;
        let world = record.is_world();
        // Of the world group the places come from the entries, of other groups from the world's table.
        let mut source: Piece = if world { self.places(at).ok_or(ShelfError::Full)?.into() } else { record.descriptor };
        let len = self.rec(at).descriptor_len as usize;
        let shape = {
            let mut bytes = [0; Descriptor::WORLD_BYTES];
            let descriptor = if world {
                Descriptor::write_world(0, size, &mut bytes)
            } else {
                Descriptor::parse(self.heap.bytes(&source, len))
            };
            Shape::new(&descriptor.map_err(|_| ShelfError::Incomplete)?, key, &placement)
        };
        let mut scratch = self.heap.take(self.shelf.scratch_bytes(&shape).div_ceil(8));
        let mut result = Err(ShelfError::Full);
        while scratch.is_some() {
            let home = if self.world == NIL { None } else { self.rec(self.world).handle };
            let (words, scratch) = self.heap.beside(&source, &scratch);
            let bytes = zerocopy::IntoBytes::as_bytes(words).get(..len).unwrap_or(&[]);
            let descriptor = Descriptor::parse(bytes).ok();
            result = self.shelf.build(shape, generation, if world { 0 } else { wish }, scratch, &mut |shelf, rank| {
                let (world_rank, sp) = match &descriptor {
                    None => (WorldRank(rank.0), Sp((*words.get(rank.index())?) as u32)),
                    Some(descriptor) => {
                        let world_rank = descriptor.world_rank_of(rank)?;
                        (world_rank, shelf.entry(home?, Rank(world_rank.0))?.1)
                    }
                };
                entry(&placement, world_rank, sp)
            });
            if result != Err(ShelfError::Full) || !self.give_way(now) {
                break;
            }
        }
        self.heap.give(&mut scratch);
        if world {
            self.heap.give(&mut source);
        }
        result
    }

    /// The service process of every world rank, one word each.
    fn places(&mut self, at: u32) -> Option<crate::memory::Extent> {
        let record = self.rec(at);
        let (list, len, size) = (record.joined.list, record.joined.len, record.size);
        let piece = self.heap.take(size as usize)?;
        let (entries, bytes) = self.heap.beside(&list, &Some(piece));
        for words in entries.chunks_exact(2).take(len as usize) {
            let &[first, second] = words else { continue };
            let Entries { sp, ranks } = Entries::from_words([first, second]);
            for rank in ranks.iter() {
                let from = rank as usize * 8;
                if let Some(word) = bytes.get_mut(from..from + 8) {
                    word.copy_from_slice(&u64::from(sp.0).to_ne_bytes());
                }
            }
        }
        Some(piece)
    }

    /// All pieces of a table have come: publishes it if it is what it should be.
    pub(super) fn publish_incoming(&mut self, at: u32, piece: &Snapshot<'_>, now: Time) -> bool {
        let mut incoming = self.rec_mut(at).incoming.take();
        self.rec_mut(at).received = 0;
        let mut published = self.publish_checked(at, &incoming, piece);
        while published == Err(ShelfError::Full) && self.give_way(now) {
            published = self.publish_checked(at, &incoming, piece);
        }
        self.heap.give(&mut incoming);
        match published {
            Ok(handle) => {
                self.became_full(at, handle, now);
                true
            }
            Err(ShelfError::Full) => {
                self.counters.no_room += 1;
                false
            }
            Err(ShelfError::Incomplete) => {
                // The table names other members than the ranks here do.
                self.counters.conflicts += 1;
                self.end_here(at, Cause::of(Status::Conflict));
                true
            }
            Err(ShelfError::Malformed) => {
                self.counters.malformed += 1;
                false
            }
        }
    }

    fn publish_checked(&mut self, at: u32, incoming: &Piece, piece: &Snapshot<'_>) -> Result<Id<Group>, ShelfError> {
        let record = self.rec(at);
        let (generation, world, root, size) = (record.generation, record.is_world(), record.root, record.size);
        let wish = if world { 0 } else { record.wish };
        let key = self.table_key(at).ok_or(ShelfError::Malformed)?;
        let bytes = self.heap.bytes(incoming, piece.total as usize);
        let handle = self.shelf.publish(bytes, key, generation, wish)?;
        let led = world || self.shelf.entry(handle, Rank(0)).is_some_and(|(_, sp)| sp == root);
        let whole = self
            .shelf
            .measure(handle)
            .is_some_and(|(len, digest)| len == piece.total && (piece.is_whole() || digest == piece.digest));
        if self.shelf.size(handle) != Some(size) || !led || !whole {
            self.shelf.retire(handle);
            return Err(ShelfError::Malformed);
        }
        let record = self.rec(at);
        if record.descriptor_len > 0 {
            let bytes = self.heap.bytes(&record.descriptor, record.descriptor_len as usize);
            let same = Descriptor::parse(bytes).is_ok_and(|descriptor| {
                (0..).zip(descriptor.members().iter()).all(|(rank, member)| {
                    self.shelf.entry(handle, Rank(rank)).is_some_and(|(process, _)| process == member)
                })
            });
            if !same {
                self.shelf.retire(handle);
                return Err(ShelfError::Incomplete);
            }
        }
        Ok(handle)
    }

    fn became_full(&mut self, at: u32, handle: Id<Group>, now: Time) {
        let (len, digest) = self.shelf.measure(handle).unwrap_or_default();
        self.drop_gathering(at);
        self.deadlines.disarm(&mut Deadlines(self.records.as_mut()), at);
        let record = self.rec_mut(at);
        record.handle = Some(handle);
        record.digest = digest;
        record.table_len = len;
        record.descriptor_len = 0;
        record.phase = Phase::Full;
        record.pull = false;
        record.pushed = [0; NEIGHBOURS];
        record.outstanding = 0;
        record.step = 0;
        let (key, generation, size, took) = (record.key, record.generation, record.size, now.since(record.since));
        self.counters.full += 1;
        crate::log!(info, "{:?} of {:?} is full: {:?} ranks after {:?}", generation, key, size, took);
        self.counters.slowest = self.counters.slowest.max(took);
        if record_is_world(key) {
            self.world_size = size;
            self.refuse_displaced(at);
        }
        let serves = self.serves(at);
        if serves && self.rec(at).locals.is_some() {
            self.members_from_table(at, now);
        }
        let no_room = serves && self.need_sets(at, now).is_none();
        if no_room || !self.within(at, Set::Members, Set::Joined) {
            // They joined at an earlier life of this process, and have time to say so again.
            self.deadlines.arm(&mut Deadlines(self.records.as_mut()), at, MOST, now);
        }
        self.tell_again(at);
        self.events.push(Event::Full { key, generation, handle, size, took });
        self.add_own(at, true, false);
        self.check_ended(at, now);
        debug_assert!(bits::count(self.set(at, Set::Known)) == 0);
    }
}

fn record_is_world(key: GroupKey) -> bool {
    key == super::super::message::WORLD
}
