//! A process dies before every single operation on the words of shared slots.
//!
//! Those who give back what it held die over that one after another, each later than the one before. Then it holds nothing, whoever
//! is left holds what he held, and every other slot can be taken.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_shared_slots`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use deaths::{before_each, before_some, scripts, words};
use random::Random;
use umbra_core::atomic::crash;
use umbra_core::id::Id;
use umbra_core::shared_slots::{Held, Owner, SharedSlots, words_for};

/// What happens before anybody dies.
#[derive(Clone, Copy, Debug)]
enum Before {
    SurvivorTakes,
    DyingTakes,
    SurvivorReleases,
}

/// What the process does that dies.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take,
    Release,
    RetainOthers,
    RetainOwn,
    /// Hands one over to the survivor.
    Transfer,
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
        let capacity = [1, 3, 64, 65, 130][random.index(5)];
        let before = |number| [Before::SurvivorTakes, Before::DyingTakes, Before::SurvivorReleases][number];
        let before = (0..random.index(2 * capacity)).map(|_| before(random.index(3))).collect();
        let step = |number| {
            [Step::Take, Step::Take, Step::Release, Step::RetainOthers, Step::RetainOwn, Step::Transfer, Step::Reclaim]
                [number]
        };
        let steps = (0..1 + random.below(6)).map(|_| step(random.index(7))).collect();
        Script { capacity, before, steps }
    }
}

struct Scene<'a> {
    slots: SharedSlots<'a>,
    survivor: Owner,
    dying: Owner,
    other: Owner,
    /// The survivor's.
    held: Vec<Id<Held>>,
    held_by_dying: Vec<Id<Held>>,
    /// What the survivor holds if it was handed over before the death.
    handed_over: Option<Id<Held>>,
}

impl Scene<'_> {
    fn prepare(&mut self, before: &[Before]) {
        for step in before {
            match step {
                Before::SurvivorTakes => self.held.extend(self.slots.take(self.survivor)),
                Before::DyingTakes => self.held_by_dying.extend(self.slots.take(self.dying)),
                Before::SurvivorReleases => {
                    if let Some(id) = self.held.pop() {
                        assert_eq!(self.slots.release(id, self.survivor), Ok(true));
                    }
                }
            }
        }
    }

    fn step(&mut self, step: Step) {
        let Scene { slots, survivor, dying, .. } = *self;
        match step {
            Step::Take => self.held_by_dying.extend(slots.take(dying)),
            Step::Release => {
                if let Some(id) = self.held_by_dying.pop() {
                    slots.release(id, dying).unwrap();
                }
            }
            Step::RetainOthers => {
                if let Some(&id) = self.held.first() {
                    slots.retain(id, dying).unwrap();
                }
            }
            Step::RetainOwn => {
                if let Some(&id) = self.held_by_dying.last() {
                    assert_eq!(slots.retain(id, dying), Ok(false));
                }
            }
            Step::Transfer => {
                self.handed_over = self.held_by_dying.pop();
                if let Some(id) = self.handed_over {
                    slots.transfer(id, dying, survivor).unwrap();
                    self.held.push(id);
                    self.handed_over = None;
                }
            }
            Step::Reclaim => assert_eq!(slots.reclaim(self.other), 0),
        }
    }

    fn check(&mut self) {
        let slots = self.slots;
        // It died when that was done, or before.
        self.held.extend(self.handed_over.filter(|&id| slots.holds(id, self.survivor)));
        assert_eq!((slots.held_by(self.dying), slots.held_by(self.survivor)), (0, self.held.len()));
        assert!(self.held.iter().all(|&id| slots.holds(id, self.survivor)));
        let free = slots.capacity() - self.held.len();
        assert_eq!(slots.free(), free);
        for _ in 0..free {
            slots.take(self.other).unwrap();
        }
        assert!(slots.take(self.other).is_err());
    }
}

#[test]
fn slots_of_a_process_that_dies_can_be_taken_again() {
    let [survivor, dying, other] = [0, 1, 5].map(|number| Owner::new(number).unwrap());
    scripts(600, |seed, random| {
        let script = Script::new(random);
        let memory = words(words_for(script.capacity).unwrap());
        before_each(seed, &script, |death| {
            let slots = SharedSlots::create(&memory, script.capacity).unwrap();
            let (held, held_by_dying) = (Vec::new(), Vec::new());
            let mut scene = Scene { slots, survivor, dying, other, held, held_by_dying, handed_over: None };
            scene.prepare(&script.before);
            let is_over = crash::before(death, || script.steps.iter().for_each(|&step| scene.step(step))).is_some();
            before_some(seed, &"giving back", Random(death), |givers_death| {
                crash::before(givers_death, || slots.reclaim(dying)).is_some()
            });
            scene.check();
            is_over
        })
    });
}
