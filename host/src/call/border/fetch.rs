//! Data that members elsewhere offer, fetched to where members here read it.
//!
//! A request that names data in another place waits here until the data has come, in pieces, into memory of the border's own
//! seat; then it goes on with the name that the data has here. When it is sent on to a third place it gets back the name that
//! it has with its maker, and that place asks for it here. So nobody sees a part of it, and there is one copy in each place, however
//! many members of it are asked and by whom.
//!
//! Bounded: what is fetched lies in [`Shape::offer_bytes`](super::super::Shape) of one seat, replies in as many of the same, and
//! at most [`WINDOW`] bytes are asked of one place at once; requests are counted. One for which there is no memory is refused for
//! lack of room and made again later, like any other; an answer is [kept](super::kept).
//!
//! Data stays while a request over it has no answer yet, or until its time is over, or one of both ends is gone.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem::take;

use umbra_core::chain::{CallId, Carried, Data, Life, Node, peek_reply};
use umbra_core::channel::Header;
use umbra_core::key::Span;
use umbra_core::time::{Lapse, Time};

use super::super::address::{receiver, sender};
use super::super::named::rename;
use super::super::offer::OFFERS;
use super::super::station::{Station, StationError};
use super::copies::{self, Copies};
use super::landing::{Landing, Shelves, User, WINDOW, Waiting};

/// Requests that wait for data at once.
const WAITING: usize = copies::MOST;
/// Requests over fetched data without an answer at once: more than members in a place can have, so that only who makes them up
/// gets there.
const USERS: usize = 4096;
/// How long after the end of its time a call's data may be in use still.
pub(super) const AFTER: Lapse = Lapse::from_secs(1);

/// A piece to be asked for: `len` bytes of the span of this key, from `offset` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pull {
    pub(super) serial: u32,
    pub(super) span: Span,
    /// With it all of a reply has gone, and is not needed there any more.
    pub(super) is_last: bool,
}

/// What is to be done with a request over data elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// It goes on; its data is called so now.
    On(Span),
    /// It waits here.
    Waits,
    /// It has waited here before it was sent again.
    WaitsAlready,
    /// There is no room for its data.
    Refused,
    /// Its data can never come: it goes on as it is, and finds nothing.
    Without,
}

/// What has been fetched and is being fetched.
#[derive(Debug)]
pub(super) struct Fetch {
    station: Station,
    shelves: Shelves,
    landings: Vec<Landing>,
    /// Requests that wait no more, in their order.
    ready: VecDeque<(Header, Vec<u8>)>,
    /// The messages of those that wait.
    pub(super) copies: Copies,
    /// What landings that are over had: others use it again, so that nothing is allocated for them.
    lists: Vec<(Vec<User>, Vec<Waiting>)>,
    serial: u32,
    /// Bytes asked of each place that have not come.
    asked: Vec<u64>,
    bytes: u64,
}

impl Fetch {
    /// Fetches into the memory of this seat, which was taken in this life.
    pub(super) fn new(station: &Station, door: (Node, Life)) -> Result<Fetch, StationError> {
        let places = station.shape().places() as usize;
        Ok(Fetch {
            station: station.clone(),
            shelves: Shelves::new(station, door)?,
            landings: Vec::with_capacity(2 * OFFERS),
            ready: VecDeque::with_capacity(WAITING),
            copies: Copies::new(station.shape()),
            lists: Vec::with_capacity(2 * OFFERS),
            serial: 0,
            asked: vec![0; places],
            bytes: 0,
        })
    }

    /// Whether no data of others is here or on its way.
    pub(super) const fn is_empty(&self) -> bool {
        self.landings.is_empty()
    }

    /// Bytes that have come.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A request has come from that place over data that does not lie here.
    pub(super) fn request(&mut self, place: u32, header: Header, carried: &Carried, message: &[u8], now: Time) -> Way {
        self.expire(now);
        self.collect();
        let Carried { is_answer, call, span, budget, .. } = *carried;
        if span.offset.checked_add(span.len).is_none() {
            return Way::Without;
        }
        let ((from, _), (to, _)) = (sender(&header), receiver(&header));
        let user = User { call, from, to, until: now + budget + AFTER };
        let reader = is_answer.then_some(to);
        let known = self.landings.iter().position(|landing| landing.is_for(span, reader, &user));
        let at = match known {
            Some(at) => at,
            None => match self.shelves.of(reader).reserve(span.len) {
                Ok(offer) => {
                    self.serial = self.serial.wrapping_add(1);
                    let (serial, (users, waiting)) = (self.serial, self.lists.pop().unwrap_or_default());
                    self.landings.push(Landing {
                        serial,
                        place,
                        span,
                        offer,
                        reader,
                        is_cut_off: false,
                        asked: 0,
                        come: 0,
                        users,
                        waiting,
                    });
                    self.landings.len() - 1
                }
                Err(error) if error.is_for_now() => return Way::Refused,
                // More than there is room for at all, or none.
                Err(_) => return Way::Without,
            },
        };
        let (users, waiting) = self
            .landings
            .iter()
            .fold((0, 0), |(users, waiting), landing| (users + landing.users.len(), waiting + landing.waiting.len()));
        let Some(landing) = self.landings.get_mut(at) else { return Way::Without };
        let is_here = landing.is_here();
        if landing.users.iter().any(|other| user.is(other)) {
            if !is_here {
                return Way::WaitsAlready;
            }
        } else if users >= USERS || !is_here && waiting >= WAITING {
            self.tidy();
            return Way::Refused;
        } else {
            landing.users.push(user);
            if !is_here {
                let message = self.copies.take(message);
                landing.waiting.push(Waiting { user, header, message });
                return Way::Waits;
            }
        }
        match landing.offer.data() {
            Data::Span(span) => Way::On(span),
            Data::Bytes(_) => Way::Without,
        }
    }

    /// The next piece to be asked for, of whom, if there is any.
    pub(super) fn pull(&mut self) -> Option<(u32, Pull)> {
        for landing in &mut self.landings {
            let asked = self.asked.get_mut(landing.place as usize)?;
            let len = landing.next(*asked);
            if len > 0 {
                let span = Span { offset: landing.span.offset + landing.asked, len, ..landing.span };
                landing.asked += len;
                *asked += len;
                let is_last = landing.reader.is_some() && landing.asked == landing.span.len;
                return Some((landing.place, Pull { serial: landing.serial, span, is_last }));
            }
        }
        None
    }

    /// Whether a piece is to be asked for.
    pub(super) fn is_idle(&self) -> bool {
        !self.landings.iter().any(|landing| {
            let asked = self.asked.get(landing.place as usize).copied().unwrap_or(WINDOW);
            landing.next(asked) > 0
        })
    }

    /// Bytes have come, the next of their piece, or word that so many of it do not. The requests that need wait no more are
    /// [ready](Self::ready); `None` if nothing of the kind was asked for there.
    pub(super) fn data(&mut self, place: u32, serial: u32, missing: u32, bytes: &[u8]) -> Option<()> {
        let len = bytes.len() as u64 + u64::from(missing);
        if len == 0 {
            return None;
        }
        let asked = self.asked.get_mut(place as usize)?;
        *asked = asked.checked_sub(len)?;
        self.bytes += bytes.len() as u64;
        let of = |landing: &&mut Landing| landing.serial == serial && landing.place == place;
        // Nobody wants it any more.
        let Some(landing) = self.landings.iter_mut().find(of) else { return Some(()) };
        if missing > 0 {
            self.ready.extend(landing.waiting.drain(..).map(|waiting| (waiting.header, waiting.message)));
            // What was asked for besides counts still when it comes; nobody waits for it.
            self.remove(|landing, _| landing.serial == serial);
            return Some(());
        }
        if landing.come + len > landing.asked {
            return None;
        }
        let shelf = self.shelves.of(landing.reader);
        shelf.fill(&self.station, &landing.offer, landing.come, bytes).ok()?;
        landing.come += len;
        if !landing.is_here() {
            return Some(());
        }
        shelf.lay(&self.station, &mut landing.offer, landing.reader).ok()?;
        let here = landing.offer.data();
        self.ready.extend(landing.waiting.drain(..).map(|Waiting { header, mut message, .. }| {
            if let Data::Span(span) = here {
                rename(&mut message, span);
            }
            (header, message)
        }));
        Some(())
    }

    /// The next request that waits no more. Its message is to be given [back](Copies::give).
    pub(super) fn ready(&mut self) -> Option<(Header, Vec<u8>)> {
        self.ready.pop_front()
    }

    /// A request is over: it was answered, refused, or given up; if it waits, it does not go on.
    pub(super) fn over(&mut self, call: CallId, from: Node, to: Node) {
        self.forget(|user, _| (user.call, user.from, user.to) == (call, from, to));
    }

    /// A message is dropped here: if it is an answer, nobody reads its reply.
    pub(super) fn unheard(&mut self, header: &Header, message: &[u8]) {
        if let Some(carried) = peek_reply(message) {
            self.over(carried.call, sender(header).0, receiver(header).0);
        }
    }

    /// These members are gone, wherever they were: what they wanted, and what they said that has not come.
    pub(super) fn gone(&mut self, is_gone: impl Fn(Node) -> bool) {
        // An answer whose reply has come is its reader's.
        self.forget(|user, is_read| is_gone(user.to) || (is_gone(user.from) && !is_read));
    }

    /// The way to a place is lost, and all that was on it, as are those for whom `is_gone`. The requests of others that waited for
    /// data from there are [ready](Self::ready).
    pub(super) fn part(&mut self, place: u32, is_gone: impl Fn(Node) -> bool) {
        if let Some(asked) = self.asked.get_mut(place as usize) {
            *asked = 0;
        }
        self.gone(is_gone);
        let cut = |landing: &Landing| landing.place == place && !landing.is_here();
        let others = self.landings.iter_mut().filter(|landing| cut(landing));
        let others = others.flat_map(|landing| landing.waiting.drain(..));
        self.ready.extend(others.map(|waiting| (waiting.header, waiting.message)));
        self.remove(|landing, _| cut(landing));
        // Also what came from there by way of others.
        let shape = self.station.shape();
        let made_there = |landing: &&mut Landing| shape.place(landing.maker()) == place;
        self.landings.iter_mut().filter(made_there).for_each(|landing| landing.is_cut_off = true);
    }

    /// How data is called here that is called so where its maker has laid it, if it has come.
    pub(super) fn here(&self, span: Span) -> Option<Span> {
        let inside = |whole: Span| {
            let start = span.offset.checked_sub(whole.offset).filter(|_| span.key == whole.key)?;
            start.checked_add(span.len).filter(|&end| end <= whole.len).map(|_| start)
        };
        // What an answer tells of is nobody's but its reader's.
        let is_given = |landing: &&Landing| landing.is_here() && landing.reader.is_none();
        let mut whole = self.landings.iter().filter(|landing| is_given(landing) && !landing.is_cut_off);
        whole.find_map(|landing| {
            let (start, Data::Span(here)) = (inside(landing.span)?, landing.offer.data()) else { return None };
            Some(Span { offset: here.offset + start, len: span.len, ..here })
        })
    }

    /// How data that is called so here is called where its maker has laid it, if it was fetched.
    pub(super) fn origin(&self, here: Span) -> Option<Span> {
        let mut landings = self.landings.iter();
        let landing = landings.find(|landing| matches!(landing.offer.data(), Data::Span(span) if span == here))?;
        (!landing.is_cut_off).then_some(landing.span)
    }

    /// Frees the memory of replies that were read.
    fn collect(&mut self) {
        self.remove(|landing, station| landing.reader.is_some() && landing.offer.is_released(station));
    }

    fn expire(&mut self, now: Time) {
        if self.landings.iter().any(|landing| landing.users.iter().any(|user| user.until <= now)) {
            self.forget(|user, _| user.until <= now);
        }
    }

    /// Forgets who is over; whether the reply of its answer has come is told as well.
    fn forget(&mut self, is_over: impl Fn(&User, bool) -> bool) {
        for landing in &mut self.landings {
            let is_read = landing.reader.is_some() && landing.is_here();
            landing.users.retain(|user| !is_over(user, is_read));
            landing.waiting.retain(|waiting| !is_over(&waiting.user, is_read));
        }
        self.tidy();
    }

    /// What nobody uses makes room.
    fn tidy(&mut self) {
        self.remove(|landing, _| landing.users.is_empty());
    }

    fn remove(&mut self, is_over: impl Fn(&Landing, &Station) -> bool) {
        let Fetch { shelves, station, landings, lists, .. } = self;
        landings.retain_mut(|landing| {
            let over = is_over(landing, station);
            if over {
                shelves.of(landing.reader).take_back(station, &landing.offer);
                let (mut users, mut waiting) = (take(&mut landing.users), take(&mut landing.waiting));
                users.clear();
                waiting.clear();
                lists.push((users, waiting));
            }
            !over
        });
    }
}
