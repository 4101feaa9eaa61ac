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

    /// Takes the first that `may` be taken; O(its place).
    pub(super) fn pop_that(&mut self, may: impl Fn(u32) -> bool) -> Option<u32> {
        let (first, places) = (self.first, self.places.as_mut());
        let count = places.len();
        let index = |at: usize| (first + at) % count;
        let at = (0..self.len).find(|&at| places.get(index(at)).is_some_and(|&slot| may(slot)))?;
        let slot = places.get(index(at)).copied();
        // Those that stay keep their order.
        (1..=at).rev().for_each(|at| places.swap(index(at), index(at - 1)));
        self.first = index(1);
        self.len -= 1;
        slot
    }
}
