//! Managed memory beside a process's allocator and published shared-memory systems.
//!
//! `alloc + free` takes a block and frees it, alone, beside a neighbour on another core with a handle of its own, and
//! in a pool full of holes. The peer without a name of its own is the C library's allocator, which serves one process
//! only. `reference` hands an allocation on: bytes made, read, and the allocation found. `bookkeeping` is the bytes
//! that a pool needs beside its data.
//!
//! `UMBRA_DRAGON=FOLDER` names the programs `mem_bench` and `footprint` of a build for `dragonhpc`, which are run in
//! the same session; `UMBRA_ICEORYX2=FOLDER` the program `iox2_peer` of a build with `iceoryx2`, which takes a loan and
//! gives it back. Without them those rows are left out.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a bench that cannot be set up ends")]

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use umbra::pool::{Attributes, Pool};
use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::heap::Plan as Layout;
use umbra_tests::bench::{Direction, Plan, Report, Row, Samples, alternate, cores, lines_of, number, pin, repeat};

const LOWER: Direction = Direction::LowerIsBetter;
const BYTES: u64 = 256 << 20;
const SIZES: [usize; 3] = [64, 4096, 1 << 20];
const MALLOC: &str = "malloc, in one process";
const DRAGON: &str = "dragonhpc";
const GOAL: &str = "the goal";

fn pool() -> Pool {
    Pool::create(None, &Attributes { bytes: BYTES, ..Attributes::default() }).expect("there is memory")
}

fn another(pool: &Pool) -> Pool {
    let [manifest, data] = pool.share().expect("descriptors are free");
    Pool::attach_shared(manifest, data).expect("it is a pool")
}

fn alloc_free(pool: &Pool, len: usize, n: u64) {
    for _ in 0..n {
        let memory = pool.alloc(black_box(len) as u64, 0).expect("there is room");
        black_box(&memory).free().expect("it is ours");
    }
}

/// Takes and frees while a neighbour does the same with a handle of its own.
fn beside_a_neighbour(core: usize, plan: &Plan, len: usize) -> Samples {
    let (ours, is_over) = (pool(), AtomicU32::new(0));
    let theirs = another(&ours);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(core);
            while is_over.load(Ordering::Relaxed) == 0 {
                alloc_free(&theirs, len, 100);
            }
        });
        let samples = repeat(plan, |n| alloc_free(&ours, len, n));
        is_over.store(1, Ordering::Relaxed);
        samples
    })
}

/// Takes and frees in a pool of which every second block is in use.
fn between_holes(plan: &Plan, len: usize) -> Samples {
    let pool = pool();
    let blocks: Vec<_> = (0..BYTES / len as u64 / 4).map_while(|_| pool.alloc(len as u64, 0).ok()).collect();
    blocks.iter().step_by(2).for_each(|block| block.free().expect("it is ours"));
    repeat(plan, |n| alloc_free(&pool, len, n))
}

struct Bench {
    report: Report,
    plan: Plan,
    cores: Vec<usize>,
}

impl Bench {
    fn beside_malloc(&mut self, len: usize) {
        let case = format!("alloc + free {len} B");
        if !self.report.wants(&case) {
            return;
        }
        let pool = pool();
        let turns = alternate(
            &self.plan,
            |n| alloc_free(&pool, len, n),
            |n| (0..n).for_each(|_| drop(black_box(Vec::<u8>::with_capacity(black_box(len))))),
        );
        self.report.row(turns.row(&case, MALLOC, "ns", LOWER));
    }

    /// Made into bytes, read, and found again.
    fn reference(&mut self, theirs: Option<f64>) {
        let case = if theirs.is_some() { "reference dragon" } else { "reference" };
        if self.report.wants(case) {
            let ours = pool();
            let allocation = ours.alloc(100, 0).expect("there is room");
            let samples = repeat(&self.plan, |n| {
                for _ in 0..n {
                    let bytes = allocation.reference().expect("it is there");
                    black_box(ours.allocation_of(black_box(&bytes)).expect("it is there"));
                }
            });
            let (peer, name, bar) = theirs.map_or((2000.0, GOAL, 0.8), |theirs| (theirs, DRAGON, 1.0));
            self.report.row(Row::new(case, samples.median(), peer, name, "ns", LOWER)).bar(bar);
        }
    }

    fn bookkeeping(&mut self) {
        for (bytes, name) in [(1_u64 << 20, "1 MiB"), (64 << 20, "64 MiB"), (4 << 30, "4 GiB")] {
            let case = format!("bookkeeping of {name}");
            if self.report.wants(&case) {
                let goal = bytes as f64 * 0.03;
                self.report.row(Row::new(&case, manifest(bytes), goal, "3 % of the data", "B", LOWER)).bar(0.8);
            }
        }
    }

    /// The rows beside dragonhpc, if `UMBRA_DRAGON` says where its programs are.
    fn beside_dragon(&mut self) {
        let Some(folder) = std::env::var_os("UMBRA_DRAGON") else {
            self.report.note("UMBRA_DRAGON is not set: no rows beside dragonhpc");
            return;
        };
        let folder = Path::new(&folder);
        for (len, bar) in SIZES.into_iter().zip([40.0, 40.0, 7.0]) {
            if self.report.wants(&format!("dragon {len} B")) {
                for line in lines_of(&self.report, folder, "mem_bench", &["50000", "5", &len.to_string()]) {
                    self.row_of(&line, len, bar);
                }
            }
        }
        if !self.report.wants("dragon") {
            return;
        }
        for line in lines_of(&self.report, folder, "footprint", &[]) {
            if let Some(theirs) = number(&line, "serialize_attach_detach_ns") {
                self.reference(Some(theirs));
            }
            let (Some(bytes), Some(theirs)) = (number(&line, "bytes"), number(&line, "manifest_bytes")) else {
                continue;
            };
            if bytes as u64 == 64 << 20 {
                let case = "bookkeeping dragon of 64 MiB";
                self.report.row(Row::new(case, manifest(64 << 20), theirs, DRAGON, "B", LOWER)).bar(30.0);
            }
        }
    }

    /// The rows beside iceoryx2, if `UMBRA_ICEORYX2` says where its program is.
    fn beside_iceoryx2(&mut self) {
        let Some(folder) = std::env::var_os("UMBRA_ICEORYX2") else {
            self.report.note("UMBRA_ICEORYX2 is not set: no rows beside iceoryx2");
            return;
        };
        if !self.report.wants("alone iceoryx2") {
            return;
        }
        for line in lines_of(&self.report, Path::new(&folder), "iox2_peer", &["same"]) {
            let (Some(len), Some(theirs)) = (number(&line, "bytes"), number(&line, "loan_release_ns")) else {
                continue;
            };
            let len = len as usize;
            if SIZES.contains(&len) {
                let (case, pool) = (format!("alone iceoryx2 {len} B"), pool());
                let ours = repeat(&self.plan, |n| alloc_free(&pool, len, n));
                self.report.row(Row::new(&case, ours.median(), theirs, "iceoryx2", "ns", LOWER)).bar(1.0);
            }
        }
    }

    /// The shape of one line of `mem_bench`, by our pool.
    fn row_of(&mut self, line: &str, len: usize, bar: f64) {
        let (Some(processes), Some(theirs)) = (number(line, "procs"), number(line, "ns_op_median")) else { return };
        let (case, ours) = match (processes > 1.0, line.contains("fragmented")) {
            (_, true) => (format!("holes dragon {len} B"), between_holes(&self.plan, len)),
            (false, false) => {
                let pool = pool();
                (format!("alone dragon {len} B"), repeat(&self.plan, |n| alloc_free(&pool, len, n)))
            }
            _ => {
                let [core, _, ..] = *self.cores else { return };
                (format!("two dragon {len} B"), beside_a_neighbour(core, &self.plan, len))
            }
        };
        self.report.row(Row::new(&case, ours.median(), theirs, DRAGON, "ns", LOWER)).bar(bar);
    }
}

/// Bytes of bookkeeping of a pool for small blocks.
fn manifest(bytes: u64) -> f64 {
    (Layout::new(bytes, 32, 0, 64).expect("a usual pool").words() * 8) as f64
}

fn main() -> ExitCode {
    let report = Report::from_args();
    let cores = cores().unwrap_or_default();
    if let Some(&mine) = cores.last()
        && let Err(error) = pin(mine)
    {
        report.note(format_args!("not pinned: {error}"));
    }
    let mut bench = Bench { report, plan: Plan::standard(), cores };
    SIZES.into_iter().for_each(|len| bench.beside_malloc(len));
    let case = "two at once 64 B";
    if let [core, _, ..] = *bench.cores
        && bench.report.wants(case)
    {
        let ours = beside_a_neighbour(core, &bench.plan, 64);
        bench.report.row(Row::new(case, ours.median(), 60.0, GOAL, "ns", LOWER)).bar(0.8);
    }
    bench.reference(None);
    bench.bookkeeping();
    bench.beside_dragon();
    bench.beside_iceoryx2();
    bench.report.finish()
}
