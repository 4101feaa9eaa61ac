//! The groups of a whole run, in the order in which they are served.

use umbra_core::stencil::{Input, UsageError, count};

/// Groups of inputs, one after the other. Inputs are numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    members: Vec<u64>,
    ends: Vec<usize>,
}

impl Groups {
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

    /// One more than the largest member.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.members.iter().max().map_or(0, |&most| most as usize + 1)
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

    /// How many different members there are.
    #[must_use]
    pub fn different(&self) -> u64 {
        let mut seen = vec![false; self.inputs()];
        let first = |&&data: &&u64| !std::mem::replace(&mut seen[data as usize], true);
        self.members.iter().filter(first).count() as u64
    }

    /// The usage map, counted by a pass over all groups.
    ///
    /// # Errors
    /// [`UsageError`] if an input is used too often.
    pub fn usage(&self) -> Result<Vec<Input>, UsageError> {
        let mut inputs = vec![Input::NOT_USED; self.inputs()];
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
