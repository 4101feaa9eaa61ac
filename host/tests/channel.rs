//! Channels as processes use them: scenarios A29 to A50.
//!
//! The messages are copied, or filled in place.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use umbra::channel::{
    Attributes, Channel, ChannelSet, Error, Event, Kind, Ready, ReturnMode, SendOptions, Timeout, WaitMode,
};
use umbra_core::crew::MOST;

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
const LONG: Timeout = Timeout::After(Duration::from_secs(60));
/// How often each of eight processes takes one of three from a semaphore, and gives it back.
const COUNTS: u32 = 100_000;
const MODES: [WaitMode; 3] = [WaitMode::Idle, WaitMode::Spin, WaitMode::Adaptive];

fn channel(capacity: u32) -> Channel {
    Channel::create(&Attributes { capacity, block: 256, ..Attributes::default() }).unwrap()
}

/// The same channel, as another member has it.
fn another(channel: &Channel) -> Channel {
    Channel::attach(channel.share().unwrap()).unwrap()
}

fn after(millis: u64) -> Timeout {
    Timeout::After(Duration::from_millis(millis))
}

/// A process that does what `ROLE` says with a channel, until it is killed.
struct Actor(Child);

impl Actor {
    fn start(role: &str, channel: &Channel) -> Actor {
        let me = std::env::current_exe().unwrap();
        let mut command = Command::new(me);
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]).env("UMBRA_TEST_ROLE", role);
        Actor(command.stdin(Stdio::from(channel.share().unwrap())).stdout(Stdio::null()).spawn().unwrap())
    }
    /// Waits until it has done what it was told.
    fn finish(&mut self) {
        let start = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(120), "it does not end");
            thread::sleep(Duration::from_millis(1));
        }
        assert!(self.0.wait().unwrap().success(), "it saw something impossible");
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn kill(&mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "it saw something impossible");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What an actor does; as a test of its own it does nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var("UMBRA_TEST_ROLE") else { return };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let channel = Channel::attach(std::io::stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
    let receiver = |mode| channel.receiver(mode).unwrap();
    match role.as_str() {
        "receive-idle" => drop(receiver(WaitMode::Idle).receive(&mut [0; 256], Timeout::Never)),
        "receive-spin" => drop(receiver(WaitMode::Spin).receive(&mut [0; 256], Timeout::Never)),
        "receive-adaptive" => drop(receiver(WaitMode::Adaptive).receive(&mut [0; 256], Timeout::Never)),
        "keep" => {
            let receiver = receiver(WaitMode::Idle);
            let _kept = receiver.take(LONG).unwrap();
            let sender = channel.sender(SendOptions::default()).unwrap();
            let _unsent = sender.write(10, LONG).unwrap();
            thread::sleep(Duration::from_secs(600));
        }
        "die" => std::process::abort(),
        "count" => {
            let semaphore = channel.semaphore().unwrap();
            for _ in 0..COUNTS {
                assert!((1..=3).contains(&semaphore.acquire(WaitMode::Adaptive, LONG).unwrap()));
                semaphore.release().unwrap();
            }
            return;
        }
        "hold" => {
            channel.semaphore().unwrap().acquire(WaitMode::Idle, LONG).unwrap();
            thread::sleep(Duration::from_secs(600));
        }
        "barrier" => drop(channel.barrier().unwrap().wait(WaitMode::Idle, Timeout::Never)),
        "echo" => {
            let (receiver, sender) = (receiver(WaitMode::Adaptive), channel.sender(SendOptions::default()).unwrap());
            let mut pad = [0; 256];
            let message = receiver.receive(&mut pad, LONG).unwrap();
            sender.send(&pad[..message.len], message.hints, LONG).unwrap();
        }
        role => panic!("no role is called {role}"),
    }
    panic!("nothing ends this actor but a kill");
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a29_hints_and_client_ids_arrive_unchanged() {
    let channel = channel(4);
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    for value in [u64::MAX, 0, 1 << 63] {
        let sender = channel.sender(SendOptions { client: value, ..SendOptions::default() }).unwrap();
        sender.send(b"x", value, Timeout::Now).unwrap();
        let message = receiver.receive(&mut [0; 1], Timeout::Now).unwrap();
        assert_eq!((message.hints, message.client, message.handle), (value, value, sender.id()));
    }
}

#[test]
fn a30_messages_of_every_length_up_to_a_block_arrive_and_longer_ones_are_refused() {
    let channel = channel(2);
    let (sender, receiver) =
        (channel.sender(SendOptions::default()).unwrap(), channel.receiver(WaitMode::Idle).unwrap());
    let bytes: Vec<u8> = (0..=255).collect();
    for len in [0, 1, 7, 255, 256] {
        sender.send(&bytes[..len], 0, Timeout::Now).unwrap();
        let mut pad = [0; 300];
        assert_eq!(receiver.receive(&mut pad, Timeout::Now).unwrap().len, len);
        assert_eq!(pad[..len], bytes[..len]);
    }
    assert_eq!(sender.send(&[0; 257], 0, Timeout::Now), Err(Error::MessageTooLarge { len: 257, block: 256 }));
    let writing = sender.write(3, Timeout::Now).unwrap();
    writing.bytes().write(0, b"abc").unwrap();
    writing.send(5, Timeout::Now).unwrap();
    drop(sender.write(3, Timeout::Now).unwrap());
    let taken = receiver.take(Timeout::Now).unwrap();
    let mut copy = [0; 3];
    taken.bytes().read(0, &mut copy).unwrap();
    assert_eq!((&copy, taken.message().hints), (b"abc", 5));
    assert_eq!(receiver.pop(Timeout::Now), Err(Error::Empty), "a message that was not sent is none");
}

#[test]
fn a31_a_full_channel_refuses_times_out_and_has_room_after_a_receive() {
    for capacity in [1, 4, 100] {
        let channel = channel(capacity);
        let sender = channel.sender(SendOptions::default()).unwrap();
        (0..capacity).for_each(|n| sender.send(b"", n.into(), Timeout::Now).unwrap());
        let full = sender.send(b"", 0, Timeout::Now).unwrap_err();
        assert_eq!((&full, full.code()), (&Error::Full, "CHANNEL_FULL"));
        assert_eq!(sender.send(b"", 0, Timeout::After(Duration::from_nanos(1))), Err(Error::Timeout));
        let start = Instant::now();
        assert_eq!(sender.send(b"", 0, after(100)), Err(Error::Timeout));
        assert!(start.elapsed() >= Duration::from_millis(100));
        let receiver = channel.receiver(WaitMode::Idle).unwrap();
        assert_eq!(receiver.receive(&mut [], Timeout::Now).unwrap().hints, 0);
        sender.send(b"", capacity.into(), Timeout::Now).unwrap();
        let rest: Vec<u64> =
            std::iter::from_fn(|| receiver.receive(&mut [], Timeout::Now).ok()).map(|message| message.hints).collect();
        assert_eq!(rest, (1..=u64::from(capacity)).collect::<Vec<_>>(), "nothing is lost");
    }
}

#[test]
fn what_was_written_in_place_waits_for_room_and_comes_back_if_there_is_none() {
    let channel = Channel::create(&Attributes { capacity: 1, block: 256, spares: 2, ..Attributes::default() }).unwrap();
    let sender = channel.sender(SendOptions::default()).unwrap();
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    let received = || receiver.receive(&mut [0; 1], LONG).unwrap().hints;
    sender.send(b"1", 1, Timeout::Now).unwrap();
    // There is memory for another message, and no room for it.
    let writing = sender.write(1, LONG).unwrap();
    writing.bytes().write(0, b"2").unwrap();
    let unsent = writing.send(2, Timeout::Now).unwrap_err();
    assert_eq!(unsent.error, Error::Full);
    let unsent = unsent.writing.unwrap().send(2, after(20)).unwrap_err();
    assert_eq!((unsent.to_string(), Error::Timeout), (Error::Timeout.to_string(), unsent.error));
    let writing = unsent.writing.unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            assert_eq!(received(), 1);
        });
        writing.send(2, LONG).unwrap();
    });
    let mut pad = [0];
    assert_eq!((receiver.receive(&mut pad, Timeout::Now).unwrap().hints, pad), (2, *b"2"));
    // It returns when the handle says so; what was sent does not come back.
    let careful = channel.sender(SendOptions { returns: ReturnMode::Received, ..SendOptions::default() }).unwrap();
    let unsent = careful.write(1, Timeout::Now).unwrap().send(3, after(20)).unwrap_err();
    assert!(unsent.writing.is_none() && Error::from(unsent) == Error::NotReceived);
    assert_eq!(received(), 3);
    // Nor does a channel take a message that was destroyed while it was written.
    let writing = sender.write(1, Timeout::Now).unwrap();
    channel.destroy().unwrap();
    let unsent = writing.send(4, LONG).unwrap_err();
    assert_eq!((&unsent.error, unsent.writing.is_some()), (&Error::Destroyed, true));
}

#[test]
fn a32_an_empty_channel_refuses_and_times_out() {
    let channel = channel(1);
    for mode in MODES {
        let receiver = channel.receiver(mode).unwrap();
        let mut pad = [0; 8];
        let empty = receiver.receive(&mut pad, Timeout::from(Duration::ZERO)).unwrap_err();
        assert_eq!((&empty, empty.code()), (&Error::Empty, "CHANNEL_EMPTY"));
        for nanos in [1, 5000] {
            let timeout = Timeout::After(Duration::from_nanos(nanos));
            assert_eq!(receiver.receive(&mut pad, timeout).unwrap_err().code(), "TIMEOUT");
            assert_eq!(receiver.peek(&mut pad, timeout), Err(Error::Timeout));
            assert_eq!(receiver.pop(timeout), Err(Error::Timeout));
        }
    }
}

#[test]
fn a33_four_senders_and_four_receivers_keep_order_and_lose_nothing() {
    const EACH: u64 = 5_000;
    let channel = channel(8);
    let received = thread::scope(|scope| {
        for client in 0..4 {
            let sender = channel.sender(SendOptions { client, ..SendOptions::default() }).unwrap();
            scope.spawn(move || (0..EACH).for_each(|n| sender.send(&n.to_le_bytes(), n, LONG).unwrap()));
        }
        let receive = || {
            let receiver = channel.receiver(WaitMode::Adaptive).unwrap();
            let mut next = [0; 4];
            for _ in 0..EACH {
                let mut pad = [0; 8];
                let message = receiver.receive(&mut pad, LONG).unwrap();
                assert_eq!(u64::from_le_bytes(pad), message.hints);
                assert!(message.hints >= next[message.client as usize], "out of order");
                next[message.client as usize] = message.hints + 1;
            }
            EACH
        };
        let receivers: Vec<_> = (0..4).map(|_| scope.spawn(receive)).collect();
        receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum::<u64>()
    });
    assert_eq!((received, channel.count().unwrap()), (4 * EACH, 0));
}

#[test]
fn a34_a_message_that_does_not_fit_stays_the_first() {
    let channel = channel(2);
    let sender = channel.sender(SendOptions::default()).unwrap();
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    sender.send(b"first", 1, Timeout::Now).unwrap();
    sender.send(b"2", 2, Timeout::Now).unwrap();
    let small = receiver.receive(&mut [0; 4], LONG).unwrap_err();
    assert_eq!(small, Error::PadTooSmall { len: 5, pad: 4 });
    assert_eq!((small.code(), channel.count()), ("CHANNEL_RECV_INVALID_DESTINATION_MEMORY", Ok(2)));
    assert_eq!(receiver.receive(&mut [0; 5], LONG).unwrap().hints, 1);
}

#[test]
fn a40_killed_waiters_delay_no_send_and_what_the_dead_held_comes_back() {
    for role in ["receive-idle", "receive-spin", "receive-adaptive"] {
        let channel = channel(4);
        let sender = channel.sender(SendOptions::default()).unwrap();
        let mut actor = Actor::start(role, &channel);
        until("a blocked receiver", || channel.poll(Event::BlockedReceivers, WaitMode::Idle, Timeout::Now) == Ok(1));
        actor.kill();
        (0..3).for_each(|_| sender.send(b"", 0, Timeout::Now).unwrap());
        assert_eq!(channel.reap(), Ok(1));
        assert_eq!(channel.poll(Event::BlockedReceivers, WaitMode::Idle, Timeout::Now), Ok(0));
    }
    let channel = Channel::create(&Attributes { capacity: 1, block: 256, spares: 1, ..Attributes::default() }).unwrap();
    let sender = channel.sender(SendOptions::default()).unwrap();
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    sender.send(b"kept", 0, LONG).unwrap();
    let mut actor = Actor::start("keep", &channel);
    // It holds two places of two: a message that it received, and one that it writes. A kill frees both.
    until("the message received", || channel.count() == Ok(0));
    until("both places taken", || sender.write(1, Timeout::Now).is_err());
    assert_eq!(sender.send(b"", 0, Timeout::Now), Err(Error::Full));
    actor.kill();
    sender.send(b"late", 7, LONG).unwrap();
    assert_eq!(receiver.receive(&mut [0; 4], LONG).unwrap().hints, 7, "whoever waited took back what the dead held");
}

#[test]
fn a41_what_can_be_polled_for_holds_when_it_should() {
    let channel = channel(4);
    let sender = channel.sender(SendOptions::default()).unwrap();
    let poll = |event| channel.poll(event, WaitMode::Idle, Timeout::Now);
    let is = |event, holds| if holds { Ok(event as u64) } else { Err(Error::Timeout) };
    for fill in 0..=4 {
        assert_eq!(poll(Event::In), is(Event::In, fill > 0));
        assert_eq!(poll(Event::Out), is(Event::Out, fill < 4));
        assert_eq!(poll(Event::InOut), is(Event::InOut, true));
        assert_eq!(poll(Event::Empty), is(Event::Empty, fill == 0));
        assert_eq!(poll(Event::Full), is(Event::Full, fill == 4));
        assert_eq!((poll(Event::Size), poll(Event::Capacity)), (Ok(fill), Ok(4)));
        let _ = sender.send(b"", 0, Timeout::Now);
    }
    for number in [0, -1, -32768, 19, 20, 32767] {
        let unknown = Event::try_from(number).unwrap_err();
        assert_eq!((&unknown, unknown.code()), (&Error::UnknownEvent(number), "INVALID_ARGUMENT"));
    }
    for number in 1..=18 {
        assert_eq!(Event::try_from(number).map(|event| event as i32), Ok(number));
    }
    assert_eq!(poll(Event::SemaphoreRelease), Err(Error::WrongKind));
    let start = Instant::now();
    assert_eq!(channel.poll(Event::Empty, WaitMode::Idle, after(50)), Err(Error::Timeout));
    assert!(start.elapsed() >= Duration::from_millis(50));
    // All who wait for a state are told.
    thread::scope(|scope| {
        for event in [Event::Out, Event::Empty] {
            for mode in MODES {
                let channel = &channel;
                scope.spawn(move || channel.poll(event, mode, LONG).unwrap());
            }
        }
        let receiver = channel.receiver(WaitMode::Idle).unwrap();
        (0..4).for_each(|_| receiver.pop(Timeout::Now).unwrap());
    });
}

#[test]
fn a42_a_reset_removes_all_messages_and_heals_the_barrier() {
    let channel = channel(4);
    let sender = channel.sender(SendOptions::default()).unwrap();
    (0..4).for_each(|_| sender.send(b"x", 0, Timeout::Now).unwrap());
    channel.barrier().unwrap().abort().unwrap();
    assert_eq!(channel.poll(Event::BarrierIsBroken, WaitMode::Idle, Timeout::Now), Ok(1));
    channel.poll(Event::Reset, WaitMode::Idle, Timeout::Now).unwrap();
    assert_eq!((channel.count(), channel.barrier().unwrap().is_broken()), (Ok(0), false));
    (0..4).for_each(|_| sender.send(b"x", 0, Timeout::Now).unwrap());
}

#[test]
fn a43_a_barrier_hands_out_each_number_once_and_breaks_when_a_party_goes() {
    const ROUNDS: u32 = 200;
    let first = channel(5);
    let members: Vec<_> = (0..5).map(|_| another(&first)).collect();
    let sums = thread::scope(|scope| {
        let round = |member: &Channel| {
            let barrier = member.barrier().unwrap();
            (0..ROUNDS).map(|_| barrier.wait(WaitMode::Adaptive, LONG).unwrap()).collect::<Vec<_>>()
        };
        let parties: Vec<_> = members.iter().map(|member| scope.spawn(move || round(member))).collect();
        parties.into_iter().map(|party| party.join().unwrap()).collect::<Vec<_>>()
    });
    for round in 0..ROUNDS as usize {
        let mut numbers: Vec<u32> = sums.iter().map(|of_one| of_one[round]).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
    }
    let barrier = first.barrier().unwrap();
    assert_eq!(barrier.wait(WaitMode::Idle, Timeout::Now), Err(Error::BarrierTryAgain));
    let waiting = |count: u32| until("waiting parties", || barrier.waiting() == count);
    // Three wait, and somebody aborts.
    thread::scope(|scope| {
        let parties: Vec<_> = members[..3]
            .iter()
            .map(|member| scope.spawn(move || member.barrier().unwrap().wait(WaitMode::Idle, LONG)))
            .collect();
        waiting(3);
        barrier.abort().unwrap();
        parties.into_iter().for_each(|party| assert_eq!(party.join().unwrap(), Err(Error::BarrierBroken)));
    });
    assert_eq!(barrier.wait(WaitMode::Idle, LONG).unwrap_err().code(), "BARRIER_BROKEN");
    barrier.reset().unwrap();
    // One waits in vain, and takes the others with it.
    assert_eq!(barrier.wait(WaitMode::Idle, after(20)), Err(Error::Timeout));
    assert!(barrier.is_broken());
    barrier.reset().unwrap();
    // One that was counted is killed while another waits.
    let mut actor = Actor::start("barrier", &first);
    waiting(1);
    thread::scope(|scope| {
        let party = scope.spawn(|| members[0].barrier().unwrap().wait(WaitMode::Idle, LONG));
        waiting(2);
        actor.kill();
        assert_eq!(party.join().unwrap(), Err(Error::BarrierBroken));
    });
}

#[test]
fn a43_of_many_who_wait_one_finds_the_dead_for_all() {
    let channel = channel(3);
    let waiting: Vec<_> = (0..8).map(|_| Actor::start("receive-idle", &channel)).collect();
    until("blocked receivers", || channel.poll(Event::BlockedReceivers, WaitMode::Idle, Timeout::Now) == Ok(8));
    let barrier = channel.barrier().unwrap();
    let took = |round: usize| {
        let mut actor = Actor::start("barrier", &channel);
        until("a waiting party", || barrier.waiting() == 1);
        // Whoever of them had the turn looks no more.
        waiting[round].signal(Signal::STOP);
        thread::scope(|scope| {
            let party = scope.spawn(|| (channel.barrier().unwrap().wait(WaitMode::Idle, LONG), Instant::now()));
            until("two waiting parties", || barrier.waiting() == 2);
            actor.kill();
            let killed = Instant::now();
            let (waited, broken) = party.join().unwrap();
            assert_eq!(waited, Err(Error::BarrierBroken));
            barrier.reset().unwrap();
            broken.saturating_duration_since(killed)
        })
    };
    // On a busy machine one round may last longer.
    assert!((0..5).map(took).min().unwrap() < Duration::from_secs(1));
}

#[test]
fn a44_a_semaphore_counts() {
    let semaphore = |initial, bounded| {
        let kind = Kind::Semaphore { initial, bounded };
        Channel::create(&Attributes { kind, ..Attributes::default() }).unwrap()
    };
    let bounded = semaphore(2, true);
    let count = bounded.semaphore().unwrap();
    assert_eq!(count.release().unwrap_err().code(), "INVALID_VALUE");
    let acquire = |timeout| bounded.poll(Event::SemaphoreAcquire, WaitMode::Idle, timeout);
    assert_eq!([acquire(Timeout::Now), acquire(Timeout::Now)], [Ok(2), Ok(1)]);
    assert_eq!((acquire(Timeout::Now), acquire(after(20))), (Err(Error::Timeout), Err(Error::Timeout)));
    count.await_zero(WaitMode::Idle, Timeout::Now).unwrap();
    assert_eq!(bounded.sender(SendOptions::default()).unwrap_err(), Error::WrongKind);
    assert_eq!(bounded.receiver(WaitMode::Idle).unwrap_err(), Error::WrongKind);
    assert_eq!(bounded.poll(Event::In, WaitMode::Idle, Timeout::Now), Err(Error::WrongKind));

    let large = semaphore(u64::MAX - 1, false);
    large.semaphore().unwrap().release().unwrap();
    assert_eq!(large.semaphore().unwrap().release(), Err(Error::SemaphoreFull));
    assert_eq!(large.poll(Event::SemaphoreCount, WaitMode::Idle, Timeout::Now), Ok(u64::MAX));

    let shared = semaphore(3, false);
    let mut actors: Vec<_> = (0..8).map(|_| Actor::start("count", &shared)).collect();
    actors.iter_mut().for_each(Actor::finish);
    assert_eq!(shared.semaphore().unwrap().count(), 3);
}

#[test]
fn a44_what_a_killed_process_had_acquired_stays_so_until_somebody_gives_it_back() {
    let kind = Kind::Semaphore { initial: 1, bounded: true };
    let channel = Channel::create(&Attributes { kind, ..Attributes::default() }).unwrap();
    let semaphore = channel.semaphore().unwrap();
    let mut actor = Actor::start("hold", &channel);
    until("a holder", || semaphore.count() == 0);
    actor.kill();
    assert_eq!(channel.reap(), Ok(1));
    assert_eq!(semaphore.acquire(WaitMode::Idle, after(20)), Err(Error::Timeout));
    semaphore.release().unwrap();
    assert_eq!(semaphore.acquire(WaitMode::Idle, LONG), Ok(1));
}

#[test]
fn a46_more_spinners_than_allowed_sleep_and_are_served() {
    let channel =
        Channel::create(&Attributes { capacity: 8, block: 256, max_spinners: 1, ..Attributes::default() }).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| channel.receiver(WaitMode::Spin).unwrap().pop(LONG).unwrap());
        }
        until("four receivers", || channel.poll(Event::BlockedReceivers, WaitMode::Idle, Timeout::Now) == Ok(4));
        let sender = channel.sender(SendOptions::default()).unwrap();
        (0..4).for_each(|_| sender.send(b"", 0, LONG).unwrap());
    });
}

#[test]
fn a47_a_destroyed_channel_releases_all_who_wait() {
    let (empty, full) = (channel(1), channel(1));
    full.sender(SendOptions::default()).unwrap().send(b"", 0, Timeout::Now).unwrap();
    thread::scope(|scope| {
        for mode in MODES {
            let (empty, full) = (&empty, &full);
            scope.spawn(move || {
                assert_eq!(empty.receiver(mode).unwrap().pop(LONG), Err(Error::Destroyed));
                assert_eq!(empty.poll(Event::In, mode, LONG), Err(Error::Destroyed));
            });
            scope.spawn(move || {
                let sender = full.sender(SendOptions { mode, ..SendOptions::default() }).unwrap();
                assert_eq!(sender.send(b"", 0, LONG), Err(Error::Destroyed));
            });
        }
        thread::sleep(Duration::from_millis(20));
        empty.destroy().unwrap();
        full.destroy().unwrap();
    });
    assert_eq!(empty.destroy().unwrap_err().code(), "OBJECT_DESTROYED");
    assert_eq!(Channel::attach(empty.share().unwrap()).unwrap_err(), Error::Destroyed);
}

#[test]
fn a48_an_idle_receiver_uses_next_to_no_processor() {
    let channel = channel(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            let used = || {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
            };
            let before = used();
            channel.receiver(WaitMode::Idle).unwrap().pop(LONG).unwrap();
            let used = used() - before;
            assert!(used < Duration::from_millis(200), "{used:?} in a second");
        });
        thread::sleep(Duration::from_secs(1));
        channel.sender(SendOptions::default()).unwrap().send(b"", 0, LONG).unwrap();
    });
}

#[test]
fn a49_spinning_pairs_share_few_processors() {
    let pairs: Vec<_> = (0..8).map(|_| (channel(1), channel(1))).collect();
    thread::scope(|scope| {
        for (there, back) in &pairs {
            let options = SendOptions { mode: WaitMode::Spin, ..SendOptions::default() };
            scope.spawn(move || {
                let (receiver, sender) = (there.receiver(WaitMode::Spin).unwrap(), back.sender(options).unwrap());
                for _ in 0..50 {
                    receiver.pop(LONG).unwrap();
                    sender.send(b"", 0, LONG).unwrap();
                }
            });
            scope.spawn(move || {
                let (sender, receiver) = (there.sender(options).unwrap(), back.receiver(WaitMode::Spin).unwrap());
                for _ in 0..50 {
                    sender.send(b"", 0, LONG).unwrap();
                    receiver.pop(LONG).unwrap();
                }
            });
        }
    });
}

#[test]
fn a50_peeks_and_pops_keep_order_and_count() {
    let channel = channel(4);
    let sender = channel.sender(SendOptions::default()).unwrap();
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    sender.send(b"first", 1, LONG).unwrap();
    sender.send(b"second", 2, LONG).unwrap();
    let peek = || {
        let mut pad = [0; 4];
        let message = receiver.peek(&mut pad, Timeout::Now).unwrap();
        (message.len, message.hints, pad)
    };
    assert_eq!((peek(), peek()), ((5, 1, *b"firs"), (5, 1, *b"firs")));
    assert_eq!(channel.count(), Ok(2));
    receiver.pop(Timeout::Now).unwrap();
    assert_eq!((peek(), channel.count()), ((6, 2, *b"seco"), Ok(1)));
    receiver.pop(Timeout::Now).unwrap();
    assert_eq!(receiver.pop(Timeout::Now).unwrap_err().code(), "CHANNEL_EMPTY");
}

#[test]
fn a_sender_that_returns_on_receipt_waits_for_it() {
    let channel = channel(2);
    let options = SendOptions { returns: ReturnMode::Received, ..SendOptions::default() };
    let sender = channel.sender(options).unwrap();
    assert_eq!(sender.send(b"", 1, after(20)), Err(Error::NotReceived));
    assert_eq!(channel.count(), Ok(1), "it is in the channel");
    let receiver = channel.receiver(WaitMode::Idle).unwrap();
    thread::scope(|scope| {
        let sent = scope.spawn(|| sender.send(b"", 2, LONG));
        until("the message", || channel.count() == Ok(2));
        thread::sleep(Duration::from_millis(5));
        assert!(!sent.is_finished());
        receiver.pop(LONG).unwrap();
        receiver.pop(LONG).unwrap();
        assert_eq!(sent.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_sender_that_returns_on_receipt_hears_that_its_message_was_lost_with_the_channel() {
    let channel = channel(2);
    let options = SendOptions { returns: ReturnMode::Received, ..SendOptions::default() };
    thread::scope(|scope| {
        let send = |hints| channel.sender(options).unwrap().send(b"", hints, LONG);
        let received = scope.spawn(move || send(1));
        until("the first message", || channel.count() == Ok(1));
        let lost = scope.spawn(move || send(2));
        until("the second message", || channel.count() == Ok(2));
        channel.receiver(WaitMode::Idle).unwrap().pop(LONG).unwrap();
        channel.destroy().unwrap();
        assert_eq!((received.join().unwrap(), lost.join().unwrap()), (Ok(()), Err(Error::Destroyed)));
    });
}

#[test]
fn messages_go_to_another_process_and_back() {
    let channel = channel(1);
    let mut actor = Actor::start("echo", &channel);
    let sender = channel.sender(SendOptions { returns: ReturnMode::Received, ..SendOptions::default() }).unwrap();
    sender.send(b"there and back", 9, LONG).unwrap();
    let mut pad = [0; 256];
    let message = channel.receiver(WaitMode::Adaptive).unwrap().receive(&mut pad, LONG).unwrap();
    assert_eq!((&pad[..message.len], message.hints), (&b"there and back"[..], 9));
    let _ = actor.0.wait();
}

#[test]
fn a_process_local_channel_dies_with_its_owner() {
    let attributes = Attributes { capacity: 1, block: 256, ..Attributes::default() };
    let owner = Channel::create_process_local(&attributes).unwrap();
    let user = another(&owner);
    thread::scope(|scope| {
        let waits = scope.spawn(|| user.receiver(WaitMode::Idle).unwrap().pop(LONG));
        thread::sleep(Duration::from_millis(10));
        drop(owner);
        assert_eq!(waits.join().unwrap(), Err(Error::Destroyed));
    });
}

#[test]
fn whoever_spins_at_a_set_looks_after_the_dead() {
    let channel = channel(4);
    let blocked = || channel.poll(Event::BlockedReceivers, WaitMode::Idle, Timeout::Now);
    let mut actor = Actor::start("receive-idle", &channel);
    until("a blocked receiver", || blocked() == Ok(1));
    actor.kill();
    let set = ChannelSet::new([&channel], Event::In).unwrap();
    thread::scope(|scope| {
        let spins = scope.spawn(|| set.poll(WaitMode::Spin, LONG));
        until("the dead are buried", || blocked() == Ok(0));
        channel.sender(SendOptions::default()).unwrap().send(b"", 0, Timeout::Now).unwrap();
        assert_eq!(spins.join().unwrap(), Ok(Ready { index: 0, event: Some(Event::In) }));
    });
}

#[test]
fn dead_members_make_room_for_newcomers() {
    let channel = Channel::create(&Attributes { members: 2, capacity: 4, ..Attributes::default() }).unwrap();
    for _ in 0..3 {
        let mut other = Actor::start("die", &channel);
        assert!(!other.0.wait().unwrap().success());
    }
    let second = another(&channel);
    assert_eq!(Channel::attach(channel.share().unwrap()).unwrap_err().code(), "OUT_OF_SPACE", "both live");
    drop(second);
}

#[test]
fn attributes_and_descriptors_are_checked() {
    let refused = |change: fn(&mut Attributes)| {
        let mut attributes = Attributes::default();
        change(&mut attributes);
        Channel::create(&attributes).unwrap_err().code()
    };
    assert_eq!(refused(|a| a.capacity = 0), "CHANNEL_CAPACITY_BELOW_REQUIRED_MINIMUM");
    assert_eq!(refused(|a| a.block = 255), "CHANNEL_BLOCKSIZE_BELOW_REQUIRED_MINIMUM");
    assert_eq!(refused(|a| a.block = u32::MAX), "CHANNEL_BLOCKSIZE_OVER_ALLOWED_MAXIMUM");
    assert_eq!(refused(|a| a.members = 0), "OUT_OF_SPACE");
    assert_eq!(refused(|a| a.members = MOST + 1), "INVALID_ARGUMENT");
    Channel::create(&Attributes { members: MOST, ..Attributes::default() }).unwrap();
    let channel = Channel::create(&Attributes { uid: 77, members: 2, block: 300, ..Attributes::default() }).unwrap();
    assert_eq!(channel.uid(), Ok(77));
    let second = another(&channel);
    assert_eq!(Channel::attach(channel.share().unwrap()).unwrap_err().code(), "OUT_OF_SPACE");
    drop(second);
    drop(another(&channel));
    let other = umbra::sys::segment::Segment::create("no channel", 4096).unwrap();
    assert_eq!(Channel::attach(other.share().unwrap()).unwrap_err().code(), "INVALID_ARGUMENT");
    let tiny = umbra::sys::segment::Segment::create("tiny", 8).unwrap();
    assert_eq!(Channel::attach(tiny.share().unwrap()).unwrap_err().code(), "INVALID_ARGUMENT");
    let newer = umbra::sys::segment::Segment::create("newer", 8192).unwrap();
    newer.write(0, b"umbrachn").unwrap();
    newer.write(8, &[9]).unwrap();
    assert_eq!(Channel::attach(newer.share().unwrap()).unwrap_err(), Error::VersionMismatch(9));
}
