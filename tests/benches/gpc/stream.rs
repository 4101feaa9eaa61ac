//! Data of any length for another process, through memory for a few segments.
//!
//! Beside it one copy of as many bytes: the other reads a segment where it lies, so a byte is copied once.

use std::hint::black_box;
use std::time::Instant;

use umbra::call::Window;
use umbra_core::chain::{Call, Caps, Plan, Tag};
use umbra_core::tree::Shape as Tree;
use umbra_tests::bench::{Report, Row};

use crate::bulk::{PAGE, PAGES};
use crate::procs::{Members, PATIENCE};
use crate::{LOWER, call, median};

const BYTES: usize = 16 << 20;
const WINDOW: Window = Window { segment: 64 << 10, calls: 4, patience: PATIENCE };
const ROUNDS: usize = 21;
/// Of the speed of the copy, at least.
const HALF: f64 = 0.5;

/// Microseconds of a stream, of whose segments both members sum a word of each page.
fn once(members: &mut Members, bytes: &[u8]) -> f64 {
    let all = members.all.clone();
    let caps = Caps { header: 0, data: 8 };
    let (func, callback, plan) = (Tag::of(PAGES), Tag::of(PAGES), Plan::Shape(Tree::FLAT));
    let wanted = Call { func, callback, plan, caps, ..call(&all) };
    let start = Instant::now();
    let mut sum = 0;
    let each = |_, reply: umbra::call::Reply| {
        let (words, _) = reply.data.as_chunks();
        sum += words.iter().map(|word| u64::from_le_bytes(*word)).sum::<u64>();
    };
    members.first.stream(&wanted, bytes, WINDOW, each).expect("a good answer to each segment");
    assert_eq!(sum, 2 * (BYTES / PAGE) as u64, "both have read all pages");
    start.elapsed().as_nanos() as f64 / 1000.0
}

pub(crate) fn rows(report: &mut Report) {
    let case = "stream 16 MiB to another process, 4 segments of 64 KiB at once";
    if !report.wants(case) {
        return;
    }
    let (mut bytes, mut copy) = (vec![0; BYTES], vec![0; BYTES]);
    bytes.iter_mut().step_by(PAGE).for_each(|first| *first = 1);
    let mut members = Members::start(2);
    let (mut ours, mut copies, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let stream = once(&mut members, &bytes);
        let start = Instant::now();
        copy.copy_from_slice(black_box(&bytes));
        black_box(&mut copy);
        let bare = start.elapsed().as_nanos() as f64 / 1000.0;
        ours.push(stream);
        copies.push(bare);
        ratios.push(bare / stream);
    }
    let row = Row::new(case, median(ours), median(copies), "one copy of as much", "us", LOWER);
    report.row(Row { ratio: median(ratios), ..row }).bar(HALF);
}
