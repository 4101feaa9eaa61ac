//! A fabric of another package is used by the functions of `umbra.h`.
//!
//! That is so for the thread that made it, and no other. Its ends lie on memory here, so it needs no other library.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]
#![allow(unsafe_code, reason = "calls of C, with structures of C")]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use umbra::boundary::{Extent, Fabric, TransportError};
use umbra::sys::segment::Segment;
use umbra_ffi::boundary::{
    umbra_boundary_build, umbra_boundary_exchange, umbra_boundary_release, umbra_fabric_descriptor,
    umbra_fabric_release,
};
use umbra_ffi::foreign::{Alone, Code, Ends, Failure, ask, end_fabric, enter, keep, keep_fabric, release, with};

const CELLS: usize = 4;
const GHOSTS: usize = 2;
const INVALID: c_int = -100;
const STALE: c_int = -101;
const WRONG_SIZE: c_int = -104;
const WRONG_KIND: c_int = -102;
const NO_SUCH_RANK: c_int = -13;
const DESTROYED: c_int = -119;

/// `struct umbra_mesh`, of one level.
#[repr(C)]
struct Mesh {
    size: usize,
    cells: [u32; 3],
    ghosts: [u32; 3],
    blocks: u32,
    ranks: u32,
    most_blocks: u32,
    owner: extern "C" fn(*mut c_void, u32) -> u32,
    neighbour: extern "C" fn(*mut c_void, u32, *const i32) -> u32,
    context: *mut c_void,
}

/// `struct umbra_field`.
#[repr(C)]
struct Field(u32, u32, f64, f64, f64);

/// `struct umbra_arrays`.
#[repr(C)]
struct Arrays {
    size: usize,
    values: extern "C" fn(*mut c_void, u32, u32) -> *mut f64,
    allocate: *const c_void,
    context: *mut c_void,
}

/// `struct umbra_boundary_options`.
#[repr(C)]
struct Options {
    size: usize,
    timeout_ms: u64,
    slots: [u64; 2],
    kind: u32,
}

extern "C" fn only(_: *mut c_void, _: u32) -> u32 {
    0
}

extern "C" fn itself(_: *mut c_void, block: u32, _: *const i32) -> u32 {
    block
}

extern "C" fn array(context: *mut c_void, _: u32, _: u32) -> *mut f64 {
    context.cast()
}

/// A ring of one block.
fn mesh() -> Mesh {
    Mesh {
        size: size_of::<Mesh>(),
        cells: [CELLS as u32, 1, 1],
        ghosts: [GHOSTS as u32, 0, 0],
        blocks: 1,
        ranks: 1,
        most_blocks: 0,
        owner: only,
        neighbour: itself,
        context: ptr::null_mut(),
    }
}

/// Makes each end on fresh memory, and counts them; no other thread may have one.
struct Fresh {
    extent: Extent,
    made: Rc<Cell<u32>>,
    last: RefCell<Option<Arc<Segment>>>,
}

impl Ends for Fresh {
    type End = Fabric;

    fn rank(&self) -> u32 {
        0
    }

    fn end(&self, patience: Option<Duration>) -> Result<Fabric, TransportError> {
        PATIENCE.set(patience);
        let segment = Arc::new(Fabric::segment(self.extent)?);
        self.made.set(self.made.get() + 1);
        *self.last.borrow_mut() = Some(Arc::clone(&segment));
        Fabric::attach(segment, self.extent, 0)
    }
}

thread_local! {
    /// How long others may take to make theirs, as the last end was told.
    static PATIENCE: Cell<Option<Duration>> = const { Cell::new(None) };
}

static UP: AtomicBool = AtomicBool::new(true);

fn up() -> Result<(), Failure> {
    if UP.load(Ordering::Relaxed) { Ok(()) } else { Err(Failure::new(Code::Destroyed, "it is down")) }
}

fn always() -> Result<(), Failure> {
    Ok(())
}

/// A fabric of that kind.
fn fabric(up: fn() -> Result<(), Failure>, made: &Rc<Cell<u32>>) -> u64 {
    let (mesh, field, mut handle) = (mesh(), Field(1, 0, 0.0, 0.0, 0.0), 0);
    // SAFETY: the structures have the layout of the header, and their functions may be called.
    let asked = unsafe { ask((&raw const mesh).cast(), (&raw const field).cast(), 1) }.unwrap();
    assert_eq!(asked.ranks(), 1);
    let extent = Extent { ranks: 1, slots: 2, message: asked.message_bytes() };
    let fresh = Fresh { extent, made: Rc::clone(made), last: RefCell::default() };
    // SAFETY: the place is a handle's.
    unsafe { keep_fabric(asked, Alone::new(fresh, up), &raw mut handle) }.unwrap();
    handle
}

const OPTIONS: Options = Options { size: size_of::<Options>(), timeout_ms: 0, slots: [0; 2], kind: 0 };

fn build(fabric: u64, rank: u32) -> Result<u64, c_int> {
    let mut handle = 0;
    let code = build_with(fabric, rank, &OPTIONS, &raw mut handle);
    if code == 0 { Ok(handle) } else { Err(code) }
}

fn build_with(fabric: u64, rank: u32, options: &Options, handle: *mut u64) -> c_int {
    let mesh = mesh();
    // SAFETY: as above, and the place is a handle's or null.
    unsafe { umbra_boundary_build(fabric, rank, (&raw const mesh).cast(), ptr::from_ref(options).cast(), handle) }
}

fn exchange(boundary: u64, values: &mut [f64; CELLS + 2 * GHOSTS]) -> c_int {
    let context = values.as_mut_ptr().cast();
    let arrays = Arrays { size: size_of::<Arrays>(), values: array, allocate: ptr::null(), context };
    // SAFETY: as above, and the array has all cells of the block.
    unsafe { umbra_boundary_exchange(boundary, (&raw const arrays).cast()) }
}

#[test]
fn the_functions_of_the_header_use_what_another_package_has_made() {
    let made = Rc::new(Cell::new(0));
    let fabric = fabric(always, &made);
    let mut number = 0;
    // SAFETY: the place is a number's.
    assert_eq!(unsafe { umbra_fabric_descriptor(fabric, &raw mut number) }, WRONG_KIND);
    assert_eq!(build(fabric, 1), Err(NO_SUCH_RANK));
    assert_eq!(made.get(), 1, "made, to tell the others");
    let mut handle = 0;
    for (nth, (options, place, code)) in [
        (OPTIONS, ptr::null_mut(), INVALID),
        (Options { kind: 256, timeout_ms: 1234, ..OPTIONS }, &raw mut handle, INVALID),
        (Options { size: 8, ..OPTIONS }, &raw mut handle, WRONG_SIZE),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!((build_with(fabric, 0, &options, place), handle), (code, 0));
        assert_eq!(made.get(), 2 + nth as u32, "made, to tell the others of that, too");
        let said = options.timeout_ms > 0;
        assert_eq!(
            PATIENCE.get() == Some(Duration::from_millis(options.timeout_ms)),
            said,
            "as long as the options say"
        );
    }
    for turn in 5..7 {
        let boundary = build(fabric, 0).unwrap();
        assert_eq!(made.get(), turn);
        let mut values = [9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 9.0, 9.0];
        assert_eq!(exchange(boundary, &mut values), 0);
        assert_eq!(values, [3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0]);
        let elsewhere = thread::spawn(move || {
            let codes =
                [exchange(boundary, &mut [0.0; 8]), umbra_boundary_release(boundary), umbra_fabric_release(fabric)];
            (codes, build(fabric, 0))
        });
        assert_eq!(elsewhere.join().unwrap(), ([INVALID; 3], Err(INVALID)));
        assert_eq!(exchange(boundary, &mut values), 0);
        assert_eq!(umbra_boundary_release(boundary), 0);
        assert_eq!(exchange(boundary, &mut values), STALE);
    }
    assert_eq!(enter(|| end_fabric(fabric, |_: &Fresh| Err(Code::InUse.into()))), -109);
    assert_eq!(enter(|| end_fabric(fabric, |fresh: &Fresh| fresh.last.take().map(drop).ok_or(Code::Stale.into()))), 0);
    assert_eq!(umbra_fabric_release(fabric), STALE);
    assert_eq!(Rc::strong_count(&made), 1, "it is gone");
}

#[test]
fn what_is_used_or_released_after_the_end_stays_where_it_is() {
    let made = Rc::new(Cell::new(0));
    let fabric = fabric(up, &made);
    let boundary = build(fabric, 0).unwrap();
    UP.store(false, Ordering::Relaxed);
    assert_eq!(exchange(boundary, &mut [0.0; 8]), DESTROYED);
    assert_eq!([umbra_boundary_release(boundary), umbra_fabric_release(fabric)], [DESTROYED; 2]);
    assert_eq!(build(fabric, 0), Err(DESTROYED));
    assert_eq!((Rc::strong_count(&made), made.get()), (2, 1), "it is there");
}

#[test]
fn an_object_of_another_package_is_found_by_its_type() {
    let mut handle = 0;
    // SAFETY: the place is a handle's.
    unsafe { keep(7_u32, &raw mut handle) }.unwrap();
    assert_eq!(with(handle, |number: &u32| Ok(*number)).unwrap(), 7);
    assert_eq!(enter(|| with(handle, |_: &u64| Ok(()))), WRONG_KIND);
    assert_eq!(enter(|| end_fabric(handle, |_: &Fresh| Ok(()))), WRONG_KIND);
    assert_eq!(umbra_boundary_release(handle), WRONG_KIND);
    release(handle).unwrap();
    assert_eq!(enter(|| with(handle, |_: &u32| Ok(()))), STALE);
}
