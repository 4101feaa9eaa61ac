//! Parties at a barrier that came through a line, as both ends of it count them.
//!
//! A round begins when all parties of the one before have received, whoever did it for them. So parties that are counted
//! are all of one round, and whoever hears of a later one counts those before it no more.

use umbra_core::barrier::is_later;

/// Parties of one round that came and have not received since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counted {
    round: u32,
    parties: u32,
}

impl Counted {
    /// Whether there are any.
    pub(super) const fn are_there(self) -> bool {
        self.parties > 0
    }

    /// One comes, in this round.
    pub(super) const fn come(&mut self, round: u32) {
        let before = if self.round == round { self.parties } else { 0 };
        *self = Counted { round, parties: before.saturating_add(1) };
    }

    /// A message was received, or whatever was its own.
    pub(super) const fn receive(&mut self) {
        self.parties = self.parties.saturating_sub(1);
    }

    /// The latest round of which one of these counts any.
    pub(super) fn latest(all: impl Iterator<Item = Counted>) -> Option<u32> {
        let rounds = all.filter(|counted| counted.are_there()).map(|counted| counted.round);
        rounds.reduce(|latest, round| if is_later(round, latest) { round } else { latest })
    }

    /// Counts those of this round only.
    pub(super) const fn keep(&mut self, round: u32) {
        if self.round != round {
            self.parties = 0;
        }
    }
}
