//! Data that members elsewhere offer, fetched to where members here read it.
//!
//! A request that names data in another place waits here until the data has come, in pieces, into memory of the border's own
//! seat; then it goes on with the name that the data has here. When it is sent on to a third place it gets back the name that
//! it has with its maker, and that place asks for it here. So nobody sees a part of it, and there is one copy in each place, however
//! many members of it are asked and by whom.
//!
//! Bounded: what is fetched lies in [`Shape::offer_bytes`](super::super::Shape) of one seat, replies in as many of their own, and
//! at most [`WINDOW`] bytes are asked of one place at once; requests are counted. One for which there is no memory is refused for
//! lack of room and made again later, like any other; an answer is [kept](super::kept).
//!
//! Data stays while a request over it has no answer yet, or until its time is over, or one of both ends is gone.

use std::collections::VecDeque;
use std::mem::take;

use umbra_core::chain::{CallId, Carried, Data, Node, peek_carried, set_carried};
use umbra_core::channel::Header;
use umbra_core::key::Span;
use umbra_core::time::{Lapse, Time};

use super::super::offer::{OFFERS, Shelf, Table};
use super::super::station::{Station, StationError};
use super::landing::{Landing, User, Waiting};

/// Bytes that are asked for by one frame.
pub(super) const PIECE: u64 = 64 << 10;
/// Bytes that are asked of one place and have not come.
pub(super) const WINDOW: u64 = 4 * PIECE;
/// Requests that wait for data at once.
const WAITING: usize = 64;
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
    shelf: Shelf,
    /// Of replies.
    replies: Shelf,
    landings: Vec<Landing>,
    /// Requests that wait no more, in their order.
    ready: VecDeque<(Header, Vec<u8>)>,
    /// What such requests and landings that are over lay in: others use it again, so that nothing is allocated for them.
    spare: Vec<Vec<u8>>,
    lists: Vec<(Vec<User>, Vec<Waiting>)>,
    serial: u32,
    /// Bytes asked of each place that have not come.
    asked: Vec<u64>,
    bytes: u64,
}

impl Fetch {
    /// Fetches into the memory of this seat.
    pub(super) fn new(station: &Station, door: Node) -> Result<Fetch, StationError> {
        let places = station.shape().places() as usize;
        let shelf = Shelf::new(station, door, Table::Own)?;
        let replies = Shelf::new(station, door, Table::Replies)?;
        Ok(Fetch {
            station: station.clone(),
            shelf,
            replies,
            landings: Vec::with_capacity(2 * OFFERS),
            ready: VecDeque::with_capacity(WAITING),
            spare: Vec::with_capacity(WAITING),
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
        let (from, to) = (Node(header.sender as u32), Node((header.hints >> 32) as u32));
        let user = User { call, from, to, until: now + budget + AFTER };
        let reader = is_answer.then_some(to);
        let known = self.landings.iter().position(|landing| landing.is_for(span, reader, &user));
        let at = match known {
            Some(at) => at,
            None => match if is_answer { &mut self.replies } else { &mut self.shelf }.reserve(span.len) {
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
        let is_here = landing.come == span.len;
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
                let message = copied(&mut self.spare, &self.station, message);
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
            let len = PIECE.min(landing.span.len - landing.asked);
            if len > 0 && *asked + len <= WINDOW {
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
            let len = PIECE.min(landing.span.len - landing.asked);
            len > 0 && asked + len <= WINDOW
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
        let shelf = if landing.reader.is_some() { &self.replies } else { &self.shelf };
        shelf.fill(&self.station, &landing.offer, landing.come, bytes).ok()?;
        landing.come += len;
        if landing.come < landing.span.len {
            return Some(());
        }
        shelf.lay(&self.station, &mut landing.offer, landing.reader).ok()?;
        let here = landing.offer.data();
        self.ready.extend(landing.waiting.drain(..).map(|Waiting { header, mut message, .. }| {
            if let Data::Span(span) = here {
                let is_named = set_carried(&mut message, span);
                debug_assert!(is_named, "only such requests wait");
            }
            (header, message)
        }));
        Some(())
    }

    /// The next request that waits no more. Its message is to be given [back](Self::spare).
    pub(super) fn ready(&mut self) -> Option<(Header, Vec<u8>)> {
        self.ready.pop_front()
    }

    /// A copy of a message, to be given [back](Self::spare).
    pub(super) fn copy(&mut self, message: &[u8]) -> Vec<u8> {
        copied(&mut self.spare, &self.station, message)
    }

    /// A message is done with.
    pub(super) fn spare(&mut self, message: Vec<u8>) {
        if self.spare.len() < WAITING {
            self.spare.push(message);
        }
    }

    /// A request is over: it was answered, refused, or given up; if it waits, it does not go on.
    pub(super) fn over(&mut self, call: CallId, from: Node, to: Node) {
        self.forget(|user, _| (user.call, user.from, user.to) == (call, from, to));
    }

    /// A message is dropped here: if it is an answer, nobody reads its reply.
    pub(super) fn unheard(&mut self, header: &Header, message: &[u8]) {
        if let Some(carried) = peek_carried(message).filter(|carried| carried.is_answer) {
            self.over(carried.call, Node(header.sender as u32), Node((header.hints >> 32) as u32));
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
        let cut = |landing: &Landing| landing.place == place && landing.come < landing.span.len;
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
        let is_given = |landing: &&Landing| landing.come == landing.span.len && landing.reader.is_none();
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
            let is_read = landing.reader.is_some() && landing.come == landing.span.len;
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
        let Fetch { shelf, replies, station, landings, lists, .. } = self;
        landings.retain_mut(|landing| {
            let over = is_over(landing, station);
            if over {
                let shelf = if landing.reader.is_some() { &mut *replies } else { &mut *shelf };
                shelf.take_back(station, &landing.offer);
                let (mut users, mut waiting) = (take(&mut landing.users), take(&mut landing.waiting));
                users.clear();
                waiting.clear();
                lists.push((users, waiting));
            }
            !over
        });
    }
}

/// A copy of a message, in what lies there if there is something, or where the longest one has room.
fn copied(spare: &mut Vec<Vec<u8>>, station: &Station, message: &[u8]) -> Vec<u8> {
    let mut copy = spare.pop().unwrap_or_else(|| Vec::with_capacity(station.shape().message_bytes as usize));
    copy.clear();
    copy.extend_from_slice(message);
    copy
}

#[cfg(test)]
mod tests {
    use umbra_core::chain::{Edge, Life, RESPONSE, VERSION, peek_carried};
    use umbra_core::key::Key;
    use umbra_core::peer::{Peer, WorldRank};

    use super::super::super::shape::Shape;
    use super::*;

    const PLACE: u32 = 1;
    const THERE: Node = Node(2);
    const START: Time = Time(1);

    fn fetch() -> Fetch {
        let shape = Shape { offer_bytes: 4096, ..Shape::new(2) }.joined(0, 3);
        let station = Station::create("fetch", shape).unwrap();
        Fetch::new(&station, Node(1)).unwrap()
    }

    /// What a message from there says of 800 bytes, the first that are laid out there.
    fn carried(seq: u64, is_answer: bool) -> Carried {
        let key = Key::new(Peer::rank(WorldRank(THERE.0)).unwrap(), 0, 0);
        Carried {
            is_answer,
            call: CallId { root: Node(0), life: Life(1), seq },
            edge: Edge { index: 0, generation: 0, ordinal: 0 },
            span: Span { key, offset: 0, len: 800 },
            budget: Lapse::from_secs(10),
        }
    }

    /// A message that says so, an answer.
    fn message() -> Vec<u8> {
        let mut message = vec![0; RESPONSE];
        (message[0], message[1], message[2], message[28], message[36]) = (VERSION, 2, 64, 24, 1);
        let Span { key, offset, len } = carried(1, true).span;
        [key.to_bits(), offset, len].iter().for_each(|word| message.extend(word.to_le_bytes()));
        assert!(peek_carried(&message).is_some_and(|said| said.span == carried(1, true).span));
        message
    }

    fn header(sender: Node) -> Header {
        Header { sender: sender.0.into(), ..Header::default() }
    }

    fn request(fetch: &mut Fetch, place: u32, carried: &Carried) -> Way {
        fetch.request(place, header(THERE), carried, &message(), START)
    }

    /// Asks for what is named, and has it come.
    fn come(fetch: &mut Fetch, place: u32, carried: &Carried) -> Way {
        assert_eq!(request(fetch, place, carried), Way::Waits);
        assert_eq!(request(fetch, place, carried), Way::WaitsAlready);
        let (_, pull) = fetch.pull().unwrap();
        fetch.data(place, pull.serial, 0, &[pull.serial as u8; 800]).unwrap();
        let (_, message) = fetch.ready().unwrap();
        fetch.spare(message);
        request(fetch, place, carried)
    }

    #[test]
    fn a_reply_of_the_same_name_in_another_call_is_another_one() {
        for is_lost in [false, true] {
            let mut fetch = fetch();
            let first = come(&mut fetch, PLACE, &carried(1, true));
            if is_lost {
                fetch.part(PLACE, |node| node == THERE);
            }
            let second = come(&mut fetch, PLACE, &carried(2, true));
            assert!(matches!((first, second), (Way::On(first), Way::On(second)) if first != second));
            // It is given to nobody else.
            assert_eq!(fetch.here(carried(1, true).span), None);
        }
    }

    #[test]
    fn data_of_the_same_name_is_other_data_after_the_way_to_its_maker_was_lost() {
        // It came from its maker, or by way of another place.
        for way in [PLACE, 2] {
            let mut fetch = fetch();
            let first = come(&mut fetch, way, &carried(1, false));
            assert_eq!(request(&mut fetch, way, &carried(2, false)), first);
            let Way::On(here) = first else { panic!("it has come") };
            assert_eq!(fetch.here(carried(1, false).span), Some(here));
            assert_eq!(fetch.origin(here), Some(carried(1, false).span));
            // Somebody beyond another way still uses it.
            assert_eq!(fetch.request(way, header(Node(4)), &carried(3, false), &[], START), first);
            fetch.part(PLACE, |node| node == THERE);
            assert_eq!((fetch.here(carried(1, false).span), fetch.origin(here)), (None, None));
            let second = come(&mut fetch, PLACE, &carried(4, false));
            assert!(matches!(second, Way::On(other) if other != here));
        }
    }

    #[test]
    fn a_reply_whose_answer_is_dropped_leaves_no_memory_taken() {
        let mut fetch = fetch();
        assert!(matches!(come(&mut fetch, PLACE, &carried(1, true)), Way::On(_)));
        // Another call's.
        let mut other = message();
        other[12] ^= 1;
        fetch.unheard(&header(THERE), &other);
        assert!(!fetch.is_empty());
        let mut its = carried(1, true);
        its.call = peek_carried(&message()).unwrap().call;
        assert!(matches!(come(&mut fetch, PLACE, &its), Way::On(_)));
        fetch.unheard(&header(THERE), &message());
        fetch.over(carried(1, true).call, THERE, Node(0));
        assert!(fetch.is_empty());
    }

    #[test]
    fn what_waits_already_is_not_refused_though_no_more_may_wait() {
        let mut fetch = fetch();
        for seq in 0..WAITING as u64 {
            assert_eq!(request(&mut fetch, PLACE, &carried(seq, false)), Way::Waits);
        }
        assert_eq!(request(&mut fetch, PLACE, &carried(WAITING as u64, false)), Way::Refused);
        assert_eq!(request(&mut fetch, PLACE, &carried(0, false)), Way::WaitsAlready);
    }
}
