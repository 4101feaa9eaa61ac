//! Umbra on MPI.
//!
//! On one machine ranks share memory; between machines MPI and whatever launches it are the engine. Here are:
//!
//! - [`MpiSlot`] carries boundary exchange: one message a peer, into a slot that its receiver has posted before.
//! - [`MpiRma`] has receivers read messages out of a [`Window`] of the sender instead.
//! - [`MpiNodes`] shares memory within a node, and is [`MpiSlot`] between nodes.
//! - [`MpiStrips`] sends a message for each strip, as mesh codes do, to compare with.
//! - [`Bootstrap`] makes a job of the processes that `mpirun` started: numbers, node groups, agents and secret come from
//!   the communicator, so the endpoint cache needs no configuration file.
//!
//! ```text
//! raw         the calls of MPI, with the memory that they work on (all unsafe code)
//! ballot      votes and plans
//! heads       how long a message is by its own head
//! slot        boundary exchange, a message a peer
//! rma         boundary exchange, a message a peer, read where the sender has it
//! nodes       boundary exchange, by memory within a node and by slots between nodes
//! strips      boundary exchange, a message a strip
//! bootstrap   a job from a communicator
//! ```
//!
//! Programs in C reach all of this but the strips by a library of their own, in `ffi` beside these sources.
//!
//! A program is tied to the MPI library that it was built with; therefore this is a package of its own, on which only
//! its library for C depends. Calls of MPI are made by the thread that initialized it.

#![deny(unsafe_code)]

mod ballot;
mod bootstrap;
mod heads;
mod nodes;
#[allow(unsafe_code, reason = "calls of MPI")]
mod raw;
mod rma;
mod slot;
mod strips;

pub use bootstrap::{Bootstrap, BootstrapError};
pub use nodes::MpiNodes;
pub use raw::{Communicator, MpiError, RawCommunicator, Stage, Window, WindowError};
pub use rma::MpiRma;
pub use slot::MpiSlot;
pub use strips::MpiStrips;
