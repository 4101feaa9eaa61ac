//! The firmware commands, byte by byte, against the public tables.
//!
//! Answers are truncated everywhere.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use umbra::xgvmi::command::{self, Indirect, Mkey};
use umbra::xgvmi::{Command, XgvmiError};
use umbra_core::key::Access;
use umbra_core::region::Secret;

/// Bytes that are zero but for these, each a place and what begins there.
fn bytes(len: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut all = vec![0; len];
    for (at, part) in parts {
        all[*at..at + part.len()].copy_from_slice(part);
    }
    all
}

fn secret() -> Secret {
    Secret(std::array::from_fn(|n| 0xa0 + n as u8))
}

#[test]
fn a_function_is_asked_for_its_general_properties_as_they_are() {
    assert_eq!(command::query_function()[..], bytes(16, &[(0, &[0x01, 0x00]), (6, &[0, 1])]));
    // vhca_id lies at bit 0x30 of the properties, which follow 16 bytes of answer.
    let answer = bytes(16 + 4096, &[(22, &[0xbe, 0xef])]);
    assert_eq!(command::function(&answer).unwrap(), 0xbeef);
}

#[test]
fn an_indirect_key_has_an_entry_for_every_two_gibibytes() {
    let wanted = |len, access| Indirect {
        direct: Mkey(0x0012_3400),
        domain: 0x00ab_cdef,
        start: 0x0102_0304_0506_0708,
        len,
        access,
    };
    // Rights are bits 0x12 to 0x15 of the context, the mode is bits 0x16 and 0x17: here lr, rr and 3.
    let one = bytes(
        0x110 + 16,
        &[
            (0x00, &[0x02, 0x00]),
            (0x12, &[0b0001_0111]),
            (0x14, &[0xff, 0xff, 0xff, 0x00]),
            (0x1d, &[0xab, 0xcd, 0xef]),
            (0x20, &[1, 2, 3, 4, 5, 6, 7, 8]),
            (0x28, &[0, 0, 0, 0, 0x80, 0, 0, 0]),
            (0x47, &[1]),
            (0x4b, &[31]),
            (0x63, &[1]),
            (0x114, &[0x00, 0x12, 0x34, 0x00]),
            (0x118, &[1, 2, 3, 4, 5, 6, 7, 8]),
        ],
    );
    assert_eq!(command::create_mkey(&wanted(1 << 31, Access::READ)), one);
    let both = command::create_mkey(&wanted((1 << 31) + 1, Access::READ | Access::WRITE));
    assert_eq!(both.len(), 0x110 + 32);
    assert_eq!((both[0x12], both[0x47], both[0x63]), (0b0011_1111, 2, 2));
    assert_eq!(both[0x124..0x130], [0x00, 0x12, 0x34, 0x00, 1, 2, 3, 4, 0x85, 6, 7, 8]);
    let write = command::create_mkey(&wanted(1, Access::WRITE));
    assert_eq!(write[0x12], 0b0010_1011);
}

#[test]
fn leave_for_others_and_an_alias_carry_the_secret() {
    let key = Mkey(0x0abc_de00);
    let allow =
        bytes(64, &[(0, &[0x0b, 0x16]), (0x12, &[0xff, 0x01]), (0x14, &[0x00, 0x0a, 0xbc, 0xde]), (0x20, &secret().0)]);
    assert_eq!(command::allow_access(key, &secret())[..], allow);
    let alias = bytes(
        80,
        &[
            (0x00, &[0x0a, 0x00]),
            (0x06, &[0xff, 0x01]),
            (0x0c, &[0x80]),
            (0x10, &[0x01, 0x02]),
            (0x14, &[0x00, 0x0a, 0xbc, 0xde]),
            (0x20, &secret().0),
            (0x40, &[0x00, 0x77, 0x88, 0x99]),
        ],
    );
    assert_eq!(command::create_alias(0x0102, key, &secret(), 0x0077_8899)[..], alias);
}

#[test]
fn answers_name_the_key_that_was_made() {
    let made = bytes(16, &[(9, &[0x12, 0x34, 0x56])]);
    assert_eq!(command::new_key(&made).unwrap(), Mkey(0x1234_5600));
    let alias = bytes(80, &[(8, &[0x00, 0xab, 0xcd, 0xef])]);
    assert_eq!(command::alias_key(&alias).unwrap(), Mkey(0xabcd_ef00));
    let bad = bytes(80, &[(8, &[0x00, 0xab, 0xcd, 0xef]), (0x13, &[0b1010])]);
    assert!(
        matches!(command::alias_key(&bad), Err(XgvmiError::BadAlias(2))),
        "only the lowest three bits are the state"
    );
    let wide = bytes(80, &[(8, &[0x01, 0xab, 0xcd, 0xef])]);
    assert!(matches!(command::alias_key(&wide), Err(XgvmiError::Nonsense { number: 0x01ab_cdef, .. })));
}

#[test]
fn every_answer_that_is_cut_off_is_short_and_every_status_is_a_refusal() {
    type Read = fn(&[u8]) -> Result<(), XgvmiError>;
    let answers: [(Command, usize, Read); 4] = [
        (Command::Query, 16 + 4096, |answer| command::function(answer).map(drop)),
        (Command::CreateMkey, 16, |answer| command::new_key(answer).map(drop)),
        (Command::Allow, 16, |answer| command::allowed(answer)),
        (Command::CreateAlias, 80, |answer| command::alias_key(answer).map(drop)),
    ];
    for (command, len, read) in answers {
        let answer = vec![0; len];
        read(&answer).unwrap();
        for cut in 0..len {
            let short = read(&answer[..cut]).unwrap_err();
            let XgvmiError::Short { command: of, len } = short else { panic!("{short}") };
            assert_eq!((of, len), (command, cut));
        }
        for status in 1..=u8::MAX {
            let refused = read(&bytes(len, &[(0, &[status]), (4, &[1, 2, 3, 4])])).unwrap_err();
            let XgvmiError::Refused { command: of, status: said, syndrome: 0x0102_0304 } = refused else {
                panic!("{refused}")
            };
            assert_eq!((of, said), (command, status));
        }
    }
}
