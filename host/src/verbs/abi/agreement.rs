//! The layouts written out here are those of the headers on this machine.
//!
//! Compared while compiling, so that a machine with other headers does not build what would not work.

use std::mem::{align_of, offset_of, size_of};

use super::{connection, events, objects, requests, settings};

/// The other source, whole.
mod named {
    pub(super) use super::super::named::*;
    pub(super) use rdma_sys::{ibv_async_event as AsyncEvent, ibv_async_event_element_t as EventElement};
}

macro_rules! agree {
    ($($module:ident::$name:ident { $($field:ident)* })*) => {
        $(const _: () = {
            assert!(size_of::<$module::$name>() == size_of::<named::$name>(), stringify!($name));
            assert!(align_of::<$module::$name>() == align_of::<named::$name>(), stringify!($name));
            $(assert!(
                offset_of!($module::$name, $field) == offset_of!(named::$name, $field),
                concat!(stringify!($name), ".", stringify!($field))
            );)*
        };)*
    };
}

agree! {
    events::EventElement { srq port_num }
    events::AsyncEvent { element event_type }
    connection::CmChannel { fd }
    connection::CmGids { sgid dgid pkey }
    connection::CmAddress { src_addr_union dst_addr_union addr }
    connection::CmRoute { addr path_rec num_paths }
    connection::CmId { verbs channel context qp route ps port_num event pd qp_type }
    connection::CmParameters {
        private_data private_data_len responder_resources initiator_depth flow_control retry_count rnr_retry_count srq
        qp_num
    }
    connection::CmEvent { id listen_id event status param }
    objects::ContextOps { alloc_mw dealloc_mw poll_cq req_notify_cq post_srq_recv post_send post_recv }
    objects::Context { device ops cmd_fd async_fd num_comp_vectors mutex abi_compat }
    objects::Pd { context handle }
    objects::Cq { context channel cq_context handle cqe mutex cond comp_events_completed async_events_completed }
    objects::CompChannel { context fd refcnt }
    objects::Qp { context qp_context pd send_cq recv_cq srq handle qp_num state qp_type mutex cond events_completed }
    objects::Mr { context pd addr length handle lkey rkey }
    objects::Mw { context pd rkey handle type_ }
    objects::Srq { context srq_context pd handle mutex cond events_completed }
    requests::Sge { addr length lkey }
    requests::Word { imm_data invalidated_rkey }
    requests::RdmaTarget { remote_addr rkey }
    requests::Target { rdma }
    requests::BindInfo { mr addr length mw_access_flags }
    requests::Bind { mw rkey bind_info }
    requests::BindOrSegments { bind_mw }
    requests::SendWr {
        wr_id next sg_list num_sge opcode send_flags imm_data_invalidated_rkey_union wr qp_type bind_mw_tso_union
    }
    requests::RecvWr { wr_id next sg_list num_sge }
    requests::Wc {
        wr_id status opcode vendor_err byte_len imm_data_invalidated_rkey_union qp_num src_qp wc_flags pkey_index slid
        sl dlid_path_bits
    }
    settings::Gid { raw global }
    settings::GidEntry { gid gid_index port_num gid_type ndev_ifindex }
    settings::PortAttr {
        state max_mtu active_mtu gid_tbl_len port_cap_flags max_msg_sz bad_pkey_cntr qkey_viol_cntr pkey_tbl_len lid
        sm_lid lmc max_vl_num sm_sl subnet_timeout init_type_reply active_width active_speed phys_state link_layer
        flags port_cap_flags2
    }
    settings::DeviceAttr {
        fw_ver node_guid sys_image_guid max_mr_size page_size_cap vendor_id vendor_part_id hw_ver max_qp max_qp_wr
        device_cap_flags max_sge max_sge_rd max_cq max_cqe max_mr max_pd max_qp_rd_atom max_ee_rd_atom max_res_rd_atom
        max_qp_init_rd_atom max_ee_init_rd_atom atomic_cap max_ee max_rdd max_mw max_raw_ipv6_qp max_raw_ethy_qp
        max_mcast_grp max_mcast_qp_attach max_total_mcast_qp_attach max_ah max_fmr max_map_per_fmr max_srq max_srq_wr
        max_srq_sge max_pkeys local_ca_ack_delay phys_port_cnt
    }
    settings::QpCap { max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data }
    settings::QpInitAttr { qp_context send_cq recv_cq srq cap qp_type sq_sig_all }
    settings::SrqAttr { max_wr max_sge srq_limit }
    settings::SrqInitAttr { srq_context attr }
    settings::GlobalRoute { dgid flow_label sgid_index hop_limit traffic_class }
    settings::AhAttr { grh dlid sl src_path_bits static_rate is_global port_num }
    settings::QpAttr {
        qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num qp_access_flags cap ah_attr
        alt_ah_attr pkey_index alt_pkey_index en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic
        min_rnr_timer port_num timeout retry_cnt rnr_retry alt_port_num alt_timeout rate_limit
    }
}

/// The numbers of `numbers` are those of the headers, too.
mod numbers {
    use rdma_sys as named;

    use super::super::super::numbers::{
        FORK_UNNEEDED, MEM_WINDOW_TYPE_2B, RELIABLE_CONNECTION, SHARED_LIMIT, WINDOW_TYPE_2, WITH_IMM, access, event,
        manager, mask, opcode, send, state,
    };

    macro_rules! same {
        ($($ours:expr => $theirs:expr;)*) => {
            $(const _: () = assert!($ours as i64 == $theirs as i64, stringify!($ours));)*
        };
    }

    same! {
        access::LOCAL_WRITE => named::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        access::REMOTE_WRITE => named::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        access::REMOTE_READ => named::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;
        access::WINDOW_BIND => named::ibv_access_flags::IBV_ACCESS_MW_BIND.0;
        state::RESET => named::ibv_qp_state::IBV_QPS_RESET;
        state::INIT => named::ibv_qp_state::IBV_QPS_INIT;
        state::RTR => named::ibv_qp_state::IBV_QPS_RTR;
        state::ERROR => named::ibv_qp_state::IBV_QPS_ERR;
        state::RTS => named::ibv_qp_state::IBV_QPS_RTS;
        mask::STATE => named::ibv_qp_attr_mask::IBV_QP_STATE.0;
        mask::ACCESS_FLAGS => named::ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS.0;
        mask::PKEY_INDEX => named::ibv_qp_attr_mask::IBV_QP_PKEY_INDEX.0;
        mask::PORT => named::ibv_qp_attr_mask::IBV_QP_PORT.0;
        mask::AV => named::ibv_qp_attr_mask::IBV_QP_AV.0;
        mask::PATH_MTU => named::ibv_qp_attr_mask::IBV_QP_PATH_MTU.0;
        mask::TIMEOUT => named::ibv_qp_attr_mask::IBV_QP_TIMEOUT.0;
        mask::RETRY_CNT => named::ibv_qp_attr_mask::IBV_QP_RETRY_CNT.0;
        mask::RNR_RETRY => named::ibv_qp_attr_mask::IBV_QP_RNR_RETRY.0;
        mask::RQ_PSN => named::ibv_qp_attr_mask::IBV_QP_RQ_PSN.0;
        mask::MAX_QP_RD_ATOMIC => named::ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC.0;
        mask::MIN_RNR_TIMER => named::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER.0;
        mask::SQ_PSN => named::ibv_qp_attr_mask::IBV_QP_SQ_PSN.0;
        mask::MAX_DEST_RD_ATOMIC => named::ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC.0;
        mask::DEST_QPN => named::ibv_qp_attr_mask::IBV_QP_DEST_QPN.0;
        opcode::RDMA_WRITE => named::ibv_wr_opcode::IBV_WR_RDMA_WRITE;
        opcode::RDMA_WRITE_WITH_IMM => named::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
        opcode::SEND => named::ibv_wr_opcode::IBV_WR_SEND;
        opcode::RDMA_READ => named::ibv_wr_opcode::IBV_WR_RDMA_READ;
        opcode::LOCAL_INVALIDATE => named::ibv_wr_opcode::IBV_WR_LOCAL_INV;
        opcode::BIND_WINDOW => named::ibv_wr_opcode::IBV_WR_BIND_MW;
        send::SIGNALED => named::ibv_send_flags::IBV_SEND_SIGNALED.0;
        send::INLINE => named::ibv_send_flags::IBV_SEND_INLINE.0;
        manager::PORTS => named::rdma_port_space::RDMA_PS_TCP;
        manager::ADDR_RESOLVED => named::rdma_cm_event_type::RDMA_CM_EVENT_ADDR_RESOLVED;
        manager::ADDR_ERROR => named::rdma_cm_event_type::RDMA_CM_EVENT_ADDR_ERROR;
        manager::ROUTE_RESOLVED => named::rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_RESOLVED;
        manager::ROUTE_ERROR => named::rdma_cm_event_type::RDMA_CM_EVENT_ROUTE_ERROR;
        manager::CONNECT_REQUEST => named::rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST;
        manager::CONNECT_RESPONSE => named::rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_RESPONSE;
        manager::UNREACHABLE => named::rdma_cm_event_type::RDMA_CM_EVENT_UNREACHABLE;
        manager::REJECTED => named::rdma_cm_event_type::RDMA_CM_EVENT_REJECTED;
        manager::ESTABLISHED => named::rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED;
        manager::DISCONNECTED => named::rdma_cm_event_type::RDMA_CM_EVENT_DISCONNECTED;
        manager::DEVICE_REMOVAL => named::rdma_cm_event_type::RDMA_CM_EVENT_DEVICE_REMOVAL;
        FORK_UNNEEDED => named::IBV_FORK_UNNEEDED;
        RELIABLE_CONNECTION => named::ibv_qp_type::IBV_QPT_RC;
        SHARED_LIMIT => named::ibv_srq_attr_mask::IBV_SRQ_LIMIT.0;
        event::SHARED_LIMIT_REACHED => named::ibv_event_type::IBV_EVENT_SRQ_LIMIT_REACHED;
        WITH_IMM => named::ibv_wc_flags::IBV_WC_WITH_IMM.0;
        WINDOW_TYPE_2 => named::ibv_mw_type::IBV_MW_TYPE_2;
        MEM_WINDOW_TYPE_2B => named::ibv_device_cap_flags::IBV_DEVICE_MEM_WINDOW_TYPE_2B.0;
    }
}

/// Every completion status of the headers, and every kind of work that is posted here, has the name that says the same.
mod ends {
    use rdma_sys::{ibv_wc_opcode as kind, ibv_wc_status as status};

    use super::super::super::status::{WorkKind, WorkStatus};

    macro_rules! same {
        ($($theirs:expr => $ours:ident::$name:ident;)*) => {
            $(const _: () = assert!(matches!($ours::from_code($theirs), $ours::$name), stringify!($theirs));)*
        };
    }

    same! {
        status::IBV_WC_SUCCESS => WorkStatus::Success;
        status::IBV_WC_LOC_LEN_ERR => WorkStatus::LocalLength;
        status::IBV_WC_LOC_QP_OP_ERR => WorkStatus::LocalQueueOperation;
        status::IBV_WC_LOC_EEC_OP_ERR => WorkStatus::LocalContextOperation;
        status::IBV_WC_LOC_PROT_ERR => WorkStatus::LocalProtection;
        status::IBV_WC_WR_FLUSH_ERR => WorkStatus::Flushed;
        status::IBV_WC_MW_BIND_ERR => WorkStatus::WindowBind;
        status::IBV_WC_BAD_RESP_ERR => WorkStatus::BadResponse;
        status::IBV_WC_LOC_ACCESS_ERR => WorkStatus::LocalAccess;
        status::IBV_WC_REM_INV_REQ_ERR => WorkStatus::RemoteInvalidRequest;
        status::IBV_WC_REM_ACCESS_ERR => WorkStatus::RemoteAccess;
        status::IBV_WC_REM_OP_ERR => WorkStatus::RemoteOperation;
        status::IBV_WC_RETRY_EXC_ERR => WorkStatus::RetryExceeded;
        status::IBV_WC_RNR_RETRY_EXC_ERR => WorkStatus::ReceiverNotReady;
        status::IBV_WC_LOC_RDD_VIOL_ERR => WorkStatus::LocalDomain;
        status::IBV_WC_REM_INV_RD_REQ_ERR => WorkStatus::RemoteInvalidDatagram;
        status::IBV_WC_REM_ABORT_ERR => WorkStatus::RemoteAborted;
        status::IBV_WC_INV_EECN_ERR => WorkStatus::InvalidContextNumber;
        status::IBV_WC_INV_EEC_STATE_ERR => WorkStatus::InvalidContextState;
        status::IBV_WC_FATAL_ERR => WorkStatus::Fatal;
        status::IBV_WC_RESP_TIMEOUT_ERR => WorkStatus::ResponseTimeout;
        status::IBV_WC_GENERAL_ERR => WorkStatus::General;
        status::IBV_WC_TM_ERR => WorkStatus::TagMatching;
        status::IBV_WC_TM_RNDV_INCOMPLETE => WorkStatus::RendezvousIncomplete;
        kind::IBV_WC_SEND => WorkKind::Send;
        kind::IBV_WC_RDMA_WRITE => WorkKind::Write;
        kind::IBV_WC_RDMA_READ => WorkKind::Read;
        kind::IBV_WC_BIND_MW => WorkKind::Bind;
        kind::IBV_WC_LOCAL_INV => WorkKind::Invalidate;
        kind::IBV_WC_RECV => WorkKind::Received;
        kind::IBV_WC_RECV_RDMA_WITH_IMM => WorkKind::Written;
    }
}
