//! Ids that know when they are stale.
//!
//! Every table hands out `Id<T>`: an index and the generation of the slot at that index. When the slot is
//! reused its generation moves on, so an old id is refused with [`Stale`](crate::error::Stale) instead of
//! hitting a stranger. On the wire and in C an id is one `u64`.
//!
//! ```
//! use umbra_core::id::{Generation, Id};
//! struct Request;
//! let id: Id<Request> = Id::new(7, Generation::FIRST);
//! assert_eq!(Id::from_bits(id.to_bits()), id);
//! assert_ne!(Id::new(7, Generation::FIRST.next()), id);
//! ```

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// How often a slot has been handed out; `0` means never.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Generation(pub u32);

impl Generation {
    /// The value before a slot is first handed out; no valid id carries it.
    pub const NEVER: Generation = Generation(0);
    /// The generation of the first holder.
    pub const FIRST: Generation = Generation(1);

    /// The following generation; wraps past [`NEVER`](Self::NEVER).
    #[must_use]
    pub const fn next(self) -> Generation {
        match self.0.checked_add(1) {
            Some(n) => Generation(n),
            None => Generation::FIRST,
        }
    }
}

/// Index and generation of one slot in a table of `T`.
pub struct Id<T: ?Sized> {
    index: u32,
    generation: Generation,
    of: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Id<T> {
    /// Names slot `index` in its generation `generation`.
    #[must_use]
    pub const fn new(index: u32, generation: Generation) -> Self {
        Id { index, generation, of: PhantomData }
    }

    /// The slot's index.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The slot's generation when this id was handed out.
    #[must_use]
    pub const fn generation(self) -> Generation {
        self.generation
    }

    /// The wire form: generation in the upper half, index in the lower.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.generation.0 as u64) << 32 | self.index as u64
    }

    /// Reads the wire form; every value is an id, whether a table honours it is the table's business.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Id::new(bits as u32, Generation((bits >> 32) as u32))
    }
}

impl<T: ?Sized> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for Id<T> {}
impl<T: ?Sized> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}
impl<T: ?Sized> Eq for Id<T> {}
impl<T: ?Sized> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_bits().hash(state);
    }
}
impl<T: ?Sized> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.index, self.generation.0)
    }
}
#[cfg(feature = "defmt")]
impl<T: ?Sized> defmt::Format for Id<T> {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{}v{}", self.index, self.generation.0);
    }
}
