//! A process dies before every single operation on the words of a channel.
//!
//! So does then whoever gives back what the first one held, while others go on. Whoever is left gets every message that was
//! sent, whole, at most once and in the order of its sender, but for one that a dead receiver had taken; and after that all
//! slots are free, and as many messages fit as before.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_channel`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use deaths::{before_each, before_some, scripts};
use random::Random;
use umbra_core::atomic::crash;
use umbra_core::cell::BytesMut;
use umbra_core::channel::{Header, Loan, Messages, ReceiveError, Reclaimed, SendError, Shape, Taken};

const SURVIVOR: u16 = 0;
const BURIER: u16 = 1;
const DYING: u16 = 2;
const OTHER: u16 = 3;
/// Died long ago, and had nothing.
const GONE: u16 = 7;
/// No message is longer.
const BLOCK: u32 = 64;

#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    /// Sends what it wrote into a slot.
    SendLoan,
    /// Keeps a slot to write into.
    KeepLoan,
    Receive,
    /// Receives, and keeps the message where it lies.
    KeepTaken,
    Peek,
    /// Gives one thing back that it kept.
    GiveBack,
    Reclaim,
}

fn steps(random: &mut Random, most: u64) -> Vec<Step> {
    let step = |random: &mut Random| match random.below(16) {
        0..5 => Step::Send,
        5 => Step::SendLoan,
        6 => Step::KeepLoan,
        7..12 => Step::Receive,
        12 => Step::KeepTaken,
        13 => Step::Peek,
        14 => Step::GiveBack,
        _ => Step::Reclaim,
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
        let capacity = [1, 2, 3, 4, 7, 64][random.index(6)];
        let shape = Shape { capacity, spares: random.below(4) as u32, block: BLOCK };
        let before = steps(random, 20).into_iter().map(|step| (random.below(4) as u16, step)).collect();
        let mut few = |most| steps(random, most);
        Script { shape, before, dying: few(4), survivor: few(4), others: few(4) }
    }
}

fn header(number: u64) -> Header {
    Header { hints: !number, sender: number << 7, handle: [number, number ^ 5], flags: number as u32 }
}

fn bytes(number: u64) -> Vec<u8> {
    (0..number % 60).map(|at| (number * 31 + at * 7) as u8).collect()
}

/// The number of a message that is whole.
fn number(header: Header, bytes: &[u8]) -> u64 {
    let number = !header.hints;
    assert_eq!((header, bytes), (self::header(number), &self::bytes(number)[..]));
    number
}

/// What was sent, and what came.
#[derive(Default, Debug)]
struct Mail {
    /// The messages of each sender in order; with the position of those of which he knows that they were sent.
    begun: BTreeMap<u16, Vec<(u64, Option<u64>)>>,
    /// By position.
    received: BTreeMap<u64, u64>,
    /// Messages that dead receivers may have taken.
    lost: usize,
    next: u64,
}

impl Mail {
    /// The number of the next message.
    fn begin(&mut self, by: u16) -> u64 {
        self.next += 1;
        self.begun.entry(by).or_default().push((self.next, None));
        self.next
    }

    fn sent(&mut self, by: u16, position: u64) {
        self.begun.entry(by).or_default().last_mut().unwrap().1 = Some(position);
    }

    fn received(&mut self, position: u64, number: u64) {
        assert_eq!(self.received.insert(position, number), None, "two messages at one position");
    }

    /// Nothing was made up, doubled, overtaken or lost.
    fn check(&self) {
        let different: BTreeSet<u64> = self.received.values().copied().collect();
        assert_eq!(different.len(), self.received.len(), "{self:?}");
        let begun: BTreeSet<u64> = self.begun.values().flatten().map(|&(number, _)| number).collect();
        assert!(different.is_subset(&begun), "{self:?}");
        let mut missing = 0;
        for of_one in self.begun.values() {
            let numbers: BTreeSet<u64> = of_one.iter().map(|&(number, _)| number).collect();
            let came: Vec<u64> = self.received.values().copied().filter(|number| numbers.contains(number)).collect();
            assert!(came.is_sorted(), "{self:?}");
            for (number, position) in of_one {
                let Some(position) = position else { continue };
                let at = self.received.get(position);
                assert!(at.is_none_or(|at| at == number), "{self:?}");
                missing += usize::from(at.is_none());
            }
        }
        assert!(missing <= self.lost, "{self:?}");
    }
}

/// What a process keeps.
#[derive(Default)]
struct Kept<'a> {
    loans: Vec<Loan<'a>>,
    taken: Vec<Taken<'a>>,
}

struct Scene<'a> {
    messages: Messages<'a>,
    mail: Mail,
    kept: [Kept<'a>; 4],
}

impl Scene<'_> {
    fn play(&mut self, by: u16, steps: &[Step]) {
        for &step in steps {
            self.step(by, step);
        }
    }

    fn step(&mut self, by: u16, step: Step) {
        let (messages, kept) = (self.messages, &mut self.kept[usize::from(by)]);
        match step {
            Step::Send => {
                let number = self.mail.begin(by);
                match messages.send(by, header(number), &bytes(number)) {
                    Ok(position) => self.mail.sent(by, position.0),
                    Err(error) => assert_eq!(error, SendError::Full),
                }
            }
            Step::SendLoan => {
                let number = self.mail.begin(by);
                let Ok(mut loan) = messages.loan(by, bytes(number).len()) else { return };
                loan.header = header(number);
                loan.bytes().write(0, &bytes(number)).unwrap();
                match loan.send() {
                    Ok(position) => self.mail.sent(by, position.0),
                    Err(unsent) => assert_eq!(unsent.error, SendError::Full),
                }
            }
            Step::KeepLoan => kept.loans.extend(messages.loan(by, 3)),
            Step::Receive => {
                self.receive(by);
            }
            Step::KeepTaken => {
                self.mail.lost += 1;
                let taken = messages.take(by);
                self.mail.lost -= 1;
                let Ok(taken) = taken else { return };
                let (received, mut pad) = (taken.received(), [0; BLOCK as usize]);
                taken.copy_to(&mut pad).unwrap();
                self.mail.received(received.position.0, number(received.header, &pad[..received.len]));
                kept.taken.push(taken);
            }
            Step::Peek => {
                let mut pad = [0; BLOCK as usize];
                match messages.peek(&mut pad) {
                    Ok(peeked) => drop(number(peeked.header, &pad[..peeked.len])),
                    Err(error) => assert_eq!(error, ReceiveError::Empty),
                }
            }
            Step::GiveBack => {
                drop(kept.loans.pop());
                drop(kept.taken.pop());
            }
            Step::Reclaim => assert_eq!(messages.reclaim(GONE, |_, _| ()), Reclaimed::default()),
        }
    }

    /// Whether there was a message.
    fn receive(&mut self, by: u16) -> bool {
        let mut pad = [0; BLOCK as usize];
        self.mail.lost += 1;
        let received = self.messages.receive(by, &mut pad);
        self.mail.lost -= 1;
        match received {
            Ok(received) => {
                self.mail.received(received.position.0, number(received.header, &pad[..received.len]));
                true
            }
            Err(error) => {
                assert_eq!(error, ReceiveError::Empty);
                false
            }
        }
    }

    /// It will not run again, and gives nothing back itself.
    fn end(&mut self, dead: u16) {
        mem::forget(mem::take(&mut self.kept[usize::from(dead)]));
    }

    /// Gives back what the dead had, which is nothing then.
    fn reclaim(&self) {
        for dead in [BURIER, DYING] {
            self.messages.reclaim(dead, |header, bytes| {
                let mut copy = vec![0; bytes.len()];
                bytes.read(0, &mut copy).unwrap();
                number(header, &copy);
            });
            assert_eq!(self.messages.reclaim(dead, |_, _| ()), Reclaimed::default());
        }
    }

    /// Slots are free, kept by the living, or have a message that waits.
    fn check_slots(&self) {
        let queue = self.messages.queue();
        let kept: usize = self.kept.iter().map(|kept| kept.loans.len() + kept.taken.len()).sum();
        let Shape { capacity, spares, .. } = queue.shape();
        assert_eq!(queue.free_slots() + kept + queue.len(), (capacity + spares) as usize);
    }

    /// As many messages fit as ever, with all spares beside them, and go from hand to hand in order.
    fn check_room(&mut self) {
        let (messages, mut pad) = (self.messages, [0; BLOCK as usize]);
        let Shape { capacity, spares, .. } = messages.queue().shape();
        let first = messages.send(OTHER, header(0), &[]).unwrap().0;
        for at in 1..u64::from(capacity) {
            assert_eq!(messages.send(OTHER, header(at), &bytes(at)).map(|position| position.0), Ok(first + at));
        }
        assert_eq!(messages.send(OTHER, header(0), &[]), Err(SendError::Full));
        let loans: Vec<_> = (0..spares).map(|_| messages.loan(OTHER, 1).unwrap()).collect();
        assert_eq!(messages.loan(OTHER, 1).map(|_| ()), Err(SendError::Full));
        drop(loans);
        for at in 0..u64::from(capacity) {
            let received = messages.receive(SURVIVOR, &mut pad).unwrap();
            assert_eq!(number(received.header, &pad[..received.len]), at);
        }
        assert_eq!(messages.queue().free_slots(), (capacity + spares) as usize);
    }
}

#[test]
fn a_process_that_dies_at_a_channel_takes_one_message_with_it_at_most() {
    scripts(300, |seed, random| {
        let script = Script::new(random);
        let mut memory = vec![u64::MAX; script.shape.words().unwrap()];
        let mut deaths = 0;
        let random = Random(random.bits());
        before_each(seed, &script, |death| {
            let mut is_over = false;
            deaths += before_some(seed, &"giving back", Random(random.0 ^ death), |givers_death| {
                let messages = Messages::create(BytesMut::from_words(&mut memory), script.shape).unwrap();
                let mut scene = Scene { messages, mail: Mail::default(), kept: Default::default() };
                script.before.iter().for_each(|&(by, step)| scene.step(by, step));
                is_over = crash::before(death, || scene.play(DYING, &script.dying)).is_some();
                scene.end(DYING);
                scene.play(SURVIVOR, &script.survivor);
                let is_given_back = crash::before(givers_death, || messages.reclaim(DYING, |_, _| ())).is_some();
                scene.end(BURIER);
                scene.play(OTHER, &script.others);
                scene.reclaim();
                scene.play(SURVIVOR, &script.others);
                scene.check_slots();
                scene.kept = Default::default();
                while scene.receive(SURVIVOR) {}
                scene.mail.check();
                scene.check_room();
                is_given_back
            });
            is_over
        });
        deaths
    });
}
