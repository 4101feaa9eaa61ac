//! Peeking while others send and receive.
//!
//! Not among the tests for ThreadSanitizer: who peeks copies bytes that others may be writing, and then looks whether the
//! message still waits; the copy is thrown away if not. The sanitizer knows no such copies.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod yielding;

use std::thread;

use umbra_core::cell::BytesMut;
use umbra_core::channel::{Header, Messages, Patience, Port, ReceiveError, Shape};
use umbra_core::time::Time;

use yielding::{Yield, content};

/// Messages that are sent.
const MESSAGES: u64 = if cfg!(miri) { 100 } else { 10_000 };

#[test]
fn what_is_peeked_is_whole_while_others_send_and_receive() {
    let shape = Shape { capacity: 2, spares: 1, block: 64 };
    let mut memory = vec![0_u64; shape.words().unwrap()];
    let messages = Messages::create(BytesMut::from_words(&mut memory), shape).unwrap();
    let patience = Patience { spins: 0, deadline: Time::NEVER };
    thread::scope(|scope| {
        scope.spawn(|| {
            let port = Port::new(messages, 0, Yield);
            for n in 0..MESSAGES {
                port.send(Header { hints: n, ..Header::default() }, &content(n), patience).unwrap();
            }
        });
        scope.spawn(|| {
            let port = Port::new(messages, 1, Yield);
            for n in 0..MESSAGES {
                assert_eq!(port.receive(&mut [0; 64], patience).unwrap().header.hints, n);
            }
            messages.queue().destroy();
        });
        let mut last = 0;
        let mut pad = [0; 64];
        loop {
            match messages.peek(&mut pad) {
                Ok(peeked) => {
                    assert!(peeked.header.hints >= last, "the first message never grows younger");
                    last = peeked.header.hints;
                    assert_eq!(pad[..peeked.len], content(last), "torn");
                }
                Err(ReceiveError::Empty) => thread::yield_now(),
                Err(error) => break assert_eq!(error, ReceiveError::Destroyed),
            }
        }
    });
}
