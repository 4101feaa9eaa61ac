//! What is posted, and what a completion says.
#![allow(dead_code, reason = "a layout has all its fields, and with another source only the comparison reads them")]

use std::ffi::{c_int, c_uint};

use super::objects::{Mr, Mw};

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct Sge {
    pub(in super::super) addr: u64,
    pub(in super::super) length: u32,
    pub(in super::super) lkey: u32,
}

/// What comes with work: a word for the peer, or a key that it ends.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) union Word {
    /// Immediate data in network order.
    pub(in super::super) imm_data: u32,
    pub(in super::super) invalidated_rkey: u32,
}

/// Where in the peer's memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct RdmaTarget {
    pub(in super::super) remote_addr: u64,
    pub(in super::super) rkey: u32,
}

/// What work is about: `wr` of a request.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) union Target {
    pub(in super::super) rdma: RdmaTarget,
    _atomic: [u64; 4],
}

/// `struct ibv_mw_bind_info`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct BindInfo {
    pub(in super::super) mr: *mut Mr,
    pub(in super::super) addr: u64,
    pub(in super::super) length: u64,
    pub(in super::super) mw_access_flags: c_uint,
}

/// Which window is bound to what.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct Bind {
    pub(in super::super) mw: *mut Mw,
    pub(in super::super) rkey: u32,
    pub(in super::super) bind_info: BindInfo,
}

/// What only some kinds of work need.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) union BindOrSegments {
    pub(in super::super) bind_mw: Bind,
    _tso: [u64; 2],
}

/// `struct ibv_send_wr`.
#[repr(C)]
pub(in super::super) struct SendWr {
    pub(in super::super) wr_id: u64,
    pub(in super::super) next: *mut SendWr,
    pub(in super::super) sg_list: *mut Sge,
    pub(in super::super) num_sge: c_int,
    pub(in super::super) opcode: c_uint,
    pub(in super::super) send_flags: c_uint,
    pub(in super::super) imm_data_invalidated_rkey_union: Word,
    pub(in super::super) wr: Target,
    pub(in super::super) qp_type: u32,
    pub(in super::super) bind_mw_tso_union: BindOrSegments,
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub(in super::super) struct RecvWr {
    pub(in super::super) wr_id: u64,
    pub(in super::super) next: *mut RecvWr,
    pub(in super::super) sg_list: *mut Sge,
    pub(in super::super) num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct Wc {
    pub(in super::super) wr_id: u64,
    pub(in super::super) status: c_uint,
    pub(in super::super) opcode: c_uint,
    pub(in super::super) vendor_err: u32,
    pub(in super::super) byte_len: u32,
    pub(in super::super) imm_data_invalidated_rkey_union: Word,
    pub(in super::super) qp_num: u32,
    pub(in super::super) src_qp: u32,
    pub(in super::super) wc_flags: c_uint,
    pub(in super::super) pkey_index: u16,
    pub(in super::super) slid: u16,
    pub(in super::super) sl: u8,
    pub(in super::super) dlid_path_bits: u8,
}

// What a C compiler says of the headers of rdma-core 44, on both architectures.
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Sge>() == 16 && size_of::<RecvWr>() == 32 && size_of::<SendWr>() == 128);
    assert!(offset_of!(SendWr, imm_data_invalidated_rkey_union) == 36 && offset_of!(SendWr, wr) == 40);
    assert!(offset_of!(RdmaTarget, rkey) == 8 && offset_of!(SendWr, bind_mw_tso_union) == 80);
    assert!(offset_of!(Bind, rkey) == 8 && offset_of!(Bind, bind_info) == 16 && size_of::<BindInfo>() == 32);
    assert!(offset_of!(BindInfo, addr) == 8 && offset_of!(BindInfo, mw_access_flags) == 24);
    assert!(size_of::<Wc>() == 48 && offset_of!(Wc, qp_num) == 28 && offset_of!(Wc, wc_flags) == 36);
};
