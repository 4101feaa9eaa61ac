//! `umbra_fabric_*`, `umbra_boundary_*`: ghost cells of the program's own arrays.

use std::ffi::c_int;
use std::mem::offset_of;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use umbra::boundary::{BoundaryError, Extent, Fabric, Field, Mesh as _, Scope, Settings};
use umbra::sys::segment::{Mapping, Segment};
use umbra_core::boundary::Kind;
use umbra_core::error::Status;

use crate::bounded::{Bounded, Inner};
use crate::call::{enter, lent, sized, store, store_sized, takes};
use crate::exchange::Exchange;
use crate::mesh::{Arrays, ArraysView, FieldView, Mesh, MeshView, fields, lengths};
use crate::object::{HANDLES, Object, with_boundary, with_fabric};
use crate::pool::keep;
use crate::status::{Code, Failure};
use crate::woven::{Shared, Woven, extent};

/// `struct umbra_boundary_options`.
#[repr(C)]
pub struct Options {
    size: usize,
    timeout_ms: u64,
    smallest_slot: u32,
    reversed: u32,
    largest_slot: u64,
    kind: u32,
}

/// `struct umbra_boundary_statistics`.
#[repr(C)]
pub struct Figures {
    size: usize,
    messages: u64,
    head_bytes: u64,
    payload_bytes: u64,
    live: u64,
    null: u64,
    overflows: u64,
    overflow_bytes: u64,
    refused: u64,
    receive_bytes: u64,
    dense_receive_bytes: u64,
    held_receive_bytes: u64,
    held_send_bytes: u64,
}

/// A fabric of memory that all ranks map.
fn shared(segment: Segment, extent: Extent, fields: Vec<Field>) -> Object {
    Object::Fabric(Woven { extent, fields, way: Box::new(Shared { segment: Arc::new(segment), extent }) })
}

fn scope(scope: u32) -> Result<Scope, Failure> {
    match scope {
        0 => Ok(Scope::Any),
        1 => Ok(Scope::Local),
        2 => Ok(Scope::Nonlocal),
        other => Err(Failure::new(Code::Invalid, format!("no scope is called {other}"))),
    }
}

/// What the options choose, and whether that is possible: whoever has to be told that it is not is waited for as they say.
///
/// # Safety
/// `options` points to a structure that begins with its size.
unsafe fn settings(options: *const Options) -> (Settings, Result<(), Failure>) {
    let usual = Settings::default();
    // SAFETY: the caller's promise; zeros are valid options.
    let options = match unsafe { sized(options, offset_of!(Options, largest_slot)) } {
        Ok(options) => options,
        Err(failure) => return (usual, Err(failure)),
    };
    let largest_slot = match u32::try_from(options.largest_slot) {
        Ok(0) | Err(_) => usual.largest_slot,
        Ok(bytes) => bytes,
    };
    let kind = u8::try_from(options.kind).map(Kind);
    let other = |_| Failure::new(Code::Invalid, format!("kind {}: it is 255 at most", options.kind));
    let settings = Settings {
        deadline: match options.timeout_ms {
            0 => usual.deadline,
            u64::MAX => None,
            wait => Some(Duration::from_millis(wait)),
        },
        smallest_slot: match options.smallest_slot {
            0 => usual.smallest_slot.min(largest_slot),
            bytes => bytes,
        },
        largest_slot,
        reversed: options.reversed != 0,
        timed: false,
        kind: kind.unwrap_or(usual.kind),
    };
    (settings, kind.map(drop).map_err(other))
}

/// Makes the memory through which the ranks of a mesh exchange these fields.
///
/// # Safety
/// `mesh` points to a structure that begins with its size, whose functions may be called; `fields` points to `count`
/// fields; `fabric` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_fabric_create(
    mesh: *const MeshView,
    field: *const FieldView,
    count: usize,
    fabric: *mut u64,
) -> c_int {
    enter(|| {
        takes(fabric)?;
        // SAFETY: the caller's promise about the fields.
        let fields = unsafe { fields(field, count) }?;
        // SAFETY: and about the mesh.
        let extent = extent(unsafe { Mesh::ask(mesh) }?, &fields);
        let segment = Fabric::segment(extent).map_err(|e| Failure::new(Code::System, e))?;
        // SAFETY: and about the output.
        unsafe { keep(shared(segment, extent, fields), fabric) }
    })
}

/// Uses the memory that another process has made for the same mesh and fields. The descriptor stays the caller's.
///
/// # Safety
/// As for [`umbra_fabric_create`], and `descriptor` is open during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_fabric_attach(
    descriptor: c_int,
    mesh: *const MeshView,
    field: *const FieldView,
    count: usize,
    fabric: *mut u64,
) -> c_int {
    enter(|| {
        takes(fabric)?;
        // SAFETY: the caller's promise; it is only lent until it is duplicated.
        let theirs = unsafe { lent(descriptor) }?;
        // SAFETY: the caller's promise about the fields.
        let fields = unsafe { fields(field, count) }?;
        // SAFETY: and about the mesh.
        let extent = extent(unsafe { Mesh::ask(mesh) }?, &fields);
        let refused = |error: &dyn std::fmt::Display| Failure::new(Code::System, error);
        let ours = theirs.try_clone_to_owned().map_err(|e| refused(&e))?;
        let segment = Segment::attach(ours, Mapping::ReadWrite, extent.bytes()).map_err(|e| refused(&e))?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(shared(segment, extent, fields), fabric) }
    })
}

/// The descriptor of the memory, to hand to other processes; it stays the fabric's.
///
/// # Safety
/// `descriptor` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_fabric_descriptor(fabric: u64, descriptor: *mut c_int) -> c_int {
    enter(|| {
        with_fabric(fabric, |woven| {
            let number = woven.way.segment()?.number().map_err(|e| Failure::new(Code::System, e))?;
            let number = c_int::try_from(number).map_err(|e| Failure::new(Code::System, e))?;
            // SAFETY: the caller's promise about the output.
            unsafe { store(descriptor, number) }
        })
    })
}

/// Releases the handle; exchanges that were built on it keep the memory.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_fabric_release(fabric: u64) -> c_int {
    enter(|| {
        with_fabric(fabric, |woven| woven.way.usable())?;
        HANDLES.release(fabric).map(drop)
    })
}

/// Builds the exchange of one rank, together with all others.
///
/// # Safety
/// `mesh` and `options` point to structures that begin with their sizes, and the mesh's functions may be called;
/// `boundary` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_boundary_build(
    fabric: u64,
    rank: u32,
    mesh: *const MeshView,
    options: *const Options,
    boundary: *mut u64,
) -> c_int {
    enter(|| {
        // Whatever is wrong with what was handed in is told to the others, who build together with this rank.
        // SAFETY: the caller's promise about the options.
        let (settings, chosen) = unsafe { settings(options) };
        // SAFETY: and about the mesh.
        let asked = unsafe { Mesh::ask(mesh) };
        let inner = with_fabric(fabric, |woven| {
            let fit = takes(boundary).and(chosen).and(asked).and_then(|mesh| {
                let lengths = lengths(mesh.shape(), &woven.fields)?;
                if mesh.ranks() == woven.extent.ranks {
                    return Ok((mesh, lengths));
                }
                let detail = format!("mesh has {} ranks, its fabric {}", mesh.ranks(), woven.extent.ranks);
                Err(Failure::new(Code::Invalid, detail))
            });
            let (kept, (mesh, lengths)) = woven.way.build(rank, fit, &woven.fields, settings)?;
            Ok(Inner { kept, mesh, fields: woven.fields.clone(), lengths })
        })?;
        // SAFETY: the caller's promise about the output.
        unsafe { keep(Object::Boundary(Box::new(Bounded::new(inner))), boundary) }
    })
}

/// Gets receivers ready.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_boundary_start_receive(boundary: u64, which: u32) -> c_int {
    enter(|| {
        let scope = scope(which)?;
        with_boundary(boundary, |bounded| bounded.with(|inner| Ok(inner.boundary.start_receive(scope)?)))
    })
}

/// Uses the arrays of C in a task of the exchange.
///
/// # Safety
/// As for [`Arrays::new`].
unsafe fn task<R>(
    boundary: u64,
    arrays: *const ArraysView,
    act: impl FnOnce(&mut dyn Exchange, &mut Arrays<'_>) -> Result<R, BoundaryError>,
) -> Result<R, Failure> {
    with_boundary(boundary, |bounded| {
        bounded.with(|inner| {
            // SAFETY: the caller's promise.
            let mut view = unsafe { Arrays::new(arrays, inner.lengths) }?;
            let done = act(inner.boundary, &mut view);
            view.end(done)
        })
    })
}

/// A task that may have to be called again.
type Step = fn(&mut dyn Exchange, &mut Arrays<'_>, Scope) -> Result<Poll<()>, BoundaryError>;

/// A task that says whether it is done.
///
/// # Safety
/// As for [`umbra_boundary_send`].
unsafe fn step(boundary: u64, arrays: *const ArraysView, which: u32, ready: *mut c_int, act: Step) -> c_int {
    enter(|| {
        takes(ready)?;
        let scope = scope(which)?;
        // SAFETY: the caller's promise about the arrays.
        let done = unsafe { task(boundary, arrays, |boundary, view| act(boundary, view, scope)) }?;
        // SAFETY: and about the output.
        unsafe { store(ready, c_int::from(done.is_ready())) }
    })
}

/// Packs and sends.
///
/// # Safety
/// `arrays` points to a structure that begins with its size; its functions may be called, and name whole arrays;
/// `ready` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_boundary_send(
    boundary: u64,
    arrays: *const ArraysView,
    which: u32,
    ready: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { step(boundary, arrays, which, ready, |boundary, view, scope| boundary.send(view, scope)) }
}

/// Looks for what has come.
///
/// # Safety
/// As for [`umbra_boundary_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_boundary_receive(
    boundary: u64,
    arrays: *const ArraysView,
    which: u32,
    ready: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { step(boundary, arrays, which, ready, |boundary, view, scope| boundary.receive(view, scope)) }
}

/// Fills the ghosts.
///
/// # Safety
/// As for [`umbra_boundary_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_boundary_set(boundary: u64, arrays: *const ArraysView, which: u32) -> c_int {
    enter(|| {
        let scope = scope(which)?;
        // SAFETY: the caller's promise about the arrays.
        unsafe { task(boundary, arrays, |boundary, view| boundary.set(view, scope)) }
    })
}

/// One whole exchange.
///
/// # Safety
/// As for [`umbra_boundary_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_boundary_exchange(boundary: u64, arrays: *const ArraysView) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise about the arrays.
        unsafe { task(boundary, arrays, |boundary, view| boundary.exchange(view)) }
    })
}

/// Codes of a failed change that say that nothing has changed are not for one after which the exchange is over.
fn ended(failure: Failure) -> Failure {
    let says_unchanged = matches!(failure.code, Code::Invalid | Code::NotReady | Code::Status(Status::Conflict));
    Failure { code: if says_unchanged { Code::Destroyed } else { failure.code }, ..failure }
}

/// Changes the mesh, together with all others.
///
/// # Safety
/// `mesh` points to a structure that begins with its size, whose functions may be called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_boundary_remesh(boundary: u64, mesh: *const MeshView) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let asked = unsafe { Mesh::ask(mesh) };
        with_boundary(boundary, |bounded| {
            bounded.with(|inner| {
                let asked = asked.and_then(|mesh| Ok((lengths(mesh.shape(), inner.fields)?, mesh)));
                let (lengths, mesh) = asked.inspect_err(|_| inner.boundary.refuse_remesh())?;
                let done = inner.boundary.remesh(&mesh).map_err(Failure::from);
                done.map_err(|failure| if inner.boundary.is_spent() { ended(failure) } else { failure })?;
                (*inner.mesh, *inner.lengths) = (mesh, lengths);
                Ok(())
            })
        })
    })
}

/// What happened so far.
///
/// # Safety
/// `statistics` points to a structure that begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbra_boundary_statistics(boundary: u64, statistics: *mut Figures) -> c_int {
    enter(|| {
        let figures = with_boundary(boundary, |bounded| {
            bounded.with(|inner| {
                let counts = inner.boundary.counts();
                let (receive_bytes, dense_receive_bytes) = inner.boundary.receive_bytes();
                let held = inner.boundary.held();
                Ok(Figures {
                    size: size_of::<Figures>(),
                    messages: counts.messages,
                    head_bytes: counts.head_bytes,
                    payload_bytes: counts.payload_bytes,
                    live: counts.live,
                    null: counts.null,
                    overflows: counts.overflows,
                    overflow_bytes: counts.overflow_bytes,
                    refused: counts.old + counts.duplicates + counts.refused,
                    receive_bytes,
                    dense_receive_bytes,
                    held_receive_bytes: held.receive,
                    held_send_bytes: held.send,
                })
            })
        })?;
        // SAFETY: the caller's promise.
        unsafe { store_sized(statistics, &figures, offset_of!(Figures, held_receive_bytes)) }
    })
}

/// Releases the handle. Others find out at their deadline if they wait for this rank.
#[unsafe(no_mangle)]
pub extern "C" fn umbra_boundary_release(boundary: u64) -> c_int {
    enter(|| {
        with_boundary(boundary, Bounded::close)?;
        HANDLES.release(boundary).map(drop)
    })
}
