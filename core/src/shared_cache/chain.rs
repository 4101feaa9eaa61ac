//! The index: buckets, and a chain of slots in each.
//!
//! Anybody follows a chain at any time. Whoever changes one has its bucket to himself; the word of the bucket names
//! him. Every change is one store into one word, and a chain is whole before it and after it: if a process dies in
//! between, whoever buries it takes its mark off the bucket, and no more. Only slots that somebody claimed are put
//! into a chain or taken out, so a slot that is in a chain is in that of its data.
//!
//! One who follows a chain while its slots are given to other data may end in another chain, and miss what he looks
//! for; so only those who have the bucket to themselves know that something is *not* there.

use crate::atomic::{AtomicU64, Ordering, spin_hint};
use crate::fetch::fetch_to_read;
use crate::shared_slots::Owner;

use super::error::Blocked;
use super::layout::{NIL, Parts};

/// Who has the bucket to himself: his number and one.
const LOCK: u32 = 32;
/// Slots that are looked at without having the bucket.
const HOPS: usize = 32;
/// Looks at a bucket that another has before the caller is told.
const SPINS: u32 = if cfg!(loom) { 2 } else { 1 << 7 };

/// A bucket that this client has to himself.
#[derive(Debug)]
#[must_use = "a bucket that is not given back stops others"]
pub(super) struct Held<'p, 'a> {
    parts: &'p Parts<'a>,
    head: &'a AtomicU64,
    bucket: usize,
    mark: u64,
}

/// A slot that had the data that was looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Met<'a> {
    pub(super) slot: u32,
    pub(super) word: &'a AtomicU64,
    pub(super) key: &'a AtomicU64,
}

/// What a slot hangs on in its chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The word that names the slot; `None` if it is the bucket's own.
    before: Option<&'a AtomicU64>,
}

impl<'a> Parts<'a> {
    /// The first slot of the chain in which `data` is, or no slot.
    #[inline]
    pub(super) fn first(&self, data: u64) -> u32 {
        // ORDERING: acquire pairs with the stores below, so that the slot is seen as it was put there.
        self.heads.get(self.bucket(data)).map_or(NIL, |head| head.load(Ordering::Acquire) as u32)
    }

    /// The slot of `data`, if it is met on the way.
    #[inline]
    pub(super) fn glance(&self, data: u64) -> Option<Met<'a>> {
        self.glance_from(self.first(data), data)
    }

    /// The slot of `data`, if it is met on the way from this one.
    #[inline]
    pub(super) fn glance_from(&self, mut slot: u32, data: u64) -> Option<Met<'a>> {
        for _ in 0..HOPS {
            let [word, key] = self.slots.get(slot as usize)?;
            let link = self.links.get(slot as usize)?;
            // If it is needed, then after the data has come, which takes as long.
            fetch_to_read(link);
            if key.load(Ordering::Acquire) == data {
                return Some(Met { slot, word, key });
            }
            slot = link.load(Ordering::Acquire) as u32;
        }
        None
    }

    /// Has the bucket to itself, once nobody else has.
    pub(super) fn hold(&self, bucket: usize, owner: Owner) -> Result<Held<'_, 'a>, Blocked> {
        let mut spins = 0;
        loop {
            match self.try_hold(bucket, owner) {
                Err(busy @ Blocked::Busy { .. }) if spins == SPINS => return Err(busy),
                Err(Blocked::Busy { .. }) => {
                    spins += 1;
                    spin_hint();
                }
                result => return result,
            }
        }
    }

    /// Has the bucket to itself, or does not wait for it.
    pub(super) fn try_hold(&self, bucket: usize, owner: Owner) -> Result<Held<'_, 'a>, Blocked> {
        let head = self.heads.get(bucket).ok_or(Blocked::Damaged { at: bucket })?;
        let mark = u64::from(owner.number() + 1) << LOCK;
        let mut word = head.load(Ordering::Relaxed);
        for _ in 0..SPINS {
            if word >> LOCK != 0 {
                break;
            }
            // ORDERING: acquire pairs with the release of whoever had the bucket before.
            match head.compare_exchange(word, word | mark, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Held { parts: self, head, bucket, mark }),
                // If it is nobody's, somebody had it and gave it back in between.
                Err(now) => word = now,
            }
        }
        Err(Blocked::Busy { owner: (word >> LOCK).wrapping_sub(1) as u8 })
    }

    /// Takes the mark of an owner that does not run any more off all buckets.
    pub(super) fn release_all(&self, owner: Owner) {
        let mark = u64::from(owner.number() + 1);
        for head in self.heads {
            let word = head.load(Ordering::Relaxed);
            if word >> LOCK == mark {
                // ORDERING: acquire and release, so that what the dead one stored before is seen by the next.
                let _ = head.compare_exchange(word, word as u32 as u64, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}

impl<'a> Held<'_, 'a> {
    pub(super) fn bucket(&self) -> usize {
        self.bucket
    }

    /// The slot of the chain for which `is` holds, and where it hangs.
    fn search(&self, is: impl Fn(u32, u64) -> bool) -> Result<Option<(u32, Place<'a>)>, Blocked> {
        let damaged = |at: u32| Blocked::Damaged { at: at as usize };
        let mut place = Place { before: None };
        let mut at = self.head.load(Ordering::Relaxed) as u32;
        for _ in 0..=self.parts.slots.len() {
            if at == NIL {
                return Ok(None);
            }
            let [_, key] = self.parts.slots.get(at as usize).ok_or(damaged(at))?;
            if is(at, key.load(Ordering::Relaxed)) {
                return Ok(Some((at, place)));
            }
            let link = self.parts.links.get(at as usize).ok_or(damaged(at))?;
            (place, at) = (Place { before: Some(link) }, link.load(Ordering::Relaxed) as u32);
        }
        Err(damaged(at))
    }

    /// The slot of `data`, certainly.
    pub(super) fn find(&self, data: u64) -> Result<Option<u32>, Blocked> {
        Ok(self.search(|_, key| key == data)?.map(|(slot, _)| slot))
    }

    /// Where this slot hangs, if it is in this chain.
    pub(super) fn place(&self, slot: u32) -> Result<Option<Place<'a>>, Blocked> {
        Ok(self.search(|at, _| at == slot)?.map(|(_, place)| place))
    }

    /// Takes out a slot that this client claimed.
    pub(super) fn take_out(&self, slot: u32, place: Place<'a>) {
        let Some(link) = self.parts.links.get(slot as usize) else { return };
        let next = u64::from(link.load(Ordering::Relaxed) as u32);
        match place.before {
            Some(before) => before.store(next, Ordering::Release),
            None => self.head.store(next | self.mark, Ordering::Release),
        }
    }

    /// Puts a slot in front that this client claimed and that is in no chain.
    pub(super) fn put(&self, slot: u32) {
        let Some(link) = self.parts.links.get(slot as usize) else { return };
        link.store(u64::from(self.head.load(Ordering::Relaxed) as u32), Ordering::Release);
        // ORDERING: release publishes the slot's data and link.
        self.head.store(u64::from(slot) | self.mark, Ordering::Release);
    }
}

impl Drop for Held<'_, '_> {
    fn drop(&mut self) {
        // ORDERING: release pairs with the acquire of whoever has the bucket next.
        self.head.store(u64::from(self.head.load(Ordering::Relaxed) as u32), Ordering::Release);
    }
}
