//! `umbra_mpi_fabric_*`: exchanges between the processes of a communicator.
//!
//! A fabric is what `umbra_boundary_build` of `umbra.h` builds on.

use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;
use std::time::Duration;

use umbra::boundary::{Fabric, Nodes, TransportError};
use umbra_ffi::foreign::{Alone, Asked, Code, Ends, Failure, FieldView, MeshView};
use umbra_ffi::foreign::{ask, end_fabric, enter, keep_fabric, takes};
use umbra_mpi::{Communicator, MpiNodes, MpiRma, MpiSlot, RawCommunicator, Window};

use crate::agreed::{agree, refused, up};

/// `UMBRA_MPI_SLOT`.
const SLOT: u32 = 0;
/// `UMBRA_MPI_RMA`.
const RMA: u32 = 1;

/// `UMBRA_MPI_NODES`.
const NODES: u32 = 2;

/// A message a peer, into a slot that it has posted.
struct Slots(Communicator);

/// A message a peer, read out of the window of its sender.
struct Reads {
    world: Communicator,
    /// None once it is given back.
    window: RefCell<Option<Rc<Window>>>,
}

/// Memory within a node, and slots between nodes.
struct Shares {
    world: Communicator,
    nodes: MpiNodes,
    /// Bytes of the largest message.
    message: u32,
}

impl Ends for Shares {
    type End = Nodes<Fabric, MpiSlot>;

    fn rank(&self) -> u32 {
        self.world.rank()
    }

    fn end(&self, deadline: Option<Duration>) -> Result<Nodes<Fabric, MpiSlot>, TransportError> {
        self.nodes.end(self.message, deadline)
    }
}

impl Ends for Slots {
    type End = MpiSlot;

    fn rank(&self) -> u32 {
        self.0.rank()
    }

    fn end(&self, deadline: Option<Duration>) -> Result<MpiSlot, TransportError> {
        MpiSlot::new(self.0, deadline)
    }
}

impl Ends for Reads {
    type End = MpiRma<Rc<Window>>;

    fn rank(&self) -> u32 {
        self.world.rank()
    }

    fn end(&self, deadline: Option<Duration>) -> Result<MpiRma<Rc<Window>>, TransportError> {
        let window = self.window.borrow().clone();
        let window = window.ok_or(TransportError::Library { call: "MPI_Win_free", code: 0 })?;
        MpiRma::new(self.world, window, deadline)
    }
}

/// A communicator of C, for calls that all of its processes make.
///
/// # Safety
/// It is one of this process, and stays until what is returned is not used any more.
pub(crate) unsafe fn of_program(raw: RawCommunicator) -> Result<Communicator, Failure> {
    up()?;
    // SAFETY: MPI is up; the rest is the caller's promise.
    let program = unsafe { Communicator::from_raw(raw) }.map_err(refused)?;
    program.ok_or_else(|| Failure::new(Code::Invalid, "the communicator is null, or one between two groups"))
}

/// What is asked of a fabric, if that is possible with so many processes.
fn fits(asked: Asked, transport: u32, world: &Communicator) -> Result<Asked, Failure> {
    let wrong = if transport > NODES {
        format!("no transport over MPI is called {transport}")
    } else if asked.ranks() != world.size() {
        format!("mesh has {} ranks, its communicator {}", asked.ranks(), world.size())
    } else {
        return Ok(asked);
    };
    Err(Failure::new(Code::Invalid, wrong))
}

/// Makes what the ranks of a mesh, which are the processes of a communicator, exchange these fields over.
///
/// # Safety
/// `communicator` is one of this process. `mesh` points to a structure that begins with its size, whose functions may be
/// called; `field` points to `count` fields; `fabric` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_mpi_fabric_create(
    communicator: RawCommunicator,
    mesh: *const MeshView,
    field: *const FieldView,
    count: usize,
    transport: u32,
    fabric: *mut u64,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let program = unsafe { of_program(communicator) }?;
        // SAFETY: the caller's promise about mesh and fields.
        let asked = takes(fabric).and_then(|()| unsafe { ask(mesh, field, count) });
        // Of memory that all of them have.
        let words = |asked: &Asked| match transport {
            RMA => MpiRma::words(asked.ranks(), asked.message_bytes()),
            NODES => asked.message_bytes().div_ceil(8) as usize,
            _ => 0,
        };
        let numbers = |asked: &Asked| [transport.into(), words(asked) as u64];
        let asked = asked.and_then(|asked| fits(asked, transport, &program));
        let asked = agree(&program, asked, numbers, "a fabric")?;
        let world = program.duplicate().map_err(refused)?;
        if transport == SLOT {
            // SAFETY: the caller's promise about the output.
            return unsafe { keep_fabric(asked, Alone::new(Slots(world), up), fabric) };
        }
        if transport == NODES {
            let (nodes, message) = (MpiNodes::new(world).map_err(refused)?, asked.message_bytes());
            // SAFETY: as above.
            return unsafe { keep_fabric(asked, Alone::new(Shares { world, nodes, message }, up), fabric) };
        }
        let window = Window::allocate(&world, words(&asked)).map_err(|e| Failure::new(Code::System, e))?;
        let puts = Reads { world, window: RefCell::new(Some(Rc::new(window))) };
        // SAFETY: as above.
        unsafe { keep_fabric(asked, Alone::new(puts, up), fabric) }
    })
}

const LIVES: &str = "an exchange on this fabric lives: release it before";

/// Whether all can end what they have made on this communicator.
fn end(world: &Communicator) -> Result<(), Failure> {
    let mine = if world.has_end() { Err(Failure::new(Code::InUse, LIVES)) } else { Ok(()) };
    agree(world, mine, |()| [0; 2], "to free a fabric")
}

/// What came of releasing a handle, unless its object is of another kind.
fn of_this_kind(done: Result<(), Failure>) -> Option<Result<(), Failure>> {
    match done {
        Err(other) if other.code == Code::WrongKind => None,
        done => Some(done),
    }
}

/// Releases the handle and gives back the memory of a window, together with all processes.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_mpi_fabric_free(fabric: u64) -> c_int {
    enter(|| {
        let slots = || of_this_kind(end_fabric(fabric, |slots: &Slots| end(&slots.0)));
        let shares = || of_this_kind(end_fabric(fabric, |shares: &Shares| end(&shares.world)));
        let puts = |puts: &Reads| {
            end(&puts.world)?;
            let window = puts.window.take().and_then(Rc::into_inner);
            let window = window.ok_or_else(|| Failure::new(Code::InUse, LIVES))?;
            window.free().map_err(refused)
        };
        slots().or_else(shares).unwrap_or_else(|| end_fabric(fabric, puts))
    })
}
