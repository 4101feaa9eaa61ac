//! Operations of many threads on memories for data of any length.
//!
//! There are groups, interrupts, deadlines, and threads that die with what they hold. ThreadSanitizer runs it as well
//! (step `tsan`): bytes are touched without ordering, so that all order comes from the memories.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod stress;

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use umbra::cache::{CachedMemory, ContentUnmet, HeldPlaces, HeldRange, Memory, PlaceUnmet, RangeUnmet, Unmet};
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::waiting::ContentError;
use umbra_core::cache::{Dense, FillError, ForgetError, Found, FreeError};
use umbra_core::cached_memory::{Member, PlaceError};
use umbra_core::memory::{AllocError, Granule};
use umbra_core::room::{RangeError, WaitError};

use stress::{Counts, Dice, count, operations};

type Index = Dense<Vec<u32>>;
type References<'a> = HeldPlaces<'a, Index, Vec<Member>>;

const CAPACITY: u64 = 100;
const PLACES: u32 = 8;
const IDS: u64 = 14;
const THREADS: u64 = 6;
/// Operations of a thread in one round.
const ROUND: u64 = 10_000;
/// Longer than any machine takes, so whoever waits so long waits for good.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nobody's content.
const NOTHING: u64 = u64::MAX;

/// The same length each time.
fn len(data: u64) -> u64 {
    5 + data % 7 * 5
}

/// The bytes of a memory, and who writes to each; 0 for nobody.
struct Bytes([(AtomicU64, AtomicU64); CAPACITY as usize]);

impl Bytes {
    fn new() -> Self {
        Bytes([const { (AtomicU64::new(NOTHING), AtomicU64::new(0)) }; CAPACITY as usize])
    }

    fn of(&self, offset: u64, len: u64) -> &[(AtomicU64, AtomicU64)] {
        &self.0[offset as usize..][..len as usize]
    }

    /// Writes where nobody else may.
    fn write(&self, (offset, len): (u64, u64), content: u64, dice: &mut Dice) {
        let me = dice.0 | 1;
        for (byte, writer) in self.of(offset, len) {
            assert_eq!(writer.swap(me, Ordering::Relaxed), 0, "two write into {len} bytes at {offset}");
            byte.store(NOTHING, Ordering::Relaxed);
        }
        if dice.throw(64) == 0 {
            thread::yield_now();
        }
        for (byte, writer) in self.of(offset, len) {
            byte.store(content, Ordering::Relaxed);
            assert_eq!(writer.swap(0, Ordering::Relaxed), me, "two write into {len} bytes at {offset}");
        }
    }

    fn check(&self, (offset, len): (u64, u64), content: u64) {
        let same = |(byte, _): &(AtomicU64, AtomicU64)| byte.load(Ordering::Relaxed) == content;
        assert!(self.of(offset, len).iter().all(same), "{len} bytes at {offset} are not those of {content}");
    }
}

struct World {
    memory: CachedMemory<Index>,
    bytes: Bytes,
}

/// The memory was interrupted.
struct Interrupted;

/// A client that interrupts, dies or does neither, while it does its operations.
fn client<H>(
    counts: &Counts,
    mut dice: Dice,
    interrupt: Option<&dyn Fn()>,
    mut operation: impl FnMut(&mut Dice, &mut Option<H>) -> Result<(), Interrupted>,
) {
    let last = dice.throw(ROUND);
    let dies = dice.throw(4) == 0;
    let mut mine = None;
    for at in 0..ROUND {
        count(&counts.operations);
        if at == last {
            interrupt.inspect(|interrupt| interrupt());
        }
        if operation(&mut dice, &mut mine).is_err() {
            return count(&counts.interrupted);
        }
        if dies && at >= last && mine.is_some() {
            count(&counts.deaths);
            resume_unwind(Box::new("dies with what it holds"));
        }
    }
}

/// Rounds until all operations are done: each with a memory that stays unless it was interrupted.
fn rounds<W: Sync>(world: impl Fn() -> W, act: impl Fn(&W, &Counts, Dice, bool) + Sync, ended: impl Fn(&W) -> bool) {
    let (counts, mut dice, mut now) = (Counts::default(), Dice(7), world());
    let mut rounds = 0;
    while counts.go_on(counts.saw_all(), operations(400_000, 40_000), rounds) {
        rounds += 1;
        let interrupter = dice.throw(2 * THREADS);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (now, counts, act, own) = (&now, &counts, &act, Dice(dice.throw(1 << 31)));
                    scope.spawn(move || act(now, counts, own, number == interrupter))
                })
                .collect();
            for thread in threads {
                if let Err(payload) = thread.join() {
                    assert_eq!(payload.downcast_ref(), Some(&"dies with what it holds"));
                }
            }
        });
        if ended(&now) {
            now = world();
        }
    }
    println!("{} operations: {rounds} rounds, {counts:?}", counts.operations.load(Ordering::Relaxed));
    assert!(counts.saw_all());
}

impl World {
    fn new() -> World {
        let memory = CachedMemory::new(CAPACITY, Granule::BYTE, PLACES, Dense::new(vec![0; IDS as usize + 1]));
        World { memory: memory.unwrap(), bytes: Bytes::new() }
    }

    fn operation<'a>(
        &'a self,
        counts: &Counts,
        dice: &mut Dice,
        mine: &mut Option<References<'a>>,
    ) -> Result<(), Interrupted> {
        let wish = (0..1 + dice.throw(3)).map(|_| dice.throw(IDS)).map(|data| Member::new(data, len(data)));
        let wish: Vec<_> = wish.collect();
        match dice.throw(16) {
            0..10 => {
                self.drop(mine);
                *mine = self.get(counts, dice, &wish, PATIENCE)?.filter(|_| dice.throw(2) == 0);
            }
            // Several who hold something while they wait for more can only be parted by a deadline.
            10 => {
                let within = dice.brief();
                let got = self.get(counts, dice, &wish, within)?;
                self.drop(mine);
                *mine = got;
            }
            11 => {
                let mut members = wish;
                match self.memory.take_now(&mut members) {
                    Ok(()) => *mine = self.fill(counts, dice, members)?.or(mine.take()),
                    Err(PlaceError::Interrupted) => return Err(Interrupted),
                    Err(PlaceError::OthersWait | PlaceError::Blocked { .. } | PlaceError::NoPlace { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            at @ 12..14 => {
                let data = dice.throw(IDS);
                let told = if at == 12 { self.memory.forget(data) } else { self.memory.forget_later(data) };
                if told == Err(ForgetError::Interrupted) {
                    return Err(Interrupted);
                }
            }
            14 => match self.memory.free(IDS) {
                Err(FreeError::Interrupted) => return Err(Interrupted),
                other => assert_eq!(other, Err(FreeError::NotAssigned { data: IDS })),
            },
            _ => self.drop(mine),
        }
        Ok(())
    }

    /// What is held is as it was until it is given back.
    fn drop(&self, mine: &mut Option<References<'_>>) {
        if let Some(held) = mine.take() {
            self.check(&held);
        }
    }

    fn check(&self, held: &References<'_>) {
        for member in held.members() {
            self.bytes.check((member.place().unwrap().offset, member.len()), member.data());
        }
    }

    /// References to the content of all; `None` if the deadline was too short.
    fn get<'a>(
        &'a self,
        counts: &Counts,
        dice: &mut Dice,
        wish: &[Member],
        within: Duration,
    ) -> Result<Option<References<'a>>, Interrupted> {
        loop {
            let mut members = wish.to_vec();
            let told = self.memory.alloc_group(&mut members, within).map(|held| held.into_members().is_some());
            match told {
                Ok(_) => {
                    if let Some(held) = self.fill(counts, dice, members)? {
                        return Ok(Some(held));
                    }
                }
                Err(PlaceUnmet::Interrupted) => return Err(Interrupted),
                Err(PlaceUnmet::Expired { scene, .. }) => {
                    assert!(within < PATIENCE, "forgotten: {scene}");
                    count(&counts.expired);
                    return Ok(None);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Content in places that were given; `None` if some was given up.
    fn fill<'a>(
        &'a self,
        counts: &Counts,
        dice: &mut Dice,
        members: Vec<Member>,
    ) -> Result<Option<References<'a>>, Interrupted> {
        let mut held = self.memory.held(members);
        for member in held.members() {
            let place = member.place().unwrap();
            if place.found == Found::Empty {
                count(&counts.loads);
                self.bytes.write((place.offset, member.len()), member.data(), dice);
            }
        }
        if dice.throw(16) == 0 {
            return Ok(None);
        }
        match held.remember() {
            Ok(()) => {}
            Err(FillError::Interrupted) => return Err(Interrupted),
            Err(error) => panic!("{error}"),
        }
        for member in held.members() {
            if member.place().unwrap().found == Found::Assigned {
                match self.memory.filled(member.data(), PATIENCE) {
                    Ok(()) => {}
                    Err(ContentUnmet::Interrupted) => return Err(Interrupted),
                    Err(Unmet::Refused(ContentError::Abandoned { .. })) => return Ok(None),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        self.check(&held);
        Ok(Some(held))
    }

    /// After all threads have gone: nobody waits, and all bytes can be had; whether it was interrupted.
    fn is_whole(&self) -> bool {
        assert_eq!(self.memory.waiting() + self.memory.waiting_for_content(), 0);
        match self.memory.alloc(IDS, CAPACITY, Duration::ZERO) {
            Ok(held) => assert_eq!(held.place(0).map(|place| (place.offset, place.found)), Some((0, Found::Empty))),
            Err(error) => assert_eq!(error, Unmet::Interrupted),
        }
        let interrupted = self.memory.free(IDS) == Err(FreeError::Interrupted);
        assert!(interrupted || self.memory.look(|places| places.in_use()) == (0, 0), "somebody holds a place");
        interrupted
    }
}

#[test]
fn no_place_has_two_owners_or_is_lost_and_everybody_is_answered() {
    rounds(
        World::new,
        |world, counts, dice, interrupts| {
            let interrupt: &dyn Fn() = &|| world.memory.interrupt();
            client(counts, dice, interrupts.then_some(interrupt), |dice, mine| world.operation(counts, dice, mine));
        },
        World::is_whole,
    );
}

/// Ranges, and what is in them.
struct Plain {
    memory: Memory,
    bytes: Bytes,
}

impl Plain {
    fn new() -> Self {
        Plain { memory: Memory::new(CAPACITY, Granule::BYTE, PLACES).unwrap(), bytes: Bytes::new() }
    }

    fn operation<'a>(
        &'a self,
        counts: &Counts,
        dice: &mut Dice,
        mine: &mut Option<(HeldRange<'a>, u64)>,
    ) -> Result<(), Interrupted> {
        let (len, align, content) = (1 + dice.throw(50), 1 << dice.throw(4), dice.throw(1 << 30));
        let choice = dice.throw(8);
        if choice < 6
            && let Some((held, content)) = mine.take()
        {
            self.bytes.check((held.offset(), held.len()), content);
        }
        let told = match choice {
            0..5 => self.memory.alloc(len, align, PATIENCE),
            5 => self.memory.try_alloc(len, align).map_err(|error| match error {
                RangeError::Interrupted => Unmet::Interrupted,
                error => Unmet::Refused(WaitError::Refused(error)),
            }),
            // Whoever holds one while it waits for another.
            _ => self.memory.alloc(len, align, dice.brief()),
        };
        match told {
            Ok(held) => {
                assert_eq!(held.offset() % align, 0);
                count(&counts.loads);
                self.bytes.write((held.offset(), len), content, dice);
                *mine = Some((held, content));
            }
            Err(RangeUnmet::Interrupted) => return Err(Interrupted),
            Err(Unmet::Expired { scene, .. }) => {
                assert!(choice > 5, "forgotten: {scene}");
                count(&counts.expired);
            }
            Err(error) => assert_eq!(choice, 5, "{error}"),
        }
        if dice.throw(2) == 0
            && let Some((held, content)) = mine.take()
        {
            self.bytes.check((held.offset(), held.len()), content);
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        assert_eq!(self.memory.waiting(), 0);
        match self.memory.try_alloc(CAPACITY, 1) {
            Ok(held) => assert_eq!(held.offset(), 0),
            Err(error) => assert_eq!(error, RangeError::Interrupted),
        }
        self.memory.try_alloc(0, 1).map(drop) != Err(RangeError::Refused(AllocError::ZeroSize))
    }
}

#[test]
fn no_range_has_two_owners_or_is_lost_and_everybody_is_answered() {
    rounds(
        Plain::new,
        |world, counts, dice, interrupts| {
            let interrupt: &dyn Fn() = &|| world.memory.interrupt();
            client(counts, dice, interrupts.then_some(interrupt), |dice, mine| world.operation(counts, dice, mine));
        },
        Plain::is_whole,
    );
}
