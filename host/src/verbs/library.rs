//! libibverbs and librdmacm: bound at run time, or linked (feature `rdma-sys`).

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::sockaddr;

use super::VerbsError;
use super::abi::{
    AsyncEvent, CmChannel, CmEvent, CmId, CmParameters, CompChannel, Context, Cq, Device, DeviceAttr, GidEntry, Mr, Pd,
    PortAttr, Qp, QpAttr, QpInitAttr, Srq, SrqAttr, SrqInitAttr,
};
use super::numbers::FORK_UNNEEDED;

/// The functions of a library that are called by name; `$when` they are bound at run time.
macro_rules! functions {
    ($(#[$when:meta])? $library:ident; $($name:ident = $symbol:ident: $type:ty;)*) => {
        /// The functions that this module calls by name.
        #[derive(Debug)]
        pub(super) struct $library {
            $(pub(super) $name: $type,)*
        }

        $(#[$when])?
        impl $library {
            /// Finds all of them; the name of the first that is not there.
            fn bind(handle: &libloading::os::unix::Library) -> Result<$library, &'static str> {
                // SAFETY: each type is the C prototype of the function in rdma-core's headers; the library is never
                // unloaded. A plain dlsym finds the default version of each, which is the one that the header describes.
                unsafe {
                    Ok($library {
                        $($name: *handle
                            .get(concat!(stringify!($symbol), "\0").as_bytes())
                            .map_err(|_| stringify!($symbol))?,)*
                    })
                }
            }
        }
    };
}
#[cfg(feature = "xgvmi")]
pub(super) use functions;

macro_rules! library {
    ($library:ident, $linked:ident; $($name:ident = $symbol:ident: $type:ty;)*) => {
        functions! {
            #[cfg(not(feature = "rdma-sys"))]
            $library;
            $($name = $symbol: $type;)*
        }

        /// The functions that the program was linked with.
        #[cfg(feature = "rdma-sys")]
        static $linked: $library = $library { $($name: super::abi::calls::$symbol,)* };
    };
}

library! {
    Library, LINKED;
    is_fork_initialized = ibv_is_fork_initialized: unsafe extern "C" fn() -> c_uint;
    fork_init = ibv_fork_init: unsafe extern "C" fn() -> c_int;
    get_device_list = ibv_get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut Device;
    free_device_list = ibv_free_device_list: unsafe extern "C" fn(*mut *mut Device);
    get_device_name = ibv_get_device_name: unsafe extern "C" fn(*mut Device) -> *const c_char;
    open_device = ibv_open_device: unsafe extern "C" fn(*mut Device) -> *mut Context;
    close_device = ibv_close_device: unsafe extern "C" fn(*mut Context) -> c_int;
    query_device = ibv_query_device: unsafe extern "C" fn(*mut Context, *mut DeviceAttr) -> c_int;
    query_port = ibv_query_port: unsafe extern "C" fn(*mut Context, u8, *mut PortAttr) -> c_int;
    query_gid_ex = _ibv_query_gid_ex:
        unsafe extern "C" fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int;
    alloc_pd = ibv_alloc_pd: unsafe extern "C" fn(*mut Context) -> *mut Pd;
    dealloc_pd = ibv_dealloc_pd: unsafe extern "C" fn(*mut Pd) -> c_int;
    reg_mr = ibv_reg_mr: unsafe extern "C" fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
    dereg_mr = ibv_dereg_mr: unsafe extern "C" fn(*mut Mr) -> c_int;
    create_comp_channel = ibv_create_comp_channel: unsafe extern "C" fn(*mut Context) -> *mut CompChannel;
    destroy_comp_channel = ibv_destroy_comp_channel: unsafe extern "C" fn(*mut CompChannel) -> c_int;
    create_cq = ibv_create_cq:
        unsafe extern "C" fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
    destroy_cq = ibv_destroy_cq: unsafe extern "C" fn(*mut Cq) -> c_int;
    get_cq_event = ibv_get_cq_event:
        unsafe extern "C" fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    ack_cq_events = ibv_ack_cq_events: unsafe extern "C" fn(*mut Cq, c_uint);
    create_srq = ibv_create_srq: unsafe extern "C" fn(*mut Pd, *mut SrqInitAttr) -> *mut Srq;
    modify_srq = ibv_modify_srq: unsafe extern "C" fn(*mut Srq, *mut SrqAttr, c_int) -> c_int;
    destroy_srq = ibv_destroy_srq: unsafe extern "C" fn(*mut Srq) -> c_int;
    get_async_event = ibv_get_async_event: unsafe extern "C" fn(*mut Context, *mut AsyncEvent) -> c_int;
    ack_async_event = ibv_ack_async_event: unsafe extern "C" fn(*mut AsyncEvent);
    create_qp = ibv_create_qp: unsafe extern "C" fn(*mut Pd, *mut QpInitAttr) -> *mut Qp;
    modify_qp = ibv_modify_qp: unsafe extern "C" fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    destroy_qp = ibv_destroy_qp: unsafe extern "C" fn(*mut Qp) -> c_int;
}

impl Library {
    /// Lets registered pages stay with this process when it forks; before the first is registered.
    ///
    /// Where a fork leaves pages to parent and child until one of them writes, a parent that does so gets new ones, and the
    /// card goes on with those of the child. Kernels that copy registered pages at the fork need nothing done; on others the
    /// child does without them.
    fn keep_pages_at_forks(&self) {
        // SAFETY: it takes nothing and changes nothing.
        if unsafe { (self.is_fork_initialized)() } == FORK_UNNEEDED {
            return;
        }
        // SAFETY: it takes nothing, and may be called at any time.
        let code = unsafe { (self.fork_init)() };
        if code != 0 {
            // Somebody else in this process has registered memory before, and has decided this for all.
            let why = std::io::Error::from_raw_os_error(code);
            umbra_core::log!(warn, "the card may miss what is written after a fork: {}", why);
        }
    }
}

library! {
    Manager, LINKED_MANAGER;
    create_event_channel = rdma_create_event_channel: unsafe extern "C" fn() -> *mut CmChannel;
    destroy_event_channel = rdma_destroy_event_channel: unsafe extern "C" fn(*mut CmChannel);
    create_id = rdma_create_id: unsafe extern "C" fn(*mut CmChannel, *mut *mut CmId, *mut c_void, c_uint) -> c_int;
    destroy_id = rdma_destroy_id: unsafe extern "C" fn(*mut CmId) -> c_int;
    migrate_id = rdma_migrate_id: unsafe extern "C" fn(*mut CmId, *mut CmChannel) -> c_int;
    bind_addr = rdma_bind_addr: unsafe extern "C" fn(*mut CmId, *mut sockaddr) -> c_int;
    listen = rdma_listen: unsafe extern "C" fn(*mut CmId, c_int) -> c_int;
    source_port = rdma_get_src_port: unsafe extern "C" fn(*mut CmId) -> u16;
    resolve_addr = rdma_resolve_addr: unsafe extern "C" fn(*mut CmId, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
    resolve_route = rdma_resolve_route: unsafe extern "C" fn(*mut CmId, c_int) -> c_int;
    connect = rdma_connect: unsafe extern "C" fn(*mut CmId, *mut CmParameters) -> c_int;
    accept = rdma_accept: unsafe extern "C" fn(*mut CmId, *mut CmParameters) -> c_int;
    establish = rdma_establish: unsafe extern "C" fn(*mut CmId) -> c_int;
    reject = rdma_reject: unsafe extern "C" fn(*mut CmId, *const c_void, u8) -> c_int;
    disconnect = rdma_disconnect: unsafe extern "C" fn(*mut CmId) -> c_int;
    get_event = rdma_get_cm_event: unsafe extern "C" fn(*mut CmChannel, *mut *mut CmEvent) -> c_int;
    ack_event = rdma_ack_cm_event: unsafe extern "C" fn(*mut CmEvent) -> c_int;
}

#[cfg(feature = "xgvmi")]
pub(super) use late::{Absent, load};
#[cfg(not(feature = "rdma-sys"))]
pub(super) use late::{library, manager};
#[cfg(feature = "rdma-sys")]
pub(super) use linked::{library, manager};

/// Libraries that were there when the program started.
#[cfg(feature = "rdma-sys")]
mod linked {
    use std::sync::Once;

    use super::{LINKED, LINKED_MANAGER, Library, Manager, VerbsError};

    /// libibverbs.
    ///
    /// # Errors
    /// None: the form that is bound at run time has some.
    pub(in super::super) fn library() -> Result<&'static Library, VerbsError> {
        static FIRST: Once = Once::new();
        FIRST.call_once(|| LINKED.keep_pages_at_forks());
        Ok(&LINKED)
    }

    /// librdmacm.
    ///
    /// # Errors
    /// None: the form that is bound at run time has some.
    pub(in super::super) fn manager() -> Result<&'static Manager, VerbsError> {
        Ok(&LINKED_MANAGER)
    }
}

/// Binding at first use.
#[cfg(any(feature = "xgvmi", not(feature = "rdma-sys")))]
mod late {
    use libloading::os::unix::Library as Handle;

    /// Why there is no library: the same each time, while an error is made anew for each caller.
    pub(in super::super) enum Absent {
        NotFound(String),
        TooOld(&'static str),
    }

    /// Loads a library of rdma-core, which is never unloaded, and binds what is called of it.
    pub(in super::super) fn load<L>(name: &str, bind: fn(&Handle) -> Result<L, &'static str>) -> Result<L, Absent> {
        // SAFETY: loading runs the initialisers of the library, which were made to run at any time in any program.
        let handle = unsafe { Handle::new(name) }.map_err(|error| Absent::NotFound(error.to_string()))?;
        let bound = bind(&handle).map_err(Absent::TooOld);
        // The functions are called until the process ends.
        std::mem::forget(handle);
        bound
    }

    /// libibverbs, loaded at first use.
    ///
    /// # Errors
    /// [`VerbsError::NoLibrary`](super::VerbsError::NoLibrary) or [`VerbsError::OldLibrary`](super::VerbsError::OldLibrary),
    /// the same each time.
    #[cfg(not(feature = "rdma-sys"))]
    pub(in super::super) fn library() -> Result<&'static super::Library, super::VerbsError> {
        use super::{Library, VerbsError};
        static LIBRARY: std::sync::OnceLock<Result<Library, Absent>> = std::sync::OnceLock::new();
        let bound =
            LIBRARY.get_or_init(|| load("libibverbs.so.1", Library::bind).inspect(Library::keep_pages_at_forks));
        bound.as_ref().map_err(|absent| match absent {
            Absent::NotFound(why) => VerbsError::NoLibrary(why.clone()),
            Absent::TooOld(symbol) => VerbsError::OldLibrary(symbol),
        })
    }

    /// librdmacm, loaded at first use.
    ///
    /// # Errors
    /// [`VerbsError::NoManager`](super::VerbsError::NoManager) or [`VerbsError::OldLibrary`](super::VerbsError::OldLibrary),
    /// the same each time.
    #[cfg(not(feature = "rdma-sys"))]
    pub(in super::super) fn manager() -> Result<&'static super::Manager, super::VerbsError> {
        use super::{Manager, VerbsError};
        static MANAGER: std::sync::OnceLock<Result<Manager, Absent>> = std::sync::OnceLock::new();
        let bound = MANAGER.get_or_init(|| load("librdmacm.so.1", Manager::bind));
        bound.as_ref().map_err(|absent| match absent {
            Absent::NotFound(why) => VerbsError::NoManager(why.clone()),
            Absent::TooOld(symbol) => VerbsError::OldLibrary(symbol),
        })
    }
}
