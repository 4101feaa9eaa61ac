//! How items flow: on one thread, through two, to and fro.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::thread;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_tests::bench::pin;

use crate::ends::{Item, Pop, Push};

/// The largest batch.
const MOST: usize = 64;

/// Items on their way, within the closures, not on the heap, where they could share lines with another thread's; aligned, so
/// that the copies of all queues begin alike.
type Batch<T> = Apart<[T; MOST]>;
fn batch_of<T: Item>() -> Batch<T> {
    Apart([T::default(); MOST])
}

/// What one side of a comparison does: so many iterations.
pub(crate) type Side = Box<dyn FnMut(u64) + Send>;

/// Waits after a failed attempt, the same for every queue: it decides how often the cores tear at one line.
enum Wait {
    /// So many pause hints after every failure.
    Steady { pauses: u32, tries: u32 },
    /// Twice as long after every failure, up to 64 pause hints; then the core is given away. What threads do
    /// that outnumber the cores.
    Growing { step: u32 },
}
impl Wait {
    fn steady(pauses: u32) -> Wait {
        Wait::Steady { pauses, tries: 0 }
    }

    fn growing() -> Wait {
        Wait::Growing { step: 0 }
    }

    #[inline(always)]
    fn wait(&mut self) {
        match self {
            Wait::Steady { pauses, tries } => {
                *tries = tries.wrapping_add(1);
                if *tries & 0xfff == 0 {
                    // The partner may have lost its core.
                    thread::yield_now();
                }
                for _ in 0..*pauses {
                    spin_loop();
                }
            }
            Wait::Growing { step: 7.. } => thread::yield_now(),
            Wait::Growing { step } => {
                for _ in 0..1_u32 << *step {
                    spin_loop();
                }
                *step += 1;
            }
        }
    }

    #[inline(always)]
    fn over(&mut self) {
        if let Wait::Growing { step } = self {
            *step = 0;
        }
    }
}

#[inline(always)]
fn push_whole<T: Item>(sender: &mut impl Push<T>, items: &mut [T], next: &mut u64, wait: &mut Wait) {
    match items {
        [one] => number(std::slice::from_mut(one), next),
        _ => number_all(items, next),
    }
    push_all(sender, black_box(items), wait);
}

/// Makes a batch. A function of its own, as [`check_all`]: a batch costs its queue little beside this, and where the compiler
/// puts such a loop alone changes a row by half. So all queues share one.
#[inline(never)]
fn number_all<T: Item>(items: &mut [T], next: &mut u64) {
    number(items, next);
}

#[inline(always)]
fn number<T: Item>(items: &mut [T], next: &mut u64) {
    for (item, n) in items.iter_mut().zip(*next..) {
        *item = T::of(n);
    }
    *next += items.len() as u64;
}

#[inline(never)]
fn check_all<T: Item>(items: &[T], next: &mut u64) {
    check(items, next);
}

/// Compares without a branch for each item, so that the compiler takes several at once and a row is the queue's.
#[inline(always)]
fn check<T: Item>(items: &[T], next: &mut u64) {
    let differences = items.iter().zip(*next..).fold(0, |all, (item, n)| all | (item.number() ^ T::of(n).number()));
    assert_eq!(differences, 0, "out of order");
    *next += items.len() as u64;
}

#[inline(always)]
fn push_all<T: Item>(sender: &mut impl Push<T>, items: &[T], wait: &mut Wait) {
    let mut done = 0;
    while done < items.len() {
        let sent = sender.push(&items[done..]);
        done += sent;
        if sent == 0 {
            wait.wait();
        }
    }
    wait.over();
}

#[inline(always)]
fn pop_some<T: Item>(receiver: &mut impl Pop<T>, items: &mut [T], next: &mut u64) -> usize {
    let count = receiver.pop(items);
    match &items[..count] {
        [one] => check(std::slice::from_ref(one), next),
        some => check_all(some, next),
    }
    count
}

/// One thread: `burst` items in, as many out; an iteration is one item.
pub(crate) fn alone<T: Item>(
    (mut sender, mut receiver): (impl Push<T> + 'static, impl Pop<T> + 'static),
    batch: usize,
    burst: usize,
) -> Side {
    let (mut source, mut target) = (batch_of::<T>(), batch_of::<T>());
    let (mut sent, mut received) = (0, 0);
    let mut wait = Wait::steady(1);
    side(move |items| {
        let end = received + items;
        while received < end {
            let goal = sent + burst as u64;
            while sent < goal {
                push_whole(&mut sender, &mut source.0[..batch], &mut sent, &mut wait);
            }
            while received < sent {
                pop_some(&mut receiver, &mut target.0[..batch], &mut received);
            }
        }
    })
}

/// Keeps what one thread changes off the lines of another: without it the allocator decides whether the two
/// ends of a queue are neighbours, and with that the figures.
#[repr(align(128))]
struct Apart<T>(T);

/// The number of the half to do, or [`IDLE`] or [`END`]; and for how many iterations.
type Command = Arc<Apart<[AtomicU64; 2]>>;
const IDLE: u64 = 0;
const END: u64 = u64::MAX;

/// A second thread, on another core, that does one side's half of the work on command.
pub(crate) struct Partner {
    command: Command,
    halves: Vec<Half>,
}
type Half = Box<dyn FnMut(u64) + Send>;

/// What commands one half.
struct Order {
    command: Command,
    number: u64,
}
impl Order {
    fn start(&self, count: u64) {
        // The last command must be over: its half runs on the other thread.
        self.finish();
        self.command.0[1].store(count, Ordering::Relaxed);
        self.command.0[0].store(self.number, Ordering::Release);
    }

    fn finish(&self) {
        wait_until(|| self.command.0[0].load(Ordering::Acquire) == IDLE);
    }
}

/// Spins for some microseconds, then leaves the core to whoever is awaited.
fn wait_until(mut done: impl FnMut() -> bool) {
    let mut wait = Wait::growing();
    while !done() {
        wait.wait();
    }
}

impl Partner {
    pub(crate) fn new() -> Partner {
        Partner { command: Arc::new(Apart([AtomicU64::new(IDLE), AtomicU64::new(0)])), halves: Vec::new() }
    }

    /// Adds a half; it is built on its own lines.
    fn add(&mut self, half: impl FnMut(u64) + Send + 'static) -> Order {
        self.halves.push(side(half));
        Order { command: self.command.clone(), number: self.halves.len() as u64 }
    }

    /// Starts the thread; it ends when the guard is dropped.
    pub(crate) fn start(mut self, core: usize) -> Guard {
        let command = self.command.clone();
        let thread = thread::spawn(move || {
            // An unpinned partner makes figures worse, not wrong.
            let _ = pin(core);
            loop {
                let mut number = IDLE;
                wait_until(|| {
                    number = self.command.0[0].load(Ordering::Acquire);
                    number != IDLE
                });
                if number == END {
                    break;
                }
                let count = self.command.0[1].load(Ordering::Relaxed);
                if let Some(half) = self.halves.get_mut(number as usize - 1) {
                    half(count);
                }
                self.command.0[0].store(IDLE, Ordering::Release);
            }
        });
        Guard { command, thread: Some(thread) }
    }
}

/// A closure whose state shares no line with another's.
fn side<F: FnMut(u64) + Send + 'static>(work: F) -> Box<dyn FnMut(u64) + Send> {
    let mut work = Apart(work);
    Box::new(move |count| {
        // The whole of it is captured, with its alignment.
        let work = &mut work;
        (work.0)(count);
    })
}

/// Ends the partner.
pub(crate) struct Guard {
    command: Command,
    thread: Option<thread::JoinHandle<()>>,
}
impl Drop for Guard {
    fn drop(&mut self) {
        wait_until(|| self.command.0[0].load(Ordering::Acquire) == IDLE);
        self.command.0[0].store(END, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The partner sends, we receive; an iteration is one item.
pub(crate) fn stream<T: Item>(
    partner: &mut Partner,
    (mut sender, mut receiver): (impl Push<T> + 'static, impl Pop<T> + 'static),
    batch: usize,
    pauses: u32,
) -> Side {
    let whole = batch as u64;
    let mut source = batch_of::<T>();
    let (mut sent, mut their_wait) = (0, Wait::steady(pauses));
    let send = partner.add(move |items: u64| {
        for _ in 0..items.div_ceil(whole) {
            push_whole(&mut sender, &mut source.0[..batch], &mut sent, &mut their_wait);
        }
    });
    let mut target = batch_of::<T>();
    let (mut received, mut wait) = (0, Wait::steady(pauses));
    side(move |items| {
        let end = received + items.div_ceil(whole) * whole;
        send.start(items);
        while received < end {
            if pop_some(&mut receiver, &mut target.0[..batch], &mut received) == 0 {
                wait.wait();
            }
        }
    })
}

/// One item to the partner and back over two queues; an iteration is one round trip.
pub(crate) fn round_trip<T: Item>(
    partner: &mut Partner,
    (mut there, mut arrival): (impl Push<T> + 'static, impl Pop<T> + 'static),
    (mut answer, mut back): (impl Push<T> + 'static, impl Pop<T> + 'static),
) -> Side {
    let (mut theirs, mut their_wait) = (Apart([T::default()]), Wait::steady(1));
    let echo = partner.add(move |trips: u64| {
        for _ in 0..trips {
            while arrival.pop(&mut theirs.0) == 0 {
                their_wait.wait();
            }
            while answer.push(&theirs.0) == 0 {
                their_wait.wait();
            }
        }
    });
    let (mut source, mut target) = (Apart([T::default()]), Apart([T::default()]));
    let (mut sent, mut received, mut wait) = (0, 0, Wait::steady(1));
    side(move |trips| {
        echo.start(trips);
        for _ in 0..trips {
            push_whole(&mut there, &mut source.0, &mut sent, &mut wait);
            while pop_some(&mut back, &mut target.0, &mut received) == 0 {
                wait.wait();
            }
        }
    })
}

/// Items that a thread of an [`exchange`] sends and receives between two meetings.
const ROUND: u64 = 128;

/// Where two threads wait for each other; each tells on its own line how often it came.
struct Meeting([Apart<AtomicU64>; 2]);
impl Meeting {
    #[inline(always)]
    fn attend(&self, [me, other]: [usize; 2]) {
        let times = self.0[me].0.load(Ordering::Relaxed) + 1;
        self.0[me].0.store(times, Ordering::Release);
        let mut wait = Wait::steady(1);
        while self.0[other].0.load(Ordering::Acquire) < times {
            wait.wait();
        }
    }
}

/// Two threads, each of which sends an item and receives one; an iteration is one item of either.
///
/// They meet before each [`ROUND`]. Left alone, one of them would at some time work by itself while the other waits for its
/// core or its lines, or both in step, and stay in that for the whole case: a lot drawn once for each side. Here it is
/// drawn anew for some hundred rounds in each batch, and both are at work in all of them.
pub(crate) fn exchange<T: Item>(
    partner: &mut Partner,
    mut theirs: impl Push<T> + Pop<T> + 'static,
    mut ours: impl Push<T> + Pop<T> + 'static,
    pauses: u32,
) -> Side {
    fn both<T: Item>(
        queue: &mut (impl Push<T> + Pop<T>),
        items: u64,
        pauses: u32,
        meeting: &Meeting,
        seats: [usize; 2],
    ) {
        let (mut target, mut wait) = ([T::default()], Wait::steady(pauses));
        for n in 0..items {
            if n % ROUND == 0 {
                meeting.attend(seats);
            }
            while queue.push(&[T::of(n)]) == 0 {
                wait.wait();
            }
            while queue.pop(&mut target) == 0 {
                wait.wait();
            }
            black_box(target[0].number());
        }
    }
    let meeting = Arc::new(Meeting([Apart(AtomicU64::new(0)), Apart(AtomicU64::new(0))]));
    let here = Arc::clone(&meeting);
    let theirs = partner.add(move |items: u64| both(&mut theirs, items, pauses, &meeting, [1, 0]));
    side(move |items| {
        let half = items.div_ceil(2);
        theirs.start(half);
        both(&mut ours, half, pauses, &here, [0, 1]);
        // Whoever lost every race has his half still before him, and it belongs to this side's time.
        theirs.finish();
    })
}

/// So many threads that send, and the caller with the other partners receives; an iteration is one item.
///
/// There are more threads than cores, so all of them give their core away when waiting takes long.
pub(crate) fn crowd<T: Item>(
    partners: &mut [Partner],
    queue: impl Push<T> + Pop<T> + Copy + 'static,
    senders: usize,
    batch: usize,
) -> Side {
    let receivers = partners.len() + 1 - senders;
    // The first partners are on other cores than the caller: if there are several of a kind, they meet.
    let (receiving, sending) = partners.split_at_mut(receivers - 1);
    let mut orders = Vec::new();
    for partner in receiving {
        orders.push((partner.add(receiver::<T>(queue, senders, batch)), senders));
    }
    for (n, partner) in sending.iter_mut().enumerate() {
        orders.push((partner.add(sender::<T>(queue, senders, n, batch)), receivers));
    }
    let mut receive = receiver::<T>(queue, senders, batch);
    side(move |items| {
        // Everyone has the same share of his kind, and all shares are whole batches.
        let share = items.div_ceil((senders * receivers * batch) as u64) * batch as u64;
        for (order, shares) in &orders {
            order.start(share * *shares as u64);
        }
        receive(share * senders as u64);
        orders.iter().for_each(|(order, _)| order.finish());
    })
}

/// Sends so many items, whole batches; from each the receivers can tell who sent it, and how many before.
fn sender<T: Item>(mut queue: impl Push<T> + 'static, senders: usize, n: usize, batch: usize) -> impl FnMut(u64) {
    let (mut items, mut next, mut wait) = (batch_of::<T>(), n as u64, Wait::growing());
    move |count| {
        for _ in 0..count / batch as u64 {
            let items = &mut items.0[..batch];
            for item in items.iter_mut() {
                next += senders as u64;
                *item = T::of(next);
            }
            push_all(&mut queue, items, &mut wait);
        }
    }
}

/// Receives so many items, and checks that those of each sender are in order.
fn receiver<T: Item>(mut queue: impl Pop<T> + 'static, senders: usize, batch: usize) -> impl FnMut(u64) {
    let (mut items, mut seen, mut wait) = (batch_of::<T>(), [0; MOST], Wait::growing());
    move |count| {
        let mut left = count;
        while left > 0 {
            let most = left.min(batch as u64) as usize;
            let got = queue.pop(&mut items.0[..most]);
            if got == 0 {
                wait.wait();
                continue;
            }
            wait.over();
            left -= got as u64;
            for item in &items.0[..got] {
                let number = item.number();
                let last = &mut seen[(number % senders as u64) as usize];
                assert!(*last < number, "out of order");
                *last = number;
            }
        }
    }
}
