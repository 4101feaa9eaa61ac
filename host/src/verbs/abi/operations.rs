//! The inline functions of `infiniband/verbs.h`.
//!
//! They are what a driver does without a system call. Each looks its operation up in the device's table. Those that
//! every device has are checked once, when it is opened.

use std::ffi::{c_int, c_uint};

use super::objects::{Cq, Mw, Pd, Qp, Srq};
use super::requests::{RecvWr, SendWr, Wc};

macro_rules! operations {
    ($($name:ident($object:ident: $type:ty $(, $argument:ident: $is:ty)*) -> $result:ty, else $absent:expr;)*) => {
        $(
            #[doc = concat!("`ibv_", stringify!($name), "`.")]
            ///
            /// # Safety
            /// The object lives, and the other arguments are as the manual page wants them.
            #[inline]
            pub(in super::super) unsafe fn $name($object: $type $(, $argument: $is)*) -> $result {
                // SAFETY: by contract.
                let context = unsafe { (*$object).context };
                // SAFETY: what was made from a context keeps it alive.
                let operation = unsafe { (*context).ops.$name };
                match operation {
                    // SAFETY: by contract; the driver's function belongs to the object's device.
                    Some(operation) => unsafe { operation($object $(, $argument)*) },
                    None => $absent,
                }
            }
        )*
    };
}

operations! {
    poll_cq(cq: *mut Cq, count: c_int, into: *mut Wc) -> c_int, else -libc::ENOSYS;
    req_notify_cq(cq: *mut Cq, only_solicited: c_int) -> c_int, else libc::ENOSYS;
    post_send(qp: *mut Qp, first: *mut SendWr, refused: *mut *mut SendWr) -> c_int, else libc::ENOSYS;
    post_recv(qp: *mut Qp, first: *mut RecvWr, refused: *mut *mut RecvWr) -> c_int, else libc::ENOSYS;
    post_srq_recv(srq: *mut Srq, first: *mut RecvWr, refused: *mut *mut RecvWr) -> c_int, else libc::ENOSYS;
    alloc_mw(pd: *mut Pd, kind: c_uint) -> *mut Mw, else std::ptr::null_mut();
    dealloc_mw(mw: *mut Mw) -> c_int, else libc::ENOSYS;
}
