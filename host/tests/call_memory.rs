//! Members of calls for whose calls and messages there is no memory.
//!
//! The limit is that of the whole process, so this test is alone in its program.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use umbra::call::{Capacities, JoinError, Member, Shape, Station};
use umbra_core::chain::Node;

/// What a join says when the process may have so many bytes more than it has.
fn with_only(more: u64, station: &Station, room: Capacities) -> Result<(), JoinError> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:")?.trim().strip_suffix(" kB")).unwrap();
    let usual = getrlimit(Resource::Data);
    let limit = Rlimit { current: Some(data.parse::<u64>().unwrap() * 1024 + more), ..usual };
    setrlimit(Resource::Data, limit).unwrap();
    let joined = Member::join_with(station, Node(0), room, |config| config).map(drop);
    setrlimit(Resource::Data, usual).unwrap();
    joined
}

#[test]
fn a_member_for_which_there_is_no_memory_is_refused_and_has_no_seat() {
    let station = Station::create("memory", Shape::new(1)).unwrap();
    let many = Capacities { calls: u16::MAX, call_bytes: 8, ..Capacities::new(1) };
    let refused = with_only(2 << 20, &station, many);
    assert!(matches!(refused, Err(JoinError::Memory(_))), "{refused:?}");
    with_only(100 << 20, &station, many).unwrap();

    let shape = Shape { messages: 1, message_bytes: 64 << 20, ..Shape::new(1) };
    let station = Station::create("memory", shape).unwrap();
    // For one of the two messages that a member works on.
    let refused = with_only(100 << 20, &station, Capacities::new(1));
    assert!(matches!(refused, Err(JoinError::Memory(_))), "{refused:?}");
    with_only(200 << 20, &station, Capacities::new(1)).unwrap();
}
