//! The dead, as they are found by those who wait again and again, never long.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;

use std::thread;
use std::time::Duration;

use another::{Another, ready, until};
use umbra::channel::{Attributes, Channel, ChannelSet, Error, Event, Kind, ReturnMode, SendOptions, Timeout, WaitMode};
use umbra::reference::{from_text, to_text};
use umbra::stream::{self, Adapter, Mode, ReceiveOptions};
use umbra_core::barrier::BROKEN_NUMBER;

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
const LONG: Timeout = Timeout::After(Duration::from_secs(60));
const IDLE: WaitMode = WaitMode::Idle;
/// What a caller has who does other things in between.
const SHORT: [Timeout; 3] =
    [Timeout::Now, Timeout::After(Duration::from_nanos(1)), Timeout::After(Duration::from_millis(100))];

/// What another process does, until it is killed; as a test of its own it does nothing.
#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    let (what, reference) = role.split_once(' ').unwrap();
    let channel = || Channel::attach_reference(&from_text(reference).unwrap()).unwrap();
    let adapter = || Adapter::attach_reference(&from_text(reference).unwrap(), []).unwrap();
    let stay = |word: &str| {
        ready(word);
        thread::sleep(Duration::from_secs(600));
    };
    match what {
        "write" => {
            let channel = channel();
            let sender = channel.sender(SendOptions::default()).unwrap();
            let _writing = sender.write(10, LONG).unwrap();
            stay("writes");
        }
        "come" => {
            let channel = channel();
            assert!(channel.barrier().unwrap().count_in(IDLE, Timeout::Now).unwrap());
            stay("is the last one");
        }
        "release" => {
            let channel = channel();
            // Takes the place of a number, so that there is no room for the last one.
            channel.sender(SendOptions::default()).unwrap().send(b"in the way", 0, LONG).unwrap();
            ready("releases");
            panic!("{:?}", channel.barrier().unwrap().release(Timeout::Never));
        }
        "own" => {
            let semaphore = Kind::Semaphore { initial: 0, bounded: false };
            let kind = if reference == "semaphore" { semaphore } else { Kind::Messages };
            let attributes = Attributes { kind, capacity: 1000, ..Attributes::default() };
            let owned = Channel::create_process_local(&attributes).unwrap();
            stay(&to_text(&owned.reference().unwrap()));
        }
        "keep" => {
            let adapter = adapter();
            let _kept: Vec<_> = std::iter::from_fn(|| adapter.supply().ok()).collect();
            stay("keeps all");
        }
        "talk" => {
            let adapter = adapter();
            let mut sender = adapter.send(&stream::SendOptions::default(), LONG).unwrap();
            sender.send(b"begun", 0, LONG).unwrap();
            stay("talks");
        }
        "listen" => {
            let adapter = adapter();
            let _receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
            stay("listens");
        }
        what => panic!("nobody does {what}"),
    }
}

fn start(what: &str, reference: &[u8]) -> Another {
    Another::start_ready(&format!("{what} {}", to_text(reference))).0
}

#[test]
fn a_channel_whose_places_dead_senders_hold_takes_a_message() {
    for timeout in SHORT {
        let attributes = Attributes { capacity: 1, block: 256, spares: 2, ..Attributes::default() };
        let channel = Channel::create(&attributes).unwrap();
        let reference = channel.reference().unwrap();
        let mut senders: Vec<_> = (0..3).map(|_| start("write", &reference)).collect();
        let send = || channel.sender(SendOptions::default()).unwrap().send(b"", 0, timeout);
        assert!(matches!(send(), Err(Error::Full | Error::Timeout)));
        senders.iter_mut().for_each(Another::kill);
        until("room", || send().is_ok());
    }
}

#[test]
fn a_process_local_semaphore_whose_owner_was_killed_is_destroyed() {
    for timeout in SHORT {
        let (mut owner, reference) = Another::start_ready("own semaphore");
        let channel = Channel::attach_reference(&from_text(&reference).unwrap()).unwrap();
        let acquire = || channel.semaphore().unwrap().acquire(IDLE, timeout);
        assert_eq!(acquire(), Err(Error::Timeout));
        owner.kill();
        until("the end of the channel", || acquire() == Err(Error::Destroyed));
    }
}

#[test]
fn who_sends_in_vain_to_a_channel_whose_owner_was_killed_learns_of_its_end() {
    let (mut owner, reference) = Another::start_ready("own messages");
    let channel = Channel::attach_reference(&from_text(&reference).unwrap()).unwrap();
    let options = SendOptions { returns: ReturnMode::Received, ..SendOptions::default() };
    let send = || channel.sender(options).unwrap().send(b"", 0, Timeout::Now);
    assert_eq!(send(), Err(Error::NotReceived));
    owner.kill();
    until("the end of the channel", || {
        // Seldom enough that it is not full before this gives up.
        thread::sleep(Duration::from_millis(100));
        send() == Err(Error::Destroyed)
    });
}

#[test]
fn parties_of_a_barrier_whose_last_one_was_killed_learn_of_it_however_they_ask() {
    let ask = |channel: &Channel, way: u32, timeout: Timeout| match way {
        0 => channel.poll(Event::In, IDLE, timeout).is_ok(),
        1 => ChannelSet::new([channel], Event::In).unwrap().poll(IDLE, timeout).is_ok(),
        _ => channel.receiver(IDLE).unwrap().peek(&mut [], timeout).is_ok(),
    };
    for (way, timeout) in [0, 1, 2].into_iter().flat_map(|way| SHORT.map(|timeout| (way, timeout))) {
        let channel = Channel::create(&Attributes { capacity: 2, block: 256, ..Attributes::default() }).unwrap();
        assert!(!channel.barrier().unwrap().count_in(IDLE, Timeout::Now).unwrap());
        let mut last = start("come", &channel.reference().unwrap());
        assert!(!ask(&channel, way, timeout));
        last.kill();
        until("what the party is owed", || ask(&channel, way, timeout));
        let mut told = [0; 8];
        channel.receiver(IDLE).unwrap().receive(&mut told, Timeout::Now).unwrap();
        assert_eq!(u64::from_le_bytes(told), BROKEN_NUMBER);
    }
}

#[test]
fn who_would_release_a_barrier_in_place_of_a_killed_process_learns_that_it_is_broken() {
    for timeout in SHORT {
        let channel = Channel::create(&Attributes { capacity: 2, block: 256, ..Attributes::default() }).unwrap();
        let barrier = channel.barrier().unwrap();
        for is_last in [false, true] {
            assert_eq!(barrier.count_in(IDLE, Timeout::Now), Ok(is_last));
        }
        let mut releases = start("release", &channel.reference().unwrap());
        until("a full channel", || channel.count() == Ok(2));
        assert_eq!(barrier.release(timeout), Err(Error::BarrierTryAgain));
        releases.kill();
        until("a broken barrier", || barrier.release(timeout) == Err(Error::BarrierBroken));
    }
}

#[test]
fn streams_that_a_dead_process_kept_can_be_kept_again() {
    let adapter = Adapter::create(&stream::Attributes::of(Mode::SenderSupplied), []).unwrap();
    let mut keeper = start("keep", &adapter.reference().unwrap());
    assert!(adapter.supply().is_err());
    keeper.kill();
    until("a stream", || adapter.supply().is_ok());
}

#[test]
fn an_adapter_of_which_a_dead_process_had_all_is_not_full() {
    let attributes = stream::Attributes { messages: 0, ..stream::Attributes::of(Mode::SenderSupplied) };
    let adapter = Adapter::create(&attributes, []).unwrap();
    let mut keeper = start("keep", &adapter.reference().unwrap());
    assert_eq!(adapter.is_full(), Ok(true));
    keeper.kill();
    until("a stream", || adapter.is_full() == Ok(false));
}

#[test]
fn who_speaks_with_a_dead_process_learns_of_it() {
    for timeout in SHORT {
        let adapter = Adapter::create(&stream::Attributes::default(), []).unwrap();
        let reference = adapter.reference().unwrap();
        let mut talks = start("talk", &reference);
        let mut receiver = adapter.receive(&ReceiveOptions::default(), LONG).unwrap();
        assert_eq!(receiver.receive(LONG).unwrap().bytes, b"begun");
        talks.kill();
        until("the end of the sender", || receiver.receive(timeout) == Err(stream::Error::PeerDead));

        let mut sender = adapter.send(&stream::SendOptions::default(), LONG).unwrap();
        let mut listens = start("listen", &reference);
        listens.kill();
        until("the end of the receiver", || sender.send(b"heard?", 0, timeout) == Err(stream::Error::PeerDead));
    }
}
