//! Our reads, as an asking service process makes them.

use umbra::shm::CELL;
use umbra_core::access::read::{Bytes, Get, Landed, Landing, Piece, Place, Reader, Server, Waiting};
use umbra_core::atomic::{Ordering, spin_hint};
use umbra_core::machine::{Action, Link};
use umbra_core::pending::Request;
use umbra_core::slots::Slot;
use umbra_core::time::Time;

use crate::owner::{BASE, MOST, Order, Owner, SERVICE, SLOTS, Word, rank, until};

type Asking = Reader<Vec<Request<Waiting>>, Vec<Slot<Piece>>, Vec<Place>, Vec<Server>>;

pub(crate) struct Asker {
    reader: Asking,
}

const LINK: Link = Link(0);

impl Asker {
    pub(crate) fn new() -> Asker {
        let requests = (0..64).map(|_| Request::EMPTY).collect();
        let pieces = (0..64).map(|_| Slot::EMPTY).collect();
        let mut reader: Asking = Reader::new(requests, pieces, vec![Place::default(); 64], vec![Server::default(); 1]);
        let landing = Landing::Segment { slots: SLOTS, slot_bytes: MOST as u64 };
        assert_eq!(reader.on_link(LINK, SERVICE, landing), Ok(()));
        Asker { reader }
    }

    #[inline]
    fn post(&mut self, owner: &mut Owner, len: usize) {
        let get = Get {
            owner: rank(),
            via: LINK,
            address: BASE,
            len: len as u64,
            deadline: Time::NEVER,
            tag: 0,
            region: None,
        };
        if self.reader.get_now(&get, |words| owner.lane.send_words(words).is_ok()).is_none() {
            self.post_slowly(owner, get);
        }
    }

    #[inline(never)]
    fn post_slowly(&mut self, owner: &mut Owner, get: Get) {
        assert!(self.reader.get(get).is_ok());
        self.send(owner);
    }

    #[inline(never)]
    fn send(&mut self, owner: &mut Owner) {
        let mut cell = [0; CELL];
        while let Some(action) = self.reader.poll(&mut cell) {
            match action {
                Action::Send { .. } => assert_eq!(owner.lane.send_cell(&cell), Ok(())),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits for the end of one read.
    #[inline]
    fn end(&mut self, owner: &mut Owner) -> Landed {
        let mut spins = 0_u64;
        loop {
            let Some(cell) = owner.lane.receive() else {
                spin_hint();
                spins += 1;
                assert!(spins < 20_000_000_000, "the server does not answer");
                continue;
            };
            let Ok(frame) = cell.frame() else { panic!("the server sends frames") };
            match self.reader.on_frame(LINK, &frame) {
                Some(delivery) => match delivery.bytes {
                    Bytes::Landed(landed) if delivery.last => return landed,
                    other => panic!("{other:?}"),
                },
                // The answer to the first question, where the memory is.
                None => self.send(owner),
            }
        }
    }

    /// One read, until it is complete.
    #[inline]
    pub(crate) fn read(&mut self, owner: &mut Owner, len: usize) {
        self.post(owner, len);
        let landed = self.end(owner);
        self.reader.consumed(landed);
    }

    /// One read, and then a look at every line of it.
    #[inline]
    pub(crate) fn read_and_use(&mut self, owner: &mut Owner, len: usize) {
        self.post(owner, len);
        let landed = self.end(owner);
        let words = owner.landing.words(landed.offset as usize, len / 8).unwrap_or_else(|error| panic!("{error}"));
        let sum = words.iter().step_by(8).fold(0_u64, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
        std::hint::black_box(sum);
        self.reader.consumed(landed);
    }

    /// `reads` reads, `SLOTS` of them outstanding.
    pub(crate) fn stream(&mut self, owner: &mut Owner, reads: u64, len: usize) {
        let (mut posted, mut ended) = (0, 0);
        while ended < reads {
            while posted < reads && posted - ended < u64::from(SLOTS) {
                self.post(owner, len);
                posted += 1;
            }
            let landed = self.end(owner);
            self.reader.consumed(landed);
            ended += 1;
        }
    }
}

/// `n` round trips of one cache line.
pub(crate) fn round_trips(owner: &mut Owner, n: u64) {
    owner.ask(Order::Echo, n);
    let (ping, pong) = (owner.control.word(Word::Ping), owner.control.word(Word::Pong));
    for _ in 0..n {
        let next = ping.load(Ordering::Relaxed) + 1;
        ping.store(next, Ordering::Release);
        until(pong, next);
    }
    owner.wait();
}
