//! Functions that make calls, and wait for them.

use umbra_core::chain::{Call, CallId, Handle, Node};

use super::script::INNER;
use super::{Happens, Planned, World, sum_over};

/// By which a function fails whose call has failed, or was refused.
pub(super) const INNER_FAILED: u32 = 43;

/// A function that makes a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker {
    /// At whose machine it runs, in which life of that.
    pub(super) home: Node,
    pub(super) life: u32,
    /// By which it is woken.
    pub(super) handle: Handle,
    /// Of which call it is, at which member.
    pub(super) call: CallId,
    pub(super) node: Node,
}

impl World {
    pub(super) fn begin_inner(&mut self, maker: Maker) {
        let seat = &self.seats[maker.home.index()];
        if seat.machine.is_none() || seat.life != maker.life {
            return;
        }
        let members = self.script.inner.clone();
        let planned = sum_over(std::iter::once(maker.home.0));
        let call = Call { header: INNER, within: Some(maker.handle), ..planned.call };
        match self.start(&Planned { members, call, ..planned }) {
            Ok(at) => match &self.made[at].end {
                Some((end, _)) => {
                    let well = end.records().is_empty();
                    self.answer_inner(maker, well);
                }
                None => _ = self.inner.insert(self.made[at].id, maker),
            },
            // No room, no time, too deep, or whoever makes it has been given up.
            Err(_) => self.answer_inner(maker, false),
        }
    }

    /// A call has ended, which a function may have made.
    pub(super) fn inner_ended(&mut self, call: CallId, well: bool) {
        if let Some(maker) = self.inner.remove(&call) {
            self.answer_inner(maker, well);
        }
    }

    fn answer_inner(&mut self, maker: Maker, well: bool) {
        let Maker { home, life, handle, call, node } = maker;
        self.answered.insert((call, node), well);
        self.plan_at(self.now, Happens::Wake { node: home, life, handle });
    }
}
