//! Who looks out for the messages of a rank: an agent, or the rank itself.
//!
//! ```
//! use umbra_core::atomic::AtomicU64;
//! use umbra_core::boundary::Post;
//! let words = [AtomicU64::new(0), AtomicU64::new(0)];
//! let post = Post::new(&words[0], &words[1]);
//! let (rank, agent, lives) = (1, 2, |_| true);
//! assert!(post.take(rank).is_some_and(|taken| taken.is_new), "nobody was there");
//! post.ask(agent);
//! assert!(post.take(agent).is_none(), "a holder that lives is not replaced");
//! post.hand_over(rank, lives);
//! assert!(post.take(agent).is_some() && post.take(rank).is_none());
//! post.leave(agent);
//! assert_eq!(post.holder(), 0);
//! ```
//!
//! The holder alone writes what it finds to a place that all see, so there is one at a time: it changes when the holder
//! gives the post to who has asked for it, when it leaves, or when it is dead. A name is a word that is not 0 and that
//! two users of a post never have at the same time; one that was used before may come again.
//!
//! Guaranteed: whoever has left holds nothing, also if the post was being handed to it at that moment. Nobody waits.

use crate::atomic::{AtomicU64, Ordering, fence};

/// The holder of a rank's post, and who would like to be it; 0 is nobody.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    holder: &'a AtomicU64,
    wish: &'a AtomicU64,
}

/// The post is held by who has asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// It was nobody's until now: what is known of what was found may be old.
    pub is_new: bool,
}

impl<'a> Post<'a> {
    /// The post whose two words these are; both are 0 in the beginning.
    #[must_use]
    pub const fn new(holder: &'a AtomicU64, wish: &'a AtomicU64) -> Post<'a> {
        Post { holder, wish }
    }

    /// Who holds it at this moment, for a look only: it orders nothing.
    #[must_use]
    pub fn holder(self) -> u64 {
        self.holder.load(Ordering::Relaxed)
    }

    /// Says that `name` would like to have it, unless somebody else has said so before.
    pub fn ask(self, name: u64) {
        // ORDERING: a wish orders nothing; what was found is passed on by the other word.
        if self.wish.load(Ordering::Relaxed) == 0 {
            let _ = self.wish.compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether `name` holds it, who takes it if nobody does. All that holders before have written is seen then.
    #[must_use]
    pub fn take(self, name: u64) -> Option<Taken> {
        // ORDERING: acquire pairs with the release of whoever held it before, here and below.
        match self.holder.load(Ordering::Acquire) {
            held if held == name => Some(Taken { is_new: false }),
            0 => {
                let taken = self.holder.compare_exchange(0, name, Ordering::AcqRel, Ordering::Relaxed);
                taken.ok().map(|_| Taken { is_new: true })
            }
            _ => None,
        }
    }

    /// Gives it from `me` to who has asked for it and lives; only if `me` holds it.
    pub fn hand_over(self, me: u64, is_alive: impl FnOnce(u64) -> bool) {
        let next = self.wish.load(Ordering::Relaxed);
        if next == 0 || self.holder.load(Ordering::Relaxed) != me {
            return;
        }
        if !is_alive(next) {
            let _ = self.wish.compare_exchange(next, 0, Ordering::Relaxed, Ordering::Relaxed);
            return;
        }
        // ORDERING: release; the next holder sees what was found here. If it dies meanwhile the next looks find that out.
        if self.holder.compare_exchange(me, next, Ordering::Release, Ordering::Relaxed).is_err() {
            return;
        }
        // ORDERING: with the fence in `leave`. Either who leaves sees that it has the post, or its wish is seen to be gone
        // here, and then it does nothing with the post any more. A wish goes in no other way while its maker lives.
        fence(Ordering::SeqCst);
        // ORDERING: acquire pairs with the release of `leave`: it may have had the post meanwhile, and found something.
        if self.wish.load(Ordering::Acquire) != next {
            // ORDERING: release passes that on. To nobody, so that who has it next, perhaps `me`, knows that it is new to it.
            let _ = self.holder.compare_exchange(next, 0, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Takes it from a holder that is dead.
    pub fn bury(self, dead: u64) {
        // ORDERING: what the dead one has written is seen, as it was written before it died.
        let _ = self.holder.compare_exchange(dead, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// `name` wants nothing of it any more, and gives it back if it holds it.
    pub fn leave(self, name: u64) {
        // ORDERING: release, for `hand_over`: what was found is seen by who takes the post back for this one.
        let _ = self.wish.compare_exchange(name, 0, Ordering::Release, Ordering::Relaxed);
        // ORDERING: with the fence in `hand_over`, and release: the next holder sees all that this one has found.
        fence(Ordering::SeqCst);
        let _ = self.holder.compare_exchange(name, 0, Ordering::Release, Ordering::Relaxed);
    }
}
