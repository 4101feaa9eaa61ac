//! Groups claim what they use, and take hold of what is there.

use core::ops::Range;

use super::error::SubmitError;
use super::future::Future;
use super::group::{GONE, Reference};
use super::input::{Input, Names};
use super::kept::Kept;
use super::machine::{Member, Stencil};
use super::marks::Marks;
use super::storage::Lent;
use crate::cache::policy::{Next, NextUse};
use crate::cache::pool::Retaining;
use crate::cache::slot::{LINKED, NIL, Slot, VALID};

impl<L: Lent, N: Names, F: Future> Stencil<L, N, F> {
    /// Claims what the members use, in the places of this group, and takes hold of their slots if it is its turn: as far
    /// as that goes without being refused. What is kept in these places is taken over, or given back.
    // A function of its own has the registers that the loop needs.
    #[inline(never)]
    pub(super) fn claim_all<const TURN: bool>(
        &mut self,
        index: u32,
        members: impl Iterator<Item = Member>,
        refused: &mut Option<SubmitError>,
    ) -> Census {
        let first = (index * self.stride) as usize;
        let places = &mut self.references.as_mut()[first..][..self.stride as usize];
        let (inputs, kept) = (self.inputs.as_mut(), &mut self.kept);
        // How long rows are isn't kept up here.
        kept.long = false;
        let mut hands = Hands::new(self.pool.retaining());
        let (mut at, mut from, end) = (0, kept.from as usize, (kept.end as usize).min(places.len()));
        for member in members {
            if at >= places.len() {
                *refused = Some(SubmitError::TooManyMembers { have: places.len() });
                break;
            }
            let (reference, input) = match claim(&self.names, inputs, member, index) {
                Ok(claimed) => claimed,
                Err(error) => {
                    *refused = Some(error);
                    break;
                }
            };
            debug_assert!(from >= at.min(end), "what is kept is behind what was written");
            if !TURN {
                places[at] = reference;
            } else if from < end && places[from].input == reference.input {
                places[at] = reference.at(places[from].slot);
                from += 1;
            } else if from + 1 < end && places[from].slot == GONE && places[from + 1].input == reference.input {
                places[at] = reference.at(places[from + 1].slot);
                from += 2;
            } else {
                let slot;
                (from, slot) = hands.hold(&places[..end], from, at, reference.input, input.slot);
                places[at] = reference.at(slot);
            }
            at += 1;
            // A member that panics leaves what is kept behind it.
            kept.from = from as u32;
        }
        if TURN {
            while let Some(kept) = kept.next(places) {
                hands.give_back(kept);
            }
            *kept = Kept::NOTHING;
        }
        hands.census(at as u32)
    }

    /// Undoes what was done for the first references of a group that is refused.
    pub(super) fn unclaim(&mut self, references: Range<u32>) {
        let references = references.start as usize..references.end as usize;
        for reference in &self.references.as_ref()[references.clone()] {
            self.inputs.as_mut()[reference.input as usize].unclaim();
        }
        for at in references {
            let Reference { input, slot, .. } = self.references.as_ref()[at];
            if slot == NIL || !self.pool.at(slot).is(VALID) {
                continue;
            }
            if self.pool.at(slot).is(LINKED) {
                // It is where it was.
                self.pool.release_in_place(slot);
            } else {
                // The last reference to what was kept puts it in the order: it may never have been there.
                self.let_go(slot, input);
            }
        }
    }
}

/// Claims one use of an input for a group; tells the reference, and the input's record.
#[inline]
pub(super) fn claim<'a>(
    names: &impl Names,
    inputs: &'a mut [Input],
    member: Member,
    group: u32,
) -> Result<(Reference, &'a mut Input), SubmitError> {
    let (Member::Load(data) | Member::Scratch(data)) = member;
    let number = names.number(data).ok_or(SubmitError::UnknownData { data })?;
    let input = inputs.get_mut(number as usize).ok_or(SubmitError::UnknownData { data })?;
    input.claim(data)?;
    Ok((Reference::new(number, group, matches!(member, Member::Scratch(_))), input))
}

/// What takes hold of the slots of a group.
pub(super) struct Hands<'a, S: AsRef<[Slot]> + AsMut<[Slot]>, B: AsRef<[u32]> + AsMut<[u32]>> {
    slots: Retaining<'a, S, NextUse<B>>,
    pub(super) census: Census,
    /// Members that took over nothing.
    others: u32,
}

impl<'a, S: AsRef<[Slot]> + AsMut<[Slot]>, B: AsRef<[u32]> + AsMut<[u32]>> Hands<'a, S, B> {
    #[inline]
    pub(super) fn new(slots: Retaining<'a, S, NextUse<B>>) -> Self {
        Hands { slots, census: Census::default(), others: 0 }
    }

    /// Has a member take over what is kept behind what is not, or else take hold of the slot that it has. Tells where the rest
    /// begins of what is kept, in front of which the member's place is then, and its slot.
    // Not inlined, so that the members of which there are most have all registers.
    #[inline(never)]
    fn hold(&mut self, kept: &[Reference], mut from: usize, at: usize, input: u32, slot: u32) -> (usize, u32) {
        while let Some(next) = kept.get(from) {
            if next.input == input {
                return (from + 1, next.slot);
            }
            let gone = next.slot == GONE;
            if !gone && from > at {
                break;
            }
            if !gone {
                self.give_back(next.slot);
            }
            from += 1;
            if !gone {
                break;
            }
        }
        self.hold_other(at, slot);
        (from, slot)
    }

    /// Has a member that took over nothing take hold of the slot that it has.
    #[inline]
    pub(super) fn hold_other(&mut self, at: usize, slot: u32) {
        self.others += 1;
        let held = self.slots.retain_content(slot);
        self.census.note(at as u32, held);
    }

    /// Gives back what was kept for the group.
    #[inline(never)]
    pub(super) fn give_back(&mut self, slot: u32) {
        let coming = Next::At(self.slots.pool.policy.coming());
        self.slots.pool.release(slot, coming);
    }

    /// The census of so many members.
    #[inline]
    pub(super) fn census(self, members: u32) -> Census {
        let taken = members - self.others;
        let alone = self.slots.first + taken + self.census.without == members;
        Census { members, alone, ..self.census }
    }
}

/// What the members of a group have when its turn comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Census {
    /// All members.
    pub(super) members: u32,
    /// How many have no slot, and which those are.
    pub(super) without: u32,
    pub(super) lacking: Marks,
    /// Those whose slot is not held yet.
    pub(super) not_held: u32,
    /// Nobody else holds any of the slots, and none is held twice.
    pub(super) alone: bool,
    /// Those that may not [go on a row](super::rows).
    pub(super) apart: Marks,
}

impl Default for Census {
    fn default() -> Self {
        Census { members: 0, without: 0, lacking: Marks::NONE, not_held: 0, alone: false, apart: Marks::ALL }
    }
}

impl Census {
    /// Counts a member that holds its slot, or does not hold it yet, or has none.
    #[inline]
    pub(super) fn note(&mut self, member: u32, held: Option<bool>) {
        match held {
            Some(true) => {}
            Some(false) => self.not_held += 1,
            None => {
                self.without += 1;
                self.lacking.mark(member);
            }
        }
    }
}
