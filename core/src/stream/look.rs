//! Looking at the places of conversations from outside, for tools.

use super::layout::Class;
use super::streams::Streams;
use super::word::{BEREFT, ENDED, FORSAKEN, LEFT, OFFERED, WAITS, Word};

/// How far a conversation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Stage {
    /// There is none, and anybody may begin one.
    Idle,
    /// There is none, and only its keeper may begin one.
    Kept,
    /// Its sender writes, and no receiver may come yet.
    Begun,
    /// It waits for a receiver.
    Waits,
    /// Its receiver waits for a sender.
    Offered,
    /// Both ends talk.
    Open,
    /// Its sender has said everything, and its receiver reads the rest.
    Ended,
    /// Its sender died or gave up, and its receiver reads the rest.
    Forsaken,
    /// Its receiver went or died, and its sender has not closed.
    Unheard,
}

/// One place, as it was at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Seen {
    /// What the place is for.
    pub class: Class,
    /// How far the conversation in it is.
    pub stage: Stage,
    /// Who sends.
    pub sender: Option<u16>,
    /// Who receives.
    pub receiver: Option<u16>,
    /// Who keeps the place.
    pub keeper: Option<u16>,
    /// Bytes of its ring that were written and not read; `None` if its positions contradict each other.
    pub under_way: Option<usize>,
    /// Conversations that have ended in it.
    pub ended: u32,
    /// Bytes that were written in this conversation, with 16 beside each message.
    pub written: u64,
}

const fn stage(now: Word) -> Stage {
    match now {
        _ if now.has(WAITS) => Stage::Waits,
        _ if now.has(OFFERED) => Stage::Offered,
        _ if now.has(LEFT | BEREFT) => Stage::Unheard,
        _ if now.has(FORSAKEN) => Stage::Forsaken,
        _ if now.has(ENDED) => Stage::Ended,
        _ if now.sender().is_some() && now.receiver().is_some() => Stage::Open,
        _ if now.sender().is_some() => Stage::Begun,
        _ if now.keeper().is_some() => Stage::Kept,
        _ => Stage::Idle,
    }
}

impl Streams<'_> {
    /// Looks at a place; `None` if there is none of this number. Changes nothing.
    #[must_use]
    pub fn look(&self, place: usize) -> Option<Seen> {
        let now = self.table().load(place)?;
        Some(Seen {
            class: if place < self.table().plan.streams { Class::Stream } else { Class::Message },
            stage: stage(now),
            sender: now.sender(),
            receiver: now.receiver(),
            keeper: now.keeper(),
            under_way: self.pipe(place)?.under_way(),
            ended: now.generation().saturating_sub(Word::FIRST.generation()),
            written: self.pipe(place)?.so_far(),
        })
    }
}
