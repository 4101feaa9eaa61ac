//! Groups that lie on long rows: what is kept for them is taken over row by row.
//!
//! A row of a group is a stretch of members whose ids and numbers go on by one. Where the next group needs it as it is, it is
//! kept as it is, and its first reference tells in `next` how long it is. The member that names its first input is expected to
//! be followed by those that name the others: one comparison each, and a use to claim, of which more must be left. Everything
//! else goes its way member by member.
//!
//! Which members begin a row is marked when a group claims its uses, and so is who claims the last use of an input: that one
//! is not kept.

use core::cell::Cell;

use super::claim::{Census, Hands, claim};
use super::error::SubmitError;
use super::future::Future;
use super::group::{GONE, Reference};
use super::input::{Input, Names};
use super::kept::Kept;
use super::machine::{Member, Stencil};
use super::marks::Marks;
use super::storage::Lent;

/// From how many members on a row is long.
pub(super) const LONG: u64 = 4;

impl<L: Lent, N: Names, F: Future> Stencil<L, N, F> {
    /// [`Stencil::claim_all`] for a group whose turn it is, while [rows are kept](Kept::long).
    // A function of its own has the registers that the loop needs.
    #[inline(never)]
    pub(super) fn claim_rows(&mut self, index: u32, mut ids: &[u64], refused: &mut Option<SubmitError>) -> Census {
        let first = (index * self.stride) as usize;
        let places = &mut self.references.as_mut()[first..][..self.stride as usize];
        let (names, inputs) = (&self.names, self.inputs.as_mut());
        let mut hands = Hands::new(self.pool.retaining());
        // Names may be anybody's code: if that panics, slots stay held, and none is given back twice.
        let kept = core::mem::replace(&mut self.kept, Kept::NOTHING);
        let (mut at, mut from, end) = (0, kept.from as usize, (kept.end as usize).min(places.len()));
        let mut apart = Marks::NONE;
        loop {
            while from < end && places[from].slot == GONE {
                from += 1;
            }
            if let (Some(&next), [data, ..]) = (places[..end].get(from), ids)
                && names.data(next.input) == Some(*data)
                && !next.is_scratch()
                && let Some(taken) = take_over(places, inputs, ids, at, from)
            {
                if !follows(names, places, at, next.input, *data) {
                    apart.mark(at as u32);
                }
                let next = data.wrapping_add(taken as u64);
                ids = &ids[taken..];
                (at, from) = (at + taken, from + taken);
                // A row mostly goes on with an input that was not kept.
                if ids.first() != Some(&next) {
                    continue;
                }
            }
            let [data, behind @ ..] = ids else { break };
            if at >= places.len() {
                *refused = Some(SubmitError::TooManyMembers { have: places.len() });
                break;
            }
            let (reference, input) = match claim(names, inputs, Member::Load(*data), index) {
                Ok(claimed) => claimed,
                Err(error) => {
                    *refused = Some(error);
                    break;
                }
            };
            debug_assert!(from >= at.min(end), "what is kept is behind what was written");
            if input.unclaimed == 0 || !follows(names, places, at, reference.input, *data) {
                apart.mark(at as u32);
            }
            let slot = if from < end && places[from].input == reference.input {
                leave_first(places, from, end);
                from += 1;
                places[from - 1].slot
            } else {
                if from < end && from <= at {
                    let kept = places[from].slot;
                    if kept != GONE {
                        leave_first(places, from, end);
                        hands.give_back(kept);
                    }
                    from += 1;
                }
                hands.hold_other(at, input.slot);
                input.slot
            };
            places[at] = reference.at(slot);
            at += 1;
            ids = behind;
        }
        let mut kept = Kept { from: from as u32, ..kept };
        while let Some(kept) = kept.next(places) {
            hands.give_back(kept);
        }
        let census = hands.census(at as u32);
        Census { apart, ..census }
    }
}

/// Whether an input goes on by one from the one of the reference before this place.
#[inline(always)]
fn follows(names: &impl Names, places: &[Reference], at: usize, number: u32, data: u64) -> bool {
    let Some(before) = at.checked_sub(1) else { return false };
    let before = places[before].input;
    before.wrapping_add(1) == number && names.data(before).is_some_and(|before| before.wrapping_add(1) == data)
}

/// Makes what is kept behind this reference the rest of its row, if there is one.
#[inline]
fn leave_first(places: &mut [Reference], from: usize, end: usize) {
    let row = places[from].next;
    if row > 1 && from + 1 < end {
        places[from + 1].next = row - 1;
    }
}

/// Has the members with these ids take over the row of what is kept there, as long as each names its next input, of which more
/// than one use is left; the first does name its first one. Tells how many did.
#[inline(always)]
fn take_over(places: &mut [Reference], inputs: &mut [Input], ids: &[u64], at: usize, from: usize) -> Option<usize> {
    let cells = Cell::from_mut(places).as_slice_of_cells();
    let behind = cells.get(from..)?;
    let Reference { input, next: row, .. } = behind.first()?.get();
    let ids = &ids[..ids.len().min(row as usize)];
    let kept = behind.get(..ids.len())?;
    let places = cells.get(at..)?.get(..ids.len())?;
    let inputs = inputs.get_mut(input as usize..)?.get_mut(..ids.len())?;
    let (mut taken, first) = (0, *ids.first()?);
    while taken < ids.len() && ids[taken] == first.wrapping_add(taken as u64) && inputs[taken].claim_one_of_many() {
        places[taken].set(kept[taken].get());
        taken += 1;
    }
    if taken < row as usize
        && let Some(rest) = behind.get(taken)
    {
        let mut first = rest.get();
        first.next = row - taken as u32;
        rest.set(first);
    }
    (taken > 0).then_some(taken)
}
