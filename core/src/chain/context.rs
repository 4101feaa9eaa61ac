//! One call at one member, and the piece of lent memory in which it keeps what has no fixed size.

use core::ops::Range;

use super::message::{Caps, List, Mode};
use super::name::{CallId, Edge, Life, Node, Tag};
use super::report::{Record, Tallies};
use crate::time::Time;
use crate::tree::Shape;

pub(super) const NIL: u32 = u32::MAX;

/// Records that a member keeps of a call that collects failures.
pub const RECORDS: usize = 8;

/// How far a call has come here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Accepted; the function has not run.
    Queued,
    /// The function was begun.
    Running,
    /// The function is done; children are asked and their answers combined.
    Gathering,
    /// The good answer is to be sent.
    Answering,
    /// The bad answer is to be sent.
    Failing,
    /// Of the maker: it is over, and the outcome is kept until it is released.
    Ended,
    /// Nobody wants an answer any more.
    Draining,
}

/// Which user code of a call is running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Out {
    Nothing,
    Func,
    /// For the answer of this child.
    Callback(u16),
}

/// What became of the member's own function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Own {
    NotRun,
    Began,
    Ok,
    Failed,
}

/// One call at one member; a [`Machine`](super::Machine) is lent an array of requests of them.
#[derive(Clone, Debug)]
pub struct Context {
    pub(super) call: CallId,
    /// `None` of the maker.
    pub(super) parent: Option<(Node, Edge)>,
    pub(super) state: State,
    pub(super) out: Out,
    pub(super) own: Own,
    pub(super) mode: Mode,
    pub(super) func: Tag,
    pub(super) callback: Tag,
    pub(super) slots: [u16; 2],
    pub(super) shape: Shape,
    pub(super) height: u8,
    pub(super) class: u8,
    /// The function runs here, too; not so for a maker that only coordinates.
    pub(super) takes_part: bool,
    /// It was run before and is to be asked again.
    pub(super) probed: bool,
    pub(super) woken: bool,
    /// Nothing more is begun; who has been asked is told so.
    pub(super) cancelled: bool,
    /// Everything went well.
    pub(super) well: bool,
    pub(super) told: bool,
    pub(super) released: bool,
    pub(super) queued: bool,
    /// The next context in its queue.
    pub(super) next: u32,
    pub(super) deadline: Time,
    pub(super) ask_at: Time,
    pub(super) caps: Caps,
    /// Bytes of reply so far.
    pub(super) reply_header: u16,
    pub(super) reply_data: u32,
    /// Bytes that did not fit.
    pub(super) overflow: u32,
    pub(super) data_len: u64,
    pub(super) layout: Layout,
    /// Children that have not been dealt with.
    pub(super) pend: u16,
    /// Children before this one, in the order of sending, have nothing to be sent.
    pub(super) cursor: u16,
    /// Answers that wait for the callback, in the order of arrival.
    pub(super) parked: (u16, u16),
    pub(super) records: u8,
    /// Of the children only, until the call fails.
    pub(super) tallies: Tallies,
}

pub(super) const NO_KID: u16 = u16::MAX;

/// What the user's code wants of a call that does not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) kids: u32,
    pub(super) list: u32,
    pub(super) stated: bool,
    pub(super) header: usize,
    pub(super) data: usize,
    pub(super) caps: Caps,
    pub(super) collect: bool,
    pub(super) parks: bool,
}

/// Where in a context's memory what lies, in bytes: first the reply, then the table of children, the records, the
/// parked replies, and then what came with the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) kids: u16,
    parks: bool,
    stated: bool,
    kids_at: u32,
    records_at: u32,
    park_at: u32,
    ids_at: u32,
    header_at: u32,
    data_at: u32,
    pub(super) end: u32,
}

const KID: usize = 32;

impl Layout {
    pub(super) const EMPTY: Layout = Layout {
        kids: 0,
        parks: false,
        stated: false,
        kids_at: 0,
        records_at: 0,
        park_at: 0,
        ids_at: 0,
        header_at: 0,
        data_at: 0,
        end: 0,
    };

    /// `None` if it cannot be counted.
    pub(super) fn of(sizes: &Sizes) -> Option<Layout> {
        let kids = u16::try_from(sizes.kids).ok().filter(|&kids| kids != NO_KID)?;
        let reply = sizes.caps.bytes().checked_next_multiple_of(8)?;
        let records = if sizes.collect { RECORDS } else { 1 };
        let kids_at = reply;
        let records_at = kids_at + usize::from(kids) * KID;
        let park_at = records_at + records * Record::BYTES;
        let parked = if sizes.parks { reply.checked_mul(usize::from(kids))? } else { 0 };
        let ids_at = park_at.checked_add(parked)?;
        let words = sizes.list as usize * if sizes.stated { 2 } else { 1 };
        let header_at = ids_at.checked_add(words.checked_mul(4)?)?;
        let data_at = header_at.checked_add(sizes.header)?;
        let end = data_at.checked_add(sizes.data)?;
        Some(Layout {
            kids,
            parks: sizes.parks,
            stated: sizes.stated,
            kids_at: kids_at as u32,
            records_at: records_at as u32,
            park_at: park_at as u32,
            ids_at: ids_at as u32,
            header_at: header_at as u32,
            data_at: data_at as u32,
            end: u32::try_from(end).ok()?,
        })
    }

    pub(super) const fn records_max(&self) -> usize {
        (self.park_at - self.records_at) as usize / Record::BYTES
    }

    pub(super) const fn kids_range(&self) -> Range<usize> {
        self.kids_at as usize..self.records_at as usize
    }

    pub(super) const fn record_range(&self, at: u8) -> Range<usize> {
        let start = self.records_at as usize + at as usize * Record::BYTES;
        start..start + Record::BYTES
    }

    /// Where the reply of a child is parked; empty if replies are not.
    pub(super) const fn park_range(&self, kid: u16) -> Range<usize> {
        let each = if self.parks { self.kids_at as usize } else { 0 };
        let start = self.park_at as usize + kid as usize * each;
        start..start + each
    }

    pub(super) const fn list_range(&self) -> Range<usize> {
        self.ids_at as usize..self.header_at as usize
    }

    pub(super) const fn header_range(&self) -> Range<usize> {
        self.header_at as usize..self.data_at as usize
    }

    pub(super) const fn data_range(&self) -> Range<usize> {
        self.data_at as usize..self.end as usize
    }

    pub(super) const fn reply_len(&self) -> usize {
        self.kids_at as usize
    }

    /// The list in these bytes of the whole memory.
    pub(super) fn list<'a>(&self, memory: &'a [u8]) -> List<'a> {
        self.list_in(memory.get(self.list_range()).unwrap_or(&[]))
    }

    /// The list in its own bytes.
    pub(super) fn list_in<'a>(&self, bytes: &'a [u8]) -> List<'a> {
        let (ids, sizes) = if self.stated { bytes.split_at(bytes.len() / 2) } else { (bytes, &[][..]) };
        List { ids, sizes }
    }
}

impl Context {
    /// What a call is before anything happened to it.
    pub(super) const EMPTY: Context = Context {
        call: CallId { root: Node(0), life: Life(0), seq: 0 },
        parent: None,
        state: State::Queued,
        out: Out::Nothing,
        own: Own::NotRun,
        mode: Mode::empty(),
        func: Tag::NONE,
        callback: Tag::NONE,
        slots: [0; 2],
        shape: Shape::BINARY,
        height: 0,
        class: 0,
        takes_part: true,
        probed: false,
        woken: false,
        cancelled: false,
        well: false,
        told: false,
        released: false,
        queued: false,
        next: NIL,
        deadline: Time::NEVER,
        ask_at: Time::NEVER,
        caps: Caps { header: 0, data: 0 },
        reply_header: 0,
        reply_data: 0,
        overflow: 0,
        data_len: 0,
        layout: Layout::EMPTY,
        pend: 0,
        cursor: 0,
        parked: (NO_KID, NO_KID),
        records: 0,
        tallies: Tallies { ok: 0, failed: 0, unreached: 0, unknown: 0 },
    };

    /// Which child is the `turn`-th to be sent to: the largest subtree first.
    pub(super) const fn kid_at(&self, turn: u16) -> u16 {
        if self.shape.grows() && !self.layout.stated { self.layout.kids - 1 - turn } else { turn }
    }

    pub(super) const fn turn_of(&self, kid: u16) -> u16 {
        self.kid_at(kid)
    }

    /// Whether the request goes on to the children now.
    pub(super) fn forwards(&self) -> bool {
        match self.state {
            State::Gathering | State::Draining => true,
            State::Ended => self.told,
            State::Queued | State::Running => self.mode.contains(Mode::CUT_THROUGH),
            State::Answering | State::Failing => false,
        }
    }

    pub(super) const fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}
