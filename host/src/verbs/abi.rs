//! The layouts and numbers of the verbs interface, as far as this module uses them.
//!
//! These are facts of a stable binary interface: `infiniband/verbs.h` of rdma-core. Sizes are pinned for the two
//! architectures that matter; they differ because `pthread_mutex_t` does. Fields that nobody here reads are named after
//! what they are and kept private to the layout.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `struct ibv_device`, which is only handed around.
#[repr(C)]
pub(super) struct Device {
    _private: [u8; 0],
}

/// `struct ibv_pd`, which is only handed around.
#[repr(C)]
pub(super) struct Pd {
    _private: [u8; 0],
}

/// The operations of a device that are called directly: `struct ibv_context_ops`.
#[repr(C)]
pub(super) struct ContextOps {
    _query_to_rereg: [*mut c_void; 7],
    _alloc_mw_to_create_cq: [*mut c_void; 4],
    pub(super) poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub(super) req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    _cq_event_to_destroy_srq: [*mut c_void; 7],
    _post_srq_recv: *mut c_void,
    _create_to_destroy_qp: [*mut c_void; 4],
    pub(super) post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub(super) post_recv: Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    _create_ah_to_async_event: [*mut c_void; 5],
}

/// `struct ibv_context`.
#[repr(C)]
pub(super) struct Context {
    _device: *mut Device,
    pub(super) ops: ContextOps,
    _cmd_fd: c_int,
    _async_fd: c_int,
    _num_comp_vectors: c_int,
    _mutex: libc::pthread_mutex_t,
    _abi_compat: *mut c_void,
}

/// `struct ibv_cq`.
#[repr(C)]
pub(super) struct Cq {
    _context: *mut Context,
    _channel: *mut CompChannel,
    _cq_context: *mut c_void,
    _handle: u32,
    _cqe: c_int,
    _mutex: libc::pthread_mutex_t,
    _cond: libc::pthread_cond_t,
    _comp_events_completed: u32,
    _async_events_completed: u32,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(super) struct CompChannel {
    _context: *mut Context,
    pub(super) fd: c_int,
    _refcnt: c_int,
}

/// `struct ibv_qp`.
#[repr(C)]
pub(super) struct Qp {
    _context: *mut Context,
    _qp_context: *mut c_void,
    _pd: *mut Pd,
    _send_cq: *mut Cq,
    _recv_cq: *mut Cq,
    _srq: *mut c_void,
    _handle: u32,
    pub(super) qp_num: u32,
    _state: c_uint,
    _qp_type: c_uint,
    _mutex: libc::pthread_mutex_t,
    _cond: libc::pthread_cond_t,
    _events_completed: u32,
}

/// `struct ibv_mr`.
#[repr(C)]
pub(super) struct Mr {
    _context: *mut Context,
    _pd: *mut Pd,
    _addr: *mut c_void,
    _length: usize,
    _handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// `union ibv_gid`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(super) struct Gid(pub(super) [u8; 16]);

/// `struct ibv_gid_entry`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct GidEntry {
    pub(super) gid: Gid,
    pub(super) gid_index: u32,
    pub(super) port_num: u32,
    pub(super) gid_type: u32,
    pub(super) ndev_ifindex: u32,
}

/// `struct ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct PortAttr {
    pub(super) state: c_uint,
    pub(super) max_mtu: c_uint,
    pub(super) active_mtu: c_uint,
    pub(super) gid_tbl_len: c_int,
    pub(super) port_cap_flags: u32,
    pub(super) max_msg_sz: u32,
    pub(super) bad_pkey_cntr: u32,
    pub(super) qkey_viol_cntr: u32,
    pub(super) pkey_tbl_len: u16,
    pub(super) lid: u16,
    pub(super) sm_lid: u16,
    pub(super) lmc: u8,
    pub(super) max_vl_num: u8,
    pub(super) sm_sl: u8,
    pub(super) subnet_timeout: u8,
    pub(super) init_type_reply: u8,
    pub(super) active_width: u8,
    pub(super) active_speed: u8,
    pub(super) phys_state: u8,
    pub(super) link_layer: u8,
    pub(super) flags: u8,
    pub(super) port_cap_flags2: u16,
}

/// `struct ibv_device_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DeviceAttr {
    pub(super) fw_ver: [c_char; 64],
    pub(super) node_guid: u64,
    pub(super) sys_image_guid: u64,
    pub(super) max_mr_size: u64,
    pub(super) page_size_cap: u64,
    pub(super) vendor_id: u32,
    pub(super) vendor_part_id: u32,
    pub(super) hw_ver: u32,
    pub(super) max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    pub(super) device_cap_flags: c_uint,
    pub(super) max_sge: c_int,
    pub(super) max_sge_rd: c_int,
    pub(super) max_cq: c_int,
    pub(super) max_cqe: c_int,
    pub(super) max_mr: c_int,
    pub(super) max_pd: c_int,
    pub(super) max_qp_rd_atom: c_int,
    pub(super) max_ee_rd_atom: c_int,
    pub(super) max_res_rd_atom: c_int,
    pub(super) max_qp_init_rd_atom: c_int,
    pub(super) max_ee_init_rd_atom: c_int,
    pub(super) atomic_cap: c_uint,
    pub(super) max_ee: c_int,
    pub(super) max_rdd: c_int,
    pub(super) max_mw: c_int,
    pub(super) max_raw_ipv6_qp: c_int,
    pub(super) max_raw_ethy_qp: c_int,
    pub(super) max_mcast_grp: c_int,
    pub(super) max_mcast_qp_attach: c_int,
    pub(super) max_total_mcast_qp_attach: c_int,
    pub(super) max_ah: c_int,
    pub(super) max_fmr: c_int,
    pub(super) max_map_per_fmr: c_int,
    pub(super) max_srq: c_int,
    pub(super) max_srq_wr: c_int,
    pub(super) max_srq_sge: c_int,
    pub(super) max_pkeys: u16,
    pub(super) local_ca_ack_delay: u8,
    pub(super) phys_port_cnt: u8,
}

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Sge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `struct ibv_send_wr`, with the union members of RDMA work.
#[repr(C)]
pub(super) struct SendWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut SendWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_uint,
    pub(super) send_flags: c_uint,
    /// Immediate data in network order.
    pub(super) imm_data: u32,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    _atomic: [u64; 2],
    _xrc: u32,
    _bind: [u64; 6],
}

impl SendWr {
    /// All zero: no remote address, no flags, nothing behind it.
    pub(super) const fn new(wr_id: u64, opcode: c_uint) -> SendWr {
        SendWr {
            wr_id,
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: 0,
            opcode,
            send_flags: 0,
            imm_data: 0,
            remote_addr: 0,
            rkey: 0,
            _atomic: [0; 2],
            _xrc: 0,
            _bind: [0; 6],
        }
    }
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub(super) struct RecvWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut RecvWr,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Wc {
    pub(super) wr_id: u64,
    pub(super) status: c_uint,
    pub(super) opcode: c_uint,
    pub(super) vendor_err: u32,
    pub(super) byte_len: u32,
    pub(super) imm_data: u32,
    pub(super) qp_num: u32,
    pub(super) src_qp: u32,
    pub(super) wc_flags: c_uint,
    pub(super) pkey_index: u16,
    pub(super) slid: u16,
    pub(super) sl: u8,
    pub(super) dlid_path_bits: u8,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct QpCap {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QpInitAttr {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut Cq,
    pub(super) recv_cq: *mut Cq,
    pub(super) srq: *mut c_void,
    pub(super) cap: QpCap,
    pub(super) qp_type: c_uint,
    pub(super) sq_sig_all: c_int,
}

/// `struct ibv_ah_attr`, with the global route in it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct AhAttr {
    pub(super) dgid: Gid,
    pub(super) flow_label: u32,
    pub(super) sgid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) dlid: AhLid,
}

/// What follows the global route, which is padded to a multiple of its alignment.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct AhLid {
    pub(super) dlid: u16,
    pub(super) sl: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port_num: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct QpAttr {
    pub(super) qp_state: c_uint,
    pub(super) cur_qp_state: c_uint,
    pub(super) path_mtu: c_uint,
    pub(super) path_mig_state: c_uint,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) dest_qp_num: u32,
    pub(super) qp_access_flags: c_uint,
    pub(super) cap: QpCap,
    pub(super) ah_attr: AhAttr,
    pub(super) alt_ah_attr: AhAttr,
    pub(super) pkey_index: u16,
    pub(super) alt_pkey_index: u16,
    pub(super) en_sqd_async_notify: u8,
    pub(super) sq_draining: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port_num: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alt_port_num: u8,
    pub(super) alt_timeout: u8,
    pub(super) rate_limit: u32,
}

// What a C compiler says of the headers of rdma-core 44, on both architectures.
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<ContextOps>() == 256 && offset_of!(ContextOps, poll_cq) == 88);
    assert!(offset_of!(ContextOps, req_notify_cq) == 96 && offset_of!(ContextOps, _post_srq_recv) == 160);
    assert!(offset_of!(ContextOps, post_send) == 200 && offset_of!(ContextOps, post_recv) == 208);
    assert!(offset_of!(Context, ops) == 8 && offset_of!(CompChannel, fd) == 8 && size_of::<CompChannel>() == 16);
    assert!(offset_of!(Qp, qp_num) == 52 && size_of::<Mr>() == 48 && offset_of!(Mr, rkey) == 40);
    assert!(size_of::<GidEntry>() == 32 && size_of::<PortAttr>() == 52 && offset_of!(PortAttr, link_layer) == 46);
    assert!(size_of::<DeviceAttr>() == 232 && offset_of!(DeviceAttr, phys_port_cnt) == 227);
    assert!(size_of::<Sge>() == 16 && size_of::<RecvWr>() == 32 && size_of::<SendWr>() == 128);
    assert!(offset_of!(SendWr, imm_data) == 36 && offset_of!(SendWr, remote_addr) == 40);
    assert!(offset_of!(SendWr, rkey) == 48 && size_of::<Wc>() == 48 && offset_of!(Wc, qp_num) == 28);
    assert!(size_of::<QpCap>() == 20 && size_of::<QpInitAttr>() == 64 && size_of::<AhAttr>() == 32);
    assert!(offset_of!(AhAttr, dlid) == 24 && size_of::<QpAttr>() == 144 && offset_of!(QpAttr, ah_attr) == 56);
    assert!(offset_of!(QpAttr, pkey_index) == 120 && offset_of!(QpAttr, port_num) == 129);
    assert!(offset_of!(QpAttr, rate_limit) == 136 && offset_of!(QpAttr, max_rd_atomic) == 126);
};
#[cfg(target_arch = "x86_64")]
const _: () = assert!(size_of::<Context>() == 328 && size_of::<Cq>() == 128 && size_of::<Qp>() == 160);
#[cfg(target_arch = "aarch64")]
const _: () = assert!(size_of::<Context>() == 336 && size_of::<Cq>() == 136 && size_of::<Qp>() == 168);
