//! Layouts and inline functions of the verbs interface, from one of two sources.
//!
//! By default they are written out here: facts of a stable binary interface, which need no header and no library to
//! build. With the feature `rdma-sys` they are those of the crate of that name, which takes them from the headers of
//! the machine that builds, and links libibverbs. Both have the same names and fields, and a test compares every
//! layout.

#[cfg(feature = "rdma-sys")]
mod agreement;
mod connection;
mod events;
#[cfg(feature = "rdma-sys")]
mod named;
mod objects;
#[cfg(not(feature = "rdma-sys"))]
mod operations;
mod requests;
mod settings;

pub(super) use events::AsyncEvent;
#[cfg(feature = "rdma-sys")]
pub(super) use named::*;
#[cfg(not(feature = "rdma-sys"))]
pub(super) use {connection::*, objects::*, operations::*, requests::*, settings::*};

/// Types of which all zero bytes are a value: numbers, raw pointers, and unions of those.
pub(super) trait Plain: Sized {
    /// That value.
    const ZERO: Self;
}

macro_rules! plain {
    ($($name:ident)*) => {
        $(impl Plain for $name {
            // SAFETY: nothing in it but numbers, raw pointers, which may be null, and unions of those.
            const ZERO: $name = unsafe { std::mem::zeroed() };
        })*
    };
}

plain! { Gid GidEntry PortAttr DeviceAttr SendWr RecvWr Wc QpCap QpInitAttr AhAttr QpAttr SrqAttr SrqInitAttr AsyncEvent
CmParameters }
