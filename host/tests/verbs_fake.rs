//! What devices do only when something is wrong.
//!
//! A library that is compiled here stands in for libibverbs: each test runs in a process of its own, which finds it first.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use umbra::access::rdma::Rdma;
use umbra::sys::segment::Segment;
use umbra::verbs::{Choice, LINKED, devices};
use umbra_core::access::device::{Device, Moved, Piece};
use umbra_core::access::message::Export;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::peer::{Peer, Sp, WorldRank};
use umbra_core::region::Secret;
use umbra_core::ticket::{Locator, Ticket};

/// Set in the processes that tests start of themselves.
const CHILD: &str = "UMBRA_TEST_CHILD";
const HEADER: &str = "/usr/include/infiniband/verbs.h";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Compiles the library into a folder; why it cannot be, if something is missing.
fn compile(folder: &Path) -> Result<(), &'static str> {
    if LINKED {
        return Err("libibverbs is linked and not replaced");
    }
    if !Path::new(HEADER).exists() {
        return Err("no header of libibverbs");
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verbs_fake.c");
    let library = folder.join("libibverbs.so.1");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-Wall", "-o"]).arg(library).arg(source).status();
    compiled.map(|status| assert!(status.success())).map_err(|_| "no C compiler")
}

/// Runs a test over the library, which is told `name=value`; what it prints. Nothing if it cannot be.
fn over_fake(test: &str, name: &str, value: &str) -> Option<String> {
    let folder = std::env::temp_dir().join(format!("umbra-verbs-{}-{test}-{value}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let child = compile(&folder).map(|()| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([test, "--exact", "--nocapture"]).stdin(Stdio::null());
        child.env("LD_LIBRARY_PATH", &folder).env(CHILD, "1").env(name, value).output().unwrap()
    });
    std::fs::remove_dir_all(&folder).unwrap();
    match child {
        Ok(output) => {
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{value}: {said}{}", String::from_utf8_lossy(&output.stdout));
            Some(said)
        }
        Err(missing) => {
            println!("{test}: skipped: {missing}");
            None
        }
    }
}

#[test]
fn pages_are_kept_at_forks_once_unless_the_kernel_does_so() {
    if is_child() {
        assert_eq!([devices().unwrap(), devices().unwrap()], [["fake0"], ["fake0"]]);
        return;
    }
    // Not done yet, done by somebody else, and not needed.
    for (status, times) in [("0", 1), ("1", 1), ("2", 0)] {
        let test = "pages_are_kept_at_forks_once_unless_the_kernel_does_so";
        let Some(said) = over_fake(test, "FORK_STATUS", status) else { return };
        let told: Vec<_> = said.lines().filter(|line| line.starts_with("told")).collect();
        let each = format!("told {times} times");
        assert_eq!(told, [&each, &each]);
    }
}

/// A reader with the landing area, and an export of some owner.
fn reader() -> (Rdma, Arc<Segment>, Export) {
    let landing = Arc::new(Segment::create("landing", 4096).unwrap());
    let rdma = Rdma::new(&Choice::open(None).unwrap(), 2, 4, landing.clone()).unwrap();
    let key = Key::new(Peer::rank(WorldRank(1)).unwrap(), 0, 1);
    let locator = Locator::Verbs { rkey: 7, direct: true };
    let ticket = Ticket { key, base: 0, len: 64, access: Access::READ, locator };
    (rdma, landing, Export { ticket, secret: Secret([0; 32]), shadows: [Sp(0)].into_iter().collect() })
}

#[test]
fn a_queue_pair_that_cannot_be_reset_is_destroyed_before_its_work_ends_and_another_is_made() {
    if !is_child() {
        let test = "a_queue_pair_that_cannot_be_reset_is_destroyed_before_its_work_ends_and_another_is_made";
        over_fake(test, "FAULT", "reset");
        return;
    }
    let (mut rdma, landing, export) = reader();
    rdma.attach(0, &export).unwrap();
    let (owner, address) = rdma.greet().unwrap();
    rdma.welcome(owner, &address).unwrap();
    let piece = Piece { place: 0, offset: 0, address: 0, landing: 0, len: 64 };
    assert_eq!(rdma.copy(Access::READ, &piece, 5), Ok(Moved::Begun));
    assert_eq!(rdma.ended(), None);
    rdma.rebuild(owner);
    assert_eq!(rdma.ended(), Some((5, Status::QueueBroken)));
    // The place belongs to somebody else from here on.
    landing.write(0, &[1; 64]).unwrap();
    let (greeted, another) = rdma.greet().unwrap();
    assert!(greeted == owner && another.number != address.number);
    assert!(rdma.is_greeting(owner) && rdma.lines() == 1);
    drop(rdma);
    let mut bytes = [0; 64];
    landing.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 64], "the card wrote after the end");
}

#[test]
fn what_is_lacking_for_a_queue_pair_is_told_once() {
    if !is_child() {
        over_fake("what_is_lacking_for_a_queue_pair_is_told_once", "FAULT", "queue");
        return;
    }
    let (mut rdma, _, export) = reader();
    assert_eq!(rdma.attach(0, &export), Err(Status::Unreachable));
    let why = rdma.trouble().unwrap().to_string();
    assert!(why.contains("making a queue pair"), "{why}");
    assert!(rdma.trouble().is_none());
}
