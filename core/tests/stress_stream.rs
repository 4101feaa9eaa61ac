//! Threads that talk through streams for a while; fit for ThreadSanitizer.
//!
//! Every wait is bounded by progress of another thread, and gives the core away.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod yielding;

use std::thread;

use umbra_core::cell::BytesMut;
use umbra_core::channel::Patience;
use umbra_core::event::SPIN;
use umbra_core::stream::{Class, End, Mode, ReadError, Shape, Streams};
use umbra_core::time::Time;

use yielding::{Yield, content};

/// Conversations of a sender.
const TALKS: u64 = if cfg!(miri) { 10 } else { 300 };
const SENDERS: u16 = 3;
const RECEIVERS: u16 = 2;

fn patience(n: u64) -> Patience {
    Patience { spins: if n.is_multiple_of(2) { 0 } else { SPIN }, deadline: Time::NEVER }
}

/// The bytes of a conversation, at least one: some fit into the ring, some do not.
fn bytes_of(sender: u16, n: u64) -> Vec<u8> {
    content(1 + (n * 3 + u64::from(sender)) % 60).repeat(1 + n as usize % 15)
}

fn talk(streams: Streams<'_>, by: u16, n: u64) {
    let Patience { spins, deadline } = patience(n);
    let claim = || streams.table().claim(by, Class::Stream, false);
    let begun = streams.table().manager().wait(&Yield, spins, deadline, claim).unwrap();
    let mut outlet = streams.outlet(begun, by).unwrap();
    assert!(outlet.deposit());
    streams.table().main().notify_after_swap(&Yield);
    let bytes = bytes_of(by, n);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let written = outlet.wait(&Yield, patience(n), |outlet| outlet.write(rest, n, false)).unwrap();
        outlet.tell(&Yield);
        rest = &rest[written..];
    }
    let outcome = outlet.end(End::Complete, |_| ());
    streams.tell(begun, outcome, &Yield);
}

fn listen(streams: Streams<'_>, by: u16, turn: u64) -> (u64, Vec<u8>) {
    let Patience { spins, deadline } = patience(turn);
    let met = streams.table().main().wait(&Yield, spins, deadline, || streams.table().meet(by)).unwrap();
    let mut inlet = streams.inlet(met, by).unwrap();
    let (mut all, mut number) = (vec![], None);
    loop {
        let mut pad = [0; 100];
        match inlet.wait(&Yield, patience(turn), |inlet| inlet.read(&mut pad)) {
            Ok(piece) => {
                inlet.tell(&Yield);
                all.extend(&pad[..piece.len]);
                assert!(number.is_none_or(|number| number == piece.arg), "one conversation");
                number = Some(piece.arg);
            }
            Err(ReadError::Ended) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let outcome = inlet.leave(|_| ());
    streams.tell(met, outcome, &Yield);
    (number.unwrap(), all)
}

#[test]
fn conversations_of_many_do_not_mix() {
    for streams in [1, 2, 4] {
        let shape = Shape { mode: Mode::Nominal, streams, ring: 256, messages: 0, block: 0 };
        let mut memory = vec![0_u64; shape.words().unwrap()];
        let streams = Streams::create(BytesMut::from_words(&mut memory), shape).unwrap();
        let heard = thread::scope(|scope| {
            for by in 0..SENDERS {
                scope.spawn(move || (0..TALKS).for_each(|n| talk(streams, by, n)));
            }
            let receivers = (0..RECEIVERS).map(|by| {
                scope.spawn(move || {
                    let all = u64::from(SENDERS) * TALKS / u64::from(RECEIVERS);
                    (0..all).map(|turn| listen(streams, 100 + by, turn)).collect::<Vec<_>>()
                })
            });
            let receivers: Vec<_> = receivers.collect();
            receivers.into_iter().flat_map(|receiver| receiver.join().unwrap()).collect::<Vec<_>>()
        });
        let mut expected: Vec<_> = (0..SENDERS).flat_map(|by| (0..TALKS).map(move |n| (n, bytes_of(by, n)))).collect();
        let mut heard = heard;
        expected.sort();
        heard.sort();
        assert!(heard == expected, "each conversation once, and whole");
        assert_eq!(streams.table().counts().idle as u32, shape.streams);
    }
}
