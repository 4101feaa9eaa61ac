//! What is left to another process: dropping it gives nothing back.
//!
//! A child that was forked off has copies of its parent's loans and messages in its memory. Their slots are the
//! parent's.

use super::loan::Loan;
use super::message::Taken;
use super::port::Lent;
use crate::event::Wait;

impl<'a> Loan<'a> {
    /// The same loan, at another place; this one has no slot any more, so dropping it does nothing.
    #[must_use]
    #[inline]
    pub fn move_out(&mut self) -> Loan<'a> {
        Loan { messages: self.messages, claim: self.claim.take(), bytes: self.bytes, header: self.header }
    }

    /// Leaves the slot to whoever has the other copy of this.
    pub fn disown(&mut self) {
        self.claim = None;
    }
}

impl Taken<'_> {
    /// Leaves the slot to whoever has the other copy of this.
    pub fn disown(&mut self) {
        self.take = None;
    }
}

impl<W: Wait> Lent<'_, '_, W> {
    /// Leaves the slot to whoever has the other copy of this.
    pub fn disown(&mut self) {
        self.taken.disown();
    }
}
