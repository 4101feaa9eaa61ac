//! Messages of streams for which a process has no memory.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;
mod gateways;

use std::sync::Arc;
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use umbra::channel::Timeout;
use umbra::gateway::{self, RemoteStreams};
use umbra::pool::{self, Pool};
use umbra::stream::{Adapter, Attributes, Error, Piece, ReceiveOptions, SendOptions};
use umbra::sys::heap::NoMemory;

use another::{Another, role};
use gateways::{LONG, gateways, serve};

/// Bytes of a message.
const LEN: usize = 32 << 20;
/// What a process may have beyond what it has, so that there is no room for a message.
const SPARE: u64 = 12 << 20;

/// Does something while there is little memory.
fn in_need<T>(act: impl FnOnce() -> T) -> T {
    let (usual, status) = (getrlimit(Resource::Data), std::fs::read_to_string("/proc/self/status").unwrap());
    let size = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    let kib: u64 = size.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    setrlimit(Resource::Data, Rlimit { current: Some((kib << 10) + SPARE), ..usual }).unwrap();
    let done = act();
    setrlimit(Resource::Data, usual).unwrap();
    done
}

fn long() -> Vec<u8> {
    (0..LEN).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// What another process does; as a test of its own it does nothing. A limit is the whole process's.
#[test]
fn another_process() {
    match role().as_deref() {
        None => {}
        Some("bytes") => bytes_come_again(),
        Some("memory") => memory_comes_again(),
        Some("far") => bytes_of_another_host_come_again(),
        Some("broken") => what_was_broken_off_says_so(),
        Some("late") => what_cannot_be_put_back_is_received(),
        Some("kept") => what_is_kept_takes_no_more_than_it_is(),
        Some(role) => panic!("no role is called {role}"),
    }
}

fn bytes_come_again() {
    let (adapter, bytes) = (Adapter::create(&Attributes::default(), []).unwrap(), long());
    let mut sender = adapter.send(&SendOptions::default(), LONG).unwrap();
    let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            sender.send(&bytes, 7, LONG).unwrap();
            sender.send(b"next", 8, LONG).unwrap();
        });
        for _ in 0..2 {
            let refused = in_need(|| receiver.receive(LONG)).unwrap_err();
            assert!(matches!(refused, Error::NoMemory(_)), "{refused}");
        }
        let message = receiver.receive(LONG).unwrap();
        assert!(message.bytes == bytes && message.arg == 7, "{} bytes", message.bytes.len());
        assert_eq!(receiver.receive(LONG).unwrap().bytes, b"next");
    });
}

fn bytes_of_another_host_come_again() {
    let ((_server, address), bytes) = (serve(), long());
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let remote = RemoteStreams::attach(&adapter.reference().unwrap(), &gateways(&address), LONG).unwrap();
    let mut sender = adapter.send(&SendOptions::default(), LONG).unwrap();
    let mut receiver = remote.receive(&ReceiveOptions::default(), LONG).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            sender.send(&bytes, 7, LONG).unwrap();
            sender.send(b"next", 8, LONG).unwrap();
        });
        for _ in 0..2 {
            let refused = in_need(|| receiver.receive(LONG)).unwrap_err();
            assert!(matches!(refused, gateway::Error::Stream(Error::NoMemory(_))), "{refused}");
        }
        let message = receiver.receive(LONG).unwrap();
        assert!(message.bytes == bytes && message.arg == 7, "{} bytes", message.bytes.len());
        assert_eq!(receiver.receive(LONG).unwrap().bytes, b"next");
    });
}

fn what_is_kept_takes_no_more_than_it_is() {
    let (adapter, bytes) = (Adapter::create(&Attributes::default(), []).unwrap(), long());
    let mut sender = adapter.send(&SendOptions::default(), LONG).unwrap();
    sender.keep(&bytes, 7).unwrap();
    // There is room for this, but not for twice what is kept.
    in_need(|| sender.keep(&bytes[..SPARE as usize / 2], 7)).unwrap();
    assert_eq!(sender.take_kept().0.len(), LEN + SPARE as usize / 2);
}

fn what_was_broken_off_says_so() {
    let (adapter, bytes) = (Adapter::create(&Attributes::default(), []).unwrap(), long());
    let mut sender = adapter.send(&SendOptions::default(), LONG).unwrap();
    let refused = in_need(|| sender.send(&bytes, 7, Timeout::Now)).unwrap_err();
    assert!(matches!(refused, Error::NoMemory(_)), "{refused}");
    assert_eq!(sender.send(b"next", 8, LONG), Err(Error::BrokenOff));
    assert_eq!(sender.keep(b"next", 8), Err(Error::BrokenOff));
    assert_eq!(sender.flush(LONG), Err(Error::BrokenOff));
    assert_eq!(sender.close(LONG), Err(Error::BrokenOff));
    let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
    assert_eq!(receiver.receive(LONG), Err(Error::PeerDead));
}

/// A pool with room for a message.
fn pool() -> Arc<Pool> {
    let uid = umbra::uid::draw().unwrap();
    let attributes = pool::Attributes { bytes: 2 * LEN as u64, uid, ..pool::Attributes::default() };
    Arc::new(Pool::create(None, &attributes).unwrap())
}

fn what_cannot_be_put_back_is_received() {
    let (theirs, bytes) = (pool(), long());
    let adapter = Adapter::create(&Attributes::default(), [theirs.clone()]).unwrap();
    let mut sender = adapter.send(&SendOptions::default(), LONG).unwrap();
    let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
    let lent = theirs.alloc(LEN as u64, 0).unwrap();
    lent.write(0, &bytes).unwrap();
    sender.lend_memory(&lent, 7, LONG).unwrap();
    sender.send(b"behind", 8, LONG).unwrap();
    let mut pad = vec![0; LEN + 8];
    let all = Piece { len: LEN + 6, arg: 8, is_last: true };
    assert_eq!(in_need(|| receiver.receive_exact(&mut pad, Timeout::Now)), Ok(all));
    assert!(pad.starts_with(&bytes) && pad[LEN..].starts_with(b"behind"));
    assert_eq!(receiver.receive_exact(&mut pad, Timeout::Now), Err(Error::Empty), "nothing comes twice");
}

fn memory_comes_again() {
    let (theirs, home) = (pool(), pool());
    let adapter = Adapter::create(&Attributes::default(), [theirs.clone(), home.clone()]).unwrap();
    let options = ReceiveOptions { placed_in: Some(home.uid()), ..ReceiveOptions::default() };
    let mut sender = adapter.send(&SendOptions::default(), LONG).unwrap();
    let mut receiver = adapter.receive(&options, LONG).unwrap();
    let lent = theirs.alloc(LEN as u64, 0).unwrap();
    lent.write(LEN as u64 - 4, b"last").unwrap();
    sender.lend_memory(&lent, 7, LONG).unwrap();
    sender.send(b"next", 8, LONG).unwrap();
    let refused = Error::NoMemory(NoMemory { bytes: LEN });
    let mut receiver = in_need(|| {
        assert_eq!(receiver.receive(LONG).unwrap_err(), refused);
        assert_eq!(receiver.receive_memory(LONG).unwrap_err(), refused);
        let none = receiver.into_file(0).unwrap_err();
        assert_eq!(none.error, refused);
        none.end
    });
    let none = receiver.into_file(usize::MAX).unwrap_err();
    assert!(matches!(none.error, Error::NoMemory(_)), "{none}");
    receiver = none.end;
    let message = receiver.receive(LONG).unwrap();
    assert!(message.bytes.len() == LEN && message.bytes.ends_with(b"last") && message.arg == 7);
    assert_eq!(receiver.receive(LONG).unwrap().bytes, b"next");
}

#[test]
fn a_message_for_which_there_is_no_memory_comes_again_when_there_is() {
    ["bytes", "memory", "far", "late"].map(Another::start).into_iter().for_each(Another::finish);
}

#[test]
fn a_sender_that_could_not_keep_the_rest_of_a_message_says_so_ever_after() {
    Another::start("broken").finish();
}

#[test]
fn what_is_kept_beside_more_takes_no_more_memory_than_it_is() {
    Another::start("kept").finish();
}
