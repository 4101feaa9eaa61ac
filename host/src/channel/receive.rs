//! Receiving.

use umbra_core::atomic::AtomicU64;
use umbra_core::cell::Bytes;
use umbra_core::channel::{Header, Lent, Patience, Port, ReceiveError};

use super::barrier;
use super::error::Error;
use super::layout::{Pocket, View};
use super::memory::{Held, Record};
use super::wait::{Timeout, WaitMode, Watch};
use super::{Channel, Kind};
use crate::pool;
use crate::sys::{fork, heap};

/// A receive handle. A child that is forked off opens its own.
#[derive(Debug)]
pub struct Receiver<'a> {
    pub(super) port: Port<'a, Watch<'a>>,
    pub(super) view: View<'a>,
    mode: WaitMode,
    /// See [`barrier::noted`].
    noted: Option<&'a AtomicU64>,
}

/// What was received, or seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its bytes.
    pub len: usize,
    /// The 64 bits that were sent beside them.
    pub hints: u64,
    /// Who sent it, by a number of the user's.
    pub client: u64,
    /// The id of the send handle.
    pub handle: [u64; 2],
}

impl Message {
    pub(super) const fn new(len: usize, Header { hints, sender, handle, .. }: Header) -> Message {
        Message { len, hints, client: sender, handle }
    }
}

impl Channel {
    /// Opens a receive handle that waits in this way.
    ///
    /// # Errors
    /// [`Error::WrongKind`] if it is a semaphore.
    #[inline]
    pub fn receiver(&self, mode: WaitMode) -> Result<Receiver<'_>, Error> {
        let view = self.view()?;
        if view.kind() != Kind::Messages {
            return Err(Error::WrongKind);
        }
        let noted = barrier::noted(&view);
        Ok(Receiver { port: Port::new(view.messages, view.me, Watch::new(view)), view, mode, noted })
    }
}

/// Why a message was left where it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    Receive(ReceiveError),
    /// It is about memory of a pool with this instance, which is not known.
    Unknown(u64),
    /// The memory in which it was to land was freed.
    Freed,
}

impl From<ReceiveError> for Refusal {
    fn from(error: ReceiveError) -> Self {
        Refusal::Receive(error)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Receive(error) => error.into(),
            Refusal::Unknown(instance) => Error::UnknownMemory(instance),
            Refusal::Freed => Error::Pool(pool::Error::Stale),
        }
    }
}

impl<'a> Receiver<'a> {
    /// Does it, at once or as soon as there is a message.
    fn wait<T, E: Into<Error>>(
        &self,
        timeout: Timeout,
        attempt: impl FnOnce(Patience) -> Result<T, E>,
    ) -> Result<T, Error> {
        // A deadline that has passed leaves one look.
        let (patience, _counted) = match timeout {
            Timeout::Now => (Patience { spins: 0, deadline: timeout.deadline() }, None),
            _ => self.port.waiting().patience(self.mode, timeout.deadline()),
        };
        let _blocked = self.view.enter(Pocket::Receiving);
        attempt(patience).map_err(|error| self.port.waiting().late(error.into(), timeout))
    }

    /// Takes the first message, unless it is refused, at once or as soon as there is one.
    #[inline]
    pub(super) fn take_if(
        &self,
        timeout: Timeout,
        judge: impl Fn(Header, Bytes<'a>) -> Result<(), Refusal>,
    ) -> Result<InPlace<'_, 'a>, Error> {
        InPlace::new(self.lend_if(timeout, judge)?, &self.view)
    }

    #[inline]
    fn lend_if(
        &self,
        timeout: Timeout,
        judge: impl Fn(Header, Bytes<'a>) -> Result<(), Refusal>,
    ) -> Result<Lent<'_, 'a, Watch<'a>>, Error> {
        self.view.refuse_heirs()?;
        let taken = match self.port.try_take_if(&judge) {
            Err(Refusal::Receive(ReceiveError::Empty)) if timeout != Timeout::Now => self.await_message(timeout, judge),
            done => done.map_err(|refusal| self.port.waiting().late(refusal.into(), timeout)),
        };
        if taken.is_ok() {
            barrier::received(&self.view, self.noted);
        }
        taken
    }

    #[cold]
    fn await_message(
        &self,
        timeout: Timeout,
        judge: impl Fn(Header, Bytes<'a>) -> Result<(), Refusal>,
    ) -> Result<Lent<'_, 'a, Watch<'a>>, Error> {
        self.wait(timeout, |patience| {
            let look = || match self.port.try_take_if(&judge) {
                Err(Refusal::Receive(ReceiveError::Empty)) => None,
                done => Some(done),
            };
            self.port.await_change(true, patience, look).unwrap_or(Err(ReceiveError::Empty.into()))
        })
    }

    /// Whether a message's memory can be received, if it is about memory; how many bytes the message has.
    #[inline]
    pub(super) fn measure(&self, header: Header, bytes: Bytes<'a>) -> Result<u64, Refusal> {
        if header.flags == 0 {
            return Ok(bytes.len() as u64);
        }
        let record = Record::of(&header, bytes).ok_or(ReceiveError::Damaged)?;
        self.view.pools.check(&record).map_err(|_| Refusal::Unknown(record.instance))?;
        Ok(record.len)
    }

    /// Receives the first message into `pad`. If it is about memory, its bytes are copied, and the memory is freed if it
    /// was handed over.
    ///
    /// # Errors
    /// [`Error::Empty`] for one try, [`Error::Timeout`], [`Error::PadTooSmall`], [`Error::UnknownMemory`],
    /// [`Error::Destroyed`], [`Error::Forked`]. [`Error::Pool`] if its memory is no more: then the message is lost.
    #[inline]
    pub fn receive(&self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        self.receive_with(pad.len(), |len| pad.get_mut(..len).unwrap_or_default(), timeout)
    }

    /// The same into a pad that is asked for, by the length of the message, only when there is one of at most `room` bytes.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    #[inline]
    pub fn receive_with<'p>(
        &self,
        room: usize,
        pad: impl FnOnce(usize) -> &'p mut [u8],
        timeout: Timeout,
    ) -> Result<Message, Error> {
        let fits = |header, bytes| match self.measure(header, bytes)? {
            len if len <= room as u64 => Ok(()),
            len => Err(ReceiveError::PadTooSmall { len: usize::try_from(len).unwrap_or(usize::MAX), pad: room }.into()),
        };
        let lent = self.lend_if(timeout, fits)?;
        let received = lent.received();
        if received.header.flags == 0 {
            lent.copy_to(pad(received.len))?;
            return Ok(Message::new(received.len, received.header));
        }
        let memory = InPlace::new(lent, &self.view)?;
        let len = memory.message().len;
        memory.copy_to(pad(len))
    }

    /// Receives the first message where it lies; its place is free again, and memory that was handed over freed, when what
    /// this returns is dropped.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn take(&self, timeout: Timeout) -> Result<InPlace<'_, 'a>, Error> {
        self.take_if(timeout, |header, bytes| self.measure(header, bytes).map(|_| ()))
    }

    /// Looks at the first message and copies as much of it as there is room for; it stays the first.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn peek(&self, pad: &mut [u8], timeout: Timeout) -> Result<Message, Error> {
        self.view.refuse_heirs()?;
        // Memory may be received and freed by others while it is looked at; not so often that it is no chance.
        let (mut tries, deadline) = (0, timeout.deadline());
        loop {
            let peeked = self.wait(timeout.rest(deadline), |patience| self.port.peek(pad, patience))?;
            if peeked.header.flags == 0 {
                return Ok(Message::new(peeked.len, peeked.header));
            }
            tries += 1;
            match self.peek_far(pad) {
                Err(Error::Empty | Error::Pool(_)) if tries < PEEKS => {}
                done => return done,
            }
        }
    }

    /// As [`peek`](Self::peek), into a list of as many bytes as the message has, but at most `most`: however many that are, it
    /// takes no more memory than there are bytes for it.
    ///
    /// # Errors
    /// As for [`peek`](Self::peek); [`Error::NoMemory`].
    pub fn peek_up_to(&self, most: usize, timeout: Timeout) -> Result<(Vec<u8>, Message), Error> {
        let (deadline, block) = (timeout.deadline(), self.view.messages.block());
        let mut bytes = heap::filled(0_u8, most.min(block))?;
        loop {
            let message = self.peek(&mut bytes, timeout.rest(deadline))?;
            let len = message.len.min(most);
            if len <= bytes.len() {
                bytes.truncate(len);
                return Ok((bytes, message));
            }
            // By the time that there is room for it, others may have left a longer message as the first one.
            bytes = heap::filled(0_u8, len)?;
        }
    }

    /// Looks at the first message, which is about memory.
    fn peek_far(&self, pad: &mut [u8]) -> Result<Message, Error> {
        let look = || {
            let mut record = [0; Record::BYTES];
            let peeked = self.port.messages().peek(&mut record)?;
            Ok::<_, Error>((peeked, record))
        };
        let (peeked, bytes) = look()?;
        let record = Record::parse(&peeked.header, &bytes).ok_or(Error::Empty)?;
        let memory = self.view.pools.look(&record, &peeked.header)?.memory;
        let len = usize::try_from(record.len).unwrap_or(usize::MAX);
        let copied = len.min(pad.len());
        memory.read(0, pad.get_mut(..copied).unwrap_or_default())?;
        // Whoever received it meanwhile may have changed it.
        if look()? == (peeked, bytes) { Ok(Message::new(len, peeked.header)) } else { Err(Error::Empty) }
    }

    /// Removes the first message without looking at it; memory that was handed over is freed.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive), but not for a pad that is too small.
    pub fn pop(&self, timeout: Timeout) -> Result<(), Error> {
        match self.take(timeout).map(drop) {
            // Its memory is gone, and so is it.
            Err(Error::Pool(_)) => Ok(()),
            done => done,
        }
    }
}

/// Looks at memory that others receive meanwhile.
const PEEKS: u32 = 100;

/// A received message where it lies.
#[derive(Debug)]
pub struct InPlace<'r, 'a> {
    pub(super) lent: Lent<'r, 'a, Watch<'a>>,
    /// The memory that it is about.
    pub(super) far: Option<Held<'a>>,
    /// Of the process that received it: a child that was forked off leaves all of it to its parent.
    life: u32,
}

impl<'r, 'a> InPlace<'r, 'a> {
    fn new(lent: Lent<'r, 'a, Watch<'a>>, view: &View<'a>) -> Result<InPlace<'r, 'a>, Error> {
        let (header, life) = (lent.received().header, fork::life());
        if header.flags == 0 {
            return Ok(InPlace { lent, far: None, life });
        }
        let record = Record::of(&header, lent.bytes()).ok_or(Error::Damaged)?;
        let far = Some(view.pools.look(&record, &header)?);
        Ok(InPlace { lent, far, life })
    }
}

impl InPlace<'_, '_> {
    /// Its bytes; what another process writes there meanwhile is seen.
    #[must_use]
    pub fn bytes(&self) -> Bytes<'_> {
        match &self.far {
            None => self.lent.bytes(),
            Some(far) => far.memory.bytes(),
        }
    }

    /// What came along.
    #[must_use]
    pub fn message(&self) -> Message {
        let received = self.lent.received();
        let len = self.far.map_or(received.len, |far| usize::try_from(far.memory.len()).unwrap_or(usize::MAX));
        Message::new(len, received.header)
    }
}

impl InPlace<'_, '_> {
    /// Copies its bytes to the front of `pad`.
    fn copy_to(self, pad: &mut [u8]) -> Result<Message, Error> {
        let (message, room) = (self.message(), pad.len());
        let pad = pad.get_mut(..message.len).ok_or(Error::PadTooSmall { len: message.len, pad: room })?;
        match &self.far {
            None => self.lent.copy_to(pad)?,
            Some(far) => far.memory.read(0, pad)?,
        }
        Ok(message)
    }
}

impl Drop for InPlace<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        if self.life != fork::life() {
            self.lent.disown();
        } else if let Some(far) = self.far.take().filter(|far| !far.is_lent) {
            // Before its place is free: whoever finds us dead here frees it.
            let _ = far.memory.free();
        }
    }
}
