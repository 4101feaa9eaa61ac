//! What the library makes and hands around.
#![allow(dead_code, reason = "a layout has all its fields, and with another source only the comparison reads them")]

use std::ffi::{c_int, c_uint, c_void};

use super::requests::{RecvWr, SendWr, Wc};

/// `struct ibv_device`, which is only handed around.
#[repr(C)]
pub(in super::super) struct Device {
    _private: [u8; 0],
}

/// `struct ibv_pd`.
#[repr(C)]
pub(in super::super) struct Pd {
    pub(in super::super) context: *mut Context,
    pub(in super::super) handle: u32,
}

/// The operations of a device that are called directly: `struct ibv_context_ops`.
#[repr(C)]
pub(in super::super) struct ContextOps {
    _query_to_rereg: [*mut c_void; 7],
    pub(in super::super) alloc_mw: Option<unsafe extern "C" fn(*mut Pd, c_uint) -> *mut Mw>,
    _bind_mw: *mut c_void,
    pub(in super::super) dealloc_mw: Option<unsafe extern "C" fn(*mut Mw) -> c_int>,
    _create_cq: *mut c_void,
    pub(in super::super) poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub(in super::super) req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    _cq_event_to_destroy_srq: [*mut c_void; 7],
    pub(in super::super) post_srq_recv: Option<unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    _create_to_destroy_qp: [*mut c_void; 4],
    pub(in super::super) post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub(in super::super) post_recv: Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    _create_ah_to_async_event: [*mut c_void; 5],
}

/// `struct ibv_context`.
#[repr(C)]
pub(in super::super) struct Context {
    pub(in super::super) device: *mut Device,
    pub(in super::super) ops: ContextOps,
    pub(in super::super) cmd_fd: c_int,
    pub(in super::super) async_fd: c_int,
    pub(in super::super) num_comp_vectors: c_int,
    pub(in super::super) mutex: libc::pthread_mutex_t,
    pub(in super::super) abi_compat: *mut c_void,
}

/// `struct ibv_cq`.
#[repr(C)]
pub(in super::super) struct Cq {
    pub(in super::super) context: *mut Context,
    pub(in super::super) channel: *mut CompChannel,
    pub(in super::super) cq_context: *mut c_void,
    pub(in super::super) handle: u32,
    pub(in super::super) cqe: c_int,
    pub(in super::super) mutex: libc::pthread_mutex_t,
    pub(in super::super) cond: libc::pthread_cond_t,
    pub(in super::super) comp_events_completed: u32,
    pub(in super::super) async_events_completed: u32,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(in super::super) struct CompChannel {
    pub(in super::super) context: *mut Context,
    pub(in super::super) fd: c_int,
    pub(in super::super) refcnt: c_int,
}

/// `struct ibv_qp`.
#[repr(C)]
pub(in super::super) struct Qp {
    pub(in super::super) context: *mut Context,
    pub(in super::super) qp_context: *mut c_void,
    pub(in super::super) pd: *mut Pd,
    pub(in super::super) send_cq: *mut Cq,
    pub(in super::super) recv_cq: *mut Cq,
    pub(in super::super) srq: *mut Srq,
    pub(in super::super) handle: u32,
    pub(in super::super) qp_num: u32,
    pub(in super::super) state: c_uint,
    pub(in super::super) qp_type: c_uint,
    pub(in super::super) mutex: libc::pthread_mutex_t,
    pub(in super::super) cond: libc::pthread_cond_t,
    pub(in super::super) events_completed: u32,
}

/// `struct ibv_mr`.
#[repr(C)]
pub(in super::super) struct Mr {
    pub(in super::super) context: *mut Context,
    pub(in super::super) pd: *mut Pd,
    pub(in super::super) addr: *mut c_void,
    pub(in super::super) length: usize,
    pub(in super::super) handle: u32,
    pub(in super::super) lkey: u32,
    pub(in super::super) rkey: u32,
}

/// `struct ibv_mw`.
#[repr(C)]
pub(in super::super) struct Mw {
    pub(in super::super) context: *mut Context,
    pub(in super::super) pd: *mut Pd,
    pub(in super::super) rkey: u32,
    pub(in super::super) handle: u32,
    pub(in super::super) type_: c_uint,
}

/// `struct ibv_srq`.
#[repr(C)]
pub(in super::super) struct Srq {
    pub(in super::super) context: *mut Context,
    pub(in super::super) srq_context: *mut c_void,
    pub(in super::super) pd: *mut Pd,
    pub(in super::super) handle: u32,
    pub(in super::super) mutex: libc::pthread_mutex_t,
    pub(in super::super) cond: libc::pthread_cond_t,
    pub(in super::super) events_completed: u32,
}

// What a C compiler says of the headers of rdma-core 44, on both architectures.
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<ContextOps>() == 256 && offset_of!(ContextOps, poll_cq) == 88);
    assert!(offset_of!(ContextOps, alloc_mw) == 56 && offset_of!(ContextOps, dealloc_mw) == 72);
    assert!(offset_of!(ContextOps, req_notify_cq) == 96 && offset_of!(ContextOps, post_srq_recv) == 160);
    assert!(offset_of!(ContextOps, post_send) == 200 && offset_of!(ContextOps, post_recv) == 208);
    assert!(offset_of!(Context, ops) == 8 && offset_of!(CompChannel, fd) == 8 && size_of::<CompChannel>() == 16);
    assert!(offset_of!(Qp, qp_num) == 52 && size_of::<Mr>() == 48 && offset_of!(Mr, rkey) == 40);
    assert!(size_of::<Pd>() == 16 && size_of::<Mw>() == 32 && offset_of!(Mw, rkey) == 16);
};
#[cfg(target_arch = "x86_64")]
const _: () = {
    assert!(size_of::<Context>() == 328 && size_of::<Cq>() == 128 && size_of::<Qp>() == 160);
    assert!(size_of::<Srq>() == 128);
};
#[cfg(target_arch = "aarch64")]
const _: () = {
    assert!(size_of::<Context>() == 336 && size_of::<Cq>() == 136 && size_of::<Qp>() == 168);
    assert!(size_of::<Srq>() == 136);
};
