//! What leaves for a peer in an exchange: a message for each strip, and a head.

use umbra::boundary::TransportError;
use umbra_core::boundary::{Channel, Entry, HEAD, Key, Message, Place, Role, Sent, bitmap_bytes};

use super::{SLOTS, bytes, refused, tag};
use crate::heads;
use crate::raw::{Buffer, Communicator};
use crate::slot;

/// A strip that leaves; its values lie in the area of its peer.
#[derive(Debug)]
struct Leaving {
    key: Key,
    channel: Channel<()>,
}

/// All messages to a peer in an exchange.
#[derive(Debug)]
pub(super) struct Out {
    in_slot: Buffer,
    overflow: Buffer,
    head: Buffer,
    strips: Vec<Leaving>,
}

impl Out {
    pub(super) fn new(entries: &[Entry]) -> Out {
        let head = HEAD + bitmap_bytes(entries.len() as u32);
        let dense = entries.iter().map(|entry| bytes(entry) as usize).sum::<usize>() + head;
        let leaving = |entry: &Entry| Leaving { key: entry.key, channel: Channel::new(Role::Sender, bytes(entry)) };
        let strips = entries.iter().map(leaving).collect();
        Out { in_slot: Buffer::new(dense), overflow: Buffer::new(dense), head: Buffer::new(head), strips }
    }

    /// Bytes of memory that it has.
    pub(super) fn held(&self) -> u64 {
        [&self.in_slot, &self.overflow, &self.head].map(Buffer::bytes).iter().sum()
    }

    /// Whether everything of it is carried, so that the next exchange may be packed.
    pub(super) fn is_carried(&mut self, to: u32) -> Result<bool, TransportError> {
        for buffer in [&mut self.in_slot, &mut self.overflow, &mut self.head] {
            if buffer.test()?.is_none() {
                return Ok(false);
            }
        }
        let mut all = true;
        for Leaving { key, channel } in &mut self.strips {
            channel.on_sent();
            all &= channel.is_available_for_write().map_err(|refusal| refused(to, *key, refusal))?;
        }
        Ok(all)
    }

    /// Packs a part of a strip.
    pub(super) fn write(&mut self, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        let (buffer, at) = match place {
            Place::Slot(at) => (&mut self.in_slot, at as usize),
            Place::Overflow(at) => (&mut self.overflow, at as usize),
        };
        slot::store(buffer.words_mut().unwrap_or(&mut []), at / 8 + behind, values)
    }

    /// Sends what was packed, a message for each strip.
    pub(super) fn publish(
        &mut self,
        world: &Communicator,
        message: &Message,
        bytes: &[u8],
    ) -> Result<(), TransportError> {
        let (to, slot) = (message.rank, message.slot);
        let Out { in_slot, overflow, head, strips } = self;
        for (word, bytes) in head.words_mut().unwrap_or(&mut []).iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        // Our own head, which says which strips are there.
        let first = HEAD + bitmap_bytes(strips.len() as u32);
        let own = heads::inspect(world.rank(), bytes, bytes.len(), first)?;
        let Some((_, live, _)) = own else { return Err(TransportError::Silent { rank: world.rank() }) };
        let (end, mut used, mut above) = (first + message.in_slot as usize, first, 0);
        for (nth, Leaving { key, channel }) in strips.iter_mut().enumerate() {
            let size = channel.count() as usize;
            let sent = if live.is(nth) {
                channel.allocate(|| Some(())).and_then(|()| channel.send())
            } else {
                channel.send_null()
            };
            let (buffer, from, len) = match sent.map_err(|refusal| refused(to, *key, refusal))? {
                Sent::Null => (&mut *head, 0, 0),
                Sent::Live if used < end => (&mut *in_slot, used, size),
                Sent::Live => (&mut *overflow, above, size),
            };
            buffer.send(world, to, tag(slot, nth), from..from + len)?;
            if used < end {
                used += len;
            } else {
                above += len;
            }
        }
        Ok(head.send(world, to, slot % SLOTS, 0..bytes.len())?)
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::boundary::{Element, Kind, Step};

    use super::*;

    const RANK: u32 = 7;

    fn entry(field: u16) -> Entry {
        let key = Key { sender: 3, receiver: 4, field, element: Element::new(1, 0, 0).unwrap(), kind: Kind::GHOST };
        Entry { key, count: 2, always: false, step: Step::Same }
    }

    #[test]
    fn a_second_send_while_the_first_is_under_way_is_refused_with_the_key() {
        let mut out = Out::new(&[entry(5)]);
        let channel = &mut out.strips[0].channel;
        assert_eq!(channel.send_null(), Ok(Sent::Null));
        let refusal = channel.send_null().err();
        let error = refusal.map(|refusal| refused(RANK, out.strips[0].key, refusal));
        let told = error.map_or_else(String::new, |error| error.to_string());
        assert!(told.starts_with("rank 7: block 3 to block 4, field 5, element"), "{told}");
        assert_eq!(out.is_carried(RANK), Ok(true), "the buffers have nothing under way");
        assert_eq!(out.strips[0].channel.send_null(), Ok(Sent::Null));
    }
}
