//! Threads at one channel for a while; fit for ThreadSanitizer.
//!
//! Every wait is bounded by progress of another thread, and gives the core away.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod yielding;

use std::collections::HashSet;
use std::thread;

use umbra_core::cell::BytesMut;
use umbra_core::channel::{Header, Messages, Patience, Port, Shape};
use umbra_core::event::SPIN;
use umbra_core::time::Time;

use yielding::{Yield, content};

/// Messages of a sender.
const MESSAGES: u64 = if cfg!(miri) { 100 } else { 10_000 };
const SENDERS: u16 = 3;

#[test]
fn every_message_arrives_once_whole_and_in_the_order_of_its_sender() {
    for (capacity, spares) in [(1, 0), (1, 2), (8, 1), (64, 0)] {
        let shape = Shape { capacity, spares, block: 64 };
        let mut memory = vec![0_u64; shape.words().unwrap()];
        let messages = Messages::create(BytesMut::from_words(&mut memory), shape).unwrap();
        let all = u64::from(SENDERS) * MESSAGES;
        let patience = |n: u64| Patience { spins: if n.is_multiple_of(2) { 0 } else { SPIN }, deadline: Time::NEVER };
        let seen = thread::scope(|scope| {
            for by in 0..SENDERS {
                scope.spawn(move || {
                    let port = Port::new(messages, by, Yield);
                    for n in 0..MESSAGES {
                        let header = Header { hints: n, sender: u64::from(by), ..Header::default() };
                        port.send(header, &content(n), patience(n)).unwrap();
                    }
                });
            }
            let receivers = [100_u16, 101].map(|by| {
                scope.spawn(move || {
                    let port = Port::new(messages, by, Yield);
                    let (mut seen, mut last) = (vec![], [None; SENDERS as usize]);
                    for k in 0..all / 2 {
                        let (header, bytes) = if k % 3 == 0 {
                            let lent = port.take(patience(k)).unwrap();
                            let mut bytes = vec![0; lent.bytes().len()];
                            lent.copy_to(&mut bytes).unwrap();
                            (lent.received().header, bytes)
                        } else {
                            let mut pad = [0; 64];
                            let received = port.receive(&mut pad, patience(k)).unwrap();
                            (received.header, pad[..received.len].to_vec())
                        };
                        assert_eq!(bytes, content(header.hints), "torn");
                        let last = &mut last[header.sender as usize];
                        assert!(last.is_none_or(|last| last < header.hints), "out of order");
                        *last = Some(header.hints);
                        seen.push((header.sender, header.hints));
                    }
                    seen
                })
            });
            receivers.into_iter().flat_map(|r| r.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(seen.iter().collect::<HashSet<_>>().len() as u64, all, "each once");
        assert_eq!((messages.queue().len(), messages.queue().free_slots()), (0, (capacity + spares) as usize));
    }
}
