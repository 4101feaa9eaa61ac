//! What a cache answers, and what it counts.

/// What a client finds in the slot that it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Found {
    /// Nothing: this client fills the slot.
    Empty,
    /// Another client has the slot and fills it, or nobody will say when it is filled.
    Assigned,
    /// The content, filled and remembered.
    Remembered,
}

/// A slot, and what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Grant {
    /// The slot, in the range that the cache was made with.
    pub slot: u32,
    /// What is in it.
    pub found: Found,
    /// References to the data, this one included.
    pub references: u32,
    hint: Hint,
}

impl Grant {
    /// What to fill a slice with that grants will be written to.
    pub const NONE: Self = Self::new(0, Found::Empty, 0);

    /// A grant that does not know where its data is found.
    #[must_use]
    pub const fn new(slot: u32, found: Found, references: u32) -> Self {
        Grant { slot, found, references, hint: Hint(u32::MAX) }
    }

    /// A number that says where its data is looked for first, for those who keep grants in a form of their own.
    #[must_use]
    pub const fn hint(&self) -> u32 {
        self.hint.0
    }

    /// The same with the hint that [`Grant::hint`] told, or any other: none changes an answer.
    #[must_use]
    pub const fn hinted(self, hint: u32) -> Self {
        Grant { hint: Hint(hint), ..self }
    }

    /// Whose data is found at this place.
    #[inline]
    pub(super) fn at(self, place: usize) -> Self {
        // Only a bad hint, should there be so many places that this is another one.
        Grant { hint: Hint(place as u32), ..self }
    }

    /// Where its data is to be looked for first.
    #[inline]
    pub(super) fn place(&self) -> usize {
        self.hint.0 as usize
    }
}

/// Where the data of a grant was found. All are equal, because none changes an answer.
#[derive(Clone, Copy, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
struct Hint(u32);

impl PartialEq for Hint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A reference that is given back exactly once: it can't be copied, and giving it back consumes it.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a pin that is dropped keeps its slot for good: give it back with `free_pin`"]
pub struct Pin {
    pub(super) data: u64,
    pub(super) slot: u32,
    pub(super) epoch: u32,
}

impl Pin {
    /// The data whose slot this is.
    #[must_use]
    pub fn data(&self) -> u64 {
        self.data
    }

    /// The slot.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The pin as a number beside its data and its slot, for those who cannot keep a value; never 0. [`Pin::marked`] is the pin
    /// again.
    #[must_use]
    pub fn into_mark(self) -> u64 {
        MARKED | u64::from(self.epoch)
    }

    /// The pin with this mark; `None` if that is none. One that was made twice, or up, gives back somebody else's reference
    /// to the data, if there is one.
    #[must_use]
    pub fn marked(data: u64, slot: u32, mark: u64) -> Option<Pin> {
        let epoch = mark as u32;
        (mark == MARKED | u64::from(epoch)).then_some(Pin { data, slot, epoch })
    }
}

/// In every mark of a pin.
const MARKED: u64 = 1 << 48;

/// What a slot is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum State {
    /// References are held, the content is not there yet.
    Filling,
    /// References are held, and whoever filled the slot gave up.
    Abandoned,
    /// References are held to content.
    InUse,
    /// Content without a reference.
    Idle,
}

/// What happened since the cache was made; counts do not wrap within the life of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Statistics {
    /// Allocations that found content.
    pub hits: u64,
    /// Allocations that found a slot that is being filled.
    pub joins: u64,
    /// Allocations that had to fill: each is a load.
    pub loads: u64,
    /// Contents given up for another.
    pub evictions: u64,
    /// Contents forgotten on request, or after their last use.
    pub forgotten: u64,
    /// Allocations refused because all slots were in use.
    pub refused: u64,
}
