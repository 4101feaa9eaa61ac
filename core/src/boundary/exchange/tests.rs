//! Exchanges whose numbers come round.

use std::vec;
use std::vec::Vec;

use super::super::{Element, Key, Step};
use super::*;

type Machine = Exchange<Vec<Peer>, Vec<Entry>, Vec<Channel<()>>, Vec<u64>>;

/// Two ranks with a channel each way, after so many exchanges.
fn pair(slots: u32, sequence: u32) -> [Machine; 2] {
    [(0, 1), (1, 0)].map(|(me, other)| {
        let Some(element) = Element::new(1, 0, 0) else { unreachable!("a direction") };
        let key = |sender, receiver| Key { sender, receiver, field: 0, element, kind: Kind::GHOST };
        let entry = |key| Entry { key, count: 1, always: false, step: Step::Same };
        let storage = Storage {
            peers: vec![Peer::new(other, 0..1, 1..2)],
            entries: vec![entry(key(me, other)), entry(key(other, me))],
            channels: Vec::new(),
            live: vec![0; 2],
            local: 2..2,
        };
        let config = Config { epoch: 1, kind: Kind::GHOST, slots, smallest: 256, largest: u32::MAX, deadline: None };
        let Ok(mut machine) = Exchange::new(storage, config) else { unreachable!("two channels") };
        (machine.sequence, machine.begun) = (sequence, sequence > 0);
        for peer in &mut machine.peers {
            (peer.sent, peer.credit, peer.seen, peer.released) = (sequence, sequence, sequence, sequence);
        }
        machine
    })
}

#[test]
fn exchanges_go_on_after_their_numbers_have_come_round() {
    for slots in [2, 4, 16] {
        let mut ranks = pair(slots, u32::MAX - 20);
        let mut slot = (u32::MAX - 20) % slots;
        for _ in 0..40 {
            let mut heads = [[0; 72]; 2];
            for (rank, head) in ranks.iter_mut().zip(&mut heads) {
                assert!(rank.begin(0, Time(0)).is_ok());
                let message = rank.pack(0, head).and_then(|mut message| {
                    message.live()?;
                    message.commit(0, 0)
                });
                let Ok(message) = message else { panic!("{message:?}") };
                if rank.peers[0].rank == 1 {
                    slot = (slot + 1) % slots;
                }
                assert_eq!(message.slot, slot, "the slots take their turns");
                rank.on_sent(0);
            }
            heads.reverse();
            for (rank, head) in ranks.iter_mut().zip(&heads) {
                assert_eq!(rank.on_message(0, &head[..64]), Ok(Arrival::Whole));
                assert_eq!(rank.release(0), Ok(()));
                assert_eq!((rank.open(), rank.missing().count()), (0, 0));
            }
        }
        assert_eq!(ranks[0].sequence, 19);
    }
}

#[test]
fn a_pair_without_a_slot_to_be_ahead_in_is_refused_and_so_is_a_number_that_does_not_come_round_evenly() {
    for slots in [0, 1, 3, 6] {
        let storage =
            Storage { peers: Vec::new(), entries: Vec::new(), channels: Vec::new(), live: Vec::new(), local: 0..0 };
        let config = Config { epoch: 1, kind: Kind::GHOST, slots, smallest: 256, largest: u32::MAX, deadline: None };
        let refused: Result<Machine, _> = Exchange::new(storage, config);
        assert!(matches!(refused, Err(BuildError::Slots { slots: refused }) if refused == slots));
    }
}

#[test]
fn an_exchange_is_not_begun_while_a_message_without_channels_is_being_sent() {
    let storage = Storage {
        peers: vec![Peer::new(1, 0..0, 0..0)],
        entries: Vec::new(),
        channels: Vec::new(),
        live: Vec::new(),
        local: 0..0,
    };
    let config = Config { epoch: 1, kind: Kind::GHOST, slots: 2, smallest: 256, largest: u32::MAX, deadline: None };
    let (mut rank, mut head): (Machine, _) = (Exchange::new(storage, config).unwrap(), [0; HEAD]);
    assert_eq!(rank.begin(0, Time(0)), Ok(1));
    let message = rank.pack(0, &mut head).and_then(|message| message.commit(0, 0));
    assert_eq!(message.map(|message| message.sequence), Ok(1));
    assert_eq!(rank.begin(0, Time(0)), Err(ExchangeError::Held { rank: 1 }));
    rank.on_sent(0);
    assert_eq!(rank.begin(0, Time(0)), Ok(2));
}
