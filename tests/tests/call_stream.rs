//! Data of any length through calls, a segment at a time.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use umbra::call::{Capacities, Member, Segment, Shape, Station, StreamError, WaitError, Window};
use umbra_core::chain::{Call, Caps, Code, Config, Node, Phase, Plan, Tag, Verdict, Work};
use umbra_core::tree;

/// Far beyond anything that a loaded machine needs.
const LONG: Duration = Duration::from_secs(60);
const SEGMENT: usize = 16 << 10;
const CALLS: usize = 4;
/// Bytes that a member keeps for one call: its own reply and those of eight children, a segment each, and lists.
const ROOM: usize = 9 * SEGMENT + 4096;

/// Which member has combined the answer of which child, about which segment.
type Trace = Arc<Mutex<Vec<(Node, Node, u64)>>>;

fn nodes(count: u16) -> Vec<Node> {
    (0..u32::from(count)).map(Node).collect()
}

/// Adds words up, element by element.
fn add(work: &mut Work<'_>) {
    let Phase::Wait(answer) = work.phase else { return };
    for (own, child) in work.reply.data_mut().as_chunks_mut::<8>().0.iter_mut().zip(answer.data.as_chunks::<8>().0) {
        *own = u64::from_le_bytes(*own).wrapping_add(u64::from_le_bytes(*child)).to_le_bytes();
    }
}

/// What a member has for calls, whatever the length of data.
fn capacities(members: u16) -> Capacities {
    Capacities { calls: CALLS as u16, call_bytes: ROOM, ..Capacities::new(members.into()) }
}

/// A member whose function answers each word times its number and one more, and whose callback adds.
fn adder(station: &Station, node: Node, fails_at: Option<u64>, trace: &Trace) -> Member {
    // One member makes calls, no more than there are places: none is needed for depths.
    let settings = |config| Config { classes: 0, ..config };
    let mut member = Member::join_with(station, node, capacities(station.shape().members), settings).unwrap();
    let trace = Arc::clone(trace);
    let mut bytes = vec![0; SEGMENT];
    member
        .register_local("add", move |work, local| {
            let Some((segment, b"rest")) = Segment::parse(work.header) else { return Verdict::Fault(1) };
            if let Phase::Wait(answer) = work.phase {
                trace.lock().unwrap().push((node, answer.from, segment.offset / SEGMENT as u64));
                add(work);
                return Verdict::Done;
            }
            let bytes = &mut bytes[..segment.len as usize];
            if fails_at == Some(segment.offset) || local.read(work.data, 0, bytes).is_err() {
                return Verdict::Fault(2);
            }
            for word in bytes.as_chunks_mut::<8>().0 {
                *word = u64::from_le_bytes(*word).wrapping_mul(u64::from(node.0) + 1).to_le_bytes();
            }
            if work.reply.set_data(bytes).is_ok() { Verdict::Done } else { Verdict::Fault(3) }
        })
        .unwrap();
    member
}

/// A station in which each member can offer one window, and inboxes take a segment at a time.
fn station(count: u16) -> Station {
    let offer_bytes = (CALLS * SEGMENT) as u64;
    let message_bytes = SEGMENT as u32 + 4096;
    Station::create("stream", Shape { offer_bytes, message_bytes, messages: 16, ..Shape::new(count) }).unwrap()
}

/// Runs `test` as member 0 while the others serve in threads.
fn with_adders(count: u16, fails: Option<(Node, u64)>, test: impl FnOnce(&mut Member)) -> Vec<(Node, Node, u64)> {
    let (station, trace) = (station(count), Trace::default());
    let (over, ready) = (AtomicBool::new(false), Barrier::new(count.into()));
    std::thread::scope(|scope| {
        for node in nodes(count).into_iter().skip(1) {
            let (station, trace, over, ready) = (&station, &trace, &over, &ready);
            let fails_at = fails.filter(|&(who, _)| who == node).map(|(_, at)| at);
            scope.spawn(move || {
                let mut member = adder(station, node, fails_at, trace);
                ready.wait();
                member.serve_until(LONG * 2, |_| over.load(Ordering::Acquire));
            });
        }
        let mut first = adder(&station, Node(0), None, &trace);
        ready.wait();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut first)));
        over.store(true, Ordering::Release);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    Arc::into_inner(trace).unwrap().into_inner().unwrap()
}

fn adding(members: &[Node]) -> Call<'_> {
    let add = Tag::of("add");
    let caps = Caps { header: 0, data: SEGMENT as u32 };
    let budget = umbra_core::time::Lapse::from_secs(50);
    Call { callback: add, caps, header: b"rest", budget, ..Call::new(add, members) }
}

const WINDOW: Window = Window { segment: SEGMENT, calls: CALLS, patience: LONG };

fn words(count: u64) -> Vec<u8> {
    (0..count).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).flat_map(u64::to_le_bytes).collect()
}

/// What the sum over members 0 to `count` is.
fn sums(data: &[u8], count: u64) -> Vec<u8> {
    let times = count * (count + 1) / 2;
    data.as_chunks::<8>()
        .0
        .iter()
        .flat_map(|&word| u64::from_le_bytes(word).wrapping_mul(times).to_le_bytes())
        .collect()
}

#[test]
fn s60_a_mebibyte_from_each_of_eight_children_is_summed_while_more_of_it_comes() {
    const REPLY: usize = 1 << 20;
    // All that calls take anything into, at the one with eight children as at any other.
    let Capacities { calls, call_bytes, .. } = capacities(9);
    let staged = usize::from(calls) * call_bytes;
    assert!(staged < REPLY, "{staged} bytes, more than one reply has");
    let data = words(REPLY as u64 / 8);
    let trace = with_adders(9, None, |first| {
        let mut sum = Vec::new();
        let members = nodes(9);
        let flat = Call { plan: Plan::Shape(tree::Shape::FLAT), ..adding(&members) };
        first
            .stream(&flat, &data, WINDOW, |segment, reply| {
                assert_eq!((segment.offset as usize, segment.total), (sum.len(), 1 << 20));
                sum.extend(reply.data);
            })
            .unwrap();
        assert!(sum == sums(&data, 9));
        assert_eq!(first.offered_bytes(), 1 << 20, "one copy");
    });
    // Each answer was combined once; answers about later segments before the last one about an earlier.
    assert_eq!(trace.len(), 8 * 64);
    let last = |segment| trace.iter().rposition(|&(_, _, at)| at == segment).unwrap();
    let overlaps =
        trace.iter().enumerate().filter(|&(at, &(.., segment))| segment > 0 && at < last(segment - 1)).count();
    assert!(overlaps > 0, "each segment waited for the one before it");
    // No more than a window was ever on its way.
    for (at, &(_, _, segment)) in trace.iter().enumerate() {
        assert!(trace[at..].iter().all(|&(_, _, later)| later + CALLS as u64 > segment), "{segment} came early");
    }
}

#[test]
fn s58_data_of_any_length_goes_through_memory_for_one_window() {
    // 16 MiB where 64 KiB can be offered at once.
    let data = words((16 << 20) / 8);
    with_adders(4, None, |first| {
        let (mut at, mut right) = (0, true);
        let members = nodes(4);
        let chain = Call { plan: Plan::Shape(tree::Shape::CHAIN), ..adding(&members) };
        first
            .stream(&chain, &data, WINDOW, |_, reply| {
                right &= reply.data == sums(&data[at..at + reply.data.len()], 4);
                at += reply.data.len();
            })
            .unwrap();
        assert!(right && at == data.len());
        assert_eq!(first.offered_bytes(), 16 << 20, "each byte was copied once");
    });
}

#[test]
fn s59_a_stream_ends_with_the_first_segment_that_fails() {
    let data = words(20 * SEGMENT as u64 / 8);
    let fails = 7 * SEGMENT as u64;
    with_adders(4, Some((Node(3), fails)), |first| {
        let members = nodes(4);
        let mut whole = 0;
        let error = first.stream(&adding(&members), &data, WINDOW, |_, _| whole += 1).unwrap_err();
        let StreamError::Call { offset, error: WaitError::Failed(failure) } = error else { panic!("{error}") };
        assert_eq!((offset, whole), (fails, 7), "{failure}");
        assert_eq!(
            (failure.records[0].origin, failure.records[0].code, failure.records[0].aux),
            (Node(3), Code::Fault, 2)
        );
        // All memory is back, and so is every place.
        let few = &data[..CALLS * SEGMENT];
        for _ in 0..3 {
            first.stream(&adding(&members), few, WINDOW, |_, _| {}).unwrap();
        }
        let none = Window { calls: 0, ..WINDOW };
        assert_eq!(first.stream(&adding(&members), few, none, |_, _| {}), Err(StreamError::NoWindow));
        // As many are under way as there is memory for, and one needs some.
        let too_many = Window { calls: CALLS + 1, ..WINDOW };
        let mut whole = 0;
        first.stream(&adding(&members), &data[..(CALLS + 2) * SEGMENT], too_many, |_, _| whole += 1).unwrap();
        assert_eq!(whole, CALLS + 2);
        let too_long = Window { segment: CALLS * SEGMENT + 1, ..WINDOW };
        let error = first.stream(&adding(&members), &data, too_long, |_, _| {}).unwrap_err();
        assert!(matches!(error, StreamError::Offer { offset: 0, .. }), "{error}");
        first.stream(&adding(&members), few, WINDOW, |_, _| {}).unwrap();
    });
}
