//! A process dies before every single operation on the words of conversations.
//!
//! So does then whoever ends what the first one was doing, while others go on. Every conversation that was deposited is met;
//! its bytes come in order and without a gap, and if it is said to be complete, it is. Memory that a message was about is
//! read once or dropped, never both, and after that all places are free and empty.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_stream`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use std::cell::RefCell;
use std::collections::BTreeMap;

use deaths::{before_each, before_some, scripts};
use random::Random;
use umbra_core::atomic::crash;
use umbra_core::cell::BytesMut;
use umbra_core::stream::{
    Class, Conversation, Counts, End, Inlet, Kept, Mode, Outcome, Outlet, ReadError, Reclaimed, Reference, Shape,
    Streams, WriteError,
};

const SURVIVOR: u16 = 0;
const BURIER: u16 = 1;
const DYING: u16 = 2;
const OTHER: u16 = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Claim(Class),
    Keep,
    ClaimKept,
    GiveUp,
    Offer,
    Accept,
    Deposit,
    Write(usize, bool),
    Refer,
    End(End),
    Meet,
    Read(usize),
    Leave,
}

fn steps(random: &mut Random, most: u64) -> Vec<Step> {
    let step = |random: &mut Random| match random.below(32) {
        0..4 => Step::Claim(Class::Stream),
        4 => Step::Claim(Class::Message),
        5 => Step::Keep,
        6..8 => Step::ClaimKept,
        8 => Step::GiveUp,
        9..11 => Step::Offer,
        11..13 => Step::Accept,
        13..16 => Step::Deposit,
        16..20 => Step::Write(1 + random.index(120), random.happens(50)),
        20..22 => Step::Refer,
        22..24 => Step::End(if random.happens(60) { End::Complete } else { End::Broken }),
        24..26 => Step::Meet,
        26..30 => Step::Read(1 + random.index(90)),
        _ => Step::Leave,
    };
    (0..random.below(most + 1)).map(|_| step(random)).collect()
}

#[derive(Debug)]
struct Script {
    shape: Shape,
    before: Vec<(u16, Step)>,
    dying: Vec<Step>,
    survivor: Vec<Step>,
    others: Vec<Step>,
}

impl Script {
    fn new(random: &mut Random) -> Script {
        let (streams, ring) = (1 + random.below(3) as u32, [64, 128, 256][random.index(3)]);
        let (messages, block) = if random.happens(50) { (2, 100) } else { (0, 0) };
        let shape = Shape { mode: Mode::Nominal, streams, ring, messages, block };
        let before = steps(random, 26).into_iter().map(|step| (random.below(4) as u16, step)).collect();
        let mut few = |most| steps(random, most);
        Script { shape, before, dying: few(4), survivor: few(6), others: few(6) }
    }
}

/// A number for a conversation, the same at both of its ends.
fn number(of: Conversation) -> u64 {
    format!("{of:?}").bytes().fold(0, |sum, byte| (sum * 31 + u64::from(byte)) % (1 << 32))
}

fn byte(of: Conversation, at: u64) -> u8 {
    (number(of) + at * 7) as u8
}

/// What is known of the memory that a message is about.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    is_sent: bool,
    is_read: bool,
    is_dropped: bool,
    /// Somebody was about to say that he read it.
    is_in_hand: bool,
}

/// An end of a conversation, and how many bytes went through it.
struct Side<E> {
    end: E,
    at: u64,
    may_deposit: bool,
}

/// What a process does.
#[derive(Default)]
struct Process<'a> {
    outlets: Vec<Side<Outlet<'a>>>,
    inlets: Vec<Side<Inlet<'a>>>,
    kept: Vec<Kept>,
}

struct Scene<'a> {
    streams: Streams<'a>,
    processes: [Process<'a>; 4],
    references: RefCell<Vec<Known>>,
    /// Bytes of the conversations that were ended as complete, or were about to be.
    complete: BTreeMap<u64, u64>,
}

impl<'a> Scene<'a> {
    fn outlet(&mut self, by: u16, begun: Option<Conversation>, may_deposit: bool) {
        let end = begun.and_then(|begun| self.streams.outlet(begun, by));
        self.processes[usize::from(by)].outlets.extend(end.map(|end| Side { end, at: 0, may_deposit }));
    }

    fn inlet(&mut self, by: u16, met: Option<Conversation>) {
        let end = met.and_then(|met| self.streams.inlet(met, by));
        self.processes[usize::from(by)].inlets.extend(end.map(|end| Side { end, at: 0, may_deposit: false }));
    }

    fn play(&mut self, by: u16, steps: &[Step]) {
        for &step in steps {
            self.step(by, step);
        }
    }

    fn step(&mut self, by: u16, step: Step) {
        let streams = self.streams;
        let table = streams.table();
        let process = &mut self.processes[usize::from(by)];
        match step {
            Step::Claim(class) => self.outlet(by, table.claim(by, class, false), true),
            Step::Keep => process.kept.extend(table.keep(by)),
            Step::ClaimKept => {
                let begun = process.kept.last().and_then(|&kept| table.claim_kept(kept, by, false));
                self.outlet(by, begun, true);
            }
            Step::GiveUp => process.kept.pop().into_iter().for_each(|kept| table.give_up(kept, by)),
            Step::Offer => self.inlet(by, table.offer(by)),
            Step::Accept => self.outlet(by, table.accept(by, false), false),
            Step::Deposit => {
                if let Some(outlet) = process.outlets.iter_mut().find(|outlet| outlet.may_deposit) {
                    outlet.may_deposit = false;
                    assert!(outlet.end.deposit());
                }
            }
            Step::Write(len, more) => {
                let Some(outlet) = process.outlets.last_mut() else { return };
                let of = outlet.end.conversation();
                let bytes: Vec<u8> = (outlet.at..).map(|at| byte(of, at)).take(len).collect();
                match outlet.end.write(&bytes, outlet.at, more) {
                    Ok(written) => outlet.at += written as u64,
                    Err(error) => assert!(is_of_the_other(error), "{error:?}"),
                }
            }
            Step::Refer => {
                let Some(outlet) = process.outlets.last_mut() else { return };
                let block = self.references.borrow().len();
                self.references.borrow_mut().push(Known::default());
                let pool = number(outlet.end.conversation());
                let reference = Reference { pool, block: block as u64, ..Reference::default() };
                match outlet.end.refer(reference, outlet.at) {
                    Ok(()) => self.references.borrow_mut()[block].is_sent = true,
                    Err(error) => assert!(is_of_the_other(error), "{error:?}"),
                }
            }
            Step::End(how) => {
                if process.outlets.is_empty() {
                    return;
                }
                let outlet = process.outlets.remove(0);
                if how == End::Complete {
                    self.complete.insert(number(outlet.end.conversation()), outlet.at);
                }
                assert_ne!(outlet.end.end(how, |reference| self.drops(reference)), Outcome::Stale);
            }
            Step::Meet => self.inlet(by, table.meet(by)),
            Step::Read(len) => {
                self.read(by, len);
            }
            Step::Leave => {
                if !process.inlets.is_empty() {
                    let inlet = process.inlets.remove(0);
                    assert_ne!(inlet.end.leave(|reference| self.drops(reference)), Outcome::Stale);
                }
            }
        }
    }

    /// Perhaps several times.
    fn drops(&self, reference: Reference) {
        let known = &mut self.references.borrow_mut()[reference.block as usize];
        assert!(!known.is_read, "{reference:?} is another's");
        known.is_dropped = true;
    }

    /// Reads from the last conversation that it receives; why that ended, or `None` if there may be more.
    fn read(&mut self, by: u16, len: usize) -> Option<ReadError> {
        let inlet = self.processes[usize::from(by)].inlets.last_mut()?;
        let of = inlet.end.conversation();
        let front = match inlet.end.front() {
            Ok(front) => front,
            Err(error) => {
                assert!(matches!(error, ReadError::Empty | ReadError::Ended | ReadError::PeerDead), "{error:?}");
                let is_complete = error != ReadError::Ended || self.complete.get(&number(of)) == Some(&inlet.at);
                assert!(is_complete, "ended after {} bytes", inlet.at);
                return Some(error);
            }
        };
        if let Some(reference) = front.reference {
            assert_eq!((reference.pool, front.arg), (number(of), inlet.at));
            let known = |change: fn(&mut Known)| change(&mut self.references.borrow_mut()[reference.block as usize]);
            known(|known| {
                assert!(!known.is_read && !known.is_dropped, "twice");
                known.is_in_hand = true;
            });
            inlet.end.skip(&front);
            known(|known| (known.is_in_hand, known.is_read) = (false, true));
            return None;
        }
        let (goes_on, mut pad) = (inlet.end.is_in_part(), vec![0; len]);
        let piece = inlet.end.read(&mut pad).unwrap();
        assert!(goes_on || piece.arg == inlet.at, "from byte {} on, after {} bytes", piece.arg, inlet.at);
        let written: Vec<u8> = (inlet.at..).map(|at| byte(of, at)).take(piece.len).collect();
        assert_eq!(pad[..piece.len], written);
        inlet.at += piece.len as u64;
        None
    }

    fn reclaim(&self, dead: u16) -> Reclaimed {
        self.streams.reclaim(dead, |reference| self.drops(reference))
    }

    /// The survivor ends what the dead were doing, which is nothing then.
    fn reclaim_all(&mut self) {
        for dead in [BURIER, DYING] {
            self.reclaim(dead);
            assert_eq!(self.reclaim(dead), Reclaimed::default());
            self.processes[usize::from(dead)] = Process::default();
        }
    }

    /// All who live end what they do, and the survivor reads what waits.
    fn finish(&mut self) {
        for by in [SURVIVOR, OTHER] {
            while !self.processes[usize::from(by)].outlets.is_empty() {
                self.step(by, Step::End(End::Complete));
            }
            while !self.processes[usize::from(by)].kept.is_empty() {
                self.step(by, Step::GiveUp);
            }
        }
        while self.streams.table().is_waiting() {
            self.step(SURVIVOR, Step::Meet);
        }
        for by in [SURVIVOR, OTHER] {
            while !self.processes[usize::from(by)].inlets.is_empty() {
                self.processes[usize::from(by)].inlets.rotate_left(1);
                let end = (0..1000).find_map(|_| self.read(by, 50));
                // Nobody came to whom it offered itself; else somebody said how it ends.
                assert!(end.is_some_and(|end| end != ReadError::Empty || self.streams.table().counts().offered > 0));
                self.processes[usize::from(by)].inlets.rotate_right(1);
                self.step(by, Step::Leave);
            }
        }
        let Shape { streams, messages, .. } = self.streams.table().shape();
        let free = Counts { idle: streams as usize, room: messages as usize, ..Counts::default() };
        assert_eq!(self.streams.table().counts(), free);
        assert!((0..(streams + messages) as usize).all(|at| self.streams.look(at).unwrap().under_way == Some(0)));
        for known in self.references.borrow().iter().filter(|known| known.is_sent) {
            assert!(known.is_in_hand || known.is_read != known.is_dropped, "{known:?}");
        }
    }
}

/// Whether it is due to the other end of a conversation, or to how much fits.
fn is_of_the_other(error: WriteError) -> bool {
    matches!(error, WriteError::Full | WriteError::Unheard | WriteError::PeerDead | WriteError::TooLarge { .. })
}

#[test]
fn a_process_that_dies_in_a_conversation_leaves_what_it_said_and_its_place() {
    scripts(4000, |seed, random| {
        let script = Script::new(random);
        let mut memory = vec![u64::MAX; script.shape.words().unwrap()];
        let mut deaths = 0;
        let random = Random(random.bits());
        before_each(seed, &script, |death| {
            let mut is_over = false;
            deaths += before_some(seed, &"giving back", Random(random.0 ^ death), |givers_death| {
                let streams = Streams::create(BytesMut::from_words(&mut memory), script.shape).unwrap();
                let (processes, references) = (Default::default(), RefCell::default());
                let mut scene = Scene { streams, processes, references, complete: BTreeMap::new() };
                script.before.iter().for_each(|&(by, step)| scene.step(by, step));
                is_over = crash::before(death, || scene.play(DYING, &script.dying)).is_some();
                scene.play(SURVIVOR, &script.survivor);
                let is_given_back = crash::before(givers_death, || scene.reclaim(DYING)).is_some();
                scene.play(OTHER, &script.others);
                scene.reclaim_all();
                scene.play(SURVIVOR, &script.others);
                scene.finish();
                is_given_back
            });
            is_over
        });
        deaths
    });
}
