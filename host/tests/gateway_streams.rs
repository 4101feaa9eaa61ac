//! Streams of other hosts through a gateway.
//!
//! This host is in disguise as another one.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;
mod gateways;

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use umbra::channel::{Timeout, WaitMode};
use umbra::gateway::{Error, Gateways, KEPT_MOST, RemoteStreams};
use umbra::link::Address;
use umbra::stream::{self, Adapter, Attributes, Mode, ReceiveOptions, SendOptions};
use umbra::sys::host;

use another::{Another, ready, until};
use gateways::{ANYWHERE, LONG, NOW, be_a_gateway, gateways, secret, serve, start_gateway, text};

fn adapter(mode: Mode) -> Adapter {
    Adapter::create(&Attributes { uid: 9, ring: 4096, tasks: true, ..Attributes::of(mode) }, []).unwrap()
}

fn remote(adapter: &Adapter, gateways: &Gateways) -> RemoteStreams {
    RemoteStreams::attach(&adapter.reference().unwrap(), gateways, LONG).unwrap()
}

fn refused<T>(error: stream::Error) -> Result<T, Error> {
    Err(Error::Stream(error))
}

/// Bytes that are nowhere the same.
fn long(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// What another process does; as a test of its own it does nothing.
#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    // A receiver at hand.
    if let Some(reference) = role.strip_prefix("meets ") {
        let adapter = Adapter::attach_reference(&umbra::reference::from_text(reference).unwrap(), []).unwrap();
        let _receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
        ready("has met");
        return thread::sleep(Duration::from_secs(600));
    }
    // A client that sends without an end.
    let Some((address, reference)) = role.split_once(' ') else { return be_a_gateway(&role) };
    let gateways = gateways(&Address::Tcp(address.parse().unwrap()));
    let bytes = umbra::reference::from_text(reference).unwrap();
    let remote = RemoteStreams::attach(&bytes, &gateways, LONG).unwrap();
    let mut sender = remote.send(&SendOptions::default(), LONG).unwrap();
    sender.send(b"sent", 1, LONG).unwrap();
    sender.keep(b"kept", 2).unwrap();
    ready("sent");
    thread::sleep(Duration::from_secs(600));
}

/// A client cannot have a gateway keep more than [`KEPT_MOST`] for it; nothing that it kept is lost by asking for more.
#[test]
fn what_a_gateway_keeps_for_a_sender_is_bounded() {
    let (_server, address) = serve();
    let (gateways, adapter) = (gateways(&address), adapter(Mode::Nominal));
    let remote = remote(&adapter, &gateways);
    let mut sender = remote.send(&SendOptions::default(), LONG).unwrap();
    let piece = long(60_000);
    let pieces = KEPT_MOST / piece.len();
    (0..pieces).for_each(|_| sender.keep(&piece, 5).unwrap());
    assert_eq!(sender.keep(&piece, 5), refused(stream::Error::Full));
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
            let mut all = Vec::new();
            receiver.read_to_end(&mut all).unwrap();
            all
        });
        sender.flush(LONG).unwrap();
        sender.keep(b"more", 5).unwrap();
        sender.close(LONG).unwrap();
        let read = reading.join().unwrap();
        assert!(read.len() == pieces * piece.len() + 4 && read.starts_with(&piece) && read.ends_with(b"more"));
    });
}

/// What had come is received by the next call.
#[test]
fn messages_that_come_and_come_keep_a_receiver_no_longer_than_his_deadline_and_grace() {
    let (_server, address) = serve();
    let adapter = Adapter::create(&Attributes::of(Mode::Nominal), []).unwrap();
    let remote = remote(&adapter, &gateways(&address));
    // He is never behind who receives.
    let endless = SendOptions { may_be_cut: true, mode: WaitMode::Spin, ..SendOptions::default() };
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sender = adapter.send(&endless, LONG).unwrap();
            while sender.send(&[7], 0, LONG).is_ok() {}
        });
        let mut receiver = remote.receive(&ReceiveOptions::default(), LONG).unwrap();
        let mut bytes = vec![0; 1 << 20];
        let begun = Instant::now();
        let brief = Timeout::After(Duration::from_millis(100));
        assert_eq!(receiver.receive_exact(&mut bytes, brief).map(drop), refused(stream::Error::Timeout));
        assert!(begun.elapsed() < Duration::from_secs(20), "one by one it would take longer");
        let piece = receiver.receive_exact(&mut bytes[..500], LONG).unwrap();
        assert!(piece.len == 500 && bytes[..500] == [7; 500], "what had come is kept");
        drop(receiver);
        sending.join().unwrap();
    });
}

/// Waiting makes no room for more of it.
#[test]
fn one_message_that_is_longer_than_what_a_gateway_keeps_is_too_large() {
    let (_server, address) = serve();
    let (gateways, piece) = (gateways(&address), long(60_000));
    for mode in [Mode::Nominal, Mode::Buffered] {
        let options = SendOptions { buffered: true, timeout: LONG, ..SendOptions::default() };
        let adapter = adapter(mode);
        let mut sender = remote(&adapter, &gateways).send(&options, LONG).unwrap();
        let pieces = KEPT_MOST / piece.len();
        (0..pieces).for_each(|_| sender.write_all(&piece).unwrap());
        let too_large = stream::Error::MessageTooLarge { len: (pieces + 1) * piece.len(), most: KEPT_MOST };
        let refusal = sender.write(&piece).unwrap_err().into_inner().unwrap();
        assert_eq!(refusal.downcast_ref(), Some(&too_large));
        assert_eq!(sender.send(&piece, 5, LONG), refused(too_large));
    }
}

/// What waits at a gateway behind the rest of a long message is tried again and again, and goes once.
#[test]
fn what_is_sent_behind_a_part_of_a_message_goes_once() {
    let (_server, address) = serve();
    let (gateways, bytes) = (gateways(&address), long(20_000));
    let adapter = Adapter::create(&Attributes { ring: 1024, ..Attributes::default() }, []).unwrap();
    let mut sender = remote(&adapter, &gateways).send(&SendOptions::default(), LONG).unwrap();
    let partly = sender.send(&bytes, 1, Timeout::After(Duration::from_millis(60)));
    assert!(matches!(partly, Err(Error::Stream(stream::Error::Partly { sent: 1.., len: 20_000 }))), "{partly:?}");
    let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            sender.send(b"next", 2, LONG).unwrap();
            sender.close(LONG).unwrap();
        });
        // The ring is full as long as that.
        thread::sleep(Duration::from_millis(300));
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).unwrap();
        assert!(all == [&bytes[..], b"next"].concat(), "{} bytes", all.len());
    });
}

#[test]
fn conversations_are_the_same_as_at_hand_in_every_mode() {
    let (_server, address) = serve();
    let gateways = gateways(&address);
    for mode in [Mode::Nominal, Mode::Buffered, Mode::SenderSupplied, Mode::ReceiverSupplied, Mode::Single] {
        let adapter = adapter(mode);
        let remote = remote(&adapter, &gateways);
        assert_eq!((remote.uid(), remote.mode(), remote.host()), (9, mode, host::id()));
        let idle = adapter.counts().unwrap();
        let supplied =
            || matches!(mode, Mode::SenderSupplied | Mode::ReceiverSupplied).then(|| adapter.supply().unwrap());
        let is_one_message = mode == Mode::Buffered;
        let expected = |message: stream::Message| {
            assert_eq!((&message.bytes[..], message.arg), (&b"hello, you"[..], 7), "{mode:?}");
        };
        // From there to here, the receiver first where it has to be.
        thread::scope(|scope| {
            scope.spawn(|| {
                let stream = supplied().filter(|_| mode == Mode::ReceiverSupplied);
                let options = ReceiveOptions { stream: stream.as_ref(), ..ReceiveOptions::default() };
                let mut receiver = adapter.receive(&options, LONG).unwrap();
                expected(receiver.receive(LONG).unwrap());
                assert_eq!(receiver.receive(LONG), Err(stream::Error::Ended));
                receiver.close(LONG).unwrap();
            });
            let mut sender = remote.send(&SendOptions::default(), LONG).unwrap();
            sender.keep(b"hello, ", 7).unwrap();
            sender.keep(b"you", 8).unwrap();
            if !is_one_message {
                sender.flush(LONG).unwrap();
            }
            sender.close(LONG).unwrap();
        });
        // And the other way.
        thread::scope(|scope| {
            scope.spawn(|| {
                let stream = supplied().filter(|_| mode == Mode::SenderSupplied);
                let options = SendOptions { stream: stream.as_ref(), ..SendOptions::default() };
                let mut sender = adapter.send(&options, LONG).unwrap();
                sender.send(b"hello, you", 7, LONG).unwrap();
                sender.close(LONG).unwrap();
            });
            let mut receiver = remote.receive(&ReceiveOptions::default(), LONG).unwrap();
            expected(receiver.receive(LONG).unwrap());
            assert_eq!(receiver.receive(LONG), refused(stream::Error::Ended));
            assert_eq!(receiver.receive(NOW), refused(stream::Error::Ended), "again and again");
            receiver.close(LONG).unwrap();
        });
        until(&format!("idle streams: {mode:?}"), || adapter.counts().unwrap() == idle);
        assert_eq!(remote.counts(), Ok(idle));
    }
}

#[test]
fn messages_of_any_length_come_and_files_go_both_ways() {
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let adapter = adapter(Mode::Nominal);
    let remote = remote(&adapter, &gateways);
    // Longer than the ring, and than what a gateway carries at once.
    let bytes = long(300_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = adapter.send(&SendOptions::default(), LONG).unwrap();
            sender.send(&bytes, 5, LONG).unwrap();
            sender.send(b"", 6, LONG).unwrap();
            sender.write_all(&bytes).unwrap();
            sender.close(LONG).unwrap();
        });
        let mut receiver = remote.receive(&ReceiveOptions::default(), LONG).unwrap();
        let message = receiver.receive(LONG).unwrap();
        assert!(message.bytes == bytes && message.arg == 5);
        // A message of no bytes is no end of a file.
        receiver.put_back(stream::Message::default());
        let mut rest = Vec::new();
        receiver.read_to_end(&mut rest).unwrap();
        assert!(rest == bytes);
        receiver.close(LONG).unwrap();
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = remote.send(&SendOptions::default(), LONG).unwrap();
            sender.send(&bytes[..60_000], 5, LONG).unwrap();
            sender.write_all(&bytes).unwrap();
            let too_large = sender.send(&bytes, 0, LONG).unwrap_err();
            assert!(matches!(too_large, Error::TooLarge { len: 300_000, .. }), "{too_large}");
            sender.close(LONG).unwrap();
        });
        let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
        let message = receiver.receive(LONG).unwrap();
        assert!(message.bytes == bytes[..60_000] && message.arg == 5);
        let mut rest = Vec::new();
        receiver.read_to_end(&mut rest).unwrap();
        assert!(rest == bytes);
    });
}

#[test]
fn what_is_formatted_piece_by_piece_into_a_buffered_conversation_is_one_message() {
    let (_server, address) = serve();
    let (gateways, one, two) = (gateways(&address), 1, 2);
    for mode in [Mode::Nominal, Mode::Buffered] {
        let adapter = adapter(mode);
        let options = SendOptions { buffered: true, arg: 5, ..SendOptions::default() };
        let mut sender = remote(&adapter, &gateways).send(&options, LONG).unwrap();
        write!(sender, "{one} of {two}, ").unwrap();
        sender.flush(LONG).unwrap();
        writeln!(sender, "then {two}!").unwrap();
        assert!(!adapter.poll().unwrap(), "nothing is sent before the close");
        sender.close(LONG).unwrap();
        let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
        let message = receiver.receive(LONG).unwrap();
        assert_eq!((&message.bytes[..], message.arg), (&b"1 of 2, then 2!\n"[..], 5));
        assert_eq!(receiver.receive(LONG), Err(stream::Error::Ended));
        let mut sender = remote(&adapter, &gateways).send(&options, LONG).unwrap();
        sender.send(b"all", 5, LONG).unwrap();
        assert_eq!(sender.send(b"more", 5, LONG), refused(stream::Error::AlreadySent));
        assert_eq!(sender.flush(LONG), Ok(()), "nothing is left to be sent");
        sender.close(LONG).unwrap();
    }
}

#[test]
fn what_a_remote_read_puts_back_comes_again_as_the_messages_that_it_was() {
    let (_server, address) = serve();
    let (gateways, adapter) = (gateways(&address), adapter(Mode::Nominal));
    let mut sender = adapter.send(&SendOptions::default(), LONG).unwrap();
    let mut receiver = remote(&adapter, &gateways).receive(&ReceiveOptions::default(), LONG).unwrap();
    sender.send(b"abc", 1, LONG).unwrap();
    sender.send(b"de", 2, LONG).unwrap();
    let short = Timeout::After(Duration::from_millis(20));
    for _ in 0..2 {
        assert_eq!(receiver.receive_exact(&mut [0; 10], short), refused(stream::Error::Timeout));
    }
    let piece = receiver.receive_into(&mut [0; 2], LONG).unwrap();
    assert_eq!((piece.len, piece.arg, piece.is_last), (2, 1, false));
    assert_eq!(receiver.receive_exact(&mut [0; 10], NOW), refused(stream::Error::Empty));
    sender.send(b"behind", 3, LONG).unwrap();
    sender.close(LONG).unwrap();
    for (bytes, arg) in [(&b"c"[..], 1), (b"de", 2), (b"behind", 3)] {
        let got = receiver.receive(LONG).unwrap();
        assert_eq!((&got.bytes[..], got.arg), (bytes, arg));
    }
    assert_eq!(receiver.receive(LONG), refused(stream::Error::Ended));
}

#[test]
fn whoever_waits_at_a_gateway_sees_to_the_dead() {
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let adapter = Adapter::create(&Attributes { streams: 1, ..Attributes::default() }, []).unwrap();
    let remote = remote(&adapter, &gateways);
    let sender = adapter.send(&SendOptions::default(), LONG).unwrap();
    let reference = umbra::reference::to_text(&adapter.reference().unwrap());
    let (mut receiver, _) = Another::start_ready(&format!("meets {reference}"));
    sender.close(LONG).unwrap();
    thread::scope(|scope| {
        let waits =
            scope.spawn(|| remote.send(&SendOptions::default(), Timeout::After(Duration::from_secs(10))).map(drop));
        thread::sleep(Duration::from_millis(300));
        assert!(!waits.is_finished(), "the one stream is in use");
        let killed = Instant::now();
        receiver.kill();
        assert_eq!(waits.join().unwrap(), Ok(()));
        assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    });
}

#[test]
fn a_gateway_waits_for_a_stream_that_it_is_to_bring() {
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let adapter = Adapter::create(&Attributes { streams: 1, ..Attributes::of(Mode::SenderSupplied) }, []).unwrap();
    let remote = remote(&adapter, &gateways);
    let supplied = adapter.supply().unwrap();
    let options = SendOptions::default();
    assert_eq!(remote.send(&options, NOW).map(drop), refused(stream::Error::Empty));
    let start = Instant::now();
    let short = Duration::from_millis(120);
    assert_eq!(remote.send(&options, Timeout::After(short)).map(drop), refused(stream::Error::Timeout));
    assert!(start.elapsed() >= short);
    thread::scope(|scope| {
        let waits = scope.spawn(|| remote.send(&options, LONG).map(drop));
        thread::sleep(Duration::from_millis(100));
        drop(supplied);
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
    adapter.receive(&ReceiveOptions::default(), LONG).unwrap().close(LONG).unwrap();
    let mut again = Err(stream::Error::Empty);
    until("the end of that conversation", || {
        again = adapter.supply();
        again.is_ok()
    });
    thread::scope(|scope| {
        let waits = scope.spawn(|| remote.send(&options, LONG).map(drop));
        thread::sleep(Duration::from_millis(100));
        adapter.destroy().unwrap();
        assert_eq!(waits.join().unwrap(), refused(stream::Error::Destroyed));
    });
}

#[test]
fn refusals_and_deadlines_are_those_of_streams_at_hand() {
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let adapter = adapter(Mode::Nominal);
    let far = remote(&adapter, &gateways);
    let after = |millis| Timeout::After(Duration::from_millis(millis));
    assert_eq!(far.receive(&ReceiveOptions::default(), NOW).map(drop), refused(stream::Error::Empty));
    let start = Instant::now();
    assert_eq!(far.receive(&ReceiveOptions::default(), after(120)).map(drop), refused(stream::Error::Timeout));
    assert!(start.elapsed() >= Duration::from_millis(120));
    let cut = SendOptions { may_be_cut: true, ..SendOptions::default() };
    let whole = SendOptions { buffered: true, ..cut };
    assert_eq!(far.send(&whole, NOW).map(drop), refused(stream::Error::NotBrief));
    let placed = SendOptions { placed_in: Some(4), ..SendOptions::default() };
    assert_eq!(far.send(&placed, NOW).map(drop), refused(stream::Error::UnknownPool(4)));
    assert_eq!((far.poll(), far.counts().map(|counts| counts.idle)), (Ok(false), Ok(8)));

    let mut sender = far.send(&cut, NOW).unwrap();
    assert_eq!(far.poll(), Ok(true));
    let reserved = stream::Error::ReservedArgument(u64::MAX);
    assert_eq!(sender.send(b"x", u64::MAX, NOW), refused(reserved));
    // A quarter of the ring goes whole or not at all.
    let chunk = long(900);
    let full = std::iter::repeat_with(|| sender.send(&chunk, 1, NOW)).find(Result::is_err);
    assert_eq!(full, Some(refused(stream::Error::Full)));
    assert_eq!(sender.send(&chunk, 1, after(60)), refused(stream::Error::Timeout));
    let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
    assert_eq!(receiver.receive(NOW).unwrap().bytes, chunk);
    // Of a message longer than the ring a part goes, and the rest when there is room.
    let bytes = long(20_000);
    let partly = sender.send(&bytes, 2, after(60)).unwrap_err();
    let Error::Stream(stream::Error::Partly { sent, len: 20_000 }) = partly else { panic!("{partly}") };
    assert!(sent > 0 && sent < 20_000);
    let read = thread::scope(|scope| {
        let read = scope.spawn(|| {
            let all = std::iter::repeat_with(|| receiver.receive(LONG).unwrap());
            let found = all.take_while(|message| message.arg != 3).last();
            receiver.close(LONG).unwrap();
            found
        });
        sender.flush(LONG).unwrap();
        sender.send(b"next", 3, LONG).unwrap();
        read.join().unwrap()
    });
    assert!(read.is_some_and(|message| message.bytes == bytes));
    assert_eq!(sender.send(b"x", 4, LONG), refused(stream::Error::Unheard));
    sender.close(LONG).unwrap();
    // A close that finds no room says so, if it was to try once.
    for (timeout, why) in [(NOW, stream::Error::Full), (after(60), stream::Error::Timeout)] {
        let mut near = adapter.send(&SendOptions::default(), NOW).unwrap();
        while near.send(&chunk, 1, NOW).is_ok() {}
        near.keep(&chunk, 1).unwrap();
        assert_eq!(near.close(timeout), Err(why.clone()));
        let mut sender = far.send(&SendOptions::default(), NOW).unwrap();
        while sender.send(&chunk, 1, NOW).is_ok() {}
        sender.keep(&chunk, 1).unwrap();
        assert_eq!(sender.close(timeout), refused(why));
    }
    while far.poll().unwrap() {
        adapter.receive(&ReceiveOptions::default(), NOW).unwrap().close(LONG).unwrap_err();
    }

    far.new_task().unwrap();
    assert_eq!(far.join_tasks(after(20)), refused(stream::Error::Timeout));
    adapter.task_done().unwrap();
    far.join_tasks(LONG).unwrap();
    assert_eq!(far.task_done(), refused(stream::Error::TaskCount));
    adapter.new_task().unwrap();
    far.task_done().unwrap();
    adapter.join_tasks(WaitMode::Idle, NOW).unwrap();

    assert_eq!(
        RemoteStreams::attach(&adapter.reference().unwrap(), &Gateways::new(secret()), LONG).map(drop),
        Err(Error::Local)
    );
    let mut waiting = far.send(&SendOptions::default(), NOW).unwrap();
    adapter.destroy().unwrap();
    assert_eq!(waiting.send(b"x", 0, LONG), refused(stream::Error::Destroyed));
    assert_eq!(far.receive(&ReceiveOptions::default(), LONG).map(drop), refused(stream::Error::Destroyed));
}

#[test]
fn a_client_that_dies_is_a_dead_end_and_its_stream_is_used_again() {
    let (server, address) = serve();
    let adapter = adapter(Mode::Nominal);
    let reference = umbra::reference::to_text(&adapter.reference().unwrap());
    let (mut client, _) = Another::start_ready(&format!("{} {reference}", text(&address)));
    let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
    assert_eq!(receiver.receive(LONG).unwrap().bytes, b"sent");
    client.kill();
    let killed = Instant::now();
    assert_eq!(receiver.receive(LONG), Err(stream::Error::PeerDead), "what was only kept does not come");
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    assert_eq!(receiver.close(LONG), Err(stream::Error::PeerDead));
    assert_eq!(adapter.counts().unwrap().idle, 8);
    until("the end of its line", || server.lines() == 0);
}

#[test]
fn a_gateway_that_dies_ends_its_conversations_at_both_ends() {
    let (mut agent, address) = start_gateway(ANYWHERE);
    let gateways = gateways(&address);
    let adapter = adapter(Mode::Nominal);
    let remote = remote(&adapter, &gateways);
    let mut sender = remote.send(&SendOptions::default(), LONG).unwrap();
    sender.send(b"sent", 1, LONG).unwrap();
    let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
    assert_eq!(receiver.receive(LONG).unwrap().arg, 1);
    agent.kill();
    assert_eq!(receiver.receive(LONG), Err(stream::Error::PeerDead));
    for _ in 0..2 {
        let lost = sender.send(b"lost", 2, LONG);
        assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}: it is not begun anew");
    }
    drop((sender, receiver));
    // What has no conversation is asked again.
    let _again = start_gateway(&text(&address));
    adapter.reap().unwrap();
    assert_eq!(remote.counts().unwrap().idle, 8);
}

#[test]
fn many_conversations_at_once_are_not_mixed() {
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let adapter = adapter(Mode::Nominal);
    let remote = remote(&adapter, &gateways);
    const EACH: u64 = 40;
    thread::scope(|scope| {
        for sender in 0..4_u64 {
            let remote = &remote;
            scope.spawn(move || {
                for conversation in 0..EACH {
                    let mut open = remote.send(&SendOptions::default(), LONG).unwrap();
                    for n in 0..conversation % 5 + 1 {
                        open.send(&[sender, conversation].map(u64::to_le_bytes).concat(), n, LONG).unwrap();
                    }
                    open.close(LONG).unwrap();
                }
            });
        }
        let receivers = [0, 1].map(|_| {
            scope.spawn(|| {
                let mut seen = Vec::new();
                for _ in 0..2 * EACH {
                    let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
                    let first = receiver.receive(LONG).unwrap();
                    let mut next = 1;
                    while let Ok(message) = receiver.receive(LONG) {
                        assert_eq!((&message.bytes, message.arg), (&first.bytes, next));
                        next += 1;
                    }
                    assert_eq!((first.arg, next), (0, u64::from(first.bytes[8]) % 5 + 1));
                    receiver.close(LONG).unwrap();
                    seen.push(first.bytes);
                }
                seen
            })
        });
        let mut all: Vec<Vec<u8>> = receivers.into_iter().flat_map(|one| one.join().unwrap()).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len() as u64, 4 * EACH, "each once");
    });
}
