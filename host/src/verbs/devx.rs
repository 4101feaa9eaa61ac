//! Commands for the firmware of mlx5 cards, by libmlx5 (DEVX).
//!
//! The kernel's driver passes the bytes on, destroys what a process made when it ends, and lets only processes with
//! `CAP_NET_RAW` do it. Source: mlx5dv_devx_obj_create(3), mlx5dv_open_device(3), mlx5dv_init_obj(3).

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::Device;
use super::VerbsError;
use super::abi;
use super::library::{Absent, functions, load};
use super::memory::Domain;

const NAME: &str = "libmlx5.so.1";
/// `MLX5DV_CONTEXT_FLAGS_DEVX`.
const TAKES_COMMANDS: u32 = 1;
/// `MLX5DV_OBJ_PD`.
const DOMAIN: u64 = 1 << 6;

/// `struct mlx5dv_context_attr`.
#[repr(C)]
pub(super) struct ContextAttr {
    flags: u32,
    comp_mask: u64,
}

/// `struct mlx5dv_pd`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Pd {
    pdn: u32,
    comp_mask: u64,
}

/// `struct mlx5dv_obj`: pairs of an object and what is told of it, the last for a protection domain.
#[repr(C)]
pub(super) struct Obj {
    _others: [*mut c_void; 12],
    pd: *mut abi::Pd,
    told: *mut Pd,
}

const _: () = assert!(size_of::<ContextAttr>() == 16 && size_of::<Pd>() == 16 && size_of::<Obj>() == 112);

/// `struct mlx5dv_devx_obj`, which is only handed around.
#[repr(C)]
pub(super) struct Object {
    _private: [u8; 0],
}

functions! {
    Mlx5;
    open_device = mlx5dv_open_device:
        unsafe extern "C" fn(*mut abi::Device, *mut ContextAttr) -> *mut abi::Context;
    init_obj = mlx5dv_init_obj: unsafe extern "C" fn(*mut Obj, u64) -> c_int;
    general_cmd = mlx5dv_devx_general_cmd:
        unsafe extern "C" fn(*mut abi::Context, *const c_void, usize, *mut c_void, usize) -> c_int;
    obj_create = mlx5dv_devx_obj_create:
        unsafe extern "C" fn(*mut abi::Context, *const c_void, usize, *mut c_void, usize) -> *mut Object;
    obj_destroy = mlx5dv_devx_obj_destroy: unsafe extern "C" fn(*mut Object) -> c_int;
}

/// Loaded at first use and never unloaded.
fn mlx5() -> Result<&'static Mlx5, VerbsError> {
    static LIBRARY: OnceLock<Result<Mlx5, Absent>> = OnceLock::new();
    LIBRARY.get_or_init(|| load(NAME, Mlx5::bind)).as_ref().map_err(|absent| match absent {
        Absent::NotFound(why) => VerbsError::NoMlx5(why.clone()),
        Absent::TooOld(symbol) => VerbsError::NoMlx5(format!("it has no {symbol}")),
    })
}

/// What a call returns that failed: an error number, negative from some versions.
fn ended(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.saturating_abs())) }
}

impl Device {
    /// As [`open`](Self::open), so that [`Devx`] may send commands to the firmware.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`VerbsError::Call`] also if the device is no mlx5 card, or this process may not.
    pub fn open_for_commands(wanted: Option<&str>) -> Result<Arc<Device>, VerbsError> {
        let mlx5 = mlx5()?;
        Device::open_by(wanted, "opening the device for firmware commands", |_, device| {
            let mut attributes = ContextAttr { flags: TAKES_COMMANDS, comp_mask: 0 };
            // SAFETY: the device is valid while it is listed, and the attributes live through the call.
            unsafe { (mlx5.open_device)(device, &raw mut attributes) }
        })
    }
}

/// Commands for the firmware of the device of a protection domain.
#[derive(Clone, Debug)]
pub struct Devx {
    domain: Arc<Domain>,
    library: &'static Mlx5,
}

/// Something that the firmware made; dropping it destroys it.
#[derive(Debug)]
pub struct DevxObject {
    object: Option<NonNull<Object>>,
    /// Keeps the device open.
    devx: Devx,
}

// SAFETY: rdma-core's calls on an object may be made from any thread, and nothing else refers to it.
unsafe impl Send for DevxObject {}

impl Devx {
    /// Commands by the device of `domain`, which must have been opened by
    /// [`Device::open_for_commands`].
    ///
    /// # Errors
    /// [`VerbsError::NoMlx5`].
    pub fn new(domain: &Arc<Domain>) -> Result<Devx, VerbsError> {
        Ok(Devx { domain: domain.clone(), library: mlx5()? })
    }

    /// The domain.
    #[must_use]
    pub const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The number by which the firmware knows the domain.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if its device is no mlx5 card.
    pub fn domain_number(&self) -> Result<u32, VerbsError> {
        let mut told = Pd::default();
        let mut asked = Obj { _others: [std::ptr::null_mut(); 12], pd: self.domain.pd.as_ptr(), told: &raw mut told };
        // SAFETY: the domain lives, and what is told of it is written to a live struct of that layout.
        let code = unsafe { (self.library.init_obj)(&raw mut asked, DOMAIN) };
        VerbsError::check("asking for the number of a protection domain", code)?;
        Ok(told.pdn)
    }

    /// Carries out a command that makes nothing.
    ///
    /// # Errors
    /// What the kernel says; the answer may say more.
    pub fn run(&self, command: &[u8], answer: &mut [u8]) -> io::Result<()> {
        let (context, written) = (self.domain.device.context.as_ptr(), answer.as_mut_ptr().cast());
        // SAFETY: the context is open, and both buffers are as long as is said.
        let code = unsafe {
            (self.library.general_cmd)(context, command.as_ptr().cast(), command.len(), written, answer.len())
        };
        ended(code)
    }

    /// Carries out a command that makes an object.
    ///
    /// # Errors
    /// What the kernel says; the answer may say more.
    pub fn create(&self, command: &[u8], answer: &mut [u8]) -> io::Result<DevxObject> {
        let (context, written) = (self.domain.device.context.as_ptr(), answer.as_mut_ptr().cast());
        // SAFETY: as in `run`.
        let object = unsafe {
            (self.library.obj_create)(context, command.as_ptr().cast(), command.len(), written, answer.len())
        };
        let object = NonNull::new(object).ok_or_else(io::Error::last_os_error)?;
        Ok(DevxObject { object: Some(object), devx: self.clone() })
    }
}

impl DevxObject {
    /// Destroys it; what its end means is the firmware's business.
    ///
    /// # Errors
    /// What the kernel says: the object lives on then, until this process closes the device.
    pub fn destroy(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(object) = self.object.take() else { return Ok(()) };
        // SAFETY: made once, and destroyed once, as it was taken.
        let code = unsafe { (self.devx.library.obj_destroy)(object.as_ptr()) };
        ended(code)
    }
}

impl Drop for DevxObject {
    fn drop(&mut self) {
        // Whoever wants to know destroys it.
        let _ = self.end();
    }
}
