//! Slot caches whose contract, policy and index were chosen at run time.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::time::Duration;

use umbra::cache::{AllocError, BuildError, EndsShared, FilledError, Given, SlotCache};
use umbra_core::cache::keyed::InUse;
use umbra_core::cache::policy::{Clock, Fifo, Lru, Never, Policy, S3Fifo, Sieve};
use umbra_core::cache::waiting::{ContentError, Contract, WaitError};
use umbra_core::cache::{
    self, Dense, FillError, ForgetError, Forgetting, Found, FreeError, Grant, Index, Interrupted, Line, Partial, Pin,
    Plain, Remembering, Remembers, ResetError, Sparse, State, Statistics,
};
use umbra_core::error::Status;

use crate::call::zeros;
use crate::status::{Code, Failure};

/// What C can do with a cache of any kind.
pub(crate) trait Cached: Send + Sync {
    /// A reference, and what is told with it. Without a time it does not wait.
    fn take(&self, data: u64, within: Duration) -> Result<(Option<Pin>, Grant), Failure>;
    fn free(&self, data: u64) -> Result<(), Failure>;
    fn free_pin(&self, pin: Pin) -> Result<(), Failure>;
    fn state(&self, data: u64) -> Result<Option<State>, Failure>;
    fn references(&self, data: u64) -> Result<u32, Failure>;
    /// References now; how many of them there are, if not all.
    fn alloc_all(&self, data: &[u64], grants: &mut [Grant]) -> Result<(), (usize, Failure)>;
    fn free_all(&self, data: &[u64], grants: Option<&[Grant]>) -> Result<(), (usize, Failure)>;
    fn interrupt(&self);
    fn end_unused(&self) -> Result<(), InUse>;
    fn settle(&self, slot: u32) -> bool;
    fn reset(&self) -> Result<(), Failure>;
    fn outstanding(&self) -> Vec<u32>;
    fn statistics(&self) -> Statistics;
    fn waiting(&self) -> u32;

    /// A reference that C holds by the id of its data: the slot, and what is found in it.
    fn alloc(&self, data: u64, within: Duration) -> Result<(u32, Found), Failure> {
        let (_, Grant { slot, found, .. }) = self.take(data, within)?;
        Ok((slot, found))
    }
    fn filled(&self, _: u64, _: Duration) -> Result<(), Failure> {
        Err(Code::Contract.into())
    }
    fn remember(&self, _: u64) -> Result<(), Failure> {
        Err(Code::Contract.into())
    }
    fn abandon(&self, _: u64) -> Result<(), Failure> {
        Err(Code::Contract.into())
    }
    fn forget(&self, _: u64, _later: bool) -> Result<bool, Failure> {
        Err(Code::Contract.into())
    }
}

/// The numbers by which C knows what is found in a slot.
pub(crate) fn number_of(found: Found) -> u32 {
    match found {
        Found::Empty => 0,
        Found::Assigned => 1,
        Found::Remembered => 2,
    }
}

/// The numbers by which C knows what a slot is doing.
pub(crate) fn number_of_state(state: Option<State>) -> u32 {
    match state {
        None => 0,
        Some(State::Filling) => 1,
        Some(State::Abandoned) => 2,
        Some(State::InUse) => 3,
        Some(State::Idle) => 4,
    }
}

/// A cache to be made.
pub(crate) struct Plan {
    pub(crate) contract: u32,
    pub(crate) policy: u32,
    pub(crate) first: u32,
    pub(crate) slots: u32,
    /// Ids are below this; 0 for any.
    pub(crate) ids: u64,
    pub(crate) waiters: usize,
}

impl Plan {
    pub(crate) fn build(&self) -> Result<Box<dyn Cached>, Failure> {
        match self.ids {
            0 => self.with_index(sparse(self.slots, self.slots as usize)?),
            // More than there are addresses is more than there is memory for.
            ids => self.with_index(Dense::new(zeros(usize::try_from(ids).unwrap_or(usize::MAX))?)),
        }
    }

    fn with_index<I: Index + Send + 'static>(&self, index: I) -> Result<Box<dyn Cached>, Failure> {
        match self.policy {
            0 => self.with_policy(index, Clock::new()),
            1 => self.with_policy(index, Lru::new()),
            2 => self.with_policy(index, Fifo::new()),
            3 => self.with_policy(index, Sieve::new()),
            4 => self.with_policy(index, S3Fifo::new()),
            other => Err(Failure::new(Code::Invalid, format!("{other} is no policy: they are numbered 0 to 4"))),
        }
    }

    fn with_policy<I, P>(&self, index: I, policy: P) -> Result<Box<dyn Cached>, Failure>
    where
        I: Index + Send + 'static,
        P: Policy + Send + 'static,
    {
        match self.contract {
            0 => Ok(Box::new(Stacked(self.cache::<I, Never, Plain>(index, Never)?))),
            1 => Ok(Box::new(Remembered(self.cache::<I, P, Remembering>(index, policy)?))),
            2 => Ok(Box::new(Forgettable(self.cache::<I, P, Forgetting>(index, policy)?))),
            other => Err(Failure::new(Code::Invalid, format!("{other} is no contract: they are numbered 0 to 2"))),
        }
    }

    fn cache<I: Index, P: Policy, C: Contract>(&self, index: I, policy: P) -> Result<SlotCache<I, P, C>, Failure> {
        let range = numbers_from(self.first, self.slots)?;
        SlotCache::with_waiters(range, index, policy, self.waiters).map_err(|error| match error {
            BuildError::NoMemory { .. } => Failure::new(Code::System, error),
            error => Failure::new(Code::Invalid, error),
        })
    }
}

/// An index for so many of any ids, with numbers below this one. Nobody can choose ids that all begin in one line.
pub(crate) fn sparse(ids: u32, numbers: usize) -> Result<Sparse<Vec<Line>, Vec<u64>>, Failure> {
    let seed = RandomState::new().hash_one(ids);
    Ok(Sparse::new(zeros(Line::for_ids(ids as usize))?, zeros(numbers)?, seed))
}

/// So many numbers of slots from the first on.
pub(crate) fn numbers_from(first: u32, slots: u32) -> Result<Range<u32>, Failure> {
    let end = first.checked_add(slots);
    let refused = || Failure::new(Code::Invalid, format!("{slots} slots from {first} on end beyond {}", u32::MAX));
    end.map(|end| first..end).ok_or_else(refused)
}

/// What a batch in C is told of how it ended.
pub(crate) fn partly<E: Into<Failure>>(partial: Partial<E>) -> (usize, Failure) {
    (partial.done, partial.error.into())
}

/// The operations that all contracts have.
macro_rules! common {
    () => {
        fn take(&self, data: u64, within: Duration) -> Result<(Option<Pin>, Grant), Failure> {
            let given = if within.is_zero() { self.0.try_alloc(data)? } else { self.0.alloc(data, within)? };
            let held = match given {
                Given::Empty(fill) => fill.unremembered(),
                Given::Assigned(held) | Given::Remembered(held) => held,
            };
            let grant = held.grant();
            Ok((held.into_pin(), grant))
        }
        fn free(&self, data: u64) -> Result<(), Failure> {
            Ok(self.0.free(data)?)
        }
        fn free_pin(&self, pin: Pin) -> Result<(), Failure> {
            Ok(self.0.free_pin(pin)?)
        }
        fn state(&self, data: u64) -> Result<Option<State>, Failure> {
            Ok(self.0.look(|cache| cache.state(data))?)
        }
        fn references(&self, data: u64) -> Result<u32, Failure> {
            Ok(self.0.look(|cache| cache.references(data))?)
        }
        fn alloc_all(&self, data: &[u64], grants: &mut [Grant]) -> Result<(), (usize, Failure)> {
            self.0.try_alloc_all(data, grants).map_err(partly)
        }
        fn free_all(&self, data: &[u64], grants: Option<&[Grant]>) -> Result<(), (usize, Failure)> {
            let done = match grants {
                Some(grants) => self.0.free_all_granted(data, grants),
                None => self.0.free_all(data),
            };
            done.map_err(partly)
        }
        fn interrupt(&self) {
            self.0.interrupt();
        }
        fn end_unused(&self) -> Result<(), InUse> {
            EndsShared::end_unused(&self.0)
        }
        fn settle(&self, slot: u32) -> bool {
            self.0.settle(slot)
        }
        fn reset(&self) -> Result<(), Failure> {
            Ok(self.0.reset()?)
        }
        fn outstanding(&self) -> Vec<u32> {
            self.0.look(|cache| cache.outstanding_fills().map(|(slot, _)| slot).collect())
        }
        fn statistics(&self) -> Statistics {
            self.0.look(|cache| cache.statistics())
        }
        fn waiting(&self) -> u32 {
            self.0.waiting()
        }
    };
}

/// The operations of contracts that remember.
macro_rules! remembering {
    () => {
        fn filled(&self, data: u64, within: Duration) -> Result<(), Failure> {
            Ok(self.0.filled(data, within)?)
        }
        fn remember(&self, data: u64) -> Result<(), Failure> {
            Ok(self.0.remember(data)?)
        }
        fn abandon(&self, data: u64) -> Result<(), Failure> {
            Ok(self.0.abandon(data)?)
        }
    };
}

struct Stacked<I, P, C>(SlotCache<I, P, C>);
struct Remembered<I, P, C>(SlotCache<I, P, C>);
struct Forgettable<I, P>(SlotCache<I, P, Forgetting>);

impl<I: Index + Send, P: Policy + Send, C: Contract + Send> Cached for Stacked<I, P, C> {
    common!();
}
impl<I: Index + Send, P: Policy + Send, C: Contract + Remembers + Send> Cached for Remembered<I, P, C> {
    common!();
    remembering!();
}
impl<I: Index + Send, P: Policy + Send> Cached for Forgettable<I, P> {
    common!();
    remembering!();

    fn forget(&self, data: u64, later: bool) -> Result<bool, Failure> {
        Ok(if later { self.0.forget_later(data) } else { self.0.forget(data) }?)
    }
}

/// A failure for each error: its code, and its own words.
macro_rules! failures {
    ($($error:ty { $($pattern:pat => $code:expr,)* })*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                #[allow(unreachable_patterns, reason = "errors may get further variants")]
                let code: Code = match &error {
                    $($pattern => $code,)*
                    _ => Code::Invalid,
                };
                Failure::new(code, error)
            }
        }
    )*};
}
pub(crate) use failures;

pub(crate) const INTERRUPTED: Code = Code::Status(Status::Interrupted);
pub(crate) const FULL: Code = Code::Status(Status::Full);
pub(crate) const TIMEOUT: Code = Code::Status(Status::Timeout);

failures! {
    Interrupted {
        Interrupted => INTERRUPTED,
    }
    cache::AllocError {
        cache::AllocError::Interrupted => INTERRUPTED,
        cache::AllocError::Full { .. } | cache::AllocError::TooManyReferences { .. } => FULL,
    }
    AllocError {
        AllocError::Interrupted => INTERRUPTED,
        AllocError::Expired { .. } => TIMEOUT,
        AllocError::Refused(WaitError::TooManyWaiters { .. }) => FULL,
        AllocError::Refused(WaitError::Refused(cache::AllocError::TooManyReferences { .. })) => FULL,
    }
    FilledError {
        FilledError::Interrupted => INTERRUPTED,
        FilledError::Expired { .. } => TIMEOUT,
        FilledError::Refused(ContentError::NotAssigned { .. }) => Code::NoSlot,
        FilledError::Refused(ContentError::Abandoned { .. }) => Code::Abandoned,
        FilledError::Refused(ContentError::TooManyWaiters { .. }) => FULL,
    }
    FreeError {
        FreeError::Interrupted => INTERRUPTED,
        FreeError::NotAssigned { .. } => Code::NoSlot,
        FreeError::NotInUse { .. } => Code::Unused,
    }
    FillError {
        FillError::Interrupted => INTERRUPTED,
        FillError::NotAssigned { .. } => Code::NoSlot,
        FillError::AlreadyRemembered { .. } => Code::NotFilling,
    }
    ForgetError {
        ForgetError::Interrupted => INTERRUPTED,
        ForgetError::NotRemembered { .. } => Code::Filling,
        ForgetError::InUse { .. } => Code::InUse,
    }
    ResetError {
        ResetError::Filling { .. } => Code::Filling,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_cache_knows_what_comes_back() {
        let plan = Plan { contract: 1, policy: 4, first: 0, slots: 3, ids: 0, waiters: 1 };
        let cache = plan.build().unwrap();
        let found = |data| {
            let (_, found) = cache.alloc(data, Duration::ZERO).unwrap();
            let found = number_of(found);
            if found == 0 {
                cache.remember(data).unwrap();
            }
            cache.free(data).unwrap();
            found
        };
        // The first one leaves for the fourth, comes back, and stays while others come and go.
        for data in [1, 2, 3, 4, 1, 5, 6, 7] {
            assert_eq!(found(data), 0, "{data}");
        }
        assert_eq!(found(1), 2);
    }
}
