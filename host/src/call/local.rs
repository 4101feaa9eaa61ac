//! What a function has at its member: calls of its own, data that lies with others.
//!
//! A function that runs as part of a call [begins](Local::begin) further ones and says [`Verdict::Pending`]; it is run
//! again when one of them has ended, and finds the [answers](Local::answer) by the numbers in which it began them.
//! Meanwhile its member serves others. It need not remember anything: what it has begun is kept with the call that it
//! runs for.
//!
//! ```
//! use std::time::Duration;
//! use umbra::call::{Member, Shape, Station};
//! use umbra_core::chain::{Call, Node, Phase, Tag, Verdict};
//!
//! let station = Station::create("example", Shape::new(3))?;
//! let mut members = [0, 1, 2].map(|node| Member::join(&station, Node(node)));
//! for member in &mut members {
//!     let Ok(member) = member else { continue };
//!     member.register("count", |_| Verdict::Done)?;
//!     member.register_local("ask", |work, local| match work.phase {
//!         Phase::Init if work.node == Node(1) => {
//!             let begun = local.begin(&Call::new(Tag::of("count"), &[Node(2)]));
//!             if begun.is_ok() { Verdict::Pending } else { Verdict::Fault(1) }
//!         }
//!         Phase::Probe if !matches!(local.answer(0), Some(Ok(reply)) if reply.members == 2) => Verdict::Fault(2),
//!         _ => Verdict::Done,
//!     })?;
//! }
//! let [Ok(mut first), Ok(mut second), Ok(mut third)] = members else { return Err("a seat is taken".into()) };
//! let handle = first.start(&Call::new(Tag::of("ask"), &[Node(1)]))?;
//! while !first.test(handle)? {
//!     second.turn();
//!     third.turn();
//! }
//! assert_eq!(first.wait(handle, Duration::ZERO)?.members, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing waits in a circle. A call within another one is one level deeper, as if the tree went on, so that it waits
//! only for places of the next class; it does not count among the calls that a member may have open
//! ([`Config::open_max`](umbra_core::chain::Config::open_max)), which those that wait for it may have used up. While
//! its own member has no place for it, it waits in a queue here. Its time ends with that of the call that it belongs
//! to, and with that it is given up: no answer is waited for that nobody takes.

use std::collections::HashSet;

use umbra_core::chain::{Call, Caps, Data, Handle, Machine, Mode, Node, Plan, StartError, Tag, Verdict};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::ROOT;

use super::answer::{Failure, Reply};
use super::auto::Auto;
use super::member::Member;
use super::rendezvous::{Replies, start};
use super::station::Station;
use super::storage::Heap;
use crate::sys::clock::now;

/// Calls that a function can make for one call that it runs for.
const MOST: usize = 64;

/// Why a function cannot begin a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// Callbacks are not run again, so they would never see an answer.
    #[error("a callback cannot make calls, for it is not run again: make them in the function")]
    InCallback,
    /// It has made as many as it may.
    #[error("this function has made {MOST} calls, and no more are kept: make one call over more members")]
    TooMany,
}

/// Why a call within another one has no reply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InnerError {
    /// It was not begun; nothing was sent.
    #[error("{0}")]
    NotBegun(StartError),
    /// It failed.
    #[error("{0}")]
    Failed(Failure),
}

/// A call that waits for a place.
#[derive(Debug)]
pub(super) struct Wish {
    func: Tag,
    callback: Tag,
    header: Vec<u8>,
    data: Kept,
    members: Vec<Node>,
    tree: Tree,
    caps: Caps,
    mode: Mode,
    until: Time,
    at_root: bool,
    shape: super::Shape,
}

#[derive(Debug)]
enum Kept {
    Bytes(Vec<u8>),
    Span(umbra_core::key::Span),
}

#[derive(Debug)]
enum Tree {
    Shape(Shape),
    Led(Shape),
    Parents(Vec<u32>),
    /// The machine chooses.
    Auto,
}

impl Wish {
    pub(super) fn of(call: &Call<'_>, maker: Node, station: &Station) -> Wish {
        let (mut members, mut listed) = (call.members.to_vec(), HashSet::new());
        if call.mode.contains(Mode::DEDUP) {
            members.retain(|&member| listed.insert(member));
        }
        let count = 1 + members.iter().filter(|&&member| member != maker).count() as u32;
        let mut auto = Auto::default();
        let plan = match call.plan {
            // Who lives where is not known here, but who is on which host.
            Plan::Auto => auto.plan(station, maker, call, |node| node),
            plan => plan,
        };
        Wish {
            func: call.func,
            callback: call.callback,
            header: call.header.to_vec(),
            data: match call.data {
                Data::Bytes(bytes) => Kept::Bytes(bytes.to_vec()),
                Data::Span(span) => Kept::Span(span),
            },
            members,
            tree: match plan {
                Plan::Auto => Tree::Auto,
                Plan::Shape(shape) => Tree::Shape(shape),
                Plan::Led(shape) => Tree::Led(shape),
                Plan::Parents(parents) => Tree::Parents(parents.to_vec()),
                Plan::Function(ask) => Tree::Parents((0..count).map(|at| ask(count, at).unwrap_or(ROOT)).collect()),
            },
            caps: call.caps,
            mode: call.mode,
            until: now() + call.budget,
            at_root: call.at_root,
            shape: station.shape(),
        }
    }

    /// Until when it may take.
    pub(super) const fn until(&self) -> Time {
        self.until
    }

    pub(super) fn begin(&self, within: Option<Handle>, machine: &mut Machine<Heap>) -> Result<Handle, StartError> {
        let at = now();
        let call = Call {
            callback: self.callback,
            header: &self.header,
            data: match &self.data {
                Kept::Bytes(bytes) => Data::Bytes(bytes),
                Kept::Span(span) => Data::Span(*span),
            },
            plan: match &self.tree {
                Tree::Shape(shape) => Plan::Shape(*shape),
                Tree::Led(shape) => Plan::Led(*shape),
                Tree::Parents(parents) => Plan::Parents(parents),
                Tree::Auto => Plan::Auto,
            },
            caps: self.caps,
            mode: self.mode,
            budget: Lapse(self.until.0.saturating_sub(at.0)),
            at_root: self.at_root,
            within,
            ..Call::new(self.func, &self.members)
        };
        start(machine, &call, self.shape, at)
    }
}

/// How far a call within another one has come.
#[derive(Debug)]
enum Stand {
    Wished(Box<Wish>),
    Begun(Handle),
    Answered(Result<Reply, InnerError>),
}

/// The calls that were made for another one.
#[derive(Debug)]
pub(super) struct Within {
    pub(super) outer: Handle,
    calls: Vec<Stand>,
}

impl Within {
    /// Whether a call has no answer yet.
    pub(super) fn waits(&self) -> bool {
        self.calls.iter().any(|stand| !matches!(stand, Stand::Answered(_)))
    }

    /// Whether a call waits for a place.
    pub(super) fn wishes(&self) -> bool {
        self.calls.iter().any(|stand| matches!(stand, Stand::Wished(_)))
    }

    /// A function has ended so: unless it is pending, no call is begun that was not. The next function may be another member's.
    #[inline]
    pub(super) fn ended_as(&mut self, verdict: Verdict) {
        if verdict != Verdict::Pending && !self.calls.is_empty() {
            self.forget_wishes();
        }
    }

    // Apart from the way of functions that make no calls.
    #[inline(never)]
    fn forget_wishes(&mut self) {
        self.calls.retain(|stand| !matches!(stand, Stand::Wished(_)));
    }

    const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Nobody wants the answers any more.
    fn give_up(self, machine: &mut Machine<Heap>) {
        for stand in self.calls {
            if let Stand::Begun(handle) = stand {
                let ended = machine.cancel(handle).and_then(|()| machine.release(handle));
                debug_assert!(ended.is_ok(), "nobody else has the handle");
            }
        }
    }

    /// Begins what there is a place for; whether anything has changed.
    fn begin(&mut self, machine: &mut Machine<Heap>) -> bool {
        let (mut changed, mut answered) = (false, false);
        for stand in &mut self.calls {
            let Stand::Wished(wish) = stand else { continue };
            *stand = match wish.begin(Some(self.outer), machine) {
                Ok(handle) => Stand::Begun(handle),
                Err(StartError::WouldBlock) => continue,
                Err(error) => {
                    answered = true;
                    Stand::Answered(Err(InnerError::NotBegun(error)))
                }
            };
            changed = true;
        }
        if answered {
            let woken = machine.wake(self.outer);
            debug_assert!(woken.is_ok(), "its function is pending");
        }
        changed
    }

    /// Keeps the answer of a call that has ended, if it is one of these.
    fn answer(&mut self, ended: Handle, machine: &mut Machine<Heap>, replies: &mut Replies) -> bool {
        let is_it = |stand: &&mut Stand| matches!(stand, Stand::Begun(handle) if *handle == ended);
        let Some(stand) = self.calls.iter_mut().find(is_it) else { return false };
        if let Ok(Some(answer)) = replies.answer(machine, ended) {
            *stand = Stand::Answered(answer.map_err(InnerError::Failed));
        }
        // Its place is free at once: nobody waits for it while the function has not seen the answer.
        let freed = machine.release(ended).and_then(|()| machine.wake(self.outer));
        debug_assert!(freed.is_ok(), "the machine said that it has ended");
        true
    }
}

/// What a function has at its member; see the [module](self).
#[derive(Debug)]
pub struct Local<'a> {
    pub(super) within: &'a mut Within,
    pub(super) node: Node,
    pub(super) in_callback: bool,
    pub(super) station: &'a Station,
}

impl<'a> Local<'a> {
    /// What functions have that run for the call of `within`.
    pub(super) const fn of(within: &'a mut Within, node: Node, station: &'a Station) -> Local<'a> {
        Local { within, node, in_callback: false, station }
    }
}

impl Local<'_> {
    /// In whose name calls are made: that of the member whose thread this is, also for others in its house.
    #[must_use]
    pub const fn maker(&self) -> Node {
        self.node
    }

    /// Has a call made; its number, which is 0 for the first one of this function and this call. It begins when the function
    /// has said [`Verdict::Pending`], and has no more time than the call that it belongs to; `within` need not be stated.
    /// Calls of a function that ends in another way are not made, or given up.
    ///
    /// # Errors
    /// [`BeginError`]. What else speaks against the call is its answer.
    pub fn begin(&mut self, call: &Call<'_>) -> Result<usize, BeginError> {
        if self.in_callback {
            return Err(BeginError::InCallback);
        }
        if self.within.calls.len() >= MOST {
            return Err(BeginError::TooMany);
        }
        self.within.calls.push(Stand::Wished(Box::new(Wish::of(call, self.node, self.station))));
        Ok(self.within.calls.len() - 1)
    }

    /// The answer to the call of this number; `None` while it goes on, and if none was begun.
    #[must_use]
    pub fn answer(&self, number: usize) -> Option<&Result<Reply, InnerError>> {
        match self.within.calls.get(number)? {
            Stand::Answered(answer) => Some(answer),
            Stand::Wished(_) | Stand::Begun(_) => None,
        }
    }

    /// Calls that were begun.
    #[must_use]
    pub const fn begun(&self) -> usize {
        self.within.calls.len()
    }

    /// Whether a call has no answer yet.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.within.waits()
    }
}

impl Member {
    /// Gives up what functions have begun that are run no more, and begins what there is a place for; whether anything changed.
    pub(super) fn tend(&mut self) -> bool {
        if self.within.is_empty() {
            return false;
        }
        let (machine, mut changed) = (&mut self.machine, false);
        let over = |within: &mut Within| !machine.is_pending(within.outer);
        let over: Vec<Within> = self.within.extract_if(.., over).collect();
        for within in over {
            within.give_up(&mut self.machine);
            changed = true;
        }
        for within in &mut self.within {
            changed |= within.begin(&mut self.machine);
        }
        changed
    }

    /// A call of ours has ended: if a function made it, that is run again.
    pub(super) fn ended(&mut self, handle: Handle) {
        for within in &mut self.within {
            if within.answer(handle, &mut self.machine, &mut self.replies) {
                return;
            }
        }
    }

    /// The calls that a function has made which is to be run.
    pub(super) fn take_within(&mut self, outer: Handle) -> Within {
        let known = self.within.iter().position(|within| within.outer == outer);
        known.map_or(Within { outer, calls: Vec::new() }, |at| self.within.swap_remove(at))
    }

    /// Keeps the calls of a function that is pending, and gives up those of one that has ended.
    pub(super) fn settle(&mut self, within: Within, verdict: Verdict) {
        if within.is_empty() {
            return;
        }
        match verdict {
            Verdict::Pending => self.within.push(within),
            _ => within.give_up(&mut self.machine),
        }
    }
}
