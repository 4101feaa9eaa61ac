//! Saying what will be read, so that the service process reads it ahead.

use umbra_core::access::relay::CREDIT;
use umbra_core::access::stage::{HINT, HINT_MAX, Hint};
use umbra_core::key::{Access, Span};
use umbra_core::ticket::Ticket;
use umbra_core::wire::{Frame, Token};

use super::{Session, SessionError};
use crate::driver::LinkId;

impl Session {
    /// Says that this rank will [read](Self::read) bytes of another rank's region, from `offset` within it, as one read.
    /// Its service process then reads them ahead, as far as it has room for copies; it keeps such only of regions that were
    /// exported as [constant](Self::export_constant), and nothing is said of others. Returns at once, with how many of
    /// the bytes were said: all, unless too many hints are under way.
    ///
    /// # Errors
    /// [`SessionError::Read`] if the ticket does not allow the read.
    pub fn read_ahead(&mut self, ticket: &Ticket, offset: u64, len: u64) -> Result<u64, SessionError> {
        self.refuse_heirs()?;
        super::reading::check(ticket, offset, len)?;
        let Some((link, true)) = self.shadows.first().map(|shadow| (shadow.link, shadow.up)) else { return Ok(0) };
        let mut said = 0;
        while ticket.access.contains(Access::CONSTANT) && said < len && self.reads.hints < CREDIT {
            let span = Span { key: ticket.key, offset: offset + said, len: (len - said).min(HINT_MAX) };
            let call = Frame::Call { op: HINT, token: Token(0), body: &Hint(span).to_bytes() };
            if self.driver.send(link, &call, Vec::new()).is_err() {
                break;
            }
            self.reads.hints += 1;
            said += span.len;
        }
        // It is said now, not when the rank has time for the session.
        self.driver.flush();
        Ok(said)
    }

    /// The service process has heard a hint; what it makes of it is its own.
    pub(super) fn hinted(&mut self, link: LinkId) {
        if self.is_first(link) {
            self.reads.hints = self.reads.hints.saturating_sub(1);
        }
    }
}
