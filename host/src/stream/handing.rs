//! Memory of pools from hand to hand: what is given or lent, and where it lands.

use umbra_core::stream::{Front, Outlet, Reference, WriteError};

use super::error::Error;
use super::layout::is_there;
use super::memory::place;
use super::receive::{Piece, Receiver};
use super::send::Sender;
use crate::channel::Timeout;
use crate::pool::Allocation;
use crate::sys::heap::reserved;

/// A message as memory.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Where it lies; freeing it is the caller's, unless it was only lent.
    pub memory: Allocation<'a>,
    /// The 64 bits that were sent beside it.
    pub arg: u64,
    /// Whether it is still its sender's.
    pub is_lent: bool,
}

impl Sender<'_> {
    /// Sends bytes by way of a pool.
    pub(super) fn send_placed(&mut self, bytes: &[u8], arg: u64, uid: u64, timeout: Timeout) -> Result<(), Error> {
        let pools = self.view.pools;
        let (pool, deadline) = (pools.home(Some(uid))?, timeout.deadline());
        let mut placed = place(pool, bytes, Timeout::Now, || Ok(()));
        if matches!(placed, Err(Error::Pool(_))) {
            self.deposit_before_waiting();
            placed = place(pool, bytes, timeout, || self.is_heard());
        }
        let allocation = placed?;
        self.send_memory(allocation, arg, timeout.rest(deadline)).inspect_err(|_| drop(allocation.free()))
    }

    /// Whether the receiver is there, or may still come; for one who waits for what no receiver tells him of.
    fn is_heard(&self) -> Result<(), Error> {
        self.watch.patrol();
        Ok(self.outlet.as_ref().map_or(Err(WriteError::Damaged), Outlet::check)?)
    }

    /// Hands an allocation of one of the adapter's pools over, and 64 bits beside it; what was kept goes first. It is
    /// the receiver's to free then; if nobody receives it, it is freed.
    ///
    /// # Errors
    /// As for [`send`](Self::send), and it is still the caller's then; [`Error::Buffered`]; [`Error::UnknownPool`].
    pub fn send_memory(&mut self, memory: Allocation<'_>, arg: u64, timeout: Timeout) -> Result<(), Error> {
        self.refer(&memory, true, arg, timeout)
    }

    /// Lets the receiver read an allocation where it lies. It stays the caller's, who must not free or change it before
    /// it was read.
    ///
    /// # Errors
    /// As for [`send_memory`](Self::send_memory).
    pub fn lend_memory(&mut self, memory: &Allocation<'_>, arg: u64, timeout: Timeout) -> Result<(), Error> {
        self.refer(memory, false, arg, timeout)
    }

    fn refer(&mut self, memory: &Allocation<'_>, is_handed: bool, arg: u64, timeout: Timeout) -> Result<(), Error> {
        self.check_arg(arg)?;
        if self.plan.is_one_message {
            return Err(Error::Buffered);
        }
        let reference = self.view.pools.refer(memory, is_handed)?;
        let deadline = timeout.deadline();
        self.flush(timeout)?;
        self.put(deadline, timeout, |outlet| outlet.refer(reference, arg))?;
        self.count();
        Ok(())
    }
}

impl<'a> Receiver<'a> {
    pub(super) fn let_go(&mut self) {
        if let Some(held) = self.held.take()
            && self.plan.frees
        {
            held.release();
        }
    }

    /// Reads of the memory that is held, if some is. What is not there any more is lost, and not in the way of what comes next.
    pub(super) fn read_held(&mut self, into: &mut [u8]) -> Option<Result<Piece, Error>> {
        let held = self.held.as_mut()?;
        let read = held.read(into).map(|len| Piece { len, arg: held.arg, is_last: held.left() == 0 });
        match &read {
            Ok(piece) if piece.is_last => self.let_go(),
            Ok(_) => {}
            Err(_) => self.held = None,
        }
        Some(read)
    }

    /// Takes the memory of a message, which is no more in the stream then; memory that is not there any more is lost.
    pub(super) fn hold(&mut self, reference: Reference, of: &Front) -> Result<(), Error> {
        let held = self.view.pools.hold(reference, of.arg);
        self.pass(of);
        self.held = Some(held?);
        Ok(())
    }

    /// Receives the next message as memory: where it lies, if memory was sent; else in a pool of this adapter.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive); [`Error::NoPool`], [`Error::UnknownPool`], [`Error::Pool`]. A message for which a
    /// pool has no room comes again.
    pub fn receive_memory(&mut self, timeout: Timeout) -> Result<Received<'a>, Error> {
        self.refuse_heirs()?;
        let deadline = timeout.deadline();
        if self.early.is_empty() && self.held.is_none() {
            let front = self.await_front(timeout)?;
            if let Some(reference) = front.reference {
                self.hold(reference, &front)?;
            }
        }
        if let Some(held) = self.held.as_ref().filter(|_| self.early.is_empty()) {
            let received = Received { memory: held.rest()?, arg: held.arg, is_lent: !held.is_ours };
            if let Some(uid) = self.plan.placed_in {
                return self.move_to(received, uid, timeout.rest(deadline));
            }
            self.held = None;
            return Ok(received);
        }
        let home = self.view.pools.home(self.plan.placed_in)?;
        let message = self.receive(timeout.rest(deadline))?;
        match place(home, &message.bytes, timeout.rest(deadline), || is_there(&self.watch)) {
            Ok(memory) => Ok(Received { memory, arg: message.arg, is_lent: false }),
            Err(error) => {
                self.put_back(message);
                Err(error)
            }
        }
    }

    /// Copies the memory that is held into the pool where it is wanted, unless it is there. It is held on while there is
    /// no room for it, and not when it can't be read any more.
    fn move_to(&mut self, from: Received<'a>, uid: u64, timeout: Timeout) -> Result<Received<'a>, Error> {
        let pools = self.view.pools;
        let home = pools.home(Some(uid))?;
        let (origin, _) = from.memory.origin().inspect_err(|_| self.held = None)?;
        if std::ptr::eq(origin, home) {
            self.held = None;
            return Ok(from);
        }
        let mut bytes = reserved(usize::try_from(from.memory.len()).unwrap_or(usize::MAX), || 0)?;
        from.memory.read(0, &mut bytes).inspect_err(|_| self.held = None)?;
        let memory = place(home, &bytes, timeout, || is_there(&self.watch))?;
        if let Some(held) = self.held.take() {
            held.release();
        }
        Ok(Received { memory, is_lent: false, ..from })
    }
}
