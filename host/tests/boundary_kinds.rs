//! Two kinds of exchange that are open at once on the same mesh.
//!
//! They do not mix, and what one of them has sent is nothing to the other.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use umbra::boundary::{
    Agent, Attended, Boundary, BoundaryError, Extent, Fabric, Field, Fields as _, Grid, Mesh as _, Scope, Settings,
    Store, Transport, largest_message,
};
use umbra::sys::segment::Segment;
use umbra_core::boundary::{Key, Kind, Shape, Sparse};

const RANKS: u32 = 2;
const KINDS: [Kind; 2] = [Kind::GHOST, Kind(7)];
/// Cells of a block, and ghosts on each side of it.
const CELLS: usize = 4;
const GHOSTS: usize = 2;
const EXCHANGES: u32 = 50;
/// Longer than any machine takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a rank looks for what must not come.
const LOOKS: u32 = 1000;

/// A ring of blocks, two on each rank: some channels lie within a rank, some between ranks.
fn mesh() -> Grid {
    let shape = Shape::new([CELLS as u32, 1, 1], [GHOSTS as u32, 0, 0]).unwrap();
    Grid::new(shape, [2 * RANKS, 1, 1], [true, false, false], RANKS)
}

/// A sparse field and a dense one.
fn fields() -> [Field; 2] {
    [Field::sparse(Sparse::new(1e-3, 1e-3, 0.0).unwrap()), Field::DENSE]
}

fn extent() -> Extent {
    Extent { ranks: RANKS, slots: 2, message: largest_message(&mesh(), &fields(), RANKS) }
}

const fn settings(kind: Kind) -> Settings {
    // No value fits into a slot of the first exchanges.
    Settings {
        deadline: Some(PATIENCE),
        smallest_slot: 72,
        largest_slot: u32::MAX,
        reversed: kind.0 > 0,
        timed: false,
        kind,
    }
}

/// One kind of exchange on one rank, with arrays of its own.
struct Side<T> {
    boundary: Boundary<T>,
    store: Store,
}

impl<T: Transport> Side<T> {
    fn build(transport: T, kind: Kind) -> Result<Side<T>, BoundaryError> {
        let store = Store::new(mesh().blocks(), mesh().shape().len(), &fields(), 1);
        let boundary = Boundary::build(&mesh(), &fields(), transport, settings(kind))?;
        Ok(Side { boundary, store })
    }

    /// Whether there is anything of a field on a block in an exchange of a kind.
    const fn holds(kind: Kind, exchange: u32, block: u32, field: u16) -> bool {
        field == 1 || !(exchange + block + kind.0 as u32).is_multiple_of(3)
    }

    fn value(kind: Kind, exchange: u32, block: u32, field: u16, cell: usize) -> f64 {
        let digits = [u32::from(kind.0) + 1, exchange, block, field.into(), cell as u32];
        digits.iter().fold(0.0, |number, &digit| number * 100.0 + f64::from(digit))
    }

    fn send(&mut self, kind: Kind, rank: u32, exchange: u32) {
        for (block, field) in mesh().owned_by(rank).flat_map(|block| [(block, 0), (block, 1)]) {
            self.store.free(block, field);
            if Self::holds(kind, exchange, block, field) {
                self.store.allocate(block, field).unwrap();
                let mut stage = self.store.stage(0);
                let own = &mut stage.values_mut(block, field).unwrap()[GHOSTS..][..CELLS];
                own.iter_mut().enumerate().for_each(|(at, to)| *to = Self::value(kind, exchange, block, field, at));
            }
        }
        while self.boundary.send(&self.store.stage(0), Scope::Any).unwrap().is_pending() {
            thread::yield_now();
        }
    }

    fn receive(&mut self) {
        self.boundary.wait(&mut self.store.stage(0), Scope::Any).unwrap();
    }

    fn set_and_check(&mut self, kind: Kind, rank: u32, exchange: u32) {
        self.boundary.set(&mut self.store.stage(0), Scope::Any).unwrap();
        let blocks = mesh().blocks();
        for (block, field) in mesh().owned_by(rank).flat_map(|block| [(block, 0), (block, 1)]) {
            let came = |from: u32, cell| {
                let holds = Self::holds(kind, exchange, from, field);
                if holds { Self::value(kind, exchange, from, field, cell) } else { 0.0 }
            };
            let [left, right] = [(block + blocks - 1) % blocks, (block + 1) % blocks];
            let expected = (0..GHOSTS).map(|at| (at, came(left, CELLS - GHOSTS + at)));
            let expected = expected.chain((0..GHOSTS).map(|at| (GHOSTS + CELLS + at, came(right, at))));
            match self.store.values(block, field, 0) {
                Some(values) => expected.for_each(|(at, value)| {
                    assert_eq!(values[at], value, "{kind:?}, exchange {exchange}, block {block}, field {field}, {at}");
                }),
                None => assert!(expected.into_iter().all(|(_, value)| value == 0.0), "nothing came of field {field}"),
            }
        }
    }

    fn keys(&self) -> BTreeSet<Key> {
        self.boundary.machine().entries().iter().map(|entry| entry.key).collect()
    }
}

/// Both kinds on both ranks, over ends of fabrics of their own: by rank, then by kind.
fn built<T: Transport + Send>(end: impl Fn(usize, u32) -> T + Sync) -> [[Side<T>; 2]; 2] {
    thread::scope(|scope| {
        [0, 1]
            .map(|rank| {
                let end = &end;
                // The same order on both, as building waits for the other one.
                scope.spawn(move || [0, 1].map(|nth| Side::build(end(nth, rank), KINDS[nth]).unwrap()))
            })
            .map(|thread| thread.join().unwrap())
    })
}

#[test]
fn two_kinds_that_are_open_at_once_do_not_mix() {
    let segments = [0, 1].map(|_| Arc::new(Fabric::segment(extent()).unwrap()));
    let ranks = built(|nth, rank| Fabric::attach(segments[nth].clone(), extent(), rank).unwrap());
    for sides in &ranks {
        let [ghosts, others] = sides.each_ref().map(Side::keys);
        assert!(ghosts.len() == others.len() && ghosts.is_disjoint(&others), "they share a channel");
    }
    thread::scope(|scope| {
        for (rank, mut sides) in (0..).zip(ranks) {
            scope.spawn(move || {
                for exchange in 1..=EXCHANGES {
                    // Each order of the two kinds, a different one on each rank.
                    let orders = [[0, 1], [1, 0]];
                    let [first, second, third] = [0, 1, 2].map(|bit| orders[((exchange + rank) >> bit & 1) as usize]);
                    first.into_iter().for_each(|nth: usize| sides[nth].send(KINDS[nth], rank, exchange));
                    second.into_iter().for_each(|nth: usize| sides[nth].receive());
                    third.into_iter().for_each(|nth: usize| sides[nth].set_and_check(KINDS[nth], rank, exchange));
                }
                for side in &mut sides {
                    side.boundary.close().unwrap();
                    let counts = side.boundary.counts();
                    assert_eq!((counts.messages, counts.refused, counts.duplicates), (EXCHANGES.into(), 0, 0));
                    assert!(counts.overflows > 0 && counts.live > 0 && counts.null > 0, "{counts:?}");
                }
            });
        }
    });
}

#[test]
fn ranks_that_build_different_kinds_are_told_so() {
    let segment = Arc::new(Fabric::segment(extent()).unwrap());
    let [ghosts, others] = thread::scope(|scope| {
        [0, 1]
            .map(|rank| {
                let end = Fabric::attach(segment.clone(), extent(), rank).unwrap();
                scope.spawn(move || Side::build(end, KINDS[rank as usize]).map(drop).unwrap_err())
            })
            .map(|thread| thread.join().unwrap())
    });
    for (error, ours, theirs) in [(ghosts, KINDS[0], KINDS[1]), (others, KINDS[1], KINDS[0])] {
        let BoundaryError::Differs(differs) = &error else { panic!("{error}") };
        let kinds = [differs.ours, differs.theirs].map(|entry| entry.unwrap().key.kind);
        assert_eq!(kinds, [ours, theirs]);
        assert!(error.to_string().contains("kind 7"), "{error}");
    }
}

/// What the first rank sends in one kind of exchange comes to the other rank in the other kind. How often that has refused it.
fn astray<T: Transport + Send>(
    segments: [Segment; 2],
    end: impl Fn(&Arc<Segment>, u32) -> T + Sync,
    refused: impl Fn(&Arc<Segment>, &Boundary<T>) -> u64,
) -> u64 {
    let segments = segments.map(Arc::new);
    let [[mut sender, _], [_, mut receiver]] = built(|nth, rank| end(&segments[nth], rank));
    sender.send(KINDS[0], 0, 1);
    receiver.send(KINDS[1], 1, 1);
    segments[0].copy(0, &segments[1], 0, extent().bytes()).unwrap();
    for _ in 0..LOOKS {
        let came = receiver.boundary.receive(&mut receiver.store.stage(0), Scope::Any).unwrap();
        assert!(came.is_pending(), "what came is none of it");
    }
    let missing: Vec<_> =
        receiver.boundary.machine().missing().map(|missing| (missing.rank, missing.key.kind)).collect();
    assert!(!missing.is_empty() && missing.iter().all(|missing| *missing == (0, KINDS[1])), "{missing:?}");
    assert!(receiver.store.values(2, 0, 0).is_none_or(|values| values[..GHOSTS] == [0.0; GHOSTS]), "nothing is shown");
    refused(&segments[1], &receiver.boundary)
}

#[test]
fn a_message_of_another_kind_is_refused_and_counted_by_the_rank_and_by_who_looks_out_for_it() {
    let alone = astray(
        [0, 1].map(|_| Fabric::segment(extent()).unwrap()),
        |segment, rank| Fabric::attach(segment.clone(), extent(), rank).unwrap(),
        |_, boundary| boundary.counts().refused,
    );
    let attended = astray(
        [0, 1].map(|_| Agent::segment(extent()).unwrap()),
        |segment, rank| Attended::attach(segment.clone(), extent(), rank).unwrap(),
        |segment, boundary| {
            assert_eq!(boundary.counts().refused, 0, "the rank never saw it");
            Agent::attach(segment.clone(), extent()).unwrap().refused().unwrap()
        },
    );
    assert_eq!([alone, attended], [1, 1]);
}
