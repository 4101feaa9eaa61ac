//! The life of a pool and its users: whose its allocations are, and when it ends.

use umbra_core::atomic::{AtomicU64, Ordering, fence};
use umbra_core::crew::{Identity, Liveness, Member};
use umbra_core::error::Stale;
use umbra_core::heap::{Block, BlockId, Grasp, Hand, Keep};

use super::error::Error;
use super::lanes::Lanes;
use super::{CHANNELS, Lifetime, NOTHING, Pool, Role, Word, identity};
use crate::sys::futex::Futex;
use crate::sys::process::{Process, ProcessError, ProcessId, Processes};

/// In the first word of a member's pocket: it uses the pool.
const PRESENT: u64 = 1;

/// In the same word: its process dropped the handle, and blocks stayed, of which it is the owner.
fn left(identity: Identity) -> u64 {
    1 << 63 | u64::from(identity.pid()) << 32 | u64::from(identity.start())
}

/// How a pin names a block.
fn mark(id: BlockId) -> u64 {
    id.to_bits().wrapping_add(1)
}

/// Tries to find a place for a pin: only as many threads as there are take one at once, and not for long.
const TRIES: u32 = 10_000;

impl Pool {
    /// Whether a member is more than the owner of blocks that it left, and whose it was if it is not.
    fn presence(&self, number: u16) -> Option<&AtomicU64> {
        self.heap().crew().pocket(number)?.first()
    }

    /// Blocks that a member is about to use whose end it could miss: their numbers, plus one.
    fn pins(&self, number: u16) -> &[AtomicU64] {
        self.heap().crew().pocket(number).and_then(|pocket| pocket.get(1..)).unwrap_or_default()
    }

    /// Does something during which others do not free this block if they ask [who uses it](Self::is_pinned); it may be
    /// free before.
    pub(crate) fn pinned<R>(&self, id: BlockId, act: impl FnOnce() -> R) -> Result<R, Error> {
        let number = self.with_hand(|hand| hand.number())?;
        // ORDERING: the block is looked at after this, by loads that the fence keeps there.
        let take = |pin: &&AtomicU64| pin.compare_exchange(0, mark(id), Ordering::SeqCst, Ordering::Relaxed).is_ok();
        let found = (0..TRIES).find_map(|_| {
            let found = self.pins(number).iter().find(take);
            if found.is_none() {
                std::thread::yield_now();
            }
            found
        });
        let pin = found.ok_or(Error::Members { members: self.heap().crew().capacity() })?;
        fence(Ordering::SeqCst);
        let done = act();
        // ORDERING: what was done with the block is seen by who finds it without a pin.
        pin.store(0, Ordering::SeqCst);
        Ok(done)
    }

    /// Whether somebody who lives is about to use a block.
    pub(crate) fn is_pinned(&self, id: BlockId) -> bool {
        let is_pin =
            |member: &Member| self.pins(member.number).iter().any(|pin| pin.load(Ordering::SeqCst) == mark(id));
        self.heap().crew().members().any(|member| is_pin(&member) && Processes.is_alive(member))
    }

    /// Notes whether a member is more than the owner of blocks that it left.
    pub(super) fn set_present(&self, member: Member, is_present: bool) {
        if let Some(word) = self.presence(member.number) {
            word.store(if is_present { PRESENT } else { 0 }, Ordering::Release);
        }
        // Of a dead member who had the number.
        self.pins(member.number).iter().for_each(|pin| pin.store(0, Ordering::Release));
    }

    /// Lets the next handle of its process [go on](Self::come_back) in the place of a member that left.
    fn set_left(&self, member: Member) {
        if let Some(word) = self.presence(member.number) {
            word.store(left(member.identity), Ordering::Release);
        }
    }

    /// A member that this process left with blocks: it is one of the caller's from now on.
    pub(super) fn come_back(&self, identity: Identity) -> Option<Member> {
        let (crew, gone) = (self.heap().crew(), left(identity));
        let takes = |word: &AtomicU64| {
            // ORDERING: acquire pairs with the release in `set_left`: the hand of who left is at rest.
            word.load(Ordering::Relaxed) == gone
                && word.compare_exchange(gone, PRESENT, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let number = (0..crew.capacity()).find(|&number| self.presence(number).is_some_and(takes))?;
        crew.member(number)
    }

    /// Whether a process that lives uses it.
    fn is_used(&self) -> bool {
        let is_present =
            |member: &Member| self.presence(member.number).is_some_and(|word| word.load(Ordering::Acquire) == PRESENT);
        self.heap().crew().members().any(|member| is_present(&member) && Processes.is_alive(member))
    }

    /// The numbers of the members that a process has, as the owners of blocks.
    fn numbers_of(&self, process: ProcessId) -> Vec<Member> {
        self.heap().crew().members().filter(|member| member.identity == identity(process)).collect()
    }

    /// The processes that use it, or own blocks of it: each with whether it lives.
    pub fn users(&self) -> impl Iterator<Item = (Member, bool)> {
        self.heap().crew().members().map(|member| (member, Processes.is_alive(member)))
    }

    /// How often something was allocated since it was made, or handed over.
    #[must_use]
    pub fn uses(&self) -> u64 {
        self.heap().uses()
    }

    /// Whether somebody may be [waiting](Self::alloc_within) until something is freed.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.event().is_awaited()
    }

    pub(super) fn free(&self, id: BlockId) -> Result<(), Error> {
        self.free_by(id, |mut hand| hand.free(id))
    }

    /// Frees an allocation, if it is still that of member `owner`.
    pub(crate) fn free_of(&self, id: BlockId, owner: u16) -> Result<(), Error> {
        self.free_by(id, |mut hand| hand.free_of(id, owner))
    }

    #[inline]
    fn free_by(&self, id: BlockId, free: impl FnOnce(Hand<'_, &mut Grasp>) -> Result<(), Stale>) -> Result<(), Error> {
        if id == NOTHING {
            return self.check();
        }
        self.with_hand(free)?.map_err(|_| Error::Stale)?;
        self.event().notify_after_swap(&Futex);
        Ok(())
    }

    /// The blocks that a process allocated, alive or dead.
    #[must_use]
    pub fn allocations_of(&self, process: ProcessId) -> Vec<Block> {
        let numbers = self.numbers_of(process);
        self.blocks().filter(|block| numbers.iter().any(|member| member.number == block.owner)).collect()
    }

    /// Frees what a dead process had allocated; how many blocks. Channels are not among them, because others may use
    /// them: they are this process's from then on.
    ///
    /// # Errors
    /// [`Error::Lives`] if it is not dead.
    pub fn free_allocations_of(&self, process: ProcessId) -> Result<usize, Error> {
        self.check()?;
        let mut freed = 0;
        for member in self.numbers_of(process) {
            if Processes.is_alive(member) {
                return Err(Error::Lives(process));
            }
            for block in self.blocks().filter(|block| block.owner == member.number && block.kind == CHANNELS) {
                // Somebody else may do the same, or free it.
                let _ = self.own(block.id);
            }
            let by = self.with_hand(|hand| hand.number())?;
            // Who else buries it frees the rest.
            freed += self.heap().bury(member, by, Keep::Nothing).map_or(0, |recovered| recovered.freed);
        }
        self.event().notify(&Futex);
        Ok(freed)
    }

    /// Ends what dead processes were doing; their allocations stay. How many members were dead, and hold nothing any more.
    ///
    /// # Errors
    /// [`Error::Members`] if this process finds no place in the pool.
    pub fn reclaim(&self) -> Result<usize, Error> {
        let by = self.with_hand(|hand| hand.number())?;
        Ok(self.bury(by))
    }

    fn bury(&self, by: u16) -> usize {
        let dead = self.heap().crew().members().filter(|&member| !Processes.is_alive(member));
        let buried = dead.filter(|&member| self.heap().bury(member, by, Keep::Blocks).is_ok()).count();
        self.event().notify(&Futex);
        buried
    }

    /// Whether nobody needs it any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let word = |which| self.word(which).load(Ordering::Acquire);
        let creator = ProcessId { pid: word(Word::CreatorPid) as u32, start: word(Word::CreatorStart) };
        let is_orphan = matches!(Process::open(creator), Err(ProcessError::Gone(_)));
        let ends = word(Word::Lifetime) == Lifetime::Creator as u64;
        word(Word::Destroyed) != 0 || is_orphan && (ends || !self.is_used())
    }

    /// Ends the pool for all: whoever waits, and whoever comes, gets [`Error::Destroyed`].
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it was before.
    pub fn destroy(&self) -> Result<(), Error> {
        if self.word(Word::Destroyed).swap(1, Ordering::AcqRel) != 0 {
            return Err(Error::Destroyed);
        }
        self.remove_files();
        self.claim.release();
        self.event().notify(&Futex);
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let is_inherited = self.lanes.is_inherited();
        let mut lanes = std::mem::replace(&mut self.lanes, Lanes::new());
        let stayed = lanes.leave(&self.shared, |member| self.set_present(member, false));
        stayed.into_iter().for_each(|member| self.set_left(member));
        let ends_with_creator = self.word(Word::Lifetime).load(Ordering::Acquire) == Lifetime::Creator as u64;
        let ends = match self.role {
            // It ends with its maker, not with a child of his.
            Role::Creator if ends_with_creator => !is_inherited,
            Role::Creator | Role::User => !ends_with_creator && !self.is_used(),
            Role::Onlooker => false,
        };
        if self.files.is_some() && ends {
            // Somebody else may have destroyed it.
            let _ = self.destroy();
        }
    }
}
