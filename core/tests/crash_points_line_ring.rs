//! A process dies before every single operation on the words of a ring of lines.
//!
//! Its successor goes on at the same end, and may die as well, and so the next one. Whoever is at the other end gets all
//! lines that were sent, once and in order, and no other one.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_line_ring`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use deaths::{before_each, scripts, words};
use random::Random;
use umbra_core::atomic::{AtomicU64, Ordering, crash};
use umbra_core::ring::line::{Line, Receiver, Ring, Sender, words_for};

/// What happens before anybody dies; what does not fit, or is not there, does not happen.
#[derive(Clone, Copy, Debug)]
enum Before {
    Push(u64),
    Pop(u64),
}

#[derive(Debug)]
struct Script {
    capacity: usize,
    before: Vec<Before>,
    /// Lines that each process sends or receives that dies.
    count: u64,
    /// Whether it sends them at once.
    at_once: bool,
    /// Processes that die one after the other.
    processes: u64,
}

impl Script {
    fn new(random: &mut Random) -> Script {
        let capacity = 1 << random.below(4);
        let before = (0..random.below(30)).map(|_| {
            let count = 1 + random.below(5);
            if random.happens(50) { Before::Push(count) } else { Before::Pop(count) }
        });
        let before = before.collect();
        let (count, at_once, processes) = (1 + random.below(5), random.happens(50), 1 + random.below(3));
        Script { capacity, before, count, at_once, processes }
    }
}

fn line(number: u64) -> Line {
    Line::new([0, number, number ^ 7, number + 1, number * 3, number, number, number]).unwrap()
}

/// Sends lines that have the numbers of their positions.
fn push(sender: &mut Sender<'_>, count: u64, at_once: bool) {
    let lines: Vec<Line> = (sender.position()..).take(count as usize).map(line).collect();
    if at_once {
        sender.push_all(&lines).unwrap();
    } else {
        let _full = lines.into_iter().try_for_each(|line| sender.push(line));
    }
}

/// Receives lines that have the numbers of their positions; how many.
fn pop(receiver: &mut Receiver<'_>, count: u64) -> usize {
    let (first, mut lines) = (receiver.position(), vec![Line::default(); count as usize]);
    let came = receiver.pop_all(&mut lines);
    for (number, &come) in (first..).zip(&lines[..came]) {
        assert_eq!(come, line(number));
    }
    assert_eq!(receiver.position(), first + came as u64);
    came
}

/// How far a receiver would come now.
fn published(memory: &[AtomicU64]) -> u64 {
    let copy: Vec<AtomicU64> = memory.iter().map(|word| AtomicU64::new(word.load(Ordering::Relaxed))).collect();
    let mut receiver = Ring::attach(&copy).unwrap().receiver().unwrap();
    while pop(&mut receiver, 3) > 0 {}
    receiver.position()
}

/// All that was sent comes, and as many fit as before.
fn check(sender: &mut Sender<'_>, receiver: &mut Receiver<'_>, capacity: usize) {
    while sender.push(line(sender.position())).is_ok() {}
    assert_eq!(sender.position() - receiver.position(), capacity as u64);
    while pop(receiver, 3) > 0 {}
    assert_eq!(receiver.position(), sender.position());
}

/// Runs scripts in which `one` process dies after the other at one end.
fn one_after_the_other(
    mut one: impl for<'a> FnMut(&Script, u64, &mut Sender<'a>, &mut Receiver<'a>, &'a [AtomicU64]) -> bool,
) {
    scripts(10_000, |seed, random| {
        let script = Script::new(random);
        let memory = words(words_for(script.capacity).unwrap());
        before_each(seed, &script, |death| {
            let ring = Ring::create(&memory, script.capacity).unwrap();
            let (mut sender, mut receiver) = (ring.sender().unwrap(), ring.receiver().unwrap());
            for &step in &script.before {
                match step {
                    Before::Push(count) => push(&mut sender, count, true),
                    Before::Pop(count) => {
                        pop(&mut receiver, count);
                    }
                }
            }
            let mut is_over = true;
            for process in 0..script.processes {
                is_over &= one(&script, death + process, &mut sender, &mut receiver, &memory);
            }
            check(&mut sender, &mut receiver, script.capacity);
            is_over
        })
    });
}

#[test]
fn whoever_sends_after_dead_senders_goes_on_behind_what_they_sent() {
    one_after_the_other(|script, death, sender, receiver, memory| {
        let before = sender.position();
        let play = || push(sender, script.count, script.at_once);
        let is_over = crash::before(death, play).is_some();
        if death.is_multiple_of(2) {
            pop(receiver, 2);
        }
        *sender = Ring::attach(memory).unwrap().sender().unwrap();
        assert_eq!(sender.position(), published(memory));
        assert!((before..=before + script.count).contains(&sender.position()), "{before}, {}", sender.position());
        is_over
    });
}

#[test]
fn whoever_receives_after_dead_receivers_goes_on_behind_what_they_received() {
    one_after_the_other(|script, death, sender, receiver, memory| {
        let before = receiver.position();
        let is_over = crash::before(death, || pop(receiver, script.count)).is_some();
        *receiver = Ring::attach(memory).unwrap().receiver().unwrap();
        assert!((before..=before + script.count).contains(&receiver.position()), "{before}, {}", receiver.position());
        push(sender, 1, script.at_once);
        is_over
    });
}
