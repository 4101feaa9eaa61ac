//! The users of a pool: which live, and whose its allocations are.

use umbra_core::atomic::{AtomicU64, Ordering, fence};
use umbra_core::crew::{BuryError, Identity, Liveness, Member};
use umbra_core::error::Stale;
use umbra_core::heap::{Block, BlockId, Grasp, Hand, Keep};

use super::error::Error;
use super::{CHANNELS, NOTHING, Pool, identity};
use crate::sys::futex::Futex;
use crate::sys::process::{ProcessId, Processes};

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

/// The block that a pin names; there is none in a place that is free.
fn marked(pin: u64) -> Option<BlockId> {
    (pin != 0).then(|| BlockId::from_bits(pin.wrapping_sub(1)))
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
        self.has_pin(|pinned| pinned == id)
    }

    /// The same, if he may have noted it by an earlier id.
    pub(crate) fn is_pinned_by_any_id(&self, id: BlockId) -> bool {
        self.has_pin(|pinned| pinned.is_at(id))
    }

    fn has_pin(&self, is_it: impl Fn(BlockId) -> bool) -> bool {
        let is_pin = |pin: &AtomicU64| marked(pin.load(Ordering::SeqCst)).is_some_and(&is_it);
        let mut members = self.heap().crew().members();
        members.any(|member| self.pins(member.number).iter().any(is_pin) && Processes.is_alive(member))
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
    pub(super) fn set_left(&self, member: Member) {
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
    pub(super) fn is_used(&self) -> bool {
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
        let dead = self.numbers_of(process);
        if dead.iter().any(|&member| Processes.is_alive(member)) {
            return Err(Error::Lives(process));
        }
        // Before this process takes a place, which in a full pool may be one of theirs, with its blocks.
        let held: Vec<_> = dead.into_iter().map(|member| (member, self.held_by(member))).collect();
        let mut freed = 0;
        for (member, held) in held {
            let (channels, blocks): (Vec<_>, Vec<_>) = held.into_iter().partition(|block| block.kind == CHANNELS);
            for channel in channels {
                // Somebody else may do the same, or free it.
                let _ = self.own(channel.id);
            }
            freed += self.empty(member, &blocks)?;
        }
        self.event().notify(&Futex);
        Ok(freed)
    }

    /// The blocks of a dead member.
    fn held_by(&self, dead: Member) -> Vec<Block> {
        let blocks = self.blocks().filter(|block| block.owner == dead.number).collect();
        // They may be those of a living member who got the number.
        if self.heap().crew().member(dead.number) == Some(dead) { blocks } else { Vec::new() }
    }

    /// Frees the blocks of a dead member; how many. Before this process took a place they were these.
    fn empty(&self, dead: Member, blocks: &[Block]) -> Result<usize, Error> {
        let by = self.with_hand(|hand| hand.number())?;
        let bury = || self.heap().bury(dead, by, Keep::Nothing);
        let buried = match bury() {
            Err(BuryError::InProgress { .. }) => {
                // Of a burier who died too its burial is taken first.
                self.bury(by);
                bury()
            }
            buried => buried,
        };
        match buried {
            Ok(recovered) => Ok(recovered.freed),
            // Who buries it may leave it its blocks, or be stopped; who got its number has them.
            Err(_) => self.free_each(dead, blocks),
        }
    }

    /// Frees blocks of a dead member one by one, if somebody else buries it or this process got its number; how many.
    fn free_each(&self, dead: Member, blocks: &[Block]) -> Result<usize, Error> {
        let me = identity(ProcessId::current()?);
        let now = self.heap().crew().member(dead.number);
        if !now.is_some_and(|now| now == dead || now.identity == me) {
            return Ok(0);
        }
        let mut freed = 0;
        for block in blocks {
            match self.free_of(block.id, dead.number) {
                Ok(()) => freed += 1,
                Err(Error::Stale) => {}
                Err(error) => return Err(error),
            }
        }
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
        let crew = self.heap().crew();
        let mut buried = 0;
        // Again, as long as somebody died over the burial of one that stands before him. Also the burial of one that
        // stays, for its blocks, ends the burials that it had begun.
        for _ in 0..crew.capacity() {
            let mut is_again = false;
            for dead in crew.members().filter(|&member| !Processes.is_alive(member)) {
                match self.heap().bury(dead, by, Keep::Blocks) {
                    Ok(_) => buried += 1,
                    Err(BuryError::InProgress { by }) => {
                        is_again |= crew.member(by).is_none_or(|burier| !Processes.is_alive(burier));
                    }
                    Err(BuryError::Failed(_) | BuryError::Unknown) => {}
                }
            }
            if !is_again {
                break;
            }
        }
        self.event().notify(&Futex);
        buried
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::{Child, Command};

    use super::*;
    use crate::pool::{Attributes, files};

    fn pool() -> Pool {
        Pool::create(None, &Attributes { bytes: 1 << 20, ..Attributes::default() }).unwrap()
    }

    /// A process that ends with [`end`], and its place in a pool, with so many blocks.
    fn begin(pool: &Pool, blocks: usize) -> (Child, ProcessId, Member) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        let member = pool.heap().crew().join(identity(process)).unwrap();
        let mut hand = pool.heap().hand(member);
        (0..blocks).for_each(|_| _ = hand.alloc(100, 0).unwrap());
        (child, process, member)
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The one dies over the burial of the other.
    fn die_burying(pool: &Pool, dead: Member, burier: Member) {
        let bury = || pool.heap().crew().bury(dead, burier.number, |_| -> Result<(), ()> { panic!("it dies here") });
        assert!(catch_unwind(AssertUnwindSafe(bury)).is_err());
    }

    #[test]
    fn what_a_dead_process_held_is_freed_also_while_somebody_else_buries_it() {
        let pool = pool();
        let (child, process, dead) = begin(&pool, 8);
        end(child);
        let by = pool.with_hand(|hand| hand.number()).unwrap();
        let buried = pool.heap().crew().bury(dead, by, |_| {
            assert_eq!(pool.free_allocations_of(process), Ok(8));
            Err::<(), ()>(())
        });
        assert_eq!(buried, Err(BuryError::Failed(())));
        assert_eq!((pool.blocks().count(), pool.reclaim()), (0, Ok(1)));
    }

    #[test]
    fn what_a_dead_process_held_is_freed_by_who_takes_its_place_to_do_so() {
        let pool = Pool::create(None, &Attributes { bytes: 1 << 20, members: 2, ..Attributes::default() }).unwrap();
        let (child, process, dead) = begin(&pool, 8);
        pool.heap().hand(dead).alloc(100, CHANNELS).unwrap();
        end(child);
        let [manifest, data] = pool.share().unwrap().map(|file| files::map(file).unwrap());
        let other = Pool::over(manifest, data, None).unwrap();
        assert_eq!(other.free_allocations_of(process), Ok(8));
        assert_eq!(pool.blocks().map(|block| block.kind).collect::<Vec<_>>(), [CHANNELS], "others may use it");
        assert_eq!(other.allocations_of(ProcessId::current().unwrap()).len(), 1);
    }

    #[test]
    fn what_a_dead_process_held_is_freed_though_another_died_over_its_burial() {
        let pool = pool();
        let (first, process, dead) = begin(&pool, 8);
        let (second, other, burier) = begin(&pool, 1);
        [first, second].into_iter().for_each(end);
        die_burying(&pool, dead, burier);
        assert_eq!(pool.free_allocations_of(process), Ok(8));
        assert_eq!(pool.allocations_of(other).len(), 1, "nobody asked for this one");
    }

    #[test]
    fn one_call_reclaims_who_died_over_a_burial_and_whom_he_buried() {
        for blocks in [0, 1] {
            let pool = pool();
            let (first, _, dead) = begin(&pool, 0);
            let (second, _, burier) = begin(&pool, blocks);
            assert!(dead.number < burier.number);
            [first, second].into_iter().for_each(end);
            die_burying(&pool, dead, burier);
            assert_eq!(pool.reclaim(), Ok(2 - blocks), "who has a block stays");
        }
    }
}
