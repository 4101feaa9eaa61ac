//! What the connection manager of librdmacm makes and tells: `rdma/rdma_cma.h`.
#![allow(dead_code, reason = "a layout has all its fields, and with another source only the comparison reads them")]

use std::ffi::{c_int, c_uint, c_void};

use super::objects::Context;
use super::settings::Gid;

/// `struct rdma_event_channel`.
#[repr(C)]
pub(in super::super) struct CmChannel {
    pub(in super::super) fd: c_int,
}

/// `struct rdma_ib_addr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct CmGids {
    pub(in super::super) sgid: Gid,
    pub(in super::super) dgid: Gid,
    pub(in super::super) pkey: u16,
}

/// One end's socket address.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) union CmSource {
    pub(in super::super) src_storage: libc::sockaddr_storage,
}

/// The other end's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) union CmDestination {
    pub(in super::super) dst_storage: libc::sockaddr_storage,
}

/// Addresses below those of sockets.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) union CmBelow {
    pub(in super::super) ibaddr: CmGids,
}

/// `struct rdma_addr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct CmAddress {
    pub(in super::super) src_addr_union: CmSource,
    pub(in super::super) dst_addr_union: CmDestination,
    pub(in super::super) addr: CmBelow,
}

/// `struct rdma_route`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct CmRoute {
    pub(in super::super) addr: CmAddress,
    pub(in super::super) path_rec: *mut c_void,
    pub(in super::super) num_paths: c_int,
}

/// `struct rdma_cm_id`.
#[repr(C)]
pub(in super::super) struct CmId {
    pub(in super::super) verbs: *mut Context,
    pub(in super::super) channel: *mut CmChannel,
    pub(in super::super) context: *mut c_void,
    pub(in super::super) qp: *mut c_void,
    pub(in super::super) route: CmRoute,
    pub(in super::super) ps: c_uint,
    pub(in super::super) port_num: u8,
    pub(in super::super) event: *mut CmEvent,
    _queues: [*mut c_void; 5],
    pub(in super::super) pd: *mut c_void,
    pub(in super::super) qp_type: c_uint,
}

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct CmParameters {
    pub(in super::super) private_data: *const c_void,
    pub(in super::super) private_data_len: u8,
    pub(in super::super) responder_resources: u8,
    pub(in super::super) initiator_depth: u8,
    pub(in super::super) flow_control: u8,
    pub(in super::super) retry_count: u8,
    pub(in super::super) rnr_retry_count: u8,
    pub(in super::super) srq: u8,
    pub(in super::super) qp_num: u32,
}

/// What an event comes with.
#[repr(C)]
pub(in super::super) union CmWith {
    pub(in super::super) conn: CmParameters,
    _datagram: [u64; 7],
}

/// `struct rdma_cm_event`.
#[repr(C)]
pub(in super::super) struct CmEvent {
    pub(in super::super) id: *mut CmId,
    pub(in super::super) listen_id: *mut CmId,
    pub(in super::super) event: c_uint,
    pub(in super::super) status: c_int,
    pub(in super::super) param: CmWith,
}

// What a C compiler says of the headers of rdma-core 44, on both architectures.
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<CmChannel>() == 4 && size_of::<CmId>() == 416 && offset_of!(CmId, route) == 32);
    assert!(offset_of!(CmId, ps) == 344 && offset_of!(CmId, port_num) == 348 && offset_of!(CmId, event) == 352);
    assert!(offset_of!(CmId, pd) == 400 && offset_of!(CmId, qp_type) == 408 && size_of::<CmRoute>() == 312);
    assert!(size_of::<CmParameters>() == 24 && offset_of!(CmParameters, qp_num) == 16);
    assert!(size_of::<CmEvent>() == 80 && offset_of!(CmEvent, event) == 16 && offset_of!(CmEvent, param) == 24);
};
