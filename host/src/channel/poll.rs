//! Waiting and asking for a state of a channel, by the numbers of the C interface.

use umbra_core::channel::Queue;

use super::error::Error;
use super::layout::Pocket;
use super::wait::{Timeout, WaitMode, Watch};
use super::{Channel, Kind};

/// What can be polled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Event {
    /// A message waits.
    In = 1,
    /// There is room.
    Out = 2,
    /// Either.
    InOut = 3,
    /// No message waits.
    Empty = 4,
    /// There is no room.
    Full = 5,
    /// How many messages wait.
    Size = 6,
    /// Removes all messages, also those that parties of the barrier did not receive yet, and makes the barrier whole.
    Reset = 7,
    /// How many messages there can be.
    Capacity = 8,
    /// Counts a party in at the barrier, the [first of two steps](super::Barrier::count_in): 1 for the last one, who has to
    /// release it, or else 0.
    BarrierWait = 9,
    /// Breaks the barrier.
    BarrierAbort = 10,
    /// Releases the parties of the barrier, the [second step](super::Barrier::release).
    BarrierRelease = 11,
    /// Whether the barrier is broken.
    BarrierIsBroken = 12,
    /// How many wait at the barrier.
    BarrierWaiters = 13,
    /// How many receives wait.
    BlockedReceivers = 14,
    /// Takes one from the semaphore.
    SemaphoreAcquire = 15,
    /// Gives one to the semaphore.
    SemaphoreRelease = 16,
    /// Waits for zero.
    SemaphoreZero = 17,
    /// The count of the semaphore.
    SemaphoreCount = 18,
}

impl Event {
    const ALL: [Event; 18] = [
        Event::In,
        Event::Out,
        Event::InOut,
        Event::Empty,
        Event::Full,
        Event::Size,
        Event::Reset,
        Event::Capacity,
        Event::BarrierWait,
        Event::BarrierAbort,
        Event::BarrierRelease,
        Event::BarrierIsBroken,
        Event::BarrierWaiters,
        Event::BlockedReceivers,
        Event::SemaphoreAcquire,
        Event::SemaphoreRelease,
        Event::SemaphoreZero,
        Event::SemaphoreCount,
    ];
}

/// By number.
impl TryFrom<i32> for Event {
    type Error = Error;

    fn try_from(number: i32) -> Result<Self, Error> {
        Event::ALL.into_iter().find(|&event| event as i32 == number).ok_or(Error::UnknownEvent(number))
    }
}

/// Whether this state is the present one.
pub(super) fn holds(queue: &Queue<'_>, event: Event) -> bool {
    match event {
        Event::In => !queue.is_empty(),
        Event::Out => !queue.is_full(),
        Event::Empty => queue.is_empty(),
        Event::Full => queue.is_full(),
        // There is always room, or else a message.
        _ => true,
    }
}

impl Channel {
    /// Waits until the event holds, or does what it says: its number, or the number that was asked for. An event that
    /// holds may be over before the caller acts.
    ///
    /// # Errors
    /// [`Error::Timeout`] if it did not hold in time, also for one try; [`Error::WrongKind`] for events of a semaphore on
    /// another channel and the reverse; those of the [barrier](super::Barrier); [`Error::Destroyed`].
    pub fn poll(&self, event: Event, mode: WaitMode, timeout: Timeout) -> Result<u64, Error> {
        let number = event as u64;
        match event {
            Event::SemaphoreAcquire => return self.semaphore()?.acquire(mode, timeout),
            Event::SemaphoreRelease => return self.semaphore()?.release().map(|()| number),
            Event::SemaphoreZero => return self.semaphore()?.await_zero(mode, timeout).map(|()| number),
            Event::SemaphoreCount => return Ok(self.semaphore()?.count()),
            _ => {}
        }
        let view = self.view()?;
        if view.kind() != Kind::Messages {
            return Err(Error::WrongKind);
        }
        let queue = *view.messages.queue();
        if queue.is_destroyed() {
            return Err(Error::Destroyed);
        }
        match event {
            Event::Size => return Ok(queue.len() as u64),
            Event::Capacity => return Ok(queue.shape().capacity.into()),
            Event::BlockedReceivers => return Ok(view.pockets(Pocket::Receiving)),
            Event::BarrierIsBroken => return Ok(self.barrier()?.is_broken().into()),
            Event::BarrierWaiters => return Ok(self.barrier()?.waiting().into()),
            Event::BarrierWait => return Ok(self.barrier()?.count_in(mode, timeout)?.into()),
            Event::BarrierRelease => self.barrier()?.release(timeout)?,
            Event::BarrierAbort => self.barrier()?.abort()?,
            Event::Reset => {
                // Also what cannot be received here, because its memory is not known.
                view.drain();
                view.wake();
                self.barrier()?.reset()?;
            }
            _ if holds(&queue, event) => {}
            _ if timeout == Timeout::Now => return Err(Watch::new(view).late(Error::Timeout, timeout)),
            _ => {
                let watch = Watch::new(view);
                let (patience, _counted) = watch.patience(mode, timeout.deadline());
                let changes = if matches!(event, Event::In | Event::Full) { queue.published() } else { queue.taken() };
                let look = || (holds(&queue, event) || queue.is_destroyed()).then_some(());
                let changed = changes.wait(&watch, patience.spins, patience.deadline, look);
                changed.ok_or_else(|| watch.late(Error::Timeout, timeout))?;
                if queue.is_destroyed() {
                    return Err(Error::Destroyed);
                }
            }
        }
        Ok(number)
    }
}
