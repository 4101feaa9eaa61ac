//! Members of chained calls that C holds.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use umbra::call::{
    Failure as CallFailure, JoinError, Member, Offer, OfferError, ReadError, Reply, StationError, WaitError,
};
use umbra_core::atomic::{AtomicUsize, Ordering};
use umbra_core::chain::{Data, Handle, Node, RegisterError, StartError};
use umbra_core::error::Status;
use umbra_core::memory::AllocError;

use crate::maker::Maker;
use crate::status::{Code, Failure};
use crate::turn::Turns;

/// How long calls without a timeout wait for their turn.
const USUAL: Duration = Duration::from_secs(1);

/// Which offered data a call is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The offer.
    pub(crate) offer: u64,
    /// Where the part begins.
    pub(crate) offset: u64,
    /// Its bytes; 0: all behind that.
    pub(crate) length: u64,
}

/// A member, and the answers that did not fit into what C had for them.
pub(crate) struct Seat {
    pub(crate) member: Member,
    kept: HashMap<u64, Result<Reply, CallFailure>>,
    offers: HashMap<u64, Offer>,
    /// Offers so far: the number of the last one.
    last_offer: u64,
}

/// A member; calls on it take turns.
pub(crate) struct Seated {
    node: Node,
    /// Who took the seat.
    maker: Maker,
    turns: Turns,
    /// Threads that are about to leave: those that serve the member let them.
    leavers: AtomicUsize,
    /// Which thread has the turn; 0: none.
    served_by: AtomicUsize,
    /// Nothing once it was left: calls that had found it before have their turn after that.
    seat: Mutex<Option<Seat>>,
}

thread_local! {
    /// Its address tells threads apart, also at the end of one, when functions for that are called and nothing else of its own
    /// is left.
    static HERE: u8 = const { 0 };
}

fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl Seated {
    pub(crate) fn new(member: Member) -> Seated {
        let node = member.node();
        let seat = Seat { member, kept: HashMap::new(), offers: HashMap::new(), last_offer: 0 };
        Seated {
            node,
            maker: Maker::this(),
            turns: Turns::default(),
            leavers: AtomicUsize::new(0),
            served_by: AtomicUsize::new(0),
            seat: Mutex::new(Some(seat)),
        }
    }

    /// Refuses a child that was forked off: a thread that it lacks may have the turn, and messages are for its parent.
    pub(crate) fn refuse_heirs(&self) -> Result<(), Failure> {
        self.maker.refuse_heirs(umbra::call::Forked)
    }

    /// Its number.
    pub(crate) fn node(&self) -> Node {
        self.node
    }

    /// Uses the member, in turn, for a call without a timeout.
    pub(crate) fn enter<R>(&self, act: impl FnOnce(&mut Seat) -> Result<R, Failure>) -> Result<R, Failure> {
        self.take_turn((USUAL, Code::InUse), |seat| act(seat.as_mut().ok_or(Code::Stale)?))
    }

    /// Serves the calls of others, in turn, for this time or until a thread wants to leave.
    pub(crate) fn serve(&self, patience: Duration) -> Result<(), Failure> {
        self.enter_within(patience, |seat, left| {
            seat.member.serve_until(left, |_| self.leavers.load(Ordering::Relaxed) > 0);
            Ok(())
        })
    }

    /// Leaves the seat, in turn: when this returns no function of the member runs, and none will.
    pub(crate) fn leave(&self) -> Result<(), Failure> {
        /// Says that a thread wants to leave, as long as it does.
        struct Leaving<'a>(&'a AtomicUsize);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }

        self.leavers.fetch_add(1, Ordering::Relaxed);
        let _leaving = Leaving(&self.leavers);
        self.take_turn((USUAL, Code::InUse), |seat| seat.take().map(drop).ok_or(Code::Stale.into()))
    }

    /// Uses the member, in turn, for a call with a timeout; `act` gets what is left of that.
    pub(crate) fn enter_within<R>(
        &self,
        patience: Duration,
        act: impl FnOnce(&mut Seat, Duration) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let deadline = Instant::now().checked_add(patience);
        let left = || deadline.map_or(patience, |deadline| deadline.saturating_duration_since(Instant::now()));
        self.take_turn((patience, Status::Timeout.into()), |seat| act(seat.as_mut().ok_or(Code::Stale)?, left()))
    }

    /// Uses the member when its turn comes, or fails with the code. A function that it runs cannot use it again.
    fn take_turn<R>(
        &self,
        (patience, late): (Duration, Code),
        act: impl FnOnce(&mut Option<Seat>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        /// Says that the member is served no more, also after a panic.
        struct Served<'a>(&'a AtomicUsize);
        impl Drop for Served<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Relaxed);
            }
        }

        // What another thread has stored is never this one.
        if self.served_by.load(Ordering::Relaxed) == this_thread() {
            let detail = "a function of this member calls it: return that it is pending, and be run again";
            return Err(Failure::new(Code::WouldDeadlock, detail));
        }
        let _turn = self.turns.take(patience).ok_or_else(|| {
            let node = self.node.0;
            Failure::new(
                late,
                format!("member {node} is in use by another thread: let its calls end sooner, or wait longer"),
            )
        })?;
        self.served_by.store(this_thread(), Ordering::Relaxed);
        let _served = Served(&self.served_by);
        let mut seat = self.seat.lock().map_err(|_| Code::Panic)?;
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
                Err(other) => return Err(other.into()),
            },
        };
        let taken = take(&answer);
        match answer {
            answer if taken.is_err() => {
                self.kept.insert(call, answer);
                taken
            }
            Ok(_) => Ok(()),
            Err(failure) => Err(WaitError::Failed(failure).into()),
        }
    }

    /// Nobody asks again for an answer that did not fit.
    pub(crate) fn forget(&mut self, call: u64) {
        self.kept.remove(&call);
    }

    /// Answers that did not fit, and can be asked for again.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Copies data to where the functions of others read it; the number of the offer.
    pub(crate) fn offer(&mut self, bytes: &[u8]) -> Result<u64, Failure> {
        let offer = self.member.offer(bytes)?;
        self.last_offer += 1;
        self.offers.insert(self.last_offer, offer);
        Ok(self.last_offer)
    }

    /// What a call over a part of an offer carries.
    pub(crate) fn offered(&self, part: Part) -> Result<Data<'static>, Failure> {
        let offer = self.offers.get(&part.offer).ok_or(Code::Stale)?;
        let Data::Span(span) = offer.data() else { return Err(Code::Stale.into()) };
        let length = if part.length == 0 { span.len.saturating_sub(part.offset) } else { part.length };
        let outside = || {
            let detail = format!("{length} bytes at {} of an offer that has {}", part.offset, span.len);
            Failure::new(Status::OutOfBounds, detail)
        };
        offer.part(part.offset, length).filter(|_| length > 0).ok_or_else(outside)
    }

    /// Nobody is to read it any more.
    pub(crate) fn take_back(&mut self, offer: u64) -> Result<(), Failure> {
        let offer = self.offers.remove(&offer).ok_or(Code::Stale)?;
        self.member.take_back(offer);
        Ok(())
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
            JoinError::Forked(_) => Failure::new(Code::Stale, error),
            _ => Failure::new(Code::System, error),
        }
    }
}

impl From<OfferError> for Failure {
    fn from(error: OfferError) -> Failure {
        let code = match &error {
            OfferError::Memory(AllocError::TooLarge { .. }) => Code::Never,
            OfferError::Memory(AllocError::ZeroSize | AllocError::BadAlign { .. }) => Code::Invalid,
            OfferError::Memory(_) | OfferError::TooMany => Code::Status(Status::Full),
            OfferError::Station(_) => Code::Damaged,
            OfferError::Forked(_) => Code::Stale,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        let code = match &error {
            ReadError::Gone => Code::Status(Status::KeyRevoked),
            ReadError::Range(_) => Code::Status(Status::OutOfBounds),
            ReadError::Station(_) => Code::Damaged,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Failure {
        let code = match &error {
            WaitError::Failed(_) => Code::Call,
            WaitError::NotYet => Code::Status(Status::Timeout),
            _ => Code::Stale,
        };
        Failure::new(code, error)
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
            StartError::StaleWithin | StartError::Forked => Code::Stale,
            _ => Code::Invalid,
        };
        Failure::new(code, error)
    }
}
