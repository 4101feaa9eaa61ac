//! The same names from the crate `rdma-sys`, and the few calls that it lacks.

use std::ffi::{c_int, c_uint};

pub(in super::super) use rdma_sys::{
    bind_mw_t as Bind, bind_mw_tso_union_t as BindOrSegments, ibv_ah_attr as AhAttr, ibv_comp_channel as CompChannel,
    ibv_context as Context, ibv_context_ops as ContextOps, ibv_cq as Cq, ibv_dealloc_mw as dealloc_mw,
    ibv_device as Device, ibv_device_attr as DeviceAttr, ibv_gid as Gid, ibv_gid_entry as GidEntry,
    ibv_global_route as GlobalRoute, ibv_mr as Mr, ibv_mw as Mw, ibv_mw_bind_info as BindInfo, ibv_pd as Pd,
    ibv_poll_cq as poll_cq, ibv_port_attr as PortAttr, ibv_post_recv as post_recv, ibv_post_send as post_send,
    ibv_post_srq_recv as post_srq_recv, ibv_qp as Qp, ibv_qp_attr as QpAttr, ibv_qp_cap as QpCap,
    ibv_qp_init_attr as QpInitAttr, ibv_recv_wr as RecvWr, ibv_req_notify_cq as req_notify_cq, ibv_send_wr as SendWr,
    ibv_sge as Sge, ibv_srq as Srq, ibv_srq_attr as SrqAttr, ibv_srq_init_attr as SrqInitAttr, ibv_wc as Wc,
    imm_data_invalidated_rkey_union_t as Word, rdma_addr as CmAddress, rdma_cm_event as CmEvent, rdma_cm_id as CmId,
    rdma_conn_param as CmParameters, rdma_event_channel as CmChannel, rdma_ib_addr as CmGids, rdma_route as CmRoute,
    rdma_t as RdmaTarget, wr_t as Target,
};

/// `ibv_alloc_mw`, null with `errno` where the driver has no windows.
///
/// # Safety
/// The domain lives.
pub(in super::super) unsafe fn alloc_mw(pd: *mut Pd, kind: c_uint) -> *mut Mw {
    // SAFETY: by contract.
    unsafe { rdma_sys::ibv_alloc_mw(pd, kind) }.unwrap_or(std::ptr::null_mut())
}

/// The library's functions under the names of their symbols.
pub(in super::super) mod calls {
    use super::super::AsyncEvent;
    use super::{Context, GidEntry, PortAttr, c_int};

    pub(in super::super::super) use rdma_sys::{
        ibv_ack_cq_events, ibv_alloc_pd, ibv_close_device, ibv_create_comp_channel, ibv_create_cq, ibv_create_qp,
        ibv_create_srq, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_comp_channel, ibv_destroy_cq, ibv_destroy_qp,
        ibv_destroy_srq, ibv_fork_init, ibv_free_device_list, ibv_get_cq_event, ibv_get_device_list,
        ibv_get_device_name, ibv_is_fork_initialized, ibv_modify_qp, ibv_modify_srq, ibv_open_device, ibv_query_device,
        ibv_reg_mr, rdma_accept, rdma_ack_cm_event, rdma_bind_addr, rdma_connect, rdma_create_event_channel,
        rdma_create_id, rdma_destroy_event_channel, rdma_destroy_id, rdma_disconnect, rdma_establish,
        rdma_get_cm_event, rdma_get_src_port, rdma_listen, rdma_migrate_id, rdma_reject, rdma_resolve_addr,
        rdma_resolve_route,
    };

    unsafe extern "C" {
        // With an event whose kind may be any number.
        pub(in super::super::super) fn ibv_get_async_event(context: *mut Context, event: *mut AsyncEvent) -> c_int;
        pub(in super::super::super) fn ibv_ack_async_event(event: *mut AsyncEvent);
        // What the inline function `ibv_query_gid_ex` calls, which the crate's filter of names leaves out.
        pub(in super::super::super) fn _ibv_query_gid_ex(
            context: *mut Context,
            port: u32,
            index: u32,
            entry: *mut GidEntry,
            flags: u32,
            entry_size: usize,
        ) -> c_int;
    }

    /// The inline function of that name, which fills the whole struct.
    ///
    /// # Safety
    /// The context is open.
    pub(in super::super::super) unsafe extern "C" fn ibv_query_port(
        context: *mut Context,
        port: u8,
        into: *mut PortAttr,
    ) -> c_int {
        // SAFETY: by contract.
        unsafe { rdma_sys::___ibv_query_port(context, port, into) }
    }
}
