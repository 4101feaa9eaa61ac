//! Who waits for a stencil cache is served as by plain lists, whatever clients do.
//!
//! The lists say everything but whose idle content leaves: that is the choice of the cache, and they only see that it
//! was idle.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::{Poll, Waker};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use umbra_core::cache::Slot;
use umbra_core::id::Id;
use umbra_core::stencil::waiting::{AllocError, Place, Waiter, Waiting};
use umbra_core::stencil::{
    Action, ByNumber, Group, Input, Limits, Member, Reference, Stencil, Storage, SubmitError, Unknown,
};

const WAITERS: usize = 4;
const INPUTS: u64 = 7;
/// Uses of each input: more than all groups together have members.
const USES: u32 = 1000;

#[derive(Clone, Debug)]
enum Step {
    Alloc(Vec<u64>),
    Submit(Vec<u64>),
    /// The n-th client asks, or goes.
    Ask(usize),
    End(usize),
    /// The n-th load ends, well or not.
    Load(usize, bool),
    Free(usize),
    Interrupt,
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    let group = || prop::collection::vec(0..INPUTS, 0..4);
    prop_oneof![
        9 => group().prop_map(Step::Alloc),
        3 => group().prop_map(Step::Submit),
        6 => (0..6_usize).prop_map(Step::Ask),
        2 => (0..6_usize).prop_map(Step::End),
        12 => (0..6_usize, prop::bool::weighted(0.9)).prop_map(|(nth, well)| Step::Load(nth, well)),
        6 => (0..6_usize).prop_map(Step::Free),
        1 => Just(Step::Interrupt),
        1 => Just(Step::Reset),
    ]
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    Queued,
    Assigning,
    Assigned,
    Delivered,
    Failed(u64),
}

#[derive(Clone, Debug)]
struct Accepted {
    point: u64,
    members: Vec<u64>,
    has: Vec<bool>,
    /// Members whose content is awaited.
    awaited: Vec<u64>,
    stage: Stage,
    told: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    slot: u32,
    count: u32,
    valid: bool,
}

/// What a client that waits is to be told, without the id.
type Told = Option<Result<(), Why>>;
#[derive(Clone, Copy, PartialEq, Debug)]
enum Why {
    Interrupted,
    Failed(u64),
    Refused,
    TooMany { accepted: bool },
}

impl From<AllocError> for Why {
    fn from(error: AllocError) -> Why {
        match error {
            AllocError::Refused(SubmitError::Interrupted) => Why::Interrupted,
            AllocError::Failed { data } => Why::Failed(data),
            AllocError::TooManyWaiters { accepted, .. } => Why::TooMany { accepted: accepted.is_some() },
            _ => Why::Refused,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Waits {
    InLine,
    Turn,
    Group(u64),
    Done(Result<(), Why>),
}

struct Client {
    place: Place,
    point: u64,
    group: Vec<u64>,
    waits: Waits,
}

/// The same by plain lists.
struct Model {
    slots: u32,
    records: usize,
    active: usize,
    overtake: u32,
    passed: u32,
    entries: BTreeMap<u64, Entry>,
    /// Uses of each input that no group has claimed.
    uses: [u32; INPUTS as usize],
    /// Groups that have not ended, in the order in which they were accepted.
    groups: Vec<Accepted>,
    clients: Vec<Client>,
    interrupted: bool,
    /// Loads that the cache has told and the lists have not expected yet.
    prepares: VecDeque<(u32, u64)>,
    loading: Vec<u64>,
    /// Points and how they end, in the order in which that is told.
    news: VecDeque<(u64, Option<u64>)>,
}

impl Model {
    fn refuses(&self, group: &[u64]) -> bool {
        group.iter().collect::<BTreeSet<_>>().len() > self.slots as usize
    }
    fn has_line(&self) -> bool {
        self.clients.iter().any(|client| matches!(client.waits, Waits::InLine | Waits::Turn))
    }
    fn waiting(&self) -> usize {
        self.clients.iter().filter(|client| matches!(client.waits, Waits::InLine | Waits::Group(_))).count()
    }
    fn all_active(&self) -> usize {
        self.groups.iter().filter(|group| matches!(group.stage, Stage::Assigned | Stage::Delivered)).count()
    }
    fn at(&mut self, point: u64) -> &mut Accepted {
        self.groups.iter_mut().find(|group| group.point == point).unwrap()
    }

    fn unclaim(&mut self, members: &[u64]) {
        members.iter().for_each(|&data| self.uses[data as usize] += 1);
    }

    /// Whether the group has all its slots at once.
    fn accept(&mut self, point: u64, members: &[u64]) -> bool {
        members.iter().for_each(|&data| self.uses[data as usize] -= 1);
        let blocked = self.groups.iter().any(|group| group.stage == Stage::Assigning);
        let there = members.iter().all(|data| self.entries.get(data).is_some_and(|entry| entry.valid));
        let passes = blocked && there && self.passed < self.overtake && self.all_active() < self.active;
        let (members, has) = (members.to_vec(), vec![passes; members.len()]);
        if passes {
            self.passed += 1;
            members.iter().for_each(|data| self.entries.get_mut(data).unwrap().count += 1);
            self.news.push_back((point, None));
        }
        let stage = if passes { Stage::Assigned } else { Stage::Queued };
        self.groups.push(Accepted { point, members, has, awaited: vec![], stage, told: false });
        self.pump();
        self.at(point).stage == Stage::Assigned
    }

    fn hold(&mut self, at: usize, member: usize) {
        let group = &mut self.groups[at];
        let data = group.members[member];
        let entry = self.entries.get_mut(&data).unwrap();
        entry.count += 1;
        group.has[member] = true;
        if !entry.valid {
            group.awaited.push(data);
        }
    }

    fn pump(&mut self) {
        while !self.interrupted && self.all_active() < self.active {
            let turn = |group: &Accepted| matches!(group.stage, Stage::Queued | Stage::Assigning);
            let Some(at) = self.groups.iter().position(turn) else { break };
            if self.groups[at].stage == Stage::Queued {
                self.groups[at].stage = Stage::Assigning;
                for member in 0..self.groups[at].members.len() {
                    if self.entries.contains_key(&self.groups[at].members[member]) {
                        self.hold(at, member);
                    }
                }
            }
            for member in 0..self.groups[at].members.len() {
                let data = self.groups[at].members[member];
                if self.groups[at].has[member] {
                    continue;
                }
                if !self.entries.contains_key(&data) {
                    if self.entries.len() == self.slots as usize && self.entries.values().all(|entry| entry.count > 0) {
                        return;
                    }
                    let (slot, told) = self.prepares.pop_front().unwrap();
                    assert_eq!(told, data, "the next input without a slot is loaded");
                    if let Some((&old, entry)) = self.entries.iter().find(|(_, entry)| entry.slot == slot) {
                        assert_eq!((entry.count, self.entries.len() as u32), (0, self.slots), "{old} had to leave");
                        self.entries.remove(&old);
                    }
                    // The load holds the slot as well.
                    self.entries.insert(data, Entry { slot, count: 1, valid: false });
                    self.loading.push(data);
                }
                self.hold(at, member);
            }
            self.passed = 0;
            let group = &mut self.groups[at];
            group.stage = Stage::Assigned;
            let (point, ready) = (group.point, group.awaited.is_empty());
            if ready {
                self.news.push_back((point, None));
            }
            self.answer(point, Ok(()));
        }
    }

    fn answer(&mut self, point: u64, told: Result<(), Why>) {
        let waiting = self.clients.iter_mut().filter(|client| client.waits == Waits::Group(point));
        waiting.for_each(|client| client.waits = Waits::Done(told));
    }

    /// A record that is free is kept for the first in line.
    fn give_turn(&mut self) {
        let taken = self.clients.iter().any(|client| client.waits == Waits::Turn);
        if taken || self.interrupted || self.groups.len() == self.records {
            return;
        }
        if let Some(first) = self.clients.iter_mut().find(|client| client.waits == Waits::InLine) {
            first.waits = Waits::Turn;
        }
    }

    fn let_go(&mut self, data: u64) {
        let entry = self.entries.get_mut(&data).unwrap();
        entry.count -= 1;
        if entry.count == 0 && !entry.valid {
            self.entries.remove(&data);
        }
    }

    fn loaded(&mut self, data: u64, well: bool) {
        self.loading.retain(|&loading| loading != data);
        self.entries.get_mut(&data).unwrap().valid = well;
        for at in 0..self.groups.len() {
            let group = &mut self.groups[at];
            let before = group.awaited.len();
            group.awaited.retain(|&awaited| awaited != data);
            let heard = before - group.awaited.len();
            if heard == 0 {
                continue;
            }
            let (point, none_left) = (group.point, group.awaited.is_empty());
            match group.stage {
                Stage::Failed(_) => (0..heard).for_each(|_| self.let_go(data)),
                stage if !well => {
                    group.stage = Stage::Failed(data);
                    self.passed = if stage == Stage::Assigning { 0 } else { self.passed };
                    let group = self.groups[at].clone();
                    let held = group
                        .members
                        .iter()
                        .zip(&group.has)
                        .filter(|&(data, &has)| has && !group.awaited.contains(data));
                    held.for_each(|(&data, _)| self.let_go(data));
                    self.unclaim(&group.members);
                    self.news.push_back((point, Some(data)));
                    self.answer(point, Err(Why::Failed(data)));
                }
                Stage::Assigned if none_left => self.news.push_back((point, None)),
                _ => {}
            }
        }
        self.let_go(data);
        self.end_failed();
        self.pump();
    }

    /// Groups that failed end when that was told and the last of their inputs was heard of.
    fn end_failed(&mut self) {
        self.groups
            .retain(|group| !(matches!(group.stage, Stage::Failed(_)) && group.told && group.awaited.is_empty()));
    }

    fn ask(&mut self, nth: usize) -> Told {
        let Client { point, ref group, waits, .. } = self.clients[nth];
        let group = group.clone();
        if let Waits::Done(told) = waits {
            return Some(told);
        }
        if waits != Waits::Turn {
            return None;
        }
        self.clients[nth].waits = Waits::Done(Ok(()));
        if self.refuses(&group) {
            return Some(Err(Why::Refused));
        }
        if self.accept(point, &group) {
            return Some(Ok(()));
        }
        self.clients[nth].waits = Waits::Group(point);
        None
    }
}

type Line =
    Waiting<Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>, ByNumber, Unknown, Vec<Waiter>>;

struct World {
    line: Line,
    model: Model,
    delivered: Vec<(u64, Id<Group>)>,
    /// Actions that were taken to see the loads, and not compared yet.
    actions: VecDeque<Action>,
    next: u64,
}

fn members(group: &[u64]) -> impl Iterator<Item = Member> + Clone + '_ {
    group.iter().map(|&data| Member::Load(data))
}

impl World {
    /// Takes the loads that an operation has brought. To tell of a failure may make room, and so bring a turn, not a load.
    fn look(&mut self) {
        while let Some(action) = self.line.poll() {
            match action {
                Action::Prepare { slot, data } => self.model.prepares.push_back((slot, data)),
                other => self.actions.push_back(other),
            }
        }
    }

    fn ask(&mut self, nth: usize) -> Result<(), TestCaseError> {
        let client = &mut self.model.clients[nth];
        let told = self.line.alloc(&mut client.place, client.point, members(&client.group), Waker::noop());
        self.look();
        let expected = self.model.ask(nth);
        self.told(told, expected)
    }

    fn told(&mut self, told: Poll<Result<Id<Group>, AllocError>>, expected: Told) -> Result<(), TestCaseError> {
        let told = match told {
            Poll::Ready(told) => Some(told.map(drop).map_err(Why::from)),
            Poll::Pending => None,
        };
        prop_assert_eq!(told, expected);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Alloc(group) => {
                let point = self.next;
                self.next += 1;
                let model = &mut self.model;
                let (had_line, full) = (model.has_line(), model.groups.len() == model.records);
                let most = model.waiting() + model.clients.iter().filter(|client| unheard(client.waits)).count();
                let mut client = Client { place: Place::Outside, point, group: group.clone(), waits: Waits::InLine };
                let told = self.line.alloc(&mut client.place, point, members(group), Waker::noop());
                self.look();
                let model = &mut self.model;
                let expected = if model.interrupted {
                    Some(Err(Why::Interrupted))
                } else if !had_line && model.refuses(group) && !full {
                    Some(Err(Why::Refused))
                } else if had_line || full {
                    (most >= WAITERS).then_some(Err(Why::TooMany { accepted: false }))
                } else if model.accept(point, group) {
                    Some(Ok(()))
                } else {
                    client.waits = Waits::Group(point);
                    (most >= WAITERS).then_some(Err(Why::TooMany { accepted: true }))
                };
                if expected.is_none() {
                    model.clients.push(client);
                }
                self.told(told, expected)?;
            }
            Step::Submit(group) => {
                let point = self.next;
                self.next += 1;
                let told = self.line.submit_members(point, members(group));
                self.look();
                let model = &mut self.model;
                let full = model.has_line() || model.groups.len() == model.records;
                match told {
                    Err(SubmitError::Interrupted) => prop_assert!(model.interrupted),
                    Err(SubmitError::GroupsFull { .. }) => prop_assert!(full),
                    Err(SubmitError::GroupTooLarge { .. }) => prop_assert!(!full && model.refuses(group)),
                    told => {
                        prop_assert!(told.is_ok() && !full && !model.refuses(group));
                        model.accept(point, group);
                    }
                }
            }
            &Step::Ask(nth) if nth < self.model.clients.len() => {
                self.ask(nth)?;
                if self.model.clients[nth].place == Place::Outside {
                    self.model.clients.remove(nth);
                }
            }
            &Step::End(nth) if nth < self.model.clients.len() => {
                let client = self.model.clients.remove(nth);
                let told = self.line.end(client.place).map(|told| told.map(drop).map_err(Why::from));
                let expected = if let Waits::Done(told) = client.waits { Some(told) } else { None };
                prop_assert_eq!(told, expected);
            }
            &Step::Load(nth, well) if nth < self.model.loading.len() && !self.model.interrupted => {
                let data = self.model.loading[nth];
                let told = if well { self.line.prepared(data) } else { self.line.failed(data) };
                prop_assert_eq!(told, Ok(()));
                self.look();
                self.model.loaded(data, well);
            }
            &Step::Free(nth) if nth < self.delivered.len() && !self.model.interrupted => {
                let (point, group) = self.delivered.remove(nth);
                prop_assert_eq!(self.line.free_group(group), Ok(()));
                self.look();
                let at = self.model.groups.iter().position(|group| group.point == point).unwrap();
                let group = self.model.groups.remove(at);
                group.members.iter().for_each(|&data| self.model.let_go(data));
                self.model.pump();
            }
            Step::Interrupt => {
                self.line.interrupt();
                let model = &mut self.model;
                if !model.interrupted {
                    model.interrupted = true;
                    let untold = model.groups.iter().filter(|group| group.stage != Stage::Delivered && !group.told);
                    let mut untold: Vec<u64> = untold.map(|group| group.point).collect();
                    model.clients.iter_mut().for_each(|client| client.waits = Waits::Done(Err(Why::Interrupted)));
                    let mut told = Vec::new();
                    while let Some(action) = self.line.poll() {
                        let Action::Interrupted { point } = action else { panic!("{action:?}") };
                        told.push(point);
                    }
                    untold.sort_unstable();
                    told.sort_unstable();
                    prop_assert_eq!(told, untold);
                }
            }
            Step::Reset if self.model.interrupted => {
                let fills: Vec<u32> = self.line.stencil().outstanding_fills().map(|(slot, _)| slot).collect();
                prop_assert_eq!(fills.len(), self.model.loading.len());
                prop_assert_eq!(self.line.reset().is_ok(), fills.is_empty());
                fills.into_iter().for_each(|slot| assert!(self.line.settle(slot)));
                let _ = self.line.reset();
                let model = &mut self.model;
                (model.interrupted, model.passed) = (false, 0);
                model.entries.clear();
                for group in std::mem::take(&mut model.groups) {
                    if !matches!(group.stage, Stage::Failed(_)) {
                        model.unclaim(&group.members);
                    }
                }
                model.loading.clear();
                self.delivered.clear();
            }
            Step::Reset => prop_assert!(self.line.reset().is_err()),
            _ => {}
        }
        self.compare()
    }

    /// What was told is what the lists expected, and so is who waits.
    fn compare(&mut self) -> Result<(), TestCaseError> {
        prop_assert!(self.model.prepares.is_empty(), "a load that is of no use");
        while let Some(action) = self.actions.pop_front() {
            let (point, failed) = self.model.news.pop_front().unwrap();
            match action {
                Action::Ready { point: told, group } => {
                    prop_assert_eq!((told, None), (point, failed));
                    self.model.at(point).stage = Stage::Delivered;
                    self.delivered.push((point, group));
                }
                other => {
                    prop_assert_eq!(other, Action::Failed { point, data: failed.unwrap() });
                    self.model.at(point).told = true;
                }
            }
        }
        prop_assert!(self.model.news.is_empty());
        self.model.end_failed();
        self.model.give_turn();
        while self.line.next_waker().is_some() {}
        prop_assert_eq!(self.line.waiting() as usize, self.model.waiting());
        let uses: Vec<(u64, u32)> = (0..).zip(self.model.uses).collect();
        prop_assert_eq!(self.line.stencil().unclaimed().collect::<Vec<_>>(), uses);
        if !self.model.interrupted {
            prop_assert_eq!(self.line.stencil().len(), Ok(self.model.entries.len() as u32));
            let idle = self.model.entries.values().filter(|entry| entry.count == 0).count();
            prop_assert_eq!(self.line.stencil().idle(), Ok(idle as u32));
        }
        Ok(())
    }
}

/// Whether somebody was answered and does not know it yet: its record is still taken.
fn unheard(waits: Waits) -> bool {
    matches!(waits, Waits::Turn | Waits::Done(_))
}

fn follows(slots: u32, records: usize, active: usize, overtake: u32, steps: &[Step]) -> Result<(), TestCaseError> {
    let storage = Storage {
        slots: vec![Slot::EMPTY; slots as usize],
        buckets: vec![0; 4],
        inputs: vec![Input::used(USES).unwrap(); INPUTS as usize],
        groups: vec![Group::EMPTY; records],
        references: vec![Reference::EMPTY; records * 4],
    };
    let limits = Limits { largest_group: 1, active: active as u32, horizon: 9 };
    let stencil = Stencil::new(storage, ByNumber, Unknown, 0..slots, limits).unwrap().with_overtakers(overtake);
    let line = Waiting::new(stencil, (0..WAITERS).map(|_| Waiter::EMPTY).collect());
    let model = Model {
        slots,
        records,
        active,
        overtake,
        passed: 0,
        entries: BTreeMap::new(),
        uses: [USES; INPUTS as usize],
        groups: vec![],
        clients: vec![],
        interrupted: false,
        prepares: VecDeque::new(),
        loading: vec![],
        news: VecDeque::new(),
    };
    let mut world = World { line, model, delivered: vec![], actions: VecDeque::new(), next: 0 };
    steps.iter().try_for_each(|step| world.step(step))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn s73_those_who_wait_for_groups_are_served_as_by_plain_lists(
        slots in 1_u32..5,
        records in 1_usize..5,
        active in 1_usize..5,
        overtake in 0_u32..3,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        follows(slots, records, active, overtake, &steps)?;
    }
}
