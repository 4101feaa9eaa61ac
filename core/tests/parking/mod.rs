//! Threads of loom's that park until a future is ready, and a lock of loom's.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Mutex;
use loom::thread::{self, Thread};
use umbra_core::cache::waiting::Lock;

pub(crate) struct Model<T>(pub(crate) Mutex<T>);

impl<T> Lock for Model<T> {
    type Value = T;

    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.0.lock().unwrap())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn waker() -> Waker {
    Waker::from(std::sync::Arc::new(Unpark(thread::current())))
}

pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let (waker, mut future) = (waker(), pin!(future));
    loop {
        if let Poll::Ready(said) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return said;
        }
        thread::park();
    }
}

/// Every interleaving, or those with so many preemptions.
pub(crate) fn check(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(body);
}
