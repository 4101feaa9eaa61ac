//! What whoever carries messages may know of them.
//!
//! That is which call a message is of, what ends it, and data that lies elsewhere. A network in between that is full
//! refuses a request in the name of its receiver ([`busy`]). One that joins memories which are not the same carries
//! data that lies in the first ([`Carried`]), and puts where it lies now into the request.

use super::message::{Head, Kind, Mode, Request, SPAN, span_bytes, span_of};
use super::name::CallId;
use crate::codec::Reader;
use crate::key::Span;
use crate::time::Lapse;

fn head(message: &[u8]) -> Option<(Head, Reader<'_>)> {
    let mut from = Reader::new(message);
    Some((Head::parse(&mut from).ok()?, from))
}

/// The call whose request a message is, if it is one.
#[must_use]
pub fn peek_request(message: &[u8]) -> Option<CallId> {
    head(message).filter(|(head, _)| head.kind == Kind::Request).map(|(head, _)| head.call)
}

/// A request whose data lies elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Which call.
    pub call: CallId,
    /// Where its data lies.
    pub span: Span,
    /// How long the call may take yet.
    pub budget: Lapse,
}

/// What a request says of data that lies elsewhere; `None` if the message is no such request.
#[must_use]
pub fn peek_carried(message: &[u8]) -> Option<Carried> {
    let (head, mut from) = head(message)?;
    if head.kind != Kind::Request || !head.mode.contains(Mode::SPAN) {
        return None;
    }
    let request = Request::parse(&head, &mut from)?;
    let budget = Lapse::from_micros(request.budget_us.into());
    span_of(request.data).map(|span| Carried { call: head.call, span, budget })
}

/// Says where the data of such a request lies from now on; the length stays. Whether it was one.
#[must_use]
pub fn set_carried(message: &mut [u8], span: Span) -> bool {
    let is_one = peek_carried(message).is_some_and(|carried| carried.span.len == span.len);
    // The data is the last part of a request.
    match message.last_chunk_mut::<SPAN>().filter(|_| is_one) {
        Some(place) => {
            *place = span_bytes(span);
            true
        }
        None => false,
    }
}

/// The call whose request this answers for good: the receiver of that has ended with it, or has not taken it.
#[must_use]
pub fn peek_answer(message: &[u8]) -> Option<CallId> {
    let ends = |kind| matches!(kind, Kind::Response | Kind::Failure | Kind::Busy);
    head(message).filter(|(head, _)| ends(head.kind)).map(|(head, _)| head.call)
}

/// The call that a message gives up.
#[must_use]
pub fn peek_cancel(message: &[u8]) -> Option<CallId> {
    head(message).filter(|(head, _)| head.kind == Kind::Cancel).map(|(head, _)| head.call)
}

/// The answer of a member that has no room for this request, in the first bytes of `to`: for whoever carries messages and
/// finds that one cannot go on. Its maker sends the request again a little later. `None` if the message is no request; any
/// other message must not be lost.
#[must_use]
pub fn busy(message: &[u8], to: &mut [u8]) -> Option<usize> {
    let (head, _) = head(message).filter(|(head, _)| head.kind == Kind::Request)?;
    Head { attempt: head.attempt, ..Head::new(Kind::Busy, head.call, head.edge) }.emit_bare(to).ok()
}
