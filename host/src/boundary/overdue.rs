//! What is missing: late, from who has ended, or where all is to be set.

use umbra_core::boundary::Key;
use umbra_core::time::Lapse;

use super::error::{BoundaryError, Late};
use super::scope::{Half, LOCAL, Scope};
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

    /// What is not received of what is to be set.
    pub(super) fn not_received(&mut self, scope: Scope) -> BoundaryError {
        let (mut first, mut count) = (None, 0);
        for &half in scope.halves().iter().filter(|&&half| self.halves[half] < Half::Received) {
            let mut note = |key: Key| {
                first = first.or(Some(key));
                count += 1;
            };
            if half == LOCAL {
                let (_, entries, channels) = self.machine.local();
                let missing = entries.iter().zip(channels).filter(|(_, channel)| !channel.state().is_received());
                missing.for_each(|(entry, _)| note(entry.key));
            } else {
                self.machine.missing().for_each(|missing| note(missing.key));
            }
        }
        BoundaryError::NotReceived { first, count }
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
