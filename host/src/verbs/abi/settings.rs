//! What is asked of devices and ports, and what queues are made with.
#![allow(dead_code, reason = "a layout has all its fields, and with another source only the comparison reads them")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::objects::{Cq, Srq};

/// `union ibv_gid`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) union Gid {
    pub(in super::super) raw: [u8; 16],
    /// Subnet prefix and interface.
    pub(in super::super) global: [u64; 2],
}

/// `struct ibv_gid_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct GidEntry {
    pub(in super::super) gid: Gid,
    pub(in super::super) gid_index: u32,
    pub(in super::super) port_num: u32,
    pub(in super::super) gid_type: u32,
    pub(in super::super) ndev_ifindex: u32,
}

/// `struct ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct PortAttr {
    pub(in super::super) state: c_uint,
    pub(in super::super) max_mtu: c_uint,
    pub(in super::super) active_mtu: c_uint,
    pub(in super::super) gid_tbl_len: c_int,
    pub(in super::super) port_cap_flags: u32,
    pub(in super::super) max_msg_sz: u32,
    pub(in super::super) bad_pkey_cntr: u32,
    pub(in super::super) qkey_viol_cntr: u32,
    pub(in super::super) pkey_tbl_len: u16,
    pub(in super::super) lid: u16,
    pub(in super::super) sm_lid: u16,
    pub(in super::super) lmc: u8,
    pub(in super::super) max_vl_num: u8,
    pub(in super::super) sm_sl: u8,
    pub(in super::super) subnet_timeout: u8,
    pub(in super::super) init_type_reply: u8,
    pub(in super::super) active_width: u8,
    pub(in super::super) active_speed: u8,
    pub(in super::super) phys_state: u8,
    pub(in super::super) link_layer: u8,
    pub(in super::super) flags: u8,
    pub(in super::super) port_cap_flags2: u16,
}

/// `struct ibv_device_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct DeviceAttr {
    pub(in super::super) fw_ver: [c_char; 64],
    pub(in super::super) node_guid: u64,
    pub(in super::super) sys_image_guid: u64,
    pub(in super::super) max_mr_size: u64,
    pub(in super::super) page_size_cap: u64,
    pub(in super::super) vendor_id: u32,
    pub(in super::super) vendor_part_id: u32,
    pub(in super::super) hw_ver: u32,
    pub(in super::super) max_qp: c_int,
    pub(in super::super) max_qp_wr: c_int,
    pub(in super::super) device_cap_flags: c_uint,
    pub(in super::super) max_sge: c_int,
    pub(in super::super) max_sge_rd: c_int,
    pub(in super::super) max_cq: c_int,
    pub(in super::super) max_cqe: c_int,
    pub(in super::super) max_mr: c_int,
    pub(in super::super) max_pd: c_int,
    pub(in super::super) max_qp_rd_atom: c_int,
    pub(in super::super) max_ee_rd_atom: c_int,
    pub(in super::super) max_res_rd_atom: c_int,
    pub(in super::super) max_qp_init_rd_atom: c_int,
    pub(in super::super) max_ee_init_rd_atom: c_int,
    pub(in super::super) atomic_cap: c_uint,
    pub(in super::super) max_ee: c_int,
    pub(in super::super) max_rdd: c_int,
    pub(in super::super) max_mw: c_int,
    pub(in super::super) max_raw_ipv6_qp: c_int,
    pub(in super::super) max_raw_ethy_qp: c_int,
    pub(in super::super) max_mcast_grp: c_int,
    pub(in super::super) max_mcast_qp_attach: c_int,
    pub(in super::super) max_total_mcast_qp_attach: c_int,
    pub(in super::super) max_ah: c_int,
    pub(in super::super) max_fmr: c_int,
    pub(in super::super) max_map_per_fmr: c_int,
    pub(in super::super) max_srq: c_int,
    pub(in super::super) max_srq_wr: c_int,
    pub(in super::super) max_srq_sge: c_int,
    pub(in super::super) max_pkeys: u16,
    pub(in super::super) local_ca_ack_delay: u8,
    pub(in super::super) phys_port_cnt: u8,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct QpCap {
    pub(in super::super) max_send_wr: u32,
    pub(in super::super) max_recv_wr: u32,
    pub(in super::super) max_send_sge: u32,
    pub(in super::super) max_recv_sge: u32,
    pub(in super::super) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(in super::super) struct QpInitAttr {
    pub(in super::super) qp_context: *mut c_void,
    pub(in super::super) send_cq: *mut Cq,
    pub(in super::super) recv_cq: *mut Cq,
    pub(in super::super) srq: *mut Srq,
    pub(in super::super) cap: QpCap,
    pub(in super::super) qp_type: c_uint,
    pub(in super::super) sq_sig_all: c_int,
}

/// `struct ibv_srq_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct SrqAttr {
    pub(in super::super) max_wr: u32,
    pub(in super::super) max_sge: u32,
    pub(in super::super) srq_limit: u32,
}

/// `struct ibv_srq_init_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct SrqInitAttr {
    pub(in super::super) srq_context: *mut c_void,
    pub(in super::super) attr: SrqAttr,
}

/// `struct ibv_global_route`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct GlobalRoute {
    pub(in super::super) dgid: Gid,
    pub(in super::super) flow_label: u32,
    pub(in super::super) sgid_index: u8,
    pub(in super::super) hop_limit: u8,
    pub(in super::super) traffic_class: u8,
}

/// `struct ibv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct AhAttr {
    pub(in super::super) grh: GlobalRoute,
    pub(in super::super) dlid: u16,
    pub(in super::super) sl: u8,
    pub(in super::super) src_path_bits: u8,
    pub(in super::super) static_rate: u8,
    pub(in super::super) is_global: u8,
    pub(in super::super) port_num: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in super::super) struct QpAttr {
    pub(in super::super) qp_state: c_uint,
    pub(in super::super) cur_qp_state: c_uint,
    pub(in super::super) path_mtu: c_uint,
    pub(in super::super) path_mig_state: c_uint,
    pub(in super::super) qkey: u32,
    pub(in super::super) rq_psn: u32,
    pub(in super::super) sq_psn: u32,
    pub(in super::super) dest_qp_num: u32,
    pub(in super::super) qp_access_flags: c_uint,
    pub(in super::super) cap: QpCap,
    pub(in super::super) ah_attr: AhAttr,
    pub(in super::super) alt_ah_attr: AhAttr,
    pub(in super::super) pkey_index: u16,
    pub(in super::super) alt_pkey_index: u16,
    pub(in super::super) en_sqd_async_notify: u8,
    pub(in super::super) sq_draining: u8,
    pub(in super::super) max_rd_atomic: u8,
    pub(in super::super) max_dest_rd_atomic: u8,
    pub(in super::super) min_rnr_timer: u8,
    pub(in super::super) port_num: u8,
    pub(in super::super) timeout: u8,
    pub(in super::super) retry_cnt: u8,
    pub(in super::super) rnr_retry: u8,
    pub(in super::super) alt_port_num: u8,
    pub(in super::super) alt_timeout: u8,
    pub(in super::super) rate_limit: u32,
}

// What a C compiler says of the headers of rdma-core 44, on both architectures.
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<GidEntry>() == 32 && size_of::<PortAttr>() == 52 && offset_of!(PortAttr, link_layer) == 46);
    assert!(size_of::<DeviceAttr>() == 232 && offset_of!(DeviceAttr, phys_port_cnt) == 227);
    assert!(size_of::<QpCap>() == 20 && size_of::<QpInitAttr>() == 64 && size_of::<AhAttr>() == 32);
    assert!(size_of::<SrqAttr>() == 12 && size_of::<SrqInitAttr>() == 24 && offset_of!(SrqInitAttr, attr) == 8);
    assert!(offset_of!(AhAttr, dlid) == 24 && size_of::<QpAttr>() == 144 && offset_of!(QpAttr, ah_attr) == 56);
    assert!(offset_of!(QpAttr, pkey_index) == 120 && offset_of!(QpAttr, port_num) == 129);
    assert!(offset_of!(QpAttr, rate_limit) == 136 && offset_of!(QpAttr, max_rd_atomic) == 126);
};
