//! Tasks: a count of what is still to be done, and a wait until nothing is.

use umbra_core::atomic::Ordering;

use super::Adapter;
use super::error::Error;
use super::layout::{State, View, Watch};
use crate::channel::{Timeout, WaitMode};
use crate::sys::futex::Futex;

impl Adapter {
    fn tasks(&self) -> Result<View<'_>, Error> {
        let view = self.view()?;
        if view.has_tasks() { Ok(view) } else { Err(Error::NoTasks) }
    }

    fn count_task(&self, change: impl Fn(u64) -> Option<u64>) -> Result<(), Error> {
        let view = self.tasks()?;
        let tasks = view.state(State::Tasks);
        tasks.fetch_update(Ordering::SeqCst, Ordering::Relaxed, change).map_err(|_| Error::TaskCount)?;
        view.event().notify(&Futex);
        Ok(())
    }

    /// Counts a task that is to be done.
    ///
    /// # Errors
    /// [`Error::NoTasks`] if the adapter was made without; [`Error::TaskCount`] beyond 2^64 - 1.
    pub fn new_task(&self) -> Result<(), Error> {
        self.count_task(|count| count.checked_add(1))
    }

    /// Counts a task as done. One whose process died is done by whoever does it instead.
    ///
    /// # Errors
    /// [`Error::NoTasks`]; [`Error::TaskCount`] if all were done.
    pub fn task_done(&self) -> Result<(), Error> {
        self.count_task(|count| count.checked_sub(1))
    }

    /// Waits until all tasks are done.
    ///
    /// # Errors
    /// [`Error::NoTasks`], [`Error::Timeout`], also for one try; [`Error::Destroyed`].
    pub fn join_tasks(&self, mode: WaitMode, timeout: Timeout) -> Result<(), Error> {
        let view = self.tasks()?;
        let look = || match view.state(State::Tasks).load(Ordering::Acquire) {
            _ if view.streams.table().is_destroyed() => Some(Err(Error::Destroyed)),
            0 => Some(Ok(())),
            _ => None,
        };
        Watch::new(view).wait_for(view.event(), (mode, timeout), Error::Timeout, look)
    }
}
