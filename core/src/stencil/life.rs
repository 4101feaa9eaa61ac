//! How a stencil cache is interrupted, and made ready again.

use super::complete::Action;
use super::future::Future;
use super::group::{Group, Stage};
use super::input::Names;
use super::machine::Stencil;
use super::storage::Lent;
use crate::cache::slot::{ABANDONED, NIL, TOLD};
use crate::cache::{Interrupted, ResetError};

impl<L: Lent, N: Names, F: Future> Stencil<L, N, F> {
    /// From now on every operation fails with `Interrupted` and has no effect, and nothing more is asked for. Each
    /// group whose client was told nothing yet is answered by [`Action::Interrupted`]. A second interrupt changes
    /// nothing.
    pub fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Whether the cache was interrupted.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    pub(super) fn poll_interrupted(&mut self) -> Option<Action> {
        let groups = self.groups.as_ref();
        while let Some(&Group { stage, point, .. }) = groups.get(self.told as usize) {
            self.told += 1;
            if !matches!(stage, Stage::Free | Stage::Delivered | Stage::Ending) {
                return Some(Action::Interrupted { point });
            }
        }
        None
    }

    /// Slots that somebody was told to fill and may still be writing to, with their data; O(slots). Their memory must
    /// not be given to anybody else, not even after an interrupt.
    pub fn outstanding_fills(&self) -> impl Iterator<Item = (u32, u64)> {
        let filling = self.pool.all().filter(|(_, slot)| slot.is_filling() && slot.is(TOLD));
        filling.map(|(slot, record)| (self.pool.outer(slot), record.data))
    }

    /// Tells an interrupted cache that nobody writes to this slot any more; whether it was an outstanding fill.
    pub fn settle(&mut self, slot: u32) -> bool {
        let Some(slot) = self.pool.inner(slot).filter(|_| self.interrupted) else { return false };
        let filling = self.pool.at(slot).is_filling() && self.pool.at(slot).is(TOLD);
        self.pool.at_mut(slot).set(ABANDONED);
        filling
    }

    /// Makes an interrupted cache ready again, and empty. The usage map stays, and the uses of each group that was neither
    /// freed nor handed over are back in it, as those of a group that failed are: it may be submitted again. This also holds
    /// for a group whose client was told that it is ready.
    ///
    /// # Errors
    /// [`ResetError`] if it was not interrupted, or if slots are still being filled.
    pub fn reset(&mut self) -> Result<(), ResetError> {
        if !self.interrupted {
            return Err(ResetError::NotInterrupted);
        }
        if let Some((slot, data)) = self.outstanding_fills().next() {
            return Err(ResetError::Filling { slot, data });
        }
        self.unclaim_all();
        self.clear();
        Ok(())
    }

    /// Gives back the uses of all groups that have not ended; a group that failed gave back its own.
    fn unclaim_all(&mut self) {
        let inputs = self.inputs.as_mut();
        for (index, group) in (0..).zip(self.groups.as_ref()) {
            if matches!(group.stage, Stage::Free | Stage::Failed | Stage::Ending) {
                continue;
            }
            let first = (index * self.stride) as usize;
            for reference in &self.references.as_ref()[first..][..group.members as usize] {
                inputs[reference.input as usize].unclaim();
            }
        }
    }

    /// Slots that are assigned, with or without references.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn len(&self) -> Result<u32, Interrupted> {
        self.working().map(|()| self.pool.assigned())
    }

    /// Whether no slot is assigned.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn is_empty(&self) -> Result<bool, Interrupted> {
        Ok(self.len()? == 0)
    }

    /// Groups that were submitted and have not ended, also those without a slot; O(groups).
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.groups.as_ref().iter().filter(|group| group.stage != Stage::Free).count()
    }

    /// Whether an input has a slot, with its content or on the way to it.
    #[must_use]
    pub fn has_slot(&self, data: u64) -> bool {
        let input = self.names.number(data).and_then(|number| self.inputs.as_ref().get(number as usize));
        input.is_some_and(|input| input.slot != NIL)
    }

    /// Slots whose content nobody holds; O(members) after a group was freed, until the next one comes.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn idle(&self) -> Result<u32, Interrupted> {
        self.working().map(|()| self.pool.idle() + self.kept_idle())
    }
}
