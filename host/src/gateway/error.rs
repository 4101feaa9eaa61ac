//! Errors of channels, streams and pools of other hosts, as gateways tell them.

use umbra_core::gateway::{Answer, ParseError};

use super::refusals;
use crate::channel;
use crate::link::{Close, SendError};
use crate::pool;
use crate::reference;
use crate::stream;

/// Why an operation on a channel of another host did nothing, as far as is known.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the channel says; the operation was refused there, and changed nothing.
    #[error(transparent)]
    Channel(#[from] channel::Error),
    /// What the streams say.
    #[error(transparent)]
    Stream(#[from] stream::Error),
    /// What the pool says.
    #[error(transparent)]
    Pool(#[from] pool::Error),
    /// The reference.
    #[error(transparent)]
    Reference(#[from] reference::Error),
    /// It is one of this host.
    #[error("what the reference names is of this host: attach to it without a gateway")]
    Local,
    /// No gateway is registered for the host.
    #[error("no gateway is known for host {0:#x}: register where it listens")]
    NoGateway(u64),
    /// One is registered already.
    #[error("a gateway is registered for host {0:#x} already: unregister it first")]
    AlreadyRegistered(u64),
    /// None is registered.
    #[error("no gateway is registered for host {0:#x}")]
    NotRegistered(u64),
    /// There is no line to the gateway, or it broke: whether the operation was carried out is not known; it will not be any
    /// more when the next call of the handle is.
    #[error("gateway of host {host:#x}: {why}; whether the operation was carried out is not known")]
    Lost {
        /// Whose.
        host: u64,
        /// What happened to the line.
        why: Close,
    },
    /// There was no line to the gateway before the deadline, so it was asked for nothing; it may be there and slow.
    #[error("gateway of host {0:#x} was not reached before the deadline: nothing was asked for")]
    Unreached(u64),
    /// The gateway did not answer, not even some time after the deadline; the same holds as for [`Lost`](Error::Lost).
    #[error("gateway of host {0:#x} did not answer: whether the operation was carried out is not known")]
    Silent(u64),
    /// Other calls with the same handle have all its lines, until some time after the deadline.
    #[error("gateway of host {0:#x}: other calls use all lines of the handle: use another handle, or fewer threads")]
    Busy(u64),
    /// The time was over between two pieces of a range; the last bytes of it were copied.
    #[error("gateway of host {host:#x} copied {copied} of {len} bytes before the deadline: wait longer, or copy fewer")]
    Partly {
        /// Whose.
        host: u64,
        /// Bytes that were copied.
        copied: usize,
        /// Bytes of the range.
        len: usize,
    },
    /// The request was not queued.
    #[error("gateway of host {host:#x}: {why}")]
    NotSent {
        /// Whose.
        host: u64,
        /// Why.
        why: SendError,
    },
    /// The message is larger than a gateway carries.
    #[error("message of {len} bytes is larger than the {most} bytes that a gateway carries")]
    TooLarge {
        /// Bytes of the message.
        len: usize,
        /// Most bytes.
        most: usize,
    },
    /// The gateway answers what means nothing.
    #[error("answer of the gateway: {0}")]
    Answer(#[from] ParseError),
    /// The gateway refused for a reason that is its own.
    #[error("gateway of host {host:#x} refused the request: {code}")]
    Refused {
        /// Whose.
        host: u64,
        /// The name of the reason in the C interface.
        code: &'static str,
    },
    /// The system.
    #[error("gateway: {0}")]
    System(rustix::io::Errno),
}

impl Error {
    /// The name of its code in the C interface.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Error::Channel(error) => error.code(),
            Error::Stream(error) => error.code(),
            Error::Pool(error) => error.code(),
            Error::Reference(error) => error.code(),
            Error::Local | Error::TooLarge { .. } => "INVALID_ARGUMENT",
            Error::NoGateway(_) => "CHANNEL_NO_GATEWAYS",
            Error::AlreadyRegistered(_) => "CHANNEL_GATEWAY_ALREADY_REGISTERED",
            Error::NotRegistered(_) => "CHANNEL_GATEWAY_NOT_REGISTERED",
            Error::Busy(_) | Error::Unreached(_) | Error::Partly { .. } => "TIMEOUT",
            Error::Silent(_) => "CHANNEL_GATEWAY_TRANSPORT_WAIT_TIMEOUT",
            Error::Lost { .. } | Error::NotSent { .. } | Error::Answer(_) | Error::System(_) => "FAILURE",
            Error::Refused { code, .. } => code,
        }
    }
}

pub(super) fn system(error: &std::io::Error) -> Error {
    Error::System(rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
}

/// Reasons that are a number between gateways and their clients, and an error of channels at either end.
const PLAIN: [(u16, channel::Error); 12] = [
    (1, channel::Error::Empty),
    (2, channel::Error::Full),
    (3, channel::Error::Timeout),
    (4, channel::Error::NotReceived),
    (5, channel::Error::Destroyed),
    (6, channel::Error::WrongKind),
    (7, channel::Error::BarrierBroken),
    (8, channel::Error::BarrierTryAgain),
    (9, channel::Error::SemaphoreFull),
    (10, channel::Error::Damaged),
    (12, channel::Error::NoPool),
    (13, channel::Error::BarrierMixed),
];
const UNKNOWN_MEMORY: u16 = 11;
const MESSAGE_TOO_LARGE: u16 = 32;
const PAD_TOO_SMALL: u16 = 33;
const UNKNOWN_EVENT: u16 = 34;
pub(super) const REPLACED: u16 = 35;
/// Whatever else; the number is that of a code.
pub(super) const OTHER: u16 = 36;
/// Codes of errors that only their codes are told of.
const CODES: [&str; 8] = [
    "FAILURE",
    "INVALID_ARGUMENT",
    "OBJECT_DESTROYED",
    "VERSION_MISMATCH",
    "MEMORY_ERRNO",
    "OUT_OF_SPACE",
    "INVALID_OPERATION",
    "INVALID_STATE",
];

/// How an error is told of which only the code is.
pub(super) fn by_code(code: &str) -> Answer<'static> {
    let at = CODES.iter().position(|&known| known == code).unwrap_or(0);
    Answer::Refused { why: OTHER, numbers: [at as u64, 0] }
}

/// What a gateway says when a channel refused.
pub(super) fn refusal(error: &channel::Error) -> Answer<'static> {
    let (why, numbers) = match error {
        channel::Error::MessageTooLarge { len, block } => (MESSAGE_TOO_LARGE, [*len as u64, *block as u64]),
        channel::Error::PadTooSmall { len, pad } => (PAD_TOO_SMALL, [*len as u64, *pad as u64]),
        channel::Error::UnknownMemory(instance) => (UNKNOWN_MEMORY, [*instance, 0]),
        channel::Error::UnknownEvent(event) => (UNKNOWN_EVENT, [u64::from(event.cast_unsigned()), 0]),
        channel::Error::Reference(reference::Error::Replaced) => (REPLACED, [0; 2]),
        channel::Error::Pool(error) => return refusals::of_pool(error),
        error => match PLAIN.iter().find(|(_, plain)| plain == error) {
            Some(&(why, _)) => (why, [0; 2]),
            None => return by_code(error.code()),
        },
    };
    Answer::Refused { why, numbers }
}

/// What a client makes of it.
pub(super) fn refused(host: u64, why: u16, [first, second]: [u64; 2]) -> Error {
    let of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    match why {
        MESSAGE_TOO_LARGE => channel::Error::MessageTooLarge { len: of(first), block: of(second) }.into(),
        PAD_TOO_SMALL => channel::Error::PadTooSmall { len: of(first), pad: of(second) }.into(),
        UNKNOWN_MEMORY => channel::Error::UnknownMemory(first).into(),
        UNKNOWN_EVENT => channel::Error::UnknownEvent((first as u32).cast_signed()).into(),
        REPLACED => reference::Error::Replaced.into(),
        why => {
            let numbers = [first, second];
            let plain = PLAIN.iter().find(|&&(number, _)| number == why);
            let channel = || plain.map(|(_, plain)| Error::from(plain.clone()));
            let stream = || refusals::stream(why, numbers).map(Error::from);
            let pool = || refusals::pool(why, numbers).map(Error::from);
            let code = || CODES.get(of(first)).copied().unwrap_or("FAILURE");
            channel().or_else(stream).or_else(pool).unwrap_or_else(|| Error::Refused { host, code: code() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_channel_refuses_is_the_same_at_the_other_end() {
        let sized = [
            channel::Error::MessageTooLarge { len: 9, block: 8 },
            channel::Error::PadTooSmall { len: 9, pad: 8 },
            channel::Error::UnknownMemory(u64::MAX),
            channel::Error::UnknownEvent(-3),
        ];
        for error in PLAIN.into_iter().map(|(_, plain)| plain).chain(sized) {
            let Answer::Refused { why, numbers } = refusal(&error) else { unreachable!("a refusal is refused") };
            assert_eq!(refused(1, why, numbers), Error::Channel(error));
        }
        let Answer::Refused { why, numbers } = refusal(&channel::Error::VersionMismatch(9)) else { unreachable!() };
        assert_eq!(refused(1, why, numbers).code(), "VERSION_MISMATCH");
    }
}
