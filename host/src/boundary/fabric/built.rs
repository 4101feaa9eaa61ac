//! Which process a rank is built by, and whether that has ended.

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::crew::Identity;

use super::{Fabric, LINE};
use crate::boundary::transport::TransportError;
use crate::sys::process::{ProcessId, lives};

/// Where in the first line of its votes it says which process has built on the end of a rank, 0: none; and in which space of process
/// numbers.
const BUILT_BY: usize = 32;
const BUILT_IN: usize = 40;

impl Fabric {
    /// Makes this the end that the rank is built on, once and for all.
    pub(super) fn build(&mut self) -> Result<(), TransportError> {
        if !self.is_built {
            let mine = Identity::from(ProcessId::current().map_err(TransportError::Process)?).to_bits();
            // ORDERING: only who is first; what the ends write is published by votes.
            let built =
                self.built(self.rank, BUILT_BY)?.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
            let was_built = |by| TransportError::WasBuilt { rank: self.rank, pid: Identity::from_bits(by).pid() };
            built.map_err(was_built)?;
            self.built(self.rank, BUILT_IN)?.store(self.numbers, Ordering::Relaxed);
            self.is_built = true;
        }
        Ok(())
    }

    /// Who has built on the end of a rank, or where.
    fn built(&self, rank: u32, what: usize) -> Result<&AtomicU64, TransportError> {
        self.check(rank)?;
        Ok(self.segment.word(rank as usize * 2 * LINE + what)?)
    }

    /// See [`Transport::gone`](super::Transport::gone).
    pub(super) fn is_gone(&self, from: u32) -> Option<TransportError> {
        let [by, numbers] = [BUILT_BY, BUILT_IN].map(|what| self.built(from, what));
        let (by, numbers) = (by.ok()?.load(Ordering::Relaxed), numbers.ok()?.load(Ordering::Relaxed));
        let process = Identity::from_bits(by);
        // Of processes whose numbers are others there, nothing is known.
        let is_gone = by != 0 && numbers == self.numbers && !lives(process);
        is_gone.then(|| TransportError::Ended { rank: from, pid: process.pid() })
    }

    /// See [`Transport::ended`](super::Transport::ended).
    pub(super) fn has_ended(&self, from: u32, sequence: u32) -> Option<TransportError> {
        let why = self.is_gone(from)?;
        // Asked after its end: what it has sent before that is seen. What was taken may have the same number in an earlier epoch.
        let stamp = self.stamp(from, self.rank, sequence).ok()?.load(Ordering::Acquire);
        let has_sent = stamp as u32 == sequence && stamp != self.taken[self.stamp_at(from, sequence)];
        (!has_sent).then_some(why)
    }
}
