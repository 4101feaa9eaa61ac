//! Why verbs cannot be used, and what to do about it.

use std::io;

/// Why there is no device, no memory or no queue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// The library is not installed.
    #[error(
        "no libibverbs on this machine ({0}): install libibverbs1 and ibverbs-providers, or choose another data path"
    )]
    NoLibrary(String),
    /// The library lacks something that this module needs.
    #[error("libibverbs is too old, it has no {0}: rdma-core 35 or later is needed")]
    OldLibrary(&'static str),
    /// The library of mlx5 cards is not installed, or too old.
    #[cfg(feature = "xgvmi")]
    #[error("no libmlx5 on this machine that takes firmware commands ({0}): install ibverbs-providers")]
    NoMlx5(String),
    /// The library of the connection manager is not installed.
    #[error("no librdmacm on this machine ({0}): install librdmacm1, or connect over a control link")]
    NoManager(String),
    /// There is no device, or none that could be used.
    #[error(
        "no RDMA device on this machine: load the card's driver, or `rdma link add NAME type rxe netdev INTERFACE` for \
         RDMA in software"
    )]
    NoDevice,
    /// No device has this name.
    #[error("no RDMA device is called {name:?}: there are {known}")]
    NoSuchDevice {
        /// The name asked for.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// The device is not there any more.
    #[error(
        "{device} is gone ({error}): what was made from it is of no use; open it again once `umbra devices` shows it"
    )]
    Gone {
        /// The device.
        device: String,
        /// How the system said so.
        error: io::Error,
    },
    /// The port is not active.
    #[error("port {port} of {device} is {state}: bring its link up")]
    PortNotActive {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// Its state, in words.
        state: String,
    },
    /// The device has no such port.
    #[error("{device} has no port {port}: its ports are 1 to {ports}")]
    NoSuchPort {
        /// The device.
        device: String,
        /// The port asked for.
        port: u8,
        /// How many it has.
        ports: u8,
    },
    /// The port has no such address.
    #[error("port {port} of {device} has no GID at index {index}: it has {known}; see `umbra devices`")]
    NoSuchGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The index asked for.
        index: u32,
        /// Those that it has, in words.
        known: String,
    },
    /// The port does not take the packets that both ends agreed on.
    #[error(
        "port {port} of {device} takes packets of {takes} bytes now, not the {wanted} that were agreed on: give both \
         ends' interfaces the same MTU, then open the port anew"
    )]
    Mtu {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// Bytes of the packets that were agreed on.
        wanted: u32,
        /// Bytes of the largest packet that the port takes.
        takes: u32,
    },
    /// No way leads to the peer.
    #[error(
        "no way from port {port} of {device} to {peer} ({error}): bring the links up on both sides, and choose addresses \
         of one network"
    )]
    Unreachable {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The peer's address.
        peer: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The device has no memory windows of type 2B.
    #[error("{device} has no memory windows of type 2B: register a region for each peer instead")]
    NoWindows {
        /// The device.
        device: String,
    },
    /// The device has no shared receive queues.
    #[error("{device} has no shared receive queues: give each queue pair its own buffers instead")]
    NoSharedReceives {
        /// The device.
        device: String,
    },
    /// The device does not tell when a shared receive queue runs low.
    #[error("{device} does not tell when shared buffers run low ({error}): post as many as all peers may use at once")]
    NoWarning {
        /// The device.
        device: String,
        /// What the driver said.
        error: io::Error,
    },
    /// The queue pair has no buffers of its own.
    #[error("queue pair receives into shared buffers: post them there")]
    ReceivesAreShared,
    /// No device leads to an address.
    #[error("no RDMA device leads to {to} ({error}): `umbra devices` shows those of this machine; is the link up?")]
    NoWay {
        /// The address.
        to: std::net::SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },
    /// The other side does not want to be connected, or does not listen.
    #[error("{who} did not come: it refused, or nobody listens there")]
    Refused {
        /// Who, or what of whom.
        who: String,
    },
    /// Nothing came in time.
    #[error("{who} did not come within {} ms", waited.as_millis())]
    Late {
        /// Who, or what of whom.
        who: String,
        /// How long it was waited for.
        waited: std::time::Duration,
    },
    /// What the other side said of its queue pairs makes no sense.
    #[error("the other side's queue pairs cannot exist: it does not speak this version of our protocol")]
    BadHello,
    /// Memory cannot be pinned.
    #[error(
        "cannot register {len} bytes beside {pinned} that are, at most {limit} may be locked in memory: raise the limit \
         (`ulimit -l`, or LimitMEMLOCK= of the service)"
    )]
    LockedMemory {
        /// Bytes asked for.
        len: usize,
        /// Bytes of this process that are pinned already.
        pinned: u64,
        /// The limit of this process, in bytes.
        limit: u64,
    },
    /// The device does not forget registered memory.
    #[error(
        "device did not take registered memory back, peers may still reach it ({0}): end what uses it, such as bound \
         windows, then close it again"
    )]
    StillRegistered(io::Error),
    /// The range lies outside the segment or the registered memory.
    #[error("{len} bytes at {offset} do not lie inside {size} bytes of registered memory")]
    OutOfBounds {
        /// First byte.
        offset: usize,
        /// Bytes.
        len: usize,
        /// Bytes there.
        size: usize,
    },
    /// Messages may be longer than what every device moves in one piece.
    #[error(
        "messages of {len} bytes are too long, {most} are what every device moves in one piece: spread the mesh over more \
         ranks"
    )]
    TooLong {
        /// Bytes.
        len: u64,
        /// Bytes at most.
        most: u64,
    },
    /// Nothing can be posted: the queue is full.
    #[error("queue is full: poll its completions, then post again")]
    Full,
    /// Nothing can be posted: the queue broke, or was never connected.
    #[error("queue is not connected, or broke: connect it again")]
    NotConnected,
    /// The driver or the kernel refused a call.
    #[error("{what} failed: {error}")]
    Call {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

impl VerbsError {
    /// What the last call left in `errno`.
    pub(super) fn last(what: &'static str) -> VerbsError {
        VerbsError::Call { what, error: io::Error::last_os_error() }
    }

    /// The code by which the system says that the device is gone, if it does.
    pub(crate) fn code_of_gone(&self) -> Option<i32> {
        let VerbsError::Call { error, .. } = self else { return None };
        error.raw_os_error().filter(|code| matches!(*code, libc::ENODEV | libc::EIO))
    }

    /// A call that returns the error number itself.
    pub(super) fn check(what: &'static str, code: i32) -> Result<(), VerbsError> {
        match code {
            0 => Ok(()),
            code => Err(VerbsError::Call { what, error: io::Error::from_raw_os_error(code) }),
        }
    }
}
