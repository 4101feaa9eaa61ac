//! Tickets, with their checksum mended so that what lies behind it is reached.

use umbra_core::key::{Access, Key};
use umbra_core::peer::{Peer, Sp, WorldRank};
use umbra_core::ticket::{Locator, Ticket};

/// One ticket for every locator.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let owner = Peer::rank(WorldRank(5)).expect("a small rank is a peer");
    let locators = [
        Locator::Segment { segment: 3, offset: 4096, size: 1 << 20 },
        Locator::Process { pid: 42, start: 99 },
        Locator::Asked { sp: Sp(2) },
        Locator::CrossVhca { mkey: 0x1200, vhca: 3, device: 0x1122_3344_5566_7788, registration: 9 },
    ];
    let ticket =
        |locator| Ticket { key: Key::new(owner, 1, 7), base: 1 << 40, len: 4096, access: Access::READ, locator };
    locators.into_iter().map(|locator| ticket(locator).to_bytes().to_vec()).collect()
}

/// What parses, emits the same bytes; any single changed bit and any truncation of it are refused.
pub(super) fn feed(bytes: &[u8]) {
    match Ticket::parse(bytes) {
        Ok(ticket) => {
            assert_eq!(ticket.to_bytes().as_slice(), bytes);
            let mut bent = ticket.to_bytes();
            let bit = usize::from(bytes[40]) * 2 % (bent.len() * 8);
            bent[bit / 8] ^= 1 << (bit % 8);
            assert!(Ticket::parse(&bent).is_err(), "bit {bit} may change");
            assert!(Ticket::parse(&bent[..bit / 8]).is_err(), "{} bytes suffice", bit / 8);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
