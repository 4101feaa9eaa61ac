//! The word of a barrier: which parties have come, and in which round.
//!
//! It also says who hands out what they are told. A round has one of two forms, which its first party chooses. In one
//! step, parties [meet](Rounds::meet) and wait for the word: the last one begins the next round. In two steps, parties
//! are [counted in](Rounds::count_in) and wait for a message each; the last one is told so,
//! [begins the release](Rounds::begin_release) and [hands out](Rounds::hand_out) the numbers from zero. If such a round
//! is broken, everybody who is counted is to get [`BROKEN_NUMBER`] instead: that is owed, until somebody
//! [settles](Rounds::settle) it.
//!
//! ```
//! use umbra_core::atomic::AtomicU64;
//! use umbra_core::barrier::Rounds;
//! let (word, notes) = (AtomicU64::new(0), [0, 0].map(AtomicU64::new));
//! let (rounds, mut told) = (Rounds::new(&word, 2), Vec::new());
//! assert_eq!(rounds.count_in(rounds.glance(), &notes[0]), Ok(false));
//! assert_eq!(rounds.count_in(rounds.glance(), &notes[1]), Ok(true), "the last one");
//! rounds.begin_release(7)?;
//! assert!(rounds.hand_out(|number| { told.push(number); true }));
//! assert_eq!((told, rounds.glance().came()), (vec![0, 1], 0), "the next round");
//! # Ok::<(), umbra_core::barrier::NotReleased>(())
//! ```
//!
//! Guaranteed, whichever processes are killed or stopped at whatever instruction: one process at a time hands out, and
//! the word names it. A party notes its round in a word of its process before it is counted, so when it is dead whoever
//! buries it [finds](Rounds::forsake) that the round cannot be completed, and breaks it; the same if it died handing
//! out, and then what was not handed out is owed. One message may be sent twice then, of a round that is broken. Who
//! was stopped while he handed out holds up his round and a [reset](Rounds::reset), until he goes on or dies.
//!
//! The word: round (24 bits), rounds that were broken (8 bits), whether the last round was broken, whether this one is,
//! whether it is one of two steps, whether it shall be whole again when all is handed out, a bit that is zero, who hands
//! out (13 bits, its number plus one), and parties that were counted and not told (14 bits).
//!
//! A note: its round plus one (32 bits), how many more parties of the process noted that round (31 bits), and whether they
//! wait for messages.
//!
//! *Cost*: one compare-and-swap a party and another one for its note, and one addition a message.

use core::fmt;

use crate::atomic::{AtomicU64, Ordering};

/// What parties of a broken round are told.
pub const BROKEN_NUMBER: u64 = u64::MAX;
/// Most parties of a barrier.
pub const PARTIES_MAX: u32 = COUNT as u32;

const ROUND: u32 = 40;
/// The rounds that have room in the word.
const ROUND_MASK: u32 = u32::MAX >> (ROUND - 32);
const BREAKS: u32 = 32;
const LAST_BROKEN: u64 = 1 << 31;
const BROKEN: u64 = 1 << 30;
const STEPS: u64 = 1 << 29;
const TO_RESET: u64 = 1 << 28;
const TELLER_AT: u32 = 14;
const TELLER: u64 = 0x1fff << TELLER_AT;
const COUNT: u64 = (1 << TELLER_AT) - 1;
/// In a note: its party waits for a message.
const IN_STEPS: u64 = 1 << 63;
/// In a note: one more party of the same process noted the same round.
const MORE: u64 = 1 << 32;
const NOTED_ROUND: u64 = MORE - 1;
const MORES: u64 = IN_STEPS - MORE;

/// The word of a barrier for so many parties; copies are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Rounds<'a> {
    word: &'a AtomicU64,
    parties: u64,
}

/// The word at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glance(u64);

/// Why nothing is handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotReleased {
    /// The barrier was broken before.
    Broken,
    /// Not all parties had come: it is broken now.
    TooEarly,
    /// Somebody does so at this moment.
    InProgress,
}

impl fmt::Display for NotReleased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotReleased::Broken => "barrier is broken: reset it",
            NotReleased::TooEarly => "barrier was released before all parties had come, and is broken: reset it",
            NotReleased::InProgress => "barrier is released by somebody else",
        })
    }
}
impl core::error::Error for NotReleased {}

/// Whether a [round](Glance::round) is later than another one, of which it is nearer after than before.
#[must_use]
pub const fn is_later(round: u32, than: u32) -> bool {
    let ahead = round.wrapping_sub(than) & ROUND_MASK;
    ahead != 0 && ahead <= ROUND_MASK / 2
}

impl Glance {
    /// Whether the barrier is broken.
    #[must_use]
    pub const fn is_broken(self) -> bool {
        self.0 & BROKEN != 0
    }

    /// Parties that have come, and were not told yet.
    #[must_use]
    pub const fn came(self) -> u32 {
        (self.0 & COUNT) as u32
    }

    /// Whether parties of the other form are in the round.
    #[must_use]
    pub const fn is_other_form(self, in_steps: bool) -> bool {
        self.came() > 0 && (self.0 & STEPS != 0) != in_steps
    }

    /// The number of its round, of 24 bits: it begins again at zero after the last one that has room.
    #[must_use]
    pub const fn round(self) -> u32 {
        (self.0 >> ROUND) as u32
    }

    /// The round so many before this one.
    const fn round_before(self, rounds: u32) -> u32 {
        self.round().wrapping_sub(rounds) & ROUND_MASK
    }

    /// How many rounds were broken, of those that are over; it begins again at zero, too.
    const fn breaks(self) -> u8 {
        (self.0 >> BREAKS) as u8
    }

    /// What a party of a round notes; never zero, which is no note.
    const fn note_of(round: u32, in_steps: bool) -> u64 {
        (round as u64 + 1) | if in_steps { IN_STEPS } else { 0 }
    }

    /// What a party of this round notes.
    const fn note(self, in_steps: bool) -> u64 {
        Self::note_of(self.round(), in_steps)
    }

    const fn has_teller(self) -> bool {
        self.0 & TELLER != 0
    }

    /// Whether something is to be done of which nobody takes care.
    const fn is_owed(self) -> bool {
        self.is_broken() && self.0 & STEPS != 0 && !self.has_teller() && self.0 & (COUNT | TO_RESET) != 0
    }

    /// The word of the round after this one.
    const fn next(self, broken: bool) -> u64 {
        let (round, breaks) = (self.round() as u64 + 1, self.breaks().wrapping_add(broken as u8));
        // What a round has no room for is shifted out.
        round << ROUND | (breaks as u64) << BREAKS | if broken { LAST_BROKEN } else { 0 }
    }
}

const fn teller(number: u16) -> u64 {
    (number as u64 + 1) << TELLER_AT & TELLER
}

const fn is_of_one_round(note: u64, other: u64) -> bool {
    (note ^ other) & NOTED_ROUND == 0
}

/// The round of a note; without a note, any.
const fn noted_round(note: u64) -> u32 {
    (note as u32).wrapping_sub(1) & ROUND_MASK
}

/// Takes the note of one party back, the last one's for another note, unless another thread of the process, in the next round
/// by now, has written over it.
fn withdraw(noted: &AtomicU64, note: u64, to: u64) {
    let left = |now: u64| if now & MORES == 0 { to } else { now - MORE };
    let taken = |now: u64| is_of_one_round(now, note).then(|| left(now));
    let _ = noted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
}

impl<'a> Rounds<'a> {
    /// Uses this word, which begins as zero, for at most [`PARTIES_MAX`].
    #[must_use]
    pub const fn new(word: &'a AtomicU64, parties: u32) -> Self {
        Rounds { word, parties: parties as u64 }
    }

    /// How it is.
    #[must_use]
    pub fn glance(&self) -> Glance {
        Glance(self.word.load(Ordering::Acquire))
    }

    /// Changes the word as `new` says, unless that says `None`; the word before.
    fn change(&self, new: impl Fn(Glance) -> Option<u64>) -> Result<Glance, Glance> {
        let changed = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| new(Glance(word)));
        changed.map(Glance).map_err(Glance)
    }

    fn swap(&self, seen: Glance, new: u64) -> Result<(), Glance> {
        let swapped = self.word.compare_exchange(seen.0, new, Ordering::AcqRel, Ordering::Acquire);
        swapped.map(|_| ()).map_err(Glance)
    }

    /// Notes a party, beside others of the process in the same round; the note before.
    fn announce(&self, seen: Glance, note: u64, noted: &AtomicU64) -> Result<u64, Glance> {
        let beside =
            |before: u64| if is_of_one_round(before, note) { (before | note).wrapping_add(MORE) } else { note };
        // Another thread of the process may be counted in a later round by now, and must stay noted: this one comes in vain.
        // A note that only looks later is very old, and then the round is the one that was seen.
        let is_late = |now: u64| is_later(noted_round(now), seen.round()) && self.glance().round() != seen.round();
        // ORDERING: whoever finds the note of a later round also finds that round in the word.
        noted
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (!is_late(now)).then(|| beside(now)))
            .map_err(|_| self.glance())
    }

    /// Replaces exactly the word that was seen, with a note of it that stays if that succeeds.
    fn come(&self, seen: Glance, new: u64, noted: &AtomicU64) -> Result<(), Glance> {
        let note = seen.note(new & STEPS != 0);
        // Before it is counted: whoever finds this one dead breaks the round, which cannot be completed without it.
        // Others of the process that noted it too stay noted: one of them may be counted.
        let before = self.announce(seen, note, noted)?;
        let before = if is_of_one_round(before, note) { 0 } else { before };
        self.swap(seen, new).inspect_err(|_| withdraw(noted, note, before))
    }

    /// Whether one more party completes the round.
    #[must_use]
    pub const fn is_last(&self, seen: Glance) -> bool {
        seen.came() as u64 + 1 >= self.parties
    }

    /// Comes as a party that waits for the [outcome](Self::outcome) of the round that was seen; the last one begins the next.
    ///
    /// # Errors
    /// The word, if it is another by now: look at it, and try again.
    pub fn meet(&self, seen: Glance, noted: &AtomicU64) -> Result<(), Glance> {
        self.come(seen, if self.is_last(seen) { seen.next(false) } else { seen.0 + 1 }, noted)
    }

    /// How the round of a party that met ended, if it did: whether nothing broke it. Where others went on without it for more
    /// than a round, of which one was broken, it is taken for that one.
    #[must_use]
    pub fn outcome(&self, seen: Glance) -> Option<bool> {
        let now = self.glance();
        match (now.round_before(seen.round()), now.breaks().wrapping_sub(seen.breaks())) {
            (0, _) => now.is_broken().then_some(false),
            (_, 0) => Some(true),
            // One of the two was broken, and that was the one after it.
            (2, 1) => Some(now.0 & LAST_BROKEN != 0),
            _ => Some(false),
        }
    }

    /// Breaks the round of a party that met and waits no more; its outcome, if there is one by now.
    pub fn give_up(&self, seen: Glance) -> Option<bool> {
        let broke = self.change(|now| (now.round() == seen.round()).then_some(now.0 | BROKEN));
        broke.map_or_else(|_| self.outcome(seen), |before| before.is_broken().then_some(false))
    }

    /// A party that met goes on.
    pub fn part(&self, seen: Glance, noted: &AtomicU64) {
        withdraw(noted, seen.note(false), 0);
    }

    /// Whether a round of two steps is complete and not over: all have come, or somebody hands out.
    #[must_use]
    pub const fn is_releasing(&self, seen: Glance) -> bool {
        seen.came() as u64 >= self.parties || seen.has_teller()
    }

    /// Counts a party in that waits for a message; whether it is the last, who has to release the others.
    ///
    /// # Errors
    /// As for [`meet`](Self::meet).
    pub fn count_in(&self, seen: Glance, noted: &AtomicU64) -> Result<bool, Glance> {
        self.come(seen, (seen.0 + 1) | STEPS, noted).map(|()| self.is_last(seen))
    }

    /// Makes process `me` the one who [hands out](Self::hand_out), if all have come; if not, the barrier is broken.
    ///
    /// # Errors
    /// [`NotReleased`].
    pub fn begin_release(&self, me: u16) -> Result<(), NotReleased> {
        let is_early = |seen: Glance| seen.0 & STEPS == 0 || u64::from(seen.came()) < self.parties;
        let seen = self.change(|now| match now.is_broken() || now.has_teller() {
            true => None,
            false if is_early(now) => Some(now.0 | BROKEN),
            false => Some(now.0 | teller(me)),
        });
        match seen {
            Ok(before) if is_early(before) => Err(NotReleased::TooEarly),
            Ok(_) => Ok(()),
            Err(now) if now.is_broken() => Err(NotReleased::Broken),
            Err(_) => Err(NotReleased::InProgress),
        }
    }

    /// Breaks the barrier. What parties of a round of two steps are owed then is to be [settled](Self::settle).
    pub fn abort(&self) {
        self.word.fetch_or(BROKEN, Ordering::AcqRel);
    }

    /// Breaks the barrier if it is as it was seen; whether it was.
    pub fn abort_if(&self, seen: Glance) -> bool {
        self.swap(seen, seen.0 | BROKEN).is_ok()
    }

    /// Makes the barrier whole, for a new round. One of two steps is broken first, and then whoever settles makes it whole.
    pub fn reset(&self) {
        let _ = self.change(|now| Some(if now.0 & STEPS == 0 { now.next(true) } else { now.0 | BROKEN | TO_RESET }));
    }

    /// Makes process `me` the one who [hands out](Self::hand_out) what is owed; false if nothing is, or somebody does so.
    #[must_use = "who is to hand out does it"]
    pub fn settle(&self, me: u16) -> bool {
        self.glance().is_owed() && self.change(|now| now.is_owed().then_some(now.0 | teller(me))).is_ok()
    }

    /// As the one who was made to: tells `send` the number of each party that was not told, or that its round is broken, until
    /// `send` says that there is no room, which breaks the round. Whether nothing broke it.
    pub fn hand_out(&self, mut send: impl FnMut(u64) -> bool) -> bool {
        loop {
            let now = self.glance();
            if let left @ 1.. = u64::from(now.came()) {
                if send(if now.is_broken() { BROKEN_NUMBER } else { self.parties.saturating_sub(left) }) {
                    // Nobody else changes the count meanwhile.
                    self.word.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                let _ = self.change(|now| Some((now.0 | BROKEN) & !TELLER));
                return false;
            }
            let is_over = !now.is_broken() || now.0 & TO_RESET != 0;
            let ended = if is_over { now.next(now.is_broken()) } else { now.0 & !TELLER };
            if self.swap(now, ended).is_ok() {
                return !now.is_broken();
            }
        }
    }

    /// Breaks what process `number`, which is dead and noted this, leaves incomplete: the round that it was counted for, or
    /// was about to be; the one before, unless all of its messages are `taken`, as is asked when it is over; what it handed out.
    /// What is owed then is to be settled.
    pub fn forsake(&self, note: u64, number: u16, taken: impl Fn() -> bool) {
        let _ = self.change(|now| {
            let is_party = is_of_one_round(note, now.note(false));
            let last = Glance::note_of(now.round_before(1), true);
            let is_of_last = note & !MORES == last && now.came() == 0 && !taken();
            let left = now.0 | BROKEN;
            match now.has_teller() && now.0 & TELLER == teller(number) {
                true => Some(left & !TELLER),
                false => (is_party || is_of_last).then_some(left),
            }
        });
    }

    /// Whether a process that noted this may have to [say](Self::received) that it received a message.
    #[inline]
    #[must_use]
    pub fn may_miss(noted: &AtomicU64) -> bool {
        noted.load(Ordering::Relaxed) & IN_STEPS != 0
    }

    /// A process has received a message: the one of one of its parties, if it noted a round that messages were sent of. That one is
    /// not missed any more.
    pub fn received(&self, noted: &AtomicU64) {
        let (note, now) = (noted.load(Ordering::Relaxed), self.glance());
        // To a party of a round that is open nothing was sent yet.
        let is_told = now.has_teller() || now.is_broken() || !is_of_one_round(note, now.note(false));
        if note & IN_STEPS != 0 && is_told {
            withdraw(noted, note, 0);
        }
    }

    /// Withdraws what a process that leaves in order noted of a round that is over. What it did not [receive](Self::received)
    /// stays noted, and whoever buries it finds that nobody will.
    pub fn leave(&self, noted: &AtomicU64) {
        let note = noted.load(Ordering::Relaxed);
        if note & IN_STEPS == 0 && !is_of_one_round(note, self.glance().note(false)) {
            noted.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last round that has room in the word.
    const LAST: u64 = 0xff_ffff << ROUND;

    #[test]
    fn the_round_after_the_last_number_is_the_next_one() {
        let (word, notes) = (AtomicU64::new(LAST), [0, 0].map(AtomicU64::new));
        let rounds = Rounds::new(&word, 2);
        for round in [LAST, 0] {
            let (first, second) = (rounds.glance(), Glance(round | 1));
            assert_eq!((first, rounds.meet(first, &notes[0])), (Glance(round), Ok(())));
            assert_eq!(
                (rounds.meet(second, &notes[1]), rounds.outcome(first), rounds.outcome(second)),
                (Ok(()), Some(true), Some(true))
            );
        }
    }

    #[test]
    fn a_dead_party_of_the_last_number_is_missed_in_the_round_after_it() {
        for taken in [true, false] {
            let (word, note) = (AtomicU64::new(LAST), AtomicU64::new(0));
            let rounds = Rounds::new(&word, 1);
            assert_eq!(rounds.count_in(rounds.glance(), &note), Ok(true));
            rounds.begin_release(7).unwrap();
            assert!(rounds.hand_out(|number| number == 0));
            assert_eq!(rounds.glance(), Glance(0));
            // Who never came notes nothing.
            rounds.forsake(0, 3, || false);
            assert!(!rounds.glance().is_broken());
            rounds.forsake(note.load(Ordering::Relaxed), 2, || taken);
            assert_eq!(rounds.glance().is_broken(), !taken);
        }
    }
}
