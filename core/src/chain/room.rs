//! Whose turn it is when a place comes free.
//!
//! Whoever finds no place stands in a line, in the order of asking: requests of members elsewhere, children that live here,
//! calls that functions of this machine make. A place that comes free is kept for the first of them whose class may have it,
//! and he is told. Nobody who asks later takes it, so everybody in line has his turn after those before him.
//!
//! He may be dead, or not want it any more, so a place is kept for a while only. Then it goes to the next one. Whoever comes
//! after that keeps his turn, and the next place is kept for twice as long: it suffices in the end, however slow he is.
//!
//! Invariants: nobody waits whose class may have a place now; a place that is kept counts as [lent](Machine::lent) and in
//! its class; nobody stands in line twice.

use super::context::{Context, NO_KID, edge_to};
use super::machine::{Action, Handle, Machine};
use super::message::{Head, Kind};
use super::name::{CallId, Edge, Life, Node};
use super::storage::Storage;
use crate::time::{Lapse, Time};

/// How often the time for which a place is kept is doubled at most.
const LATE_MAX: u8 = 6;

/// What somebody in line can expect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// A place, when there is one.
    Waits,
    /// One is kept for him, which he is to be told.
    Kept,
    /// One is kept for him until then, which he knows.
    Told(Time),
    /// He did not come in time. If he asks again he has his old turn.
    Late,
}

/// Somebody who found no place; a [`Machine`] is lent an array of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// Which member that lives here was asked; whoever lives here asks himself.
    at: Node,
    who: Node,
    call: CallId,
    edge: Edge,
    attempt: u8,
    class: u8,
    /// How often he did not come in time.
    late: u8,
    turn: Turn,
}

impl Waiter {
    /// A place in line where nobody stands.
    pub const EMPTY: Waiter = Waiter {
        at: Node(0),
        who: Node(0),
        call: CallId { root: Node(0), life: Life(0), seq: 0 },
        edge: Edge { index: 0, generation: 0, ordinal: 0 },
        attempt: 0,
        class: 0,
        late: 0,
        turn: Turn::Waits,
    };

    /// The sender of a request to one of ours.
    pub(super) const fn of_request((from, to): (Node, Node), head: &Head) -> Waiter {
        let Head { call, edge, attempt, class, .. } = *head;
        Waiter { at: to, who: from, call, edge, attempt, class, ..Waiter::EMPTY }
    }

    /// A child of this call that lives here, in its class.
    pub(super) fn of_child(above: Handle, context: &Context, class: u8) -> Waiter {
        let Context { node, call, .. } = *context;
        Waiter { at: node, who: node, call, edge: edge_to(above, 0), class, ..Waiter::EMPTY }
    }

    /// A call that a function makes as part of this one.
    fn of_start(outer: Handle, context: &Context, class: u8) -> Waiter {
        Waiter { edge: edge_to(outer, NO_KID), ..Waiter::of_child(outer, context, class) }
    }

    fn is(&self, other: &Waiter) -> bool {
        (self.at, self.who, self.call, self.edge) == (other.at, other.who, other.call, other.edge)
    }

    const fn holds(&self) -> bool {
        matches!(self.turn, Turn::Kept | Turn::Told(_))
    }
}

impl Default for Waiter {
    fn default() -> Self {
        Waiter::EMPTY
    }
}

/// How many stand in line, over lent places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Line {
    len: usize,
    /// Those for whom no place is kept yet.
    waits: usize,
    /// Those who are to be told of theirs.
    kept: usize,
    /// When a place is not kept any longer.
    until: Time,
}

impl Line {
    pub(super) const EMPTY: Line = Line { len: 0, waits: 0, kept: 0, until: Time::NEVER };

    /// Whether somebody is to be told of a place.
    #[inline]
    pub(super) const fn has_news(&self) -> bool {
        self.kept > 0
    }

    /// When somebody's time to come is over.
    #[inline]
    pub(super) const fn until(&self) -> Time {
        self.until
    }

    /// Counts anew, after a change.
    fn count(&mut self, waiters: &[Waiter]) {
        let all = || waiters.iter().take(self.len).map(|waiter| waiter.turn);
        let told = |turn| if let Turn::Told(until) = turn { Some(until) } else { None };
        let until = all().filter_map(told).min().unwrap_or(Time::NEVER);
        let (waits, kept) = (all().filter(|turn| *turn == Turn::Waits), all().filter(|turn| *turn == Turn::Kept));
        (self.waits, self.kept, self.until) = (waits.count(), kept.count(), until);
        if (self.waits, self.kept, self.until) == (0, 0, Time::NEVER) {
            // Whoever was late has nobody left to come before.
            self.len = 0;
        }
    }

    fn remove(&mut self, waiters: &mut [Waiter], at: usize) {
        waiters.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    /// Has somebody stand at this place; false if there is no room.
    fn insert(&mut self, waiters: &mut [Waiter], at: usize, waiter: Waiter) -> bool {
        let mut at = at.min(self.len);
        if self.len == waiters.len() {
            let late = waiters.iter().position(|waiter| waiter.turn == Turn::Late);
            let Some(late) = late else { return false };
            self.remove(waiters, late);
            at -= usize::from(late < at);
        }
        waiters.copy_within(at..self.len, at + 1);
        waiters[at] = waiter;
        self.len += 1;
        true
    }
}

/// Where somebody stood in line, and how often he was late.
pub(super) type Stood = (usize, u8);

impl<S: Storage> Machine<S> {
    /// Puts somebody in line who found no place, where he stood if he did. If too many wait, he asks again by himself.
    pub(super) fn await_room(&mut self, waiter: Waiter, stood: Option<Stood>) {
        let (at, late) = stood.unwrap_or((self.line.len, 0));
        let waiters = self.waiters.as_mut();
        self.line.insert(waiters, at, Waiter { late, turn: Turn::Waits, ..waiter });
        self.line.count(waiters);
    }

    /// Takes somebody out of the line who asks for a place now; where he stood, if he did. If a place was kept for him, it
    /// is free for him: whoever does not take it says that there [is room](Self::has_room).
    #[inline]
    pub(super) fn step_forward(&mut self, who: &Waiter) -> Option<Stood> {
        if self.line.len == 0 { None } else { self.leave_line(|waiter| waiter.is(who)) }
    }

    fn leave_line(&mut self, which: impl Fn(&Waiter) -> bool) -> Option<Stood> {
        let at = self.waiters.as_ref().iter().take(self.line.len).position(which)?;
        let waiter = *self.waiters.as_ref().get(at)?;
        self.keep_no_longer(&waiter);
        let waiters = self.waiters.as_mut();
        self.line.remove(waiters, at);
        self.line.count(waiters);
        Some((at, waiter.late))
    }

    /// Somebody who died wants no place.
    pub(super) fn forget_waiter(&mut self, node: Node) {
        while self.leave_line(|waiter| waiter.who == node).is_some() {}
        self.has_room();
    }

    fn keep_no_longer(&mut self, waiter: &Waiter) {
        if waiter.holds() {
            self.lent -= 1;
            self.count_class(waiter.class, false);
        }
    }

    /// There may be room for one more: it is kept for whoever has waited longest for it.
    #[inline]
    pub(super) fn has_room(&mut self) {
        if self.line.waits > 0 {
            self.keep_room();
        }
    }

    fn keep_room(&mut self) {
        for at in 0..self.line.len {
            let Some(&Waiter { class, turn: Turn::Waits, .. }) = self.waiters.as_ref().get(at) else { continue };
            if self.admits(class) {
                self.count_class(class, true);
                self.lent += 1;
                self.set_turn(at, Turn::Kept);
            }
        }
        self.line.count(self.waiters.as_ref());
    }

    fn set_turn(&mut self, at: usize, turn: Turn) {
        if let Some(waiter) = self.waiters.as_mut().get_mut(at) {
            waiter.late = (waiter.late + u8::from(turn == Turn::Late)).min(LATE_MAX);
            waiter.turn = turn;
        }
    }

    /// Tells the next one of the place that is kept for him.
    pub(super) fn tell_waiter(&mut self, now: Time, buffer: &mut [u8]) -> Option<Action> {
        loop {
            let mut line = self.waiters.as_ref().iter().take(self.line.len);
            let at = line.position(|waiter| waiter.turn == Turn::Kept)?;
            let waiter = *self.waiters.as_ref().get(at)?;
            let until = now + Lapse(self.config.retry.0.saturating_mul(4 << waiter.late));
            self.set_turn(at, Turn::Told(until));
            self.line.count(self.waiters.as_ref());
            let Waiter { at, who, call, edge, attempt, .. } = waiter;
            if !self.houses(who) {
                self.figures.credits += 1;
                let len_bytes = Head { attempt, ..Head::new(Kind::Credit, call, edge) }.emit_bare(buffer).ok()?;
                return Some(Action::Send { from: at, to: who, len_bytes });
            }
            // Who lives here is sent nothing.
            if !self.comes(&waiter) {
                self.leave_line(|other| other.is(&waiter));
                self.has_room();
            }
        }
    }

    /// Whether somebody who lives here still wants the place that is kept for him; he takes it when he has his turn.
    fn comes(&mut self, waiter: &Waiter) -> bool {
        let Some((id, context)) = self.contexts.at(u32::from(waiter.edge.index)) else { return false };
        if waiter.edge != edge_to(id, waiter.edge.ordinal) || context.call != waiter.call {
            return false;
        }
        if waiter.edge.ordinal == NO_KID {
            // Whoever makes the call tries again by himself.
            return context.is_going_on();
        }
        let wants = context.wants_room;
        if let Some(context) = self.contexts.get_mut(id).ok().filter(|_| wants) {
            context.wants_room = false;
            self.ready(id);
        }
        wants
    }

    /// Keeps no place any longer for those who have not come in time.
    pub(super) fn lapse(&mut self, now: Time) {
        if self.line.until > now {
            return;
        }
        for at in 0..self.line.len {
            let waiter = self.waiters.as_ref().get(at).copied();
            let Some(waiter) = waiter.filter(|waiter| matches!(waiter.turn, Turn::Told(until) if until <= now)) else {
                continue;
            };
            self.keep_no_longer(&waiter);
            self.set_turn(at, Turn::Late);
        }
        self.line.count(self.waiters.as_ref());
        self.has_room();
    }

    /// Whether a call may begin here, in its turn if it is part of another one.
    pub(super) fn admits_start(&mut self, class: u8, within: Option<Handle>) -> bool {
        let outer = within.and_then(|id| Some(Waiter::of_start(id, self.contexts.get(id).ok()?, class)));
        let stood = outer.and_then(|waiter| self.step_forward(&waiter));
        let admits = self.admits(class);
        if let Some(waiter) = outer.filter(|_| !admits) {
            self.await_room(waiter, stood);
        }
        admits
    }
}
