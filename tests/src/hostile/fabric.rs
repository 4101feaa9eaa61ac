//! The memory of a boundary exchange, which every rank and agent of it can write.
//!
//! Another rank has built its half and sent its first message. An input is what it writes then, and what this rank and
//! an agent do meanwhile: a byte that says how this rank takes part, and eleven bytes a step. The first of these says what
//! is done; two are a place and eight a word for it.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use umbra::boundary::{
    Agent, Attended, Boundary, BoundaryError, Extent, Fabric, Field, Fields as _, Grid, Mesh as _, Scope, Settings,
    Store, Transport,
};
use umbra::sys::segment::Segment;
use umbra_core::atomic::Ordering;
use umbra_core::boundary::{Shape, Sparse};

const EXTENT: Extent = Extent { ranks: 2, slots: 2, message: 4096 };
/// Bytes in which a rank says what it votes, and that it has built.
const VOTES: usize = 256;
/// Bytes of a step, and steps taken at most.
const STEP: usize = 11;
const STEPS: usize = 64;
/// Things that can be done: the first ones are that the other rank writes.
const KINDS: u8 = 12;
const WRITES: u8 = 4;

/// Two blocks in a row, one of each rank, whose strips do not fit into the smallest slot.
fn mesh() -> Grid {
    let shape = Shape::new([64, 1, 1], [32, 0, 0]).expect("a small block");
    Grid::new(shape, [2, 1, 1], [true; 3], 2)
}

fn fields() -> [Field; 2] {
    [Field::DENSE, Field::sparse(Sparse::new(1e-6, 1e-8, 0.0).expect("thresholds of a field"))]
}

fn settings(deadline: Duration) -> Settings {
    Settings { deadline: Some(deadline), smallest_slot: 256, ..Settings::default() }
}

fn store(rank: u32) -> Store {
    let mesh = mesh();
    let mut store = Store::new(mesh.blocks(), mesh.shape().len(), &fields(), 1);
    (0..2).for_each(|field| store.allocate(rank, field).expect("there is memory"));
    store.stage(0).values_mut(rank, 1).expect("it was made present").fill(1.0);
    store
}

/// The words of the memory before this rank comes.
fn sound() -> &'static [u64] {
    static SOUND: OnceLock<Vec<u64>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let segment = Arc::new(Agent::segment(EXTENT).expect("there is memory"));
        thread::scope(|scope| {
            for rank in 0..2 {
                let segment = segment.clone();
                scope.spawn(move || {
                    let end = Attended::attach(segment, EXTENT, rank).expect("the memory is as large");
                    let built = Boundary::build(&mesh(), &fields(), end, settings(Duration::from_secs(60)));
                    let mut built = built.expect("both have the same mesh");
                    if rank == 1 {
                        let sent = built.send(&store(rank).stage(0), Scope::Any);
                        assert!(sent.expect("its fields are there").is_ready());
                    }
                });
            }
        });
        segment.words(0, VOTES / 8).expect("it is longer").iter().for_each(|word| word.store(0, Ordering::Relaxed));
        segment.all_words().iter().map(|word| word.load(Ordering::Relaxed)).collect()
    })
}

/// An exchange and a change of the mesh at either end, and the same after one of the words that are not zero was lost.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let step = |what: u8, at: u16| [&[what][..], &at.to_le_bytes(), &[0; 8]].concat();
    let exchange = || (WRITES..KINDS).flat_map(move |what| step(what, 0));
    let written = sound().iter().filter(|word| **word != 0).count() as u16;
    let lost = |at| step(0, at).into_iter().chain(exchange());
    let all = std::iter::once(exchange().collect()).chain((0..written).step_by(7).map(|at| lost(at).collect()));
    all.flat_map(|steps: Vec<u8>| [0, 1].map(|how| [&[how], &steps[..]].concat())).collect()
}

/// Whatever is in the memory: every call ends, and none panics.
pub(super) fn feed(bytes: &[u8]) {
    let Some((how, steps)) = bytes.split_first() else { return };
    let segment = Segment::private(size_of_val(sound())).expect("there is memory");
    for (word, &was) in segment.all_words().iter().zip(sound()).filter(|(_, was)| **was != 0) {
        word.store(was, Ordering::Relaxed);
    }
    let segment = Arc::new(segment);
    let steps = steps
        .as_chunks::<STEP>()
        .0
        .iter()
        .take(STEPS)
        .map(|&[what, a, b, ref word @ ..]| (what % KINDS, u16::from_le_bytes([a, b]), u64::from_le_bytes(*word)));
    if how % 2 == 0 {
        play(&segment, Fabric::attach(segment.clone(), EXTENT, 0).expect("it is as large"), steps);
    } else {
        play(&segment, Attended::attach(segment.clone(), EXTENT, 0).expect("it is as large"), steps);
    }
}

/// Builds this rank after the first writes of the other one, and takes the other steps.
fn play(segment: &Arc<Segment>, end: impl Transport, mut steps: impl Iterator<Item = (u8, u16, u64)>) {
    let first = steps.find(|&(what, at, word)| {
        if what < WRITES {
            write(segment, at, word);
        }
        what >= WRITES
    });
    let mesh = mesh();
    let Ok(mut boundary) = Boundary::build(&mesh, &fields(), end, settings(Duration::ZERO)).map_err(told) else {
        return;
    };
    let (mut store, mut agent) = (store(0), None);
    for (what, at, word) in first.into_iter().chain(steps) {
        let view = &mut store.stage(0);
        let done = match what {
            4 => boundary.start_receive(Scope::Any),
            5 => boundary.send(view, Scope::Any).map(drop),
            6 | 7 => boundary.receive(view, Scope::Any).map(drop),
            8 => boundary.set(view, Scope::Any),
            9 => {
                let agent =
                    agent.get_or_insert_with(|| Agent::attach(segment.clone(), EXTENT).expect("it is as large"));
                agent.look().map(drop).map_err(BoundaryError::from)
            }
            10 => boundary.remesh(&mesh),
            11 => boundary.close(),
            _ => {
                write(segment, at, word);
                Ok(())
            }
        };
        done.unwrap_or_else(told);
    }
}

fn told(error: BoundaryError) {
    assert!(!error.to_string().is_empty());
}

/// The other rank writes a word: one of those that are not zero at first, or any.
fn write(segment: &Segment, at: u16, word: u64) {
    let (any, nth) = (usize::from(at) % sound().len(), usize::from(at));
    let written = sound().iter().enumerate().filter(|(_, word)| **word != 0).nth(nth);
    segment.all_words()[written.map_or(any, |(at, _)| at)].store(word, Ordering::Relaxed);
}
