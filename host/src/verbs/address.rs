//! What two queue pairs tell each other before they connect.

use umbra_core::codec::{Reader, Short, Writer};

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
    /// Reads that its device makes and answers at once; at least 1.
    pub reads: u8,
    /// Its port anywhere.
    pub gid: [u8; 16],
}

impl Address {
    /// The bytes for the link, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        let written = self.emit(&mut Writer::new(&mut bytes));
        debug_assert_eq!(written, Ok(()));
        bytes
    }

    /// Reads the bytes; `None` if no queue pair can have this address.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; ADDRESS_BYTES]) -> Option<Address> {
        Address::parse(&mut Reader::new(bytes))
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), Short> {
        to.u32(self.number)?;
        to.u32(self.first_packet)?;
        to.u32(self.mtu)?;
        to.u32(u32::from(self.reads) << 16 | u32::from(self.lid))?;
        to.bytes(&self.gid)
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Option<Address> {
        let (number, first_packet, mtu) = (from.u32().ok()?, from.u32().ok()?, from.u32().ok()?);
        let port = from.u32().ok()?;
        let (lid, reads) = (port as u16, u8::try_from(port >> 16).ok()?);
        let address = Address { number, first_packet, mtu, lid, reads, gid: from.array().ok()? };
        address.is_plausible().then_some(address)
    }

    /// Whether a queue pair can have it: both numbers have 24 bits, and packets five sizes.
    pub(super) const fn is_plausible(&self) -> bool {
        let (numbers, reads) = (self.number < 1 << 24 && self.first_packet < 1 << 24, self.reads > 0);
        numbers && reads && matches!(self.mtu, 256 | 512 | 1024 | 2048 | 4096)
    }

    /// Reads that may be under way at once towards either side: a device that is asked for more than it answers breaks the
    /// queue pair.
    pub(super) fn reads_with(&self, peer: &Address) -> u8 {
        self.reads.min(peer.reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_give_the_address_back_and_absurd_ones_are_refused() {
        let address = Address { number: 77, first_packet: 0x00ff_ffff, mtu: 1024, lid: 9, reads: 16, gid: [3; 16] };
        let bytes = address.to_bytes();
        assert_eq!(Address::from_bytes(&bytes), Some(address));
        for (at, value) in [(3, 1), (7, 1), (9, 3), (14, 0), (15, 1)] {
            let mut bytes = bytes;
            bytes[at] = value;
            assert_eq!(Address::from_bytes(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn both_sides_agree_on_the_reads_that_the_lesser_device_takes() {
        let address = |number, reads| Address { number, first_packet: 1, mtu: 1024, lid: 0, reads, gid: [3; 16] };
        for reads in [1, 16, 255] {
            let sides = [address(1, 16), address(2, reads)];
            // Each has the other's address by its bytes.
            let [Some(first), Some(second)] = sides.map(|side| Address::from_bytes(&side.to_bytes())) else {
                unreachable!("{reads}")
            };
            let agreed = reads.min(16);
            assert_eq!([sides[0].reads_with(&second), sides[1].reads_with(&first)], [agreed; 2]);
        }
    }
}
