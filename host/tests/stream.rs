//! Streams between threads: the scenarios of the file-like interface.
//!
//! Each thread is as if in a process of its own.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use umbra::channel::Timeout;
use umbra::pool::{self, Pool};
use umbra::stream::{Adapter, Attributes, Error, Mode, RESERVED, ReceiveOptions, SendOptions, Sender, Supplied};
use umbra_core::crew::MOST;

/// Only a hang lasts longer.
const WAIT: Timeout = Timeout::After(Duration::from_secs(60));
/// 66 bytes.
const TEXT: &[u8] = b"Streams keep what belongs together, whoever writes it and reads it";
const MODES: [Mode; 5] = [Mode::Nominal, Mode::Buffered, Mode::SenderSupplied, Mode::ReceiverSupplied, Mode::Single];

fn pool(uid: u64) -> Arc<Pool> {
    Arc::new(Pool::create(None, &pool::Attributes { bytes: 1 << 20, uid, ..pool::Attributes::default() }).unwrap())
}

fn used(pool: &Pool) -> usize {
    pool.blocks().count()
}

/// Options of both ends for an adapter, and the streams that they bring along.
fn supplies(adapter: &Adapter) -> (Option<Supplied<'_>>, Option<Supplied<'_>>) {
    match adapter.mode().unwrap() {
        Mode::SenderSupplied => (Some(adapter.supply().unwrap()), None),
        Mode::ReceiverSupplied => (None, Some(adapter.supply().unwrap())),
        _ => (None, None),
    }
}

/// A conversation from one thread to another one, in any mode.
fn converse(adapter: &Adapter, talk: impl FnOnce(Sender<'_>) + Send, listen: impl FnOnce(umbra::stream::Receiver<'_>)) {
    let (ours, theirs) = supplies(adapter);
    thread::scope(|scope| {
        scope.spawn(|| {
            talk(adapter.send(&SendOptions { stream: ours.as_ref(), ..SendOptions::default() }, WAIT).unwrap());
        });
        listen(
            adapter.receive(&ReceiveOptions { stream: theirs.as_ref(), ..ReceiveOptions::default() }, WAIT).unwrap(),
        );
    });
}

#[test]
fn a57_in_every_mode_the_same_bytes_arrive_and_then_the_end_however_they_are_read() {
    for mode in MODES {
        let adapter = Adapter::create(&Attributes::of(mode), [pool(1)]).unwrap();
        let before = adapter.counts().unwrap();
        for way in 0..6 {
            let talk = |mut sender: Sender<'_>| {
                let mut rest = TEXT;
                for len in 1.. {
                    let (chunk, more) = rest.split_at(rest.len().min(len));
                    if mode == Mode::Buffered || len % 3 == 0 {
                        sender.keep(chunk, 9).unwrap();
                    } else {
                        sender.send(chunk, 9, WAIT).unwrap();
                    }
                    if more.is_empty() {
                        break;
                    }
                    rest = more;
                }
                sender.close(WAIT).unwrap();
            };
            converse(&adapter, talk, |mut receiver| {
                let mut all = vec![];
                for turn in 1.. {
                    let mut pad = vec![0; [0, 1, 5, turn, 1000, 5][way]];
                    let got = match way {
                        0 => receiver.receive(WAIT).map(|message| message.bytes),
                        4 => receiver.receive_memory(WAIT).map(|received| {
                            let mut bytes = vec![0; received.memory.len() as usize];
                            received.memory.read(0, &mut bytes).unwrap();
                            received.memory.free().unwrap();
                            bytes
                        }),
                        5 => receiver.receive_exact(&mut pad, WAIT).map(|piece| pad[..piece.len].to_vec()),
                        _ => receiver.receive_into(&mut pad, WAIT).map(|piece| pad[..piece.len].to_vec()),
                    };
                    match got {
                        Ok(bytes) => all.extend(bytes),
                        Err(error) => {
                            assert_eq!(error, Error::Ended);
                            break;
                        }
                    }
                }
                assert_eq!(all, TEXT, "{mode:?} read in way {way}");
                assert_eq!(receiver.receive(WAIT), Err(Error::Ended), "again and again");
                assert!(receiver.has_ended());
                receiver.close(WAIT).unwrap();
            });
            assert_eq!(adapter.counts().unwrap(), before, "{mode:?}: every stream is back");
        }
    }
}

#[test]
fn a57_an_empty_conversation_ends_and_a_buffered_one_is_none() {
    for mode in MODES {
        let adapter = Adapter::create(&Attributes::of(mode), []).unwrap();
        if mode == Mode::Buffered {
            adapter.send(&SendOptions::default(), WAIT).unwrap().close(WAIT).unwrap();
            assert_eq!(adapter.receive(&ReceiveOptions::default(), Timeout::Now).unwrap_err(), Error::Empty);
            continue;
        }
        converse(
            &adapter,
            |sender| sender.close(WAIT).unwrap(),
            |mut receiver| {
                assert_eq!(receiver.receive_into(&mut [0; 5], WAIT), Err(Error::Ended), "{mode:?}");
                receiver.close(WAIT).unwrap();
            },
        );
    }
}

#[test]
fn a58_what_a_mode_does_not_have_is_refused() {
    let nominal = Attributes::default();
    for wrong in [
        Attributes { mode: Mode::Buffered, ..nominal },
        Attributes { streams: 0, messages: 0, ..nominal },
        Attributes { streams: 0, ..nominal },
        Attributes { mode: Mode::Single, ..nominal },
        Attributes { mode: Mode::ReceiverSupplied, ..nominal },
    ] {
        assert_eq!(Adapter::create(&wrong, []).unwrap_err().code(), "INVALID_ARGUMENT", "{wrong:?}");
    }
    let (send, receive) = (SendOptions::default(), ReceiveOptions::default());
    let refused = |result: Result<(), Error>, error: &Error| {
        let refused = result.unwrap_err();
        assert_eq!((&refused, refused.code()), (error, "INVALID_ARGUMENT"));
    };
    let [nominal, buffered, of_sender, of_receiver, single] =
        MODES.map(|mode| Adapter::create(&Attributes::of(mode), []).unwrap());
    let (ours, theirs) = (of_sender.supply().unwrap(), of_receiver.supply().unwrap());
    let (with_ours, with_theirs) =
        (SendOptions { stream: Some(&ours), ..send }, ReceiveOptions { stream: Some(&theirs), ..receive });
    // Streams that the mode needs, or does not want.
    refused(of_sender.send(&send, Timeout::Now).map(drop), &Error::StreamNeeded);
    refused(of_receiver.receive(&receive, Timeout::Now).map(drop), &Error::StreamNeeded);
    for adapter in [&nominal, &buffered, &of_receiver, &single] {
        refused(adapter.send(&with_ours, Timeout::Now).map(drop), &Error::StreamRefused);
    }
    for adapter in [&nominal, &buffered, &of_sender, &single] {
        refused(adapter.receive(&with_theirs, Timeout::Now).map(drop), &Error::StreamRefused);
        if adapter.mode().unwrap() != Mode::SenderSupplied {
            refused(adapter.supply().map(drop), &Error::StreamRefused);
        }
    }
    // Conversations of one message.
    let in_one = SendOptions { buffered: true, ..send };
    for adapter in [&of_receiver, &single] {
        assert!(matches!(adapter.send(&in_one, Timeout::Now).map(drop), Err(Error::NoSuchPlace(_))));
    }
    refused(buffered.send(&SendOptions { may_be_cut: true, ..send }, Timeout::Now).map(drop), &Error::NotBrief);
}

#[test]
fn an_adapter_is_for_no_more_processes_than_can_be_told_apart() {
    let create = |members| Adapter::create(&Attributes { members, ..Attributes::default() }, []).map(drop);
    assert_eq!(create(MOST + 1).map_err(|error| error.code()), Err("INVALID_ARGUMENT"));
    assert_eq!(create(MOST), Ok(()));
}

#[test]
fn a59_conversations_of_many_do_not_mix_and_every_stream_comes_back() {
    let adapter = Adapter::create(&Attributes { streams: 4, ring: 512, ..Attributes::default() }, []).unwrap();
    let (senders, receivers, talks) = (8_u64, 8, 1000);
    let content =
        |from: u64, n: u64| (0..1 + n % 20).map(move |k| vec![(from * 7 + n + k) as u8; 1 + (n * k) as usize % 90]);
    let heard = thread::scope(|scope| {
        for from in 0..senders {
            let adapter = &adapter;
            scope.spawn(move || {
                for n in 0..talks {
                    let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
                    for chunk in content(from, n) {
                        sender.send(&chunk, from << 32 | n, WAIT).unwrap();
                    }
                    sender.close(WAIT).unwrap();
                }
            });
        }
        let receivers: Vec<_> = (0..receivers)
            .map(|_| {
                scope.spawn(|| {
                    let mut heard = vec![];
                    for _ in 0..senders * talks / receivers {
                        let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
                        let (mut chunks, mut who) = (vec![], None);
                        while let Ok(message) = receiver.receive(WAIT) {
                            assert!(who.is_none_or(|who| who == message.arg), "two conversations in one");
                            who = Some(message.arg);
                            chunks.push(message.bytes);
                        }
                        receiver.close(WAIT).unwrap();
                        heard.push((who.unwrap(), chunks));
                    }
                    heard
                })
            })
            .collect();
        receivers.into_iter().flat_map(|receiver| receiver.join().unwrap()).collect::<Vec<_>>()
    });
    let mut heard: Vec<_> = heard;
    heard.sort();
    assert_eq!(heard.len() as u64, senders * talks);
    for ((who, chunks), expected) in heard.into_iter().zip((0..senders).flat_map(|s| (0..talks).map(move |n| (s, n)))) {
        assert_eq!((who >> 32, who & 0xffff_ffff), expected);
        assert!(chunks.into_iter().eq(content(expected.0, expected.1)), "{expected:?}");
    }
    assert_eq!(adapter.counts().unwrap().idle, 4);
}

#[test]
fn a60_the_64_bits_beside_a_message_arrive_up_to_those_that_are_reserved() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let talk = |mut sender: Sender<'_>| {
        for arg in [0, 42, RESERVED - 1] {
            sender.send(b"message", arg, WAIT).unwrap();
        }
        for arg in [RESERVED, u64::MAX] {
            let refused = sender.send(b"message", arg, WAIT).unwrap_err();
            assert_eq!((&refused, refused.code()), (&Error::ReservedArgument(arg), "INVALID_ARGUMENT"));
            assert_eq!(sender.keep(b"message", arg), Err(Error::ReservedArgument(arg)));
        }
        // The first of what is kept counts.
        sender.keep(b"one ", 1).unwrap();
        sender.keep(b"two ", 2).unwrap();
        sender.send(b"three", 3, WAIT).unwrap();
        sender.send(b"abc", 4, WAIT).unwrap();
        sender.send(b"def", 5, WAIT).unwrap();
        sender.close(WAIT).unwrap();
    };
    converse(&adapter, talk, |mut receiver| {
        for arg in [0, 42, RESERVED - 1] {
            assert_eq!(receiver.receive(WAIT).unwrap().arg, arg);
        }
        let kept = receiver.receive(WAIT).unwrap();
        assert_eq!((&kept.bytes[..], kept.arg), (&b"one two three"[..], 1));
        // The last message that was touched counts.
        let mut pad = [0; 5];
        assert_eq!(receiver.receive_exact(&mut pad, WAIT).unwrap().arg, 5);
        assert_eq!(&pad, b"abcde");
        let rest = receiver.receive(WAIT).unwrap();
        assert_eq!((&rest.bytes[..], rest.arg), (&b"f"[..], 5));
        assert_eq!(receiver.receive(WAIT), Err(Error::Ended));
    });
}

#[test]
fn a65_never_more_than_the_pad_holds_is_written_whatever_was_sent() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let sent: Vec<u8> = (0..=255).collect();
    converse(
        &adapter,
        |mut sender| sender.send(&sent, 0, WAIT).unwrap(),
        |mut receiver| {
            let mut around = [0xee; 48];
            assert_eq!(receiver.receive_into(&mut around[16..32], WAIT).unwrap().len, 16);
            assert_eq!(
                (&around[..16], &around[16..32], &around[32..]),
                (&[0xee; 16][..], &sent[..16], &[0xee; 16][..])
            );
            let piece = receiver.receive_into(&mut [0; 1000], WAIT).unwrap();
            assert_eq!((piece.len, piece.is_last), (240, true));
        },
    );
}

#[test]
fn a66_a_conversation_of_one_message_is_sent_at_the_close_or_at_once_and_never_twice() {
    let memory = pool(3);
    let nominal = Adapter::create(&Attributes::default(), [memory.clone()]).unwrap();
    let buffered = Adapter::create(&Attributes::of(Mode::Buffered), [memory.clone()]).unwrap();
    let options = SendOptions { buffered: true, ..SendOptions::default() };
    for adapter in [&nominal, &buffered] {
        let mut sender = adapter.send(&options, WAIT).unwrap();
        for n in 0..3 {
            sender.keep(b"part ", n + 7).unwrap();
        }
        assert!(!adapter.poll().unwrap(), "nothing was sent yet");
        let block = memory.alloc(10, 0).unwrap();
        let refused = sender.send_memory(block, 0, WAIT).unwrap_err();
        assert_eq!((&refused, refused.code()), (&Error::Buffered, "INVALID_OPERATION"));
        block.free().unwrap();
        sender.close(WAIT).unwrap();
        assert_eq!(adapter.counts().unwrap().waiting, 1);
        let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
        let message = receiver.receive(WAIT).unwrap();
        assert_eq!((&message.bytes[..], message.arg), (&b"part part part "[..], 7));
        assert_eq!(receiver.receive(WAIT), Err(Error::Ended));
        receiver.close(WAIT).unwrap();

        // At once, and then no more.
        let mut sender = adapter.send(&options, WAIT).unwrap();
        sender.send(b"all", 1, WAIT).unwrap();
        assert!(adapter.poll().unwrap());
        assert_eq!(sender.send(b"more", 1, WAIT), Err(Error::AlreadySent));
        assert_eq!(sender.keep(b"more", 1), Err(Error::AlreadySent));
        sender.close(WAIT).unwrap();
        assert_eq!(adapter.receive(&ReceiveOptions::default(), WAIT).unwrap().receive(WAIT).unwrap().bytes, b"all");

        // Longer than a block: by way of the pool.
        let long = vec![3; 5000];
        let mut sender = adapter.send(&options, WAIT).unwrap();
        sender.send(&long, 1, WAIT).unwrap();
        assert_eq!(used(&memory), 1);
        assert_eq!(adapter.receive(&ReceiveOptions::default(), WAIT).unwrap().receive(WAIT).unwrap().bytes, long);
        assert_eq!(used(&memory), 0);
    }
    let without = Adapter::create(&Attributes::of(Mode::Buffered), []).unwrap();
    let too_large = without.send(&options, WAIT).unwrap().send(&[0; 5000], 0, WAIT);
    assert!(matches!(too_large, Err(Error::MessageTooLarge { len: 5000, .. })));
}

#[test]
fn what_is_formatted_piece_by_piece_into_a_buffered_conversation_is_one_message() {
    let (one, two) = (1, 2);
    for mode in [Mode::Nominal, Mode::SenderSupplied, Mode::Buffered] {
        let adapter = Adapter::create(&Attributes::of(mode), []).unwrap();
        let options = SendOptions { buffered: true, arg: 5, ..SendOptions::default() };
        let mut sender = adapter.send(&options, WAIT).unwrap();
        write!(sender, "{one} of {two}, ").unwrap();
        Write::flush(&mut sender).unwrap();
        writeln!(sender, "then {two}!").unwrap();
        assert!(!adapter.poll().unwrap(), "nothing is sent before the close");
        sender.close(WAIT).unwrap();
        let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
        let message = receiver.receive(WAIT).unwrap();
        assert_eq!((&message.bytes[..], message.arg), (&b"1 of 2, then 2!\n"[..], 5));
        assert_eq!(receiver.receive(WAIT), Err(Error::Ended));
    }
}

#[test]
fn a_sender_takes_back_what_he_kept_and_is_heard_when_he_chose() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    let mut sender = adapter.send(&SendOptions { deposit_after: 2, ..SendOptions::default() }, WAIT).unwrap();
    sender.keep(b"never mind", 6).unwrap();
    assert_eq!((sender.take_kept(), sender.take_kept().0), ((b"never mind".to_vec(), 6), vec![]));
    sender.send(b"one", 0, WAIT).unwrap();
    assert!(!adapter.poll().unwrap());
    sender.send(b"two", 0, WAIT).unwrap();
    assert!(adapter.poll().unwrap());
    sender.close(WAIT).unwrap();
    let mut text = String::new();
    adapter.receive(&ReceiveOptions::default(), WAIT).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "onetwo");
}
