//! Offered data over the border: requests that wait, frames that ask and bring.

use umbra_core::chain::{Carried, HEAD, Life, Node, alive, busy, peek_carried};
use umbra_core::channel::Header;
use umbra_core::codec::{Reader, Writer};
use umbra_core::key::{Key, Span};
use umbra_core::wire::Op;

use super::super::address::{receiver, sender};
use super::super::named::{NOWHERE, rename, vouch};
use super::fetch::{AFTER, Fetch, Way};
use super::kept::Kept;
use super::{Border, BorderError, ops};
use crate::sys::clock::now;

/// Bytes before those of data.
const FRONT: usize = 8;

/// What is to be done with a message over data elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// Nothing.
    DealtWith,
    /// It goes on as it is.
    ToHandIn,
    /// It is an answer whose reply finds no room.
    ToKeep,
}

impl Border {
    /// Deals with a message if its data does not lie here, but elsewhere; whether it is so.
    pub(super) fn is_carried(&mut self, place: u32, header: Header, message: &[u8]) -> bool {
        let Some(carried) = peek_carried(message) else { return false };
        let shape = self.station.shape();
        let owner = Node(carried.span.key.owner().to_bits());
        let (to, meant) = receiver(&header);
        let is_over = meant != Life(0) && self.lives.get(to.index()).is_some_and(|lives| lives.1 != meant);
        if carried.is_answer && (shape.is_here(owner) || is_over) {
            // What others here have laid out is not what somebody elsewhere has written, and the dead read nothing.
            self.hand_in_as(header, message, Span { key: NOWHERE, ..carried.span });
            return true;
        }
        if shape.is_here(owner) || owner.0 >= shape.all {
            return false;
        }
        if carried.is_answer && self.answers.keeps(carried.call, &header) {
            self.say_alive(header, message);
            return true;
        }
        match self.carry(place, header, &carried, message) {
            Fate::DealtWith => true,
            Fate::ToHandIn => false,
            Fate::ToKeep => {
                let until = now() + carried.budget + AFTER;
                self.answers.keep(Kept { call: carried.call, place, until, header, message: message.to_vec() })
            }
        }
    }

    /// Sees to the data of a message that lies elsewhere.
    fn carry(&mut self, place: u32, header: Header, carried: &Carried, message: &[u8]) -> Fate {
        let Some(fetch) = &mut self.fetch else { return Fate::ToHandIn };
        match fetch.request(place, header, carried, message, now()) {
            Way::On(span) => self.hand_in_as(header, message, span),
            Way::WaitsAlready if carried.is_answer => self.say_alive(header, message),
            Way::Waits | Way::WaitsAlready => {}
            Way::Refused if carried.is_answer => return Fate::ToKeep,
            Way::Refused => {
                let len = busy(message, &mut self.scratch).unwrap_or(0);
                self.refuse(header, len);
            }
            Way::Without => return Fate::ToHandIn,
        }
        Fate::DealtWith
    }

    /// Hands a message in that says where its data lies now.
    fn hand_in_as(&mut self, header: Header, message: &[u8], span: Span) {
        let Some(fetch) = &mut self.fetch else { return self.hand_in(header, message) };
        let mut message = fetch.copies.take(message);
        rename(&mut message, span);
        self.hand_in(header, &message);
        self.spare(message);
    }

    /// An answer that waits here was asked for again: its reader hears that it is to come.
    fn say_alive(&mut self, header: Header, message: &[u8]) {
        let mut word = [0; HEAD];
        if alive(message, &mut word).is_some() {
            self.hand_in(header, &word);
        }
    }

    /// Lets answers go on whose replies find room by now.
    pub(super) fn flush_kept(&mut self) {
        for kept in self.answers.take(now()) {
            let Kept { place, header, ref message, .. } = kept;
            let Some(carried) = peek_carried(message) else { continue };
            match self.carry(place, header, &carried, message) {
                Fate::DealtWith => {}
                Fate::ToHandIn => self.hand_in(header, message),
                Fate::ToKeep => _ = self.answers.keep(kept),
            }
        }
    }

    /// Gives data that was fetched its own name back in a message of a member here that goes elsewhere. What others have laid out
    /// is no reply of its.
    pub(super) fn restore(&self, (from, life): (Node, Life), message: &mut [u8]) {
        vouch(&self.station, from, life, message);
        let Some(fetch) = self.fetch.as_ref().filter(|fetch| !fetch.is_empty()) else { return };
        if let Some(origin) = peek_carried(message).and_then(|carried| fetch.origin(carried.span)) {
            rename(message, origin);
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
            fetch.copies.give(message);
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
            if missing > 0 && shape.place(sender(&header).0) != place {
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
