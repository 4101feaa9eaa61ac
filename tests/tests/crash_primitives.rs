//! kill -9 and stop of processes that share slots and queues: A38, A39.
//!
//! Slots and queues lie in a segment. After every kill and during every stop the others must go on; after every reclaim
//! nothing is lost that the dead one did not hold. Moments are random, drawn by a generator whose seed is printed on
//! failure. `UMBRA_KILLS=N` sets another number of kills and stops, of which one in four is a stop, and `UMBRA_SEED=N`
//! another seed.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::cell::Cell;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use umbra::sys::futex::Futex;
use umbra::sys::segment::Segment;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::channel::{Port, Reclaimed};
use umbra_core::ring::line;
use umbra_core::ring::mailbox::Mailbox;
use umbra_core::shared_cache::{Forgetful, Identity};
use umbra_core::shared_slots::{Owner, SharedSlots};
use umbra_tests::crash::{self, Arena, CAPACITY, Role, SLOTS, WORDS, cache};

/// A number that whoever runs the tests may set.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Kills and stops of a scenario.
fn kills() -> usize {
    number("UMBRA_KILLS").unwrap_or(40) as usize
}

/// Far beyond anything that a loaded machine needs; only a hang lasts longer.
const DEADLINE: Duration = Duration::from_secs(30);

struct Dice(u64);
impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Children that are killed and reaped however the test ends.
struct Actor {
    role: Role,
    owner: u8,
    child: Child,
}

impl Actor {
    fn start(role: Role, owner: u8, segment: &Segment) -> Actor {
        let child = Command::new(env!("CARGO_BIN_EXE_crash-child"))
            .args([role.name(), &owner.to_string()])
            .stdin(Stdio::from(segment.share().unwrap()))
            .spawn()
            .unwrap();
        Actor { role, owner, child }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(&mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "{:?} saw something impossible", self.role);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the actor has done something more, or names it.
fn advances(actor: &mut Actor, arena: Arena<'_>, after: &str) {
    let (start, before) = (Instant::now(), arena.progress(actor.owner));
    while arena.progress(actor.owner) == before {
        let ended = actor.child.try_wait().unwrap();
        assert!(ended.is_none(), "{:?} {} saw something impossible after {after}", actor.role, actor.owner);
        assert!(start.elapsed() < DEADLINE, "{:?} {} hangs after {after}", actor.role, actor.owner);
        thread::sleep(Duration::from_micros(50));
    }
}

/// Kills or stops one actor after the other at random moments.
fn scenario(its: u64, roles: &[Role], goes_on: impl Fn(Role, Role) -> bool, bury: impl Fn(u8, Arena<'_>)) -> usize {
    let segment = Segment::create("crash test", WORDS * 8).unwrap();
    let arena = Arena::new(segment.bytes_mut().unwrap()).unwrap();
    crash::create(roles[0], arena).unwrap();
    let seed = number("UMBRA_SEED").unwrap_or(its);
    let mut dice = Dice(seed);
    let mut actors: Vec<Actor> = (0..).zip(roles).map(|(n, &role)| Actor::start(role, n, &segment)).collect();
    for actor in &mut actors {
        advances(actor, arena, "its start");
    }
    for _ in 0..kills() {
        let victim = dice.below(actors.len() as u64) as usize;
        thread::sleep(Duration::from_micros(dice.below(800)));
        let (role, owner) = (actors[victim].role, actors[victim].owner);
        let kill = dice.below(4) > 0;
        if kill {
            actors[victim].kill();
        } else {
            actors[victim].signal(Signal::STOP);
        }
        let what = format!("{role:?} {owner} was {}, seed {seed}", if kill { "killed" } else { "stopped" });
        for (n, actor) in actors.iter_mut().enumerate() {
            if n != victim && goes_on(role, actor.role) {
                advances(actor, arena, &what);
            }
        }
        if kill {
            arena.forget_user(owner);
            bury(owner, arena);
            actors[victim] = Actor::start(role, owner, &segment);
        } else {
            actors[victim].signal(Signal::CONT);
        }
        for actor in &mut actors {
            advances(actor, arena, &what);
        }
    }
    let numbers: Vec<u8> = actors.iter().map(|actor| actor.owner).collect();
    for actor in &mut actors {
        actor.kill();
    }
    for owner in numbers {
        arena.forget_user(owner);
        bury(owner, arena);
    }
    at_rest(roles[0], arena)
}

/// With everybody dead and buried the structure must be as good as new; returns what was lost.
fn at_rest(role: Role, arena: Arena<'_>) -> usize {
    let parent = Owner::new(20).unwrap();
    match role {
        Role::Slots => {
            let slots = SharedSlots::attach(arena.structure()).unwrap();
            let ids: Vec<_> = std::iter::from_fn(|| slots.take(parent).ok()).collect();
            assert_eq!(ids.len(), SLOTS, "every slot can be taken again");
            0
        }
        Role::LineSender | Role::LineReceiver => {
            let ring = line::Ring::attach(arena.structure()).unwrap();
            let (mut sender, mut receiver) = (ring.sender().unwrap(), ring.receiver().unwrap());
            assert!(sender.position() > 0);
            let from = receiver.position();
            while let Some(line) = receiver.pop() {
                assert_eq!(crash::parse(&line).unwrap().1 + 1, receiver.position());
            }
            assert!(receiver.position() - from <= CAPACITY as u64);
            assert_eq!(receiver.position(), sender.position());
            let lines = [crash::line_of(20, 7); CAPACITY];
            assert_eq!(sender.push_all(&lines), Ok(CAPACITY));
            assert_eq!((0..).map_while(|_| receiver.pop()).collect::<Vec<_>>(), lines);
            0
        }
        Role::MailSender | Role::MailReceiver => {
            let mailbox = Mailbox::attach(arena.structure()).unwrap();
            while let Some(line) = mailbox.pop(parent).unwrap() {
                arena.receive(crash::parse(&line).unwrap().1).unwrap();
            }
            assert_eq!(mailbox.slots().free(), CAPACITY, "every slot is free again");
            let lines: Vec<_> = (0..CAPACITY as u64).map(|n| crash::line_of(20, n)).collect();
            assert!(lines.iter().all(|&line| mailbox.push(parent, line).is_ok()));
            assert!(mailbox.push(parent, lines[0]).is_err());
            let back: Vec<_> = std::iter::from_fn(|| mailbox.pop(parent).unwrap()).collect();
            assert_eq!(back, lines);
            let (numbered, received) = arena.messages();
            usize::try_from(numbered - received).unwrap()
        }
        Role::Cache => {
            cache_at_rest(arena);
            0
        }
        Role::ChannelSender | Role::ChannelReceiver => {
            usize::try_from(crash::channel::at_rest(arena).unwrap()).unwrap()
        }
    }
}

/// With everybody buried, no reference is left and each slot can be taken.
fn cache_at_rest(arena: Arena<'_>) {
    let client = cache::join(arena).unwrap();
    let mut taken: Vec<u32> = (100..).map_while(|data| client.alloc(data).ok()).map(|grant| grant.slot).collect();
    taken.sort_unstable();
    assert_eq!(taken, (0..SLOTS as u32).collect::<Vec<_>>(), "every slot can be taken again, once");
}

fn owner(number: u8) -> Owner {
    Owner::new(number).unwrap()
}

#[test]
fn killed_and_stopped_takers_of_shared_slots_block_nobody_and_lose_no_slot() {
    scenario(
        1,
        &[Role::Slots, Role::Slots],
        |_, _| true,
        |dead, arena| {
            let slots = SharedSlots::attach(arena.structure()).unwrap();
            slots.reclaim(owner(dead));
            assert_eq!(slots.held_by(owner(dead)), 0);
        },
    );
}

#[test]
fn killed_and_stopped_ends_of_a_line_ring_are_replaced_without_a_gap() {
    // While one of the two ends is away the other fills or empties the ring and waits.
    let lost = scenario(2, &[Role::LineSender, Role::LineReceiver], |_, _| false, |_, _| ());
    assert_eq!(lost, 0);
}

#[test]
fn killed_and_stopped_users_of_a_mailbox_block_nobody_and_lose_only_what_they_held() {
    let lost = scenario(
        3,
        &[Role::MailSender, Role::MailReceiver, Role::MailSender, Role::MailReceiver],
        |_, _| true,
        |dead, arena| {
            let mailbox = Mailbox::attach(arena.structure()).unwrap();
            mailbox.reclaim(owner(dead));
            assert_eq!(mailbox.slots().held_by(owner(dead)), 0);
        },
    );
    // A dead sender held at most one number that it had not published, a dead receiver one message.
    assert!(lost <= kills() + 4, "{lost} messages were lost");
}

#[test]
fn a38_a39_killed_and_stopped_users_of_a_channel_block_nobody_and_lose_only_what_they_held() {
    let lost = scenario(
        5,
        &[Role::ChannelSender, Role::ChannelReceiver, Role::ChannelSender, Role::ChannelReceiver],
        |_, _| true,
        |dead, arena| {
            let port = Port::new(crash::channel::attach(arena).unwrap(), 20, Futex);
            port.reclaim(dead.into());
            assert_eq!(port.reclaim(dead.into()), Reclaimed::default(), "the first call took back everything");
        },
    );
    // A dead sender held at most one number that it had not published, a dead receiver one message.
    assert!(lost <= kills() + 4, "{lost} messages were lost");
}

#[test]
fn killed_and_stopped_users_of_a_shared_cache_block_nobody_and_lose_no_slot() {
    let (references, fills) = (Cell::new(0), Cell::new(0));
    scenario(
        4,
        &[Role::Cache; 3],
        |_, _| true,
        |_, arena| {
            let (reclaimed, told) = cache::bury(arena).unwrap();
            assert_eq!(told.len() as u64, reclaimed.fills, "each fill is told");
            references.set(references.get() + reclaimed.references);
            fills.set(fills.get() + reclaimed.fills);
        },
    );
    assert!(references.get() > 0 && fills.get() > 0, "some died with references, some while they filled a slot");
}

#[test]
fn two_that_are_dead_are_buried_whatever_each_of_them_has() {
    /// As a cache of [`SLOTS`] slots and 5 owners has them: where the lines of the index begin, and how many they are.
    const LINES: usize = 32 + 16 * 5;
    const COUNT: usize = (9 * SLOTS).div_ceil(16).next_multiple_of(8);
    let segment = Segment::create("crash test", WORDS * 8).unwrap();
    let arena = Arena::new(segment.bytes_mut().unwrap()).unwrap();
    cache::create(arena.structure()).unwrap();
    let cache = Forgetful::attach(arena.structure()).unwrap();
    // No process has such a pid.
    let [first, second] = [0xff_fffe, 0xff_ffff].map(|pid| cache.join(Identity::new(pid, 1)).unwrap());
    first.alloc(1).unwrap();
    // The first died with a slot that it had claimed, the second with every line.
    let lines: &[[AtomicU64; 8]] = arena.structure()[LINES..LINES + 8 * COUNT].as_chunks().0;
    let empty = lines.iter().map(|[_, _, word, ..]| word).find(|word| word.load(Ordering::Relaxed) == 0).unwrap();
    empty.store(1 << 61 | u64::from(first.owner().number()) << 40, Ordering::Relaxed);
    for [_, head, ..] in lines {
        head.fetch_or(u64::from(second.owner().number() + 1) << 59, Ordering::Relaxed);
    }
    let (reclaimed, told) = cache::bury(arena).unwrap();
    assert_eq!((reclaimed.references, reclaimed.emptied, told), (1, 2, vec![1]));
    assert_eq!((cache.members().count(), cache.empty() as usize), (0, SLOTS));
}
