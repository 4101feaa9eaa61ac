//! The line for a slot cache does what a plain list does, whatever clients do.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use umbra_core::cache::policy::Lru;
use umbra_core::cache::waiting::{Answer, Asked, ContentError, WaitError, Waiter, Waiting};
use umbra_core::cache::{AllocError, FillError, Forgetful, Found, FreeError, Grant, Interrupted, Line, Slot, Sparse};
use umbra_core::id::Id;

const WAITERS: usize = 6;
const MOST: u32 = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u64),
    TryAlloc(u64),
    Content(u64),
    Free(u64),
    Remember(u64),
    Abandon(u64),
    Forget(u64),
    /// The n-th who waits asks, or goes.
    Poll(usize),
    End(usize),
    Interrupt,
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..9_u64;
    prop_oneof![
        9 => id.clone().prop_map(Step::Alloc),
        2 => id.clone().prop_map(Step::TryAlloc),
        4 => id.clone().prop_map(Step::Content),
        8 => id.clone().prop_map(Step::Free),
        4 => id.clone().prop_map(Step::Remember),
        2 => id.clone().prop_map(Step::Abandon),
        2 => id.prop_map(Step::Forget),
        6 => (0..WAITERS).prop_map(Step::Poll),
        3 => (0..WAITERS).prop_map(Step::End),
        1 => Just(Step::Interrupt),
        3 => Just(Step::Reset),
    ]
}

/// What a waiter is told, without the reference as a value.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Told {
    Slot(Result<(Found, u32), AllocError>),
    Content(Result<(), ContentError>),
}

impl From<Answer> for Told {
    fn from(answer: Answer) -> Told {
        match answer {
            Answer::Slot(given) => Told::Slot(given.map(|(_, Grant { found, references, .. })| (found, references))),
            Answer::Content(told) => Told::Content(told),
        }
    }
}

/// Whose content a slot has, and how many hold it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    count: u32,
    valid: bool,
    abandoned: bool,
}

/// Somebody who waits, and what it was told and does not know yet.
#[derive(Clone, Copy, Debug)]
struct Client {
    waiter: Id<Waiter>,
    data: u64,
    for_content: bool,
    told: Option<Told>,
}

/// The same by plain lists: entries by id, idle ones in the order in which they leave, clients in the order in which
/// they came.
struct Model {
    slots: usize,
    entries: BTreeMap<u64, Entry>,
    idle: VecDeque<u64>,
    clients: Vec<Client>,
    /// What is in line for a slot.
    line: Vec<u64>,
    interrupted: bool,
}

impl Model {
    /// Whether somebody stands in line for this data.
    fn is_wanted(&self, data: u64) -> bool {
        let mut waiting = self.clients.iter().filter(|client| client.told.is_none() && !client.for_content);
        waiting.any(|client| client.data == data)
    }

    fn join(&mut self, data: u64) -> Result<(Found, u32), AllocError> {
        let entry = self.entries.get_mut(&data).unwrap();
        if entry.count >= MOST {
            return Err(AllocError::TooManyReferences { data, most: MOST });
        }
        entry.count += 1;
        let found = match entry {
            Entry { valid: true, .. } => Found::Remembered,
            Entry { abandoned: true, .. } => Found::Empty,
            _ => Found::Assigned,
        };
        entry.abandoned = false;
        self.idle.retain(|&idle| idle != data);
        Ok((found, self.entries[&data].count))
    }

    fn alloc(&mut self, data: u64) -> Result<(Found, u32), AllocError> {
        if self.interrupted {
            return Err(AllocError::Interrupted);
        }
        if self.entries.contains_key(&data) {
            return self.join(data);
        }
        if self.entries.len() == self.slots {
            let victim = self.idle.pop_front().ok_or(AllocError::Full { slots: self.slots as u32 })?;
            self.entries.remove(&victim);
        }
        self.entries.insert(data, Entry { count: 1, valid: false, abandoned: false });
        Ok((Found::Empty, 1))
    }

    /// Slots for those in line: all who want the same data at once.
    fn serve(&mut self) {
        while self.entries.len() < self.slots || !self.idle.is_empty() {
            if self.line.is_empty() {
                return;
            }
            let data = self.line.remove(0);
            for at in 0..self.clients.len() {
                let client = self.clients[at];
                if client.data == data && !client.for_content && client.told.is_none() {
                    self.clients[at].told = Some(Told::Slot(self.alloc(data)));
                }
            }
        }
    }

    fn tell(&mut self, data: u64, told: Result<(), ContentError>) {
        let waiting = self.clients.iter_mut().filter(|client| client.told.is_none() && client.for_content);
        waiting.filter(|client| client.data == data).for_each(|client| client.told = Some(Told::Content(told)));
    }

    fn free(&mut self, data: u64) -> Result<(), FreeError> {
        if self.interrupted {
            return Err(FreeError::Interrupted);
        }
        let entry = self.entries.get_mut(&data).ok_or(FreeError::NotAssigned { data })?;
        if entry.count == 0 {
            return Err(FreeError::NotInUse { data });
        }
        entry.count -= 1;
        match *entry {
            Entry { count: 0, valid: true, .. } => self.idle.push_back(data),
            Entry { count: 0, .. } => {
                self.entries.remove(&data);
                self.tell(data, Err(ContentError::NotAssigned { data }));
            }
            _ => {}
        }
        self.serve();
        Ok(())
    }

    fn fill(&mut self, data: u64, abandon: bool) -> Result<(), FillError> {
        if self.interrupted {
            return Err(FillError::Interrupted);
        }
        let entry = self.entries.get_mut(&data).ok_or(FillError::NotAssigned { data })?;
        if entry.valid {
            return Err(FillError::AlreadyRemembered { data });
        }
        (entry.valid, entry.abandoned) = (!abandon, abandon);
        self.tell(data, if abandon { Err(ContentError::Abandoned { data }) } else { Ok(()) });
        Ok(())
    }

    fn interrupt(&mut self) {
        self.interrupted = true;
        self.line.clear();
        for client in &mut self.clients {
            client.told = Some(match client.for_content {
                true => Told::Content(Err(ContentError::Interrupted)),
                false => Told::Slot(Err(AllocError::Interrupted)),
            });
        }
    }

    fn waiting(&self) -> u32 {
        self.clients.iter().filter(|client| client.told.is_none()).count() as u32
    }
}

fn follows(slots: u32, steps: &[Step]) -> Result<(), TestCaseError> {
    let records = vec![Slot::EMPTY; slots as usize];
    let cache =
        Forgetful::new(records, Sparse::new(vec![Line::EMPTY; 1], vec![0; slots as usize], 3), Lru::new(), 0..slots)
            .unwrap();
    let records = (0..WAITERS).map(|_| Waiter::EMPTY).collect::<Vec<_>>();
    let mut line = Waiting::new(cache.with_most_references(MOST), records);
    let (entries, idle, clients, waiting) = Default::default();
    let mut model = Model { slots: slots as usize, entries, idle, clients, line: waiting, interrupted: false };
    let waker = Waker::noop();
    for &step in steps {
        match step {
            Step::Alloc(data) => match (line.alloc(data, waker), model.alloc(data)) {
                (Ok(Asked::Now((_, got))), expected) => {
                    prop_assert_eq!(Ok((got.found, got.references)), expected);
                }
                (Ok(Asked::Later(waiter)), Err(AllocError::Full { .. })) => {
                    if !model.is_wanted(data) {
                        model.line.push(data);
                    }
                    model.clients.push(Client { waiter, data, for_content: false, told: None });
                }
                (Err(WaitError::TooManyWaiters { .. }), Err(AllocError::Full { .. })) => {
                    prop_assert_eq!(model.clients.len(), WAITERS);
                }
                (Err(WaitError::Refused(error)), expected) => prop_assert_eq!(Err(error), expected),
                other => prop_assert!(false, "{:?}", other),
            },
            Step::TryAlloc(data) => {
                let got = line.try_alloc(data).map(|(_, got)| (got.found, got.references));
                prop_assert_eq!(got, model.alloc(data));
            }
            Step::Content(data) => {
                let expected = match model.entries.get(&data) {
                    _ if model.interrupted => Err(ContentError::Interrupted),
                    None => Err(ContentError::NotAssigned { data }),
                    Some(Entry { valid: true, .. }) => Ok(true),
                    Some(Entry { abandoned: true, .. }) => Err(ContentError::Abandoned { data }),
                    Some(_) if model.clients.len() == WAITERS => Err(ContentError::TooManyWaiters { waiters: 6 }),
                    Some(_) => Ok(false),
                };
                let got = line.content(data, waker);
                prop_assert_eq!(got.as_ref().map(|asked| matches!(asked, Asked::Now(()))), expected.as_ref().copied());
                if let Ok(Asked::Later(waiter)) = got {
                    model.clients.push(Client { waiter, data, for_content: true, told: None });
                }
            }
            Step::Free(data) => prop_assert_eq!(line.free(data), model.free(data)),
            Step::Remember(data) => prop_assert_eq!(line.remember(data), model.fill(data, false)),
            Step::Abandon(data) => prop_assert_eq!(line.abandon(data), model.fill(data, true)),
            Step::Forget(data) => {
                let idle = model.idle.contains(&data);
                if line.forget(data) == Ok(true) {
                    prop_assert!(idle);
                    model.idle.retain(|&idle| idle != data);
                    model.entries.remove(&data);
                } else {
                    prop_assert!(!idle || model.interrupted);
                }
            }
            Step::Poll(nth) | Step::End(nth) if nth < model.clients.len() => {
                let client = model.clients[nth];
                let ends = matches!(step, Step::End(_));
                let got = if ends { line.end(client.waiter) } else { line.poll(client.waiter, waker) };
                prop_assert_eq!(got.map(Told::from), client.told);
                if ends || client.told.is_some() {
                    model.clients.remove(nth);
                    let wanted = std::mem::take(&mut model.line);
                    model.line = wanted.into_iter().filter(|&data| model.is_wanted(data)).collect();
                    prop_assert_eq!(line.poll(client.waiter, waker), None, "an answer is given once");
                }
            }
            Step::Poll(_) | Step::End(_) => {}
            Step::Interrupt => {
                line.interrupt();
                model.interrupt();
            }
            Step::Reset if model.interrupted => {
                for slot in 0..slots {
                    line.settle(slot);
                }
                prop_assert_eq!(line.reset(), Ok(()));
                (model.interrupted, model.idle) = (false, VecDeque::new());
                model.entries.clear();
            }
            Step::Reset => prop_assert!(line.reset().is_err()),
        }
        while line.next_waker().is_some() {}
        prop_assert_eq!(line.waiting(), model.waiting(), "{:?}", step);
        let len = if model.interrupted { Err(Interrupted) } else { Ok(model.entries.len() as u32) };
        prop_assert_eq!(line.cache().len(), len);
        if !model.line.is_empty() {
            prop_assert_eq!(line.cache().has_room(), Ok(false), "nobody waits beside a slot that could be had");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn s72_those_who_wait_are_served_as_by_a_plain_list(
        slots in 1_u32..5,
        steps in prop::collection::vec(step(), 1..250),
    ) {
        follows(slots, &steps)?;
    }
}
