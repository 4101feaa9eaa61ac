//! A slot that its holder fills, without a copy.

use super::error::SendError;
use super::message::{Header, Messages};
use super::queue::Position;
use super::slots::Claim;
use crate::cell::BytesMut;

impl<'a> Messages<'a> {
    /// A slot to write a message of `len` bytes into, without a copy.
    ///
    /// # Errors
    /// [`SendError`].
    #[inline]
    pub fn loan(&self, by: u16, len: usize) -> Result<Loan<'a>, SendError> {
        let (claim, bytes) = self.claim(by, len)?;
        Ok(Loan { messages: *self, claim: Some(claim), bytes, header: Header::default() })
    }
}

/// A slot that its holder fills; dropped without being sent it is given back.
#[derive(Debug)]
pub struct Loan<'a> {
    pub(super) messages: Messages<'a>,
    pub(super) claim: Option<Claim>,
    pub(super) bytes: BytesMut<'a>,
    /// What goes along.
    pub header: Header,
}

impl<'a> Loan<'a> {
    /// The bytes of the message to be; what is not written is what an earlier message left.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> BytesMut<'_> {
        self.bytes
    }

    /// Sends it. Where it stands.
    ///
    /// # Errors
    /// [`Unsent`]: nothing was sent, and the slot with what was written into it comes back. [`SendError::Full`] if others
    /// filled the channel meanwhile.
    #[inline]
    #[expect(clippy::result_large_err, reason = "a loan that was not sent is its holder's again")]
    pub fn send(mut self) -> Result<Position, Unsent<'a>> {
        self.attempt().map_err(|error| Unsent { error, loan: self })
    }

    /// Sends it, unless the channel was destroyed; on an error it can be tried again.
    #[inline]
    pub(super) fn attempt(&mut self) -> Result<Position, SendError> {
        if self.messages.queue().is_destroyed() {
            return Err(SendError::Destroyed);
        }
        self.publish()
    }

    #[inline]
    fn publish(&mut self) -> Result<Position, SendError> {
        let claim = self.claim.as_ref().ok_or(SendError::Damaged)?;
        self.messages.describe(claim.slot(), self.bytes.len(), self.header);
        let position = self.messages.queue().append(claim)?;
        self.claim = None;
        Ok(position)
    }
}

impl Drop for Loan<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.messages.queue().give_up(claim);
        }
    }
}

/// A loan that was not sent, and why.
#[derive(Debug)]
pub struct Unsent<'a> {
    /// Why.
    pub error: SendError,
    /// The slot, with what was written into it.
    pub loan: Loan<'a>,
}
