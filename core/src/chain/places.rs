//! Places: who may take one, and what is remembered of a call that leaves its own.
//!
//! The short answers about such a call are here too.

use super::context::State;
use super::functions;
use super::machine::{Handle, Machine, OVER};
use super::message::{Failure, Head, Kind};
use super::name::{CallId, Edge, Node, Tag};
use super::notes::{Note, What};
use super::storage::Storage;
use super::tombs::{Answer, Grave};

impl<S: Storage> Machine<S> {
    /// Whether a call of this class may take a place: afterwards every other class still has one, used or free.
    pub(super) fn admits(&self, class: u8) -> bool {
        let free = self.free_places();
        let classes = usize::from(self.config.classes);
        let Some(used) = self.used.get(..classes) else { return false };
        if classes == 0 {
            return free > 0;
        }
        match used.get(usize::from(class)) {
            None => false,
            Some(0) => free > 0,
            Some(_) => free > usize::from(self.unused),
        }
    }

    fn free_places(&self) -> usize {
        let places = self.contexts.capacity().min(usize::from(u16::MAX));
        (places - self.contexts.len()).saturating_sub(usize::from(self.lent))
    }

    /// Keeps a place back for each of so many levels below a class; false if there is no room for all.
    pub(super) fn keep_back(&mut self, class: u8, levels: u16) -> bool {
        let (first, end) = (usize::from(class) + 1, usize::from(class) + 1 + usize::from(levels));
        let (classes, mut free, mut unused) = (usize::from(self.config.classes), self.free_places(), self.unused);
        if classes == 0 {
            if free < usize::from(levels) || end > usize::from(u8::MAX) + 1 {
                return false;
            }
        } else {
            let Some(below) = self.used.get(..classes).and_then(|used| used.get(first..end)) else { return false };
            for &used in below {
                // As whoever takes one place after the other.
                let others = if used == 0 { 0 } else { usize::from(unused) };
                if free <= others {
                    return false;
                }
                (free, unused) = (free - 1, unused - u8::from(used == 0));
            }
        }
        self.used_below(class, levels).iter_mut().for_each(|used| *used = used.saturating_add(1));
        (self.unused, self.lent) = (unused, self.lent + levels);
        true
    }

    /// Gives back what was kept back, for whoever takes it at once; then there may be [room](Self::has_room).
    pub(super) fn let_go(&mut self, class: u8, levels: u16) {
        let (is_counted, mut unused) = (self.config.classes > 0, self.unused);
        for used in self.used_below(class, levels) {
            unused += u8::from(is_counted && *used == 1);
            *used = used.saturating_sub(1);
        }
        (self.unused, self.lent) = (unused, self.lent - levels);
    }

    /// How many places are in use of each of so many classes below this one, as far as they are counted.
    fn used_below(&mut self, class: u8, levels: u16) -> &mut [u16] {
        let below = self.used.get_mut(usize::from(class) + 1..).unwrap_or(&mut []);
        let counted = below.len().min(usize::from(levels));
        &mut below[..counted]
    }

    pub(super) fn count_class(&mut self, class: u8, more: bool) {
        let counted = class < self.config.classes;
        if let Some(used) = self.used.get_mut(usize::from(class)) {
            let before = core::mem::replace(used, if more { used.saturating_add(1) } else { used.saturating_sub(1) });
            match (before, *used) {
                (0, 1) if counted => self.unused -= 1,
                (1, 0) if counted => self.unused += 1,
                _ => {}
            }
        }
    }

    /// Whether a message that is answered at once can be taken.
    pub(super) fn has_note(&self) -> bool {
        self.queue.room(self.notes.as_ref()) > 0
    }

    pub(super) fn note(&mut self, note: Note) {
        self.queue.push(self.notes.as_mut(), note);
    }

    pub(super) fn emit_note(&mut self, note: &Note, buffer: &mut [u8]) -> Option<usize> {
        if self.houses(note.to) {
            // Who lives here is sent nothing.
            return None;
        }
        let bare = |kind| Head { attempt: note.attempt, ..Head::new(kind, note.call, note.edge) };
        let head = match note.what {
            What::Alive => bare(Kind::Alive),
            What::Busy => bare(Kind::Busy),
            What::Refuse(record) => {
                let tallies = super::notes::refused(&record);
                self.figures.failures += 1;
                return Failure::emit(tallies, [record].into_iter(), note.call, note.edge, buffer).ok();
            }
            What::Unreached(members) => {
                let tallies = super::notes::never_begun(members);
                self.figures.failures += 1;
                return Failure::emit(tallies, [].into_iter(), note.call, note.edge, buffer).ok();
            }
            What::Repeat { tomb } => {
                let Some(Grave { call, node, answer: Answer::Kept(len), .. }) = self.grave(tomb) else { return None };
                let start = tomb as usize * self.kept;
                let kept = self
                    .answers
                    .as_ref()
                    .get(start..start + len as usize)
                    .filter(|_| (call, node) == (note.call, note.from))?;
                buffer.get_mut(..kept.len())?.copy_from_slice(kept);
                self.figures.repeated += 1;
                return Some(kept.len());
            }
        };
        match note.what {
            What::Alive => self.figures.alive += 1,
            _ => self.figures.busy += 1,
        }
        head.emit_bare(buffer).ok()
    }

    pub(super) fn grave(&self, tomb: u32) -> Option<Grave> {
        self.tombs.as_ref().get(tomb as usize)?.0
    }

    /// Remembers a call that is over, and its answer if that is short.
    pub(super) fn bury(&mut self, (call, node): (CallId, Node), parent: Node, edge: Edge, message: Option<&[u8]>) {
        let kept = message.filter(|message| message.len() <= self.kept);
        let answer = match (message, kept) {
            (None, _) => Answer::Silent,
            (_, Some(message)) => Answer::Kept(message.len() as u32),
            (_, None) => Answer::Gone,
        };
        let grave = Grave { call, node, parent, edge, answer };
        let Some((at, old)) = self.ring.bury(self.tombs.as_mut(), grave) else {
            // Without tombs nothing is remembered but that it was.
            self.index.remove(call.key(node));
            self.forget(call);
            return;
        };
        let start = at as usize * self.kept;
        if let (Some(message), Some(place)) = (kept, self.answers.as_mut().get_mut(start..start + self.kept)) {
            place[..message.len()].copy_from_slice(message);
        }
        if let Some(old) = old {
            self.index.remove(old.call.key(old.node));
            self.forget(old.call);
        }
        let entered = self.index.insert(call.key(node), at | OVER);
        debug_assert!(entered.is_ok(), "the index has a third more places than there are calls");
    }

    /// A call at home is over that read what lies in the memory of this one.
    fn stop_reading(&mut self, source: u32) {
        let Some((id, _)) = self.contexts.at(source) else { return };
        let Ok(context) = self.contexts.get_mut(id) else { return };
        context.readers = context.readers.saturating_sub(1);
        if context.readers == 0 && matches!(context.state, State::Ended | State::Draining) {
            self.ready(id);
        }
    }

    fn forget(&mut self, call: CallId) {
        if let Some(peer) = self.peers.as_mut().get_mut(call.root.index()) {
            peer.forget(call);
        }
    }

    /// Frees the place of a call that is over, for those who wait for one.
    pub(super) fn free(&mut self, id: Handle) {
        let Ok(context) = self.contexts.get(id) else { return };
        debug_assert!(!context.queued, "the queue would end at a place that is nobody's");
        let (class, slots, is_root) = (context.class, context.slots, context.is_root());
        let has_callback = context.callback != Tag::NONE;
        let (source, at_home) = (context.source, context.at_home);
        let key = context.call.key(context.node);
        // Of a call that is remembered the index says where; of others it knows nothing.
        if !is_root && !at_home && self.index.get(key) == Some(id.index()) {
            self.index.remove(key);
        }
        let _ = self.contexts.end(id);
        if at_home {
            self.stop_reading(source);
        }
        self.count_class(class, false);
        // Those at home use what the one whose request they read holds.
        if !at_home {
            functions::let_go(self.functions.as_mut(), slots[0]);
            if has_callback {
                functions::let_go(self.functions.as_mut(), slots[1]);
            }
        }
        if is_root && class == 0 {
            self.open = self.open.saturating_sub(1);
        }
        self.has_room();
    }
}
