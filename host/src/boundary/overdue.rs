//! What is missing after the deadline, or from a rank that has ended.

use umbra_core::time::Lapse;

use super::error::{BoundaryError, Late};
use super::tasks::Boundary;
use super::transport::Transport;

/// How long somebody waits before he asks whether those have ended whom he waits for, and before he asks again.
pub(super) const ASK: Lapse = Lapse::from_millis(100);

impl<T: Transport> Boundary<T> {
    /// Fails after the deadline of the open exchange, or once a rank has ended that has not sent all, and says what is missing.
    pub(super) fn in_time(&mut self) -> Result<(), BoundaryError> {
        let now = self.now();
        if now >= self.ask_at {
            self.ask_at = now + ASK;
            let (sequence, peers) = (self.machine.sequence(), self.machine.peers());
            let missing = (0..peers.len()).filter(|&peer| !self.machine.is_received(peer));
            let ended = missing.map(|peer| peers[peer].rank()).find_map(|from| self.transport.ended(from, sequence));
            if let Some(why) = ended {
                return Err(self.named(why.into()));
            }
        }
        if now <= self.machine.due() {
            return Ok(());
        }
        Err(BoundaryError::Late(Late { hindered: self.transport.hindered(), ..self.late() }))
    }

    /// What is missing. A rank whose message waits for those of others is not to blame, unless that has just changed.
    pub(super) fn late(&self) -> Late {
        let (missing, sequence) = (self.machine.missing(), self.machine.sequence());
        let late = Late::new(missing.filter(|missing| !self.transport.is_here(missing.rank, sequence)));
        if late.count > 0 { late } else { Late::new(self.machine.missing()) }
    }

    /// Says what is missing from a rank, if an error is of the way to it.
    pub(super) fn named(&self, error: BoundaryError) -> BoundaryError {
        let BoundaryError::Transport(why) = error else { return error };
        let late = Late::new(self.machine.missing().filter(|missing| why.unreached() == Some(missing.rank)));
        match late.count {
            0 => BoundaryError::Transport(why),
            _ => BoundaryError::Lost(Late { hindered: Some(why), ..late }),
        }
    }
}
