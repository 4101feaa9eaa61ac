//! What is asked of an allocator: five mixes of sizes, a full memory, and batches.
//!
//! The memory is kept full; a batch is frees, and then allocations.

use umbra_tests::bench::Clock;

use crate::sides::{Arena, CAPACITY};

/// Ranges freed, and then allocated, between two looks at the clock.
const BATCH: usize = 64;

/// Numbers that look random, the same for all sides.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new() -> Self {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// A distribution of lengths.
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    pub(crate) size: fn(&mut Random) -> u64,
    /// The part of the memory, in percent, that we have to fill.
    pub(crate) target: f64,
}

fn mostly(random: &mut Random, len: u64) -> u64 {
    if random.below(10) > 0 { len } else { 96 + random.below(928) }
}

/// Every logarithm between those of 64 B and 16 KiB is equally likely.
fn log_uniform(random: &mut Random) -> u64 {
    let exponent = 6.0 + random.below(1 << 32) as f64 / (1_u64 << 32) as f64 * 8.0;
    exponent.exp2() as u64
}

pub(crate) const MIXES: [Mix; 5] = [
    Mix { name: "log-uniform 64 B-16 KiB", size: log_uniform, target: 96.5 },
    Mix { name: "uniform 16-4095 B", size: |random| 16 + random.below(4080), target: 98.5 },
    Mix { name: "90 % 4096 B", size: |random| mostly(random, 4096), target: 99.8 },
    Mix { name: "90 % 4240 B", size: |random| mostly(random, 4240), target: 99.8 },
    Mix { name: "1024 B", size: |_| 1024, target: 100.0 },
];

/// An arena and what is in use of it.
pub(crate) struct Tenants<A: Arena> {
    arena: A,
    live: Vec<(A::Handle, u64)>,
    /// Bytes that were asked for and are in use.
    payload: u64,
    random: Random,
    size: fn(&mut Random) -> u64,
    /// Buffers of a batch, so that none is made while the clock runs.
    leaving: Vec<(A::Handle, u64)>,
    sizes: Vec<u64>,
}

impl<A: Arena> Tenants<A> {
    pub(crate) fn new(mix: &Mix) -> Self {
        let (arena, live, random) = (A::new(), Vec::with_capacity(1 << 20), Random::new());
        let (leaving, sizes) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        Tenants { arena, live, payload: 0, random, size: mix.size, leaving, sizes }
    }

    fn enter(&mut self, len: u64) -> bool {
        let Some(handle) = self.arena.alloc(len) else { return false };
        self.live.push((handle, len));
        self.payload += len;
        true
    }

    fn choose(&mut self) -> Option<(A::Handle, u64)> {
        let most = self.live.len();
        let chosen = (most > 0).then(|| self.live.swap_remove(self.random.below(most as u64) as usize))?;
        self.payload -= chosen.1;
        Some(chosen)
    }

    fn leave(&mut self) {
        if let Some((handle, len)) = self.choose() {
            self.arena.free(handle, len);
        }
    }

    /// Fills the arena and keeps it full over so many allocations, for which victims leave by chance; gives the
    /// percentage of the memory that was in use by what was asked for, over the last half.
    pub(crate) fn keep_full(&mut self, allocations: usize) -> f64 {
        loop {
            let len = (self.size)(&mut self.random);
            if !self.enter(len) {
                break;
            }
        }
        let mut sum = 0.0;
        for at in 0..allocations {
            let len = (self.size)(&mut self.random);
            while !self.enter(len) {
                self.leave();
            }
            if at >= allocations / 2 {
                sum += self.payload as f64;
            }
        }
        sum / (allocations - allocations / 2) as f64 / CAPACITY as f64 * 100.0
    }

    /// Fills so much of the arena, and lets tenants change until the holes are where they will be.
    pub(crate) fn settle(&mut self, bytes: u64) {
        self.fill(bytes);
        for _ in 0..self.live.len() * 2 / BATCH {
            self.batch(bytes, &Clock::new());
        }
    }

    fn fill(&mut self, bytes: u64) {
        // An arena that is too scattered for a length loses another tenant; it gets there or it is never settled.
        let mut refused = 0;
        while self.payload < bytes && refused < 1 << 20 {
            let len = (self.size)(&mut self.random);
            if !self.enter(len) {
                refused += 1;
                self.leave();
            }
        }
        while self.payload > bytes + (1 << 15) {
            self.leave();
        }
    }

    /// Tenants by chance leave and others come; nanoseconds a free and an allocation.
    pub(crate) fn batch(&mut self, bytes: u64, clock: &Clock) -> (f64, f64) {
        for _ in 0..BATCH {
            let chosen = self.choose();
            self.leaving.extend(chosen);
            self.sizes.push((self.size)(&mut self.random));
        }
        let start = clock.now();
        for (handle, len) in self.leaving.drain(..) {
            self.arena.free(handle, len);
        }
        let freed = clock.now();
        for &len in &self.sizes {
            if let Some(handle) = self.arena.alloc(len) {
                self.live.push((handle, len));
                self.payload += len;
            }
        }
        let end = clock.now();
        self.sizes.clear();
        self.fill(bytes);
        let each = |nanoseconds: u64| nanoseconds.max(1) as f64 / BATCH as f64;
        (each(clock.nanoseconds(start, freed)), each(clock.nanoseconds(freed, end)))
    }

    /// As a [`batch`](Self::batch); nanoseconds of the slowest allocation of it.
    pub(crate) fn slowest(&mut self, bytes: u64, clock: &Clock) -> u64 {
        for _ in 0..BATCH {
            self.leave();
        }
        let mut slowest = 0;
        for _ in 0..BATCH {
            let len = (self.size)(&mut self.random);
            let start = clock.now();
            let handle = self.arena.alloc(len);
            slowest = slowest.max(clock.nanoseconds(start, clock.now()));
            if let Some(handle) = handle {
                self.live.push((handle, len));
                self.payload += len;
            }
        }
        self.fill(bytes);
        slowest
    }
}
