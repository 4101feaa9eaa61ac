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

const REQUESTS: usize = 4;
const LINKS: usize = 8;
const DUE: Time = Time(100);

type Asking = Reader<Vec<Request<Waiting>>, Vec<Slot<Piece>>, Vec<Place>, Vec<Server>>;

struct Bench {
    reader: Asking,
    relay: Relay<Vec<Request<Ask>>, Vec<Flight>, Vec<Fetches>>,
    asked: u64,
}

impl Bench {
    /// A service process with links 1 and 2 to others, and 5 to a rank.
    fn new() -> Bench {
        let requests = (0..REQUESTS).map(|_| Request::EMPTY).collect();
        let pieces = (0..16).map(|_| Slot::EMPTY).collect();
        let mut reader = Reader::new(requests, pieces, vec![Place::default(); 4], vec![Server::default(); LINKS]);
        for link in 1..3 {
            reader.on_link(Link(link), Sp(link), Landing::Inline { requests: 2 }).unwrap();
        }
        let asks = (0..16).map(|_| Request::EMPTY).collect();
        let relay = Relay::new(asks, vec![Flight::default(); REQUESTS], vec![Fetches::default(); LINKS]);
        Bench { reader, relay, asked: 0 }
    }

    fn ask(&mut self, via: u32) {
        let owner = Peer::rank(WorldRank(via)).unwrap();
        let key = Key::new(owner, 0, 1);
        let region = Region { key, incarnation: Incarnation::ANY, base: 0, len: u64::MAX, access: Access::READ };
        let get = Get { owner, via: Link(via), address: 0, len: 8, deadline: DUE, tag: 0, region: Some(region) };
        self.relay.ask(Asker { link: Link(5), token: Token(self.asked) }, get).unwrap();
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

#[test]
fn a_service_process_that_does_not_answer_keeps_nobody_from_another_one() {
    let mut bench = Bench::new();
    (0..4).for_each(|_| bench.ask(1));
    assert!(bench.turn().iter().all(|(link, _)| *link == 1));
    for round in 0..10 {
        bench.ask(2);
        let sent = bench.turn();
        let [(2, token)] = sent[..] else { panic!("{round}: {sent:?}") };
        let done = Frame::Done { op: READ, token, status: Status::Ok, body: &[7; 8] };
        let delivery = bench.reader.on_frame(Link(2), &done).unwrap();
        assert!(matches!(bench.relay.ended(delivery.request), Fate::Answer(_)));
    }
}

#[test]
fn places_are_given_back_however_a_read_ends() {
    let mut bench = Bench::new();
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
