//! What a group leaves to the next one as it is.
//!
//! Neighbouring groups share most of their inputs. A group that held its slots alone gives back at its end what the very
//! next group does not use, as far as that is certain, and keeps the rest: its references stay where they are, and each is
//! taken over by the member of the next group that names the same input, without a look at the slot. What that group does not
//! name in the same order is given back in its course. Long rows are kept and taken over as such, in [`rows`](super::rows).
//!
//! Kept content is idle, though its record still counts one reference. While there is some, no group is active and none
//! waits, so nobody can ask for a slot but the next group that is submitted.

use super::future::{Future, Runs};
use super::group::{GONE, Reference};
use super::input::Names;
use super::machine::Stencil;
use super::rows::LONG;
use super::storage::Lent;
use super::turn::Holds;
use crate::cache::policy::Next;
use crate::cache::slot::NIL;

/// References of a group that ended, in its places: those from here up to there that are not [`GONE`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// The group's record, a spare one. Unless it is the first of them when the next group is submitted, all is given back.
    pub(super) index: u32,
    pub(super) from: u32,
    pub(super) end: u32,
    /// The first reference of each row tells how long it is; see [`super::rows`].
    pub(super) long: bool,
}

impl Kept {
    pub(super) const NOTHING: Kept = Kept { index: NIL, from: 0, end: 0, long: false };

    /// Takes out the next reference; its slot.
    pub(super) fn next(&mut self, places: &[Reference]) -> Option<u32> {
        while self.from < self.end {
            let slot = places.get(self.from as usize)?.slot;
            self.from += 1;
            if slot != GONE {
                return Some(slot);
            }
        }
        None
    }
}

impl<L: Lent, N: Names, F: Future> Stencil<L, N, F> {
    /// Whether this group, which is to be freed, may keep references.
    #[inline]
    pub(super) fn may_keep(&self, index: u32) -> bool {
        self.alone == index && self.active == 1 && self.waiting.first == NIL
    }

    /// Gives back what the very next group does not use, and keeps the rest.
    #[inline]
    pub(super) fn keep(&mut self, index: u32, members: u32) {
        let runs = self.future.next_runs(self.present);
        if runs.length() >= LONG {
            self.keep_in::<true>(runs, index, members);
        } else {
            self.keep_in::<false>(runs, index, members);
        }
    }

    /// Keeps what is in these runs, which are long or not.
    #[inline(never)]
    fn keep_in<const LONG: bool>(&mut self, mut runs: Runs, index: u32, members: u32) {
        self.kept = Kept { index, from: 0, end: members, long: LONG };
        self.alone = NIL;
        let first = (index * self.stride) as usize;
        let names = &self.names;
        let references = &mut self.references.as_mut()[first..][..members as usize];
        let mut holds = Holds::<L, F>::apart(&mut self.pool, self.inputs.as_mut(), &self.future, &self.present);
        let mut at = 0;
        while let Some(reference) = references.get_mut(at as usize) {
            let Reference { input, slot, .. } = *reference;
            // There is one for each number.
            let data = names.data(input).unwrap_or(u64::MAX);
            if holds.inputs[input as usize].unclaimed != 0 && (runs.contains(data) || runs.reaches(data)) {
                if LONG {
                    // What goes on with this one needs no look, as far as the run goes.
                    let end = self.apart.from(at + 1).unwrap_or(members).min(members);
                    reference.next = u64::from(end - at).min(runs.left(data)) as u32;
                    at += reference.next;
                } else {
                    at += 1;
                }
                continue;
            }
            (reference.input, reference.slot) = (NIL, GONE);
            holds.let_only_go(slot, input, data);
            at += 1;
        }
    }

    /// Gives back all that is kept.
    #[inline]
    pub(super) fn give_back_kept(&mut self) {
        if self.kept.index != NIL {
            self.give_back_all_kept();
        }
    }

    #[cold]
    fn give_back_all_kept(&mut self) {
        let places = &self.references.as_ref()[(self.kept.index * self.stride) as usize..];
        let coming = Next::At(self.pool.policy.coming());
        while let Some(slot) = self.kept.next(places) {
            self.pool.release(slot, coming);
        }
        self.kept = Kept::NOTHING;
    }

    /// How much is kept.
    pub(super) fn kept_idle(&self) -> u32 {
        let Kept { index, from, end, .. } = self.kept;
        if index == NIL {
            return 0;
        }
        let first = index * self.stride;
        let kept = &self.references.as_ref()[(first + from) as usize..(first + end) as usize];
        kept.iter().filter(|reference| reference.slot != GONE).count() as u32
    }
}
