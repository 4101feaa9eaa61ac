//! What is taken back from a member that died.

use core::fmt;

use crate::atomic::Ordering;
use crate::crew::{BuryError, Member};

use super::class::{LARGE, SPAN};
use super::hand::Hand;
use super::layout::Group;
use super::runs::Whom;
use super::span;
use super::word::{Entry, RELEASING, TAKEN, USED};
use super::{BlockId, Heap};

/// What of a dead member's stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Keep {
    /// The blocks that it allocated: others may use them. As long as there are any it stays a member, so that it is
    /// known whose they are.
    Blocks,
    /// Nothing: its blocks are freed.
    Nothing,
}

/// What was taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Recovered {
    /// Runs that it was taking or freeing.
    pub runs: usize,
    /// Spans that it reserved, opened or closed.
    pub spans: usize,
    /// Blocks that it was taking or freeing.
    pub begun: usize,
    /// Blocks that it had allocated, and that are free now.
    pub freed: usize,
}

/// A dead member still holds blocks, and they were to stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Holds {
    /// How many.
    pub blocks: usize,
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it still holds {} blocks: free them, or bury it with them", self.blocks)
    }
}
impl core::error::Error for Holds {}

/// How often a block of a dead member may get another id while it is freed: only damage changes it more often.
const ATTEMPTS: u32 = 1 << 12;

/// What became of an allocated block that is to be freed for a dead member.
enum Seized {
    /// Only the caller frees it now.
    Ours(Entry),
    /// Somebody else frees it, or has made it his own.
    Gone,
    /// It is still the dead member's.
    Held,
}

fn seize(group: &Group<'_>, slot: u32, mut entry: Entry, dead: u16) -> Seized {
    for _ in 0..ATTEMPTS {
        let next = entry.releasing(dead);
        match group.entry(slot).compare_exchange(entry.0, next.0, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Seized::Ours(next),
            // Who sends it to somebody gives it another id, and leaves it the dead one's.
            Err(now) if Entry(now).is(USED, dead) => entry = Entry(now),
            Err(_) => return Seized::Gone,
        }
    }
    Seized::Held
}

impl<'a> Heap<'a> {
    /// Ends what a dead member was doing, or one that leaves (`by` is its own number then) and whose hand is at rest:
    /// what it kept to itself anybody can use, and what it was taking or freeing is free. The number is free too.
    ///
    /// *Cost*: one pass over all tags and entries.
    ///
    /// # Errors
    /// [`BuryError`]; with [`Holds`] all is done but that it stays a member, as the owner of its blocks.
    pub fn bury(&self, dead: Member, by: u16, keep: Keep) -> Result<Recovered, BuryError<Holds>> {
        self.parts.crew.bury(dead, by, |dead| self.recover(dead.number, keep))
    }

    /// As [`bury`](Self::bury), for structures in the heap's memory that have to take something back too: they call
    /// this from their own burial of the member. It may be called anew after any part of it.
    ///
    /// # Errors
    /// [`Holds`].
    pub fn recover(&self, dead: u16, keep: Keep) -> Result<Recovered, Holds> {
        // First the runs: whoever has begun with one has not finished with its entry or group.
        let mut all = Recovered { runs: self.parts.runs.recover(dead), ..Recovered::default() };
        let mut holds = 0;
        for group in self.parts.groups() {
            all.spans += usize::from(span::recover(&self.parts, &group, dead));
            for slot in 0..SPAN as u32 {
                let entry = Entry(group.entry(slot).load(Ordering::Acquire));
                if entry.owner() != dead {
                    continue;
                }
                match entry.state() {
                    // Nobody but who took it changes it, and he is dead.
                    TAKEN | RELEASING => {
                        self.end(&group, slot, entry, dead);
                        all.begun += 1;
                    }
                    USED if keep == Keep::Nothing => match seize(&group, slot, entry, dead) {
                        Seized::Ours(entry) => {
                            self.end(&group, slot, entry, dead);
                            all.freed += 1;
                        }
                        Seized::Gone => {}
                        Seized::Held => holds += 1,
                    },
                    USED => holds += 1,
                    _ => {}
                }
            }
        }
        if holds == 0 { Ok(all) } else { Err(Holds { blocks: holds }) }
    }

    fn end(&self, group: &Group<'a>, slot: u32, entry: Entry, dead: u16) {
        if span::load(group).class() == LARGE {
            let first = group.run(slot).load(Ordering::Relaxed) as u32;
            self.parts.runs.release(first, dead, Whom::entry(BlockId::of(group, slot, entry).entry()));
        }
        span::give_back(group, slot, entry);
    }

    /// Blocks that a member holds.
    #[must_use]
    pub fn held_by(&self, number: u16) -> usize {
        let of_entries = |group: Group<'_>| {
            let entries = (0..SPAN as u32).map(|slot| Entry(group.entry(slot).load(Ordering::Relaxed)));
            entries.filter(|entry| entry.is(USED, number)).count()
        };
        self.parts.groups().map(of_entries).sum()
    }

    /// Ends a member that is done, and whose hand this is. If it still holds blocks it stays a member, and they are its
    /// own until somebody frees them.
    ///
    /// # Errors
    /// [`BuryError`].
    pub fn leave(&self, member: Member, mut hand: Hand<'a>) -> Result<Recovered, BuryError<Holds>> {
        hand.rest();
        self.bury(member, member.number, Keep::Blocks)
    }
}
