//! Conversations against plain queues of bytes, one operation after the other.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::cell::RefCell;
use std::collections::VecDeque;

use proptest::prelude::*;
use umbra_core::cell::BytesMut;
use umbra_core::stream::{Class, End, Inlet, Mode, Outlet, ReadError, Reference, Shape, Streams, WriteError};

const STREAMS: usize = 3;
const MEMBERS: u16 = 4;

#[derive(Clone, Debug)]
enum Step {
    Claim(u16),
    Deposit(usize),
    Write(usize, usize, bool),
    Refer(usize),
    End(usize, bool),
    Meet(u16),
    Read(usize, usize),
    Leave(usize),
    /// The process is killed with all that it does, and buried.
    Kill(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let (who, which) = (0..MEMBERS, 0usize..STREAMS);
    prop_oneof![
        3 => who.clone().prop_map(Step::Claim),
        3 => which.clone().prop_map(Step::Deposit),
        6 => (which.clone(), 0usize..300, any::<bool>()).prop_map(|(n, len, more)| Step::Write(n, len, more)),
        2 => which.clone().prop_map(Step::Refer),
        2 => (which.clone(), any::<bool>()).prop_map(|(n, broken)| Step::End(n, broken)),
        3 => who.clone().prop_map(Step::Meet),
        8 => (which.clone(), 1usize..200).prop_map(|(n, len)| Step::Read(n, len)),
        2 => which.prop_map(Step::Leave),
        1 => who.prop_map(Step::Kill),
    ]
}

/// What was written of a conversation and not read.
#[derive(Debug)]
enum Item {
    /// The byte, its argument, and whether a message ends with it.
    Byte(u8, u64, bool),
    Memory(Reference),
}

/// A conversation as it should be.
#[derive(Debug, Default)]
struct Talk<'a> {
    place: usize,
    sender: Option<u16>,
    outlet: Option<Outlet<'a>>,
    receiver: Option<u16>,
    inlet: Option<Inlet<'a>>,
    deposited: Option<u64>,
    written: VecDeque<Item>,
    end: Option<End>,
    left: bool,
    killed: bool,
}

impl Talk<'_> {
    /// Whether nobody can be in it any more.
    fn is_over(&self) -> bool {
        self.sender.is_none()
            && self.receiver.is_none()
            && (self.left || self.end.is_none() || self.deposited.is_none())
    }
    fn references(&self) -> impl Iterator<Item = Reference> {
        self.written.iter().filter_map(|item| if let Item::Memory(reference) = item { Some(*reference) } else { None })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_byte_arrives_once_and_places_come_back(steps in prop::collection::vec(step(), 1..300)) {
        let shape = Shape { mode: Mode::Nominal, streams: STREAMS as u32, ring: 256, messages: 0, block: 0 };
        let mut memory = vec![0_u64; shape.words().unwrap()];
        let streams = Streams::create(BytesMut::from_words(&mut memory), shape).unwrap();
        prop_assert!(Streams::attach(BytesMut::from_words(&mut [0; 9])).is_err());
        let table = streams.table();
        let mut talks: Vec<Talk<'_>> = vec![];
        let (mut next, mut tickets) = (0_u64, 0);
        for step in steps {
            let dropped = RefCell::new(vec![]);
            let drops = |reference| dropped.borrow_mut().push(reference);
            let mut expected = vec![];
            next += 1;
            match step {
                Step::Claim(by) => match table.claim(by, Class::Stream, false) {
                    None => prop_assert_eq!(talks.len(), STREAMS),
                    Some(begun) => {
                        prop_assert!(talks.iter().all(|talk| talk.place != begun.place()));
                        let outlet = streams.outlet(begun, by);
                        talks.push(Talk { place: begun.place(), sender: Some(by), outlet, ..Talk::default() });
                    }
                },
                Step::Deposit(n) => {
                    if let Some(talk) = talks.get_mut(n).filter(|t| t.deposited.is_none())
                        && let Some(outlet) = &talk.outlet
                    {
                        prop_assert!(outlet.deposit());
                        tickets += 1;
                        talk.deposited = Some(tickets);
                    }
                }
                Step::Write(n, len, more) => {
                    if let Some(talk) = talks.get_mut(n) && let Some(outlet) = &mut talk.outlet {
                        let bytes: Vec<u8> = (0..len as u64).map(|at| (next * 31 + at * 7) as u8).collect();
                        match outlet.write(&bytes, next, more) {
                            Ok(written) => {
                                prop_assert!(!talk.left && written <= len && (written > 0 || len == 0));
                                for (at, &byte) in bytes[..written].iter().enumerate() {
                                    talk.written.push_back(Item::Byte(byte, next, at + 1 == len && !more));
                                }
                            }
                            Err(WriteError::Full) => prop_assert!(!talk.left && !talk.written.is_empty()),
                            Err(error) => {
                                prop_assert!(talk.left);
                                let why = if talk.killed { WriteError::PeerDead } else { WriteError::Unheard };
                                prop_assert_eq!(error, why);
                            }
                        }
                    }
                }
                Step::Refer(n) => {
                    let reference = Reference { pool: next, block: !next, offset: 3, len: next << 4, flags: 1 };
                    if let Some(talk) = talks.get_mut(n)
                        && let Some(outlet) = &mut talk.outlet
                        && outlet.refer(reference, next).is_ok()
                    {
                        talk.written.push_back(Item::Memory(reference));
                    }
                }
                Step::End(n, broken) => {
                    if let Some(talk) = talks.get_mut(n) && let Some(outlet) = talk.outlet.take() {
                        let how = if broken { End::Broken } else { End::Complete };
                        let is_new = talk.deposited.is_none();
                        if talk.left || is_new && broken {
                            expected.extend(talk.references());
                        }
                        outlet.end(how, drops);
                        talk.sender = None;
                        talk.end = Some(how);
                        if is_new && !broken {
                            tickets += 1;
                            talk.deposited = Some(tickets);
                        }
                    }
                }
                Step::Meet(by) => {
                    let waiting = talks.iter_mut().filter(|t| t.deposited.is_some() && t.receiver.is_none() && !t.left);
                    let oldest = waiting.min_by_key(|talk| talk.deposited);
                    match (table.meet(by), oldest) {
                        (None, None) => {}
                        (Some(met), Some(talk)) => {
                            prop_assert_eq!(met.place(), talk.place);
                            talk.receiver = Some(by);
                            talk.inlet = streams.inlet(met, by);
                        }
                        (met, oldest) => prop_assert!(false, "{met:?} instead of {oldest:?}"),
                    }
                }
                Step::Read(n, len) => {
                    if let Some(talk) = talks.get_mut(n) && let Some(inlet) = &mut talk.inlet {
                        match inlet.front() {
                            Err(ReadError::Empty) => prop_assert!(talk.written.is_empty() && talk.end.is_none()),
                            Err(error) => {
                                let end = if error == ReadError::Ended { End::Complete } else { End::Broken };
                                prop_assert!(talk.written.is_empty() && talk.end == Some(end), "{error}");
                            }
                            Ok(front) => if let Some(reference) = front.reference {
                                let Some(Item::Memory(written)) = talk.written.pop_front() else { panic!("{front:?}") };
                                prop_assert_eq!(written, reference);
                                inlet.skip(&front);
                            } else {
                                let mut pad = vec![0; len];
                                let piece = inlet.read(&mut pad).unwrap();
                                prop_assert!(piece.len > 0 && piece.len <= len);
                                for (at, &read) in pad[..piece.len].iter().enumerate() {
                                    let Some(Item::Byte(byte, arg, last)) = talk.written.pop_front() else {
                                        panic!("{piece:?}")
                                    };
                                    prop_assert_eq!((byte, arg), (read, piece.arg));
                                    prop_assert_eq!(last, piece.is_last && at + 1 == piece.len);
                                }
                            }
                        }
                    }
                }
                Step::Leave(n) => {
                    if let Some(talk) = talks.get_mut(n) && let Some(inlet) = talk.inlet.take() {
                        if talk.end.is_some() {
                            expected.extend(talk.references());
                        }
                        inlet.leave(drops);
                        (talk.receiver, talk.left) = (None, true);
                    }
                }
                Step::Kill(dead) => {
                    for talk in &mut talks {
                        let (sends, receives) = (talk.sender == Some(dead), talk.receiver == Some(dead));
                        if sends {
                            (talk.sender, talk.outlet, talk.end) = (None, None, Some(End::Broken));
                        }
                        if receives {
                            (talk.receiver, talk.inlet, talk.left, talk.killed) = (None, None, true, true);
                        }
                        if (sends || receives) && talk.is_over() {
                            expected.extend(talk.references());
                        }
                    }
                    streams.reclaim(dead, drops);
                    prop_assert_eq!(streams.reclaim(dead, |_| ()), umbra_core::stream::Reclaimed::default());
                }
            }
            talks.retain(|talk| !talk.is_over());
            let dropped = dropped.into_inner();
            let same = dropped.len() == expected.len() && expected.iter().all(|reference| dropped.contains(reference));
            prop_assert!(same, "{dropped:?} instead of {expected:?}");
            let counts = table.counts();
            prop_assert_eq!(counts.idle, STREAMS - talks.len());
            let waiting = talks.iter().filter(|t| t.deposited.is_some() && t.receiver.is_none() && !t.left).count();
            prop_assert_eq!(counts.waiting, waiting);
        }
    }
}

#[test]
fn shapes_that_no_mode_has_are_refused() {
    let nominal = Shape { mode: Mode::Nominal, streams: 4, ring: 100, messages: 2, block: 100 };
    assert!(nominal.words().is_ok());
    for wrong in [
        Shape { streams: 0, messages: 0, ..nominal },
        Shape { streams: 0, ..nominal },
        Shape { mode: Mode::Buffered, ..nominal },
        Shape { mode: Mode::Single, ..nominal },
        Shape { mode: Mode::Single, streams: 1, ..nominal },
        Shape { mode: Mode::SenderSupplied, streams: 0, ..nominal },
        Shape { mode: Mode::ReceiverSupplied, ..nominal },
        Shape { streams: u32::MAX, ..nominal },
        Shape { ring: u32::MAX, ..nominal },
        Shape { block: u32::MAX, ..nominal },
    ] {
        let refused = wrong.words().unwrap_err();
        let mut memory = vec![0_u64; 64];
        let made = Streams::create(BytesMut::from_words(&mut memory), wrong).map(|_| ());
        assert_eq!(made, Err(umbra_core::stream::AttachError::BadShape(refused)), "{wrong:?}");
        assert!(memory.iter().all(|&word| word == 0), "nothing was written");
    }
}

#[test]
fn a_stream_whose_words_say_nonsense_gives_errors() {
    let shape = Shape { mode: Mode::Nominal, streams: 1, ring: 64, messages: 0, block: 0 };
    let words = shape.words().unwrap();
    for at in 0..words {
        for value in [u64::MAX, 1, 1 << 38, 0x8000_0000, 17] {
            let mut memory = vec![0_u64; words];
            let streams = Streams::create(BytesMut::from_words(&mut memory), shape).unwrap();
            let begun = streams.table().claim(1, Class::Stream, false).unwrap();
            let mut outlet = streams.outlet(begun, 1).unwrap();
            outlet.deposit();
            outlet.write(b"0123456789", 5, false).unwrap();
            let damaged = BytesMut::from_words(&mut memory);
            damaged.words(at * 8, 1).unwrap()[0].store(value, umbra_core::atomic::Ordering::Relaxed);
            // Whatever it says: every call ends.
            let Ok(streams) = Streams::attach(damaged) else { continue };
            let Some(met) = streams.table().meet(2) else { continue };
            let Some(mut inlet) = streams.inlet(met, 2) else { continue };
            let _ = inlet.read(&mut [0; 10]);
            let _ = inlet.read(&mut [0; 10]);
            inlet.leave(|_| ());
            streams.reclaim(1, |_| ());
            let _ = streams.table().counts();
        }
    }
}
