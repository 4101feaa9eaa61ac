//! What this process uses already: who attaches it again shares the handle.
//!
//! No second place is taken: places in shared memory are few, and a program that attaches the same thing in many
//! corners needs one. The table keeps nothing alive: with the last who has a handle the place is given up. A child that
//! was forked off does not get what its parent attached, which may have been busy at that moment; it attaches by
//! itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::sys::fork;

/// How long a newcomer waits for a thread that is about to be done.
const MOMENT: Duration = Duration::from_secs(1);

/// Part of an attached object, which has given up its place when this is dropped.
pub(crate) type Stay = Arc<()>;

/// Objects of one kind by the [life](fork::life) of the process and the number that was drawn when each was made.
#[derive(Debug)]
pub(crate) struct Known<T> {
    table: Mutex<Table<T>>,
}

type Table<T> = BTreeMap<(u32, u64), Entry<T>>;

#[derive(Debug)]
struct Entry<T> {
    object: Weak<T>,
    stay: Weak<()>,
}

/// Looks until there is something to see, for a moment.
fn look<R>(mut look: impl FnMut() -> Option<R>) -> Option<R> {
    let until = Instant::now() + MOMENT;
    loop {
        match look() {
            None if Instant::now() < until => std::thread::yield_now(),
            seen => return seen,
        }
    }
}

impl<T> Known<T> {
    pub(crate) const fn new() -> Known<T> {
        Known { table: Mutex::new(BTreeMap::new()) }
    }

    /// A table is whole whatever its user was doing.
    fn lock(&self) -> MutexGuard<'_, Table<T>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object with this number, if this process uses it.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<T>> {
        fork::undivided(|| self.lock().get(&(fork::life(), number))?.object.upgrade())
    }

    /// The object with this number: the one that this process uses, or else what `attach` gives, which no two threads do at
    /// once and which must not come back here.
    pub(crate) fn or_attach<E>(&self, number: u64, attach: impl FnOnce(Stay) -> Result<T, E>) -> Result<Arc<T>, E> {
        fork::undivided(|| self.or_attach_whole(number, attach))
    }

    fn or_attach_whole<E>(&self, number: u64, attach: impl FnOnce(Stay) -> Result<T, E>) -> Result<Arc<T>, E> {
        let (stay, mut table) = (Stay::default(), self.lock());
        let key = (fork::life(), number);
        if let Some(entry) = table.get(&key) {
            if let Some(object) = entry.object.upgrade() {
                return Ok(object);
            }
            // Its last user is giving the place up, which may be the only one; if he is stopped, another one is tried.
            let _ = look(|| (entry.stay.strong_count() == 0).then_some(()));
        }
        table.retain(|&(life, _), entry| life == key.0 && entry.stay.strong_count() > 0);
        let its = Arc::downgrade(&stay);
        let object = Arc::new(attach(stay)?);
        table.insert(key, Entry { object: Arc::downgrade(&object), stay: its });
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use umbra_core::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Something of which there are never two.
    #[derive(Debug)]
    struct Only<'a> {
        value: u64,
        there: &'a AtomicU64,
        _stay: Stay,
    }

    impl Drop for Only<'_> {
        fn drop(&mut self) {
            std::thread::yield_now();
            self.there.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn attach<'a>(known: &Known<Only<'a>>, there: &'a AtomicU64, number: u64, value: u64) -> Arc<Only<'a>> {
        let attach = |stay| {
            there.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Only { value, there, _stay: stay })
        };
        known.or_attach(number, attach).unwrap()
    }

    #[test]
    fn what_is_in_use_is_shared_and_ends_with_its_last_user() {
        let (known, there) = (Known::new(), AtomicU64::new(0));
        let (first, second) = (attach(&known, &there, 7, 1), attach(&known, &there, 7, 2));
        assert!(Arc::ptr_eq(&first, &second) && attach(&known, &there, 8, 3).value == 3);
        drop(first);
        assert_eq!(known.find(7).unwrap().value, 1);
        drop(second);
        assert!(known.find(7).is_none());
        assert_eq!(attach(&known, &there, 7, 4).value, 4);
        assert_eq!(there.into_inner(), 0);
    }

    #[test]
    fn who_cannot_attach_leaves_nothing_behind() {
        let known = Known::new();
        assert_eq!(known.or_attach(7, |_| Err("no room")).map(|_: Arc<u64>| ()), Err("no room"));
        assert!(known.find(7).is_none());
        assert_eq!(known.or_attach(7, |_| Ok::<_, Infallible>(1)).as_deref(), Ok(&1));
    }

    #[test]
    fn what_nobody_uses_any_more_is_forgotten() {
        let (known, there) = (Known::new(), AtomicU64::new(0));
        (0..100).for_each(|number| drop(attach(&known, &there, number, number)));
        assert!(known.lock().len() < 2);
    }

    #[test]
    fn threads_that_come_and_go_at_once_never_have_two() {
        let (known, there) = (Known::new(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for value in 0..4 {
                let (known, there) = (&known, &there);
                scope.spawn(move || {
                    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                        let one = attach(known, there, 7, value);
                        assert_eq!(there.load(Ordering::Relaxed), 1);
                        drop(one);
                    }
                });
            }
        });
        assert_eq!(there.into_inner(), 0);
    }
}
