//! A stencil cache behind a lock, and how its news reach one client at a time.

use std::sync::{Mutex, MutexGuard};

use umbra_core::cache::Slot;
use umbra_core::id::Id;
use umbra_core::stencil::{
    Action, BuildError, ByNumber, FreeError, Group, GroupError, Input, Limits, PreparedError, Reference, Stencil,
    Storage, SubmitError, Unknown, UsageError,
};

use crate::cached::{FULL, INTERRUPTED, failures, numbers_from, zeros};
use crate::status::{Code, Failure};

type Records = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;
type Machine = Stencil<Records, ByNumber, Unknown>;

/// Buckets of the calendar of next uses.
const BUCKETS: usize = 4096;

/// A stencil cache that C holds.
pub(crate) struct Stenciled(Mutex<State>);

pub(crate) struct State {
    pub(crate) machine: Machine,
    /// Somebody calls the client's functions.
    delivering: bool,
}

/// A stencil cache to be made.
pub(crate) struct Plan {
    pub(crate) first: u32,
    pub(crate) slots: u32,
    pub(crate) inputs: usize,
    pub(crate) counted: bool,
    pub(crate) groups: usize,
    pub(crate) members: usize,
    pub(crate) limits: Limits,
}

impl Plan {
    pub(crate) fn build(&self) -> Result<Stenciled, Failure> {
        let references = self.groups.checked_mul(self.members).ok_or(Code::Invalid)?;
        let mut inputs: Vec<Input> = zeros(self.inputs)?;
        if !self.counted {
            inputs.fill(Input::UNBOUNDED);
        }
        let storage = Storage {
            slots: zeros(self.slots as usize)?,
            buckets: zeros(BUCKETS)?,
            inputs,
            groups: zeros(self.groups)?,
            references: zeros(references)?,
        };
        let slots = numbers_from(self.first, self.slots)?;
        let machine = Stencil::new(storage, ByNumber, Unknown, slots, self.limits)?;
        Ok(Stenciled(Mutex::new(State { machine, delivering: false })))
    }
}

/// News, with the slots of a group that is ready.
pub(crate) enum News {
    Prepare { slot: u32, data: u64 },
    Ready { point: u64, group: u64, slots: Vec<u32> },
    Failed { point: u64, data: u64 },
    Interrupted { point: u64 },
}

impl State {
    /// The next news; a group's slots are put into `slots`.
    fn next(&mut self, mut slots: Vec<u32>) -> Option<News> {
        Some(match self.machine.poll()? {
            Action::Prepare { slot, data } => News::Prepare { slot, data },
            Action::Ready { point, group } => {
                slots.clear();
                slots.extend(self.machine.slots(group).into_iter().flatten());
                News::Ready { point, group: group.to_bits(), slots }
            }
            Action::Failed { point, data } => News::Failed { point, data },
            Action::Interrupted { point } => News::Interrupted { point },
        })
    }
}

impl Stenciled {
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, State>, Failure> {
        self.0.lock().map_err(|_| Code::Panic.into())
    }

    /// Hands all news to `tell`, one after the other and never two at once; what comes up meanwhile as well. Whoever
    /// comes while somebody else is at it leaves its news to that one.
    pub(crate) fn deliver(&self, mut tell: impl FnMut(&News)) -> Result<(), Failure> {
        let mut slots = Vec::new();
        let mut mine = false;
        loop {
            let news = {
                let mut state = self.lock()?;
                if state.delivering && !mine {
                    return Ok(());
                }
                let news = state.next(std::mem::take(&mut slots));
                // That there are no more news and that nobody is at it become true together.
                state.delivering = news.is_some();
                news
            };
            let Some(news) = news else { return Ok(()) };
            mine = true;
            tell(&news);
            if let News::Ready { slots: used, .. } = news {
                slots = used;
            }
        }
    }

    /// The next news, if nobody is at it.
    pub(crate) fn poll(&self) -> Result<Option<News>, Failure> {
        let mut state = self.lock()?;
        Ok(if state.delivering { None } else { state.next(Vec::new()) })
    }
}

/// The group that C knows by this number.
pub(crate) fn group(bits: u64) -> Id<Group> {
    Id::from_bits(bits)
}

failures! {
    SubmitError {
        SubmitError::Interrupted => INTERRUPTED,
        SubmitError::GroupsFull { .. } => FULL,
        SubmitError::TooManyMembers { .. } | SubmitError::GroupTooLarge { .. } => Code::TooLarge,
        SubmitError::UnknownData { .. } | SubmitError::UsageExhausted { .. } => Code::Usage,
    }
    PreparedError {
        PreparedError::Interrupted => INTERRUPTED,
        PreparedError::NotFilling { .. } => Code::NotFilling,
    }
    GroupError {
        GroupError::Interrupted => INTERRUPTED,
        GroupError::Stale { .. } => Code::Stale,
        GroupError::NotReady { .. } => Code::NotReady,
        GroupError::TooShort { .. } => Code::TooSmall,
    }
    FreeError {
        FreeError::Interrupted => INTERRUPTED,
        FreeError::NotAssigned { .. } => Code::NoSlot,
        FreeError::NotReady { .. } => Code::NotReady,
        FreeError::NotInUse { .. } => Code::Unused,
    }
    UsageError {
        UsageError::NoRecord { .. } | UsageError::TooMany => Code::Usage,
    }
    BuildError {
        BuildError::NotEnoughSlots { .. } => Code::TooLarge,
    }
}
