//! Who sits where, told to a place that there is a link to.

use umbra_core::chain::{Life, Node};
use umbra_core::codec::{Reader, Writer};
use umbra_core::wire::Op;

use super::super::outgoing::Sits;
use super::{Border, BorderError, ops};

impl Border {
    /// A frame may speak only for members of the place that it came from.
    pub(super) fn of(&self, place: u32, node: Node) -> Result<(), BorderError> {
        let shape = self.station.shape();
        let is_its = node.0 < shape.all && shape.place(node) == place && !shape.is_here(node);
        if is_its { Ok(()) } else { Err(BorderError::Malformed) }
    }

    fn greeting(&self, to: &mut [u8]) -> Option<usize> {
        let shape = self.station.shape();
        let mut to = Writer::new(to);
        for word in [shape.first, shape.members.into(), shape.all, shape.message_bytes] {
            to.u32(word).ok()?;
        }
        for node in shape.here() {
            to.u32(self.lives.get(node.index()).map_or(0, |lives| lives.1.0)).ok()?;
        }
        Some(to.len())
    }

    pub(super) fn on_greeting(&mut self, place: u32, body: &[u8]) -> Result<(), BorderError> {
        let mut from = Reader::new(body);
        let mut word = || from.u32().map_err(|_| BorderError::Malformed);
        let (first, theirs, all, bytes) = (word()?, word()?, word()?, word()?);
        let shape = self.station.shape();
        let ours = u32::from(shape.members);
        if (theirs, all, bytes) != (ours, shape.all, shape.message_bytes) {
            return Err(BorderError::Differs { theirs, bytes, ours });
        }
        if ours.checked_mul(place) != Some(first) {
            return Err(BorderError::Malformed);
        }
        self.of(place, Node(first))?;
        self.part(place);
        for node in (first..).take(ours as usize).map(Node) {
            let life = Life(from.u32().map_err(|_| BorderError::Malformed)?);
            self.sit(Sits { node, life });
        }
        if let Some(way) = self.ways.get_mut(place as usize) {
            way.has_met = true;
        }
        Ok(())
    }

    /// The first frame to a place that has not been greeted yet.
    pub(super) fn poll_greeting(&mut self, to: &mut [u8]) -> Option<(u32, Op, usize)> {
        let place = self.ways.iter().position(|way| way.is_up && !way.has_greeted)?;
        let len = self.greeting(to)?;
        self.ways.get_mut(place)?.has_greeted = true;
        Some((place as u32, ops::GREET, len))
    }
}
