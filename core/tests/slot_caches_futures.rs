//! Futures of a cache that nobody polls to their end, and their wakers.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use umbra_core::cache::policy::Lru;
use umbra_core::cache::waiting::{self, ContentError, Given, Lock, Waiting};
use umbra_core::cache::{AllocError, Dense, Forgetful, Forgetting, Slot};
use umbra_core::stencil::waiting as groups;
use umbra_core::stencil::{ByNumber, Group, Input, Limits, Reference, Stencil, Storage, Unknown};

/// A lock that refuses to be taken by who has it.
struct Strict<T> {
    value: Mutex<T>,
    taken: AtomicBool,
}

impl<T> Lock for Strict<T> {
    type Value = T;

    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        assert!(!self.taken.load(Ordering::Relaxed), "somebody's code runs under the lock");
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.taken.store(true, Ordering::Relaxed);
        let told = act(&mut value);
        self.taken.store(false, Ordering::Relaxed);
        told
    }
}

impl<T> Strict<T> {
    fn new(value: T) -> Self {
        Strict { value: Mutex::new(value), taken: AtomicBool::new(false) }
    }
}

type Slots = waiting::Shared<Strict<Waiting<Vec<Slot>, Dense<Vec<u32>>, Lru, Forgetting, [waiting::Waiter; 4]>>>;
type Vecs = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;
type Groups = groups::Shared<Strict<groups::Waiting<Vecs, ByNumber, Unknown, [groups::Waiter; 4]>>>;

/// A cache of one slot, for which four can wait.
fn slots() -> Arc<Slots> {
    let cache = Forgetful::new(vec![Slot::EMPTY; 1], Dense::new(vec![0; 9]), Lru::new(), 0..1).unwrap();
    Arc::new(waiting::Shared::new(Strict::new(Waiting::new(cache, [const { waiting::Waiter::EMPTY }; 4]))))
}

fn groups() -> Arc<Groups> {
    let storage = Storage {
        slots: vec![Slot::EMPTY; 1],
        buckets: vec![0; 4],
        inputs: vec![Input::UNBOUNDED; 9],
        groups: vec![Group::EMPTY; 2],
        references: vec![Reference::EMPTY; 2],
    };
    let limits = Limits { largest_group: 1, active: 2, horizon: 9 };
    let stencil = Stencil::new(storage, ByNumber, Unknown, 0..1, limits).unwrap();
    let line = groups::Waiting::new(stencil, [const { groups::Waiter::EMPTY }; 4]);
    Arc::new(groups::Shared::new(Strict::new(line)))
}

/// A waker whose end asks the cache a question, as a task may that ends with it.
struct Curious<T> {
    cache: Weak<T>,
    ask: fn(&T),
    ended: Arc<AtomicU32>,
}

impl<T: Send + Sync + 'static> Wake for Curious<T> {
    fn wake(self: Arc<Self>) {}
}

impl<T> Drop for Curious<T> {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if let Some(cache) = self.cache.upgrade() {
            (self.ask)(&cache);
        }
    }
}

/// Polls once, with a waker of its own.
fn poll_once<T: Send + Sync + 'static, F: Future>(
    cache: &Arc<T>,
    ask: fn(&T),
    ended: &Arc<AtomicU32>,
    future: Pin<&mut F>,
) -> Poll<F::Output> {
    let waker = Waker::from(Arc::new(Curious { cache: Arc::downgrade(cache), ask, ended: ended.clone() }));
    future.poll(&mut Context::from_waker(&waker))
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(told) => told,
        Poll::Pending => panic!("has to wait"),
    }
}

#[test]
fn s34_a_future_that_is_dropped_in_line_leaves_its_place_to_the_next() {
    let cache = slots();
    let held = cache.try_alloc(1).unwrap();
    let mut waits = [2, 3, 2].map(|data| Box::pin(cache.slot(data)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.iter_mut().all(|wait| wait.as_mut().poll(&mut context).is_pending()));
    let [first, second, mut third] = waits;
    drop(first);
    assert_eq!(cache.waiting(), 2);
    drop(held);
    let Poll::Ready(Ok(Given::Empty(fill))) = third.as_mut().poll(&mut context) else { panic!("it was its turn") };
    assert_eq!(fill.data(), 2, "before the one who wants something else");
    drop(second);
    drop(fill);
    assert!(matches!(cache.try_alloc(5), Ok(Given::Empty(_))), "nobody is left, and the slot is free");
}

#[test]
fn s34_a_slot_that_was_given_to_a_future_that_is_dropped_goes_on() {
    let cache = slots();
    let held = cache.try_alloc(1).unwrap();
    let mut waits = [2, 2, 3].map(|data| Box::pin(cache.slot(data)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.iter_mut().all(|wait| wait.as_mut().poll(&mut context).is_pending()));
    let [first, mut second, mut third] = waits;
    drop(held);
    // Between the gift and the news.
    drop(first);
    let Poll::Ready(Ok(Given::Assigned(other))) = second.as_mut().poll(&mut context) else { panic!("it has the slot") };
    assert_eq!(now(cache.content(2)), Err(ContentError::Abandoned { data: 2 }));
    assert!(matches!(cache.try_alloc(2), Ok(Given::Empty(_))), "somebody else fills it");
    assert!(third.as_mut().poll(&mut context).is_pending());
    drop(other);
    // The third has the slot now, and goes without having heard of it.
    drop(third);
    assert_eq!((cache.waiting(), cache.look(|cache| cache.len())), (0, Ok(0)));
    assert!(matches!(cache.try_alloc(4), Ok(Given::Empty(_))));
}

#[test]
fn s34_a_future_of_content_may_be_dropped_before_and_after_it_came() {
    let cache = slots();
    let Ok(Given::Empty(fill)) = cache.try_alloc(1) else { panic!("not empty") };
    let mut waits = [(); 2].map(|()| Box::pin(cache.content(1)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.iter_mut().all(|wait| wait.as_mut().poll(&mut context).is_pending()));
    let [first, second] = waits;
    drop(first);
    assert_eq!(cache.waiting(), 1);
    drop(fill.remember().unwrap());
    drop(second);
    assert_eq!((cache.waiting(), now(cache.content(1))), (0, Ok(())));
    assert!(matches!(cache.try_alloc(2), Ok(Given::Empty(_))));
}

#[test]
fn the_waker_of_one_who_waits_for_a_slot_ends_outside_of_the_lock() {
    let (cache, ended) = (slots(), Arc::new(AtomicU32::new(0)));
    let ask =
        |cache: &Slots| assert!(matches!(cache.try_alloc(8), Err(AllocError::Full { .. })) || cache.waiting() < 9);
    let Ok(Given::Empty(fill)) = cache.try_alloc(1) else { panic!("not empty") };
    // One who goes, one who is replaced and expires, and one who was answered and goes.
    let mut slot = Box::pin(cache.slot(2));
    assert!(poll_once(&cache, ask, &ended, slot.as_mut()).is_pending());
    assert_eq!(ended.load(Ordering::Relaxed), 0, "it is to be woken");
    drop(slot);
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    let mut slot = Box::pin(cache.slot(2));
    assert!(poll_once(&cache, ask, &ended, slot.as_mut()).is_pending());
    assert!(poll_once(&cache, ask, &ended, slot.as_mut()).is_pending());
    assert_eq!(ended.load(Ordering::Relaxed), 2, "the later waker took the place of the first");
    assert!((*Pin::into_inner(slot)).expire().is_err());
    assert_eq!(ended.load(Ordering::Relaxed), 3);
    let mut content = Box::pin(cache.content(1));
    assert!(poll_once(&cache, ask, &ended, content.as_mut()).is_pending());
    drop(fill.remember().unwrap());
    assert_eq!(ended.load(Ordering::Relaxed), 4, "it was woken");
    assert_eq!(poll_once(&cache, ask, &ended, content.as_mut()), Poll::Ready(Ok(())));
    assert_eq!(ended.load(Ordering::Relaxed), 5);
}

#[test]
fn the_waker_of_one_who_waits_for_a_group_ends_outside_of_the_lock() {
    let (cache, ended) = (groups(), Arc::new(AtomicU32::new(0)));
    let ask = |cache: &Groups| assert!(cache.submit(9, &[]).is_err());
    now(cache.alloc(1, &[1])).unwrap();
    let (second, third) = ([2], [3]);
    let mut accepted = Box::pin(cache.alloc(2, &second));
    let mut in_line = Box::pin(cache.alloc(3, &third));
    assert!(poll_once(&cache, ask, &ended, accepted.as_mut()).is_pending());
    assert!(poll_once(&cache, ask, &ended, in_line.as_mut()).is_pending());
    assert!(poll_once(&cache, ask, &ended, in_line.as_mut()).is_pending());
    assert_eq!(ended.load(Ordering::Relaxed), 1, "the later waker took the place of the first");
    drop(in_line);
    drop(accepted);
    assert_eq!((ended.load(Ordering::Relaxed), cache.waiting()), (3, 0));
}
