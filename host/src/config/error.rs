//! What is wrong with a configuration file, and where.

use std::fmt;
use std::net::SocketAddrV4;
use std::path::PathBuf;

use crate::quantity::counted;
use crate::verbs::NotADevice;

/// More bytes than any real platform file has.
pub(super) const FILE_MAX: usize = 64 * 1024 * 1024;
/// What the first line begins with.
pub(super) const VERSION_PREFIX: &str = "# Format version:";
/// What a line that names a device begins with.
pub(super) const DEVICE_PREFIX: &str = "# RDMA device:";

/// A configuration cannot be used: where and why.
#[derive(Debug)]
pub struct ConfigError {
    /// The file, as it was named.
    pub path: PathBuf,
    /// The line, from 1; absent if the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong.
    pub fault: ConfigFault,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.fault)
    }
}
impl std::error::Error for ConfigError {}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFault {
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Unreadable(std::io::Error),
    /// The file is larger than any platform needs.
    #[error("file has over {FILE_MAX} bytes: this is no configuration")]
    TooLarge,
    /// The first line does not tell the version.
    #[error("first line must be \"{VERSION_PREFIX} 1\"")]
    NoVersion,
    /// Another version than 1.
    #[error("format version {0:?} is not supported: use version 1")]
    WrongVersion(String),
    /// A second version line.
    #[error("second version line: keep only the first line of the file")]
    SecondVersion,
    /// No line lists a host.
    #[error("no host is listed: add a line <host>,<dpu>:<ip>:<service ports>:<rank ports>")]
    NoHost,
    /// A host without DPU.
    #[error("host {0:?} lists no DPU: add ,<dpu>:<ip>:<service ports>:<rank ports>")]
    NoDpu(String),
    /// A name is empty or has a blank in it.
    #[error("{0:?} is not a name")]
    BadName(String),
    /// Not four fields.
    #[error("DPU entry {0:?} needs four fields <dpu>:<ip>:<service ports>:<rank ports>")]
    BadEntry(String),
    /// Not an IPv4 address.
    #[error("{0:?} is not an IPv4 address")]
    BadAddress(String),
    /// Not a port.
    #[error("{0:?} is not a port between 1 and 65535")]
    BadPort(String),
    /// The two lists of one DPU differ in length.
    #[error(
        "DPU {dpu:?} has {} but {}: list one of each a service process",
        counted(*service as u64, "service port", "service ports"),
        counted(*rank as u64, "rank port", "rank ports")
    )]
    UnequalLists {
        /// Which DPU.
        dpu: String,
        /// Length of the first list.
        service: usize,
        /// Length of the second list.
        rank: usize,
    },
    /// Two DPUs have different numbers of ports.
    #[error("DPU {dpu:?} has {got} service processes, others {expected}: every DPU runs the same number")]
    UnequalDpus {
        /// Which DPU.
        dpu: String,
        /// Its number.
        got: usize,
        /// The number of the first DPU of the file.
        expected: usize,
    },
    /// A host is listed twice.
    #[error("host {name:?} was already listed in line {first}")]
    DuplicateHost {
        /// Which host.
        name: String,
        /// The earlier line.
        first: usize,
    },
    /// A DPU is listed twice.
    #[error("DPU {name:?} was already listed in line {first}")]
    DuplicateDpu {
        /// Which DPU.
        name: String,
        /// The earlier line.
        first: usize,
    },
    /// An address and port is given to two service processes, or twice to one.
    #[error("{address} was already used in line {first}")]
    DuplicatePort {
        /// Which address.
        address: SocketAddrV4,
        /// The earlier line.
        first: usize,
    },
    /// A line that names a device has not two words.
    #[error("{0:?} is not a host or DPU and its device: write \"{DEVICE_PREFIX} NAME DEVICE\"")]
    BadDeviceLine(String),
    /// A device is not named as devices are.
    #[error(transparent)]
    BadDevice(NotADevice),
    /// A device is given to a host or DPU that the file does not list.
    #[error("no host or DPU of the file is called {0:?}: names are compared exactly")]
    DeviceOfNobody(String),
    /// A host or DPU gets two devices.
    #[error("{name:?} has a device already, by line {first}")]
    SecondDevice {
        /// Which host or DPU.
        name: String,
        /// The earlier line.
        first: usize,
    },
    /// The job's list names a DPU that the file does not list.
    #[error("no host lists DPU {0:?}: names are compared exactly")]
    UnknownDpu(String),
    /// The job's list names no DPU.
    #[error("the job's list of DPUs is empty")]
    EmptyJob,
    /// The job's list names a DPU twice.
    #[error("the job's list of DPUs names {0:?} twice")]
    RepeatedDpu(String),
    /// More service processes than the wire can name.
    #[error("{0} service processes are more than can be named")]
    TooMany(usize),
    /// The file lists another number of service processes than the environment says.
    #[error("file lists {file} service processes a DPU, the environment says {environment}")]
    PerDpuDiffers {
        /// What the file says.
        file: usize,
        /// What the environment says.
        environment: u32,
    },
}
