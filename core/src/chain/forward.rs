//! Down the tree: requests, questions, cancellations, and what becomes of children.

use zerocopy::IntoBytes;

use super::context::{Context, NO_KID, Out, Own, State, edge_to};
use super::kids::{Kid, Kids, Stand};
use super::machine::{Action, Handle, Machine};
use super::message::{Head, Kind, Request};
use super::mode::Mode;
use super::name::Node;
use super::notes::refused;
use super::report::{Code, Record, Stage, Tallies};
use super::storage::Storage;
use crate::time::{Lapse, Time};

/// What was done about the children of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// A message is to be sent.
    Message(Action),
    /// A child that lives here has taken its place.
    Home(Handle),
    /// Nothing is due, or the call does not go on.
    Nothing,
}

impl<S: Storage> Machine<S> {
    /// Does the next thing that is due to a child; `None` if the call is damaged.
    pub(super) fn send_next(&mut self, id: Handle, now: Time, buffer: &mut [u8]) -> Option<Sent> {
        loop {
            let (context, kids) = self.with_kids(id)?;
            let turn = context.cursor;
            if turn >= context.layout.kids {
                return Some(Sent::Nothing);
            }
            let at = context.kid_at(turn);
            let kid = kids.get(at).filter(|kid| kid.stand.is_due());
            let Some(kid) = kid else {
                context.cursor += 1;
                continue;
            };
            let (from, class) = (context.node, context.class_below());
            let to = self.member(id, kid.piece.start)?;
            let peer = self.peers.as_ref().get(to.index());
            if peer.is_some_and(|peer| peer.at_home) {
                if kid.stand != Stand::ToSend {
                    self.contexts.get_mut(id).ok()?.cursor += 1;
                    let waits = self.contexts.get(id).is_ok_and(Context::takes_answers);
                    self.figures.cancels += 1;
                    self.stop_home(id, at, kid, waits);
                    continue;
                }
                match self.adopt(id, at, kid, to) {
                    Ok(child) => return Some(Sent::Home(child)),
                    Err((Code::NoResource, _)) => {
                        self.want_room(id, now);
                        return Some(Sent::Nothing);
                    }
                    Err(why) => self.refuse_for(id, at, to, why, kid.piece.len)?,
                }
                if self.contexts.get(id).is_ok_and(Context::forwards) {
                    continue;
                }
                return Some(Sent::Nothing);
            }
            if kid.stand == Stand::ToSend && peer.is_none_or(|peer| peer.dead) {
                let code = if peer.is_none() { Code::UnknownId } else { Code::PeerDead };
                self.lose(id, at, Stage::Forward, code, to, kid.is_unasked());
                if self.contexts.get(id).is_ok_and(Context::forwards) {
                    continue;
                }
                return Some(Sent::Nothing);
            }
            let Some(class) = class else {
                self.refuse_for(id, at, to, (Code::Malformed, 0), kid.piece.len)?;
                if self.contexts.get(id).is_ok_and(Context::forwards) {
                    continue;
                }
                return Some(Sent::Nothing);
            };
            let len_bytes = self.emit_down(id, at, kid, class, now, buffer)?;
            let ask_at = now + self.config.ask;
            let context = self.contexts.get_mut(id).ok()?;
            context.cursor += 1;
            if kid.stand == Stand::ToSend && ask_at < context.ask_at {
                context.ask_at = ask_at;
                self.arm(id);
            }
            return Some(Sent::Message(Action::Send { from, to, len_bytes }));
        }
    }

    /// Refuses a call in the name of a child that cannot carry it out, and that nothing is sent to for that.
    fn refuse_for(&mut self, id: Handle, at: u16, origin: Node, (code, aux): (Code, u32), count: u32) -> Option<()> {
        let context = self.contexts.get_mut(id).ok()?;
        context.cursor += 1;
        let depth = context.class_below().unwrap_or(u8::MAX);
        let record = Record { origin, stage: Stage::Setup, code, depth, aux, count };
        self.kid_failed(id, at, refused(&record), [record].into_iter());
        Some(())
    }

    /// Until when a child of a call has, in microseconds.
    fn budget_below(deadline: Time, height: u8, now: Time) -> u32 {
        let left = deadline.since(now);
        u32::try_from((left.0 - Self::slack(left, height).0) / 1000).unwrap_or(u32::MAX).max(1)
    }

    /// Writes the message that is due to a child in its class; it is not due any more.
    fn emit_down(&mut self, id: Handle, at: u16, kid: Kid, class: u8, now: Time, buffer: &mut [u8]) -> Option<usize> {
        let (context, own, came) = self.parts(id)?;
        let edge = edge_to(id, at);
        let attempts = kid.attempts.saturating_add(1);
        let head = Head { class, attempt: attempts, ..Head::new(Kind::Request, context.call, edge) };
        let (emitted, changed) = match kid.stand {
            Stand::ToSend => {
                let list = came.packed(&context.layout, kid.piece)?;
                let data = came.data(&context.layout);
                let header = context.layout.header_below(own.as_bytes(), context.at_home);
                let request = Request {
                    mode: context.mode,
                    func: context.func,
                    callback: context.callback,
                    slots: context.slots,
                    shape: context.shape,
                    height: context.height.saturating_sub(1),
                    caps: context.caps,
                    budget_us: Self::budget_below(context.deadline, context.height, now),
                    list,
                    header: header.unwrap_or_else(|| came.header(&context.layout)),
                    data,
                    data_len: context.data_len,
                };
                let head = Head { mode: context.mode, a: list.len, b: data.len() as u32, ..head };
                let heard = if kid.attempts == 0 { now } else { kid.heard };
                (request.emit(&head, buffer), Kid { stand: Stand::Sent, attempts, heard, ..kid })
            }
            Stand::ToAsk => {
                let head = Head { kind: Kind::Ask, a: kid.piece.len, ..head };
                (head.emit_bare(buffer), Kid { stand: Stand::Heard, ..kid })
            }
            _ => {
                // Whoever still takes answers waits for the one to this, too.
                let waits = context.takes_answers();
                let mode = if waits { Mode::COLLECT } else { Mode::empty() };
                let stand = if waits { Stand::Heard } else { Stand::Over };
                let head = Head { kind: Kind::Cancel, mode, a: kid.piece.len, ..head };
                (head.emit_bare(buffer), Kid { stand, ..kid })
            }
        };
        Kids::of(&context.layout, own).set(at, changed);
        debug_assert!(emitted.is_ok(), "the buffer holds the longest message");
        let len = emitted.ok()?;
        match kid.stand {
            Stand::ToSend => {
                self.figures.requests += 1;
                self.figures.request_bytes += len as u64;
            }
            Stand::ToAsk => self.figures.asks += 1,
            _ => self.figures.cancels += 1,
        }
        Some(len)
    }

    /// The member at this place of a call's list.
    pub(super) fn member(&self, id: Handle, place: u32) -> Option<Node> {
        let context = self.contexts.get(id).ok()?;
        let start = context.source as usize * self.slab;
        let memory = self.words.as_ref().get(start..start + self.slab)?.as_bytes();
        let at = context.layout.id_at(place)?;
        memory.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes).map(Node)
    }

    /// A child is lost to this call, and with it what is below it.
    pub(super) fn lose(&mut self, id: Handle, at: u16, stage: Stage, code: Code, origin: Node, never_asked: bool) {
        let Some((context, kids)) = self.with_kids(id) else { return };
        let Some(kid) = kids.get(at) else { return };
        let rest = kid.piece.len - 1;
        let (unreached, unknown) = if never_asked { (rest, 0) } else { (0, rest) };
        let record = Record { origin, stage, code, depth: context.class, aux: 0, count: kid.piece.len };
        self.kid_failed(id, at, Tallies { ok: 0, failed: 1, unreached, unknown }, [record].into_iter());
    }

    /// A child has failed; so has the call, unless it collects failures.
    pub(super) fn kid_failed(&mut self, id: Handle, at: u16, tallies: Tallies, records: impl Iterator<Item = Record>) {
        for record in records {
            self.record(id, record);
        }
        let Some((context, mut kids)) = self.with_kids(id) else { return };
        let Some(kid) = kids.get(at) else { return };
        kids.set(at, Kid { stand: Stand::Over, ..kid });
        context.pend -= 1;
        context.tallies.add(tallies);
        if Self::is_fast(context) {
            self.fail(id, None);
        } else if context.mode.contains(Mode::CANCEL_ON_FAIL) {
            self.drop_unsent(id);
        } else {
            self.ready(id);
        }
    }

    /// Time has passed; call it at [`deadline`](Self::deadline), more often does no harm.
    pub fn on_time(&mut self, now: Time) {
        self.lapse(now);
        while let Some(id) = self.contexts.due(now) {
            let Ok(context) = self.contexts.get(id) else { return };
            if context.deadline <= now && !context.at_home {
                self.time_out(id);
            } else {
                self.ask(id, now);
            }
            self.arm(id);
        }
    }

    fn time_out(&mut self, id: Handle) {
        self.time_out_below(id);
        self.time_out_one(id);
        self.time_out_readers(id);
    }

    /// The time of this call is over, whatever that means for those below it.
    pub(super) fn time_out_one(&mut self, id: Handle) {
        let Ok(context) = self.contexts.get_mut(id) else { return };
        let origin = context.node;
        (context.deadline, context.ask_at) = (Time::NEVER, Time::NEVER);
        let own = |context: &Context, stage| Record {
            origin,
            stage,
            code: Code::Timeout,
            depth: context.class,
            aux: 0,
            count: 1,
        };
        if matches!(context.state, State::Queued | State::Running) {
            let stage = if context.state == State::Queued { Stage::Setup } else { Stage::Func };
            context.own = Own::Failed;
            let record = own(context, stage);
            return self.fail(id, Some(record));
        }
        if context.state != State::Gathering {
            return;
        }
        if context.walk.goes_on {
            return self.time_out_walk(id);
        }
        if context.pend == 0 && context.parked.0 == NO_KID && context.out == Out::Nothing {
            // All is said already.
            self.gather(id);
            return self.ready(id);
        }
        let (kids, wanted_room) = (context.layout.kids, context.wants_room);
        let mut lost = false;
        for at in 0..kids {
            let Some(kid) = self.with_kids(id).and_then(|(_, kids)| kids.get(at)).filter(Kid::is_open) else {
                continue;
            };
            let Some(origin) = self.member(id, kid.piece.start) else { continue };
            lost = true;
            match kid.attempts {
                0 if wanted_room => self.lose(id, at, Stage::Forward, Code::NoResource, origin, true),
                0 => self.lose(id, at, Stage::Forward, Code::Timeout, origin, true),
                _ if kid.refused => self.lose(id, at, Stage::Forward, Code::NoResource, origin, kid.is_unasked()),
                _ => self.lose(id, at, Stage::Child, Code::Timeout, origin, false),
            }
            if self.contexts.get(id).is_ok_and(|context| context.state != State::Gathering) {
                return;
            }
        }
        let Ok(context) = self.contexts.get_mut(id) else { return };
        // If all answers are here, combining them took too long, unless they had to wait for one whose failure has come only now.
        let failed_below = context.tallies.ok != context.tallies.total();
        let slow = !lost && (context.out != Out::Nothing || !failed_below);
        let record = slow.then(|| own(context, Stage::Callback));
        if slow {
            context.own = Own::Failed;
        }
        self.fail(id, record);
    }

    /// Asks the children that have not answered, and gives up those that have been silent for too long.
    fn ask(&mut self, id: Handle, now: Time) {
        let config = self.config;
        let (again, silence) = (config.ask, config.silence);
        let repeats = again != Lapse(u64::MAX);
        let Some((context, mut kids)) = self.with_kids(id) else { return };
        let (mut due, mut silent) = (Time::NEVER, None);
        kids.update(|at, kid| {
            let stand = match kid.stand {
                Stand::Sent if repeats => Stand::ToSend,
                Stand::Busy => Stand::ToSend,
                Stand::Heard if repeats => Stand::ToAsk,
                _ => return None,
            };
            // Who had no room was left alone for so long; where its way had none, nothing was heard of it.
            let patience = config.patience(kid.attempts);
            let left_alone = if kid.stand == Stand::Busy { patience } else { Lapse(0) };
            if repeats && silent.is_none() && now.since(kid.heard) >= Lapse(silence.0.saturating_add(left_alone.0)) {
                silent = Some(at);
            }
            due = due.min(now + if kid.stand == Stand::Busy { patience } else { again });
            Some(Kid { stand, ..kid })
        });
        context.ask_at = due;
        (context.cursor, context.wants_room) = (0, false);
        self.ready(id);
        if let Some(at) = silent
            && let Some((_, kid)) = self.with_kids(id).and_then(|(_, kids)| Some((0, kids.get(at)?)))
            && let Some(origin) = self.member(id, kid.piece.start)
        {
            self.lose(id, at, Stage::Child, Code::Timeout, origin, false);
        }
    }
}
