//! Every queue against `VecDeque`, one operation after the other.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::VecDeque;

use proptest::prelude::*;
use umbra_core::cell::BytesMut;
use umbra_core::error::Full;
use umbra_core::ring::line::{self, Line};
use umbra_core::ring::mailbox::{self, Mailbox};
use umbra_core::ring::{Place, PushError, mpmc, spsc};
use umbra_core::shared_slots::Owner;

#[derive(Clone, Debug)]
enum Step {
    Push,
    PushAll(usize),
    Pop,
    PopAll(usize),
    /// Another process takes over an end.
    Reattach(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Push),
        2 => (0usize..12).prop_map(Step::PushAll),
        3 => Just(Step::Pop),
        2 => (0usize..12).prop_map(Step::PopAll),
        1 => any::<bool>().prop_map(Step::Reattach),
    ];
    prop::collection::vec(step, 1..400)
}

/// The ends of one queue of `u64`.
trait Queue {
    fn push(&mut self, item: u64) -> bool;
    fn push_all(&mut self, items: &[u64]) -> usize;
    fn pop(&mut self) -> Option<u64>;
    fn pop_all(&mut self, items: &mut [u64]) -> usize;
    fn reattach(&mut self, _sender: bool) {}
}

fn follows(mut queue: impl Queue, capacity: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model = VecDeque::new();
    let mut next = 1_u64;
    for step in steps {
        match step {
            Step::Push => {
                let room = model.len() < capacity;
                prop_assert_eq!(queue.push(next), room);
                if room {
                    model.push_back(next);
                }
                next += 1;
            }
            Step::PushAll(count) => {
                let items: Vec<u64> = (next..next + count as u64).collect();
                let fit = count.min(capacity - model.len());
                prop_assert_eq!(queue.push_all(&items), fit);
                model.extend(&items[..fit]);
                next += count as u64;
            }
            Step::Pop => prop_assert_eq!(queue.pop(), model.pop_front()),
            Step::PopAll(count) => {
                let mut items = vec![0; count];
                let there = count.min(model.len());
                prop_assert_eq!(queue.pop_all(&mut items), there);
                prop_assert_eq!(&items[..there], &model.drain(..there).collect::<Vec<_>>()[..]);
                prop_assert!(items[there..].iter().all(|&i| i == 0), "only what was received is written");
            }
            Step::Reattach(sender) => queue.reattach(sender),
        }
    }
    Ok(())
}

macro_rules! queue {
    ($sender:ty, $receiver:ty) => {
        impl Queue for ($sender, $receiver) {
            fn push(&mut self, item: u64) -> bool {
                match self.0.push(item) {
                    Ok(()) => true,
                    Err(Full(back)) => {
                        assert_eq!(back, item);
                        false
                    }
                }
            }
            fn push_all(&mut self, items: &[u64]) -> usize {
                self.0.push_all(items)
            }
            fn pop(&mut self) -> Option<u64> {
                self.1.pop()
            }
            fn pop_all(&mut self, items: &mut [u64]) -> usize {
                self.1.pop_all(items)
            }
        }
    };
}
queue!(spsc::Sender<'_, u64>, spsc::Receiver<'_, u64>);
queue!(mpmc::Sender<'_, u64>, mpmc::Receiver<'_, u64>);
queue!(mpmc::Sender<'_, u64>, mpmc::SoleReceiver<'_, u64>);
queue!(mpmc::SoleSender<'_, u64>, mpmc::Receiver<'_, u64>);

fn line_of(n: u64) -> Line {
    // Byte 5 is not ours, every other one carries something.
    let first = n & 0xff_ffff_ffff | (n & 0xffff) << 48;
    Line::new([first, n, !n, n << 1, n ^ 5, n << 7, n << 9, n.rotate_left(32)]).unwrap()
}
fn number_of(line: Line) -> u64 {
    let n = line.words()[1];
    assert_eq!(line, line_of(n), "a line is whole");
    n
}

struct LineQueue<'a>(line::Ring<'a>, line::Sender<'a>, line::Receiver<'a>);
impl Queue for LineQueue<'_> {
    fn push(&mut self, item: u64) -> bool {
        match self.1.push(line_of(item)) {
            Ok(()) => true,
            Err(PushError::Full(back)) => {
                assert_eq!(back, line_of(item));
                false
            }
            Err(other) => panic!("{other}"),
        }
    }
    fn push_all(&mut self, items: &[u64]) -> usize {
        self.1.push_all(&items.iter().map(|&i| line_of(i)).collect::<Vec<_>>()).unwrap()
    }
    fn pop(&mut self) -> Option<u64> {
        self.2.pop().map(number_of)
    }
    fn pop_all(&mut self, items: &mut [u64]) -> usize {
        let mut lines = vec![Line::default(); items.len()];
        let count = self.2.pop_all(&mut lines);
        items.iter_mut().zip(&lines[..count]).for_each(|(to, &line)| *to = number_of(line));
        count
    }
    fn reattach(&mut self, sender: bool) {
        if sender {
            self.1 = self.0.sender().unwrap();
        } else {
            self.2 = self.0.receiver().unwrap();
        }
    }
}

struct MailboxQueue<'a>(Mailbox<'a>, u8);
impl Queue for MailboxQueue<'_> {
    fn push(&mut self, item: u64) -> bool {
        self.1 = (self.1 + 1) % Owner::COUNT;
        match self.0.push(Owner::new(self.1).unwrap(), line_of(item)) {
            Ok(()) => true,
            Err(PushError::Full(back)) => {
                assert_eq!(back, line_of(item));
                false
            }
            Err(other) => panic!("{other}"),
        }
    }
    fn push_all(&mut self, items: &[u64]) -> usize {
        items.iter().take_while(|&&i| self.push(i)).count()
    }
    fn pop(&mut self) -> Option<u64> {
        self.0.pop(Owner::new(self.1).unwrap()).unwrap().map(number_of)
    }
    fn pop_all(&mut self, items: &mut [u64]) -> usize {
        let mut count = 0;
        while count < items.len() {
            let Some(item) = self.pop() else { break };
            items[count] = item;
            count += 1;
        }
        count
    }
    fn reattach(&mut self, _sender: bool) {
        // Whoever sent what is in the box: it stays in the box when its sender dies.
        for number in 0..Owner::COUNT {
            assert_eq!(self.0.reclaim(Owner::new(number).unwrap()), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn spsc_is_a_queue(log in 0u32..6, steps in steps()) {
        let capacity = 1 << log;
        let mut ring = spsc::Ring::new((0..capacity).map(|_| Place::new()).collect::<Vec<_>>()).unwrap();
        follows(ring.split(), capacity, steps)?;
    }

    #[test]
    fn mpmc_is_a_queue(log in 1u32..6, ends in 0..3, steps in steps()) {
        let capacity = 1 << log;
        let mut ring = mpmc::Ring::new((0..capacity).map(|_| mpmc::Cell::new()).collect::<Vec<_>>()).unwrap();
        match ends {
            0 => follows(ring.split(), capacity, steps)?,
            1 => follows(ring.many_to_one(), capacity, steps)?,
            _ => follows(ring.one_to_many(), capacity, steps)?,
        }
    }

    #[test]
    fn line_is_a_queue_that_successors_take_over(log in 0u32..6, steps in steps()) {
        let capacity = 1 << log;
        let mut memory = vec![0_u64; line::words_for(capacity).unwrap()];
        let count = memory.len();
        let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
        let ring = line::Ring::create(words, capacity).unwrap();
        follows(LineQueue(ring, ring.sender().unwrap(), ring.receiver().unwrap()), capacity, steps)?;
    }

    #[test]
    fn mailbox_is_a_queue_that_survives_its_senders(log in 0u32..6, steps in steps()) {
        let capacity = 1 << log;
        let mut memory = vec![0_u64; mailbox::words_for(capacity).unwrap()];
        let count = memory.len();
        let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
        follows(MailboxQueue(Mailbox::create(words, capacity).unwrap(), 0), capacity, steps)?;
    }

}

proptest! {
    // An operation on a damaged mailbox may look at 65,536 cells before it gives up.
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever a peer writes into the memory, and whenever: errors, wrong messages, but nothing worse.
    #[test]
    fn damaged_memory_gives_errors_and_no_more(
        log in 0u32..5,
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0u64..70]), 1..40),
        whole in any::<bool>(),
    ) {
        let capacity = 1 << log;
        let mut memory = vec![0_u64; mailbox::words_for(capacity).unwrap()];
        let count = memory.len();
        let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
        let owner = Owner::new(3).unwrap();
        let mailbox = Mailbox::create(words, capacity).unwrap();
        for (at, value) in &damage {
            // Damage of the whole memory mostly hits messages; half of the cases aim at the words that count.
            let most = if whole { count } else { count - capacity * 8 };
            words[at.index(most)].store(*value, umbra_core::atomic::Ordering::Relaxed);
            let (_, _) = (mailbox.push(owner, Line::default()), mailbox.pop(owner));
            if let Ok(again) = Mailbox::attach(words) {
                let _ = again.reclaim(owner);
            }
        }

        let ring = line::Ring::create(words, capacity).unwrap();
        let (mut sender, mut receiver) = (ring.sender().unwrap(), ring.receiver().unwrap());
        for (at, value) in &damage {
            words[at.index(48)].store(*value, umbra_core::atomic::Ordering::Relaxed);
            let _ = (sender.push(Line::default()), receiver.pop(), sender.push_all(&[Line::default(); 7]));
            if let Ok(again) = line::Ring::attach(words) {
                let _ = again.sender().map(|mut s| s.push(Line::default()));
                let _ = again.receiver().map(|mut r| r.pop_all(&mut [Line::default(); 7]));
            }
        }
    }
}

#[test]
fn a_number_of_places_that_is_no_power_of_two_is_refused() {
    for len in [0, 3, 6, 1000] {
        assert!(spsc::Ring::new((0..len).map(|_| Place::<u8>::new()).collect::<Vec<_>>()).is_err());
        assert!(mpmc::Ring::new((0..len).map(|_| mpmc::Cell::<u8>::new()).collect::<Vec<_>>()).is_err());
        assert_eq!((line::words_for(len), mailbox::words_for(len)), (None, None));
    }
    assert!(mpmc::Ring::new([mpmc::Cell::<u8>::new()]).is_err());
    assert_eq!(line::words_for(1 << 62), None);
    assert_eq!(mailbox::words_for(1 << 21), None);
}

/// Storage that shows other places each time it is asked.
struct Fickle(Vec<Vec<Place<u64>>>);
impl AsMut<[Place<u64>]> for Fickle {
    fn as_mut(&mut self) -> &mut [Place<u64>] {
        self.0.rotate_left(1);
        &mut self.0[0]
    }
}

#[test]
fn storage_that_changes_its_mind_cannot_break_the_ring() {
    let places = [7, 4, 3, 0, 1].map(|n| (0..n).map(|_| Place::new()).collect());
    let mut ring = spsc::Ring::new(Fickle(places.into())).unwrap();
    for _ in 0..10 {
        let (mut sender, mut receiver) = ring.split();
        let sent = sender.push_all(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(sent, sender.capacity());
        assert_eq!(receiver.pop_all(&mut [0; 8]), sent);
        assert_eq!((receiver.pop(), sender.push(1).is_ok()), (None, sent > 0));
    }
}

#[test]
fn a_header_that_does_not_fit_the_memory_is_refused() {
    let mut memory = vec![0_u64; line::words_for(8).unwrap()];
    let count = memory.len();
    let words = BytesMut::from_words(&mut memory).words(0, count).unwrap();
    assert!(line::Ring::attach(words).is_err(), "not created yet");
    line::Ring::create(words, 8).unwrap();
    assert!(line::Ring::attach(&words[..count - 1]).is_err());
    assert!(line::Ring::attach(&words[..0]).is_err());
    assert!(Mailbox::attach(words).is_err(), "another kind");
    assert!(line::Ring::create(words, 16).is_err());
    assert!(Line::from_bytes(&[0, 0, 0, 0, 0, 1]).is_none());
    assert!(Line::from_bytes(&[0; 65]).is_none());
}
