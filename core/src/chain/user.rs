//! Running the user's code: when it is due, and what follows from it.

use super::below::HeaderBelow;
use super::context::{Context, NO_KID, Out, Own, State};
use super::kids::{Kid, Kids, Stand};
use super::machine::{Action, Handle, Machine};
use super::message::span_of;
use super::mode::Mode;
use super::name::Node;
use super::reply::Reply;
use super::report::{Code, Record, Stage};
use super::storage::Storage;
use super::work::{Answer, Data, Phase, Verdict, Work};
use zerocopy::IntoBytes;

use crate::error::Stale;

/// What a call that gathers answers does next.
pub(super) enum Gathered {
    Run(u16),
    Wait,
    Over,
}

impl<S: Storage> Machine<S> {
    /// The first thing of a call: run its function, unless its maker only coordinates.
    pub(super) fn begin(&mut self, id: Handle) -> Option<Action> {
        let context = self.contexts.get_mut(id).ok()?;
        if context.takes_part {
            context.state = State::Running;
            return self.run(id, Out::Func);
        }
        (context.state, context.own) = (State::Gathering, Own::Ok);
        self.ready(id);
        None
    }

    pub(super) fn run(&mut self, id: Handle, out: Out) -> Option<Action> {
        let context = self.contexts.get_mut(id).ok()?;
        (context.out, context.woken) = (out, false);
        let role = if out == Out::Func { 0 } else { 1 };
        if out == Out::Func {
            context.own = Own::Began;
        }
        self.figures.runs += 1;
        Some(Action::Run { handle: id, function: context.slots[role] })
    }

    /// Which answer is to be combined next, or that all are.
    pub(super) fn gather(&mut self, id: Handle) -> Gathered {
        let Some((context, mut kids)) = self.with_kids(id) else { return Gathered::Wait };
        let combines = !context.cancelled && context.own == Own::Ok;
        if !combines {
            pass_over(context, &mut kids);
        }
        let mut before = NO_KID;
        let mut at = context.parked.0;
        let in_order = context.mode.contains(Mode::ORDERED);
        if combines && !in_order && at != NO_KID {
            let Some(kid) = kids.get(at) else { return Gathered::Wait };
            kids.set(at, Kid { stand: Stand::Over, next: NO_KID, ..kid });
            context.pend -= 1;
            context.parked = if kid.next == NO_KID { (NO_KID, NO_KID) } else { (kid.next, context.parked.1) };
            return Gathered::Run(at);
        }
        while at != NO_KID {
            let Some(kid) = kids.get(at) else { break };
            let is_next = !in_order || kids.iter().take(usize::from(at)).all(|(_, kid)| kid.is_over());
            if is_next {
                self.unpark(id, before, at);
                return Gathered::Run(at);
            }
            (before, at) = (at, kid.next);
        }
        if context.pend > 0 {
            return Gathered::Wait;
        }
        let well = combines && context.records == 0 && context.tallies.ok == context.tallies.total();
        match (well, context.is_root()) {
            (true, true) => self.end(id),
            (true, false) => context.state = State::Answering,
            (false, _) => self.fail(id, None),
        }
        Gathered::Over
    }

    /// Takes an answer out of the parked ones; it counts as dealt with from now on.
    fn unpark(&mut self, id: Handle, before: u16, at: u16) {
        let Some((context, mut kids)) = self.with_kids(id) else { return };
        let Some(kid) = kids.get(at) else { return };
        kids.set(at, Kid { stand: Stand::Over, next: NO_KID, ..kid });
        context.pend -= 1;
        if let Some(earlier) = kids.get(before) {
            kids.set(before, Kid { next: kid.next, ..earlier });
        } else {
            context.parked.0 = kid.next;
        }
        if context.parked.1 == at {
            context.parked.1 = before;
        }
    }

    /// What the user's code of a call that is [to be run](Action::Run) is given.
    ///
    /// # Errors
    /// [`Stale`] unless the call's user code is to be run now.
    pub fn work(&mut self, handle: Handle) -> Result<Work<'_>, Stale> {
        if let Out::Walk(role) = self.contexts.get(handle)?.out {
            return self.work_of_walk(handle, role).ok_or(Stale);
        }
        let (context, memory, came) = self.parts(handle).ok_or(Stale)?;
        let (layout, caps) = (&context.layout, context.sent());
        let child = match context.out {
            Out::Nothing | Out::Walk(_) => return Err(Stale),
            Out::Func => None,
            Out::Callback(at) => Some((at, Kids::of(layout, memory).get(at).ok_or(Stale)?)),
        };
        let header_max = usize::from(caps.header);
        let (own, rest) = memory.as_mut_bytes().split_at_mut_checked(layout.reply_len()).ok_or(Stale)?;
        let at_home = context.at_home;
        let (rest, below, given) = layout.split_below(rest, at_home).ok_or(Stale)?;
        // All offsets count from the start of the memory, which the reply takes.
        let parked = |at: u16| {
            let range = layout.park_range(at);
            let start = range.start.checked_sub(layout.reply_len());
            start.and_then(|start| rest.get(start..start + range.len())).unwrap_or(&[])
        };
        let list = came.list(layout);
        let phase = match child {
            None if context.probed => Phase::Probe,
            None => Phase::Init,
            Some((at, kid)) => {
                let (header, data) = parked(at).split_at_checked(header_max).unwrap_or((&[], &[]));
                let header = header.get(..usize::from(kid.reply_header)).unwrap_or(&[]);
                let data = data.get(..kid.reply_data as usize).unwrap_or(&[]);
                let from = list.id(kid.piece.start).ok_or(Stale)?;
                let (members, last) = (kid.piece.len, context.pend == 0);
                Phase::Wait(Answer { from, members, last, header, data })
            }
        };
        let (sent, data) = came.header_and_data(layout);
        let sent = given.unwrap_or(sent);
        // Whom a callback hears of was asked before.
        let below = below.filter(|_| child.is_none()).map(HeaderBelow);
        let data = data_of(context.mode, data);
        let (header, rest) = own.split_at_mut_checked(header_max).ok_or(Stale)?;
        let place = rest.get_mut(..caps.data as usize).ok_or(Stale)?;
        let (call, node, rendezvous) = (context.call, context.node, context.rendezvous());
        let all = came.all(layout);
        let reply = Reply { header, data: place, written: &mut context.reply };
        let parent = context.parent.map(|(parent, _)| parent);
        Ok(Work { phase, call, node, parent, header: sent, data, reply, rendezvous, below, all, ids: list.ids })
    }

    /// The user's code has returned. The handle by which the call is known that it ran for: the same one, unless it is the
    /// [pending](Verdict::Pending) function of a member that ran in the place of its parent until now.
    ///
    /// # Errors
    /// [`Stale`] unless the call's user code was to be run.
    pub fn finish(&mut self, handle: Handle, verdict: Verdict) -> Result<Handle, Stale> {
        let context = self.contexts.get_mut(handle)?;
        let out = match context.out {
            Out::Nothing => return Err(Stale),
            Out::Walk(role) => return self.finish_walk(handle, role, verdict),
            Out::Func | Out::Callback(_) => core::mem::replace(&mut context.out, Out::Nothing),
        };
        let (origin, depth) = (context.node, context.class);
        let failed = |(stage, code, aux)| Record { origin, stage, code, depth, aux, count: 1 };
        let (state, overflow) = (context.state, context.reply.overflow);
        let child = match out {
            // Of what went well nobody asks whose answer it was.
            Out::Callback(at) if verdict != Verdict::Done || overflow > 0 => Some(self.child(handle, at).ok_or(Stale)?),
            _ => None,
        };
        match (state, failure(child, verdict, overflow).map(failed)) {
            // It ended meanwhile: nobody asks for this any more.
            (State::Failing | State::Ended | State::Draining | State::Answering | State::Queued, _) => {}
            (_, Some(record)) => {
                self.contexts.get_mut(handle)?.own = Own::Failed;
                self.own_failure(handle, record);
            }
            (State::Running, None) if verdict == Verdict::Pending => {
                let context = self.contexts.get_mut(handle)?;
                context.probed = true;
                if !context.woken {
                    return Ok(handle);
                }
            }
            (State::Running, None) => {
                let context = self.contexts.get_mut(handle)?;
                context.own = Own::Ok;
                context.state = State::Gathering;
                if context.cancelled {
                    self.drop_unsent(handle);
                } else if context.may_walk() {
                    self.go_on(handle);
                    return Ok(handle);
                }
            }
            (State::Gathering, None) => {}
        }
        self.ready(handle);
        Ok(handle)
    }

    /// The child at this place of a call.
    fn child(&mut self, id: Handle, at: u16) -> Option<Node> {
        let (_, kids) = self.with_kids(id)?;
        let start = kids.get(at)?.piece.start;
        self.member(id, start)
    }

    /// Whether the function of a call was begun here, has not ended, and the call goes on: it is worth a
    /// [wake](Self::wake).
    #[must_use]
    pub fn is_pending(&self, handle: Handle) -> bool {
        self.contexts.get(handle).is_ok_and(|context| context.state == State::Running)
    }

    /// A function that said [`Verdict::Pending`] is to be run again.
    ///
    /// # Errors
    /// [`Stale`] if its call is over.
    pub fn wake(&mut self, handle: Handle) -> Result<(), Stale> {
        let context = self.contexts.get_mut(handle)?;
        if context.state == State::Running {
            context.woken = true;
            self.ready(handle);
        } else if matches!(context.out, Out::Walk(_)) {
            // Before it has said that it is pending.
            context.woken = true;
        }
        Ok(())
    }
}

/// Answers that are not to be combined count as dealt with, as many as there are.
fn pass_over(context: &mut Context, kids: &mut Kids<'_>) {
    let mut at = context.parked.0;
    while let Some(kid) = kids.get(at) {
        kids.set(at, Kid { stand: Stand::Over, next: NO_KID, ..kid });
        context.pend -= 1;
        at = kid.next;
    }
    context.parked = (NO_KID, NO_KID);
}

/// The data of a request, of the bytes that stand for it.
pub(super) fn data_of(mode: Mode, bytes: &[u8]) -> Data<'_> {
    let span = if mode.contains(Mode::SPAN) { span_of(bytes) } else { None };
    span.map_or(Data::Bytes(bytes), Data::Span)
}

/// What failed if a function, or the callback for this child, ended so, with so many bytes of reply that did not fit.
pub(super) fn failure(child: Option<Node>, verdict: Verdict, overflow: u32) -> Option<(Stage, Code, u32)> {
    let (stage, reply) = if child.is_some() { (Stage::Callback, Stage::Callback) } else { (Stage::Func, Stage::Reply) };
    let aux = |own: u32| child.map_or(own, |child| child.0);
    match verdict {
        Verdict::Panic => Some((stage, Code::Panic, aux(0))),
        _ if overflow > 0 => Some((reply, Code::ReplyTooLarge, overflow)),
        Verdict::Fault(number) => Some((stage, Code::Fault, aux(number))),
        Verdict::ReplyGone => Some((stage, Code::ReplyGone, aux(0))),
        Verdict::Undecodable(number) => Some((stage, Code::Undecodable, number)),
        // Nobody runs a callback again, so what it has not done is missing in the reply.
        Verdict::Pending => child.map(|child| (stage, Code::Fault, child.0)),
        Verdict::Done => None,
    }
}
