//! How a call ends here: answers, reports, and the places that become free.

use core::fmt;

use zerocopy::IntoBytes;

use super::context::{Context, NO_KID, Own, RECORDS, State};
use super::kids::{Kid, Kids, Stand};
use super::layout::Came;
use super::machine::{Action, Handle, Machine};
use super::message::{Failure, Response};
use super::mode::Mode;
use super::name::CallId;
use super::reach::{Reach, Unreached};
use super::report::{Code, Record, Stage, Tallies};
use super::storage::Storage;
use super::work::Members;
use crate::codec::{Reader, Writer};
use crate::error::Stale;
use crate::time::Time;

/// How a call ended that was started here.
#[derive(Clone, Debug)]
pub enum Outcome<'a> {
    /// At every member the function ended well once, and so did the callback for every child; who was dead before and
    /// [left out](Mode::SKIP_DEAD) is none.
    Done {
        /// Members, with the one who made the call.
        members: u32,
        /// Those beside them who were left out ([`Mode::SKIP_DEAD`]).
        skipped: Members<'a>,
        /// The header of the reply.
        header: &'a [u8],
        /// The data of the reply.
        data: &'a [u8],
    },
    /// Something failed.
    Failed(Report<'a>),
}

/// Who failed where, and what became of the others.
#[derive(Clone)]
pub struct Report<'a> {
    /// What became of all members.
    pub tallies: Tallies,
    records: &'a [u8],
    skipped: Members<'a>,
    reach: Reach<'a>,
}

impl Report<'_> {
    /// The failures, in the order in which they were heard of; the first one alone unless the call collects them.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let mut from = Reader::new(self.records);
        core::iter::from_fn(move || Record::parse(&mut from))
    }

    /// Members that were certainly not reached: their function has not run and will not. They are at most as many as the
    /// tally counts, and fewer where neither tree nor records tell who the others are. The last of them are those who were
    /// [left out](Self::skipped).
    #[must_use]
    pub fn unreached(&self) -> Unreached<'_> {
        let named = self.reach.unreached(self.records(), self.skipped());
        // Records are what others said: if they name more than were counted, one of both is wrong.
        let is_sound = named.clone().count() <= self.tallies.unreached as usize;
        if is_sound { named } else { named.silent() }
    }
}

impl<'a> Report<'a> {
    /// Members that were left out, as they were dead before ([`Mode::SKIP_DEAD`]), in the order of the list.
    #[must_use]
    pub fn skipped(&self) -> Members<'a> {
        self.skipped.clone()
    }
}

impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Report");
        shown.field("tallies", &self.tallies);
        self.records().fold(&mut shown, |shown, record| shown.field("record", &record));
        shown.field("unreached", &self.unreached()).finish()
    }
}

impl<S: Storage> Machine<S> {
    /// Adds a failure to those known of a call, if it still keeps any more.
    pub(super) fn record(&mut self, id: Handle, record: Record) {
        let Some((context, memory)) = self.both(id) else { return };
        if usize::from(context.records) < context.layout.records_max() {
            let range = context.layout.record_range(context.records);
            if let Some(place) = memory.as_mut_bytes().get_mut(range)
                && record.emit(&mut Writer::new(place)).is_ok()
            {
                context.records += 1;
            }
        }
    }

    /// The member's own function or callback failed.
    pub(super) fn own_failure(&mut self, id: Handle, record: Record) {
        let Ok(context) = self.contexts.get_mut(id) else { return };
        if Self::is_fast(context) {
            return self.fail(id, Some(record));
        }
        context.state = State::Gathering;
        self.record(id, record);
        self.drop_unsent(id);
    }

    /// Sends nothing more to children that have not been asked, and tells the others to stop if that is wanted: each once, however
    /// many fail.
    pub(super) fn drop_unsent(&mut self, id: Handle) {
        let Some((context, mut kids)) = self.with_kids(id) else { return };
        if context.stopped {
            return self.ready(id);
        }
        let stops = context.cancelled || context.mode.contains(Mode::CANCEL_ON_FAIL);
        kids.update(|_, kid| match kid.is_open() {
            true if kid.is_unasked() => {
                context.tallies.unreached += kid.piece.len;
                context.pend -= 1;
                Some(Kid { stand: Stand::Dropped, ..kid })
            }
            true if stops => Some(Kid { stand: Stand::ToCancel, ..kid }),
            _ => None,
        });
        (context.cursor, context.wants_room, context.stopped) = (0, false, stops);
        self.ready(id);
    }

    /// The call has failed here, and answers so; children that have not answered count as not reached if they were
    /// never asked, else as unknown.
    pub(super) fn fail(&mut self, id: Handle, record: Option<Record>) {
        if let Some(record) = record {
            self.record(id, record);
        }
        self.give_up_walk(id);
        let Some((context, mut kids)) = self.with_kids(id) else { return };
        let stops = context.cancelled || context.mode.contains(Mode::CANCEL_ON_FAIL);
        let tallies = &mut context.tallies;
        kids.update(|_, kid| {
            let asked = !kid.is_unasked();
            if kid.is_open() {
                *(if asked { &mut tallies.unknown } else { &mut tallies.unreached }) += kid.piece.len;
            }
            let stand = match kid.is_open() {
                true if !asked => Stand::Dropped,
                true if stops => Stand::ToCancel,
                _ => Stand::Over,
            };
            (!kid.is_over()).then_some(Kid { stand, ..kid })
        });
        Self::close(context);
        self.arm(id);
        self.ready(id);
    }

    /// The call has ended well, at its maker.
    pub(super) fn end(&mut self, id: Handle) {
        let Ok(context) = self.contexts.get_mut(id) else { return };
        context.well = true;
        Self::close(context);
        self.arm(id);
    }

    fn close(context: &mut Context) {
        let own = match context.own {
            Own::NotRun => &mut context.tallies.unreached,
            Own::Began => &mut context.tallies.unknown,
            Own::Ok => &mut context.tallies.ok,
            Own::Failed => &mut context.tallies.failed,
        };
        *own += 1;
        (context.pend, context.parked, context.cursor) = (0, (NO_KID, NO_KID), 0);
        context.wants_room = false;
        context.ask_at = Time::NEVER;
        if context.readers == 0 {
            context.deadline = Time::NEVER;
        }
        context.state = if context.is_root() { State::Ended } else { State::Failing };
    }

    /// Sends the good answer; the call is over here.
    pub(super) fn answer(&mut self, id: Handle, now: Time, buffer: &mut [u8]) -> Option<Action> {
        let (context, memory) = self.both(id)?;
        let (call, (to, edge)) = (context.call, context.parent?);
        let (node, nodes, is_read) = (context.node, context.layout.members, context.readers > 0);
        let bytes = memory.as_bytes();
        let header = bytes.get(..usize::from(context.reply.header))?;
        let start = usize::from(context.caps.header);
        let data = bytes.get(start..start + context.reply.data as usize)?;
        if is_read {
            context.state = State::Draining;
        }
        let left = || {
            // An answer that was ready when the time was over has no deadline any more.
            let end = if context.deadline == Time::NEVER { now } else { context.deadline };
            // The parent has what it kept of its time for itself, less than what this one keeps.
            let until = end + Self::slack_above(context.slack, context.height);
            u32::try_from(until.since(now).0 / 1000).unwrap_or(u32::MAX)
        };
        let budget_us = context.mode.contains(Mode::RENDEZVOUS).then(left);
        let len_bytes = Response { nodes, budget_us, header, data }.emit(call, edge, buffer).ok();
        debug_assert!(len_bytes.is_some(), "the buffer holds the longest message");
        self.figures.responses += 1;
        self.figures.response_bytes += len_bytes.unwrap_or(0) as u64;
        self.bury((call, node), to, edge, len_bytes.and_then(|len| buffer.get(..len)));
        if !is_read {
            self.free(id);
        }
        Some(Action::Send { from: node, to, len_bytes: len_bytes? })
    }

    /// Sends the bad answer; then only those who are told to stop are left.
    pub(super) fn answer_badly(&mut self, id: Handle, buffer: &mut [u8]) -> Option<Action> {
        let (context, memory) = self.both(id)?;
        let (call, node, tallies, (to, edge)) = (context.call, context.node, context.tallies, context.parent?);
        context.state = State::Draining;
        let bytes = memory.as_bytes();
        let layout = context.layout;
        let read = |at| Record::parse(&mut Reader::new(bytes.get(layout.record_range(at))?));
        // A call that was cancelled before anything failed has no record.
        let records: heapless::Vec<Record, RECORDS> = (0..context.records).filter_map(read).take(RECORDS).collect();
        let len_bytes = Failure::emit(tallies, records.into_iter(), call, edge, buffer).ok();
        debug_assert!(len_bytes.is_some(), "the buffer holds the longest message");
        self.figures.failures += 1;
        self.bury((call, node), to, edge, len_bytes.and_then(|len| buffer.get(..len)));
        self.ready(id);
        Some(Action::Send { from: node, to, len_bytes: len_bytes? })
    }

    /// Leaves a call that nobody wants an answer of.
    pub(super) fn leave(&mut self, id: Handle) {
        let Ok(context) = self.contexts.get(id) else { return };
        let (call, node, parent) = (context.call, context.node, context.parent.filter(|_| !context.at_home));
        if let Some((to, edge)) = parent
            && self.index.get(call.key(node)) == Some(id.index())
        {
            self.bury((call, node), to, edge, None);
        }
        self.free(id);
    }

    /// Ends a call here without an answer: its parent is dead, or has given it up.
    pub(super) fn abandon(&mut self, id: Handle) {
        let Ok(context) = self.contexts.get_mut(id) else { return };
        if context.parent.is_none() || context.state == State::Draining {
            return;
        }
        self.fail(id, None);
        if let Ok(context) = self.contexts.get_mut(id) {
            context.state = State::Draining;
        }
    }

    /// How a call ended that was started here; `None` while it goes on.
    ///
    /// # Errors
    /// [`Stale`] if it was released, or not started here.
    pub fn outcome(&self, handle: Handle) -> Result<Option<Outcome<'_>>, Stale> {
        let context = self.contexts.get(handle)?;
        if !context.is_root() || context.released {
            return Err(Stale);
        }
        if context.state != State::Ended {
            return Ok(None);
        }
        let start = handle.index() as usize * self.slab;
        let memory = self.words.as_ref().get(start..start + self.slab).ok_or(Stale)?;
        let bytes = memory.as_bytes();
        let (layout, walk) = (&context.layout, &context.walk);
        let skipped = Members(bytes.get(layout.skipped_range(context.skipped)).ok_or(Stale)?.as_chunks().0);
        if context.well {
            let header = bytes.get(..usize::from(context.reply.header)).ok_or(Stale)?;
            let at = usize::from(context.caps.header);
            let data = bytes.get(at..at + context.reply.data as usize).ok_or(Stale)?;
            return Ok(Some(Outcome::Done { members: context.tallies.ok, skipped, header, data }));
        }
        let first = context.layout.record_range(0).start;
        let records = bytes.get(first..first + usize::from(context.records) * Record::BYTES).ok_or(Stale)?;
        let reach = Reach {
            list: Came { bytes, base: 0 }.list(layout),
            shape: context.shape,
            led: context.led,
            mode: context.mode,
            not_run: context.own == Own::NotRun,
            kids: Kids::words(layout, memory),
            // Whoever moved out of a walk, or had none, walks through nobody.
            rest: if walk.top.piece.len > 0 { walk.top.next } else { layout.members },
        };
        let mut tallies = context.tallies;
        tallies.unreached += context.skipped;
        Ok(Some(Outcome::Failed(Report { tallies, records, skipped, reach })))
    }

    /// Whether any part of a call is under way here, or its answer was not taken.
    #[must_use]
    pub fn is_under_way(&self, call: CallId) -> bool {
        let mut all = (0..self.contexts.capacity() as u32).filter_map(|at| self.contexts.at(at));
        all.any(|(_, context)| context.call == call && !context.released)
    }

    /// Which call a handle names.
    ///
    /// # Errors
    /// [`Stale`] if it is over here.
    pub fn call_id(&self, handle: Handle) -> Result<CallId, Stale> {
        Ok(self.contexts.get(handle)?.call)
    }

    /// Frees the place of a call that has ended; its handle is stale from now on.
    ///
    /// # Errors
    /// [`Stale`] if it goes on, was released before, or was not started here.
    pub fn release(&mut self, handle: Handle) -> Result<(), Stale> {
        let context = self.contexts.get_mut(handle)?;
        if context.state != State::Ended || context.released {
            return Err(Stale);
        }
        (context.released, context.told) = (true, true);
        if context.well && context.readers == 0 && !context.queued {
            self.free(handle);
        } else {
            self.ready(handle);
        }
        Ok(())
    }

    /// Gives a call up that was started here: it ends at once, and who has been asked is told to stop.
    ///
    /// # Errors
    /// [`Stale`] if it was released, or not started here.
    pub fn cancel(&mut self, handle: Handle) -> Result<(), Stale> {
        let (origin, context) = (self.config.node, self.contexts.get_mut(handle)?);
        if !context.is_root() || context.released {
            return Err(Stale);
        }
        if context.state != State::Ended {
            context.cancelled = true;
            let (stage, code, depth) = (Stage::Cancelled, Code::Cancelled, context.class);
            self.fail(handle, Some(Record { origin, stage, code, depth, aux: 0, count: 1 }));
        }
        Ok(())
    }
}
