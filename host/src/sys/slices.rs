//! How long the scheduler lets a thread run in one piece.
//!
//! A thread that mostly waits for others needs a processor rarely, but soon. With [shorter](shorten) time slices it gets no more
//! of a processor than before, but its turn comes sooner where other threads compute: the scheduler takes the thread whose slice
//! has to be over first. It loses the processor sooner as well, so a thread that computes is better off without.
//!
//! This is for threads of normal priority, since Linux 6.12. Threads and processes that the thread starts later inherit it.
//!
//! Source: `sched_setattr(2)`; EEVDF, `Documentation/scheduler/sched-eevdf.rst` of Linux.

use std::io;
use std::mem::MaybeUninit;

use libc::{SCHED_BATCH, SCHED_OTHER, SYS_sched_getattr, SYS_sched_setattr, sched_attr, syscall};
use umbra_core::time::Lapse;

/// The shortest that there are.
pub const SHORT: Lapse = Lapse::from_micros(100);

/// Has the calling thread run in slices of 100 us from now on; false if this system has the same for all threads, or if the thread
/// is not of normal priority.
///
/// Threads that wait beside it on the same processors and have usual slices come after it: all that wait should do the same.
///
/// # Errors
/// What the system says, as where a sandbox forbids it.
pub fn shorten() -> io::Result<bool> {
    // Systems that know nothing of it say zero, whatever was wanted.
    Ok(set(SHORT)? && attributes()?.sched_runtime == SHORT.0)
}

/// Has the calling thread run in slices of the usual length again.
///
/// # Errors
/// What the system says.
pub fn restore() -> io::Result<()> {
    set(Lapse(0)).map(|_| ())
}

/// Whether the system was asked to.
fn set(slice: Lapse) -> io::Result<bool> {
    let before = match attributes() {
        // Whoever stands between this and the system knows nothing of it, as some tools do.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return Ok(false),
        before => before?,
    };
    if !is_normal(&before) {
        return Ok(false);
    }
    let wanted = sched_attr { sched_runtime: slice.0, ..before };
    // SAFETY: the system reads as many bytes of the attributes as their size says, which is that of the type.
    if unsafe { syscall(SYS_sched_setattr, 0, &raw const wanted, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(true)
}

/// Whether that is by time slices.
const fn is_normal(attributes: &sched_attr) -> bool {
    matches!(attributes.sched_policy.cast_signed(), SCHED_OTHER | SCHED_BATCH)
}

/// How the calling thread is scheduled.
fn attributes() -> io::Result<sched_attr> {
    let mut attributes = MaybeUninit::<sched_attr>::zeroed();
    let size = size_of::<sched_attr>() as u32;
    // SAFETY: the system writes at most as many bytes as it is told that there are.
    if unsafe { syscall(SYS_sched_getattr, 0, attributes.as_mut_ptr(), size, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: numbers, and each was zero before the system wrote any.
    let attributes = unsafe { attributes.assume_init() };
    Ok(sched_attr { size, ..attributes })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Length of the calling thread's slices, where the system tells.
    fn slice() -> u64 {
        attributes().map_or(0, |attributes| attributes.sched_runtime)
    }

    #[test]
    fn a_thread_has_short_slices_until_it_has_usual_ones_again_and_others_inherit_them() {
        let (usual, is_normal) = (slice(), attributes().is_ok_and(|attributes| is_normal(&attributes)));
        thread::spawn(move || {
            let is_done = shorten().unwrap();
            assert_eq!(is_done, is_normal && usual != 0, "systems with slices tell of their length");
            let short = if is_done { SHORT.0 } else { usual };
            assert_eq!((slice(), thread::spawn(slice).join().unwrap()), (short, short));
            restore().unwrap();
            assert_eq!(slice(), usual);
        })
        .join()
        .unwrap();
        assert_eq!(slice(), usual, "of another thread");
    }
}
