//! Subtrees that live in one place.
//!
//! Everybody below a call does its part in that call's own place, in depth. If all members of a subtree live at one
//! machine, nothing of it can be lost, overtaken or interrupted: function, children, callback of each child follow one
//! another as in a recursion. So the call at the top walks down its list itself and keeps a *frame* for each level,
//! with the reply of the member that it has come to there. Nobody below has a place, a table of children or a timer; a
//! leaf costs its function and its parent's callback.
//!
//! A place for every level is kept back meanwhile, for a walk may have to end before everything is done: when a
//! function is [pending](Verdict::Pending), others need not wait for it. Then every member on the way down to it
//! *moves* into a place of its own, as if it had been there all the time, and the call goes on as others do.
//!
//! Failures are those of members with places: origin, stage, depth and tallies are the same.
//!
//! Invariants while a walk goes on: the places `1..next` of the list are done with, `next` and all after it are not
//! begun, unless the user's code runs there; the children in the call's own table count as dealt with, so that all
//! accounts are those of the frames.

use super::context::{Context, Out, Own};
use super::frame::{Frame, Role, Walk};
use super::machine::{Action, Handle, Machine};
use super::name::{CallId, Node};
use super::report::{Code, Record, Stage};
use super::storage::Storage;
use super::user::{data_of, failure};
use super::way::{Next, Pause, Way};
use super::work::{Verdict, Work};
use crate::error::Stale;
use crate::tree::Piece;

/// Runs of the user's code after which others have their turn.
const AT_ONCE: u64 = 100;

impl<S: Storage> Machine<S> {
    /// Begins to walk through everybody below a call, if all of them live here and there is room for their levels.
    pub(super) fn begin_walk(&mut self, id: Handle) {
        let Ok(context) = self.contexts.get_mut(id) else { return };
        context.walk.was_tried = true;
        let (class, levels, shared) = (context.class, context.layout.frames, context.shared);
        // Nothing was sent or dropped yet.
        let is_fresh = self.with_kids(id).is_some_and(|(_, kids)| kids.are_fresh());
        if shared || !is_fresh || !self.all_home(id) || !self.keep_back(class, levels) {
            return;
        }
        let Some((context, mut kids)) = self.with_kids(id) else { return };
        kids.dismiss();
        (context.pend, context.cursor) = (0, context.layout.kids);
        let all = Piece { start: 0, len: context.layout.members };
        let top = Frame::new(all, context.reply);
        context.walk = Walk { goes_on: true, was_tried: true, top, ..Walk::NONE };
    }

    /// Whether everybody in the list of a call lives here.
    fn all_home(&self, id: Handle) -> bool {
        let Some((context, came)) = self.came(id) else { return false };
        context.all_home || came.list(&context.layout).members().skip(1).all(|node| self.houses(node))
    }

    /// A place that is walked through.
    #[inline(always)]
    fn way(&mut self, id: Handle) -> Option<Way<'_>> {
        let room = self.slab * 8;
        let (context, own, came) = self.parts(id)?;
        let layout = &context.layout;
        let (list, all, (header, data)) = (came.list(layout), came.all(layout), came.header_and_data(layout));
        let data = data_of(context.mode, data);
        let (sent, rendezvous) = (context.sent(), context.rendezvous());
        Some(Way { context, own, list, all, header, data, sent, rendezvous, room })
    }

    /// The next run of a walk; `None` when it has ended.
    pub(super) fn walk(&mut self, id: Handle) -> Option<Action> {
        let mut way = self.way(id)?;
        let role = match way.next()? {
            Next::Run(role) => role,
            Next::Over => {
                self.give_up_walk(id);
                return None;
            }
            Next::Apart => {
                self.move_out(id, false);
                return None;
            }
            Next::Refused(code, aux) => {
                let child = way.context.walk.child;
                self.fail_child(id, child, (Stage::Setup, code, aux), child.len);
                return None;
            }
        };
        way.context.out = Out::Walk(role);
        let function = way.context.slots[role as usize];
        self.figures.at_home += u64::from(role == Role::Func);
        self.figures.runs += 1;
        Some(Action::Run { handle: id, function })
    }

    /// What the user's code of a member without a place is given.
    pub(super) fn work_of_walk(&mut self, id: Handle, role: Role) -> Option<Work<'_>> {
        self.way(id)?.into_work(role)
    }

    /// Runs the user's code that is [to be run](Action::Run), as [`work`](Self::work) and [`finish`](Self::finish) would, and
    /// goes on with that of other members of the call that live here, as long as nothing else is due and at most a
    /// hundred times. `user` is given the place of the function. What the last one said, and by which handle it is known.
    ///
    /// # Errors
    /// [`Stale`] unless the call's user code is to be run now.
    #[inline]
    pub fn run_on(
        &mut self,
        handle: Handle,
        mut user: impl FnMut(u16, &mut Work<'_>) -> Verdict,
    ) -> Result<(Handle, Verdict), Stale> {
        let context = self.contexts.get(handle)?;
        let (out, slots) = (context.out, context.slots);
        let due = if let Out::Walk(role) = out {
            Some(role)
        } else {
            let function = slots[usize::from(out != Out::Func)];
            let verdict = user(function, &mut self.work(handle)?);
            let known = self.finish(handle, verdict)?;
            if !self.walks_on(handle) {
                return Ok((known, verdict));
            }
            None
        };
        let mut way = self.way(handle).ok_or(Stale)?;
        let (pause, runs) = way.go(due, AT_ONCE, user).ok_or(Stale)?;
        way.context.out = Out::Nothing;
        self.figures.runs += runs.all;
        self.figures.at_home += runs.funcs;
        match pause {
            Pause::Said(role, verdict) => Ok((self.finish_walk(handle, role, verdict)?, verdict)),
            Pause::Over | Pause::Due => {
                if matches!(pause, Pause::Over) {
                    self.give_up_walk(handle);
                }
                self.go_on(handle);
                Ok((handle, Verdict::Done))
            }
        }
    }

    /// Whether the walk of a call whose function has just ended begins, and nothing else is due before.
    fn walks_on(&mut self, id: Handle) -> bool {
        // Whoever was pending may have made calls, which are its driver's to end first.
        let is_next = |context: &Context| context.may_walk() && !context.probed;
        let is_next = self.walker == Some(id) && self.contexts.get(id).is_ok_and(is_next);
        if !is_next || !self.queue.is_empty() || self.line.has_news() {
            return false;
        }
        self.begin_walk(id);
        let begins = self.contexts.get(id).is_ok_and(|context| context.walk.goes_on);
        if begins {
            self.walker = None;
        }
        begins
    }

    /// The user's code of a member without a place has returned. The handle by which it is known if it is pending.
    pub(super) fn finish_walk(&mut self, id: Handle, role: Role, verdict: Verdict) -> Result<Handle, Stale> {
        let way = self.way(id).ok_or(Stale)?;
        way.context.out = Out::Nothing;
        let mut known = id;
        if !way.context.walk.goes_on {
            // It ended meanwhile: nobody asks for this any more.
            self.figures.stale += 1;
            self.ready(id);
            return Ok(id);
        }
        let (child, overflow) = (way.context.walk.child, way.overflow(role));
        let answers = match role {
            Role::Callback => Some(self.member(id, child.start).ok_or(Stale)?),
            Role::Func => None,
        };
        match failure(answers, verdict, overflow) {
            Some(why) if answers.is_some() => self.fail_top(id, why),
            Some(why) => self.fail_child(id, child, why, 1),
            None if verdict == Verdict::Pending && answers.is_none() => {
                known = self.move_out(id, true).unwrap_or(id);
            }
            None => self.way(id).ok_or(Stale)?.done(role),
        }
        self.go_on(id);
        Ok(known)
    }

    /// A walk goes on before anything else, or after that of another one.
    pub(super) fn go_on(&mut self, id: Handle) {
        if self.walker.is_none() {
            self.walker = Some(id);
        } else {
            self.ready(id);
        }
    }

    /// The child at hand has failed; nobody below it is reached.
    fn fail_child(&mut self, id: Handle, child: Piece, (stage, code, aux): (Stage, Code, u32), count: u32) {
        let (Some(origin), Ok(context)) = (self.member(id, child.start), self.contexts.get_mut(id)) else { return };
        let walk = &mut context.walk;
        let depth = depth(context.class, walk.level + 1);
        walk.top.failed += 1;
        walk.top.unreached += child.len - 1;
        walk.top.pass(child);
        self.has_failed(id, Record { origin, stage, code, depth, aux, count });
    }

    /// The member has failed whose children are dealt with; those of them that are left are not reached.
    fn fail_top(&mut self, id: Handle, (stage, code, aux): (Stage, Code, u32)) {
        let Some(record) = self.blame_top(id, stage, code, aux) else { return };
        self.has_failed(id, record);
    }

    fn blame_top(&mut self, id: Handle, stage: Stage, code: Code, aux: u32) -> Option<Record> {
        let origin = self.member(id, self.contexts.get(id).ok()?.walk.top.piece.start)?;
        let context = self.contexts.get_mut(id).ok()?;
        let walk = &mut context.walk;
        let depth = depth(context.class, walk.level);
        match walk.level {
            0 => context.own = Own::Failed,
            _ => walk.top.failed += 1,
        }
        walk.top.next = walk.child.start + walk.child.len;
        walk.top.unreached += walk.top.end() - walk.top.next;
        walk.top.next = walk.top.end();
        Some(Record { origin, stage, code, depth, aux, count: 1 })
    }

    fn has_failed(&mut self, id: Handle, record: Record) {
        if self.contexts.get(id).is_ok_and(Self::is_fast) {
            self.fail(id, Some(record));
        } else {
            self.record(id, record);
            self.ready(id);
        }
    }

    /// The time of a walk is over: who it has come to is named.
    pub(super) fn time_out_walk(&mut self, id: Handle) {
        let Ok(context) = self.contexts.get_mut(id) else { return };
        let (walk, all) = (&mut context.walk, context.layout.members);
        let combines = walk.combines || context.out == Out::Walk(Role::Callback);
        let record = if combines || walk.top.next >= all {
            walk.combines = false;
            self.blame_top(id, Stage::Callback, Code::Timeout, 0)
        } else {
            let (at, is_begun) = (walk.top.next, context.out == Out::Walk(Role::Func));
            let stage = if is_begun { Stage::Func } else { Stage::Setup };
            let depth = depth(context.class, walk.level + 1);
            walk.top.failed += 1;
            walk.top.next += 1;
            self.member(id, at).map(|origin| Record { origin, stage, code: Code::Timeout, depth, aux: 0, count: 1 })
        };
        self.account(id, 0);
        self.fail(id, record);
    }

    /// Ends a walk that is not to go on, or has nothing left to do.
    pub(super) fn give_up_walk(&mut self, id: Handle) {
        let Ok(context) = self.contexts.get_mut(id) else { return };
        let walk = &mut context.walk;
        if !walk.goes_on {
            return;
        }
        let began = context.out == Out::Walk(Role::Func);
        if walk.combines || context.out == Out::Walk(Role::Callback) {
            walk.top.pass(walk.child);
        } else if began {
            walk.top.next += 1;
        }
        if walk.level == 0 {
            context.reply = walk.top.reply;
        }
        self.account(id, u32::from(began));
    }

    /// Ends a walk: everybody before its next place is done with, so many of them without anybody knowing how it went.
    fn account(&mut self, id: Handle, unknown: u32) {
        let Some((context, memory)) = self.both(id) else { return };
        let Context { walk, layout, tallies, class, .. } = context;
        let (mut failed, mut unreached) = (walk.top.failed, walk.top.unreached);
        for frame in (0..walk.level).filter_map(|level| Frame::load(layout, memory, level)) {
            failed += frame.failed;
            unreached += frame.unreached;
        }
        tallies.ok += walk.top.next - 1 - failed - unreached - unknown;
        tallies.failed += failed;
        tallies.unreached += unreached + layout.members - walk.top.next;
        tallies.unknown += unknown;
        // User code that still runs sees the rest.
        (walk.goes_on, walk.combines) = (false, false);
        let (class, levels) = (*class, layout.frames);
        self.let_go(class, levels);
        self.has_room();
    }

    /// Whether a member does its part in a call in the place of this one now.
    pub(super) fn walks(&self, id: Handle, call: CallId, node: Node) -> bool {
        let Ok(context) = self.contexts.get(id) else { return false };
        let (walk, start) = (&context.walk, id.index() as usize * self.slab);
        let Some(memory) = self.words.as_ref().get(start..start + self.slab) else { return false };
        let runs = matches!(context.out, Out::Walk(_));
        if context.call != call || !(walk.goes_on || runs) {
            return false;
        }
        let at_hand = (runs || walk.combines).then_some(walk.child);
        let above = (1..walk.level).filter_map(|level| Frame::load(&context.layout, memory, level));
        let mut pieces = above.map(|frame| frame.piece).chain([walk.top.piece]).chain(at_hand);
        pieces.any(|piece| self.member(id, piece.start) == Some(node))
    }
}

/// How deep a member of this level is.
pub(super) const fn depth(class: u8, level: u16) -> u8 {
    class.saturating_add(if level > 255 { 255 } else { level as u8 })
}
