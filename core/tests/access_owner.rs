//! The questions of an owner of memory, and which answers end them.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra_core::access::message::{EXPORT, REVOKE};
use umbra_core::access::own::{AGAIN, Event, Owner, Question};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::pending::Request;
use umbra_core::region::{Entry, ExportError, Region, Secret};
use umbra_core::ticket::Locator;
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Op, Token};

const SERVER: Sp = Sp(2);
const DUE: Time = Time(3 * AGAIN.0);

struct Bench {
    owner: Owner<Vec<Entry>, Vec<Request<Question>>>,
    now: Time,
}

impl Bench {
    /// An owner with room for one region, which is exported, and which it takes back.
    fn new() -> (Bench, Key) {
        let me = Peer::rank(WorldRank(3)).unwrap();
        let owner = Owner::new(me, Incarnation(5), vec![Entry::VACANT], vec![Request::EMPTY; 4]);
        let mut bench = Bench { owner, now: Time(1) };
        let key = bench.export().unwrap().key;
        let token = bench.sent(EXPORT).unwrap();
        assert!(matches!(bench.answer(EXPORT, token, Status::Ok), Some(Event::Exported { last: true, .. })));
        bench.owner.revoke(key, false, DUE).unwrap();
        (bench, key)
    }

    fn export(&mut self) -> Result<Region, ExportError> {
        let shadows = [SERVER].into_iter().collect();
        let locator = Locator::Process { pid: 1, start: 1 };
        self.owner.export(0x1000, 64, Access::READ, shadows, Secret([3; 32]), locator, DUE)
    }

    /// The token of the question that goes out, if there is one.
    fn sent(&mut self, asked: Op) -> Option<Token> {
        let mut buffer = [0; 256];
        let send = self.owner.poll(self.now, &mut buffer)?;
        assert_eq!((send.to, self.owner.poll(self.now, &mut [0; 256])), (SERVER, None));
        match Frame::parse(&buffer[..send.len_bytes]).unwrap() {
            Frame::Call { op, token, .. } if op == asked => Some(token),
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, op: Op, token: Token, status: Status) -> Option<Event> {
        self.owner.on_frame(SERVER, &Frame::Done { op, token, status, body: &[] }, self.now)
    }
}

#[test]
fn a_server_without_room_for_a_revocation_is_asked_again_until_nobody_reads() {
    let (mut bench, key) = Bench::new();
    for _ in 0..3 {
        let token = bench.sent(REVOKE).expect("it is asked again");
        assert_eq!(bench.answer(REVOKE, token, Status::Full), None);
        assert_eq!(bench.answer(REVOKE, token, Status::Ok), None, "no question is open");
        assert_eq!(bench.export().err(), Some(ExportError::Full), "the number is in use");
        assert_eq!(bench.sent(REVOKE), None, "not at once");
        let due = (bench.now + AGAIN).min(DUE);
        assert_eq!(bench.owner.deadline(), Some(due));
        bench.now = bench.now + AGAIN;
    }
    assert_eq!(bench.owner.on_time(DUE), Some(Event::Late { key, sp: SERVER }));
    assert_eq!((bench.owner.on_time(DUE), bench.owner.deadline()), (None, Some(bench.now)));
    let token = bench.sent(REVOKE).unwrap();
    assert_eq!(bench.answer(REVOKE, token, Status::Ok), Some(Event::Revoked { key, sp: SERVER, last: true }));
    assert_eq!(bench.sent(REVOKE), None);
    assert!(bench.export().is_ok());
}

#[test]
fn a_server_that_refuses_a_revocation_is_late_until_it_is_given_up() {
    let (mut bench, key) = Bench::new();
    let token = bench.sent(REVOKE).unwrap();
    assert_eq!(bench.answer(REVOKE, token, Status::PermissionDenied), Some(Event::Late { key, sp: SERVER }));
    assert_eq!(bench.owner.missing().collect::<Vec<_>>(), [(key, SERVER)]);
    assert_eq!((bench.sent(REVOKE), bench.owner.deadline()), (None, None));
    assert_eq!(bench.export().err(), Some(ExportError::Full), "the number is in use");
    assert_eq!(bench.owner.give_up(key, SERVER), Some(Event::Revoked { key, sp: SERVER, last: true }));
    assert!(bench.export().is_ok());
}

#[test]
fn a_region_that_has_ended_at_its_server_is_used_by_nobody() {
    for status in [Status::Ok, Status::UnknownRegion, Status::StaleKey] {
        let (mut bench, key) = Bench::new();
        let token = bench.sent(REVOKE).unwrap();
        assert_eq!(bench.answer(REVOKE, token, status), Some(Event::Revoked { key, sp: SERVER, last: true }));
        assert!(bench.export().is_ok());
    }
}
