//! Which core a thread runs on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this thread may use, in ascending order.
///
/// # Errors
/// What the system says when it does not tell the affinity.
pub fn cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
}

/// Binds the calling thread, and threads it starts later, to one core.
///
/// # Errors
/// What the system says when the core does not exist or is not allowed; the thread then runs where it did.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("core {core} is beyond the last possible")));
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}
