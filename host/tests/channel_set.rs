//! Sets of channels: scenario A45, and a bell that says when to ask one.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{ClockId, Timespec};
use umbra::channel::{
    Attributes, Bell, Channel, ChannelSet, Error, Event, Ready, SendOptions, Snapshot, Timeout, WaitMode,
};
use umbra::pool::{self, Pool};

use another::until;

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
const LONG: Timeout = Timeout::After(Duration::from_secs(60));
const CHANNELS: usize = 64;
const MESSAGES: usize = 100_000;

fn channel(capacity: u32) -> Channel {
    Channel::create(&Attributes { capacity, block: 256, ..Attributes::default() }).unwrap()
}

/// Channels of three pools.
fn channels() -> Vec<Channel> {
    let attributes = pool::Attributes { bytes: 4 << 20, ..pool::Attributes::default() };
    let pools = [0; 3].map(|_| Arc::new(Pool::create(None, &attributes).unwrap()));
    let attributes = Attributes { capacity: 4, block: 256, ..Attributes::default() };
    (0..CHANNELS).map(|at| Channel::create_in(&pools[at % 3], &attributes).unwrap()).collect()
}

fn send(channel: &Channel, n: u64) {
    channel.sender(SendOptions::default()).unwrap().send(b"", n, LONG).unwrap();
}

/// Receives a message, unless another poller was first.
fn took(channel: &Channel) -> bool {
    channel.receiver(WaitMode::Idle).unwrap().pop(Timeout::Now).is_ok()
}

fn processor_time() -> Duration {
    let Timespec { tv_sec, tv_nsec } = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(tv_sec.try_into().unwrap(), tv_nsec.try_into().unwrap())
}

#[test]
fn a45_a_set_reports_every_ready_member_in_turn_until_it_is_not() {
    let channels: Vec<Channel> = (0..16).map(|_| channel(4)).collect();
    let set = ChannelSet::new(&channels, Event::In).unwrap();
    assert_eq!(set.poll(WaitMode::Idle, Timeout::Now), Err(Error::Timeout));
    let (start, busy) = (Instant::now(), processor_time());
    assert_eq!(set.poll(WaitMode::Idle, Timeout::After(Duration::from_secs(1))), Err(Error::Timeout));
    assert!(start.elapsed() >= Duration::from_secs(1));
    let busy = processor_time() - busy;
    assert!(busy < Duration::from_millis(100), "{busy:?} of a second asleep");
    for at in [3, 5, 9] {
        send(&channels[at], 0);
    }
    let reported: Vec<usize> = (0..6).map(|_| set.poll(WaitMode::Idle, LONG).unwrap().index).collect();
    assert_eq!(reported, [3, 5, 9, 3, 5, 9], "again and again, in turn");
    for at in [3, 5, 9] {
        assert!(took(&channels[at]));
    }
    assert_eq!(set.poll(WaitMode::Adaptive, Timeout::Now), Err(Error::Timeout));
    assert_eq!(ChannelSet::new(&channels, Event::Size).unwrap_err(), Error::UnknownEvent(6));
}

#[test]
fn a46_who_would_be_one_spinner_too_many_at_a_member_of_a_set_sleeps() {
    let spins = |max_spinners| {
        let channel = Channel::create(&Attributes { capacity: 1, block: 256, max_spinners, ..Attributes::default() });
        let channel = channel.unwrap();
        send(&channel, 0);
        channel
    };
    let channels = [spins(32), spins(0)];
    thread::scope(|scope| {
        scope.spawn(|| ChannelSet::new(&channels, Event::Out).unwrap().poll(WaitMode::Spin, LONG).unwrap());
        let reference = channels[0].reference().unwrap();
        until("a sleeper", || Snapshot::of_reference(&reference).unwrap().is_room_awaited);
        assert!(took(&channels[1]));
    });
}

#[test]
fn a45_one_poller_or_four_miss_nothing_of_what_is_sent_to_many_channels() {
    for pollers in [1, 4] {
        let channels = channels();
        let set = ChannelSet::new(&channels, Event::In).unwrap();
        let poller = |at: usize| {
            let mode = [WaitMode::Adaptive, WaitMode::Idle][at % 2];
            let mut received = 0;
            loop {
                let ready = set.poll(mode, LONG).unwrap();
                if ready.event.is_none() {
                    return received;
                }
                received += usize::from(took(&channels[ready.index]));
            }
        };
        let received: usize = thread::scope(|scope| {
            let poller = &poller;
            let pollers: Vec<_> = (0..pollers).map(|at| scope.spawn(move || poller(at))).collect();
            let mut at = 1;
            for n in 0..MESSAGES {
                at = at * 37 % 4_093;
                send(&channels[at % CHANNELS], n as u64);
            }
            until("all messages received", || channels.iter().all(|channel| channel.count() == Ok(0)));
            channels[2].destroy().unwrap();
            pollers.into_iter().map(|poller| poller.join().unwrap()).sum()
        });
        assert_eq!(received, MESSAGES, "by {pollers} pollers");
        assert_eq!(set.poll(WaitMode::Idle, LONG), Ok(Ready { index: 2, event: None }));
    }
}

#[test]
fn a_bell_tells_who_sleeps_in_epoll_of_everything_that_is_sent() {
    const MESSAGES: usize = 5_000;
    let channels: Vec<Channel> = (0..16).map(|_| channel(4)).collect();
    let (set, bell) = (ChannelSet::new(&channels, Event::In).unwrap(), Bell::new().unwrap());
    let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
    epoll::add(&epoll, &bell, EventData::new_u64(7), EventFlags::IN).unwrap();
    let rings = |millis: i64| {
        let wait = Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 };
        let mut events = Vec::with_capacity(4);
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait)).unwrap();
        !events.is_empty()
    };
    thread::scope(|scope| {
        let ringing = scope.spawn(|| set.ring(&bell));
        assert!(!rings(50), "there is nothing to tell");
        send(&channels[3], 0);
        assert!(rings(60_000) && rings(0), "until it is taken back");
        bell.rearm().unwrap();
        assert!(rings(60_000), "a message waits still");
        assert!(took(&channels[3]));
        bell.rearm().unwrap();
        assert!(!rings(50), "there is nothing to tell any more");
        scope.spawn(|| (0..MESSAGES).for_each(|n| send(&channels[n * 7 % 16], n as u64)));
        let mut received = 0;
        while received < MESSAGES {
            assert!(rings(60_000), "{received} of {MESSAGES} were received when the bell fell silent");
            while let Ok(ready) = set.poll(WaitMode::Idle, Timeout::Now) {
                received += usize::from(took(&channels[ready.index]));
            }
            bell.rearm().unwrap();
        }
        assert!(!rings(20));
        channels[5].destroy().unwrap();
        assert!(rings(60_000), "a member that is gone is told of");
        assert_eq!(set.poll(WaitMode::Idle, Timeout::Now), Ok(Ready { index: 5, event: None }));
        bell.end();
        assert_eq!(ringing.join().unwrap(), Ok(()));
    });
    assert_eq!(set.ring(&bell), Ok(()), "an ended bell rings no more");
}

#[test]
fn a_set_as_large_as_can_be_has_no_place_for_a_bell() {
    let channel = channel(4);
    let set = ChannelSet::new(std::iter::repeat_n(&channel, 128), Event::In).unwrap();
    assert_eq!(set.ring(&Bell::new().unwrap()), Err(Error::SetTooLarge { members: 128 }));
}
