//! What is refused because there is no memory for it.
//!
//! The limit is that of the whole process, so these tests are alone in their program, and one at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use umbra::call::{Capacities, JoinError, Member, Shape, Station};
use umbra::channel::{self, Channel, Timeout};
use umbra::pool::{self, Pool};
use umbra::sim::{self, Options, SimError};
use umbra::stream::{Adapter, Attributes, Error, ReceiveOptions, SendOptions};
use umbra::sys::segment::SegmentError;
use umbra_core::chain::Node;

/// Only a hang lasts longer.
const WAIT: Timeout = Timeout::After(Duration::from_secs(60));
/// More than what the allocator of a thread keeps, so that it has to ask for it.
const MUCH: u64 = 64 << 20;

/// Keeps the other tests out.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is said when the process may have so many bytes more than it has.
fn with_only<R>(more: u64, act: impl FnOnce() -> R) -> R {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:")?.trim().strip_suffix(" kB")).unwrap();
    let usual = getrlimit(Resource::Data);
    let limit = Rlimit { current: Some(data.parse::<u64>().unwrap() * 1024 + more), ..usual };
    setrlimit(Resource::Data, limit).unwrap();
    let done = act();
    setrlimit(Resource::Data, usual).unwrap();
    done
}

#[test]
fn a_member_for_which_there_is_no_memory_is_refused_and_has_no_seat() {
    let _alone = alone();
    let join = |station: &Station, room| Member::join_with(station, Node(0), room, |config| config).map(drop);
    let station = Station::create("memory", Shape::new(1)).unwrap();
    let many = Capacities { calls: u16::MAX, call_bytes: 8, ..Capacities::new(1) };
    let refused = with_only(2 << 20, || join(&station, many));
    assert!(matches!(refused, Err(JoinError::Memory(_))), "{refused:?}");
    join(&station, many).unwrap();

    let shape = Shape { messages: 1, message_bytes: MUCH as u32, ..Shape::new(1) };
    let station = Station::create("memory", shape).unwrap();
    // For one of the two messages that a member works on.
    let refused = with_only(MUCH * 3 / 2, || join(&station, Capacities::new(1)));
    assert!(matches!(refused, Err(JoinError::Memory(_))), "{refused:?}");
    join(&station, Capacities::new(1)).unwrap();
}

#[test]
fn a_message_that_is_more_memory_than_there_is_room_for_comes_again() {
    let _alone = alone();
    let uid = umbra::uid::draw().unwrap();
    let attributes = pool::Attributes { bytes: 2 * MUCH, uid, ..pool::Attributes::default() };
    let pool = Arc::new(Pool::create(None, &attributes).unwrap());
    let adapter = Adapter::create(&Attributes::default(), [Arc::clone(&pool)]).unwrap();
    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
    let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
    sender.lend_memory(&pool.alloc(MUCH, 0).unwrap(), 7, WAIT).unwrap();
    for _ in 0..2 {
        let refused = with_only(MUCH / 2, || receiver.receive(WAIT));
        assert!(matches!(refused, Err(Error::NoMemory(_))), "{refused:?}");
    }
    let message = receiver.receive(WAIT).unwrap();
    assert_eq!((message.bytes.len() as u64, message.arg), (MUCH, 7));
    sender.close(WAIT).unwrap();
    receiver.close(WAIT).unwrap();
}

#[test]
fn a_simulation_that_takes_more_than_this_process_may_have_is_refused() {
    let _alone = alone();
    let options = Options::new(32, 2, 8);
    for more in [1 << 20, 8 << 20] {
        let refused = with_only(more, || sim::run(&options).map(drop));
        assert!(matches!(refused, Err(SimError::NoMemory { services: 64, ranks: 256, .. })), "{refused:?}");
    }
    assert_eq!(sim::run(&options).unwrap().ready_ranks, 256);
}

/// What is said when the files of this process may have so many bytes.
fn with_files_of<R>(most: u64, act: impl FnOnce() -> R) -> R {
    let usual = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(most), ..usual }).unwrap();
    let done = act();
    setrlimit(Resource::Fsize, usual).unwrap();
    done
}

#[test]
fn shared_memory_that_is_longer_than_a_file_may_be_is_refused_and_ends_no_process() {
    const MOST: u64 = 1 << 20;
    let _alone = alone();
    let is_refused = |error: &SegmentError| matches!(error, SegmentError::FileLimit { most: MOST, .. });
    let name = format!("limited-{}", std::process::id());
    let pool = |name, memory| {
        let attributes = pool::Attributes { bytes: 4 * MOST, memory, ..pool::Attributes::default() };
        Pool::create(name, &attributes).map(drop)
    };
    with_files_of(MOST, || {
        Channel::create(&channel::Attributes::default()).unwrap();
        let long = channel::Attributes { block: MOST as u32, ..channel::Attributes::default() };
        let refused = Channel::create(&long).map(drop).unwrap_err();
        assert!(matches!(&refused, channel::Error::Segment(error) if is_refused(error)), "{refused}");
        assert!(refused.to_string().contains("at most 1048576 bytes (RLIMIT_FSIZE)"), "{refused}");
        let refused = Adapter::create(&Attributes { ring: MOST as u32, ..Attributes::default() }, []).map(drop);
        assert!(matches!(&refused, Err(Error::Segment(error)) if is_refused(error)), "{refused:?}");
        for (name, memory) in [
            (None, pool::Memory::Shared),
            (None, pool::Memory::HugePages),
            (Some(&*name), pool::Memory::Shared),
            (Some(&*name), pool::Memory::Folder(std::env::temp_dir())),
        ] {
            let refused = pool(name, memory);
            assert!(matches!(&refused, Err(pool::Error::Segment(error)) if is_refused(error)), "{refused:?}");
        }
        pool(None, pool::Memory::Private).unwrap();
    });
    pool(Some(&name), pool::Memory::Shared).unwrap();
}
