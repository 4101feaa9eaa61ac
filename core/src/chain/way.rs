//! What is due in a walk, and what the user's code is given there.

use zerocopy::IntoBytes;

use super::context::Context;
use super::frame::{Frame, Role};
use super::kids::pieces;
use super::layout::Layout;
use super::list::List;
use super::message::Caps;
use super::mode::Mode;
use super::name::Tag;
use super::reply::{Reply, Written};
use super::report::Code;
use super::work::{Answer, Data, Phase, Verdict, Work};
use crate::tree::{Piece, Shape};

/// A place that is walked through, its own memory, and what came with the request.
pub(super) struct Way<'a> {
    pub(super) context: &'a mut Context,
    pub(super) own: &'a mut [u64],
    pub(super) list: List<'a>,
    /// All members of the call, if they are wanted.
    pub(super) all: &'a [[u8; 4]],
    pub(super) header: &'a [u8],
    pub(super) data: Data<'a>,
    /// How much of a reply is in answers, and how much data may be elsewhere: looked up once for all runs.
    pub(super) sent: Caps,
    pub(super) rendezvous: Option<u32>,
    /// Bytes of memory of each call.
    pub(super) room: usize,
}

/// What is due in a walk.
pub(super) enum Next {
    /// The user's code in this role.
    Run(Role),
    /// It has ended, or is to end.
    Over,
    /// Its members need places of their own.
    Apart,
    /// The child at hand cannot carry it out.
    Refused(Code, u32),
}

/// What ends a series of runs.
pub(super) enum Pause {
    /// Others have their turn, or the run did not just end well: it is to be [finished](super::Machine::finish).
    Said(Role, Verdict),
    /// The walk has ended.
    Over,
    /// Something else is due.
    Due,
}

/// Runs of the user's code that were come upon, and how many of them were functions of members.
#[derive(Clone, Copy, Default)]
pub(super) struct Runs {
    pub(super) all: u64,
    pub(super) funcs: u64,
}

impl<'a> Way<'a> {
    #[inline]
    pub(super) fn next(&mut self) -> Option<Next> {
        let walk = &mut self.context.walk;
        if walk.combines {
            walk.combines = false;
            if self.context.callback != Tag::NONE {
                return Some(Next::Run(Role::Callback));
            }
            walk.top.pass(walk.child);
        }
        self.next_child()
    }

    /// The next run, if no answer waits to be combined.
    #[inline(always)]
    fn next_child(&mut self) -> Option<Next> {
        let Context { layout, walk, mode, callback, cancelled, .. } = &mut *self.context;
        while walk.top.next >= walk.top.end() || *cancelled || !walk.top.is_well() {
            let fails = !walk.top.is_well() && mode.contains(Mode::CANCEL_ON_FAIL);
            let is_done = walk.top.next >= walk.top.end();
            if fails || *cancelled || is_done && walk.level == 0 {
                return Some(Next::Over);
            }
            if !is_done {
                break;
            }
            let done = core::mem::replace(&mut walk.top, Frame::load(layout, self.own, walk.level - 1)?);
            walk.level -= 1;
            (walk.child, walk.answer) = (done.piece, done.reply);
            if !done.is_well() {
                walk.top.failed += done.failed;
                walk.top.unreached += done.unreached;
            } else if *callback != Tag::NONE {
                return Some(Next::Run(Role::Callback));
            }
            walk.top.pass(done.piece);
        }
        self.begin_child()
    }

    #[inline(always)]
    fn begin_child(&mut self) -> Option<Next> {
        let Context { layout, walk, shape, shared, .. } = &mut *self.context;
        if *shared || walk.level >= layout.frames {
            return Some(Next::Apart);
        }
        walk.child = child_of(*shape, &self.list, &walk.top);
        walk.answer = Written::NOTHING;
        if self.list.is_stated()
            && walk.child.len > 1
            && let Err((code, aux)) = check(*shape, layout, &self.list, walk.child, self.room)
        {
            return Some(Next::Refused(code, aux));
        }
        Some(Next::Run(Role::Func))
    }

    /// Bytes of the reply at hand that did not fit.
    #[inline]
    pub(super) const fn overflow(&self, role: Role) -> u32 {
        match role {
            Role::Func => self.context.walk.answer.overflow,
            Role::Callback => self.context.walk.top.reply.overflow,
        }
    }

    /// The user's code has done its part well.
    #[inline]
    pub(super) fn done(&mut self, role: Role) {
        let walk = &mut self.context.walk;
        match role {
            Role::Callback => walk.top.pass(walk.child),
            Role::Func if walk.child.len == 1 => walk.combines = true,
            Role::Func => self.descend(),
        }
    }

    /// The children of the child at hand are next.
    #[inline]
    fn descend(&mut self) {
        let walk = &mut self.context.walk;
        let below = Frame::new(walk.child, walk.answer);
        core::mem::replace(&mut walk.top, below).save(&self.context.layout, self.own, walk.level);
        walk.level += 1;
    }

    /// Runs the user's code in this role, or the next one if no answer waits to be combined, and goes on with that of other
    /// members as long as all goes well, at most so many times. `None` if the call is damaged.
    #[inline]
    pub(super) fn go(
        &mut self,
        mut due: Option<Role>,
        most: u64,
        mut user: impl FnMut(u16, &mut Work<'_>) -> Verdict,
    ) -> Option<(Pause, Runs)> {
        let ([func, callback], combines) = (self.context.slots, self.context.callback != Tag::NONE);
        let mut runs = Runs::default();
        loop {
            let role = match due.take() {
                Some(role) => role,
                None => match self.next_child()? {
                    Next::Run(role) => {
                        runs.all += 1;
                        runs.funcs += u64::from(role == Role::Func);
                        role
                    }
                    Next::Over => return Some((Pause::Over, runs)),
                    // What is due instead is found again.
                    Next::Apart | Next::Refused(..) => return Some((Pause::Due, runs)),
                },
            };
            let is_func = role == Role::Func;
            let verdict = if is_func {
                user(func, &mut self.lend().func()?)
            } else {
                user(callback, &mut self.lend().callback()?)
            };
            if verdict != Verdict::Done || self.overflow(role) > 0 || runs.all >= most {
                return Some((Pause::Said(role, verdict), runs));
            }
            let walk = &mut self.context.walk;
            if is_func && walk.child.len > 1 {
                self.descend();
            } else if is_func && combines {
                due = Some(Role::Callback);
                runs.all += 1;
            } else {
                walk.top.pass(walk.child);
            }
        }
    }

    #[inline]
    fn lend(&mut self) -> Way<'_> {
        let Way { context, own, list, all, header, data, sent, rendezvous, room } = self;
        let (list, data, sent, rendezvous, room) = (*list, *data, *sent, *rendezvous, *room);
        Way { context, own, list, all, header, data, sent, rendezvous, room }
    }

    #[inline]
    pub(super) fn into_work(self, role: Role) -> Option<Work<'a>> {
        match role {
            Role::Func => self.func(),
            Role::Callback => self.callback(),
        }
    }

    /// What the function of the child at hand is given.
    #[inline(always)]
    fn func(self) -> Option<Work<'a>> {
        let (rendezvous, caps) = (self.rendezvous, self.sent);
        let Context { layout, walk, call, .. } = self.context;
        let place = self.own.as_mut_bytes().get_mut(layout.reply_range(walk.level + 1))?;
        let (header, data) = place.split_at_mut_checked(usize::from(caps.header))?;
        Some(Work {
            phase: Phase::Init,
            call: *call,
            node: self.list.id(walk.child.start)?,
            parent: self.list.id(walk.top.piece.start),
            header: self.header,
            data: self.data,
            reply: Reply { header, data: data.get_mut(..caps.data as usize)?, written: &mut walk.answer },
            rendezvous,
            below: None,
            all: self.all,
            ids: self.list.ids_of(walk.child)?,
        })
    }

    /// What the callback for the answer of the child at hand is given.
    #[inline(always)]
    fn callback(self) -> Option<Work<'a>> {
        let (rendezvous, caps) = (self.rendezvous, self.sent);
        let Context { layout, walk, call, parent, .. } = self.context;
        let (top, child, at) = (walk.top.piece, walk.child, usize::from(caps.header));
        let parent = match walk.level.checked_sub(1) {
            None => parent.map(|(parent, _)| parent),
            Some(above) => Some(self.list.id(Frame::start_of(layout, self.own, above)?)?),
        };
        let theirs = layout.reply_range(walk.level + 1).start;
        let (ours, theirs) = self.own.as_mut_bytes().split_at_mut_checked(theirs)?;
        let (their_header, their_data) = theirs.split_at_checked(at)?;
        let answer = Answer {
            from: self.list.id(child.start)?,
            members: child.len,
            last: child.start + child.len == top.start + top.len,
            header: their_header.get(..usize::from(walk.answer.header))?,
            data: their_data.get(..walk.answer.data as usize)?,
        };
        let (header, data) = ours.get_mut(layout.reply_range(walk.level))?.split_at_mut_checked(at)?;
        Some(Work {
            phase: Phase::Wait(answer),
            call: *call,
            node: self.list.id(top.start)?,
            parent,
            header: self.header,
            data: self.data,
            reply: Reply { header, data: data.get_mut(..caps.data as usize)?, written: &mut walk.top.reply },
            rendezvous,
            below: None,
            all: self.all,
            ids: self.list.ids_of(top)?,
        })
    }
}

/// The child whose turn it is below a member.
#[inline(always)]
fn child_of(shape: Shape, list: &List<'_>, top: &Frame) -> Piece {
    let rest = top.end() - top.next;
    let stated = || list.size(top.next).unwrap_or(rest);
    let len = if list.is_stated() { stated() } else { shape.child_len(top.piece.len, top.ordinal) };
    Piece { start: top.next, len: len.clamp(1, rest) }
}

/// Whether the stated subtree of a child holds together, and could be dealt with in a place of the child's own.
fn check(shape: Shape, layout: &Layout, list: &List<'_>, child: Piece, room: usize) -> Result<(), (Code, u32)> {
    let malformed = (Code::Malformed, 0);
    let list = list.piece(child).ok_or(malformed)?;
    let (kids, below) = pieces(shape, list).fold((0, 0), |(kids, sum), piece| (kids + 1, sum + piece.len));
    if below + 1 != child.len {
        return Err(malformed);
    }
    let own = layout.below(child, kids, 0).ok_or((Code::TooLarge, u32::MAX))?.own_end();
    if own > room { Err((Code::TooLarge, own as u32)) } else { Ok(()) }
}
