//! Memory of each process of a communicator that all others can read.
//!
//! The epoch in which the others may do so lasts as long as the window. Its owner writes it meanwhile, by
//! words, which is defined where the memory model is `MPI_WIN_UNIFIED`: on all machines with coherent caches. A library
//! with the other model, `MPI_WIN_SEPARATE`, is refused: there others read another memory than the one
//! that the owner stores to.
//!
//! Source: MPI 3.1, chapter 11 (one-sided communication).

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use mpi::ffi;

use super::{Communicator, MpiError, check, count};

/// What the library calls `MPI_WIN_SEPARATE`: the same in Open MPI and MPICH, whose bindings have no common name for it.
const SEPARATE: c_int = 1;

/// Why there is no window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WindowError {
    /// A call that MPI refused.
    Mpi(MpiError),
    /// The library does not say how its windows behave, or says that what others read and what the owner stores are two memories.
    Separate,
    /// Processes have asked for different numbers of words, and would look for them in different places.
    Differs {
        /// The first that asks for another number than the first process.
        rank: u32,
        /// Words that it asks for.
        words: u64,
        /// Words that the first process asks for.
        first: u64,
    },
}

impl std::fmt::Display for WindowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WindowError::Mpi(error) => error.fmt(f),
            WindowError::Separate => f.write_str(
                "windows of this MPI library are not of the model MPI_WIN_UNIFIED, which messages by MPI_Rget need: use mpi-slot",
            ),
            WindowError::Differs { rank, words, first } => write!(
                f,
                "rank {rank} asks for a window of {words} words, rank 0 for {first}: all must say the same largest message"
            ),
        }
    }
}
impl std::error::Error for WindowError {}

impl From<MpiError> for WindowError {
    fn from(error: MpiError) -> Self {
        WindowError::Mpi(error)
    }
}

/// A word, whatever is in it.
type Word = UnsafeCell<MaybeUninit<u64>>;

const fn unified(model: Option<c_int>) -> Result<(), WindowError> {
    match model {
        None | Some(SEPARATE) => Err(WindowError::Separate),
        Some(_) => Ok(()),
    }
}

/// A window; as long as it is there, so is its memory. Forgotten rather than [freed](Self::free), it stays until the
/// process ends.
#[derive(Debug)]
pub struct Window {
    raw: ffi::MPI_Win,
    base: NonNull<Word>,
    words: usize,
    /// Whether an end packs messages here.
    lent: Cell<bool>,
    /// Calls of MPI are made by one thread.
    alone: PhantomData<*const ()>,
}

impl Window {
    /// As many words at each process, with anything in them; those that are never written take no memory, as far as that is up to
    /// the library. All processes call this, with the same number, and it waits for all.
    ///
    /// # Errors
    /// [`WindowError`], the same at all processes if it is about the library or the number.
    pub fn allocate(world: &Communicator, words: usize) -> Result<Window, WindowError> {
        let all = world.gather(&[words as u64])?;
        let first = all.first().copied().unwrap_or(words as u64);
        if let Some((rank, &words)) = (0..).zip(&all).find(|(_, words)| **words != first) {
            return Err(WindowError::Differs { rank, words, first });
        }
        let call = "MPI_Win_allocate";
        let too_large = MpiError::Failed { call, code: -1 };
        let bytes = words.max(1).checked_mul(8).ok_or(too_large)?;
        let bytes = ffi::MPI_Aint::try_from(bytes).map_err(|_| too_large)?;
        let (mut base, mut raw) = (std::ptr::null_mut::<c_void>(), MaybeUninit::uninit());
        // SAFETY: constants of the library.
        let (info, returns) = unsafe { (ffi::RSMPI_INFO_NULL, ffi::RSMPI_ERRORS_RETURN) };
        let place = (&raw mut base).cast::<c_void>();
        // SAFETY: all processes of the communicator call this; the places are a pointer's and a window's.
        check(call, unsafe { ffi::MPI_Win_allocate(bytes, 8, info, world.raw, place, raw.as_mut_ptr()) })?;
        // SAFETY: the call has written it.
        let raw = unsafe { raw.assume_init() };
        // SAFETY: `raw` is a window of this process, here and below.
        check("MPI_Win_set_errhandler", unsafe { ffi::MPI_Win_set_errhandler(raw, returns) })?;
        let base = NonNull::new(base.cast::<Word>()).ok_or(MpiError::Failed { call, code: -1 })?;
        let window = Window { raw, base, words, lent: Cell::new(false), alone: PhantomData };
        unified(window.model()?)?;
        // SAFETY: no other epoch of this process is open for the window.
        check("MPI_Win_lock_all", unsafe { ffi::MPI_Win_lock_all(0, raw) })?;
        Ok(window)
    }

    /// Which memory model it has, if the library says so.
    fn model(&self) -> Result<Option<c_int>, MpiError> {
        let (mut value, mut found) = (std::ptr::null_mut::<c_int>(), 0);
        let (key, place) = (ffi::MPI_WIN_MODEL as c_int, (&raw mut value).cast::<c_void>());
        // SAFETY: a window of this process; the places are a pointer's and a flag's.
        check("MPI_Win_get_attr", unsafe { ffi::MPI_Win_get_attr(self.raw, key, place, &raw mut found) })?;
        // SAFETY: the value of this attribute is the address of a number, which stays as long as the window.
        Ok(NonNull::new(value).filter(|_| found != 0).map(|model| unsafe { model.read() }))
    }

    /// Whether its processes are those of a communicator, in the same order.
    pub(crate) fn is_of(&self, world: &Communicator) -> Result<bool, MpiError> {
        let (mut ours, mut theirs) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: a window of this process, and the place is a group's.
        check("MPI_Win_get_group", unsafe { ffi::MPI_Win_get_group(self.raw, ours.as_mut_ptr()) })?;
        // SAFETY: a communicator of this process, and the place is a group's.
        check("MPI_Comm_group", unsafe { ffi::MPI_Comm_group(world.raw, theirs.as_mut_ptr()) })?;
        // SAFETY: the call has written it; so below.
        let mut ours = unsafe { ours.assume_init() };
        // SAFETY: as above.
        let mut theirs = unsafe { theirs.assume_init() };
        let mut result = 0;
        // SAFETY: two groups, and the place is an integer's.
        let compared = unsafe { ffi::MPI_Group_compare(ours, theirs, &raw mut result) };
        for group in [&raw mut ours, &raw mut theirs] {
            // SAFETY: a group of this process, which nobody uses any more.
            check("MPI_Group_free", unsafe { ffi::MPI_Group_free(group) })?;
        }
        check("MPI_Group_compare", compared)?;
        // SAFETY: a constant of the library, set before `main`.
        Ok(result == unsafe { ffi::RSMPI_IDENT })
    }

    /// Words of each process.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.words
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Has one end pack messages here; false if another one does.
    #[must_use]
    pub(crate) fn lend(&self) -> bool {
        !self.lent.replace(true)
    }

    /// That end is gone.
    pub(crate) fn take_back(&self) {
        self.lent.set(false);
    }

    const fn words(&self) -> &[Word] {
        // SAFETY: so many words were allocated, at an address that suits every type, and are freed with the window only. What is
        // in them does not matter to the type.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// Writes words of this process, from one on; whether it has so many.
    #[must_use]
    pub(crate) fn store(&self, at: usize, values: impl ExactSizeIterator<Item = u64>) -> bool {
        let words = at.checked_add(values.len()).and_then(|end| self.words().get(at..end));
        for (word, value) in words.unwrap_or(&[]).iter().zip(values) {
            // SAFETY: a word of this process, which nobody has a reference into. Others read it, as whole words, by the library.
            unsafe { word.get().write_volatile(MaybeUninit::new(value)) };
        }
        words.is_some()
    }

    /// Lets others see what this process wrote.
    pub(crate) fn sync(&self) -> Result<(), MpiError> {
        // SAFETY: the epoch is open.
        check("MPI_Win_sync", unsafe { ffi::MPI_Win_sync(self.raw) })
    }

    fn part(&self, call: &'static str, at: usize, len: usize) -> Result<(ffi::MPI_Aint, c_int), MpiError> {
        let outside = MpiError::Failed { call, code: -1 };
        let end = at.checked_add(len).ok_or(outside)?;
        if end > self.words { Err(outside) } else { Ok((at as ffi::MPI_Aint, count(call, len)?)) }
    }

    /// Starts to read words of a process, from a place on.
    ///
    /// # Safety
    /// Nobody uses so many words from `to` on before the request has ended, and they are valid until then.
    pub(super) unsafe fn get(
        &self,
        from: u32,
        at: usize,
        len: usize,
        to: *mut u64,
    ) -> Result<ffi::MPI_Request, MpiError> {
        let (call, from) = ("MPI_Rget", from as c_int);
        let (at, len) = self.part(call, at, len)?;
        // SAFETY: a constant of the library.
        let kind = unsafe { ffi::RSMPI_UINT64_T };
        let (to, mut request) = (to.cast::<c_void>(), MaybeUninit::uninit());
        // SAFETY: as the caller promises, and the part is within every window.
        let code = unsafe { ffi::MPI_Rget(to, len, kind, from, at, len, kind, self.raw, request.as_mut_ptr()) };
        check(call, code)?;
        // SAFETY: the call has written it.
        Ok(unsafe { request.assume_init() })
    }

    /// Gives the memory back. All processes call this, and it waits for all.
    ///
    /// # Errors
    /// [`MpiError`].
    pub fn free(mut self) -> Result<(), MpiError> {
        // SAFETY: the epoch is open, and nothing is under way in it.
        check("MPI_Win_unlock_all", unsafe { ffi::MPI_Win_unlock_all(self.raw) })?;
        // SAFETY: nobody has a reference to its words any more, for the window is taken.
        check("MPI_Win_free", unsafe { ffi::MPI_Win_free(&raw mut self.raw) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_two_memories_is_refused_and_the_error_says_what_to_use() {
        assert_eq!(unified(Some(SEPARATE)), Err(WindowError::Separate));
        assert_eq!(unified(None), Err(WindowError::Separate), "nothing is promised then");
        for other in [0, 2] {
            assert_eq!(unified(Some(other)), Ok(()), "MPI_WIN_UNIFIED of Open MPI and of MPICH");
        }
        assert!(WindowError::Separate.to_string().ends_with("use mpi-slot"));
    }
}
