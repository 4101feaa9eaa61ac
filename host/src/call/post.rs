//! What a member sends and receives, and the news of deaths in between.
//!
//! A machine has to hear of a death after everything that the dead one sent, and before anything of its next life. Whatever
//! the dead sent lies in the inbox when its death is seen, so the inbox is emptied in between. What waits to be sent to the
//! dead is not sent to its next life.

use umbra_core::chain::{Life, Node};
use umbra_core::channel::{Header, Port, SendError};
use umbra_core::time::Time;

use super::address::receiver;
use super::member::Member;
use super::named::vouch;
use super::outgoing::{Outgoing, Sits};
use super::peers::{News, Peers};
use super::station::{Seat, Sitter, Station, StationError};
use crate::sys::clock::now;
use crate::sys::futex::Futex;

/// Messages that wait for room in one inbox before requests to it are made again later.
const OUTBOX: usize = 16;

impl Member {
    /// From now on puts what members here send to members elsewhere into `outgoing`, and who sits here: for the first
    /// member of a place, to whose inbox all that goes. It stays with whatever it was given first.
    pub fn put_out(&mut self, outgoing: Outgoing) {
        // A thread that a child lacks may be at the way out.
        if self.is_inherited() {
            return;
        }
        for node in self.station.shape().here() {
            let life = self.peers.present(node);
            if life != Life(0) {
                outgoing.sits(Sits { node, life });
            }
        }
        self.outgoing.get_or_insert(outgoing);
    }

    /// The first of these members who is not known to be there; looks who has come.
    pub fn sees(&mut self, members: &[Node]) -> Option<Node> {
        self.look();
        members.iter().copied().find(|&node| self.peers.present(node) == Life(0))
    }

    /// Whether a member was there and had died when this was last looked at: a call that lists it is refused, or made without it.
    #[must_use]
    pub fn is_dead(&self, node: Node) -> bool {
        self.machine.is_dead(node)
    }

    /// Takes messages out of the inbox of a seat of ours, at most so many, at the time that is `at`; whether there were any.
    pub(super) fn receive(&mut self, seat: Node, most: usize, at: Time) -> bool {
        let mut taken = Taken { left: most, worked: false, is_noted: false };
        while let Some(sender) = self.receive_until_new(seat, at, &mut taken) {
            // Everything that the earlier life sent came before the first message of the new one.
            if let Ok(sitter) = self.station.seat(sender).map(Seat::sitter) {
                self.note(sender, sitter);
            }
            taken.is_noted = true;
        }
        taken.worked
    }

    /// The same until a message is of another life than is known here: that is held, and this is who sent it.
    fn receive_until_new(&mut self, seat: Node, at: Time, taken: &mut Taken) -> Option<Node> {
        let Member { station, peers, machine, replies, outgoing, held, pad, node, .. } = self;
        let port = Port::new(station.inbox(seat).ok()?, station.number(*node, machine.config().life), Futex);
        while taken.left > 0 {
            let (header, len) = match held.take() {
                Some(held) => held,
                None => match port.try_receive(pad) {
                    Ok(received) => (received.header, received.len),
                    // None is there; or one, or the whole inbox, was damaged by another process.
                    Err(_) => return None,
                },
            };
            if !std::mem::take(&mut taken.is_noted)
                && let Some(sender) = peers.new_life(&header)
            {
                *held = Some((header, len));
                return Some(sender);
            }
            taken.left -= 1;
            let Some(message) = pad.get_mut(..len) else { continue };
            let is_taken = match (outgoing.as_ref(), peers.ends(&header)) {
                (_, Some((from, to))) => {
                    vouch(station, from, peers.life(from), message);
                    let is_taken = machine.on_message(from, to, message, at).is_ok();
                    if is_taken {
                        replies.note((from, to), message);
                    }
                    is_taken
                }
                (Some(outgoing), None) if is_for_elsewhere(station, &header) => outgoing.message(&header, message),
                _ => continue,
            };
            if !is_taken {
                *held = Some((header, len));
                return None;
            }
            taken.worked = true;
        }
        None
    }

    pub(super) fn send(&mut self, from: Node, to: Node, len: usize) {
        let len = if self.replies.is_empty() { Some(len) } else { self.lay(from, to, len) };
        if let Some(len) = len {
            self.post(from, to, len);
        }
    }

    /// Sends the message in the buffer, or keeps it until there is room.
    pub(super) fn post(&mut self, from: Node, to: Node, len: usize) {
        let Some(message) = self.buffer.get(..len) else { return };
        let behind = self.outbox.iter().filter(|&&(_, waiting, _)| waiting == to).count();
        let posted = if behind == 0 { self.door().post(from, to, message) } else { Posted::Full };
        match posted {
            Posted::Gone => return,
            Posted::Refused => return self.machine.on_refused(from, to, message),
            Posted::Full => {}
        }
        // Whoever takes nothing out of its inbox, because it is stopped, must not keep us from serving others.
        if behind < OUTBOX || !self.machine.on_full(from, to, message, now()) {
            self.outbox.push_back((from, to, message.to_vec()));
        }
    }

    fn door(&self) -> Door<'_> {
        let by = self.station.number(self.node, self.machine.config().life);
        Door { station: &self.station, peers: &self.peers, outgoing: self.outgoing.as_ref(), by }
    }

    /// Sends what had no room before, in its order; whether anything went.
    pub(super) fn flush(&mut self) -> bool {
        if self.outbox.is_empty() {
            return false;
        }
        let (mut full, mut refused) = (Vec::new(), Vec::new());
        let mut outbox = std::mem::take(&mut self.outbox);
        let (before, door) = (outbox.len(), self.door());
        outbox.retain(|waiting| {
            let (from, to, message) = waiting;
            let posted = if full.contains(to) { Posted::Full } else { door.post(*from, *to, message) };
            match posted {
                Posted::Full => full.push(*to),
                Posted::Refused => refused.push(waiting.clone()),
                Posted::Gone => {}
            }
            posted == Posted::Full
        });
        self.outbox = outbox;
        for (from, to, message) in refused {
            self.machine.on_refused(from, to, &message);
        }
        self.outbox.len() < before
    }

    /// Whether anybody has come, left or died since the last look.
    pub(super) fn has_news(&self) -> bool {
        self.station.changes() != self.seen
    }

    /// Whether a call is under way that may wait for somebody who has left.
    pub(super) fn misses_somebody(&self) -> bool {
        !self.machine.is_empty() && self.has_news()
    }

    /// Whether members elsewhere hear only from here who has died: no machine here knows of their calls.
    pub(super) fn tells_others(&self) -> bool {
        self.outgoing.is_some() && self.station.shape().places() > 1
    }

    /// Looks who has come, left or died.
    pub(super) fn look(&mut self) {
        if self.is_inherited() {
            return;
        }
        self.seen = self.station.changes();
        // Whoever has died before its life was known is seen to come first, and to be dead then.
        for _ in 0..2 {
            let (changed, shape) = (self.peers.changed(&self.station), self.station.shape());
            let most = shape.messages as usize;
            // Who had not seen yet that a seat is ours has sent to the inbox of that seat.
            for seat in shape.here() {
                if seat != self.node && self.peers.is_own(seat) {
                    self.receive(seat, most, now());
                }
            }
            if changed.is_empty() {
                return;
            }
            self.receive(self.node, most, now());
            if self.held.is_some() {
                // The machine has to be polled before it takes the rest.
                let (outbox, peers) = (&mut self.outbox, &self.peers);
                let is_over = |to| peers.was_there(to) && changed.iter().any(|&(node, _)| node == to);
                outbox.retain(|&(_, to, _)| !is_over(to));
                self.look_at = Time::ZERO;
                return;
            }
            for (node, sitter) in changed {
                self.note(node, sitter);
            }
        }
    }

    /// Takes note of who sits somewhere.
    fn note(&mut self, node: Node, sitter: Sitter) {
        let own: Vec<Node> = self.peers.own().collect();
        let is_here = self.station.shape().is_here(node);
        let station = &self.station;
        // Messages from elsewhere are put into inboxes by others.
        let reclaim = |life| {
            for inbox in own.iter().filter(|_| is_here).filter_map(|&seat| station.inbox(seat).ok()) {
                inbox.queue().reclaim(station.number(node, life));
            }
        };
        self.peers.note(node, sitter, |node, news| {
            let life = match news {
                News::Gone(life) => {
                    self.outbox.retain(|&(_, to, _)| to != node);
                    self.replies.gone(node);
                    self.machine.on_gone(node, now());
                    if let Some(probe) = &self.probe {
                        probe.gone(node);
                    }
                    reclaim(life);
                    Life(0)
                }
                News::Passed(life) => return reclaim(life),
                News::Back(life) => {
                    self.machine.on_back(node);
                    life
                }
            };
            if let Some(outgoing) = self.outgoing.as_ref().filter(|_| is_here) {
                outgoing.sits(Sits { node, life });
            }
        });
    }
}

/// How far the taking of messages has come.
struct Taken {
    /// So many more.
    left: usize,
    /// There were any.
    worked: bool,
    /// Of the life of whoever sent the one that is held note was taken.
    is_noted: bool,
}

/// Whether a message that lies here is for a member elsewhere.
fn is_for_elsewhere(station: &Station, header: &Header) -> bool {
    !station.shape().is_here(receiver(header).0)
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Posted {
    /// It is on its way, or its receiver is no more.
    Gone,
    /// There is no room for it now.
    Full,
    /// It can never go there.
    Refused,
}

/// The way out of a member.
#[derive(Clone, Copy)]
struct Door<'a> {
    station: &'a Station,
    peers: &'a Peers,
    /// The way to members elsewhere, if it begins here.
    outgoing: Option<&'a Outgoing>,
    /// By which number inboxes know this machine.
    by: u16,
}

impl Door<'_> {
    /// Puts a message into an inbox.
    fn post(&self, from: Node, to: Node, message: &[u8]) -> Posted {
        let header = self.peers.header(from, to);
        if let Some(outgoing) = self.outgoing.filter(|_| is_for_elsewhere(self.station, &header)) {
            return if outgoing.message(&header, message) { Posted::Gone } else { Posted::Full };
        }
        let inbox = match self.station.inbox(self.peers.home(to)) {
            Ok(inbox) => inbox,
            // Nobody has come there yet.
            Err(StationError::NoSeat(_)) => return Posted::Gone,
            Err(_) => return Posted::Refused,
        };
        match Port::new(inbox, self.by, Futex).try_send(header, message) {
            Ok(_) => Posted::Gone,
            Err(SendError::Full) => Posted::Full,
            Err(_) => Posted::Refused,
        }
    }
}
