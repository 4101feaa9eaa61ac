//! The C interface of Umbra for programs over MPI.
//!
//! What C sees is in `include/umbra_mpi.h`, on top of `umbra.h`. This library has all functions of both: a program over MPI
//! links it in place of the one that has `umbra.h` alone. It adds what needs a communicator, and gives out handles that the
//! functions of `umbra.h` take:
//!
//! ```text
//! fabric   create, free                 what `umbra_boundary_build` builds on
//! job      start, join, members, end    a job of processes of MPI, and sessions in it
//! ```
//!
//! MPI is called by the thread that made a handle, and by no other; `umbra_ffi::foreign` refuses the others, and leaves what is
//! released after `MPI_Finalize` where it is. A call that all processes of a communicator make begins with an agreement
//! (`agreed`): where one of them cannot go on, none does.

#![deny(unsafe_code)]

mod agreed;

// The exported functions.
#[allow(unsafe_code)]
pub mod fabric;
#[allow(unsafe_code)]
pub mod job;
