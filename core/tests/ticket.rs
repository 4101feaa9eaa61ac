//! Tickets: what is written is read back, and nothing else is read.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use proptest::prelude::*;
use umbra_core::key::{Access, Key};
use umbra_core::peer::{Peer, Sp};
use umbra_core::ticket::{Locator, TICKET, Ticket, TicketError};

fn locator() -> impl Strategy<Value = (Locator, u64)> {
    prop_oneof![
        (any::<u64>(), 0u64..1 << 40, 1u64..1 << 40)
            .prop_map(|(segment, offset, len)| { (Locator::Segment { segment, offset, size: offset + len }, len) }),
        (any::<u32>(), any::<u64>(), 1u64..1 << 40)
            .prop_map(|(pid, start, len)| (Locator::Process { pid, start }, len)),
        (any::<u32>(), 1u64..1 << 40).prop_map(|(sp, len)| (Locator::Asked { sp: Sp(sp) }, len)),
        (any::<u32>(), any::<bool>(), 1u64..1 << 40)
            .prop_map(|(rkey, direct, len)| (Locator::Verbs { rkey, direct }, len)),
        (any::<u32>(), any::<u16>(), any::<u64>(), any::<u64>(), 1u64..1 << 40).prop_map(
            |(mkey, vhca, device, registration, len)| (Locator::CrossVhca { mkey, vhca, device, registration }, len)
        ),
    ]
}

fn ticket() -> impl Strategy<Value = Ticket> {
    (locator(), 0u32..1 << 24, any::<u32>(), any::<u32>(), 0u64..1 << 60, 0u8..4).prop_map(
        |((locator, len), owner, region, generation, base, access)| Ticket {
            key: Key::new(Peer::from_bits(owner).unwrap(), region, generation),
            base,
            len,
            access: Access::from_bits(access).unwrap(),
            locator,
        },
    )
}

proptest! {
    #[test]
    fn a_ticket_is_read_as_it_was_written(ticket in ticket()) {
        prop_assert_eq!(Ticket::parse(&ticket.to_bytes()), Ok(ticket));
    }

    #[test]
    fn other_bytes_are_never_read_as_a_ticket(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        prop_assert!(Ticket::parse(&bytes).is_err());
    }
}

fn example() -> Ticket {
    let owner = Peer::from_bits(77).unwrap();
    let locator = Locator::Segment { segment: 3, offset: 4096, size: 1 << 20 };
    Ticket { key: Key::new(owner, 5, 6), base: 0x7000, len: 65_536, access: Access::READ, locator }
}

#[test]
fn every_truncation_and_every_extension_is_refused() {
    let bytes = example().to_bytes();
    for len in 0..TICKET {
        assert_eq!(Ticket::parse(&bytes[..len]), Err(TicketError::Length(len)));
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert_eq!(Ticket::parse(&longer), Err(TicketError::Length(TICKET + 1)));
}

#[test]
fn every_change_of_every_byte_is_refused() {
    let bytes = example().to_bytes();
    let mut refused = 0;
    for at in 0..TICKET {
        for change in 1..=255u8 {
            let mut changed = bytes;
            changed[at] ^= change;
            assert!(Ticket::parse(&changed).is_err(), "byte {at} changed by {change:#x} is accepted");
            refused += 1;
        }
    }
    assert_eq!(refused, 64 * 255);
}

#[test]
fn a_ticket_that_lies_about_its_segment_is_refused() {
    for (len, locator) in [
        (65_536, Locator::Segment { segment: 3, offset: 4096, size: 65_536 }),
        (2, Locator::Segment { segment: 3, offset: u64::MAX, size: 10 }),
        (0, Locator::Asked { sp: Sp(1) }),
    ] {
        let lie = Ticket { len, locator, ..example() };
        assert_eq!(Ticket::parse(&lie.to_bytes()), Err(TicketError::Nonsense));
    }
    let wraps = Ticket { base: u64::MAX, ..example() };
    assert_eq!(Ticket::parse(&wraps.to_bytes()), Err(TicketError::Nonsense));
}
