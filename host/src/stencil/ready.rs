//! What goes to the threads that load and compute, and the news that come back.
//!
//! Both tell their end when they are dropped, so that nothing is waited for that has gone, not even after a panic.

use std::sync::mpsc::Sender;

use super::arena::Slot;
use super::error::ComputeError;
use super::source::LoadError;

/// What the driver is told.
pub(super) enum News<'a, G> {
    /// A load is over.
    Loaded { slot: u32, data: u64, bytes: Slot<'a>, result: Result<(), LoadError> },
    /// A point is computed; its vector comes back empty, to be used again.
    Computed { number: u64, group: G, inputs: Vec<Slot<'a>>, result: Result<(), ComputeError> },
    /// Nobody takes ready points any more.
    Left,
}

/// A load to be done.
pub(super) struct Load<'a, G> {
    pub(super) data: u64,
    slot: u32,
    /// Until they are sent back.
    bytes: Option<Slot<'a>>,
    result: Result<(), LoadError>,
    news: Sender<News<'a, G>>,
}

impl<'a, G> Load<'a, G> {
    pub(super) fn new(slot: u32, data: u64, bytes: Slot<'a>, news: Sender<News<'a, G>>) -> Self {
        Load { data, slot, bytes: Some(bytes), result: Err(LoadError::GivenUp), news }
    }

    /// Does it, if nobody else has the slot.
    pub(super) fn fill(mut self, load: impl FnOnce(u64, &mut [u8]) -> Result<(), LoadError>) {
        if let Some(bytes) = self.bytes.as_mut().and_then(Slot::get_mut) {
            self.result = load(self.data, bytes);
        }
    }
}

impl<G> Drop for Load<'_, G> {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Ok(()));
        if let Some(bytes) = self.bytes.take() {
            // Nobody listens after a run that failed.
            let _ = self.news.send(News::Loaded { slot: self.slot, data: self.data, bytes, result });
        }
    }
}

/// A point whose inputs are all in their slots, until it is dropped: that says that it is computed.
#[must_use = "a point that is dropped counts as computed"]
pub struct Ready<'a, G = umbra_core::id::Id<umbra_core::stencil::Group>> {
    number: u64,
    group: Option<G>,
    members: &'a [u64],
    inputs: Vec<Slot<'a>>,
    result: Result<(), ComputeError>,
    news: Sender<News<'a, G>>,
}

impl<'a, G> Ready<'a, G> {
    pub(super) fn new(
        number: u64,
        group: G,
        members: &'a [u64],
        inputs: Vec<Slot<'a>>,
        news: Sender<News<'a, G>>,
    ) -> Self {
        Ready { number, group: Some(group), members, inputs, result: Ok(()), news }
    }

    /// The number of the group, in order.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The inputs of the group, as they were named.
    #[must_use]
    pub fn members(&self) -> &'a [u64] {
        self.members
    }

    /// The bytes of the slot of a member, by its place among them.
    #[must_use]
    pub fn input(&self, at: usize) -> Option<&[u8]> {
        self.inputs.get(at).map(|slot| &***slot)
    }

    /// The point can't be computed: the run ends with this error.
    pub fn fail(mut self, error: ComputeError) {
        self.result = Err(error);
    }
}

impl<G> Drop for Ready<'_, G> {
    fn drop(&mut self) {
        // Handles go before the news: the next load must find the slot unused.
        let mut inputs = std::mem::take(&mut self.inputs);
        inputs.clear();
        let mut result = std::mem::replace(&mut self.result, Ok(()));
        if std::thread::panicking() {
            result = Err("the computation panicked".into());
        }
        if let Some(group) = self.group.take() {
            let _ = self.news.send(News::Computed { number: self.number, group, inputs, result });
        }
    }
}

/// Says when nobody takes ready points any more.
pub(super) struct Consumer<'a, G>(pub(super) Sender<News<'a, G>>);

impl<G> Drop for Consumer<'_, G> {
    fn drop(&mut self) {
        let _ = self.0.send(News::Left);
    }
}
