//! Memory that a transport's spans may name: ours, and what peers opened for us.

use std::collections::HashMap;

use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::Peer;

/// Windows by key, each with what it takes to reach it.
#[derive(Debug)]
pub(crate) struct Windows<T> {
    me: Peer,
    open: HashMap<Key, Window<T>>,
}

#[derive(Debug)]
struct Window<T> {
    len: u64,
    access: Access,
    way: T,
}

impl<T> Windows<T> {
    /// None yet, for process `me`.
    pub(crate) fn new(me: Peer) -> Windows<T> {
        Windows { me, open: HashMap::new() }
    }

    /// Opens `len` bytes under `key`, in place of what was open there. `access` is what the owner allows to others.
    pub(crate) fn open(&mut self, key: Key, len: u64, access: Access, way: T) {
        self.open.insert(key, Window { len, access, way });
    }

    /// Spans under `key` are refused from now on.
    pub(crate) fn close(&mut self, key: Key) {
        self.open.remove(&key);
    }

    /// Closes everything that `owner` opened.
    pub(crate) fn close_all(&mut self, owner: Peer) {
        self.open.retain(|key, _| key.owner() != owner);
    }

    /// The way to memory of `owner`, if this span of it may be used like that.
    ///
    /// # Errors
    /// [`Status::UnknownRegion`], [`Status::PermissionDenied`] or [`Status::OutOfBounds`].
    pub(crate) fn find(&self, span: Span, owner: Peer, right: Access) -> Result<&T, Status> {
        let window = self.open.get(&span.key).filter(|_| span.key.owner() == owner);
        let window = window.ok_or(Status::UnknownRegion)?;
        if owner != self.me && !window.access.contains(right) {
            return Err(Status::PermissionDenied);
        }
        if span.offset > window.len || span.len > window.len - span.offset {
            return Err(Status::OutOfBounds);
        }
        Ok(&window.way)
    }
}
