//! A thread that sleeps until a future is ready, or for so long.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

thread_local! {
    static WAKER: Waker = waker();
}

/// What the future says, or `None` if it has said nothing within this time.
pub(crate) fn until<F: Future + Unpin>(future: &mut F, within: Duration) -> Option<F::Output> {
    // A thread that is ending has lost its own.
    let waker = WAKER.try_with(Waker::clone).unwrap_or_else(|_| waker());
    let mut context = Context::from_waker(&waker);
    let mut begun = None;
    loop {
        if let Poll::Ready(said) = Pin::new(&mut *future).poll(&mut context) {
            return Some(said);
        }
        // Who does not have to wait does not look at the clock.
        let left = within.checked_sub(begun.get_or_insert_with(Instant::now).elapsed());
        let left = left.filter(|left| !left.is_zero())?;
        // Somebody else may have unparked this thread for reasons of its own, hence the loop.
        thread::park_timeout(left);
    }
}
