//! What a device tells unasked.
//!
//! Written out for both sources: the crate `rdma-sys` has an enum for the kind, and a kind that a newer kernel tells would be
//! no value of it.

use std::ffi::{c_int, c_uint};

use super::Srq;

/// What an event is about.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) union EventElement {
    pub(in super::super) srq: *mut Srq,
    pub(in super::super) port_num: c_int,
}

/// `struct ibv_async_event`.
#[repr(C)]
pub(in super::super) struct AsyncEvent {
    pub(in super::super) element: EventElement,
    pub(in super::super) event_type: c_uint,
}

const _: () = assert!(size_of::<AsyncEvent>() == 16 && std::mem::offset_of!(AsyncEvent, event_type) == 8);
