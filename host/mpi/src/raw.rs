//! The calls of MPI that we use, each with the memory that it works on.
//!
//! All errors are returned. MPI is used from one thread; none of these types can leave it. A [`Buffer`] is memory with
//! messages under way, a [`Window`] memory that others read.
//!
//! Source: MPI 3.1, chapters 3 (point-to-point), 5 (collectives) and 6.4.2 (`MPI_Comm_dup`, `MPI_Comm_split`,
//! `MPI_Comm_split_type`).

mod buffer;
mod window;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use mpi::ffi;
use mpi::raw::AsRaw as _;

pub(crate) use buffer::{Buffer, Came, abandoned};
pub use window::{Window, WindowError};

/// A call that MPI refused, or that was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MpiError {
    /// It failed.
    Failed {
        /// Which call.
        call: &'static str,
        /// What it returned.
        code: i32,
    },
    /// It is about more than MPI counts, [`MOST`](Self::MOST), and was not made.
    TooLong {
        /// Which call.
        call: &'static str,
        /// How many bytes, words or numbers it is about.
        len: u64,
    },
}

impl MpiError {
    /// What one call is about at most.
    pub const MOST: u64 = c_int::MAX as u64;
}

impl std::fmt::Display for MpiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MpiError::Failed { call, code } => {
                write!(f, "{call} failed with code {code}: the manual of the MPI library says why")
            }
            MpiError::TooLong { call, len } => {
                write!(f, "{call} with a length of {len}, and MPI counts to {}: do it in parts", MpiError::MOST)
            }
        }
    }
}
impl std::error::Error for MpiError {}

impl From<MpiError> for umbra::boundary::TransportError {
    fn from(error: MpiError) -> Self {
        match error {
            MpiError::Failed { call, code } => umbra::boundary::TransportError::Library { call, code },
            MpiError::TooLong { len, .. } => {
                umbra::boundary::TransportError::TooLong { bytes: len, most: MpiError::MOST }
            }
        }
    }
}

/// MPI's own word for success.
const SUCCESS: c_int = 0;

const fn check(call: &'static str, code: c_int) -> Result<(), MpiError> {
    if code == SUCCESS { Ok(()) } else { Err(MpiError::Failed { call, code }) }
}

/// Has the errors of a communicator of this process returned.
fn return_errors(raw: ffi::MPI_Comm) -> Result<(), MpiError> {
    // SAFETY: a constant of the library.
    let returns = unsafe { ffi::RSMPI_ERRORS_RETURN };
    // SAFETY: a communicator of this process.
    check("MPI_Comm_set_errhandler", unsafe { ffi::MPI_Comm_set_errhandler(raw, returns) })
}

/// A length as MPI counts.
pub(crate) fn count(call: &'static str, len: usize) -> Result<c_int, MpiError> {
    c_int::try_from(len).map_err(|_| MpiError::TooLong { call, len: len as u64 })
}

/// What programs in C name communicators by.
pub type RawCommunicator = ffi::MPI_Comm;

/// Whether MPI may be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It is not initialized yet.
    Before,
    /// It may.
    Up,
    /// It is finalized.
    After,
}

impl Stage {
    /// The one that this process is in; this may be asked at any time.
    #[must_use]
    pub fn now() -> Stage {
        let (mut begun, mut ended) = (0, 0);
        // SAFETY: may be called at any time, and the place is an integer's; so below.
        let known = unsafe { ffi::MPI_Initialized(&raw mut begun) };
        // SAFETY: as above.
        let known = [known, unsafe { ffi::MPI_Finalized(&raw mut ended) }] == [SUCCESS; 2];
        match (begun, ended) {
            _ if !known => Stage::Before,
            (0, _) => Stage::Before,
            (_, 0) => Stage::Up,
            _ => Stage::After,
        }
    }
}

/// What has become of the ends of this process on a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ends {
    /// None lives, and the next one can be made.
    None,
    /// One lives.
    One,
    /// One was begun, and could not be made without this rank: none can be any more.
    Without(u32),
}

/// Processes that can send to each other.
#[derive(Clone, Copy, Debug)]
pub struct Communicator {
    raw: ffi::MPI_Comm,
    rank: u32,
    size: u32,
    /// Of all copies. It stays for good, as the communicator does; one of the program, which may free it, has none.
    ends: Option<&'static Cell<Ends>>,
    /// Calls of MPI are made by one thread.
    alone: PhantomData<*const ()>,
}

impl Communicator {
    /// All processes that the launcher started, for as long as MPI is initialized. Messages of the program over
    /// `MPI_COMM_WORLD` do not meet ours: this is a duplicate. All processes call this, and it waits for all.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn world(universe: &mpi::environment::Universe) -> Result<Communicator, MpiError> {
        Communicator::of(&universe.world())
    }

    /// The processes of a communicator of the program, in their order: a duplicate, as [`world`](Self::world). All processes of
    /// it call this, and it waits for all. None is freed, and a library has so many. From now on errors of that communicator and
    /// of `MPI_COMM_WORLD` are returned to the program, too, and end nobody.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn of(program: &mpi::topology::SimpleCommunicator) -> Result<Communicator, MpiError> {
        Communicator::returning(program.as_raw())?.duplicate()
    }

    /// A communicator of the program itself, for what all of its processes do together; `None` if it is null, or one between two
    /// groups. An end on it is refused ([`TransportError::Lent`](umbra::boundary::TransportError::Lent)): it is made on a
    /// [duplicate](Self::duplicate). From now on its errors are returned, as those of one
    /// that was given to [`of`](Self::of).
    ///
    /// # Errors
    /// [`MpiError`].
    ///
    /// # Safety
    /// MPI is [up](Stage::Up) and used by this thread, and `raw` is a communicator of this process, as long as what is returned
    /// is used, or null.
    pub unsafe fn from_raw(raw: RawCommunicator) -> Result<Option<Communicator>, MpiError> {
        // SAFETY: a constant of the library, set before `main`.
        if raw == unsafe { ffi::RSMPI_COMM_NULL } {
            return Ok(None);
        }
        let mut between = 0;
        // SAFETY: the caller's promise, and the place is an integer's.
        check("MPI_Comm_test_inter", unsafe { ffi::MPI_Comm_test_inter(raw, &raw mut between) })?;
        if between != 0 { Ok(None) } else { Communicator::returning(raw).map(Some) }
    }

    /// One of the program, whose errors are returned from now on.
    fn returning(raw: ffi::MPI_Comm) -> Result<Communicator, MpiError> {
        // SAFETY: a constant of the library, set before `main`.
        let world = unsafe { ffi::RSMPI_COMM_WORLD };
        // Some libraries raise the errors of requests at all processes' own, whatever communicator they are of.
        return_errors(world)?;
        Communicator::found(raw, None)
    }

    /// The same processes, where nothing of the program arrives. All processes call this, and it waits for all. None is freed.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn duplicate(&self) -> Result<Communicator, MpiError> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: a communicator of this process; all processes of it call this, and the place is a communicator's.
        check("MPI_Comm_dup", unsafe { ffi::MPI_Comm_dup(self.raw, raw.as_mut_ptr()) })?;
        // SAFETY: the call has written it.
        Communicator::new(unsafe { raw.assume_init() })
    }

    /// One that was made here, and is not freed.
    fn new(raw: ffi::MPI_Comm) -> Result<Communicator, MpiError> {
        Communicator::found(raw, Some(Box::leak(Box::new(Cell::new(Ends::None)))))
    }

    fn found(raw: ffi::MPI_Comm, ends: Option<&'static Cell<Ends>>) -> Result<Communicator, MpiError> {
        return_errors(raw)?;
        let (mut rank, mut size) = (0, 0);
        // SAFETY: `raw` is a communicator of this process, here and below, and the place is an integer's.
        check("MPI_Comm_rank", unsafe { ffi::MPI_Comm_rank(raw, &raw mut rank) })?;
        // SAFETY: the place is an integer's.
        check("MPI_Comm_size", unsafe { ffi::MPI_Comm_size(raw, &raw mut size) })?;
        Ok(Communicator { raw, rank: rank as u32, size: size as u32, ends, alone: PhantomData })
    }

    /// The processes of it that share memory with this one.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn of_this_node(&self) -> Result<Communicator, MpiError> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: a constant of the library.
        let (shared, info) = unsafe { (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL) };
        // SAFETY: all processes of the communicator call this, and the place is a communicator's.
        let code = unsafe { ffi::MPI_Comm_split_type(self.raw, shared, self.rank as c_int, info, raw.as_mut_ptr()) };
        check("MPI_Comm_split_type", code)?;
        // SAFETY: the call has written it.
        Communicator::new(unsafe { raw.assume_init() })
    }

    /// The processes of it that say the same number as this one, in the same order. All processes call this.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn split(&self, part: u16) -> Result<Communicator, MpiError> {
        let (mut raw, part) = (MaybeUninit::uninit(), c_int::from(part));
        // SAFETY: all processes of the communicator call this, and the place is a communicator's.
        let code = unsafe { ffi::MPI_Comm_split(self.raw, part, self.rank as c_int, raw.as_mut_ptr()) };
        check("MPI_Comm_split", code)?;
        // SAFETY: the call has written it.
        Communicator::new(unsafe { raw.assume_init() })
    }

    /// The number of this process.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Processes.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Whether an end of this process lives on it: then no other one can be made.
    #[must_use]
    pub fn has_end(&self) -> bool {
        self.ends.is_some_and(|ends| ends.get() == Ends::One)
    }

    pub(crate) const fn ends(&self) -> Option<&'static Cell<Ends>> {
        self.ends
    }

    /// What the first process has in these bytes, all have then. All processes call this, with as many bytes.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn broadcast(&self, bytes: &mut [u8]) -> Result<(), MpiError> {
        let len = count("MPI_Bcast", bytes.len())?;
        // SAFETY: the bytes are there to be read and written until the call returns; the type is a constant.
        check("MPI_Bcast", unsafe { ffi::MPI_Bcast(bytes.as_mut_ptr().cast(), len, ffi::RSMPI_UINT8_T, 0, self.raw) })
    }

    /// The numbers of all processes, in their order, at all processes. All call this, with as many numbers.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn gather(&self, numbers: &[u64]) -> Result<Vec<u64>, MpiError> {
        let call = "MPI_Allgather";
        let len = count(call, numbers.len())?;
        let mut all = vec![0u64; numbers.len() * self.size as usize];
        // SAFETY: a constant of the library.
        let kind = unsafe { ffi::RSMPI_UINT64_T };
        let (from, to) = (numbers.as_ptr().cast::<c_void>(), all.as_mut_ptr().cast::<c_void>());
        // SAFETY: `from` has `len` numbers and `to` so many of each process, until the call returns.
        check(call, unsafe { ffi::MPI_Allgather(from, len, kind, to, len, kind, self.raw) })?;
        Ok(all)
    }

    /// Bytes of memory of this process, over all communicators, that a library may still write to because a message
    /// into it has begun and its sender has stopped, or because it has failed: nobody else gets them until the process
    /// ends. Ends that were dropped have waited a second for the former.
    #[must_use]
    pub fn abandoned(&self) -> u64 {
        abandoned()
    }

    /// Ends all processes: the others would wait for this one.
    pub fn abort(&self, code: i32) -> ! {
        // SAFETY: MPI is initialized as long as there is a communicator.
        unsafe { ffi::MPI_Abort(self.raw, code) };
        std::process::exit(code)
    }

    /// Bytes of the message of a process that is there, if one is.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn probe(&self, from: u32, tag: u32) -> Result<Option<usize>, MpiError> {
        Ok(self.probe_for(from, tag as c_int)?.map(|(_, bytes)| bytes))
    }

    /// Tag and bytes of the first message of a process that is there, if one is.
    pub(crate) fn probe_any(&self, from: u32) -> Result<Option<(u32, usize)>, MpiError> {
        // SAFETY: a constant of the library.
        self.probe_for(from, unsafe { ffi::RSMPI_ANY_TAG })
    }

    fn probe_for(&self, from: u32, tag: c_int) -> Result<Option<(u32, usize)>, MpiError> {
        let (mut flag, mut status) = (0, MaybeUninit::uninit());
        // SAFETY: the places are an integer's and a status's.
        let code = unsafe { ffi::MPI_Iprobe(from as c_int, tag, self.raw, &raw mut flag, status.as_mut_ptr()) };
        check("MPI_Iprobe", code)?;
        if flag == 0 {
            return Ok(None);
        }
        // SAFETY: with a flag that is set, the call has written the status.
        let status = unsafe { status.assume_init_ref() };
        Ok(Some((status.MPI_TAG as u32, received(status)?)))
    }
}

/// Bytes of a message.
fn received(status: &ffi::MPI_Status) -> Result<usize, MpiError> {
    let mut len = 0;
    // SAFETY: a status that MPI has written; the type is a constant.
    check("MPI_Get_count", unsafe { ffi::MPI_Get_count(status, ffi::RSMPI_UINT8_T, &raw mut len) })?;
    Ok(len as usize)
}
