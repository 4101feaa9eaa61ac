//! What exchanges of ghost cells are built on.
//!
//! It is memory of a host, or what another package brings.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use umbra::boundary::{
    Boundary, BoundaryError, Extent, Fabric, Field, Settings, Transport, TransportError, largest_message,
};
use umbra::sys::segment::Segment;
use umbra_core::error::Status;

use crate::alone::{Alone, Owner};
use crate::exchange::Exchange;
use crate::mesh::Mesh;
use crate::status::{Code, Failure};

/// Messages of a pair that may be under way: a rank can be one exchange ahead of another.
const SLOTS: u32 = 2;

/// A mesh, and the values of an array of each field on it.
pub(crate) type Fit = (Mesh, Vec<usize>);

/// What has room for all messages of these ranks.
pub(crate) fn extent(mesh: Mesh, fields: &[Field]) -> Extent {
    let ranks = mesh.ranks();
    Extent { ranks, slots: SLOTS, message: largest_message(&mesh.at_worst(), fields, ranks) }
}

/// A fabric.
pub(crate) struct Woven {
    pub(crate) extent: Extent,
    pub(crate) fields: Vec<Field>,
    pub(crate) way: Box<dyn Way>,
}

/// What carries the messages of a fabric.
pub(crate) trait Way: Any + Send + Sync {
    /// Builds the exchange of a rank, with all others; they are told if this rank has nothing that fits.
    fn build(
        &self,
        rank: u32,
        fit: Result<Fit, Failure>,
        fields: &[Field],
        settings: Settings,
    ) -> Result<(Box<dyn Kept>, Fit), Failure>;

    /// The memory of a host, if it is that.
    fn segment(&self) -> Result<&Segment, Failure> {
        Err(Failure::new(Code::WrongKind, "this fabric is no memory that has a descriptor: its ranks send messages"))
    }

    /// Whether this thread may use and release it.
    fn usable(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// An exchange that a handle names.
pub(crate) trait Kept: Send {
    /// The only thread that may use it; `None` if all may, one at a time.
    fn owner(&self) -> Option<Owner> {
        None
    }

    /// The exchange, if this thread may use it.
    fn exchange(&mut self) -> Result<&mut dyn Exchange, Failure>;
}

/// Memory that all ranks have mapped.
pub(crate) struct Shared {
    pub(crate) segment: Arc<Segment>,
    pub(crate) extent: Extent,
}

/// Ends of ranks that another package makes.
pub trait Ends: 'static {
    /// One.
    type End: Transport + 'static;

    /// The rank of this process.
    fn rank(&self) -> u32;

    /// The end of this process. It may wait for those of the others, until the deadline if there is one.
    ///
    /// # Errors
    /// [`TransportError`].
    fn end(&self, deadline: Option<Duration>) -> Result<Self::End, TransportError>;
}

fn built<T: Transport>(
    end: Result<T, TransportError>,
    fit: Result<Fit, Failure>,
    fields: &[Field],
    settings: Settings,
) -> Result<(Boundary<T>, Fit), Failure> {
    match (fit, end) {
        (Ok(fit), end) => {
            let end = end.map_err(BoundaryError::from)?;
            Ok((Boundary::build(&fit.0, fields, end, settings)?, fit))
        }
        (Err(failure), Ok(end)) => {
            Boundary::refuse(end, settings);
            Err(failure)
        }
        (Err(failure), Err(_)) => Err(failure),
    }
}

impl Way for Shared {
    fn build(
        &self,
        rank: u32,
        fit: Result<Fit, Failure>,
        fields: &[Field],
        settings: Settings,
    ) -> Result<(Box<dyn Kept>, Fit), Failure> {
        let end = Fabric::attach(Arc::clone(&self.segment), self.extent, rank);
        let (boundary, fit) = built(end, fit, fields, settings)?;
        Ok((Box::new(boundary), fit))
    }

    fn segment(&self) -> Result<&Segment, Failure> {
        Ok(&self.segment)
    }
}

impl<E: Ends> Way for Alone<E> {
    fn build(
        &self,
        rank: u32,
        fit: Result<Fit, Failure>,
        fields: &[Field],
        settings: Settings,
    ) -> Result<(Box<dyn Kept>, Fit), Failure> {
        let ends = self.get()?;
        let fit = fit.and_then(|fit| {
            if rank == ends.rank() {
                return Ok(fit);
            }
            let detail = format!("this process is rank {} of its fabric, not {rank}", ends.rank());
            Err(Failure::new(Status::RankOutOfRange, detail))
        });
        let (boundary, fit) = built(ends.end(settings.deadline), fit, fields, settings)?;
        Ok((Box::new(self.beside(boundary)), fit))
    }

    fn usable(&self) -> Result<(), Failure> {
        self.owner().usable()
    }
}

impl Kept for Boundary<Fabric> {
    fn exchange(&mut self) -> Result<&mut dyn Exchange, Failure> {
        Ok(self)
    }
}

impl<T: Transport + 'static> Kept for Alone<Boundary<T>> {
    fn owner(&self) -> Option<Owner> {
        Some(Alone::owner(self))
    }

    fn exchange(&mut self) -> Result<&mut dyn Exchange, Failure> {
        self.get_mut().map(|boundary| boundary as &mut dyn Exchange)
    }
}
