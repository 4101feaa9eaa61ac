//! A pool of objects with owners that are counted and handles that only know.
//!
//! [`Pool::get`] hands out an [`Owner`]; the object is free again when its last owner is dropped. A [`Weak`] is eight
//! bytes of plain data, for the wire, C or a device: it keeps nothing alive, and [`upgrade`](Pool::upgrade) and
//! [`is_valid`](Pool::is_valid) tell at any time whether its object still lives, also when its place was used again.
//!
//! ```
//! use umbra_core::boundary::{Class, Header, Pool};
//! let headers = [const { Header::new() }; 3];
//! let mut classes = [Class::new(1024, 2), Class::new(4096, 1)];
//! let pool = Pool::new(&headers, &mut classes)?;
//! let strip = pool.get(1000)?;
//! assert_eq!((strip.offset(), strip.len()), (0, 1024));
//! let weak = strip.weak();
//! let also = pool.upgrade(weak)?;
//! drop((strip, also));
//! assert!(!pool.is_valid(weak) && pool.upgrade(weak).is_err());
//! assert_eq!(pool.statistics().high_water, 1);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! What the pool is made over may be lent, or its own: arrays in firmware, lists on a host.
//!
//! The pool hands out places, not bytes: offset and length within an arena that its user has, which may be memory of
//! the host, shared, or registered with a device. An [`Exchange`](super::Exchange) needs none, for it packs from the fields
//! straight into slots; it is for whoever keeps strips or fields in such an arena, and tells a device where they lie.
//!
//! Invariants: a word of a header holds generation, life and owners at once, so an upgrade has no window; the generation
//! moves on when the last owner leaves; a slot whose generation would wrap is retired instead. So no handle ever names
//! a stranger.
//!
//! *Cost*: `get` and the drop of a last owner are two read-modify-writes each, all else one; lock-free, nothing
//! allocates. 16 bytes a slot.
//!
//! Source: Treiber, "Systems programming: coping with parallelism", IBM RJ 5118, 1986 (the free list).

use core::mem::ManuallyDrop;

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::error::Stale;

use super::class::Class;
use super::pool_error::{GetError, PoolError};
use super::slot::{Header, LIVE, NIL, OWNERS, Weak, free_word, generation, names};

/// What happened in a pool so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStatistics {
    /// Objects in use.
    pub live: u32,
    /// Slots that can be handed out.
    pub free: u32,
    /// Objects that were in use at once at most.
    pub high_water: u32,
    /// Times that nothing was handed out.
    pub failures: u32,
    /// Slots that will never be used again.
    pub retired: u32,
    /// Bytes of the objects in use.
    pub bytes: u64,
}

/// The pool, over headers and classes that are lent or its own.
#[derive(Debug)]
pub struct Pool<H, C> {
    headers: H,
    classes: C,
    /// Of all classes.
    slots: u32,
    live: AtomicU32,
    high_water: AtomicU32,
    failures: AtomicU32,
    retired: AtomicU32,
    bytes: AtomicU64,
}

impl<H: AsRef<[Header]>, C: AsRef<[Class]>> Pool<H, C> {
    /// A pool over headers and classes, of which the slots lie one behind the other in the arena. Headers that were
    /// another pool's before keep their generations, so its handles stay invalid.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn new(headers: H, mut classes: C) -> Result<Pool<H, C>, PoolError>
    where
        C: AsMut<[Class]>,
    {
        let (mut first, mut offset, mut size) = (0u64, 0u64, 0);
        for (at, class) in classes.as_mut().iter_mut().enumerate() {
            if class.size() <= size {
                return Err(PoolError::Unsorted { class: at });
            }
            size = class.size();
            class.place(first, offset);
            first += u64::from(class.count());
            offset += u64::from(class.count()) * u64::from(size);
        }
        let have = headers.as_ref().len();
        if first > have as u64 || first >= u64::from(NIL) {
            return Err(PoolError::TooFewHeaders { need: first, have });
        }
        let mut pool = Pool {
            headers,
            classes,
            slots: first as u32,
            live: AtomicU32::new(0),
            high_water: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            retired: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
        };
        pool.reset();
        Ok(pool)
    }

    #[inline]
    fn headers(&self) -> &[Header] {
        let all = self.headers.as_ref();
        all.get(..self.slots as usize).unwrap_or(all)
    }

    #[inline]
    fn header(&self, index: u32) -> Option<&Header> {
        self.headers().get(index as usize)
    }

    /// Bytes of the arena that the classes need.
    #[must_use]
    pub fn arena_bytes(&self) -> u64 {
        self.classes
            .as_ref()
            .last()
            .map_or(0, |class| class.offset() + u64::from(class.count()) * u64::from(class.size()))
    }

    /// Starts anew: no handle from before is valid any more. That there are no owners is what `&mut` says.
    pub fn reset(&mut self) {
        let mut retired = 0;
        for (at, class) in self.classes.as_ref().iter().enumerate() {
            class.clear();
            // Backwards, so that the first slots are handed out first.
            for index in (class.first()..class.first() + class.count()).rev() {
                let Some(header) = self.header(index) else { continue };
                header.class.store(at as u32, Ordering::Relaxed);
                match generation(header.word.load(Ordering::Relaxed)).checked_add(1) {
                    Some(next) => {
                        header.word.store(u64::from(next) << 32, Ordering::Relaxed);
                        class.push(index, &header.next);
                    }
                    None => retired += 1,
                }
            }
        }
        self.live.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.retired.store(retired, Ordering::Relaxed);
    }

    /// An object of at least so many bytes, with one owner.
    ///
    /// # Errors
    /// [`GetError`].
    pub fn get(&self, bytes: u32) -> Result<Owner<'_, H, C>, GetError> {
        let classes = self.classes.as_ref();
        let fits = classes.iter().position(|class| class.size() >= bytes);
        let Some(first) = fits else {
            let largest = classes.last().map_or(0, Class::size);
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Err(GetError::TooLarge { bytes, largest });
        };
        for class in &classes[first..] {
            let Some(index) = class.pop(self.headers()) else { continue };
            let Some(header) = self.header(index) else { continue };
            let generation = generation(header.word.load(Ordering::Relaxed));
            // ORDERING: relaxed; what the last user did happened before by the free list.
            header.word.store(u64::from(generation) << 32 | LIVE | 1, Ordering::Relaxed);
            let live = self.live.fetch_add(1, Ordering::Relaxed) + 1;
            self.high_water.fetch_max(live, Ordering::Relaxed);
            self.bytes.fetch_add(u64::from(class.size()), Ordering::Relaxed);
            return Ok(Owner { pool: self, weak: Weak { index, generation } });
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        Err(GetError::Exhausted { bytes })
    }

    /// Whether the object that this handle names still has owners; a moment later it may have none.
    #[must_use]
    #[inline]
    pub fn is_valid(&self, weak: Weak) -> bool {
        self.header(weak.index).is_some_and(|header| names(header.word.load(Ordering::Acquire), weak))
    }

    /// Becomes an owner of the object, if it still has one.
    ///
    /// # Errors
    /// [`Stale`] if it has not, or has 2^31 - 1.
    pub fn upgrade(&self, weak: Weak) -> Result<Owner<'_, H, C>, Stale> {
        let header = self.header(weak.index).ok_or(Stale)?;
        let mut word = header.word.load(Ordering::Relaxed);
        loop {
            if !names(word, weak) || word & OWNERS == OWNERS {
                return Err(Stale);
            }
            // ORDERING: acquire, so that the new owner sees what those before did with the object.
            match header.word.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(Owner { pool: self, weak }),
                // Somebody else came or went; each of them does so once.
                Err(now) => word = now,
            }
        }
    }

    /// Where the object of a slot lies in the arena, whoever owns it: offset and bytes.
    #[must_use]
    pub fn place(&self, index: u32) -> Option<(u64, u32)> {
        let header = self.header(index)?;
        let class = self.classes.as_ref().get(header.class.load(Ordering::Relaxed) as usize)?;
        let nth = index.checked_sub(class.first())?;
        Some((class.offset() + u64::from(nth) * u64::from(class.size()), class.size()))
    }

    /// Calls `give_back` with offset and bytes of every slot that is free, and with no other: what a user does who wants
    /// to return memory to the system. Nobody may use the pool meanwhile, which `&mut` says. Returns the bytes.
    pub fn trim(&mut self, mut give_back: impl FnMut(u64, u32)) -> u64 {
        let mut bytes = 0;
        for index in 0..self.slots {
            let free = self.header(index).is_some_and(|header| header.word.load(Ordering::Relaxed) & LIVE == 0);
            if let (true, Some((offset, len))) = (free, self.place(index)) {
                give_back(offset, len);
                bytes += u64::from(len);
            }
        }
        bytes
    }

    /// Figures; exact while nobody takes or gives back.
    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        let (live, retired) = (self.live.load(Ordering::Relaxed), self.retired.load(Ordering::Relaxed));
        PoolStatistics {
            live,
            free: self.slots.saturating_sub(live).saturating_sub(retired),
            high_water: self.high_water.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            retired,
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Drops an owner that was [kept](Owner::keep) as plain data. Whether it was the last, so that the object is free.
    ///
    /// # Errors
    /// [`Stale`] if the object has no owner; then nothing has changed.
    pub fn release(&self, weak: Weak) -> Result<bool, Stale> {
        let header = self.header(weak.index).ok_or(Stale)?;
        let mut word = header.word.load(Ordering::Relaxed);
        loop {
            if !names(word, weak) {
                return Err(Stale);
            }
            let last = word & OWNERS == 1;
            let now = if last { free_word(word) } else { word - 1 };
            // ORDERING: release what this owner did with the object, and for the last one acquire what others did.
            match header.word.compare_exchange_weak(word, now, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if last => break,
                Ok(_) => return Ok(false),
                Err(now) => word = now,
            }
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
        if let Some(class) = self.classes.as_ref().get(header.class.load(Ordering::Relaxed) as usize) {
            self.bytes.fetch_sub(u64::from(class.size()), Ordering::Relaxed);
            if weak.generation == u32::MAX {
                self.retired.fetch_add(1, Ordering::Relaxed);
            } else {
                class.push(weak.index, &header.next);
            }
        }
        Ok(true)
    }
}

/// One of the owners of an object.
#[derive(Debug)]
pub struct Owner<'p, H: AsRef<[Header]>, C: AsRef<[Class]>> {
    pool: &'p Pool<H, C>,
    weak: Weak,
}

impl<'p, H: AsRef<[Header]>, C: AsRef<[Class]>> Owner<'p, H, C> {
    /// Another owner of the same object: what an operation in flight holds, so that nobody gives back what it uses.
    ///
    /// # Errors
    /// [`Stale`] if there are 2^31 - 1 already.
    pub fn share(&self) -> Result<Owner<'p, H, C>, Stale> {
        self.pool.upgrade(self.weak)
    }

    /// Goes on to own the object as plain data, for C or a device, until [`Pool::release`] is told so. Who tells it more
    /// often than owners were kept takes the object from the others.
    #[must_use = "an object that nobody releases is never free again"]
    pub fn keep(self) -> Weak {
        ManuallyDrop::new(self).weak
    }

    /// A handle that keeps nothing.
    #[must_use]
    pub const fn weak(&self) -> Weak {
        self.weak
    }

    /// Where the object begins in the arena.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.pool.place(self.weak.index).map_or(0, |(offset, _)| offset)
    }

    /// Its bytes: at least as many as were asked for.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.pool.place(self.weak.index).map_or(0, |(_, len)| len)
    }

    /// An object has at least one byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }
}

impl<H: AsRef<[Header]>, C: AsRef<[Class]>> Drop for Owner<'_, H, C> {
    fn drop(&mut self) {
        // Stale if somebody has released more than was kept.
        let _ = self.pool.release(self.weak);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
