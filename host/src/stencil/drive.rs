//! The loop that owns the cache, until all groups are freed.
//!
//! Groups go in, loads and ready points go out, and news of both come back.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use async_channel::TrySendError;
use umbra_core::stencil::SubmitError;

use super::arena::{Arena, Slot};
use super::cache::{Cache, Next};
use super::error::RunError;
use super::foresight::Foresight;
use super::ready::{Load, News, Ready};
use super::run::{Observe, Progress, Stop};
use super::source::Source;
use super::{Groups, LoadError};

/// How long the loop sleeps at most before it looks whether it shall stop, and how long it hears news at most before it
/// says how far it is.
const LOOK: Duration = Duration::from_millis(50);

/// What the loop works with.
pub(super) struct Driver<'a, 'o, C: Cache, S: ?Sized> {
    pub(super) cache: &'o mut C,
    pub(super) arena: Arena<'a>,
    pub(super) groups: &'a Groups,
    pub(super) source: &'a S,
    pub(super) observe: &'o mut dyn Observe,
    pub(super) stop: Stop,
    pub(super) deadline: Duration,
    pub(super) to_load: async_channel::Sender<Load<'a, C::Group>>,
    pub(super) to_compute: async_channel::Sender<Ready<'a, C::Group>>,
    pub(super) news: Sender<News<'a, C::Group>>,
    pub(super) told: Receiver<News<'a, C::Group>>,
    pub(super) state: State<'a, C::Group>,
}

/// How far the loop is.
pub(super) struct State<'a, G> {
    /// Groups that were given to the cache, and those of them that were freed.
    submitted: u64,
    freed: u64,
    /// What is computed but not freed, from the first that is not freed on. Groups are freed in order: one that takes
    /// long would keep its slots while many others pass, and how many loads that costs would be up to chance.
    computed: VecDeque<Option<G>>,
    /// Inputs that are being loaded.
    loading: Vec<u64>,
    computing: usize,
    foresight: Foresight,
    /// Points that a load made ready.
    waits: u64,
    /// Empty vectors to be used again.
    spare: Vec<Vec<Slot<'a>>>,
    slots: Vec<u32>,
    start: Instant,
}

impl<G> State<'_, G> {
    pub(super) fn new() -> Self {
        State {
            submitted: 0,
            freed: 0,
            computed: VecDeque::new(),
            loading: Vec::new(),
            foresight: Foresight::default(),
            computing: 0,
            waits: 0,
            spare: Vec::new(),
            slots: Vec::new(),
            start: Instant::now(),
        }
    }
}

impl<'a, C: Cache, S: Source + ?Sized> Driver<'a, '_, C, S> {
    /// Runs until all groups are freed.
    pub(super) fn run(&mut self) -> Result<(), RunError> {
        // Nobody would ever free these slots, and groups that need them would wait for ever; and what the cache says of these
        // groups would be taken for news of others.
        let (groups, (occupied, idle)) = (self.cache.under_way(), self.cache.occupied());
        if groups > 0 || occupied > idle {
            return Err(RunError::InUse { groups, slots: occupied - idle });
        }
        let groups = self.groups.len() as u64;
        self.observe.progress(&self.progress());
        while self.state.freed < groups {
            self.submit()?;
            self.act(false)?;
            let news = self.wait()?;
            self.hear(news)?;
            // What is heard submits more, so the news may never run out: the end and the progress must not wait for that.
            let turn = Instant::now();
            while turn.elapsed() < LOOK
                && !self.stop.is_set()
                && let Ok(news) = self.told.try_recv()
            {
                self.hear(news)?;
            }
            self.observe.progress(&self.progress());
        }
        Ok(())
    }

    /// Gives as many groups to the cache as it takes.
    fn submit(&mut self) -> Result<(), RunError> {
        while (self.state.submitted as usize) < self.groups.len() {
            let number = self.state.submitted;
            match self.cache.submit(number, self.groups.get(number as usize)) {
                Ok(()) => {}
                Err(SubmitError::GroupsFull { .. }) => break,
                Err(error) => return Err(RunError::Submit { number, error }),
            }
            self.state.submitted += 1;
            self.state.computed.push_back(None);
        }
        let State { submitted, freed, foresight, .. } = &mut self.state;
        foresight.tell(self.source, self.groups, *freed..*submitted, |data| self.cache.has_slot(data));
        Ok(())
    }

    /// Does what the cache asks for; `waited` says that a load has made it ask.
    fn act(&mut self, waited: bool) -> Result<(), RunError> {
        while let Some(next) = self.cache.poll() {
            match next {
                Next::Prepare { slot, data } => {
                    let (need, have) = (slot as usize + 1, self.arena.len());
                    if need > have {
                        return Err(RunError::Memory { need, have });
                    }
                    let refused = || RunError::Load { data, error: LoadError::GivenUp };
                    let bytes = self.arena.take(slot).ok_or_else(refused)?;
                    self.observe.load(slot, data);
                    self.state.loading.push(data);
                    self.state.foresight.begun(data);
                    let load = Load::new(slot, data, bytes, self.news.clone());
                    // There is room for a load of each slot.
                    self.to_load.try_send(load).map_err(|error| self.refused(&error))?;
                }
                Next::Ready { number, group } => {
                    self.state.waits += u64::from(waited);
                    let ready = self.ready(number, group)?;
                    self.state.computing += 1;
                    self.to_compute.try_send(ready).map_err(|error| match error {
                        TrySendError::Full(_) => {
                            RunError::Active { active: self.to_compute.capacity().unwrap_or(usize::MAX) }
                        }
                        closed => self.refused(&closed),
                    })?;
                }
                Next::Ended { number } => {
                    return Err(RunError::Cache(format!("group {number} has ended by itself").into()));
                }
            }
        }
        Ok(())
    }

    fn ready(&mut self, number: u64, group: C::Group) -> Result<Ready<'a, C::Group>, RunError> {
        let (arena, slots) = (&self.arena, &mut self.state.slots);
        let mut inputs = self.state.spare.pop().unwrap_or_default();
        slots.clear();
        self.cache.slots(group, &mut |slot| {
            slots.push(slot);
            inputs.extend(arena.share(slot));
        })?;
        let members = self.groups.get(number as usize);
        if inputs.len() != members.len() {
            return Err(RunError::Cache(format!("group {number} is ready while its inputs are loaded").into()));
        }
        self.observe.ready(number, slots);
        Ok(Ready::new(number, group, members, inputs, self.news.clone()))
    }

    /// The next news; an error if there are none before the deadline, or if the run shall stop.
    fn wait(&mut self) -> Result<News<'a, C::Group>, RunError> {
        let start = Instant::now();
        loop {
            let (done, groups) = (self.state.freed, self.groups.len() as u64);
            if self.stop.is_set() {
                return Err(RunError::Stopped { done, groups });
            }
            let waited = start.elapsed();
            let left = self.deadline.saturating_sub(waited);
            match self.told.recv_timeout(left.min(LOOK)) {
                Ok(news) => return Ok(news),
                Err(RecvTimeoutError::Timeout) if left > Duration::ZERO => self.observe.progress(&self.progress()),
                Err(_) => {
                    let (loading, input) = (self.state.loading.len(), self.state.loading.first().copied());
                    let computing = self.state.computing;
                    self.observe.late(waited);
                    return Err(RunError::Late { waited, loading, input, computing });
                }
            }
        }
    }

    fn hear(&mut self, news: News<'a, C::Group>) -> Result<(), RunError> {
        match news {
            News::Loaded { slot, data, bytes, result } => {
                self.arena.put(slot, bytes);
                if let Some(at) = self.state.loading.iter().position(|&loading| loading == data) {
                    self.state.loading.swap_remove(at);
                }
                result.map_err(|error| RunError::Load { data, error })?;
                self.cache.prepared(data)?;
                self.act(true)
            }
            News::Computed { number, group, inputs, result } => {
                self.state.computing -= 1;
                self.state.spare.push(inputs);
                result.map_err(|error| RunError::Compute { number, error })?;
                let at = number.checked_sub(self.state.freed).and_then(|at| usize::try_from(at).ok());
                if let Some(place) = at.and_then(|at| self.state.computed.get_mut(at)) {
                    *place = Some(group);
                }
                while let Some(&Some(group)) = self.state.computed.front() {
                    self.state.computed.pop_front();
                    self.cache.free_group(group)?;
                    self.state.freed += 1;
                    // The next group is known before slots are given up for the one after it.
                    self.submit()?;
                    self.act(false)?;
                }
                Ok(())
            }
            // Who took the last point may leave before anybody looks.
            News::Left if self.state.freed == self.groups.len() as u64 => Ok(()),
            News::Left => Err(self.abandoned()),
        }
    }

    fn abandoned(&self) -> RunError {
        RunError::Abandoned { done: self.state.freed, groups: self.groups.len() as u64 }
    }

    /// Why nothing goes into a queue.
    fn refused<T>(&self, error: &TrySendError<T>) -> RunError {
        match error {
            TrySendError::Closed(_) => self.abandoned(),
            TrySendError::Full(_) => RunError::Cache("more is loaded than there are slots".into()),
        }
    }

    /// How far the run is.
    pub(super) fn progress(&self) -> Progress {
        let (occupied, idle) = self.cache.occupied();
        let loading = u32::try_from(self.state.loading.len()).unwrap_or(u32::MAX);
        Progress {
            done: self.state.freed,
            groups: self.groups.len() as u64,
            statistics: self.cache.statistics(),
            waits: self.state.waits,
            loading,
            held: occupied.saturating_sub(idle + loading),
            idle,
            empty: (self.arena.len() as u32).saturating_sub(occupied),
            elapsed: self.state.start.elapsed(),
        }
    }
}
