//! The front of memory that processes share: what it is, its state, who uses it.
//!
//! Layout, in words: magic, layout version, members, uid, space of process numbers, 11 for the structure; 15 of its state, and when somebody
//! looked after the dead last; the crew, with when each member did last in its pocket; the structure.

use std::convert::Infallible;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cell::BytesMut;
use umbra_core::crew::{Crew, MOST, Member, POCKET};

use crate::sys::host;
use crate::sys::process::Processes;

const HEADER: usize = 16;
const STATE: usize = 16;
/// The word of the state that is not the structure's.
const PATROLLED: usize = STATE - 1;
/// The word of a pocket that is not the structure's.
const LOOKED: usize = POCKET - 1;
const WORD: usize = size_of::<u64>();

/// Words of the header that all structures have.
#[derive(Clone, Copy)]
enum Field {
    Magic,
    Version,
    Members,
    Uid,
    /// The space of process numbers in which its members are known.
    Space,
    /// The first one that is the structure's.
    Own,
}

/// How one kind of memory is told from others.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) magic: u64,
    pub(crate) version: u64,
}

/// Why memory has no front of a format.
pub(crate) enum FrameError {
    /// It is something else, or not created yet.
    Foreign,
    /// Its layout has this version.
    Version(u64),
    /// What it says contradicts its size.
    Damaged,
    /// It would be for more processes than can be told apart.
    Members(u16),
}

/// What stands in front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    header: &'a [AtomicU64],
    state: &'a [AtomicU64],
    pub(crate) crew: Crew<'a>,
}

impl<'a> Frame<'a> {
    /// Bytes of memory for the front, which is made for as many processes as can be told apart at most.
    pub(crate) const fn bytes_for(members: u16) -> Result<usize, FrameError> {
        if members > MOST { Err(FrameError::Members(members)) } else { Ok(Frame::bytes(members)) }
    }

    const fn bytes(members: u16) -> usize {
        (HEADER + STATE + Crew::words_for(members)) * WORD
    }

    /// Makes a front in memory that nobody else uses yet and that is all zero, with what `behind` makes behind it. Only
    /// then the memory can be attached.
    pub(crate) fn create<E: From<FrameError>>(
        memory: BytesMut<'a>,
        format: Format,
        (members, uid): (u16, u64),
        behind: impl FnOnce(Frame<'a>, BytesMut<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (frame, rest) = Frame::split(memory, members)?;
        let set = |field: Field, value: u64| frame.header[field as usize].store(value, Ordering::Relaxed);
        set(Field::Version, format.version);
        set(Field::Members, members.into());
        set(Field::Uid, uid);
        set(Field::Space, host::namespace());
        behind(frame, rest)?;
        // ORDERING: pairs with the load in `attach`.
        frame.header[Field::Magic as usize].store(format.magic, Ordering::Release);
        Ok(())
    }

    /// The front of memory that another process created, and the memory behind it.
    #[inline]
    pub(crate) fn attach(memory: BytesMut<'a>, format: Format) -> Result<(Frame<'a>, BytesMut<'a>), FrameError> {
        let header = memory.words(0, HEADER).map_err(|_| FrameError::Foreign)?;
        // ORDERING: pairs with the store in `create`.
        if header[Field::Magic as usize].load(Ordering::Acquire) != format.magic {
            return Err(FrameError::Foreign);
        }
        let get = |field: Field| header[field as usize].load(Ordering::Relaxed);
        if get(Field::Version) != format.version {
            return Err(FrameError::Version(get(Field::Version)));
        }
        let members = u16::try_from(get(Field::Members)).map_err(|_| FrameError::Damaged)?;
        Frame::split(memory, members)
    }

    #[inline]
    fn split(memory: BytesMut<'a>, members: u16) -> Result<(Frame<'a>, BytesMut<'a>), FrameError> {
        let words = |at: usize, count| memory.words(at * WORD, count).map_err(|_| FrameError::Damaged);
        let (header, state) = (words(0, HEADER)?, words(HEADER, STATE)?);
        let crew = Crew::attach(words(HEADER + STATE, Crew::words_for(members))?);
        let at = Frame::bytes(members);
        let rest = memory.len().checked_sub(at).and_then(|len| memory.part(at, len).ok());
        Ok((Frame { header, state, crew }, rest.ok_or(FrameError::Damaged)?))
    }

    pub(crate) fn uid(&self) -> u64 {
        self.header[Field::Uid as usize].load(Ordering::Relaxed)
    }

    /// Whether its members are known to this process by the same numbers as to each other. Who takes the others for dead, or
    /// is taken for dead, must not become one of them.
    pub(crate) fn is_of_this_space(&self) -> bool {
        self.header[Field::Space as usize].load(Ordering::Relaxed) == host::namespace()
    }

    /// A word of the header that is the structure's, below 11.
    pub(crate) fn own(&self, word: usize) -> &'a AtomicU64 {
        &self.header[Field::Own as usize + word]
    }

    /// A word of the state, below 15.
    pub(crate) fn state(&self, word: usize) -> &'a AtomicU64 {
        &self.state[word]
    }

    /// When somebody looked after the dead last.
    pub(crate) fn patrolled(&self) -> &'a AtomicU64 {
        &self.state[PATROLLED]
    }

    /// When this member looked after the dead last.
    pub(crate) fn looked(&self, me: u16) -> Option<&'a AtomicU64> {
        self.pocket(me, LOOKED)
    }

    /// A word of a member's pocket.
    pub(crate) fn pocket(&self, number: u16, which: usize) -> Option<&'a AtomicU64> {
        self.crew.pocket(number)?.get(which)
    }

    /// Sum of a word over the pockets of all members.
    pub(crate) fn pockets(&self, which: usize) -> u64 {
        let all = self.crew.members().filter_map(|member| self.pocket(member.number, which));
        all.fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
    }

    /// Where this member counts itself among those who spin, if they are not as many as there may be.
    pub(crate) fn spinner(&self, me: u16, which: usize, most: u64) -> Option<&'a AtomicU64> {
        if self.pockets(which) < most { self.pocket(me, which) } else { None }
    }

    /// What a member counted ends with it.
    pub(crate) fn empty_pocket(&self, number: u16) {
        self.crew.pocket(number).into_iter().flatten().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Whether it is the front of the same memory, mapped by the same call.
    pub(crate) fn is_same(&self, other: &Frame<'_>) -> bool {
        std::ptr::eq(self.header, other.header)
    }

    /// As member `me`, ends all members whose processes are dead; how many they were.
    pub(crate) fn bury_dead(&self, me: u16, mut give_back: impl FnMut(Member)) -> usize {
        let give_back = |member| {
            give_back(member);
            Ok::<_, Infallible>(())
        };
        let Ok(dead) = self.crew.bury_dead(me, &Processes, give_back);
        dead
    }
}
