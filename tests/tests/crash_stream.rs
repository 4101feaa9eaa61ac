//! kill -9 and stop of processes that talk through streams.
//!
//! Others hand memory over through a channel. After every burial the others go on, and when all are dead every place is
//! free. Moments are random, drawn by a generator whose seed is printed on failure. The counts are small, so that they
//! fit into every run of the tests: `UMBRA_KILLS=10000` and `UMBRA_STOPS=1000` make them large, `UMBRA_SEED=N` sets
//! another seed.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::channel::{self, Channel, Timeout, WaitMode};
use umbra::pool::{self, Pool};
use umbra::reference::to_text;
use umbra::stream::{Adapter, Attributes, Error, ReceiveOptions, SendOptions};
use umbra::sys::process::ProcessId;
use umbra::sys::segment::Segment;
use umbra_core::crew::Member;
use umbra_tests::crash::memory::{self, BOARD};
use umbra_tests::crash::stream::{self, Hall};

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
const DEADLINE: Duration = Duration::from_secs(30);
const WAIT: Timeout = Timeout::After(DEADLINE);

struct Dice(u64);
impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).map_or(or, |count| count.parse().unwrap())
}

/// Children that are killed and reaped however the test ends.
struct Guest {
    role: &'static str,
    number: u8,
    child: Child,
}

impl Guest {
    fn start(role: &'static str, number: u8, to: OwnedFd) -> Guest {
        Guest::told(role, number, to, &[])
    }

    fn told(role: &'static str, number: u8, to: OwnedFd, more: &[&str]) -> Guest {
        let child = Command::new(env!("CARGO_BIN_EXE_crash-child"))
            .args([role, &number.to_string()])
            .args(more)
            .stdin(Stdio::from(to))
            .spawn()
            .unwrap();
        Guest { role, number, child }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(&mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "{} saw something impossible", self.role);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until so many of these have done something more.
fn advance<'g>(guests: impl Iterator<Item = &'g mut Guest>, enough: usize, hall: Hall<'_>, after: &str) {
    advance_by(|number| hall.progress(number), guests, enough, after);
}

/// The same, with what counts their steps.
fn advance_by<'g>(
    progress: impl Fn(u8) -> u64,
    guests: impl Iterator<Item = &'g mut Guest>,
    enough: usize,
    after: &str,
) {
    let mut guests: Vec<_> = guests.map(|guest| (progress(guest.number), guest)).collect();
    let start = Instant::now();
    let moved = |guests: &[(u64, &mut Guest)]| guests.iter().filter(|(was, g)| progress(g.number) > *was).count();
    while moved(&guests) < enough {
        for (_, guest) in &mut guests {
            let ended = guest.child.try_wait().unwrap();
            assert!(ended.is_none(), "{} {} saw something impossible after {after}", guest.role, guest.number);
        }
        assert!(start.elapsed() < DEADLINE, "{} of {enough} go on after {after}", moved(&guests));
        thread::sleep(Duration::from_micros(20));
    }
}

/// Two senders and two receivers, as many streams as may be in somebody's hands, and one more.
fn with_guests(body: impl FnOnce(&Segment, Hall<'_>, Member, &mut Vec<Guest>)) {
    let segment = Segment::create("crash test", stream::words().unwrap() * 8).unwrap();
    let hall = Hall::new(segment.bytes_mut().unwrap(), true).unwrap();
    let me = hall.join().unwrap();
    let roles = [stream::SENDER, stream::SENDER, stream::RECEIVER, stream::RECEIVER];
    let mut guests: Vec<_> =
        (0..).zip(roles).map(|(number, role)| Guest::start(role, number, segment.share().unwrap())).collect();
    advance(guests.iter_mut(), 4, hall, "the start");
    body(&segment, hall, me, &mut guests);
    guests.iter_mut().for_each(Guest::kill);
    assert_eq!(hall.bury(me), Ok(guests.len()));
    assert_eq!(hall.at_rest(me), Ok(()));
}

#[test]
fn others_go_on_beside_one_that_is_killed_and_no_stream_is_lost() {
    let seed = number("UMBRA_SEED", 17);
    with_guests(|segment, hall, me, guests| {
        let mut dice = Dice(seed);
        for kill in 0..number("UMBRA_KILLS", 100) {
            let victim = dice.below(4) as usize;
            thread::sleep(Duration::from_micros(dice.below(300)));
            guests[victim].kill();
            let after = format!("kill {kill} of {victim}, seed {seed}");
            assert_eq!(hall.bury(me), Ok(1), "{after}");
            // Of two of a kind the other one goes on, and whoever talked with the dead one too.
            let others = guests.iter_mut().enumerate().filter(|(at, _)| *at != victim).map(|(_, guest)| guest);
            advance(others, 3, hall, &after);
            let Guest { role, number, .. } = guests[victim];
            guests[victim] = Guest::start(role, number, segment.share().unwrap());
            advance(guests[victim..=victim].iter_mut(), 1, hall, &after);
        }
    });
}

#[test]
fn others_go_on_beside_one_that_is_stopped() {
    let seed = number("UMBRA_SEED", 18);
    with_guests(|_, hall, me, guests| {
        let mut dice = Dice(seed);
        for stop in 0..number("UMBRA_STOPS", 40) {
            let victim = dice.below(4) as usize;
            thread::sleep(Duration::from_micros(dice.below(300)));
            guests[victim].signal(Signal::STOP);
            let after = format!("stop {stop} of {victim}, seed {seed}");
            for _ in 0..3 {
                // All but the stopped one and whoever talks with it.
                let others = guests.iter_mut().enumerate().filter(|(at, _)| *at != victim).map(|(_, guest)| guest);
                advance(others, 2, hall, &after);
            }
            assert_eq!(hall.bury(me), Ok(0), "a stopped process lives");
            guests[victim].signal(Signal::CONT);
            advance(guests.iter_mut(), 4, hall, &after);
        }
    });
}

/// Scenario A64: a sender that is killed in mid stream.
#[test]
fn a64_what_a_killed_sender_had_sent_is_read_and_then_that_it_died() {
    let adapter = Adapter::create(&Attributes::default(), []).unwrap();
    for _ in 0..3 {
        let mut talker = Guest::start(stream::TALKER, 0, adapter.share().unwrap());
        let mut receiver = adapter.receive(&ReceiveOptions::default(), WAIT).unwrap();
        // It is waited for while it lives, and no longer.
        let late = Timeout::After(Duration::from_millis(300));
        let said = receiver.receive(WAIT).unwrap().bytes;
        assert_eq!((&said[..], receiver.receive(late)), (stream::SAID, Err(Error::Timeout)));
        talker.kill();
        let killed = Instant::now();
        assert_eq!(receiver.receive(WAIT), Err(Error::PeerDead));
        assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
        assert_eq!(receiver.receive(WAIT), Err(Error::PeerDead), "again and again");
        assert_eq!(receiver.close(WAIT), Err(Error::PeerDead));
        assert_eq!(adapter.counts().unwrap().idle, 8, "the stream can be used again");
    }
}

/// Scenario A64: a receiver that is killed in mid stream.
#[test]
fn a64_a_sender_hears_that_its_receiver_was_killed_and_the_stream_is_used_again() {
    let adapter = Adapter::create(&Attributes { ring: 4096, ..Attributes::default() }, []).unwrap();
    for _ in 0..3 {
        let mut listener = Guest::start(stream::LISTENER, 0, adapter.share().unwrap());
        let mut sender = adapter.send(&SendOptions::default(), WAIT).unwrap();
        sender.send(b"first", 1, WAIT).unwrap();
        let start = Instant::now();
        while adapter.counts().unwrap().waiting > 0 {
            assert!(start.elapsed() < DEADLINE, "nobody listens");
            thread::sleep(Duration::from_millis(1));
        }
        // More than there is room for: the sender waits, alive or dead its receiver.
        let short = Timeout::After(Duration::from_millis(100));
        assert!(matches!(sender.send(&[7; 10_000], 2, short), Err(Error::Partly { len: 10_000, .. })));
        listener.kill();
        let killed = Instant::now();
        assert_eq!(sender.send(&[7; 10_000], 2, WAIT), Err(Error::PeerDead));
        assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
        assert_eq!(sender.close(WAIT), Err(Error::PeerDead), "what was left to be sent is lost");
        assert_eq!(adapter.counts().unwrap().idle, 8, "the stream can be used again");
    }
}

/// A pool, and a board in it on which its users count their steps.
fn with_board(body: impl FnOnce(&Arc<Pool>, &pool::Allocation<'_>, &str)) {
    let memory = pool::Attributes { bytes: 16 << 20, uid: umbra::uid::draw().unwrap(), ..pool::Attributes::default() };
    let pool = Arc::new(Pool::create(None, &memory).unwrap());
    let board = pool.alloc(BOARD, 0).unwrap();
    board.clear(0, BOARD).unwrap();
    let named = to_text(&board.reference().unwrap());
    body(&pool, &board, &named);
    assert_eq!(pool.blocks().map(|block| block.id).collect::<Vec<_>>(), [board.id()], "no other block is left");
    board.free().unwrap();
    pool.alloc(16 << 20, 0).unwrap();
}

/// Kills those in these roles, of which the last two receive, one after the other, and puts others in their places. What
/// a dead receiver had received is its own, and freed at once. All who were killed, in the end everybody.
fn kill_carriers(
    (pool, board): (&Pool, &pool::Allocation<'_>),
    roles: [&'static str; 4],
    (seed, kills): (u64, u64),
    start: impl Fn(&'static str, u8) -> Guest,
    reap: impl Fn() -> usize,
) -> Vec<ProcessId> {
    let mut guests: Vec<_> = (0..).zip(roles).map(|(number, role)| start(role, number)).collect();
    let progress = |number| memory::progress(board, number).unwrap();
    advance_by(progress, guests.iter_mut(), 4, "the start");
    let (mut dice, mut dead) = (Dice(seed), vec![]);
    for kill in 0..kills {
        let victim = dice.below(4) as usize;
        thread::sleep(Duration::from_micros(dice.below(2000)));
        // Some are killed beside one that was stopped for a moment.
        let stopped = &guests[dice.below(16) as usize % 4];
        if dice.below(4) == 0 {
            stopped.signal(Signal::STOP);
            thread::sleep(Duration::from_micros(dice.below(2000)));
            stopped.signal(Signal::CONT);
        }
        dead.push(ProcessId::of(guests[victim].child.id()).unwrap());
        guests[victim].kill();
        let after = format!("kill {kill} of {victim}, seed {seed}");
        assert!(reap() <= 1, "{after}: those who wait may have been faster");
        if victim >= 2 {
            pool.free_allocations_of(*dead.last().unwrap()).unwrap();
        }
        let others = guests.iter_mut().enumerate().filter(|(at, _)| *at != victim).map(|(_, guest)| guest);
        advance_by(progress, others, 3, &after);
        let Guest { role, number, .. } = guests[victim];
        guests[victim] = start(role, number);
        advance_by(progress, guests[victim..=victim].iter_mut(), 1, &after);
    }
    for guest in &mut guests {
        dead.push(ProcessId::of(guest.child.id()).unwrap());
        guest.kill();
    }
    reap();
    dead
}

/// Kills so many who hand memory over through streams.
fn kill_givers(seed: u64, kills: u64) {
    with_board(|pool, board, named| {
        // Rings of a few references, so that they are full all the time.
        let attributes = Attributes { streams: 3, ring: 512, ..Attributes::default() };
        let adapter = Adapter::create(&attributes, [pool.clone()]).unwrap();
        let start = |role, number| Guest::told(role, number, adapter.share().unwrap(), &[named]);
        let roles = [memory::GIVER, memory::GIVER, memory::TAKER, memory::TAKER];
        let reap = || adapter.reap().unwrap();
        let dead = kill_carriers((pool, board), roles, (seed, kills), start, reap);
        // What nobody has begun to receive is freed by whoever leaves it unread.
        while adapter.counts().unwrap().waiting > 0 {
            drop(adapter.receive(&ReceiveOptions::default(), Timeout::Now).unwrap());
        }
        assert_eq!(adapter.counts().unwrap().idle, 3, "every stream can be used again");
        for process in dead {
            pool.free_allocations_of(process).unwrap();
        }
    });
}

/// Kills so many who hand memory over through a channel.
fn kill_posters(seed: u64, kills: u64) {
    with_board(|pool, board, named| {
        let attributes = channel::Attributes { capacity: 4, ..channel::Attributes::default() };
        let channel = Channel::create_with(&attributes, [pool.clone()]).unwrap();
        let start = |role, number| Guest::told(role, number, channel.share().unwrap(), &[named]);
        let roles = [memory::POSTER, memory::POSTER, memory::GETTER, memory::GETTER];
        let reap = || channel.reap().unwrap();
        let dead = kill_carriers((pool, board), roles, (seed, kills), start, reap);
        // What was sent is there, though its senders died.
        let receiver = channel.receiver(WaitMode::Idle).unwrap();
        while channel.count().unwrap() > 0 {
            receiver.receive_memory(Timeout::Now).unwrap().free().unwrap();
        }
        for process in dead {
            pool.free_allocations_of(process).unwrap();
        }
    });
}

#[test]
fn memory_on_its_way_is_neither_lost_nor_received_twice_whoever_is_killed() {
    kill_givers(number("UMBRA_SEED", 19), number("UMBRA_KILLS", 100));
}

#[test]
fn memory_in_a_channel_is_neither_lost_nor_received_twice_whoever_is_killed() {
    kill_posters(number("UMBRA_SEED", 20), number("UMBRA_KILLS", 100));
}

/// Pages of memory that are this process's, and descriptors that it has open.
fn footprint() -> [usize; 2] {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
    [resident, std::fs::read_dir("/proc/self/fd").unwrap().count()]
}

/// Scenario A74: for an hour with `UMBRA_SOAK=3600`.
#[test]
fn a74_after_many_kills_and_stops_nothing_is_left_behind() {
    // In a process of its own: pages and descriptors of other tests would be counted, too.
    const ALONE: &str = "UMBRA_SOAK_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let this = ["--exact", "a74_after_many_kills_and_stops_nothing_is_left_behind", "--nocapture"];
        let status = Command::new(std::env::current_exe().unwrap()).args(this).env(ALONE, "1").status().unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    let (start, soak) = (Instant::now(), Duration::from_secs(number("UMBRA_SOAK", 3)));
    let mut seed = number("UMBRA_SEED", 74);
    let mut round = || {
        kill_givers(seed, 10);
        kill_posters(seed, 10);
        seed += 1;
    };
    // What a process keeps for ever it has after the first one.
    round();
    let [before, descriptors] = footprint();
    while start.elapsed() < soak {
        round();
    }
    let [after, still] = footprint();
    assert_eq!(still, descriptors);
    // Blocks that the allocator keeps come and go; a round that left its pool mapped would show four thousand each.
    assert!(after < before + 4000, "{before} pages became {after}");
}
