//! Messages that nobody receives.
//!
//! A dead process had them in its hands, or their channel was destroyed. What a message is about may have to be given
//! back with it, so somebody who knows how is told of each.

use super::message::{Header, Messages};
use super::queue::{Position, Queue};
use super::reclaim::Reclaimed;
use crate::atomic::Ordering;
use crate::cell::Bytes;

impl Queue<'_> {
    /// Whether somebody received the message at this position, or removed it from a channel that was not destroyed. Of a
    /// message that was received while others were removed from a destroyed one it may not be known, and then this is false.
    #[must_use]
    pub fn is_received(&self, Position(position): Position) -> bool {
        if !self.is_past(position).unwrap_or(false) {
            return false;
        }
        // ORDERING: whoever removes a message of a destroyed channel says so before. That it is past was seen with acquire.
        let lost = self.lost().load(Ordering::Relaxed);
        lost == 0 || position < lost
    }

    /// Says that messages from this position on are not received, but lost with the channel.
    fn lose(&self, position: u64) {
        let is_first = |lost| (lost == 0 || position < lost).then_some(position);
        // ORDERING: Relaxed, because the removal that follows releases it. One that was said before it is as good.
        let _ = self.lost().fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_first);
    }
}

impl Messages<'_> {
    /// As [`Queue::reclaim`](super::Queue::reclaim); `lost` is told of each message that the dead process had received
    /// and not released. If the reclaim is cut off and begun anew, it may be told of one again.
    pub fn reclaim(&self, dead: u16, mut lost: impl FnMut(Header, Bytes<'_>)) -> Reclaimed {
        self.queue().reclaim_telling(dead, |slot| {
            if let Some((bytes, header)) = self.content(slot) {
                lost(header, bytes);
            }
        })
    }

    /// Removes all messages as process number `by`, also of a channel that was destroyed; how many.
    pub fn drain(&self, by: u16, mut lost: impl FnMut(Header, Bytes<'_>)) -> usize {
        let mut drained = 0;
        // Others may be faster at each, and may send more than there is capacity for; not for ever.
        for _ in 0..self.queue().spare {
            let Ok(glimpse) = self.queue().first() else { break };
            if self.queue().is_destroyed() {
                self.queue().lose(glimpse.position);
            }
            let Some(take) = self.queue().take(&glimpse, by) else { continue };
            drained += 1;
            if let Some(taken) = self.taken(take) {
                lost(taken.received().header, taken.bytes());
            }
        }
        drained
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::Shape;
    use super::*;
    use crate::cell::BytesMut;

    #[test]
    fn what_is_lost_with_a_channel_is_not_received() {
        let shape = Shape { capacity: 4, spares: 0, block: 8 };
        for destroys in [true, false] {
            let mut memory = std::vec![0_u64; shape.words().unwrap()];
            let messages = Messages::create(BytesMut::from_words(&mut memory), shape).unwrap();
            let sent = [0; 4].map(|_| messages.send(1, Header::default(), b"sent").unwrap());
            (0..2).for_each(|_| assert!(messages.receive(2, &mut [0; 8]).is_ok()));
            assert!(!destroys || messages.queue().destroy());
            let received = || sent.map(|position| messages.queue().is_received(position));
            assert_eq!(received(), [true, true, false, false]);
            assert_eq!(messages.drain(2, |_, _| ()), 2);
            assert_eq!(received(), [true, true, !destroys, !destroys], "a reset removes them as whoever pops them");
        }
    }
}
