//! How a work request ended, typed.

use umbra_core::error::Status;

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $text:literal;)*) => {
        /// A completion status: one for each value of `enum ibv_wc_status`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[non_exhaustive]
        pub enum WorkStatus {
            $($(#[doc = $doc])* $name,)*
            /// A value that this version does not know.
            Unknown(u32),
        }

        impl WorkStatus {
            /// The status with this number.
            #[must_use]
            pub const fn from_code(code: u32) -> WorkStatus {
                match code {
                    $($code => WorkStatus::$name,)*
                    code => WorkStatus::Unknown(code),
                }
            }
        }

        impl std::fmt::Display for WorkStatus {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(WorkStatus::$name => f.write_str($text),)*
                    WorkStatus::Unknown(code) => write!(f, "completion status {code}, which this version does not know"),
                }
            }
        }
    };
}

statuses! {
    /// Done.
    Success = 0, "done";
    /// A local buffer is too short, or the message is longer than the port allows.
    LocalLength = 1, "local buffer and message differ in length";
    /// The queue pair cannot do this work; with soft-RoCE also: its link is down.
    LocalQueueOperation = 2, "queue pair cannot do this work, or its link is down";
    /// An end-to-end context is inconsistent.
    LocalContextOperation = 3, "end-to-end context cannot do this work";
    /// A local buffer is not registered, or not for this use.
    LocalProtection = 4, "local buffer is not registered for this use";
    /// The queue pair broke before this work was done.
    Flushed = 5, "queue pair broke before this work was done: rebuild it";
    /// A memory window could not be bound.
    WindowBind = 6, "memory window could not be bound";
    /// The answer was not what the protocol allows.
    BadResponse = 7, "peer's answer was not what the protocol allows";
    /// A local buffer was protected while it was written by the peer.
    LocalAccess = 8, "local buffer does not allow what the peer did";
    /// The peer refused the request as invalid.
    RemoteInvalidRequest = 9, "peer refused the request as invalid";
    /// The peer's key, its range or its rights do not allow this.
    RemoteAccess = 10, "peer's key does not allow this access: it was revoked, or range or right are wrong";
    /// The peer failed to do it.
    RemoteOperation = 11, "peer failed to carry the request out";
    /// The peer did not answer.
    RetryExceeded = 12, "peer did not answer: it is gone or the link is down";
    /// The peer was not ready to receive.
    ReceiverNotReady = 13, "peer posted no buffer to receive into";
    /// A local reliable-datagram domain was violated.
    LocalDomain = 14, "reliable-datagram domain was violated";
    /// The peer refused a reliable-datagram request.
    RemoteInvalidDatagram = 15, "peer refused the reliable-datagram request";
    /// The peer aborted.
    RemoteAborted = 16, "peer aborted the request";
    /// An end-to-end context has an invalid number.
    InvalidContextNumber = 17, "end-to-end context has an invalid number";
    /// An end-to-end context is in an invalid state.
    InvalidContextState = 18, "end-to-end context is in an invalid state";
    /// The device failed.
    Fatal = 19, "device failed";
    /// The answer did not come in time.
    ResponseTimeout = 20, "peer did not answer in time";
    /// Some other error.
    General = 21, "transport failed";
    /// Tag matching failed.
    TagMatching = 22, "tag matching failed";
    /// A tag-matched rendezvous has to be completed by software.
    RendezvousIncomplete = 23, "tag-matched rendezvous was left to software";
}

impl WorkStatus {
    /// The status of the project's protocols that says the same.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            WorkStatus::Success => Status::Ok,
            WorkStatus::RemoteAccess => Status::KeyRevoked,
            WorkStatus::RetryExceeded | WorkStatus::ResponseTimeout => Status::PeerFailed,
            WorkStatus::Flushed | WorkStatus::LocalQueueOperation => Status::QueueBroken,
            _ => Status::CopyFailed,
        }
    }
}

/// What kind of work was completed: `enum ibv_wc_opcode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum WorkKind {
    /// A SEND of ours.
    Send,
    /// A WRITE of ours, with or without immediate data.
    Write,
    /// A READ of ours.
    Read,
    /// A window was bound.
    Bind,
    /// A window's key was ended.
    Invalidate,
    /// A SEND of the peer arrived.
    Received,
    /// A WRITE of the peer with immediate data arrived.
    Written,
    /// Work that failed, or a buffer into which nothing will come: which it was, its completion does not say.
    Failed,
    /// Another kind.
    Other(u32),
}

impl WorkKind {
    pub(super) const fn from_code(code: u32) -> WorkKind {
        match code {
            0 => WorkKind::Send,
            1 => WorkKind::Write,
            2 => WorkKind::Read,
            5 => WorkKind::Bind,
            6 => WorkKind::Invalidate,
            128 => WorkKind::Received,
            129 => WorkKind::Written,
            code => WorkKind::Other(code),
        }
    }
}
