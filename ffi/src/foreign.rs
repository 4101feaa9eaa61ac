//! For packages that add objects of their own to this interface.
//!
//! They stand on it as a Rust library. `host/mpi/ffi` is one: its fabrics and what is built on them are used by the functions
//! of `umbra.h`, which are a part of that library, too. Such a package has its own functions in C, which begin with `umbra_` and
//! its name, run under [`enter`], and end with a [`Failure`] or nothing. Nothing here is for programs.

use std::any::Any;

use umbra::boundary::Field;
use umbra::session::Session;

pub use crate::alone::{Alone, Up};
pub use crate::call::{enter, store_list, takes};
pub use crate::mesh::{FieldView, MeshView};
pub use crate::status::{Code, Failure};
pub use crate::woven::Ends;

use crate::mesh::{Mesh, fields};
use crate::object::{HANDLES, Object, with_fabric};
use crate::pool;
use crate::session;
use crate::woven::{Woven, extent};

/// A mesh and fields of C, which have been asked and are possible.
pub struct Asked {
    extent: umbra::boundary::Extent,
    fields: Vec<Field>,
}

impl Asked {
    /// Ranks of the mesh.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.extent.ranks
    }

    /// Bytes of the largest message of two ranks, its head counted, with as many blocks on a rank as any will ever have.
    #[must_use]
    pub const fn message_bytes(&self) -> u32 {
        self.extent.message
    }
}

/// Asks a mesh and fields for what a fabric is made for.
///
/// # Errors
/// [`Failure`]: what is wrong with them.
///
/// # Safety
/// `mesh` points to a structure that begins with its size, whose functions may be called; `field` points to `count` fields.
pub unsafe fn ask(mesh: *const MeshView, field: *const FieldView, count: usize) -> Result<Asked, Failure> {
    // SAFETY: the caller's promise about the fields.
    let fields = unsafe { fields(field, count) }?;
    // SAFETY: and about the mesh.
    let extent = extent(unsafe { Mesh::ask(mesh) }?, &fields);
    Ok(Asked { extent, fields })
}

/// Keeps a fabric and stores its handle, on which `umbra_boundary_build` builds.
///
/// # Errors
/// [`Failure`]: there are too many handles, or nothing can be stored there.
///
/// # Safety
/// `fabric` is valid for writing, or null.
pub unsafe fn keep_fabric<E: Ends>(asked: Asked, ends: Alone<E>, fabric: *mut u64) -> Result<(), Failure> {
    let Asked { extent, fields } = asked;
    // SAFETY: the caller's promise.
    unsafe { pool::keep(Object::Fabric(Woven { extent, fields, way: Box::new(ends) }), fabric) }
}

/// Uses the fabric of this kind that a handle names, and releases the handle if that went well.
///
/// # Errors
/// [`Failure`]: it names none that this thread may use, or what `act` says.
pub fn end_fabric<E: Ends>(handle: u64, act: impl FnOnce(&E) -> Result<(), Failure>) -> Result<(), Failure> {
    with_fabric(handle, |woven| {
        let way: &dyn Any = &*woven.way;
        act(way.downcast_ref::<Alone<E>>().ok_or(Code::WrongKind)?.get()?)
    })?;
    HANDLES.release(handle).map(drop)
}

/// Keeps an object and stores its handle.
///
/// # Errors
/// As of [`keep_fabric`].
///
/// # Safety
/// `out` is valid for writing, or null.
pub unsafe fn keep<T: Any + Send + Sync>(object: T, out: *mut u64) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { pool::keep(Object::Foreign(Box::new(object)), out) }
}

/// Uses the object of this type that a handle names.
///
/// # Errors
/// [`Failure`]: it names none, or what `act` says.
pub fn with<T: Any, R>(handle: u64, act: impl FnOnce(&T) -> Result<R, Failure>) -> Result<R, Failure> {
    match &*HANDLES.get(handle)? {
        Object::Foreign(object) => act(object.downcast_ref().ok_or(Code::WrongKind)?),
        _ => Err(Code::WrongKind.into()),
    }
}

/// Releases the handle of an object that [`with`] has found.
///
/// # Errors
/// [`Failure`]: it names nothing.
pub fn release(handle: u64) -> Result<(), Failure> {
    HANDLES.release(handle).map(drop)
}

/// Keeps a session that was joined, for the functions `umbra_session_*`. If it cannot, the session is left.
///
/// # Errors
/// As of [`keep_fabric`].
///
/// # Safety
/// `out` is valid for writing.
pub unsafe fn keep_session(session: Session, out: *mut u64) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { session::keep(session, out) }
}
