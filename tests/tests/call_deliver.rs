//! Replies of chained calls that land in shared memory (scenario 29).
//!
//! The other users of that memory may free it.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::Duration;

use umbra::call::{Delivered, Failure, Member, Shape, Station, WaitError};
use umbra::pool::{Allocation, Attributes, Pool};
use umbra_core::chain::{Call, Caps, Code, Handle, Node, Phase, Stage, Tag, Verdict};

const MEMBERS: u32 = 7;
/// Bytes of a reply.
const REPLY: usize = 64;
/// Bytes of a pool.
const ALL: usize = 4096;
/// What memory holds that nobody has written a reply to.
const GUARD: u8 = 0xa5;

/// Members that this thread drives in turn; the function of all fills a reply, which the callback adds up byte by byte.
struct Crowd(Vec<Member>);

fn fill(work: &mut umbra_core::chain::Work<'_>) -> Verdict {
    let all = match work.phase {
        Phase::Wait(answer) => {
            work.reply.data().iter().zip(answer.data).map(|(ours, theirs)| ours.wrapping_add(*theirs)).collect()
        }
        _ => vec![1 + work.node.0 as u8; REPLY],
    };
    if work.reply.set_data(&all).is_ok() { Verdict::Done } else { Verdict::Fault(1) }
}

/// What everybody's bytes add up to.
const SUM: u8 = 1 + 2 + 3 + 4 + 5 + 6 + 7;

impl Crowd {
    fn new() -> Crowd {
        let station = Station::create("delivery", Shape::new(MEMBERS as u16)).unwrap();
        let join = |node| {
            let mut member = Member::join(&station, Node(node)).unwrap();
            member.register("fill", fill).unwrap();
            member
        };
        Crowd((0..MEMBERS).map(join).collect())
    }

    fn start(&mut self) -> Handle {
        let (fill, members) = (Tag::of("fill"), (0..MEMBERS).map(Node).collect::<Vec<_>>());
        let caps = Caps { header: 0, data: REPLY as u32 };
        let budget = umbra_core::time::Lapse::from_secs(60);
        self.0[0].start(&Call { callback: fill, caps, budget, ..Call::new(fill, &members) }).unwrap()
    }

    /// So many turns, of one member after the other.
    fn turns(&mut self, turns: usize) {
        (0..turns).for_each(|step| _ = self.0[step % MEMBERS as usize].turn());
    }

    fn deliver(&mut self, handle: Handle, into: &Allocation<'_>) -> Result<Delivered, Failure> {
        while !self.0[0].test(handle).unwrap() {
            self.turns(MEMBERS as usize);
        }
        let delivered = self.0[0].deliver(handle, Duration::ZERO, into);
        assert_eq!(self.0[0].wait(handle, Duration::ZERO), Err(WaitError::Stale), "the handle is free");
        match delivered {
            Ok(delivered) => Ok(delivered),
            Err(WaitError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other}"),
        }
    }
}

fn pool(bytes: u64) -> Pool {
    Pool::create(None, &Attributes { bytes, uid: umbra::uid::draw().unwrap(), ..Attributes::default() }).unwrap()
}

fn guarded(pool: &Pool, len: usize) -> Allocation<'_> {
    let allocation = pool.alloc(len as u64, 0).unwrap();
    allocation.write(0, &vec![GUARD; len]).unwrap();
    allocation
}

fn bytes(of: &Allocation<'_>) -> Vec<u8> {
    let mut bytes = vec![0; of.len() as usize];
    of.read(0, &mut bytes).unwrap();
    bytes
}

fn failed(delivered: Result<Delivered, Failure>, code: Code, aux: u32) {
    let failure = delivered.unwrap_err();
    let [record] = failure.records[..] else { panic!("{failure}") };
    assert_eq!(
        (record.origin, record.stage, record.code, record.aux),
        (Node(0), Stage::Deliver, code, aux),
        "{failure}"
    );
    // Everybody has run it; only the one who made the call has failed.
    let tallies = failure.tallies;
    assert_eq!((tallies.ok, tallies.failed, tallies.total()), (MEMBERS - 1, 1, MEMBERS), "{failure}");
}

/// At every moment of a call somebody else who has the memory for its reply frees it, and other data lies there at once.
#[test]
fn s29_a_reply_whose_memory_was_freed_before_the_end_fails_at_delivery_and_is_written_nowhere() {
    // An allocation is all of the pool, so the next one lies where it lay.
    let (mut crowd, ours) = (Crowd::new(), pool(ALL as u64));
    let theirs = Pool::attach_reference(&ours.reference().unwrap()).unwrap();
    for moment in 0..60 {
        let into = guarded(&ours, ALL);
        let handle = crowd.start();
        crowd.turns(moment);
        theirs.allocation(into.id()).unwrap().free().unwrap();
        let next = guarded(&theirs, ALL);
        failed(crowd.deliver(handle, &into), Code::MemoryGone, 0);
        assert_eq!(bytes(&next), [GUARD; ALL], "what lies there next, {moment} turns after the start");
        next.free().unwrap();
        // The next reply has its place.
        let into = guarded(&ours, ALL);
        let handle = crowd.start();
        let delivered = crowd.deliver(handle, &into).unwrap();
        let whole = Delivered { members: MEMBERS, skipped: Vec::new(), header: Vec::new(), len: REPLY as u64 };
        assert_eq!(delivered, whole);
        let there = bytes(&theirs.allocation(into.id()).unwrap());
        assert_eq!(there, [[SUM; REPLY].as_slice(), &[GUARD; ALL - REPLY]].concat());
        into.free().unwrap();
    }
}

#[test]
fn s29_a_reply_for_a_pool_that_was_destroyed_fails_at_delivery() {
    let (mut crowd, ours) = (Crowd::new(), pool(1 << 20));
    let theirs = Pool::attach_reference(&ours.reference().unwrap()).unwrap();
    let into = guarded(&ours, REPLY);
    let handle = crowd.start();
    crowd.turns(3);
    theirs.destroy().unwrap();
    failed(crowd.deliver(handle, &into), Code::MemoryGone, 0);
    assert_eq!(bytes(&into), [GUARD; REPLY]);
}

#[test]
fn s29_a_reply_that_is_longer_than_its_memory_is_not_cut() {
    let (mut crowd, pool) = (Crowd::new(), pool(1 << 20));
    let whole = guarded(&pool, 2 * REPLY);
    for len in [0, 1, REPLY - 1] {
        let handle = crowd.start();
        failed(crowd.deliver(handle, &whole.part(8, len as u64).unwrap()), Code::ReplyTooLarge, REPLY as u32);
        assert_eq!(bytes(&whole), [GUARD; 2 * REPLY], "{len} bytes are too few");
    }
    // Into the middle, and no byte beside it.
    let handle = crowd.start();
    assert_eq!(crowd.deliver(handle, &whole.part(8, REPLY as u64).unwrap()).unwrap().len, REPLY as u64);
    let expected = [&[GUARD; 8][..], &[SUM; REPLY], &[GUARD; REPLY - 8]].concat();
    assert_eq!(bytes(&whole), expected);
}

#[test]
fn a_call_that_goes_on_is_delivered_later_and_one_that_failed_says_why() {
    let (mut crowd, pool) = (Crowd::new(), pool(1 << 20));
    let into = guarded(&pool, REPLY);
    let handle = crowd.start();
    assert_eq!(crowd.0[0].deliver(handle, Duration::ZERO, &into), Err(WaitError::NotYet));
    assert!(crowd.deliver(handle, &into).is_ok());
    into.write(0, &[GUARD; REPLY]).unwrap();
    let handle = crowd.start();
    crowd.0[0].cancel(handle).unwrap();
    let failure = crowd.deliver(handle, &into).unwrap_err();
    assert_eq!((failure.records[0].stage, failure.records[0].code), (Stage::Cancelled, Code::Cancelled));
    assert_eq!(bytes(&into), [GUARD; REPLY]);
}
