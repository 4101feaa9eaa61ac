//! Farthest next use first: the best that can be done, for a known future.

use super::{Next, Policy, Watch};
use crate::cache::slot::{LINKED, List, NIL, NO_LIST, NOWHERE, Slot};

/// Buckets at most.
const BUCKETS_MAX: usize = 4096;
const WORDS: usize = BUCKETS_MAX / 64;
const _: () = assert!(BUCKETS_MAX <= NO_LIST as usize, "no bucket is NO_LIST");

/// A calendar: content lies in the bucket of its next use, and what is used last leaves first.
///
/// Points of time are the caller's own count, such as the number of a group. A bucket is `2^shift` points wide;
/// within a bucket the newest leaves first. Content whose next use is not known, or lies behind the last bucket,
/// leaves before all other, least recently used first. The calendar goes around as [`NextUse::now`] moves on;
/// content whose point has passed without a use counts as farthest.
///
/// *Cost*: a bucket's list and two words of a bitmap. Slots that stay in their bucket from one use to the next
/// are not moved. Four bytes a bucket.
///
/// Source: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
#[derive(Clone, Debug)]
pub struct NextUse<H> {
    heads: H,
    /// A bit for each bucket that has content.
    words: [u64; WORDS],
    /// A bit for each word that has a bit.
    summary: u64,
    unknown: List,
    /// A power of two, or 0.
    buckets: u64,
    shift: u32,
    now: u64,
}

impl<H: AsRef<[u32]> + AsMut<[u32]>> NextUse<H> {
    /// A calendar over the lent words, of which the largest power of two up to 4096 is used, wide enough
    /// for uses up to `horizon` points ahead.
    #[must_use]
    pub fn new(heads: H, horizon: u64) -> Self {
        let buckets = heads.as_ref().len().min(BUCKETS_MAX).checked_ilog2().map_or(0, |log| 1 << log);
        let (words, unknown) = ([0; WORDS], List::EMPTY);
        let mut policy = NextUse { heads, words, summary: 0, unknown, buckets, shift: 0, now: 0 };
        let reach = buckets.saturating_sub(1).max(1);
        while policy.shift < 63 && reach << policy.shift <= horizon && (reach << policy.shift) >> policy.shift == reach
        {
            policy.shift += 1;
        }
        policy.clear(&mut []);
        policy
    }

    /// Moves the present on; next uses lie behind it.
    #[inline]
    pub fn now(&mut self, point: u64) {
        self.now = point;
    }

    /// The very next point.
    #[inline]
    pub(crate) fn coming(&self) -> u64 {
        self.now.wrapping_add(1)
    }

    /// The list of content whose next use is at the very next point, in which it need not be moved; none has
    /// [`NO_LIST`] if that point is not told apart.
    #[inline]
    pub(crate) fn list_of_coming(&self) -> u16 {
        self.bucket(Next::At(self.coming())).unwrap_or(NO_LIST)
    }

    #[inline]
    fn bucket(&self, next: Next) -> Option<u16> {
        let Next::At(point) = next else { return None };
        let (point, now) = (point >> self.shift, self.now >> self.shift);
        // What has passed is far ahead, too, counted around the end of all numbers.
        (point.wrapping_sub(now) < self.buckets).then(|| (point & (self.buckets - 1)) as u16)
    }

    /// The bucket that is farthest ahead of all that have content.
    fn farthest(&self) -> Option<usize> {
        if self.summary == 0 {
            return None;
        }
        // Downwards from the bucket before the present one, around.
        let present = (self.now >> self.shift & self.buckets.wrapping_sub(1)) as usize;
        self.below(present).or_else(|| self.below(BUCKETS_MAX))
    }

    /// The highest bucket with content below this one.
    fn below(&self, bucket: usize) -> Option<usize> {
        let (word, bit) = (bucket / 64, bucket % 64);
        let here = self.words.get(word).map_or(0, |bits| bits & ((1 << bit) - 1));
        if here != 0 {
            return Some(word * 64 + here.ilog2() as usize);
        }
        let words = if word >= 64 { self.summary } else { self.summary & ((1 << word) - 1) };
        let word = words.checked_ilog2()? as usize;
        Some(word * 64 + self.words[word].checked_ilog2()? as usize)
    }

    /// Moves to the front what is used nobody knows when.
    #[inline(never)]
    fn place_unknown(&mut self, slots: &mut [Slot], slot: u32) {
        if slots[slot as usize].is(LINKED) {
            if self.unknown.first == slot {
                return;
            }
            self.unlink(slots, slot);
        }
        slots[slot as usize].noted = NOWHERE;
        self.unknown.push(slots, slot);
    }

    #[inline(always)]
    fn link(&mut self, slots: &mut [Slot], slot: u32, bucket: u16) {
        let at = usize::from(bucket);
        let head = core::mem::replace(&mut self.heads.as_mut()[at], slot);
        let this = &mut slots[slot as usize];
        this.set(LINKED);
        (this.noted, this.prev, this.next) = (bucket, NIL, head);
        if let Some(second) = slots.get_mut(head as usize) {
            second.prev = slot;
        } else {
            self.words[at / 64] |= 1 << (at % 64);
            self.summary |= 1 << (at / 64);
        }
    }

    #[inline(always)]
    fn unlink(&mut self, slots: &mut [Slot], slot: u32) {
        let this = &mut slots[slot as usize];
        let (prev, next, list) = (this.prev, this.next, this.noted);
        if list == NOWHERE {
            return self.unlink_unknown(slots, slot);
        }
        this.clear(LINKED);
        if let Some(after) = slots.get_mut(next as usize) {
            after.prev = prev;
        }
        if let Some(before) = slots.get_mut(prev as usize) {
            before.next = next;
        } else {
            self.unlink_first(usize::from(list), next);
        }
    }

    #[inline(never)]
    fn unlink_unknown(&mut self, slots: &mut [Slot], slot: u32) {
        self.unknown.unlink(slots, slot);
    }

    /// The first of a bucket has left it.
    #[inline(never)]
    fn unlink_first(&mut self, bucket: usize, next: u32) {
        self.heads.as_mut()[bucket] = next;
        if next == NIL {
            self.words[bucket / 64] &= !(1 << (bucket % 64));
            if self.words[bucket / 64] == 0 {
                self.summary &= !(1 << (bucket / 64));
            }
        }
    }
}

impl<H: AsRef<[u32]> + AsMut<[u32]>> Policy for NextUse<H> {
    fn clear(&mut self, _: &mut [Slot]) {
        self.heads.as_mut().fill(NIL);
        (self.words, self.summary, self.unknown, self.now) = ([0; WORDS], 0, List::EMPTY, 0);
    }

    #[inline]
    fn hit(_: &mut Slot) {}

    // Inlined, as it is most of what it costs to give a slot back.
    #[inline(always)]
    fn idle(&mut self, slots: &mut [Slot], slot: u32, next: Next) {
        let Some(bucket) = self.bucket(next) else { return self.place_unknown(slots, slot) };
        let this = &slots[slot as usize];
        let (linked, list) = (this.is(LINKED), this.noted);
        if linked {
            if list == bucket {
                return;
            }
            self.unlink(slots, slot);
        }
        self.link(slots, slot, bucket);
    }

    #[inline]
    fn leave(&mut self, slots: &mut [Slot], slot: u32) {
        if slots[slot as usize].is(LINKED) {
            self.unlink(slots, slot);
        }
    }

    fn victim(&mut self, slots: &mut [Slot], watch: &mut impl Watch) -> Option<u32> {
        if let Some(slot) = self.unknown.oldest(slots, watch) {
            return Some(slot);
        }
        while let Some(bucket) = self.farthest() {
            let slot = self.heads.as_ref()[bucket];
            self.unlink(slots, slot);
            watch.comes_by(&mut slots[slot as usize]);
            if slots[slot as usize].is_idle() {
                return Some(slot);
            }
        }
        None
    }
}
