//! The steps of an exchange, whatever carries it.
//!
//! C names exchanges by handles, and does not know what they go over. Each step of one is a single call through this trait;
//! what a step does for each row of values is compiled for the transport itself.

use std::task::Poll;

use umbra::boundary::{Boundary, BoundaryError, Held, Scope, Transport};
use umbra_core::boundary::Counts;

use crate::mesh::{Arrays, Mesh};

/// What [`Boundary`] does with arrays of C.
pub(crate) trait Exchange {
    fn rank(&self) -> u32;
    fn start_receive(&mut self, scope: Scope) -> Result<(), BoundaryError>;
    fn send(&mut self, arrays: &mut Arrays<'_>, scope: Scope) -> Result<Poll<()>, BoundaryError>;
    fn receive(&mut self, arrays: &mut Arrays<'_>, scope: Scope) -> Result<Poll<()>, BoundaryError>;
    fn set(&mut self, arrays: &mut Arrays<'_>, scope: Scope) -> Result<(), BoundaryError>;
    fn exchange(&mut self, arrays: &mut Arrays<'_>) -> Result<(), BoundaryError>;
    fn remesh(&mut self, mesh: &Mesh) -> Result<(), BoundaryError>;
    fn refuse_remesh(&mut self);
    fn is_spent(&self) -> bool;
    fn counts(&self) -> &Counts;
    fn receive_bytes(&self) -> (u64, u64);
    fn held(&self) -> Held;
}

impl<T: Transport> Exchange for Boundary<T> {
    fn rank(&self) -> u32 {
        self.transport().rank()
    }

    fn start_receive(&mut self, scope: Scope) -> Result<(), BoundaryError> {
        Boundary::start_receive(self, scope)
    }

    fn send(&mut self, arrays: &mut Arrays<'_>, scope: Scope) -> Result<Poll<()>, BoundaryError> {
        Boundary::send(self, arrays, scope)
    }

    fn receive(&mut self, arrays: &mut Arrays<'_>, scope: Scope) -> Result<Poll<()>, BoundaryError> {
        Boundary::receive(self, arrays, scope)
    }

    fn set(&mut self, arrays: &mut Arrays<'_>, scope: Scope) -> Result<(), BoundaryError> {
        Boundary::set(self, arrays, scope)
    }

    fn exchange(&mut self, arrays: &mut Arrays<'_>) -> Result<(), BoundaryError> {
        Boundary::exchange(self, arrays)
    }

    fn remesh(&mut self, mesh: &Mesh) -> Result<(), BoundaryError> {
        Boundary::remesh(self, mesh)
    }

    fn refuse_remesh(&mut self) {
        Boundary::refuse_remesh(self);
    }

    fn is_spent(&self) -> bool {
        Boundary::is_spent(self)
    }

    fn counts(&self) -> &Counts {
        Boundary::counts(self)
    }

    fn receive_bytes(&self) -> (u64, u64) {
        Boundary::receive_bytes(self)
    }

    fn held(&self) -> Held {
        Boundary::held(self).unwrap_or_default()
    }
}
