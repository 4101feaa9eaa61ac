//! Requests that all find what they ask for.

use umbra_tests::bench::{Direction, Plan, Report, alternate};

use crate::plain::{self, Plain};
use crate::work::{IN_USE, Mix, Requests};
use crate::{Side, ours};

/// Requests until they come again.
const REQUESTS: usize = 1 << 17;
/// So many in use at a time: as for all other rows, and more than are forgotten without a trace.
const HELD: [usize; 2] = [IN_USE, 1024];

fn case(mix: &Mix, held: usize) -> String {
    format!("hit and free, {held} in use, {}", mix.name)
}

/// Whether the command line asks for a row of this mix.
pub(crate) fn are_wanted(report: &Report, mix: &Mix) -> bool {
    HELD.iter().any(|&held| report.wants(&case(mix, held)))
}

/// A side that has all data, and the next request.
struct Hits<'a, S> {
    side: S,
    requests: &'a [(u64, u64)],
    held: usize,
    next: usize,
}

impl<'a, S: Side> Hits<'a, S> {
    fn new(mut side: S, requests: &'a [(u64, u64)], held: usize) -> Self {
        for &(data, len) in requests {
            side.take(&[(data, len)]);
            side.free(data);
        }
        for &request in &requests[..held] {
            side.take(&[request]);
        }
        Hits { side, requests, held, next: held }
    }

    /// Takes a reference for each of so many requests, and gives the oldest one back before that.
    fn run(&mut self, count: u64) {
        for _ in 0..count {
            let at = |next: usize| self.requests[next % REQUESTS];
            self.side.free(at(self.next - self.held).0);
            assert_eq!(self.side.take(&[at(self.next)]), 0, "it is there");
            self.next += 1;
        }
    }
}

pub(crate) fn rows(report: &mut Report, mix: &Mix) {
    let requests = Requests::of_present(mix, REQUESTS);
    for held in HELD {
        let (mut ours, mut plain) = (Hits::new(ours(), &requests, held), Hits::new(Plain::new(), &requests, held));
        let turns = alternate(&Plan::standard(), |count| ours.run(count), |count| plain.run(count));
        drop(report.row(turns.row(&case(mix, held), plain::NAME, "ns", Direction::LowerIsBetter)));
    }
}
