//! The groups: found by key, made on first contact, remembered after their end.

use crate::endpoints::GroupKey;
use crate::id::Generation;
use crate::peer::Sp;
use crate::time::Time;

use super::super::bits;
use super::super::cause::Cause;
use super::super::heap::Piece;
use super::super::message::{Entries, Field};
use super::super::record::{DONE, Flow, NEIGHBOURS, Phase, Record};
use super::super::shelf::Shelf;
use super::super::timers::{MOST, NIL, Node, Nodes, OLD};
use super::{Service, Storage};

/// The `resend` timers of the records.
pub(super) struct Resends<'a>(pub(super) &'a mut [Record]);
impl Nodes for Resends<'_> {
    fn node(&mut self, id: u32) -> Option<&mut Node> {
        self.0.get_mut(id as usize).map(|record| &mut record.resend)
    }
}

/// The `deadline` timers of the records.
pub(super) struct Deadlines<'a>(pub(super) &'a mut [Record]);
impl Nodes for Deadlines<'_> {
    fn node(&mut self, id: u32) -> Option<&mut Node> {
        self.0.get_mut(id as usize).map(|record| &mut record.deadline)
    }
}

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    pub(super) fn find(&self, key: GroupKey) -> Option<u32> {
        self.index.get(key.0)
    }

    /// A record for a group that has none; forgets the oldest ended group if that is needed.
    fn make(&mut self, key: GroupKey, generation: Generation, root: Sp, size: u32, now: Time) -> Option<u32> {
        if self.unused == NIL && (self.deadlines.front(OLD) != NIL || self.give_way(now)) {
            self.forget_oldest();
        }
        let at = self.unused;
        if at == NIL || self.index.insert(key.0, at).is_err() {
            self.counters.no_room += 1;
            return None;
        }
        self.unused = self.rec(at).next_unused;
        *self.rec_mut(at) = Record { key, ..Record::default() };
        self.counters.groups += 1;
        if key == super::super::message::WORLD {
            self.world = at;
        }
        self.begin(at, generation, root, size, now);
        Some(at)
    }

    /// Starts `generation` in a record whose earlier generation, if any, has ended.
    pub(super) fn begin(&mut self, at: u32, generation: Generation, root: Sp, size: u32, now: Time) {
        self.drop_pieces(at);
        let record = self.rec_mut(at);
        // Neighbours that have not heard of the end of the last generation are told while the next one runs.
        let ended = record.phase == Phase::Ended;
        let (before, before_cause) =
            if ended { (record.generation, record.cause) } else { (Generation::NEVER, Cause::LEFT) };
        let pushed = if ended { record.pushed } else { [DONE; NEIGHBOURS] };
        *record = Record {
            key: record.key,
            generation,
            phase: Phase::Gathering,
            root,
            size,
            since: now,
            before,
            before_cause,
            pushed,
            locals: record.locals.take(),
            queued: record.queued,
            next_queued: record.next_queued,
            resend: record.resend,
            deadline: record.deadline,
            ..Record::default()
        };
        crate::log!(debug, "{:?} of {:?} begins: {:?} ranks, led by {:?}", generation, record.key, size, root);
        self.deadlines.arm(&mut Deadlines(self.records.as_mut()), at, MOST, now);
    }

    /// Removes a record without trace.
    pub(super) fn forget(&mut self, at: u32) {
        self.drop_pieces(at);
        let mut locals = self.rec_mut(at).locals.take();
        self.heap.give(&mut locals);
        self.resends.disarm(&mut Resends(self.records.as_mut()), at);
        self.deadlines.disarm(&mut Deadlines(self.records.as_mut()), at);
        self.unlink(at);
        let unused = self.unused;
        let record = self.rec_mut(at);
        if record.queued {
            // Still in the queue of work, which skips it; it becomes free there.
            record.phase = Phase::Unused;
            return;
        }
        *record = Record { next_unused: unused, ..Record::default() };
        self.unused = at;
    }

    /// Called by the queue of work when it meets a forgotten record.
    pub(super) fn free_forgotten(&mut self, at: u32) {
        let unused = self.unused;
        *self.rec_mut(at) = Record { next_unused: unused, ..Record::default() };
        self.unused = at;
    }

    fn unlink(&mut self, at: u32) {
        let key = self.rec(at).key;
        self.index.remove(key.0);
        self.counters.groups -= 1;
        if self.world == at {
            self.world = NIL;
        }
    }

    /// An ended group about which everybody was told joins the end of the queue of those that may be forgotten.
    pub(super) fn retire_record(&mut self, at: u32, now: Time) {
        if self.rec(at).old {
            return;
        }
        let mut locals = self.rec_mut(at).locals.take();
        self.heap.give(&mut locals);
        self.rec_mut(at).old = true;
        self.deadlines.arm(&mut Deadlines(self.records.as_mut()), at, OLD, now);
    }

    fn forget_oldest(&mut self) {
        let at = self.deadlines.front(OLD);
        if at != NIL {
            self.forget(at);
        }
    }

    /// Gives back what only a generation that is being filled needs.
    pub(super) fn drop_gathering(&mut self, at: u32) {
        let record = self.rec_mut(at);
        let mut pieces: [Piece; 4] =
            [record.joined.bits.take(), record.joined.list.take(), record.descriptor.take(), record.incoming.take()];
        record.joined = Flow::default();
        record.received = 0;
        for piece in &mut pieces {
            self.heap.give(piece);
        }
    }

    /// Gives back everything but the sets of local ranks.
    pub(super) fn drop_pieces(&mut self, at: u32) {
        self.drop_gathering(at);
        let record = self.rec_mut(at);
        let mut pieces: [Piece; 2] = [record.left.bits.take(), record.left.list.take()];
        record.left = Flow::default();
        for piece in &mut pieces {
            self.heap.give(piece);
        }
    }

    /// There is something to send for this group.
    pub(super) fn stir(&mut self, at: u32) {
        if self.rec(at).queued {
            return;
        }
        let last = self.work.1;
        let record = self.rec_mut(at);
        record.queued = true;
        record.next_queued = NIL;
        if last == NIL {
            self.work.0 = at;
        } else {
            self.rec_mut(last).next_queued = at;
        }
        self.work.1 = at;
    }

    /// Takes the group that has waited longest to be worked on.
    pub(super) fn next_work(&mut self) -> Option<u32> {
        let at = self.work.0;
        if at == NIL {
            return None;
        }
        let record = self.rec_mut(at);
        record.queued = false;
        let next = core::mem::replace(&mut record.next_queued, NIL);
        self.work.0 = next;
        if next == NIL {
            self.work.1 = NIL;
        }
        Some(at)
    }

    /// Something was heard about this group: repetitions start anew, soon.
    pub(super) fn calm(&mut self, at: u32) {
        self.rec_mut(at).step = 0;
    }

    /// Everything about this group has to be said again: to other neighbours, or to ones that have forgotten.
    pub(super) fn say_again(&mut self, at: u32) {
        let record = self.rec_mut(at);
        for flow in [&mut record.joined, &mut record.left] {
            flow.acked = 0;
            flow.sent = 0;
            flow.serial = 0;
        }
        let nothing = record.phase == Phase::Gathering && record.before == Generation::NEVER;
        record.pushed = if nothing { [DONE; NEIGHBOURS] } else { [0; NEIGHBOURS] };
        record.outstanding = 0;
        record.pull = true;
        record.spoken = 0;
        record.hurry = true;
        record.step = 0;
        self.stir(at);
    }

    /// Adds entries to a flow; ranks that are in it already are dropped and counted. `None` if there is no room,
    /// in which case nothing was added.
    pub(super) fn add(&mut self, at: u32, leave: bool, entries: Entries) -> Option<()> {
        let size = self.rec(at).size;
        let mut flow = *self.flow(at, leave);
        if flow.bits.is_none() {
            flow.bits = Some(self.heap.take(bits::words(size))?);
        }
        let words = self.heap.words(&flow.bits);
        let known = entries.ranks.iter().filter(|&rank| bits::contains(words, rank)).count() as u32;
        self.counters.duplicates += u64::from(known);
        // A run of which a part is known is taken apart, which a repetition after a failure may need.
        let whole = known == 0;
        let pieces = if whole { 1 } else { entries.ranks.count - known };
        let needed = (flow.len as usize + pieces as usize) * 2;
        let have = self.heap.words(&flow.list).len();
        if pieces > 0 && have < needed {
            if have == 0 {
                flow.list = self.heap.take(needed.max(4));
            } else {
                let grown = self.heap.grow(&mut flow.list, needed.max(have * 2));
                if !grown {
                    *self.flow(at, leave) = flow;
                    return None;
                }
            }
            if flow.list.is_none() {
                *self.flow(at, leave) = flow;
                return None;
            }
        }
        if whole {
            self.append(&mut flow, entries);
            let words = self.heap.words_mut(&flow.bits);
            entries.ranks.iter().for_each(|rank| flow.count += u32::from(bits::insert(words, rank)));
        } else {
            for rank in entries.ranks.iter() {
                if bits::insert(self.heap.words_mut(&flow.bits), rank) {
                    flow.count += 1;
                    let ranks = super::super::cause::Stretch { first: rank, stride: 0, count: 1 };
                    self.append(&mut flow, Entries { sp: entries.sp, ranks });
                }
            }
        }
        *self.flow(at, leave) = flow;
        Some(())
    }

    fn append(&mut self, flow: &mut Flow, entries: Entries) {
        let from = flow.len as usize * 2;
        if let Some(cell) = self.heap.words_mut(&flow.list).get_mut(from..from + 2) {
            cell.copy_from_slice(&entries.to_words());
            flow.len += 1;
        }
    }

    pub(super) fn flow(&mut self, at: u32, leave: bool) -> &mut Flow {
        let record = self.rec_mut(at);
        if leave { &mut record.left } else { &mut record.joined }
    }

    /// Whether nothing is owed to anybody about this group.
    pub(super) fn is_settled(&self, at: u32) -> bool {
        let record = self.rec(at);
        (0..NEIGHBOURS).all(|n| record.pushed.get(n) == Some(&DONE) || self.neighbour(at, n).is_none())
    }
}

/// What became of the wish to speak about a generation of a group.
pub(super) enum Entered {
    /// This is its record.
    At(u32),
    /// It is over; this was the last generation that ended.
    Stale(Generation),
    /// An earlier generation is still held.
    Busy,
    /// The group is known with another description.
    Conflict(Field),
    /// No record is free.
    NoRoom,
}

impl<S: Storage, C: Shelf> Service<'_, S, C> {
    /// The record of a generation of a group, made if it is the next one. A service process that speaks of a later
    /// generation (`remote`) proves that the one held here has ended: members join only after its end.
    pub(super) fn enter(
        &mut self,
        key: GroupKey,
        generation: Generation,
        root: Sp,
        size: u32,
        remote: bool,
        now: Time,
    ) -> Entered {
        if size == 0 || size > self.config.ranks_max || root.0 >= self.placement.service_processes() {
            return Entered::Conflict(Field::Size);
        }
        let Some(at) = self.find(key) else {
            return match self.make(key, generation, root, size, now) {
                Some(at) => Entered::At(at),
                None => Entered::NoRoom,
            };
        };
        let record = self.rec(at);
        if generation < record.generation {
            return Entered::Stale(Generation(record.generation.0 - 1));
        }
        if generation == record.generation {
            return match record.phase {
                Phase::Ended => Entered::Stale(generation),
                _ if record.size != size => Entered::Conflict(Field::Size),
                _ if !record.is_world() && record.root != root => Entered::Conflict(Field::Descriptor),
                _ => Entered::At(at),
            };
        }
        if record.phase != Phase::Ended {
            if !remote {
                return Entered::Busy;
            }
            self.end_here(at, Cause::LEFT);
        }
        self.leave_behind(at);
        self.begin(at, generation, root, size, now);
        Entered::At(at)
    }
}
