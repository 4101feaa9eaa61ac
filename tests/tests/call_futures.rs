//! Calls as futures: a thread serves a member, and wakes whoever waits.
//!
//! This is step 5 of chained calls: wait, test, `Future`.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use umbra::call::{CallError, Called, Capacities, Member, Progress, Shape, Station};
use umbra_core::chain::{Call, Caps, Code, Config, Node, Phase, StartError, Tag, Verdict, Work};
use umbra_core::time::Lapse;

const SUM: Tag = Tag::of("sum");
const LATE: Tag = Tag::of("late");

/// The executor: one thread that sleeps until it is woken.
struct Thread {
    thread: std::thread::Thread,
    wakes: AtomicU32,
}

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// Waits for a future; its value, and how often it was woken until then.
fn block_on<F: Future>(future: F) -> (F::Output, u32) {
    let thread = Arc::new(Thread { thread: std::thread::current(), wakes: AtomicU32::new(0) });
    let (mut future, until) = (pin!(future), Instant::now() + Duration::from_secs(30));
    let waker = Waker::from(Arc::clone(&thread));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (value, thread.wakes.load(Ordering::Relaxed));
        }
        assert!(Instant::now() < until, "nobody woke us");
        // A future before this one may have been ready a moment before it woke us, so this may end at once.
        std::thread::park_timeout(Duration::from_secs(30));
    }
}

/// A call, and its sum once that is known.
type Summed = (Pin<Box<Called>>, Option<Result<u64, CallError>>);

/// All of several futures.
struct All(Vec<Summed>);

impl Future for All {
    type Output = Vec<Result<u64, CallError>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        for (called, result) in self.0.iter_mut().filter(|(_, result)| result.is_none()) {
            if let Poll::Ready(reply) = called.as_mut().poll(context) {
                *result = Some(reply.map(|reply| u64::from_le_bytes(reply.data.try_into().unwrap())));
            }
        }
        if self.0.iter().any(|(_, result)| result.is_none()) {
            return Poll::Pending;
        }
        Poll::Ready(self.0.iter_mut().map(|(_, result)| result.take().unwrap()).collect())
    }
}

/// Members that sum their numbers, and have a function that ends when it is told to.
fn members(count: u16, end: &Arc<AtomicBool>) -> Vec<Progress> {
    let station = Station::create("futures", Shape::new(count)).unwrap();
    let make = |node| {
        let capacities = Capacities { calls: 8, ..Capacities::new(count.into()) };
        let config = |config| Config { classes: 4, open_max: 4, ..config };
        let mut member = Member::join_with(&station, node, capacities, config).unwrap();
        let sum = |work: &mut Work<'_>| {
            let number = match work.phase {
                Phase::Wait(answer) => {
                    let ours: [u8; 8] = work.reply.data().try_into().unwrap();
                    u64::from_le_bytes(ours) + u64::from_le_bytes(answer.data.try_into().unwrap())
                }
                _ if work.header == work.node.0.to_le_bytes() => return Verdict::Fault(7),
                _ => work.node.0.into(),
            };
            if work.reply.set_data(&number.to_le_bytes()).is_ok() { Verdict::Done } else { Verdict::Fault(1) }
        };
        member.register("sum", sum).unwrap();
        let end = Arc::clone(end);
        let late = move |_: &mut Work<'_>| if end.load(Ordering::Relaxed) { Verdict::Done } else { Verdict::Pending };
        member.register("late", late).unwrap();
        Progress::start(member).unwrap()
    };
    (0..count.into()).map(Node).map(make).collect()
}

fn sum<'a>(all: &'a [Node], header: &'a [u8]) -> Call<'a> {
    let budget = Lapse::from_secs(20);
    Call { callback: SUM, caps: Caps { header: 0, data: 8 }, header, budget, ..Call::new(SUM, all) }
}

#[test]
fn more_calls_than_there_are_places_for_all_come_to_an_end() {
    let progress = members(6, &Arc::default());
    let all: Vec<Node> = (0..6).map(Node).collect();
    for round in 0..20 {
        let from = &progress[round % progress.len()];
        let calls = (0..24).map(|_| (Box::pin(from.call(&sum(&all, &[]))), None)).collect();
        let (sums, wakes) = block_on(All(calls));
        assert!(sums.iter().all(|sum| *sum == Ok(15)), "{sums:?}");
        assert!(wakes <= 24, "at most once for each that ended: {wakes}");
    }
}

#[test]
fn failures_and_refusals_come_as_errors() {
    let progress = members(3, &Arc::default());
    let all: Vec<Node> = (0..3).map(Node).collect();
    let (result, _) = block_on(progress[0].call(&sum(&all, &2_u32.to_le_bytes())));
    let Err(CallError::Failed(failure)) = result else { panic!("{result:?}") };
    assert_eq!((failure.records[0].origin, failure.records[0].code), (Node(2), Code::Fault));
    let twice = [Node(1), Node(1)];
    let (result, _) = block_on(progress[0].call(&sum(&twice, &[])));
    assert!(matches!(result, Err(CallError::Start(StartError::DuplicateId { .. }))), "{result:?}");
}

#[test]
fn s36_a_member_that_came_again_is_called_at_once() {
    let station = Station::create("futures", Shape::new(2)).unwrap();
    let make = |node| {
        let mut member = Member::join_with(&station, Node(node), Capacities::new(2), |config| config).unwrap();
        let zero =
            |work: &mut Work<'_>| if work.reply.set_data(&[0; 8]).is_ok() { Verdict::Done } else { Verdict::Fault(1) };
        member.register("sum", zero).unwrap();
        Progress::start(member).unwrap()
    };
    let first = make(0);
    for _ in 0..5 {
        let second = make(1);
        let (result, _) = block_on(first.call(&sum(&[Node(0), Node(1)], &[])));
        assert_eq!(result.map(|reply| reply.members), Ok(2));
        drop(second);
        // Until it is known to have left; then nobody looks for a while, for no call is under way.
        std::thread::sleep(Duration::from_millis(250));
    }
}

#[test]
fn a_dropped_future_gives_its_call_up() {
    let end = Arc::new(AtomicBool::new(false));
    let progress = members(2, &end);
    let all = [Node(0), Node(1)];
    let late = Call { budget: Lapse::from_secs(20), ..Call::new(LATE, &all) };
    let begun = Instant::now();
    // Four may be open; each of these takes a place, and gives it back.
    for _ in 0..12 {
        let mut called = Box::pin(progress[0].call(&late));
        let poll = called.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(block_on(progress[0].call(&sum(&all[..1], &[]))).0.unwrap().members, 1);
    assert!(begun.elapsed() < Duration::from_secs(15), "nobody waited for the deadline: {:?}", begun.elapsed());
    end.store(true, Ordering::Relaxed);
}

#[test]
fn calls_end_with_the_thread_that_makes_them() {
    let mut progress = members(2, &Arc::default());
    let all = [Node(0), Node(1)];
    let called = progress[0].call(&Call { budget: Lapse::from_secs(20), ..Call::new(LATE, &all) });
    drop(progress.remove(0));
    assert_eq!(block_on(called).0, Err(CallError::Over));
}

/// What some executors do when they are over.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        panic!("an executor that wakes nobody any more");
    }
}

#[test]
fn an_executor_that_panics_ends_nobody_elses_calls() {
    let end = Arc::new(AtomicBool::new(false));
    let progress = members(1, &end);
    let all = [Node(0)];
    let late = progress[0].call(&Call { budget: Lapse::from_secs(20), ..Call::new(LATE, &all) });
    let (mut late, broken) = (pin!(late), Waker::from(Arc::new(Broken)));
    assert!(late.as_mut().poll(&mut Context::from_waker(&broken)).is_pending());
    end.store(true, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(30);
    while late.as_mut().poll(&mut Context::from_waker(&broken)).is_pending() {
        assert!(Instant::now() < until, "its call has not ended");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(block_on(progress[0].call(&sum(&all, &[]))).0.map(|reply| reply.members), Ok(1));
}
