//! The user's code: what it sees, what it may change, and how it went.
//!
//! A function sees the request and writes the reply of its member. The callback sees an answer of a child as well, and
//! combines it into the reply. Neither sees the machine, so neither can run it again. A function that serves in both
//! roles tells them apart by [`Phase`].

use super::below::{HeaderBelow, RewriteError};
use super::message::span_of;
use super::name::{CallId, Node};
use super::reply::Reply;
#[cfg(doc)]
use super::{machine::Machine, mode::Mode};
use crate::key::Span;

/// The data of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data<'a> {
    /// Here it is.
    Bytes(&'a [u8]),
    /// It lies there, and whoever wants it reads it.
    Span(Span),
}

/// Why the user's code is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase<'a> {
    /// The request has come.
    Init,
    /// It said [`Verdict::Pending`] before and was woken.
    Probe,
    /// The answer of a child has come.
    Wait(Answer<'a>),
}

/// The answer of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer<'a> {
    /// Which child.
    pub from: Node,
    /// Members of its subtree, all of which ended well.
    pub members: u32,
    /// Whether no other child's answer comes after this one.
    pub last: bool,
    /// The header of its reply.
    pub header: &'a [u8],
    /// The data of its reply.
    pub data: &'a [u8],
}

impl Answer<'_> {
    /// Where the data of its reply lies, in a [rendezvous](Mode::RENDEZVOUS); `None` if there is none.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        span_of(self.data)
    }
}

/// What the user's code is given.
#[derive(Debug)]
pub struct Work<'a> {
    /// Why it is run.
    pub phase: Phase<'a>,
    /// Which call.
    pub call: CallId,
    /// The member that runs it.
    pub node: Node,
    /// Who sent the request; `None` at the one who made the call.
    pub parent: Option<Node>,
    /// The header of the request.
    pub header: &'a [u8],
    /// The data of the request.
    pub data: Data<'a>,
    /// The reply of this member, to be written and combined into.
    pub reply: Reply<'a>,
    /// Bytes of data that a reply may have which is not in answers.
    pub(super) rendezvous: Option<u32>,
    /// Where the header for the children is written, where one may be.
    pub(super) below: Option<HeaderBelow<'a>>,
    /// All members of the call, if they are wanted.
    pub(super) all: &'a [[u8; 4]],
    pub(super) ids: &'a [[u8; 4]],
}

impl<'a> Work<'a> {
    /// The members of the subtree below and with this one, in preorder.
    #[must_use]
    pub const fn members(&self) -> Members<'a> {
        Members(self.ids)
    }

    /// All members of the call, if it has [the whole list](Mode::FULL_LIST) at every member: everywhere the same, in preorder of the
    /// tree, so that the maker is the first, and [those of the subtree](Self::members) follow one another in it.
    #[must_use]
    pub const fn full_list(&self) -> Option<Members<'a>> {
        if self.all.is_empty() { None } else { Some(Members(self.all)) }
    }

    /// Replaces the header that the children of this member are given, in a call with [`Mode::REWRITE`]. The last one counts; without
    /// any they get that of this member. Whoever has no children may do so as well.
    ///
    /// # Errors
    /// [`RewriteError`]; nothing has changed then.
    pub fn rewrite_header(&mut self, header: &[u8]) -> Result<(), RewriteError> {
        self.below.as_mut().ok_or(RewriteError::NotAllowed)?.set(header)
    }

    /// Where the header for the children of this member is written: in a function of a call with [`Mode::REWRITE`], nowhere else.
    #[must_use]
    pub fn header_below(&mut self) -> Option<HeaderBelow<'_>> {
        self.below.as_mut().map(HeaderBelow::lend)
    }

    /// Bytes of data that the reply of each member may have, if it is not in answers ([`Mode::RENDEZVOUS`]).
    #[must_use]
    pub const fn rendezvous(&self) -> Option<u32> {
        self.rendezvous
    }

    /// The same work with other memory for the data of the reply, of which `len` bytes are written so far: for whoever drives
    /// the machine, and has a [rendezvous](Self::rendezvous) to do.
    ///
    /// Such a driver gives the user's code this work instead, with memory that it keeps for this call and this member, and with
    /// the data of a child's [`Answer`] where that child's driver has it. What it then writes as the data of this work's own
    /// reply is what the machine sends in the answer: the 24 bytes of a span, or none.
    pub fn with_data<'b>(&'b mut self, memory: &'b mut [u8], len: u32) -> Work<'b> {
        self.reply.written.data = len.min(u32::try_from(memory.len()).unwrap_or(u32::MAX));
        let reply = Reply { header: self.reply.header, data: memory, written: self.reply.written };
        let below = self.below.as_mut().map(HeaderBelow::lend);
        let (phase, header, data, all, ids) = (self.phase, self.header, self.data, self.all, self.ids);
        Work { phase, header, data, below, all, ids, reply, ..*self }
    }
}

/// Members: those of a subtree in preorder, or those who are [left out](Mode::SKIP_DEAD) in the order of the list.
#[derive(Clone, Debug)]
pub struct Members<'a>(pub(super) &'a [[u8; 4]]);

impl Iterator for Members<'_> {
    type Item = Node;

    fn next(&mut self) -> Option<Node> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(Node(u32::from_le_bytes(first)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl ExactSizeIterator for Members<'_> {}

/// How the user's code went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Well, and it is done.
    Done,
    /// It is not done: run it again when it is [woken](Machine::wake). Only for functions: a callback that says so has failed, as
    /// with a fault.
    Pending,
    /// It failed, with a number of the user's. That of a callback stays at its member: the failure names the child whose answer it
    /// could not combine.
    Fault(u32),
    /// It panicked.
    Panic,
    /// What came is not of the type that it takes. The number says more: in a callback from which child, else how many bytes.
    Undecodable(u32),
    /// The answer of the child is gone before it could be read, as the data of a [rendezvous](Mode::RENDEZVOUS) may be.
    ReplyGone,
}
