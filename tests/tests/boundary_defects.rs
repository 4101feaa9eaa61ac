//! What went wrong in another exchange of such boundaries, and goes well here.
//!
//! All was measured there, and each defect has a test here. `docs/boundary.md` lists them. Ranks are threads over one
//! shared segment.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::thread;

use umbra::advect::{self, Options, Problem};
use umbra::boundary::{
    Boundary, BoundaryError, Extent, Fabric, Field, Fields as _, Grid, Mesh as _, Scope, Store, Transport as _,
    largest_message,
};
use umbra::sys::segment::Segment;
use umbra_core::boundary::{Channel, HEAD, Message, Place, Refusal, Role, Shape};
use umbra_tests::boundary_job::{self, SETTINGS};
use umbra_tests::meeting::Meeting;

/// Two blocks in a row, one on each of two ranks, or both on one; each wants all of the cells of the other.
fn row(cells: u32, ranks: u32) -> Grid {
    Grid::new(Shape::new([cells, 1, 1], [cells, 0, 0]).unwrap(), [2, 1, 1], [false; 3], ranks)
}

fn sparse() -> Field {
    boundary_job::sparse(1e-3, 1e-4, 0.0)
}

/// Where the memory of the ranks lies.
struct Ends {
    segment: Arc<Segment>,
    extent: Extent,
}

impl Ends {
    fn of(&self, rank: u32) -> Fabric {
        Fabric::attach(self.segment.clone(), self.extent, rank).unwrap()
    }
}

/// Runs each rank in a thread.
fn ranks(mesh: &Grid, count: u32, field: Field, body: impl Fn(u32, Boundary<Fabric>, Store, &Ends) + Sync) {
    let extent = Extent { ranks: count, slots: 2, message: largest_message(mesh, &[field], count) };
    let (ends, body) = (&Ends { segment: Arc::new(Fabric::segment(extent).unwrap()), extent }, &body);
    thread::scope(|scope| {
        for rank in 0..count {
            scope.spawn(move || {
                let boundary = Boundary::build(mesh, &[field], ends.of(rank), SETTINGS).unwrap();
                body(rank, boundary, Store::new(mesh.blocks(), mesh.shape().len(), &[field], 1), ends);
            });
        }
    });
}

/// Makes the field present on a block and sets its own cells.
fn fill(store: &mut Store, block: u32, value: impl Fn(usize) -> f64) {
    store.allocate(block, 0).unwrap();
    let mut stage = store.stage(0);
    let values = stage.values_mut(block, 0).unwrap();
    let cells = values.len() / 3;
    values[cells..2 * cells].iter_mut().enumerate().for_each(|(at, cell)| *cell = value(at));
}

/// What a block has from the other one.
fn came(store: &Store, block: u32) -> &[f64] {
    let values = store.values(block, 0, 0).unwrap();
    let cells = values.len() / 3;
    if block == 0 { &values[2 * cells..] } else { &values[..cells] }
}

fn finish(boundary: &mut Boundary<Fabric>, store: &mut Store) {
    boundary.wait(&mut store.stage(0), Scope::Any).unwrap();
    boundary.set(&mut store.stage(0), Scope::Any).unwrap();
}

/// There, 16384 of 16384 values that arrived were another channel's.
#[test]
fn s11_memory_that_is_used_again_under_a_send_in_flight_changes_no_value_that_arrives() {
    const CELLS: usize = 128 * 1024 / 8;
    let (sent, used) = (Meeting::of(0..2), Meeting::of(0..2));
    ranks(&row(CELLS as u32, 2), 2, sparse(), |rank, mut boundary, mut store, _| {
        // First what does not fit into the slot, and stays with its sender; then what fits.
        for turn in 1..=20 {
            let value = |at: usize| (turn * CELLS + at) as f64;
            if rank == 0 {
                fill(&mut store, 0, value);
                assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
                store.free(0, 0);
                // The only memory that is free.
                fill(&mut store, 1, |_| -1.0);
                store.free(1, 0);
            } else {
                assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
            }
            sent.wait(rank);
            finish(&mut boundary, &mut store);
            used.wait(rank);
            if rank == 1 {
                assert!(came(&store, 1).iter().enumerate().all(|(at, &came)| came == value(at)), "exchange {turn}");
                store.free(1, 0);
            }
        }
        let counts = boundary.counts();
        assert!(rank == 1 || (1..20).contains(&counts.overflows), "both ways of travelling: {counts:?}");
    });
}

/// There, the first channel with the same tag received it: 111 for 222.
#[test]
fn s31_a_message_that_crosses_a_remesh_is_dropped_and_counted_and_the_true_one_arrives() {
    let (written, looked) = (Meeting::of(0..2), Meeting::of(0..2));
    let mesh = row(4, 2);
    ranks(&mesh, 2, Field::DENSE, |rank, mut boundary, mut store, ends| {
        let mut late = [0; HEAD];
        for exchange in 1..=3 {
            fill(&mut store, rank, |_| 111.0);
            assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
            if exchange == 1 && rank == 1 {
                // As its receiver sees it.
                assert!(ends.of(0).look(1, 1, &mut late).unwrap());
            }
            finish(&mut boundary, &mut store);
        }
        boundary.remesh(&mesh).unwrap();
        fill(&mut store, rank, |_| 222.0);
        if rank == 1 {
            let mut network = ends.of(1);
            network.write(0, 1, Place::Slot(HEAD as u32), 0, &[111.0; 4]).unwrap();
            let message = Message { rank: 0, sequence: 1, slot: 1, head: HEAD, in_slot: 32, overflow: 0 };
            network.publish(&message, 1, &late).unwrap();
        }
        written.wait(rank);
        if rank == 0 {
            assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
            for _ in 0..3 {
                assert!(boundary.receive(&mut store.stage(0), Scope::Any).unwrap().is_pending());
            }
            assert_eq!(boundary.counts().old, 1, "once, however often it was looked at");
        }
        looked.wait(rank);
        boundary.exchange(&mut store.stage(0)).unwrap();
        assert_eq!(came(&store, rank), [222.0; 4]);
        assert_eq!(boundary.counts().old, u64::from(rank == 0));
    });
}

/// There, in release builds, the state was overwritten, and a message that was given up unread was gone without a word.
#[test]
fn s7_a_second_send_loses_neither_message() {
    let mut channel = Channel::new(Role::Local, 3);
    channel.allocate(|| Some([1, 2, 3])).unwrap();
    channel.send().unwrap();
    let before = channel.state();
    assert_eq!(channel.send(), Err(Refusal::NotWritable { state: before }));
    assert_eq!(channel.send_null(), Err(Refusal::NotWritable { state: before }));
    assert_eq!(channel.stale(), Err(Refusal::NotReceived { state: before }));
    assert_eq!(channel.try_receive(|| None), Ok(true));
    assert_eq!(channel.payload(), Ok(&[1, 2, 3]));

    let (twice, ahead) = (Meeting::of(0..2), Meeting::of(0..2));
    ranks(&row(4, 2), 2, Field::DENSE, |rank, mut boundary, mut store, _| {
        let send = |boundary: &mut Boundary<Fabric>, store: &mut Store, value: f64| {
            fill(store, rank, |_| value);
            assert!(boundary.send(&store.stage(0), Scope::Any).unwrap().is_ready());
        };
        send(&mut boundary, &mut store, 1.0);
        // The message is on its way; sending it again is nothing new.
        send(&mut boundary, &mut store, -1.0);
        twice.wait(rank);
        if rank == 0 {
            finish(&mut boundary, &mut store);
            // One ahead of the other rank, which has received nothing yet, and no further.
            send(&mut boundary, &mut store, 2.0);
            assert!(boundary.receive(&mut store.stage(0), Scope::Any).unwrap().is_pending());
            let set = boundary.set(&mut store.stage(0), Scope::Any);
            assert!(matches!(set, Err(BoundaryError::NotReceived { first: Some(_), .. })), "{set:?}");
            send(&mut boundary, &mut store, -2.0);
        }
        ahead.wait(rank);
        if rank == 1 {
            finish(&mut boundary, &mut store);
            assert_eq!(came(&store, 1), [1.0; 4]);
            send(&mut boundary, &mut store, 2.0);
        }
        finish(&mut boundary, &mut store);
        assert_eq!(came(&store, rank), [2.0; 4]);
        let counts = boundary.counts();
        assert_eq!((counts.messages, counts.duplicates, counts.refused), (2, 0, 0));
    });
}

/// There, NaN is not above any threshold, so the receiver had zeros.
#[test]
fn s21_nan_is_never_sent_as_null() {
    let all = [0x7ff8_0000_0000_0000, 0x7ff8_0000_dead_beef, 0x7ff0_0000_0000_0001, 0xfff8_0000_0000_0000];
    for (bits, count) in all.into_iter().flat_map(|bits| [1, 2].map(|count| (bits, count))) {
        ranks(&row(4, count), count, sparse(), |rank, mut boundary, mut store, _| {
            if rank == 0 {
                fill(&mut store, 0, |at| if at == 2 { f64::from_bits(bits) } else { 0.0 });
            }
            boundary.exchange(&mut store.stage(0)).unwrap();
            if rank + 1 == count {
                let came: Vec<u64> = came(&store, 1).iter().map(|value| value.to_bits()).collect();
                assert_eq!(came, [0, 0, bits, 0], "{count} ranks");
                assert_eq!(store.free_idle(1..2, 1), 0, "nor is it ever idle");
            }
        });
    }
}

/// There, one flag stood for a field that is present and for a strip that is live, so it mattered which blocks share a rank.
#[test]
fn s35_no_bit_depends_on_the_number_of_ranks() {
    for problem in [Problem::Shift, Problem::Smooth] {
        let options = Options { blocks: 4, ..Options::tiny(problem, 2) };
        let expected = advect::run(&Options { ranks: 1, dense: true, ..options }, |_| ()).unwrap();
        for (count, split) in [1, 2, 3, 4, 8].into_iter().flat_map(|count| [(count, false), (count, true)]) {
            let outcome = advect::run(&Options { ranks: count, split, ..options }, |_| ()).unwrap();
            assert_eq!(outcome.hash, expected.hash, "{problem:?}, {count} ranks, split {split}");
            let closed_form = (problem == Problem::Shift).then_some(0);
            assert_eq!(outcome.wrong, closed_form, "{problem:?}, {count} ranks, split {split}");
        }
    }
}
