//! How regions end: each pinned revocation told once, each place given back once.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use umbra_core::endpoints::Shadows;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::region::{Entry, Held, HoldError, Reaped, Regions, Secret};

const OWNERS: u32 = 3;
const EACH: usize = 4;

fn rank(n: u32) -> Peer {
    Peer::rank(WorldRank(n)).unwrap()
}

/// A region of the table under test, as its importer knows it.
#[derive(Debug, Default)]
struct Known {
    holds: Vec<Held>,
    begun: bool,
    told: bool,
    died: bool,
    reaped: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Admit { owner: u32 },
    Hold { which: usize },
    Release { which: usize },
    Revoke { which: usize },
    Force { which: usize },
    Unpin { which: usize },
    Orphan { owner: u32 },
    Tell,
    Reap,
}

fn step() -> impl Strategy<Value = Step> {
    let which = || any::<prop::sample::Index>().prop_map(|at| at.index(1 << 20));
    prop_oneof![
        4 => (0..OWNERS).prop_map(|owner| Step::Admit { owner }),
        4 => which().prop_map(|which| Step::Hold { which }),
        4 => which().prop_map(|which| Step::Release { which }),
        4 => which().prop_map(|which| Step::Revoke { which }),
        1 => which().prop_map(|which| Step::Force { which }),
        1 => which().prop_map(|which| Step::Unpin { which }),
        1 => (0..OWNERS).prop_map(|owner| Step::Orphan { owner }),
        2 => Just(Step::Tell),
        2 => Just(Step::Reap),
    ]
}

/// What owners hand over, what an importer does with it, and what has been said.
struct World {
    importer: Regions<Vec<Entry>>,
    owners: Vec<Regions<Vec<Entry>>>,
    life: u64,
    known: HashMap<Key, Known>,
    keys: Vec<Key>,
}

impl World {
    fn new() -> World {
        let table = |places| Regions::new(vec![Entry::VACANT; places]);
        let owners = (0..OWNERS).map(|_| table(EACH)).collect();
        let importer = table(2 * EACH * OWNERS as usize);
        World { importer, owners, life: 1, known: HashMap::new(), keys: Vec::new() }
    }

    fn pick(&self, which: usize) -> Option<Key> {
        self.keys.get(which.checked_rem(self.keys.len())?).copied()
    }

    /// Regions whose end somebody waits for.
    fn drained(&self) -> HashSet<Key> {
        let waits = |k: &Known| k.begun && k.holds.is_empty() && !k.told && !k.died;
        self.known.iter().filter(|(_, k)| waits(k)).map(|(key, _)| *key).collect()
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Admit { owner } => {
                let (peer, life) = (rank(owner), Incarnation(self.life));
                let shadows: Shadows = [Sp(0)].into_iter().collect();
                let secret = Secret([owner as u8; 32]);
                let table = &mut self.owners[owner as usize];
                let Ok(region) = table.export(peer, life, 0, 64, Access::READ, shadows.clone(), secret) else { return };
                if self.importer.admit(Sp(0), region, shadows, secret).is_ok() {
                    assert!(self.known.insert(region.key, Known::default()).is_none());
                    self.keys.push(region.key);
                }
            }
            Step::Hold { which } => {
                let Some(key) = self.pick(which) else { return };
                let known = self.known.get_mut(&key).unwrap();
                let held = self.importer.hold(Span { key, offset: 0, len: 8 }, Access::READ, Sp(0));
                if known.begun || known.told || known.died {
                    assert!(held.is_err(), "{key:?} has ended and is held again");
                } else if let Ok(held) = held {
                    assert_eq!(self.importer.fate(&held), None);
                    known.holds.push(held);
                }
            }
            Step::Release { which } => {
                let Some(key) = self.pick(which) else { return };
                let known = self.known.get_mut(&key).unwrap();
                let Some(held) = known.holds.pop() else { return };
                if known.died {
                    let fate = self.importer.fate(&held);
                    assert!(matches!(fate, Some(HoldError::OwnerGone | HoldError::StaleKey)), "{fate:?}");
                }
                assert_eq!(self.importer.release(held), None, "a pinned revocation waits to be asked");
            }
            Step::Revoke { which } => {
                let Some(key) = self.pick(which) else { return };
                let known = self.known.get_mut(&key).unwrap();
                if let Ok(begun) = self.importer.revoke_pinned(key) {
                    assert_eq!(begun, !known.begun && !known.told && !known.died);
                    known.begun |= begun;
                }
                // Its owner does not wait for the end, and may have another region of this number at once.
                let at = (0..OWNERS).find(|n| rank(*n) == key.owner()).unwrap();
                let _ = self.owners[at as usize].revoke(key);
            }
            Step::Force { which } => {
                let Some(key) = self.pick(which) else { return };
                let known = self.known.get_mut(&key).unwrap();
                // Without a revocation nobody waits for the end of what is taken by force.
                if known.begun && self.importer.force(key).is_ok() && !known.died {
                    known.holds.clear();
                }
            }
            Step::Unpin { which } => {
                let Some(key) = self.pick(which) else { return };
                let known = self.known.get_mut(&key).unwrap();
                if known.holds.is_empty() {
                    let ended = self.importer.unpin(key);
                    assert_eq!(ended, known.begun && !known.told && !known.died);
                    known.told |= ended;
                }
            }
            Step::Orphan { owner } => {
                self.life += 1;
                self.importer.orphan(rank(owner), |_| true);
                let table = &mut self.owners[owner as usize];
                *table = Regions::new(vec![Entry::VACANT; EACH]);
                self.known.iter_mut().filter(|(key, _)| key.owner() == rank(owner)).for_each(|(_, k)| k.died = true);
            }
            Step::Tell => {
                let mut waiting = self.drained();
                while let Some(key) = self.importer.next_drained() {
                    assert!(waiting.remove(&key), "{key:?} is told and nobody waits for it, or not any more");
                    self.known.get_mut(&key).unwrap().told = true;
                }
                assert!(waiting.is_empty(), "not told: {waiting:?}");
            }
            Step::Reap => {
                while let Some(Reaped { key, .. }) = self.importer.reap() {
                    let known = self.known.get_mut(&key).unwrap();
                    assert!(known.told || known.died, "the place of {key:?} is given back before its end was told");
                    assert!(!known.reaped, "the place of {key:?} is given back twice");
                    known.reaped = true;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_end_is_told_once(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        for key in world.keys.clone() {
            for held in world.known.get_mut(&key).unwrap().holds.drain(..) {
                prop_assert_eq!(world.importer.release(held), None);
            }
        }
        world.step(&Step::Tell);
        world.step(&Step::Reap);
    }
}
