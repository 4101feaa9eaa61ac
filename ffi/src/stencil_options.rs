//! `struct umbra_stencil_options`: what a stencil cache in C is made of.

use std::mem::offset_of;

use umbra::stencil::{Groups, Known, Plan as Limits};
use umbra_core::stencil::{ByNumber, Grid, Shape};

use crate::call::{numbers, sized};
use crate::foreseen::{Ahead, Named};
use crate::status::{Code, Failure};
use crate::stenciled::Plan;

/// `struct umbra_stencil_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    first_slot: u32,
    slots: u32,
    inputs: u64,
    counted: u32,
    groups: u32,
    largest_group: u32,
    members: u32,
    active: u32,
    overtake: u32,
    horizon: u64,
    ids: *const u64,
    grid: *const Regular,
    known: *const Listed,
}

/// `struct umbra_stencil_grid`.
#[repr(C)]
pub struct Regular {
    size: usize,
    extents: [u32; 3],
    radius: u32,
    shape: u32,
}

/// `struct umbra_stencil_groups`.
#[repr(C)]
pub struct Listed {
    size: usize,
    inputs: *const u64,
    lengths: *const usize,
    count: usize,
}

/// Bytes of the options that know nothing of ids and futures.
const LEAST: usize = offset_of!(Options, ids);

impl Options {
    /// What the caller wants.
    ///
    /// # Safety
    /// `from` points to a structure that begins with its size. What it points to is there, and does not change during the
    /// call: `inputs` ids; a grid and groups that begin with their size; as many lengths as there are groups, and as many
    /// inputs as these say.
    pub(crate) unsafe fn plan(from: *const Options) -> Result<Plan, Failure> {
        // SAFETY: the caller's promise; zeros are valid options.
        let options = unsafe { sized(from, LEAST) }?;
        let inputs = usize::try_from(options.inputs).map_err(|_| Code::Invalid)?;
        let goes_by_number = options.ids.is_null();
        let names = if goes_by_number {
            Named::ByNumber(ByNumber)
        } else {
            // SAFETY: the caller's promise about the ids.
            Named::by(unsafe { numbers(options.ids, inputs) }?)?
        };
        let ahead = match (options.grid.is_null(), options.known.is_null()) {
            (true, true) => Ahead::Unknown,
            _ if !goes_by_number => {
                return Err(Failure::new(Code::Invalid, "a future goes by numbers of inputs: leave out their ids"));
            }
            // SAFETY: the caller's promise about the grid.
            (false, true) => Ahead::Grid(unsafe { grid(options.grid, options.inputs) }?),
            // SAFETY: the caller's promise about the groups.
            (true, false) => Ahead::Known(unsafe { known(options.known, options.inputs) }?),
            (false, false) => return Err(Failure::new(Code::Invalid, "two futures: take the grid or the groups")),
        };
        Ok(Plan {
            first: options.first_slot,
            slots: options.slots,
            inputs,
            counted: options.counted != 0,
            largest_group: options.largest_group,
            members: if options.members == 0 { options.largest_group } else { options.members },
            groups: Limits {
                active: options.active.max(1),
                window: options.groups as usize,
                horizon: options.horizon.max(1),
            },
            overtake: options.overtake,
            names,
            ahead,
        })
    }
}

/// The grid that C describes.
///
/// # Safety
/// `from` points to a structure that begins with its size.
unsafe fn grid(from: *const Regular, inputs: u64) -> Result<Grid, Failure> {
    // SAFETY: the caller's promise; zeros are a grid, if one that is refused.
    let Regular { extents, radius, shape, .. } = unsafe { sized(from, size_of::<Regular>()) }?;
    let refused = |detail: String| Failure::new(Code::Invalid, detail);
    let shape = match shape {
        0 => Shape::Box,
        1 => Shape::Star,
        other => return Err(refused(format!("{other} is no shape: they are numbered 0 and 1"))),
    };
    let [x, y, z] = extents;
    let grid = Grid::new(extents, radius, shape)
        .ok_or_else(|| refused(format!("a grid of {x} x {y} x {z} points: take 1 to 2^32 - 1")))?;
    if u64::from(grid.len()) > inputs {
        return Err(refused(format!("a grid of {} points, and {inputs} inputs: take one for each", grid.len())));
    }
    Ok(grid)
}

/// The groups that C lists.
///
/// # Safety
/// `from` points to a structure that begins with its size, and to what it says.
unsafe fn known(from: *const Listed, inputs: u64) -> Result<Known, Failure> {
    // SAFETY: the caller's promise; zeros are no groups.
    let listed = unsafe { sized(from, size_of::<Listed>()) }?;
    // SAFETY: the caller's promise about the lengths.
    let lengths = unsafe { numbers(listed.lengths, listed.count) }?;
    let all = lengths.iter().try_fold(0_usize, |sum, &len| sum.checked_add(len));
    let all = all.ok_or_else(|| Failure::new(Code::Invalid, "the lengths are more than all memory has"))?;
    // SAFETY: the caller's promise about the inputs.
    let mut rest = unsafe { numbers(listed.inputs, all) }?;
    if let Some(data) = rest.iter().find(|&&data| data >= inputs) {
        let detail = format!("a group names input {data}, and there are {inputs}: they are numbered from 0");
        return Err(Failure::new(Code::Usage, detail));
    }
    let mut groups = Groups::default();
    groups.try_reserve(lengths.len(), all)?;
    for &len in lengths {
        let (group, others) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        groups.push(group.iter().copied());
        rest = others;
    }
    Ok(Known::new(&groups)?)
}
