//! Making a call: all that can be wrong with it is found before anything is sent.

use core::fmt;

use zerocopy::IntoBytes;

use super::context::{Context, NO_KID};
use super::functions;
use super::laid::{Among, Laid};
use super::layout::{Layout, Sizes, frames_of};
use super::list::{Packed, Whole};
use super::machine::{Handle, Machine};
use super::message::{Caps, SPAN, span_bytes};
use super::mode::Mode;
use super::name::{CallId, Node, Tag};
use super::skipped;
use super::storage::Storage;
use super::work::Data;
use crate::time::{Lapse, Time};
use crate::tree::explicit::BadTree;
use crate::tree::{Shape, auto};

/// Which tree a call takes over its list: the one who makes it at position 0, then the others in their order.
#[derive(Clone, Copy)]
pub enum Plan<'a> {
    /// One that everybody can work out.
    Shape(Shape),
    /// The first of the list alone below whoever makes the call, and this one over that member and all after it: so one message
    /// reaches members that live together.
    Led(Shape),
    /// The parent of every position, [`ROOT`](crate::tree::explicit::ROOT) at position 0.
    Parents(&'a [u32]),
    /// The same from a function of the number of positions and a position; it is asked here and nowhere else.
    Function(&'a dyn Fn(u32, u32) -> Option<u32>),
    /// The shape that [suits](auto::shape) so many members and bytes; a binary or a flat tree if there is no room for that one.
    /// Whoever drives the machine may know more of where members are, and take another tree.
    Auto,
}

impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Shape(shape) => shape.fmt(f),
            Plan::Led(shape) => write!(f, "led {shape:?}"),
            Plan::Parents(parents) => parents.fmt(f),
            Plan::Function(_) => f.write_str("function"),
            Plan::Auto => f.write_str("auto"),
        }
    }
}

/// The longest that a call may take: requests say in 32 bits how many microseconds are left.
pub const BUDGET_MAX: Lapse = Lapse::from_micros(u32::MAX as u64);

/// A call to be made.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What every member runs.
    pub func: Tag,
    /// What combines the answer of a child into the member's own; [`Tag::NONE`] if nothing is answered.
    pub callback: Tag,
    /// Small, and always copied.
    pub header: &'a [u8],
    /// Copied, or where it lies.
    pub data: Data<'a>,
    /// The members. Whoever makes the call takes part whether it is among them or not, and stands first.
    pub members: &'a [Node],
    /// The tree over them.
    pub plan: Plan<'a>,
    /// How much every member may answer; nothing for a bare confirmation.
    pub caps: Caps,
    /// How it is to be treated.
    pub mode: Mode,
    /// How long it may take: at most [`BUDGET_MAX`], and within another call no longer than that.
    pub budget: Lapse,
    /// Whether the function runs at the one who makes the call as well.
    pub at_root: bool,
    /// The call whose function makes this one, if one does.
    pub within: Option<Handle>,
}

impl<'a> Call<'a> {
    /// A call without data or reply over a binary tree, with a second of time.
    #[must_use]
    pub const fn new(func: Tag, members: &'a [Node]) -> Call<'a> {
        Call {
            func,
            callback: Tag::NONE,
            header: &[],
            data: Data::Bytes(&[]),
            members,
            plan: Plan::Shape(Shape::BINARY),
            caps: Caps { header: 0, data: 0 },
            mode: Mode::empty(),
            budget: Lapse::from_secs(1),
            at_root: true,
            within: None,
        }
    }

    /// Bytes that go down and up each edge, without names.
    #[must_use]
    pub const fn weight(&self) -> usize {
        let data = match self.data {
            Data::Bytes(bytes) => bytes.len(),
            Data::Span(_) => SPAN,
        };
        self.header.len().saturating_add(data).saturating_add(self.caps.bytes())
    }
}

/// Why a call was not begun; nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum StartError {
    /// The function is not registered here.
    UnknownFunc(Tag),
    /// The callback is not registered here.
    UnknownCallback(Tag),
    /// A reply is asked for, and nothing would combine it.
    ReplyWithoutCallback,
    /// Functions may replace the header for their children, who are to have it before these functions run.
    RewriteCutThrough,
    /// The header is too long.
    HeaderTooLong {
        /// Its bytes.
        len: usize,
        /// The most that are taken.
        max: usize,
    },
    /// What the call needs is more than a call may have, or than a message carries.
    TooLarge {
        /// Bytes needed.
        needed: usize,
        /// Bytes allowed.
        allowed: usize,
    },
    /// More members than this machine has memory to lay out.
    TooMany {
        /// Members, with the one who makes the call.
        members: usize,
        /// The most.
        max: usize,
    },
    /// A member is listed twice, and [not to count once](Mode::DEDUP). Positions count the one who makes the call as 0.
    DuplicateId {
        /// The member.
        id: Node,
        /// Its first position.
        first: u32,
        /// Its second.
        second: u32,
    },
    /// A member is not known.
    UnknownId(Node),
    /// A member is known to be dead, and [not to be left out](Mode::SKIP_DEAD).
    DeadId(Node),
    /// The stated tree is none.
    BadTree(BadTree),
    /// The tree has more levels than calls may. Within another call it goes on below the member whose function makes this one.
    TooDeep {
        /// Levels below the one who made the outermost call.
        height: u32,
        /// The most.
        max: u32,
    },
    /// A member has more children than can be counted.
    FanOut(u32),
    /// There is no time for it.
    NoTime,
    /// It would have more time than a request can say, [`BUDGET_MAX`].
    TooMuchTime,
    /// Too many calls are open here; retry when one has ended.
    WouldBlock,
    /// The call that this one belongs to is over.
    StaleWithin,
    /// The machine is a copy, in a process that was forked off from its own: what it sent would come in the name of that.
    Forked,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StartError::UnknownFunc(tag) => write!(f, "no function of tag {:08x} is registered here", tag.0),
            StartError::UnknownCallback(tag) => write!(f, "no callback of tag {:08x} is registered here", tag.0),
            StartError::ReplyWithoutCallback => f.write_str("a reply needs a callback that combines it: name one"),
            StartError::RewriteCutThrough => f.write_str(
                "a header that functions may replace cannot go on before they run: do without one of both modes",
            ),
            StartError::HeaderTooLong { len, max } => write!(f, "a header of {len} bytes, at most {max} are taken"),
            StartError::TooLarge { needed, allowed } => {
                write!(
                    f,
                    "the call needs {needed} bytes where {allowed} are allowed: offer its data as a span, or allow less reply"
                )
            }
            StartError::TooMany { members, max } => write!(f, "{members} members, at most {max} are taken"),
            StartError::DuplicateId { id, first, second } => {
                write!(f, "member {id} is listed at positions {first} and {second}")
            }
            StartError::UnknownId(id) => write!(f, "member {id} is not known"),
            StartError::DeadId(id) => write!(f, "member {id} is dead"),
            StartError::BadTree(bad) => bad.fmt(f),
            StartError::TooDeep { height, max } => {
                let levels = if height == 1 { "level" } else { "levels" };
                write!(
                    f,
                    "the tree ends {height} {levels} below the maker of the outermost call, at most {max} are taken: take a flatter one"
                )
            }
            StartError::FanOut(children) => write!(f, "a member with {children} children, at most 65534 are taken"),
            StartError::NoTime => f.write_str("no time for the call: give it a later deadline"),
            StartError::TooMuchTime => {
                write!(
                    f,
                    "a call may take {} seconds at most: give it an earlier deadline",
                    BUDGET_MAX.0 / 1_000_000_000
                )
            }
            StartError::WouldBlock => f.write_str("too many calls are open here: retry when one has ended"),
            StartError::StaleWithin => f.write_str("the call that this one belongs to is over"),
            StartError::Forked => f.write_str(
                "the member belongs to the process that forked this one off: take another seat in this process",
            ),
        }
    }
}
impl core::error::Error for StartError {}

impl<S: Storage> Machine<S> {
    /// Begins a call. Header and data are copied, so they may change at once; the handle tells of its
    /// [outcome](Machine::outcome).
    ///
    /// # Errors
    /// [`StartError`]; nothing was sent, and no place is taken.
    pub fn start(&mut self, call: &Call<'_>, now: Time) -> Result<Handle, StartError> {
        let functions = self.functions.as_ref();
        let func = functions::find(functions, 0, call.func).ok_or(StartError::UnknownFunc(call.func))?;
        let callback = match call.callback {
            Tag::NONE => 0,
            tag => functions::find(functions, 1, tag).ok_or(StartError::UnknownCallback(tag))?,
        };
        let max = usize::from(self.config.header_max);
        if call.header.len() > max {
            return Err(StartError::HeaderTooLong { len: call.header.len(), max });
        }
        if call.mode.contains(Mode::REWRITE | Mode::CUT_THROUGH) {
            return Err(StartError::RewriteCutThrough);
        }
        let deadline = now + call.budget;
        let (class, deadline) = match call.within {
            None => (0_u32, deadline),
            Some(outer) => {
                let outer = self.contexts.get(outer).ok().filter(|outer| outer.is_going_on());
                let outer = outer.ok_or(StartError::StaleWithin)?;
                // What the outer call keeps for its report to come up is not for calls that it waits for.
                (u32::from(outer.class) + 1, deadline.min(Time(outer.deadline.0.saturating_sub(outer.slack.0))))
            }
        };
        let budget = deadline.since(now);
        if budget.0 < 1000 {
            return Err(StartError::NoTime);
        }
        if budget > BUDGET_MAX {
            return Err(StartError::TooMuchTime);
        }
        let among = self.list(call.members, call.mode)?;
        let Among { len, skipped: left_out, all_home, .. } = among;
        if call.callback == Tag::NONE && call.caps.bytes() > 0 && len > 1 {
            return Err(StartError::ReplyWithoutCallback);
        }
        let sent = call.mode & Mode::KEPT;
        let span;
        let (data, data_len, mode) = match call.data {
            Data::Bytes(bytes) => (bytes, bytes.len() as u64, sent - Mode::SPAN),
            Data::Span(of) => {
                span = span_bytes(of);
                (&span[..SPAN], of.len, sent | Mode::SPAN)
            }
        };
        let sizes = Sizes {
            kids: 0,
            list: len,
            whole: mode.contains(Mode::FULL_LIST).then_some(Whole { start: 0, len }),
            stated: false,
            header: call.header.len(),
            data: data.len(),
            caps: call.caps.sent(mode),
            collect: mode.contains(Mode::COLLECT),
            parks: call.callback != Tag::NONE,
            frames: 0,
            rewrites: mode.contains(Mode::REWRITE),
            skipped: left_out,
        };
        let (laid, layout) = match call.plan {
            Plan::Auto => {
                let suited = auto::shape(len - 1, call.weight(), all_home);
                // A narrow one where there is memory for few children only, a low one where there are few classes.
                let first = self.room(Plan::Shape(suited), class, sizes, &among);
                let second = first.or_else(|_| self.room(Plan::Shape(Shape::BINARY), class, sizes, &among));
                second.or_else(|_| self.room(Plan::Shape(Shape::FLAT), class, sizes, &among))
            }
            plan => self.room(plan, class, sizes, &among),
        }?;
        // Whoever is deeper than a byte counts has no room.
        let class = class as u8;
        if (class == 0 && self.open >= self.config.open_max) || !self.admits_start(class, call.within) {
            return Err(StartError::WouldBlock);
        }
        let seq = CallId::after(self.seq);
        let context = Context {
            call: CallId { root: self.config.node, life: self.config.life, seq },
            node: self.config.node,
            all_home,
            mode,
            func: call.func,
            callback: call.callback,
            slots: [func, callback],
            shape: laid.shape,
            led: laid.led,
            height: laid.height as u8,
            class,
            takes_part: call.at_root,
            skipped: left_out,
            deadline,
            slack: Self::slack(budget, laid.height as u8),
            caps: call.caps,
            data_len,
            layout,
            pend: layout.kids,
            ..Context::EMPTY
        };
        let id = self.take(context).map_err(|_| StartError::WouldBlock)?;
        self.seq = seq;
        self.open += u16::from(class == 0);
        let start = id.index() as usize * self.slab;
        if let Some(memory) = self.words.as_mut().get_mut(start..start + self.slab) {
            let bytes = memory.as_mut_bytes();
            if let Some(place) = bytes.get_mut(layout.list_range()) {
                laid.write_list(self.scratch.as_mut(), &mut self.listed, place, len);
            }
            if let Some(place) = bytes.get_mut(layout.skipped_range(left_out)).filter(|place| !place.is_empty()) {
                skipped::write_names(self.peers.as_ref(), self.config.node, call.members, place);
            }
            for (range, from) in [(layout.header_range(), call.header), (layout.data_range(), data)] {
                if let Some(place) = bytes.get_mut(range) {
                    place.copy_from_slice(from);
                }
            }
        }
        self.write_kids(id);
        self.ready(id);
        Ok(id)
    }

    /// The tree of a call of this class, and where in its memory what lies, if both may be.
    #[inline]
    fn room(
        &mut self,
        plan: Plan<'_>,
        class: u32,
        sizes: Sizes,
        among: &Among<'_>,
    ) -> Result<(Laid, Layout), StartError> {
        let laid = self.lay_out(plan, among)?;
        let height = class + laid.height;
        let max = u32::from(self.config.classes.checked_sub(1).unwrap_or(u8::MAX));
        if height > max {
            return Err(StartError::TooDeep { height, max });
        }
        if laid.fan_out >= u32::from(NO_KID) {
            return Err(StartError::FanOut(laid.fan_out));
        }
        let sizes = Sizes { kids: self.children_of_root(&laid, sizes.list), stated: laid.stated, ..sizes };
        let allowed = self.slab * 8;
        let layout =
            self.layout(&sizes, frames_of(laid.height)).ok_or(StartError::TooLarge { needed: usize::MAX, allowed })?;
        let ahead = if sizes.whole.is_some() { Packed::AHEAD } else { 0 };
        let plain = ahead + sizes.list as usize * if sizes.stated { 8 } else { 4 };
        // Whether it has few runs is asked only where that matters.
        let fits = self.fits(&layout, &sizes, plain).or_else(|_| {
            let packed = laid.packed(self.scratch.as_mut(), &mut self.listed, sizes.list);
            self.fits(&layout, &sizes, ahead + packed)
        });
        fits.map_err(|needed| StartError::TooLarge {
            needed: needed as usize,
            allowed: if layout.end as usize > allowed { allowed } else { self.config.message_max as usize },
        })?;
        let needed = layout.skipped_range(among.skipped).end;
        if needed > allowed {
            return Err(StartError::TooLarge { needed, allowed });
        }
        Ok((laid, layout))
    }
}
