//! Slot caches that processes share, whose contract was chosen at run time.

use std::os::fd::OwnedFd;
use std::time::Duration;

use umbra::cache::{Mapped, MappedError, Passing, UnfilledError, Unreclaimed, UnservedError};
use umbra::sys::segment::SegmentError;
use umbra_core::cache::{Forgetting, Partial, Plain, Remembering, State};
use umbra_core::error::Status;
use umbra_core::shared_cache::{
    AllocError, AttachError, Blocked, Client, Contract, FillError, ForgetError, FreeError, Grant, LookError,
    ReclaimError, Reclaimed, Sharing, Statistics,
};

use crate::cached::{FULL, INTERRUPTED, TIMEOUT, failures, partly};
use crate::maker::Maker;
use crate::status::{Code, Failure};

/// The place of this process at a cache of any contract.
enum Place {
    Stack(Mapped<Plain>),
    Remembering(Mapped<Remembering>),
    Forgetful(Mapped<Forgetting>),
}

/// References that are taken at a time.
const AT_ONCE: usize = 64;

/// Does the same at a cache of any contract.
macro_rules! any {
    ($place:expr, $mapped:ident => $act:expr) => {
        match $place {
            Place::Stack($mapped) => $act,
            Place::Remembering($mapped) => $act,
            Place::Forgetful($mapped) => $act,
        }
    };
}

/// Does the same at a cache of the contracts that remember.
macro_rules! remembering {
    ($place:expr, $mapped:ident => $act:expr) => {
        match $place {
            Place::Stack(_) => Err(Code::Contract.into()),
            Place::Remembering($mapped) => $act,
            Place::Forgetful($mapped) => $act,
        }
    };
}

/// Beside the number of a contract: who waits takes back what dead processes held.
const RECLAIM: u32 = 0x100;

/// As the flag beside the contract says.
fn reclaiming<C: Contract>(contract: u32, mapped: Mapped<C>) -> Mapped<C> {
    if contract & RECLAIM == 0 { mapped } else { mapped.reclaiming() }
}

/// Makes a place of a contract by its number.
macro_rules! of_contract {
    ($contract:expr, $make:ident($($argument:expr),*)) => {
        match $contract & !RECLAIM {
            0 => Ok(Place::Stack(reclaiming($contract, Mapped::$make($($argument),*)?))),
            1 => Ok(Place::Remembering(reclaiming($contract, Mapped::$make($($argument),*)?))),
            2 => Ok(Place::Forgetful(reclaiming($contract, Mapped::$make($($argument),*)?))),
            other => Err(Failure::new(Code::Invalid, format!("{other} is no contract: they are numbered 0 to 2"))),
        }
    };
}

/// The same, in the process that took it.
pub(crate) struct Joint {
    maker: Maker,
    place: Place,
}

/// How a cache is doing.
pub(crate) struct Doing {
    pub(crate) counted: Statistics,
    pub(crate) slots: u32,
    pub(crate) empty: u32,
    pub(crate) processes: u32,
}

/// An error that time would have mended is that the time is over, for who gave some.
fn timed<T, E: Passing + Into<Failure>>(done: Result<T, E>, within: Duration) -> Result<T, Failure> {
    done.map_err(|error| {
        let is_late = error.passes() && !within.is_zero();
        let failure: Failure = error.into();
        if is_late { Failure { code: TIMEOUT, ..failure } } else { failure }
    })
}

/// Why a batch ended: nobody waits for a slot while he has others.
struct Refused(AllocError);

impl Passing for Refused {
    fn passes(&self) -> bool {
        !matches!(self.0, AllocError::Full { .. }) && self.0.passes()
    }
}

impl From<Refused> for Failure {
    fn from(Refused(error): Refused) -> Failure {
        error.into()
    }
}

/// What is not done yet of a batch.
fn rest(all: &[u64], done: usize) -> &[u64] {
    all.get(done..).unwrap_or_default()
}

/// Takes a reference to each that has none yet, and counts those that have one.
fn alloc_rest<C: Contract>(
    client: Client<'_, C>,
    data: &[u64],
    done: &mut usize,
    mut told: impl FnMut(usize, u64, Grant),
) -> Result<(), Refused> {
    for some in rest(data, *done).chunks(AT_ONCE) {
        let mut grants = [None; AT_ONCE];
        let ended = client.alloc_all(some, &mut grants);
        for (&data, grant) in some.iter().zip(grants.into_iter().flatten()) {
            told(*done, data, grant);
            *done += 1;
        }
        ended.map_err(|partial| Refused(partial.error))?;
    }
    Ok(())
}

impl Joint {
    fn new(place: Result<Place, Failure>) -> Result<Joint, Failure> {
        Ok(Joint { maker: Maker::this(), place: place? })
    }

    pub(crate) fn create(contract: u32, slots: u32, sharing: Sharing) -> Result<Joint, Failure> {
        Joint::new(of_contract!(contract, create(slots as usize, sharing)))
    }

    pub(crate) fn attach(contract: u32, memory: OwnedFd) -> Result<Joint, Failure> {
        Joint::new(of_contract!(contract, attach(memory)))
    }

    pub(crate) fn attach_or_succeed(
        contract: u32,
        memory: OwnedFd,
        abandoned: impl FnMut(u32, u64),
    ) -> Result<Joint, Failure> {
        Joint::new(of_contract!(contract, attach_or_succeed(memory, abandoned)))
    }

    /// Also in a child, which attaches by it.
    pub(crate) fn share(&self) -> Result<OwnedFd, Failure> {
        any!(&self.place, mapped => mapped.share()).map_err(|error: SegmentError| Failure::new(Code::System, error))
    }

    fn own(&self) -> Result<&Place, Failure> {
        let detail = "the place at the cache belongs to the process that forked this one off: attach in this process";
        self.maker.refuse_heirs(detail).map(|()| &self.place)
    }

    pub(crate) fn alloc(&self, data: u64, within: Duration) -> Result<Grant, Failure> {
        timed(any!(self.own()?, mapped => mapped.alloc(data, within)), within)
    }

    pub(crate) fn free(&self, data: u64, within: Duration) -> Result<(), Failure> {
        timed(any!(self.own()?, mapped => mapped.within(within, |client| client.free(data))), within)
    }

    pub(crate) fn free_marked(&self, data: u64, mark: u64) -> Result<(), Failure> {
        Ok(any!(self.own()?, mapped => mapped.client().free_marked(data, mark))?)
    }

    /// A reference to each in order, of which is told as soon as it is taken; how many there are, if not all.
    pub(crate) fn alloc_all(
        &self,
        data: &[u64],
        within: Duration,
        mut told: impl FnMut(usize, u64, Grant),
    ) -> Result<(), (usize, Failure)> {
        let place = self.own().map_err(|failure| (0, failure))?;
        let mut done = 0;
        let ended =
            any!(place, mapped => mapped.within(within, |client| alloc_rest(client, data, &mut done, &mut told)));
        timed(ended, within).map_err(|failure| (done, failure))
    }

    /// How many were given back, if not all.
    pub(crate) fn free_all(&self, data: &[u64], within: Duration) -> Result<(), (usize, Failure)> {
        let place = self.own().map_err(|failure| (0, failure))?;
        let mut done = 0;
        let ended = any!(place, mapped => mapped.within(within, |client| {
            client.free_all(rest(data, done)).map_err(|Partial { done: further, error }| {
                done += further;
                error
            })
        }));
        timed(ended, within).map_err(|failure| (done, failure))
    }

    /// The same by data and marks, whatever others are doing.
    pub(crate) fn free_all_marked(&self, references: &[(u64, u64)]) -> Result<(), (usize, Failure)> {
        let place = self.own().map_err(|failure| (0, failure))?;
        any!(place, mapped => mapped.client().free_all_marked(references)).map_err(partly)
    }

    pub(crate) fn filled(&self, data: u64, within: Duration) -> Result<(), Failure> {
        remembering!(self.own()?, mapped => timed(mapped.filled(data, within), within))
    }

    pub(crate) fn remember(&self, data: u64, within: Duration) -> Result<(), Failure> {
        let place = self.own()?;
        remembering!(place, mapped => timed(mapped.within(within, |client| client.remember(data)), within))
    }

    pub(crate) fn abandon(&self, data: u64, within: Duration) -> Result<(), Failure> {
        remembering!(self.own()?, mapped => timed(mapped.within(within, |client| client.abandon(data)), within))
    }

    /// Whether there was any content.
    pub(crate) fn forget(&self, data: u64, later: bool, within: Duration) -> Result<bool, Failure> {
        let Place::Forgetful(mapped) = self.own()? else { return Err(Code::Contract.into()) };
        let forget = |client: Client<'_, Forgetting>| {
            if later { client.forget_later(data) } else { client.forget(data) }
        };
        timed(mapped.within(within, forget), within)
    }

    /// What the slot is doing, if the data has one.
    pub(crate) fn state(&self, data: u64, within: Duration) -> Result<Option<State>, Failure> {
        timed(any!(self.own()?, mapped => mapped.within(within, |client| client.state(data))), within)
    }

    pub(crate) fn references(&self, data: u64, within: Duration) -> Result<u32, Failure> {
        timed(any!(self.own()?, mapped => mapped.within(within, |client| client.references(data))), within)
    }

    /// What was taken back, and what was in the way of the rest.
    pub(crate) fn reclaim(
        &self,
        within: Duration,
        abandoned: impl FnMut(u32, u64),
    ) -> Result<(Reclaimed, Result<(), Failure>), Failure> {
        Ok(match any!(self.own()?, mapped => mapped.reclaim(within, abandoned)) {
            Ok(all) => (all, Ok(())),
            Err(Unreclaimed { done, why }) => (done, timed(Err(why), within)),
        })
    }

    pub(crate) fn interrupt(&self) -> Result<(), Failure> {
        any!(self.own()?, mapped => mapped.client().cache().interrupt());
        Ok(())
    }

    pub(crate) fn doing(&self) -> Result<Doing, Failure> {
        Ok(any!(self.own()?, mapped => {
            let cache = mapped.client().cache();
            let (counted, slots, empty) = (cache.statistics(), cache.capacity(), cache.empty());
            Doing { counted, slots, empty, processes: cache.members().count() as u32 }
        }))
    }
}

fn code_of(why: &Blocked) -> Code {
    match why {
        Blocked::Damaged { .. } => Code::Damaged,
        _ => Code::Busy,
    }
}

failures! {
    AllocError {
        AllocError::Interrupted => INTERRUPTED,
        AllocError::Full { .. } | AllocError::TooManyReferences { .. } => FULL,
        AllocError::Blocked { why } => code_of(why),
    }
    UnservedError {
        UnservedError::Expired { .. } => TIMEOUT,
        UnservedError::Refused(AllocError::Interrupted) => INTERRUPTED,
        UnservedError::Refused(AllocError::Full { .. } | AllocError::TooManyReferences { .. }) => FULL,
        UnservedError::Refused(AllocError::Blocked { why }) => code_of(why),
    }
    FreeError {
        FreeError::Interrupted => INTERRUPTED,
        FreeError::NotAssigned { .. } => Code::NoSlot,
        FreeError::NotInUse { .. } => Code::Unused,
        FreeError::Blocked { why } => code_of(why),
    }
    FillError {
        FillError::Interrupted => INTERRUPTED,
        FillError::NotAssigned { .. } => Code::NoSlot,
        FillError::AlreadyRemembered { .. } => Code::NotFilling,
        FillError::Blocked { why } => code_of(why),
    }
    ForgetError {
        ForgetError::Interrupted => INTERRUPTED,
        ForgetError::NotRemembered { .. } => Code::Filling,
        ForgetError::InUse { .. } => Code::InUse,
        ForgetError::Blocked { why } => code_of(why),
    }
    LookError {
        LookError::Interrupted => INTERRUPTED,
        LookError::Blocked { why } => code_of(why),
    }
    UnfilledError {
        UnfilledError::Filling { .. } => Code::Filling,
        UnfilledError::NotAssigned { .. } => Code::NoSlot,
        UnfilledError::Abandoned { .. } => Code::Abandoned,
        UnfilledError::Look(LookError::Interrupted) => INTERRUPTED,
        UnfilledError::Look(LookError::Blocked { why }) => code_of(why),
    }
    ReclaimError {
        ReclaimError::Blocked { why } => code_of(why),
        ReclaimError::InProgress { .. } => Code::Busy,
    }
    MappedError {
        MappedError::Join(_) => FULL,
        MappedError::Segment(_) | MappedError::Process(_) => Code::System,
        MappedError::Attach(AttachError::WrongContract) => Code::Status(Status::Conflict),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use umbra::sys::segment::{Mapping, Segment};
    use umbra_core::atomic::Ordering;
    use umbra_core::shared_cache::words_for;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_batch_waits_for_lines_that_others_have_and_goes_on_where_it_was() {
        let sharing = Sharing::new(2, 7).unwrap();
        let joint = Joint::create(1, 8, sharing).unwrap();
        let len = words_for(8, sharing).unwrap() * 8;
        let segment = Segment::attach(joint.share().unwrap(), Mapping::ReadWrite, len).unwrap();
        // The heads of the eight lines, behind the header and both owners. Who has a line to himself is in the upper bits.
        let heads = || segment.words(64 * 8, 64).unwrap().iter().skip(1).step_by(8);
        let own_all = || heads().for_each(|head| _ = head.fetch_or(2 << 59, Ordering::Relaxed));
        let release_all = || heads().for_each(|head| _ = head.fetch_and((1 << 59) - 1, Ordering::Relaxed));
        let held = |data| joint.references(data, Duration::ZERO).unwrap();
        let taken = |within| {
            let mut told = Vec::new();
            let ended = joint.alloc_all(&[1, 2, 3, 4], within, |at, data, _| told.push((at, data)));
            (told.len(), ended.map_err(|(done, failure)| (done, failure.code)), told)
        };
        for data in [1, 2] {
            joint.alloc(data, Duration::ZERO).unwrap();
            joint.remember(data, Duration::ZERO).unwrap();
        }

        // A hit needs no line, but new data does.
        own_all();
        let two = vec![(0, 1), (1, 2)];
        assert_eq!(taken(Duration::ZERO), (2, Err((2, Code::Busy)), two.clone()));
        assert_eq!(taken(Duration::from_millis(3)), (2, Err((2, TIMEOUT)), two));
        thread::scope(|scope| {
            let batch = scope.spawn(|| taken(PATIENCE));
            // It has two more, and asks for the third again and again.
            while !batch.is_finished() && (held(1) < 4 || held(2) < 4) {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(3));
            release_all();
            assert_eq!(batch.join().unwrap(), (4, Ok(()), vec![(0, 1), (1, 2), (2, 3), (3, 4)]));
        });
        assert_eq!([1, 2, 3, 4].map(held), [4, 4, 1, 1]);

        // A reference is given back without a line, too; that data has no slot is not known without one.
        own_all();
        let freed = |data: &[u64], within| joint.free_all(data, within).map_err(|(done, failure)| (done, failure.code));
        assert_eq!(freed(&[1, 2, 5], Duration::ZERO), Err((2, Code::Busy)));
        assert_eq!(freed(&[1, 2, 5], Duration::from_millis(3)), Err((2, TIMEOUT)));
        assert_eq!([1, 2].map(held), [2, 2]);
        release_all();
        assert_eq!(freed(&[1, 2, 5], PATIENCE), Err((2, Code::NoSlot)));
        assert_eq!([1, 2, 3, 4].map(held), [1, 1, 1, 1]);
    }
}
