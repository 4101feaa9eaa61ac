//! Memory of pools from hand to hand: given or lent, and where messages land.

use umbra_core::cell::Bytes;
use umbra_core::channel::{Header, Position, ReceiveError};

use super::error::Error;
use super::memory::{self, HANDED, Held, Parcel, REFERS, Record};
use super::receive::{InPlace, Message, Receiver, Refusal};
use super::send::Sender;
use super::wait::Timeout;
use crate::pool::{Allocation, Pool};

impl Sender<'_> {
    /// Hands an allocation, or all that a range is of, over to the receiver, without a copy. With this the handle, and
    /// every other one by the same id, is stale; if nobody receives the message, the memory is freed.
    ///
    /// # Errors
    /// As for [`send`](Self::send), and if nothing was sent it is still the caller's, with its handle; [`Error::UnknownPool`].
    /// After [`Error::NotReceived`] it is the receiver's, and after [`Error::Destroyed`] of a handle that returns when a message
    /// is received, too, or it was freed with the channel: then its handle is stale.
    pub fn send_memory(&self, memory: Allocation<'_>, hints: u64, timeout: Timeout) -> Result<(), Error> {
        self.view.refuse_heirs()?;
        let deadline = timeout.deadline();
        let position = self.hand(memory, hints, timeout)?;
        self.returned(position, timeout.rest(deadline))
    }

    fn hand(&self, memory: Allocation<'_>, hints: u64, timeout: Timeout) -> Result<Position, Error> {
        let renamed = memory.renamed()?;
        self.refer(&renamed, HANDED, hints, timeout).inspect_err(|_| {
            // Nobody learned the new id.
            let _ = renamed.renamed_back();
        })
    }

    /// Lets the receiver read an allocation where it lies, without a copy. It stays the caller's, who must not free or
    /// change it before it was read.
    ///
    /// # Errors
    /// As for [`send`](Self::send); [`Error::UnknownPool`].
    pub fn lend_memory(&self, memory: &Allocation<'_>, hints: u64, timeout: Timeout) -> Result<(), Error> {
        self.view.refuse_heirs()?;
        let deadline = timeout.deadline();
        let position = self.refer(memory, 0, hints, timeout)?;
        self.returned(position, timeout.rest(deadline))
    }

    /// Sends a copy of these bytes in a new block of a pool.
    ///
    /// # Errors
    /// As for [`send`](Self::send); [`Error::Pool`] if the pool has no room at one try.
    pub fn send_placed(&self, bytes: &[u8], pool: &Pool, hints: u64, timeout: Timeout) -> Result<(), Error> {
        self.view.refuse_heirs()?;
        let deadline = timeout.deadline();
        let position = self.place(bytes, pool, hints, timeout)?;
        self.returned(position, timeout.rest(deadline))
    }

    pub(super) fn place(&self, bytes: &[u8], pool: &Pool, hints: u64, timeout: Timeout) -> Result<Position, Error> {
        let deadline = timeout.deadline();
        let memory = memory::room(pool, bytes.len() as u64, timeout, &self.view)?;
        let written = memory.write(0, bytes).map_err(Error::Pool);
        let sent = written.and_then(|()| self.hand(memory, hints, timeout.rest(deadline)));
        sent.inspect_err(|_| drop(memory.free()))
    }

    /// Copies these bytes to the front of an allocation, and hands that over; the receiver sees as much of it as they fill.
    ///
    /// # Errors
    /// As for [`send_memory`](Self::send_memory); [`Error::Pool`] if they do not fit.
    pub fn send_into(&self, bytes: &[u8], to: Allocation<'_>, hints: u64, timeout: Timeout) -> Result<(), Error> {
        self.view.refuse_heirs()?;
        let filled = to.part(0, bytes.len() as u64)?;
        filled.write(0, bytes)?;
        self.send_memory(filled, hints, timeout)
    }

    fn refer(&self, memory: &Allocation<'_>, handed: u32, hints: u64, timeout: Timeout) -> Result<Position, Error> {
        let record = self.view.pools.refer(memory)?;
        let header = Header { flags: REFERS | handed, ..self.header(hints) };
        let position = self.deposit(header, &record.to_bytes(), timeout)?;
        if self.view.messages.queue().is_destroyed() {
            // Whoever destroyed it may have looked for messages before.
            self.view.drain();
        }
        Ok(position)
    }
}

/// Where a message is to land.
#[derive(Clone, Copy)]
enum Landing<'p> {
    /// Where it is, if it is about memory; else in a pool.
    Home,
    /// In a pool, if it is not there.
    In(&'p Pool),
}

impl<'a> Receiver<'a> {
    /// Receives the first message as memory: where it lies, if memory was sent; else in a new block of the first pool that
    /// this process knows at the channel. Nobody is held up while that waits for room, and the message stays the first.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive); [`Error::NoPool`]; [`Error::Pool`] if the pool has no room at one try.
    pub fn receive_memory(&self, timeout: Timeout) -> Result<Parcel<'a>, Error> {
        self.land(Landing::Home, timeout)
    }

    /// Receives the first message as memory of this pool: where it lies, if it lies there, or else in a new block.
    ///
    /// # Errors
    /// As for [`receive_memory`](Self::receive_memory).
    pub fn receive_placed<'p>(&self, pool: &'p Pool, timeout: Timeout) -> Result<Parcel<'p>, Error>
    where
        'a: 'p,
    {
        self.land(Landing::In(pool), timeout)
    }

    /// Receives the first message into an allocation; what is returned is as much of it as the message fills.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive); [`Error::Pool`] if the allocation was freed, and the message stays the first.
    pub fn receive_into<'p>(&self, to: &Allocation<'p>, timeout: Timeout) -> Result<(Allocation<'p>, Message), Error> {
        let judge = |header: Header, bytes: Bytes<'a>| {
            if to.exists() { fits(self.measure(header, bytes)?, to.len()) } else { Err(Refusal::Freed) }
        };
        let taken = self.take_if(timeout, judge)?;
        let message = taken.message();
        let landed = to.part(0, message.len as u64)?;
        taken.copy_into(&landed)?;
        Ok((landed, message))
    }

    fn land<'p>(&self, landing: Landing<'p>, timeout: Timeout) -> Result<Parcel<'p>, Error>
    where
        'a: 'p,
    {
        let deadline = timeout.deadline();
        let mut room: Option<Allocation<'p>> = None;
        // Others may leave a longer message as the first one; each time that costs them one.
        loop {
            let has = room.map_or(0, |room| room.len());
            let judge = |header: Header, bytes: Bytes<'a>| {
                let len = self.measure(header, bytes)?;
                let stays = Record::of(&header, bytes).is_some_and(|record| landing.is_at(&record));
                // An empty message, too, needs its block.
                if stays || room.is_some() && len <= has { Ok(()) } else { fits(len.max(1), 0) }
            };
            match self.take_if(timeout.rest(deadline), judge) {
                Ok(taken) => return taken.landed(landing, room),
                Err(Error::PadTooSmall { len, .. }) => {
                    room.take().map(Allocation::free).transpose()?;
                    let pool = match landing {
                        Landing::Home => self.view.pools.home()?,
                        Landing::In(pool) => pool,
                    };
                    room = Some(memory::room(pool, len as u64, timeout.rest(deadline), &self.view)?);
                }
                Err(error) => {
                    room.map(Allocation::free).transpose()?;
                    return Err(error);
                }
            }
        }
    }
}

fn fits(len: u64, room: u64) -> Result<(), Refusal> {
    let of = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    if len <= room { Ok(()) } else { Err(ReceiveError::PadTooSmall { len: of(len), pad: of(room) }.into()) }
}

impl Landing<'_> {
    /// Whether memory that a message is about stays where it is.
    fn is_at(&self, record: &Record) -> bool {
        match self {
            Landing::Home => true,
            Landing::In(pool) => record.instance == pool.instance(),
        }
    }
}

impl<'a> InPlace<'_, 'a> {
    /// Copies it into memory that is as long.
    fn copy_into(&self, landed: &Allocation<'_>) -> Result<(), Error> {
        match &self.far {
            Some(far) => Ok(far.memory.copy_to(landed)?),
            None => Ok(landed.fill(self.lent.bytes())?),
        }
    }

    /// As memory: its own if that is where it is to be, or else that of `room`, of which nothing is left over.
    fn landed<'p>(mut self, landing: Landing<'p>, room: Option<Allocation<'p>>) -> Result<Parcel<'p>, Error>
    where
        'a: 'p,
    {
        let message = self.message();
        let stays = Record::of(&self.lent.received().header, self.lent.bytes()).is_some_and(|r| landing.is_at(&r));
        if let Some(far) = self.far.filter(|_| stays) {
            room.map(Allocation::free).transpose()?;
            if !far.is_lent {
                far.memory.own()?;
            }
            // It is the caller's to free now.
            self.far = None;
            return Ok(Parcel::new(far, message));
        }
        let room = room.ok_or(Error::Damaged)?;
        let landed = room.part(0, message.len as u64)?;
        match self.copy_into(&landed) {
            Ok(()) => Ok(Parcel::new(Held { memory: landed, is_lent: false }, message)),
            Err(error) => {
                room.free()?;
                Err(error)
            }
        }
    }
}
