//! What all processes of a communicator do, or none.
//!
//! Calls that make something together have no deadline in MPI. A process that would not make its call, because what its program
//! has handed in is wrong, says so before, and all are told.

use std::sync::OnceLock;

use umbra::sys::fork;
use umbra_core::error::Status;
use umbra_ffi::foreign::{Code, Failure};
use umbra_mpi::{Communicator, MpiError, Stage};

/// Numbers in which processes must agree: of a fabric its transport, and the words of its window, or of a message in memory.
pub(crate) const NUMBERS: usize = 2;

/// The life of the process that uses MPI, from its first call here on.
static USER: OnceLock<u32> = OnceLock::new();

/// Whether MPI may be called by this process.
pub(crate) fn up() -> Result<(), Failure> {
    match Stage::now() {
        Stage::Up => own(),
        Stage::Before => Err(Failure::new(Code::NotReady, "MPI is not initialized: call MPI_Init before")),
        Stage::After => {
            let detail = "MPI is finalized: what goes over it is released before, by the thread that made it";
            Err(Failure::new(Code::Destroyed, detail))
        }
    }
}

/// Refuses a child that was forked off: its copy of the library talks with the names of its parent.
fn own() -> Result<(), Failure> {
    fork::watch();
    let life = fork::life();
    if *USER.get_or_init(|| life) == life {
        return Ok(());
    }
    Err(Failure::new(Code::Stale, "MPI belongs to the process that forked this one off, which alone may call it"))
}

/// A call that MPI refused.
pub(crate) fn refused(error: MpiError) -> Failure {
    Failure::new(Code::System, error)
}

/// Goes on with what this process has, if all have theirs and the same `numbers`; nobody waits for one that has nothing.
pub(crate) fn agree<T>(
    world: &Communicator,
    mine: Result<T, Failure>,
    numbers: impl FnOnce(&T) -> [u64; NUMBERS],
    what: &str,
) -> Result<T, Failure> {
    let mut said = [0; NUMBERS + 1];
    if let Ok(mine) = &mine {
        said[0] = 1;
        said[1..].copy_from_slice(&numbers(mine));
    }
    let all = world.gather(&said).map_err(refused)?;
    let mine = mine?;
    match (0..).zip(all.as_chunks::<{ NUMBERS + 1 }>().0).find(|(_, theirs)| **theirs != said) {
        None => Ok(mine),
        Some((rank, theirs)) => Err(Failure::new(Status::Conflict, differs(rank, theirs, &said, what))),
    }
}

/// What is wrong with a process, in the words of this one.
fn differs(rank: u32, theirs: &[u64; NUMBERS + 1], said: &[u64; NUMBERS + 1], what: &str) -> String {
    if theirs[0] == 0 {
        return format!("rank {rank} refuses {what}: see what it is told there");
    }
    let [theirs, ours] =
        [theirs, said].map(|[_, transport, words]| format!("transport {transport} with {words} words"));
    format!(
        "rank {rank} makes {what} of {theirs}, this rank one of {ours}: all name the same transport, mesh and fields"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_and_who_says_other_numbers_is_named() {
        assert_eq!(
            differs(2, &[0, 0, 0], &[1, 0, 7], "a fabric"),
            "rank 2 refuses a fabric: see what it is told there"
        );
        let words = differs(1, &[1, 0, 0], &[1, 1, 7], "a fabric");
        let other = "rank 1 makes a fabric of transport 0 with 0 words, this rank one of transport 1 with 7 words";
        assert_eq!(words, format!("{other}: all name the same transport, mesh and fields"));
    }
}
