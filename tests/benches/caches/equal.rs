//! The same order, the same misses: our LRU beside the others'.
//!
//! Times of caches that keep other data cannot be compared. One thread asks for one id at a time, so there are no ties, and
//! the numbers have to be equal to the unit.

use umbra_core::cache::policy::Lru;
use umbra_core::cache::{Cache, Found, Line, Slot, Sparse};
use umbra_tests::bench::{Direction, Report, Row};

use crate::hits::{Random, scatter, sparse, table};
use crate::peers::{self, Peer};

/// Slots, ids, and how often one is asked for.
const SLOTS: u32 = 10_000;
const IDS: u64 = 100_000;
const ASKED: usize = 1 << 21;

type Ours = Cache<Vec<Slot>, Sparse<Vec<Line>, Vec<u64>>, Lru>;

/// Ids of which small ones are likelier, as the square of an even number is.
fn asked() -> impl Iterator<Item = u64> {
    let mut random = Random(3);
    (0..ASKED).map(move |_| {
        let even = random.next() % IDS;
        scatter(even * even / IDS)
    })
}

fn ours() -> u64 {
    let records = table(Slot::EMPTY, SLOTS as usize);
    let cache = Cache::new(records, sparse(SLOTS), Lru::new(), 0..SLOTS);
    let mut cache: Ours = cache.unwrap_or_else(|error| panic!("{error}"));
    let misses = asked().filter(|&data| {
        let missing = cache.alloc(data).is_ok_and(|grant| grant.found == Found::Empty);
        if missing {
            let _ = cache.remember(data);
        }
        let _ = cache.free(data);
        missing
    });
    misses.count() as u64
}

fn theirs<P: Peer>() -> (&'static str, u64) {
    let mut peer = P::new(SLOTS);
    (P::NAME, asked().filter(|&data| peer.get_or_add(data)).count() as u64)
}

/// Misses of one order, which must not differ.
pub(crate) fn misses(report: &mut Report) {
    let case = "misses, LRU";
    if !report.wants(case) {
        return;
    }
    let ours = ours();
    for (name, theirs) in [theirs::<peers::Lru>(), theirs::<peers::Hashlink>()] {
        assert_eq!(ours, theirs, "misses of the same order as {name}");
        report.row(Row::new(case, ours as f64, theirs as f64, name, "misses", Direction::LowerIsBetter)).bar(1.0);
    }
}
