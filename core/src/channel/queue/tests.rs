//! What senders know of how far receivers are.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use super::*;
use std::vec::Vec;

/// A channel for so many messages and one more, after so many have come and gone.
fn with_queue(capacity: u32, passed: u32, test: impl FnOnce(Queue<'_>)) {
    let shape = Shape { capacity, spares: 1, block: 0 };
    let words: Vec<_> = (0..shape.words().unwrap()).map(|_| AtomicU64::new(0)).collect();
    let queue = Queue::create(&words, shape).unwrap();
    for _ in 0..passed {
        send(&queue).unwrap();
        queue.release(queue.take(&queue.first().unwrap(), 2).unwrap());
    }
    test(queue);
}

fn send(queue: &Queue<'_>) -> Result<Position, SendError> {
    queue.publish(queue.claim(1)?)
}

#[test]
fn a_sender_looks_how_far_receivers_are_once_in_a_quarter_of_the_capacity() {
    for passed in 0..20 {
        with_queue(8, passed, |queue| {
            let looked = queue.taken_before.load(Ordering::Relaxed);
            // There are 16 cells, and the first position is in lap one.
            let last_look = 16 + u64::from(passed.saturating_sub(1) / 4 * 4);
            assert_eq!(looked, if passed == 0 { 0 } else { last_look }, "{passed}");
            assert_eq!((0..20).take_while(|_| send(&queue).is_ok()).count(), 8, "{passed}");
            assert_eq!(send(&queue), Err(SendError::Full));
        });
    }
}

#[test]
fn what_is_said_wrongly_of_how_far_receivers_are_makes_no_room() {
    for (capacity, passed) in [(1, 0), (1, 3), (3, 2), (8, 5)] {
        for wrong in [0, 1, 1 << 20, u64::MAX / 2, u64::MAX] {
            with_queue(capacity, passed, |queue| {
                queue.taken_before.store(wrong, Ordering::Relaxed);
                assert_eq!((0..20).take_while(|_| send(&queue).is_ok()).count(), capacity as usize, "{wrong}");
            });
        }
    }
}
