//! The fewest loads with which groups can be served in a given order.
//!
//! A group needs all of its inputs in slots at the same time; the next one comes when it is done. To keep an input from
//! one group until the next that uses it saves a load, and takes a slot from all groups in between. Of those that could be
//! kept, keeping the one that is over first is never wrong: had another one been kept instead, which is over later, the
//! two could be exchanged. So it is enough to look at inputs when they are used again, and to count those as kept for
//! which each group in between still has room. That saves as many loads as giving up what is used farthest ahead, but no
//! input of the group at hand (Belady's rule on the sequence in which each group comes twice: the second time nothing may
//! be missing), and nothing has to be known of what comes later.
//!
//! What is asked is always the least room from some group up to the present one. It only grows with that group, so its
//! steps are kept, and a search for the step at or before a group skips those that are gone.
//!
//! *Cost*: 4 bytes a possible input and 8 a group ([`bytes`]), however many references there are; a search a reference,
//! whose steps are amortised.
//!
//! Source: Jain and Lin, "Back to the future: leveraging Belady's algorithm for improved cache replacement", ISCA 2016.

use std::error;
use std::fmt;

use super::{Groups, Stop};
use crate::sys::heap::reserved;

/// Bytes of memory that it takes at most to find the fewest loads for these groups.
#[must_use]
pub fn bytes(groups: &Groups) -> u64 {
    let of_groups = groups.len().saturating_add(1).saturating_mul(size_of::<Step>());
    // Twice, for groups that are served together.
    of_groups.saturating_add(groups.inputs().saturating_mul(2 * size_of::<u32>())) as u64
}

/// The fewest loads for these groups with so many slots; `None` if a group has more inputs than there are slots, or
/// without memory to find them.
#[must_use]
pub fn loads(groups: &Groups, slots: usize) -> Option<u64> {
    loads_unless(groups, slots, &Stop::default())
}

/// As [`loads`]; also `None` soon after `stop` is set.
#[must_use]
pub fn loads_unless(groups: &Groups, slots: usize, stop: &Stop) -> Option<u64> {
    let mut fewest = Fewest::new(slots, groups.inputs(), groups.len()).ok()?;
    for group in groups.iter() {
        if stop.is_set() {
            return None;
        }
        fewest.serve(group).ok()?;
    }
    Some(fewest.loads())
}

/// As [`loads_unless`], if each group shares the slots with those behind it: so many hold their inputs at the same time, or as
/// many of them as there are slots for. That is what groups take of which so many are under way.
#[must_use]
pub fn loads_together(groups: &Groups, slots: usize, together: usize, stop: &Stop) -> Option<u64> {
    let mut fewest = Fewest::new(slots, groups.inputs(), groups.len()).ok()?;
    // Of each input, the number of the last group that it was counted for, from 1 on.
    let mut counted = reserved(groups.inputs(), || 0_u32).ok()?;
    let mut members = Vec::new();
    for (number, first) in (1..).zip(0..groups.len()) {
        if stop.is_set() {
            return None;
        }
        members.clear();
        for at in first..groups.len().min(first.saturating_add(together.max(1))) {
            let before = members.len();
            let new = |&data: &u64| std::mem::replace(&mut counted[data as usize], number) != number;
            members.extend(groups.get(at).iter().copied().filter(new));
            if at > first && members.len() > slots {
                members.truncate(before);
                break;
            }
        }
        fewest.serve(&members).ok()?;
    }
    Some(fewest.loads())
}

/// Why the fewest loads are not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FewestError {
    /// A group has more different inputs than there are slots; more slots help.
    GroupTooLarge {
        /// Its number.
        group: u32,
        /// Its inputs.
        need: usize,
        /// The slots.
        have: usize,
    },
    /// A group has an input that was not announced.
    UnknownInput {
        /// Its number.
        group: u32,
        /// The input.
        data: u64,
        /// How many were announced.
        inputs: usize,
    },
    /// There are more groups than were announced, or than can be counted.
    TooManyGroups {
        /// How many there may be.
        most: usize,
    },
    /// There is not so much memory.
    NoMemory {
        /// What it takes.
        bytes: usize,
    },
}

impl fmt::Display for FewestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GroupTooLarge { group, need, have } => {
                write!(f, "group {group} has {need} inputs, and there are {have} slots; take more slots")
            }
            Self::UnknownInput { group, data, inputs } => {
                write!(f, "group {group} has input {data}, and {inputs} were announced; announce all of them")
            }
            Self::TooManyGroups { most } => write!(f, "there may be {most} groups; announce all of them"),
            Self::NoMemory { bytes } => write!(f, "the fewest loads take {bytes} bytes of memory to find; free some"),
        }
    }
}
impl error::Error for FewestError {}

/// What the groups up to one have in common: the least room of all from there up to the present.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// How much more that is than one group earlier.
    rise: u32,
    /// This group, or if there is no rise, one no later than the last that has one.
    before: u32,
}

/// Counts the fewest loads while groups come one by one, without a list of them.
///
/// ```
/// use umbra::stencil::optimum::Fewest;
///
/// // Two slots for a row of five points, each of which needs its neighbour too.
/// let mut fewest = Fewest::new(2, 6, 5)?;
/// for point in 0..5 {
///     fewest.serve(&[point, point + 1])?;
/// }
/// assert_eq!(fewest.loads(), 6);
/// # Ok::<(), umbra::stencil::optimum::FewestError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fewest {
    slots: u32,
    /// The last group that used each input; 0 if none did.
    last: Vec<u32>,
    /// Of each group, from 1 on.
    steps: Vec<Step>,
    /// Groups that were served.
    served: u32,
    /// The room that the present group has: all rises together.
    room: u32,
    loads: u64,
}

impl Fewest {
    /// With so many slots; for inputs and groups up to these numbers.
    ///
    /// # Errors
    /// [`FewestError::NoMemory`], and [`FewestError::TooManyGroups`] if they can't be counted.
    pub fn new(slots: usize, inputs: usize, groups: usize) -> Result<Self, FewestError> {
        let most = u32::MAX as usize - 1;
        if groups > most {
            return Err(FewestError::TooManyGroups { most });
        }
        let no_memory = |bytes| FewestError::NoMemory { bytes };
        let last = reserved(inputs, || 0).map_err(|error| no_memory(error.bytes))?;
        let steps = reserved(groups + 1, || Step { rise: 0, before: 0 }).map_err(|error| no_memory(error.bytes))?;
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        Ok(Fewest { slots, last, steps, served: 0, room: 0, loads: 0 })
    }

    /// The next group, of which nothing is counted if it is refused.
    ///
    /// # Errors
    /// All but [`FewestError::NoMemory`].
    pub fn serve(&mut self, group: &[u64]) -> Result<(), FewestError> {
        self.check(group)?;
        self.served += 1;
        let (present, mut inputs) = (self.served, 0);
        for &data in group {
            let last = std::mem::replace(&mut self.last[data as usize], present);
            if last == present {
                continue;
            }
            inputs += 1;
            // From one group to the very next nothing is taken from anybody.
            if last == 0 || last + 1 < present && !self.keep(last) {
                self.loads += 1;
            }
        }
        self.end(self.slots - inputs);
        Ok(())
    }

    /// The fewest loads for all groups up to here.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.loads
    }

    fn check(&self, group: &[u64]) -> Result<(), FewestError> {
        let (number, have, inputs) = (self.served, self.slots as usize, self.last.len());
        if number as usize + 1 >= self.steps.len() {
            return Err(FewestError::TooManyGroups { most: self.steps.len() - 1 });
        }
        if let Some(&data) = group.iter().find(|&&data| data >= inputs as u64) {
            return Err(FewestError::UnknownInput { group: number, data, inputs });
        }
        if group.len() > have {
            let mut different = group.to_vec();
            different.sort_unstable();
            different.dedup();
            let need = different.len();
            if need > have {
                return Err(FewestError::GroupTooLarge { group: number, need, have });
            }
        }
        Ok(())
    }

    /// The last group up to this one that has a rise; 0 if none has.
    #[inline]
    fn rising(&mut self, mut group: u32) -> u32 {
        loop {
            let before = self.steps[group as usize].before;
            if before == group {
                return group;
            }
            let skip = self.steps[before as usize].before;
            self.steps[group as usize].before = skip;
            group = skip;
        }
    }

    /// Keeps an input from this group on to the present one, if all groups in between have room for it.
    #[inline]
    fn keep(&mut self, last: u32) -> bool {
        let rising = self.rising(last + 1);
        if rising != 0 {
            self.lower(rising, 1);
        }
        rising != 0
    }

    #[inline]
    fn lower(&mut self, group: u32, by: u32) {
        let step = &mut self.steps[group as usize];
        step.rise -= by;
        if step.rise == 0 {
            step.before = group - 1;
        }
        self.room -= by;
    }

    /// The present group is over: it has so much room for what is kept beside its own inputs.
    #[inline]
    fn end(&mut self, room: u32) {
        let present = self.served;
        let before = if room > self.room { present } else { present - 1 };
        self.steps[present as usize] = Step { rise: room.saturating_sub(self.room), before };
        // All rises together are the room, so there is one as long as there is too much.
        while self.room > room {
            let rising = self.rising(present - 1);
            self.lower(rising, self.steps[rising as usize].rise.min(self.room - room));
        }
        self.room = room;
    }
}

#[cfg(test)]
mod tests;
