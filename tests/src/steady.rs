//! Boundary exchanges whose allocations are counted.
//!
//! Allocations of all threads are, so the programs that do so have no harness, whose own thread may allocate at any time.

use std::thread;

use umbra::boundary::{
    Boundary, Extent, Field, Fields as _, Mesh as _, Scope, Settings, Store, Transport, Tree, largest_message,
};
use umbra_core::boundary::{Shape, Sparse};

use crate::meeting::Meeting;

/// How many there are.
pub const RANKS: u32 = 3;
const FIELDS: u16 = 8;

/// What is exchanged.
#[derive(Debug)]
pub struct Steady {
    mesh: Tree,
    fields: Vec<Field>,
    /// Bytes of slots at least, and at most.
    slots: [u32; 2],
    /// Whether messages must have been longer than their slots.
    overflows: bool,
}

/// What a field holds on a block in an exchange: often nothing, so that messages grow, shrink and overflow.
fn holds(turn: u32, block: u32, field: u16) -> bool {
    let burst = (turn / 16).is_multiple_of(3);
    burst || (turn + block + u32::from(field)).is_multiple_of(5)
}

impl Steady {
    /// Within a level, or between two, with slots that follow what comes.
    ///
    /// # Panics
    /// If there is no such mesh.
    #[must_use]
    pub fn new(refined: bool) -> Steady {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).expect("cells for the ghosts");
        let mesh = Tree::new(shape, [4, 2, 1], [true; 3], RANKS, 1, |_, at| refined && at[0] == 1);
        let field = Field::sparse(Sparse::new(1e-3, 1e-4, 0.0).expect("thresholds in their order"));
        Steady { mesh, fields: vec![field; FIELDS.into()], slots: [256, u32::MAX], overflows: true }
    }

    /// The same with slots of so many bytes, which messages overflow, or never do.
    #[must_use]
    pub fn with_slots(self, bytes: u32, overflows: bool) -> Steady {
        Steady { slots: [bytes; 2], overflows, ..self }
    }

    /// What ranks need for it.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent { ranks: RANKS, slots: 2, message: largest_message(&self.mesh, &self.fields, RANKS) }
    }

    /// Runs so many exchanges after each other on ranks that are threads, each with an end. For each rank what `allocations`
    /// counted in each of these windows, and what an agent has found for it.
    ///
    /// # Panics
    /// If an exchange fails.
    pub fn run<T: Transport, const N: usize>(
        &self,
        windows: [u32; N],
        allocations: fn() -> usize,
        end: impl Fn(u32) -> T + Sync,
    ) -> Vec<([usize; N], u64)> {
        let (together, end) = (&Meeting::of(0..RANKS), &end);
        thread::scope(|scope| {
            let rank = move |number| self.rank(number, end(number), windows, allocations, together);
            let ranks: Vec<_> = (0..RANKS).map(|number| scope.spawn(move || rank(number))).collect();
            ranks.into_iter().map(|rank| rank.join().expect("a rank that ends well")).collect()
        })
    }

    fn rank<T: Transport, const N: usize>(
        &self,
        rank: u32,
        end: T,
        windows: [u32; N],
        allocations: fn() -> usize,
        together: &Meeting,
    ) -> ([usize; N], u64) {
        let [smallest_slot, largest_slot] = self.slots;
        let settings = Settings { smallest_slot, largest_slot, ..Settings::default() };
        let mut boundary = Boundary::build(&self.mesh, &self.fields, end, settings).expect("the same mesh");
        let mut store = Store::new(self.mesh.blocks(), self.mesh.shape().len(), &self.fields, 1);
        let mut turn = 0;
        let counted = windows.map(|exchanges| {
            together.wait(rank);
            let before = allocations();
            // Nobody allocates before all count.
            together.wait(rank);
            for _ in 0..exchanges {
                turn += 1;
                self.fill(&mut store, turn, rank);
                exchange(&mut boundary, &mut store, turn);
            }
            together.wait(rank);
            let after = allocations();
            // Nobody ends before all have counted.
            together.wait(rank);
            after - before
        });
        let overflows = boundary.counts().overflows;
        assert_eq!(overflows > 0, self.overflows, "{overflows} messages did not fit into slots of {:?}", self.slots);
        (counted, boundary.attended())
    }

    fn fill(&self, store: &mut Store, turn: u32, rank: u32) {
        for (block, field) in self.mesh.owned_by(rank).flat_map(|block| (0..FIELDS).map(move |field| (block, field))) {
            store.allocate(block, field).expect("memory");
            let value = if holds(turn, block, field) { f64::from(turn) } else { 0.0 };
            store.stage(0).values_mut(block, field).expect("it is there").fill(value);
        }
    }
}

/// At once, or in halves.
fn exchange<T: Transport>(boundary: &mut Boundary<T>, store: &mut Store, turn: u32) {
    const WELL: &str = "all ranks are here";
    if turn.is_multiple_of(2) {
        return boundary.exchange(&mut store.stage(0)).expect(WELL);
    }
    for scope in [Scope::Local, Scope::Nonlocal] {
        while boundary.send(&store.stage(0), scope).expect(WELL).is_pending() {
            let _ = boundary.receive(&mut store.stage(0), scope).expect(WELL);
            thread::yield_now();
        }
        boundary.wait(&mut store.stage(0), scope).expect(WELL);
        boundary.set(&mut store.stage(0), scope).expect(WELL);
    }
}
