//! The client's end of a line: what it does next, and what it must not believe.
//!
//! A call is carried out in at most four parts: the line is made if there is none, what broken lines of the handle may
//! have under way is cut, the line is opened, and the call is asked. The machine reads no clock and sends nothing:
//! whoever drives it does what [`Client::next`] says, tells it what happened, and asks again, until the call is over.
//!
//! Guaranteed, whatever the network and the gateway do: a call is over [`GRACE`] after its deadline, or after its
//! beginning if that is later; nothing is asked twice; an answer to what was given up is not taken for the next one;
//! and a line that broke over something is in [`Doubts`] until a gateway said that it has ended it, before which the
//! handle asks for nothing else.
//!
//! ```
//! use umbra_core::gateway::client::{Client, Do, Doubts, Say};
//! use umbra_core::time::{Lapse, Time};
//! struct None;
//! impl Doubts for None {
//!     fn first(&self) -> Option<u64> { Option::None }
//!     fn add(&mut self, _: u64) {}
//!     fn settled(&mut self, _: u64) {}
//! }
//! let (mut client, now) = (Client::new(None, false), Time(0));
//! client.ask(now + Lapse::from_secs(1), now);
//! assert!(matches!(client.next(now), Do::Dial(_)));
//! client.on_up(7);
//! let Do::Say(token, Say::Open) = client.next(now) else { panic!("it is opened first") };
//! client.on_answer(token, true);
//! let Do::Say(token, Say::Asked) = client.next(now) else { panic!("then it asks") };
//! client.on_answer(token, true);
//! assert!(matches!(client.next(now), Do::End(Ok(()))));
//! ```
//!
//! *Cost*: a few comparisons a call.

use crate::time::{Lapse, Time};
use crate::wire::Token;

/// How long after the deadline of a call its answer may still come.
pub const GRACE: Lapse = Lapse::from_secs(2);

/// Lines of a handle that broke over something, by the lives of this end.
pub trait Doubts {
    /// One of them.
    fn first(&self) -> Option<u64>;
    /// One more.
    fn add(&mut self, life: u64);
    /// A gateway said that nothing of this one is under way.
    fn settled(&mut self, life: u64);
}

/// What is said over a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Say {
    /// End what another line of the handle has under way.
    Cut(u64),
    /// What the line is for.
    Open,
    /// What the call is about.
    Asked,
}

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the call goes on when it is done"]
pub enum Do {
    /// Make a line, until then.
    Dial(Time),
    /// Say this.
    Say(Token, Say),
    /// Wait for what happens, until then.
    Wait(Time),
    /// The call is over.
    End(Result<(), Failure>),
}

/// Why a call was not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The line broke, or was not made: whether the call is carried out is not known.
    Lost,
    /// Nothing was answered in time: the same.
    Silent,
    /// It was not said.
    Unsaid,
    /// The gateway refused to open the line, or to cut another one.
    Refused,
}

/// What the call of the moment waits for.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// There is no call.
    Idle,
    /// Something to say.
    Ready,
    /// The line.
    Dialing,
    /// An answer.
    Said(Token, Say),
    /// To be told that it is over.
    Over(Result<(), Failure>),
}

/// One line of a handle.
#[derive(Debug)]
pub struct Client<D> {
    doubts: D,
    /// The life of this end of the line that there is.
    life: Option<u64>,
    is_open: bool,
    /// Whether what the line was opened for is over when it breaks.
    ends_with_its_line: bool,
    token: u64,
    stage: Stage,
    /// Whether something is asked when it is open.
    asks: bool,
    /// When the call is to be answered, and when it is over in any case.
    deadline: Time,
    limit: Time,
}

impl<D: Doubts> Client<D> {
    /// A line that is made when it is used.
    pub const fn new(doubts: D, ends_with_its_line: bool) -> Self {
        let (life, token, zero) = (None, 0, Time::ZERO);
        let stage = Stage::Idle;
        Client {
            doubts,
            life,
            is_open: false,
            ends_with_its_line,
            token,
            stage,
            asks: false,
            deadline: zero,
            limit: zero,
        }
    }

    /// Begins to open the line, for a call that began at this time: now, or when it began to wait for its turn.
    pub fn open(&mut self, deadline: Time, began: Time) {
        self.limit = deadline.max(began) + GRACE;
        self.deadline = if deadline > began { deadline } else { self.limit };
        (self.asks, self.stage) = (false, Stage::Ready);
    }

    /// Begins a call, as [`open`](Self::open) does.
    pub fn ask(&mut self, deadline: Time, began: Time) {
        self.open(deadline, began);
        self.asks = true;
        if self.life.is_none() && self.ends_with_its_line && self.is_open {
            self.stage = Stage::Over(Err(Failure::Lost));
        }
    }

    /// What is to be done now.
    pub fn next(&mut self, now: Time) -> Do {
        match self.stage {
            Stage::Ready if self.life.is_none() => {
                (self.is_open, self.stage) = (false, Stage::Dialing);
                Do::Dial(self.deadline)
            }
            Stage::Ready => match (self.doubts.first(), self.is_open, self.asks) {
                (Some(life), ..) => self.say(Say::Cut(life)),
                (None, false, _) => self.say(Say::Open),
                (None, true, true) => self.say(Say::Asked),
                (None, true, false) => self.end(Ok(())),
            },
            Stage::Dialing | Stage::Said(..) if now >= self.limit => {
                self.fail(Failure::Silent);
                self.next(now)
            }
            Stage::Dialing | Stage::Said(..) => Do::Wait(self.limit),
            Stage::Over(result) => self.end(result),
            Stage::Idle => Do::End(Err(Failure::Unsaid)),
        }
    }

    fn say(&mut self, what: Say) -> Do {
        self.token += 1;
        self.stage = Stage::Said(Token(self.token), what);
        Do::Say(Token(self.token), what)
    }

    fn end(&mut self, result: Result<(), Failure>) -> Do {
        self.stage = Stage::Idle;
        Do::End(result)
    }

    /// The line is there; this end of it has this life.
    pub fn on_up(&mut self, life: u64) {
        self.life = Some(life);
        if let Stage::Dialing = self.stage {
            self.stage = Stage::Ready;
        }
    }

    /// What this token was said with is answered; `granted` unless it is refused. An answer to something else is none.
    pub fn on_answer(&mut self, token: Token, granted: bool) {
        let Stage::Said(said, what) = self.stage else { return };
        if said != token {
            return;
        }
        self.stage = match what {
            Say::Asked => Stage::Over(Ok(())),
            _ if !granted => {
                self.life = None;
                Stage::Over(Err(Failure::Refused))
            }
            Say::Cut(life) => {
                self.doubts.settled(life);
                Stage::Ready
            }
            Say::Open => {
                self.is_open = true;
                Stage::Ready
            }
        };
    }

    /// What was to be said could not be.
    pub fn on_unsaid(&mut self) {
        self.life = None;
        self.stage = Stage::Over(Err(Failure::Unsaid));
    }

    /// The line is no more, or was not made.
    pub fn on_gone(&mut self) {
        self.fail(Failure::Lost);
    }

    fn fail(&mut self, failure: Failure) {
        let is_doubtful = match self.stage {
            Stage::Said(_, what) => !matches!(what, Say::Cut(_)),
            // The gateway may believe in this end for a while.
            Stage::Idle => self.ends_with_its_line,
            _ => false,
        };
        if let Some(life) = self.life.take()
            && is_doubtful
        {
            self.doubts.add(life);
        }
        if !matches!(self.stage, Stage::Idle | Stage::Over(_)) {
            self.stage = Stage::Over(Err(failure));
        }
    }
}
