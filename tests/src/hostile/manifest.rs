//! The manifest of a pool, which every process that uses the pool can write.
//!
//! An input is what another process does to a sound manifest, and this one with the pool: eleven bytes a step. The first
//! says what is done; two are a place and eight a word for it.

use std::os::fd::{AsFd as _, OwnedFd};

use umbra::pool::{Allocation, Attributes, Pool};
use umbra::sys::process::ProcessId;
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::atomic::Ordering;

/// Bytes of the pool.
const BYTES: u64 = 4096;
/// Bytes of a step, and steps taken at most.
const STEP: usize = 11;
const STEPS: usize = 64;
/// Things that can be done: the first ones are that the other process writes.
const KINDS: u8 = 16;
const WRITES: u8 = 5;

/// A step, and at which place: one of the words that are not zero at first, or any.
fn step(what: u8, at: u16, word: u64) -> Vec<u8> {
    [&[what][..], &at.to_le_bytes(), &word.to_le_bytes()].concat()
}

/// All that is done with a sound pool, and the same after the manifest has lost one of its first words.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let uses = || (WRITES..KINDS).chain([5, 5, 6, 7, 5, 8, 9]).flat_map(|what| step(what, 100, 100));
    let lost = |at| step(0, at, 0).into_iter().chain(uses()).collect();
    std::iter::once(uses().collect()).chain((0..24).map(lost)).collect()
}

/// A pool in which something is allocated, as another process has it.
struct Made {
    manifest: OwnedFd,
    data: OwnedFd,
    /// The manifest as that process sees it, and its words as they were.
    seen: Segment,
    words: Vec<u64>,
}

impl Made {
    fn new() -> Made {
        let attributes = Attributes { bytes: BYTES, blocks: 16, members: 4, ..Attributes::default() };
        let pool = Pool::create(None, &attributes).expect("a small pool has room");
        for len in [100, 1000] {
            pool.alloc(len, 1).expect("the pool has room");
        }
        let [manifest, data] = pool.share().expect("the system has a descriptor left");
        let len = rustix::fs::fstat(&manifest).expect("it is open").st_size as usize;
        let theirs = manifest.as_fd().try_clone_to_owned().expect("the system has a descriptor left");
        let seen = Segment::attach(theirs, Mapping::ReadWrite, len).expect("it is as long");
        let words = seen.all_words().iter().map(|word| word.load(Ordering::Relaxed)).collect();
        Made { manifest, data, seen, words }
    }

    fn restore(&self) {
        for (word, &was) in self.seen.all_words().iter().zip(&self.words) {
            word.store(was, Ordering::Relaxed);
        }
    }

    /// The other process writes a word.
    fn write(&self, at: u16, word: u64) {
        let (any, nth) = (usize::from(at) % self.words.len(), usize::from(at));
        let at = (0..self.words.len()).filter(|&at| self.words[at] != 0).nth(nth).unwrap_or(any);
        self.seen.all_words()[at].store(word, Ordering::Relaxed);
    }

    fn attach(&self) -> Option<Pool> {
        let theirs = |fd: &OwnedFd| fd.try_clone().expect("the system has a descriptor left");
        Pool::attach_shared(theirs(&self.manifest), theirs(&self.data))
            .inspect_err(|error| assert!(!error.to_string().is_empty()))
            .ok()
    }
}

thread_local!(static MADE: Made = Made::new());

/// Whatever is in the manifest: an allocation lies in the pool, every call ends, and none panics.
pub(super) fn feed(bytes: &[u8]) {
    let mut steps = bytes
        .as_chunks::<STEP>()
        .0
        .iter()
        .take(STEPS)
        .map(|&[what, a, b, ref word @ ..]| (what % KINDS, u16::from_le_bytes([a, b]), u64::from_le_bytes(*word)));
    MADE.with(|made| {
        made.restore();
        let first = steps.find(|&(what, at, word)| {
            if what < WRITES {
                made.write(at, word);
            }
            what >= WRITES
        });
        let Some(pool) = made.attach() else { return };
        let mut held = Vec::new();
        for (what, at, word) in first.into_iter().chain(steps) {
            if what < WRITES {
                made.write(at, word);
            } else {
                use_pool(&pool, &mut held, (what, at, word));
            }
        }
    });
}

fn use_pool<'p>(pool: &'p Pool, held: &mut Vec<Allocation<'p>>, (what, at, word): (u8, u16, u64)) {
    match what {
        5 => held.extend(pool.alloc(at.into(), word as u32)),
        6 => drop(held.pop().map(Allocation::free)),
        7 => drop(held.last().map(|block| (block.own(), block.kind(), block.whole(), block.exists()))),
        8 => pool.blocks().filter_map(|block| pool.allocation(block.id).ok()).for_each(is_inside),
        9 => drop(pool.blocks().last().and_then(|block| pool.allocation(block.id).ok()).map(Allocation::free)),
        10 => drop((pool.figures(), pool.uses(), pool.uid(), pool.is_awaited(), pool.is_over(), pool.memory())),
        11 => drop((pool.users().count(), pool.reclaim())),
        12 => {
            let process = ProcessId { pid: u32::from(at), start: word };
            drop((pool.allocations_of(process), pool.free_allocations_of(process)));
        }
        13 => drop(pool.allocation(umbra_core::heap::BlockId::from_bits(word)).map(is_inside)),
        14 => drop(held.first().zip(held.last()).map(|(one, other)| (one.equals(other), one.copy_to(other)))),
        _ => drop(pool.destroy()),
    }
    held.iter().copied().for_each(is_inside);
}

/// Its bytes are there to be read and written, unless it is gone.
fn is_inside(block: Allocation<'_>) {
    assert!(block.len() <= BYTES);
    let mut all = vec![0; block.len() as usize];
    if block.read(0, &mut all).is_ok() {
        let _ = block.write(0, &all);
    }
}
