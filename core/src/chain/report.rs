//! How a call ended, and who failed where.

use core::fmt;

use super::name::Node;
use crate::codec::{Reader, Short, Writer};

macro_rules! numbered {
    ($(#[doc = $about:literal])* $name:ident { $($(#[doc = $doc:literal])* $variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[doc = $doc])* $variant = $code,)*
        }

        impl $name {
            /// The one with this wire code, if there is one.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<$name> {
                match code {
                    $($code => Some($name::$variant),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $text,)* })
            }
        }
    };
}

numbered! {
    /// How far a member had come with a call.
    Stage {
        /// It was accepting the request.
        Setup = 1, "setup";
        /// Its function was running, or was next.
        Func = 2, "func";
        /// It was sending the request on.
        Forward = 3, "forward";
        /// It was waiting for this child.
        Child = 4, "child";
        /// It was combining the answer of a child.
        Callback = 5, "callback";
        /// It was answering.
        Reply = 6, "reply";
        /// The call was given up by its maker.
        Cancelled = 7, "cancelled";
        /// All members had ended well, and the reply was to be put where its maker wanted it.
        Deliver = 8, "deliver";
    }
}

numbered! {
    /// What went wrong.
    Code {
        /// The user's code said so; the number of a function is in `aux`, in a callback the child.
        Fault = 1, "the function failed";
        /// The user's code panicked; in a callback the child is in `aux`.
        Panic = 2, "the function panicked";
        /// No function of this tag is registered there; the tag is in `aux`.
        UnknownFunc = 3, "no such function is registered";
        /// No callback of this tag is registered there; the tag is in `aux`.
        UnknownCallback = 4, "no such callback is registered";
        /// Another version of the protocol.
        Version = 5, "the versions of the protocol differ";
        /// The request contradicts itself.
        Malformed = 6, "the request is malformed";
        /// The request needs more memory than a call may have there; the bytes are in `aux`.
        TooLarge = 7, "the request is larger than a call may be there";
        /// The request is from an earlier life of the one who made the call.
        StaleRoot = 8, "the caller has been started anew since";
        /// The call came from two parents.
        SecondParent = 9, "the call came from another parent before";
        /// The call was answered before, and the answer is not kept; or so many later calls of its maker were taken since that
        /// this cannot be told.
        ReplyGone = 10, "the call was answered before and the answer is not kept, or more later ones than are remembered came first";
        /// The child took no request until the deadline.
        NoResource = 11, "it had no room for the call until the deadline";
        /// The member is not known there.
        UnknownId = 12, "it is no known member";
        /// The member died.
        PeerDead = 13, "it died";
        /// The deadline passed.
        Timeout = 14, "the deadline passed";
        /// The reply is larger than the call allows; the bytes are in `aux`.
        ReplyTooLarge = 15, "the reply is larger than the call allows";
        /// The call was cancelled.
        Cancelled = 16, "the call was cancelled";
        /// The request lists a member twice that lives there; the member is in `aux`.
        DuplicateId = 17, "the request lists a member twice";
        /// The user's code could not read what came; a number of its own is in `aux`.
        Undecodable = 18, "what came is not of the type that the function takes";
        /// The memory into which the reply was to be put is there no more.
        MemoryGone = 19, "the memory for the reply was freed";
        /// There is no way to the member, and waiting opens none.
        Transport = 20, "no message reaches it";
    }
}

/// One failure: where it began, unchanged on its way to the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Record {
    /// The member.
    pub origin: Node,
    /// Which step.
    pub stage: Stage,
    /// Why.
    pub code: Code,
    /// Levels below the root of whoever saw it.
    pub depth: u8,
    /// The user's number, a tag, a length, or the child concerned.
    pub aux: u32,
    /// Members that this failure took with it, with itself.
    pub count: u32,
}

impl Record {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), Short> {
        to.u32(self.origin.0)?;
        to.bytes(&[self.stage as u8, self.code as u8, self.depth, 0])?;
        to.u32(self.aux)?;
        to.u32(self.count)
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Option<Record> {
        let origin = Node(from.u32().ok()?);
        let [stage, code, depth, flags] = from.u32().ok()?.to_le_bytes();
        let record = Record {
            origin,
            stage: Stage::from_code(stage)?,
            code: Code::from_code(code)?,
            depth,
            aux: from.u32().ok()?,
            count: from.u32().ok()?,
        };
        (flags == 0).then_some(record)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {}, {}: {}", self.origin, self.stage, self.code)?;
        match self.code {
            Code::Fault | Code::Panic | Code::Undecodable if self.stage == Stage::Callback => {
                write!(f, " (from member {})", self.aux)
            }
            Code::Fault => write!(f, " with {}", self.aux),
            Code::Undecodable => write!(f, " ({} bytes)", self.aux),
            Code::UnknownFunc | Code::UnknownCallback => write!(f, " (tag {:08x})", self.aux),
            Code::TooLarge | Code::ReplyTooLarge => write!(f, " ({} bytes)", self.aux),
            Code::DuplicateId => write!(f, " (member {})", self.aux),
            _ => Ok(()),
        }
    }
}

/// What became of all members of a call or of a subtree; the four numbers add up to its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tallies {
    /// Their function ended well, once.
    pub ok: u32,
    /// They failed.
    pub failed: u32,
    /// Their function has not run and will not.
    pub unreached: u32,
    /// Nobody waited for their answer: their function may have run, once.
    pub unknown: u32,
}

impl Tallies {
    /// Members counted.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.ok.saturating_add(self.failed).saturating_add(self.unreached).saturating_add(self.unknown)
    }

    pub(super) const fn add(&mut self, other: Tallies) {
        self.ok = self.ok.saturating_add(other.ok);
        self.failed = self.failed.saturating_add(other.failed);
        self.unreached = self.unreached.saturating_add(other.unreached);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }
}

impl fmt::Display for Tallies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tallies { ok, failed, unreached, unknown } = self;
        write!(f, "{ok} ok, {failed} failed, {unreached} not reached, {unknown} unknown")
    }
}
