//! What a cached memory costs and loads, beside a plain one.
//!
//! 64 MiB in granules of 256 bytes hold data of any length, of which there are four times as much. Data is asked for by
//! skewed ids, and 64 are in use at any time. One request in sixteen is for four data at once, which the plain one is
//! asked for one by one. Other rows are of data that is all there.
//!
//! The *plain* side is what one would write over an allocator: the same one that ours is built on, and the crate `lru`
//! for who leaves. If a length does not fit, the data used longest ago leaves, wherever it lies, until it does. Both sides
//! get the same requests in the same run, and time is taken around each; around the frees before it as well, and around many hits.
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, reason = "a bench that cannot be set up ends")]

mod hits;
mod plain;
mod work;

use std::process::ExitCode;

use umbra_core::cache::{Found, Line, Slot, Sparse};
use umbra_core::cached_memory::{CachedMemory, Lent, Member, Run, bits_needed, records_needed};
use umbra_core::memory::{Block, Granule};
use umbra_tests::bench::{Clock, Direction, Report, Row, cores, pin};

use plain::Plain;
use work::{MIXES, Requests};

/// Bytes managed, and what offsets and lengths are multiples of.
const CAPACITY: u64 = 64 << 20;
const GRANULE: u64 = 256;
/// Data that may have a place at once.
const PLACES: usize = 1 << 18;
/// Requests before anything is counted, and those that are.
const WARM: usize = 200_000;
const COUNTED: usize = 400_000;
/// Requests of one group.
const TOGETHER: usize = 4;

/// A side of the comparison.
trait Side {
    /// Takes a reference to each of these data, with their lengths; the bytes that have to be loaded for that.
    fn take(&mut self, wanted: &[(u64, u64)]) -> u64;
    /// Gives a reference back.
    fn free(&mut self, data: u64);
    /// Data that left so far.
    fn evictions(&self) -> u64;
    /// Times that all that nobody used had to leave.
    fn flushes(&self) -> u64;
}

type Vectors = CachedMemory<Vec<Block>, Vec<Slot>, Vec<Run>, Vec<u32>, Vec<u64>, Sparse<Vec<Line>, Vec<u64>>>;

impl Side for Vectors {
    fn take(&mut self, wanted: &[(u64, u64)]) -> u64 {
        if let &[(data, len)] = wanted {
            let place = self.alloc(data, len).expect("room beside few data in use");
            return load(self, data, len, place.found);
        }
        let mut members = [Member::new(0, 1); TOGETHER];
        for (member, &(data, len)) in members.iter_mut().zip(wanted) {
            *member = Member::new(data, len);
        }
        self.alloc_group(None, &mut members).expect("room beside few data in use");
        let places = members.iter().filter_map(|member| Some((member.data(), member.len(), member.place()?.found)));
        places.map(|(data, len, found)| load(self, data, len, found)).sum()
    }

    fn free(&mut self, data: u64) {
        CachedMemory::free(self, data).expect("in use");
    }

    fn evictions(&self) -> u64 {
        self.statistics().cache.evictions
    }

    fn flushes(&self) -> u64 {
        self.statistics().flushes
    }
}

/// Loads what is not there; its bytes.
fn load(memory: &mut Vectors, data: u64, len: u64, found: Found) -> u64 {
    if found != Found::Empty {
        return 0;
    }
    memory.remember(data).expect("it is being filled");
    len
}

fn ours() -> Vectors {
    let granule = Granule::new(GRANULE).expect("a power of two");
    let records = records_needed(PLACES);
    let lent = Lent {
        blocks: vec![Block::default(); records],
        slots: vec![Slot::EMPTY; records],
        runs: vec![Run::EMPTY; records + 1],
        starts: vec![0; (CAPACITY / GRANULE) as usize],
        bits: vec![0; bits_needed(CAPACITY, granule)],
    };
    let index = Sparse::new(vec![Line::EMPTY; Line::for_ids(PLACES)], vec![0; records], 1);
    CachedMemory::new(lent, index, CAPACITY, granule).expect("enough is lent")
}

/// What a side did.
#[derive(Default)]
struct Counted {
    requests: u64,
    nanoseconds: u64,
    /// To give back what is done with.
    free: u64,
    longest: u64,
    loaded: u64,
    evictions: u64,
    flushes: u64,
}

/// Serves all requests, and counts those after the first ones.
fn serve(side: &mut impl Side, mix: &work::Mix, clock: &Clock) -> Counted {
    let mut requests = Requests::new(mix);
    let (mut counted, mut before) = (Counted::default(), (0, 0));
    for nth in 0..WARM + COUNTED {
        if nth == WARM {
            (counted, before) = (Counted::default(), (side.evictions(), side.flushes()));
        }
        let (wanted, done) = requests.next();
        let before_free = clock.now();
        done.iter().for_each(|&data| side.free(data));
        let start = clock.now();
        let loaded = side.take(wanted);
        let took = clock.nanoseconds(start, clock.now());
        counted.requests += 1;
        counted.nanoseconds += took;
        counted.free += clock.nanoseconds(before_free, start);
        counted.longest = counted.longest.max(took);
        counted.loaded += loaded;
    }
    (counted.evictions, counted.flushes) = (side.evictions() - before.0, side.flushes() - before.1);
    counted
}

fn rows(report: &mut Report, mix: &work::Mix) {
    let clock = Clock::new();
    let [ours, plain] = [serve(&mut ours(), mix, &clock), serve(&mut Plain::new(), mix, &clock)];
    let bytes = Requests::different(mix, WARM, COUNTED) as f64;
    let each = |counted: &Counted, what: u64| what as f64 / counted.requests as f64;
    let mut row = |what: &str, of: &dyn Fn(&Counted) -> f64, unit: &str| {
        let case = format!("{what}, {}", mix.name);
        let row = Row::new(&case, of(&ours), of(&plain), plain::NAME, unit, Direction::LowerIsBetter);
        drop(report.row(row));
    };
    row("alloc", &|side| each(side, side.nanoseconds), "ns");
    row("free", &|side| each(side, side.free), "ns");
    row("longest alloc", &|side| side.longest as f64 / 1000.0, "us");
    row("evictions an alloc", &|side| each(side, side.evictions), "data");
    row("loaded", &|side| side.loaded as f64 / bytes, "bytes/compulsory");
    row("flushes", &|side| side.flushes as f64, "times");
}

fn main() -> ExitCode {
    let mut report = Report::from_args();
    if let Some(Err(error)) = cores().ok().and_then(|cores| cores.last().copied()).map(pin) {
        report.note(format_args!("not pinned: {error}"));
    }
    for mix in &MIXES {
        if mix.is_wanted(&report) {
            rows(&mut report, mix);
        }
        if hits::are_wanted(&report, mix) {
            hits::rows(&mut report, mix);
        }
    }
    report.finish()
}
