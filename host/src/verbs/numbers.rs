//! The numbers of the verbs interface, as far as this module uses them.
//!
//! Source: `infiniband/verbs.h` of rdma-core.

/// `enum ibv_access_flags`.
pub(super) mod access {
    pub(in super::super) const LOCAL_WRITE: i32 = 1;
    pub(in super::super) const REMOTE_WRITE: i32 = 1 << 1;
    pub(in super::super) const REMOTE_READ: i32 = 1 << 2;
    pub(in super::super) const WINDOW_BIND: i32 = 1 << 4;
}

/// `enum ibv_qp_state`.
pub(super) mod state {
    pub(in super::super) const RESET: u32 = 0;
    pub(in super::super) const INIT: u32 = 1;
    pub(in super::super) const RTR: u32 = 2;
    pub(in super::super) const RTS: u32 = 3;
    pub(in super::super) const ERROR: u32 = 6;
}

/// `enum ibv_qp_attr_mask`.
pub(super) mod mask {
    pub(in super::super) const STATE: i32 = 1;
    pub(in super::super) const ACCESS_FLAGS: i32 = 1 << 3;
    pub(in super::super) const PKEY_INDEX: i32 = 1 << 4;
    pub(in super::super) const PORT: i32 = 1 << 5;
    pub(in super::super) const AV: i32 = 1 << 7;
    pub(in super::super) const PATH_MTU: i32 = 1 << 8;
    pub(in super::super) const TIMEOUT: i32 = 1 << 9;
    pub(in super::super) const RETRY_CNT: i32 = 1 << 10;
    pub(in super::super) const RNR_RETRY: i32 = 1 << 11;
    pub(in super::super) const RQ_PSN: i32 = 1 << 12;
    pub(in super::super) const MAX_QP_RD_ATOMIC: i32 = 1 << 13;
    pub(in super::super) const MIN_RNR_TIMER: i32 = 1 << 15;
    pub(in super::super) const SQ_PSN: i32 = 1 << 16;
    pub(in super::super) const MAX_DEST_RD_ATOMIC: i32 = 1 << 17;
    pub(in super::super) const DEST_QPN: i32 = 1 << 20;
}

/// `enum ibv_wr_opcode`.
pub(super) mod opcode {
    pub(in super::super) const RDMA_WRITE: u32 = 0;
    pub(in super::super) const RDMA_WRITE_WITH_IMM: u32 = 1;
    pub(in super::super) const SEND: u32 = 2;
    pub(in super::super) const RDMA_READ: u32 = 4;
    pub(in super::super) const LOCAL_INVALIDATE: u32 = 7;
    pub(in super::super) const BIND_WINDOW: u32 = 8;
}

/// `enum ibv_send_flags`.
pub(super) mod send {
    pub(in super::super) const SIGNALED: u32 = 1 << 1;
    pub(in super::super) const INLINE: u32 = 1 << 3;
}

/// `enum rdma_cm_event_type`, and the port space of reliable connections.
pub(super) mod manager {
    pub(in super::super) const PORTS: u32 = 0x0106;
    pub(in super::super) const ADDR_RESOLVED: u32 = 0;
    pub(in super::super) const ADDR_ERROR: u32 = 1;
    pub(in super::super) const ROUTE_RESOLVED: u32 = 2;
    pub(in super::super) const ROUTE_ERROR: u32 = 3;
    pub(in super::super) const CONNECT_REQUEST: u32 = 4;
    pub(in super::super) const CONNECT_RESPONSE: u32 = 5;
    pub(in super::super) const UNREACHABLE: u32 = 7;
    pub(in super::super) const REJECTED: u32 = 8;
    pub(in super::super) const ESTABLISHED: u32 = 9;
    pub(in super::super) const DISCONNECTED: u32 = 10;
    pub(in super::super) const DEVICE_REMOVAL: u32 = 11;
}

/// `enum ibv_event_type`.
pub(super) mod event {
    pub(in super::super) const SHARED_LIMIT_REACHED: u32 = 15;
}

/// `IBV_FORK_UNNEEDED`.
pub(super) const FORK_UNNEEDED: u32 = 2;
/// `IBV_SRQ_LIMIT`.
pub(super) const SHARED_LIMIT: i32 = 1 << 1;
/// `IBV_QPT_RC`.
pub(super) const RELIABLE_CONNECTION: u32 = 2;
/// `IBV_WC_WITH_IMM`.
pub(super) const WITH_IMM: u32 = 1 << 1;
/// `IBV_MW_TYPE_2`.
pub(super) const WINDOW_TYPE_2: u32 = 2;
/// `IBV_DEVICE_MEM_WINDOW_TYPE_2B`.
pub(super) const MEM_WINDOW_TYPE_2B: u32 = 1 << 24;
