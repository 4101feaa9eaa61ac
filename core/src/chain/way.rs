//! What is due in a walk, and what the user's code is given there.

use zerocopy::IntoBytes;

use super::context::Context;
use super::frame::{Frame, Role};
use super::kids::pieces;
use super::layout::Layout;
use super::message::{List, Mode};
use super::name::Tag;
use super::reply::{Reply, Written};
use super::report::Code;
use super::user::{Answer, Data, Phase, Work};
use crate::tree::{Piece, Shape};

/// A place that is walked through, its own memory, and what came with the request.
pub(super) struct Way<'a> {
    pub(super) context: &'a mut Context,
    pub(super) own: &'a mut [u64],
    pub(super) list: List<'a>,
    pub(super) header: &'a [u8],
    pub(super) data: Data<'a>,
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

impl<'a> Way<'a> {
    #[inline]
    pub(super) fn next(&mut self) -> Option<Next> {
        let walk = &mut self.context.walk;
        if walk.combines && self.context.callback != Tag::NONE {
            walk.combines = false;
            return Some(Next::Run(Role::Callback));
        }
        self.next_child()
    }

    fn next_child(&mut self) -> Option<Next> {
        let (layout, walk) = (&self.context.layout, &mut self.context.walk);
        loop {
            if walk.combines {
                walk.combines = false;
                if self.context.callback != Tag::NONE {
                    return Some(Next::Run(Role::Callback));
                }
                walk.top.pass(walk.child);
            }
            let fails = !walk.top.is_well() && self.context.mode.contains(Mode::CANCEL_ON_FAIL);
            let is_done = walk.top.next >= walk.top.end();
            if fails || self.context.cancelled || is_done && walk.level == 0 {
                return Some(Next::Over);
            }
            if !is_done {
                break;
            }
            let done = core::mem::replace(&mut walk.top, Frame::load(layout, self.own, walk.level - 1)?);
            walk.level -= 1;
            (walk.child, walk.answer) = (done.piece, done.reply);
            walk.combines = done.is_well();
            if !walk.combines {
                walk.top.failed += done.failed;
                walk.top.unreached += done.unreached;
                walk.top.pass(done.piece);
            }
        }
        if self.context.shared || walk.level >= layout.frames {
            return Some(Next::Apart);
        }
        let (shape, list) = (self.context.shape, &self.list);
        walk.child = child_of(shape, list, &walk.top);
        walk.answer = Written::NOTHING;
        if list.is_stated()
            && walk.child.len > 1
            && let Err((code, aux)) = check(shape, layout, list, walk.child, self.room)
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
            Role::Func => {
                let below = Frame::new(walk.child, walk.answer);
                core::mem::replace(&mut walk.top, below).save(&self.context.layout, self.own, walk.level);
                walk.level += 1;
            }
        }
    }

    #[inline]
    pub(super) fn work(&mut self, role: Role) -> Option<Work<'_>> {
        let Way { context, own, list, header, data, room } = self;
        Way { context, own, list: *list, header, data: *data, room: *room }.into_work(role)
    }

    #[inline]
    pub(super) fn into_work(self, role: Role) -> Option<Work<'a>> {
        let Way { context, own, list, header, data, .. } = self;
        let (layout, walk, caps) = (&context.layout, &mut context.walk, context.caps);
        let (top, child) = (walk.top.piece, walk.child);
        let at = usize::from(caps.header);
        let theirs = layout.reply_range(walk.level + 1);
        let (node, parent, piece, phase, place, written) = match role {
            Role::Func => {
                let place = own.as_mut_bytes().get_mut(theirs)?;
                (list.id(child.start)?, list.id(top.start), child, Phase::Init, place, &mut walk.answer)
            }
            Role::Callback => {
                let parent = match walk.level.checked_sub(1) {
                    None => context.parent.map(|(parent, _)| parent),
                    Some(above) => Frame::load(layout, own, above).and_then(|above| list.id(above.piece.start)),
                };
                let (ours, theirs) = own.as_mut_bytes().split_at_mut_checked(theirs.start)?;
                let (header, data) = theirs.split_at_checked(at)?;
                let answer = Answer {
                    from: list.id(child.start)?,
                    members: child.len,
                    last: child.start + child.len == top.start + top.len,
                    header: header.get(..usize::from(walk.answer.header))?,
                    data: data.get(..walk.answer.data as usize)?,
                };
                let place = ours.get_mut(layout.reply_range(walk.level))?;
                (list.id(top.start)?, parent, top, Phase::Wait(answer), place, &mut walk.top.reply)
            }
        };
        let (place, rest) = place.split_at_mut_checked(at)?;
        let reply = Reply { header: place, data: rest.get_mut(..caps.data as usize)?, written };
        let (call, list) = (context.call, list.piece(piece.start, piece.len)?);
        Some(Work { phase, call, node, parent, header, data, reply, list })
    }
}

/// The child whose turn it is below a member.
#[inline]
fn child_of(shape: Shape, list: &List<'_>, top: &Frame) -> Piece {
    let rest = top.end() - top.next;
    let stated = || list.size(top.next).unwrap_or(rest);
    let len = if list.is_stated() { stated() } else { shape.child_len(top.piece.len, top.ordinal) };
    Piece { start: top.next, len: len.clamp(1, rest) }
}

/// Whether the stated subtree of a child holds together, and could be dealt with in a place of the child's own.
fn check(shape: Shape, layout: &Layout, list: &List<'_>, child: Piece, room: usize) -> Result<(), (Code, u32)> {
    let malformed = (Code::Malformed, 0);
    let list = list.piece(child.start, child.len).ok_or(malformed)?;
    let (kids, below) = pieces(shape, list).fold((0, 0), |(kids, sum), piece| (kids + 1, sum + piece.len));
    if below + 1 != child.len {
        return Err(malformed);
    }
    let own = layout.below(child, kids, 0).ok_or((Code::TooLarge, u32::MAX))?.own_end();
    if own > room { Err((Code::TooLarge, own as u32)) } else { Ok(()) }
}
