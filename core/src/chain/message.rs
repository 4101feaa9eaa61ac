//! What members of a call say to each other, byte for byte.
//!
//! Requests, questions and cancellations go *down* the tree, everything else *up*. All messages begin with the same 32
//! bytes; integers are little-endian:
//!
//! ```text
//! 0 version  1 kind  2 flags  3 seq, the highest byte  4 root (4)  8 life (4)  12 seq, the rest (4)  16 attempt  17 class
//! 18 ordinal (2)
//! 20 index (2)  22 generation (2)  24 a (4)  28 b (4)
//! request   32 func (4)  36 callback (4)  40 slots (2 + 2)  44 shape (2)  46 height  47 list  48 hlen (2)
//!           50 reply header cap (2)  52 reply data cap (4)  56 dlen (8)  64 budget µs (4)
//!           68 runs of ids (2)  70 runs of sizes (2)
//!           72 a ids, then as many sizes if `list` has 1, header, b bytes of data; if it has 2, before that where in the list of
//!           the call the a members begin (4) and how many that has (4), and all of these in place of the a ids;
//!           `list` has 4 where functions may replace the header for their children
//! response  32 members done (4)  36 budget µs (4)  40 0 (8)  48 a bytes of header, b bytes of data
//! failure   32 ok, failed, unreached, unknown (4 each)  48 a records of 16 bytes
//! cancel    no more; a is how many members the subtree has; so is that of an ask
//! ```
//!
//! Ids and sizes have 4 bytes each where the number of their runs is 0, else 8 bytes a run: how it begins (4) and its length
//! (4). The ids of a run follow one another, its sizes are alike.
//!
//! A status-only answer is the bare 48 bytes of a response. Data is either in the request, or its 24 bytes are a
//! [`Span`] that whoever wants it reads from its owner. So is that of a response of a [rendezvous](Mode::RENDEZVOUS), which says how
//! long it is waited for; the budget of every other response is 0.

use super::list::Packed;
use super::mode::Mode;
use super::name::{CallId, Edge, Life, Node, Tag};
use super::report::{Record, Tallies};
use crate::codec::{Reader, Short, Writer, filled};
use crate::key::{Key, Span};
use crate::tree::Shape;

/// The version of these messages.
pub const VERSION: u8 = 1;
/// Bytes that all messages begin with.
pub const HEAD: usize = 32;
/// Bytes of a request before its ids.
pub const REQUEST: usize = 72;
/// Bytes of a response before its reply.
pub const RESPONSE: usize = 48;
/// Bytes of a failure before its records.
pub const FAILURE: usize = 48;
/// Where in a message its flags are.
pub(super) const FLAGS: usize = 2;
/// Bytes of a span in place of data.
pub(super) const SPAN: usize = 24;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub(super) enum Kind {
    Request = 1,
    Response = 2,
    Failure = 3,
    Busy = 4,
    Credit = 5,
    Cancel = 6,
    Ask = 7,
    Alive = 8,
}

/// The part that all messages have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) mode: Mode,
    pub(super) call: CallId,
    pub(super) attempt: u8,
    pub(super) class: u8,
    pub(super) edge: Edge,
    pub(super) a: u32,
    pub(super) b: u32,
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unread {
    /// Another version.
    Version(Head),
    /// Not even a head.
    Malformed,
}

impl Head {
    pub(super) const fn new(kind: Kind, call: CallId, edge: Edge) -> Head {
        Head { kind, mode: Mode::empty(), call, attempt: 0, class: 0, edge, a: 0, b: 0 }
    }

    #[inline(always)]
    fn emit(&self, to: &mut Writer<'_>) -> Result<(), Short> {
        let Head { kind, mode, call, attempt, class, edge, a, b } = self;
        to.bytes(&[VERSION, *kind as u8, mode.bits() as u8, (call.seq >> 32) as u8])?;
        to.u32(call.root.0)?;
        to.u32(call.life.0)?;
        to.u32(call.seq as u32)?;
        to.bytes(&[*attempt, *class])?;
        to.u16(edge.ordinal)?;
        to.u16(edge.index)?;
        to.u16(edge.generation)?;
        to.u32(*a)?;
        to.u32(*b)
    }

    /// This head, and what `write` puts behind it: what all messages of its kind have, whose length the compiler knows.
    #[inline]
    fn then<const N: usize>(&self, write: impl FnOnce(&mut Writer<'_>) -> Result<(), Short>) -> [u8; N] {
        filled(|to| self.emit(to).and_then(|()| write(to)))
    }

    /// A message of nothing but a head.
    pub(super) fn emit_bare(&self, to: &mut [u8]) -> Result<usize, Short> {
        let mut to = Writer::new(to);
        to.bytes(&self.then::<HEAD>(|_| Ok(())))?;
        Ok(to.len())
    }

    #[inline]
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Head, Unread> {
        let short = |Short| Unread::Malformed;
        let fixed = from.array::<HEAD>().map_err(short)?;
        let mut from = Reader::new(&fixed);
        let version = from.u8().map_err(short)?;
        let kind = match from.u8().map_err(short)? {
            1 => Kind::Request,
            2 => Kind::Response,
            3 => Kind::Failure,
            4 => Kind::Busy,
            5 => Kind::Credit,
            6 => Kind::Cancel,
            7 => Kind::Ask,
            8 => Kind::Alive,
            _ => return Err(Unread::Malformed),
        };
        let flags = u16::from(from.u8().map_err(short)?);
        let above = u64::from(from.u8().map_err(short)?) << 32;
        let root = Node(from.u32().map_err(short)?);
        let life = Life(from.u32().map_err(short)?);
        let call = CallId { root, life, seq: above | u64::from(from.u32().map_err(short)?) };
        let attempt = from.u8().map_err(short)?;
        let class = from.u8().map_err(short)?;
        let ordinal = from.u16().map_err(short)?;
        let edge = Edge { ordinal, index: from.u16().map_err(short)?, generation: from.u16().map_err(short)? };
        let (a, b) = (from.u32().map_err(short)?, from.u32().map_err(short)?);
        let head = Head { kind, mode: Mode::from_bits_truncate(flags), call, attempt, class, edge, a, b };
        if version != VERSION {
            return Err(Unread::Version(head));
        }
        if Mode::FLAGS.bits() | flags == Mode::FLAGS.bits() { Ok(head) } else { Err(Unread::Malformed) }
    }
}

/// What a request says beyond its head; list, header and data are bytes as they came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request<'a> {
    /// That of its head, and what it says beside its list.
    pub(super) mode: Mode,
    pub(super) func: Tag,
    pub(super) callback: Tag,
    pub(super) slots: [u16; 2],
    pub(super) shape: Shape,
    pub(super) height: u8,
    pub(super) caps: Caps,
    pub(super) budget_us: u32,
    pub(super) list: Packed<'a>,
    pub(super) header: &'a [u8],
    pub(super) data: &'a [u8],
    /// Bytes of the data, here or elsewhere.
    pub(super) data_len: u64,
}

/// How much a member may answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Caps {
    /// Bytes of header.
    pub header: u16,
    /// Bytes of data.
    pub data: u32,
}

/// What does not fit into a length of 32 bits counts as the longest one there.
const _: () = assert!(Caps { header: 8, data: u32::MAX - 7 }.bytes() >= u32::MAX as usize);

impl Caps {
    /// Of both together: more than there is of anything where a length does not count them.
    pub(super) const fn bytes(self) -> usize {
        (self.header as usize).saturating_add(self.data as usize)
    }

    /// How much of it is in answers.
    pub(super) const fn sent(self, mode: Mode) -> Caps {
        if mode.contains(Mode::RENDEZVOUS) { Caps { data: SPAN as u32, ..self } } else { self }
    }
}

impl<'a> Request<'a> {
    pub(super) fn emit(&self, head: &Head, to: &mut [u8]) -> Result<usize, Short> {
        let header = u16::try_from(self.header.len()).map_err(|_| Short)?;
        let (place, rest) = to.split_first_chunk_mut::<REQUEST>().ok_or(Short)?;
        let mut rest = Writer::new(rest);
        // How it is written is known then.
        let runs = self.list.emit(&mut rest)?;
        rest.bytes(self.header)?;
        rest.bytes(self.data)?;
        *place = head.then::<REQUEST>(|to| {
            to.u32(self.func.0)?;
            to.u32(self.callback.0)?;
            to.u16(self.slots[0])?;
            to.u16(self.slots[1])?;
            to.bytes(&self.shape.to_bytes())?;
            to.bytes(&[self.height, self.list.kind() | self.mode.beside()])?;
            to.u16(header)?;
            to.u16(self.caps.header)?;
            to.u32(self.caps.data)?;
            to.u64(self.data_len)?;
            to.u32(self.budget_us)?;
            to.u16(runs[0])?;
            to.u16(runs[1])
        });
        Ok(REQUEST + rest.len())
    }

    pub(super) fn parse(head: &Head, from: &mut Reader<'a>) -> Option<Request<'a>> {
        let fixed = from.array::<{ REQUEST - HEAD }>().ok()?;
        let mut known = Reader::new(&fixed);
        let func = Tag(known.u32().ok()?);
        let callback = Tag(known.u32().ok()?);
        let slots = [known.u16().ok()?, known.u16().ok()?];
        let shape = Shape::from_bytes([known.u8().ok()?, known.u8().ok()?])?;
        let height = known.u8().ok()?;
        let kind = known.u8().ok()?;
        let header = known.u16().ok()?;
        let caps = Caps { header: known.u16().ok()?, data: known.u32().ok()? };
        let data_len = known.u64().ok()?;
        let budget_us = known.u32().ok()?;
        let runs = [known.u16().ok()?, known.u16().ok()?];
        let list = Packed::parse(from, head.a, kind, runs)?;
        let header = from.bytes(usize::from(header)).ok()?;
        let data = from.bytes(usize::try_from(head.b).ok()?).ok()?;
        let carried = if head.mode.contains(Mode::SPAN) { SPAN as u64 } else { data_len };
        let mode = head.mode.with_beside(kind);
        let is_early = mode.contains(Mode::REWRITE | Mode::CUT_THROUGH);
        let whole = head.a > 0 && from.rest().is_empty() && u64::from(head.b) == carried && func != Tag::NONE;
        (whole && !is_early).then_some(Request {
            mode,
            func,
            callback,
            slots,
            shape,
            height,
            caps,
            budget_us,
            list,
            header,
            data,
            data_len,
        })
    }
}

/// A span as data.
pub(super) fn span_bytes(span: Span) -> [u8; SPAN] {
    filled(|to| {
        to.u64(span.key.to_bits())?;
        to.u64(span.offset)?;
        to.u64(span.len)
    })
}

/// Reads a span; `None` if the bytes are no 24.
pub(super) fn span_of(bytes: &[u8]) -> Option<Span> {
    let mut from = Reader::new(bytes);
    let span = Span { key: Key::from_bits(from.u64().ok()?), offset: from.u64().ok()?, len: from.u64().ok()? };
    from.rest().is_empty().then_some(span)
}

/// A good answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Response<'a> {
    pub(super) nodes: u32,
    /// Of a rendezvous: how many microseconds its reply is waited for.
    pub(super) budget_us: Option<u32>,
    pub(super) header: &'a [u8],
    pub(super) data: &'a [u8],
}

impl<'a> Response<'a> {
    pub(super) fn emit(&self, call: CallId, edge: Edge, to: &mut [u8]) -> Result<usize, Short> {
        let (a, b) = (self.header.len() as u32, self.data.len() as u32);
        let mode = if self.budget_us.is_some() { Mode::RENDEZVOUS } else { Mode::empty() };
        let head = Head { mode, a, b, ..Head::new(Kind::Response, call, edge) };
        let fixed = head.then::<RESPONSE>(|to| {
            to.u32(self.nodes)?;
            to.u32(self.budget_us.unwrap_or(0))?;
            to.u64(0)
        });
        let mut to = Writer::new(to);
        to.bytes(&fixed)?;
        to.bytes(self.header)?;
        to.bytes(self.data)?;
        Ok(to.len())
    }

    pub(super) fn parse(head: &Head, from: &mut Reader<'a>) -> Option<Response<'a>> {
        let fixed = from.array::<{ RESPONSE - HEAD }>().ok()?;
        let mut known = Reader::new(&fixed);
        let nodes = known.u32().ok()?;
        let is_rendezvous = head.mode.contains(Mode::RENDEZVOUS);
        let budget = known.u32().ok().filter(|&budget| budget == 0 || is_rendezvous)?;
        known.u64().ok().filter(|&zero| zero == 0)?;
        let header = from.bytes(usize::try_from(head.a).ok()?).ok()?;
        let data = from.bytes(usize::try_from(head.b).ok()?).ok()?;
        let is_span = data.is_empty() || data.len() == SPAN;
        let whole = from.rest().is_empty() && (is_span || !is_rendezvous);
        whole.then_some(Response { nodes, budget_us: is_rendezvous.then_some(budget), header, data })
    }
}

/// A bad answer: what became of the subtree, and the failures in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Failure<'a> {
    pub(super) tallies: Tallies,
    /// Records as they came, each of 16 bytes.
    records: &'a [u8],
}

impl<'a> Failure<'a> {
    pub(super) fn emit(
        tallies: Tallies,
        records: impl ExactSizeIterator<Item = Record>,
        call: CallId,
        edge: Edge,
        to: &mut [u8],
    ) -> Result<usize, Short> {
        let head = Head { a: records.len() as u32, ..Head::new(Kind::Failure, call, edge) };
        let fixed = head.then::<FAILURE>(|to| {
            [tallies.ok, tallies.failed, tallies.unreached, tallies.unknown].into_iter().try_for_each(|n| to.u32(n))
        });
        let mut to = Writer::new(to);
        to.bytes(&fixed)?;
        for record in records {
            record.emit(&mut to)?;
        }
        Ok(to.len())
    }

    pub(super) fn parse(head: &Head, from: &mut Reader<'a>) -> Option<Failure<'a>> {
        let tallies = Tallies {
            ok: from.u32().ok()?,
            failed: from.u32().ok()?,
            unreached: from.u32().ok()?,
            unknown: from.u32().ok()?,
        };
        let records = from.bytes(usize::try_from(head.a).ok()?.checked_mul(Record::BYTES)?).ok()?;
        let failure = Failure { tallies, records };
        let sound = from.rest().is_empty() && failure.records().count() == head.a as usize;
        sound.then_some(failure)
    }

    /// The records; reading ends at one that is none.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> + use<'a> {
        let mut from = Reader::new(self.records);
        core::iter::from_fn(move || Record::parse(&mut from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_with_all_of_its_number_and_its_mode() {
        let edge = Edge { index: 1, generation: 2, ordinal: 3 };
        for seq in [1, u64::from(u32::MAX), 7 << 32, (1 << 40) - 1] {
            let call = CallId { root: Node(4), life: Life(5), seq };
            let head = Head { mode: Mode::FLAGS, attempt: 6, class: 7, a: 8, b: 9, ..Head::new(Kind::Ask, call, edge) };
            let mut bytes = [0; HEAD];
            assert_eq!(head.emit_bare(&mut bytes), Ok(HEAD));
            assert_eq!(Head::parse(&mut Reader::new(&bytes)), Ok(head));
        }
    }

    fn parsed(bytes: &[u8]) -> Option<Response<'_>> {
        let mut from = Reader::new(bytes);
        let head = Head::parse(&mut from).ok().filter(|head| head.kind == Kind::Response)?;
        Response::parse(&head, &mut from)
    }

    #[test]
    fn an_answer_of_a_rendezvous_has_a_span_and_a_time_and_nothing_else() {
        let (call, edge) =
            (CallId { root: Node(4), life: Life(5), seq: 6 }, Edge { index: 1, generation: 2, ordinal: 3 });
        let span = span_bytes(Span { key: Key::from_bits(7), offset: 8, len: 9 });
        let mut bytes = [0; RESPONSE + 2 + SPAN];
        for (budget_us, data, is_one) in [
            (None, &span[..], true),
            (None, &span[1..], true),
            (Some(0), &span[..], true),
            (Some(10), &span[..], true),
            (Some(10), &[], true),
            (Some(10), &span[1..], false),
        ] {
            let response = Response { nodes: 11, budget_us, header: &[12, 13], data };
            let len = response.emit(call, edge, &mut bytes);
            assert_eq!(len, Ok(RESPONSE + 2 + data.len()));
            let bytes = &bytes[..RESPONSE + 2 + data.len()];
            assert_eq!(parsed(bytes), is_one.then_some(response));
            assert!((0..bytes.len()).all(|len| parsed(&bytes[..len]).is_none()));
        }
        // A time in an answer of no rendezvous.
        let response = Response { nodes: 11, budget_us: None, header: &[], data: &[] };
        assert_eq!(response.emit(call, edge, &mut bytes), Ok(RESPONSE));
        bytes[36] = 1;
        assert_eq!(parsed(&bytes[..RESPONSE]), None);
    }
}
