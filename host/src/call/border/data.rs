//! Offered data over the border: requests that wait, frames that ask and bring.

use umbra_core::chain::{Node, busy, peek_carried, set_carried};
use umbra_core::channel::Header;
use umbra_core::codec::{Reader, Writer};
use umbra_core::key::{Key, Span};
use umbra_core::time::Time;
use umbra_core::wire::Op;

use super::fetch::{AFTER, Fetch, Way};
use super::kept::Kept;
use super::{Border, BorderError, ops};
use crate::sys::clock::now;

/// Bytes before those of data.
const FRONT: usize = 8;

impl Border {
    /// Deals with a message if its data does not lie here, but elsewhere; whether it is so. Who waits for it does so until then, if
    /// that is known, or as long as it says.
    pub(super) fn is_carried(&mut self, place: u32, header: Header, message: &[u8], until: Option<Time>) -> bool {
        let shape = self.station.shape();
        let Some(fetch) = &mut self.fetch else { return false };
        let Some(carried) = peek_carried(message) else { return false };
        let owner = Node(carried.span.key.owner().to_bits());
        if shape.is_here(owner) || owner.0 >= shape.all {
            return false;
        }
        match fetch.request(place, header, &carried, message, now()) {
            Way::On(span) => {
                let mut message = fetch.copy(message);
                let is_named = set_carried(&mut message, span);
                debug_assert!(is_named, "it was one a moment ago");
                self.hand_in(header, &message);
                self.spare(message);
            }
            Way::Waits => {}
            Way::Refused if carried.is_answer => {
                let until = until.unwrap_or_else(|| now() + carried.budget + AFTER);
                return self.answers.keep(Kept { place, until, header, message: message.to_vec() });
            }
            Way::Refused => {
                let len = busy(message, &mut self.scratch).unwrap_or(0);
                self.refuse(header, len);
            }
            Way::Without => return false,
        }
        true
    }

    /// Lets answers go on whose replies find room by now.
    pub(super) fn flush_kept(&mut self) {
        for Kept { place, until, header, message } in self.answers.take(now()) {
            if !self.is_carried(place, header, &message, Some(until)) {
                self.hand_in(header, &message);
            }
        }
    }

    /// Gives data that was fetched its own name back in a message that goes elsewhere.
    pub(super) fn restore(&self, message: &mut [u8]) {
        let Some(fetch) = self.fetch.as_ref().filter(|fetch| !fetch.is_empty()) else { return };
        if let Some(origin) = peek_carried(message).and_then(|carried| fetch.origin(carried.span)) {
            let is_named = set_carried(message, origin);
            debug_assert!(is_named, "of the same length");
        }
    }

    /// A member is gone, and with it what it wanted.
    pub(super) fn forget_data(&mut self, node: Node) {
        self.answers.gone(|other| other == node);
        if let Some(fetch) = &mut self.fetch {
            fetch.gone(|other| other == node);
        }
    }

    /// What waited for a place to which the way is lost is refused, and may be made again.
    pub(super) fn part_data(&mut self, place: u32) {
        let shape = self.station.shape();
        self.give.part(place);
        self.answers.gone(|node| shape.place(node) == place);
        let Some(fetch) = &mut self.fetch else { return };
        fetch.part(place, |node| shape.place(node) == place);
        while let Some((header, message)) = self.fetch.as_mut().and_then(Fetch::ready) {
            self.refuse_or_hand_in(header, &message);
            self.spare(message);
        }
    }

    /// The data of a message does not come: a request is refused, and may be made again; an answer goes on without.
    fn refuse_or_hand_in(&mut self, header: Header, message: &[u8]) {
        match busy(message, &mut self.scratch) {
            Some(len) => self.refuse(header, len),
            None => self.hand_in(header, message),
        }
    }

    /// A message that waited is done with.
    fn spare(&mut self, message: Vec<u8>) {
        if let Some(fetch) = &mut self.fetch {
            fetch.spare(message);
        }
    }

    /// A place asks for a piece of what a member here offers.
    pub(super) fn on_pull(&mut self, place: u32, body: &[u8]) -> Result<(), BorderError> {
        let malformed = |_| BorderError::Malformed;
        let mut from = Reader::new(body);
        let serial = from.u32().map_err(malformed)?;
        let is_last = match from.u32().map_err(malformed)? {
            0 => false,
            1 => true,
            _ => return Err(BorderError::Malformed),
        };
        let key = Key::from_bits(from.u64().map_err(malformed)?);
        let (offset, len) = (from.u64().map_err(malformed)?, from.u64().map_err(malformed)?);
        let span = Span { key, offset, len };
        // What was fetched from its maker is given on.
        let here = self.fetch.as_ref().and_then(|fetch| fetch.here(span)).unwrap_or(span);
        let is_sound = from.rest().is_empty() && self.give.ask(place, serial, here, is_last);
        if is_sound { Ok(()) } else { Err(BorderError::Malformed) }
    }

    /// Bytes that were asked for have come, or word that they do not.
    pub(super) fn on_data(&mut self, place: u32, body: &[u8]) -> Result<(), BorderError> {
        let malformed = |_| BorderError::Malformed;
        let mut from = Reader::new(body);
        let (serial, missing) = (from.u32().map_err(malformed)?, from.u32().map_err(malformed)?);
        let fetch = self.fetch.as_mut().ok_or(BorderError::Malformed)?;
        fetch.data(place, serial, missing, from.rest()).ok_or(BorderError::Malformed)?;
        let shape = self.station.shape();
        while let Some((header, message)) = self.fetch.as_mut().and_then(Fetch::ready) {
            // Only that place has it no more: whoever is elsewhere sends his request again, and is asked for it.
            if missing > 0 && shape.place(Node(header.sender as u32)) != place {
                self.refuse_or_hand_in(header, &message);
            } else {
                self.hand_in(header, &message);
            }
            self.spare(message);
        }
        Ok(())
    }

    /// The next frame that asks for data, or brings some.
    pub(super) fn poll_data(&mut self, has_room: &impl Fn(u32) -> bool, to: &mut [u8]) -> Option<(u32, Op, usize)> {
        if let Some((place, pull)) = self.fetch.as_mut().and_then(Fetch::pull) {
            let mut to = Writer::new(to);
            to.u32(pull.serial).and_then(|()| to.u32(pull.is_last.into())).ok()?;
            for word in [pull.span.key.to_bits(), pull.span.offset, pull.span.len] {
                to.u64(word).ok()?;
            }
            return Some((place, ops::PULL, to.len()));
        }
        let most = FRONT + self.station.shape().message_bytes as usize;
        let (front, bytes) = to.get_mut(..most)?.split_at_mut_checked(FRONT)?;
        let (place, serial, missing, len) = self.give.next(&self.station, has_room, bytes)?;
        let mut front = Writer::new(front);
        front.u32(serial).and_then(|()| front.u32(missing)).ok()?;
        Some((place, ops::DATA, FRONT + len))
    }
}
