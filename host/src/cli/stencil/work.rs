//! What is run: bricks, groups, their order, slots; and the run itself.

use std::io::IsTerminal as _;
use std::time::Duration;

use umbra::stencil::field::{Bricks, Field, Pattern, Scratch, compute};
use umbra::stencil::{Cache, Groups, Known, Plain, Plan, Run, RunError, Source, Stop, optimum};
use umbra::sys::heap;
use umbra_core::cache::policy::{Clock, Fifo, Lru, S3Fifo, Sieve};
use umbra_core::stencil::{Input, Order, Shape, Strips, Unknown};

use super::list::{self, Look};
use super::memory::Size;
use super::outcome::Outcome;
use super::watch::Watch;
use super::{Origin, Policy, Stencil, Sweep, memory, name_of, source, text};
use crate::cli::Failure;

/// Groups that a window holds at most if nobody says how many.
const WINDOW_MOST: u64 = 1 << 16;
/// Bytes of the text of an order at most: so many in any case, and so many for each brick.
const ORDER_LEAST: u64 = 1 << 16;
const ORDER_OF_ONE: u64 = 24;

/// A run that can begin.
pub(super) struct Work {
    pub(super) bricks: Bricks,
    pub(super) slots: u32,
    pub(super) slot_bytes: usize,
    pub(super) threads: u32,
    pub(super) active: u32,
    pub(super) order: String,
    pub(super) groups: Groups,
    /// The brick that each group computes.
    points: Vec<u64>,
    window: usize,
    /// What it takes.
    pub(super) size: Size,
}

impl Work {
    pub(super) fn plan(given: &Stencil, input: &Field, pattern: &Pattern, stop: &Stop) -> Result<Work, Failure> {
        let dimensions = input.shape().len();
        let edges = match (&given.brick[..], dimensions) {
            ([], 1) => [1, 1, 4096],
            ([], 2) => [1, 64, 64],
            ([], _) => [16, 16, 16],
            (given, _) => coordinates(given, dimensions, 1, "--brick")?,
        };
        let bricks = Bricks::new(input.extents(), edges).ok_or_else(too_many)?;
        let slot_bytes = bricks.points_of_one().checked_mul(input.element().bytes() as u64);
        let slot_bytes = slot_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let slot_bytes = slot_bytes.ok_or_else(|| Failure::usage("a brick is larger than memory can be: --brick"))?;
        let count = bricks.count();

        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = given.threads.unwrap_or(u32::try_from(cores).unwrap_or(1));
        let active = given.active.unwrap_or(threads + given.loads_in_flight);
        let Look { largest, references } = list::look(&bricks, pattern, stop)?;
        // The coordinates that the field does not have would count with edges of 1.
        let reach = (3 - dimensions..3).map(|axis| pattern.reach().div_ceil(edges[axis].max(1))).max().unwrap_or(1);
        let row = u64::from(bricks.counts()[2]);
        let rows =
            row.saturating_mul(2 * u64::from(reach) + 5).clamp(u64::from(active), WINDOW_MOST.max(u64::from(active)));
        let window = match given.policy {
            Policy::Window => given.window.map_or(rows, u64::from).max(u64::from(active)),
            _ => u64::from(active),
        };
        let mut size = Size {
            bricks: count,
            references,
            largest,
            slots: 0,
            slot_bytes: slot_bytes as u64,
            threads: threads.into(),
            scratch: Scratch::bytes(bricks.points_of_one(), input.element()),
            window: window.min(count),
            known: given.policy == Policy::Known,
        };
        // More could never hold anything; there are less than 2^32 bricks.
        let most_slots = u32::try_from(count).unwrap_or(u32::MAX);
        let others = memory::total(source::parts(given, count, slot_bytes as u64));
        let slots = given.slots.map_or_else(|| slots_for(&size, others, active), |slots| slots.min(most_slots));
        size.slots = slots.into();
        memory::enough(size.all())?;
        let (order, points) = order(given, &bricks, dimensions, (reach, pattern.shape()), slots, active, stop)?;
        let enough = |groups: &Groups| {
            // What there is of the list is there already.
            memory::enough(Size { references: groups.references() as u64, ..size }.rest())
        };
        let groups = list::list(&points, &bricks, pattern, stop, enough)?;
        if stop.is_set() {
            return Err(list::interrupted());
        }
        let need = groups.largest();
        // The largest group may be none of those that were looked at.
        let slots = match given.slots {
            Some(_) => slots,
            None => slots.max(most_slots.min(u32::try_from(need).unwrap_or(u32::MAX).saturating_add(active))),
        };
        size = Size { references: groups.references() as u64, largest: need as u64, slots: slots.into(), ..size };
        memory::enough(size.rest())?;
        if need as u64 > size.slots {
            let more = format!(
                "a brick is computed from up to {need} bricks, and there are {slots} slots: use --slots {need} or more"
            );
            return Err(Failure::usage(more));
        }
        let window = size.window as usize;
        Ok(Work { bricks, slots, slot_bytes, threads, active, order, groups, points, window, size })
    }

    /// Runs it, with what the user sees meanwhile.
    pub(super) fn run(
        &self,
        given: &Stencil,
        input: &Field,
        source: &dyn Source,
        output: &Field,
        pattern: &Pattern,
        stop: &Stop,
    ) -> Result<Outcome, RunError> {
        let Work { slots, active, window, .. } = *self;
        let inputs = self.groups.inputs();
        let largest = self.groups.largest();
        let unbounded = || memory::filled(Input::UNBOUNDED, inputs);
        let plan = Plan { active, window, horizon: self.groups.len() as u64 };
        let to = To { given, input, source, output, pattern, stop };
        let plain = active as usize;
        match given.policy {
            Policy::Known => self.drive(&to, &mut plan.cache(slots, largest, unbounded()?, Known::new(&self.groups)?)?),
            Policy::Window | Policy::Usage => {
                self.drive(&to, &mut plan.cache(slots, largest, self.groups.usage()?, Unknown)?)
            }
            Policy::Fifo => self.drive(&to, &mut Plain::new(slots, inputs, Fifo::new(), plain)?),
            Policy::Lru => self.drive(&to, &mut Plain::new(slots, inputs, Lru::new(), plain)?),
            Policy::Clock => self.drive(&to, &mut Plain::new(slots, inputs, Clock::new(), plain)?),
            Policy::Sieve => self.drive(&to, &mut Plain::new(slots, inputs, Sieve::new(), plain)?),
            Policy::S3Fifo => self.drive(&to, &mut Plain::new(slots, inputs, S3Fifo::new(), plain)?),
        }
    }

    fn drive<C: Cache>(&self, to: &To<'_>, cache: &mut C) -> Result<Outcome, RunError> {
        let To { given, input, source, output, pattern, stop } = *to;
        // Nothing that may fail for want of memory is left for after the run.
        let compulsory = self.groups.different()?;
        let mut memory = memory::filled(0_u8, self.slot_bytes.saturating_mul(self.slots as usize))?;
        let terminal = !given.quiet && std::io::stderr().is_terminal();
        let mut watch = Watch::new(terminal, given.plot.is_some(), self.slots);
        let run = Run {
            groups: &self.groups,
            source,
            memory: &mut memory,
            slot_bytes: self.slot_bytes,
            active: self.active as usize,
            loads: given.loads_in_flight as usize,
            deadline: given.timeout,
            stop: stop.clone(),
        };
        let worker = || {
            let mut scratch = Scratch::default();
            move |ready: &umbra::stencil::Ready<'_, C::Group>| {
                let number = self.points.get(ready.number() as usize).copied().unwrap_or_default();
                let (bricks, element) = (&self.bricks, input.element());
                let inputs = |at| ready.input(at);
                compute(bricks, pattern, element, number, ready.members(), inputs, &mut scratch)?;
                if let Some(brick) = bricks.brick(number) {
                    output.write_brick(bricks, brick, &scratch.numbers)?;
                }
                Ok(())
            }
        };
        let done = run.each(cache, self.threads as usize, &mut watch, worker);
        watch.finish();
        let (progress, idle) = done?;
        let slots = self.slots as usize;
        let [fewest, together] = if heap::has(optimum::bytes(&self.groups)) {
            let fewest = optimum::loads_unless(&self.groups, slots, stop);
            let together = match self.active {
                1 => fewest,
                active => optimum::loads_together(&self.groups, slots, active as usize, stop),
            };
            [fewest, together]
        } else {
            [None; 2]
        };
        if stop.is_set() {
            return Err(RunError::Stopped { done: progress.done, groups: progress.groups });
        }
        Ok(Outcome {
            shape: input.shape().to_vec(),
            element: input.element(),
            bytes: input.bytes(),
            neighbours: pattern.neighbours().len(),
            brick: self.bricks.brick(0).map(|brick| brick.lengths).unwrap_or_default(),
            bricks: self.points.len() as u64,
            source: name_of(given.source),
            ranks: (given.source == Origin::Ranks).then(|| source::holders(given)),
            agent: None,
            order: self.order.clone(),
            policy: name_of(given.policy),
            slots: self.slots,
            slot_bytes: self.slot_bytes as u64,
            threads: self.threads,
            loads_in_flight: given.loads_in_flight,
            active: self.active,
            references: self.groups.references() as u64,
            compulsory,
            optimum: fewest,
            optimum_of_active: together,
            progress,
            idle: idle.0.min(Duration::from_secs(u64::from(u32::MAX))),
            verified: None,
            slot_use: watch.into_slot_use(),
        })
    }
}

/// What a run works on.
#[derive(Clone, Copy)]
struct To<'a> {
    given: &'a Stencil,
    input: &'a Field,
    source: &'a dyn Source,
    output: &'a Field,
    pattern: &'a Pattern,
    stop: &'a Stop,
}

/// Slots that are chosen: a sixteenth of the bricks, in half of what is free beside the rest and so many bytes of others;
/// enough for the largest group that is known, and never more than there are bricks.
fn slots_for(size: &Size, others: u64, active: u32) -> u32 {
    let beside = memory::total(size.all()).saturating_add(others);
    let fit = heap::free().map_or(u64::MAX, |free| free.saturating_sub(beside) / 2 / size.of_slot());
    let slots = (size.bricks / 16).min(fit).max(size.largest + u64::from(active));
    u32::try_from(slots.min(size.bricks)).unwrap_or(u32::MAX)
}

fn too_many() -> Failure {
    Failure::usage("the field has 2^32 bricks or more: use larger ones (--brick)")
}

/// Three numbers from those that the user gave for the coordinates of the field.
fn coordinates(given: &[u32], dimensions: usize, others: u32, option: &str) -> Result<[u32; 3], Failure> {
    let mut all = [others; 3];
    let given: Vec<u32> = match given {
        // One number for all of them.
        [one] => vec![*one; dimensions],
        many if many.len() == dimensions => many.to_vec(),
        many => {
            let (count, verb) = (many.len(), if dimensions == 1 { "one coordinate" } else { "coordinates" });
            return Err(Failure::usage(format!("{option}: {count} numbers for a field of {dimensions} {verb}")));
        }
    };
    all[3 - dimensions..].copy_from_slice(&given);
    Ok(all)
}

/// The order in words, and the bricks in it.
fn order(
    given: &Stencil,
    bricks: &Bricks,
    dimensions: usize,
    (reach, shape): (u32, Shape),
    slots: u32,
    active: u32,
    stop: &Stop,
) -> Result<(String, Vec<u64>), Failure> {
    let (counts, count) = (bricks.counts(), bricks.count());
    let mut points = memory::room(count as usize).map_err(Failure::failed)?;
    if let Some(path) = &given.order_file {
        let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
        let text = text::read(path, ORDER_LEAST.saturating_add(count.saturating_mul(ORDER_OF_ONE)), stop)?;
        let mut seen = memory::filled(false, count as usize).map_err(Failure::failed)?;
        for word in text.split_whitespace() {
            let number = word.parse::<u64>().map_err(|error| wrong(format!("not the number of a brick: {error}")))?;
            match seen.get_mut(number as usize) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return Err(wrong(format!("brick {number} stands twice"))),
                None => return Err(wrong(format!("there is no brick {number}, only {count} from 0 on"))),
            }
            points.push(number);
        }
        if let Some(missing) = seen.iter().position(|&seen| !seen) {
            return Err(wrong(format!("brick {missing} is missing")));
        }
        return Ok(("of a file".to_owned(), points));
    }
    let given_tile = match &given.tile[..] {
        [] => None,
        tile => Some(coordinates(tile, dimensions, u32::MAX, "--tile")?),
    };
    let order = match (given.order, given_tile) {
        (Sweep::Rows | Sweep::Hilbert, Some(_)) => {
            return Err(Failure::usage("--tile: use it with --order strips or --order tiles"));
        }
        (Sweep::Rows, None) => Order::Rows,
        (Sweep::Hilbert, None) => Order::Hilbert,
        (Sweep::Tiles, edges) => Order::Tiles { edges: edges.unwrap_or([8; 3]) },
        // The outermost coordinate of a strip is not cut.
        (Sweep::Strips, Some([_, y, z])) if dimensions == 3 => Order::Tiles { edges: [u32::MAX, y, z] },
        (Sweep::Strips, Some([_, _, width])) => Order::Strips { width },
        (Sweep::Strips, None) => match Strips::fit(counts, reach, shape, slots, active) {
            Some(strips) => strips.order(),
            None => Order::Strips { width: 1 },
        },
    };
    let name = match order {
        Order::Rows => "rows".to_owned(),
        Order::Hilbert => "hilbert".to_owned(),
        Order::Strips { width } => format!("strips of {width}"),
        Order::Tiles { edges } => {
            let edges = [0, 1, 2].map(|axis| edges[axis].min(counts[axis]).to_string());
            format!("{} of {}", name_of(given.order), edges[3 - dimensions..].join(" × "))
        }
    };
    // The end of a stopped list is not looked at.
    points.extend(order.points(counts).ok_or_else(too_many)?.take_while(|_| !stop.is_set()));
    Ok((name, points))
}
