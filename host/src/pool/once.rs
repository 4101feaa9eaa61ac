//! Attaching a pool as often as one likes, with one handle and one place.
//!
//! All of a process that attach it so share the two.

use std::sync::Arc;

use umbra_core::reference::{Object, Reference};

use super::Pool;
use super::error::Error;
use super::files::Files;
use crate::known::Known;
use crate::reference::{self, parse_local};

static POOLS: Known<Pool> = Known::new();

impl Pool {
    /// As [`attach`](Self::attach), but who of this process attached the pool so before shares his handle: it is the
    /// pool's user until the last one drops it. The handle that made the pool is another one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use umbra::pool::{Attributes, Pool};
    /// let name = format!("once-{}", std::process::id());
    /// let made = Pool::create(Some(&name), &Attributes { bytes: 1 << 20, members: 2, ..Attributes::default() })?;
    /// let handles: Vec<_> = (0..200).map(|_| Pool::attach_once(&name)).collect::<Result<_, _>>()?;
    /// assert!(Arc::ptr_eq(&handles[0], &Pool::attach_reference_once(&made.reference()?)?));
    /// # Ok::<(), umbra::pool::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub fn attach_once(name: &str) -> Result<Arc<Pool>, Error> {
        Self::look(&Files::shared(name)?)?.unless_over()?.shared()
    }

    /// As [`attach_reference`](Self::attach_reference), but as [`attach_once`](Self::attach_once) does.
    ///
    /// # Errors
    /// As for [`attach_reference`](Self::attach_reference).
    pub fn attach_reference_once(bytes: &[u8]) -> Result<Arc<Pool>, Error> {
        match POOLS.find(named(bytes)?.instance) {
            Some(known) => {
                known.is_meant(&named(bytes)?)?;
                known.refuse_if_over()?;
                Ok(known)
            }
            None => Self::inspect_reference(bytes)?.unless_over()?.shared(),
        }
    }

    fn shared(mut self) -> Result<Arc<Pool>, Error> {
        POOLS.or_attach(self.instance(), |stay| {
            self.stay = Some(stay);
            self.used()
        })
    }

    /// Whether a reference names this pool.
    pub(super) fn is_meant(&self, reference: &Reference<'_>) -> Result<(), Error> {
        if self.instance() == reference.instance && self.heap().plan().bytes() == reference.bytes {
            return Ok(());
        }
        Err(reference::Error::Replaced.into())
    }
}

/// A reference to a pool of this host, or to what lies in one.
pub(super) fn named(bytes: &[u8]) -> Result<Reference<'_>, Error> {
    let reference = parse_local(bytes)?;
    match reference.object {
        Object::Pool | Object::Allocation { .. } | Object::PooledChannel { .. } => Ok(reference),
        _ => Err(reference::Error::WrongObject.into()),
    }
}
