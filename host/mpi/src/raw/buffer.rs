//! Memory of this process with messages under way from it, or one into it.
//!
//! A [`Buffer`] owns its memory and the operation that is under way on it, so nobody reads or writes what a send or a
//! receive still uses, and no storage is given back before.
//!
//! Source: MPI 3.1, chapter 3 (point-to-point), and 11.3.5 (requests of one-sided communication, which are never freed).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use mpi::ffi;

use super::{Communicator, MpiError, SUCCESS, Window, check, count, received};

/// How long receives that are dropped may take to end.
const PATIENCE: Duration = Duration::from_secs(1);

thread_local! {
    // Calls of MPI are made by one thread.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    static ABANDONED: Cell<u64> = const { Cell::new(0) };
}

/// How long a message was that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// So many bytes.
    Bytes(usize),
    /// More than there was room for: not all of it is there, and the library does not say how long it was.
    More,
}

impl Came {
    /// Bytes, if anybody knows.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Came::Bytes(bytes) => Some(bytes as u64),
            Came::More => None,
        }
    }
}

/// Whether a code says that a message was longer than the memory for it.
fn is_truncation(code: c_int) -> bool {
    let mut class = SUCCESS;
    // SAFETY: a code that the library has returned; the place is an integer's.
    let known = unsafe { ffi::MPI_Error_class(code, &raw mut class) } == SUCCESS;
    known && class == ffi::MPI_ERR_TRUNCATE as c_int
}

/// What is under way on a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Idle,
    Out,
    In,
    /// Out of another process's window.
    Read,
}

/// How often in a row a buffer may be asked to have less before it has.
const LESS: u32 = 16;

/// Memory with messages under way from it, or one into it.
#[derive(Debug)]
pub(crate) struct Buffer {
    words: Vec<u64>,
    /// The most words that it was to have since it was to have all of these, and how often less.
    less: (usize, u32),
    /// Of what is under way, if anything is.
    requests: Vec<ffi::MPI_Request>,
    way: Way,
    /// How it has failed. A library that is asked again may take what has failed for ended.
    failed: Option<MpiError>,
}

impl Buffer {
    /// So many bytes of zeros; pages that are never written take no memory.
    #[must_use]
    pub(crate) fn new(bytes: usize) -> Buffer {
        let (words, requests) = (vec![0; bytes.div_ceil(8)], Vec::new());
        Buffer { words, less: (0, 0), requests, way: Way::Idle, failed: None }
    }

    /// Bytes of it, whether something is under way or not.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// Whether nothing is under way.
    #[must_use]
    pub(crate) fn is_idle(&self) -> bool {
        self.way == Way::Idle
    }

    /// The words, if nothing is under way.
    #[must_use]
    pub(crate) fn words(&self) -> Option<&[u64]> {
        if self.is_idle() { Some(&self.words) } else { None }
    }

    /// The words to change, if nothing is under way.
    #[must_use]
    pub(crate) fn words_mut(&mut self) -> Option<&mut [u64]> {
        if self.is_idle() { Some(&mut self.words) } else { None }
    }

    /// Gives it another size, or leaves it a larger one: less than half of it is given back at once, the rest when it was not needed
    /// for a while. What was in it is lost. Nothing happens while something is under way.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let (words, has) = (bytes.div_ceil(8), self.words.len());
        if !self.is_idle() {
            return;
        }
        self.less = if words < has { (self.less.0.max(words), self.less.1 + 1) } else { (0, 0) };
        let size = if words > has || words < has / 2 {
            words
        } else if self.less.1 >= LESS {
            self.less.0
        } else {
            return;
        };
        (self.words, self.less) = (vec![0; size], (0, 0));
    }

    /// Starts to send so many bytes, from a place on. Several parts can be on their way.
    ///
    /// # Errors
    /// [`MpiError::TooLong`]; [`MpiError::Failed`], with the code -1 if something is to come into it, or there are fewer bytes.
    pub(crate) fn send(
        &mut self,
        world: &Communicator,
        to: u32,
        tag: u32,
        part: std::ops::Range<usize>,
    ) -> Result<(), MpiError> {
        let (call, len) = ("MPI_Isend", count("MPI_Isend", part.len())?);
        if self.way == Way::In || part.end > self.words.len() * 8 {
            return Err(MpiError::Failed { call, code: -1 });
        }
        let mut request = MaybeUninit::uninit();
        // SAFETY: the part ends within the words, as was checked.
        let from = unsafe { self.words.as_ptr().byte_add(part.start) }.cast::<c_void>();
        // SAFETY: a constant of the library.
        let kind = unsafe { ffi::RSMPI_UINT8_T };
        // SAFETY: the vector has these bytes; it is neither changed nor dropped before `test` or `drop` has seen the end.
        let code =
            unsafe { ffi::MPI_Isend(from, len, kind, to as c_int, tag as c_int, world.raw, request.as_mut_ptr()) };
        check(call, code)?;
        // SAFETY: the call has written it.
        self.requests.push(unsafe { request.assume_init() });
        self.way = Way::Out;
        Ok(())
    }

    /// Starts to receive into its first bytes.
    ///
    /// # Errors
    /// [`MpiError::TooLong`]; [`MpiError::Failed`], with the code -1 if something is under way or there are fewer bytes.
    pub(crate) fn receive(&mut self, world: &Communicator, from: u32, tag: u32, bytes: usize) -> Result<(), MpiError> {
        let (call, len) = ("MPI_Irecv", count("MPI_Irecv", bytes)?);
        if !self.is_idle() || bytes > self.words.len() * 8 {
            return Err(MpiError::Failed { call, code: -1 });
        }
        let (to, mut request) = (self.words.as_mut_ptr().cast::<c_void>(), MaybeUninit::uninit());
        // SAFETY: a constant of the library.
        let kind = unsafe { ffi::RSMPI_UINT8_T };
        // SAFETY: as in `send`; nothing reads the bytes before either.
        let code =
            unsafe { ffi::MPI_Irecv(to, len, kind, from as c_int, tag as c_int, world.raw, request.as_mut_ptr()) };
        check(call, code)?;
        // SAFETY: the call has written it.
        self.requests.push(unsafe { request.assume_init() });
        self.way = Way::In;
        Ok(())
    }

    /// Starts to read so many bytes, whole words, of another process's window into the first ones, from a word there on.
    ///
    /// # Errors
    /// [`MpiError::Failed`], with the code -1 if something is under way, or there are fewer bytes here or there.
    pub(crate) fn get(&mut self, window: &Window, from: u32, at: usize, bytes: usize) -> Result<(), MpiError> {
        let words = bytes.div_ceil(8);
        if !self.is_idle() || words > self.words.len() {
            return Err(MpiError::Failed { call: "MPI_Rget", code: -1 });
        }
        // SAFETY: the vector has these words; it is neither read, changed nor dropped before `test` or `drop` has seen the end.
        self.requests.push(unsafe { window.get(from, at, words, self.words.as_mut_ptr()) }?);
        self.way = Way::Read;
        Ok(())
    }

    /// Whether what was under way has ended; with what came, no bytes if no message was to come.
    ///
    /// # Errors
    /// [`MpiError`], the same each time after that: nobody knows what is in the buffer then.
    pub(crate) fn test(&mut self) -> Result<Option<Came>, MpiError> {
        self.failed.map_or(Ok(()), Err)?;
        self.ask().inspect_err(|error| self.failed = Some(*error))
    }

    fn ask(&mut self) -> Result<Option<Came>, MpiError> {
        let mut came = Came::Bytes(0);
        while let Some(request) = self.requests.last_mut() {
            let (mut flag, mut status) = (0, MaybeUninit::uninit());
            // SAFETY: the request of something under way; the places are an integer's and a status's.
            let code = unsafe { ffi::MPI_Test(request, &raw mut flag, status.as_mut_ptr()) };
            if self.way == Way::In && code != SUCCESS && is_truncation(code) {
                // The receive has ended with this (MPI 3.1, 3.2.4), and its request with it.
                came = Came::More;
                self.requests.pop();
                continue;
            }
            check("MPI_Test", code)?;
            if flag == 0 {
                return Ok(None);
            }
            self.requests.pop();
            if self.way == Way::In {
                // SAFETY: with a flag that is set, the call has written the status.
                came = Came::Bytes(received(unsafe { status.assume_init_ref() })?);
            }
        }
        self.way = Way::Idle;
        Ok(Some(came))
    }
}

impl Drop for Buffer {
    /// A receive is cancelled, and what is being read waited for. What is still being sent keeps its memory: to lose it is safe,
    /// to use it again is not.
    fn drop(&mut self) {
        if self.way == Way::Out {
            // Nobody may have asked since it was sent.
            let _ = self.test();
        }
        match self.way {
            Way::Idle => {}
            Way::Out => std::mem::forget(std::mem::take(&mut self.words)),
            Way::In | Way::Read if self.failed.is_some() => self.abandon(),
            Way::In | Way::Read => self.cancel(),
        }
    }
}

impl Buffer {
    /// Cancels a receive, and waits until it has ended, for so long as it may. What is read of a window cannot be cancelled.
    fn cancel(&mut self) {
        let is_receive = self.way == Way::In;
        for request in self.requests.iter_mut().filter(|_| is_receive) {
            // SAFETY: the request of a receive under way. Whether it was cancelled shows below.
            let _ = unsafe { ffi::MPI_Cancel(request) };
        }
        let begun = Instant::now();
        while let Some(request) = self.requests.last_mut() {
            let mut flag = 0;
            // SAFETY: as above; nobody wants to know how it has ended.
            let code = unsafe { ffi::MPI_Test(request, &raw mut flag, ffi::RSMPI_STATUS_IGNORE) };
            if code == SUCCESS && flag == 0 {
                // A cancelled receive ends, whatever others do (MPI 3.1, 3.8.4). One that a message was found for is
                // not cancelled any more, and ends when its sender goes on: it may have stopped for good in the middle.
                if Instant::now() < patience(begun) {
                    std::thread::yield_now();
                    continue;
                }
                if is_receive {
                    // SAFETY: as above; the library keeps what it needs until the receive has ended.
                    let _ = unsafe { ffi::MPI_Request_free(request) };
                }
            }
            if code != SUCCESS || flag == 0 {
                self.abandon();
            }
            self.requests.pop();
        }
    }

    /// Leaves its memory to the library, which may write there as long as the process lives: nobody else gets it any more.
    fn abandon(&mut self) {
        ABANDONED.set(ABANDONED.get() + self.bytes());
        std::mem::forget(std::mem::take(&mut self.words));
    }
}

/// Until when a receive that cannot be cancelled is waited for. Those that are dropped one after the other, such as the
/// strips of one message, share one patience.
fn patience(begun: Instant) -> Instant {
    let until = UNTIL.get().filter(|until| begun < *until + PATIENCE).unwrap_or(begun + PATIENCE);
    UNTIL.set(Some(until));
    until
}

/// Bytes of receives that could neither end nor be cancelled, or have failed: their memory is never used again.
pub(crate) fn abandoned() -> u64 {
    ABANDONED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_at_once_and_shrinks_when_it_was_not_needed_for_a_while() {
        let mut buffer = Buffer::new(80);
        let mut sizes = |bytes: usize| {
            buffer.resize(bytes);
            buffer.bytes()
        };
        assert_eq!([sizes(160), sizes(80), sizes(72)], [160, 160, 72]);
        assert_eq!(sizes(160), 160);
        for nth in 1..10 * LESS {
            assert_eq!(sizes(if nth.is_multiple_of(LESS) { 160 } else { 120 }), 160);
        }
        assert_eq!(sizes(160), 160);
        for _ in 1..LESS {
            assert_eq!(sizes(120), 160);
        }
        assert_eq!([sizes(112), sizes(112)], [120, 120], "the most of them, not the last");
    }

    /// In place of the library's, in this program: refuses a request once, and says of the next one that it has ended. So
    /// do libraries, which give up a request that has failed and take none for one that has ended.
    ///
    /// # Safety
    /// The second place is an integer's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn MPI_Test(_: *mut ffi::MPI_Request, flag: *mut c_int, _: *mut ffi::MPI_Status) -> c_int {
        const REFUSED: c_int = 17;
        // SAFETY: the caller's place of an integer.
        unsafe { flag.write(1) };
        if FAILED.replace(true) { SUCCESS } else { REFUSED }
    }

    thread_local! {
        static FAILED: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn what_has_failed_is_not_taken_for_ended_when_it_is_asked_again() {
        for way in [Way::Out, Way::Read] {
            FAILED.set(false);
            let mut buffer = Buffer::new(80);
            // SAFETY: an address or a number, and the library does not see it.
            buffer.requests.push(unsafe { MaybeUninit::zeroed().assume_init() });
            buffer.way = way;
            let refused = Err(MpiError::Failed { call: "MPI_Test", code: 17 });
            assert_eq!([buffer.test(), buffer.test()], [refused, refused], "{way:?}");
            assert!(buffer.words().is_none(), "{way:?}: nobody knows what is there, and whether it stays");
            let before = abandoned();
            drop(buffer);
            assert_eq!(abandoned() - before, if way == Way::Out { 0 } else { 80 }, "{way:?}: nobody else gets it");
        }
    }
}
