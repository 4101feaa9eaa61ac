//! Signals that threads of the library do not want.
//!
//! Source: `pthread_sigmask(3)`, `signal(7)`.

use std::mem::MaybeUninit;

/// Lets writes of this thread into a pipe or socket that nobody reads fail with `EPIPE`, and not end the program, as they
/// would where `SIGPIPE` is as it is by default. The signal goes to the thread that writes, and stays with it.
pub(crate) fn block_sigpipe() {
    let mut pipe = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: it writes the whole set, which is there for writing.
    unsafe { libc::sigemptyset(pipe.as_mut_ptr()) };
    // SAFETY: the set was just written.
    unsafe { libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE) };
    // SAFETY: the set was just written; the mask before is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), std::ptr::null_mut()) };
}
