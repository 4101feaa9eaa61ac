//! The queue pair to one owner of registered memory, and what was posted there.

use std::collections::VecDeque;

use umbra_core::error::Status;
use umbra_core::key::Access;

use crate::verbs::{self, Queue, Region, Remote, VerbsError, Work};

/// A piece of work, by the name that its user gave it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) name: u64,
    pub(super) way: Access,
    pub(super) remote: Remote,
    pub(super) landing: usize,
    pub(super) len: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The owner was or will be told our address.
    Greeting,
    Up,
    /// Why it cannot be used.
    Broken(Status),
}

/// What was posted for one owner and has not ended.
#[derive(Debug)]
pub(super) struct Orders {
    /// Posted before the queue pair was connected.
    pub(super) waiting: VecDeque<Order>,
    /// Names of what the card works on, in the order in which it ends.
    pub(super) under_way: VecDeque<u64>,
}

impl Orders {
    /// Ends all of it. With its end a place of the landing area goes to somebody else, so the card must be done with it.
    pub(super) fn end(&mut self, status: Status, ended: &mut VecDeque<(u64, Status)>) {
        let names = self.under_way.drain(..).chain(self.waiting.drain(..).map(|order| order.name));
        ended.extend(names.map(|name| (name, status)));
    }
}

/// The queue pair to one owner.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) queue: Queue,
    pub(super) state: State,
    pub(super) orders: Orders,
    /// It rings the bell for the next completion.
    pub(super) armed: bool,
}

impl Line {
    pub(super) fn post(&mut self, landing: &Region, order: Order) -> Result<(), Status> {
        let Order { name, way, remote, landing: offset, len } = order;
        let piece = verbs::Piece { region: landing, offset, len };
        let work = match way {
            Access::WRITE => Work::Write { from: piece, to: remote, immediate: None },
            _ => Work::Read { from: remote, to: piece },
        };
        match self.queue.post(&[(name, work)]) {
            Ok(()) => {
                self.orders.under_way.push_back(name);
                Ok(())
            }
            Err(VerbsError::OutOfBounds { .. }) => Err(Status::OutOfBounds),
            Err(VerbsError::Call { .. }) => {
                // The driver refused, and nobody else will tell that the queue is of no use any more.
                self.state = State::Broken(Status::QueueBroken);
                Err(Status::CopyFailed)
            }
            Err(_) => Err(Status::QueueBroken),
        }
    }

    /// Makes the queue pair ready to be connected anew; what the card worked on ends, what waits goes on waiting.
    ///
    /// # Errors
    /// [`VerbsError::Call`]: the card may go on until the queue pair is destroyed, and nothing has ended.
    pub(super) fn start_over(&mut self, ended: &mut VecDeque<(u64, Status)>) -> Result<(), VerbsError> {
        self.queue.reset()?;
        ended.extend(self.orders.under_way.drain(..).map(|name| (name, Status::QueueBroken)));
        (self.state, self.armed) = (State::Greeting, false);
        Ok(())
    }
}
