//! Messages that nobody copies.
//!
//! They are received as memory of a pool, handed over, or written and read where they lie.

use std::hint::black_box;
use std::sync::Arc;

use umbra::channel::{Attributes, Channel, SendOptions, Timeout, WaitMode, Writing};
use umbra::pool::{self, Pool};
use umbra_tests::bench::{Plan, Samples, repeat};

use crate::{END, channel, ends, with_partner};

/// Bytes that are written at once where a message is filled.
const STEP: [u8; 4096] = [7; 4096];

/// A channel whose processes know a pool.
fn pooled() -> (Arc<Pool>, Channel) {
    let attributes = pool::Attributes { bytes: 256 << 20, ..pool::Attributes::default() };
    let pool = Arc::new(Pool::create(None, &attributes).expect("there is memory"));
    let attributes = Attributes { capacity: 100, block: 1024, ..Attributes::default() };
    let channel = Channel::create_with(&attributes, [pool.clone()]).expect("there is memory");
    (pool, channel)
}

/// Nanoseconds of a message on one thread that is copied into the channel, and out of it into a block which the receive
/// takes for it and which is freed.
pub(crate) fn received_as_memory(plan: &Plan, len: usize) -> Samples {
    let (_pool, channel) = pooled();
    let (sender, receiver) = ends(&channel, WaitMode::Spin);
    let source = vec![7; len];
    repeat(plan, |n| {
        for _ in 0..n {
            sender.send(black_box(&source), 1, Timeout::Now).expect("there is room");
            black_box(receiver.receive_memory(Timeout::Now).expect("it was sent")).free().expect("it is ours");
        }
    })
}

/// Nanoseconds of a block on one thread that is taken, handed over, received and freed.
pub(crate) fn handed_over(plan: &Plan, len: usize) -> Samples {
    let (pool, channel) = pooled();
    let (sender, receiver) = ends(&channel, WaitMode::Spin);
    repeat(plan, |n| {
        for _ in 0..n {
            let memory = pool.alloc(black_box(len) as u64, 0).expect("there is room");
            sender.send_memory(memory, 1, Timeout::Now).expect("there is room");
            black_box(receiver.receive_memory(Timeout::Now).expect("it was sent")).free().expect("it is ours");
        }
    })
}

fn fill(message: &Writing<'_, '_>) {
    let bytes = message.bytes();
    for at in (0..bytes.len()).step_by(STEP.len()) {
        let step = STEP.len().min(bytes.len() - at);
        bytes.write(at, &STEP[..step]).expect("it is inside");
    }
}

/// Nanoseconds of a message on one thread that is begun and looked at where it lies.
pub(crate) fn in_place(plan: &Plan, len: usize) -> Samples {
    let channel = channel(4, u32::try_from(len).expect("a small block"));
    let (sender, receiver) = ends(&channel, WaitMode::Spin);
    repeat(plan, |n| {
        for _ in 0..n {
            sender
                .write(black_box(len), Timeout::Now)
                .expect("there is room")
                .send(1, Timeout::Now)
                .expect("there is room");
            let mut first = [0];
            let message = receiver.take(Timeout::Now).expect("it was sent");
            message.bytes().read(0, &mut first).expect("it is inside");
            black_box(first);
        }
    })
}

/// Nanoseconds a message of a stream that is written and read where it lies; of what was not filled nothing is written.
pub(crate) fn one_way(core: usize, plan: &Plan, len: usize, is_filled: bool) -> Samples {
    let channels = [channel(100, u32::try_from(len).expect("a small block"))];
    let look = |channels: &[Channel]| {
        let (_, receiver) = ends(&channels[0], WaitMode::Spin);
        let (mut first, mut hints) = ([0], 0);
        while hints != END {
            let message = receiver.take(Timeout::Never).expect("the other side lives");
            message.bytes().read(0, &mut first).expect("it is inside");
            black_box(first);
            hints = message.message().hints;
        }
    };
    with_partner(core, &channels, look, || {
        let options = SendOptions { mode: WaitMode::Spin, ..SendOptions::default() };
        let sender = channels[0].sender(options).expect("it has messages");
        let say = |hints| {
            let message = sender.write(len, Timeout::Never).expect("the other side lives");
            if is_filled {
                fill(&message);
            }
            message.send(hints, Timeout::Never).expect("the other side lives");
        };
        // The pages of the channel are brought first.
        (0..1000).for_each(|_| say(0));
        let samples = repeat(plan, |n| (0..n).for_each(|_| say(0)));
        say(END);
        samples
    })
}
