//! News for one client at a time.

use super::Waiter;
use super::machine::Waiting;
use super::shared::{Guarded, Shared};
use crate::cache::waiting::Lock;
use crate::stencil::complete::Action;
use crate::stencil::future::Future;
use crate::stencil::input::Names;
use crate::stencil::machine::Stencil;
use crate::stencil::storage::Lent;

impl<L: Lock<Value: Guarded>> Shared<L> {
    /// Hands all actions to `tell`, in order and never two at once, and those that come up meanwhile as well. Whoever comes
    /// while somebody else is at it leaves its own to that one: so after each call that may bring news, deliver.
    ///
    /// `tell` runs without a lock and may call everything but what waits, this too. `teller` names the caller, as a thread;
    /// see [`Shared::teller`]. If it panics, what is left, also by those who came meanwhile, waits for the next call of this.
    pub fn deliver(&self, teller: u64, mut tell: impl FnMut(Action)) {
        let mut this = Teller { shared: self, tells: false };
        while let Some(action) = this.next(teller, |_, action| action) {
            tell(action);
        }
    }

    /// Who is delivering. It cannot wait for what only its own news bring.
    pub fn teller(&self) -> Option<u64> {
        self.act(|cache| *cache.teller())
    }
}

impl<K, N, F, R, L> Shared<L>
where
    K: Lent,
    N: Names,
    F: Future,
    R: AsRef<[Waiter]> + AsMut<[Waiter]>,
    L: Lock<Value = Waiting<K, N, F, R>>,
{
    /// [`Shared::deliver`] of what `look` makes of an action. It sees the cache as it is when the action is taken, and runs
    /// under the lock.
    pub fn deliver_seen<T>(
        &self,
        teller: u64,
        mut look: impl FnMut(&Stencil<K, N, F>, Action) -> T,
        mut tell: impl FnMut(T),
    ) {
        let mut this = Teller { shared: self, tells: false };
        while let Some(seen) = this.next(teller, |cache, action| look(cache.stencil(), action)) {
            tell(seen);
        }
    }

    /// The next action, unless somebody delivers: then it is that one's.
    pub fn poll(&self) -> Option<Action> {
        self.act(|cache| if cache.teller.is_some() { None } else { cache.poll() })
    }
}

/// Somebody who delivers, or would like to.
struct Teller<'a, L: Lock<Value: Guarded>> {
    shared: &'a Shared<L>,
    tells: bool,
}

impl<L: Lock<Value: Guarded>> Teller<'_, L> {
    fn next<T>(&mut self, teller: u64, look: impl FnOnce(&mut L::Value, Action) -> T) -> Option<T> {
        let Teller { shared, tells } = self;
        shared.act(|cache| {
            if cache.teller().is_some() && !*tells {
                return None;
            }
            let action = cache.next();
            // That there are no more news and that nobody is at it become true together.
            *tells = action.is_some();
            *cache.teller() = action.is_some().then_some(teller);
            action.map(|action| look(cache, action))
        })
    }
}

impl<L: Lock<Value: Guarded>> Drop for Teller<'_, L> {
    /// A client that panics does not keep the news from others.
    fn drop(&mut self) {
        if self.tells {
            self.shared.act(|cache| *cache.teller() = None);
        }
    }
}
