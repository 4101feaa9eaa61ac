//! Errors that mean the same everywhere, and the status word that travels.
//!
//! Each operation has its own small enum beside it; only what many operations share lives here.

use core::fmt;

/// A bounded table or queue has no room; the value that did not fit comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full<T>(pub T);

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room left: release an entry or retry after progress")
    }
}
impl<T: fmt::Debug> core::error::Error for Full<T> {}

/// An id names a holder that is gone; the slot may have a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Stale;

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stale id: what it named was released; obtain a new one")
    }
}
impl core::error::Error for Stale {}

macro_rules! status {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $text:literal;)*) => {
        /// How a remote operation ended; the wire form of every error that crosses a link.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[doc = $doc])* $name = $code,)*
        }

        impl Status {
            /// Every status, in code order.
            pub const ALL: &'static [Status] = &[$(Status::$name),*];

            /// The status with this wire code, or `None` if no version of the protocol defined it.
            #[must_use]
            pub const fn from_code(code: u16) -> Option<Status> {
                match code {
                    $($code => Some(Status::$name),)*
                    _ => None,
                }
            }

            /// What happened and what to do, in one lower-case sentence.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Status::$name => $text,)*
                }
            }
        }
    };
}

status! {
    /// Done as asked.
    Ok = 0, "done";
    /// The range does not lie inside the region.
    OutOfBounds = 1, "range outside the region: check offset and length against the export";
    /// The region was not exported with the right that the operation needs.
    PermissionDenied = 2, "region not exported with this right: export it again with the right";
    /// The region was revoked by its owner.
    KeyRevoked = 3, "region was revoked by its owner: ask for its current key";
    /// The key names an older generation of the region.
    StaleKey = 4, "key of an older generation: ask for the current key";
    /// The owner of the region died or left.
    OwnerGone = 5, "owner of the region is gone: its memory cannot be read any more";
    /// The asker is not on the region's access list.
    NotShadow = 6, "asker does not shadow the owner: go through the owner's first service process";
    /// No region of that owner covers the address.
    UnknownRegion = 7, "no exported region covers this address";
    /// The table that would hold the request is full.
    Full = 8, "no room for the request: retry when something was released or has ended";
    /// The deadline passed.
    Timeout = 9, "deadline passed";
    /// The peer that should answer died.
    PeerFailed = 10, "peer failed";
    /// The bytes do not form a valid request.
    Malformed = 11, "request is malformed";
    /// The group is not known here.
    UnknownGroup = 12, "unknown group";
    /// The rank is not below the group's size.
    RankOutOfRange = 13, "rank out of range";
    /// Another generation of the group is current.
    StaleGeneration = 14, "group generation is not current";
    /// Two processes claim the same rank.
    DuplicateRank = 15, "rank is already held by another process";
    /// Two descriptions of one group differ.
    Conflict = 16, "description differs from what others announced";
    /// The rank belongs to another service process of its host.
    WrongServiceProcess = 17, "rank belongs to another service process of its host";
    /// The job secret does not match.
    Unauthenticated = 18, "job secret does not match";
    /// The operating system refused the copy.
    CopyFailed = 19, "operating system refused the copy";
    /// The rank has left this generation already.
    AlreadyRevoked = 20, "rank has already left this generation";
    /// The peer speaks another protocol version.
    WrongVersion = 21, "peer speaks another protocol version";
    /// The queue to the peer broke and was rebuilt; the operation did not happen.
    QueueBroken = 22, "queue to the peer broke: retry";
    /// A waiter was interrupted by its owner.
    Interrupted = 23, "interrupted";
    /// The memory cannot be reached from there.
    Unreachable = 24, "memory cannot be reached from there: it needs an RDMA device that reaches the owner's";
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
impl core::error::Error for Status {}
