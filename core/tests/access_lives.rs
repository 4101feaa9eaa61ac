//! Two lives of a rank at its service process.
//!
//! The end of the first takes what that life exported, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::cell::Cell;

use umbra_core::access::message::{EXPORT, EXPORT_MAX, Export, LOCATE, READ, REVOKE, Revoke, Transfer};
use umbra_core::access::read::{Bytes, Get, Landing, Piece, Place, ReadError, Reader, Server, Waiting};
use umbra_core::access::serve::{Action, Answer, Asker, Job, Reply, STEP, Serve};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::machine::{self, Link};
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::pending::Request;
use umbra_core::region::{Entry, Secret};
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Time;
use umbra_core::wire::{BODY_MAX, Frame, HEAD, Token};

const OLD: Incarnation = Incarnation(5);
const NEW: Incarnation = Incarnation(6);
const OLD_LINK: Link = Link(0);
const NEW_LINK: Link = Link(1);
/// A second link of either life.
const OTHER_LINK: Link = Link(2);
const ASKER: Link = Link(3);
const BASE: u64 = 0x1000;
const LEN: u64 = 4 * STEP;

fn rank() -> Peer {
    Peer::rank(WorldRank(3)).unwrap()
}

/// Region `number` of the rank; the lives make keys of other generations, as they do in fact.
fn key(life: Incarnation, number: u32) -> Key {
    Key::new(rank(), number, life.0 as u32)
}

struct Bench {
    serve: Serve<Vec<Entry>, Vec<Slot<Job>>, Vec<Asker>>,
    attached: Vec<Option<Key>>,
}

impl Bench {
    /// A rank in its old life with regions 0 and 1, and a service process that asks.
    fn new() -> Bench {
        let jobs = (0..8).map(|_| Slot::EMPTY).collect();
        let mut serve = Serve::new(Sp(0), vec![Entry::VACANT; 8], jobs, vec![Asker::default(); 4]);
        serve.on_link(OLD_LINK, rank(), OLD, 0, 0).unwrap();
        serve.on_link(ASKER, Peer::service(Sp(1)).unwrap(), Incarnation(9), LEN, 8).unwrap();
        let mut bench = Bench { serve, attached: vec![None; 8] };
        for number in 0..2 {
            assert_eq!(bench.export(OLD_LINK, key(OLD, number), number), Status::Ok);
        }
        bench
    }

    fn ask(&mut self, link: Link, frame: &Frame<'_>) -> Option<Answer> {
        match self.serve.on_frame(link, frame) {
            Reply::Answer(answer) => Some(answer),
            Reply::Copy(copy) => self.serve.copied(copy, Status::Ok),
            Reply::Attach(attach) => {
                self.attached[attach.place] = Some(attach.region.key);
                Some(self.serve.attached(&attach, Status::Ok))
            }
            Reply::Later => None,
            Reply::Store(..) => panic!("nobody writes"),
        }
    }

    /// Exports a region that lies at `slot` of the rank's memory.
    fn export(&mut self, link: Link, key: Key, slot: u32) -> Status {
        self.export_long(link, key, slot, LEN)
    }

    fn export_long(&mut self, link: Link, key: Key, slot: u32, len: u64) -> Status {
        let locator = Locator::Process { pid: 1, start: 1 };
        let ticket = Ticket { key, base: BASE + u64::from(slot) * LEN, len, access: Access::READ, locator };
        let export = Export { ticket, secret: Secret([3; 32]), shadows: [Sp(0)].into_iter().collect() };
        let mut body = [0; EXPORT_MAX];
        let len = export.emit(&mut body).unwrap();
        self.ask(link, &Frame::Call { op: EXPORT, token: Token(1), body: &body[..len] }).unwrap().status
    }

    fn read(&mut self, key: Key) -> Status {
        self.begin(key, 8).unwrap().status
    }

    fn begin(&mut self, key: Key, len: u64) -> Option<Answer> {
        let span = Span { key, offset: 0, len };
        let body = Transfer { span, incarnation: Incarnation::ANY, landing: Some(0) }.to_bytes();
        self.ask(ASKER, &Frame::Call { op: READ, token: Token(2), body: &body })
    }

    fn revoke(&mut self, link: Link, key: Key) -> Option<Status> {
        let body = Revoke { key, forced: false }.to_bytes();
        self.ask(link, &Frame::Call { op: REVOKE, token: Token(3), body: &body }).map(|answer| answer.status)
    }

    /// Polls until there is nothing to do; the answers that came of it.
    fn rest(&mut self) -> Vec<(Link, Status)> {
        let mut answers = Vec::new();
        while let Some(action) = self.serve.poll() {
            let answer = match action {
                Action::Copy(copy) => self.serve.copied(copy, Status::Ok),
                Action::Answer(answer) => Some(answer),
                Action::Detach { place, key } => {
                    assert_eq!(self.attached[place].take(), Some(key));
                    None
                }
            };
            answers.extend(answer.map(|answer| (answer.link, answer.status)));
        }
        answers
    }

    /// The new life joins; the service process did not hear of the end of the old one yet.
    fn join(&mut self) {
        self.serve.on_link(NEW_LINK, rank(), NEW, 0, 0).unwrap();
    }

    fn mapped(&self) -> Vec<Key> {
        self.attached.iter().flatten().copied().collect()
    }
}

#[test]
fn what_an_old_life_exported_ends_with_its_link_though_a_new_life_has_joined() {
    let mut bench = Bench::new();
    bench.join();
    assert_eq!(bench.begin(key(OLD, 1), LEN), None, "a long read is under way");
    bench.serve.on_gone(OLD_LINK);
    assert_eq!(bench.rest(), [(ASKER, Status::OwnerGone)]);
    for number in 0..2 {
        assert_eq!(bench.read(key(OLD, number)), Status::OwnerGone);
    }
    assert_eq!(bench.serve.regions().find(rank(), BASE).map_err(Status::from), Err(Status::OwnerGone));
    assert_eq!(bench.mapped(), []);
}

#[test]
fn a_new_life_exports_before_the_end_of_the_old_one_is_known() {
    for ended in [false, true] {
        let mut bench = Bench::new();
        bench.join();
        assert_eq!(bench.begin(key(OLD, 1), LEN), None);
        // The same number as before, and a number that was not used before over memory that was.
        assert_eq!(bench.export(NEW_LINK, key(NEW, 0), 0), Status::Ok);
        assert_eq!(bench.export(NEW_LINK, key(NEW, 2), 1), Status::Ok);
        if ended {
            bench.serve.on_gone(OLD_LINK);
        }
        assert_eq!(bench.rest(), [(ASKER, Status::OwnerGone)], "nobody reads on in memory of the old life");
        assert_eq!(bench.read(key(OLD, 0)), Status::StaleKey);
        assert_eq!(bench.read(key(OLD, 1)), Status::OwnerGone);
        for number in [0, 2] {
            assert_eq!(bench.read(key(NEW, number)), Status::Ok);
        }
        for slot in 0..2 {
            let found = bench.serve.regions().find(rank(), BASE + slot * LEN).unwrap();
            assert_eq!(found.incarnation, NEW);
        }
        let uncovered = bench.serve.regions().find(rank(), BASE + 2 * LEN);
        assert_eq!(uncovered.map_err(Status::from), Err(Status::UnknownRegion), "its owner has exported since");
        let mut mapped = bench.mapped();
        mapped.sort_unstable();
        assert_eq!(mapped, [key(NEW, 0), key(NEW, 2)]);
    }
}

#[test]
fn a_life_that_was_outlived_changes_nothing_any_more() {
    let mut bench = Bench::new();
    assert_eq!(bench.begin(key(OLD, 0), LEN), None);
    assert_eq!(bench.revoke(OLD_LINK, key(OLD, 0)), None, "a read is under way");
    bench.join();
    assert_eq!(bench.export(NEW_LINK, key(NEW, 0), 0), Status::Ok);
    let mut answers = bench.rest();
    answers.sort_unstable_by_key(|(link, _)| link.0);
    assert_eq!(answers, [(OLD_LINK, Status::Ok), (ASKER, Status::OwnerGone)], "nobody waits for ever");
    assert_eq!(bench.export(OLD_LINK, key(OLD, 3), 0), Status::DuplicateRank);
    assert_eq!(bench.export(OLD_LINK, key(OLD, 0), 0), Status::DuplicateRank);
    assert_eq!(bench.revoke(OLD_LINK, key(NEW, 0)), Some(Status::StaleKey), "it is another life's");
    assert_eq!(bench.revoke(OLD_LINK, key(OLD, 1)), Some(Status::Ok), "it ended");
    assert_eq!(bench.read(key(NEW, 0)), Status::Ok);
    // The next one under this number starts afresh.
    bench.serve.on_gone(OLD_LINK);
    bench.serve.on_link(OLD_LINK, rank(), NEW, 0, 0).unwrap();
    assert_eq!(bench.export(OLD_LINK, key(NEW, 3), 1), Status::Ok);
}

#[test]
fn an_outlived_life_that_connects_again_takes_nothing_from_the_next() {
    let mut bench = Bench::new();
    bench.serve.on_gone(OLD_LINK);
    bench.rest();
    bench.join();
    assert_eq!(bench.export(NEW_LINK, key(NEW, 0), 0), Status::Ok);
    for link in [OLD_LINK, OTHER_LINK] {
        bench.serve.on_link(link, rank(), OLD, 0, 0).unwrap();
        assert_eq!(bench.export(link, key(OLD, 1), 1), Status::DuplicateRank);
        assert_eq!(bench.read(key(NEW, 0)), Status::Ok);
        bench.serve.on_gone(link);
    }
    assert_eq!(bench.export(NEW_LINK, key(NEW, 1), 1), Status::Ok);
}

#[test]
fn a_life_that_connects_again_keeps_what_it_exported() {
    let mut bench = Bench::new();
    bench.serve.on_link(OTHER_LINK, rank(), OLD, 0, 0).unwrap();
    bench.serve.on_gone(OLD_LINK);
    assert_eq!(bench.rest(), []);
    assert_eq!(bench.read(key(OLD, 0)), Status::Ok);
    bench.serve.on_gone(OTHER_LINK);
    assert_eq!(bench.read(key(OLD, 0)), Status::OwnerGone);
}

#[test]
fn a_life_that_took_back_all_that_it_exported_is_not_taken_for_dead() {
    let find = |bench: &Bench| bench.serve.regions().find(rank(), BASE).map(|_| ()).map_err(Status::from);
    let mut bench = Bench::new();
    bench.join();
    assert_eq!(bench.export(NEW_LINK, key(NEW, 2), 0), Status::Ok);
    assert_eq!(find(&bench), Ok(()));
    assert_eq!(bench.revoke(NEW_LINK, key(NEW, 2)), Some(Status::Ok));
    assert_eq!(find(&bench), Err(Status::UnknownRegion), "its rank is here, and so is what the old life left");
    bench.serve.on_gone(NEW_LINK);
    assert_eq!(find(&bench), Err(Status::OwnerGone));
}

#[test]
fn a_reader_that_knew_a_region_of_the_old_life_finds_the_new_one() {
    let mut bench = Bench::new();
    let pieces = (0..8).map(|_| Slot::<Piece>::EMPTY).collect::<Vec<_>>();
    let requests = (0..8).map(|_| Request::<Waiting>::EMPTY).collect::<Vec<_>>();
    let mut reader = Reader::new(requests, pieces, vec![Place::default(); 4], vec![Server::default(); 1]);
    reader.on_link(Link(0), Sp(0), Landing::Segment { slots: 4, slot_bytes: 64 }).unwrap();
    let located = Cell::new(0);
    let mut read_at = |bench: &mut Bench, address: u64, len: u64| -> Result<(), ReadError> {
        let get = Get { owner: rank(), via: Link(0), address, len, deadline: Time::NEVER, tag: 1, region: None };
        reader.get(get).unwrap();
        let mut buffer = vec![0; HEAD + BODY_MAX];
        loop {
            let len = match reader.poll(&mut buffer).unwrap() {
                machine::Action::Send { len_bytes, .. } => len_bytes,
                machine::Action::Event(ended) => return ended.outcome,
                other => panic!("{other:?}"),
            };
            let frame = Frame::parse(&buffer[..len]).unwrap();
            located.set(located.get() + u32::from(frame.op() == LOCATE));
            let answer = bench.ask(ASKER, &frame).unwrap();
            if let Some(delivery) = reader.on_frame(Link(0), &answer.frame()) {
                assert!(delivery.last);
                if let Bytes::Landed(landed) = delivery.bytes {
                    reader.consumed(landed);
                }
                return Ok(());
            }
        }
    };
    assert_eq!(read_at(&mut bench, BASE + LEN, 8), Ok(()));
    bench.join();
    assert_eq!(bench.export(NEW_LINK, key(NEW, 2), 1), Status::Ok);
    assert_eq!(read_at(&mut bench, BASE + LEN, 8), Ok(()), "its memory lies where that of the old life lay");
    assert_eq!(bench.revoke(NEW_LINK, key(NEW, 2)), Some(Status::Ok));
    assert_eq!(read_at(&mut bench, BASE + LEN, 8), Err(ReadError::Refused(Status::KeyRevoked)));
    assert_eq!(bench.export(NEW_LINK, key(NEW, 3), 1), Status::Ok);
    assert_eq!(read_at(&mut bench, BASE + LEN, 8), Ok(()), "what was taken back is not asked for again");
    // More lies there then: what was known has not all the bytes, and nobody has refused them.
    assert_eq!(bench.revoke(NEW_LINK, key(NEW, 3)), Some(Status::Ok));
    assert_eq!(bench.export_long(NEW_LINK, key(NEW, 4), 1, LEN + 64), Status::Ok);
    assert_eq!(read_at(&mut bench, BASE + 2 * LEN - 32, 64), Ok(()));
    located.set(0);
    let beyond = read_at(&mut bench, BASE + 2 * LEN + 32, 64);
    assert_eq!(beyond, Err(ReadError::Refused(Status::OutOfBounds)));
    assert_eq!(located.get(), 1, "asked once");
}

#[test]
fn what_a_service_process_exported_ends_with_its_link() {
    let mut bench = Bench::new();
    let service = Peer::service(Sp(4)).unwrap();
    let key = Key::new(service, 0, 1);
    for life in [OLD, NEW] {
        bench.serve.on_link(OTHER_LINK, service, life, 0, 8).unwrap();
        assert_eq!(bench.export(OTHER_LINK, key, 0), Status::Ok);
        assert_eq!(bench.read(key), Status::Ok);
        bench.serve.on_gone(OTHER_LINK);
        bench.rest();
        assert_eq!(bench.read(key), Status::OwnerGone);
        assert!(!bench.mapped().contains(&key));
    }
}

#[test]
fn a_copy_whose_asker_has_gone_is_awaited_by_nobody_who_has_its_link_now() {
    for len in [8, LEN] {
        let mut bench = Bench::new();
        let span = Span { key: key(OLD, 0), offset: 0, len };
        let body = Transfer { span, incarnation: Incarnation::ANY, landing: Some(0) }.to_bytes();
        let copy = match bench.serve.on_frame(ASKER, &Frame::Call { op: READ, token: Token(2), body: &body }) {
            Reply::Copy(copy) => copy,
            _ => match bench.serve.poll() {
                Some(Action::Copy(copy)) => copy,
                other => panic!("{other:?}"),
            },
        };
        assert!(bench.serve.is_awaited(&copy));
        bench.serve.on_gone(ASKER);
        assert!(!bench.serve.is_awaited(&copy));
        bench.serve.on_link(ASKER, Peer::service(Sp(2)).unwrap(), Incarnation(10), LEN, 8).unwrap();
        assert!(!bench.serve.is_awaited(&copy));
        assert_eq!(bench.serve.copied(copy, Status::Ok), None);
        assert_eq!(bench.revoke(OLD_LINK, key(OLD, 0)), Some(Status::Ok), "nothing is under way");
    }
}
