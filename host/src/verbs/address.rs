//! What two queue pairs tell each other before they connect.

/// Bytes of an [`Address`] on a link.
pub const ADDRESS_BYTES: usize = 32;

/// What the other side needs to connect: sent over the control link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// Number of the queue pair.
    pub number: u32,
    /// Number of its first packet, below 2^24.
    pub first_packet: u32,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// Its port on an InfiniBand subnet.
    pub lid: u16,
    /// Its port anywhere.
    pub gid: [u8; 16],
}

impl Address {
    /// The bytes for the link, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.first_packet.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.mtu.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.lid.to_le_bytes());
        bytes[16..].copy_from_slice(&self.gid);
        bytes
    }

    /// Reads the bytes; `None` if no queue pair can have this address.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; ADDRESS_BYTES]) -> Option<Address> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (number, first_packet, mtu, lid) = (word(0), word(4), word(8), word(12));
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[16..]);
        let plausible = number < 1 << 24 && first_packet < 1 << 24 && matches!(mtu, 256 | 512 | 1024 | 2048 | 4096);
        let lid = u16::try_from(lid).ok()?;
        plausible.then_some(Address { number, first_packet, mtu, lid, gid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_give_the_address_back_and_absurd_ones_are_refused() {
        let address = Address { number: 77, first_packet: 0x00ff_ffff, mtu: 1024, lid: 9, gid: [3; 16] };
        let bytes = address.to_bytes();
        assert_eq!(Address::from_bytes(&bytes), Some(address));
        for (at, value) in [(3, 1), (7, 1), (9, 3), (14, 1)] {
            let mut bytes = bytes;
            bytes[at] = value;
            assert_eq!(Address::from_bytes(&bytes), None, "byte {at}");
        }
    }
}
