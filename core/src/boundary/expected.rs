//! What a plan says of a message, for whoever sees it first.
//!
//! That is the rank itself, or an agent that looks out for it.

use super::header::{HEAD, Head, Live, bitmap_bytes, bitmap_words, ones};
use super::peer::Arrived;
use super::plan::{Entry, Kind};
use super::refuse::Refused;

/// What is known of the messages of one peer before they come.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'e> {
    /// Which life of the mesh.
    pub epoch: u32,
    /// Which kind of exchange.
    pub kind: Kind,
    /// The lower half of the fingerprint of the plan.
    pub fingerprint: u32,
    /// The channels from the peer, in plan order.
    pub entries: &'e [Entry],
}

impl Expected<'_> {
    /// Whether this is the message that comes after the exchange `seen`; `None` if it belongs to a later epoch.
    ///
    /// How much of it a slot may hold and what credit it brings is for the rank to judge.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn check(&self, seen: u32, bytes: &[u8]) -> Result<Option<Head>, Refused> {
        let always = self.entries.iter().any(|entry| entry.always);
        let found = self.inspect(seen, seen.wrapping_add(1), always, bytes)?;
        Ok(found.map(|(head, ..)| head))
    }

    /// The message, if it is not later than the exchange `newest`, and where its payload lies. `always`: the plan has a
    /// channel of a dense field.
    pub(super) fn inspect<'b>(
        &self,
        seen: u32,
        newest: u32,
        always: bool,
        bytes: &'b [u8],
    ) -> Result<Option<(Head, Live<'b>, Arrived)>, Refused> {
        let (head, live) = Head::parse(bytes)?;
        match head.epoch.wrapping_sub(self.epoch) as i32 {
            0 => {}
            1.. => return Ok(None),
            _ => return Err(Refused::OldEpoch { came: head.epoch, ours: self.epoch }),
        }
        let came = head.sequence;
        match came.wrapping_sub(seen) as i32 {
            ..=0 => return Err(Refused::Duplicate { came, seen }),
            1 => {}
            _ => return Err(Refused::Gap { came, seen }),
        }
        if came.wrapping_sub(newest) as i32 > 0 {
            return Ok(None);
        }
        let (ours, channels) = (self.fingerprint, self.entries.len() as u32);
        if (head.fingerprint, head.channels, head.kind) != (ours, channels, self.kind.0) {
            return Err(Refused::Plan { came: head.fingerprint, ours });
        }
        let arrived = self.compare(&head, live, always)?;
        Ok(Some((head, live, arrived)))
    }

    /// Whether the payload is exactly that of the live strips, and split between them.
    fn compare(&self, head: &Head, live: Live<'_>, always: bool) -> Result<Arrived, Refused> {
        let in_slot = head.payload - u64::from(head.overflow);
        let entries = self.entries;
        let null = |nth: &usize| !live.is(*nth) && entries[*nth].always;
        if let Some(nth) = (0..entries.len()).find(|nth| always && null(nth)) {
            return Err(Refused::NeverNull { key: entries[nth].key });
        }
        let words = (0..bitmap_words(entries.len())).map(|nth| live.word(nth, entries.len()));
        // Up to which channel the payload lies in the slot.
        let (mut sum, mut whole) = (0u64, (in_slot == 0).then_some(0));
        for nth in ones(words) {
            sum += entries[nth].bytes();
            if sum == in_slot {
                whole = Some(nth as u32 + 1);
            }
        }
        if sum != head.payload {
            return Err(Refused::Payload { came: head.payload, expected: sum });
        }
        let Some(whole) = whole else { return Err(Refused::Split) };
        let (overflow, fetched) = (head.overflow, head.overflow == 0);
        // A plan has less than 4 GiB.
        Ok(Arrived { in_slot: in_slot as u32, overflow, whole, fetched })
    }
}

/// Bytes of a slot that a message with so much payload in it takes.
pub(super) const fn in_slot_bytes(channels: u32, payload: u32) -> u64 {
    (HEAD + bitmap_bytes(channels)) as u64 + payload as u64
}
