//! Replies of children elsewhere that have come.
//!
//! Most are read by the callback in the turn in which their answers come. One that has to wait for others, as with
//! [`Mode::ORDERED`](umbra_core::chain::Mode::ORDERED) or while the function of its parent goes on, is copied at the end of that
//! turn, so that none of those others waits for the room that it has. One that nobody reads is released.

use umbra_core::chain::{Answer, CallId, Edge, Machine, Node, peek_reply};
use umbra_core::key::Span;

use super::super::offer::{look_as, release};
use super::super::station::Station;
use super::super::storage::Heap;
use super::Written;
use super::spare::Spare;
use crate::sys::heap::filled;

/// Answers that are looked at in one turn; the replies of others stay until the time of their calls is over.
const TOLD: usize = 4096;
/// Bytes that copies have at most, as a multiple of what a member can offer: calls that wait for more can wait for each other.
const COPIES: u64 = 64;

/// What an answer has told of a reply.
#[derive(Debug)]
struct Told {
    call: CallId,
    edge: Edge,
    to: Node,
    span: Span,
}

/// A reply that waits here until it is combined.
#[derive(Debug)]
struct Copied {
    call: CallId,
    edge: Edge,
    from: Node,
    reply: Written,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    told: Vec<Told>,
    copied: Vec<Copied>,
}

impl Arrived {
    pub(super) const fn is_empty(&self) -> bool {
        self.told.is_empty() && self.copied.is_empty()
    }

    /// A message came for a member here.
    pub(super) fn note(&mut self, to: Node, message: &[u8]) {
        if let Some(carried) = peek_reply(message)
            && self.told.len() < TOLD
        {
            self.told.push(Told { call: carried.call, edge: carried.edge, to, span: carried.span });
        }
    }

    /// The reply of an answer that is combined now, if it is still there and has no more than `max` bytes.
    pub(super) fn take(
        &mut self,
        station: &Station,
        (call, to): (CallId, Node),
        answer: &Answer<'_>,
        max: usize,
        spare: &mut Spare,
    ) -> Option<Written> {
        if let Some(at) = self.copied.iter().position(|copied| (copied.call, copied.from) == (call, answer.from)) {
            return Some(self.copied.swap_remove(at).reply);
        }
        let Some(span) = answer.span() else { return Some(Written::default()) };
        self.told.retain(|told| (told.call, told.span) != (call, span));
        let len = usize::try_from(span.len).ok().filter(|&len| len <= max)?;
        read(station, span, to, spare.take(len)).map_err(|memory| spare.give(memory)).ok()
    }

    /// What has come and was not combined at once is copied, or released if nobody waits for it.
    pub(super) fn settle(&mut self, machine: &mut Machine<Heap>, station: &Station) {
        let Arrived { told, copied } = self;
        let most = COPIES * station.shape().offer_bytes;
        told.retain(|&Told { call, edge, to, span }| {
            let Some((from, _)) = machine.parked(call, edge).filter(|&(_, parked)| parked == span) else {
                release(station, span, to);
                return false;
            };
            if copied.iter().any(|copied| (copied.call, copied.from) == (call, from)) {
                return false;
            }
            let bytes: u64 = copied.iter().map(|copied| copied.reply.memory.len() as u64).sum();
            if bytes + span.len > most {
                return true;
            }
            // The callback finds out that it is gone.
            let memory = usize::try_from(span.len).ok().and_then(|len| filled(0, len).ok());
            let reply = memory.and_then(|memory| read(station, span, to, memory).ok());
            copied.extend(reply.map(|reply| Copied { call, edge, from, reply }));
            false
        });
    }

    /// Forgets what nobody combines any more.
    pub(super) fn sweep(&mut self, machine: &mut Machine<Heap>) {
        self.copied.retain(|copied| machine.parked(copied.call, copied.edge).is_some());
    }
}

/// Reads and releases a reply that memory is long enough for; else the memory: it is there no more, or is not for this member.
fn read(station: &Station, span: Span, to: Node, mut memory: Vec<u8>) -> Result<Written, Vec<u8>> {
    let into = usize::try_from(span.len).ok().and_then(|len| memory.get_mut(..len));
    let read = into.map(|into| look_as(station, span, |reader| reader == Some(to), |bytes| bytes.read(0, into)));
    release(station, span, to);
    match read {
        Some(Ok(Ok(()))) => Ok(Written { memory, len: span.len as u32 }),
        _ => Err(memory),
    }
}
