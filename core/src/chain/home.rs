//! Members that live with their parents.
//!
//! A call between the two is a place taken, an answer a piece of memory copied. One machine may be the machine of many
//! members ([`Machine::house`]), as on an agent that serves all processes of its host. What such members ask of each
//! other can neither be lost nor come twice, so nothing is written, parsed, looked up or remembered for it: a child
//! takes its place when its parent would send to it, and reads the request where that lies. Classes, modes,
//! cancellation and reports are those of members that live apart.
//!
//! A call at home has no timer of its own. When the time of the call that brought the request is over, the deepest ones
//! below it that are not done are asked first, so that the report names them and not their parents.

use zerocopy::IntoBytes;

use super::context::{Context, RECORDS, State, edge_to};
use super::kids::{Kid, Kids, Stand, pieces};
use super::layout::frames;
use super::machine::{Action, Handle, Machine};
use super::message::Response;
use super::mode::Mode;
use super::name::{CallId, Node};
use super::report::{Code, Record};
use super::room::Waiter;
use super::storage::Storage;
use crate::codec::Reader;
use crate::error::Stale;
use crate::time::Time;
use crate::tree::Shape;

impl<S: Storage> Machine<S> {
    /// Has another member live here: messages for it are handed to this machine, and those from it come from here.
    ///
    /// # Errors
    /// [`Stale`] if it is no known member.
    pub fn house(&mut self, node: Node) -> Result<(), Stale> {
        let life = self.config.life;
        self.peers.as_mut().get_mut(node.index()).ok_or(Stale)?.settle(life);
        self.homes = (self.homes.0.min(node), self.homes.1.max(node));
        self.listed = None;
        Ok(())
    }

    /// Whether others live here beside the machine's own member.
    pub(super) fn is_household(&self) -> bool {
        self.homes.0 != self.homes.1
    }

    /// Whether a member lives here.
    #[must_use]
    pub fn houses(&self, node: Node) -> bool {
        self.peers.as_ref().get(node.index()).is_some_and(|peer| peer.at_home)
    }

    /// Has a child that lives here take its place; `Err` if it has no room, or cannot do it.
    pub(super) fn adopt(&mut self, id: Handle, at: u16, kid: Kid, node: Node) -> Result<Handle, (Code, u32)> {
        let parent = self.contexts.get(id).map_err(|Stale| (Code::Malformed, 0))?;
        let class = parent.class_below().ok_or((Code::Malformed, 0))?;
        let (call, shared) = (parent.call, parent.shared);
        let waiter = Waiter::of_child(id, parent, class);
        let stood = self.step_forward(&waiter);
        if !self.admits(class) {
            self.await_room(waiter, stood);
            return Err((Code::NoResource, 0));
        }
        let child = match shared && self.runs_here(call, node) {
            true => Err((Code::SecondParent, 0)),
            false => self.settle(id, at, kid, node),
        };
        if stood.is_some() && child.is_err() {
            self.has_room();
        }
        let child = child?;
        if let Some((context, mut kids)) = self.with_kids(id) {
            let attempts = kid.attempts.saturating_add(1);
            kids.set(at, Kid { stand: Stand::Home, attempts, place: child.index(), ..kid });
            context.cursor += 1;
        }
        self.figures.at_home += 1;
        Ok(child)
    }

    /// Takes a place for a child that lives here, which may have one.
    pub(super) fn settle(&mut self, id: Handle, at: u16, kid: Kid, node: Node) -> Result<Handle, (Code, u32)> {
        let parent = self.contexts.get(id).map_err(|Stale| (Code::Malformed, 0))?;
        let class = parent.class_below().ok_or((Code::Malformed, 0))?;
        let source = parent.source;
        let (kids, below) = match parent.layout.stated {
            false => (parent.shape.fan_out(kid.piece.len), kid.piece.len - 1),
            true => {
                let (context, came) = self.came(id).ok_or((Code::Malformed, 0))?;
                let list = came.list(&context.layout).piece(kid.piece);
                let list = list.ok_or((Code::Malformed, 0))?;
                pieces(context.shape, list).fold((0, 0), |(kids, sum), piece| (kids + 1, sum + piece.len))
            }
        };
        if below + 1 != kid.piece.len {
            return Err((Code::Malformed, 0));
        }
        let parent = self.contexts.get(id).map_err(|Stale| (Code::Malformed, 0))?;
        let height = parent.height.saturating_sub(1);
        let rewrites = parent.layout.rewrite() > 0;
        let frames = if rewrites { 0 } else { frames(parent.shape, parent.layout.stated, kid.piece.len, height) };
        let room = self.slab * 8;
        let layout = parent.layout.below(kid.piece, kids, frames).filter(|layout| layout.own_end() <= room);
        let layout = layout.or_else(|| parent.layout.below(kid.piece, kids, 0));
        let layout = match rewrites {
            false => layout,
            true => layout.and_then(|layout| layout.with_given(self.header_len_for_home(id))),
        };
        let layout = layout.ok_or((Code::TooLarge, u32::MAX))?;
        if layout.own_end() > self.slab * 8 {
            return Err((Code::TooLarge, layout.own_end() as u32));
        }
        let context = Context {
            call: parent.call,
            node,
            parent: Some((parent.node, edge_to(id, at))),
            at_home: true,
            all_home: parent.all_home,
            shared: parent.shared,
            source,
            mode: parent.mode,
            func: parent.func,
            callback: parent.callback,
            slots: parent.slots,
            shape: parent.shape,
            height,
            class,
            deadline: Time(parent.deadline.0.saturating_sub(parent.slack.0)),
            slack: parent.slack,
            caps: parent.caps,
            data_len: parent.data_len,
            layout,
            pend: layout.kids,
            ..Context::EMPTY
        };
        let child = self.contexts.begin(context, Time::NEVER).map_err(|_| (Code::NoResource, 0))?;
        if let Some((id, _)) = self.contexts.at(source)
            && let Ok(source) = self.contexts.get_mut(id)
        {
            source.readers += 1;
        }
        self.count_class(class, true);
        if rewrites {
            self.hand_header_down(id, child);
        }
        if layout.kids > 0 {
            self.write_kids(child);
        }
        Ok(child)
    }

    /// Whether a member that lives here does its part in a call now.
    fn runs_here(&self, call: CallId, node: Node) -> bool {
        let mut live = (0..self.contexts.capacity() as u32).filter_map(|at| self.contexts.at(at));
        live.any(|(id, context)| (context.call, context.node) == (call, node) || self.walks(id, call, node))
    }

    /// A request of a call has come for a member that lives here. Whether others of the same call are under way, whose members
    /// are looked for from now on before they take places, and whether one of them is this member's: the index knows nothing
    /// of those at home.
    pub(super) fn shares(&mut self, call: CallId, node: Node) -> (bool, bool) {
        let (mut shared, mut runs) = (false, false);
        if !self.is_household() || self.contexts.is_empty() {
            return (shared, runs);
        }
        self.each(|machine, id| {
            runs |= machine.walks(id, call, node);
            if let Ok(context) = machine.contexts.get_mut(id)
                && context.call == call
            {
                context.shared = true;
                shared = true;
                runs |= context.node == node;
            }
        });
        (shared, runs)
    }

    /// A child that lives here finds no room: the call goes on with its children when there is some, or a little later.
    pub(super) fn want_room(&mut self, id: Handle, now: Time) {
        let due = now + self.config.retry;
        let Ok(context) = self.contexts.get_mut(id) else { return };
        context.wants_room = true;
        context.ask_at = context.ask_at.min(due);
        self.arm(id);
        self.figures.busy += 1;
    }

    /// Where a child of a call has its place, if it lives here and has one.
    fn child_at_home(&self, id: Handle, at: u16, kid: Kid) -> Option<Handle> {
        let above = self.contexts.get(id).ok()?;
        let (child, context) = self.contexts.at(kid.place).filter(|_| kid.stand == Stand::Home)?;
        context.answers_to(id, above.call, at).then_some(child)
    }

    /// The place of the parent that a call at home answers to, and which child of it this is, if it waits for that.
    fn parent_at_home(&mut self, id: Handle) -> Option<(Handle, u16, Kid)> {
        let context = self.contexts.get(id).ok()?;
        let (call, (_, edge)) = (context.call, context.parent?);
        let (above, parent) = self.contexts.at(u32::from(edge.index))?;
        let waits = edge == edge_to(above, edge.ordinal) && parent.call == call && parent.takes_answers();
        let (_, kids) = self.with_kids(above).filter(|_| waits)?;
        // It may be about to be told to stop, and is waited for all the same.
        let kid = kids.get(edge.ordinal).filter(|kid| kid.is_open() && kid.place == id.index())?;
        Some((above, edge.ordinal, kid))
    }

    /// Gives the answer of a call to its parent, which lives here too.
    pub(super) fn tell_home(&mut self, id: Handle) -> Option<Action> {
        let parent = self.parent_at_home(id);
        if parent.is_none() {
            self.figures.stale += 1;
        }
        let context = self.contexts.get_mut(id).ok()?;
        if context.state == State::Answering {
            if let Some((above, at, kid)) = parent {
                self.answer_home(id, above, at, kid);
            }
            self.free(id);
            return None;
        }
        context.state = State::Draining;
        let (tallies, layout, count) = (context.tallies, context.layout, context.records);
        if let Some((above, at, _)) = parent {
            let start = id.index() as usize * self.slab;
            let memory = self.words.as_ref().get(start..start + self.slab)?.as_bytes();
            let read = |at| Record::parse(&mut Reader::new(memory.get(layout.record_range(at))?));
            let records: heapless::Vec<Record, RECORDS> = (0..count).filter_map(read).take(RECORDS).collect();
            self.kid_failed(above, at, tallies, records.into_iter());
        }
        self.ready(id);
        None
    }

    fn answer_home(&mut self, id: Handle, above: Handle, at: u16, kid: Kid) {
        let place = |id: Handle| id.index() as usize * self.slab..(id.index() as usize + 1) * self.slab;
        let Ok(context) = self.contexts.get(id) else { return };
        let (written, start) = (context.reply, usize::from(context.caps.header));
        let nodes = context.layout.members;
        let pair = [place(above), place(id)];
        let Ok(parent) = self.contexts.get_mut(above) else { return };
        let Ok([to, from]) = self.words.as_mut().get_disjoint_mut(pair) else { return };
        let bytes: &[u8] = from.as_bytes();
        let header = bytes.get(..usize::from(written.header)).unwrap_or(&[]);
        let data = bytes.get(start..start + written.data as usize).unwrap_or(&[]);
        if Self::take_answer(parent, to, at, kid, &Response { nodes, budget_us: None, header, data }) {
            self.ready(above);
        }
    }

    /// Has a child that lives here stop.
    pub(super) fn stop_home(&mut self, id: Handle, at: u16, kid: Kid, waits: bool) {
        let stand = if waits { Stand::Home } else { Stand::Over };
        let child = self.child_at_home(id, at, Kid { stand: Stand::Home, ..kid });
        self.set_kid(id, at, Kid { stand, ..kid });
        if let Some(child) = child {
            self.stop(child, waits);
        }
    }

    /// Settles what is below a call whose time is over, the deepest first.
    pub(super) fn time_out_below(&mut self, id: Handle) {
        while let Some(last) = self.last_at_home(id) {
            let Ok(context) = self.contexts.get(last) else { return };
            if !matches!(context.state, State::Answering | State::Failing) {
                self.time_out_one(last);
            }
            if self.contexts.get(last).is_ok_and(|context| matches!(context.state, State::Answering | State::Failing)) {
                // What is in a queue is told when its turn comes; that it is over already does no harm then.
                self.tell_early(last);
            } else {
                return;
            }
        }
    }

    /// Ends the calls at home to which nobody listens any more, when the time of the one whose request they read is over.
    pub(super) fn time_out_readers(&mut self, source: Handle) {
        if self.contexts.get(source).is_ok_and(|context| context.readers > 0) {
            self.each(|machine, id| {
                let reads = |context: &Context| context.at_home && context.source == source.index();
                if machine.contexts.get(id).is_ok_and(|context| reads(context) && context.is_going_on()) {
                    machine.time_out_one(id);
                }
            });
        }
    }

    /// Tells the parent now, while the call is in a queue still.
    fn tell_early(&mut self, id: Handle) {
        let parent = self.parent_at_home(id);
        let Ok(context) = self.contexts.get(id) else { return };
        if context.state == State::Failing {
            self.tell_home(id);
        } else if let Some((above, at, kid)) = parent {
            self.answer_home(id, above, at, kid);
            if let Ok(context) = self.contexts.get_mut(id) {
                context.state = State::Draining;
            }
            self.ready(id);
        }
    }

    /// The deepest call below this one that its parents wait for, down the first of them at every level.
    fn last_at_home(&mut self, id: Handle) -> Option<Handle> {
        let mut last = None;
        let mut above = id;
        while self.contexts.get(above).is_ok_and(Context::takes_answers) {
            let count = self.contexts.get(above).ok()?.layout.kids;
            let child = (0..count).find_map(|at| {
                let kid = self.with_kids(above)?.1.get(at)?;
                self.child_at_home(above, at, kid)
            });
            match child {
                Some(child) => (last, above) = (Some(child), child),
                None => break,
            }
        }
        last
    }

    /// Writes the table of children of a call, none of which has been asked.
    pub(super) fn write_kids(&mut self, id: Handle) {
        let Some((context, own, came)) = self.parts(id) else { return };
        context.stopped = false;
        if context.layout.kids > 0 {
            context.layout.keep_header(own.as_mut_bytes());
            let list = came.list(&context.layout);
            let mut kids = Kids::of(&context.layout, own);
            let shape = if context.led { Shape::CHAIN } else { context.shape };
            if list.is_stated() {
                kids.fill(pieces(shape, list));
            } else {
                kids.fill(shape.split(list.len()));
            }
        }
    }

    /// A call is not to go on: at once, or with an answer of what became of it.
    pub(super) fn stop(&mut self, id: Handle, waits: bool) {
        let Ok(context) = self.contexts.get_mut(id) else { return };
        if context.cancelled {
            return;
        }
        context.cancelled = true;
        match (context.state, waits) {
            (_, false) => self.abandon(id),
            (State::Queued, true) => self.fail(id, None),
            // What runs is not interrupted; its end sees that the call was cancelled.
            (State::Running, true) if !context.forwards() => {}
            (State::Gathering | State::Running, true) => self.drop_unsent(id),
            (_, true) => {}
        }
    }

    /// Whether failures end a call here at once.
    pub(super) fn is_fast(context: &Context) -> bool {
        !context.mode.contains(Mode::COLLECT)
    }
}
