//! A member: the machine of chained calls, and its functions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use umbra_core::atomic::AtomicU32;
use umbra_core::chain::{
    Call, CallId, Config, Handle, Machine, Node, Plan, RegisterError, StartError, Tag, Verdict, Work,
};
use umbra_core::channel::Header;
use umbra_core::error::Stale;
use umbra_core::time::{Lapse, Time};

use super::answer::{Reply, WaitError};
use super::auto::Auto;
use super::forked::Origin;
use super::join::{JoinError, sit};
use super::local::{Local, Within};
use super::offer::{Shelf, Table};
use super::outgoing::Outgoing;
use super::peers::Peers;
use super::probe::Probe;
use super::rendezvous::{Replies, start};
use super::sleep::Sleeps;
use super::station::{Station, StationError};
use super::storage::{Capacities, Heap};
use crate::sys::clock::now;
use crate::sys::heap::filled;
use crate::sys::wait::Crowd;

/// A function that members may call.
pub type Function = Box<dyn FnMut(&mut Work<'_>, &mut Local<'_>) -> Verdict + Send>;

/// How often members look who has died while a call is under way.
pub(super) const LOOK: Lapse = Lapse::from_millis(10);
/// How soon a function that is pending is asked again.
pub(super) const PROBE: Lapse = Lapse::from_micros(500);

/// One member of a [`Station`]. One thread serves it: whoever waits for its own calls serves those of others meanwhile.
/// A child that was forked off takes a seat of its own: what it received as this member its parent would miss, so there
/// [it](Self::is_inherited) does nothing.
pub struct Member {
    pub(super) station: Station,
    pub(super) node: Node,
    /// The process that took the seat.
    pub(super) origin: Origin,
    pub(super) machine: Machine<Heap>,
    pub(super) functions: Vec<Option<Function>>,
    pub(super) peers: Peers,
    /// Messages that their receivers had no room for.
    pub(super) outbox: VecDeque<(Node, Node, Vec<u8>)>,
    pub(super) buffer: Vec<u8>,
    pub(super) pad: Vec<u8>,
    /// A message that could not be taken yet: what came along, and its length in the pad.
    pub(super) held: Option<(Header, usize)>,
    /// The way to members elsewhere, if this member is the one that puts messages there.
    pub(super) outgoing: Option<Outgoing>,
    /// Not zero: whoever serves it is to look at something else than messages.
    pub(super) bell: Option<Arc<AtomicU32>>,
    /// Calls whose function is pending.
    pub(super) pending: Vec<Handle>,
    /// Calls that functions have made which are pending.
    pub(super) within: Vec<Within>,
    auto: Auto,
    /// What it offers.
    pub(super) shelf: Shelf,
    pub(super) replies: Replies,
    pub(super) look_at: Time,
    /// Changes of seats that were looked at.
    pub(super) seen: u64,
    pub(super) probe_at: Time,
    pub(super) crowd: Crowd,
    pub(super) sleeps: Sleeps,
    /// How its functions are looked at, and which of them are not.
    pub(super) probe: Option<Probe>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("node", &self.node).field("calls", &self.calls()).finish_non_exhaustive()
    }
}

impl Member {
    /// Takes the seat of `node`, with room for the usual number of calls.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join(station: &Station, node: Node) -> Result<Member, JoinError> {
        Self::join_with(station, node, Capacities::new(station.shape().all), |config| config)
    }

    /// Takes the seat of `node`, with this much room and other settings.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join_with(
        station: &Station,
        node: Node,
        capacities: Capacities,
        settings: impl FnOnce(Config) -> Config,
    ) -> Result<Member, JoinError> {
        let taken = sit(station, node, node)?;
        let life = taken.life;
        // What earlier lives were doing to their inbox when they died.
        let inbox = station.inbox(node)?;
        for before in Station::lives(station.first_life(), life) {
            inbox.queue().reclaim(station.number(node, before));
        }
        let [shelf, replies] = [Table::Offers, Table::Replies].map(|table| Shelf::new(station, (node, life), table));
        let (shelf, replies) = (shelf?, Replies::new(replies?));
        let mut peers = Peers::new(station);
        peers.settle(node, life, node);
        let config = Config { message_max: station.shape().message_bytes, ..settings(Config::new(node, life)) };
        let config = Config { node, life, ..config };
        let machine = capacities.machine(config)?;
        let [buffer, pad] = [filled(0, config.message_max as usize)?, filled(0, config.message_max as usize)?];
        taken.keep();
        Ok(Member {
            station: station.clone(),
            node,
            origin: Origin::this(),
            machine,
            functions: Vec::new(),
            peers,
            outbox: VecDeque::new(),
            buffer,
            pad,
            held: None,
            outgoing: None,
            bell: None,
            pending: Vec::with_capacity(capacities.calls.into()),
            within: Vec::new(),
            auto: Auto::default(),
            shelf,
            replies,
            look_at: Time::ZERO,
            seen: 0,
            probe_at: Time::NEVER,
            crowd: Crowd::default(),
            sleeps: Sleeps::default(),
            probe: None,
        })
    }

    /// Takes the first of these seats that is free.
    ///
    /// # Errors
    /// [`JoinError`] of the last one if none is.
    pub fn join_any(station: &Station, seats: impl IntoIterator<Item = Node>) -> Result<Member, JoinError> {
        let mut refused = JoinError::Station(StationError::NoSeat(Node(u32::MAX)));
        for seat in seats {
            match Member::join(station, seat) {
                Err(taken @ JoinError::Taken { .. }) => refused = taken,
                other => return other,
            }
        }
        Err(refused)
    }

    /// Takes another seat: its messages come here, and this machine does its part in calls.
    ///
    /// Calls between members that share a machine need no message. Such a member makes no calls of its own.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn house(&mut self, node: Node) -> Result<(), JoinError> {
        self.refuse_heirs()?;
        let life = sit(&self.station, node, self.node)?.keep();
        self.peers.settle(node, life, self.node);
        // There is a seat, so the machine knows the member.
        let known = self.machine.house(node);
        debug_assert!(known.is_ok(), "a machine knows as many members as there are seats");
        Ok(())
    }

    /// Where it sits.
    #[must_use]
    pub fn station(&self) -> &Station {
        &self.station
    }

    /// Who it is.
    #[must_use]
    pub const fn node(&self) -> Node {
        self.node
    }

    /// Calls under way here, its own and those of others.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.machine.len()
    }

    /// Messages of such calls, also of calls that are over here, which wait for room in the inboxes that they are for.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.outbox.len()
    }

    /// Bytes of the longest message.
    #[must_use]
    pub fn message_bytes(&self) -> u32 {
        self.station.shape().message_bytes
    }

    /// Now, on the clock of the machine, which all its members share.
    #[must_use]
    pub fn now(&self) -> Time {
        now()
    }

    /// Counts of what its machine did.
    #[must_use]
    pub const fn figures(&self) -> &umbra_core::chain::Figures {
        self.machine.figures()
    }

    /// Makes a function callable by this name, which is the same for all members.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register(
        &mut self,
        name: &str,
        mut function: impl FnMut(&mut Work<'_>) -> Verdict + Send + 'static,
    ) -> Result<Tag, RegisterError> {
        self.register_local(name, move |work, _| function(work))
    }

    /// Makes a function callable by this name that also makes calls of its own.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register_local(
        &mut self,
        name: &str,
        function: impl FnMut(&mut Work<'_>, &mut Local<'_>) -> Verdict + Send + 'static,
    ) -> Result<Tag, RegisterError> {
        let tag = Tag::of(name);
        self.register_at(tag, Box::new(function))?;
        Ok(tag)
    }

    /// Makes a function callable; its place.
    pub(super) fn register_at(&mut self, tag: Tag, function: Function) -> Result<u16, RegisterError> {
        let place = self.machine.register(tag)?;
        let at = usize::from(place);
        if self.functions.len() <= at {
            self.functions.resize_with(at + 1, || None);
        }
        self.functions[at] = Some(function);
        Ok(place)
    }

    /// No new call may use the function of this name from now on; calls under way still run it. Whether it was registered.
    pub fn unregister(&mut self, name: &str) -> bool {
        self.machine.unregister(Tag::of(name))
    }

    /// Begins a call and does not wait for it.
    ///
    /// # Errors
    /// [`StartError`]; nothing was sent.
    pub fn start(&mut self, call: &Call<'_>) -> Result<Handle, StartError> {
        self.refuse_heirs()?;
        let at = now();
        // Looking is dear: whoever lives is asked for one by one.
        if self.look_at <= at || self.has_news() {
            self.look_at = at + LOOK;
            self.look();
        }
        let shape = self.station.shape();
        let handle = match call.plan {
            Plan::Auto => {
                let plan = self.auto.plan(&self.station, self.node, call, |node| self.peers.home(node));
                start(&mut self.machine, &Call { plan, ..*call }, shape, at)
            }
            _ => start(&mut self.machine, call, shape, at),
        }?;
        self.turn();
        Ok(handle)
    }

    /// Whether a call has ended; serves others once.
    ///
    /// # Errors
    /// [`Stale`] if its answer was taken already, or is another [process's](Self::is_inherited).
    pub fn test(&mut self, handle: Handle) -> Result<bool, Stale> {
        self.turn();
        // Also a child that came back from a function in this turn.
        self.refuse_heirs()?;
        Ok(self.machine.outcome(handle)?.is_some())
    }

    /// Waits for a call, at most so long, and takes its answer; serves others meanwhile.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait(&mut self, handle: Handle, patience: Duration) -> Result<Reply, WaitError> {
        self.serve_until(patience, |member| member.machine.outcome(handle).map_or(true, |outcome| outcome.is_some()));
        self.refuse_heirs()?;
        let answer = self.replies.answer(&self.machine, handle)?.ok_or(WaitError::NotYet)?;
        self.release(handle)?;
        answer.map_err(WaitError::Failed)
    }

    /// Which call this is, for all members and for ever.
    ///
    /// # Errors
    /// [`Stale`] if its answer was taken already.
    pub fn call_id(&self, handle: Handle) -> Result<CallId, Stale> {
        self.machine.call_id(handle)
    }

    /// Gives a call up; its answer says so.
    ///
    /// # Errors
    /// [`Stale`] as for [`test`](Self::test).
    pub fn cancel(&mut self, handle: Handle) -> Result<(), Stale> {
        self.refuse_heirs()?;
        self.machine.cancel(handle)?;
        self.turn();
        Ok(())
    }
}
