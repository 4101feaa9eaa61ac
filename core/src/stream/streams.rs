//! The places of an adapter together with their bytes.

use super::error::AttachError;
use super::inlet::Inlet;
use super::layout::{CONTROL, Mode, Shape};
use super::outlet::Outlet;
use super::pipe::{Pipe, Reference};
use super::settle::{Outcome, Reclaimed};
use super::table::{Conversation, Table};
use crate::atomic::AtomicU64;
use crate::cell::BytesMut;
use crate::event::Wait;

const WORD: usize = size_of::<u64>();

/// An adapter over memory that processes share; copies are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Streams<'a> {
    table: Table<'a>,
    memory: BytesMut<'a>,
}

impl<'a> Streams<'a> {
    /// Makes an adapter in which nobody talks; nobody may use the memory as one meanwhile.
    ///
    /// # Errors
    /// [`AttachError`] if the shape is impossible or does not fit.
    pub fn create(memory: BytesMut<'a>, shape: Shape) -> Result<Self, AttachError> {
        Self::over(memory, |words| Table::create(words, shape))
    }

    /// Looks at an adapter that another process created; the memory may be larger than it.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(memory: BytesMut<'a>) -> Result<Self, AttachError> {
        Self::over(memory, Table::attach)
    }

    fn over(
        memory: BytesMut<'a>,
        table: impl FnOnce(&'a [AtomicU64]) -> Result<Table<'a>, AttachError>,
    ) -> Result<Self, AttachError> {
        let words = memory.words(0, memory.len() / WORD).map_err(|_| AttachError::NotStreams)?;
        Ok(Streams { table: table(words)?, memory })
    }

    /// The places, without their bytes.
    #[must_use]
    pub const fn table(&self) -> &Table<'a> {
        &self.table
    }

    /// Bytes of the longest conversation that is one message.
    #[must_use]
    pub const fn block(&self) -> usize {
        if self.table.plan.messages == 0 { 0 } else { self.table.plan.block - super::layout::RECORD }
    }

    pub(super) fn pipe(&self, place: usize) -> Option<Pipe<'a>> {
        if place >= self.table.plan.places() {
            return None;
        }
        let (at, ring) = self.table.plan.place(place);
        let control = self.memory.words(at * WORD, CONTROL).ok()?;
        Some(Pipe { control, ring: self.memory.part((at + CONTROL) * WORD, ring).ok()? })
    }

    /// The sending end of a conversation of member `by`; `None` for a place that there is not.
    #[must_use]
    pub fn outlet(&self, conversation: Conversation, by: u16) -> Option<Outlet<'a>> {
        Some(Outlet::new(*self, self.pipe(conversation.place())?, conversation, by))
    }

    /// The receiving end of a conversation of member `by`; `None` for a place that there is not.
    #[must_use]
    pub fn inlet(&self, conversation: Conversation, by: u16) -> Option<Inlet<'a>> {
        Some(Inlet::new(*self, self.pipe(conversation.place())?, conversation, by))
    }

    pub(super) fn scrub(&self, place: usize, dropped: &impl Fn(Reference)) {
        if let Some(pipe) = self.pipe(place) {
            pipe.scrub(dropped);
        }
    }

    /// Ends all that a member was doing that will not run again, as [`Table::reclaim`] says; `dropped` is told the
    /// memory that nobody will read any more, perhaps several times.
    pub fn reclaim(&self, dead: u16, dropped: impl Fn(Reference)) -> Reclaimed {
        self.table.reclaim(dead, |place| self.scrub(place, &dropped))
    }

    /// Tells whoever waits what the end of a conversation changed.
    pub fn tell(&self, conversation: Conversation, outcome: Outcome, wait: &impl Wait) {
        match outcome {
            Outcome::Free => {
                self.table.manager().notify_after_swap(wait);
                // A receiver who takes whichever is first, a conversation or a free place, sleeps where he hears of the former.
                if self.table.shape.mode == Mode::Single {
                    self.table.main().notify_after_swap(wait);
                }
            }
            Outcome::Deposited => {
                self.table.main().notify_after_swap(wait);
            }
            Outcome::Open => {
                if let Some(pipe) = self.pipe(conversation.place()) {
                    pipe.written().notify_after_swap(wait);
                    pipe.read().notify_after_swap(wait);
                }
            }
            Outcome::Stale => {}
        }
    }

    /// Tells everybody who waits for anything.
    pub fn tell_all(&self, wait: &impl Wait) {
        let table = &self.table;
        let pipes = (0..table.plan.places()).filter_map(|place| self.pipe(place));
        let of_pipes = pipes.flat_map(|pipe| [pipe.written(), pipe.read()]);
        for event in of_pipes.chain([table.main(), table.manager()]) {
            event.notify(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::super::{Class, End, WriteError};
    use super::*;
    use crate::time::Time;

    /// Wakes nobody, and counts on how many words somebody is woken.
    #[derive(Default)]
    struct Wakes(Cell<usize>);

    impl Wait for Wakes {
        fn now(&self) -> Time {
            Time::ZERO
        }
        fn sleep(&self, _: &AtomicU64, _: u32, _: Time) {}
        fn wake(&self, _: &AtomicU64) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_receiver_who_waits_for_the_one_stream_is_woken_by_its_end() {
        for (mode, woken) in [(Mode::Single, 2), (Mode::Nominal, 1)] {
            let shape = Shape { mode, streams: 1, ring: 256, messages: 0, block: 0 };
            let mut memory = std::vec![0_u64; shape.words().unwrap()];
            let streams = Streams::create(BytesMut::from_words(&mut memory), shape).unwrap();
            let (table, sender, receiver) = (streams.table(), 0, 1);
            let begun = table.claim(sender, Class::Stream, false).unwrap();
            let mut outlet = streams.outlet(begun, sender).unwrap();
            assert!(outlet.deposit());
            let inlet = streams.inlet(table.meet(receiver).unwrap(), receiver).unwrap();
            assert_eq!(inlet.leave(|_| ()), Outcome::Open);
            assert_eq!(outlet.write(b"more", 0, false), Err(WriteError::Unheard));
            // Another receiver, and another sender, find nothing and sleep.
            assert!(table.meet(receiver).or_else(|| table.offer(receiver)).is_none());
            let _ = (table.main().announce(), table.manager().announce());
            let wakes = Wakes::default();
            streams.tell(begun, outlet.end(End::Complete, |_| ()), &wakes);
            assert_eq!(wakes.0.get(), woken, "{mode:?}");
            assert_eq!(table.main().is_awaited(), mode != Mode::Single);
        }
    }
}
