//! The end of the rings that submits groups, loads and computes.

use std::time::Duration;

use umbra_core::error::Full;
use umbra_core::id::Id;
use umbra_core::ring::spsc::{Receiver, Sender};
use umbra_core::stencil::{Group, SubmitError};

use super::super::groups::Groups;
use super::error::ClientError;
use super::{Ends, News, Submission, Wait};

/// What the cache says to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Completion<'a> {
    /// Load an input into a slot, then say [`Client::prepared`] or [`Client::failed`].
    Prepare {
        /// The slot.
        slot: u32,
        /// The input.
        data: u64,
    },
    /// All inputs of a group are in their slots: compute, then [`Client::free_group`].
    Ready {
        /// The number that the group was submitted with.
        number: u64,
        /// The group.
        group: Id<Group>,
        /// Its slots, in the order of its members.
        slots: &'a [u32],
    },
    /// The group has ended: an input could not be loaded. It may be submitted again.
    Failed {
        /// The number that the group was submitted with.
        number: u64,
        /// The input.
        data: u64,
    },
    /// The group has ended: the cache was interrupted. A group that was told to be ready isn't told of it.
    Interrupted {
        /// The number that the group was submitted with.
        number: u64,
    },
    /// The cache did not accept the group.
    Refused {
        /// The number that the group was submitted with.
        number: u64,
        /// Why.
        error: SubmitError,
    },
}

/// The end that submits groups, loads and computes.
#[derive(Debug)]
pub struct Client<'a> {
    pub(super) submissions: Sender<'a, Submission>,
    pub(super) completions: Receiver<'a, News>,
    /// A group whose slots are on their way: its number, its id, and how many slots there will be.
    pub(super) coming: Option<(u64, Id<Group>, u32)>,
    pub(super) slots: Vec<u32>,
    /// Groups that were submitted and have not ended.
    pub(super) open: usize,
    pub(super) window: usize,
    pub(super) groups: &'a Groups,
    pub(super) ends: &'a Ends,
}

impl Client<'_> {
    /// Whether one more group may be submitted now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.open < self.window
    }

    /// Submits a group of the list; they get their slots in this order.
    ///
    /// # Errors
    /// [`ClientError`]; the group is not submitted then.
    pub fn submit(&mut self, number: u64, within: Duration) -> Result<(), ClientError> {
        if number >= self.groups.len() as u64 {
            return Err(ClientError::NoGroup { number, have: self.groups.len() });
        }
        if !self.has_room() {
            return Err(ClientError::GroupsFull { groups: self.window });
        }
        self.send(Submission::Submit(number), within)?;
        self.open += 1;
        Ok(())
    }

    /// The input was loaded.
    ///
    /// # Errors
    /// [`ClientError`]; nothing was said then.
    pub fn prepared(&mut self, data: u64, within: Duration) -> Result<(), ClientError> {
        self.send(Submission::Prepared(data), within)
    }

    /// The input could not be loaded: groups that wait for it end.
    ///
    /// # Errors
    /// [`ClientError`]; nothing was said then.
    pub fn failed(&mut self, data: u64, within: Duration) -> Result<(), ClientError> {
        self.send(Submission::Failed(data), within)
    }

    /// The group is done with: nobody reads its slots any more.
    ///
    /// # Errors
    /// [`ClientError`]; the group is still there then.
    pub fn free_group(&mut self, group: Id<Group>, within: Duration) -> Result<(), ClientError> {
        self.send(Submission::Free(group), within)?;
        self.open = self.open.saturating_sub(1);
        Ok(())
    }

    /// From now on groups are refused, and no load is asked for. Each group that has not ended and was not ready is told of as
    /// interrupted. Those that were ready are to be freed, and loads that go on to be answered all the same: then the cache can
    /// be [reset](umbra_core::stencil::Stencil::reset). A second interrupt changes nothing.
    ///
    /// # Errors
    /// [`ClientError`]; nothing was said then.
    pub fn interrupt(&mut self, within: Duration) -> Result<(), ClientError> {
        self.send(Submission::Interrupt, within)
    }

    /// What the cache says next.
    ///
    /// # Errors
    /// [`ClientError`]; nothing is lost if time was too short.
    pub fn next(&mut self, within: Duration) -> Result<Completion<'_>, ClientError> {
        loop {
            if let Some((number, group, members)) = self.coming
                && self.slots.len() == members as usize
            {
                self.coming = None;
                return Ok(Completion::Ready { number, group, slots: &self.slots });
            }
            let completion = match self.receive(within)? {
                News::Ready { number, group, members } => {
                    self.slots.clear();
                    self.coming = Some((number, group, members));
                    continue;
                }
                News::Slot(slot) => {
                    self.slots.push(slot);
                    continue;
                }
                News::Prepare { slot, data } => return Ok(Completion::Prepare { slot, data }),
                News::Failed { number, data } => Completion::Failed { number, data },
                News::Interrupted { number } => Completion::Interrupted { number },
                News::Refused { number, error } => Completion::Refused { number, error },
            };
            self.open = self.open.saturating_sub(1);
            return Ok(completion);
        }
    }

    fn send(&mut self, submission: Submission, within: Duration) -> Result<(), ClientError> {
        let mut wait = Wait::new(within);
        loop {
            if Ends::is_gone(&self.ends.owner) {
                return Err(ClientError::Gone);
            }
            match self.submissions.push(submission) {
                Ok(()) => return Ok(()),
                Err(Full(_)) if wait.again() => {}
                Err(Full(_)) => return Err(ClientError::Expired { within }),
            }
        }
    }

    fn receive(&mut self, within: Duration) -> Result<News, ClientError> {
        let mut wait = Wait::new(within);
        loop {
            let gone = Ends::is_gone(&self.ends.owner);
            match self.completions.pop() {
                Some(news) => return Ok(news),
                None if gone => return Err(ClientError::Gone),
                None if wait.again() => {}
                None => return Err(ClientError::Expired { within }),
            }
        }
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        Ends::leave(&self.ends.client);
    }
}
