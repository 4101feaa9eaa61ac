//! Channels of other hosts through a gateway: scenarios A51 to A56.
//!
//! This host is in disguise as another one.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;
mod gateways;

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use umbra::channel::{self, Attributes, Channel, Event, Kind, ReturnMode, SendOptions, Timeout, WaitMode};
use umbra::gateway::{Error, Gateways, RemoteChannel, Server};
use umbra::link::{Address, Listener};
use umbra::pool::{self, Pool};
use umbra::secret::Secret;
use umbra::sys::host;

use another::{Another, ready, until};
use gateways::{ANYWHERE, LONG, NOW, be_a_gateway, gateways, secret, serve, start_gateway, text};

fn channel(capacity: u32) -> Channel {
    let uid = umbra::uid::draw().unwrap();
    Channel::create(&Attributes { capacity, block: 256, uid, ..Attributes::default() }).unwrap()
}

fn remote(channel: &Channel, gateways: &Gateways) -> RemoteChannel {
    RemoteChannel::attach(&channel.reference().unwrap(), gateways, LONG).unwrap()
}

fn after(millis: u64) -> Timeout {
    Timeout::After(Duration::from_millis(millis))
}

fn refused<T>(error: channel::Error) -> Result<T, Error> {
    Err(Error::Channel(error))
}

/// What another process does; as a test of its own it does nothing.
#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    // Whose end is that of the channel.
    if role == "owns" {
        let channel = Channel::create_process_local(&Attributes::default()).unwrap();
        ready(umbra::reference::to_text(&channel.reference().unwrap()));
        return thread::sleep(Duration::from_secs(600));
    }
    // A client that waits for a message.
    let Some((address, reference)) = role.split_once(' ') else { return be_a_gateway(&role) };
    let gateways = gateways(&Address::Tcp(address.parse().unwrap()));
    let bytes = umbra::reference::from_text(reference).unwrap();
    let remote = RemoteChannel::attach(&bytes, &gateways, LONG).unwrap();
    let mut receiver = remote.receiver(LONG).unwrap();
    ready("waits");
    panic!("{:?}", receiver.receive(&mut [0; 256], Timeout::Never));
}

#[test]
fn a51_sends_and_receives_are_the_same_as_at_hand() {
    let (_server, address) = serve();
    let (gateways, channel) = (gateways(&address), channel(4));
    let remote = remote(&channel, &gateways);
    assert_eq!(
        (remote.uid(), remote.capacity(), remote.block(), remote.host()),
        (channel.uid().unwrap(), 4, 256, host::id())
    );
    let mut sender = remote.sender(SendOptions { client: u64::MAX, ..SendOptions::default() }, LONG).unwrap();
    let mut receiver = remote.receiver(LONG).unwrap();
    let (here, there) = (channel.sender(SendOptions::default()).unwrap(), channel.receiver(WaitMode::Idle).unwrap());
    let mut pad = [0; 300];
    for len in [0, 1, 255, 256] {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
        sender.send(&bytes, u64::MAX, NOW).unwrap();
        let message = there.receive(&mut pad, NOW).unwrap();
        assert_eq!((message.hints, message.client, message.handle), (u64::MAX, u64::MAX, sender.id()));
        assert_eq!(pad[..message.len], bytes);
        here.send(&bytes, 5, NOW).unwrap();
        assert_eq!(receiver.peek(&mut pad, NOW).unwrap().len, bytes.len());
        let message = receiver.receive(&mut pad, NOW).unwrap();
        assert_eq!((message.hints, message.handle, &pad[..message.len]), (5, here.id(), &bytes[..]));
    }
    assert_eq!(sender.send(&[0; 257], 0, NOW), refused(channel::Error::MessageTooLarge { len: 257, block: 256 }));
    assert_eq!(sender.send(&[0; 1 << 17], 0, NOW).unwrap_err().code(), "INVALID_ARGUMENT");
    assert_eq!(receiver.receive(&mut pad, NOW), refused(channel::Error::Empty));
    let start = Instant::now();
    assert_eq!(receiver.receive(&mut pad, after(120)), refused(channel::Error::Timeout));
    assert!(start.elapsed() >= Duration::from_millis(120));
    (0..4).for_each(|n| sender.send(b"fill", n, NOW).unwrap());
    assert_eq!(sender.send(b"", 0, NOW), refused(channel::Error::Full));
    assert_eq!(sender.send(b"", 0, after(20)), refused(channel::Error::Timeout));
    assert_eq!(receiver.receive(&mut [0; 2], NOW), refused(channel::Error::PadTooSmall { len: 4, pad: 2 }));
    assert_eq!(receiver.receive(&mut pad, NOW).unwrap().hints, 0, "it was kept");
    receiver.pop(NOW).unwrap();
    assert_eq!((remote.count().unwrap(), channel.count().unwrap()), (2, 2));

    // Returning on receipt, here as there.
    let on_receipt = SendOptions { returns: ReturnMode::Received, ..SendOptions::default() };
    let mut waiting = remote.sender(on_receipt, LONG).unwrap();
    assert_eq!(waiting.send(b"not yet", 0, after(80)), refused(channel::Error::NotReceived));
    thread::scope(|scope| {
        let sent = scope.spawn(|| waiting.send(b"at last", 9, LONG));
        until("the message", || channel.count().unwrap() == 4);
        assert!(!sent.is_finished());
        let hints = std::iter::from_fn(|| receiver.receive(&mut pad, NOW).ok()).map(|m| m.hints).last();
        assert_eq!(hints, Some(9));
        sent.join().unwrap().unwrap();
    });
    channel.destroy().unwrap();
    assert_eq!(sender.send(b"", 0, LONG), refused(channel::Error::Destroyed));
    assert_eq!(receiver.receive(&mut pad, LONG), refused(channel::Error::Destroyed));
}

#[test]
fn a51_a_wait_through_the_gateway_ends_when_what_is_waited_for_happens() {
    let (_server, address) = serve();
    let (gateways, channel) = (gateways(&address), channel(1));
    let remote = remote(&channel, &gateways);
    let mut receiver = remote.receiver(LONG).unwrap();
    let mut sender = remote.sender(SendOptions::default(), LONG).unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(move || receiver.receive(&mut [0; 256], Timeout::Never));
        let polled = scope.spawn(|| remote.poll(Event::Full, LONG));
        thread::sleep(Duration::from_millis(120));
        assert!(!received.is_finished() && !polled.is_finished());
        // The other one may have received it before anybody saw that the channel was full.
        sender.send(b"now", 4, LONG).unwrap();
        assert_eq!(received.join().unwrap().unwrap().hints, 4);
        sender.send(b"full", 5, LONG).unwrap();
        assert_eq!(polled.join().unwrap(), Ok(Event::Full as u64));
    });
}

#[test]
fn a_poll_through_the_gateway_sees_to_the_dead() {
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let (mut owner, reference) = Another::start_ready("owns");
    let bytes = umbra::reference::from_text(&reference).unwrap();
    let remote = RemoteChannel::attach(&bytes, &gateways, LONG).unwrap();
    // The line that the next one takes as well.
    assert_eq!(remote.poll(Event::In, NOW), refused(channel::Error::Timeout));
    owner.kill();
    assert_eq!(remote.poll(Event::In, LONG), refused(channel::Error::Destroyed));
}

#[test]
fn a_release_through_the_gateway_waits_for_room_as_long_as_it_says() {
    let (_server, address) = serve();
    let (gateways, channel) = (gateways(&address), channel(2));
    let mut party = remote(&channel, &gateways).barrier(LONG).unwrap();
    let barrier = channel.barrier().unwrap();
    assert_eq!((barrier.count_in(WaitMode::Idle, NOW), party.count_in(LONG)), (Ok(false), Ok(true)));
    // Messages of somebody else are where those of the parties should be.
    let (sender, receiver) =
        (channel.sender(SendOptions::default()).unwrap(), channel.receiver(WaitMode::Idle).unwrap());
    (0..2).for_each(|n| sender.send(b"", n, NOW).unwrap());
    thread::scope(|scope| {
        let released = scope.spawn(|| party.release(LONG));
        // Longer than a gateway waits before it looks whether its client is there.
        thread::sleep(Duration::from_millis(200));
        assert!(!barrier.is_broken());
        (0..2).for_each(|_| receiver.pop(LONG).unwrap());
        assert_eq!(released.join().unwrap(), Ok(()));
    });
    let mut told = [0; 8];
    receiver.receive(&mut told, LONG).unwrap();
    assert_eq!((u64::from_le_bytes(told), party.number(LONG)), (0, Ok(Some(1))));
}

#[test]
fn a51_every_event_has_the_answer_that_it_has_at_hand() {
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let channel = channel(4);
    let far = remote(&channel, &gateways);
    let events = [
        Event::In,
        Event::Out,
        Event::InOut,
        Event::Empty,
        Event::Full,
        Event::Size,
        Event::Capacity,
        Event::BarrierIsBroken,
        Event::BarrierWaiters,
        Event::BlockedReceivers,
        Event::SemaphoreCount,
        Event::SemaphoreAcquire,
    ];
    let sender = channel.sender(SendOptions::default()).unwrap();
    for fill in 0..=4 {
        for event in events {
            let here = channel.poll(event, WaitMode::Idle, NOW).map_err(Error::Channel);
            assert_eq!(far.poll(event, NOW), here, "{event:?} of {fill}");
        }
        let _ = sender.send(b"", 0, NOW);
    }
    far.poll(Event::BarrierAbort, NOW).unwrap();
    assert_eq!(far.poll(Event::BarrierIsBroken, NOW), Ok(1));
    far.poll(Event::Reset, NOW).unwrap();
    assert_eq!((far.poll(Event::BarrierIsBroken, NOW), channel.count().unwrap()), (Ok(0), 0));

    let attributes = Attributes { kind: Kind::Semaphore { initial: 1, bounded: true }, ..Attributes::default() };
    let semaphore = Channel::create(&attributes).unwrap();
    let far = remote(&semaphore, &gateways);
    assert_eq!(far.poll(Event::SemaphoreRelease, NOW), refused(channel::Error::SemaphoreFull));
    assert_eq!(far.poll(Event::SemaphoreAcquire, NOW), Ok(1));
    assert_eq!(far.poll(Event::SemaphoreAcquire, after(20)), refused(channel::Error::Timeout));
    far.poll(Event::SemaphoreZero, LONG).unwrap();
    let mut receiver = far.receiver(LONG).unwrap();
    assert_eq!(receiver.receive(&mut [0; 8], NOW), refused(channel::Error::WrongKind));
}

#[test]
fn a51_a_channel_in_a_pool_sends_what_is_longer_than_a_block_through_it() {
    let (_server, address) = serve();
    let gateways = gateways(&address);
    let pool =
        Arc::new(Pool::create(None, &pool::Attributes { bytes: 1 << 20, ..pool::Attributes::default() }).unwrap());
    let channel = Channel::create_in(&pool, &Attributes { block: 256, ..Attributes::default() }).unwrap();
    let remote = remote(&channel, &gateways);
    let (mut sender, mut receiver) =
        (remote.sender(SendOptions::default(), LONG).unwrap(), remote.receiver(LONG).unwrap());
    let bytes: Vec<u8> = (0..50_000_u32).map(|at| (at * 7) as u8).collect();
    let mut pad = vec![0; bytes.len()];
    sender.send(&bytes, 1, LONG).unwrap();
    assert_eq!(receiver.receive(&mut pad, LONG).unwrap().len, bytes.len());
    assert_eq!((&pad, pool.blocks().count()), (&bytes, 1), "only the channel is left in the pool");
    // And what the pool refuses is refused as at hand.
    let all: Vec<_> = std::iter::from_fn(|| pool.alloc(bytes.len() as u64, 0).ok()).collect();
    let near = channel.sender(SendOptions::default()).unwrap().send(&bytes, 2, NOW).unwrap_err();
    assert!(matches!(near, channel::Error::Pool(_)), "{near:?}");
    assert_eq!(sender.send(&bytes, 2, NOW), refused(near));
    assert_eq!(sender.send(&bytes, 2, after(120)), refused(channel::Error::Timeout));
    all.into_iter().for_each(|block| block.free().unwrap());
    sender.send(&bytes, 3, LONG).unwrap();
    assert_eq!(receiver.receive(&mut pad, LONG).unwrap().hints, 3);
}

#[test]
fn a52_gateways_are_registered_once_and_found_by_their_host() {
    let gateways = Gateways::new(secret()).masquerading();
    let (channel, here) = (channel(1), host::id());
    let bytes = channel.reference().unwrap();
    let attach = |gateways| RemoteChannel::attach(&bytes, gateways, LONG).map(drop);
    let none = attach(&gateways).unwrap_err();
    assert_eq!((&none, none.code()), (&Error::NoGateway(here), "CHANNEL_NO_GATEWAYS"));
    let unknown = gateways.unregister(here).unwrap_err();
    assert_eq!((&unknown, unknown.code()), (&Error::NotRegistered(here), "CHANNEL_GATEWAY_NOT_REGISTERED"));
    let (_server, address) = serve();
    gateways.register(here, address.clone()).unwrap();
    let again = gateways.register(here, address.clone()).unwrap_err();
    assert_eq!((&again, again.code()), (&Error::AlreadyRegistered(here), "CHANNEL_GATEWAY_ALREADY_REGISTERED"));
    attach(&gateways).unwrap();
    gateways.discard();
    assert_eq!(attach(&gateways), Err(Error::NoGateway(here)));
    // Without a disguise a channel of this host needs none.
    let plain = Gateways::new(secret());
    plain.register(here, address.clone()).unwrap();
    assert_eq!(attach(&plain), Err(Error::Local));
    // Who does not hold the secret is not served.
    let stranger = Gateways::new(Secret::from_bytes([8; 32])).masquerading();
    stranger.register(here, address.clone()).unwrap();
    assert!(matches!(attach(&stranger), Err(Error::Lost { .. })), "{:?}", attach(&stranger));
    // And what is over is over at the other end, too.
    gateways.register(here, address).unwrap();
    channel.destroy().unwrap();
    assert_eq!(attach(&gateways), refused(channel::Error::Destroyed));
}

#[test]
fn a53_a_killed_gateway_is_an_error_for_all_who_wait_and_a_new_one_serves_them() {
    let (mut agent, address) = start_gateway(ANYWHERE);
    let (gateways, channel) = (gateways(&address), channel(4));
    let remote = remote(&channel, &gateways);
    let mut receivers: Vec<_> = (0..10).map(|_| remote.receiver(LONG).unwrap()).collect();
    thread::scope(|scope| {
        let waiting: Vec<_> =
            receivers.iter_mut().map(|receiver| scope.spawn(|| receiver.receive(&mut [0; 256], LONG))).collect();
        until("ten requests", || channel.poll(Event::BlockedReceivers, WaitMode::Idle, NOW) == Ok(10));
        agent.kill();
        let killed = Instant::now();
        for receiver in waiting {
            let lost = receiver.join().unwrap();
            assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
        }
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    });
    // Nothing waits for a gateway that is not there, longer than it was told to.
    assert!(receivers[0].receive(&mut [0; 256], after(100)).is_err());
    let _again = start_gateway(&text(&address));
    channel.sender(SendOptions::default()).unwrap().send(b"still here", 6, LONG).unwrap();
    assert_eq!(receivers[0].receive(&mut [0; 256], LONG).unwrap().hints, 6);
    assert_eq!(remote.count(), Ok(0));
}

#[test]
fn a_gateway_that_is_not_reached_in_time_is_named() {
    // It is there, and says nothing.
    let silent = TcpListener::bind(ANYWHERE).unwrap();
    let (gateways, channel) = (gateways(&Address::Tcp(silent.local_addr().unwrap())), channel(4));
    let late = RemoteChannel::attach(&channel.reference().unwrap(), &gateways, after(100)).map(drop).unwrap_err();
    assert_eq!((&late, late.code()), (&Error::Unreached(host::id()), "TIMEOUT"));
}

#[test]
fn a_gateway_that_is_reached_late_waits_for_what_is_left() {
    let (server, address) = serve();
    let (gateways, channel) = (gateways(&address), channel(1));
    let remote = remote(&channel, &gateways);
    remote.send(b"fills it", 0, LONG).unwrap();
    drop(server);
    let late = TcpListener::bind(ANYWHERE).unwrap();
    gateways.discard();
    gateways.register(host::id(), Address::Tcp(late.local_addr().unwrap())).unwrap();
    thread::scope(|scope| {
        let sent = scope.spawn(|| remote.send(b"", 1, after(7_000)));
        thread::sleep(Duration::from_millis(3_500));
        let _server = Server::start(Listener::Tcp(late), secret()).unwrap();
        // It would be silent if the gateway waited for seven seconds from now on.
        assert_eq!(sent.join().unwrap(), refused(channel::Error::Timeout));
    });
    assert_eq!(channel.count(), Ok(1));
}

#[test]
fn threads_that_share_a_channel_of_another_host_do_not_wait_for_each_other() {
    let (_server, address) = serve();
    let (gateways, channel) = (gateways(&address), channel(4));
    let remote = remote(&channel, &gateways);
    thread::scope(|scope| {
        let received = scope.spawn(|| remote.receive(&mut [0; 256], LONG).map(|message| message.hints));
        let polled = scope.spawn(|| remote.poll(Event::Full, LONG));
        until("the receiver", || remote.poll(Event::BlockedReceivers, NOW) == Ok(1));
        (0..5).for_each(|n| remote.send(&[n as u8], n, LONG).unwrap());
        assert_eq!(received.join().unwrap(), Ok(0));
        assert!(polled.join().unwrap().is_ok());
        assert_eq!(remote.peek(&mut [0; 256], NOW).map(|message| message.hints), Ok(1));
        // As many calls as there are lines wait; another one waits for its turn no longer than for an answer.
        remote.poll(Event::Reset, NOW).unwrap();
        for _ in 0..16 {
            scope.spawn(|| remote.receive(&mut [0; 256], LONG).unwrap());
        }
        until("all receivers", || channel.poll(Event::BlockedReceivers, WaitMode::Idle, NOW) == Ok(16));
        let busy = remote.send(b"", 0, NOW).unwrap_err();
        assert_eq!((&busy, busy.code()), (&Error::Busy(host::id()), "TIMEOUT"));
        let sender = channel.sender(SendOptions::default()).unwrap();
        (0..16).for_each(|n| sender.send(&[n as u8], n, LONG).unwrap());
    });
    remote.send(b"", 0, NOW).unwrap();
}

#[test]
fn a54_the_request_of_a_killed_client_ends_with_it() {
    let (server, address) = serve();
    let channel = channel(4);
    let reference = umbra::reference::to_text(&channel.reference().unwrap());
    let (mut client, _) = Another::start_ready(&format!("{} {reference}", text(&address)));
    let waiting = || channel.poll(Event::BlockedReceivers, WaitMode::Idle, NOW).unwrap();
    until("the request", || waiting() == 1);
    client.kill();
    let killed = Instant::now();
    until("its end", || waiting() == 0 && server.lines() == 0);
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    channel.sender(SendOptions::default()).unwrap().send(b"nobody took it", 0, NOW).unwrap();
    assert_eq!(channel.count(), Ok(1));
}

#[test]
fn a55_an_answer_that_comes_too_late_is_nobodys() {
    let (agent, address) = start_gateway(ANYWHERE);
    let (gateways, channel) = (gateways(&address), channel(4));
    let remote = remote(&channel, &gateways);
    let mut receiver = remote.receiver(LONG).unwrap();
    agent.signal(Signal::STOP);
    let start = Instant::now();
    let silent = receiver.receive(&mut [0; 256], after(100)).unwrap_err();
    assert_eq!(silent.code(), "CHANNEL_GATEWAY_TRANSPORT_WAIT_TIMEOUT");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    agent.signal(Signal::CONT);
    // What it asked for then is not answered to what it asks for now.
    let sender = channel.sender(SendOptions::default()).unwrap();
    until("the end of what nobody waits for", || channel.poll(Event::BlockedReceivers, WaitMode::Idle, NOW) == Ok(0));
    let (mut in_time, mut late) = (0, 0);
    for n in 0.. {
        sender.send(b"in time", n, NOW).unwrap();
        match receiver.receive(&mut [0; 256], after(5_000)) {
            Ok(message) => {
                assert_eq!(message.hints, n);
                in_time += 1;
            }
            // The gateway may come to the old request only now, which takes one at most.
            Err(error) => {
                assert!(error == Error::Channel(umbra::channel::Error::Timeout) && late == 0, "{error}");
                late += 1;
            }
        }
        if in_time == 3 {
            break;
        }
    }
}

#[test]
fn a56_messages_of_one_handle_arrive_in_order_and_others_between_them() {
    const COUNTS: [u64; 2] = [100_000, 20_000];
    let (_server, address) = serve();
    let (gateways, channel) = (gateways(&address), channel(64));
    let remote = remote(&channel, &gateways);
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    thread::scope(|scope| {
        for (client, count) in (0..).zip(COUNTS) {
            let mut sender = remote.sender(SendOptions { client, ..SendOptions::default() }, LONG).unwrap();
            scope.spawn(move || (0..count).for_each(|n| sender.send(&n.to_le_bytes(), n, LONG).unwrap()));
        }
        let (mut next, mut changes, mut last) = ([0; 2], 0, None);
        for _ in 0..COUNTS.iter().sum() {
            let mut pad = [0; 8];
            let message = receiver.receive(&mut pad, LONG).unwrap();
            let expected = &mut next[usize::try_from(message.client).unwrap()];
            assert_eq!((message.hints, u64::from_le_bytes(pad)), (*expected, *expected));
            *expected += 1;
            changes += u64::from(last.replace(message.client) != Some(message.client));
        }
        assert_eq!(next, COUNTS);
        assert!(changes > 100, "the handles do not wait for each other: {changes} changes");
    });
}
