//! kill -9 and stop of processes that allocate and free in a shared heap: A15, A16.
//!
//! After every kill and during every stop the others go on; after every burial nothing of the dead one is left, and
//! when all are dead the heap is as good as new. Moments are random, drawn by a generator whose seed is printed on
//! failure. The counts are small, so that they fit into every run of the tests: `UMBRA_KILLS=10000` and
//! `UMBRA_STOPS=1000` make them large.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::sys::segment::Segment;
use umbra_core::crew::Member;
use umbra_core::heap::Keep;
use umbra_tests::crash::heap::{self, Yard};

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
const DEADLINE: Duration = Duration::from_secs(30);
const PLAYERS: u8 = 4;

struct Dice(u64);
impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn count(name: &str, or: usize) -> usize {
    std::env::var(name).map_or(or, |count| count.parse().unwrap())
}

/// Children that are killed and reaped however the test ends.
struct Player {
    number: u8,
    child: Child,
}

impl Player {
    fn start(number: u8, segment: &Segment) -> Player {
        let child = Command::new(env!("CARGO_BIN_EXE_crash-child"))
            .args([heap::ROLE, &number.to_string()])
            .stdin(Stdio::from(segment.share().unwrap()))
            .spawn()
            .unwrap();
        Player { number, child }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(&mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "player {} saw something impossible", self.number);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has done something more.
    fn advances(&mut self, yard: Yard<'_>, after: &str) {
        let (start, before) = (Instant::now(), yard.progress(self.number));
        while yard.progress(self.number) == before {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "player {} saw something impossible after {after}", self.number);
            assert!(start.elapsed() < DEADLINE, "player {} hangs after {after}", self.number);
            thread::sleep(Duration::from_micros(20));
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_yard(body: impl FnOnce(&Segment, Yard<'_>, Member)) {
    let count = heap::words().unwrap();
    let segment = Segment::create("crash test", count * 8).unwrap();
    let yard = Yard::create(segment.bytes_mut().unwrap().words(0, count).unwrap()).unwrap();
    let me = yard.join().unwrap();
    body(&segment, yard, me);
}

fn start_all(segment: &Segment, yard: Yard<'_>) -> Vec<Player> {
    let mut players: Vec<_> = (0..PLAYERS).map(|number| Player::start(number, segment)).collect();
    players.iter_mut().for_each(|player| player.advances(yard, "its start"));
    players
}

fn end_all(mut players: Vec<Player>, yard: Yard<'_>, me: Member, seed: u64) {
    players.iter_mut().for_each(Player::kill);
    assert_eq!(yard.bury(me), Ok(players.len()), "seed {seed}");
    assert_eq!(yard.at_rest(me), Ok(()), "seed {seed}");
}

#[test]
fn a15_after_each_kill_the_heap_is_as_good_as_new() {
    let seed = 15;
    with_yard(|segment, yard, me| {
        let mut dice = Dice(seed);
        for kill in 0..count("UMBRA_KILLS", 200) {
            let mut player = Player::start(0, segment);
            player.advances(yard, "its start");
            thread::sleep(Duration::from_micros(dice.below(300)));
            player.kill();
            assert_eq!(yard.bury(me), Ok(1), "kill {kill}, seed {seed}");
            assert_eq!(yard.at_rest(me), Ok(()), "kill {kill}, seed {seed}");
        }
    });
}

#[test]
fn a15_others_go_on_beside_one_that_is_killed() {
    let seed = 16;
    with_yard(|segment, yard, me| {
        let mut dice = Dice(seed);
        let mut players = start_all(segment, yard);
        for kill in 0..count("UMBRA_KILLS", 200) {
            let victim = dice.below(PLAYERS.into()) as usize;
            thread::sleep(Duration::from_micros(dice.below(300)));
            players[victim].kill();
            let after = format!("kill {kill} of {victim}, seed {seed}");
            for player in players.iter_mut().filter(|player| usize::from(player.number) != victim) {
                player.advances(yard, &after);
            }
            assert_eq!(yard.bury(me), Ok(1), "{after}");
            players[victim] = Player::start(victim as u8, segment);
            players[victim].advances(yard, &after);
        }
        end_all(players, yard, me, seed);
    });
}

#[test]
fn a16_others_go_on_beside_one_that_is_stopped() {
    let seed = 17;
    with_yard(|segment, yard, me| {
        let mut dice = Dice(seed);
        let mut players = start_all(segment, yard);
        for stop in 0..count("UMBRA_STOPS", 60) {
            let victim = dice.below(PLAYERS.into()) as usize;
            thread::sleep(Duration::from_micros(dice.below(300)));
            players[victim].signal(Signal::STOP);
            let after = format!("stop {stop} of {victim}, seed {seed}");
            for _ in 0..3 {
                for player in players.iter_mut().filter(|player| usize::from(player.number) != victim) {
                    player.advances(yard, &after);
                }
            }
            assert_eq!(yard.bury(me), Ok(0), "a stopped process lives");
            players[victim].signal(Signal::CONT);
            players[victim].advances(yard, &after);
        }
        end_all(players, yard, me, seed);
    });
}

#[test]
fn blocks_of_the_dead_stay_until_somebody_frees_them() {
    with_yard(|segment, yard, me| {
        let mut player = Player::start(0, segment);
        player.advances(yard, "its start");
        let dead = yard.heap().crew().members().find(|member| member.number != me.number).unwrap();
        let held = loop {
            player.signal(Signal::STOP);
            let held: Vec<_> = yard.heap().blocks().filter(|block| block.owner == dead.number).collect();
            if held.len() >= 5 {
                break held;
            }
            player.signal(Signal::CONT);
            player.advances(yard, "too few blocks");
        };
        player.kill();
        assert!(yard.heap().bury(dead, me.number, Keep::Blocks).is_err());
        let left: Vec<_> = yard.heap().blocks().collect();
        assert!(left.iter().all(|block| block.owner == dead.number && held.contains(block)), "{left:?} of {held:?}");
        assert!(left.len() == held.len(), "a stopped process does not go on");
        // Somebody frees one of them; the rest goes with the burial.
        yard.heap().hand(me).free(left[0].id).unwrap();
        let buried = yard.heap().bury(dead, me.number, Keep::Nothing).unwrap();
        assert_eq!(buried.freed, left.len() - 1);
        assert_eq!(yard.at_rest(me), Ok(()));
    });
}
