//! Receiving into memory of the caller's.
//!
//! Whoever hands out memory of somebody else, which must stay as it is if nothing comes, is asked for it late.

use super::early::Filled;
use super::error::Error;
use super::receive::{Piece, Receiver};
use crate::channel::Timeout;

impl Receiver<'_> {
    /// Receives bytes of the next message into `pad`, as many as come at once and fit; what does not fit comes next.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn receive_into(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Piece, Error> {
        if pad.is_empty() {
            return Ok(Piece { len: 0, arg: 0, is_last: false });
        }
        self.refuse_heirs()?;
        self.read_some(pad, timeout)
    }

    /// As [`receive_into`](Self::receive_into), into a pad that is asked for, by the bytes that come and are at most `room`, only
    /// when there are some.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn receive_into_with<'p>(
        &mut self,
        room: usize,
        pad: impl FnOnce(usize) -> &'p mut [u8],
        timeout: Timeout,
    ) -> Result<Piece, Error> {
        if room == 0 {
            return Ok(Piece { len: 0, arg: 0, is_last: false });
        }
        self.refuse_heirs()?;
        let len = self.await_some(timeout)?.min(room);
        self.read_some(pad(len), Timeout::Now)
    }

    /// Fills `pad` with bytes of as many messages as it takes; fewer only if there are no more, or no memory to keep those
    /// that had come at the deadline.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn receive_exact(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Piece, Error> {
        self.refuse_heirs()?;
        self.read_exact(pad, timeout)
    }

    fn read_exact(&mut self, pad: &mut [u8], timeout: Timeout) -> Result<Piece, Error> {
        let deadline = timeout.deadline();
        let read = |rest: &mut [u8]| self.read_some(rest, timeout.rest(deadline));
        let filled = Filled::fill(pad, read, |error| matches!(error, Error::Ended | Error::PeerDead));
        filled.or_else(|(filled, error)| filled.put_back(pad, &mut self.early).ok_or(error))
    }

    /// As [`receive_exact`](Self::receive_exact), into a pad of `room` bytes that is asked for only when some have come.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn receive_exact_with<'p>(
        &mut self,
        room: usize,
        pad: impl FnOnce(usize) -> &'p mut [u8],
        timeout: Timeout,
    ) -> Result<Piece, Error> {
        if room == 0 {
            return Ok(Piece { len: 0, arg: 0, is_last: false });
        }
        self.refuse_heirs()?;
        let deadline = timeout.deadline();
        self.await_some(timeout)?;
        self.read_exact(pad(room), timeout.rest(deadline))
    }
}
