//! What comes from a peer in an exchange: a message for each strip, and a head.

use umbra::boundary::TransportError;
use umbra_core::boundary::{Channel, Entry, HEAD, Key, Place, Role, Start, bitmap_bytes};

use super::{LONGER, SLOTS, When, bytes, refused, tag};
use crate::heads;
use crate::raw::{Buffer, Came, Communicator, MpiError};
use crate::slot;

/// A strip that comes.
#[derive(Debug)]
struct Coming {
    key: Key,
    channel: Channel<Buffer>,
    /// Receives a null that was seen before, for which the channel has no storage.
    null: Buffer,
    /// The channel waits for a receive that could not be posted.
    unposted: Option<MpiError>,
}

/// All messages of a peer's exchange.
#[derive(Debug)]
pub(super) struct In {
    head: Buffer,
    /// What has come as the head.
    came: Option<Came>,
    strips: Vec<Coming>,
    /// Where the payloads would lie in one message, in order, and whose they are.
    places: Vec<(bool, u32, usize)>,
    whole: bool,
}

fn elements(came: Came) -> u32 {
    came.bytes().map_or(LONGER, |bytes| u32::try_from(bytes).unwrap_or(LONGER))
}

impl Coming {
    fn new(entry: &Entry, when: When) -> Coming {
        let role = if when == When::Early { Role::Receiver } else { Role::SparseReceiver };
        Coming { key: entry.key, channel: Channel::new(role, bytes(entry)), null: Buffer::new(0), unposted: None }
    }

    /// Posts a receive, if it is time for one; false if not even the message of a sparse receiver is there.
    fn start(&mut self, world: &Communicator, from: u32, tag: u32) -> Result<bool, TransportError> {
        let Coming { key, channel, null, unposted } = self;
        if let Some(error) = *unposted {
            return Err(error.into());
        }
        let count = channel.count() as usize;
        let mut start = || channel.try_start_receive(|| Some(Buffer::new(count)));
        let refused = |refusal| refused(from, *key, refusal);
        let mut started = start().map_err(refused)?;
        if started == Start::Nothing
            && channel.role() == Role::SparseReceiver
            && channel.incoming().is_none()
            && null.is_idle()
        {
            let Some(seen) = world.probe(from, tag)? else { return Ok(false) };
            channel.on_message(elements(Came::Bytes(seen))).map_err(refused)?;
            started = channel.try_start_receive(|| Some(Buffer::new(count))).map_err(refused)?;
        }
        let posted = match (started, channel.incoming()) {
            (Start::Nothing, _) => Ok(()),
            (Start::Post, Some(buffer)) => buffer.receive(world, from, tag, count),
            (Start::Post | Start::PostNull, _) => null.receive(world, from, tag, 0),
        };
        *unposted = posted.err();
        Ok(posted.map(|()| true)?)
    }

    /// Whether it is here.
    fn poll(&mut self, world: &Communicator, from: u32, tag: u32) -> Result<bool, TransportError> {
        if self.channel.state().is_received() {
            return Ok(true);
        }
        if !self.start(world, from, tag)? {
            return Ok(false);
        }
        let Coming { key, channel, null, .. } = self;
        let refused = |refusal| refused(from, *key, refusal);
        let early = channel.role() == Role::Receiver;
        let buffer = channel.incoming().unwrap_or(null);
        // It is idle already if what came was refused.
        if !buffer.is_idle() {
            let Some(came) = buffer.test()? else { return Ok(false) };
            if early {
                channel.on_message(elements(came)).map_err(refused)?;
            }
        }
        channel.try_receive(|| None).map_err(refused)
    }

    fn came(&self) -> Option<&Buffer> {
        self.channel.payload().ok()
    }
}

impl In {
    pub(super) fn new(entries: &[Entry], when: When) -> In {
        let strips = entries.iter().map(|entry| Coming::new(entry, when)).collect();
        let head = Buffer::new(HEAD + bitmap_bytes(entries.len() as u32));
        In { head, came: None, strips, places: Vec::new(), whole: false }
    }

    /// Bytes of memory that it has: a channel without storage has none.
    pub(super) fn held(&self) -> u64 {
        let strips = self.strips.iter().filter(|strip| strip.channel.is_active());
        self.head.bytes() + strips.map(|strip| u64::from(strip.channel.count())).sum::<u64>()
    }

    /// Bytes of the longest head.
    fn head_bytes(&self) -> usize {
        HEAD + bitmap_bytes(self.strips.len() as u32)
    }

    /// Ready for an exchange.
    pub(super) fn post(
        &mut self,
        world: &Communicator,
        from: u32,
        slot: u32,
        when: When,
    ) -> Result<(), TransportError> {
        (self.whole, self.came) = (false, None);
        self.places.clear();
        if when == When::Early {
            for (channel, strip) in self.strips.iter_mut().enumerate() {
                strip.start(world, from, tag(slot, channel))?;
            }
        }
        Ok(self.head.receive(world, from, slot % SLOTS, self.head_bytes())?)
    }

    /// Whether all of it is here.
    fn poll(&mut self, world: &Communicator, from: u32, slot: u32) -> Result<bool, TransportError> {
        if self.came.is_none() {
            self.came = self.head.test()?;
        }
        let mut whole = self.came.is_some();
        for (channel, strip) in self.strips.iter_mut().enumerate() {
            whole &= strip.poll(world, from, tag(slot, channel))?;
        }
        Ok(whole)
    }

    /// Where each strip would lie in one message. What came must be what the head announces; a head that is none, or that
    /// of another plan, is refused by the exchange.
    fn place(&mut self, from: u32, head: &[u8], came: usize) -> Result<(), TransportError> {
        let Some((head, live, len)) = heads::inspect(from, head, came, self.head_bytes())? else { return Ok(()) };
        heads::same(from, len, came)?;
        if head.channels as usize != self.strips.len() {
            return Ok(());
        }
        let in_slot = head.payload - u64::from(head.overflow);
        let (mut used, mut over) = (0u64, 0u64);
        let first = self.head_bytes() as u64;
        for (nth, strip) in self.strips.iter().enumerate() {
            let (bytes, here) = (u64::from(strip.channel.count()), strip.came().is_some());
            if here != live.is(nth) {
                let (bytes, came) = if here { (0, bytes) } else { (bytes, 0) };
                return Err(TransportError::StripSize { rank: from, key: strip.key, bytes, came: Some(came) });
            }
            if here {
                let (is_over, sum, from) =
                    if used < in_slot { (false, &mut used, first) } else { (true, &mut over, 0) };
                self.places.push((is_over, (from + *sum) as u32, nth));
                *sum += bytes;
            }
        }
        Ok(())
    }

    /// Copies the head out, once all of it is here.
    pub(super) fn look(
        &mut self,
        world: &Communicator,
        from: u32,
        slot: u32,
        head: &mut [u8],
    ) -> Result<bool, TransportError> {
        if !self.whole && !self.poll(world, from, slot)? {
            return Ok(false);
        }
        let came = heads::copy(from, self.came, &self.head, self.head_bytes(), head)?;
        if !self.whole {
            self.places.clear();
            self.place(from, head, came)?;
            self.whole = true;
        }
        Ok(true)
    }

    /// Gives up what came, and is ready for the next exchange.
    pub(super) fn again(
        &mut self,
        world: &Communicator,
        from: u32,
        slot: u32,
        when: When,
    ) -> Result<(), TransportError> {
        for Coming { key, channel, .. } in &mut self.strips {
            channel.stale().map_err(|refusal| refused(from, *key, refusal))?;
        }
        self.post(world, from, slot, when)
    }

    /// Reads a part of a strip.
    pub(super) fn read(&self, from: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        let at = match place {
            Place::Slot(at) => (false, at),
            Place::Overflow(at) => (true, at),
        };
        let at = self.places.binary_search_by_key(&at, |&(over, at, _)| (over, at));
        let strip = &self.strips[self.places[at.map_err(|_| TransportError::Silent { rank: from })?].2];
        let payload = strip.channel.payload().map_err(|refusal| refused(from, strip.key, refusal))?;
        slot::load(payload.words().unwrap_or(&[]), behind, into)
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::boundary::{Element, Head, Kind, Step};

    use super::*;

    const RANK: u32 = 7;

    fn entry(field: u16) -> Entry {
        let key = Key { sender: 3, receiver: 4, field, element: Element::new(1, 0, 0).unwrap(), kind: Kind::GHOST };
        Entry { key, count: 2, always: false, step: Step::Same }
    }

    /// What is said of a head with these bits over two channels after messages of so many bytes have come for them.
    fn place(bits: u8, came: [u32; 2]) -> Result<Vec<usize>, TransportError> {
        let mut into = In::new(&[entry(0), entry(1)], When::Probed);
        for (strip, came) in into.strips.iter_mut().zip(came) {
            let taken =
                strip.channel.on_message(came).and_then(|()| strip.channel.try_receive(|| Some(Buffer::new(16))));
            assert_eq!(taken, Ok(true));
        }
        let mut bytes = vec![0; HEAD + 8];
        bytes[HEAD] = bits;
        let live = bits.count_ones() as usize;
        let head = Head { channels: 2, payload: 16 * live as u64, ..Head::default() };
        let len = head.emit(live, &mut bytes).unwrap_or(0);
        into.place(RANK, &bytes, len)?;
        Ok(into.places.iter().map(|&(.., nth)| nth).collect())
    }

    #[test]
    fn a_null_where_a_strip_is_announced_is_refused_with_its_key_and_so_is_a_strip_instead_of_a_null() {
        assert_eq!(place(0b10, [0, 16]), Ok(vec![1]));
        assert_eq!(place(0b11, [16, 16]), Ok(vec![0, 1]));
        let size = |field, bytes, came| {
            Err(TransportError::StripSize { rank: RANK, key: entry(field).key, bytes, came: Some(came) })
        };
        assert_eq!(place(0b11, [16, 0]), size(1, 16, 0));
        assert_eq!(place(0b10, [16, 16]), size(0, 0, 16));
        assert_eq!(place(0b00, [0, 16]), size(1, 0, 16));
    }
}
