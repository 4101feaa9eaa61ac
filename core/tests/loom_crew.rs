//! All interleavings of a few operations on a crew, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_crew`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;
use umbra_core::atomic::AtomicU64;
use umbra_core::crew::{BuryError, Crew, Identity, Member};

/// A crew, and what its members hold: loom reports that two touch it at once.
struct Ship {
    words: Vec<AtomicU64>,
    held: Vec<Cell<u32>>,
}

impl Ship {
    fn new(members: u16) -> Arc<Ship> {
        let words: Vec<_> = (0..Crew::words_for(members)).map(|_| AtomicU64::new(0)).collect();
        Crew::create(&words);
        Arc::new(Ship { words, held: (0..members).map(|_| Cell::new(0)).collect() })
    }

    fn crew(&self) -> Crew<'_> {
        Crew::attach(&self.words)
    }

    fn join(&self, pid: u32) -> Option<Member> {
        let member = self.crew().join(Identity::new(pid, 0)).ok()?;
        let held = &self.held[usize::from(member.number)];
        assert_eq!(held.get(), 0, "what the last member held was given back");
        held.set(1);
        Some(member)
    }

    fn bury(&self, dead: Member, by: u16) -> Result<(), BuryError<()>> {
        self.crew().bury(dead, by, |dead| {
            self.held[usize::from(dead.number)].set(0);
            Ok(())
        })
    }
}

#[test]
fn one_of_two_buries_beside_one_that_joins() {
    loom::model(|| {
        let ship = Ship::new(3);
        let (dead, a, b) = (ship.join(1).unwrap(), ship.join(2).unwrap(), ship.join(3).unwrap());
        let spawn = |ship: &Arc<Ship>, by: u16| {
            let ship = ship.clone();
            thread::spawn(move || ship.bury(dead, by).is_ok())
        };
        let (first, second) = (spawn(&ship, a.number), spawn(&ship, b.number));
        let joined = ship.join(4);
        assert!(first.join().unwrap() != second.join().unwrap(), "one of them buries");
        if let Some(member) = joined {
            assert_eq!((member.number, member.generation), (dead.number, 1));
            assert_eq!(ship.bury(dead, a.number), Err(BuryError::Unknown), "another life has the number");
        }
    });
}

#[test]
fn who_leaves_is_not_buried_by_another_too() {
    loom::model(|| {
        let ship = Ship::new(2);
        let (leaves, other) = (ship.join(1).unwrap(), ship.join(2).unwrap());
        let leaving = {
            let ship = ship.clone();
            thread::spawn(move || ship.bury(leaves, leaves.number))
        };
        // What only a burier may do that was told that the other died; here it did not, and gets ahead.
        let joined = ship.join(3);
        leaving.join().unwrap().unwrap();
        assert_eq!(ship.bury(leaves, other.number), Err(BuryError::Unknown));
        assert!(joined.is_none_or(|member| member.number == leaves.number));
    });
}

#[test]
fn one_of_two_newcomers_succeeds_the_dead_beside_one_that_buries() {
    loom::model(|| {
        let ship = Ship::new(2);
        let (dead, other) = (ship.join(1).unwrap(), ship.join(2).unwrap());
        let succeed = |ship: &Arc<Ship>, pid: u32| {
            let ship = ship.clone();
            thread::spawn(move || {
                let held = &ship.held[usize::from(dead.number)];
                let placed = ship.crew().succeed(dead, Identity::new(pid, 0), |_| {
                    held.set(0);
                    Ok::<_, ()>(())
                });
                placed.inspect(|_| held.set(1)).ok()
            })
        };
        let (first, second) = (succeed(&ship, 3), succeed(&ship, 4));
        let buried = ship.bury(dead, other.number).is_ok();
        let placed: Vec<Member> = [first, second].into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(placed.len() + usize::from(buried), 1, "one of the three ends it");
        for member in placed {
            assert_eq!((ship.crew().member(member.number), member.generation), (Some(member), 1));
            assert_eq!(ship.bury(dead, other.number), Err(BuryError::Unknown), "another life has the number");
        }
    });
}
