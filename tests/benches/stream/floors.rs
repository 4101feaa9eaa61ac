//! The same by what the system has, or the least that it takes.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;

use umbra_tests::bench::{Plan, Samples, pin, repeat};

use crate::SMALL;

/// A peer: what it does with so many messages or bytes, and the ratio to be reached.
#[derive(Clone, Copy)]
pub(crate) struct Floor {
    pub(crate) name: &'static str,
    pub(crate) measure: fn(usize, &Plan, usize) -> Samples,
    pub(crate) len: usize,
    pub(crate) bar: f64,
}

/// A connection to a Unix socket for each conversation.
pub(crate) const fn socket(messages: usize) -> Floor {
    Floor { name: "connection to a Unix socket", measure: connections, len: messages, bar: 2.0 }
}

/// A pipe with the usual room.
pub(crate) const fn pipe(len: usize) -> Floor {
    Floor { name: "pipe of the system", measure: piped, len, bar: 1.0 }
}

/// One copy of the bytes by one thread.
pub(crate) const fn copy(len: usize) -> Floor {
    Floor { name: "one copy of the bytes", measure: copied, len, bar: 0.6 }
}

/// A round trip with one sender and one receiver on each way.
pub(crate) const PROMPT: Floor = Floor { name: "the goal", measure: goal, len: 550, bar: 0.8 };
/// Two million messages a second.
pub(crate) const GOAL: Floor = Floor { name: "the goal", measure: goal, len: 500, bar: 0.8 };

fn goal(_: usize, _: &Plan, nanoseconds: usize) -> Samples {
    Samples::new(vec![nanoseconds as f64]).expect("one reading")
}

fn connections(core: usize, plan: &Plan, messages: usize) -> Samples {
    let name = format!("umbra-bench-stream-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).expect("a short name");
    let listener = UnixListener::bind_addr(&address).expect("nobody else has it");
    let talk = |messages: usize, byte: u8| {
        let mut stream = UnixStream::connect_addr(&address).expect("the other side lives");
        for _ in 0..messages {
            stream.write_all(&[byte; SMALL]).expect("the other side lives");
        }
    };
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pin(core);
            let (mut pad, mut is_over) = ([0; SMALL], false);
            while !is_over {
                let (mut stream, _) = listener.accept().expect("the other side lives");
                while stream.read(&mut pad).expect("the other side lives") > 0 {
                    is_over = pad[0] == 1;
                }
            }
        });
        let samples = repeat(plan, |n| (0..n).for_each(|_| talk(messages, 0)));
        talk(1, 1);
        samples
    })
}

fn piped(core: usize, plan: &Plan, len: usize) -> Samples {
    let (mut from, mut to) = std::io::pipe().expect("descriptors are free");
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pin(core);
            let mut pad = vec![0; len];
            while from.read(&mut pad).expect("the other side lives") > 0 {}
        });
        let bytes = vec![7; len];
        let samples = repeat(plan, |n| (0..n).for_each(|_| to.write_all(&bytes).expect("the other side lives")));
        drop(to);
        samples
    })
}

fn copied(_: usize, plan: &Plan, len: usize) -> Samples {
    let (from, mut to) = (vec![7_u8; len], vec![0_u8; len]);
    repeat(plan, |n| {
        for _ in 0..n {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
    })
}
