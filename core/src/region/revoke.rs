//! Taking regions back: when a region ends, and who is told that it did.
//!
//! [`Regions::revoke`] tells its caller at once, or whoever releases the last hold. Where somebody else has to
//! be told, the revocation is pinned ([`Regions::revoke_pinned`]): the region keeps its place until
//! [`Regions::unpin`] or [`Regions::next_drained`] ends it, so however many drain meanwhile, none is forgotten.

use super::entry::{Entry, Held, Secret, State};
use super::refusal::{HoldError, RevokeError};
use super::table::Regions;
use crate::key::Key;
use crate::peer::{Incarnation, Peer};

/// What a revocation has to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revocation {
    /// Holds not yet released; the revocation is acknowledged when they are.
    pub in_flight: u32,
}

/// A region that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reaped {
    /// The place under which the driver keeps what it needs to copy.
    pub place: usize,
    /// Its name.
    pub key: Key,
    /// Its owner went away; it did not take the region back.
    pub lost: bool,
}

impl<S: AsRef<[Entry]> + AsMut<[Entry]>> Regions<S> {
    /// Ends an access. Returns the key if this was the last hold of a region that is being revoked: the
    /// revocation is acknowledged then. Not of a pinned one, which waits to be asked.
    #[inline]
    pub fn release(&mut self, held: Held) -> Option<Key> {
        let entry = self.entries.as_mut().get_mut(held.place())?;
        // A forced revocation does not wait: its holds come back when the place may have a new region.
        if entry.tenancy != held.tenancy || entry.in_flight == 0 {
            return None;
        }
        entry.in_flight -= 1;
        if entry.state != State::Revoking || entry.in_flight > 0 {
            return None;
        }
        if entry.pinned {
            self.drained += 1;
            return None;
        }
        self.end(held.place(), State::Revoked);
        Some(held.key)
    }

    /// Begins to revoke a region: no new hold from now on. Revoking twice changes nothing.
    ///
    /// # Errors
    /// [`RevokeError`].
    pub fn revoke(&mut self, key: Key) -> Result<Revocation, RevokeError> {
        let place = self.current(key)?;
        let entry = &mut self.entries.as_mut()[place];
        let in_flight = entry.in_flight;
        if entry.state == State::Live {
            entry.state = State::Revoking;
        }
        if entry.state == State::Revoking && in_flight == 0 && !entry.pinned {
            self.end(place, State::Revoked);
        }
        Ok(Revocation { in_flight })
    }

    /// Begins to revoke a region of which others must be told, or have to answer: it keeps its place until
    /// [`unpin`](Self::unpin) or [`next_drained`](Self::next_drained). False if a revocation was begun before.
    ///
    /// # Errors
    /// [`RevokeError`].
    pub fn revoke_pinned(&mut self, key: Key) -> Result<bool, RevokeError> {
        let place = self.current(key)?;
        let entry = &mut self.entries.as_mut()[place];
        let begun = entry.state == State::Live;
        if begun {
            entry.state = State::Revoking;
            entry.pinned = true;
            self.drained += u32::from(entry.in_flight == 0);
        }
        Ok(begun)
    }

    /// Owner: nobody else uses a region any more. True if that ended its revocation.
    pub fn unpin(&mut self, key: Key) -> bool {
        let Ok(place) = self.current(key) else { return false };
        let Some(entry) = self.entries.as_mut().get_mut(place).filter(|e| e.pinned) else { return false };
        if entry.in_flight > 0 {
            entry.pinned = false;
            return false;
        }
        self.end(place, State::Revoked);
        true
    }

    /// The next region whose pinned revocation has drained: it ends now. Call until `None`.
    pub fn next_drained(&mut self) -> Option<Key> {
        if self.drained == 0 {
            return None;
        }
        let place = self.entries.as_ref().iter().position(Entry::has_drained)?;
        let key = self.entries.as_ref()[place].region.key;
        self.end(place, State::Revoked);
        Some(key)
    }

    /// Revokes a region without waiting; tells how many holds were overrun. Whoever does this must make
    /// sure by other means that nobody still copies, or accept that the last copies are torn. A pinned
    /// revocation counts as drained.
    ///
    /// # Errors
    /// [`RevokeError`].
    pub fn force(&mut self, key: Key) -> Result<Revocation, RevokeError> {
        let place = self.current(key)?;
        let entry = &mut self.entries.as_mut()[place];
        let in_flight = entry.in_flight;
        if entry.pinned && in_flight > 0 {
            entry.in_flight = 0;
            self.drained += 1;
        } else if entry.is_open() && !entry.pinned {
            self.end(place, State::Revoked);
        }
        Ok(Revocation { in_flight })
    }

    /// Revokes everything that an owner exported in those of its lives that are over; tells how many regions
    /// were live or being revoked. Their memory is gone, so nothing is waited for, and no revocation of them is
    /// told any more.
    pub fn orphan(&mut self, owner: Peer, over: impl Fn(Incarnation) -> bool) -> usize {
        let mut ended = 0;
        for place in 0..self.capacity() {
            let entry = &self.entries.as_ref()[place];
            if entry.region.key.owner() != owner || !over(entry.region.incarnation) {
                continue;
            }
            if entry.is_open() {
                ended += 1;
                self.end(place, State::Orphaned);
            } else if entry.state == State::Revoked {
                // It ended before, and whoever keeps a mapping for its place was told then.
                self.entries.as_mut()[place].state = State::Orphaned;
            }
        }
        ended
    }

    /// A region that ended since the last call. Call until `None`. A place that has a new region meanwhile is not
    /// told.
    pub fn reap(&mut self) -> Option<Reaped> {
        if self.unreaped == 0 {
            return None;
        }
        let place = self.entries.as_ref().iter().position(|e| e.unreaped)?;
        let entry = &mut self.entries.as_mut()[place];
        entry.unreaped = false;
        self.unreaped -= 1;
        Some(Reaped { place, key: entry.region.key, lost: entry.state == State::Orphaned })
    }

    /// Why a hold is worth nothing any more: its region was taken away by force, or died with its owner.
    #[must_use]
    pub fn fate(&self, held: &Held) -> Option<HoldError> {
        let entry = self.entries.as_ref().get(held.place())?;
        match entry.state {
            _ if entry.tenancy != held.tenancy => Some(HoldError::StaleKey),
            State::Live | State::Revoking => None,
            State::Orphaned => Some(HoldError::OwnerGone),
            State::Revoked | State::Vacant => Some(HoldError::KeyRevoked),
        }
    }

    fn current(&self, key: Key) -> Result<usize, RevokeError> {
        let place = self.locate(key).ok_or(RevokeError::UnknownRegion)?;
        if self.entries.as_ref()[place].region.key == key { Ok(place) } else { Err(RevokeError::StaleKey) }
    }

    fn end(&mut self, place: usize, state: State) {
        self.ends = self.ends.wrapping_add(1);
        let entry = &mut self.entries.as_mut()[place];
        self.drained -= u32::from(entry.has_drained());
        entry.pinned = false;
        entry.state = state;
        entry.ended = self.ends;
        entry.secret = Secret([0; 32]);
        if !entry.unreaped {
            entry.unreaped = true;
            self.unreaped += 1;
        }
    }
}
