//! Queue pairs that are connected to themselves, on a real device.
//!
//! That is how aliases are used. Another test shows what a device says that is no mlx5 card. Without a device each test
//! says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use umbra::sys::segment::Segment;
use umbra::verbs::{Device, Devx, Domain, Local, Piece, Region, VerbsError};
use umbra::xgvmi::{Loopback, Mover};
use umbra_core::access::device::Moved;
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_tests::conformance::owner;
use umbra_tests::verbs::port;

const PAGE: usize = 4096;

fn ended(loopback: &mut Loopback) -> (u64, Status) {
    let begun = Instant::now();
    loop {
        if let Some(end) = loopback.ended() {
            return end;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "work never ended");
        std::thread::yield_now();
    }
}

/// Memory that is not in this process, under a key that opens nothing: an alias whose export was taken back.
#[derive(Debug)]
struct Stale;

impl Local for Stale {
    fn lkey(&self) -> u32 {
        0x7fff_ff00
    }
    fn address(&self, offset: usize) -> u64 {
        // Nobody maps the first pages: a driver that read there itself would end this test.
        0x100 + offset as u64
    }
    fn size(&self) -> usize {
        PAGE
    }
}

#[test]
fn bytes_go_both_ways_and_a_stale_key_breaks_only_its_owners_queue() {
    let Some(port) = port() else { return };
    let domain = Domain::new(&port.device).unwrap();
    let segment = |name| Arc::new(Segment::create(name, 4 * PAGE).unwrap());
    let memory = Region::register(&domain, segment("theirs"), Access::empty()).unwrap();
    let mut loopback = Loopback::new(&domain, &port, 8, segment("landing")).unwrap();
    let bytes: Vec<u8> = (0..PAGE).map(|at| (at * 7 + (at >> 8)) as u8).collect();
    memory.segment().write(100, &bytes).unwrap();
    let theirs = Piece { region: &memory, offset: 100, len: PAGE as u32 };
    let (mut read, [good, bad]) = (vec![0; PAGE], [0, 1].map(owner));
    for (name, owner) in [(1, good), (2, bad)] {
        assert_eq!(loopback.begin(Access::READ, owner, theirs, 64, name), Ok(Moved::Begun));
        assert_eq!(ended(&mut loopback), (name, Status::Ok));
    }
    loopback.landing().read(64, &mut read).unwrap();
    assert!(read == bytes, "what was read is what is there");
    // The other way round.
    let other: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    loopback.landing().write(0, &other).unwrap();
    assert_eq!(loopback.begin(Access::WRITE, good, theirs, 0, 3), Ok(Moved::Begun));
    assert_eq!(ended(&mut loopback), (3, Status::Ok));
    memory.segment().read(100, &mut read).unwrap();
    assert!(read == other, "what was written is there");
    // A key that the card does not know, and so few bytes that a driver may like to take them along.
    let wrong = Piece { region: &Stale, offset: 0, len: 8 };
    // Some devices look at local keys when work is posted, others when it is carried out.
    match loopback.begin(Access::READ, bad, wrong, 0, 4) {
        Ok(Moved::Begun) => {
            let (name, status) = ended(&mut loopback);
            assert!(name == 4 && status != Status::Ok, "{name} ended as {status}");
            assert_eq!(loopback.begin(Access::READ, bad, theirs, 0, 5), Err(Status::QueueBroken));
        }
        other => assert_eq!(other, Err(Status::QueueBroken)),
    }
    assert_eq!(loopback.begin(Access::READ, good, theirs, 0, 6), Ok(Moved::Begun));
    assert_eq!(ended(&mut loopback), (6, Status::Ok), "another owner's queue is whole");
    loopback.rebuild(bad);
    assert_eq!(loopback.begin(Access::READ, bad, theirs, 0, 7), Ok(Moved::Begun));
    assert_eq!(ended(&mut loopback), (7, Status::Ok), "it is rebuilt");
    // What is under way when its owner is lost ends, once.
    assert_eq!(loopback.begin(Access::READ, bad, theirs, 0, 8), Ok(Moved::Begun));
    loopback.forget(bad);
    let (name, status) = ended(&mut loopback);
    assert!(name == 8 && matches!(status, Status::OwnerGone | Status::Ok), "{status}");
    assert_eq!(loopback.ended(), None);
    let beyond = loopback.begin(Access::READ, good, theirs, 4 * PAGE as u64, 9);
    assert_eq!(beyond, Err(Status::OutOfBounds));
}

#[test]
fn a_device_that_is_no_mlx5_card_takes_no_commands() {
    let Some(port) = port() else { return };
    if port.device.name().starts_with("mlx5") {
        return println!("nothing more to see: {} is such a card", port.device.name());
    }
    // Without libmlx5 that is what is said; with it, that the device cannot.
    match Device::open_for_commands(Some(port.device.name())) {
        Err(why @ (VerbsError::NoMlx5(_) | VerbsError::Call { .. })) => assert!(!why.to_string().is_empty()),
        other => panic!("{other:?}"),
    }
    let domain = Domain::new(&port.device).unwrap();
    match Devx::new(&domain) {
        Err(VerbsError::NoMlx5(_)) => {}
        Err(other) => panic!("{other}"),
        Ok(devx) => {
            assert!(matches!(devx.domain_number(), Err(VerbsError::Call { .. })));
            let mut answer = [0; 16];
            assert!(devx.run(&[0; 16], &mut answer).is_err());
            assert!(devx.create(&[0; 16], &mut answer).is_err());
        }
    }
}
