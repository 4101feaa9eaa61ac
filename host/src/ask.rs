//! Asking running agents: calls from a tool that takes no part in the job.
//!
//! An [`Asker`] dials all agents at once, with one deadline, and remembers for each whether it answered or why not: that
//! some of them are missing is the news when something is wrong, not a reason to stop. Whoever has one question for all of
//! them [asks each](ask_each) as soon as it is linked, so that none waits for those that hang.
//!
//! Calls are frames of administration; answers come back as bytes.

use std::os::fd::OwnedFd;

use umbra_core::error::Status;
use umbra_core::peer::{Incarnation, Peer, Sp};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::{Frame, Op, Token};

use crate::admin::{MORE_MAX, ops};
use crate::driver::{Driver, Event, Limits, LinkId, now};
use crate::link::{Address, Close, Identity, Party, SendError};
use crate::secret::{self, Secret};

/// An agent that can be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Who must answer there.
    pub sp: Sp,
    /// Where it listens.
    pub address: Address,
}

/// An agent gave no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// There is no link to it.
    #[error("service process {sp} at {address}: {why}")]
    Unreachable {
        /// Which agent.
        sp: Sp,
        /// Where it should be.
        address: Address,
        /// What happened.
        why: Close,
    },
    /// It answered that it will not or cannot.
    #[error("service process {sp}: {status}{}", if text.is_empty() { String::new() } else { format!(" ({text})") })]
    Refused {
        /// Which agent.
        sp: Sp,
        /// Its status.
        status: Status,
        /// What it added.
        text: String,
    },
    /// It did not answer before the deadline.
    #[error("service process {sp}: no answer before the deadline")]
    Silent {
        /// Which agent.
        sp: Sp,
    },
    /// It says more than any answer has.
    #[error("service process {sp}: its answer does not end after {MORE_MAX} bytes")]
    Endless {
        /// Which agent.
        sp: Sp,
    },
    /// The call was not queued.
    #[error("service process {sp}: {why}")]
    NotSent {
        /// Which agent.
        sp: Sp,
        /// Why.
        why: SendError,
    },
    /// The system failed us.
    #[error("cannot wait for agents: {0}")]
    System(String),
}

enum State {
    Dialling(LinkId),
    Up(LinkId),
    Gone(Close),
}

/// Links to some agents.
pub struct Asker {
    driver: Driver,
    agents: Vec<(Target, State)>,
    token: u64,
    /// What came with the last answers.
    descriptors: Vec<OwnedFd>,
}

impl Asker {
    /// Dials every target and waits until each is linked or `patience` is over. Fails only if the system does; which
    /// agents are missing is told by the calls.
    ///
    /// # Errors
    /// [`AskError::System`] if there are no random bytes or the system cannot wait.
    pub fn connect(secret: Secret, targets: Vec<Target>, patience: Lapse) -> Result<Asker, AskError> {
        let deadline = now() + patience;
        let mut asker = Asker::dial(secret, targets, patience)?;
        let is_dialling = |asker: &Asker| asker.agents.iter().any(|(_, state)| matches!(state, State::Dialling(_)));
        while is_dialling(&asker) && asker.driver.looked() < deadline {
            asker.step(deadline, |_, _, _| {})?;
        }
        Ok(asker)
    }

    /// Begins to dial every target; that ends a little before `patience` does.
    fn dial(secret: Secret, targets: Vec<Target>, patience: Lapse) -> Result<Asker, AskError> {
        let system = |e: &dyn std::fmt::Display| AskError::System(e.to_string());
        let life = u64::from_le_bytes(secret::random::<8>().map_err(|e| system(&e))?).max(1);
        let me = Identity { party: Party::Tool, incarnation: Incarnation(life) };
        let mut driver = Driver::new(me, secret, Limits::default());
        let deadline = now() + Lapse(patience.0 - GRACE.0.min(patience.0 / 16));
        let mut agents = Vec::with_capacity(targets.len());
        for target in targets {
            let state = match Peer::service(target.sp) {
                Some(peer) => match driver.dial(target.address.clone(), Party::Peer(peer), deadline) {
                    Ok(link) => State::Dialling(link),
                    Err(_) => State::Gone(Close::Local),
                },
                None => State::Gone(Close::Local),
            };
            agents.push((target, state));
        }
        Ok(Asker { driver, agents, token: 0, descriptors: Vec::new() })
    }

    /// How many agents there should be.
    #[must_use]
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// Whether no agent was named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    /// The agents, in the order in which they were given.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.agents.iter().map(|(target, _)| target)
    }

    /// Whether agent number `which` is linked.
    #[must_use]
    pub fn is_up(&self, which: usize) -> bool {
        self.agents.get(which).is_some_and(|(_, state)| matches!(state, State::Up(_)))
    }

    /// Calls one agent.
    ///
    /// # Errors
    /// [`AskError`] telling why there is no answer.
    pub fn call(&mut self, which: usize, op: Op, body: &[u8], patience: Lapse) -> Result<Vec<u8>, AskError> {
        let asked = self.calls(which..which + 1, op, body, patience)?;
        asked.into_iter().next().unwrap_or_else(|| Err(AskError::System("no such agent".to_owned())))
    }

    /// As [`call`](Self::call), for an answer with which a descriptor comes.
    ///
    /// # Errors
    /// [`AskError`] telling why there is no answer, [`AskError::System`] if nothing comes with it.
    pub fn call_for(
        &mut self,
        which: usize,
        op: Op,
        body: &[u8],
        patience: Lapse,
    ) -> Result<(Vec<u8>, OwnedFd), AskError> {
        let answer = self.call(which, op, body, patience)?;
        let nothing = || AskError::System("no descriptor came with the answer".to_owned());
        Ok((answer, self.descriptors.pop().ok_or_else(nothing)?))
    }

    /// Calls all agents at once; answers in their order.
    ///
    /// # Errors
    /// [`AskError::System`] if the system cannot wait.
    pub fn call_all(&mut self, op: Op, body: &[u8], patience: Lapse) -> Result<Vec<Answer>, AskError> {
        self.calls(0..self.agents.len(), op, body, patience)
    }

    /// Calls those that are linked, and those that are still dialled as soon as they are.
    fn calls(
        &mut self,
        which: std::ops::Range<usize>,
        op: Op,
        body: &[u8],
        patience: Lapse,
    ) -> Result<Vec<Answer>, AskError> {
        self.token += 1;
        self.descriptors.clear();
        let token = Token(self.token);
        let deadline = now() + patience;
        let first = which.start;
        let count = self.agents.get(which).map_or(0, <[_]>::len);
        let mut calls: Vec<Called> = (0..count).map(|_| Called::default()).collect();
        loop {
            for ((target, state), call) in self.agents.iter().skip(first).zip(&mut calls) {
                match state {
                    State::Dialling(_) => {}
                    State::Up(link) if !call.is_asked => {
                        call.is_asked = true;
                        let sent = self.driver.send(*link, &Frame::Call { op, token, body }, Vec::new());
                        call.answer = sent.err().map(|why| Err(AskError::NotSent { sp: target.sp, why }));
                    }
                    State::Up(_) => {}
                    State::Gone(why) => _ = call.answer.get_or_insert_with(|| Err(unreachable(target, why.clone()))),
                }
            }
            if calls.iter().all(|call| call.answer.is_some()) || self.driver.looked() >= deadline {
                break;
            }
            self.step(deadline, |at, target, frame| {
                // What comes behind the end of an answer is no part of it.
                let call = at.checked_sub(first).and_then(|at| calls.get_mut(at)).filter(|call| call.answer.is_none());
                if let Some(call) = call {
                    call.answer = read(target, frame, token, &mut call.more);
                }
            })?;
        }
        let late = |(target, state): &(Target, State)| match state {
            State::Dialling(_) => unreachable(target, Close::HandshakeTimeout),
            State::Up(_) | State::Gone(_) => AskError::Silent { sp: target.sp },
        };
        let late = self.agents.iter().skip(first).map(late);
        Ok(calls.into_iter().zip(late).map(|(call, late)| call.answer.unwrap_or(Err(late))).collect())
    }

    /// Waits once and tells which frames came.
    fn step(&mut self, deadline: Time, mut tell: impl FnMut(usize, &Target, &[u8])) -> Result<(), AskError> {
        let mut bytes = Vec::new();
        self.driver.wait(deadline).map_err(|e| AskError::System(e.to_string()))?;
        while let Some(event) = self.driver.next(&mut bytes) {
            let link = match &event {
                Event::Up { link, .. } | Event::Frame { link, .. } | Event::Gone { link, .. } => *link,
                _ => continue,
            };
            let holder = |state: &State| matches!(state, State::Dialling(l) | State::Up(l) if *l == link);
            let Some(at) = self.agents.iter().position(|(_, state)| holder(state)) else { continue };
            let Some((target, state)) = self.agents.get_mut(at) else { continue };
            match event {
                Event::Up { .. } => *state = State::Up(link),
                Event::Frame { descriptors, .. } => {
                    self.descriptors.extend(descriptors);
                    tell(at, target, &bytes);
                }
                Event::Gone { why, .. } => *state = State::Gone(why),
                Event::Readable(_) => {}
            }
        }
        Ok(())
    }
}

/// Asks every target one question; answers in their order. All of it, links included, takes no longer than `patience`, and
/// whoever is linked sooner is asked sooner.
///
/// # Errors
/// [`AskError::System`] if there are no random bytes or the system cannot wait.
pub fn ask_each(
    secret: Secret,
    targets: Vec<Target>,
    op: Op,
    body: &[u8],
    patience: Lapse,
) -> Result<Vec<Answer>, AskError> {
    Asker::dial(secret, targets, patience)?.call_all(op, body, patience)
}

/// What comes of one call.
#[derive(Default)]
struct Called {
    is_asked: bool,
    /// What came of its answer before the end.
    more: Vec<u8>,
    answer: Option<Answer>,
}

/// What an agent answered, or why it did not.
pub type Answer = Result<Vec<u8>, AskError>;

/// A dial that is due at its deadline ends a moment later: it is due so long before the time is up, or a sixteenth of that.
const GRACE: Lapse = Lapse::from_millis(50);

fn unreachable(target: &Target, why: Close) -> AskError {
    AskError::Unreachable { sp: target.sp, address: target.address.clone(), why }
}

/// The answer that ends with a frame, unless this is about something else; `more` is what came of it before.
fn read(target: &Target, frame: &[u8], asked: Token, more: &mut Vec<u8>) -> Option<Answer> {
    match Frame::parse(frame) {
        Ok(Frame::Call { op: ops::MORE, token, body }) if token == asked => {
            more.extend_from_slice(body);
            (more.len() > MORE_MAX).then_some(Err(AskError::Endless { sp: target.sp }))
        }
        Ok(Frame::Done { token, status: Status::Ok, body, .. }) if token == asked => {
            Some(Ok([body, more.as_slice()].concat()))
        }
        Ok(Frame::Done { token, status, body, .. }) if token == asked => {
            let text = String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(500).collect();
            Some(Err(AskError::Refused { sp: target.sp, status, text }))
        }
        _ => None,
    }
}
