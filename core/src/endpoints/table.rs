//! A validated view of the bytes of a group table.
//!
//! The bytes mean the same wherever they lie: in a message, in a file, in a mapping. Attaching checks magic, version,
//! length, checksum and every cross-reference, so whoever holds a [`Table`] gets answers and no surprises; the
//! look-ups themselves are in [`lookup`](super).
//!
//! *Cost*: attaching an affine table is O(1), an explicit one O(size).

use core::fmt;

use super::affine::Affine;
use super::checksum::checksum;
use super::explicit::Explicit;
use super::identity::GroupKey;
use super::layout::{AFFINE_WORDS, HEADER_WORDS, Header, Kind, Sections, VERSION};
use super::validate::validate;
use super::words::Words;
use crate::id::Generation;
use crate::peer::Peer;

/// Why bytes are not a group table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TableError {
    /// The bytes do not start like a table.
    NotATable,
    /// Another version of the format.
    UnknownVersion(u16),
    /// There are fewer or more bytes than the header's counts ask for.
    WrongLength,
    /// The checksum does not match: bytes were changed or lost.
    Damaged,
    /// The checksum matches, but this part contradicts the rest.
    Malformed(&'static str),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::NotATable => f.write_str("bytes are not a group table"),
            TableError::UnknownVersion(version) => {
                write!(f, "group table has version {version}: this is version {VERSION}")
            }
            TableError::WrongLength => f.write_str("group table is shorter or longer than its header says"),
            TableError::Damaged => f.write_str("group table is damaged: its checksum does not match"),
            TableError::Malformed(what) => write!(f, "group table contradicts itself: {what}"),
        }
    }
}
impl core::error::Error for TableError {}

/// All answers about one group, over table bytes.
#[derive(Clone, Copy, Debug)]
pub struct Table<W> {
    pub(super) words: W,
    pub(super) head: Header,
    pub(super) form: Form<W>,
}

/// How the table holds its ranks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form<W> {
    Explicit(Explicit<W>),
    Affine(Affine),
}

impl<'a> Table<&'a [u8]> {
    /// Checks bytes and gives the view of them.
    ///
    /// # Errors
    /// [`TableError`], saying what is wrong.
    pub fn attach(bytes: &'a [u8]) -> Result<Self, TableError> {
        let table = Table::open(bytes)?;
        let sum = (0..bytes.count()).filter(|&at| at != 1).filter_map(|at| bytes.word(at));
        if bytes.len() != table.words_used() * 8 {
            return Err(TableError::WrongLength);
        }
        if bytes.word(1) != Some(checksum(sum)) {
            return Err(TableError::Damaged);
        }
        if let Form::Explicit(arrays) = &table.form {
            validate(arrays)?;
        }
        Ok(table)
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.words
    }
}

impl<W: Words> Table<W> {
    /// Reads the header, and the parameters of an affine table; arrays are taken as they are.
    pub(super) fn open(words: W) -> Result<Self, TableError> {
        let head: [u64; HEADER_WORDS] = load(&words, 0)?;
        let head = Header::parse(&head)?;
        let malformed = |what| Err(TableError::Malformed(what));
        if head.size == 0 || head.size > Peer::CAPACITY {
            return malformed("size");
        }
        if head.generation == Generation::NEVER {
            return malformed("generation");
        }
        let form = if head.kind == Kind::Explicit {
            let Header { size, shadows, total, sps, hosts, .. } = head;
            let most = u64::from(size) * u64::from(shadows);
            let plausible = (1..=super::MAX_SHADOWS as u32).contains(&shadows)
                && (u64::from(size)..=most).contains(&total.into())
                && (1..=total).contains(&sps)
                && (1..=size.min(sps)).contains(&hosts)
                && head.per_dpu > 0;
            if !plausible {
                return malformed("counts");
            }
            let at = Sections::of(&head).ok_or(TableError::WrongLength)?;
            Form::Explicit(Explicit { words, head, at })
        } else {
            let parameters: [u64; AFFINE_WORDS] = load(&words, HEADER_WORDS)?;
            let affine = Affine::decode(&head, &parameters);
            affine.validate(&head, &parameters)?;
            Form::Affine(affine)
        };
        let table = Table { words, head, form };
        if table.words_used() > words.count() { Err(TableError::WrongLength) } else { Ok(table) }
    }

    /// Words from the table's start to its end.
    pub(super) fn words_used(&self) -> usize {
        match &self.form {
            Form::Explicit(arrays) => arrays.at.end,
            Form::Affine(_) => HEADER_WORDS + AFFINE_WORDS,
        }
    }

    /// Bytes of the table.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.words_used() * 8
    }

    /// The checksum that the table carries; equal tables have equal ones.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        self.words.word(1).unwrap_or(0)
    }

    /// Copies the table's bytes from `offset`, a multiple of eight, until either ends; how many were copied.
    pub fn copy_bytes(&self, offset: usize, out: &mut [u8]) -> usize {
        let words = (offset / 8..self.words_used()).map_while(|at| self.words.word(at));
        let places = out.chunks_exact_mut(8).filter(|_| offset.is_multiple_of(8));
        words.zip(places).map(|(word, place)| place.copy_from_slice(&word.to_le_bytes())).count() * 8
    }

    /// The group's key.
    #[must_use]
    pub const fn key(&self) -> GroupKey {
        self.head.key
    }

    /// The runtime's number for the group.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.head.id
    }

    /// The generation that the group's authority gave this table.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.head.generation
    }

    /// Whether this is the world group.
    #[must_use]
    pub const fn is_world(&self) -> bool {
        self.head.world
    }

    /// Number of ranks.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.head.size
    }

    /// Whether ranks are computed rather than stored.
    #[must_use]
    pub const fn is_affine(&self) -> bool {
        matches!(self.form, Form::Affine(_))
    }

    /// Service processes on each DPU of the job.
    #[must_use]
    pub const fn service_processes_per_dpu(&self) -> u32 {
        self.head.per_dpu
    }

    /// Most shadow service processes that a rank of the group has.
    #[must_use]
    pub const fn most_shadows(&self) -> u32 {
        self.head.shadows
    }
}

fn load<const N: usize>(words: &impl Words, from: usize) -> Result<[u64; N], TableError> {
    let mut out = [0; N];
    for (at, slot) in (from..).zip(&mut out) {
        *slot = words.word(at).ok_or(TableError::WrongLength)?;
    }
    Ok(out)
}
