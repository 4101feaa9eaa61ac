//! The end of the rings that has the cache.

use std::collections::VecDeque;
use std::time::Duration;

use umbra_core::ring::spsc::{Receiver, Sender};
use umbra_core::stencil::{Action, Future, Lent, Names, PreparedError, Stencil, SubmitError};

use super::super::groups::Groups;
use super::error::ServeError;
use super::{Ends, News, Submission, Wait};

/// The end that has the cache.
pub struct Owner<'a, L: Lent, N: Names, F: Future> {
    pub(super) stencil: &'a mut Stencil<L, N, F>,
    pub(super) groups: &'a Groups,
    pub(super) submissions: Receiver<'a, Submission>,
    pub(super) completions: Sender<'a, News>,
    /// Groups that wait for a record: one that failed keeps its own until its other loads have ended.
    pub(super) held: VecDeque<u64>,
    /// What is still to be sent: one action with its slots, and a refusal for each group at most.
    pub(super) staged: Vec<News>,
    pub(super) sent: usize,
    pub(super) ends: &'a Ends,
}

impl<L: Lent, N: Names, F: Future> Owner<'_, L, N, F> {
    /// Serves the client until it ends, also after an interrupt.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn serve(&mut self, patience: Duration) -> Result<(), ServeError> {
        let mut wait = Wait::new(patience);
        loop {
            // What the client sent before it ended is in the ring by now.
            let gone = Ends::is_gone(&self.ends.client);
            if self.turn()? {
                wait = Wait::new(patience);
                continue;
            }
            let groups = self.stencil.under_way() + self.held.len();
            if gone {
                // All groups of an interrupted cache were answered; loads may go on.
                let loading = self.stencil.outstanding_fills().next().is_some();
                let over = groups == 0 || self.stencil.is_interrupted() && !loading;
                return if over { Ok(()) } else { Err(ServeError::Left { groups }) };
            }
            if !wait.again() {
                return Err(ServeError::Expired { within: patience, groups });
            }
        }
    }

    /// Takes what the client has sent and sends what the cache says, as far as it fits; whether there was anything to
    /// do. For owners that do other things as well.
    ///
    /// # Errors
    /// [`ServeError`] if an answer of the client is wrong.
    pub fn turn(&mut self) -> Result<bool, ServeError> {
        let mut did = false;
        // The ring holds no more; what comes meanwhile is for the next turn.
        for _ in 0..self.completions.capacity() {
            let Some(submission) = self.submissions.pop() else { break };
            did = true;
            match submission {
                Submission::Submit(number) => {
                    self.held.push_back(number);
                    self.admit();
                }
                Submission::Interrupt => self.interrupt(),
                Submission::Prepared(data) | Submission::Failed(data) if self.stencil.is_interrupted() => {
                    self.settle(data)?;
                }
                Submission::Prepared(data) => self.stencil.prepared(data)?,
                Submission::Failed(data) => self.stencil.failed(data)?,
                // There is nothing left to give back.
                Submission::Free(_) if self.stencil.is_interrupted() => {}
                Submission::Free(group) => self.stencil.free_group(group)?,
            }
        }
        loop {
            let sent = self.completions.push_all(&self.staged[self.sent..]);
            self.sent += sent;
            did |= sent > 0;
            if self.sent < self.staged.len() {
                return Ok(did);
            }
            self.staged.clear();
            self.sent = 0;
            self.admit();
            let action = self.stencil.poll();
            if action.is_none() && self.staged.is_empty() {
                return Ok(did);
            }
            let Some(action) = action else { continue };
            match action {
                Action::Prepare { slot, data } => self.staged.push(News::Prepare { slot, data }),
                Action::Ready { point: number, group } => {
                    let members = self.groups.get(number as usize).len() as u32;
                    self.staged.push(News::Ready { number, group, members });
                    self.staged.extend(self.stencil.slots(group)?.map(News::Slot));
                }
                Action::Failed { point: number, data } => self.staged.push(News::Failed { number, data }),
                Action::Interrupted { point: number } => self.staged.push(News::Interrupted { number }),
            }
        }
    }

    /// As [`Client::interrupt`](super::Client::interrupt).
    pub fn interrupt(&mut self) {
        self.stencil.interrupt();
        let held = self.held.drain(..);
        self.staged.extend(held.map(|number| News::Interrupted { number }));
    }

    /// An interrupted cache is told that nobody loads this input any more.
    fn settle(&mut self, data: u64) -> Result<(), PreparedError> {
        let fill = self.stencil.outstanding_fills().find(|&(_, loading)| loading == data);
        let (slot, _) = fill.ok_or(PreparedError::NotFilling { data })?;
        self.stencil.settle(slot);
        Ok(())
    }

    /// Submits the groups that there are records for.
    fn admit(&mut self) {
        while let Some(&number) = self.held.front() {
            match self.stencil.submit(number, self.groups.get(number as usize)) {
                Ok(_) => {}
                Err(SubmitError::GroupsFull { .. }) => break,
                Err(error) => self.staged.push(News::Refused { number, error }),
            }
            self.held.pop_front();
        }
    }

    /// The cache, to look at.
    #[must_use]
    pub fn stencil(&self) -> &Stencil<L, N, F> {
        self.stencil
    }
}

impl<L: Lent, N: Names, F: Future> Drop for Owner<'_, L, N, F> {
    fn drop(&mut self) {
        Ends::leave(&self.ends.owner);
    }
}
