//! What an advection run is asked for.

use std::time::Duration;

use umbra_core::boundary::{RefineError, Shape, ShapeError, Sparse, ThresholdError};

use super::refine::Refine;
use crate::boundary::{BoundaryError, Extent, Field, Settings, Store, TransportError, Tree, largest_message};
use crate::sys::heap;
use crate::sys::segment::SegmentError;

/// Which equation, with which proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// One cell a sweep, compared with the closed form.
    Shift,
    /// Second order in time, compared with a dense run.
    Smooth,
}

impl Problem {
    /// Its name on command lines and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Problem::Shift => "shift",
            Problem::Smooth => "smooth",
        }
    }
}

/// A run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Which problem.
    pub problem: Problem,
    /// Two or three.
    pub dimensions: u32,
    /// Blocks along each of them.
    pub blocks: u32,
    /// Cells of a block along each of them.
    pub cells: u32,
    /// Blocks that are refined; of the smooth problem only.
    pub refine: Option<Refine>,
    /// Fields, each with a blob of its own.
    pub fields: u16,
    /// Cells from the middle of a blob to its rim.
    pub radius: u32,
    /// Time steps.
    pub cycles: u32,
    /// Ranks.
    pub ranks: u32,
    /// Keep every field on every block.
    pub dense: bool,
    /// Exchange between ranks first, then within them.
    pub split: bool,
    /// Send to the last peer first, and set the last channel first.
    pub reversed: bool,
    /// Wait at random before sending, for so long at most.
    pub delay: Duration,
    /// Chooses the blobs and the delays.
    pub seed: u64,
    /// Deal the blocks anew among the ranks each so many cycles.
    pub remesh: Option<u32>,
    /// Looks in a row without content after which a block gives a field back.
    pub idle: u32,
    /// How long an exchange may take.
    pub deadline: Duration,
    /// Bytes of a slot at most; what does not fit is fetched.
    pub largest_slot: u32,
    /// Have an agent look out for what comes.
    pub agent: bool,
    /// Take a picture of the first field each so many cycles; never if 0.
    pub frames: u32,
}

/// Why a run did not end well.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdvectError {
    /// There are no blobs in one or in four dimensions.
    #[error("{0} dimensions: choose 2 or 3")]
    Dimensions(u32),
    /// The blob would meet itself around the box.
    #[error("a blob of radius {radius} does not fit into a box of {cells} cells: choose a smaller one, or more cells")]
    Radius {
        /// The radius.
        radius: u32,
        /// Cells of the box along each dimension.
        cells: u32,
    },
    /// Nothing to do.
    #[error("no {0}: give one at least")]
    None(&'static str),
    /// Blocks would never be dealt anew, or all the time.
    #[error(
        "blocks dealt anew every {every} cycles of a run of {cycles}: choose one at least, and fewer than the run has"
    )]
    Remesh {
        /// Cycles from one deal to the next.
        every: u32,
        /// Cycles of the run.
        cycles: u32,
    },
    /// Blocks of this size.
    #[error("{0}")]
    Shape(#[from] ShapeError),
    /// The closed form is one of equal cells.
    #[error("problem shift moves blobs by whole cells, which all have one size: refine blocks of problem smooth")]
    NotSmooth,
    /// Blocks that shall be refined.
    #[error("there are no blocks {refine} to be refined, of {blocks} along each dimension")]
    Outside {
        /// Those blocks.
        refine: Refine,
        /// Blocks of the box along each dimension.
        blocks: u32,
    },
    /// Blocks of this size that shall be refined.
    #[error("{0}")]
    Refine(#[from] RefineError),
    /// A mesh that is too large.
    #[error(
        "no memory for {bytes} bytes of a mesh of {blocks} blocks, kept by {ranks} ranks here: take fewer blocks, fields or ranks"
    )]
    NoMemory {
        /// Blocks of the mesh.
        blocks: u64,
        /// Ranks on this machine, each of which knows all blocks.
        ranks: u32,
        /// Bytes, at least, before any field has content.
        bytes: u64,
    },
    /// Thresholds.
    #[error("{0}")]
    Threshold(#[from] ThresholdError),
    /// Memory that the ranks share.
    #[error("{0}")]
    Segment(#[from] SegmentError),
    /// The end of a rank.
    #[error("{0}")]
    Transport(#[from] TransportError),
    /// An exchange of a rank.
    #[error("rank {rank}, cycle {cycle}: {error}")]
    Boundary {
        /// The rank.
        rank: u32,
        /// The time step.
        cycle: u32,
        /// Why.
        error: BoundaryError,
    },
    /// A rank that is a process of its own has failed; it names itself.
    #[error("{0}")]
    Rank(String),
    /// The agent of the ranks does not start.
    #[error("the agent does not start: {0}")]
    Agent(String),
    /// The agent of the ranks has ended before them.
    #[error("the agent has ended before the ranks, which have looked for themselves since: {0}")]
    Attend(TransportError),
    /// A rank ended without an outcome.
    #[error("rank {rank} ended early: {why}")]
    Ended {
        /// The rank.
        rank: u32,
        /// What is known of the reason.
        why: String,
    },
}

impl Options {
    /// A usual run: 8 x 8 blocks of 32 x 32 cells, or 4 x 4 x 4 of 16 x 16 x 16.
    #[must_use]
    pub const fn new(problem: Problem, dimensions: u32) -> Options {
        let plane = dimensions < 3;
        let (fields, cycles) = match (problem, plane) {
            (Problem::Shift, true) => (8, 512),
            (Problem::Shift, false) => (4, 64),
            (Problem::Smooth, true) => (8, 400),
            (Problem::Smooth, false) => (6, 60),
        };
        Options {
            problem,
            dimensions,
            blocks: if plane { 8 } else { 4 },
            cells: if plane { 32 } else { 16 },
            refine: None,
            fields,
            radius: if plane { 10 } else { 5 },
            cycles,
            ranks: 4,
            dense: false,
            split: false,
            reversed: false,
            delay: Duration::ZERO,
            seed: 1,
            remesh: None,
            idle: 5,
            deadline: Duration::from_secs(60),
            largest_slot: u32::MAX,
            agent: false,
            frames: 0,
        }
    }

    /// A run so small that every block is the neighbour of each several times.
    #[must_use]
    pub const fn tiny(problem: Problem, dimensions: u32) -> Options {
        Options { blocks: 2, cells: 4, fields: 2, radius: 1, cycles: 20, ..Options::new(problem, dimensions) }
    }

    /// Checks it.
    ///
    /// # Errors
    /// [`AdvectError`].
    pub fn check(&self) -> Result<(), AdvectError> {
        if !(2..=3).contains(&self.dimensions) {
            return Err(AdvectError::Dimensions(self.dimensions));
        }
        for (count, what) in
            [(self.blocks, "blocks"), (self.ranks, "ranks"), (u32::from(self.fields), "fields"), (self.idle, "looks")]
        {
            if count == 0 {
                return Err(AdvectError::None(what));
            }
        }
        if let Some(every) = self.remesh.filter(|&every| every == 0 || every >= self.cycles) {
            return Err(AdvectError::Remesh { every, cycles: self.cycles });
        }
        let cells = self.blocks.saturating_mul(self.cells);
        if self.radius.saturating_mul(2) >= cells {
            return Err(AdvectError::Radius { radius: self.radius, cells });
        }
        if let Some(refine) = self.refine {
            if self.problem != Problem::Smooth {
                return Err(AdvectError::NotSmooth);
            }
            if refine.from >= refine.to || refine.to > self.blocks {
                return Err(AdvectError::Outside { refine, blocks: self.blocks });
            }
            self.shape()?.may_be_refined()?;
        }
        self.shape()?;
        Ok(())
    }

    /// Checks that this machine has memory for what so many of the ranks keep of the mesh. To be asked before the first of
    /// them begins: each of them has some of it.
    ///
    /// # Errors
    /// [`AdvectError::NoMemory`].
    pub fn fits(&self, ranks: u32) -> Result<(), AdvectError> {
        let (blocks, bytes) = (self.all_blocks(), self.least_bytes().saturating_mul(ranks.into()));
        if heap::has(bytes) { Ok(()) } else { Err(AdvectError::NoMemory { blocks, ranks, bytes }) }
    }

    /// Blocks of the mesh; a refined one counts as its children.
    fn all_blocks(&self) -> u64 {
        let box_of = |n: u32| u64::from(n).saturating_pow(self.dimensions);
        let refined = self.refine.map_or(0, |refine| box_of(refine.to - refine.from));
        box_of(self.blocks).saturating_add(refined.saturating_mul(box_of(2) - 1))
    }

    /// Bytes that each rank keeps of the mesh, of all of it, before any field has content.
    fn least_bytes(&self) -> u64 {
        let places = u64::from(self.fields) * self.stages() as u64;
        // Where blocks are dealt anew, the mesh that was and the one that will be.
        let meshes = if self.remesh.is_some() { 2 } else { 1 };
        let each = meshes * Tree::BLOCK_BYTES + Store::ABSENT_BYTES * places;
        self.all_blocks().saturating_mul(each)
    }

    /// Arrays of a field on a block.
    pub(super) const fn stages(&self) -> usize {
        match self.problem {
            Problem::Shift => 1,
            Problem::Smooth => 2,
        }
    }

    /// How often blocks were dealt anew once a cycle begins, if they are right before it.
    pub(super) fn deals_before(&self, cycle: u32) -> Option<u32> {
        self.remesh.filter(|&every| cycle > 0 && cycle.is_multiple_of(every)).map(|every| cycle / every)
    }

    /// The run that this one must be like, bit for bit: of one rank that keeps every field on every block.
    #[must_use]
    pub const fn alone(&self) -> Options {
        Options { ranks: 1, dense: true, delay: Duration::ZERO, frames: 0, remesh: None, agent: false, ..*self }
    }

    fn along(&self, n: u32, otherwise: u32) -> [u32; 3] {
        std::array::from_fn(|at| if at < self.dimensions as usize { n } else { otherwise })
    }

    fn shape(&self) -> Result<Shape, ShapeError> {
        Shape::new(self.along(self.cells, 1), self.along(2, 0))
    }

    /// The mesh: a periodic box.
    ///
    /// # Errors
    /// [`AdvectError::Shape`].
    pub fn mesh(&self) -> Result<Tree, AdvectError> {
        let refined = |_, at| self.refine.is_some_and(|refine| refine.meets(at, self.dimensions));
        Ok(Tree::new(self.shape()?, self.along(self.blocks, 1), [true; 3], self.ranks, 1, refined))
    }

    /// The fields, as their exchange sees them.
    ///
    /// # Errors
    /// [`AdvectError::Threshold`].
    pub fn exchanged(&self) -> Result<Vec<Field>, AdvectError> {
        let threshold = match self.problem {
            // Bits are compared: nothing of a blob gets lost.
            Problem::Shift => 0.0,
            Problem::Smooth => super::smooth::FLOOR,
        };
        let sparse = Field::sparse(Sparse::new(threshold, threshold, 0.0)?);
        Ok(vec![if self.dense { Field::DENSE } else { sparse }; usize::from(self.fields)])
    }

    /// The fabric that the ranks share.
    ///
    /// # Errors
    /// [`AdvectError`].
    pub fn extent(&self) -> Result<Extent, AdvectError> {
        let message = largest_message(&self.mesh()?, &self.exchanged()?, self.ranks);
        Ok(Extent { ranks: self.ranks, slots: 2, message })
    }

    pub(super) fn settings(&self) -> Settings {
        let usual = Settings::default();
        Settings {
            deadline: Some(self.deadline),
            smallest_slot: usual.smallest_slot.min(self.largest_slot),
            largest_slot: self.largest_slot,
            reversed: self.reversed,
            timed: true,
            ..usual
        }
    }
}
