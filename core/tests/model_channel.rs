//! A channel against a plain queue, one operation after the other.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::VecDeque;

use proptest::prelude::*;
use umbra_core::cell::BytesMut;
use umbra_core::channel::{Header, Loan, Messages, ReceiveError, SendError, Shape, Taken};

#[derive(Clone, Debug)]
enum Step {
    Send(u16, usize),
    Loan(u16, usize),
    SendLoan(usize),
    GiveUp(usize),
    Receive(u16, usize),
    Take(u16),
    Release(usize),
    Peek(usize),
    /// The process is killed with all that it holds, and buried.
    Kill(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let (who, len) = (0u16..3, 0usize..70);
    prop_oneof![
        6 => (who.clone(), len.clone()).prop_map(|(by, len)| Step::Send(by, len)),
        2 => (who.clone(), len.clone()).prop_map(|(by, len)| Step::Loan(by, len)),
        2 => any::<usize>().prop_map(Step::SendLoan),
        1 => any::<usize>().prop_map(Step::GiveUp),
        5 => (who.clone(), len.clone()).prop_map(|(by, pad)| Step::Receive(by, pad)),
        2 => who.clone().prop_map(Step::Take),
        2 => any::<usize>().prop_map(Step::Release),
        2 => len.prop_map(Step::Peek),
        1 => who.prop_map(Step::Kill),
    ]
}

fn header(n: u64) -> Header {
    Header { hints: !n, sender: n << 7, handle: [n, n ^ 5], flags: n as u32 }
}

fn content(n: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (n * 31 + i * 7) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn messages_come_in_order_and_slots_come_back(
        (capacity, spares) in (1u32..70, 0u32..4),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let block = 64;
        let shape = Shape { capacity, spares, block };
        let mut memory = vec![0_u64; shape.words().unwrap()];
        let messages = Messages::create(BytesMut::from_words(&mut memory), shape).unwrap();
        prop_assert_eq!(messages.queue().shape(), shape);
        let slots = (capacity + spares) as usize;
        let mut waiting: VecDeque<(u64, usize)> = VecDeque::new();
        let mut loans: Vec<(u16, u64, usize, Loan<'_>)> = vec![];
        let mut taken: Vec<(u16, Taken<'_>)> = vec![];
        let mut next = 0;
        for step in steps {
            let in_use = waiting.len() + loans.len() + taken.len();
            let full = waiting.len() == capacity as usize || in_use == slots;
            match step {
                Step::Send(by, len) => {
                    next += 1;
                    let sent = messages.send(by, header(next), &content(next, len));
                    if len > block as usize {
                        prop_assert_eq!(sent, Err(SendError::TooLarge { len, block: block as usize }));
                    } else if full {
                        prop_assert_eq!(sent, Err(SendError::Full));
                    } else {
                        prop_assert!(sent.is_ok());
                        waiting.push_back((next, len));
                    }
                }
                Step::Loan(by, len) => {
                    next += 1;
                    match messages.loan(by, len.min(64)) {
                        Ok(mut loan) => {
                            loan.header = header(next);
                            loan.bytes().write(0, &content(next, len.min(64))).unwrap();
                            loans.push((by, next, len.min(64), loan));
                        }
                        Err(error) => prop_assert!(error == SendError::Full && in_use == slots),
                    }
                }
                Step::SendLoan(at) if !loans.is_empty() => {
                    let (by, n, len, loan) = loans.swap_remove(at % loans.len());
                    match loan.send() {
                        Ok(_) => waiting.push_back((n, len)),
                        Err(unsent) => {
                            prop_assert!(unsent.error == SendError::Full && waiting.len() == capacity as usize);
                            loans.push((by, n, len, unsent.loan));
                        }
                    }
                }
                Step::GiveUp(at) if !loans.is_empty() => drop(loans.swap_remove(at % loans.len())),
                Step::Receive(by, pad) => {
                    let mut pad = vec![0xee; pad];
                    let room = pad.len();
                    let received = messages.receive(by, &mut pad);
                    match waiting.front() {
                        None => prop_assert_eq!(received, Err(ReceiveError::Empty)),
                        Some(&(_, len)) if len > room => {
                            prop_assert_eq!(received, Err(ReceiveError::PadTooSmall { len, pad: room }));
                            prop_assert!(pad.iter().all(|&byte| byte == 0xee), "nothing was written");
                        }
                        Some(&(n, len)) => {
                            let received = received.unwrap();
                            prop_assert_eq!((received.len, received.header), (len, header(n)));
                            prop_assert_eq!(&pad[..len], content(n, len));
                            prop_assert!(pad[len..].iter().all(|&byte| byte == 0xee));
                            prop_assert!(messages.queue().is_received(received.position));
                            waiting.pop_front();
                        }
                    }
                }
                Step::Take(by) => match messages.take(by) {
                    Ok(message) => {
                        let (n, len) = waiting.pop_front().unwrap();
                        let mut copy = vec![0; len];
                        message.bytes().read(0, &mut copy).unwrap();
                        prop_assert_eq!((message.received().header, message.bytes().len(), copy), (header(n), len, content(n, len)));
                        taken.push((by, message));
                    }
                    Err(error) => prop_assert!(error == ReceiveError::Empty && waiting.is_empty()),
                },
                Step::Release(at) if !taken.is_empty() => drop(taken.swap_remove(at % taken.len())),
                Step::Peek(pad) => {
                    let mut pad = vec![0; pad];
                    let peeked = messages.peek(&mut pad);
                    match waiting.front() {
                        None => prop_assert_eq!(peeked, Err(ReceiveError::Empty)),
                        Some(&(n, len)) => {
                            let peeked = peeked.unwrap();
                            prop_assert_eq!((peeked.len, peeked.header), (len, header(n)));
                            let copied = len.min(pad.len());
                            prop_assert_eq!(&pad[..copied], &content(n, len)[..copied]);
                        }
                    }
                }
                Step::Kill(dead) => {
                    let (mut unsent, mut received) = (0, 0);
                    while let Some(at) = loans.iter().position(|(by, ..)| *by == dead) {
                        std::mem::forget(loans.swap_remove(at));
                        unsent += 1;
                    }
                    while let Some(at) = taken.iter().position(|(by, _)| *by == dead) {
                        std::mem::forget(taken.swap_remove(at));
                        received += 1;
                    }
                    let reclaimed = messages.queue().reclaim(dead);
                    prop_assert_eq!((reclaimed.unsent, reclaimed.taken), (unsent, received));
                }
                Step::SendLoan(_) | Step::GiveUp(_) | Step::Release(_) => {}
            }
            prop_assert_eq!(messages.queue().len(), waiting.len());
            prop_assert_eq!(messages.queue().is_empty(), waiting.is_empty());
            prop_assert_eq!(messages.queue().is_full(), waiting.len() == capacity as usize);
            prop_assert_eq!(messages.queue().free_slots(), slots - waiting.len() - loans.len() - taken.len());
        }
    }
}

#[test]
fn a_destroyed_channel_refuses_everything() {
    let shape = Shape { capacity: 2, spares: 0, block: 8 };
    let mut memory = vec![0_u64; shape.words().unwrap()];
    let messages = Messages::create(BytesMut::from_words(&mut memory), shape).unwrap();
    messages.send(1, Header::default(), b"kept").unwrap();
    let loan = messages.loan(1, 8).unwrap();
    assert!(messages.queue().destroy() && !messages.queue().destroy(), "once");
    assert_eq!(messages.send(1, Header::default(), b""), Err(SendError::Destroyed));
    assert_eq!(messages.loan(1, 8).unwrap_err(), SendError::Destroyed);
    assert_eq!(messages.receive(1, &mut [0; 8]), Err(ReceiveError::Destroyed));
    assert_eq!(messages.peek(&mut []), Err(ReceiveError::Destroyed));
    assert_eq!(loan.send().unwrap_err().error, SendError::Destroyed);
}

#[test]
fn impossible_shapes_and_memory_that_is_no_channel_are_refused() {
    use umbra_core::channel::{AttachError, ShapeError};
    let refused = |capacity, spares, block| Shape { capacity, spares, block }.words().unwrap_err();
    assert_eq!(refused(0, 9, 8), ShapeError::NoCapacity);
    assert_eq!(refused(16_000, 384, 8), ShapeError::TooManySlots { slots: 16_384, most: 16_383 });
    assert_eq!(
        refused(u32::MAX, u32::MAX, 8),
        ShapeError::TooManySlots { slots: 2 * u64::from(u32::MAX), most: 16_383 }
    );
    assert_eq!(refused(1, 0, u32::MAX), ShapeError::BlockTooLarge(u32::MAX));
    let shape = Shape::default();
    let needed = shape.words().unwrap();
    let mut memory = vec![0_u64; needed];
    assert_eq!(Messages::attach(BytesMut::from_words(&mut memory)).unwrap_err(), AttachError::NotChannel);
    let too_small = AttachError::TooSmall { words: needed - 1, needed };
    assert_eq!(Messages::create(BytesMut::from_words(&mut memory[1..]), shape).unwrap_err(), too_small);
    Messages::create(BytesMut::from_words(&mut memory), shape).unwrap();
    assert_eq!(Messages::attach(BytesMut::from_words(&mut memory)).unwrap().queue().shape(), shape);
    assert_eq!(Messages::attach(BytesMut::from_words(&mut memory[..needed - 1])).unwrap_err(), too_small);
    assert_eq!(Messages::attach(BytesMut::from_words(&mut memory[..3])).unwrap_err(), AttachError::NotChannel);
}

#[test]
fn a_channel_of_a_hundred_small_messages_needs_little_beside_their_blocks() {
    let shape = Shape { capacity: 100, block: 256, ..Shape::default() };
    let beside = shape.words().unwrap() * 8 - 100 * 256;
    assert!(beside < 9 * 1024, "{beside} bytes");
}
