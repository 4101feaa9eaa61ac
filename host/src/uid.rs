//! Numbers by which users know pools and channels.
//!
//! Of those that a process made and that live, no two have the same one. No handle and no reference depends on such a
//! number, so across processes two objects may have one without harm, and are told apart. Zero is no number: any of
//! them may have it. Who wants a number that nobody else has [draws](draw) one.
//!
//! ```
//! use umbra::pool::{Attributes, Error, Pool};
//! let uid = umbra::uid::draw().map_err(Error::Random)?;
//! let attributes = Attributes { bytes: 1 << 20, uid, ..Attributes::default() };
//! let first = Pool::create(None, &attributes)?;
//! let second = Pool::create(None, &attributes);
//! assert!(matches!(second, Err(Error::UidTaken(taken)) if taken == uid));
//! first.destroy()?;
//! Pool::create(None, &attributes)?;
//! # Ok::<(), umbra::pool::Error>(())
//! ```
//!
//! *Cost*: a lock of this process and a look-up for each object that is made with a number, and when it ends.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use umbra_core::atomic::{AtomicU64, Ordering};

use crate::reference;
use crate::sys::fork;

/// What has numbers of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Pool,
    Channel,
}

static TAKEN: Mutex<BTreeSet<(Kind, u64)>> = Mutex::new(BTreeSet::new());

fn with_taken<R>(act: impl FnOnce(&mut BTreeSet<(Kind, u64)>) -> R) -> R {
    // A set is whole whatever its user was doing.
    fork::undivided(|| act(&mut TAKEN.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// A number that nobody else has drawn: 64 random bits, never zero.
///
/// # Errors
/// What the system says, if it has no random bits.
pub fn draw() -> Result<u64, Errno> {
    reference::draw()
}

/// The number of an object that this process made, until it is released or dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    kind: Kind,
    /// Zero once it is another's to take.
    uid: AtomicU64,
}

impl Claim {
    /// Of an object that this process did not make.
    pub(crate) const fn none(kind: Kind) -> Claim {
        Claim { kind, uid: AtomicU64::new(0) }
    }

    /// Takes the number, unless another one has it.
    pub(crate) fn take(kind: Kind, uid: u64) -> Option<Claim> {
        (uid == 0 || with_taken(|taken| taken.insert((kind, uid)))).then(|| Claim { kind, uid: AtomicU64::new(uid) })
    }

    /// Leaves the number to others.
    pub(crate) fn release(&self) {
        let uid = self.uid.swap(0, Ordering::Relaxed);
        if uid != 0 {
            with_taken(|taken| taken.remove(&(self.kind, uid)));
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.release();
    }
}
