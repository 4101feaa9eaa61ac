//! The tasks of an exchange: start to receive, send, receive, set.

use std::task::Poll;
use std::time::{Duration, Instant};

use umbra_core::boundary::{Arrival, Channel, Counts, Entry, Exchange, ExchangeError, Key, Peer, State};
use umbra_core::time::Time;

use super::error::BoundaryError;
use super::fields::{Field, Fields};
use super::levels::Levels;
use super::overdue::ASK;
use super::pause::Pause;
use super::rows::Strips;
use super::scope::{Half, LOCAL, NONLOCAL, Scope};
use super::settings::Settings;
use super::strip;
use super::transport::Transport;

pub(super) type Machine = Exchange<Vec<Peer>, Vec<Entry>, Vec<Channel<()>>, Vec<u64>>;

/// Looks in vain between two at the clock, at most 100 us each.
const CLOCK: u64 = 64;

/// The exchange of ghost cells of one rank; see the [module](super).
#[derive(Debug)]
pub struct Boundary<T> {
    pub(super) machine: Machine,
    pub(super) fields: Vec<Field>,
    pub(super) strips: Strips,
    pub(super) transport: T,
    pub(super) settings: Settings,
    pub(super) halves: [Half; 2],
    /// Peers that the open exchange was sent to.
    pub(super) sent: Vec<bool>,
    /// Ranks that were shown a plan: the peers of the last epoch.
    pub(super) shown: Vec<u32>,
    pub(super) head: Vec<u8>,
    /// The values of a strip on their way, within this rank or between levels.
    pub(super) between: Vec<f64>,
    pub(super) levels: Levels,
    pub(super) pause: Pause,
    pub(super) started: Instant,
    /// When it is asked whether somebody has ended.
    pub(super) ask_at: Time,
    pub(super) sending: Duration,
    pub(super) stage: u8,
    pub(super) round: u32,
    /// A change of the mesh has failed on the way, or a message could not be handed over.
    pub(super) is_spent: bool,
}

impl<T: Transport> Boundary<T> {
    pub(super) fn now(&self) -> Time {
        Time(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Says which stage of a time step the next exchange is for; for reports only.
    pub const fn set_stage(&mut self, stage: u8) {
        self.stage = stage;
    }

    /// Begins an exchange if the last one is over.
    fn begin(&mut self) -> Result<(), BoundaryError> {
        self.usable()?;
        if self.halves == [Half::Set; 2] {
            let now = self.now();
            self.machine.begin(self.stage, now)?;
            self.ask_at = now + ASK;
            self.halves = [Half::Fresh; 2];
            self.sent.fill(false);
        }
        Ok(())
    }

    fn half(&mut self, half: usize) -> Result<Half, BoundaryError> {
        self.begin()?;
        if self.halves[half] == Half::Set { Err(BoundaryError::OtherHalf) } else { Ok(self.halves[half]) }
    }

    /// Gets all receivers ready. Whoever leaves this out gets the same bits; it may be repeated.
    ///
    /// # Errors
    /// [`BoundaryError`].
    pub fn start_receive(&mut self, scope: Scope) -> Result<(), BoundaryError> {
        if scope == Scope::Local { self.usable() } else { self.begin() }
    }

    /// Packs and sends what the blocks of this rank have for their neighbours. Until the exchange is
    /// [set](Self::set), the interior of these arrays must not change. `Pending` if a peer has no free slot; nothing was
    /// sent twice then, call again after receiving.
    ///
    /// # Errors
    /// [`BoundaryError`]. After one about an array, put that right and call again. If the transport does not take a message that was
    /// packed, this end is [spent](Self::is_spent).
    pub fn send(&mut self, view: &impl Fields, scope: Scope) -> Result<Poll<()>, BoundaryError> {
        let mut ready = true;
        for &half in scope.halves() {
            if self.half(half)? > Half::Fresh {
                continue;
            }
            let done = if half == LOCAL { self.send_local(view) } else { self.send_nonlocal(view) };
            let done = done.map_err(|error| self.named(error))?;
            if done {
                self.halves[half] = Half::Sent;
            }
            ready &= done;
        }
        Ok(if ready { Poll::Ready(()) } else { Poll::Pending })
    }

    fn send_local(&mut self, view: &impl Fields) -> Result<bool, BoundaryError> {
        let (strips, fields) = (&self.strips, &self.fields);
        let (_, entries, channels) = self.machine.local();
        // Those that were sent before a call failed are not sent again.
        for (entry, channel) in entries.iter().zip(channels).filter(|(_, channel)| channel.state() == State::Stale) {
            let live = if entry.step.crosses() {
                self.levels.pack(view, fields, entry, &mut self.between)?.is_some()
            } else {
                strip::source(view, strips, fields, entry)?.is_some()
            };
            let refused = |refusal| BoundaryError::Channel { key: entry.key, refusal };
            if live {
                channel.allocate(|| Some(())).map_err(refused)?;
                channel.send().map_err(refused)?;
            } else {
                channel.send_null().map_err(refused)?;
            }
        }
        Ok(true)
    }

    fn send_nonlocal(&mut self, view: &impl Fields) -> Result<bool, BoundaryError> {
        let peers = self.machine.peers().len();
        let mut all = true;
        for nth in 0..peers {
            let peer = if self.settings.reversed { peers - 1 - nth } else { nth };
            if self.sent[peer] {
                continue;
            }
            match self.machine.may_pack(peer) {
                Ok(()) => {}
                Err(ExchangeError::NoCredit { .. }) => {
                    all = false;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            let to = self.machine.peers()[peer].rank();
            let slot = self.machine.sequence() % self.machine.config().slots;
            if !self.transport.may_write(to, slot)? {
                all = false;
                continue;
            }
            let mut pack = self.machine.pack(peer, &mut self.head)?;
            loop {
                pack.nulls(|entry| !view.is_present(entry.key.sender, entry.key.field));
                let Some(entry) = pack.channel() else { break };
                if entry.step.crosses() {
                    match self.levels.pack(view, &self.fields, entry, &mut self.between)? {
                        Some(strip) => self.transport.write(to, slot, pack.live()?, 0, strip)?,
                        None => pack.null()?,
                    }
                    continue;
                }
                if let Some(values) = strip::source(view, &self.strips, &self.fields, entry)? {
                    let (place, rows) = (pack.live()?, self.strips.send(entry.key.element));
                    strip::pack(values, rows, self.strips.cells, |behind, row| {
                        self.transport.write(to, slot, place, behind, row)
                    })?;
                } else {
                    pack.null()?;
                }
            }
            // The overflow lies beside the slot or comes after it, where the peer finds it without an address.
            let message = pack.commit(0, 0)?;
            let begun = self.settings.timed.then(Instant::now);
            let published = self.transport.publish(&message, self.machine.config().epoch, &self.head[..message.head]);
            // It counts as sent and its peer will never have it, so the exchange cannot end.
            published.inspect_err(|_| self.is_spent = true)?;
            self.sending += begun.map_or(Duration::ZERO, |begun| begun.elapsed());
            self.machine.on_sent(peer);
            self.sent[peer] = true;
        }
        Ok(all)
    }

    /// Looks for what neighbours have sent. When all of it is there, fields of which something came become present, and
    /// the answer is `Ready`; until then nothing has changed but states.
    ///
    /// # Errors
    /// [`BoundaryError::Late`] names what is missing after the deadline, [`BoundaryError::Lost`] soon what is missing from a rank that
    /// has ended, or that the transport cannot reach any more.
    pub fn receive(&mut self, view: &mut impl Fields, scope: Scope) -> Result<Poll<()>, BoundaryError> {
        let ready = self.look(view, scope)? || self.look_in_time(view, scope)?;
        Ok(if ready { Poll::Ready(()) } else { Poll::Pending })
    }

    /// Fails unless there is time left; or all is there: it may have come while this process was stopped before it looked at the
    /// clock.
    fn look_in_time(&mut self, view: &mut impl Fields, scope: Scope) -> Result<bool, BoundaryError> {
        let Err(late) = self.in_time() else { return Ok(false) };
        if self.look(view, scope)? { Ok(true) } else { Err(late) }
    }

    /// Whether all is there; then fields are present where something came.
    fn look(&mut self, view: &mut impl Fields, scope: Scope) -> Result<bool, BoundaryError> {
        let mut ready = true;
        for &half in scope.halves() {
            if self.half(half)? < Half::Received {
                let came = if half == LOCAL { self.receive_local() } else { self.receive_nonlocal() };
                ready &= came.map_err(|error| self.named(error))?;
            }
        }
        if !ready {
            return Ok(false);
        }
        for &half in scope.halves() {
            if self.halves[half] < Half::Received {
                self.allocate(view, half)?;
                self.halves[half] = Half::Received;
            }
        }
        Ok(true)
    }

    fn receive_local(&mut self) -> Result<bool, BoundaryError> {
        let (_, entries, channels) = self.machine.local();
        let mut all = true;
        for (entry, channel) in entries.iter().zip(channels) {
            let received = channel.try_receive(|| Some(()));
            all &= received.map_err(|refusal| BoundaryError::Channel { key: entry.key, refusal })?;
        }
        Ok(all)
    }

    fn receive_nonlocal(&mut self) -> Result<bool, BoundaryError> {
        let sequence = self.machine.sequence();
        if !self.machine.peers().is_empty() && !self.transport.ready(sequence)? {
            return Ok(false);
        }
        let slot = sequence % self.machine.config().slots;
        let mut all = self.halves[NONLOCAL] >= Half::Sent;
        for peer in 0..self.machine.peers().len() {
            if self.machine.is_received(peer) {
                continue;
            }
            let (from, room) = (self.machine.peers()[peer].rank(), self.machine.peers()[peer].slot_bytes());
            let mut fetching = self.machine.peers()[peer].fetching();
            if fetching.is_none() && self.transport.look(from, slot, &mut self.head)? {
                match self.machine.on_message(peer, &self.head) {
                    Ok(Arrival::Whole | Arrival::Early) => {}
                    Ok(Arrival::Fetch { len, .. }) => fetching = Some(len),
                    // Counted by the machine; the message that is waited for may still come.
                    Err(_) => self.transport.taken(from, slot, room)?,
                }
            }
            if let Some(bytes) = fetching
                && self.transport.fetch(from, slot, bytes)?
            {
                self.machine.on_fetched(peer)?;
            }
            all &= self.machine.is_received(peer);
        }
        Ok(all)
    }

    /// Makes fields present where something came.
    fn allocate(&mut self, view: &mut impl Fields, half: usize) -> Result<(), BoundaryError> {
        let (rank, cells, fields) = (self.transport.rank(), self.strips.cells, &self.fields);
        let mut present = |key: Key| strip::make(view, rank, key, strip::length(cells, fields, key.field));
        if half == LOCAL {
            let (_, entries, channels) = self.machine.local();
            let live = entries.iter().zip(channels).filter(|(_, channel)| channel.state() == State::Received);
            return live.map(|(entry, _)| entry.key).try_for_each(present);
        }
        for peer in 0..self.machine.peers().len() {
            self.machine.came(peer).map(|entry| entry.key).try_for_each(&mut present)?;
        }
        Ok(())
    }

    /// Fills the ghosts from what was received: with values where something came, with the default elsewhere. The
    /// exchange is over then, and the next may begin.
    ///
    /// # Errors
    /// [`BoundaryError::NotReceived`] before receiving was ready, with the first channel that is missing. After one about an array,
    /// put that right and call again.
    pub fn set(&mut self, view: &mut impl Fields, scope: Scope) -> Result<(), BoundaryError> {
        self.usable()?;
        for &half in scope.halves() {
            match self.halves[half] {
                Half::Received => {}
                Half::Set if self.halves != [Half::Set; 2] => return Err(BoundaryError::OtherHalf),
                _ => return Err(self.not_received(scope)),
            }
        }
        for &half in scope.halves() {
            if half == LOCAL { self.set_local(view)? } else { self.set_nonlocal(view)? }
        }
        // Only now: after an error in the other half the same call is made again.
        scope.halves().iter().for_each(|&half| self.halves[half] = Half::Set);
        Ok(())
    }

    /// One whole exchange, waiting in between.
    ///
    /// # Errors
    /// [`BoundaryError`].
    pub fn exchange(&mut self, view: &mut impl Fields) -> Result<(), BoundaryError> {
        self.start_receive(Scope::Any)?;
        self.pause.worked();
        while self.send(view, Scope::Any)?.is_pending() {
            // Receiving is what lets others go on, so waiting for credit never ends in a circle.
            let _ = self.receive(view, Scope::Nonlocal)?;
            self.pause.take();
        }
        self.wait(view, Scope::Any)?;
        self.set(view, Scope::Any)
    }

    /// Receives until all is there.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn wait(&mut self, view: &mut impl Fields, scope: Scope) -> Result<(), BoundaryError> {
        self.pause.worked();
        for turn in 1u64.. {
            if self.look(view, scope)? {
                break;
            }
            // Reading the clock takes as long as looking does.
            if turn.is_multiple_of(CLOCK) && self.look_in_time(view, scope)? {
                break;
            }
            self.pause.take();
        }
        Ok(())
    }

    /// What happened so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        self.machine.counts()
    }

    /// Messages that an agent has found for this rank so far.
    #[must_use]
    pub fn attended(&self) -> u64 {
        self.transport.attended()
    }

    /// How long the transport took so far to send what was packed, if the [`Settings`] ask for it.
    #[must_use]
    pub const fn sending(&self) -> Duration {
        self.sending
    }

    /// The machine inside, to look at.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The transport, to look at.
    #[must_use]
    pub const fn transport(&self) -> &T {
        &self.transport
    }
}
