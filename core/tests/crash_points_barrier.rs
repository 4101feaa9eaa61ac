//! A process dies before every single operation on the words of a barrier.
//!
//! It has two threads, of which one may come in vain. When it is buried, each party that is left and was counted in knows how
//! its round ended, or the round is open and can be completed without the dead one; and then the barrier can be made whole.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_barrier`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use std::cell::{Cell, RefCell};

use deaths::{before_each, scripts};
use random::Random;
use umbra_core::atomic::{AtomicU64, Ordering, crash};
use umbra_core::barrier::{Glance, Rounds};

/// The number of the process that dies; those of the survivors are lower.
const DYING: u16 = 4;

/// What the process does that dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Come,
    /// To the word as it was when the process began: in vain, if it has changed.
    ComeLate,
    /// Waits no more in the round in which it came last.
    GiveUp,
    Reset,
}

#[derive(Debug)]
struct Script {
    parties: u32,
    /// Rounds that are over, in which the one took part who dies.
    over: u64,
    /// Survivors who have come, and do so before the one who dies, or after it looked at the word.
    before: u16,
    after_look: u16,
    steps: Vec<Step>,
}

impl Script {
    fn new(random: &mut Random) -> Script {
        let parties = 1 + random.below(4) as u32;
        let (before, over) = (random.below(u64::from(parties)) as u16, random.below(3));
        let after_look = random.below(u64::from(parties) - u64::from(before)) as u16;
        let step = |number| [Step::Come, Step::Come, Step::ComeLate, Step::ComeLate, Step::GiveUp, Step::Reset][number];
        let steps = (0..1 + random.below(3)).map(|_| step(random.index(6))).collect();
        Script { parties, over, before, after_look, steps }
    }

    /// Survivors who have come.
    fn came(&self) -> u16 {
        self.before + self.after_look
    }

    /// Who comes in which order where nobody dies.
    fn all(&self) -> impl Iterator<Item = u16> {
        (0..self.parties as u16 - 1).chain([DYING])
    }
}

/// The words of a barrier, and what was handed out.
#[derive(Default)]
struct Table {
    word: AtomicU64,
    notes: [AtomicU64; DYING as usize + 1],
    told: RefCell<Vec<u64>>,
    /// Parties of the dying process that were counted.
    counted: Cell<u64>,
}

impl Table {
    fn rounds(&self, script: &Script) -> Rounds<'_> {
        Rounds::new(&self.word, script.parties)
    }

    fn note(&self, process: u16) -> &AtomicU64 {
        &self.notes[usize::from(process)]
    }

    fn hand_out(&self, rounds: Rounds<'_>) {
        rounds.hand_out(|number| {
            self.told.borrow_mut().push(number);
            true
        });
    }

    fn settle(&self, rounds: Rounds<'_>, process: u16) {
        if rounds.settle(process) {
            self.hand_out(rounds);
        }
    }

    /// All parties come and are told their numbers, as if nobody had died.
    fn complete(&self, script: &Script) {
        let rounds = self.rounds(script);
        for (process, number) in script.all().zip(1..) {
            assert_eq!(rounds.count_in(rounds.glance(), self.note(process)), Ok(number == script.parties));
        }
        self.told.borrow_mut().clear();
        rounds.begin_release(0).unwrap();
        self.hand_out(rounds);
        assert!(self.told.take().into_iter().eq(0..u64::from(script.parties)));
    }

    /// The dying process comes as a party of two steps to a word that may take it.
    fn come(&self, rounds: Rounds<'_>, seen: Glance) {
        if seen.is_broken() || rounds.is_releasing(seen) {
            return;
        }
        if let Ok(is_last) = rounds.count_in(seen, self.note(DYING)) {
            self.counted.set(self.counted.get() + 1);
            if is_last && rounds.begin_release(DYING).is_ok() {
                self.hand_out(rounds);
            }
        }
    }
}

#[test]
fn parties_that_wait_for_messages_are_told_when_one_dies() {
    scripts(20_000, |seed, random| {
        let script = Script::new(random);
        before_each(seed, &script, |death| {
            let table = Table::default();
            let rounds = table.rounds(&script);
            (0..script.over).for_each(|_| table.complete(&script));
            let come = |process| assert_eq!(rounds.count_in(rounds.glance(), table.note(process)), Ok(false));
            (0..script.before).for_each(come);
            let seen = rounds.glance();
            (script.before..script.came()).for_each(come);
            let play = || {
                for step in &script.steps {
                    match step {
                        Step::Come => table.come(rounds, rounds.glance()),
                        Step::ComeLate => table.come(rounds, seen),
                        Step::GiveUp => rounds.abort(),
                        Step::Reset => rounds.reset(),
                    }
                    table.settle(rounds, DYING);
                }
            };
            let is_over = crash::before(death, play).is_some();
            let nothing_is_left = table.told.borrow().is_empty();
            rounds.forsake(table.note(DYING).load(Ordering::Relaxed), DYING, || nothing_is_left);
            table.settle(rounds, 0);
            let (now, told, came) = (rounds.glance(), table.told.borrow().len() as u64, u64::from(script.came()));
            if now.came() > 0 {
                assert!(!now.is_broken() && u64::from(now.came()) == came, "{now:?}: nothing is owed");
                assert_eq!((told, table.counted.get()), (0, 0), "{now:?}: it is not missed");
            } else {
                // One may be told twice.
                assert!((came..=came + table.counted.get() + 1).contains(&told), "{told} told of {came}: {now:?}");
            }
            assert!(!rounds.settle(0));
            rounds.reset();
            table.settle(rounds, 0);
            assert!(!rounds.glance().is_broken() && rounds.glance().came() == 0);
            table.complete(&script);
            is_over
        })
    });
}

#[test]
fn parties_that_meet_learn_that_one_of_them_died() {
    scripts(20_000, |seed, random| {
        let script = Script::new(random);
        before_each(seed, &script, |death| {
            let table = Table::default();
            let rounds = table.rounds(&script);
            let meet = |process| {
                let seen = rounds.glance();
                rounds.meet(seen, table.note(process)).unwrap();
                seen
            };
            let leave = |process, seen| rounds.part(seen, table.note(process));
            for _ in 0..script.over {
                let met: Vec<Glance> = script.all().map(meet).collect();
                script.all().zip(met).for_each(|(process, seen)| leave(process, seen));
            }
            let mut waiting: Vec<Glance> = (0..script.before).map(meet).collect();
            let seen = rounds.glance();
            waiting.extend((script.before..script.came()).map(meet));
            let met = Cell::new(false);
            let play = || {
                let mut last = seen;
                for step in &script.steps {
                    let come_to = if *step == Step::Come { rounds.glance() } else { seen };
                    match step {
                        Step::GiveUp => drop(rounds.give_up(last).map(|_| leave(DYING, last))),
                        Step::Reset => rounds.reset(),
                        _ if come_to.is_broken() || rounds.meet(come_to, table.note(DYING)).is_err() => {}
                        _ => {
                            met.set(true);
                            last = come_to;
                        }
                    }
                }
            };
            let is_over = crash::before(death, play).is_some();
            rounds.forsake(table.note(DYING).load(Ordering::Relaxed), DYING, || true);
            let now = rounds.glance();
            for (process, &seen) in (0..).zip(&waiting) {
                match rounds.outcome(seen) {
                    Some(_) => leave(process, seen),
                    None => assert!(!met.get() && now.came() == u32::from(script.came()), "{now:?}: it is not missed"),
                }
            }
            rounds.reset();
            assert!(!rounds.glance().is_broken() && rounds.glance().came() == 0);
            let met: Vec<Glance> = script.all().map(meet).collect();
            assert!(met.into_iter().all(|seen| rounds.outcome(seen) == Some(true)));
            is_over
        })
    });
}
