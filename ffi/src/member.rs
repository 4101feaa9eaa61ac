//! Members of chained calls that C holds.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use umbra::call::{Failure as CallFailure, JoinError, Member, Reply, StationError, WaitError};
use umbra_core::chain::{Handle, RegisterError, StartError};
use umbra_core::error::Status;

use crate::status::{Code, Failure};

/// A member, and the answers that did not fit into what C had for them.
pub(crate) struct Seat {
    pub(crate) member: Member,
    kept: HashMap<u64, Result<Reply, CallFailure>>,
}

/// A member; calls on it take turns.
pub(crate) struct Seated(Mutex<Seat>);

thread_local! {
    /// Members that this thread serves just now.
    static SERVED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Seated {
    pub(crate) fn new(member: Member) -> Seated {
        Seated(Mutex::new(Seat { member, kept: HashMap::new() }))
    }

    /// Uses the member of this handle, in turn. A function that it runs cannot use it again.
    pub(crate) fn enter<R>(
        &self,
        handle: u64,
        act: impl FnOnce(&mut Seat) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        /// Says that the member is served no more, also after a panic.
        struct Served;
        impl Drop for Served {
            fn drop(&mut self) {
                SERVED.with_borrow_mut(Vec::pop);
            }
        }

        if SERVED.with_borrow(|served| served.contains(&handle)) {
            let detail = "a function of this member calls it: return that it is pending, and be run again";
            return Err(Failure::new(Code::WouldDeadlock, detail));
        }
        SERVED.with_borrow_mut(|served| served.push(handle));
        let _served = Served;
        let mut seat = self.0.lock().map_err(|_| Code::Panic)?;
        act(&mut seat)
    }
}

impl Seat {
    /// The answer of a call that has ended within this time, looked at by `take` and dropped if that is content.
    pub(crate) fn answer(
        &mut self,
        call: u64,
        patience: Duration,
        take: impl FnOnce(&Result<Reply, CallFailure>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let answer = match self.kept.remove(&call) {
            Some(kept) => kept,
            None => match self.member.wait(Handle::from_bits(call), patience) {
                Ok(reply) => Ok(reply),
                Err(WaitError::Failed(failure)) => Err(failure),
                Err(WaitError::NotYet) => return Err(Failure::new(Status::Timeout, WaitError::NotYet)),
                Err(other) => return Err(Failure::new(Code::Stale, other)),
            },
        };
        let taken = take(&answer);
        match answer {
            answer if taken.is_err() => {
                self.kept.insert(call, answer);
                taken
            }
            Ok(_) => Ok(()),
            Err(failure) => Err(Failure::new(Code::Call, failure)),
        }
    }

    /// Whether a call has ended; serves others once.
    pub(crate) fn has_ended(&mut self, call: u64) -> Result<bool, Failure> {
        if self.kept.contains_key(&call) {
            return Ok(true);
        }
        self.member.test(Handle::from_bits(call)).map_err(|_| Code::Stale.into())
    }
}

impl From<StationError> for Failure {
    fn from(error: StationError) -> Failure {
        let code = match error {
            StationError::Segment(_) => Code::System,
            StationError::Inbox(_) => Code::Damaged,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Failure {
        match error {
            JoinError::Station(station) => station.into(),
            JoinError::Taken { .. } => Failure::new(Code::InUse, error),
            _ => Failure::new(Code::System, error),
        }
    }
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Failure {
        let code = match error {
            RegisterError::Full => Code::Status(Status::Full),
            RegisterError::Taken => Code::KeyTaken,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        let code = match error {
            StartError::UnknownFunc(_) | StartError::UnknownCallback(_) => Code::NoFunction,
            StartError::HeaderTooLong { .. }
            | StartError::TooLarge { .. }
            | StartError::TooMany { .. }
            | StartError::TooDeep { .. }
            | StartError::FanOut(_) => Code::TooLong,
            StartError::DeadId(_) => Code::Status(Status::PeerFailed),
            StartError::NoTime => Code::Status(Status::Timeout),
            StartError::WouldBlock => Code::Status(Status::Full),
            StartError::StaleWithin => Code::Stale,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}
