//! A session in a child that was forked off.
//!
//! The child has copies of the session's descriptors and ciphers. A word that it said would come in the parent's name and
//! end the parent's links, and what it closed at an RDMA device would be closed for the parent. So there every call is
//! refused, and the end of the session only closes the child's descriptors.

use super::{Session, SessionError};
use crate::sys::fork;

impl Session {
    /// Whether this process was forked off the one that joined.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.life != fork::life()
    }

    /// Refuses a call in a child that was forked off.
    pub(super) fn refuse_heirs(&self) -> Result<(), SessionError> {
        if self.is_inherited() { Err(SessionError::Forked) } else { Ok(()) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_inherited() {
            std::mem::forget(self.exposure.take());
            std::mem::forget(std::mem::take(&mut self.exported));
            std::mem::forget(std::mem::take(&mut self.revoked));
        }
    }
}
