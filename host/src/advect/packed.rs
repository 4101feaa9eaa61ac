//! Bytes of messages that peers may still read.
//!
//! Those are the messages of the last exchanges, as many as a pair has slots.

use umbra_core::boundary::Counts;

/// Messages of the last exchanges of a rank.
#[derive(Debug)]
pub(super) struct Packed {
    /// Bytes of all messages in a slot of their pair.
    slots: Vec<u64>,
    /// Bytes of all that were ever sent.
    sent: u64,
    most: u64,
}

impl Packed {
    pub(super) fn new(slots: u32) -> Packed {
        Packed { slots: vec![0; slots.max(1) as usize], sent: 0, most: 0 }
    }

    pub(super) fn now(&self) -> u64 {
        self.slots.iter().sum()
    }

    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    /// An exchange of this number is over, after which so much was sent in all.
    pub(super) fn note(&mut self, exchange: u64, counts: &Counts) {
        let sent = counts.payload_bytes + counts.head_bytes;
        let slot = (exchange % self.slots.len() as u64) as usize;
        self.slots[slot] = sent - self.sent;
        self.sent = sent;
        self.most = self.most.max(self.now());
    }

    /// Nobody reads any of them any more.
    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_slots_hold_the_messages_of_two_exchanges() {
        let mut packed = Packed::new(2);
        let mut counts = Counts::default();
        let mut held = Vec::new();
        for (exchange, bytes) in [(1, 5), (2, 100), (3, 7), (4, 1), (5, 0)] {
            counts.head_bytes += 64;
            counts.payload_bytes += bytes;
            packed.note(exchange, &counts);
            held.push(packed.now() - 64 * exchange.min(2));
        }
        assert_eq!((held, packed.most()), (vec![5, 105, 107, 8, 1], 128 + 107));
        packed.clear();
        assert_eq!((packed.now(), packed.most()), (0, 128 + 107));
    }
}
