//! The machine of chained calls, fed with whatever a transport may bring.
//!
//! Meanwhile it has calls of its own under way. An input is a script: a byte that names the sender and how time passes,
//! a length of two bytes, and a message of that length. The seeds are real conversations. What must hold: no panic; the
//! machine comes to rest after every step; what it sends is a message to a member; and when every deadline has passed,
//! no place is taken any more.

use umbra::call::{Capacities, Heap};
use umbra_core::chain::{Action, Call, Caps, Config, Life, Machine, Mode, Node, Verdict, peek_reply};
use umbra_core::key::{Key, Span};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;

use crate::chain::{SUM, World, sum_over};

const MEMBERS: u32 = 4;
/// Most things that the machine may want to do after one step.
const WISHES: usize = 10_000;
/// How often it is woken when it wants to be, before time passes in larger steps: a call without room tries again every
/// half millisecond until its time is over, and a request may allow it more than an hour.
const PUNCTUAL: usize = 5000;

/// Conversations in which member 1 gets requests and answers.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let short = [Mode::empty(), Mode::COLLECT | Mode::CANCEL_ON_FAIL, Mode::CUT_THROUGH | Mode::ORDERED];
    let long = [Mode::RENDEZVOUS, Mode::RENDEZVOUS | Mode::ORDERED];
    let more = [Mode::FULL_LIST, Mode::REWRITE, Mode::FULL_LIST | Mode::REWRITE | Mode::COLLECT];
    short.into_iter().chain(long).chain(more).map(conversation).collect()
}

fn conversation(mode: Mode) -> Vec<u8> {
    let mut world = World::new(MEMBERS, 1);
    world.spy = true;
    let mut down = sum_over(0..MEMBERS);
    (down.call.mode, down.call.plan) = (mode, umbra_core::chain::Plan::Shape(Shape::CHAIN));
    let mut own = crate::chain::Planned { root: Node(1), ..sum_over(1..MEMBERS) };
    own.call.mode = mode;
    // As in the machine that is fed, its own call is the first there.
    world.start(&own).expect("a call that is not refused");
    world.call(&down);
    let mut script = Vec::new();
    for (to, bytes) in &world.heard {
        if *to == Node(1) {
            script.push(if script.is_empty() { 0 } else { 2 });
            script.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            script.extend_from_slice(bytes);
        }
    }
    script
}

/// Plays a script, to a machine with a place for each depth and to one with places for all.
pub(super) fn feed(script: &[u8]) {
    [3, 0].into_iter().for_each(|classes| play(script, classes));
}

fn play(mut script: &[u8], classes: u8) {
    let config = Config {
        classes,
        ask: Lapse::from_millis(1),
        silence: Lapse::from_millis(20),
        ..Config::new(Node(1), Life(1))
    };
    let capacities = Capacities { calls: 6, call_bytes: 2048, remembered: 4, notes: 4, ..Capacities::new(MEMBERS) };
    let mut machine = capacities.machine(config).expect("there is memory");
    machine.register(SUM).expect("the first function");
    let mut now = Time(1);
    let call = Call { callback: SUM, caps: Caps { header: 0, data: 8 }, ..Call::new(SUM, &[Node(2), Node(3)]) };
    machine.start(&call, now).expect("a call of our own");
    let mut buffer = vec![0; config.message_max as usize];
    settle(&mut machine, now, &mut buffer, 0);
    while let Some((&[how, low, high], rest)) = script.split_first_chunk::<3>() {
        let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (message, rest) = rest.split_at(len);
        script = rest;
        now = now + Lapse(u64::from(how >> 4) * 300_000);
        machine.on_time(now);
        if machine.on_message(Node(u32::from(how % 6)), Node(1), message, now).is_err() {
            settle(&mut machine, now, &mut buffer, how);
            assert!(
                machine.on_message(Node(u32::from(how % 6)), Node(1), message, now).is_ok(),
                "there is room after polling"
            );
        }
        if let Some(told) = peek_reply(message) {
            // Whatever it says: whose reply waits here was asked for it.
            let parked = machine.parked(told.call, told.edge);
            assert!(parked.is_none_or(|(child, _)| child != Node(1) && child.0 < MEMBERS));
        }
        settle(&mut machine, now, &mut buffer, how);
    }
    for wake in 0..WISHES {
        let Some(due) = machine.deadline() else { break };
        let late = if wake < PUNCTUAL { Lapse(0) } else { Lapse::from_secs(1) };
        now = now.max(due) + late;
        machine.on_time(now);
        settle(&mut machine, now, &mut buffer, 0);
    }
    assert!(machine.is_empty(), "{} places are still taken when every deadline has passed", machine.len());
}

fn settle(machine: &mut Machine<Heap>, now: Time, buffer: &mut [u8], how: u8) {
    for _ in 0..WISHES {
        let Some(action) = machine.poll(now, buffer) else { return };
        match action {
            Action::Send { to, len_bytes, .. } => {
                assert!(to.0 < MEMBERS && len_bytes >= 32 && len_bytes <= buffer.len())
            }
            Action::Run { handle, .. } => {
                let mut work = machine.work(handle).expect("user code that is to be run");
                if let Some(all) = work.full_list() {
                    // Whoever sent it: the part lies in it.
                    let part: Vec<Node> = work.members().collect();
                    let all: Vec<Node> = all.collect();
                    assert!(all[1..].windows(part.len()).any(|some| some == part) || part == all);
                }
                // One that is too long at times.
                let _ = work.rewrite_header(&[how; 1025][..1024 + usize::from(how & 1)]);
                let span = Span { key: Key::from_bits(how.into()), offset: 0, len: 8 };
                let _ = match work.rendezvous() {
                    Some(_) => work.reply.set_span(span),
                    None => work.reply.set_data(&[how; 8]),
                };
                let callback = matches!(work.phase, umbra_core::chain::Phase::Wait(_));
                let verdict = match how & 8 {
                    0 => Verdict::Done,
                    _ if callback => Verdict::Fault(1),
                    _ => Verdict::Pending,
                };
                machine.finish(handle, verdict).expect("user code that is to be run");
            }
            Action::Ended { handle } => machine.release(handle).expect("a call that has ended"),
        }
    }
    panic!("the machine does not come to rest");
}
