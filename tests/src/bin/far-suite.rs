//! The one suite of memory access between two machines with RDMA (s44 to s51).
//!
//! `far-suite own ADDRESS` owns memory until the other one ends it. `UMBRA_TEST_OWNERS=ADDRESS far-suite read` carries out
//! every scenario on it, and then the one that only a card can play.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "this program is test code: what surprises it ends it")]

use umbra_core::access::Event;
use umbra_core::access::MemoryAccess as _;
use umbra_core::access::device::{Device as _, Moved, Piece};
use umbra_core::access::message::Export;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::wire::Token;
use umbra_tests::conformance::{Bench, LIFE, ME, MEMORY, Rig as _, SECRET, owner, scenarios};
use umbra_tests::far::{self, Far};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["own", address] => {
            let came = far::own(address).unwrap();
            println!("{{\"ok\":true,\"rigs\":{came}}}");
        }
        ["read"] => {
            for (name, scenario) in scenarios::<Far>() {
                println!("{name}");
                scenario(&mut Bench::new());
            }
            println!("s46_after_the_revocation_the_card_itself_refuses_whoever_skips_the_check");
            the_card_itself_refuses();
            far::end();
        }
        _ => panic!("far-suite own ADDRESS, or far-suite read"),
    }
}

fn the_card_itself_refuses() {
    let mut rig = Far::new();
    let key = Key::new(owner(0), 0, 1);
    let base = rig.base(0);
    let mut export = Export {
        ticket: Ticket { key, base, len: MEMORY, access: Access::READ, locator: Locator::Asked { sp: ME } },
        secret: SECRET,
        shadows: [ME].into_iter().collect(),
    };
    let region = umbra_core::region::Region { key, incarnation: LIFE, base, len: MEMORY, access: Access::READ };
    export.ticket.locator = rig.locate(0, &region);
    rig.way().import(&export, LIFE).unwrap();
    rig.way().read(Span { key, offset: 0, len: 64 }, 0, Token(1)).unwrap();
    while !rig.progress().contains(&Event::Done { token: Token(1), status: Status::Ok }) {}
    rig.way().revoke(key).unwrap();
    while !rig.progress().contains(&Event::Revoked { key }) {}
    rig.take_back(0);
    rig.poke(0, 0, &[0xEE; 64]);
    // Past the check, as a reader with a bug or without a conscience would.
    let piece = Piece { place: 0, offset: 0, address: base, landing: 128, len: 64 };
    rig.way().device().attach(0, &export).unwrap();
    assert_eq!(rig.way().device().copy(Access::READ, &piece, 77), Ok(Moved::Begun));
    let end = loop {
        if let Some(end) = rig.way().device().ended() {
            break end;
        }
    };
    assert_eq!(end, (77, Status::KeyRevoked), "the card");
    let mut landed = [1; 64];
    rig.way().take(128, &mut landed).unwrap();
    assert_eq!(landed, [0; 64], "not one byte moved");
}
