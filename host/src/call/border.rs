//! Meeting places on several hosts, joined: where calls leave one and enter it.
//!
//! Every host has a meeting place of its own, and every member a number that no other has on any host. A [`Border`] keeps,
//! in its place, the seats of all members elsewhere: for the members here they look like any other, taken by the process
//! that has the border, and left when the member elsewhere dies or the way to it is lost. So nothing else of calls knows of
//! hosts: a message to a member elsewhere goes to the inbox of the first member here, which [puts it
//! out](super::Outgoing), and one from elsewhere is put by the border into the inbox of its receiver.
//!
//! ```text
//! member here ── inbox of the first member ── Outgoing ──► Border::poll ── link ──► Border::on_frame ── inbox ── member there
//! ```
//!
//! Whoever drives it has the links; one to each other place, in order, that loses nothing while it is up. What goes over
//! them are five [kinds of frames](ops), which the driver only carries:
//!
//! * A place that has a link greets: who sits there now. After that it tells each change, in order with the messages, so that
//!   a death comes after everything that the dead one sent.
//! * When a link is lost, all members beyond it are dead to those here, as they are to them. Another link begins with
//!   another greeting, and as other lives: nothing of what was under way before is taken for something new.
//! * Whoever has no room makes nobody wait: a request that cannot go on is answered as refused for lack of room, and its
//!   sender makes it again a little later. Answers are few, because requests are bounded, and are kept until there is room.
//! * Data that a member [offers](super::offer) follows the request that names it, in pieces that the other place asks for; the
//!   request goes on there when they have come.
//!
//! Invariants: a message is put only into the inbox of the life that it was sent to; a frame speaks only for members of the
//! place that it came from.

mod copies;
mod crossings;
mod data;
mod error;
mod fetch;
mod give;
mod greet;
mod inboxes;
mod kept;
mod landing;
mod part;

use umbra_core::chain::{Life, Node, busy, peek_answer, peek_cancel};
use umbra_core::channel::Header;
use umbra_core::codec::{Reader, Writer};
use umbra_core::wire::Op;

pub use self::crossings::Crossings;
pub use self::error::BorderError;
use self::fetch::Fetch;
use self::give::Give;
use self::inboxes::{Inboxes, Put};
use self::kept::Answers;
use super::address::{self, receiver, sender, turned};
use super::forked::Origin;
use super::join::{JoinError, sit};
use super::outgoing::{Outgoing, Record, Sits, record};
use super::shape::Shape;
use super::station::Station;
use crate::sys::heap::filled;
use crate::sys::process::ProcessId;

/// Operations between places; nobody answers them.
pub mod ops {
    use umbra_core::wire::Op;

    /// Who sits in the sender's place: the first frame over a link.
    pub const GREET: Op = Op(0x0601);
    /// Who sits on one seat of it from now on.
    pub const SIT: Op = Op(0x0602);
    /// A message from a member there to one here.
    pub const MESSAGE: Op = Op(0x0603);
    /// The sender wants a piece of data that a member here offers.
    pub const PULL: Op = Op(0x0604);
    /// The next bytes of a piece that was asked for, or word that they do not come.
    pub const DATA: Op = Op(0x0605);
}

/// Bytes of a frame before its message.
const ADDRESS: usize = 16;

/// What is known of the way to another place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Way {
    /// There is a link.
    is_up: bool,
    /// Our greeting went over it.
    has_greeted: bool,
    /// Theirs came.
    has_met: bool,
}

/// The border of one place. In a child that was forked off it does nothing: seats, inboxes and links are its parent's.
#[derive(Debug)]
pub struct Border {
    station: Station,
    process: ProcessId,
    origin: Origin,
    /// The seat as whose owner it puts messages into inboxes.
    door: Node,
    inboxes: Inboxes,
    outgoing: Outgoing,
    ways: Vec<Way>,
    /// Of everybody: the life here, and the life by which his own place knows him.
    lives: Vec<(Life, Life)>,
    /// What was taken out of the way out, and how far that is done with.
    taken: Vec<u8>,
    at: usize,
    /// News that go to this place and those after it.
    news: Option<(Sits, u32)>,
    /// Offered data of members elsewhere, and of members here. `None`: nobody can offer any.
    fetch: Option<Fetch>,
    give: Give,
    answers: Answers,
    crossings: Crossings,
    scratch: Vec<u8>,
}

impl Border {
    /// The border of a place whose first member puts into `outgoing` what goes elsewhere; it takes the seat `door` for itself.
    ///
    /// # Errors
    /// [`JoinError`] if that seat is taken.
    pub fn new(station: &Station, door: Node, outgoing: Outgoing) -> Result<Border, JoinError> {
        let (shape, process) = (station.shape(), ProcessId::current()?);
        let taken = sit(station, door, door)?;
        let offers = shape.offer_bytes > 0 && shape.places() > 1;
        let fetch = offers.then(|| Fetch::new(station, (door, taken.life))).transpose()?;
        let scratch = filled(0, shape.message_bytes as usize)?;
        let life = taken.keep();
        let places = shape.place(Node(shape.all.saturating_sub(1))) + 1;
        Ok(Border {
            station: station.clone(),
            process,
            origin: Origin::this(),
            door,
            inboxes: Inboxes::new(station, station.number(door, life)),
            outgoing,
            ways: vec![Way::default(); places as usize],
            lives: vec![(Life(0), Life(0)); shape.all as usize],
            taken: Outgoing::room(),
            at: 0,
            news: None,
            fetch,
            give: Give::default(),
            answers: Answers::default(),
            crossings: Crossings::default(),
            scratch,
        })
    }

    pub(super) fn is_inherited(&self) -> bool {
        self.origin.is_inherited()
    }

    /// Whether there is nothing to [poll](Self::poll) now.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.is_inherited()
            || self.at >= self.taken.len()
                && self.news.is_none()
                && self.outgoing.is_empty()
                && self.give.is_idle()
                && self.fetch.as_ref().is_none_or(Fetch::is_idle)
                && !self.ways.iter().any(|way| way.is_up && !way.has_greeted)
    }

    /// Whether anything waits for room here or on a link, so that [`flush`](Self::flush) and [`poll`](Self::poll) are to be
    /// called again soon.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        let waits = !self.answers.is_empty() || self.inboxes.are_waited_for() || self.give.is_stalled();
        waits && !self.is_inherited()
    }

    /// There is a new link to a place.
    pub fn on_link(&mut self, place: u32) {
        if self.is_inherited() {
            return;
        }
        self.part(place);
        if let Some(way) = self.ways.get_mut(place as usize) {
            *way = Way { is_up: true, ..Way::default() };
        }
    }

    /// The link to a place is lost.
    pub fn on_gone(&mut self, place: u32) {
        if self.is_inherited() {
            return;
        }
        self.part(place);
        if let Some(way) = self.ways.get_mut(place as usize) {
            *way = Way::default();
        }
    }

    /// A member elsewhere is there in this life, or is not; whether another life of it was there.
    fn sit(&mut self, Sits { node, life }: Sits) -> bool {
        let (Ok(seat), Some(lives)) = (self.station.seat(node), self.lives.get_mut(node.index())) else { return false };
        let leaves = lives.1 != Life(0);
        if leaves {
            seat.leave();
        }
        lives.1 = life;
        if life != Life(0) {
            // Nobody else takes seats of members elsewhere.
            let taken = seat.take(seat.sitter(), self.process, Node(self.station.shape().first));
            lives.0 = taken.unwrap_or(lives.0);
        }
        leaves
    }

    /// A frame came over the link to a place.
    ///
    /// # Errors
    /// [`BorderError`]: the link, or the whole place, cannot be used.
    pub fn on_frame(&mut self, place: u32, op: Op, body: &[u8]) -> Result<(), BorderError> {
        if self.is_inherited() {
            return Ok(());
        }
        let Way { is_up, has_met, .. } = self.ways.get(place as usize).copied().unwrap_or_default();
        let malformed = |_| BorderError::Malformed;
        match op {
            ops::GREET if is_up => self.on_greeting(place, body),
            ops::SIT if has_met => {
                let mut from = Reader::new(body);
                let node = Node(from.u32().map_err(malformed)?);
                let life = Life(from.u32().map_err(malformed)?);
                self.of(place, node)?;
                self.forget_data(node);
                if self.sit(Sits { node, life }) {
                    self.inboxes.rouse();
                }
                Ok(())
            }
            ops::MESSAGE if has_met => self.on_message(place, body),
            ops::PULL if has_met => self.on_pull(place, body),
            ops::DATA if has_met => self.on_data(place, body),
            // Of a way that is lost.
            _ => Ok(()),
        }
    }

    fn on_message(&mut self, place: u32, body: &[u8]) -> Result<(), BorderError> {
        let mut from = Reader::new(body);
        let mut word = || from.u32().map_err(|_| BorderError::Malformed);
        let (sender, sends_as, to, meant) = (Node(word()?), Life(word()?), Node(word()?), Life(word()?));
        let message = from.rest();
        self.of(place, sender)?;
        let shape = self.station.shape();
        if !shape.is_here(to) || message.len() > shape.message_bytes as usize {
            return Err(BorderError::Malformed);
        }
        let Some(&(life, real)) = self.lives.get(sender.index()).filter(|lives| lives.1 != Life(0)) else {
            self.crossings.stale += 1;
            return Ok(());
        };
        if real != sends_as {
            self.crossings.stale += 1;
            return Ok(());
        }
        self.crossings.received += 1;
        let header = address::header((sender, life), (to, meant));
        if self.is_carried(place, header, message) {
            return Ok(());
        }
        if let (Some((call, _)), Some(fetch)) = (peek_cancel(message), &mut self.fetch) {
            fetch.over(call, sender, to);
        }
        self.hand_in(header, message);
        Ok(())
    }

    /// Puts a message into the inbox of its receiver.
    fn hand_in(&mut self, header: Header, message: &[u8]) {
        let (to, _) = receiver(&header);
        match self.inboxes.put(to, header, message, &mut self.scratch) {
            Put::Taken => {}
            Put::Refused(len) => self.refuse(header, len),
            Put::Lost => {
                self.crossings.lost += 1;
                self.fetch.iter_mut().for_each(|fetch| fetch.unheard(&header, message));
            }
        }
    }

    /// Back to where it came from goes a refusal of so many bytes, as if its receiver had said so.
    fn refuse(&mut self, header: Header, len: usize) {
        self.crossings.refused += 1;
        self.outgoing.answer(&turned(&header), self.scratch.get(..len).unwrap_or_default());
    }

    /// Puts what waits into inboxes that have room by now; whether anything went.
    pub fn flush(&mut self) -> bool {
        if self.is_inherited() {
            return false;
        }
        self.flush_kept();
        self.inboxes.flush()
    }

    /// The next frame to be sent: to which place, which operation, and how many bytes of `to` are its body. `has_room` says
    /// whether the link to a place takes requests now; everything else is to be sent in any case.
    ///
    /// `to` holds 16 bytes more than the longest message, and 16 more than four a seat here.
    pub fn poll(&mut self, has_room: impl Fn(u32) -> bool, to: &mut [u8]) -> Option<(u32, Op, usize)> {
        if self.is_inherited() {
            return None;
        }
        let greeting = self.poll_greeting(to);
        greeting.or_else(|| self.poll_message(&has_room, to)).or_else(|| self.poll_data(&has_room, to))
    }

    fn poll_message(&mut self, has_room: &impl Fn(u32) -> bool, to: &mut [u8]) -> Option<(u32, Op, usize)> {
        loop {
            if let Some((sits, place)) = self.news.take() {
                let next = self.ways.iter().enumerate().skip(place as usize).find(|(_, way)| way.is_up);
                if let Some((place, _)) = next {
                    self.news = Some((sits, place as u32 + 1));
                    let mut to = Writer::new(to);
                    to.u32(sits.node.0).and_then(|()| to.u32(sits.life.0)).ok()?;
                    return Some((place as u32, ops::SIT, to.len()));
                }
            }
            if self.at >= self.taken.len() {
                self.outgoing.take(&mut self.taken);
                self.at = 0;
            }
            let (record, next) = record(&self.taken, self.at)?;
            self.at = next;
            match record {
                Record::Sits(sits) => {
                    if let Some(lives) = self.lives.get_mut(sits.node.index()) {
                        *lives = (sits.life, sits.life);
                    }
                    self.forget_data(sits.node);
                    self.news = Some((sits, 0));
                }
                Record::Message(header, message) => {
                    let ((from, sends_as), (node, meant)) = (sender(&header), receiver(&header));
                    let place = self.station.shape().place(node);
                    if let Some(fetch) = self.fetch.as_mut().filter(|fetch| !fetch.is_empty())
                        && let Some(call) = peek_answer(message)
                    {
                        fetch.over(call, node, from);
                    }
                    let Some(&(life, real)) = self.lives.get(node.index()) else { continue };
                    if meant != Life(0) && (meant != life || real == Life(0)) {
                        self.crossings.stale += 1;
                        continue;
                    }
                    let is_open = self.ways.get(place as usize).is_some_and(|way| way.has_met) && real != Life(0);
                    if !is_open || !has_room(place) {
                        if let Some(len) = busy(message, &mut self.scratch) {
                            self.crossings.refused += 1;
                            let answer = self.scratch.get(..len);
                            // An answer is never refused itself.
                            let header = address::header((node, life), (from, sends_as));
                            if self.inboxes.put(from, header, answer.unwrap_or_default(), &mut []) == Put::Lost {
                                self.crossings.lost += 1;
                            }
                            continue;
                        }
                        if !is_open {
                            self.crossings.stale += 1;
                            continue;
                        }
                    }
                    self.crossings.sent += 1;
                    let mut frame = Writer::new(to);
                    for word in [from.0, sends_as.0, node.0, real.0] {
                        frame.u32(word).ok()?;
                    }
                    frame.bytes(message).ok()?;
                    let len = frame.len();
                    self.restore((from, sends_as), to.get_mut(ADDRESS..len).unwrap_or_default());
                    return Some((place, ops::MESSAGE, len));
                }
            }
        }
    }

    /// Bytes of the longest body that [`poll`](Self::poll) gives out.
    #[must_use]
    pub const fn body_max(shape: Shape) -> usize {
        let (message, greeting) = (shape.message_bytes as usize, 4 * shape.members as usize);
        ADDRESS + if message > greeting { message } else { greeting }
    }
}
