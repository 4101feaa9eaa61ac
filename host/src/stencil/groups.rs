//! The groups of a whole run, in the order in which they are served.

use umbra_core::stencil::{Input, count};

use super::error::BuildError;
use crate::sys::heap::reserved;

/// Groups of inputs, one after the other. Inputs are numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    members: Vec<u64>,
    ends: Vec<usize>,
}

impl Groups {
    /// Bytes of memory for each group, beside its members.
    pub const BYTES_OF_GROUP: usize = size_of::<usize>();
    /// Bytes of memory for each member of a group.
    pub const BYTES_OF_MEMBER: usize = size_of::<u64>();

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Members of all groups together.
    #[must_use]
    pub fn references(&self) -> usize {
        self.members.len()
    }

    /// The members of one group.
    ///
    /// # Panics
    /// Without such a group.
    #[must_use]
    pub fn get(&self, at: usize) -> &[u64] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.members[start..self.ends[at]]
    }

    /// All groups in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u64]> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// One more than the largest member, as far as that can be counted: no memory holds records for so many.
    #[must_use]
    pub fn inputs(&self) -> usize {
        let after = |most: u64| usize::try_from(most).map_or(usize::MAX, |most| most.saturating_add(1));
        self.members.iter().copied().max().map_or(0, after)
    }

    /// Members of the largest group.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.iter().map(<[u64]>::len).max().unwrap_or(0)
    }

    /// Adds a group at the end.
    pub fn push(&mut self, members: impl IntoIterator<Item = u64>) {
        self.members.extend(members);
        self.ends.push(self.members.len());
    }

    /// Makes room for more groups, with so many members together.
    ///
    /// # Errors
    /// [`BuildError::NoMemory`].
    pub fn try_reserve(&mut self, groups: usize, members: usize) -> Result<(), BuildError> {
        let (ends, all) = (groups.saturating_mul(Self::BYTES_OF_GROUP), members.saturating_mul(Self::BYTES_OF_MEMBER));
        let reserved = self.ends.try_reserve(groups).and_then(|()| self.members.try_reserve(members));
        reserved.map_err(|_| BuildError::NoMemory { bytes: ends.saturating_add(all) })
    }

    /// How many different members there are; a byte for each possible one.
    ///
    /// # Errors
    /// [`BuildError::NoMemory`].
    pub fn different(&self) -> Result<u64, BuildError> {
        let mut seen = reserved(self.inputs(), || false)?;
        let first = |&&data: &&u64| !std::mem::replace(&mut seen[data as usize], true);
        Ok(self.members.iter().filter(first).count() as u64)
    }

    /// The usage map, counted by a pass over all groups.
    ///
    /// # Errors
    /// [`BuildError::Usage`] if an input is used too often, [`BuildError::NoMemory`] for as many records as there are inputs.
    pub fn usage(&self) -> Result<Vec<Input>, BuildError> {
        let mut inputs = reserved(self.inputs(), || Input::NOT_USED)?;
        self.iter().try_for_each(|group| count(&mut inputs, group))?;
        Ok(inputs)
    }
}

impl<G: IntoIterator<Item = u64>> FromIterator<G> for Groups {
    fn from_iter<I: IntoIterator<Item = G>>(groups: I) -> Self {
        let mut all = Groups::default();
        groups.into_iter().for_each(|group| all.push(group));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Known, optimum};
    use super::*;

    #[test]
    fn members_beyond_all_memory_are_refused() {
        for most in [u64::MAX, u64::MAX - 1, 1 << 62] {
            let groups: Groups = [[0, most]].into_iter().collect();
            assert_eq!(groups.inputs() as u64, most.saturating_add(1));
            let refused = |error: BuildError| assert!(matches!(error, BuildError::NoMemory { .. }), "{error}");
            refused(groups.different().unwrap_err());
            refused(groups.usage().map(drop).unwrap_err());
            refused(Known::new(&groups).map(drop).unwrap_err());
            assert_eq!(optimum::loads(&groups, 2), None);
        }
        let mut groups = Groups::default();
        assert!(groups.try_reserve(1, usize::MAX).is_err() && groups.is_empty());
    }
}
