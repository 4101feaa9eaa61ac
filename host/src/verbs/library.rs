//! libibverbs, bound at run time.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library as Handle, Symbol};

use super::VerbsError;
use super::abi::{CompChannel, Context, Cq, Device, DeviceAttr, GidEntry, Mr, Pd, PortAttr, Qp, QpAttr, QpInitAttr};

const NAME: &str = "libibverbs.so.1";

macro_rules! library {
    ($($name:ident = $symbol:literal: $type:ty;)*) => {
        /// The functions that this module calls by name.
        pub(super) struct Library {
            $(pub(super) $name: Symbol<$type>,)*
            _handle: Handle,
        }

        impl Library {
            fn bind(handle: Handle) -> Result<Library, &'static str> {
                // SAFETY: each type is the C prototype of the function in rdma-core's verbs.h; the symbols are kept
                // no longer than the handle, which lies in the same struct. A plain dlsym finds the default version
                // of each, which is the one that the header describes.
                unsafe {
                    Ok(Library {
                        $($name: handle.get($symbol).map_err(|_| stringify!($name))?,)*
                        _handle: handle,
                    })
                }
            }
        }
    };
}

library! {
    get_device_list = b"ibv_get_device_list\0": unsafe extern "C" fn(*mut c_int) -> *mut *mut Device;
    free_device_list = b"ibv_free_device_list\0": unsafe extern "C" fn(*mut *mut Device);
    get_device_name = b"ibv_get_device_name\0": unsafe extern "C" fn(*mut Device) -> *const c_char;
    open_device = b"ibv_open_device\0": unsafe extern "C" fn(*mut Device) -> *mut Context;
    close_device = b"ibv_close_device\0": unsafe extern "C" fn(*mut Context) -> c_int;
    query_device = b"ibv_query_device\0": unsafe extern "C" fn(*mut Context, *mut DeviceAttr) -> c_int;
    query_port = b"ibv_query_port\0": unsafe extern "C" fn(*mut Context, u8, *mut PortAttr) -> c_int;
    query_gid_ex = b"_ibv_query_gid_ex\0":
        unsafe extern "C" fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int;
    alloc_pd = b"ibv_alloc_pd\0": unsafe extern "C" fn(*mut Context) -> *mut Pd;
    dealloc_pd = b"ibv_dealloc_pd\0": unsafe extern "C" fn(*mut Pd) -> c_int;
    reg_mr = b"ibv_reg_mr\0": unsafe extern "C" fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
    dereg_mr = b"ibv_dereg_mr\0": unsafe extern "C" fn(*mut Mr) -> c_int;
    create_comp_channel = b"ibv_create_comp_channel\0": unsafe extern "C" fn(*mut Context) -> *mut CompChannel;
    destroy_comp_channel = b"ibv_destroy_comp_channel\0": unsafe extern "C" fn(*mut CompChannel) -> c_int;
    create_cq = b"ibv_create_cq\0":
        unsafe extern "C" fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
    destroy_cq = b"ibv_destroy_cq\0": unsafe extern "C" fn(*mut Cq) -> c_int;
    get_cq_event = b"ibv_get_cq_event\0":
        unsafe extern "C" fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    ack_cq_events = b"ibv_ack_cq_events\0": unsafe extern "C" fn(*mut Cq, c_uint);
    create_qp = b"ibv_create_qp\0": unsafe extern "C" fn(*mut Pd, *mut QpInitAttr) -> *mut Qp;
    modify_qp = b"ibv_modify_qp\0": unsafe extern "C" fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    destroy_qp = b"ibv_destroy_qp\0": unsafe extern "C" fn(*mut Qp) -> c_int;
}

/// Why there is no library: the same each time, while an error is made anew for each caller.
enum Absent {
    NotFound(String),
    TooOld(&'static str),
}

/// The library, loaded at first use and never unloaded.
///
/// # Errors
/// [`VerbsError::NoLibrary`] or [`VerbsError::OldLibrary`], the same each time.
pub(super) fn library() -> Result<&'static Library, VerbsError> {
    static LIBRARY: OnceLock<Result<Library, Absent>> = OnceLock::new();
    let load = || {
        // SAFETY: loading runs the initialisers of the library, which were made to run at any time in any program.
        let handle = unsafe { Handle::new(NAME) }.map_err(|error| Absent::NotFound(error.to_string()))?;
        Library::bind(handle).map_err(Absent::TooOld)
    };
    LIBRARY.get_or_init(load).as_ref().map_err(|absent| match absent {
        Absent::NotFound(why) => VerbsError::NoLibrary(why.clone()),
        Absent::TooOld(symbol) => VerbsError::OldLibrary(symbol),
    })
}
