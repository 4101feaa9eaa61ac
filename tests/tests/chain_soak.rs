//! Calls one after the other, as many as wanted (scenario 56).
//!
//! Numbers in messages come round, and memory stays what it is. `UMBRA_CHAIN_SOAK` is the number of calls (default
//! 300000; the full form takes 10000000, in the release profile).
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::HashMap;

use umbra::call::{Capacities, Heap};
use umbra_core::chain::{Action, Call, Caps, Config, Life, Machine, Node, Outcome, Phase, Verdict};
use umbra_core::time::Time;
use umbra_tests::chain::SUM;

/// Answers that are kept, to be said again when their place and generation come round.
const KEPT: u64 = 64;

/// Place and generation at the parent, which an answer names: two bytes each.
fn edge(message: &[u8]) -> [u8; 4] {
    message[20..24].try_into().unwrap()
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Does what a machine has to do, and puts its one message into the buffer; how long that is.
fn work(machine: &mut Machine<Heap>, now: Time, buffer: &mut [u8]) -> Option<usize> {
    let mut sent = None;
    loop {
        // What was polled stays where it is until the next message, of which there is none.
        match machine.poll(now, buffer) {
            Some(Action::Send { len_bytes, .. }) => assert!(sent.replace(len_bytes).is_none(), "one message"),
            Some(Action::Run { handle, .. }) => {
                let mut work = machine.work(handle).unwrap();
                let number = match work.phase {
                    Phase::Wait(answer) => u64::from_le_bytes(answer.data.try_into().unwrap()),
                    _ => u64::from_le_bytes(work.header.try_into().unwrap()),
                };
                work.reply.set_data(&number.to_le_bytes()).unwrap();
                machine.finish(handle, Verdict::Done).unwrap();
            }
            Some(Action::Ended { .. }) => {}
            None => return sent,
        }
    }
}

#[test]
fn s56_calls_without_end_take_no_answer_of_an_earlier_round_and_no_more_memory() {
    let calls: u64 = std::env::var("UMBRA_CHAIN_SOAK").map_or(300_000, |text| text.parse().unwrap());
    let capacities = Capacities { calls: 2, call_bytes: 1024, remembered: 8, ..Capacities::new(2) };
    let [mut maker, mut member] = [0, 1].map(|node| {
        let mut machine = capacities.machine(Config { classes: 2, ..Config::new(Node(node), Life(1)) }).unwrap();
        machine.register(SUM).unwrap();
        machine
    });
    let (mut buffer, members) = (vec![0; 64 << 10], [Node(1)]);
    let (mut kept, mut again, mut memory) = (HashMap::<[u8; 4], Vec<u8>>::new(), 0, 0);
    for number in 0..calls {
        let (now, header) = (Time(1 + number), number.to_le_bytes());
        let caps = Caps { header: 0, data: 8 };
        let call = Call { callback: SUM, caps, header: &header, ..Call::new(SUM, &members) };
        let handle = maker.start(&call, now).unwrap();
        let len = work(&mut maker, now, &mut buffer).unwrap();
        // An answer of a call of long ago to the same place, whose generation looks the same.
        if let Some(old) = kept.get(&edge(&buffer)) {
            let stale = maker.figures().stale;
            maker.on_message(Node(1), Node(0), old, now).unwrap();
            assert_eq!(maker.figures().stale, stale + 1, "call {number}");
            assert!(maker.outcome(handle).unwrap().is_none(), "call {number} has ended");
            again += 1;
        }
        member.on_message(Node(0), Node(1), &buffer[..len], now).unwrap();
        let len = work(&mut member, now, &mut buffer).unwrap();
        let answer = buffer[..len].to_vec();
        maker.on_message(Node(1), Node(0), &answer, now).unwrap();
        assert!(work(&mut maker, now, &mut buffer).is_none());
        let Some(Outcome::Done { members: 2, data, .. }) = maker.outcome(handle).unwrap() else { panic!("{number}") };
        assert_eq!(data, header);
        maker.release(handle).unwrap();
        assert!(work(&mut maker, now, &mut buffer).is_none());
        assert!(maker.is_empty() && member.is_empty());
        if number < KEPT {
            kept.insert(edge(&answer), answer);
        }
        if number == calls / 10 {
            memory = resident_kib();
        }
    }
    println!("{calls} calls: {again} answers of earlier rounds came again");
    // Generations have two bytes in a message, and two places take turns at most.
    assert!(again >= KEPT.min(calls) * (calls / (2 << 16)), "{again}");
    assert!(resident_kib() < memory + 1024, "{memory} KiB have become {}", resident_kib());
}
