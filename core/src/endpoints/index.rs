//! An index of groups by key, which readers may use while the writer changes it.
//!
//! Open addressing with linear probing; the home of a key is in its low bits, which are as random as any: keys are
//! hashes under a secret of the job. Removal shifts followers back, so the index does not age. The writer makes the
//! version odd before it changes a cell and even afterwards; a reader that saw a change tries again, and after a few
//! tries looks through the directory, in which groups do not move.
//!
//! *Cost*: at most half of the cells are taken, so a few cells; the fallback is O(slots).

use super::arena::{Arena, load, store};
use super::identity::GroupKey;
use super::layout::{KEY_WORD, halves, pair};
use super::lookup::LookupError;
use crate::atomic::{Ordering, fence, spin_hint};

/// Attempts of a reader before it looks through the directory.
const TRIES: usize = 8;

const fn low(key: GroupKey) -> u64 {
    key.0 as u64
}

const fn tag(key: GroupKey) -> u32 {
    (key.0 >> 96) as u32
}

impl Arena<'_> {
    fn home(&self, low: u64) -> usize {
        low as usize & self.cells.len().wrapping_sub(1)
    }

    fn next(&self, cell: usize) -> usize {
        (cell + 1) & self.cells.len().wrapping_sub(1)
    }

    /// Slots whose cells match a key, in probe order; whether they hold the group must be checked there.
    fn candidates(&self, key: GroupKey) -> impl Iterator<Item = (usize, u32)> + '_ {
        let home = self.home(low(key));
        (0..self.cells.len())
            .map_while(move |step| {
                let at = (home + step) & self.cells.len().wrapping_sub(1);
                let word = self.cells.get(at).map(load).filter(|&word| word != 0)?;
                Some((at, word))
            })
            .filter_map(move |(at, word)| {
                let (slot, seen) = halves(word);
                (seen == tag(key)).then(|| slot.checked_sub(1)).flatten().map(|slot| (at, slot))
            })
    }

    /// What `holding` gives for the slot that has this group, and for no other one; for readers.
    pub(super) fn find<R>(&self, key: GroupKey, holding: impl Fn(u32) -> Option<R>) -> Result<Option<R>, LookupError> {
        let version = self.index_version()?;
        for _ in 0..TRIES {
            let before = load(version);
            // ORDERING: pairs with the release store that makes the version even in `change`.
            fence(Ordering::Acquire);
            let found = self.candidates(key).find_map(|(_, slot)| holding(slot));
            if found.is_some() {
                return Ok(found);
            }
            // ORDERING: the cells were read before the version is read again; pairs with the release fence behind
            // the odd version in `change`.
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && load(version) == before {
                return Ok(None);
            }
            spin_hint();
        }
        Ok((0..self.slots.len() as u32).find_map(holding))
    }

    fn change(&self, change: impl FnOnce()) -> Result<(), LookupError> {
        let version = self.index_version()?;
        let even = load(version) & !1;
        store(version, even.wrapping_add(1));
        // ORDERING: a reader that sees a changed cell then sees the odd version at least.
        fence(Ordering::Release);
        change();
        // ORDERING: a reader that sees the even version sees all changed cells.
        version.store(even.wrapping_add(2).to_le(), Ordering::Release);
        Ok(())
    }

    /// Adds a group; only the writer calls this, for a key that is not there.
    pub(super) fn insert(&self, key: GroupKey, slot: u32) -> Result<(), LookupError> {
        self.change(|| {
            let mut cell = self.home(low(key));
            for _ in 0..self.cells.len() {
                match self.cells.get(cell) {
                    Some(word) if load(word) == 0 => return store(word, pair(slot + 1, tag(key))),
                    _ => cell = self.next(cell),
                }
            }
        })
    }

    /// Takes a group out; only the writer calls this, before it frees the slot.
    pub(super) fn remove(&self, key: GroupKey, slot: u32) -> Result<(), LookupError> {
        let Some((mut hole, _)) = self.candidates(key).find(|&(_, found)| found == slot) else { return Ok(()) };
        self.change(|| {
            let mut cell = self.next(hole);
            for _ in 0..self.cells.len() {
                let word = self.cells.get(cell).map_or(0, load);
                if word == 0 {
                    break;
                }
                // A follower moves into the hole unless its home lies behind the hole.
                let (follower, _) = halves(word);
                let table = self.slot(follower.wrapping_sub(1)).and_then(|slot| self.table(slot));
                let key_low = table.and_then(|words| words.get(KEY_WORD)).map_or(0, load);
                let mask = self.cells.len().wrapping_sub(1);
                let from_home = cell.wrapping_sub(self.home(key_low)) & mask;
                if from_home >= cell.wrapping_sub(hole) & mask {
                    if let Some(to) = self.cells.get(hole) {
                        store(to, word);
                    }
                    hole = cell;
                }
                cell = self.next(cell);
            }
            if let Some(to) = self.cells.get(hole) {
                store(to, 0);
            }
        })
    }
}
