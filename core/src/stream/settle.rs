//! How a conversation ends: by sender, receiver, or whoever buries one of them.
//!
//! Who is the last one named in a place has it to himself: he empties it, and frees it with one swap. Dying over that
//! he is still named, and whoever buries him starts again.

use super::table::{ATTEMPTS, Conversation, Table};
use super::word::{BEREFT, BRIEF, ENDED, FORSAKEN, LEFT, OFFERED, WAITS, Word};

/// How a sender ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum End {
    /// Everything was said.
    Complete,
    /// The rest will not come.
    Broken,
}

/// What ending did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Outcome {
    /// The other end goes on.
    Open,
    /// The conversation waits for its receiver now.
    Deposited,
    /// The place is free.
    Free,
    /// It was not this member's conversation.
    Stale,
}

/// What a sender hears of his receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Hearer {
    /// He reads, or may still come.
    There,
    /// He went before the end.
    Left,
    /// He died.
    Dead,
}

/// What a receiver knows of his sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Speaker {
    /// He writes, or may still come.
    There,
    /// He said everything.
    Done,
    /// He died, or gave up.
    Dead,
}

/// What a dead member had of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reclaimed {
    /// Conversations that it sent in.
    pub sent: usize,
    /// Conversations that it received.
    pub received: usize,
    /// Streams that it kept.
    pub kept: usize,
}

impl Table<'_> {
    fn is_current(now: Word, conversation: Conversation) -> bool {
        now.generation() == conversation.generation
    }

    /// What the sender hears of the receiver; `None` if it is not his conversation.
    #[inline]
    #[must_use]
    pub fn hearer(&self, conversation: Conversation, by: u16) -> Option<Hearer> {
        let now = self.load(conversation.place)?;
        (Self::is_current(now, conversation) && now.sender() == Some(by)).then_some(match () {
            () if now.has(BEREFT) => Hearer::Dead,
            () if now.has(LEFT) => Hearer::Left,
            () => Hearer::There,
        })
    }

    /// What the receiver knows of the sender; `None` if it is not his conversation.
    #[inline]
    #[must_use]
    pub fn speaker(&self, conversation: Conversation, by: u16) -> Option<Speaker> {
        let now = self.load(conversation.place)?;
        (Self::is_current(now, conversation) && now.receiver() == Some(by)).then_some(match () {
            () if now.has(FORSAKEN) => Speaker::Dead,
            () if now.has(ENDED) => Speaker::Done,
            () => Speaker::There,
        })
    }

    /// Whether the receiver need not listen to the end.
    #[must_use]
    pub fn is_brief(&self, conversation: Conversation) -> bool {
        self.load(conversation.place).is_some_and(|now| Self::is_current(now, conversation) && now.has(BRIEF))
    }

    /// Ends a conversation as its sender. If nobody is left in the place it is emptied by `scrub`, which may run several
    /// times, and free; also if nobody will come, because all is destroyed. Tell whoever waits what the [`Outcome`] says.
    pub fn end(&self, conversation: Conversation, by: u16, how: End, scrub: impl Fn(usize)) -> Outcome {
        let place = conversation.place;
        for _ in 0..ATTEMPTS {
            let Some(now) = self.load(place) else { break };
            if !Self::is_current(now, conversation) || now.sender() != Some(by) {
                break;
            }
            let is_new = !now.has(WAITS) && now.receiver().is_none();
            if now.is_unheard() || is_new && (how == End::Broken || self.is_destroyed()) {
                if self.free(place, now, &scrub) {
                    return Outcome::Free;
                }
                continue;
            }
            let ended = now.without_sender().set(if how == End::Complete { ENDED } else { FORSAKEN });
            if is_new {
                self.number(place);
            }
            if self.swap(place, now, if is_new { ended.set(WAITS) } else { ended }) {
                return if is_new { Outcome::Deposited } else { Outcome::Open };
            }
        }
        Outcome::Stale
    }

    /// Ends a conversation as its receiver, whatever the sender may still have to say; otherwise as [`end`](Self::end).
    pub fn leave(&self, conversation: Conversation, by: u16, scrub: impl Fn(usize)) -> Outcome {
        for _ in 0..ATTEMPTS {
            let Some(now) = self.load(conversation.place) else { break };
            if !Self::is_current(now, conversation) || now.receiver() != Some(by) {
                break;
            }
            if now.sender().is_none() {
                if self.free(conversation.place, now, &scrub) {
                    return Outcome::Free;
                }
            } else if self.swap(conversation.place, now, now.without_receiver().set(LEFT)) {
                return Outcome::Open;
            }
        }
        Outcome::Stale
    }

    /// Empties and frees a place in which only the caller is named, or one whom the caller buries.
    fn free(&self, place: usize, now: Word, scrub: &impl Fn(usize)) -> bool {
        // Nobody can come in; but one who waits for a sender may get one meanwhile.
        if !now.has(OFFERED) {
            scrub(place);
        }
        let freed = self.swap(place, now, now.freed());
        if freed {
            self.suggest(place);
        }
        freed
    }

    /// Ends all that a member was doing that will not run again. Its receivers find what it had sent, and then that it
    /// died. One at a time for a member; may be called anew after any part of it. Wake everybody afterwards.
    pub fn reclaim(&self, dead: u16, scrub: impl Fn(usize)) -> Reclaimed {
        let mut all = Reclaimed::default();
        let dead = Some(dead);
        for place in 0..self.words.len() {
            for _ in 0..ATTEMPTS {
                let Some(now) = self.load(place) else { break };
                let (sends, receives, keeps) = (now.sender() == dead, now.receiver() == dead, now.keeper() == dead);
                if !sends && !receives && !keeps {
                    break;
                }
                let is_new = !now.has(WAITS) && now.receiver().is_none();
                // What its keeper alone is in is free with him.
                let next = if keeps { now.without_keeper() } else { now };
                let done = if sends && (now.is_unheard() || is_new) || receives && now.sender().is_none_or(|_| sends) {
                    if !now.has(OFFERED) {
                        scrub(place);
                    }
                    self.swap(place, now, next.freed())
                } else {
                    let next = if sends { next.without_sender().set(FORSAKEN) } else { next };
                    let next = if receives { next.without_receiver().set(BEREFT) } else { next };
                    self.swap(place, now, next)
                };
                if done {
                    all.sent += usize::from(sends);
                    all.received += usize::from(receives);
                    all.kept += usize::from(keeps);
                    self.suggest(place);
                    break;
                }
            }
        }
        all
    }
}
