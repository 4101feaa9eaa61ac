//! A bounded table of values with counted holders.
//!
//! A slot is free, or it holds one value and counts who holds it: `take` puts a value in with one holder,
//! `retain` adds a holder, `release` removes one and gives the value back with the last. The most recently
//! freed slot is taken first, because its lines are still in the cache. One owner; the form for several
//! processes is [`shared_slots`](crate::shared_slots).
//!
//! ```
//! use umbra_core::slots::{Slot, Slots};
//! let mut requests = Slots::new([const { Slot::EMPTY }; 2]);
//! let id = requests.take("read")?;
//! requests.retain(id)?;
//! assert_eq!(requests.release(id), Ok(None));
//! assert_eq!(requests.release(id), Ok(Some("read")));
//! assert!(requests.get(id).is_err(), "the id is stale now");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: a slot is in the free list exactly if its count is zero; its generation moves on when its
//! last holder leaves, so no id outlives its value.
//!
//! *Cost*: every operation is O(1) and touches the slot named, or that taken, and no other.

use crate::error::{Full, Stale};
use crate::id::{Generation, Id};

const NIL: u32 = u32::MAX;

/// One place in the table; a [`Slots`] is lent an array of them.
#[derive(Clone, Debug)]
pub struct Slot<T> {
    generation: Generation,
    /// Holders; zero in the free list.
    count: u32,
    /// The free slot behind it in the list, while it is free.
    next: u32,
    value: Option<T>,
}

impl<T> Slot<T> {
    /// A slot that was never taken.
    pub const EMPTY: Self = Slot { generation: Generation::FIRST, count: 0, next: NIL, value: None };

    /// Puts it, whose value was taken out, in front of the free ones.
    #[inline(always)]
    fn free(&mut self, id: Id<T>, head: &mut u32, len: &mut u32) {
        self.count = 0;
        self.generation = self.generation.next();
        self.next = core::mem::replace(head, id.index());
        *len -= 1;
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The table; ids that it hands out are of type `Id<T>`.
#[derive(Clone, Debug)]
pub struct Slots<S> {
    slots: S,
    head: u32,
    len: u32,
}

impl<S> Slots<S> {
    /// An empty table over the lent slots; values that they hold are dropped.
    ///
    /// At most 2^32 - 1 slots are used.
    #[must_use]
    pub fn new<T>(mut slots: S) -> Self
    where
        S: AsRef<[Slot<T>]> + AsMut<[Slot<T>]>,
    {
        let all = slots.as_mut();
        let count = u32::try_from(all.len()).unwrap_or(NIL);
        for (index, slot) in (0..count).zip(all.iter_mut()) {
            // A slot that was in use before gets a new generation, so ids of the earlier table are stale.
            let generation = if slot.value.is_some() { slot.generation.next() } else { slot.generation };
            let next = if index + 1 < count { index + 1 } else { NIL };
            *slot = Slot { generation, count: 0, next, value: None };
        }
        Slots { slots, head: if count == 0 { NIL } else { 0 }, len: 0 }
    }

    /// Values in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no value is in the table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Values that the table can hold.
    #[must_use]
    pub fn capacity<T>(&self) -> usize
    where
        S: AsRef<[Slot<T>]>,
    {
        self.slots.as_ref().len()
    }

    /// The id that the next [`take`](Self::take) gives; `None` if the table is full.
    #[must_use]
    #[inline]
    pub fn next<T>(&self) -> Option<Id<T>>
    where
        S: AsRef<[Slot<T>]>,
    {
        self.slots.as_ref().get(self.head as usize).map(|slot| Id::new(self.head, slot.generation))
    }

    /// Puts a value into the most recently freed slot, with one holder.
    ///
    /// # Errors
    /// [`Full`] with the value; a release makes a retry worth while.
    #[inline(always)]
    pub fn take<T>(&mut self, value: T) -> Result<Id<T>, Full<T>>
    where
        S: AsRef<[Slot<T>]> + AsMut<[Slot<T>]>,
    {
        let index = self.head;
        let Some(slot) = self.slots.as_mut().get_mut(index as usize) else { return Err(Full(value)) };
        self.head = slot.next;
        slot.count = 1;
        slot.value = Some(value);
        self.len += 1;
        Ok(Id::new(index, slot.generation))
    }

    /// Adds a holder and returns how many there are.
    ///
    /// # Errors
    /// [`Stale`] if the value is gone, or if it has 2^32 - 1 holders.
    pub fn retain<T>(&mut self, id: Id<T>) -> Result<u32, Stale>
    where
        S: AsRef<[Slot<T>]> + AsMut<[Slot<T>]>,
    {
        let slot = held(&mut self.slots, id)?;
        slot.count = slot.count.checked_add(1).ok_or(Stale)?;
        Ok(slot.count)
    }

    /// Removes a holder; with the last one the value comes back and the slot is free.
    ///
    /// # Errors
    /// [`Stale`] if the value is gone.
    pub fn release<T>(&mut self, id: Id<T>) -> Result<Option<T>, Stale>
    where
        S: AsRef<[Slot<T>]> + AsMut<[Slot<T>]>,
    {
        let slot = held(&mut self.slots, id)?;
        if slot.count > 1 {
            slot.count -= 1;
            return Ok(None);
        }
        let value = slot.value.take();
        slot.free(id, &mut self.head, &mut self.len);
        Ok(value)
    }

    /// Takes the value out whatever its number of holders; their ids are stale from now on.
    ///
    /// # Errors
    /// [`Stale`] if the value is gone.
    #[inline]
    pub fn remove<T>(&mut self, id: Id<T>) -> Result<T, Stale>
    where
        S: AsRef<[Slot<T>]> + AsMut<[Slot<T>]>,
    {
        let slot = held(&mut self.slots, id)?;
        let value = slot.value.take().ok_or(Stale)?;
        slot.free(id, &mut self.head, &mut self.len);
        Ok(value)
    }

    /// As [`remove`](Self::remove), for whoever does not need the value any more: it is not moved.
    ///
    /// # Errors
    /// [`Stale`] if the value is gone.
    #[inline(always)]
    pub fn discard<T>(&mut self, id: Id<T>) -> Result<(), Stale>
    where
        S: AsRef<[Slot<T>]> + AsMut<[Slot<T>]>,
    {
        let slot = held(&mut self.slots, id)?;
        slot.value = None;
        slot.free(id, &mut self.head, &mut self.len);
        Ok(())
    }

    /// The value, if it is still there.
    ///
    /// # Errors
    /// [`Stale`] if it is gone.
    #[inline]
    pub fn get<T>(&self, id: Id<T>) -> Result<&T, Stale>
    where
        S: AsRef<[Slot<T>]>,
    {
        let slot = self.slots.as_ref().get(id.index() as usize).ok_or(Stale)?;
        match &slot.value {
            Some(value) if slot.generation == id.generation() => Ok(value),
            _ => Err(Stale),
        }
    }

    /// The value, to change it.
    ///
    /// # Errors
    /// [`Stale`] if it is gone.
    #[inline]
    pub fn get_mut<T>(&mut self, id: Id<T>) -> Result<&mut T, Stale>
    where
        S: AsRef<[Slot<T>]> + AsMut<[Slot<T>]>,
    {
        held(&mut self.slots, id)?.value.as_mut().ok_or(Stale)
    }

    /// The current id and value of a slot, if it is taken.
    #[must_use]
    #[inline]
    pub fn at<T>(&self, index: u32) -> Option<(Id<T>, &T)>
    where
        S: AsRef<[Slot<T>]>,
    {
        let slot = self.slots.as_ref().get(index as usize)?;
        slot.value.as_ref().map(|value| (Id::new(index, slot.generation), value))
    }

    /// All values, in the order of their indices; O(capacity).
    pub fn iter<'a, T: 'a>(&'a self) -> impl Iterator<Item = (Id<T>, &'a T)>
    where
        S: AsRef<[Slot<T>]>,
    {
        (0..NIL)
            .zip(self.slots.as_ref())
            .filter_map(|(index, slot)| slot.value.as_ref().map(|value| (Id::new(index, slot.generation), value)))
    }
}

/// The slot that an id names, if its value is still there.
#[inline]
fn held<T>(slots: &mut impl AsMut<[Slot<T>]>, id: Id<T>) -> Result<&mut Slot<T>, Stale> {
    let slot = slots.as_mut().get_mut(id.index() as usize).ok_or(Stale)?;
    if slot.count > 0 && slot.generation == id.generation() { Ok(slot) } else { Err(Stale) }
}
