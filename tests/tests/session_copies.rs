//! Copies of constant memory that a service process keeps for its ranks.
//!
//! They are read once, served to all of its ranks, and gone with the region.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::time::Instant;

use umbra::driver::{Driver, Event, Limits, now};
use umbra::job::{DataPath, Options};
use umbra::link::{Address, Identity, Party, socket_path};
use umbra::session::{Exported, Session, SessionError};
use umbra::sys::segment::Segment;
use umbra_core::access::message::{EXPORT, EXPORT_MAX, Export};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::peer::{Incarnation, Sp};
use umbra_core::region::Secret;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Token};
use umbra_tests::agents::{Agents, DEADLINE, all};
use umbra_tests::rig::{self, service};

/// Ten answers carry it, the last one not full.
const LEN: usize = 300_007;
const PIECES: u64 = 10;

fn bytes_of(seed: u32) -> Vec<u8> {
    (0..LEN as u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 11) as u8).collect()
}

fn segment_of(seed: u32) -> Exported {
    let segment = Segment::create("umbra-test", LEN).unwrap();
    segment.write(0, &bytes_of(seed)).unwrap();
    Exported::Segment(segment)
}

fn export(owner: &mut Session, memory: Exported) -> (Key, Ticket) {
    let key = owner.export_constant(memory).unwrap();
    (key, owner.ticket(key).unwrap())
}

fn read(session: &mut Session, ticket: &Ticket) -> Result<Vec<u8>, SessionError> {
    let mut got = vec![0; LEN];
    session.read(ticket, 0, &mut got).map(|()| got)
}

/// Figures of the readers' agent, and how many reads the owner's has served.
fn figures(agents: &mut Agents) -> (BTreeMap<String, u64>, u64) {
    (agents.status(0), agents.status(1)["reads_served"])
}

#[test]
fn a_repeated_read_is_served_from_the_agent_s_copies_for_every_rank_of_it() {
    for data_path in [DataPath::Auto, DataPath::Asked] {
        let mut agents = Agents::of(Options { data_path, deadline: DEADLINE, ..rig::options(2, 1, 2) });
        let mut sessions = agents.world();
        for (memory, turn) in [(segment_of(2), 0), (Exported::Bytes(bytes_of(2)), 1)] {
            let (key, ticket) = export(&mut sessions[2], memory);
            let (before, served) = figures(&mut agents);
            assert!(read(&mut sessions[0], &ticket).unwrap() == bytes_of(2));
            let (first, once) = figures(&mut agents);
            assert_eq!(first["copies_misses"] - before["copies_misses"], PIECES);
            assert_eq!((once - served, first["copies_hits"] - before["copies_hits"]), (PIECES, 0));
            for session in &mut sessions[..2] {
                assert!(read(session, &ticket).unwrap() == bytes_of(2));
            }
            let (last, twice) = figures(&mut agents);
            assert_eq!(twice, once, "the owner's agent was not asked again");
            assert_eq!(last["copies_hits"] - first["copies_hits"], 2 * PIECES);
            assert_eq!(last["copies_hit_bytes"] - first["copies_hit_bytes"], 2 * LEN as u64);
            assert_eq!((last["copies_used"], last["copies_regions"]), (PIECES, 1));
            assert_eq!(agents.status(1)["regions_kept_by_others"], 1);
            // A rank of the owner's host reads without copies.
            assert!(read(&mut sessions[3], &ticket).unwrap() == bytes_of(2));
            assert_eq!(agents.status(1)["copies_misses"], 0);
            sessions[2].revoke(key).unwrap();
            let (gone, _) = figures(&mut agents);
            assert_eq!((gone["copies_used"], gone["copies_regions"]), (0, 0));
            assert_eq!(gone["copies_regions_dropped"], turn + 1);
        }
    }
}

#[test]
fn ranks_that_read_the_same_at_the_same_time_cost_the_owner_one_read() {
    let mut agents = Agents::of(Options { deadline: DEADLINE, ..rig::options(2, 1, 4) });
    let mut sessions = agents.world();
    let (_, ticket) = export(&mut sessions[4], segment_of(4));
    let (_, served) = figures(&mut agents);
    all(&mut sessions[..4], |s| assert!(read(s, &ticket).unwrap() == bytes_of(4)));
    let (copies, now) = figures(&mut agents);
    assert_eq!(now - served, PIECES);
    assert_eq!((copies["copies_misses"], copies["copies_hits"] + copies["copies_joined"]), (PIECES, 3 * PIECES));
}

#[test]
fn after_a_revocation_a_key_opens_nothing_and_the_next_one_brings_the_new_bytes() {
    let mut agents = Agents::start(2, 1, 1);
    let mut sessions = agents.world();
    let [reader, owner] = &mut sessions[..] else { panic!("two ranks") };
    let mut last = None;
    for round in 0..20 {
        let (key, ticket) =
            export(owner, if round % 2 == 0 { segment_of(round) } else { Exported::Bytes(bytes_of(round)) });
        for _ in 0..2 {
            assert!(read(reader, &ticket).unwrap() == bytes_of(round), "round {round}");
        }
        if let Some(last) = last.replace(ticket) {
            let status = read(reader, &last).unwrap_err().status();
            assert!(matches!(status, Status::KeyRevoked | Status::StaleKey), "round {round}: {status}");
        }
        owner.revoke(key).unwrap();
        let status = read(reader, &ticket).unwrap_err().status();
        assert_eq!(status, Status::KeyRevoked, "round {round}");
    }
    let status = agents.status(0);
    assert_eq!((status["copies_hits"], status["copies_used"]), (20 * PIECES, 0));
}

/// Waits until a figure of the readers' agent has this value.
fn until(agents: &mut Agents, figure: &str, value: u64) -> BTreeMap<String, u64> {
    let end = Instant::now() + rig::PATIENCE;
    loop {
        let status = agents.status(0);
        if status[figure] == value {
            return status;
        }
        assert!(Instant::now() < end, "{figure} is {}, and {value} are expected", status[figure]);
    }
}

#[test]
fn what_a_rank_says_it_will_read_is_there_when_it_asks() {
    for data_path in [DataPath::Auto, DataPath::Asked] {
        let mut agents = Agents::of(Options { data_path, deadline: DEADLINE, ..rig::options(2, 1, 2) });
        let mut sessions = agents.world();
        let (key, ticket) = export(&mut sessions[2], segment_of(2));
        assert_eq!(sessions[0].read_ahead(&ticket, 0, LEN as u64).unwrap(), LEN as u64);
        let ahead = until(&mut agents, "copies_used", PIECES);
        assert_eq!((ahead["copies_prefetched"], ahead["copies_prefetched_used"]), (PIECES, 0));
        // Once read ahead, it is not again.
        sessions[0].read_ahead(&ticket, 0, LEN as u64).unwrap();
        let end = Instant::now() + rig::PATIENCE;
        while agents.status(1)["reads_served"] < PIECES {
            assert!(Instant::now() < end, "not read ahead");
        }
        assert!(read(&mut sessions[0], &ticket).unwrap() == bytes_of(2));
        let (copies, served) = figures(&mut agents);
        assert_eq!((served, copies["copies_prefetched_used"], copies["copies_misses"]), (PIECES, PIECES, PIECES));
        assert_eq!(copies["copies_hits"] + copies["copies_joined"], PIECES);

        // What is taken back between the hint and the read is not there, and what comes next is another's.
        let (next, other) = export(&mut sessions[2], segment_of(7));
        sessions[0].read_ahead(&other, 0, LEN as u64).unwrap();
        sessions[2].revoke(next).unwrap();
        let status = read(&mut sessions[0], &other).unwrap_err().status();
        assert!(matches!(status, Status::KeyRevoked | Status::StaleKey), "{status}");
        let (_, again) = export(&mut sessions[2], Exported::Bytes(bytes_of(8)));
        assert!(read(&mut sessions[0], &again).unwrap() == bytes_of(8));
        let over =
            |copies: &BTreeMap<String, u64>| copies["copies_prefetched_used"] + copies["copies_prefetched_wasted"];
        while let last = agents.status(0)
            && last["copies_prefetched"] != over(&last)
        {
            assert!(Instant::now() < end, "hints of memory that is gone are neither used nor wasted: {last:?}");
        }
        assert!(read(&mut sessions[0], &ticket).unwrap() == bytes_of(2));
        sessions[2].revoke(key).unwrap();
    }
}

#[test]
fn hints_that_are_wrong_cost_nobody_anything() {
    let room = Options { stage: Some(8 * 32 * 1024), deadline: DEADLINE, ..rig::options(2, 1, 2) };
    let mut agents = Agents::of(room);
    let mut sessions = agents.world();
    let (_, ticket) = export(&mut sessions[2], segment_of(2));
    let refused = |result: Result<u64, SessionError>| result.unwrap_err().status();
    assert_eq!(refused(sessions[0].read_ahead(&ticket, LEN as u64, 1)), Status::OutOfBounds);
    assert_eq!(refused(sessions[0].read_ahead(&ticket, 1, u64::MAX)), Status::OutOfBounds);
    // Memory that may change is not read ahead, nor what is beyond the region, nor what nobody exported.
    let plain = sessions[2].export_bytes(bytes_of(9)).unwrap();
    let plain = sessions[2].ticket(plain).unwrap();
    assert_eq!(sessions[0].read_ahead(&plain, 0, 100).unwrap(), 0);
    let unknown = Key::new(ticket.key.owner(), 999, 3);
    let forged = [
        Ticket { access: ticket.access, ..plain },
        Ticket { len: u64::MAX / 2, ..ticket },
        Ticket { key: unknown, ..ticket },
    ];
    for forged in forged {
        sessions[0].read_ahead(&forged, LEN as u64 - 8, 8 + (forged.len - LEN as u64).min(100)).unwrap();
    }
    // More than there is room for: eight slots, of which two for what one rank says.
    sessions[0].read_ahead(&ticket, 0, LEN as u64).unwrap();
    for _ in 0..3 {
        all(&mut sessions[..2], |s| assert!(read(s, &ticket).unwrap() == bytes_of(2)));
        assert!(read(&mut sessions[0], &plain).unwrap() == bytes_of(9));
    }
    let copies = agents.status(0);
    assert!(copies["copies_hints_refused"] > 0 && copies["copies_used"] <= 8, "{copies:?}");
    let over = copies["copies_prefetched_used"] + copies["copies_prefetched_wasted"];
    assert!((over..=over + 2).contains(&copies["copies_prefetched"]), "{copies:?}");
}

#[test]
fn only_what_its_owner_calls_constant_is_kept() {
    let mut agents = Agents::start(2, 1, 1);
    let mut sessions = agents.world();
    let key = sessions[1].export_bytes(bytes_of(1)).unwrap();
    let ticket = sessions[1].ticket(key).unwrap();
    assert_eq!(ticket.access, Access::READ);
    // A reader that says so does not make it so.
    let forged = Ticket { access: Access::READ | Access::CONSTANT, ..ticket };
    for ticket in [ticket, forged, forged] {
        assert!(read(&mut sessions[0], &ticket).unwrap() == bytes_of(1));
    }
    let (copies, served) = figures(&mut agents);
    assert_eq!((copies["copies_hits"], copies["copies_used"], copies["copies_regions"]), (0, 0, 0));
    assert!(copies["copies_passed_by"] >= 2 * PIECES && served >= 3 * PIECES);
    let beyond = read(&mut sessions[0], &Ticket { len: u64::MAX / 2, ..forged });
    assert!(beyond.is_ok());
    let mut eight = [0; 8];
    let far = Ticket { len: u64::MAX / 2, ..forged };
    assert_eq!(sessions[0].read(&far, LEN as u64, &mut eight).unwrap_err().status(), Status::OutOfBounds);
}

#[test]
fn with_little_room_copies_make_way_and_with_none_nothing_is_kept() {
    for (stage, slots) in [(0, 0), (32 * 1024, 1), (4 * 32 * 1024 + 5, 4)] {
        let mut agents = Agents::of(Options { stage: Some(stage), deadline: DEADLINE, ..rig::options(2, 1, 2) });
        let mut sessions = agents.world();
        let (_, ticket) = export(&mut sessions[2], segment_of(2));
        for _ in 0..3 {
            all(&mut sessions[..2], |s| assert!(read(s, &ticket).unwrap() == bytes_of(2)));
        }
        let mut eight = [0; 8];
        for _ in 0..2 {
            sessions[0].read(&ticket, 77, &mut eight).unwrap();
            assert_eq!(eight, bytes_of(2)[77..85]);
        }
        let copies = agents.status(0);
        assert_eq!(copies["copies_slots"], slots);
        assert!(copies["copies_used"] <= slots);
        // The last read was of one span, twice.
        assert_eq!(copies["copies_hits"] > 0, slots > 0, "{slots} slots");
    }
}

#[test]
fn copies_do_not_outlive_their_owner_or_the_link_to_its_agent() {
    let mut agents = Agents::start(2, 1, 2);
    let mut sessions = agents.world();
    let (_, ticket) = export(&mut sessions[3], segment_of(3));
    let (_, other) = export(&mut sessions[2], segment_of(2));
    for ticket in [&ticket, &other] {
        read(&mut sessions[0], ticket).unwrap();
    }
    // A rank dies: it leaves nothing, its links break.
    drop(sessions.remove(3));
    let end = Instant::now() + rig::PATIENCE;
    let gone = |failure: &SessionError| failure.status() == Status::OwnerGone;
    loop {
        match read(&mut sessions[0], &ticket) {
            Err(failure) if gone(&failure) => break,
            Ok(_) => assert!(Instant::now() < end, "the memory of a dead rank is served"),
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(read(&mut sessions[1], &other).unwrap() == bytes_of(2), "another rank's copies stay");
    assert_eq!(agents.status(0)["copies_regions"], 1);

    agents.launcher.kill(service(1));
    let failure = loop {
        match read(&mut sessions[0], &other) {
            Err(failure) => break failure,
            Ok(_) => assert!(Instant::now() < end, "nobody can take these copies back any more"),
        }
    };
    assert!(matches!(failure.status(), Status::PeerFailed | Status::Timeout), "{failure}");
    assert_eq!(failure.culprit(), Some(service(1)), "{failure}");
    let copies = agents.status(0);
    assert_eq!((copies["copies_used"], copies["copies_regions"]), (0, 0));
}

#[test]
fn copies_do_not_outlive_a_life_whose_next_one_exports_before_its_link_has_ended() {
    let mut agents = Agents::start(2, 1, 1);
    let mut sessions = agents.world();
    let (_, ticket) = export(&mut sessions[1], segment_of(3));
    assert!(read(&mut sessions[0], &ticket).unwrap() == bytes_of(3));
    assert_eq!(agents.status(0)["copies_regions"], 1);
    // The next life has a region of the same number; the earlier one does not leave.
    let me = Identity { party: Party::Peer(rig::rank(1)), incarnation: Incarnation(7) };
    let mut driver = Driver::new(me, agents.settings(1).secret, Limits::default());
    let deadline = now() + Lapse::from_secs(30);
    let address = Address::Unix(socket_path(&agents.directory(), Sp(1)));
    let link = driver.dial(address, Party::Peer(service(1)), deadline).unwrap();
    let key = Key::new(ticket.key.owner(), ticket.key.region(), ticket.key.generation() ^ 1);
    let locator = Locator::Process { pid: std::process::id(), start: 0 };
    let export = Export {
        ticket: Ticket { key, base: 4096, len: 64, access: Access::READ, locator },
        secret: Secret([3; 32]),
        shadows: [Sp(1)].into_iter().collect(),
    };
    let (mut body, mut frame) = ([0; EXPORT_MAX], Vec::new());
    let len = export.emit(&mut body).unwrap();
    let call = Frame::Call { op: EXPORT, token: Token(1), body: &body[..len] };
    loop {
        match driver.next(&mut frame) {
            Some(Event::Up { .. }) => driver.send(link, &call, Vec::new()).unwrap(),
            Some(Event::Frame { .. }) if Frame::parse(&frame).unwrap().op() == EXPORT => break,
            Some(_) => {}
            None => driver.wait(deadline).unwrap(),
        }
        assert!(now() < deadline, "no answer");
    }
    until(&mut agents, "copies_regions", 0);
    assert!(read(&mut sessions[0], &ticket).is_err());
}
