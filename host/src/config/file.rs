//! The configuration file, format version 1.
//!
//! ```text
//! # Format version: 1
//! # <host>,<dpu>:<ip>:<service port>[&<port>…]:<rank port>[&<port>…][,<next dpu>…]
//! node001,nodebf001:192.168.129.101:7010&7011:9010&9011
//! # RDMA device: nodebf001 mlx5_0:1:3
//! ```
//!
//! The first line is mandatory. The number of ports is the number of service processes of a DPU; it is
//! the same in both lists and for every DPU. Names are compared exactly: `bf1` is not `bf10`. One file may
//! list more hosts than a job uses. A line that names the RDMA device of a host's ranks, or of a DPU's service processes, is a
//! comment for readers that do not know it.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use super::error::{ConfigError, ConfigFault, DEVICE_PREFIX, FILE_MAX, VERSION_PREFIX};
use crate::input;
use crate::verbs::Choice;

/// A DPU as the file lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DpuLine {
    /// Its host name.
    pub name: String,
    /// The address of all its ports.
    pub address: Ipv4Addr,
    /// Where its service processes accept each other, by local id.
    pub service_ports: Vec<u16>,
    /// Where its service processes accept ranks, by local id.
    pub rank_ports: Vec<u16>,
}

/// A host as the file lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostLine {
    /// Its name.
    pub name: String,
    /// The DPUs in it.
    pub dpus: Vec<DpuLine>,
    /// Where it stands in the file, from 1.
    pub line: usize,
}

/// The RDMA device of a host's ranks, or of a DPU's service processes, as the file lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceLine {
    /// The host or the DPU.
    pub of: String,
    /// Its device.
    pub device: Choice,
    /// Where it stands in the file, from 1.
    pub line: usize,
}

/// All hosts that a file lists, in its order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Platform {
    pub(super) path: PathBuf,
    pub(super) hosts: Vec<HostLine>,
    pub(super) per_dpu: usize,
    pub(super) devices: Vec<DeviceLine>,
}

impl Platform {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`] with file and line.
    pub fn read(path: impl Into<PathBuf>) -> Result<Platform, ConfigError> {
        let path = path.into();
        let unreadable = |e| ConfigError { path: path.clone(), line: None, fault: ConfigFault::Unreadable(e) };
        let file = input::open(&path).map_err(unreadable)?;
        // What is no regular file does not tell its length.
        let bytes = input::read(&file, FILE_MAX + 1, input::PATIENCE).map_err(unreadable)?;
        if bytes.len() > FILE_MAX {
            return Err(ConfigError { path, line: None, fault: ConfigFault::TooLarge });
        }
        let text = String::from_utf8(bytes).map_err(|e| unreadable(io::Error::new(io::ErrorKind::InvalidData, e)))?;
        Platform::parse(&text, path)
    }

    /// Reads text; `path` is what errors call it.
    ///
    /// # Errors
    /// [`ConfigError`] with `path` and line.
    pub fn parse(text: &str, path: impl Into<PathBuf>) -> Result<Platform, ConfigError> {
        let path = path.into();
        let mut reading = Reading::default();
        let at = |line: usize, fault| ConfigError { path: path.clone(), line: Some(line), fault };
        let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
        match lines.next().and_then(|(_, line)| line.strip_prefix(VERSION_PREFIX)) {
            None => return Err(at(1, ConfigFault::NoVersion)),
            Some(version) if version.trim() != "1" => {
                return Err(at(1, ConfigFault::WrongVersion(version.trim().to_owned())));
            }
            Some(_) => {}
        }
        for (number, line) in lines {
            if line.starts_with(VERSION_PREFIX) {
                return Err(at(number, ConfigFault::SecondVersion));
            }
            if let Some(device) = line.strip_prefix(DEVICE_PREFIX) {
                reading.device(number, device).map_err(|fault| at(number, fault))?;
            } else if !line.is_empty() && !line.starts_with('#') {
                reading.host(number, line).map_err(|fault| at(number, fault))?;
            }
        }
        let Some(per_dpu) = reading.per_dpu else {
            return Err(ConfigError { path, line: None, fault: ConfigFault::NoHost });
        };
        // Hosts may come after their devices.
        let is_listed = |name: &String| reading.host_lines.contains_key(name) || reading.dpu_lines.contains_key(name);
        if let Some(nobody) = reading.devices.iter().find(|device| !is_listed(&device.of)) {
            return Err(at(nobody.line, ConfigFault::DeviceOfNobody(nobody.of.clone())));
        }
        Ok(Platform { path, hosts: reading.hosts, per_dpu, devices: reading.devices })
    }

    /// The platform of these hosts with their DPUs, to be written to `path`; nothing is checked before it is
    /// read back.
    #[must_use]
    pub fn of_hosts(path: PathBuf, hosts: impl IntoIterator<Item = (String, Vec<DpuLine>)>) -> Platform {
        let hosts: Vec<HostLine> = (2..).zip(hosts).map(|(line, (name, dpus))| HostLine { name, dpus, line }).collect();
        let first = hosts.iter().find_map(|h| h.dpus.first());
        let per_dpu = first.map_or(0, |dpu| dpu.service_ports.len());
        Platform { path, hosts, per_dpu, devices: Vec::new() }
    }

    /// The hosts, in the order of the file.
    #[must_use]
    pub fn hosts(&self) -> &[HostLine] {
        &self.hosts
    }

    /// The devices that it names, in its order.
    #[must_use]
    pub fn devices(&self) -> &[DeviceLine] {
        &self.devices
    }

    /// The file, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Service processes of each DPU.
    #[must_use]
    pub const fn service_processes_per_dpu(&self) -> usize {
        self.per_dpu
    }

    /// The names of all DPUs, in the order of the file: the job's list if none is given.
    #[must_use]
    pub fn dpu_names(&self) -> Vec<&str> {
        self.hosts.iter().flat_map(|h| h.dpus.iter().map(|d| d.name.as_str())).collect()
    }

    pub(super) fn whole_file(&self, fault: ConfigFault) -> ConfigError {
        ConfigError { path: self.path.clone(), line: None, fault }
    }
}

/// The text in the form that [`Platform::parse`] reads.
impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{VERSION_PREFIX} 1")?;
        for host in &self.hosts {
            f.write_str(&host.name)?;
            for dpu in &host.dpus {
                let ports = |list: &[u16]| list.iter().map(u16::to_string).collect::<Vec<_>>().join("&");
                write!(f, ",{}:{}:{}:{}", dpu.name, dpu.address, ports(&dpu.service_ports), ports(&dpu.rank_ports))?;
            }
            writeln!(f)?;
        }
        self.devices.iter().try_for_each(|line| writeln!(f, "{DEVICE_PREFIX} {} {}", line.of, line.device))
    }
}

/// What was read so far, with the lines where names and ports were seen first.
#[derive(Default)]
struct Reading {
    hosts: Vec<HostLine>,
    per_dpu: Option<usize>,
    devices: Vec<DeviceLine>,
    host_lines: HashMap<String, usize>,
    dpu_lines: HashMap<String, usize>,
    port_lines: HashMap<SocketAddrV4, usize>,
    device_lines: HashMap<String, usize>,
}

impl Reading {
    fn host(&mut self, line: usize, text: &str) -> Result<(), ConfigFault> {
        let mut fields = text.split(',').map(str::trim);
        let name = checked_name(fields.next().unwrap_or_default())?;
        if let Some(first) = self.host_lines.insert(name.clone(), line) {
            return Err(ConfigFault::DuplicateHost { name, first });
        }
        let dpus = fields.map(|entry| self.dpu(line, entry)).collect::<Result<Vec<_>, _>>()?;
        if dpus.is_empty() {
            return Err(ConfigFault::NoDpu(name));
        }
        self.hosts.push(HostLine { name, dpus, line });
        Ok(())
    }

    fn device(&mut self, line: usize, text: &str) -> Result<(), ConfigFault> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[of, device] = words.as_slice() else {
            return Err(ConfigFault::BadDeviceLine(text.trim().to_owned()));
        };
        let (of, device) = (of.to_owned(), device.parse().map_err(ConfigFault::BadDevice)?);
        if let Some(first) = self.device_lines.insert(of.clone(), line) {
            return Err(ConfigFault::SecondDevice { name: of, first });
        }
        self.devices.push(DeviceLine { of, device, line });
        Ok(())
    }

    fn dpu(&mut self, line: usize, entry: &str) -> Result<DpuLine, ConfigFault> {
        let fields: Vec<&str> = entry.split(':').map(str::trim).collect();
        let &[name, address, service, rank] = fields.as_slice() else {
            return Err(ConfigFault::BadEntry(entry.to_owned()));
        };
        let name = checked_name(name)?;
        if let Some(first) = self.dpu_lines.insert(name.clone(), line) {
            return Err(ConfigFault::DuplicateDpu { name, first });
        }
        let address: Ipv4Addr = address.parse().map_err(|_| ConfigFault::BadAddress(address.to_owned()))?;
        let (service_ports, rank_ports) = (ports(service)?, ports(rank)?);
        if service_ports.len() != rank_ports.len() {
            let (service, rank) = (service_ports.len(), rank_ports.len());
            return Err(ConfigFault::UnequalLists { dpu: name, service, rank });
        }
        let expected = *self.per_dpu.get_or_insert(service_ports.len());
        if service_ports.len() != expected {
            return Err(ConfigFault::UnequalDpus { dpu: name, got: service_ports.len(), expected });
        }
        for &port in service_ports.iter().chain(&rank_ports) {
            let address = SocketAddrV4::new(address, port);
            if let Some(first) = self.port_lines.insert(address, line) {
                return Err(ConfigFault::DuplicatePort { address, first });
            }
        }
        Ok(DpuLine { name, address, service_ports, rank_ports })
    }
}

fn checked_name(name: &str) -> Result<String, ConfigFault> {
    let good = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || ":&".contains(c));
    if good { Ok(name.to_owned()) } else { Err(ConfigFault::BadName(name.to_owned())) }
}

fn ports(list: &str) -> Result<Vec<u16>, ConfigFault> {
    list.split('&')
        .map(|port| match port.trim().parse::<u16>() {
            Ok(number) if number != 0 => Ok(number),
            _ => Err(ConfigFault::BadPort(port.trim().to_owned())),
        })
        .collect()
}
