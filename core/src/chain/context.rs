//! One call at one member.

use super::frame::{Role, Walk};
use super::layout::Layout;
use super::machine::Handle;
use super::message::Caps;
use super::mode::Mode;
use super::name::{CallId, Edge, Life, Node, Tag};
use super::reply::Written;
use super::report::Tallies;
use crate::time::{Lapse, Time};
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
    /// Of a member below that has no place of its own.
    Walk(Role),
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
    /// Whose call it is: a member that lives here.
    pub(super) node: Node,
    /// `None` of the maker.
    pub(super) parent: Option<(Node, Edge)>,
    /// Its parent lives here as well.
    pub(super) at_home: bool,
    /// Everybody in its list was found to live here.
    pub(super) all_home: bool,
    /// The call came here by several requests at once: whoever lives here may be named by more than one of them.
    pub(super) shared: bool,
    /// In whose memory what came with the request lies: this one's, or that of an ancestor that lives here.
    pub(super) source: u32,
    /// Other calls here that read what lies in this one's memory.
    pub(super) readers: u32,
    pub(super) state: State,
    pub(super) out: Out,
    pub(super) own: Own,
    pub(super) mode: Mode,
    pub(super) func: Tag,
    pub(super) callback: Tag,
    pub(super) slots: [u16; 2],
    /// The tree below; whose call is led has one child, which is at the top of it.
    pub(super) shape: Shape,
    pub(super) led: bool,
    pub(super) height: u8,
    pub(super) class: u8,
    /// The function runs here, too; not so for a maker that only coordinates.
    pub(super) takes_part: bool,
    /// Members that its maker left out, as they are dead.
    pub(super) skipped: u32,
    /// It was run before and is to be asked again.
    pub(super) probed: bool,
    pub(super) woken: bool,
    /// Nothing more is begun; who has been asked is told so.
    pub(super) cancelled: bool,
    /// Everybody who has been asked was told to stop, or is about to be; nobody else is asked.
    pub(super) stopped: bool,
    /// Everything went well.
    pub(super) well: bool,
    pub(super) told: bool,
    pub(super) released: bool,
    pub(super) queued: bool,
    /// Its next child lives here and finds no room; nothing is sent before there is some.
    pub(super) wants_room: bool,
    /// The next context in its queue.
    pub(super) next: u32,
    pub(super) deadline: Time,
    /// What every level below keeps of the time for reports to come up.
    pub(super) slack: Lapse,
    pub(super) ask_at: Time,
    /// How much a member may answer; what of it is in answers is [less](Self::sent) in a rendezvous.
    pub(super) caps: Caps,
    pub(super) reply: Written,
    pub(super) walk: Walk,
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

impl Context {
    /// What a call is before anything happened to it.
    pub(super) const EMPTY: Context = Context {
        call: CallId { root: Node(0), life: Life(0), seq: 0 },
        node: Node(0),
        parent: None,
        at_home: false,
        all_home: false,
        shared: false,
        source: NIL,
        readers: 0,
        state: State::Queued,
        out: Out::Nothing,
        own: Own::NotRun,
        mode: Mode::empty(),
        func: Tag::NONE,
        callback: Tag::NONE,
        slots: [0; 2],
        shape: Shape::BINARY,
        led: false,
        height: 0,
        class: 0,
        takes_part: true,
        skipped: 0,
        probed: false,
        woken: false,
        cancelled: false,
        stopped: false,
        well: false,
        told: false,
        released: false,
        queued: false,
        wants_room: false,
        next: NIL,
        deadline: Time::NEVER,
        slack: Lapse(0),
        ask_at: Time::NEVER,
        caps: Caps { header: 0, data: 0 },
        reply: Written::NOTHING,
        walk: Walk::NONE,
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

    /// Whether everybody below may live here and have done nothing yet.
    pub(super) fn may_walk(&self) -> bool {
        let is_due = self.state == State::Gathering && self.out == Out::Nothing;
        is_due && !self.walk.was_tried && self.layout.frames > 0 && !self.led
    }

    /// The class of what hangs below; `None` if nothing can, for a byte counts the classes.
    pub(super) const fn class_below(&self) -> Option<u8> {
        self.class.checked_add(1)
    }

    /// How much is in an answer at most.
    pub(super) const fn sent(&self) -> Caps {
        self.caps.sent(self.mode)
    }

    /// Bytes of data that a reply may have, if it is not in answers.
    pub(super) fn rendezvous(&self) -> Option<u32> {
        self.mode.contains(Mode::RENDEZVOUS).then_some(self.caps.data)
    }

    /// Whether it has not ended yet, well or badly.
    pub(super) const fn is_going_on(&self) -> bool {
        matches!(self.state, State::Queued | State::Running | State::Gathering)
    }

    /// Whether answers of children still count.
    pub(super) fn takes_answers(&self) -> bool {
        self.forwards() && !matches!(self.state, State::Ended | State::Draining)
    }

    pub(super) const fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Whether it is what the call `above` has asked of its child `ordinal`, which lives here as well.
    pub(super) fn answers_to(&self, above: Handle, call: CallId, ordinal: u16) -> bool {
        let edge = edge_to(above, ordinal);
        self.at_home && self.call == call && self.parent.is_some_and(|(_, known)| known == edge)
    }
}

/// How a child names the place of a call from which it was asked.
pub(super) const fn edge_to(above: Handle, ordinal: u16) -> Edge {
    Edge { index: above.index() as u16, generation: above.generation().0 as u16, ordinal }
}
