//! Places taken last, which cut no run yet.
//!
//! Most references are short, and hardly any allocation asks for a run. So a place that is taken stands here at first, and
//! leaves again without a trace. Only if too many stand here, or if a run is asked for, it cuts the run that it lies in.

/// Places in use that have cut no run yet, at most.
pub const UNCUT: usize = 128;

/// The places, in no order.
#[derive(Clone, Debug)]
pub(super) struct Uncut {
    places: [u32; UNCUT],
    len: usize,
    /// Whose turn it is to make room for another: each in turn, so that nobody stays for long.
    turn: usize,
}

impl Uncut {
    pub(super) const EMPTY: Self = Uncut { places: [0; UNCUT], len: 0, turn: 0 };

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a place in; gives where it stands, and the place that stood there if there was no other room.
    #[inline]
    pub(super) fn put(&mut self, place: u32) -> (u32, Option<u32>) {
        if let Some(room) = self.places.get_mut(self.len) {
            *room = place;
            self.len += 1;
            return (self.len as u32 - 1, None);
        }
        self.turn = (self.turn + 1) % UNCUT;
        let old = core::mem::replace(&mut self.places[self.turn], place);
        (self.turn as u32, Some(old))
    }

    /// Takes out what stands there; gives the place that stands there now.
    #[inline]
    pub(super) fn remove(&mut self, at: u32) -> Option<u32> {
        self.len -= 1;
        let last = self.places[self.len];
        self.places[at as usize] = last;
        (at as usize != self.len).then_some(last)
    }

    /// Takes any out.
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        self.places.get(self.len).copied()
    }
}
