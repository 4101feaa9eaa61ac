//! A channel's two-step barrier: its answers, and parties killed at each step.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod another;

use std::thread;
use std::time::{Duration, Instant};

use another::{Another, ready, until};
use umbra::channel::{Attributes, Barrier, Channel, Error, Event, SendOptions, Snapshot, Timeout, WaitMode};
use umbra_core::barrier::BROKEN_NUMBER;

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
const LONG: Timeout = Timeout::After(Duration::from_secs(60));
const NOW: Timeout = Timeout::Now;
const IDLE: WaitMode = WaitMode::Idle;

fn channel(capacity: u32) -> Channel {
    Channel::create(&Attributes { capacity, block: 256, ..Attributes::default() }).unwrap()
}

fn another(channel: &Channel) -> Channel {
    Channel::attach(channel.share().unwrap()).unwrap()
}

/// What a party is told.
fn told(channel: &Channel, timeout: Timeout) -> Result<u64, Error> {
    let mut number = [0; 8];
    let message = channel.receiver(IDLE)?.receive(&mut number, timeout)?;
    assert_eq!(message.len, number.len());
    Ok(u64::from_le_bytes(number))
}

fn all_told(channel: &Channel, parties: usize) -> Vec<u64> {
    (0..parties).map(|_| told(channel, LONG).unwrap()).collect()
}

fn count_in(barrier: &Barrier<'_>) -> bool {
    barrier.count_in(IDLE, NOW).unwrap()
}

fn parties_come(barrier: &Barrier<'_>, parties: usize) {
    for _ in 0..parties {
        count_in(barrier);
    }
}

/// What another process does; as a test of its own it does nothing.
#[test]
fn another_process() {
    let Some(role) = another::role() else { return };
    let (what, reference) = role.split_once(' ').unwrap();
    let channel = Channel::attach_reference(&umbra::reference::from_text(reference).unwrap()).unwrap();
    let barrier = channel.barrier().unwrap();
    match what {
        "come" => {
            let is_last = count_in(&barrier);
            ready(if is_last { "last" } else { "counted" });
        }
        "release" => {
            assert!(count_in(&barrier));
            // Takes the place of a number, so that there is no room for the last one.
            channel.sender(SendOptions::default()).unwrap().send(b"in the way", 0, NOW).unwrap();
            ready("releases");
            panic!("{:?}", barrier.release(Timeout::Never));
        }
        "rounds" => return rounds(&channel),
        what => panic!("nobody does {what}"),
    }
    thread::sleep(Duration::from_secs(600));
}

fn role(what: &str, channel: &Channel) -> String {
    format!("{what} {}", umbra::reference::to_text(&channel.reference().unwrap()))
}

fn start(what: &str, channel: &Channel) -> Another {
    Another::start_ready(&role(what, channel)).0
}

/// Goes through rounds until one is broken.
fn rounds(channel: &Channel) {
    let barrier = channel.barrier().unwrap();
    loop {
        match barrier.count_in(IDLE, LONG) {
            // Who is killed while he hands out breaks it; so does who is killed before he received.
            Ok(true) => drop(barrier.release(LONG)),
            Ok(false) => {}
            Err(Error::BarrierBroken) => return,
            Err(error) => panic!("{error}"),
        }
        match told(channel, LONG).unwrap() {
            BROKEN_NUMBER => return,
            number => assert!(number < barrier.parties().into()),
        }
    }
}

#[test]
fn a43_each_round_of_two_steps_hands_out_each_number_once() {
    const ROUNDS: usize = 1000;
    let first = channel(5);
    let members: Vec<_> = (0..5).map(|_| another(&first)).collect();
    let party = |member: &Channel| {
        let barrier = member.barrier().unwrap();
        let round = |_| {
            if barrier.count_in(WaitMode::Adaptive, LONG).unwrap() {
                barrier.release(LONG).unwrap();
            }
            told(member, LONG).unwrap()
        };
        (0..ROUNDS).map(round).collect::<Vec<_>>()
    };
    let numbers = thread::scope(|scope| {
        let parties: Vec<_> = members.iter().map(|member| scope.spawn(move || party(member))).collect();
        parties.into_iter().map(|party| party.join().unwrap()).collect::<Vec<_>>()
    });
    for round in 0..ROUNDS {
        let mut all: Vec<u64> = numbers.iter().map(|of_one| of_one[round]).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4], "round {round}");
    }
    // One step after two.
    thread::scope(|scope| {
        let meet = |member: &Channel| member.barrier().unwrap().wait(IDLE, LONG).unwrap();
        members.iter().for_each(|member| drop(scope.spawn(move || meet(member))));
    });
    assert_eq!(first.poll(Event::BarrierWait, IDLE, NOW), Ok(0));
}

#[test]
fn a43_each_answer_of_the_two_steps_is_given() {
    let channel = channel(3);
    let barrier = channel.barrier().unwrap();
    let poll = |event| channel.poll(event, IDLE, NOW);
    assert_eq!((poll(Event::BarrierWait), poll(Event::BarrierWait)), (Ok(0), Ok(0)));
    assert_eq!((poll(Event::BarrierWaiters), barrier.wait(IDLE, LONG)), (Ok(2), Err(Error::BarrierMixed)));
    assert_eq!(poll(Event::BarrierWait), Ok(1), "the last one is told to release");
    // Before the release, and until each has its message.
    assert_eq!(poll(Event::BarrierWait).unwrap_err().code(), "BARRIER_WAIT_TRY_AGAIN");
    assert_eq!(poll(Event::BarrierRelease), Ok(11));
    for number in 0..3 {
        assert_eq!((barrier.count_in(IDLE, NOW), barrier.is_broken()), (Err(Error::BarrierTryAgain), false));
        assert_eq!(told(&channel, NOW), Ok(number));
    }
    assert_eq!(told(&channel, NOW), Err(Error::Empty));
    // Released too early.
    assert!(!count_in(&barrier));
    assert_eq!(poll(Event::BarrierRelease).unwrap_err().code(), "BARRIER_BROKEN");
    assert_eq!((told(&channel, NOW), told(&channel, NOW)), (Ok(BROKEN_NUMBER), Err(Error::Empty)));
    assert_eq!(
        (poll(Event::BarrierWait), poll(Event::BarrierRelease)),
        (Err(Error::BarrierBroken), Err(Error::BarrierBroken))
    );
    assert_eq!((poll(Event::BarrierIsBroken), poll(Event::Reset), poll(Event::BarrierIsBroken)), (Ok(1), Ok(7), Ok(0)));
    // Aborted with two waiting, and with all waiting.
    for waiting in [2, 3] {
        parties_come(&barrier, waiting);
        assert_eq!(poll(Event::BarrierAbort), Ok(10));
        assert_eq!((all_told(&channel, waiting), channel.count()), (vec![BROKEN_NUMBER; waiting], Ok(0)));
        assert_eq!((poll(Event::BarrierWait), poll(Event::Reset)), (Err(Error::BarrierBroken), Ok(7)));
    }
    // A reset tells those who wait.
    assert!(!count_in(&barrier));
    barrier.reset().unwrap();
    assert_eq!((told(&channel, NOW), barrier.is_broken()), (Ok(BROKEN_NUMBER), false));
    // Whoever waits in vain for the end of a round breaks the barrier: of one that is not released, and of one whose messages
    // are not taken.
    for releases in [false, true] {
        parties_come(&barrier, 3);
        if releases {
            barrier.release(NOW).unwrap();
        }
        let began = Instant::now();
        let late = barrier.count_in(IDLE, Timeout::After(Duration::from_millis(100)));
        assert_eq!((late, barrier.is_broken()), (Err(Error::Timeout), true));
        assert!(began.elapsed() >= Duration::from_millis(100));
        assert_eq!(all_told(&channel, 3), if releases { [0, 1, 2] } else { [BROKEN_NUMBER; 3] });
        barrier.reset().unwrap();
    }
    // In time.
    parties_come(&barrier, 3);
    thread::scope(|scope| {
        let next = scope.spawn(|| channel.barrier().unwrap().count_in(IDLE, LONG));
        barrier.release(NOW).unwrap();
        assert_eq!((all_told(&channel, 3), next.join().unwrap()), (vec![0, 1, 2], Ok(false)));
    });
    channel.destroy().unwrap();
    assert_eq!((barrier.count_in(IDLE, LONG), barrier.release(LONG)), (Err(Error::Destroyed), Err(Error::Destroyed)));
}

#[test]
fn a43_other_messages_in_the_way_break_a_release_that_may_not_wait_for_room() {
    let channel = channel(2);
    let barrier = channel.barrier().unwrap();
    parties_come(&barrier, 2);
    channel.sender(SendOptions::default()).unwrap().send(&[9; 8], 0, NOW).unwrap();
    assert_eq!(barrier.release(Timeout::After(Duration::from_millis(50))), Err(Error::Timeout));
    assert_eq!(all_told(&channel, 2), [u64::from_le_bytes([9; 8]), 0]);
    // What was owed comes as soon as there is room and somebody looks.
    assert_eq!((barrier.count_in(IDLE, NOW), told(&channel, NOW)), (Err(Error::BarrierBroken), Ok(BROKEN_NUMBER)));
    assert_eq!(channel.count(), Ok(0));
}

#[test]
fn a43_a_party_that_is_killed_at_any_step_breaks_the_barrier() {
    let broken = |channel: &Channel, parties: usize, expected: &[u64]| {
        let barrier = channel.barrier().unwrap();
        let killed = Instant::now();
        assert_eq!(all_told(channel, parties), expected);
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
        until("a broken barrier", || channel.reap().is_ok() && barrier.is_broken());
        assert_eq!(barrier.count_in(IDLE, LONG), Err(Error::BarrierBroken));
        assert_eq!(channel.poll(Event::Reset, IDLE, NOW), Ok(7));
        assert!((0..3).map(|_| count_in(&barrier)).eq([false, false, true]), "it is as new");
        barrier.release(NOW).unwrap();
        assert_eq!(all_told(channel, 3), [0, 1, 2]);
    };
    let channel = channel(3);
    let barrier = channel.barrier().unwrap();
    // Counted; the two others hear of it though one of them has not come.
    assert!(!count_in(&barrier));
    start("come", &channel).kill();
    broken(&channel, 1, &[BROKEN_NUMBER]);
    // The last one, before it released.
    parties_come(&barrier, 2);
    start("come", &channel).kill();
    broken(&channel, 2, &[BROKEN_NUMBER; 2]);
    // In the middle of the release: what it handed out stands.
    parties_come(&barrier, 2);
    let mut releases = start("release", &channel);
    until("a full channel", || channel.count() == Ok(3));
    releases.kill();
    channel.receiver(IDLE).unwrap().pop(NOW).unwrap();
    broken(&channel, 3, &[0, 1, BROKEN_NUMBER]);
    // Released, and before it received its number.
    let mut counted = start("come", &channel);
    parties_come(&barrier, 2);
    barrier.release(NOW).unwrap();
    counted.kill();
    assert_eq!(barrier.count_in(IDLE, LONG), Err(Error::BarrierBroken), "who waits for the next round finds the dead");
    broken(&channel, 3, &[0, 1, 2]);
}

#[test]
fn a43_who_leaves_after_his_number_breaks_nothing() {
    let first = channel(2);
    let barrier = first.barrier().unwrap();
    let second = another(&first);
    assert!(!count_in(&second.barrier().unwrap()));
    assert!(count_in(&barrier));
    barrier.release(NOW).unwrap();
    assert_eq!(told(&second, NOW), Ok(0));
    drop(second);
    first.reap().unwrap();
    assert_eq!((told(&first, NOW), barrier.is_broken(), count_in(&barrier)), (Ok(1), false, false));
    // Before it, he does.
    let third = another(&first);
    assert_eq!(third.barrier().unwrap().count_in(IDLE, NOW), Ok(true));
    drop(third);
    until("a broken barrier", || first.reap().is_ok() && barrier.is_broken());
    assert_eq!(all_told(&first, 2), [BROKEN_NUMBER; 2]);
}

#[test]
fn a43_who_leaves_without_his_number_breaks_the_barrier_and_who_took_one_does_not() {
    let first = channel(3);
    let barrier = first.barrier().unwrap();
    let [second, third] = [(); 2].map(|()| another(&first));
    for party in [&second, &third] {
        assert!(!count_in(&party.barrier().unwrap()));
    }
    assert!(count_in(&barrier));
    barrier.release(NOW).unwrap();
    assert_eq!((told(&third, NOW), told(&first, NOW)), (Ok(0), Ok(1)));
    drop(third);
    assert!(!barrier.is_broken());
    drop(second);
    let begun = Instant::now();
    assert_eq!(barrier.count_in(IDLE, LONG), Err(Error::BarrierBroken));
    assert!(begun.elapsed() < Duration::from_secs(5), "nobody will take the last number");
    assert_eq!(first.poll(Event::Reset, IDLE, NOW), Ok(7));
    assert!(!barrier.is_broken() && !count_in(&barrier));
}

#[test]
fn a43_parties_that_are_killed_at_random_never_leave_the_others_hanging() {
    let kills = std::env::var("UMBRA_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let mut random: u64 = std::env::var("UMBRA_SEED").map_or(1, |seed| seed.parse().unwrap());
    for kill in 0..kills {
        let channel = channel(3);
        let reference = channel.reference().unwrap();
        let party = || Another::start(&role("rounds", &channel));
        let snapshot = || Snapshot::of_reference(&reference).unwrap();
        let mut parties: Vec<_> = (0..3).map(|_| party()).collect();
        until("the parties", || snapshot().members.len() == 4);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        thread::sleep(Duration::from_micros((random >> 40) % 3000));
        parties.remove(0).kill();
        parties.push(party());
        let (before, barrier) = (snapshot().sent, channel.barrier().unwrap());
        // Between two rounds nobody notices, and the newcomer has its place.
        until("a broken barrier, or rounds that go on", || barrier.is_broken() || snapshot().sent > before + 30);
        barrier.abort().unwrap();
        parties.into_iter().for_each(Another::finish);
        assert_eq!(channel.poll(Event::Reset, IDLE, NOW), Ok(7));
        assert_eq!((barrier.is_broken(), channel.count()), (false, Ok(0)), "kill {kill}");
    }
}
