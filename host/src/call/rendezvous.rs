//! Replies that are longer than a message.
//!
//! The data of a reply usually comes in answers, and a call keeps room for those of all children. If it is longer than that
//! allows, it stays with the member that wrote it ([`Mode::RENDEZVOUS`]): a call needs memory for the reply of every member,
//! and a member for one reply of a child more, however many children it has, unless they have to wait for one another.
//!
//! ```text
//! function, callbacks ──► Held ── the answer is sent ──► Laid, in the member's memory for replies in the station
//!                          ▲                               │ its span, in the answer
//!                          └────── callback ◄── copy ◄──────┘ read, and released, by the parent
//! ```
//!
//! Of members that live together the parent reads what its child holds. What is laid out stays until its reader says that it
//! is done with it, or until the time of the call is over, because readers may be gone. A reader also says so of what it
//! does not read because its call has ended. An answer whose reply finds no room waits, and keeps no other message waiting.
//!
//! No answers wait in a circle, whatever their calls wait for. An answer waits only for replies that its own member has laid out before,
//! because nothing else lies in that memory: what calls carry down, and hold until they are answered, has its own. Each of these
//! replies is read in the next turn of its parent, who needs no room for it: what it cannot combine yet it [copies](arrived). Only where
//! more wait at one parent than it may copy do the rest stay where they are until it has combined some.

mod arrived;
mod spare;
#[cfg(test)]
mod tests;

use umbra_core::chain::{
    Answer, Call, CallId, Caps, Data, HEAD, Handle, Machine, Mode, Node, Phase, StartError, Verdict, Work, alive,
    peek_cancel, peek_reply,
};
use umbra_core::error::Stale;
use umbra_core::key::Span;
use umbra_core::time::Time;

use self::arrived::Arrived;
use self::spare::Spare;
use super::answer::{Failure, Reply, answer};
use super::member::Member;
use super::named::{NOWHERE, rename};
use super::offer::{Offer, Shelf};
use super::shape::Shape;
use super::station::Station;
use super::storage::Heap;
use crate::sys::clock::now;

/// Answers that wait for room at once; the replies of more are lost to their parents, which say so.
const WAITING: usize = 256;

/// Memory with so many bytes of a reply in front.
#[derive(Debug, Default)]
struct Written {
    memory: Vec<u8>,
    len: u32,
}

impl Written {
    fn data(&self) -> &[u8] {
        self.memory.get(..self.len as usize).unwrap_or_default()
    }

    /// The same for whoever keeps it: a short one does not keep the memory of the longest one that there could have been.
    fn shrunk(self) -> Written {
        let is_long = self.memory.capacity() / 2 > self.len as usize;
        if is_long { Written { memory: self.data().to_vec(), len: self.len } } else { self }
    }
}

/// What a member has written so far; of a function that has ended, nothing is kept if that is nothing.
#[derive(Debug)]
struct Held {
    call: CallId,
    node: Node,
    reply: Written,
}

/// A reply that the parent reads.
#[derive(Debug)]
struct Laid {
    call: CallId,
    node: Node,
    reader: Node,
    offer: Offer,
    until: Time,
}

/// An answer whose reply has found no room.
#[derive(Debug)]
struct Unlaid {
    call: CallId,
    from: Node,
    to: Node,
    until: Time,
    message: Vec<u8>,
}

/// Why a reply is not laid out.
enum NoRoom {
    /// There is no memory for it now: of which call it is, and until when it is waited for.
    Now { call: CallId, until: Time },
    /// Its answer waits already.
    Still,
}

/// The long replies of one member, and of those that live with it.
#[derive(Debug)]
pub(super) struct Replies {
    /// Where they are laid out.
    shelf: Shelf,
    held: Vec<Held>,
    laid: Vec<Laid>,
    arrived: Arrived,
    unlaid: Vec<Unlaid>,
    spare: Spare,
}

impl Replies {
    /// None so far; they are laid out on this shelf.
    pub(super) fn new(shelf: Shelf) -> Replies {
        let (held, laid, unlaid) = (Vec::new(), Vec::new(), Vec::new());
        Replies { shelf, held, laid, arrived: Arrived::default(), unlaid, spare: Spare::default() }
    }

    /// Bytes that were laid out so far.
    pub(super) const fn copied(&self) -> u64 {
        self.shelf.copied
    }

    /// Whether no call has a reply here.
    pub(super) const fn is_empty(&self) -> bool {
        self.held.is_empty() && self.laid.is_empty() && self.unlaid.is_empty() && self.arrived.is_empty()
    }

    /// Whether an answer waits for room.
    pub(super) const fn are_waiting(&self) -> bool {
        !self.unlaid.is_empty()
    }

    /// Runs the user's code, and gives it the memory for such a reply if it has one.
    pub(super) fn run(
        &mut self,
        work: &mut Work<'_>,
        station: &Station,
        user: impl FnOnce(&mut Work<'_>) -> Verdict,
    ) -> Verdict {
        let Some(max) = work.rendezvous() else { return user(work) };
        let max = usize::try_from(station.shape().offer_bytes.min(max.into())).unwrap_or(usize::MAX);
        let mut child = None;
        if let Phase::Wait(answer) = work.phase {
            let housed = self.take(work.call, answer.from);
            let ends = (work.call, work.node);
            let came = || self.arrived.take(station, ends, &answer, max, &mut self.spare);
            let Some(reply) = housed.or_else(came) else { return Verdict::ReplyGone };
            child = Some(reply);
        }
        let own = self.take(work.call, work.node);
        let mut own = own.unwrap_or_else(|| Written { memory: self.spare.take(max), len: 0 });
        let mut inner = work.with_data(own.memory.get_mut(..max).unwrap_or_default(), own.len);
        if let (Phase::Wait(answer), Some(child)) = (inner.phase, &child) {
            inner.phase = Phase::Wait(Answer { data: child.data(), ..answer });
        }
        let verdict = user(&mut inner);
        own.len = inner.reply.data().len() as u32;
        let is_well = verdict == Verdict::Done && own.len > 0 && !inner.reply.is_too_large();
        let span = Span { key: NOWHERE, offset: 0, len: own.len.into() };
        let written = if own.len == 0 { work.reply.set_data(&[]) } else { work.reply.set_span(span) };
        debug_assert!(written.is_ok(), "an answer has room for a span");
        // A function that is pending finds what it has written, whether it counts yet or not.
        if is_well || verdict == Verdict::Pending {
            self.held.push(Held { call: work.call, node: work.node, reply: own });
        } else {
            self.spare.give(own.memory);
        }
        child.into_iter().for_each(|child| self.spare.give(child.memory));
        verdict
    }

    /// What a member has written.
    fn take(&mut self, call: CallId, node: Node) -> Option<Written> {
        let at = self.held.iter().position(|held| (held.call, held.node) == (call, node))?;
        Some(self.held.swap_remove(at).reply)
    }

    /// The answer to a call of this machine's own; `None` while it goes on.
    pub(super) fn answer(
        &mut self,
        machine: &Machine<Heap>,
        handle: Handle,
    ) -> Result<Option<Result<Reply, Failure>>, Stale> {
        let Some(outcome) = machine.outcome(handle)? else { return Ok(None) };
        let mut answer = answer(&outcome);
        if let Ok(reply) = &mut answer
            && let Some(mut written) = self.take(machine.call_id(handle)?, machine.config().node)
        {
            written = written.shrunk();
            written.memory.truncate(written.len as usize);
            reply.data = written.memory;
        }
        Ok(Some(answer))
    }

    /// Lays the reply out that an answer tells of, unless that waits for room; one that has waited stays no longer than it would
    /// have without, which is until `latest`.
    fn lay(
        &mut self,
        station: &Station,
        (from, to): (Node, Node),
        message: &mut [u8],
        latest: Time,
    ) -> Result<(), NoRoom> {
        let Some(carried) = peek_reply(message) else { return Ok(()) };
        if self.waits(carried.call, (from, to)) {
            return Err(NoRoom::Still);
        }
        let (call, until) = (carried.call, latest.min(now() + carried.budget));
        if let Some(reply) = self.take(call, from) {
            match self.shelf.offer(station, reply.data(), Some(to)) {
                Ok(offer) => {
                    self.spare.give(reply.memory);
                    self.laid.push(Laid { call, node: from, reader: to, offer, until });
                }
                Err(error) if error.is_for_now() && self.unlaid.len() < WAITING => {
                    self.held.push(Held { call, node: from, reply: reply.shrunk() });
                    return Err(NoRoom::Now { call, until });
                }
                // Its parent finds nothing, and says so.
                Err(_) => {
                    self.spare.give(reply.memory);
                    return Ok(());
                }
            }
        }
        // One that is answered again lies where it lay.
        let laid = self.laid.iter().find(|laid| (laid.call, laid.node) == (call, from));
        if let Some(Data::Span(span)) = laid.map(|laid| laid.offer.data()) {
            rename(message, span);
        }
        Ok(())
    }

    /// Takes back what its reader is done with, or nobody waits for any more.
    fn collect(&mut self, station: &Station, at: Time) {
        let Replies { shelf, laid, .. } = self;
        laid.retain(|laid| {
            let stays = laid.until > at && !laid.offer.is_released(station);
            if !stays {
                shelf.take_back(station, &laid.offer);
            }
            stays
        });
    }

    /// A message came from a member for one here.
    pub(super) fn note(&mut self, (from, to): (Node, Node), message: &[u8]) {
        self.arrived.note(to, message);
        let is_given = !self.laid.is_empty() || self.are_waiting();
        if is_given && let Some((call, false)) = peek_cancel(message) {
            self.give_up(call, (to, from));
        }
    }

    /// The parent has given a call up, and takes no answer: nobody reads this reply.
    fn give_up(&mut self, call: CallId, (from, to): (Node, Node)) {
        if self.waits(call, (from, to)) {
            self.held.retain(|held| (held.call, held.node) != (call, from));
        }
        let unread = self.laid.iter_mut().filter(|laid| (laid.call, laid.node, laid.reader) == (call, from, to));
        unread.for_each(|laid| laid.until = Time::ZERO);
    }

    /// All is done that could be done in a turn.
    pub(super) fn settle(&mut self, machine: &mut Machine<Heap>, station: &Station) {
        self.arrived.settle(machine, station);
    }

    /// Whether this answer waits for room.
    fn waits(&self, call: CallId, (from, to): (Node, Node)) -> bool {
        self.unlaid.iter().any(|unlaid| (unlaid.call, unlaid.from, unlaid.to) == (call, from, to))
    }

    /// Forgets what was written for calls that are over, and what came for them.
    fn sweep(&mut self, machine: &mut Machine<Heap>) {
        let Replies { held, unlaid, arrived, .. } = self;
        arrived.sweep(machine);
        held.retain(|held| {
            let waits = |unlaid: &Unlaid| (unlaid.call, unlaid.from) == (held.call, held.node);
            machine.is_under_way(held.call) || unlaid.iter().any(waits)
        });
    }

    /// A member is gone: nobody there waits for an answer, or reads one.
    pub(super) fn gone(&mut self, node: Node) {
        self.unlaid.retain(|unlaid| unlaid.to != node);
        let unread = self.laid.iter_mut().filter(|laid| laid.reader == node);
        unread.for_each(|laid| laid.until = Time::ZERO);
    }
}

/// Begins a call, with its replies as a rendezvous if they are too long for answers.
pub(super) fn start(
    machine: &mut Machine<Heap>,
    call: &Call<'_>,
    shape: Shape,
    at: Time,
) -> Result<Handle, StartError> {
    let wanted = call.mode.contains(Mode::RENDEZVOUS);
    let Caps { data, .. } = call.caps;
    let can = u64::from(data) <= shape.offer_bytes;
    if wanted && !can {
        let allowed = usize::try_from(shape.offer_bytes).unwrap_or(usize::MAX);
        return Err(StartError::TooLarge { needed: data as usize, allowed });
    }
    match machine.start(call, at) {
        Err(StartError::TooLarge { .. }) if !wanted && data > 0 && can => {
            machine.start(&Call { mode: call.mode | Mode::RENDEZVOUS, ..*call }, at)
        }
        other => other,
    }
}

impl Member {
    /// Lays the reply out that an answer in the buffer tells of; how long the message is that is sent now, if any is: an answer may
    /// wait for room, and who asks for it again is told so.
    pub(super) fn lay(&mut self, from: Node, to: Node, len: usize) -> Option<usize> {
        let Member { replies, station, buffer, .. } = self;
        let message = buffer.get_mut(..len)?;
        match replies.lay(station, (from, to), message, Time::NEVER) {
            Ok(()) => Some(len),
            Err(NoRoom::Still) => {
                let mut word = [0; HEAD];
                let len = alive(message, &mut word)?;
                buffer.get_mut(..len)?.copy_from_slice(&word);
                Some(len)
            }
            Err(NoRoom::Now { call, until }) => {
                replies.unlaid.push(Unlaid { call, from, to, until, message: message.to_vec() });
                None
            }
        }
    }

    /// Takes back replies that were read, and sends answers whose replies find room now; whether any went.
    pub(super) fn tend_replies(&mut self, at: Time) -> bool {
        if self.replies.is_empty() {
            return false;
        }
        self.replies.collect(&self.station, at);
        let mut sent = false;
        for mut unlaid in std::mem::take(&mut self.replies.unlaid) {
            let (from, to, len) = (unlaid.from, unlaid.to, unlaid.message.len());
            if unlaid.until <= at {
                continue;
            }
            let Unlaid { until, message, .. } = &mut unlaid;
            if self.replies.lay(&self.station, (from, to), message, *until).is_err() {
                self.replies.unlaid.push(unlaid);
            } else if let Some(place) = self.buffer.get_mut(..len) {
                place.copy_from_slice(&unlaid.message);
                self.post(from, to, len);
                sent = true;
            }
        }
        sent
    }

    /// Forgets replies of calls that are over.
    pub(super) fn sweep_replies(&mut self) {
        if !self.replies.is_empty() {
            self.replies.sweep(&mut self.machine);
        }
    }
}
