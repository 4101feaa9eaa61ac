//! The receiving end of a conversation.

use std::io::{self, Read};

use umbra_core::stream::{Conversation, Front, Inlet, Mode, ReadError, Speaker};

use super::early::Early;
use super::error::Error;
use super::layout::{View, Watch};
use super::memory::Held;
use super::options::ReceiveOptions;
use super::{Adapter, refuse_heirs};
use crate::channel::{Timeout, WaitMode};
use crate::sys::{fork, heap};

/// The receiving end of a conversation, which [`close`](Self::close) ends. Dropped, it ends at once, and what was not
/// read is lost.
#[derive(Debug)]
pub struct Receiver<'a> {
    pub(super) adapter: &'a Adapter,
    pub(super) view: View<'a>,
    pub(super) watch: Watch<'a>,
    /// `None` when it has ended.
    inlet: Option<Inlet<'a>>,
    /// Memory of which a part was read.
    pub(super) held: Option<Held<'a>>,
    /// Read, and kept for the next read because a deadline came.
    pub(super) early: Early,
    pub(super) plan: Plan,
}

/// What a receiver was opened with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) placed_in: Option<u64>,
    timeout: Timeout,
    mode: WaitMode,
    pub(super) frees: bool,
    /// Of the process that opened it.
    life: u32,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The 64 bits that were sent beside them.
    pub arg: u64,
}

/// What was received into memory of the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// Bytes.
    pub len: usize,
    /// The 64 bits that were sent beside the last of them.
    pub arg: u64,
    /// Whether a message ends with them.
    pub is_last: bool,
}

impl Adapter {
    /// Meets the sender of the oldest conversation that waits; or waits in a stream that was brought along.
    ///
    /// # Errors
    /// [`Error::Empty`] for one try, [`Error::Timeout`]; [`Error::StreamNeeded`], [`Error::StreamRefused`] for what the
    /// adapter's mode does not have; [`Error::Destroyed`], [`Error::Forked`].
    pub fn receive(&self, options: &ReceiveOptions<'_>, timeout: Timeout) -> Result<Receiver<'_>, Error> {
        let view = self.view()?;
        let (table, me) = (view.streams.table(), view.me);
        match (table.shape().mode, options.stream) {
            (Mode::ReceiverSupplied, None) => return Err(Error::StreamNeeded),
            (Mode::ReceiverSupplied, Some(stream)) if stream.view.frame.is_same(&view.frame) => {}
            (_, Some(_)) => return Err(Error::StreamRefused),
            (_, None) => {}
        }
        let watch = Watch::new(view);
        let look = || match (table.shape().mode, options.stream) {
            _ if table.is_destroyed() => Some(Err(Error::Destroyed)),
            (_, Some(stream)) => table.offer_kept(stream.kept, me).map(Ok),
            (Mode::Single, None) => table.meet(me).or_else(|| table.offer(me)).map(Ok),
            _ => table.meet(me).map(Ok),
        };
        let event = if options.stream.is_some() { table.manager() } else { table.main() };
        let met = watch.wait_for(event, (options.mode, timeout), Error::Empty, look)?;
        // Whoever waits for a receiver hears of this one.
        if matches!(table.shape().mode, Mode::ReceiverSupplied | Mode::Single) {
            table.manager().notify_after_swap(&watch);
        }
        let ReceiveOptions { placed_in, timeout, mode, .. } = *options;
        let inlet = view.streams.inlet(met, me);
        let plan = Plan { placed_in, timeout, mode, frees: true, life: fork::life() };
        Ok(Receiver { adapter: self, view, watch, inlet, held: None, early: Early::default(), plan })
    }
}

impl<'a> Receiver<'a> {
    /// Goes on where [`pause`](Self::pause) ended.
    pub(super) fn resume(adapter: &'a Adapter, mut paused: Paused) -> Result<Receiver<'a>, Error> {
        let view = adapter.view()?;
        let inlet = paused.at.take().and_then(|at| view.streams.inlet(at, view.me));
        let (early, plan) = (std::mem::take(&mut paused.early), paused.plan);
        Ok(Receiver { adapter, view, watch: Watch::new(view), inlet, held: None, early, plan })
    }

    /// What is needed to go on elsewhere: the conversation stays. [Gather](Self::gather) first.
    pub(super) fn pause(mut self) -> Paused {
        let at = self.inlet.take().map(|inlet| inlet.conversation());
        let (early, plan) = (std::mem::take(&mut self.early), self.plan);
        Paused { adapter: self.adapter.clone(), at, early, plan }
    }

    /// Refuses a child that was forked off.
    pub(super) fn refuse_heirs(&self) -> Result<(), Error> {
        refuse_heirs(self.plan.life)
    }

    /// Reads the rest of what was read in part: only whole records can be gone on with elsewhere.
    pub(super) fn gather(&mut self) -> Result<(), Error> {
        if let Some(held) = &self.held {
            let mut rest = heap::reserved(held.len(), || 0)?;
            if let Some(piece) = self.read_held(&mut rest).transpose()? {
                self.early.push(rest, piece.arg, piece.is_last);
            }
        } else if let Some(inlet) = &mut self.inlet
            && inlet.is_in_part()
        {
            let mut rest = heap::reserved(inlet.front()?.len, || 0)?;
            let piece = inlet.read(&mut rest)?;
            self.early.push(rest, piece.arg, piece.is_last);
            inlet.tell(&self.watch);
        }
        Ok(())
    }

    /// Whether received memory is freed when it was read as bytes; so it is at first.
    pub fn set_frees(&mut self, frees: bool) {
        self.plan.frees = frees;
    }

    /// Waits until there are bytes of a message, and says how many come at once.
    pub(super) fn await_some(&mut self, timeout: Timeout) -> Result<usize, Error> {
        if !self.early.is_empty() {
            return Ok(self.early.len());
        }
        if self.held.is_none() {
            let found = self.await_front(timeout)?;
            let Some(reference) = found.reference else { return Ok(found.len) };
            self.hold(reference, &found)?;
        }
        Ok(self.held.map_or(0, |held| held.len()))
    }

    /// Reads what there is of one message, waiting for the first of it.
    pub(super) fn read_some(&mut self, into: &mut [u8], timeout: Timeout) -> Result<Piece, Error> {
        if let Some(piece) = self.early.read(into) {
            return Ok(piece);
        }
        self.await_some(timeout)?;
        if let Some(read) = self.read_held(into) {
            return read;
        }
        let Some(inlet) = &mut self.inlet else { return Err(Error::Ended) };
        let piece = inlet.read(into)?;
        inlet.tell(&self.watch);
        Ok(Piece { len: piece.len, arg: piece.arg, is_last: piece.is_last })
    }

    /// Waits for the first record.
    pub(super) fn await_front(&mut self, timeout: Timeout) -> Result<Front, Error> {
        let Some(inlet) = &mut self.inlet else { return Err(Error::Ended) };
        let found = match inlet.front() {
            Err(ReadError::Empty) if timeout != Timeout::Now => {
                let (patience, _counted) = self.view.patience(self.plan.mode, timeout.deadline());
                inlet.wait(&self.watch, patience, Inlet::front)
            }
            found => found,
        };
        found.map_err(|error| self.watch.late(error, timeout))
    }

    pub(super) fn pass(&mut self, front: &Front) {
        if let Some(inlet) = &mut self.inlet {
            inlet.skip(front);
            inlet.tell(&self.watch);
        }
    }

    /// Receives the next message, or what is left of one that was read in part.
    ///
    /// # Errors
    /// [`Error::Ended`] again and again when the sender has said everything; [`Error::PeerDead`] if he died, and a
    /// message of which a part came is none; [`Error::Empty`] for one try, [`Error::Timeout`], [`Error::NoMemory`]: what came
    /// is kept then; [`Error::Forked`].
    pub fn receive(&mut self, timeout: Timeout) -> Result<Message, Error> {
        self.refuse_heirs()?;
        if let Some(message) = self.early.take_whole() {
            return Ok(message);
        }
        let deadline = timeout.deadline();
        let mut message = Message::default();
        let (mut first, mut filled) = (true, 0);
        loop {
            // As much as is there; at first nobody knows how much that is.
            let more = match (&self.held, &mut self.inlet) {
                _ if !self.early.is_empty() => self.early.len(),
                (Some(held), _) => held.len(),
                (None, _) => {
                    let found = self.await_front(if first { timeout } else { timeout.rest(deadline) });
                    match found {
                        Ok(Front { len, reference: None, .. }) => len,
                        Ok(front) => {
                            // Its pool tells how long it is: the record may say anything.
                            front.reference.map_or(Ok(()), |reference| self.hold(reference, &front))?;
                            self.held.map_or(0, |held| held.len())
                        }
                        Err(error) => return Err(self.put_off(message, filled, error)),
                    }
                }
            };
            first = false;
            // Whoever lends memory may lend more than there is room for here.
            if let Err(none) = heap::more(&mut message.bytes, more) {
                return Err(self.put_off(message, filled, none.into()));
            }
            message.bytes.resize(filled + more, 0);
            let Some(into) = message.bytes.get_mut(filled..) else { return Err(Error::Damaged) };
            let piece = self.read_some(into, Timeout::Now)?;
            filled += piece.len;
            message.arg = piece.arg;
            if piece.is_last {
                message.bytes.truncate(filled);
                return Ok(message);
            }
        }
    }

    /// Has a message received again before anything else: for whom there is no place to keep it.
    pub fn put_back(&mut self, message: Message) {
        self.early.put_back(message.bytes, message.arg, true);
    }

    /// Keeps what came for the next read, if there may be one.
    fn put_off(&mut self, mut message: Message, filled: usize, error: Error) -> Error {
        if filled > 0 && matches!(error, Error::Timeout | Error::Empty | Error::NoMemory(_)) {
            message.bytes.truncate(filled);
            self.early.put_back(message.bytes, message.arg, false);
        }
        error
    }

    /// Whether the sender has said everything, and it was received.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        let is_read = self.early.is_empty() && self.held.is_none();
        is_read && matches!(self.inlet.as_mut().map(Inlet::front), None | Some(Err(ReadError::Ended)))
    }

    /// Ends the conversation. Unless its sender let it be cut short, this reads what is still to come, to its end.
    ///
    /// # Errors
    /// [`Error::Timeout`], also for one try, if the sender had not ended by then; [`Error::PeerDead`] if he died. The
    /// conversation has ended for this receiver in any case, and its stream is used again when the sender closes or dies; but
    /// with [`Error::Forked`] it is the parent's.
    pub fn close(mut self, timeout: Timeout) -> Result<(), Error> {
        self.refuse_heirs()?;
        let drained = self.drain(timeout);
        self.end();
        drained
    }

    /// Reads to the end, unless the sender let it be cut short.
    pub(crate) fn drain(&mut self, timeout: Timeout) -> Result<(), Error> {
        let deadline = timeout.deadline();
        self.early.clear();
        self.let_go();
        let mut result = Ok(());
        while !self.inlet.as_ref().is_none_or(Inlet::is_brief) {
            // Not to be kept up for ever by one who never stops.
            let is_late = timeout != Timeout::Never && crate::sys::clock::now() >= deadline;
            let ends = |inlet: &Inlet<'_>| inlet.speaker() != Some(Speaker::There);
            if is_late && !self.inlet.as_ref().is_some_and(ends) {
                result = Err(Error::Timeout);
                break;
            }
            match self.await_front(timeout.rest(deadline)) {
                Ok(front) => {
                    if let Some(reference) = front.reference {
                        self.view.pools.forget(reference);
                    }
                    self.pass(&front);
                }
                Err(Error::Ended) => break,
                Err(Error::Empty) => {
                    result = Err(Error::Timeout);
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        result
    }

    fn end(&mut self) {
        self.let_go();
        if let Some(inlet) = self.inlet.take() {
            let at = inlet.conversation();
            let outcome = inlet.leave(self.view.dropped());
            self.view.streams.tell(at, outcome, &self.watch);
        }
    }
}

/// A receiver between two threads; dropped, it ends as a receiver does.
#[derive(Debug)]
pub(super) struct Paused {
    adapter: Adapter,
    at: Option<Conversation>,
    early: Early,
    plan: Plan,
}

impl Drop for Paused {
    fn drop(&mut self) {
        if let (false, Some(at), Ok(view)) = (self.adapter.is_inherited(), self.at.take(), self.adapter.view())
            && let Some(inlet) = view.streams.inlet(at, view.me)
        {
            let outcome = inlet.leave(view.dropped());
            view.streams.tell(at, outcome, &Watch::new(view));
        }
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        if !self.adapter.is_inherited() {
            self.end();
        }
    }
}

impl Read for Receiver<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.receive_into(into, self.plan.timeout) {
                // To readers of a file nothing is its end, and a message of no bytes is none.
                Ok(Piece { len: 0, .. }) if !into.is_empty() => {}
                Ok(piece) => return Ok(piece.len),
                Err(Error::Ended) => return Ok(0),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
