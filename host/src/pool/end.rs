//! The end of a pool: with its maker, its last user, or by destruction.
//!
//! A word counts the places that were taken. Who finds the pool unused ends it only if nobody came since he looked, and a
//! newcomer, who takes a place before he is counted, is refused if he was too late.

use umbra_core::atomic::{Ordering, fence};

use super::error::Error;
use super::lanes::Lanes;
use super::{Lifetime, Pool, Word};
use crate::sys::futex::Futex;
use crate::sys::process::{Process, ProcessError, ProcessId};

/// In the word that counts the places: nobody uses one any more.
const DESTROYED: u64 = 1;
/// One place.
const USER: u64 = 2;

impl Pool {
    /// Itself, unless it was destroyed, or has files that nobody needs any more: these are removed.
    pub(super) fn unless_over(self) -> Result<Pool, Error> {
        self.refuse_if_over().map(|()| self)
    }

    pub(super) fn refuse_if_over(&self) -> Result<(), Error> {
        if self.files.is_some() && self.end_if_over() { Err(Error::Destroyed) } else { self.check() }
    }

    /// Removes its files if nobody needs it any more; whether that is so.
    pub(super) fn end_if_over(&self) -> bool {
        self.end_if_over_since(self.word(Word::Users).load(Ordering::Acquire))
    }

    /// The same, if so many places had been taken before: who came since keeps it.
    fn end_if_over_since(&self, users: u64) -> bool {
        if !self.is_over() {
            return false;
        }
        // One whose creator was killed has its users still, and only its name ends.
        if !self.ends_with_creator() {
            self.end_since(users);
            if !self.is_destroyed() {
                return false;
            }
        }
        // Also after it was destroyed: who did that may have died before they were gone.
        self.remove_files();
        true
    }

    /// As one of its users, so that nobody takes it for forsaken.
    pub(super) fn used(self) -> Result<Pool, Error> {
        self.with_hand(|_| ())?;
        Ok(self)
    }

    fn ends_with_creator(&self) -> bool {
        self.word(Word::Lifetime).load(Ordering::Acquire) == Lifetime::Creator as u64
    }

    /// Whether nobody needs it any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let word = |which| self.word(which).load(Ordering::Acquire);
        let creator = ProcessId { pid: word(Word::CreatorPid) as u32, start: word(Word::CreatorStart) };
        let is_orphan = || matches!(Process::open(creator), Err(ProcessError::Gone(_)));
        self.is_destroyed() || if self.ends_with_creator() { is_orphan() } else { !self.is_used() }
    }

    #[inline]
    pub(crate) fn is_destroyed(&self) -> bool {
        self.word(Word::Users).load(Ordering::Acquire) & DESTROYED != 0
    }

    /// Counts a place that was taken: whoever [found the pool unused](Self::end_since) before does not end it any more.
    ///
    /// # Errors
    /// [`Error::Destroyed`] if he did.
    pub(super) fn come(&self) -> Result<(), Error> {
        // ORDERING: who finds it counted finds it taken.
        let before = self.word(Word::Users).fetch_add(USER, Ordering::AcqRel);
        if before & DESTROYED == 0 { Ok(()) } else { Err(Error::Destroyed) }
    }

    /// Ends the pool if its last user has left it, and nobody comes meanwhile.
    fn end_if_unused(&self) {
        // ORDERING: of two who leave at once, one finds that the other one has left too.
        fence(Ordering::SeqCst);
        let users = self.word(Word::Users).load(Ordering::Acquire);
        if !self.is_used() {
            self.end_since(users);
        }
    }

    /// Ends the pool, unless somebody came since so many places had been taken, or ended it.
    fn end_since(&self, users: u64) {
        let (word, over) = (self.word(Word::Users), users | DESTROYED);
        if users != over && word.compare_exchange(users, over, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.ended();
        }
    }

    /// Ends the pool for all: whoever waits, and whoever comes, gets [`Error::Destroyed`].
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it was before.
    pub fn destroy(&self) -> Result<(), Error> {
        if self.word(Word::Users).fetch_or(DESTROYED, Ordering::AcqRel) & DESTROYED != 0 {
            return Err(Error::Destroyed);
        }
        self.ended();
        Ok(())
    }

    /// What is left to do when it is destroyed.
    fn ended(&self) {
        self.remove_files();
        self.claim.release();
        self.event().notify(&Futex);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let is_inherited = self.lanes.is_inherited();
        let mut lanes = std::mem::replace(&mut self.lanes, Lanes::new());
        let had_place = lanes.has_place();
        let stayed = lanes.leave(&self.shared, |member| self.set_present(member, false));
        stayed.into_iter().for_each(|member| self.set_left(member));
        if self.files.is_none() {
            return;
        }
        if !self.ends_with_creator() {
            // Only looking changes nothing.
            if had_place {
                self.end_if_unused();
            }
        } else if self.is_creator && !is_inherited {
            // With its maker, not with a child of his; somebody else may have destroyed it.
            let _ = self.destroy();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::Files;
    use super::*;
    use crate::pool::{Attributes, Memory};

    #[test]
    fn whoever_comes_removes_the_files_of_a_pool_whose_destroyer_was_killed_over_it() {
        let (name, small) =
            (format!("unfinished-{}", std::process::id()), Attributes { bytes: 1 << 20, ..Attributes::default() });
        let pool = Pool::create(Some(&name), &small).unwrap();
        let files = pool.files.clone().unwrap();
        pool.word(Word::Users).fetch_or(DESTROYED, Ordering::AcqRel);
        assert!(files.manifest.exists() && files.data.exists());
        assert_eq!(Pool::attach(&name).unwrap_err(), Error::Destroyed);
        assert!(!files.manifest.exists() && !files.data.exists());
    }

    /// A pool that ends with its last user, and its name.
    fn shared(which: &str) -> (Pool, String) {
        let name = format!("{which}-{}", std::process::id());
        let attributes = Attributes { bytes: 1 << 20, lifetime: Lifetime::LastUser, ..Attributes::default() };
        (Pool::create(Some(&name), &attributes).unwrap(), name)
    }

    fn users(pool: &Pool) -> u64 {
        pool.word(Word::Users).load(Ordering::Acquire)
    }

    /// As if the user were killed.
    fn forsake(pool: &Pool) {
        let number = pool.with_hand(|hand| hand.number()).unwrap();
        pool.set_present(pool.heap().crew().member(number).unwrap(), false);
    }

    #[test]
    fn who_found_a_pool_forsaken_does_not_remove_it_for_one_who_came_meanwhile() {
        // Where nobody else cleans.
        let folder = std::env::temp_dir().join(format!("umbra-forsaken-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let memory = Memory::Folder(folder.clone());
        let attributes = Attributes { bytes: 1 << 20, lifetime: Lifetime::LastUser, memory, ..Attributes::default() };
        let killed = Pool::create(Some("left"), &attributes).unwrap();
        forsake(&killed);
        let [cleaner, newcomer] = [(); 2].map(|()| Pool::inspect(&folder, "left").unwrap());
        let before = users(&cleaner);
        // He was not there yet when the cleaner looked for users.
        forsake(&newcomer);
        assert!(!cleaner.end_if_over_since(before));
        assert!(newcomer.files.as_ref().unwrap().data.exists() && newcomer.check().is_ok());
        assert!(cleaner.end_if_over(), "now nobody has come since");
        assert_eq!(newcomer.check(), Err(Error::Destroyed), "who is too late is told");
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn a_place_that_a_handle_takes_later_counts_too() {
        let (pool, _) = shared("later");
        let before = users(&pool);
        // As in a child that was forked off: the handle is an old one, and the place is new.
        let another = || std::thread::scope(|scope| scope.spawn(|| pool.with_hand(|_| ())).join().unwrap());
        pool.with_hand(|_| another()).unwrap().unwrap();
        assert_eq!(users(&pool), before + USER);
        pool.end_since(before);
        assert_eq!(pool.check(), Ok(()));
    }

    #[test]
    fn who_has_his_place_only_after_the_last_user_ended_the_pool_is_refused() {
        let (last, name) = shared("leaving");
        let newcomer = Pool::look(&Files::shared(&name).unwrap()).unwrap().unless_over().unwrap();
        newcomer.take_place().unwrap();
        last.end_since(users(&last));
        assert_eq!(newcomer.come(), Err(Error::Destroyed));
    }

    #[test]
    fn who_found_a_pool_unused_does_not_end_it_for_one_who_came_meanwhile() {
        let (last, name) = shared("coming");
        let before = users(&last);
        let user = Pool::attach(&name).unwrap();
        last.end_since(before);
        assert_eq!(user.check(), Ok(()));
        drop(last);
        assert_eq!(user.check(), Ok(()));
        drop(user);
        assert!(matches!(Pool::attach(&name), Err(Error::Missing { .. })), "with its last user");
    }
}
