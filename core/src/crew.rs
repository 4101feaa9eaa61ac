//! Processes that use a shared structure: who they are, and who buries the dead.
//!
//! A member's number belongs to one life of one process: pid and start time. One word holds both, and who buries it, so
//! each step of that is one compare-and-swap: free, taken, being buried, free. A number is used again only after the
//! burial, which gives back whatever the dead member held; with each use its generation moves on. What structures
//! record as the owner of something is the number, so the very atomic that takes also says who took.
//!
//! ```
//! use umbra_core::cell::BytesMut;
//! use umbra_core::crew::{BuryError, Crew, Identity, Liveness, Member};
//! struct AllButThree;
//! impl Liveness for AllButThree {
//!     fn is_alive(&self, member: Member) -> bool {
//!         member.identity.pid() != 3
//!     }
//! }
//! let mut memory = vec![0_u64; Crew::words_for(8)];
//! let words = BytesMut::from_words(&mut memory).words(0, Crew::words_for(8))?;
//!
//! let crew = Crew::create(words);
//! let (me, other) = (crew.join(Identity::new(2, 0))?, crew.join(Identity::new(3, 0))?);
//! let buried = crew.bury_dead(me.number, &AllButThree, |dead| {
//!     Ok::<_, core::convert::Infallible>(assert_eq!(dead, other))
//! });
//! assert_eq!((buried, crew.members().count()), (Ok(1), 1));
//! assert_eq!(crew.bury(other, me.number, |_| Ok::<_, ()>(())), Err(BuryError::Unknown));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Guaranteed, whichever members are killed or stopped at whatever instruction: a number has one member; a dead member
//! keeps its number until somebody buried it; one at a time buries it, and if that one dies somebody else starts again.
//! So what a burial does has to bear being begun anew after any part of it. Nobody waits for anybody: who finds a
//! burial going on gets [`BuryError::InProgress`].
//!
//! A record is a pair of lines: two words of the crew's, and [`POCKET`] words for the structure that the crew is of.
//!
//! *Cost*: `join` and `members` look at one line a record.

use core::fmt;

use crate::atomic::{AtomicU64, Ordering};
use crate::error::Full;

/// Most members that a crew can have at a time.
pub const MOST: u16 = (1 << BURIER_BITS) - 1;
/// Words of a record that the structure may use as it likes; a new member finds there what the last one left.
pub const POCKET: usize = RECORD - 2;

const RECORD: usize = 16;
const ENTRY: usize = 0;
const GENERATION: usize = 1;

/// Marks a taken number, whose identity may be all zeros.
const TAKEN: u64 = 1 << 63;
const START_BITS: u32 = 31;
const PID_BITS: u32 = 22;
const BURIER_BITS: u32 = 10;
const BURIER: u64 = (1 << BURIER_BITS) - 1;

/// One life of one process on this host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Identity(u64);

impl Identity {
    /// The process with this pid that started then, in any unit that tells two lives of a pid apart: the lower 22
    /// bits of the pid (Linux has no larger ones) and the lower 31 bits of the start are kept.
    #[must_use]
    pub const fn new(pid: u32, start: u64) -> Identity {
        let (pid, start) = (pid as u64 & ((1 << PID_BITS) - 1), start & ((1 << START_BITS) - 1));
        Identity(pid << START_BITS | start)
    }

    /// Its pid.
    #[must_use]
    pub const fn pid(self) -> u32 {
        (self.0 >> START_BITS) as u32
    }

    /// What was kept of its start.
    #[must_use]
    pub const fn start(self) -> u32 {
        self.0 as u32 & ((1 << START_BITS) - 1)
    }

    /// How many bits of a word it takes, from the lowest one on.
    pub const BITS: u32 = PID_BITS + START_BITS;

    /// Both in one word, which is not zero if the pid is not.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// What such a word names; bits that none of them has are dropped.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Identity {
        Identity(bits & ((1 << Self::BITS) - 1))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} started at {}", self.pid(), self.start())
    }
}

/// One use of one number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Member {
    /// Its number, below [`MOST`].
    pub number: u16,
    /// How many members had the number before.
    pub generation: u32,
    /// Whose it is.
    pub identity: Identity,
}

/// Tells whether members live.
pub trait Liveness {
    /// False only if it is proved that the member's process ended: what it held is taken from it then.
    fn is_alive(&self, member: Member) -> bool;
}

/// Why a member was not, or not wholly, buried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum BuryError<E> {
    /// The number is free, or another process's: the member was buried before. Or there is no such number.
    Unknown,
    /// Somebody does it already.
    InProgress {
        /// Who; if that one died too, bury it first.
        by: u16,
    },
    /// Giving back failed; a further call begins anew.
    Failed(E),
}

impl<E: fmt::Display> fmt::Display for BuryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuryError::Unknown => f.write_str("the number is not the named process's: it was buried before"),
            BuryError::InProgress { by } => {
                write!(f, "member {by} buries it already: wait, or bury member {by} first if it died")
            }
            BuryError::Failed(error) => error.fmt(f),
        }
    }
}
impl<E: fmt::Debug + fmt::Display> core::error::Error for BuryError<E> {}

/// Who buries, in the word of whom is buried.
const fn mark_of(by: u16) -> u64 {
    (by as u64 + 1) & BURIER
}

/// Makes the word of a dead member that of its burial, also if it died while it left and that `may_be_left`.
fn mark<E>(word: &AtomicU64, dead: Member, burial: u64, may_be_left: bool) -> Result<(), BuryError<E>> {
    let lives = entry(dead.identity);
    let leaves = lives | mark_of(dead.number);
    let from = |now| word.compare_exchange(now, burial, Ordering::AcqRel, Ordering::Relaxed);
    match from(lives).or_else(|now| if now == leaves && may_be_left { from(leaves) } else { Err(now) }) {
        Ok(_) => Ok(()),
        Err(now) if now & !BURIER == lives => {
            Err(BuryError::InProgress { by: ((now & BURIER) as u16).wrapping_sub(1) })
        }
        Err(_) => Err(BuryError::Unknown),
    }
}

/// The table; copies of it are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Crew<'a> {
    records: &'a [[AtomicU64; RECORD]],
}

const fn entry(identity: Identity) -> u64 {
    TAKEN | identity.0 << BURIER_BITS
}

impl<'a> Crew<'a> {
    /// Words of memory for so many members.
    #[must_use]
    pub const fn words_for(members: u16) -> usize {
        members as usize * RECORD
    }

    /// Makes a crew without members, as many as find room in `words` but at most [`MOST`]; nobody may use the memory as
    /// one meanwhile.
    pub fn create(words: &'a [AtomicU64]) -> Self {
        let crew = Self::attach(words);
        crew.disband();
        crew
    }

    /// Forgets all members, and empties their pockets; nobody may use the crew meanwhile.
    pub fn disband(&self) {
        self.records.as_flattened().iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Looks at a crew that another process created in all of `words`; the structure around it knows how many they are.
    /// Any content is a crew, if not one that anybody joined.
    #[must_use]
    pub fn attach(words: &'a [AtomicU64]) -> Self {
        let (records, _) = words.as_chunks();
        Crew { records: &records[..records.len().min(usize::from(MOST))] }
    }

    /// Most members at a time.
    #[must_use]
    pub fn capacity(&self) -> u16 {
        self.records.len() as u16
    }

    fn word(&self, number: u16, word: usize) -> Option<&'a AtomicU64> {
        self.records.get(usize::from(number))?.get(word)
    }

    /// The words of a number that are the structure's; `None` if there is no such number.
    #[must_use]
    pub fn pocket(&self, number: u16) -> Option<&'a [AtomicU64]> {
        self.records.get(usize::from(number))?.get(RECORD - POCKET..)
    }

    /// Makes a process a member; also several times, with a number each.
    ///
    /// # Errors
    /// [`Full`] if all numbers are taken: bury the dead, or wait until somebody leaves.
    pub fn join(&self, identity: Identity) -> Result<Member, Full<Identity>> {
        for number in 0..self.capacity() {
            let (Some(word), Some(generation)) = (self.word(number, ENTRY), self.word(number, GENERATION)) else {
                break;
            };
            // ORDERING: acquire pairs with the end of `bury`: nobody touches what this number held any more.
            let taken = word.compare_exchange(0, entry(identity), Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Ok(Member { number, generation: generation.load(Ordering::Relaxed) as u32, identity });
            }
        }
        Err(Full(identity))
    }

    /// Who has a number.
    #[must_use]
    pub fn member(&self, number: u16) -> Option<Member> {
        let word = self.word(number, ENTRY)?;
        // ORDERING: acquire pairs with `join`, so that the generation is no earlier member's.
        let now = word.load(Ordering::Acquire);
        let generation = self.word(number, GENERATION)?.load(Ordering::Relaxed) as u32;
        let identity = Identity((now & !TAKEN) >> BURIER_BITS);
        (now & TAKEN != 0).then_some(Member { number, generation, identity })
    }

    /// All who joined, and neither left nor were buried.
    pub fn members(&self) -> impl Iterator<Item = Member> + use<'a> {
        let crew = *self;
        (0..self.capacity()).filter_map(move |number| crew.member(number))
    }

    /// Ends a member that will not run again, or `by` itself: `give_back` takes back what it holds, and then the number
    /// is free. Meanwhile nobody else does the same.
    ///
    /// If `by` dies meanwhile, somebody else begins anew after burying `by`. A member that dies while it leaves is
    /// buried by others as any.
    ///
    /// # Errors
    /// [`BuryError`]; the number is as before then.
    pub fn bury<T, E>(
        &self,
        dead: Member,
        by: u16,
        give_back: impl FnOnce(Member) -> Result<T, E>,
    ) -> Result<T, BuryError<E>> {
        let word = self.word(dead.number, ENTRY).ok_or(BuryError::Unknown)?;
        let generation = self.word(dead.number, GENERATION).ok_or(BuryError::Unknown)?;
        if by >= MOST {
            return Err(BuryError::Unknown);
        }
        let lives = entry(dead.identity);
        // Two at once would be wrong: the slower one might go on when the number is already another process's. But one
        // that died while it left takes nothing back any more, and only others can end that.
        mark(word, dead, lives | mark_of(by), by != dead.number)?;
        self.end_burials_by(dead.number);
        let result = give_back(dead);
        if result.is_ok() {
            generation.store(generation.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        // ORDERING: release pairs with `join`.
        word.store(if result.is_ok() { 0 } else { lives }, Ordering::Release);
        result.map_err(BuryError::Failed)
    }

    /// Makes a process a member in the place of one that will not run again, for when all numbers are taken: it gets the
    /// number, after `give_back` took back what the number held. What is not given back is the successor's from then on.
    ///
    /// If the process dies meanwhile, it is buried as one that died while it left.
    ///
    /// # Errors
    /// [`BuryError`]; the number is as before then.
    pub fn succeed<E>(
        &self,
        dead: Member,
        identity: Identity,
        give_back: impl FnOnce(Member) -> Result<(), E>,
    ) -> Result<Member, BuryError<E>> {
        let word = self.word(dead.number, ENTRY).ok_or(BuryError::Unknown)?;
        let generation = self.word(dead.number, GENERATION).ok_or(BuryError::Unknown)?;
        let lives = entry(dead.identity);
        mark(word, dead, entry(identity) | mark_of(dead.number), true)?;
        self.end_burials_by(dead.number);
        let result = give_back(dead);
        if result.is_ok() {
            generation.store(generation.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        // ORDERING: release pairs with the acquire of who buries or looks.
        word.store(if result.is_ok() { entry(identity) } else { lives }, Ordering::Release);
        result.map_err(BuryError::Failed)?;
        Ok(Member { number: dead.number, generation: generation.load(Ordering::Relaxed) as u32, identity })
    }

    /// Makes a process a member, if need be in the place of a dead one; those are tried in the order of their numbers.
    ///
    /// # Errors
    /// [`Full`] if all numbers are those of the living, or of dead ones whose things are not given back.
    pub fn join_or_succeed<E>(
        &self,
        identity: Identity,
        liveness: &impl Liveness,
        mut give_back: impl FnMut(Member) -> Result<(), E>,
    ) -> Result<Member, Full<Identity>> {
        self.join(identity).or_else(|full| {
            let dead = self.members().filter(|&member| !liveness.is_alive(member));
            let mut placed = dead.filter_map(|member| self.succeed(member, identity, &mut give_back).ok());
            // Who was being buried may have gone meanwhile.
            placed.next().map_or_else(|| self.join(identity).map_err(|_| full), Ok)
        })
    }

    /// Buries all the dead; how many they were.
    ///
    /// # Errors
    /// The first failure to give back.
    pub fn bury_dead<E>(
        &self,
        by: u16,
        liveness: &impl Liveness,
        mut give_back: impl FnMut(Member) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut all = 0;
        // Again, as long as that helps: somebody may have died over the burial of one that stands before him.
        for _ in 0..self.capacity() {
            let mut now = 0;
            for member in self.members().filter(|member| member.number != by) {
                if liveness.is_alive(member) {
                    continue;
                }
                match self.bury(member, by, &mut give_back) {
                    Ok(()) => now += 1,
                    Err(BuryError::Failed(error)) => return Err(error),
                    Err(BuryError::Unknown | BuryError::InProgress { .. }) => {}
                }
            }
            all += now;
            if now == 0 {
                break;
            }
        }
        Ok(all)
    }

    /// Lets others bury whom the dead one was burying.
    fn end_burials_by(&self, dead: u16) {
        let mark = mark_of(dead);
        for number in (0..self.capacity()).filter(|&number| number != dead) {
            let Some(word) = self.word(number, ENTRY) else { continue };
            let now = word.load(Ordering::Relaxed);
            if now & BURIER == mark {
                let _ = word.compare_exchange(now, now & !BURIER, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}
