//! A thread that serves a member, and calls as futures.
//!
//! A member does its part in calls only while somebody serves it. [`Progress`] is a thread that always does; whoever wants to make calls
//! asks it to, from any thread, and gets a [`Called`]: a [`Future`] that any executor can wait for, because the thread wakes it
//! when its call is over. Nothing is polled in between. Dropping it gives the call up.
//!
//! ```
//! use std::future::Future;
//! use std::pin::pin;
//! use std::sync::Arc;
//! use std::task::{Context, Poll, Wake, Waker};
//! use umbra::call::{Member, Progress, Shape, Station};
//! use umbra_core::chain::{Call, Node, Tag, Verdict};
//!
//! let station = Station::create("example", Shape::new(2))?;
//! let mut others = Vec::new();
//! for node in [Node(0), Node(1)] {
//!     let mut member = Member::join(&station, node)?;
//!     member.register("hello", |_| Verdict::Done)?;
//!     others.push(Progress::start(member)?);
//! }
//! let hello = others[0].call(&Call::new(Tag::of("hello"), &[Node(0), Node(1)]));
//!
//! // An executor: sleeps until it is woken.
//! struct Thread(std::thread::Thread);
//! impl Wake for Thread {
//!     fn wake(self: Arc<Self>) { self.0.unpark() }
//! }
//! let waker = Waker::from(Arc::new(Thread(std::thread::current())));
//! let mut hello = pin!(hello);
//! let reply = loop {
//!     match hello.as_mut().poll(&mut Context::from_waker(&waker)) {
//!         Poll::Ready(reply) => break reply?,
//!         Poll::Pending => std::thread::park(),
//!     }
//! };
//! assert_eq!(reply.members, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::chain::{Call, Handle, Node, StartError};
use umbra_core::time::Lapse;

use super::answer::{Failure, Reply};
use super::forked::Origin;
use super::local::Wish;
use super::member::Member;
use super::station::Station;
use crate::sys::clock::now;
use crate::sys::futex::Futex;
use crate::sys::slices;

/// The thread is told of its end; this is only how long it goes on in one piece.
const LONG: Duration = Duration::from_secs(3600);
/// When a call that found no place is begun again.
const AGAIN: Lapse = Lapse::from_micros(500);

/// Why a call that was asked for has no reply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// It was not begun; nothing was sent.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It failed.
    #[error("{0}")]
    Failed(Failure),
    /// Nobody serves the member any more.
    #[error("the thread that serves the member has ended, and its call with it")]
    Over,
}

#[derive(Debug, Default)]
enum Stand {
    /// Nobody has looked yet.
    #[default]
    Open,
    Awaited(Waker),
    Answered(Result<Reply, CallError>),
    /// The answer was taken, or nobody wants it.
    Over,
}

/// What a future and the thread share of one call.
#[derive(Debug, Default)]
struct Slot(Mutex<Stand>);

impl Slot {
    fn stand(&self) -> MutexGuard<'_, Stand> {
        // An executor's waker may panic under the lock when it is cloned: what stands here is whole all the same.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_wanted(&self) -> bool {
        !matches!(*self.stand(), Stand::Over)
    }

    fn answer(&self, result: Result<Reply, CallError>) {
        let before = {
            let mut stand = self.stand();
            let answered = if matches!(*stand, Stand::Over) { Stand::Over } else { Stand::Answered(result) };
            std::mem::replace(&mut *stand, answered)
        };
        if let Stand::Awaited(waker) = before {
            // What an executor does wrong is not to end the thread, and with it the calls of others.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

/// Calls that were asked for; `None`: nobody makes them any more.
type Wishes = Option<Vec<(Wish, Arc<Slot>)>>;

/// What the thread is told. A child that was forked off has no such thread, and this one may have any of the locks.
#[derive(Debug)]
struct Orders {
    /// The process that has the thread.
    origin: Origin,
    station: Station,
    node: Node,
    wishes: Mutex<Wishes>,
    /// Not zero: there is something to look at.
    bell: Arc<AtomicU32>,
    over: AtomicU32,
}

impl Orders {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // ORDERING: the fence of `notify` orders it before the look at who sleeps.
        self.bell.store(1, Ordering::Release);
        if let Ok(inbox) = self.station.inbox(self.node) {
            inbox.queue().published().notify(&Futex);
        }
    }
}

/// A call that the thread makes; dropped before its end, the call is given up.
#[derive(Debug)]
#[must_use = "a call that nobody waits for is given up"]
pub struct Called {
    slot: Arc<Slot>,
    orders: Arc<Orders>,
}

impl Future for Called {
    type Output = Result<Reply, CallError>;

    /// After it was ready it stays pending; in a child that was forked off it is ready each time, as [`StartError::Forked`].
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.orders.origin.is_inherited() {
            return Poll::Ready(Err(StartError::Forked.into()));
        }
        let mut stand = self.slot.stand();
        match &mut *stand {
            Stand::Answered(_) => match std::mem::replace(&mut *stand, Stand::Over) {
                Stand::Answered(result) => Poll::Ready(result),
                _ => Poll::Pending,
            },
            Stand::Over => Poll::Pending,
            Stand::Open => {
                *stand = Stand::Awaited(context.waker().clone());
                Poll::Pending
            }
            Stand::Awaited(waker) => {
                waker.clone_from(context.waker());
                Poll::Pending
            }
        }
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        if self.orders.origin.is_inherited() {
            return;
        }
        let before = std::mem::replace(&mut *self.slot.stand(), Stand::Over);
        if matches!(before, Stand::Open | Stand::Awaited(_)) {
            self.orders.ring();
        }
    }
}

/// A thread that serves a member; it ends when this is dropped, and its calls with it.
#[derive(Debug)]
pub struct Progress {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Serves a member from now on.
    ///
    /// # Errors
    /// What the system said if there is no thread; [`Forked`](super::Forked) if the member is another process's.
    pub fn start(mut member: Member) -> std::io::Result<Progress> {
        member.refuse_heirs().map_err(std::io::Error::other)?;
        let bell = Arc::new(AtomicU32::new(0));
        member.bell = Some(Arc::clone(&bell));
        let orders = Arc::new(Orders {
            origin: member.origin,
            station: member.station().clone(),
            node: member.node(),
            wishes: Mutex::new(Some(Vec::new())),
            bell,
            over: AtomicU32::new(0),
        });
        let theirs = Arc::clone(&orders);
        let thread = Builder::new().name("umbra-progress".to_owned()).spawn(move || serve(member, &theirs))?;
        Ok(Progress { orders, thread: Some(thread) })
    }

    /// Has a call made; its time begins now. A call for which there is no place yet is begun as soon as there is one.
    ///
    /// In a child that was forked off there is no such thread, and its answer is [`StartError::Forked`].
    pub fn call(&self, call: &Call<'_>) -> Called {
        let slot = Arc::new(Slot::default());
        if self.orders.origin.is_inherited() {
            return Called { slot, orders: Arc::clone(&self.orders) };
        }
        match self.orders.wishes().as_mut() {
            Some(wishes) => wishes.push((Wish::of(call, self.orders.node, &self.orders.station), Arc::clone(&slot))),
            None => slot.answer(Err(CallError::Over)),
        }
        self.orders.ring();
        Called { slot, orders: Arc::clone(&self.orders) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.orders.origin.is_inherited() {
            // There is no thread to join or to let go.
            std::mem::forget(self.thread.take());
            return;
        }
        self.orders.over.store(1, Ordering::Release);
        self.orders.ring();
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell: what functions do wrong is caught.
            let _ = thread.join();
        }
    }
}

/// Calls that the thread has begun, and those that wait for a place.
#[derive(Default)]
struct Open {
    begun: Vec<(Handle, Arc<Slot>)>,
    wished: Vec<(Wish, Arc<Slot>)>,
}

impl Open {
    /// Begins, ends and gives up what can be; whether the member has something to do now.
    fn turn(&mut self, member: &mut Member, orders: &Orders) -> bool {
        let mut changed = false;
        if member.bell.as_ref().is_some_and(|bell| bell.swap(0, Ordering::AcqRel) != 0) {
            self.wished.extend(orders.wishes().iter_mut().flat_map(std::mem::take));
            self.begun.retain(|(handle, slot)| {
                let stays = slot.is_wanted();
                changed |= !stays;
                if !stays && member.machine.cancel(*handle).is_ok() {
                    let _ = member.machine.release(*handle);
                }
                stays
            });
        }
        self.begun.retain(|(handle, slot)| {
            let result = match member.replies.answer(&member.machine, *handle) {
                Ok(None) => return true,
                Ok(Some(answer)) => answer.map_err(CallError::Failed),
                Err(_) => Err(CallError::Over),
            };
            let _ = member.machine.release(*handle);
            slot.answer(result);
            changed = true;
            false
        });
        // A call may have to go to somebody who has come again since and is taken for dead.
        if !self.wished.is_empty() && member.has_news() {
            member.look();
        }
        let (at, begun) = (now(), &mut self.begun);
        self.wished.retain(|(wish, slot)| {
            if !slot.is_wanted() {
                return false;
            }
            match wish.begin(None, &mut member.machine) {
                Ok(handle) => {
                    begun.push((handle, Arc::clone(slot)));
                    changed = true;
                }
                Err(StartError::WouldBlock) if wish.until() > at => return true,
                Err(error) => slot.answer(Err(error.into())),
            }
            false
        });
        if !self.wished.is_empty() {
            // No message says that there is a place for them.
            member.look_at = member.look_at.min(at + AGAIN);
        }
        changed
    }
}

fn serve(mut member: Member, orders: &Orders) {
    // Where that cannot be had it is only slower beside others.
    let _ = slices::shorten();
    let mut open = Open::default();
    let mut is_over = false;
    while !is_over && !member.is_inherited() {
        member.serve_until(LONG, |member| {
            while !member.is_inherited() && open.turn(member, orders) {
                member.turn();
            }
            is_over = orders.over.load(Ordering::Acquire) != 0;
            is_over
        });
    }
    // A child came back from a function: whoever waits is its parent's to tell.
    if member.is_inherited() {
        return;
    }
    // Whoever asks from now on is told at once, and so is whoever waits.
    let last = orders.wishes().take().unwrap_or_default();
    let waiting = last.into_iter().chain(open.wished).map(|(_, slot)| slot);
    waiting.chain(open.begun.into_iter().map(|(_, slot)| slot)).for_each(|slot| slot.answer(Err(CallError::Over)));
}
