//! Ports of devices, and their addresses.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::abi;
use super::address::Address;
use super::{Device, VerbsError};

/// The state of a port: `enum ibv_port_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PortState {
    /// No link.
    Down,
    /// The link is being set up.
    Initializing,
    /// The link is set up, but carries no data yet.
    Armed,
    /// The link carries data.
    Active,
    /// Another state.
    Other(u32),
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortState::Down => f.write_str("down"),
            PortState::Initializing => f.write_str("initializing"),
            PortState::Armed => f.write_str("armed"),
            PortState::Active => f.write_str("active"),
            PortState::Other(code) => write!(f, "in state {code}"),
        }
    }
}

/// What a port's link is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Link::InfiniBand => "InfiniBand",
            Link::Ethernet => "Ethernet",
        })
    }
}

/// What kind of address a GID is: `enum ibv_gid_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidKind {
    /// InfiniBand.
    InfiniBand,
    /// RoCE version 1: Ethernet frames, not routable.
    RoceV1,
    /// RoCE version 2: UDP.
    RoceV2,
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GidKind::InfiniBand => "IB",
            GidKind::RoceV1 => "RoCE v1",
            GidKind::RoceV2 => "RoCE v2",
        })
    }
}

/// One address of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gid {
    /// Its place in the port's table.
    pub index: u32,
    /// Its kind.
    pub kind: GidKind,
    /// Its bytes.
    pub bytes: [u8; 16],
}

impl Gid {
    /// The IPv4 address, if it stands for one.
    #[must_use]
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.bytes).to_ipv4_mapped()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ipv4() {
            Some(address) => fmt::Display::fmt(&address, f),
            None => fmt::Display::fmt(&Ipv6Addr::from(self.bytes), f),
        }
    }
}

/// What a port says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortInfo {
    /// Its number, from 1.
    pub number: u8,
    /// Its state.
    pub state: PortState,
    /// What its link is made of.
    pub link: Link,
    /// Bytes of the largest packet on the wire now.
    pub mtu: u32,
    /// Its local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Its addresses, without the empty places of the table.
    pub gids: Vec<Gid>,
}

impl PortInfo {
    /// All addresses with their places.
    pub(super) fn gids_in_words(&self) -> String {
        match self.gids.as_slice() {
            [] => "none".to_owned(),
            gids => gids.iter().map(|gid| format!("{} ({gid})", gid.index)).collect::<Vec<_>>().join(", "),
        }
    }

    /// The place of an address. With the same bytes a port may have one of each version of RoCE: then that of RoCE v2, which the
    /// connection manager speaks.
    pub(super) fn gid_of(&self, bytes: &[u8; 16]) -> Option<&Gid> {
        let same = || self.gids.iter().filter(|gid| gid.bytes == *bytes);
        same().find(|gid| gid.kind == GidKind::RoceV2).or_else(|| same().next())
    }

    /// The address to use if nobody chose one: RoCE v2 over IPv4, then RoCE v2, then the first.
    #[must_use]
    pub fn preferred_gid(&self) -> Option<&Gid> {
        let routable = |gid: &&Gid| gid.kind == GidKind::RoceV2;
        let gids = || self.gids.iter();
        gids()
            .filter(routable)
            .find(|gid| gid.ipv4().is_some())
            .or_else(|| gids().find(routable))
            .or_else(|| gids().next())
    }
}

/// An active port with the address that stands for it.
#[derive(Clone, Debug)]
pub struct Port {
    /// The device.
    pub device: Arc<Device>,
    /// The address.
    pub gid: Gid,
    pub(super) number: u8,
    pub(super) link: Link,
    pub(super) lid: u16,
    pub(super) mtu: u32,
}

/// Bytes of the largest packet: an `enum ibv_mtu` counts doublings from 128.
pub(super) fn mtu(port: &abi::PortAttr) -> u32 {
    128 << port.active_mtu.min(5)
}

impl Port {
    /// Refuses packets of `wanted` bytes if the port takes only smaller ones by now: some drivers would connect, and lose
    /// them.
    pub(super) fn check_mtu(&self, wanted: u32) -> Result<(), VerbsError> {
        let takes = mtu(&self.device.attributes(self.number)?);
        if takes < wanted {
            return Err(VerbsError::Mtu { device: self.device.name().to_owned(), port: self.number, wanted, takes });
        }
        Ok(())
    }

    /// Why a queue pair that was prepared well could not be connected to `peer`.
    pub(super) fn explain(&self, error: VerbsError, peer: &Address) -> VerbsError {
        let VerbsError::Call { error, .. } = error else { return error };
        let (device, port) = (self.device.name().to_owned(), self.number);
        let now = self.device.port(port);
        if !now.as_ref().is_ok_and(|now| now.gids.contains(&self.gid)) {
            let known = now.map_or_else(|error| error.to_string(), |now| now.gids_in_words());
            return VerbsError::NoSuchGid { device, port, index: self.gid.index, known };
        }
        let peer = Gid { index: 0, kind: self.gid.kind, bytes: peer.gid }.to_string();
        VerbsError::Unreachable { device, port, peer, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_addresses_that_of_roce_v2_is_meant() {
        let gid = |index, kind, bytes| Gid { index, kind, bytes: [bytes; 16] };
        let gids = vec![
            gid(0, GidKind::RoceV1, 1),
            gid(1, GidKind::RoceV2, 1),
            gid(2, GidKind::RoceV1, 2),
            gid(3, GidKind::RoceV2, 3),
        ];
        let info = PortInfo { number: 1, state: PortState::Active, link: Link::Ethernet, mtu: 1024, lid: 0, gids };
        let found = [1, 2, 3, 4].map(|bytes| info.gid_of(&[bytes; 16]).map(|gid| gid.index));
        assert_eq!(found, [Some(1), Some(2), Some(3), None]);
    }
}
