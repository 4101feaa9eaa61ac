//! Members leave the place of the call above: a walk ends before all is done.

use zerocopy::IntoBytes;

use super::context::{Own, State};
use super::frame::{Frame, Walk};
use super::kids::{Kid, Stand};
use super::machine::{Handle, Machine};
use super::report::{Record, Stage, Tallies};
use super::storage::Storage;
use super::walk::depth;

impl<S: Storage> Machine<S> {
    /// Ends a walk before everything is done: whoever is on the way down gets a place, as does the child at hand, whose
    /// function is pending, if one is. The handle of the last of them.
    pub(super) fn move_out(&mut self, id: Handle, pending: bool) -> Option<Handle> {
        let last = self.give_places(id, pending);
        self.has_room();
        last
    }

    fn give_places(&mut self, id: Handle, pending: bool) -> Option<Handle> {
        let context = self.contexts.get_mut(id).ok()?;
        let (class, levels) = (context.class, context.layout.frames);
        let walk = core::mem::replace(&mut context.walk, Walk { was_tried: true, ..Walk::NONE });
        let woken = core::mem::take(&mut context.woken);
        let cancelled = context.cancelled;
        (context.pend, context.cursor) = (context.layout.kids, 0);
        self.let_go(class, levels);
        self.write_kids(id);
        let mut above = id;
        for level in 0..=walk.level {
            let frame = self.frame(id, &walk, level)?;
            self.take_over(above, &frame);
            self.ready(above);
            let next = if level < walk.level { Some(self.frame(id, &walk, level + 1)?.reply) } else { None };
            if next.is_none() && !pending {
                if cancelled {
                    self.begin_no_more(id, above);
                }
                break;
            }
            let ordinal = frame.ordinal as u16;
            let kid = self.with_kids(above)?.1.get(ordinal)?;
            let node = self.member(above, kid.piece.start)?;
            let child = match self.settle(above, ordinal, kid, node) {
                Ok(child) => child,
                Err((code, aux)) => {
                    debug_assert!(false, "there is a place for every level: {code:?}");
                    let depth = depth(class, level + 1);
                    let lost = Record { origin: node, stage: Stage::Setup, code, depth, aux, count: kid.piece.len };
                    let tallies = Tallies { failed: 1, unknown: kid.piece.len - 1, ..Tallies::default() };
                    self.kid_failed(above, ordinal, tallies, [lost].into_iter());
                    return None;
                }
            };
            self.set_kid(above, ordinal, Kid { stand: Stand::Home, attempts: 1, place: child.index(), ..kid });
            if cancelled {
                self.begin_no_more(id, above);
            }
            self.copy_reply(id, level + 1, child);
            let context = self.contexts.get_mut(child).ok()?;
            context.walk.was_tried = true;
            match next {
                Some(reply) => (context.state, context.own, context.reply) = (State::Gathering, Own::Ok, reply),
                None => {
                    (context.state, context.own, context.reply) = (State::Running, Own::Began, walk.answer);
                    (context.probed, context.woken) = (true, woken);
                }
            }
            above = child;
        }
        if woken {
            self.ready(above);
        }
        if cancelled && pending {
            self.begin_no_more(id, above);
        }
        Some(above)
    }

    /// Whoever has a place now asks no further child: the call `id` was cancelled while it was walked through.
    fn begin_no_more(&mut self, id: Handle, above: Handle) {
        if above == id {
            self.drop_unsent(id);
        } else {
            self.stop(above, true);
        }
    }

    /// How far a walk through this place has come at a level.
    fn frame(&self, id: Handle, walk: &Walk, level: u16) -> Option<Frame> {
        if level == walk.level {
            return Some(walk.top);
        }
        let start = id.index() as usize * self.slab;
        Frame::load(&self.contexts.get(id).ok()?.layout, self.words.as_ref().get(start..start + self.slab)?, level)
    }

    /// A call goes on by itself from where a walk has come with it.
    fn take_over(&mut self, id: Handle, frame: &Frame) {
        let Some((context, mut kids)) = self.with_kids(id) else { return };
        context.reply = frame.reply;
        kids.update(|at, kid| (u32::from(at) < frame.ordinal).then_some(Kid { stand: Stand::Over, ..kid }));
        context.pend -= frame.ordinal as u16;
        let (failed, unreached) = (frame.failed, frame.unreached);
        let ok = frame.next - frame.piece.start - 1 - failed - unreached;
        context.tallies.add(Tallies { ok, failed, unreached, unknown: 0 });
    }

    /// Copies the reply of a level to the place that its member has now.
    fn copy_reply(&mut self, id: Handle, level: u16, child: Handle) {
        let Ok(context) = self.contexts.get(id) else { return };
        let range = context.layout.reply_range(level);
        let place = |id: Handle| id.index() as usize * self.slab..(id.index() as usize + 1) * self.slab;
        let Ok([from, to]) = self.words.as_mut().get_disjoint_mut([place(id), place(child)]) else { return };
        if let (Some(from), Some(to)) = (from.as_bytes().get(range.clone()), to.as_mut_bytes().get_mut(..range.len())) {
            to.copy_from_slice(from);
        }
    }
}
