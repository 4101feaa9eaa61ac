//! Stencil caches that C holds.

use umbra::stencil::{AllocError, BuildError, Plan as Groups, Stencil};
use umbra_core::id::Id;
use umbra_core::stencil::waiting::AllocError as Refused;
use umbra_core::stencil::{self, FreeError, Group, GroupError, Input, PreparedError, SubmitError, UsageError};

use crate::cached::{FULL, INTERRUPTED, TIMEOUT, failures, numbers_from};
use crate::call::zeros;
use crate::foreseen::{Ahead, Named};
use crate::status::{Code, Failure};

/// A stencil cache that C holds.
pub(crate) type Stenciled = Stencil<Named, Ahead>;

/// A stencil cache to be made.
pub(crate) struct Plan {
    pub(crate) first: u32,
    pub(crate) slots: u32,
    pub(crate) inputs: usize,
    pub(crate) counted: bool,
    pub(crate) largest_group: u32,
    pub(crate) members: u32,
    pub(crate) groups: Groups,
    pub(crate) overtake: u32,
    pub(crate) names: Named,
    pub(crate) ahead: Ahead,
}

impl Plan {
    pub(crate) fn build(self) -> Result<Stenciled, Failure> {
        let mut inputs: Vec<Input> = zeros(self.inputs)?;
        if !self.counted {
            inputs.fill(Input::UNBOUNDED);
        }
        let slots = numbers_from(self.first, self.slots)?;
        let (different, members) = (self.largest_group as usize, self.members as usize);
        let machine = self.groups.cache_of(slots, different, members, inputs, self.names, self.ahead)?;
        Ok(Stencil::new(machine.with_overtakers(self.overtake))?)
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
        SubmitError::LoadOfScratch { .. } => Code::Invalid,
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
        GroupError::TooManyReferences { .. } => FULL,
    }
    FreeError {
        FreeError::Interrupted => INTERRUPTED,
        FreeError::NotAssigned { .. } => Code::NoSlot,
        FreeError::NotReady { .. } => Code::NotReady,
        FreeError::NotInUse { .. } => Code::Unused,
    }
    UsageError {
        UsageError::Interrupted => INTERRUPTED,
        UsageError::NoRecord { .. } | UsageError::TooMany => Code::Usage,
    }
    BuildError {
        BuildError::Refused(stencil::BuildError::NotEnoughSlots { .. }) => Code::TooLarge,
        BuildError::NoMemory { .. } => Code::System,
    }
    AllocError {
        AllocError::Interrupted => INTERRUPTED,
        AllocError::Expired { .. } => TIMEOUT,
        AllocError::WouldDeadlock => Code::WouldDeadlock,
        AllocError::Refused(Refused::TooManyWaiters { .. }) => FULL,
        AllocError::Refused(Refused::Failed { .. }) => Code::Abandoned,
        AllocError::Refused(Refused::Ended) => Code::Stale,
        AllocError::Refused(Refused::Refused(SubmitError::TooManyMembers { .. } | SubmitError::GroupTooLarge { .. })) => {
            Code::TooLarge
        },
        AllocError::Refused(Refused::Refused(SubmitError::UnknownData { .. } | SubmitError::UsageExhausted { .. })) => {
            Code::Usage
        },
        AllocError::Refused(Refused::Refused(SubmitError::LoadOfScratch { .. })) => Code::Invalid,
    }
}
