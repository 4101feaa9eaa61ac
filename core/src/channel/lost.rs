//! Messages that nobody receives.
//!
//! A dead process had them in its hands, or their channel was destroyed. What a message is about may have to be given
//! back with it, so somebody who knows how is told of each.

use super::message::{Header, Messages};
use super::reclaim::Reclaimed;
use crate::cell::Bytes;

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
            let Some(take) = self.queue().take(&glimpse, by) else { continue };
            drained += 1;
            if let Some(taken) = self.taken(take) {
                lost(taken.received().header, taken.bytes());
            }
        }
        drained
    }
}
