//! How messages get into a ring, and when receivers hear of them.

use umbra_core::stream::{Outlet, WriteError};
use umbra_core::time::Time;

use super::error::Error;
use super::send::Sender;
use crate::channel::Timeout;

impl<'a> Sender<'a> {
    /// Lets receivers hear of it.
    pub(super) fn deposit(&mut self) {
        self.plan.until = 0;
        if let Some(outlet) = &self.outlet {
            self.view.deposit(outlet, &self.watch);
        }
    }

    /// Lets receivers hear of it before this sender waits for what only they can give back.
    pub(super) fn deposit_before_waiting(&mut self) {
        if self.plan.until > 0 {
            self.deposit();
        }
    }

    /// Notes that a message was sent.
    pub(super) fn count(&mut self) {
        if self.plan.until > 0 {
            self.plan.until -= 1;
            if self.plan.until == 0 {
                self.deposit();
            }
        }
    }

    /// Tries until there is room, or the deadline, and tells the receiver.
    pub(super) fn put<T>(
        &mut self,
        deadline: Time,
        timeout: Timeout,
        mut attempt: impl FnMut(&mut Outlet<'a>) -> Result<T, WriteError>,
    ) -> Result<T, Error> {
        let mut done = self.outlet.as_mut().map_or(Err(WriteError::Damaged), &mut attempt);
        if matches!(done, Err(WriteError::Full)) {
            self.deposit_before_waiting();
            if let Some(outlet) = self.outlet.as_mut().filter(|_| timeout != Timeout::Now) {
                let (patience, _counted) = self.view.patience(self.plan.mode, deadline);
                done = outlet.wait(&self.watch, patience, attempt);
            }
        }
        if let (Ok(_), Some(outlet)) = (&done, &self.outlet) {
            outlet.tell(&self.watch);
        }
        done.map_err(|error| self.watch.late(error, timeout))
    }

    /// Sends a message, as long as the deadline allows. Of one that was begun the caller keeps the rest.
    pub(super) fn transmit(&mut self, bytes: &[u8], arg: u64, timeout: Timeout) -> Result<(), Error> {
        if let Some(uid) = self.plan.placed_in
            && !bytes.is_empty()
            && !self.plan.is_begun
        {
            return self.send_placed(bytes, arg, uid, timeout);
        }
        let deadline = timeout.deadline();
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = bytes.get(sent..).unwrap_or_default();
            match self.put(deadline, timeout, |outlet| outlet.write(rest, arg, false)) {
                Ok(written) => sent += written,
                Err(Error::Full | Error::Timeout) if sent > 0 => {
                    (self.plan.first, self.plan.is_begun) = (arg, true);
                    return Err(Error::Partly { sent, len: bytes.len() });
                }
                Err(error) => return Err(error),
            }
        }
        self.plan.is_begun = false;
        if !bytes.is_empty() {
            self.count();
        }
        Ok(())
    }
}
