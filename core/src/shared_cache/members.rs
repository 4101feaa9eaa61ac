//! What processes that use a cache count, and what is taken back from dead ones.

use crate::atomic::Ordering;
use crate::crew::{BuryError, Identity, Liveness, Member};
use crate::shared_slots::Owner;

use super::error::{Blocked, JoinError, ReclaimError};
use super::layout::Parts;
use super::place::{NIL, Place};
use super::take::ATTEMPTS;
use super::word::{Field, Word};

/// What was taken back from a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reclaimed {
    /// References that it held.
    pub references: u64,
    /// Fills that it had begun and not ended.
    pub fills: u64,
    /// Slots that nobody uses any more, and that have no content.
    pub emptied: u64,
}

/// What an owner counts, by the word in its pocket.
#[derive(Clone, Copy)]
pub(super) enum Count {
    Loads,
    Evictions,
    Refused,
}

impl<'a> Parts<'a> {
    pub(super) fn field(&self, owner: Owner) -> Field {
        Field::new(owner, self.sharing.bits())
    }

    pub(super) fn count(&self, owner: Owner, what: Count) {
        let pocket = self.crew.pocket(owner.number().into());
        if let Some(word) = pocket.and_then(|words| words.get(what as usize)) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn counted(&self, what: Count) -> u64 {
        let pockets = (0..self.crew.capacity()).filter_map(|number| self.crew.pocket(number));
        let words = pockets.filter_map(|pocket| pocket.get(what as usize));
        words.fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
    }

    pub(super) fn join(&self, identity: Identity) -> Result<Owner, JoinError> {
        self.owner(self.crew.join(identity).ok())
    }

    /// As [`join`](Self::join), if need be in the place of a dead process, of which everything is taken back.
    pub(super) fn join_or_succeed(
        &self,
        identity: Identity,
        liveness: &impl Liveness,
        mut abandoned: impl FnMut(u32, u64),
    ) -> Result<Owner, JoinError> {
        let take_back = |dead: Member| {
            let dead = self.owner(Some(dead)).map_err(drop)?;
            self.take_back(dead, &mut abandoned).map(drop).map_err(drop)
        };
        self.owner(self.crew.join_or_succeed(identity, liveness, take_back).ok())
    }

    fn owner(&self, member: Option<Member>) -> Result<Owner, JoinError> {
        let number = member.and_then(|member| u8::try_from(member.number).ok());
        number.and_then(Owner::new).ok_or(JoinError::Full { owners: self.sharing.owners() })
    }

    /// Numbers that are taken, and by whom.
    pub(super) fn members(&self) -> impl Iterator<Item = (Owner, Identity)> + use<'a> {
        self.crew.members().filter_map(|member| Some((Owner::new(u8::try_from(member.number).ok()?)?, member.identity)))
    }

    pub(super) fn reclaim(
        &self,
        dead: Owner,
        identity: Identity,
        by: Owner,
        abandoned: impl FnMut(u32, u64),
    ) -> Result<Reclaimed, ReclaimError> {
        let unknown = ReclaimError::Unknown(dead);
        let member = self.crew.member(dead.number().into()).filter(|member| member.identity == identity);
        let buried = self.crew.bury(member.ok_or(unknown)?, by.number().into(), |_| self.take_back(dead, abandoned));
        buried.map_err(|error| match error {
            BuryError::Unknown => unknown,
            BuryError::InProgress { by } => ReclaimError::InProgress { by: by as u8 },
            BuryError::Failed(error) => error,
        })
    }

    /// Takes back what a dead process had, and tells those who wait for it.
    fn take_back(&self, dead: Owner, abandoned: impl FnMut(u32, u64)) -> Result<Reclaimed, ReclaimError> {
        self.queue.forsake(dead);
        let taken = self.take_back_slots(dead, abandoned);
        self.queue.call_first();
        self.queue.tell_all();
        taken
    }

    fn take_back_slots(&self, dead: Owner, mut abandoned: impl FnMut(u32, u64)) -> Result<Reclaimed, ReclaimError> {
        let field = self.field(dead);
        let mut all = Reclaimed::default();
        self.release_all(dead);
        // First all slots are where they belong.
        self.places().for_each(|place| self.unmove(place, dead));
        for place in self.places() {
            all.emptied += u64::from(self.unclaim(place, dead));
            let mut word = Word::of_slot(place.word());
            let (slot, data) = (place.slot(), place.key().load(Ordering::Acquire));
            let mut attempts = 0;
            while word.is_assigned() && (word.count(field) != 0 || word.is_filled_by(dead)) {
                let next = word.bereft(field, dead);
                match word.replace(place.word(), next) {
                    Ok(()) => {
                        all.references += u64::from(word.count(field));
                        all.emptied += u64::from(next.is_vacant());
                        // In damaged memory the number may be that of no slot, which nobody shall be told.
                        if word.is_filled_by(dead) && slot < self.slots {
                            all.fills += 1;
                            abandoned(slot, data);
                        }
                        break;
                    }
                    Err(_) if attempts == ATTEMPTS => return Err(Blocked::Busy { owner: word.by() }.into()),
                    Err(now) => (word, attempts) = (now, attempts + 1),
                }
            }
            // Also of slots that the dead one emptied without saying so.
            if Word::of_slot(place.word()).is_free() {
                self.vacancy.set(place.number());
            }
        }
        Ok(all)
    }

    /// Ends the move of a slot to a place that the dead one claimed, or takes it back, if the other place has the slot still.
    fn unmove(&self, place: Place<'a>, dead: Owner) {
        let word = Word::of_slot(place.word());
        if !word.is_moving_by(dead) {
            return;
        }
        let source = self.place(word.source()).filter(|source| Word::of_slot(source.word()).is_claimed_by(dead));
        if source.is_none_or(|source| source.slot() == NIL) {
            let _ = word.replace(place.word(), word.moved());
        } else {
            place.set_slot(NIL);
            let _ = word.replace(place.word(), word.bared());
        }
    }

    /// Gives up a place that the dead one claimed; whether it has a slot, which is empty now.
    fn unclaim(&self, place: Place<'a>, dead: Owner) -> bool {
        let word = Word::of_slot(place.word());
        if !word.is_claimed_by(dead) {
            return false;
        }
        // Nobody but the claimant changes a claimed place, and he is dead.
        let has_slot = place.slot() != NIL;
        self.forget(place);
        self.note_seat(place.slot(), place);
        let next = if has_slot { word.emptied() } else { word.bared() };
        word.replace(place.word(), next).is_ok() && has_slot
    }
}
