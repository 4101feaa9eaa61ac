//! The end of a way, or of the border: everybody beyond it is dead to those here.

use umbra_core::chain::{Life, Node};

use super::super::outgoing::Sits;
use super::Border;

impl Border {
    /// Everybody of a place is dead to those here.
    pub(super) fn part(&mut self, place: u32) {
        let shape = self.station.shape();
        if place == shape.place(Node(shape.first)) {
            return;
        }
        // What waits of the dead must not come after the news of their death.
        let fetch = &mut self.fetch;
        self.inboxes.forget(
            |sender| shape.place(sender) == place,
            |header, message| fetch.iter_mut().for_each(|fetch| fetch.unheard(header, message)),
        );
        self.part_data(place);
        let mut any = false;
        for node in shape.nodes().filter(|&node| shape.place(node) == place) {
            any |= self.sit(Sits { node, life: Life(0) });
        }
        if any {
            self.inboxes.rouse();
        }
    }
}

impl Drop for Border {
    fn drop(&mut self) {
        // What a child that was forked off gave up would be its parent's, which still serves the place.
        if self.is_inherited() {
            return;
        }
        for place in (0..self.ways.len()).map(|place| place as u32) {
            self.part(place);
        }
        if let Ok(seat) = self.station.seat(self.door) {
            seat.leave();
        }
    }
}
