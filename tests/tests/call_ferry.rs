//! Chained calls between places over any transport, here over shared memory; `verbs_calls` does the same over queue pairs.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::process::{Child, Command};
use std::sync::Arc;

use umbra::call::ferry::{Ferry, FerryError, Hold, Lost, SLOTS};
use umbra::shm::{FrameLane, Shm};
use umbra::sys::process::{Process, ProcessId};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::key::Access;
use umbra_core::transport::{Transport as _, Work};
use umbra_core::wire::{Frame, Op, Token};
use umbra_tests::ferry::{End, Joined, key, place, shape};
use umbra_tests::transport_conformance::peer;

/// Two ends over shared memory; a child stands for the life of the second.
struct Shared {
    ends: [End<Shm>; 2],
    child: Life,
}

struct Life(Child);

impl Drop for Life {
    fn drop(&mut self) {
        // Both fail only if it was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shared() -> Shared {
    let child = Life(Command::new("sleep").arg("600").spawn().unwrap());
    let lane = FrameLane::create(64).unwrap();
    let other = FrameLane::attach(lane.share().unwrap(), 64).unwrap();
    let mut ends = [Shm::new(peer(0), 64), Shm::new(peer(1), 64)];
    ends[0].connect(peer(1), lane, Process::open(ProcessId::of(child.0.id()).unwrap()).unwrap());
    ends[1].connect(peer(0), other, Process::open(ProcessId::current().unwrap()).unwrap());
    let bytes = Ferry::<Shm>::bytes(shape(0));
    let mut hold = |n: u32, is_landing: bool| {
        let key = key(n, is_landing);
        let memory = Arc::new(Segment::create("hold", bytes).unwrap());
        for end in &mut ends {
            let mapped = Arc::new(Segment::attach(memory.share().unwrap(), Mapping::ReadWrite, bytes).unwrap());
            end.window(key, mapped, 0, bytes as u64, Access::READ | Access::WRITE).unwrap();
        }
        Hold { key, memory }
    };
    let holds = [0, 1].map(|n| [hold(n, false), hold(n, true)]);
    let mut ends =
        ends.into_iter().zip(holds).map(|(transport, [outgoing, landing])| End { transport, outgoing, landing });
    Shared { ends: [ends.next().unwrap(), ends.next().unwrap()], child }
}

#[test]
fn calls_are_carried() {
    let Shared { ends, child: _child } = shared();
    Joined::new(ends).calls_are_carried();
}

#[test]
fn offered_data_is_carried() {
    let Shared { ends, child: _child } = shared();
    Joined::new(ends).offered_data_is_carried();
}

#[test]
fn a_place_that_dies_is_named() {
    let Shared { ends, child } = shared();
    Joined::new(ends).a_place_that_dies_is_named(|| drop(child));
}

/// What a place says of another one that sends these frames.
fn told_of(frames: &[Frame<'_>]) -> Option<FerryError> {
    let Shared { ends: [first, mut second], child: _child } = shared();
    let (_members, mut ferry) = place(0, first);
    for frame in frames {
        second.transport.post(peer(0), Work::Send(*frame), Token(0)).unwrap();
    }
    (0..100).find_map(|_| ferry.turn().err())
}

#[test]
fn a_place_that_speaks_of_what_there_is_not_is_lost() {
    let [landed, taken] = [Op(0x0606), Op(0x0607)];
    let bytes = Ferry::<Shm>::bytes(shape(0)) as u64 / u64::from(SLOTS);
    let frame = |op, token, arg| Frame::Null { op, token: Token(token), arg };
    let malformed = Some(FerryError { place: 1, why: Lost::Malformed });
    for (frames, expected) in [
        (vec![frame(landed, 1, 0)], malformed),
        (vec![frame(landed, u64::MAX, 0)], malformed),
        (vec![frame(landed, 0, bytes + 1)], malformed),
        (vec![frame(landed, 0, 0), frame(landed, 0, 0)], malformed),
        // More than was announced to it, which is a greeting at most.
        (vec![frame(taken, 2, 0)], malformed),
        (vec![frame(taken, u64::MAX, 0)], malformed),
        (vec![frame(Op(7), 0, 0)], malformed),
        (vec![Frame::Call { op: landed, token: Token(0), body: &[1; 40] }], malformed),
        // Bodies of operations that it does not know are not for it.
        (vec![frame(landed, 0, 7 << 32 | 8), frame(landed, 1, bytes)], None),
    ] {
        assert_eq!(told_of(&frames), expected, "{frames:?}");
    }
}

#[test]
fn a_greeting_that_is_none_loses_the_place() {
    let error = told_of(&[Frame::Null { op: Op(0x0606), token: Token(0), arg: 0x0601 << 32 | 3 }]).unwrap();
    assert!(matches!(error, FerryError { place: 1, why: Lost::Border(_) }), "{error}");
}

#[test]
fn memory_that_is_too_short_is_refused() {
    let Shared { ends: [mut first, second], child: _child } = shared();
    let (_members, mut ferry) = place(1, second);
    first.landing.memory = Arc::new(Segment::create("short", 4096).unwrap());
    let least = Ferry::<Shm>::bytes(shape(0));
    let refused = ferry.join((0, peer(0)), first.outgoing, first.landing, key(0, true));
    assert_eq!(refused, Err(FerryError { place: 0, why: Lost::Short { least } }));
}
