//! Groups over a cache that knows nothing of the future.
//!
//! They show what the common policies do with a stencil. A group takes its slots one by one, in its turn, and holds
//! them until it is freed; only the oldest that lacks some may hold any without having all, so that nothing can
//! deadlock.

use std::collections::VecDeque;

use umbra_core::cache::policy::Policy;
use umbra_core::cache::{Cache as SlotCache, Dense, Found, Slot, State, Statistics};
use umbra_core::stencil::{self, GroupError, PreparedError, SubmitError};

use super::cache::{Cache, Next};
use super::error::BuildError;
use crate::sys::heap::reserved;

/// A cache of groups with any policy.
#[derive(Debug)]
pub struct Plain<P> {
    cache: SlotCache<Vec<Slot>, Dense<Vec<u32>>, P>,
    /// Inputs that there are, from 0 on.
    inputs: u64,
    groups: VecDeque<Group>,
    /// The name of the first group in the line. Names go on from run to run, while each run numbers its groups from 0.
    first: u64,
    /// Groups that may have all their slots at the same time, those that do, and how many of the line they are.
    limit: usize,
    active: usize,
    begun: usize,
    to_do: VecDeque<Next<u64>>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    /// What the caller calls it.
    number: u64,
    members: Vec<u64>,
    /// The slot of each member that has one.
    slots: Vec<Option<u32>>,
    /// Members whose content is awaited.
    awaited: Vec<u64>,
    ended: bool,
}

impl<P: Policy> Plain<P> {
    /// An empty cache with so many slots for inputs below `inputs`; `active` groups have their slots at the same time.
    ///
    /// # Errors
    /// [`BuildError`] without slots, groups or memory.
    pub fn new(slots: u32, inputs: usize, policy: P, active: usize) -> Result<Self, BuildError> {
        if active == 0 {
            return Err(stencil::BuildError::NoGroups.into());
        }
        let records = reserved(slots as usize, || Slot::EMPTY)?;
        let index = Dense::new(reserved(inputs, || 0)?);
        let cache = SlotCache::new(records, index, policy, 0..slots).map_err(stencil::BuildError::from)?;
        let (groups, to_do, inputs) = (VecDeque::new(), VecDeque::new(), inputs as u64);
        Ok(Plain { cache, inputs, groups, first: 0, limit: active, active: 0, begun: 0, to_do })
    }

    fn at(&self, group: u64) -> Option<usize> {
        let at = usize::try_from(group.checked_sub(self.first)?).ok()?;
        (at < self.begun && !self.groups[at].ended).then_some(at)
    }

    /// Gives slots to the group whose turn it is, and to the next ones, as far as there are slots.
    fn pump(&mut self) {
        while self.active < self.limit {
            let Some(group) = self.groups.get_mut(self.begun) else { return };
            // What has a slot is held first: nothing that the group needs leaves for another of its inputs.
            for resident in [true, false] {
                for (slot, &data) in group.slots.iter_mut().zip(&group.members) {
                    let has_slot = || self.cache.state(data).is_ok_and(|state| state.is_some());
                    if slot.is_some() || resident && !has_slot() {
                        continue;
                    }
                    // All slots are in use: a group that is freed goes on here.
                    let Ok(grant) = self.cache.alloc(data) else { return };
                    *slot = Some(grant.slot);
                    match grant.found {
                        Found::Remembered => continue,
                        Found::Assigned => {}
                        Found::Empty => self.to_do.push_back(Next::Prepare { slot: grant.slot, data }),
                    }
                    group.awaited.push(data);
                }
            }
            if group.awaited.is_empty() {
                let name = self.first + self.begun as u64;
                self.to_do.push_back(Next::Ready { number: group.number, group: name });
            }
            self.begun += 1;
            self.active += 1;
        }
    }
}

impl<P: Policy> Cache for Plain<P> {
    type Group = u64;

    fn submit(&mut self, number: u64, members: &[u64]) -> Result<(), SubmitError> {
        // Groups that wait in line would tell the policy nothing.
        if self.groups.len() > self.limit {
            return Err(SubmitError::GroupsFull { groups: self.limit });
        }
        // The cache would refuse it each time that it is asked for, and no group would get its turn any more.
        if let Some(&data) = members.iter().find(|&&data| data >= self.inputs) {
            return Err(SubmitError::UnknownData { data });
        }
        let mut different = members.to_vec();
        different.sort_unstable();
        different.dedup();
        let (need, have) = (different.len() as u32, self.cache.capacity());
        if need > have {
            return Err(SubmitError::GroupTooLarge { need, have });
        }
        let slots = vec![None; members.len()];
        self.groups.push_back(Group { number, members: members.to_vec(), slots, ..Group::default() });
        self.pump();
        Ok(())
    }

    fn poll(&mut self) -> Option<Next<u64>> {
        self.to_do.pop_front()
    }

    fn prepared(&mut self, data: u64) -> Result<(), PreparedError> {
        if self.cache.state(data) != Ok(Some(State::Filling)) {
            return Err(PreparedError::NotFilling { data });
        }
        self.cache.remember(data).map_err(|_| PreparedError::NotFilling { data })?;
        for (at, group) in self.groups.iter_mut().enumerate().take(self.begun + 1) {
            let before = group.awaited.len();
            group.awaited.retain(|&awaited| awaited != data);
            if group.awaited.is_empty() && before > 0 && at < self.begun {
                let name = self.first + at as u64;
                self.to_do.push_back(Next::Ready { number: group.number, group: name });
            }
        }
        Ok(())
    }

    fn slots(&self, group: u64, tell: &mut dyn FnMut(u32)) -> Result<(), GroupError> {
        let at = self.at(group).ok_or(GroupError::Stale {})?;
        self.groups[at].slots.iter().copied().flatten().for_each(tell);
        Ok(())
    }

    fn free_group(&mut self, group: u64) -> Result<(), GroupError> {
        let at = self.at(group).ok_or(GroupError::Stale {})?;
        if !self.groups[at].awaited.is_empty() {
            return Err(GroupError::NotReady {});
        }
        for &data in &self.groups[at].members {
            self.cache.free(data).map_err(|_| GroupError::NotReady {})?;
        }
        self.groups[at].ended = true;
        self.active -= 1;
        while self.groups.front().is_some_and(|group| group.ended) {
            self.groups.pop_front();
            self.first += 1;
            self.begun -= 1;
        }
        self.pump();
        Ok(())
    }

    fn has_slot(&self, data: u64) -> bool {
        self.cache.state(data).is_ok_and(|state| state.is_some())
    }

    fn statistics(&self) -> Statistics {
        self.cache.statistics()
    }

    fn occupied(&self) -> (u32, u32) {
        (self.cache.len().unwrap_or(0), self.cache.idle().unwrap_or(0))
    }

    fn under_way(&self) -> usize {
        self.groups.iter().filter(|group| !group.ended).count()
    }
}
