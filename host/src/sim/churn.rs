//! Random members that join, leave and re-join random groups.
//!
//! A run is over when all have done so as often as they should.

use umbra_core::endpoints::{Descriptor, GroupKey};
use umbra_core::error::Status;
use umbra_core::group::member::{Event, State};
use umbra_core::group::message::WORLD;
use umbra_core::peer::WorldRank;
use umbra_core::time::Lapse;

use super::links::Happens;
use super::node::JOB_KEY;
use super::random::Random;
use super::run::Sim;
use super::watch::{Rule, due};

/// One member of one group, and how often it still joins.
#[derive(Clone, Copy, Debug)]
struct Turn {
    group: u32,
    rank: WorldRank,
    rounds: u32,
}

/// The workload of a run.
#[derive(Debug)]
pub(super) struct Churn {
    groups: Vec<(GroupKey, Vec<WorldRank>)>,
    turns: Vec<Turn>,
    random: Random,
    pace: Lapse,
}

impl Churn {
    pub(super) fn new(sim: &mut Sim, groups: u32, rounds: u32) -> Churn {
        let mut random = Random::new(sim.job().seed ^ 0xc4a2);
        let ranks = sim.job().ranks();
        let network = sim.job().network;
        let pace = Lapse((network.delay.0 + network.jitter.0).saturating_mul(16).max(1));
        let mut churn = Churn { groups: Vec::new(), turns: Vec::new(), random: random.clone(), pace };
        for group in 0..groups {
            let size = 1 + random.below(u64::from(ranks)) as usize;
            let mut members: Vec<WorldRank> = (0..ranks).map(WorldRank).collect();
            random.shuffle(&mut members);
            members.truncate(size);
            let mut bytes = vec![0; Descriptor::bytes_needed(size as u32)];
            let Ok(descriptor) = Descriptor::write(group + 1, members.iter().copied(), &mut bytes) else { continue };
            let key = JOB_KEY.group(&descriptor);
            sim.watch.group(key, &members);
            churn.turns.extend(members.iter().map(|&rank| Turn { group, rank, rounds }));
            churn.groups.push((key, members));
        }
        churn.random = random;
        for turn in 0..churn.turns.len() as u32 {
            churn.again(sim, turn);
        }
        churn
    }

    fn again(&mut self, sim: &mut Sim, turn: u32) {
        let at = sim.now() + Lapse(1 + self.random.below(self.pace.0));
        sim.agenda.plan(at, Happens::Turn(turn));
    }

    /// Runs until all is done and every fault has happened, at most so long; then looks who still waits.
    pub(super) fn run(&mut self, sim: &mut Sim, at_most: Lapse) {
        let until = sim.now() + at_most;
        let start = sim.now();
        let mut beat = 0u64;
        let stride = (sim.ranks().len() as u64 / 4).max(1);
        let mut settled = false;
        while sim.step(until) {
            if let Some(turn) = sim.turn.take() {
                self.take(sim, turn);
            }
            beat += 1;
            if !beat.is_multiple_of(stride) {
                continue;
            }
            if sim.time_to_full.is_none() && sim.is_full(WORLD) {
                sim.time_to_full = Some(sim.now().since(start));
            }
            if sim.last_fault.is_none_or(|last| sim.now() >= last) && self.is_done(sim) {
                settled = true;
                break;
            }
        }
        if !settled {
            self.judge(sim);
        }
        self.errors(sim);
    }

    fn take(&mut self, sim: &mut Sim, index: u32) {
        let Some(&Turn { group, rank, rounds }) = self.turns.get(index as usize) else { return };
        let Some((key, members)) = self.groups.get(group as usize) else { return };
        let key = *key;
        let state = sim.member(rank).map(|machine| machine.state(key));
        let joins = match state {
            None => false,
            Some(State::Out) => rounds > 0,
            Some(State::Leaving) => rounds > 0 && self.random.happens(125_000),
            Some(State::Ready) => {
                if self.random.happens(500_000) {
                    let _ = sim.leave(rank, key);
                }
                false
            }
            // To leave now would mean never to have joined, and the others would rightly miss it.
            Some(State::Waiting) => false,
            Some(State::Joining | State::Joined) => {
                if self.random.happens(15_000) {
                    let _ = sim.leave(rank, key);
                }
                false
            }
        };
        if joins && sim.join(rank, group + 1, members).is_ok() {
            self.turns[index as usize].rounds -= 1;
        }
        let finished = state == Some(State::Out) && rounds == 0;
        if !finished {
            self.again(sim, index);
        }
    }

    /// Nobody waits, everybody has joined and left as often as it should, and what ended has ended everywhere.
    fn is_done(&self, sim: &Sim) -> bool {
        let idle = |turn: &Turn| {
            let Some(machine) = sim.member(turn.rank) else { return true };
            turn.rounds == 0 && machine.state(self.groups[turn.group as usize].0) == State::Out
        };
        let world = sim.ranks().iter().filter_map(|rank| rank.machine.as_ref()).all(|machine| {
            matches!(machine.state(WORLD), State::Ready | State::Out) || machine.state(WORLD) == State::Leaving
        });
        world && self.turns.iter().all(idle) && (sim.last_fault.is_some() || sim.is_full(WORLD))
    }

    /// Who still waits although all time-outs have passed?
    fn judge(&self, sim: &mut Sim) {
        let now = sim.now();
        let mut found = Vec::new();
        for (at, rank) in sim.ranks().iter().enumerate() {
            let Some(machine) = &rank.machine else { continue };
            let keys = self.groups.iter().map(|(key, _)| *key);
            for key in core::iter::once(WORLD).chain(keys) {
                let state = machine.state(key);
                let rule = match state {
                    State::Waiting | State::Joining | State::Joined => Rule::WaitsForEver,
                    State::Leaving if key != WORLD => Rule::NeverEnds,
                    _ => continue,
                };
                let generation = machine.generation(key);
                let what = format!(
                    "rank {at} is {state:?} in generation {} of group {:x}, {}",
                    generation.0,
                    key.0,
                    due(machine)
                );
                found.push((rule, what));
            }
        }
        if sim.last_fault.is_none() {
            for (sp, service) in sim.services().iter().enumerate() {
                if service.machine.as_ref().is_some_and(|machine| machine.world().is_none()) {
                    found.push((Rule::WaitsForEver, format!("the world group is not full at service process {sp}")));
                }
            }
        }
        for (rule, what) in found {
            sim.watch.complain(now, rule, || what);
        }
    }

    /// Every failure that a rank was told of names somebody, and none is told of in a job where nothing fails.
    fn errors(&self, sim: &mut Sim) {
        let mut found = Vec::new();
        for (rank, node) in sim.ranks.iter().enumerate() {
            for &(at, event) in &node.events {
                match event {
                    Event::Ended { cause, .. }
                        if matches!(cause.status, Status::Timeout | Status::PeerFailed)
                            && cause.sp.is_none()
                            && cause.missing.count() == 0 =>
                    {
                        found.push((at, Rule::NamesNobody, format!("rank {rank} was told: {cause}")));
                    }
                    Event::Refused { status, .. } if sim.last_fault.is_none() => {
                        found.push((at, Rule::Refused, format!("rank {rank} was refused: {status}")));
                    }
                    _ => {}
                }
            }
        }
        for (at, rule, what) in found {
            sim.watch.complain(at, rule, || what);
        }
    }
}
