//! Where everything lies in the lent words, and the checks of whoever attaches.
//!
//! In words: header (magic; version and members; bytes; granule; unit; groups; limit; bytes of the longest block, where
//! blocks are reserved), the pocket of whoever the heap is part of, from 16 to 32; the crew; a word a group; the tree; a
//! tag a unit; and the groups' records: hints, where the span begins, 6 words, then 64 words and 64 details of entries.

use crate::atomic::{AtomicU64, Ordering};
use crate::crew::{self, Crew};

use super::class::{SPAN, Sizes};
use super::error::{AttachError, PlanError};
use super::runs::Runs;
use super::tree::{self, Tree};

const MAGIC: u64 = u64::from_le_bytes(*b"umbrheap");
/// Version of the layout, and of what pools keep in the pocket.
pub(super) const VERSION: u32 = 2;
const SHAPE: usize = 1;
const BYTES: usize = 2;
const GRANULE: usize = 3;
const UNIT: usize = 4;
const GROUPS: usize = 5;
const LIMIT: usize = 6;
const LONGEST: usize = 7;
const POCKET: usize = 16;
const HEADER: usize = 32;
const LINE: usize = 16;
/// Words of a group's record.
const RECORD: usize = 8 + 2 * SPAN;
/// Most groups: 2^24 entries.
const MOST_GROUPS: u64 = 1 << 18;
/// Most units, unless a heap is so long that its units are longer.
const MOST_UNITS: u64 = 1 << 22;
/// Up to so many blocks the limit is kept to the block.
const EXACT: u32 = 1024;
/// A heap has room for so many of the smallest blocks.
const FEWEST: u64 = 5;
/// One byte of bookkeeping of blocks for so many bytes of heap.
const SHARE: u64 = 64;

/// What a heap is made for, and how many words that needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Plan {
    bytes: u64,
    granule: u64,
    unit: u64,
    groups: u32,
    limit: u32,
    members: u16,
}

impl Plan {
    /// A heap over so many bytes. Blocks are multiples of `granule` bytes, rounded up to a power of two and to what so
    /// many bytes need. There can be `blocks` of them at a time, or with 0 as many as a share of 1/64 of the bytes can
    /// tell of: a block for 1088 bytes if they are of few sizes. Above 1024 that is rounded up: there can be so many of any
    /// few sizes, and more of some; above 2^23 only of sizes of which 64 lie in a span. `members` is the number of those
    /// who use it at the same time.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(bytes: u64, granule: u64, blocks: u32, members: u16) -> Result<Plan, PlanError> {
        if members == 0 || members > crew::MOST {
            return Err(PlanError::Members(members));
        }
        if granule > bytes {
            let granule = granule.max(8).checked_next_power_of_two().unwrap_or(u64::MAX);
            return Err(PlanError::TooSmall { bytes, needed: granule.saturating_mul(FEWEST) });
        }
        if bytes >= 1 << 40 {
            return Err(PlanError::TooLarge);
        }
        let mut granule = granule.max(8).next_power_of_two();
        let mut unit = granule * SPAN as u64;
        while unit > granule && unit > bytes / 256 {
            unit /= 2;
        }
        while bytes / unit > MOST_UNITS {
            unit *= 2;
        }
        granule = granule.max(unit / SPAN as u64);
        if bytes < FEWEST * granule {
            return Err(PlanError::TooSmall { bytes, needed: FEWEST * granule });
        }
        let fewest = match bytes {
            0..0x1000 => 2,
            0x1000..0x1_0000 => 4,
            _ => 16,
        };
        let groups = match u64::from(blocks) {
            0 => (bytes / SHARE / (RECORD as u64 * 8)).clamp(fewest, MOST_GROUPS),
            blocks => {
                // Each of the classes in use may have a group that is not full.
                let needed = Sizes::new(bytes, granule, unit).groups(bytes, blocks) + fewest;
                needed.min(MOST_GROUPS).max(blocks.div_ceil(SPAN as u64) + fewest)
            }
        };
        let limit = if blocks <= EXACT { blocks } else { 0 };
        let groups = u32::try_from(groups).ok().filter(|&groups| u64::from(groups) <= MOST_GROUPS);
        Ok(Plan { bytes, granule, unit, groups: groups.ok_or(PlanError::TooLarge)?, limit, members })
    }

    fn units(&self) -> u32 {
        (self.bytes / self.unit) as u32
    }

    /// Words of memory that it needs.
    #[must_use]
    pub fn words(&self) -> usize {
        let [crew, states, tree, tags] = self.parts();
        HEADER + crew + states + tree + tags + self.groups as usize * RECORD
    }

    /// Bytes that it manages.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that the size of every block is a multiple of.
    #[must_use]
    pub const fn granule(&self) -> u64 {
        self.granule
    }

    /// Most blocks at a time, if they are of few sizes.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        if self.limit > 0 { self.limit } else { self.groups * SPAN as u32 }
    }

    /// Most members at a time.
    #[must_use]
    pub const fn members(&self) -> u16 {
        self.members
    }

    /// Words of the crew, the groups' words, the tree and the tags.
    fn parts(&self) -> [usize; 4] {
        let line = |words: usize| words.next_multiple_of(LINE);
        let (tree, tags) = (line(tree::words_for(self.units())), line(self.units() as usize));
        [Crew::words_for(self.members), line(self.groups as usize), tree, tags]
    }
}

/// The parts, as one process looks at them; where they lie was checked and is not read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    header: &'a [AtomicU64],
    pub(super) crew: Crew<'a>,
    pub(super) states: &'a [AtomicU64],
    pub(super) runs: Runs<'a>,
    records: &'a [[AtomicU64; RECORD]],
    pub(super) sizes: Sizes,
    pub(super) plan: Plan,
    /// Bytes of the longest block that there can be.
    pub(super) longest: u64,
}

/// The words of one group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    pub(super) number: u32,
    pub(super) state: &'a AtomicU64,
    record: &'a [AtomicU64; RECORD],
}

impl<'a> Group<'a> {
    /// Which blocks may be free: one that is set wrongly does no harm, and one that is missing only hides a block.
    #[inline]
    pub(super) const fn hints(&self) -> &'a AtomicU64 {
        &self.record[0]
    }
    /// The first unit of its span.
    #[inline]
    pub(super) const fn first(&self) -> &'a AtomicU64 {
        &self.record[1]
    }
    /// The word of an entry.
    #[inline]
    pub(super) const fn entry(&self, slot: u32) -> &'a AtomicU64 {
        &self.record[8 + (slot as usize % SPAN)]
    }
    /// The kind and length of an entry's block.
    #[inline]
    pub(super) const fn detail(&self, slot: u32) -> &'a AtomicU64 {
        &self.record[8 + SPAN + (slot as usize % SPAN)]
    }
    /// The first unit of an entry's run; only each second entry has one.
    pub(super) const fn run(&self, slot: u32) -> &'a AtomicU64 {
        self.detail(slot + 1)
    }
}

impl<'a> Parts<'a> {
    pub(super) fn create(words: &'a [AtomicU64], plan: Plan) -> Result<Self, AttachError> {
        let parts = Self::cut(words, plan)?;
        // Nobody attaches meanwhile.
        parts.header[0].store(0, Ordering::Release);
        let zeroed = parts.header[1..].iter().chain(parts.states).chain(parts.records.as_flattened());
        zeroed.for_each(|word| word.store(0, Ordering::Relaxed));
        parts.crew.disband();
        parts.runs.clear();
        let shape = u64::from(VERSION) | u64::from(plan.members) << 32;
        let fields = [
            (SHAPE, shape),
            (BYTES, plan.bytes),
            (GRANULE, plan.granule),
            (UNIT, plan.unit),
            (GROUPS, plan.groups.into()),
            (LIMIT, plan.limit.into()),
        ];
        fields.into_iter().for_each(|(at, value)| parts.header[at].store(value, Ordering::Relaxed));
        Ok(parts)
    }

    /// Lets others attach.
    pub(super) fn publish(&self) {
        // ORDERING: pairs with the load in `attach`.
        self.header[0].store(MAGIC, Ordering::Release);
    }

    pub(super) fn attach(words: &'a [AtomicU64], bytes: u64) -> Result<Self, AttachError> {
        // ORDERING: pairs with the store in `publish`.
        if words.len() < HEADER || words[0].load(Ordering::Acquire) != MAGIC {
            return Err(AttachError::NotAHeap);
        }
        let field = |at: usize| words[at].load(Ordering::Relaxed);
        let version = field(SHAPE) as u32;
        if version != VERSION {
            return Err(AttachError::WrongVersion(version));
        }
        if field(BYTES) != bytes {
            return Err(AttachError::WrongBytes { managed: field(BYTES), bytes });
        }
        let bad = AttachError::BadSize { words: words.len() };
        let narrow = |at: usize| u32::try_from(field(at)).map_err(|_| bad);
        let members = u16::try_from(field(SHAPE) >> 32).map_err(|_| bad)?;
        let (granule, unit) = (field(GRANULE), field(UNIT));
        let plan = Plan { bytes, granule, unit, groups: narrow(GROUPS)?, limit: narrow(LIMIT)?, members };
        let is_sound = granule.is_power_of_two()
            && unit.is_power_of_two()
            && (8..=1 << 42).contains(&granule)
            && (granule..=granule * SPAN as u64).contains(&unit)
            && (1..=MOST_UNITS).contains(&(bytes / unit))
            && (1..=crew::MOST).contains(&members)
            && (1..=MOST_GROUPS).contains(&plan.groups.into());
        if !is_sound || bytes >= 1 << 40 {
            return Err(bad);
        }
        let parts = Self::cut(words, plan)?;
        Ok(match field(LONGEST) {
            0 => parts,
            longest => Parts { longest: longest.min(parts.longest), ..parts },
        })
    }

    /// Says that there is no longer block, because of what is reserved.
    pub(super) fn bound(&mut self, longest: u64) {
        self.longest = longest;
        self.header[LONGEST].store(longest, Ordering::Relaxed);
    }

    fn cut(words: &'a [AtomicU64], plan: Plan) -> Result<Self, AttachError> {
        let bad = AttachError::BadSize { words: words.len() };
        let words = words.get(..plan.words()).ok_or(bad)?;
        let [crew, states, tree, tags] = plan.parts();
        let (header, words) = words.split_at(HEADER);
        let (crew, words) = words.split_at(crew);
        let (states, words) = words.split_at(states);
        let (tree, words) = words.split_at(tree);
        let (tags, records) = words.split_at(tags);
        let (records, _) = records.as_chunks();
        let tree = Tree::new(tree, plan.units()).ok_or(bad)?;
        let (states, tags) = (&states[..plan.groups as usize], &tags[..plan.units() as usize]);
        let sizes = Sizes::new(plan.bytes, plan.granule, plan.unit);
        let (crew, runs) = (Crew::attach(crew), Runs::new(tree, tags));
        let longest = plan.bytes.min(plan.unit << tree.longest());
        Ok(Parts { header, crew, states, runs, records, sizes, plan, longest })
    }

    /// Words for whatever the heap is part of.
    pub(super) fn pocket(&self) -> &'a [AtomicU64] {
        &self.header[POCKET..]
    }

    /// Most blocks at a time, to the block; 0 if only the entries bound them.
    #[inline]
    pub(super) const fn limit(&self) -> u32 {
        self.plan.limit
    }

    #[inline]
    pub(super) fn group(&self, number: u32) -> Option<Group<'a>> {
        let (state, record) = (self.states.get(number as usize)?, self.records.get(number as usize)?);
        Some(Group { number, state, record })
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = Group<'a>> + use<'a> {
        (0..).zip(self.states.iter().zip(self.records)).map(|(number, (state, record))| Group { number, state, record })
    }
}
