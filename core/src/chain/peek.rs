//! What whoever carries messages may know of them.
//!
//! That is which call a message is of, what ends it, and data that lies elsewhere. A network in between that is full
//! refuses a request in the name of its receiver ([`busy`]). One that joins memories which are not the same carries
//! data that lies in the first ([`Carried`]), and puts where it lies now into the request.

use super::message::{FLAGS, Head, Kind, Request, Response, SPAN, span_bytes, span_of};
use super::mode::Mode;
use super::name::{CallId, Edge};
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

/// A request whose data lies elsewhere, or an answer whose reply does ([`Mode::RENDEZVOUS`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// It is an answer.
    pub is_answer: bool,
    /// Which call.
    pub call: CallId,
    /// The parent's place for it, and which child the other end is.
    pub edge: Edge,
    /// Where its data lies.
    pub span: Span,
    /// How long the call may take yet.
    pub budget: Lapse,
}

/// What a request says of data that lies elsewhere, or an answer of such a reply; `None` if the message says nothing of the kind.
#[must_use]
pub fn peek_carried(message: &[u8]) -> Option<Carried> {
    // Most messages say nothing of the kind, and this byte tells.
    let flags = Mode::from_bits_truncate(u16::from(*message.get(FLAGS)?));
    if !flags.intersects(Mode::SPAN | Mode::RENDEZVOUS) {
        return None;
    }
    let (head, mut from) = head(message)?;
    let (is_answer, data, budget_us) = match head.kind {
        Kind::Request if head.mode.contains(Mode::SPAN) => {
            let request = Request::parse(&head, &mut from)?;
            (false, request.data, request.budget_us)
        }
        Kind::Response if head.mode.contains(Mode::RENDEZVOUS) => {
            let response = Response::parse(&head, &mut from)?;
            (true, response.data, response.budget_us?)
        }
        _ => return None,
    };
    let budget = Lapse::from_micros(budget_us.into());
    span_of(data).map(|span| Carried { is_answer, call: head.call, edge: head.edge, span, budget })
}

/// What an answer says of a reply that lies elsewhere; `None` if the message is no such answer.
#[must_use]
pub fn peek_reply(message: &[u8]) -> Option<Carried> {
    peek_carried(message).filter(|carried| carried.is_answer)
}

/// Says where such data lies from now on; the length stays. Whether the message was one.
#[must_use]
pub fn set_carried(message: &mut [u8], span: Span) -> bool {
    let is_one = peek_carried(message).is_some_and(|carried| carried.span.len == span.len);
    // The data is the last part of a message.
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

/// The call that a message gives up, and whether its sender takes an answer all the same ([`Mode::COLLECT`]).
#[must_use]
pub fn peek_cancel(message: &[u8]) -> Option<(CallId, bool)> {
    let (head, _) = head(message).filter(|(head, _)| head.kind == Kind::Cancel)?;
    Some((head.call, head.mode.contains(Mode::COLLECT)))
}

/// The answer of a member that has no room for this request, in the first bytes of `to`: for whoever carries messages and
/// finds that one cannot go on. Its maker sends the request again a little later. `None` if the message is no request; any
/// other message must not be lost.
#[must_use]
pub fn busy(message: &[u8], to: &mut [u8]) -> Option<usize> {
    let (head, _) = head(message).filter(|(head, _)| head.kind == Kind::Request)?;
    Head { attempt: head.attempt, ..Head::new(Kind::Busy, head.call, head.edge) }.emit_bare(to).ok()
}

/// Word that whoever gives this answer knows of the call, in the first bytes of `to`: for whoever carries messages and keeps one
/// back, so that its maker is not taken for dead. `None` if the message is no good answer.
#[must_use]
pub fn alive(message: &[u8], to: &mut [u8]) -> Option<usize> {
    let (head, _) = head(message).filter(|(head, _)| head.kind == Kind::Response)?;
    Head::new(Kind::Alive, head.call, head.edge).emit_bare(to).ok()
}

#[cfg(test)]
mod tests {
    use super::super::message::RESPONSE;
    use super::super::name::{Edge, Life, Node};
    use super::*;
    use crate::key::Key;

    #[test]
    fn where_the_reply_of_an_answer_lies_can_be_said_anew_and_its_length_stays() {
        let (call, edge) =
            (CallId { root: Node(4), life: Life(5), seq: 6 }, Edge { index: 1, generation: 2, ordinal: 3 });
        let span = Span { key: Key::from_bits(7), offset: 8, len: 9 };
        let mut message = [0; RESPONSE + SPAN];
        let response = Response { nodes: 1, budget_us: Some(1000), header: &[], data: &span_bytes(span) };
        assert_eq!(response.emit(call, edge, &mut message), Ok(message.len()));
        let carried = Carried { is_answer: true, call, edge, span, budget: Lapse::from_micros(1000) };
        assert_eq!((peek_carried(&message), peek_reply(&message)), (Some(carried), Some(carried)));
        let there = Span { key: Key::from_bits(10), offset: 11, len: 9 };
        assert!(set_carried(&mut message, there));
        assert_eq!(peek_carried(&message), Some(Carried { span: there, ..carried }));
        let before = message;
        assert!(!set_carried(&mut message, Span { len: 10, ..there }));
        assert_eq!(message, before);
        // The same bytes as data of an answer are nothing that anybody carries.
        let plain = Response { budget_us: None, ..response };
        assert_eq!(plain.emit(call, edge, &mut message), Ok(message.len()));
        assert_eq!(peek_carried(&message), None);
        assert!(!set_carried(&mut message, there));
    }
}
