//! What functions return: 0, or a negative code.
//!
//! Codes below 100 are the statuses that travel between processes and mean the same everywhere; those from 100 on are of
//! this interface. A code never changes its meaning; new ones may come.

use std::cell::RefCell;

use umbra_core::error::Status;

/// A code of this interface, or one that travelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Code {
    /// Told by another process or by the tables that it shares.
    Status(Status),
    /// A pointer is null, a number is out of its range, or a text is not UTF-8.
    Invalid,
    /// The handle names nothing any more, or never did.
    Stale,
    /// The handle names an object of another kind.
    WrongKind,
    /// The caller's buffer is too small; the needed length was stored.
    TooSmall,
    /// A structure's `size` is smaller than that of any version of it.
    WrongSize,
    /// The system failed: memory, files, sockets.
    System,
    /// A bug in this library; the object must not be used any more.
    Panic,
    /// The data has no slot.
    NoSlot,
    /// The data has a slot, and nobody a reference to it.
    Unused,
    /// Somebody has a reference.
    InUse,
    /// The slot is being filled.
    Filling,
    /// The slot is not being filled.
    NotFilling,
    /// Whoever filled the slot gave up.
    Abandoned,
    /// Another contract has this operation.
    Contract,
    /// More inputs than slots or references.
    TooLarge,
    /// The usage map says otherwise.
    Usage,
    /// Nobody was told that the group is ready.
    NotReady,
    /// The caller tells the news that it would wait for.
    WouldDeadlock,
    /// No message waits.
    Empty,
    /// Somebody destroyed it, or its owner ended.
    Destroyed,
    /// More bytes than there can ever be.
    Never,
    /// Of another host.
    NonLocal,
    /// Of another version.
    Version,
    /// The barrier is broken.
    Broken,
    /// Somebody wrote over its words.
    Damaged,
    /// No cache has the key.
    UnknownKey,
    /// Another cache has the key.
    KeyTaken,
    /// A member of a chained call failed.
    Call,
    /// No function of this name is registered.
    NoFunction,
    /// A request or a reply is longer than calls may be.
    TooLong,
    /// The other end has said everything, or listens no more.
    Ended,
    /// A part of the message was sent.
    Partly,
    /// No gateway is registered for the host.
    NoGateway,
    /// There is no line to the gateway, or it broke.
    Lost,
    /// Another pool has the name.
    Exists,
    /// No pool has the name.
    NoPool,
    /// Another call, of this process or of another, is changing what this one needs.
    Busy,
}

macro_rules! codes {
    ($($variant:ident = $code:literal, $text:literal;)*) => {
        impl Code {
            /// Codes of this interface.
            pub(crate) const OWN: &'static [Code] = &[$(Code::$variant),*];

            /// The positive number; functions return its negative.
            pub(crate) const fn number(self) -> i32 {
                match self {
                    Code::Status(status) => status as i32,
                    $(Code::$variant => $code,)*
                }
            }

            /// What happened and what to do.
            pub(crate) const fn text(self) -> &'static str {
                match self {
                    Code::Status(Status::Full) => {
                        "no room: ask for the detail, and retry when something was released or has ended"
                    }
                    Code::Status(status) => status.text(),
                    $(Code::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    Invalid = 100, "an argument is null, out of range, or not UTF-8: ask for the detail";
    Stale = 101, "handle names nothing any more: what it named was released";
    WrongKind = 102, "handle names an object of another kind";
    TooSmall = 103, "buffer is too small: the needed length was stored";
    WrongSize = 104, "size in front of a structure is smaller than any version of it";
    System = 105, "the system refused: ask for the detail";
    Panic = 106, "bug in the library: the object must not be used any more";
    NoSlot = 107, "data has no slot: allocate it before anything else";
    Unused = 108, "data is not in use: it was freed more often than allocated";
    InUse = 109, "data is in use: free it first";
    Filling = 110, "slot is being filled: wait for the end of that";
    NotFilling = 111, "slot is not being filled: each fill is ended once";
    Abandoned = 112, "whoever filled the slot gave up: allocate again, and fill it if it is found empty";
    Contract = 113, "cache of this contract has no such operation";
    TooLarge = 114, "group has more inputs than there are slots, or places for members";
    Usage = 115, "input is not in the usage map, or was named as often as that says";
    NotReady = 116, "group is not ready: wait for the news that it is";
    WouldDeadlock = 117, "caller tells the news that it would wait for: submit instead, or let another thread wait";
    Empty = 118, "channel is empty: wait until a message is sent";
    Destroyed = 119, "what was named was destroyed, or its owner ended";
    Never = 120, "more bytes than the pool, the channel or the memory can ever have";
    NonLocal = 121, "what is named is of another host, and this is done there only";
    Version = 122, "made by another version: use one build on both sides";
    Broken = 123, "barrier is broken: reset it";
    Damaged = 124, "shared memory is damaged: make the object anew";
    UnknownKey = 125, "no cache has this key: it has ended, or was never added";
    KeyTaken = 126, "another cache has this key: end it, or take another key";
    Call = 127, "a member failed, and so did the call: its answer says who and why";
    NoFunction = 128, "no function of this name is registered here";
    TooLong = 129, "call has more bytes, members or levels than calls may have";
    Ended = 130, "conversation has ended: close it";
    Partly = 131, "a part of the message was sent in time: the rest goes before what is sent next";
    NoGateway = 132, "no gateway is registered for the host: say where it listens";
    Lost = 133, "gateway of the other host is not reached or does not answer: whether the call was carried out is not known";
    Exists = 134, "a pool of this name exists: attach to it, or choose another name";
    NoPool = 135, "no pool has this name: it was never made, or has ended";
    Busy = 136, "another call is changing what this one needs: retry, or reclaim what its process held if it died";
}

impl Code {
    /// The code with this number, negative or positive.
    pub(crate) fn from_number(number: i32) -> Option<Code> {
        let number = number.unsigned_abs();
        let own = Code::OWN.iter().copied().find(|code| code.number().unsigned_abs() == number);
        own.or_else(|| u16::try_from(number).ok().and_then(Status::from_code).map(Code::Status))
    }
}

impl From<Status> for Code {
    fn from(status: Status) -> Code {
        Code::Status(status)
    }
}

/// A code and the whole story.
#[derive(Debug)]
pub struct Failure {
    /// What the function returns, as a negative number.
    pub code: Code,
    /// What `umbra_error_detail` tells.
    pub detail: String,
}

impl Failure {
    /// A failure and its story.
    pub fn new(code: impl Into<Code>, detail: impl ToString) -> Failure {
        Failure { code: code.into(), detail: detail.to_string() }
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Failure {
        Failure { code, detail: code.text().to_owned() }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::from(Code::Status(status))
    }
}

thread_local! {
    static DETAIL: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the story of this thread's last failure and gives the number to return.
pub(crate) fn fail(failure: Failure) -> i32 {
    let number = -failure.code.number();
    // A thread that is just ending has no detail to keep.
    let _ = DETAIL.try_with(|detail| *detail.borrow_mut() = failure.detail);
    number
}

/// The story of this thread's last failure.
pub(crate) fn detail() -> String {
    DETAIL.try_with(|detail| detail.borrow().clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back_to_its_code() {
        let all = Status::ALL.iter().map(|&s| Code::Status(s)).chain(Code::OWN.iter().copied());
        for code in all {
            assert_eq!(Code::from_number(-code.number()), Some(code));
            assert_eq!(Code::from_number(code.number()), Some(code));
        }
        assert_eq!(Code::from_number(99), None);
        assert_eq!(Code::from_number(i32::MIN), None);
    }

    #[test]
    fn own_codes_stay_clear_of_those_that_travel() {
        assert!(Status::ALL.iter().all(|&status| (status as i32) < 100));
        assert!(Code::OWN.iter().all(|code| code.number() >= 100));
    }
}
