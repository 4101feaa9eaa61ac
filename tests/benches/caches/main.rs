//! What the slot caches cost, beside published caches in the same run.
//!
//! *Hit* is one reference taken and given back (`alloc` and `free`), for a peer one `get`: peers neither count
//! references nor say when a load is over, so their figures are less than half of what a user would have to build on
//! them; *in one step* is a hit by `get_or_fill`, which takes no reference either. *Zipf* is get-or-insert with ids of that
//! skew, in one step, or *held* as `alloc`, `remember` and `free`. A *cycle* of a stencil is, for each input of a group, all
//! that there is: submit, prepare, prepared, ready, free; for a peer again one get-or-insert.
//!
//! *Shared* is the cache that processes share, without a lock, and *of threads* the one whose threads wait in line, with
//! one; by one thread and by two at the same time. A *hit* of it is the same, with `free` by the id; *pin* gives the
//! reference back without looking for the id; a *batch* is many hits in two calls.
//!
//! *Misses* are counted, of orders that have to be equal. A *phase* is one call with each of as many ids as there are
//! slots. A *sweep* loads and computes, by several threads, with loads that take time. A *slot* taken and given back is
//! neither found by an id nor has content.
//!
//! Tables are made as `umbra::cache` makes them: in large pages, where the system has some for who asks. Peers have what
//! their allocator gets.
//!
//! Ids are numbered from 0 (`dense`), or scattered over 64 bits (`sparse`); peers have the same ids. Rows named after
//! a goal compare with a figure that was fixed beforehand.

#![forbid(unsafe_code)]

mod allocators;
mod equal;
mod hits;
mod loading;
mod peers;
mod phases;
mod shared;
mod sweeps;

use std::process::ExitCode;

use umbra_tests::bench::{Report, cores, pin};

/// Slots of the large cases: 50 GiB on each of 50 machines, in blocks of 4 MiB.
const SLOTS: u32 = 640_000;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    // Before this thread is pinned: those that it starts later are as well.
    loading::sweeps(&mut report);
    let cores = cores().unwrap_or_default();
    if let Some(core) = cores.last()
        && let Err(error) = pin(*core)
    {
        report.note(format_args!("not pinned: {error}"));
    }
    hits::bytes(&mut report);
    equal::misses(&mut report);
    hits::uniform(&mut report);
    shared::uniform(&mut report, cores.first());
    hits::zipf(&mut report);
    phases::rows(&mut report);
    sweeps::cycles(&mut report);
    allocators::rows(&mut report);
    report.finish()
}
