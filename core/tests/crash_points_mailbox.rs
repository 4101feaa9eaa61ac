//! A process dies before every single operation on the words of a mailbox.
//!
//! So does then whoever gives back what the first one held. Whoever is left gets every message that was sent, at most once
//! and in the order of its sender, but for one that a dead receiver had taken; and after that all slots are free, and as
//! many messages fit as before.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_mailbox`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use std::collections::BTreeSet;

use deaths::{before_each, scripts, words};
use random::Random;
use umbra_core::atomic::crash;
use umbra_core::ring::line::Line;
use umbra_core::ring::mailbox::{Mailbox, words_for};
use umbra_core::shared_slots::Owner;

/// Messages of the one who dies have numbers from here on, those of the survivor lower ones.
const DYING: u64 = 1000;

/// What happens before anybody dies, by the survivor.
#[derive(Clone, Copy, Debug)]
enum Before {
    Push,
    Pop,
}

/// What the process does that dies.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Pop,
    /// Gives back what another one held, who died before and held nothing.
    Reclaim,
}

#[derive(Debug)]
struct Script {
    capacity: usize,
    before: Vec<Before>,
    steps: Vec<Step>,
}

impl Script {
    fn new(random: &mut Random) -> Script {
        let capacity = 1 << random.below(4);
        let before =
            (0..random.below(20)).map(|_| if random.happens(50) { Before::Push } else { Before::Pop }).collect();
        let step = |number| [Step::Push, Step::Push, Step::Pop, Step::Pop, Step::Reclaim][number];
        let steps = (0..1 + random.below(4)).map(|_| step(random.index(5))).collect();
        Script { capacity, before, steps }
    }
}

fn line(number: u64) -> Line {
    Line::new([0, number, number ^ 7, number + 1, number * 3, number, number, number]).unwrap()
}

/// The number of a message that is whole.
fn number(whole: Line) -> u64 {
    let number = whole.words()[1];
    assert_eq!(whole, line(number));
    number
}

/// What was sent, and what came.
#[derive(Default, Debug)]
struct Mail {
    /// Whose push succeeded.
    sent: BTreeSet<u64>,
    /// Whose push began.
    begun: BTreeSet<u64>,
    /// By the survivor, in order.
    received: Vec<u64>,
    /// By the one who died.
    received_by_dead: Vec<u64>,
    /// Messages that a dead receiver may have taken.
    lost: usize,
}

impl Mail {
    /// Whether there is room.
    fn push(&mut self, mailbox: &Mailbox<'_>, owner: Owner, number: u64) -> bool {
        self.begun.insert(number);
        mailbox.push(owner, line(number)).is_ok() && self.sent.insert(number)
    }

    /// Nothing was made up, doubled, overtaken or lost.
    fn check(&self) {
        for is_of_dying in [false, true] {
            let of_one: Vec<u64> =
                self.received.iter().copied().filter(|&number| (number >= DYING) == is_of_dying).collect();
            assert!(of_one.is_sorted_by(|a, b| a < b), "{self:?}");
        }
        let all: Vec<u64> = self.received.iter().chain(&self.received_by_dead).copied().collect();
        let different: BTreeSet<u64> = all.iter().copied().collect();
        assert!(all.len() == different.len() && different.is_subset(&self.begun), "{self:?}");
        assert!(self.sent.difference(&different).count() <= self.lost, "{self:?}");
    }
}

struct Scene<'a> {
    mailbox: Mailbox<'a>,
    survivor: Owner,
    dying: Owner,
    other: Owner,
    mail: Mail,
    /// The survivor's next message.
    next: u64,
}

impl Scene<'_> {
    /// Whether there is room.
    fn push(&mut self) -> bool {
        self.next += 1;
        self.mail.push(&self.mailbox, self.survivor, self.next)
    }

    fn pop(&mut self) -> Option<u64> {
        let came = self.mailbox.pop(self.survivor).unwrap().map(number);
        self.mail.received.extend(came);
        came
    }

    /// Whether the process came to the end of its steps.
    fn play(&mut self, steps: &[Step], death: u64) -> bool {
        let (mailbox, mail) = (self.mailbox, &mut self.mail);
        let play = || {
            for (number, step) in (DYING..).zip(steps) {
                match step {
                    Step::Push => {
                        mail.push(&mailbox, self.dying, number);
                    }
                    Step::Pop => {
                        mail.lost += 1;
                        let came = mailbox.pop(self.dying).unwrap();
                        mail.lost -= 1;
                        mail.received_by_dead.extend(came.map(self::number));
                    }
                    Step::Reclaim => {
                        mailbox.reclaim(self.other);
                    }
                }
            }
        };
        crash::before(death, play).is_some()
    }

    /// As many messages fit as ever, and go from hand to hand in order.
    fn check_room(&self) {
        let capacity = self.mailbox.capacity() as u64;
        for at in 0..capacity {
            self.mailbox.push(self.other, line(5000 + at)).unwrap();
        }
        assert!(self.mailbox.push(self.other, line(1)).is_err());
        for at in 0..capacity {
            assert_eq!(self.mailbox.pop(self.survivor).unwrap().map(number), Some(5000 + at));
        }
        assert_eq!(self.mailbox.pop(self.survivor), Ok(None));
    }
}

#[test]
fn a_process_that_dies_at_a_mailbox_takes_one_message_with_it_at_most() {
    let [survivor, dying, other] = [0, 1, 2].map(|number| Owner::new(number).unwrap());
    scripts(400, |seed, random| {
        let script = Script::new(random);
        let memory = words(words_for(script.capacity).unwrap());
        let mut deaths = 0;
        before_each(seed, &script, |death| {
            let mut is_over = false;
            deaths += before_each(seed, &"giving back", |givers_death| {
                let mailbox = Mailbox::create(&memory, script.capacity).unwrap();
                let mut scene = Scene { mailbox, survivor, dying, other, mail: Mail::default(), next: 0 };
                for step in &script.before {
                    match step {
                        Before::Push => {
                            scene.push();
                        }
                        Before::Pop => {
                            scene.pop();
                        }
                    }
                }
                is_over = scene.play(&script.steps, death);
                // The survivor goes on meanwhile.
                if givers_death.is_multiple_of(3) {
                    scene.pop();
                }
                if givers_death.is_multiple_of(2) {
                    scene.push();
                }
                let is_given_back = crash::before(givers_death, || mailbox.reclaim(dying)).is_some();
                if givers_death % 3 == 1 {
                    scene.pop();
                }
                mailbox.reclaim(other);
                mailbox.reclaim(dying);
                assert_eq!(mailbox.slots().held_by(dying), 0);
                if givers_death.is_multiple_of(4) {
                    // Into slots that were given back, before anybody looks what is there.
                    while scene.push() {}
                }
                while scene.pop().is_some() {}
                assert_eq!(mailbox.slots().free(), script.capacity);
                scene.mail.check();
                scene.check_room();
                is_given_back
            });
            is_over
        });
        deaths
    });
}
