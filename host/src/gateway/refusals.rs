//! What streams and pools refuse, as numbers between gateways and their clients.

use umbra_core::gateway::Answer;
use umbra_core::heap::AllocError;

use super::error::{REPLACED, by_code};
use crate::stream::Error;
use crate::{pool, reference};

/// Reasons that are nothing but a number, from 64.
const PLAIN: [Error; 17] = [
    Error::Empty,
    Error::Full,
    Error::Timeout,
    Error::Ended,
    Error::Unheard,
    Error::PeerDead,
    Error::Destroyed,
    Error::StreamNeeded,
    Error::StreamRefused,
    Error::NotBrief,
    Error::AlreadySent,
    Error::Buffered,
    Error::NoPool,
    Error::NoTasks,
    Error::TaskCount,
    Error::Damaged,
    Error::BrokenOff,
];
const FIRST: u16 = 64;
const PARTLY: u16 = 128;
const RESERVED: u16 = 129;
const TOO_LARGE: u16 = 130;
const NO_SUCH_PLACE: u16 = 131;
const UNKNOWN_POOL: u16 = 132;
const STALE: u16 = 160;
const DESTROYED: u16 = 161;
const LATE: u16 = 162;
const NOT_AVAILABLE: u16 = 163;
const NEVER: u16 = 164;
const NO_ENTRY: u16 = 165;
const BAD_KIND: u16 = 166;
/// The client knows its range; the number is that of the bytes that there are.
const OUTSIDE: u16 = 167;
const IS_CHANNEL: u16 = 168;
const DAMAGED: u16 = 169;
/// The one thing that an adapter can be made without.
const ONE_MESSAGE: &str = "room for conversations of one message";

/// What a gateway says when streams refused.
pub(super) fn refusal(error: &Error) -> Answer<'static> {
    let (why, numbers) = match error {
        Error::Partly { sent, len } => (PARTLY, [*sent as u64, *len as u64]),
        Error::ReservedArgument(arg) => (RESERVED, [*arg, 0]),
        Error::MessageTooLarge { len, most } => (TOO_LARGE, [*len as u64, *most as u64]),
        Error::NoSuchPlace(_) => (NO_SUCH_PLACE, [0; 2]),
        Error::UnknownPool(uid) => (UNKNOWN_POOL, [*uid, 0]),
        Error::Reference(reference::Error::Replaced) => (REPLACED, [0; 2]),
        Error::Pool(error) => return of_pool(error),
        error => match (FIRST..).zip(&PLAIN).find(|(_, plain)| *plain == error) {
            Some((why, _)) => (why, [0; 2]),
            None => return by_code(error.code()),
        },
    };
    Answer::Refused { why, numbers }
}

/// What a client makes of it, if it is about streams.
pub(super) fn stream(why: u16, [first, second]: [u64; 2]) -> Option<Error> {
    let of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Some(match why {
        PARTLY => Error::Partly { sent: of(first), len: of(second) },
        RESERVED => Error::ReservedArgument(first),
        TOO_LARGE => Error::MessageTooLarge { len: of(first), most: of(second) },
        NO_SUCH_PLACE => Error::NoSuchPlace(ONE_MESSAGE),
        UNKNOWN_POOL => Error::UnknownPool(first),
        why => PLAIN.get(usize::from(why.checked_sub(FIRST)?))?.clone(),
    })
}

/// What a gateway says when a pool refused.
pub(super) fn of_pool(error: &pool::Error) -> Answer<'static> {
    let (why, numbers) = match error {
        pool::Error::Stale => (STALE, [0; 2]),
        pool::Error::Destroyed => (DESTROYED, [0; 2]),
        pool::Error::IsChannel => (IS_CHANNEL, [0; 2]),
        pool::Error::Damaged | pool::Error::Alloc(AllocError::Damaged) => (DAMAGED, [0; 2]),
        pool::Error::OutOfBounds { size, .. } => (OUTSIDE, [*size, 0]),
        pool::Error::Timeout { len } => (LATE, [*len, 0]),
        pool::Error::Alloc(AllocError::NotAvailable { len }) => (NOT_AVAILABLE, [*len, 0]),
        pool::Error::Alloc(AllocError::TooLarge { len, longest }) => (NEVER, [*len, *longest]),
        pool::Error::Alloc(AllocError::OutOfEntries) => (NO_ENTRY, [0; 2]),
        pool::Error::Alloc(AllocError::BadKind(kind)) => (BAD_KIND, [u64::from(*kind), 0]),
        pool::Error::Reference(reference::Error::Replaced) => (REPLACED, [0; 2]),
        error => return by_code(error.code()),
    };
    Answer::Refused { why, numbers }
}

/// What a client makes of it, if it is about a pool.
pub(super) fn pool(why: u16, [first, second]: [u64; 2]) -> Option<pool::Error> {
    Some(match why {
        STALE => pool::Error::Stale,
        DESTROYED => pool::Error::Destroyed,
        IS_CHANNEL => pool::Error::IsChannel,
        DAMAGED => pool::Error::Damaged,
        OUTSIDE => pool::Error::OutOfBounds { offset: 0, len: 0, size: first },
        LATE => pool::Error::Timeout { len: first },
        NOT_AVAILABLE => AllocError::NotAvailable { len: first }.into(),
        NEVER => AllocError::TooLarge { len: first, longest: second }.into(),
        NO_ENTRY => AllocError::OutOfEntries.into(),
        BAD_KIND => AllocError::BadKind(u32::try_from(first).ok()?).into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_streams_and_pools_refuse_is_the_same_at_the_other_end() {
        let sized = [
            Error::Partly { sent: 7, len: 9 },
            Error::ReservedArgument(u64::MAX),
            Error::MessageTooLarge { len: 9, most: 8 },
            Error::NoSuchPlace(ONE_MESSAGE),
            Error::UnknownPool(3),
        ];
        for error in PLAIN.into_iter().chain(sized) {
            let Answer::Refused { why, numbers } = refusal(&error) else { unreachable!("a refusal is refused") };
            assert_eq!(super::super::error::refused(1, why, numbers), super::super::Error::Stream(error));
        }
        let of_a_pool = [
            pool::Error::Stale,
            pool::Error::Destroyed,
            pool::Error::IsChannel,
            pool::Error::Damaged,
            pool::Error::Timeout { len: 5 },
            pool::Error::OutOfBounds { offset: 0, len: 0, size: 4 },
            AllocError::NotAvailable { len: 6 }.into(),
            AllocError::TooLarge { len: 7, longest: 6 }.into(),
            AllocError::OutOfEntries.into(),
            AllocError::BadKind(u32::MAX).into(),
        ];
        for error in of_a_pool {
            let Answer::Refused { why, numbers } = of_pool(&error) else { unreachable!("a refusal is refused") };
            assert_eq!(super::super::error::refused(1, why, numbers), super::super::Error::Pool(error));
        }
        let Answer::Refused { why, numbers } = refusal(&Error::VersionMismatch(9)) else { unreachable!() };
        assert_eq!(super::super::error::refused(1, why, numbers).code(), "VERSION_MISMATCH");
    }
}
