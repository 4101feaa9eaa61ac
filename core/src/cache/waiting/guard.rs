//! References that are given back when they are dropped.

use super::lock::Lock;
use super::shared::{Filled, Guarded, Shared};
use crate::cache::FillError;
use crate::cache::grant::{Found, Grant, Pin};

/// A slot, and what its new holder found in it.
#[derive(Debug)]
#[must_use = "a reference that is dropped is given back"]
pub enum Given<'a, L: Lock<Value: Guarded>> {
    /// Nothing: the slot is this client's to fill.
    Empty(Fill<'a, L>),
    /// Somebody else fills it, or nobody will say when it is filled; [`Shared::content`] waits for that.
    Assigned(Held<'a, L>),
    /// The content.
    Remembered(Held<'a, L>),
}

impl<'a, L: Lock<Value: Guarded>> Given<'a, L> {
    /// The slot.
    pub fn slot(&self) -> u32 {
        match self {
            Given::Empty(fill) => fill.slot(),
            Given::Assigned(held) | Given::Remembered(held) => held.slot(),
        }
    }
}

/// A reference to a slot. Dropping it gives it back; after an interrupt that does nothing.
#[derive(Debug)]
#[must_use = "a reference that is dropped is given back"]
pub struct Held<'a, L: Lock<Value: Guarded>> {
    shared: &'a Shared<L>,
    grant: Grant,
    /// Gone once it was given back.
    pin: Option<Pin>,
    /// Dropping it leaves the slot to whoever comes next.
    fills: bool,
}

impl<'a, L: Lock<Value: Guarded>> Held<'a, L> {
    pub(super) fn new(shared: &'a Shared<L>, pin: Pin, grant: Grant) -> Self {
        Held { shared, grant, pin: Some(pin), fills: grant.found == Found::Empty }
    }

    /// The slot.
    pub fn slot(&self) -> u32 {
        self.grant.slot
    }

    /// What was told with the reference; with [`Held::into_pin`] for [`Shared::free_all_granted`].
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// Whose slot it is.
    pub fn data(&self) -> u64 {
        self.pin.as_ref().map_or(0, Pin::data)
    }

    /// The reference without the duty to give it back: [`Shared::free`] does that, by anybody.
    pub fn into_pin(mut self) -> Option<Pin> {
        self.pin.take()
    }
}

impl<L: Lock<Value: Guarded>> Drop for Held<'_, L> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.shared.take_back(pin, self.fills);
        }
    }
}

/// The duty to fill a slot, and the reference to it. Dropping it gives both up: whoever waits for the content is told,
/// and the next to allocate finds the slot empty.
#[derive(Debug)]
#[must_use = "a fill that is dropped is given up: say `remember` when the content is there"]
pub struct Fill<'a, L: Lock<Value: Guarded>>(Held<'a, L>);

impl<'a, L: Lock<Value: Guarded>> Fill<'a, L> {
    pub(super) fn new(held: Held<'a, L>) -> Self {
        Fill(held)
    }

    /// The slot to fill.
    pub fn slot(&self) -> u32 {
        self.0.slot()
    }

    /// What to fill it with.
    pub fn data(&self) -> u64 {
        self.0.data()
    }

    /// The reference without the duty, for content that nobody shall find: with the last reference the slot is empty.
    /// Those who wait for the content are not told before that.
    pub fn unremembered(mut self) -> Held<'a, L> {
        self.0.fills = false;
        self.0
    }
}

impl<'a, L: Lock<Value: Filled>> Fill<'a, L> {
    /// The content is there; the reference stays.
    ///
    /// # Errors
    /// [`FillError`] if the cache was interrupted, or if somebody else said so before; the reference is given back then.
    pub fn remember(self) -> Result<Held<'a, L>, FillError> {
        if let Some(pin) = &self.0.pin {
            self.0.shared.filled(pin)?;
        }
        Ok(self.unremembered())
    }
}
