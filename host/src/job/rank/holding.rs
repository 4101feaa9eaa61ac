//! What a rank holds in its memory: a slice of a file, or bricks of a field.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Instant;

use umbra_core::key::Key;

use super::{Pairs, RankError};
use crate::session::{Exported, Session};
use crate::stencil::Source as _;
use crate::stencil::field::{BrickFile, Bricks, Field, Spread};
use crate::sys::heap::{self, NoMemory};
use crate::sys::segment::Segment;

/// Bytes of a file that are read at a time.
const AT_ONCE: usize = 1 << 20;

/// What is held, and where.
pub(super) struct Holding {
    what: What,
    input: PathBuf,
    /// In the heap; in a segment if not.
    in_heap: bool,
}

enum What {
    /// Bytes of a file.
    Slice { offset: u64, len: u64 },
    /// Bricks of a field.
    Bricks { edges: [u32; 3], holder: u32, holders: u32 },
}

impl Holding {
    pub(super) fn parse(pairs: &Pairs) -> Result<Holding, RankError> {
        let in_heap = match pairs.text("memory")? {
            "segment" => false,
            "heap" => true,
            other => return Err(RankError::BadArgument(format!("memory={other}"))),
        };
        let what = match pairs.get("bricks") {
            None => What::Slice { offset: pairs.number("offset")?, len: pairs.number("len")? },
            Some(text) => {
                let edges: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
                let edges = edges.ok().and_then(|edges| edges.try_into().ok());
                let edges = edges.ok_or_else(|| RankError::BadArgument(format!("bricks={text}")))?;
                What::Bricks { edges, holder: pairs.small("holder")?, holders: pairs.small("holders")? }
            }
        };
        Ok(Holding { what, input: pairs.path("input")?, in_heap })
    }

    /// Whether all hosts have as many ranks, so that these are rows and columns.
    pub(super) fn is_on_a_grid(&self) -> bool {
        matches!(self.what, What::Slice { .. })
    }

    /// Loads what is to be held and exports it; a rank that holds nothing exports nothing.
    pub(super) fn export(&self, session: &mut Session) -> Result<Option<Key>, RankError> {
        match self.what {
            What::Slice { offset, len } => {
                let input = |error| RankError::Input { path: self.input.clone(), error };
                let len = usize::try_from(len).map_err(|_| RankError::Missing("len"))?;
                let mut file = File::open(&self.input).map_err(input)?;
                file.seek(SeekFrom::Start(offset)).map_err(input)?;
                self.fill(session, len, AT_ONCE, |part| file.read_exact(part).map_err(input))
            }
            What::Bricks { edges, holder, holders } => {
                let field = Field::open(&self.input)?;
                let none = RankError::Missing("bricks");
                let Some(bricks) = Bricks::new(field.extents(), edges) else { return Err(none) };
                let spread = Spread { bricks, element_bytes: field.element().bytes(), holders };
                let (Some(len), Some(stride)) = (spread.bytes_of(holder), spread.stride()) else { return Err(none) };
                let source = BrickFile { field: &field, bricks };
                let mut numbers = spread.of(holder);
                // A file is read without a deadline.
                self.fill(session, len, stride, |part| match numbers.next() {
                    Some(number) => {
                        let loaded = source.load(number, part, Instant::now());
                        loaded.map_err(|error| RankError::Brick { number, error })
                    }
                    None => Ok(()),
                })
            }
        }
    }

    /// Exports memory of this length, after `load` has filled it part by part.
    fn fill(
        &self,
        session: &mut Session,
        len: usize,
        at_once: usize,
        load: impl FnMut(&mut [u8]) -> Result<(), RankError>,
    ) -> Result<Option<Key>, RankError> {
        if len == 0 {
            return Ok(None);
        }
        let memory = self.loaded(len, at_once, load)?;
        Ok(Some(match (&self.what, memory) {
            // A field that is read does not change.
            (What::Bricks { .. }, memory) => session.export_constant(memory)?,
            (What::Slice { .. }, Exported::Bytes(bytes)) => session.export_bytes(bytes)?,
            (What::Slice { .. }, Exported::Segment(segment)) => session.export_segment(segment)?,
        }))
    }

    /// Memory of this length, which `load` has filled part by part.
    pub(super) fn loaded(
        &self,
        len: usize,
        at_once: usize,
        mut load: impl FnMut(&mut [u8]) -> Result<(), RankError>,
    ) -> Result<Exported, RankError> {
        let none = |NoMemory { bytes }| RankError::NoMemory { path: self.input.clone(), bytes };
        let parts = (0..len).step_by(at_once.max(1)).map(|at| (at, at_once.min(len - at)));
        Ok(if self.in_heap {
            let mut bytes = heap::reserved(len, || 0).map_err(none)?;
            for (at, part) in parts {
                load(bytes.get_mut(at..at + part).unwrap_or_default())?;
            }
            Exported::Bytes(bytes)
        } else {
            // The system gives a segment as much as nobody has, and ends the process that writes there.
            if !heap::has(len as u64) {
                return Err(none(NoMemory { bytes: len }));
            }
            let segment = Segment::create("umbra-slice", len)?;
            let mut bytes = heap::filled(0, at_once.min(len)).map_err(none)?;
            for (at, part) in parts {
                let part = bytes.get_mut(..part).unwrap_or_default();
                load(part)?;
                segment.write(at, part)?;
            }
            Exported::Segment(segment)
        })
    }
}
