//! A member's turns: what came, what is due, what is to be run and to be sent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use umbra_core::chain::{Action, Handle, Phase, Verdict, Work};
use umbra_core::error::Stale;
use umbra_core::time::{Lapse, Time};

use super::local::{Local, Within};
use super::member::{Function, LOOK, Member, PROBE};
use super::probe::Probe;
use super::rendezvous::Replies;
use crate::sys::clock::now;

/// How often a member looks who has died while no call is under way: then nobody waits for the news.
const IDLE_LOOK: Lapse = Lapse::from_millis(100);
/// How often whoever puts messages out to other places looks: the news, with its way there, is to take no longer than
/// [`LOOK`].
const TOLD_LOOK: Lapse = Lapse::from_millis(5);
/// Messages taken before something else is done.
const BATCH: usize = 64;

impl Member {
    /// Serves the calls of others until `done` says so, at most so long, and [heirs](Self::is_inherited) not at all; whether it did.
    pub fn serve_until(&mut self, patience: Duration, mut done: impl FnMut(&mut Member) -> bool) -> bool {
        let mut at = now();
        let end = at + Lapse(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let worked = self.turn_at(at);
            // A child may come back from a function of its parent.
            if !self.is_inherited() && done(self) {
                return true;
            }
            at = now();
            if at >= end || self.is_inherited() {
                return false;
            }
            if !worked || self.only_waits() {
                at = self.sleep(at, end);
            }
        }
    }

    /// Does what is to be done, without waiting; whether there was anything.
    pub fn turn(&mut self) -> bool {
        self.turn_at(now())
    }

    /// The same at the time that is `at`: whoever has just looked at the clock does not look again.
    fn turn_at(&mut self, at: Time) -> bool {
        if self.is_inherited() {
            return false;
        }
        let mut worked = self.receive(self.node, BATCH, at);
        if self.machine.deadline().is_some_and(|due| due <= at) {
            self.machine.on_time(at);
        }
        if self.probe_at <= at {
            self.probe_at = Time::NEVER;
            for handle in self.pending.drain(..) {
                let _ = self.machine.wake(handle);
            }
        }
        // A request may have to go on to somebody who has come again since and is taken for dead.
        let goes_on = worked || self.within.iter().any(Within::wishes);
        if self.look_at <= at || (goes_on && self.has_news()) || self.misses_somebody() {
            self.look_at = at + IDLE_LOOK;
            self.sweep_replies();
            self.look();
        }
        worked |= self.flush();
        worked |= self.tend();
        worked |= self.tend_replies(at);
        while let Some(action) = self.machine.poll(at, &mut self.buffer) {
            worked = true;
            match action {
                Action::Send { from, to, len_bytes } => self.send(from, to, len_bytes),
                Action::Run { handle, .. } => {
                    self.run(handle);
                    // A function may fork, and the child come back from it: what follows is its parent's to send.
                    if self.is_inherited() {
                        return false;
                    }
                }
                Action::Ended { handle } => self.ended(handle),
            }
        }
        if !self.replies.is_empty() {
            self.replies.settle(&mut self.machine, &self.station);
        }
        if !self.machine.is_empty()
            || !self.outbox.is_empty()
            || self.held.is_some()
            || self.tells_others()
            || !self.replies.is_empty()
        {
            let soon = if self.outgoing.is_some() { TOLD_LOOK } else { LOOK };
            self.look_at = self.look_at.min(at + soon);
        }
        worked
    }

    /// A call of ours is over: frees its place, and does what is to be done then, because others may wait for it.
    pub(super) fn release(&mut self, handle: Handle) -> Result<(), Stale> {
        self.machine.release(handle)?;
        if !(self.machine.is_idle() && self.only_waits() && self.replies.is_empty()) {
            self.turn();
        }
        Ok(())
    }

    fn run(&mut self, handle: Handle) {
        let mut within = self.take_within(handle);
        let Member { machine, functions, probe, node, station, replies, .. } = self;
        let (mut local, probe) = (Local::of(&mut within, *node, station), probe.as_ref());
        let ran = machine.run_on(handle, |function, work| {
            let Some(Some(user)) = functions.get_mut(usize::from(function)) else { return Verdict::Panic };
            local.in_callback = matches!(work.phase, Phase::Wait(_));
            let probe = probe.filter(|probe| probe.sees(function));
            let verdict = if probe.is_none() && work.rendezvous().is_none() {
                guarded(user, work, &mut local)
            } else {
                watched(user, work, &mut local, probe, replies)
            };
            local.within.ended_as(verdict);
            verdict
        });
        let Ok((known, verdict)) = ran else { return debug_assert!(false, "the machine asked for it") };
        // A function that is pending may be known by another handle from now on.
        within.outer = known;
        if verdict == Verdict::Pending && !within.waits() {
            self.pending.push(known);
            self.probe_at = self.probe_at.min(now() + PROBE);
        }
        self.settle(within, verdict);
    }
}

/// Runs the user's code, which may panic.
#[inline]
fn guarded(user: &mut Function, work: &mut Work<'_>, local: &mut Local<'_>) -> Verdict {
    catch_unwind(AssertUnwindSafe(|| user(work, local))).unwrap_or(Verdict::Panic)
}

/// The same, for somebody who looks at it, or has a long reply. Of its own, so that what others take is a short way.
#[inline(never)]
fn watched(
    user: &mut Function,
    work: &mut Work<'_>,
    local: &mut Local<'_>,
    probe: Option<&Probe>,
    replies: &mut Replies,
) -> Verdict {
    replies.run(work, local.station, |work| match probe {
        Some(probe) => probe.run(work, |work| guarded(user, work, local)),
        None => guarded(user, work, local),
    })
}
