//! Answers of a network card's firmware. The first byte says to which command.

use umbra::xgvmi::XgvmiError;
use umbra::xgvmi::command::{self, Mkey};

/// An answer to each command.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let answer = |command: u8, len: usize, at: usize, value: &[u8]| {
        let mut bytes = vec![0; 1 + len];
        bytes[0] = command;
        bytes[1 + at..=at + value.len()].copy_from_slice(value);
        bytes
    };
    vec![
        // Shorter than a real one, which no input may be as long as; so this seed is refused.
        answer(0, 4000, 22, &[0x12, 0x34]),
        answer(1, 16, 9, &[0x12, 0x34, 0x56]),
        answer(2, 16, 0, &[]),
        answer(3, 80, 8, &[0x00, 0xab, 0xcd, 0xef]),
        answer(3, 80, 0, &[0x05, 0, 0, 0, 1, 2, 3, 4]),
    ]
}

/// A value that comes out is what the bytes hold at the places of the public tables; everything else is a refusal with
/// the status of the bytes, or says what is wrong.
pub(super) fn feed(bytes: &[u8]) {
    let Some((&which, answer)) = bytes.split_first() else { return };
    let (needed, told) = match which % 4 {
        0 => (16 + 4096, command::function(answer).map(|vhca| (22, u64::from(vhca), 2))),
        1 => (16, command::new_key(answer).map(|Mkey(key)| (9, u64::from(key >> 8), 3))),
        2 => (16, command::allowed(answer).map(|()| (0, 0, 1))),
        _ => (80, command::alias_key(answer).map(|Mkey(key)| (8, u64::from(key >> 8), 4))),
    };
    match told {
        Ok((at, value, width)) => {
            assert!(answer.len() >= needed && answer[0] == 0);
            let there = answer[at..at + width].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            assert_eq!(value, there);
        }
        Err(why) => {
            assert!(!why.to_string().is_empty());
            match why {
                XgvmiError::Refused { status, syndrome, .. } => {
                    assert!(status != 0 && answer[0] == status);
                    assert_eq!(answer[4..8], syndrome.to_be_bytes());
                }
                XgvmiError::Short { len, .. } => assert!(len == answer.len() && len < needed),
                XgvmiError::Nonsense { number, .. } => assert!(number >> 24 != 0 && which % 4 == 3),
                XgvmiError::BadAlias(state) => assert!(state == answer[0x13] & 7 && state != 0 && which % 4 == 3),
                other => panic!("no answer says that: {other}"),
            }
        }
    }
}
