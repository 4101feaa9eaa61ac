//! What must hold before anybody is served.
//!
//! The same tests run on every board: memory that takes atomics and unaligned access, a clock that advances, and each
//! piece of the engine once, over statics of its own.

use core::fmt;
use core::hint::black_box;

use spin::Mutex;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::endpoints::{Descriptor, Endpoints, JobKey, LookupError, Shadows, Shape, Table, TableBuilder};
use umbra_core::id::Generation;
use umbra_core::key::{Access, Key, Span};
use umbra_core::memory::Block;
use umbra_core::peer::{Host, Incarnation, LocalRank, Peer, Rank, Sp, WorldRank};
use umbra_core::placement::Placement;
use umbra_core::region::{Entry, HoldError, Regions, Secret};
use umbra_core::ring::line::{Line, Ring, words_for};

use crate::board;

/// Ranks of the group that is looked up.
const RANKS: u32 = 8;
const RING: usize = 4;

struct Scratch {
    words: [u64; 512],
    table: [u8; 4096],
    arena: [AtomicU64; 512],
}

static SCRATCH: Mutex<Scratch> =
    Mutex::new(Scratch { words: [0; 512], table: [0; 4096], arena: [const { AtomicU64::new(0) }; 512] });

/// A test that failed.
pub(crate) struct Failed(&'static str);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

type Test = fn(&mut Scratch) -> Option<()>;

const TESTS: [(&str, Test); 5] = [
    ("atomics and unaligned access", memory),
    ("a clock that advances", clock),
    ("a ring hands lines over and is full when it is full", ring),
    ("a region refuses keys, bounds and rights that are not its own", region),
    ("the endpoint cache finds ranks and refuses old handles", endpoints),
];

/// How many there are.
pub(crate) const COUNT: usize = TESTS.len();

/// Runs all of them.
pub(crate) fn run() -> Result<(), Failed> {
    let mut scratch = SCRATCH.try_lock().ok_or(Failed("its memory is in use"))?;
    for (what, test) in TESTS {
        test(&mut scratch).ok_or(Failed(what))?;
    }
    Ok(())
}

/// `None` ends a test as failed.
fn holds(condition: bool) -> Option<()> {
    condition.then_some(())
}

fn memory(scratch: &mut Scratch) -> Option<()> {
    let word = scratch.arena.first()?;
    word.store(5, Ordering::SeqCst);
    holds(word.compare_exchange(5, 7, Ordering::AcqRel, Ordering::Acquire) == Ok(5))?;
    holds(word.compare_exchange(5, 9, Ordering::AcqRel, Ordering::Acquire) == Err(7))?;
    holds(word.fetch_add(1, Ordering::AcqRel) == 7)?;
    let shared = BytesMut::from_words(&mut scratch.words);
    let mut copy = [0; 16];
    for offset in 0..8 {
        shared.write(black_box(offset), b"0123456789abcdef").ok()?;
        shared.read_only().read(black_box(offset), &mut copy).ok()?;
        holds(&copy == b"0123456789abcdef")?;
    }
    holds(shared.write(scratch_end(shared), b"x").is_err())
}

const fn scratch_end(shared: BytesMut<'_>) -> usize {
    shared.len()
}

fn clock(_: &mut Scratch) -> Option<()> {
    let begun = board::now();
    // Long enough for the coarsest of the clocks.
    (0..10_000_000).find(|_| board::now() > begun).map(|_: u32| ())
}

fn ring(scratch: &mut Scratch) -> Option<()> {
    let words = BytesMut::from_words(&mut scratch.words).words(0, words_for(RING)?).ok()?;
    let ring = Ring::create(words, RING).ok()?;
    let (mut sender, mut receiver) = (ring.sender().ok()?, ring.receiver().ok()?);
    for lap in 0..3 * RING as u64 {
        let line = Line::new([lap; 8])?;
        for _ in 0..RING {
            sender.push(line).ok()?;
        }
        holds(sender.push(line).is_err())?;
        for _ in 0..RING {
            holds(receiver.pop() == Some(line))?;
        }
        holds(receiver.pop().is_none())?;
    }
    Some(())
}

fn region(_: &mut Scratch) -> Option<()> {
    let mut regions = Regions::new([const { Entry::VACANT }; 4]);
    let owner = Peer::rank(WorldRank(3))?;
    let shadows = Shadows::from_slice(&[Sp(0)]).ok()?;
    let secret = Secret([7; 32]);
    let key = regions.export(owner, Incarnation(9), 0x1000, 64, Access::READ, shadows, secret).ok()?.key;
    let span = |offset, len| Span { key, offset, len };
    let held = regions.hold(span(60, 4), Access::READ, Sp(0)).ok()?;
    holds(held.address() == 0x1000 + 60)?;
    holds(regions.hold(span(60, 5), Access::READ, Sp(0)) == Err(HoldError::OutOfBounds))?;
    holds(regions.hold(span(0, 1), Access::WRITE, Sp(0)) == Err(HoldError::PermissionDenied))?;
    holds(regions.hold(span(0, 1), Access::READ, Sp(1)) == Err(HoldError::NotShadow))?;
    let old = Key::new(owner, key.region(), key.generation().wrapping_sub(1));
    holds(regions.hold(Span { key: old, offset: 0, len: 1 }, Access::READ, Sp(0)) == Err(HoldError::StaleKey))?;
    holds(regions.revoke(key).ok()?.in_flight == 1)?;
    holds(regions.release(held) == Some(key))?;
    holds(regions.hold(span(0, 1), Access::READ, Sp(0)) == Err(HoldError::KeyRevoked))
}

fn endpoints(scratch: &mut Scratch) -> Option<()> {
    let job = Placement::one_dpu_a_host(2, 2, 1).ok()?;
    let mut bytes = [0; Descriptor::WORLD_BYTES];
    let world = Descriptor::write_world(0, RANKS, &mut bytes).ok()?;
    let shape = Shape::new(&world, JobKey::new([1; 16]).group(&world), &job);
    let storage = scratch.table.get_mut(..shape.builder_bytes())?;
    let mut builder = TableBuilder::new(storage, shape).ok()?;
    for rank in 0..RANKS {
        let entry = job.entry(WorldRank(rank), Host(rank / 4), LocalRank(rank % 4))?;
        builder.set(Rank(rank), &entry).ok()?;
    }
    let table = Table::attach(builder.finish(Generation::FIRST).ok()?).ok()?;
    let mut endpoints = Endpoints::create(&scratch.arena[..], [Block::SPARE; 9], 4).ok()?;
    let handle = endpoints.publish(&table, None).ok()?;
    for rank in (0..RANKS).map(Rank) {
        let found = endpoints.reader().ok()?.lookup(handle, rank).ok()?;
        holds(table.endpoint(rank) == Ok(found))?;
    }
    let beyond = endpoints.reader().ok()?.lookup(handle, Rank(RANKS));
    holds(beyond == Err(LookupError::RankOutOfRange { rank: Rank(RANKS), size: RANKS }))?;
    endpoints.retire(handle).ok()?;
    holds(endpoints.reader().ok()?.lookup(handle, Rank(0)) == Err(LookupError::StaleGeneration))
}
