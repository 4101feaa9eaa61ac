//! What C tells of its mesh, its fields and its arrays.
//!
//! A mesh is asked once, when an exchange is built, and what it says is checked as a whole before anything relies on it.
//! Arrays are asked for whenever values are packed or set; a pointer to one is used until the callback is called again.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr::NonNull;

use umbra::boundary::{self, Field, Fields, NoMemory, is_refined};
use umbra_core::boundary::{Element, Octant, Shape, Sparse};

use crate::call::{numbers, sized};
use crate::status::{Code, Failure};

/// `UMBRA_NO_BLOCK`.
const NO_BLOCK: u32 = u32::MAX;
/// `UMBRA_FIELD_VECTOR`.
const VECTOR: u32 = 1;
/// `UMBRA_FIELD_SPARSE`.
const SPARSE: u32 = 2;
/// Ranks of a mesh, at most: the memory of an exchange between so many can be counted in bytes, whatever the rest.
const RANKS: u32 = 4096;
/// Directions, the middle counted.
const ELEMENTS: usize = 27;

type Owner = unsafe extern "C" fn(*mut c_void, u32) -> u32;
type Neighbour = unsafe extern "C" fn(*mut c_void, u32, *const i32) -> u32;
type OfBlock = unsafe extern "C" fn(*mut c_void, u32) -> u32;
type Finer = unsafe extern "C" fn(*mut c_void, u32, *const i32, u32) -> u32;
type Values = unsafe extern "C" fn(*mut c_void, u32, u32) -> *mut f64;
type Allocate = unsafe extern "C" fn(*mut c_void, u32, u32) -> c_int;

/// `struct umbra_mesh`.
#[repr(C)]
pub struct MeshView {
    size: usize,
    cells: [u32; 3],
    ghosts: [u32; 3],
    blocks: u32,
    ranks: u32,
    most_blocks: u32,
    owner: Option<Owner>,
    neighbour: Option<Neighbour>,
    context: *mut c_void,
    level: Option<OfBlock>,
    octant: Option<OfBlock>,
    finer: Option<Finer>,
}

/// `struct umbra_field`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FieldView {
    components: u32,
    flags: u32,
    allocate: f64,
    deallocate: f64,
    default_value: f64,
}

/// `struct umbra_arrays`.
#[repr(C)]
pub struct ArraysView {
    size: usize,
    values: Option<Values>,
    allocate: Option<Allocate>,
    context: *mut c_void,
}

fn invalid(detail: impl ToString) -> Failure {
    Failure::new(Code::Invalid, detail)
}

/// What a mesh has said.
pub(crate) struct Mesh {
    shape: Shape,
    ranks: u32,
    most_blocks: u32,
    owners: Vec<u32>,
    /// For each block and direction.
    neighbours: Vec<u32>,
    /// Level and child of each block, if there are several levels.
    levels: Vec<u32>,
    octants: Vec<Octant>,
    /// By block, number of the direction, and child.
    finer: HashMap<(u32, u8, u8), u32>,
}

impl Mesh {
    /// Asks the mesh for everything.
    ///
    /// # Safety
    /// `view` points to a structure that begins with its size, and its functions may be called with its context.
    pub(crate) unsafe fn ask(view: *const MeshView) -> Result<Mesh, Failure> {
        // SAFETY: the caller's promise; zeros are a valid view.
        let view = unsafe { sized(view, offset_of!(MeshView, level)) }?;
        let shape = Shape::new(view.cells, view.ghosts).map_err(invalid)?;
        let (Some(owner), Some(neighbour)) = (view.owner, view.neighbour) else {
            return Err(invalid("a mesh has functions that name owners and neighbours, and one is null"));
        };
        if !(1..=RANKS).contains(&view.ranks) {
            return Err(invalid(format!("a mesh is on 1 to {RANKS} ranks, not on {}", view.ranks)));
        }
        let places = view.blocks as usize * ELEMENTS;
        let mut mesh = Mesh {
            shape,
            ranks: view.ranks,
            most_blocks: view.most_blocks,
            owners: room(view.blocks as usize)?,
            neighbours: room(places)?,
            levels: Vec::new(),
            octants: Vec::new(),
            finer: HashMap::new(),
        };
        for block in 0..view.blocks {
            // SAFETY: the caller's promise about the functions.
            let rank = unsafe { owner(view.context, block) };
            if rank >= view.ranks {
                return Err(invalid(format!("block {block} belongs to rank {rank}, and there are {}", view.ranks)));
            }
            mesh.owners.push(rank);
        }
        mesh.neighbours.resize(places, NO_BLOCK);
        for block in 0..view.blocks {
            for element in shape.elements() {
                let direction = element.offsets().map(i32::from);
                // SAFETY: as above; the direction lives during the call.
                let other = unsafe { neighbour(view.context, block, direction.as_ptr()) };
                if other != NO_BLOCK && other >= view.blocks {
                    return Err(invalid(format!(
                        "the neighbour of block {block} in direction {direction:?} is {other}, and there are {} blocks",
                        view.blocks
                    )));
                }
                if let Some(place) = mesh.neighbours.get_mut(place(block, element)) {
                    *place = other;
                }
            }
        }
        match (view.level, view.octant, view.finer) {
            (None, None, None) => {}
            // SAFETY: as above.
            (Some(level), Some(octant), Some(finer)) => unsafe { mesh.ask_levels(view.context, level, octant, finer) }?,
            _ => {
                return Err(invalid(
                    "a mesh of several levels has functions that name levels, octants and finer blocks",
                ));
            }
        }
        if !is_refined(&mesh).map_err(invalid)? {
            mesh.check()?;
        }
        Ok(mesh)
    }

    /// Asks for what a mesh of several levels tells.
    ///
    /// # Safety
    /// The functions may be called with this context.
    unsafe fn ask_levels(
        &mut self,
        context: *mut c_void,
        level: OfBlock,
        octant: OfBlock,
        finer: Finer,
    ) -> Result<(), Failure> {
        let blocks = self.owners.len() as u32;
        self.levels = room(self.owners.len())?;
        self.octants.try_reserve_exact(self.owners.len()).map_err(|e| Failure::new(Code::System, e))?;
        for block in 0..blocks {
            // SAFETY: the caller's promise.
            let level = unsafe { level(context, block) };
            self.levels.push(level);
            if level == 0 {
                self.octants.push(Octant::default());
                continue;
            }
            // SAFETY: as above.
            let octant = unsafe { octant(context, block) };
            let child = u8::try_from(octant).ok().and_then(Octant::new);
            let child = child.ok_or_else(|| invalid(format!("block {block} is child {octant}, and there are 8")))?;
            self.octants.push(child);
        }
        for block in 0..blocks {
            let without =
                self.shape.elements().filter(|&element| self.neighbours.get(place(block, element)) == Some(&NO_BLOCK));
            for element in without.collect::<Vec<_>>() {
                let direction = element.offsets().map(i32::from);
                for child in self.shape.octants(element) {
                    // SAFETY: as above; the direction lives during the call.
                    let other = unsafe { finer(context, block, direction.as_ptr(), child.number().into()) };
                    if other == NO_BLOCK {
                        continue;
                    }
                    if other >= blocks {
                        return Err(invalid(format!(
                            "the finer neighbour of block {block} in direction {direction:?} is {other}, and there are \
                             {blocks} blocks"
                        )));
                    }
                    self.finer.try_reserve(1).map_err(|e| Failure::new(Code::System, e))?;
                    self.finer.insert((block, element.number(), child.number()), other);
                }
            }
        }
        Ok(())
    }

    /// Neighbours are mutual.
    fn check(&self) -> Result<(), Failure> {
        use boundary::Mesh as _;
        for block in 0..self.blocks() {
            for element in self.shape.elements() {
                let Some(other) = self.neighbour(block, element) else { continue };
                let back = self.neighbour(other, element.opposite());
                if back != Some(block) {
                    let back = back.map_or_else(|| "none".to_owned(), |block| block.to_string());
                    return Err(invalid(format!(
                        "the neighbour of block {block} in direction {:?} is {other}, whose neighbour in the opposite \
                         direction is {back}: both must name each other",
                        element.offsets()
                    )));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The same mesh with as many blocks on one rank as any will ever have, and on none more, to size a fabric by.
    pub(crate) fn at_worst(mut self) -> Mesh {
        let mut owners = self.owners.clone();
        owners.sort_unstable();
        let now = owners.chunk_by(|one, next| one == next).map(<[u32]>::len).max();
        // A rank that has more already has them anyhow. With more on each than on any of now, all blocks find a rank.
        if self.most_blocks as usize > now.unwrap_or(0) {
            for (block, owner) in (0..).zip(&mut self.owners) {
                *owner = block / self.most_blocks;
            }
        }
        self
    }
}

/// An empty list with room for so many, if there is.
fn room(len: usize) -> Result<Vec<u32>, Failure> {
    let mut list = Vec::new();
    list.try_reserve_exact(len).map_err(|e| Failure::new(Code::System, e))?;
    Ok(list)
}

fn place(block: u32, element: Element) -> usize {
    block as usize * ELEMENTS + usize::from(element.number())
}

impl boundary::Mesh for Mesh {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn blocks(&self) -> u32 {
        // As many as C said, which is a `u32`.
        self.owners.len() as u32
    }

    fn owner(&self, block: u32) -> u32 {
        self.owners.get(block as usize).copied().unwrap_or_default()
    }

    fn neighbour(&self, block: u32, element: Element) -> Option<u32> {
        self.neighbours.get(place(block, element)).copied().filter(|&other| other != NO_BLOCK)
    }

    fn level(&self, block: u32) -> u32 {
        self.levels.get(block as usize).copied().unwrap_or_default()
    }

    fn octant(&self, block: u32) -> Octant {
        self.octants.get(block as usize).copied().unwrap_or_default()
    }

    fn finer(&self, block: u32, element: Element, octant: Octant) -> Option<u32> {
        self.finer.get(&(block, element.number(), octant.number())).copied()
    }
}

/// The fields that C names, in its order.
///
/// # Safety
/// `fields` points to `count` fields.
pub(crate) unsafe fn fields(fields: *const FieldView, count: usize) -> Result<Vec<Field>, Failure> {
    if count > usize::from(u16::MAX) {
        return Err(invalid(format!("{count} fields are more than {}", u16::MAX)));
    }
    // SAFETY: the caller's promise; any bits are a field.
    let views = unsafe { numbers(fields, count) }?;
    let field = |view: &FieldView| {
        if view.components == 0 || view.flags & !(VECTOR | SPARSE) != 0 {
            return Err(invalid(format!("no field has {} components and flags {}", view.components, view.flags)));
        }
        let sparse = (view.flags & SPARSE != 0)
            .then(|| Sparse::new(view.allocate, view.deallocate, view.default_value).map_err(invalid))
            .transpose()?;
        Ok(Field { components: view.components, vector: view.flags & VECTOR != 0, sparse })
    };
    views.iter().map(field).collect()
}

/// Values of an array of each field.
pub(crate) fn lengths(shape: Shape, fields: &[Field]) -> Result<Vec<usize>, Failure> {
    let bytes = |len: usize| len.checked_mul(size_of::<f64>()).filter(|&bytes| isize::try_from(bytes).is_ok());
    let length = |field: &Field| shape.len().checked_mul(field.components as usize).filter(|&len| bytes(len).is_some());
    let all: Option<Vec<usize>> = fields.iter().map(length).collect();
    all.ok_or_else(|| invalid("an array of such a field is larger than memory can be"))
}

/// The arrays of C, during one call.
pub(crate) struct Arrays<'a> {
    view: ArraysView,
    values: Values,
    lengths: &'a [usize],
    /// What is wrong with the first array that could not be used.
    wrong: Cell<Option<String>>,
}

impl<'a> Arrays<'a> {
    /// # Safety
    /// `view` points to a structure that begins with its size. During the call that uses the arrays its functions may be
    /// called with its context, and an array that they name has as many values as `lengths` says of its field, which
    /// nobody else uses.
    pub(crate) unsafe fn new(view: *const ArraysView, lengths: &'a [usize]) -> Result<Arrays<'a>, Failure> {
        // SAFETY: the caller's promise; zeros are a valid view.
        let view = unsafe { sized(view, size_of::<ArraysView>()) }?;
        let values = view.values.ok_or_else(|| invalid("the function that names arrays is null"))?;
        Ok(Arrays { view, values, lengths, wrong: Cell::new(None) })
    }

    /// Where an array is, and its length; `None` if it is absent. One that cannot be used is there with no values: the exchange
    /// refuses its length before it does anything, while an absent one would be a null to its neighbours.
    fn ask(&self, block: u32, field: u16) -> Option<(*mut f64, usize)> {
        let len = *self.lengths.get(usize::from(field))?;
        // SAFETY: the promise of `new` about the functions.
        let values = unsafe { (self.values)(self.view.context, block, field.into()) };
        if !values.is_aligned() {
            let wrong =
                format!("the array of field {field} on block {block} is not aligned: put that right, and call again");
            let first = self.wrong.take().unwrap_or(wrong);
            self.wrong.set(Some(first));
            return Some((NonNull::dangling().as_ptr(), 0));
        }
        (!values.is_null()).then_some((values, len))
    }

    /// What came of the call, unless an array was at fault.
    pub(crate) fn end<R>(self, done: Result<R, boundary::BoundaryError>) -> Result<R, Failure> {
        match self.wrong.take() {
            Some(wrong) => Err(invalid(wrong)),
            None => Ok(done?),
        }
    }
}

impl Fields for Arrays<'_> {
    fn values(&self, block: u32, field: u16) -> Option<&[f64]> {
        let (values, len) = self.ask(block, field)?;
        // SAFETY: neither null nor misaligned; so many values are there, none or by the promise of `new`, and `lengths` has seen
        // that their bytes can be counted. What is changed is borrowed from `self` as a whole.
        Some(unsafe { std::slice::from_raw_parts(values, len) })
    }

    fn values_mut(&mut self, block: u32, field: u16) -> Option<&mut [f64]> {
        let (values, len) = self.ask(block, field)?;
        // SAFETY: as above, and the exclusive borrow of `self` is the only use of any array meanwhile.
        Some(unsafe { std::slice::from_raw_parts_mut(values, len) })
    }

    fn allocate(&mut self, block: u32, field: u16) -> Result<(), NoMemory> {
        // SAFETY: the promise of `new` about the functions.
        let done = self.view.allocate.map(|allocate| unsafe { allocate(self.view.context, block, field.into()) });
        if done == Some(0) { Ok(()) } else { Err(NoMemory { block, field }) }
    }
}
