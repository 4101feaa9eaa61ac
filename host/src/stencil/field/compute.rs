//! The stencil itself: from bricks in slots, and plainly in memory.
//!
//! Both add a point's neighbours up in the order of the pattern, so that they agree bit for bit, rounding included; all sums
//! that are no numbers are written alike. They share the arithmetic of the numbers, the pattern, and what the head of a
//! file says. They do not share how neighbours are found: one walks along rows of bricks, the other from point to point of
//! the whole field.

use super::element::{Value, for_element};
use super::{Bricks, Element, Field, Pattern};
use crate::quantity::Bytes;
use crate::stencil::{ComputeError, LoadError, Stop};
use crate::sys::heap::reserved;

/// Points that are compared between two looks whether to stop.
const LOOK: usize = 1024;

/// What a thread computes in; used again and again.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    floats: Vec<f64>,
    integers: Vec<i64>,
    /// The computed brick.
    pub numbers: Vec<u8>,
}

impl Scratch {
    /// Bytes of memory for a brick of so many points: a sum and a number of each.
    #[must_use]
    pub fn bytes(points: u64, element: Element) -> u64 {
        points.saturating_mul((size_of::<f64>().max(size_of::<i64>()) + element.bytes()) as u64)
    }
}

/// Sums of one kind, in a [`Scratch`].
trait Sums: Sized {
    fn of(scratch: &mut Scratch) -> (&mut Vec<Self>, &mut Vec<u8>);
}
impl Sums for f64 {
    fn of(scratch: &mut Scratch) -> (&mut Vec<f64>, &mut Vec<u8>) {
        (&mut scratch.floats, &mut scratch.numbers)
    }
}
impl Sums for i64 {
    fn of(scratch: &mut Scratch) -> (&mut Vec<i64>, &mut Vec<u8>) {
        (&mut scratch.integers, &mut scratch.numbers)
    }
}

/// Computes a brick from the bricks that [`Bricks::group`] names, into [`Scratch::numbers`].
///
/// # Errors
/// [`ComputeError`] if a brick is not among the inputs.
pub fn compute<'i>(
    bricks: &Bricks,
    pattern: &Pattern,
    element: Element,
    number: u64,
    members: &[u64],
    input: impl Fn(usize) -> Option<&'i [u8]>,
    scratch: &mut Scratch,
) -> Result<(), ComputeError> {
    for_element!(element, V => compute_as::<V>(bricks, pattern, number, members, &input, scratch))
}

fn compute_as<'i, V: Value<Sum: Sums>>(
    bricks: &Bricks,
    pattern: &Pattern,
    number: u64,
    members: &[u64],
    input: &impl Fn(usize) -> Option<&'i [u8]>,
    scratch: &mut Scratch,
) -> Result<(), ComputeError> {
    let missing = |number: u64| format!("brick {number} is not there");
    let brick = bricks.brick(number).ok_or_else(|| missing(number))?;
    let (sums, numbers) = V::Sum::of(scratch);
    sums.clear();
    sums.try_reserve_exact(brick.len())?;
    sums.resize(brick.len(), V::Sum::default());
    let [length_x, length_y, length_z] = brick.lengths;
    let extents = bricks.extents();
    for neighbour in pattern.neighbours() {
        // The points of a coordinate whose neighbours are inside of the field.
        let inside = |axis: usize| {
            let start = i64::from(brick.corner[axis]) + i64::from(neighbour.by[axis]);
            let end = (i64::from(extents[axis]) - start).clamp(0, i64::from(brick.lengths[axis]));
            ((-start).clamp(0, end) as u32, end as u32)
        };
        let from = |axis: usize, at: u32| (i64::from(brick.corner[axis] + at) + i64::from(neighbour.by[axis])) as u32;
        let ([first_x, end_x], [first_y, end_y]) = ([inside(0).0, inside(0).1], [inside(1).0, inside(1).1]);
        let (first_z, end_z) = inside(2);
        debug_assert!(end_x <= length_x && end_y <= length_y && end_z <= length_z, "within the brick");
        for (x, y) in (first_x..end_x).flat_map(|x| (first_y..end_y).map(move |y| (x, y))) {
            let row = (x as usize * length_y as usize + y as usize) * length_z as usize;
            let mut z = first_z;
            while z < end_z {
                // As far as one brick goes.
                let point = [from(0, x), from(1, y), from(2, z)];
                let holder = bricks.holding(point);
                let at = members.binary_search(&holder).map_err(|_| missing(holder))?;
                let other = bricks.brick(holder).ok_or_else(|| missing(holder))?;
                let [inner_x, inner_y, inner_z] = [0, 1, 2].map(|axis| (point[axis] - other.corner[axis]) as usize);
                let count = (end_z - z).min(other.lengths[2] - inner_z as u32);
                let start = (inner_x * other.lengths[1] as usize + inner_y) * other.lengths[2] as usize + inner_z;
                let bytes = start * V::BYTES..(start + count as usize) * V::BYTES;
                let from = input(at).and_then(|input| input.get(bytes)).ok_or_else(|| missing(holder))?;
                let to = row + z as usize;
                V::add(&mut sums[to..to + count as usize], neighbour.weight, from);
                z += count;
            }
        }
    }
    numbers.clear();
    numbers.try_reserve_exact(brick.len() * V::BYTES)?;
    numbers.resize(brick.len() * V::BYTES, 0);
    V::write(sums, numbers);
    Ok(())
}

/// The first number that is not what a plain sweep finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Which point, row by row.
    pub point: u64,
    /// How many points differ.
    pub points: u64,
}

/// Why fields were not compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A field cannot be read.
    #[error(transparent)]
    Read(#[from] LoadError),
    /// There is no memory for a whole field.
    #[error("a comparison needs {} of memory for each of the two fields: leave it out (--verify=never)", Bytes(*need))]
    Memory {
        /// Bytes of a field.
        need: u64,
    },
    /// It was told to stop.
    #[error("interrupted while the output was compared with a plain sweep")]
    Stopped,
}

/// Sweeps over the input in memory, point by point, and compares with the output; the first difference, if there is one.
///
/// # Errors
/// [`CheckError`]; [`CheckError::Stopped`] soon after `stop` is set.
pub fn check(input: &Field, output: &Field, pattern: &Pattern, stop: &Stop) -> Result<Option<Difference>, CheckError> {
    let whole = |field: &Field| -> Result<Vec<u8>, CheckError> {
        let need = field.bytes();
        let numbers = reserved(usize::try_from(need).unwrap_or(usize::MAX), || 0);
        let mut numbers = numbers.map_err(|_| CheckError::Memory { need })?;
        field.read(0, &mut numbers)?;
        Ok(numbers)
    };
    let (numbers, found) = (whole(input)?, whole(output)?);
    for_element!(input.element(), V => check_as::<V>(input.extents(), &numbers, &found, pattern, stop))
}

fn check_as<V: Value>(
    extents: [u32; 3],
    numbers: &[u8],
    found: &[u8],
    pattern: &Pattern,
    stop: &Stop,
) -> Result<Option<Difference>, CheckError> {
    let [planes, rows, columns] = extents.map(i64::from);
    let mut difference: Option<Difference> = None;
    let mut wanted = vec![0; V::BYTES];
    let mut point = 0;
    for x in 0..planes {
        for (y, z) in (0..rows).flat_map(|y| (0..columns).map(move |z| (y, z))) {
            if point % LOOK == 0 && stop.is_set() {
                return Err(CheckError::Stopped);
            }
            let mut sum = [V::Sum::default()];
            for neighbour in pattern.neighbours() {
                let [by_x, by_y, by_z] = neighbour.by.map(i64::from);
                let (from_x, from_y, from_z) = (x + by_x, y + by_y, z + by_z);
                let is_inside = (0..planes).contains(&from_x) && (0..rows).contains(&from_y);
                if is_inside && (0..columns).contains(&from_z) {
                    let at = ((from_x * rows + from_y) * columns + from_z) as usize * V::BYTES;
                    V::add(&mut sum, neighbour.weight, &numbers[at..at + V::BYTES]);
                }
            }
            V::write(&sum, &mut wanted);
            if found.get(point * V::BYTES..(point + 1) * V::BYTES) != Some(&wanted[..]) {
                difference.get_or_insert(Difference { point: point as u64, points: 0 }).points += 1;
            }
            point += 1;
        }
    }
    Ok(difference)
}
