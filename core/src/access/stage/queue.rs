//! Slots that wait for their turn: first come, first served.

/// A circle over lent places.
#[derive(Debug)]
pub(super) struct Queue<Q> {
    places: Q,
    first: usize,
    len: usize,
}

impl<Q: AsRef<[u32]> + AsMut<[u32]>> Queue<Q> {
    pub(super) const fn new(places: Q) -> Self {
        Queue { places, first: 0, len: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == self.places.as_ref().len()
    }

    /// Whether there was room.
    pub(super) fn push(&mut self, slot: u32) -> bool {
        if self.is_full() {
            return false;
        }
        let at = (self.first + self.len) % self.places.as_ref().len();
        if let Some(place) = self.places.as_mut().get_mut(at) {
            *place = slot;
        }
        self.len += 1;
        true
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        let slot = self.places.as_ref().get(self.first).copied();
        self.first = (self.first + 1) % self.places.as_ref().len();
        slot
    }
}
