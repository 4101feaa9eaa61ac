//! The rules of the protocol, checked while a job runs.
//!
//! Whatever is lost, repeated, delayed or killed: a group is full only if everybody has joined it, all its tables
//! of one generation are the same bytes, a handle never answers for another generation, an ended generation stays
//! ended at a service process that remembers it, and nobody waits for ever or is told of a failure that names
//! nobody.
//!
//! Source: spec 2.7, S1 to S3 and L1 to L3. S5 is what the simulated network puts to the test.

use std::collections::HashMap;

use umbra_core::endpoints::{Group, GroupKey};
use umbra_core::group::message::WORLD;
use umbra_core::group::{Service, Shelf, Stage, service};
use umbra_core::id::{Generation, Id};
use umbra_core::machine::Machine;
use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::Time;

use super::node::{RankNode, Tables};
use crate::group::Heap;

/// Which rule was broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// A group was full although a member had not joined (S1).
    FullTooEarly,
    /// Two tables of one generation differ (S2).
    TablesDiffer,
    /// A handle answered for another table than the one for which it was given (S3).
    WrongGeneration,
    /// A generation lived on, or again, after its end.
    Resurrected,
    /// Somebody waits although every time-out has passed (L1, L2).
    WaitsForEver,
    /// Everybody has left, or died, and the generation does not end (L3).
    NeverEnds,
    /// An error does not say who is missing (L2).
    NamesNobody,
    /// A process was refused although its description is right.
    Refused,
}

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When it showed.
    pub at: Time,
    /// The rule.
    pub rule: Rule,
    /// Who and what.
    pub what: String,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ns: {:?}: {}", self.at.0, self.rule, self.what)
    }
}

/// Violations that are listed; after so many there is nothing to learn from another.
const MOST: usize = 64;
/// Handles that are tried again and again, the last ones.
const HANDLES: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Held {
    sp: Sp,
    life: u64,
    handle: Id<Group>,
    generation: Generation,
    digest: u64,
}

/// What has to be remembered to know a broken rule.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) violations: Vec<Violation>,
    digests: HashMap<(GroupKey, Generation), (u64, Sp)>,
    ended: HashMap<(Sp, GroupKey), Generation>,
    held: Vec<Held>,
    next_held: usize,
    greeted: Vec<bool>,
    members: HashMap<GroupKey, Vec<WorldRank>>,
}

impl Watch {
    pub(super) fn new(ranks: u32) -> Watch {
        Watch { greeted: vec![false; ranks as usize], ..Watch::default() }
    }

    pub(super) fn complain(&mut self, at: Time, rule: Rule, what: impl FnOnce() -> String) {
        if self.violations.len() < MOST {
            self.violations.push(Violation { at, rule, what: what() });
        }
    }

    /// A group and who must have joined it before it is full.
    pub(super) fn group(&mut self, key: GroupKey, members: &[WorldRank]) {
        self.members.insert(key, members.to_vec());
    }

    /// A service process has forgotten everything.
    pub(super) fn forgets(&mut self, sp: Sp) {
        self.ended.retain(|&(known, _), _| known != sp);
        self.held.retain(|held| held.sp != sp);
        self.next_held = 0;
    }

    /// A service process has something to tell.
    pub(super) fn hears(
        &mut self,
        at: Time,
        sp: Sp,
        machine: &Service<'static, Heap, Tables>,
        event: &service::Event,
        ranks: &[RankNode],
    ) {
        match *event {
            service::Event::RankConnected { rank, shadow: 0, .. } => {
                if let Some(greeted) = self.greeted.get_mut(rank.index()) {
                    *greeted = true;
                }
            }
            service::Event::Stage { key, generation, stage } if !matches!(stage, Stage::Absent | Stage::Ended) => {
                self.lives(at, sp, key, generation);
            }
            service::Event::Full { key, generation, handle, .. } => {
                self.lives(at, sp, key, generation);
                self.is_full(at, sp, machine, key, generation, handle);
                self.all_joined(at, sp, key, generation, ranks);
                self.try_handles(at, sp, machine);
            }
            service::Event::Ended { key, generation, .. } => {
                let last = self.ended.entry((sp, key)).or_insert(generation);
                *last = (*last).max(generation);
                self.try_handles(at, sp, machine);
            }
            _ => {}
        }
    }

    fn lives(&mut self, at: Time, sp: Sp, key: GroupKey, generation: Generation) {
        if self.ended.get(&(sp, key)).is_some_and(|&last| generation <= last) {
            let what = || format!("generation {} of group {:x} at service process {sp}", generation.0, key.0);
            self.complain(at, Rule::Resurrected, what);
        }
    }

    fn is_full(
        &mut self,
        at: Time,
        sp: Sp,
        machine: &Service<'static, Heap, Tables>,
        key: GroupKey,
        generation: Generation,
        handle: Id<Group>,
    ) {
        // It may have ended before its owner took the news.
        let Some((_, digest)) = machine.shelf().measure(handle) else { return };
        let &mut (first, by) = self.digests.entry((key, generation)).or_insert((digest, sp));
        if first != digest {
            let what =
                || format!("generation {} of group {:x} at service processes {by} and {sp}", generation.0, key.0);
            self.complain(at, Rule::TablesDiffer, what);
        }
        let held = Held { sp, life: machine.config().incarnation.0, handle, generation, digest };
        match self.held.get_mut(self.next_held) {
            Some(place) => *place = held,
            None => self.held.push(held),
        }
        self.next_held = (self.next_held + 1) % HANDLES;
    }

    fn all_joined(&mut self, at: Time, sp: Sp, key: GroupKey, generation: Generation, ranks: &[RankNode]) {
        let absent = if key == WORLD {
            self.greeted.iter().position(|greeted| !greeted).map(|rank| WorldRank(rank as u32))
        } else {
            let members = self.members.get(&key).map_or(&[][..], Vec::as_slice);
            // One that started again has forgotten what its earlier life had joined.
            members.iter().copied().find(|rank| {
                let node = ranks.get(rank.index()).filter(|node| node.lives == 1);
                node.and_then(|node| node.machine.as_ref()).is_some_and(|m| m.generation(key) < generation)
            })
        };
        if let Some(rank) = absent {
            let what = || format!("generation {} of group {:x} at {sp} without rank {rank}", generation.0, key.0);
            self.complain(at, Rule::FullTooEarly, what);
        }
    }

    /// Every handle that this service process has given out answers for its own generation or not at all.
    fn try_handles(&mut self, at: Time, sp: Sp, machine: &Service<'static, Heap, Tables>) {
        let life = machine.config().incarnation.0;
        let Ok(reader) = machine.shelf().reader() else { return };
        let wrong = self.held.iter().filter(|held| held.sp == sp && held.life == life).find_map(|held| {
            let found = reader.read(held.handle, |table| (table.generation(), table.checksum())).ok()?;
            (found != (held.generation, held.digest)).then_some((*held, found))
        });
        if let Some((held, found)) = wrong {
            let what = || format!("handle of generation {} at {sp} answers for {}", held.generation.0, found.0.0);
            self.complain(at, Rule::WrongGeneration, what);
        }
    }
}

/// The next thing that a machine waits for, for messages about one that waits too long.
pub(super) fn due(machine: &impl Machine) -> String {
    machine.deadline().map_or_else(|| "nothing due".to_owned(), |at| format!("next due at {} ns", at.0))
}
