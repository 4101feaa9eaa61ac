//! Fetches of ranks over links of which some do not answer.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra_core::access::message::READ;
use umbra_core::access::read::{Get, Landing, Piece, Place, ReadError, Reader, Server, Waiting};
use umbra_core::access::relay::{Ask, Asker, Fate, Fetches, Flight, Relay};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::machine::{Action, Link};
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::pending::Request;
use umbra_core::region::Region;
use umbra_core::slots::Slot;
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Token};

/// Links to service processes have numbers below, those to ranks from there on.
const RANKS: u32 = 32;
const LINKS: usize = 2 * RANKS as usize;
const DUE: Time = Time(100);

type Asking = Reader<Vec<Request<Waiting>>, Vec<Slot<Piece>>, Vec<Place>, Vec<Server>>;

struct Bench {
    reader: Asking,
    relay: Relay<Vec<Request<Ask>>, Vec<Flight>, Vec<Fetches>>,
    asked: u64,
}

impl Bench {
    /// A service process with links to so many others, the first of number 1, and places for so many requests.
    fn new(services: u32, requests: usize) -> Bench {
        let flights = vec![Flight::default(); requests];
        let requests = (0..requests).map(|_| Request::EMPTY).collect();
        let pieces = (0..2 * services).map(|_| Slot::EMPTY).collect();
        let mut reader = Reader::new(requests, pieces, vec![Place::default(); 4], vec![Server::default(); LINKS]);
        for link in 1..=services {
            reader.on_link(Link(link), Sp(link), Landing::Inline { requests: 2 }).unwrap();
        }
        let asks = (0..8 * services).map(|_| Request::EMPTY).collect();
        let relay = Relay::new(asks, flights, vec![Fetches::default(); LINKS]);
        Bench { reader, relay, asked: 0 }
    }

    /// A rank, another one for each link, wants bytes over it.
    fn ask(&mut self, via: u32) {
        let owner = Peer::rank(WorldRank(via)).unwrap();
        let key = Key::new(owner, 0, 1);
        let region = Region { key, incarnation: Incarnation::ANY, base: 0, len: u64::MAX, access: Access::READ };
        let get = Get { owner, via: Link(via), address: 0, len: 8, deadline: DUE, tag: 0, region: Some(region) };
        self.relay.ask(Asker { link: Link(RANKS + via), token: Token(self.asked) }, get).unwrap();
        self.asked += 1;
    }

    /// Begins what may begin; the frames that go out, by link and token.
    fn turn(&mut self) -> Vec<(u32, Token)> {
        let mut buffer = [0; 256];
        let mut sent = Vec::new();
        while let Some(get) = self.relay.pop(|via| self.reader.has_room_for(via)) {
            self.relay.begun(self.reader.get(get).unwrap());
        }
        while let Some(action) = self.reader.poll(&mut buffer) {
            let Action::Send { link, len_bytes } = action else { panic!("{action:?}") };
            match Frame::parse(&buffer[..len_bytes]).unwrap() {
                Frame::Call { op: READ, token, .. } => sent.push((link.0, token)),
                other => panic!("{other:?}"),
            }
        }
        sent
    }
}

/// Link `via` is answered read by read, whatever has become of the others.
fn goes_on(bench: &mut Bench, via: u32) {
    for round in 0..10 {
        bench.ask(via);
        let sent = bench.turn();
        let [(over, token)] = sent[..] else { panic!("{round}: {sent:?}") };
        assert_eq!(over, via);
        let done = Frame::Done { op: READ, token, status: Status::Ok, body: &[7; 8] };
        let delivery = bench.reader.on_frame(Link(via), &done).unwrap();
        assert!(matches!(bench.relay.ended(delivery.request), Fate::Answer(_)));
    }
}

#[test]
fn a_service_process_that_does_not_answer_keeps_nobody_from_another_one() {
    let mut bench = Bench::new(2, 4);
    (0..4).for_each(|_| bench.ask(1));
    assert!(bench.turn().iter().all(|(link, _)| *link == 1));
    goes_on(&mut bench, 2);
}

#[test]
fn any_number_of_service_processes_that_do_not_answer_leave_a_place_to_each_of_the_others() {
    const SERVICES: u32 = 20;
    let mut bench = Bench::new(SERVICES, SERVICES as usize + 12);
    for silent in 1..SERVICES {
        (0..8).for_each(|_| bench.ask(silent));
        assert!(bench.turn().iter().any(|(link, _)| *link == silent), "{silent} finds a place");
        goes_on(&mut bench, SERVICES);
    }
    // A link that goes and comes again finds the place that it had.
    bench.relay.on_gone(Link(RANKS + 1));
    bench.reader.on_gone(Link(1));
    while let Some(ended) = bench.reader.poll(&mut [0; 256]) {
        let Action::Event(ended) = ended else { panic!("{ended:?}") };
        assert_eq!(bench.relay.ended(ended.request), Fate::Nobody);
    }
    bench.reader.on_link(Link(1), Sp(1), Landing::Inline { requests: 2 }).unwrap();
    bench.turn();
    goes_on(&mut bench, SERVICES);
    goes_on(&mut bench, 1);
}

#[test]
fn places_are_given_back_however_a_read_ends() {
    let mut bench = Bench::new(2, 4);
    for round in 0..20 {
        bench.ask(2);
        let sent = bench.turn();
        let [(2, token)] = sent[..] else { panic!("{round}: {sent:?}") };
        assert_eq!(bench.reader.awaited(Link(2)), Some(Sp(2)));
        let status = [Status::Ok, Status::UnknownRegion][round % 2];
        let body = [7; 8];
        let done = Frame::Done { op: READ, token, status, body: if round % 2 == 0 { &body } else { &[] } };
        let request = match bench.reader.on_frame(Link(2), &done) {
            Some(delivery) => delivery.request,
            None => match bench.reader.poll(&mut [0; 256]) {
                Some(Action::Event(ended)) => ended.request,
                other => panic!("{other:?}"),
            },
        };
        assert!(matches!(bench.relay.ended(request), Fate::Answer(_)));
        assert_eq!((bench.reader.awaited(Link(2)), bench.reader.outstanding()), (None, 0));
    }
    bench.ask(2);
    bench.turn();
    bench.reader.on_time(DUE);
    assert_eq!(bench.reader.awaited(Link(2)), None);
    let told = bench.reader.poll(&mut [0; 256]);
    assert!(matches!(told, Some(Action::Event(e)) if e.outcome == Err(ReadError::Timeout { missing: Sp(2) })));
    bench.ask(2);
    bench.turn();
    bench.reader.on_gone(Link(2));
    bench.reader.on_link(Link(2), Sp(2), Landing::Inline { requests: 2 }).unwrap();
    assert_eq!(bench.reader.awaited(Link(2)), None);
}
