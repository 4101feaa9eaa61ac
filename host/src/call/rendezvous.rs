//! Replies that are longer than a message.
//!
//! The data of a reply usually comes in answers, and a call keeps room for those of all children. If it is longer than that
//! allows, it stays with the member that wrote it ([`Mode::RENDEZVOUS`]): a call needs memory for the reply of every member,
//! and a member for one reply of a child more, however many children it has.
//!
//! ```text
//! function, callbacks ──► Held ── the answer is sent ──► Laid, in the member's own memory in the station
//!                          ▲                               │ its span, in the answer
//!                          └──── callback ◄── staging ◄────┘ read, and released, by the parent
//! ```
//!
//! Of members that live together the parent reads what its child holds. What is laid out stays until its reader says that it
//! is done with it, or until the time of the call is over, because readers may be gone. A reader also says so of what it
//! does not read because its call has ended. An answer whose reply finds no room waits, and keeps no other message waiting.
//!
//! A parent reads and releases without needing room, but not before its callback is due. So where that waits for others, as with
//! [`Mode::ORDERED`] and [`Mode::CUT_THROUGH`], calls can wait for each other's room until their deadlines.

use umbra_core::chain::{
    Answer, Call, CallId, Caps, Data, Handle, Machine, Mode, Node, Phase, StartError, Verdict, Work, peek_carried,
    set_carried,
};
use umbra_core::error::Stale;
use umbra_core::key::{Key, Span};
use umbra_core::time::Time;

use super::answer::{Failure, Reply, answer};
use super::member::Member;
use super::offer::{Offer, Shelf, look, release};
use super::shape::Shape;
use super::station::Station;
use super::storage::Heap;
use crate::sys::clock::now;
use crate::sys::heap::filled;

/// Where a reply lies that is not laid out: nowhere.
const NOWHERE: Key = Key::from_bits(u64::MAX);
/// Replies of others that wait here to be read at most; one more stays until its time is over.
const NOTED: usize = 4096;
/// Memory of replies that are over, which others use again.
const SPARE: usize = 4;

/// What a member has written so far.
#[derive(Debug)]
struct Held {
    call: CallId,
    node: Node,
    len: u32,
    memory: Vec<u8>,
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

/// The long replies of one member, and of those that live with it.
#[derive(Debug, Default)]
pub(super) struct Replies {
    held: Vec<Held>,
    laid: Vec<Laid>,
    /// Replies of children elsewhere that were not read yet, and of which call.
    noted: Vec<(CallId, Span)>,
    unlaid: Vec<Unlaid>,
    /// The reply of a child, while it is combined.
    staging: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl Replies {
    /// Whether no call has a reply here.
    pub(super) const fn is_empty(&self) -> bool {
        self.held.is_empty() && self.laid.is_empty() && self.noted.is_empty()
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
        let (mut child, mut staged) = (None, 0);
        if let Phase::Wait(answer) = work.phase {
            child = self.take(work.call, answer.from);
            if child.is_none() {
                let Some(len) = self.stage(station, &answer, max) else { return Verdict::ReplyGone };
                staged = len;
            }
        }
        let mut held = self.take(work.call, work.node).unwrap_or_else(|| self.begin(work, max));
        let mut inner = work.with_data(held.memory.get_mut(..max).unwrap_or_default(), held.len);
        if let Phase::Wait(answer) = inner.phase {
            let staged = self.staging.get(..staged).unwrap_or_default();
            let data = child.as_ref().map_or(staged, Held::data);
            inner.phase = Phase::Wait(Answer { data, ..answer });
        }
        let verdict = user(&mut inner);
        held.len = inner.reply.data().len() as u32;
        let span = Span { key: NOWHERE, offset: 0, len: held.len.into() };
        let written = if held.len == 0 { work.reply.set_data(&[]) } else { work.reply.set_span(span) };
        debug_assert!(written.is_ok(), "an answer has room for a span");
        self.held.push(held);
        child.into_iter().for_each(|child| self.spare(child.memory));
        verdict
    }

    /// Memory for a reply of so many bytes; where there is none, what is written does not fit.
    fn begin(&mut self, work: &Work<'_>, max: usize) -> Held {
        let spare = self.spare.iter().position(|memory| memory.len() >= max);
        let memory = spare.map(|at| self.spare.swap_remove(at));
        let memory = memory.or_else(|| filled(0, max).ok()).unwrap_or_default();
        Held { call: work.call, node: work.node, len: 0, memory }
    }

    /// Keeps memory for others, the longest first.
    fn spare(&mut self, memory: Vec<u8>) {
        self.spare.push(memory);
        if self.spare.len() > SPARE {
            let shortest = self.spare.iter().enumerate().min_by_key(|(_, memory)| memory.len());
            shortest.map(|(at, _)| at).map(|at| self.spare.swap_remove(at));
        }
    }

    /// Reads the reply of a child that lives elsewhere; its length, or `None` if it is there no more.
    fn stage(&mut self, station: &Station, answer: &Answer<'_>, max: usize) -> Option<usize> {
        let Some(span) = answer.span() else { return Some(0) };
        let len = usize::try_from(span.len).ok().filter(|&len| len <= max)?;
        if self.staging.len() < len {
            self.staging = filled(0, len).ok()?;
        }
        let into = self.staging.get_mut(..len)?;
        let read = look(station, Data::Span(span), |bytes| bytes.read(0, into));
        self.noted.retain(|&(_, noted)| noted != span);
        release(station, span);
        matches!(read, Ok(Ok(()))).then_some(len)
    }

    /// What a member has written.
    fn take(&mut self, call: CallId, node: Node) -> Option<Held> {
        let at = self.held.iter().position(|held| (held.call, held.node) == (call, node))?;
        Some(self.held.swap_remove(at))
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
            && let Some(held) = self.take(machine.call_id(handle)?, machine.config().node)
        {
            reply.data = held.memory;
            reply.data.truncate(held.len as usize);
        }
        Ok(Some(answer))
    }

    /// Lays the reply out that an answer tells of; if there is no room for it now, of which call it is, and until when it is waited
    /// for.
    fn lay(
        &mut self,
        station: &Station,
        shelf: &mut Shelf,
        (from, to): (Node, Node),
        message: &mut [u8],
    ) -> Result<(), (CallId, Time)> {
        let Some(carried) = peek_carried(message).filter(|carried| carried.is_answer) else { return Ok(()) };
        let (call, until) = (carried.call, now() + carried.budget);
        if let Some(held) = self.take(call, from) {
            match shelf.offer(station, held.data()) {
                Ok(offer) => {
                    self.spare(held.memory);
                    self.laid.push(Laid { call, node: from, reader: to, offer, until });
                }
                Err(error) if error.is_for_now() => {
                    self.held.push(held);
                    return Err((call, until));
                }
                // Its parent finds nothing, and says so.
                Err(_) => return Ok(()),
            }
        }
        // One that is answered again lies where it lay.
        let laid = self.laid.iter().find(|laid| (laid.call, laid.node) == (call, from));
        if let Some(Data::Span(span)) = laid.map(|laid| laid.offer.data()) {
            let is_named = set_carried(message, span);
            debug_assert!(is_named, "of the same length");
        }
        Ok(())
    }

    /// Takes back what its reader is done with, or nobody waits for any more.
    fn collect(&mut self, station: &Station, shelf: &mut Shelf, at: Time) {
        self.laid.retain(|laid| {
            let stays = laid.until > at && !laid.offer.is_released(station);
            if !stays {
                shelf.take_back(station, &laid.offer);
            }
            stays
        });
    }

    /// A message came: if it tells of a reply, that is released also if nobody reads it.
    pub(super) fn note(&mut self, message: &[u8]) {
        if let Some(carried) = peek_carried(message).filter(|carried| carried.is_answer)
            && self.noted.len() < NOTED
        {
            self.noted.push((carried.call, carried.span));
        }
    }

    /// Forgets what was written for calls that are over, and releases what came for them.
    fn sweep(&mut self, machine: &Machine<Heap>, station: &Station) {
        let Replies { held, unlaid, noted, .. } = self;
        noted.retain(|&(call, span)| {
            let stays = machine.is_under_way(call);
            if !stays {
                release(station, span);
            }
            stays
        });
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

impl Held {
    fn data(&self) -> &[u8] {
        self.memory.get(..self.len as usize).unwrap_or_default()
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
    /// Lays the reply out that an answer in the buffer tells of; false if the answer waits for room.
    pub(super) fn lay(&mut self, from: Node, to: Node, len: usize) -> bool {
        let Member { replies, shelf, station, buffer, .. } = self;
        let Some(message) = buffer.get_mut(..len) else { return true };
        match replies.lay(station, shelf, (from, to), message) {
            Ok(()) => true,
            Err((call, until)) => {
                replies.unlaid.push(Unlaid { call, from, to, until, message: message.to_vec() });
                false
            }
        }
    }

    /// Takes back replies that were read, and sends answers whose replies find room now; whether any went.
    pub(super) fn tend_replies(&mut self, at: Time) -> bool {
        if self.replies.is_empty() {
            return false;
        }
        self.replies.collect(&self.station, &mut self.shelf, at);
        let mut sent = false;
        for mut unlaid in std::mem::take(&mut self.replies.unlaid) {
            let (from, to, len) = (unlaid.from, unlaid.to, unlaid.message.len());
            if unlaid.until <= at {
                continue;
            }
            if self.replies.lay(&self.station, &mut self.shelf, (from, to), &mut unlaid.message).is_err() {
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
            self.replies.sweep(&self.machine, &self.station);
        }
    }
}
