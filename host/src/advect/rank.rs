//! What one rank does in a run.

use std::time::{Duration, Instant};

use umbra_core::boundary::Counts;

use super::deal::{self, Layout};
use super::domain::{Blob, Domain, mix};
use super::options::{AdvectError, Options, Problem};
use super::packed::Packed;
use super::rank_outcome::{Frame, RankOutcome, Times};
use super::{shift, smooth};
use crate::boundary::{Boundary, BoundaryError, Fields as _, Mesh as _, Scope, Store, Transport, Usage};

/// What was seen of the cycles so far.
#[derive(Default)]
struct Seen {
    /// Nanoseconds, payload bytes, and bytes of fields when they were most, of each.
    nanos: Vec<u64>,
    bytes: Vec<u64>,
    field_bytes: Vec<u64>,
    /// Bytes of slots at most, and bytes that the transport held at most: to receive into, and to send from.
    slots: u64,
    held: [u64; 2],
    frames: Vec<Frame>,
}

struct Run<'o, T> {
    options: &'o Options,
    rank: u32,
    domain: Domain,
    blobs: Vec<Blob>,
    blocks: Vec<u32>,
    store: Store,
    boundary: Boundary<T>,
    times: Times,
    exchanges: u64,
    seen: Seen,
    /// The owners of all blocks before the first deal.
    first: Vec<u32>,
    /// Bytes that another rank is handed at once.
    part: u32,
    /// Fields on blocks that went to another rank, and that came from one.
    gone: u64,
    come: u64,
    moved_blocks: u64,
    packed: Packed,
}

/// Runs one rank from beginning to end, over its end of a transport. `tell` hears of each cycle.
///
/// # Errors
/// [`AdvectError`].
pub fn run_rank<T: Transport>(
    options: &Options,
    rank: u32,
    transport: T,
    tell: impl FnMut(u32),
) -> Result<RankOutcome, AdvectError> {
    run_rank_seen(options, rank, transport, tell, |_| ())
}

/// The same; `look` sees the fields before each cycle, and after the last one.
pub(super) fn run_rank_seen<T: Transport>(
    options: &Options,
    rank: u32,
    transport: T,
    mut tell: impl FnMut(u32),
    mut look: impl FnMut(&Store),
) -> Result<RankOutcome, AdvectError> {
    let (mesh, fields) = (options.mesh()?, options.exchanged()?);
    let failed = |cycle| move |error| AdvectError::Boundary { rank, cycle, error };
    let mut boundary = Boundary::build(&mesh, &fields, transport, options.settings()).map_err(failed(0))?;
    boundary.set_operation(smooth::Floored);
    let (blocks, store) = (mesh.owned_by(rank).collect(), (mesh.blocks(), mesh.shape().len()));
    let packed = Packed::new(boundary.machine().config().slots);
    let domain = Domain::new(mesh);
    let blob = |field| Blob::new(options.seed, field, domain.extent(0)[0], options.radius, options.dimensions);
    let mut run = Run {
        options,
        rank,
        blobs: (0..options.fields).map(blob).collect(),
        blocks,
        store: Store::new(store.0, store.1, &fields, options.stages()),
        first: if options.remesh.is_some() { deal::owners(&domain.mesh) } else { Vec::new() },
        part: options.extent()?.message.saturating_sub(16),
        domain,
        boundary,
        times: Times::default(),
        exchanges: 0,
        seen: Seen::default(),
        gone: 0,
        come: 0,
        moved_blocks: 0,
        packed,
    };
    run.begin().map_err(failed(0))?;
    for cycle in 0..options.cycles {
        let sent = run.boundary.counts().payload_bytes;
        if let Some(deals) = options.deals_before(cycle) {
            run.deal(deals).map_err(failed(cycle))?;
        }
        if options.frames > 0 && cycle.is_multiple_of(options.frames) {
            run.frame(cycle);
        }
        look(&run.store);
        let begun = Instant::now();
        run.cycle().map_err(failed(cycle))?;
        run.seen.nanos.push(nanos(begun.elapsed()));
        run.seen.bytes.push(run.boundary.counts().payload_bytes - sent);
        run.seen.slots = run.seen.slots.max(run.boundary.receive_bytes().0);
        // The system is asked about each slot, which takes time that peers may wait for.
        if cycle.is_multiple_of(HELD) || cycle + 1 == options.cycles {
            let held = run.boundary.held().unwrap_or_default();
            run.seen.held = [run.seen.held[0].max(held.receive), run.seen.held[1].max(held.send)];
        }
        tell(cycle + 1);
    }
    look(&run.store);
    if options.frames > 0 {
        run.frame(options.cycles);
    }
    run.boundary.close().map_err(failed(options.cycles))?;
    Ok(run.outcome())
}

/// Time steps from one look at what the transport holds to the next.
const HELD: u32 = 8;

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<T: Transport> Run<'_, T> {
    /// The blobs at their beginning.
    fn begin(&mut self) -> Result<(), BoundaryError> {
        let none = |what| BoundaryError::NoMemory { rank: self.rank, what };
        for field in 0..self.options.fields {
            if self.options.dense {
                self.blocks.iter().try_for_each(|&block| self.store.allocate(block, field)).map_err(none)?;
            }
            let blob = self.blobs[usize::from(field)];
            let levels = 0..=self.domain.mesh.deepest();
            for (level, cell) in levels.flat_map(|level| blob.cells(level).map(move |cell| (level, cell))) {
                let place = self.domain.find(level, cell);
                let Some((block, at)) = place.filter(|&(block, _)| self.domain.mesh.owner(block) == self.rank) else {
                    continue;
                };
                self.store.allocate(block, field).map_err(none)?;
                let shift = self.options.problem == Problem::Shift;
                let value = if shift { blob.exact(cell) } else { blob.smooth(level, cell) };
                if let Some(values) = self.store.stage(0).values_mut(block, field) {
                    values[at] = value;
                }
            }
        }
        Ok(())
    }

    fn cycle(&mut self) -> Result<(), BoundaryError> {
        let shape = self.domain.mesh.shape();
        match self.options.problem {
            Problem::Shift => {
                for direction in 0..self.options.dimensions as usize {
                    self.exchange(0, direction as u8)?;
                    self.update(|store, block, field, blob, _| {
                        if let Some(values) = store.stage(0).values_mut(block, field) {
                            shift::sweep(values, shape, direction, blob.signs[direction]);
                        }
                    });
                }
            }
            Problem::Smooth => {
                let dimensions = self.options.dimensions;
                self.exchange(0, 0)?;
                self.update(|store, block, field, blob, coarser| {
                    if let Some((from, to)) = store.two_stages(block, field, 0, 1) {
                        let courants = smooth::courants(blob.signs, field, dimensions, coarser);
                        smooth::stage(from, to, shape, courants, |_, new| new);
                    }
                });
                self.exchange(1, 1)?;
                self.update(|store, block, field, blob, coarser| {
                    if let Some((from, to)) = store.two_stages(block, field, 1, 0) {
                        let courants = smooth::courants(blob.signs, field, dimensions, coarser);
                        smooth::stage(from, to, shape, courants, smooth::halves);
                    }
                });
            }
        }
        // Fields become present in exchanges, and absent only here.
        self.seen.field_bytes.push(self.store.usage().bytes);
        let begun = Instant::now();
        self.store.free_idle(self.blocks.iter().copied(), self.options.idle);
        self.times.dealloc += begun.elapsed();
        Ok(())
    }

    /// Deals the blocks anew, for the so manyth time, and hands over what belongs to those that go.
    fn deal(&mut self, deals: u32) -> Result<(), BoundaryError> {
        let (begun, me, ranks) = (Instant::now(), self.rank, self.options.ranks);
        let mesh = self.domain.mesh.clone().with_owners(&deal::dealt(&self.first, ranks, deals));
        self.boundary.remesh(&mesh)?;
        let layout = Layout { fields: self.options.fields, stages: self.options.stages(), cells: mesh.shape().len() };
        let mut parcels = vec![Vec::new(); ranks as usize];
        for &block in self.blocks.iter().filter(|&&block| mesh.owner(block) != me) {
            let Some(parcel) = parcels.get_mut(mesh.owner(block) as usize) else { continue };
            // The others shall not wait for what does not come.
            let moved = layout.pack(&mut self.store, block, parcel).inspect_err(|_| self.boundary.refuse_remesh());
            self.gone += moved.map_err(|what| BoundaryError::NoMemory { rank: me, what })?;
        }
        let came = self.boundary.hand_over(&parcels, self.part, layout.most(mesh.blocks()))?;
        let before = std::mem::replace(&mut self.domain.mesh, mesh);
        let mesh = &self.domain.mesh;
        let mut unpacked = Ok(());
        for (from, parcel) in (0..).zip(came) {
            let may_come = |block| block < mesh.blocks() && mesh.owner(block) == me && before.owner(block) == from;
            let fields = layout.unpack(&mut self.store, &parcel, [from, me], may_come);
            unpacked = unpacked.and(fields.map(|fields| self.come += fields));
        }
        let all = self.boundary.has_used(unpacked.is_ok());
        unpacked.and(all)?;
        self.blocks = mesh.owned_by(me).collect();
        self.moved_blocks += self.blocks.iter().filter(|&&block| before.owner(block) != me).count() as u64;
        self.packed.clear();
        self.times.remesh += begun.elapsed();
        Ok(())
    }

    /// Computes each field on each block, which is so many levels coarser than the finest.
    fn update(&mut self, step: impl Fn(&mut Store, u32, u16, &Blob, u32)) {
        let begun = Instant::now();
        for &block in &self.blocks {
            let coarser = self.domain.mesh.deepest() - self.domain.mesh.level(block);
            for (field, blob) in (0..).zip(&self.blobs) {
                step(&mut self.store, block, field, blob, coarser);
            }
        }
        self.times.update += begun.elapsed();
    }

    fn exchange(&mut self, stage: usize, number: u8) -> Result<(), BoundaryError> {
        self.exchanges += 1;
        let most = nanos(self.options.delay);
        if most > 0 {
            let random = mix(self.options.seed ^ mix(self.exchanges << 8 | u64::from(self.rank)));
            std::thread::sleep(Duration::from_nanos(random % most));
        }
        self.boundary.set_stage(number);
        let scopes: &[Scope] = if self.options.split { &[Scope::Nonlocal, Scope::Local] } else { &[Scope::Any] };
        for &scope in scopes {
            let (begun, sending) = (Instant::now(), self.boundary.sending());
            self.boundary.start_receive(scope)?;
            while self.boundary.send(&self.store.stage(stage), scope)?.is_pending() {
                let _ = self.boundary.receive(&mut self.store.stage(stage), scope)?;
                std::thread::yield_now();
            }
            let sent = Instant::now();
            self.boundary.wait(&mut self.store.stage(stage), scope)?;
            let received = Instant::now();
            self.boundary.set(&mut self.store.stage(stage), scope)?;
            let sending = self.boundary.sending() - sending;
            self.times.pack += (sent - begun).saturating_sub(sending);
            self.times.send += sending;
            self.times.wait += received - sent;
            self.times.set += received.elapsed();
        }
        self.packed.note(self.exchanges, self.boundary.counts());
        Ok(())
    }

    /// Keeps what the first field looks like now.
    fn frame(&mut self, cycle: u32) {
        let shape = self.domain.mesh.shape();
        let [nx, ny, _] = shape.extents().map(|n| n as usize);
        let (low, cells) = (shape.ghosts().map(|n| n as usize), shape.cells().map(|n| n as usize));
        // Of a space what one sees from above: the largest of each column.
        let picture = |values: &[f64]| -> Vec<u8> {
            let column = |x: usize, y: usize| {
                let layers = (low[2]..low[2] + cells[2]).map(|z| values[(z * ny + y) * nx + x].abs());
                (layers.fold(0.0, f64::max) * 255.0).clamp(0.0, 255.0) as u8
            };
            let rows = low[1]..low[1] + cells[1];
            rows.flat_map(|y| (low[0]..low[0] + cells[0]).map(move |x| (x, y))).map(|(x, y)| column(x, y)).collect()
        };
        let held = self.blocks.iter().filter_map(|&block| Some((block, picture(self.store.values(block, 0, 0)?))));
        let frame = Frame { cycle, blocks: held.collect() };
        self.seen.frames.push(frame);
    }

    fn outcome(self) -> RankOutcome {
        let (mut hash, mut max, mut nonzero) = (0u64, 0f64, 0);
        for (field, _) in (0..self.options.fields).zip(&self.blobs) {
            for &block in &self.blocks {
                let values = self.store.values(block, field, 0);
                self.domain.interior(block, |cell, at| {
                    let value = values.map_or(0.0, |values| values[at]);
                    hash = hash.wrapping_add(mix(mix(cell ^ u64::from(field) << 48) ^ value.to_bits()));
                    max = if value.abs() > max { value.abs() } else { max };
                    nonzero += u64::from(value != 0.0);
                });
            }
        }
        let wrong = (self.options.problem == Problem::Shift).then(|| self.wrong());
        let Usage { bytes, allocations, deallocations, .. } = self.store.usage();
        let counts @ Counts { messages, payload_bytes, head_bytes, live, null, overflows, .. } =
            *self.boundary.counts();
        let (slots, dense) = self.boundary.receive_bytes();
        RankOutcome {
            hash,
            max,
            nonzero,
            wrong,
            cycles_ns: self.seen.nanos,
            cycle_bytes: self.seen.bytes,
            cycle_field_bytes: self.seen.field_bytes,
            times: self.times,
            counts: [messages, payload_bytes, head_bytes, live, null, overflows],
            field_bytes: bytes,
            // Those of fields that came and went with their blocks are none of its own.
            allocations: [allocations - self.come, deallocations - self.gone],
            moved_blocks: self.moved_blocks,
            slot_bytes: [slots, self.seen.slots, dense],
            held_bytes: self.seen.held,
            packed_bytes: [self.packed.now(), self.packed.most()],
            messages_each: counts.messages.div_ceil(self.exchanges.max(1)),
            attended: self.boundary.attended(),
            frames: self.seen.frames,
        }
    }

    /// Cells that are not what the closed form says.
    fn wrong(&self) -> u64 {
        let mut wrong = 0;
        for (field, blob) in (0..).zip(&self.blobs) {
            // What must be in the blocks of this rank, all else being zero.
            let mut expected = std::collections::HashMap::new();
            for cell in blob.cells(0) {
                let moved = |d: usize| cell[d] + blob.signs[d] * i64::from(self.options.cycles);
                if let Some(place) = self.domain.find(0, std::array::from_fn(moved)) {
                    expected.insert(place, blob.exact(cell).to_bits());
                }
            }
            for &block in &self.blocks {
                let values = self.store.values(block, field, 0);
                self.domain.interior(block, |_, at| {
                    let bits = values.map_or(0, |values| values[at].to_bits());
                    wrong += u64::from(bits != expected.get(&(block, at)).copied().unwrap_or(0));
                });
            }
        }
        wrong
    }
}
