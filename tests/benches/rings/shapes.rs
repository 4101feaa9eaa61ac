//! How items flow: on one thread, through two, to and fro.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::thread;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_tests::bench::pin;

use crate::ends::{Item, Pop, Push};

/// What one side of a comparison does: so many iterations.
pub(crate) type Side = Box<dyn FnMut(u64)>;

/// Waits after a failed attempt, the same for every queue: it decides how often the cores tear at one line.
struct Wait {
    tries: u32,
    pauses: u32,
}
impl Wait {
    #[inline(always)]
    fn wait(&mut self) {
        self.tries = self.tries.wrapping_add(1);
        if self.tries & 0xfff == 0 {
            // The partner may have lost its core.
            thread::yield_now();
        }
        for _ in 0..self.pauses {
            spin_loop();
        }
    }
}

#[inline(always)]
fn push_whole<T: Item>(sender: &mut impl Push<T>, items: &mut [T], next: &mut u64, wait: &mut Wait) {
    for item in items.iter_mut() {
        *item = T::of(*next);
        *next += 1;
    }
    let items = black_box(items);
    let mut done = 0;
    while done < items.len() {
        let sent = sender.push(&items[done..]);
        done += sent;
        if sent == 0 {
            wait.wait();
        }
    }
}

#[inline(always)]
fn pop_some<T: Item>(receiver: &mut impl Pop<T>, items: &mut [T], next: &mut u64) -> usize {
    let count = receiver.pop(items);
    for item in &items[..count] {
        assert_eq!(item.number(), T::of(*next).number(), "out of order");
        *next += 1;
    }
    count
}

/// One thread: `burst` items in, as many out; an iteration is one item.
pub(crate) fn alone<T: Item>(
    (mut sender, mut receiver): (impl Push<T> + 'static, impl Pop<T> + 'static),
    batch: usize,
    burst: usize,
) -> Side {
    let (mut source, mut target) = (vec![T::default(); batch], vec![T::default(); batch]);
    let (mut sent, mut received) = (0, 0);
    let mut wait = Wait { tries: 0, pauses: 1 };
    Box::new(move |items| {
        let end = received + items;
        while received < end {
            let goal = sent + burst as u64;
            while sent < goal {
                push_whole(&mut sender, &mut source, &mut sent, &mut wait);
            }
            while received < sent {
                pop_some(&mut receiver, &mut target, &mut received);
            }
        }
    })
}

/// A second thread, on another core, that does one side's half of the work on command.
pub(crate) struct Partner {
    command: Arc<[AtomicU64; 2]>,
    halves: Vec<Half>,
}
type Half = Box<dyn FnMut(u64) + Send>;

impl Partner {
    pub(crate) fn new() -> Partner {
        Partner { command: Arc::new([AtomicU64::new(0), AtomicU64::new(0)]), halves: Vec::new() }
    }

    /// Adds a half, and gives what commands it.
    fn add(&mut self, half: impl FnMut(u64) + Send + 'static) -> impl FnMut(u64) + 'static {
        self.halves.push(Box::new(half));
        let (command, number) = (self.command.clone(), self.halves.len() as u64);
        move |count| {
            // The last command must be over: its half runs on the other thread.
            while command[0].load(Ordering::Acquire) != 0 {
                spin_loop();
            }
            command[1].store(count, Ordering::Relaxed);
            command[0].store(number, Ordering::Release);
        }
    }

    /// Starts the thread; it ends when the guard is dropped.
    pub(crate) fn start(mut self, core: usize) -> Guard {
        let command = self.command.clone();
        let thread = thread::spawn(move || {
            // An unpinned partner makes figures worse, not wrong.
            let _ = pin(core);
            loop {
                match self.command[0].load(Ordering::Acquire) {
                    0 => spin_loop(),
                    u64::MAX => break,
                    number => {
                        let count = self.command[1].load(Ordering::Relaxed);
                        if let Some(half) = self.halves.get_mut(number as usize - 1) {
                            half(count);
                        }
                        self.command[0].store(0, Ordering::Release);
                    }
                }
            }
        });
        Guard { command, thread: Some(thread) }
    }
}

/// Ends the partner.
pub(crate) struct Guard {
    command: Arc<[AtomicU64; 2]>,
    thread: Option<thread::JoinHandle<()>>,
}
impl Drop for Guard {
    fn drop(&mut self) {
        while self.command[0].load(Ordering::Acquire) != 0 {
            spin_loop();
        }
        self.command[0].store(u64::MAX, Ordering::Release);
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
    let mut source = vec![T::default(); batch];
    let (mut sent, mut their_wait) = (0, Wait { tries: 0, pauses });
    let mut send = partner.add(move |items: u64| {
        for _ in 0..items.div_ceil(whole) {
            push_whole(&mut sender, &mut source, &mut sent, &mut their_wait);
        }
    });
    let mut target = vec![T::default(); batch];
    let (mut received, mut wait) = (0, Wait { tries: 0, pauses });
    Box::new(move |items| {
        let end = received + items.div_ceil(whole) * whole;
        send(items);
        while received < end {
            if pop_some(&mut receiver, &mut target, &mut received) == 0 {
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
    let (mut theirs, mut their_wait) = ([T::default()], Wait { tries: 0, pauses: 1 });
    let mut echo = partner.add(move |trips: u64| {
        for _ in 0..trips {
            while arrival.pop(&mut theirs) == 0 {
                their_wait.wait();
            }
            while answer.push(&theirs) == 0 {
                their_wait.wait();
            }
        }
    });
    let (mut source, mut target) = ([T::default()], [T::default()]);
    let (mut sent, mut received, mut wait) = (0, 0, Wait { tries: 0, pauses: 1 });
    Box::new(move |trips| {
        echo(trips);
        for _ in 0..trips {
            push_whole(&mut there, &mut source, &mut sent, &mut wait);
            while pop_some(&mut back, &mut target, &mut received) == 0 {
                wait.wait();
            }
        }
    })
}

/// Two threads, each of which sends an item and receives one; an iteration is one item of either.
pub(crate) fn crowd<T: Item>(
    partner: &mut Partner,
    mut theirs: impl Push<T> + Pop<T> + 'static,
    mut ours: impl Push<T> + Pop<T> + 'static,
    pauses: u32,
) -> Side {
    fn both<T: Item>(queue: &mut (impl Push<T> + Pop<T>), items: u64, pauses: u32) {
        let (mut target, mut wait) = ([T::default()], Wait { tries: 0, pauses });
        for n in 0..items {
            while queue.push(&[T::of(n)]) == 0 {
                wait.wait();
            }
            while queue.pop(&mut target) == 0 {
                wait.wait();
            }
            black_box(target[0].number());
        }
    }
    let mut start = partner.add(move |items: u64| both(&mut theirs, items, pauses));
    Box::new(move |items| {
        let half = items.div_ceil(2);
        start(half);
        both(&mut ours, half, pauses);
    })
}
