//! A lane of the window that this process owns: commands out, answers in.

use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::error::Status;
use umbra_core::peer::{Incarnation, Peer};
use umbra_core::ring::PushError;
use umbra_core::ring::line::{Line, Receiver, Ring, Sender};
use umbra_core::window::{Claim, LANES, Lane, Window};
use umbra_core::wire::{Frame, HEAD, Token};

use super::FirmwareError;
use super::watch::Watch;
use crate::sys::process::{ProcessError, ProcessId, lives};

/// Process ids are below 2^22 (proc(5), `pid_max`).
const PID_SHIFT: u32 = 42;
const START_SHIFT: u32 = 16;
const START_BITS: u64 = (1 << (PID_SHIFT - START_SHIFT)) - 1;

/// Commands that may be without an answer: what the firmware allows.
pub(super) const CREDIT: usize = 16;

/// Counts the claims of this process, so that no two are alike.
static CLAIMS: AtomicU32 = AtomicU32::new(0);

/// A lane that this process has claimed; given back when it is dropped.
#[derive(Debug)]
struct Claimed<'m> {
    lane: Lane<'m>,
    mark: u64,
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if self.lane.owner() == self.mark {
            self.lane.give_back();
        }
    }
}

/// The lane, once the firmware knows whose it is.
#[derive(Debug)]
pub(super) struct Attached<'m> {
    claimed: Claimed<'m>,
    commands: Sender<'m>,
    answers: Receiver<'m>,
    /// The last command.
    token: u64,
    /// Commands without an answer.
    owed: u32,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    body: [u8; 64],
    len: usize,
}

impl Answer {
    pub(super) fn body(&self) -> &[u8] {
        self.body.get(..self.len).unwrap_or(&[])
    }
}

impl<'m> Attached<'m> {
    /// Claims a lane that is free, or whose owner is dead, and waits until the firmware knows.
    pub(super) fn claim(
        window: &Window<'m>,
        me: Peer,
        life: Incarnation,
        watch: &mut Watch<'m>,
    ) -> Result<Self, FirmwareError> {
        let this = ProcessId::current()?;
        // As many bits as the mark leaves.
        let number = CLAIMS.fetch_add(1, Ordering::Relaxed) & ((1 << START_SHIFT) - 1);
        let claim = Claim { mark: mark(this) | u64::from(number), peer: Some(me), life };
        let mut owners = Vec::new();
        for at in 0..LANES {
            let lane = window.lane(at)?;
            let owner = lane.owner();
            if owner != 0 && is_alive(owner) {
                owners.push((owner >> PID_SHIFT) as u32);
            } else if lane.take(owner, &claim) {
                let claimed = Claimed { lane, mark: claim.mark };
                watch.until("a claim", || (lane.accepted() == claim.mark).then_some(()))?;
                let commands = Ring::attach(lane.commands)?.sender()?;
                let answers = Ring::attach(lane.answers)?.receiver()?;
                return Ok(Attached { claimed, commands, answers, token: life.0, owed: 0 });
            }
        }
        Err(FirmwareError::NoLane { board: watch.board(), owners })
    }

    pub(super) const fn share(&self) -> BytesMut<'m> {
        self.claimed.lane.share
    }

    pub(super) const fn landing(&self) -> BytesMut<'m> {
        self.claimed.lane.landing
    }

    /// The name of the next command.
    pub(super) const fn next(&self) -> Token {
        Token(self.token.wrapping_add(1))
    }

    /// Waits for the answers to commands that were given up: they may still use the landing area.
    pub(super) fn settle(&mut self, what: &'static str, watch: &mut Watch<'m>) -> Result<(), FirmwareError> {
        while self.owed > 0 {
            watch.same_life()?;
            self.take(what, watch)?;
        }
        Ok(())
    }

    /// Puts bytes where the next command says that they lie, once nothing that was given up uses the landing area.
    pub(super) fn land(
        &mut self,
        what: &'static str,
        bytes: &[u8],
        watch: &mut Watch<'m>,
    ) -> Result<(), FirmwareError> {
        self.settle(what, watch)?;
        watch.same_life()?;
        Ok(self.landing().write(0, bytes)?)
    }

    /// Sends the command named [`next`](Self::next); at most [`CREDIT`] may be without an answer.
    pub(super) fn post(
        &mut self,
        what: &'static str,
        command: &Frame<'_>,
        watch: &mut Watch<'m>,
    ) -> Result<(), FirmwareError> {
        let mut bytes = [0; 64];
        let line = command.emit(&mut bytes).ok().and_then(|len| Line::from_bytes(bytes.get(..len)?));
        let mut line = line.ok_or(FirmwareError::Nonsense { what })?;
        watch.same_life()?;
        let commands = &mut self.commands;
        watch.until(what, || match commands.push(line) {
            Ok(()) => Some(Ok(())),
            Err(PushError::Full(back)) => {
                line = back;
                None
            }
            Err(_) => Some(Err(FirmwareError::Nonsense { what })),
        })??;
        self.token = self.next().0;
        self.owed += 1;
        Ok(())
    }

    /// Waits for the next answer.
    pub(super) fn take(&mut self, what: &'static str, watch: &mut Watch<'m>) -> Result<(Token, Answer), FirmwareError> {
        let answers = &mut self.answers;
        let answer = watch.until(what, || parse(&answers.pop()?.to_bytes()))?;
        self.owed = self.owed.saturating_sub(1);
        Ok(answer)
    }

    /// Sends the command named [`next`](Self::next) and waits for its answer.
    pub(super) fn call(
        &mut self,
        what: &'static str,
        command: &Frame<'_>,
        watch: &mut Watch<'m>,
    ) -> Result<Answer, FirmwareError> {
        self.settle(what, watch)?;
        let token = self.next();
        self.post(what, command, watch)?;
        let (answered, answer) = self.take(what, watch)?;
        if answered == token { Ok(answer) } else { Err(FirmwareError::Nonsense { what }) }
    }
}

/// The answer in a line, if the line is one, and what it answers.
fn parse(line: &[u8; 64]) -> Option<(Token, Answer)> {
    let len = Frame::announced_len(line.first_chunk::<HEAD>()?).ok()?;
    match Frame::parse(line.get(..len)?).ok()? {
        Frame::Done { token, status, body, .. } => {
            let mut answer = Answer { status, body: [0; 64], len: body.len() };
            answer.body.get_mut(..body.len())?.copy_from_slice(body);
            Some((token, answer))
        }
        _ => None,
    }
}

const fn mark(process: ProcessId) -> u64 {
    (process.pid as u64) << PID_SHIFT | (process.start & START_BITS) << START_SHIFT
}

/// Whether the process that made a mark still lives; one that cannot be looked at does.
fn is_alive(owner: u64) -> bool {
    let unmarked = owner & !((1 << START_SHIFT) - 1);
    match ProcessId::of((owner >> PID_SHIFT) as u32) {
        Ok(process) => mark(process) == unmarked && lives(process.into()),
        Err(error) => !matches!(error, ProcessError::Gone(_)),
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::*;

    #[test]
    fn marks_tell_lives_of_one_pid_apart() {
        let me = ProcessId::current().unwrap();
        assert!(is_alive(mark(me) | 77));
        assert!(!is_alive(mark(ProcessId { start: me.start + 1, ..me })));
        assert!(!is_alive(mark(ProcessId { pid: (1 << 22) - 1, start: 5 })));
    }

    #[test]
    fn who_was_killed_and_not_waited_for_has_no_lane() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let its = mark(ProcessId::of(child.id()).unwrap());
        assert!(is_alive(its));
        child.kill().unwrap();
        let (exited, pid) = (WaitIdOptions::EXITED | WaitIdOptions::NOWAIT, Pid::from_child(&child));
        waitid(WaitId::Pid(pid), exited).unwrap();
        assert!(!is_alive(its), "a zombie keeps its lane");
        child.wait().unwrap();
    }
}
