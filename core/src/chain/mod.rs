//! Chained global procedure calls: one call, a tree of processes, one answer.
//!
//! A member makes a call over a list of members. The request travels down a tree; every member runs a *function* once,
//! and everybody with children runs a *callback* for the answer of each, which combines it into its own. The one
//! who made the call gets one answer: the combined reply, or a [`Report`] of who failed, at which [`Stage`], and what
//! became of all others.
//!
//! Only the maker plans. It lays the list out in preorder, so that every subtree is a contiguous piece, and every
//! member gets its piece and finds its own children in it ([`tree`](crate::tree)). That there is one parent and no
//! cycle holds by construction.
//!
//! ```text
//! setup ── func ── forward ── callback of each child ── reply
//!   │        │        │              │                    │
//!   └────────┴────────┴── failure: stage, code, origin ───┘ up, unchanged, to the maker
//! ```
//!
//! [`Machine`] does this for one member, or for several that [live together](Machine::house), without input or output
//! of its own:
//!
//! * Messages come in by [`on_message`](Machine::on_message), which may be called while the user's code runs; messages
//!   to be sent come out of [`poll`](Machine::poll), and so does the user's code to be run. User code sees a
//!   [`Work`] and never the machine, so it cannot run it again.
//! * A function that cannot end now says [`Verdict::Pending`] and is run again when it is woken. It may have further
//!   calls made ([`Call::within`]); it never waits.
//! * A function runs at most once a call, whatever is lost, repeated or reordered: calls that are over are remembered,
//!   and those that are forgotten are older than a number kept for every member. A request that more later calls of its maker
//!   overtake than are remembered is refused by name ([`Code::ReplyGone`]), as it may have been here before.
//! * Whoever makes a call gives it a time. Every level keeps a part of it for reports to come up, so the deepest
//!   witness reports first, and the origin is exact. On transports that lose messages, children are asked for a sign of life.
//! * Places are bounded. A call of one depth waits only for places of the next, and every depth has a place of its own
//!   ([`Config::classes`]), so calls that cross never wait in a circle. Whoever finds none has his turn after those who asked
//!   before him. The space for answers is taken with the request, so answers never wait at all.
//!
//! Invariants: a context is in at most one queue; `pend` counts the children that are open or parked; an answer is sent
//! up exactly once a context, or never if nobody wants it; the tallies of an answer add up to its subtree.
//!
//! *Cost*: nothing is allocated; a message is copied once in and once out; finding a call is one look into a map for a
//! request, one index for an answer. Between members that live together there are no messages, and no look-ups.

mod below;
mod column;
mod context;
mod depart;
mod due;
mod forward;
mod frame;
mod functions;
mod home;
mod kids;
mod laid;
mod layout;
mod list;
mod machine;
mod message;
mod mode;
mod name;
mod notes;
mod outcome;
mod peek;
mod peers;
mod places;
mod reach;
mod receive;
mod reply;
mod report;
mod room;
mod setup;
mod skipped;
mod start;
mod storage;
mod tombs;
mod user;
mod walk;
mod way;
mod work;

pub use below::{HeaderBelow, RewriteError};
pub use context::{Context, RECORDS};
pub use functions::{Function, RegisterError};
pub use machine::{Action, CLASSES_MAX, Handle, Machine};
pub use message::{Caps, FAILURE, HEAD, REQUEST, RESPONSE, VERSION};
pub use mode::Mode;
pub use name::{CallId, Edge, Life, Node, Tag};
pub use notes::Note;
pub use outcome::{Outcome, Report};
pub use peek::{Carried, alive, busy, peek_answer, peek_cancel, peek_carried, peek_reply, peek_request, set_carried};
pub use peers::PeerEntry;
pub use reach::Unreached;
pub use reply::{Reply, ReplyTooLarge};
pub use report::{Code, Record, Stage, Tallies};
pub use room::Waiter;
pub use start::{BUDGET_MAX, Call, Plan, StartError};
pub use storage::{Config, Lent, Storage};
pub use tombs::Tomb;
pub use work::{Answer, Data, Members, Phase, Verdict, Work};

/// Counts of what a machine did; they wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Figures {
    /// Requests sent, those sent again included.
    pub requests: u64,
    /// Their bytes.
    pub request_bytes: u64,
    /// Good answers sent.
    pub responses: u64,
    /// Their bytes.
    pub response_bytes: u64,
    /// Bad answers sent.
    pub failures: u64,
    /// Answers sent again.
    pub repeated: u64,
    /// Refusals for lack of room.
    pub busy: u64,
    /// Notices that there is room again.
    pub credits: u64,
    /// Questions to children.
    pub asks: u64,
    /// Answers to such questions.
    pub alive: u64,
    /// Cancellations sent.
    pub cancels: u64,
    /// Members that did their part with parents that live here, in places of their own or in those of their parents.
    pub at_home: u64,
    /// Times the user's code was run.
    pub runs: u64,
    /// Messages dropped that nobody waits for.
    pub stale: u64,
    /// Messages dropped that are none.
    pub malformed: u64,
}
