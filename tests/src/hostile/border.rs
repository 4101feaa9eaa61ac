//! The border of a meeting place, fed with whatever a link may bring.
//!
//! The link leads to another place; behind the border is a member. An input is a script: a byte that says what happens
//! and of which place, a length of two bytes, and the body of a frame of that length. The seeds are the frames of a
//! call that comes in and goes out again. What must hold: no panic; border and member come to rest after every step;
//! what goes out goes to a place that has a link, speaks for members here, and fits its buffer; a link that is lost
//! takes everybody beyond it along, and nobody here.

use umbra::call::border::{Border, BorderError, ops};
use umbra::call::{Capacities, Member, Outgoing, Shape, Station};
use umbra_core::chain::{Data, Node, Plan, RESPONSE, Verdict};
use umbra_core::codec::Reader;
use umbra_core::key::{Key, Span};
use umbra_core::peer::{Peer, WorldRank};
use umbra_core::wire::Op;

use crate::chain::{Planned, World, sum_over};

/// Seats in each of two places.
const SEATS: u16 = 3;
const HERE: Node = Node(0);
const DOOR: Node = Node(2);
const THERE: [Node; 3] = [Node(3), Node(4), Node(5)];
const ELSEWHERE: u32 = 1;
/// The first line for long replies in a member's table, behind those for offers.
const REPLY: u32 = 32;
/// Most things that are to be done after one step.
const WISHES: usize = 10_000;

// The two lowest bits of a step say what happens; the next two are the place.
const LINK: u8 = 0;
const GONE: u8 = 1;
const PLACE: u8 = 1 << 2;
// Of a frame the next two are the operation.
const GREET: u8 = 2;
const SIT: u8 = 2 | 1 << 4;
const MESSAGE: u8 = 2 | 2 << 4;
/// With this, of the operations that move data.
const MORE: u8 = 1 << 7;
const PULL: u8 = 2 | MORE;
const DATA: u8 = 2 | 1 << 4 | MORE;
/// The link takes no requests.
const FULL: u8 = 1 << 6;

const fn shape() -> Shape {
    Shape { messages: 4, message_bytes: 512, offer_bytes: 4096, ..Shape::new(SEATS) }.joined(0, 2)
}

fn step(script: &mut Vec<u8>, what: u8, body: &[u8]) {
    script.push(what | PLACE);
    script.extend_from_slice(&(body.len() as u16).to_le_bytes());
    script.extend_from_slice(body);
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn greeting() -> Vec<u8> {
    let shape = shape();
    let lives = [1; SEATS as usize];
    words(&[[3, SEATS.into(), shape.all, shape.message_bytes].as_slice(), &lives].concat())
}

/// A greeting, and a call of a member there over the one here and another there; then the first dies, or the link is lost.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut world = World::new(6, 1);
    world.spy = true;
    let mut planned = Planned { root: THERE[0], ..sum_over([THERE[0].0, HERE.0, THERE[1].0]) };
    planned.call.plan = Plan::Shape(umbra_core::tree::Shape::CHAIN);
    world.call(&planned);
    let conversation = |full: u8| {
        let mut script = Vec::new();
        step(&mut script, LINK, &[]);
        step(&mut script, GREET, &greeting());
        let heard = world.heard.iter().filter(|(to, _)| *to == HERE);
        for ((_, message), from) in heard.zip(THERE) {
            // For the life of whoever is the first to sit here.
            let address = words(&[from.0, 1, HERE.0, 0]);
            step(&mut script, MESSAGE | full, &[address.as_slice(), message].concat());
        }
        script
    };
    let (mut death, mut loss) = (conversation(0), conversation(FULL));
    step(&mut death, SIT, &words(&[THERE[0].0, 0]));
    step(&mut death, SIT, &words(&[THERE[0].0, 2]));
    step(&mut loss, GONE, &[]);
    step(&mut loss, LINK, &[]);
    vec![conversation(0), death, loss, fetched(0, 600, &[400, 200]), fetched(u64::MAX - 300, 600, &[]), replied(8)]
}

/// The same call as a rendezvous: the reply of the one there has so many bytes and is fetched, and then the reply of the one here is.
fn replied(len: u64) -> Vec<u8> {
    let span = |node: Node, generation| {
        let key = Key::new(Peer::rank(WorldRank(node.0)).expect("a small number"), REPLY, generation).to_bits();
        words(&[key as u32, (key >> 32) as u32, 0, 0, len as u32, 0])
    };
    let mut world = World::new(6, 1);
    world.spy = true;
    let mut planned = Planned { root: THERE[0], ..sum_over([THERE[0].0, HERE.0, THERE[1].0]) };
    planned.call.plan = Plan::Shape(umbra_core::tree::Shape::CHAIN);
    world.call(&planned);
    let mut script = Vec::new();
    step(&mut script, LINK, &[]);
    step(&mut script, GREET, &greeting());
    let heard = world.heard.iter().filter(|(to, _)| *to == HERE);
    for ((_, message), from) in heard.zip(THERE) {
        let mut message = message.clone();
        // Of both the flag, and of the answer a span in place of the data, and a second to read it.
        message[2] |= 64;
        if from == THERE[1] {
            message.truncate(RESPONSE);
            message[28..32].copy_from_slice(&24_u32.to_le_bytes());
            message[36..40].copy_from_slice(&1_000_000_u32.to_le_bytes());
            message.extend_from_slice(&span(from, 1));
        }
        let address = words(&[from.0, 1, HERE.0, 0]);
        step(&mut script, MESSAGE, &[address.as_slice(), &message].concat());
    }
    step(&mut script, DATA, &[words(&[1, 0]), vec![7; len as usize]].concat());
    step(&mut script, PULL, &[words(&[1, 1]), span(HERE, 0)].concat());
    script
}

/// A request over data that lies there, which comes in parts; and a piece is asked for of what nobody here offers.
fn fetched(offset: u64, len: u64, parts: &[usize]) -> Vec<u8> {
    let owner = Peer::rank(WorldRank(THERE[0].0)).expect("a small number");
    let span = Span { key: Key::new(owner, 0, 1), offset, len };
    let mut world = World::new(6, 1);
    world.spy = true;
    let mut planned = Planned { root: THERE[0], ..sum_over([THERE[0].0, HERE.0]) };
    planned.call.data = Data::Span(span);
    world.call(&planned);
    let mut script = Vec::new();
    step(&mut script, LINK, &[]);
    step(&mut script, GREET, &greeting());
    let address = words(&[THERE[0].0, 1, HERE.0, 0]);
    for (_, message) in world.heard.iter().filter(|(to, _)| *to == HERE) {
        step(&mut script, MESSAGE, &[address.as_slice(), message].concat());
    }
    for &len in parts {
        step(&mut script, DATA, &[words(&[1, 0]), vec![7; len]].concat());
    }
    let [low, high] = [Key::new(owner, 0, 1).to_bits() as u32, (Key::new(owner, 0, 1).to_bits() >> 32) as u32];
    step(&mut script, PULL, &words(&[1, 0, low, high, 0, 0, 64, 0]));
    script
}

/// A border, the member behind it, and which places have a link.
struct Rig {
    border: Border,
    member: Member,
    up: [bool; 4],
    body: Vec<u8>,
}

impl Rig {
    fn new() -> Rig {
        let station = Station::create("border", shape()).expect("a small place");
        let small = Capacities { calls: 4, call_bytes: 1024, functions: 1, remembered: 4, ..Capacities::new(6) };
        let mut member = Member::join_with(&station, HERE, small, |config| config).expect("a free seat");
        let add = |work: &mut umbra_core::chain::Work<'_>| {
            let _ = work.reply.set_data(&[1; 8]);
            Verdict::Done
        };
        member.register("sum", add).expect("the first function");
        let outgoing = Outgoing::new(|| ());
        let border = Border::new(&station, DOOR, outgoing.clone()).expect("a free seat");
        member.put_out(outgoing);
        Rig { border, member, up: [false; 4], body: vec![0; Border::body_max(shape())] }
    }

    fn step(&mut self, what: u8, frame: &[u8]) {
        let place = u32::from(what >> 2 & 3);
        match what & 3 {
            // No place has a link to itself.
            LINK if place != 0 => {
                self.up[place as usize] = true;
                self.border.on_link(place);
            }
            LINK | GONE => self.lose(place),
            _ => {
                let more = usize::from(what & MORE != 0) * 3;
                let all = [ops::GREET, ops::SIT, ops::MESSAGE, ops::PULL, ops::DATA, Op(0), Op(0)];
                let op = all[usize::from(what >> 4 & 3) + more];
                if let Err(error) = self.border.on_frame(place, op, frame) {
                    assert!(!error.to_string().is_empty());
                    if error == BorderError::Malformed {
                        self.lose(place);
                    }
                }
            }
        }
        self.settle(what & FULL == 0);
    }

    fn lose(&mut self, place: u32) {
        self.up[place as usize] = false;
        self.border.on_gone(place);
        if place == ELSEWHERE {
            assert_eq!(self.member.sees(&THERE), Some(THERE[0]), "whoever is beyond a lost link is dead");
        }
    }

    /// Does what is to be done until there is nothing more.
    fn settle(&mut self, takes_requests: bool) {
        for _ in 0..WISHES {
            let mut worked = self.member.turn() | self.border.flush();
            while let Some((place, op, len)) = self.border.poll(|_| takes_requests, &mut self.body) {
                worked = true;
                assert!(self.up[place as usize], "a frame for place {place}, to which there is no link");
                let body = self.body.get(..len).expect("what fits its buffer");
                if op == ops::MESSAGE {
                    let mut from = Reader::new(body);
                    let [sender, _, to, life] = [(); 4].map(|()| from.u32().expect("an address"));
                    assert!(shape().is_here(Node(sender)) && shape().place(Node(to)) == place && life != 0);
                }
            }
            if !worked {
                assert_eq!(self.member.sees(&[HERE]), None, "nobody elsewhere takes a seat from those here");
                return;
            }
        }
        panic!("border and member do not come to rest");
    }
}

/// Plays a script, up to its end.
fn play(mut script: &[u8]) -> Rig {
    let mut rig = Rig::new();
    while let Some((&[what, low, high], rest)) = script.split_first_chunk::<3>() {
        let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (frame, rest) = rest.split_at(len);
        script = rest;
        rig.step(what, frame);
    }
    rig
}

/// Plays a script, and loses the link.
pub(super) fn feed(script: &[u8]) {
    let mut rig = play(script);
    rig.lose(ELSEWHERE);
    rig.settle(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_call_that_comes_in_and_goes_out_again() {
        let rig = play(&seeds()[0]);
        let crossings = rig.border.crossings();
        assert_eq!((crossings.received, crossings.sent, crossings.stale), (2, 2, 0), "{crossings:?}");
        // Its function and its callback have run.
        assert_eq!((rig.member.figures().runs, rig.member.figures().malformed), (2, 0));
    }

    #[test]
    fn a_seed_has_its_data_fetched_before_its_function_runs() {
        let rig = play(&seeds()[3]);
        let crossings = rig.border.crossings();
        assert_eq!((crossings.fetched_bytes, crossings.sent, rig.member.figures().runs), (600, 1, 1), "{crossings:?}");
    }

    #[test]
    fn a_seed_has_replies_fetched_from_both_sides() {
        let rig = play(&seeds()[5]);
        let crossings = rig.border.crossings();
        assert_eq!((crossings.received, crossings.sent, rig.member.figures().runs), (2, 2, 2), "{crossings:?}");
        assert_eq!((crossings.fetched_bytes, crossings.given_bytes), (8, 8));
        // One that is longer than the call allows, or than there is memory for, is none.
        for (len, fetched) in [(16, 16), (0, 0)] {
            let rig = play(&replied(len));
            let crossings = rig.border.crossings();
            assert_eq!((crossings.fetched_bytes, crossings.given_bytes), (fetched, 0), "{len}: {crossings:?}");
            assert_eq!((crossings.sent, rig.member.figures().runs), (2, 2), "{len}: {crossings:?}");
        }
    }

    #[test]
    fn data_that_cannot_be_is_not_asked_for_and_bytes_that_were_not_asked_for_end_the_link() {
        for (offset, len) in [(u64::MAX - 300, 600), (0, u64::MAX), (0, 0), (0, 1 << 20)] {
            let rig = play(&fetched(offset, len, &[]));
            let crossings = rig.border.crossings();
            // The function runs, and finds nothing.
            assert_eq!((crossings.fetched_bytes, rig.member.figures().runs), (0, 1), "{offset} {len}: {crossings:?}");
            assert!(rig.up[ELSEWHERE as usize], "{offset} {len}");
        }
        for parts in [[400, 0], [400, 201], [600, 0], [600, 1]] {
            assert!(!play(&fetched(0, 600, &parts)).up[ELSEWHERE as usize], "{parts:?}");
        }
    }
}
