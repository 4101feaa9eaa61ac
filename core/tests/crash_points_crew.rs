//! A process dies before every single operation on the words of a crew.
//!
//! It joins, leaves, buries those who died before it, and takes their places. A survivor buries it and them; then only the
//! living are members, what the dead held is given back, and nothing that the living hold; and all other numbers can be had
//! again, each in a later generation.
//!
//! Run with `RUSTFLAGS="--cfg crash" cargo test -p umbra-core --test crash_points_crew`.
#![cfg(crash)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod deaths;
mod random;

use std::cell::Cell;

use deaths::{before_each, scripts, words};
use random::Random;
use umbra_core::atomic::{AtomicU64, Ordering, crash};
use umbra_core::crew::{Crew, Identity, Liveness, Member};

/// The processes: the survivor who buries, another one, one that is dead already, and the one that dies.
const SURVIVOR: Identity = Identity::new(1, 0);
const OTHER: Identity = Identity::new(2, 0);
const DEAD: Identity = Identity::new(3, 0);
const DYING: Identity = Identity::new(4, 0);
/// Those who join after all that.
const NEWCOMER: Identity = Identity::new(5, 0);

/// What the process does that dies.
#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    JoinOrSucceed,
    /// With the number that it got last.
    Leave,
    BuryFirst,
    /// What the dead one held can't be given back now.
    FailToBury,
    BuryAll,
}

#[derive(Debug)]
struct Script {
    /// Who has the numbers at first, but for the survivor's, which is the first; `None` for one that is free again.
    first: Vec<Option<Identity>>,
    steps: Vec<Step>,
}

impl Script {
    fn new(random: &mut Random) -> Script {
        let who = |number| [None, Some(OTHER), Some(DEAD), Some(DEAD)][number];
        let first = (0..1 + random.below(4)).map(|_| who(random.index(4))).collect();
        let steps = (0..2 + random.below(4)).map(|_| match random.index(8) {
            0 | 1 => Step::Join,
            2 | 3 => Step::JoinOrSucceed,
            4 => Step::Leave,
            5 => Step::BuryFirst,
            6 => Step::FailToBury,
            _ => Step::BuryAll,
        });
        Script { first, steps: steps.collect() }
    }
}

/// A crew, and what its members hold: 1, or 0 for nothing.
struct Ship {
    words: Vec<AtomicU64>,
    held: Vec<AtomicU64>,
    /// The latest generation of each number that was seen.
    generations: Vec<Cell<Option<u32>>>,
    /// Whether the process that dies is still alive.
    lives: Cell<bool>,
}

impl Liveness for Ship {
    fn is_alive(&self, member: Member) -> bool {
        member.identity != DEAD && (member.identity != DYING || self.lives.get())
    }
}

impl Ship {
    /// The crew of a script before its process begins.
    fn new(script: &Script) -> Ship {
        let count = 1 + script.first.len() as u16;
        let ship = Ship {
            words: words(Crew::words_for(count)),
            held: (0..count).map(|_| AtomicU64::new(0)).collect(),
            generations: vec![Cell::new(None); usize::from(count)],
            lives: Cell::new(true),
        };
        let crew = Crew::create(&ship.words);
        // All join, in the order of the numbers, so that those can leave who are not there.
        let all = [Some(SURVIVOR)].into_iter().chain(script.first.iter().copied());
        let joined: Vec<_> = all.map(|who| (who, crew.join(who.unwrap_or(NEWCOMER)).unwrap())).collect();
        for (who, member) in joined {
            ship.take(member);
            if who.is_none() {
                crew.bury(member, member.number, |member| ship.give_back(member)).unwrap();
            }
        }
        ship
    }

    fn crew(&self) -> Crew<'_> {
        Crew::attach(&self.words)
    }

    fn held(&self, number: u16) -> &AtomicU64 {
        &self.held[usize::from(number)]
    }

    /// A new member begins to hold something.
    fn take(&self, member: Member) {
        assert_eq!(self.held(member.number).load(Ordering::Relaxed), 0, "{member:?}: what the last one held");
        let before = self.generations[usize::from(member.number)].replace(Some(member.generation));
        assert!(before < Some(member.generation), "{member:?} after {before:?}");
        self.held(member.number).store(1, Ordering::Relaxed);
    }

    fn give_back(&self, member: Member) -> Result<(), ()> {
        assert!(!self.is_alive(member) || member.identity == DYING || member.identity == NEWCOMER, "{member:?} lives");
        self.held(member.number).store(0, Ordering::Relaxed);
        Ok(())
    }

    /// What the process does that dies.
    fn play(&self, steps: &[Step]) {
        let crew = self.crew();
        let mut mine: Vec<Member> = Vec::new();
        for step in steps {
            let first_dead = || crew.members().find(|member| member.identity == DEAD);
            match (step, mine.last().copied()) {
                (Step::Join, _) => mine.extend(crew.join(DYING).inspect(|&member| self.take(member)).ok()),
                (Step::JoinOrSucceed, _) => {
                    let joined = crew.join_or_succeed(DYING, self, |member| self.give_back(member));
                    mine.extend(joined.inspect(|&member| self.take(member)).ok());
                }
                (Step::Leave, Some(me)) => {
                    mine.pop();
                    crew.bury(me, me.number, |member| self.give_back(member)).unwrap();
                }
                (Step::BuryFirst, Some(me)) => {
                    first_dead()
                        .map_or(Ok(()), |dead| crew.bury(dead, me.number, |dead| self.give_back(dead)))
                        .unwrap();
                }
                (Step::FailToBury, Some(me)) => {
                    let _ = first_dead().map(|dead| crew.bury(dead, me.number, |_| Err::<(), ()>(())));
                }
                (Step::BuryAll, Some(me)) => {
                    crew.bury_dead(me.number, self, |dead| self.give_back(dead)).unwrap();
                }
                (Step::Leave | Step::BuryFirst | Step::FailToBury | Step::BuryAll, None) => {}
            }
        }
    }
}

#[test]
fn the_living_keep_what_is_theirs_and_the_numbers_of_the_dead_can_be_had_again() {
    scripts(8_000, |seed, random| {
        let script = Script::new(random);
        before_each(seed, &script, |death| {
            let ship = Ship::new(&script);
            let living: Vec<Member> = ship.crew().members().filter(|member| member.identity != DEAD).collect();
            let is_over = crash::before(death, || ship.play(&script.steps)).is_some();
            ship.lives.set(false);
            let buried = ship.crew().bury_dead(living[0].number, &ship, |member| ship.give_back(member));
            assert!(buried.is_ok());
            assert!(
                ship.crew().members().eq(living.iter().copied()),
                "{:?}",
                ship.crew().members().collect::<Vec<_>>()
            );
            for member in &living {
                assert_eq!(ship.held(member.number).load(Ordering::Relaxed), 1, "{member:?} lost something");
            }
            for _ in living.len()..ship.held.len() {
                ship.take(ship.crew().join(NEWCOMER).unwrap());
            }
            assert!(ship.crew().join(NEWCOMER).is_err());
            is_over
        })
    });
}
