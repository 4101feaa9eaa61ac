//! What two processes tell each other before they connect.
//!
//! ```text
//! 0      32     36             40      48    52
//! | frames | spans: number, packet | count: address, rkey |
//! ```
//!
//! Both queue pairs lie on one port, whose address is there once: a hello fits into the private data of a connection
//! request, where 56 bytes are ours.

use umbra_core::codec::{Reader, Short, Writer};

use super::address::{ADDRESS_BYTES, Address};
use super::work::Remote;

/// What two processes tell each other over their control link before they connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The queue pair for frames.
    pub frames: Address,
    /// The queue pair for spans, on the same port.
    pub spans: Address,
    /// Where the number of taken frames is wanted.
    pub count: Remote,
}

impl Hello {
    /// Bytes on the link.
    pub const BYTES: usize = ADDRESS_BYTES + 20;

    /// The bytes for the link, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Hello::BYTES] {
        let mut bytes = [0; Hello::BYTES];
        let written = self.emit(&mut Writer::new(&mut bytes));
        debug_assert_eq!(written, Ok(()));
        bytes
    }

    /// Reads the bytes; `None` if no process can have said that.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Hello::BYTES]) -> Option<Hello> {
        let mut from = Reader::new(bytes);
        let frames = Address::parse(&mut from)?;
        let spans = Address { number: from.u32().ok()?, first_packet: from.u32().ok()?, ..frames };
        let count = Remote { address: from.u64().ok()?, rkey: from.u32().ok()? };
        spans.is_plausible().then_some(Hello { frames, spans, count })
    }

    fn emit(&self, to: &mut Writer<'_>) -> Result<(), Short> {
        self.frames.emit(to)?;
        to.u32(self.spans.number)?;
        to.u32(self.spans.first_packet)?;
        to.u64(self.count.address)?;
        to.u32(self.count.rkey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_give_the_hello_back_and_absurd_ones_are_refused() {
        let frames = Address { number: 77, first_packet: 5, mtu: 1024, lid: 9, reads: 16, gid: [3; 16] };
        let spans = Address { number: 78, first_packet: 0x00ff_ffff, ..frames };
        let hello = Hello { frames, spans, count: Remote { address: 0x7f00_1234_5678, rkey: 99 } };
        let bytes = hello.to_bytes();
        assert_eq!(Hello::from_bytes(&bytes), Some(hello));
        for at in [3, 7, 9, 15, 35, 39] {
            let mut bytes = bytes;
            bytes[at] ^= 0x81;
            assert_eq!(Hello::from_bytes(&bytes), None, "byte {at}");
        }
    }
}
