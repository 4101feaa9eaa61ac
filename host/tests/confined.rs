//! Pools where a process may not do as it likes: A13, A20.
//!
//! It runs as another user, or where `/dev/shm` is as small as in containers.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::process::{Command, Stdio};

use rustix::io::Errno;
use umbra::channel::{self, Channel};
use umbra::pool::{Attributes, Error, Pool, clean, list};
use umbra::reference::{from_text, to_text};

mod another;
use another::{Another, role};

const MIB: u64 = 1 << 20;
/// `nobody`, or whoever has the number.
const STRANGER: u32 = 65_534;
/// Runs the rest of its arguments where `/dev/shm` has 64 MiB.
const SMALL: &str = "mount -t tmpfs -o size=64m tmpfs /dev/shm && exec \"$@\"";

fn of(bytes: u64) -> Attributes {
    Attributes { bytes, ..Attributes::default() }
}

/// What the other process finds; as a test of its own it does nothing.
#[test]
fn another_process() {
    let Some(role) = role() else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["stranger", name, reference] => is_refused(name, reference),
        ["small"] => has_64_mib(),
        _ => panic!("no role is called {role}"),
    }
}

fn is_refused(name: &str, reference: &str) {
    assert!(rustix::process::getuid().as_raw() == STRANGER);
    let reference = from_text(reference).unwrap();
    for refused in [Pool::attach(name), Pool::attach_reference(&reference)] {
        let error = refused.unwrap_err();
        assert_eq!(error.code(), "MEMORY_ERRNO");
        assert!(matches!(error, Error::File { errno: Errno::ACCESS, .. }), "{error}");
    }
    // What he cannot look at is not his to remove.
    let _ = clean();
    assert!(list().unwrap().iter().any(|other| other == name));
}

#[test]
fn a13_another_user_is_refused_and_removes_nothing() {
    if !rustix::process::getuid().is_root() {
        return println!("skipped: only root starts processes of other users");
    }
    let name = format!("private-{}", std::process::id());
    let pool = Pool::create(Some(&name), &of(MIB)).unwrap();
    let reference = to_text(&pool.reference().unwrap());
    Another::start_by(STRANGER, &format!("stranger {name} {reference}")).finish();
    Pool::attach(&name).unwrap().alloc(100, 0).unwrap().free().unwrap();
}

fn has_64_mib() {
    let refused = Pool::create(Some("wide"), &of(1 << 30)).unwrap_err();
    assert_eq!(refused.code(), "MEMORY_ERRNO");
    assert!(matches!(refused, Error::File { errno: Errno::NOSPC, .. }), "{refused}");
    assert_eq!(std::fs::read_dir("/dev/shm").unwrap().count(), 0, "nothing is left behind");
    // What there is room for is there to the last byte, and the next one is refused before it takes any.
    let pool = Pool::create(Some("narrow"), &of(48 * MIB)).unwrap();
    assert!(matches!(Pool::create(Some("second"), &of(48 * MIB)), Err(Error::File { errno: Errno::NOSPC, .. })));
    let all = pool.alloc(32 * MIB, 0).unwrap();
    (0..32).for_each(|mib| all.write(mib * MIB, &[7; MIB as usize]).unwrap());
    all.free().unwrap();
    drop(pool);
    let pool = Pool::create(Some("usual"), &of(4 * MIB)).unwrap().into();
    let channels = channel::Attributes { block: 1000, capacity: 10, ..channel::Attributes::default() };
    let channels: Vec<_> = (0..10).map(|_| Channel::create_in(&pool, &channels).unwrap()).collect();
    assert_eq!((channels.len(), pool.blocks().count()), (10, 10));
}

#[test]
fn a20_a_pool_that_does_not_fit_into_dev_shm_is_refused_and_no_signal_later() {
    let ways = [&["unshare", "--mount"][..], &["unshare", "--user", "--map-root-user", "--mount"]];
    let small = |way: &[&'static str]| [way, &["sh", "-c", SMALL, "sh"]].concat();
    let works = |way: &[&'static str]| {
        let words = small(way);
        let tried = Command::new(words[0]).args(&words[1..]).arg("true").stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(way) = ways.into_iter().find(|way| works(way)) else {
        return println!("skipped: no mount of one's own on this machine");
    };
    Another::start_within(&small(way), "small").finish();
}
