//! The table: a place for each region, found by owner and number.

use super::entry::{Entry, Held, Region, Secret, State};
use super::refusal::{AdmitError, ExportError, HoldError, ImportError};
use crate::endpoints::Shadows;
use crate::key::{Access, Key, Span};
use crate::peer::{Incarnation, Peer, Sp};

/// How far from its home an entry may lie.
pub const REACH: usize = 16;

/// A table of regions over lent storage.
#[derive(Debug)]
pub struct Regions<S> {
    pub(super) entries: S,
    pub(super) ends: u32,
    pub(super) unreaped: u32,
    /// Pinned revocations that have drained.
    pub(super) drained: u32,
}

impl<S: AsRef<[Entry]> + AsMut<[Entry]>> Regions<S> {
    /// A table over `entries`, which are expected to be [`Entry::VACANT`].
    pub fn new(entries: S) -> Self {
        Regions { entries, ends: 0, unreaped: 0, drained: 0 }
    }

    /// How many places there are.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.as_ref().len()
    }

    /// Regions that are live or being revoked.
    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.entries.as_ref().iter().filter(|e| e.is_open()).map(|e| &e.region)
    }

    /// Owner: makes a region and picks its key, never one that it used before within 2^20 exports of a
    /// place, and with a first generation that depends on the owner's life.
    ///
    /// # Errors
    /// [`ExportError`].
    #[expect(clippy::too_many_arguments, reason = "each is a different property of the region")]
    pub fn export(
        &mut self,
        owner: Peer,
        incarnation: Incarnation,
        base: u64,
        len: u64,
        access: Access,
        shadows: Shadows,
        secret: Secret,
    ) -> Result<Region, ExportError> {
        let home = self.home(owner, 0);
        let entries = self.entries.as_mut();
        let limit = entries.len().min(Key::REGIONS as usize);
        // A never used place first, else the one whose region ended longest ago.
        let candidates = (0..limit).map(|number| (number, (home + number) % entries.len()));
        let (number, place) = candidates
            .filter(|&(_, place)| entries[place].state != State::Live && entries[place].state != State::Revoking)
            .min_by_key(|&(_, place)| (entries[place].state != State::Vacant, entries[place].ended))
            .ok_or(ExportError::Full)?;
        let before = &entries[place];
        let reused = before.state != State::Vacant && before.region.incarnation == incarnation;
        let generation = if reused && before.region.key.owner() == owner {
            before.region.key.generation().wrapping_add(1)
        } else {
            incarnation.first_generation(Key::GENERATION_BITS)
        };
        let key = Key::new(owner, number as u32, generation);
        let region = Region { key, incarnation, base, len, access };
        self.put(place, region, shadows, secret)?;
        Ok(region)
    }

    /// Shadow service process `me`: takes over a region that its owner described. Taking the same region
    /// twice changes nothing.
    ///
    /// # Errors
    /// [`AdmitError::NotShadow`] if `me` is not on the access list, else [`AdmitError::Export`].
    pub fn admit(&mut self, me: Sp, region: Region, shadows: Shadows, secret: Secret) -> Result<(), AdmitError> {
        if !shadows.contains(&me) {
            return Err(AdmitError::NotShadow);
        }
        if let Some(place) = self.locate(region.key) {
            let entry = &self.entries.as_ref()[place];
            if entry.is_open() {
                let same = entry.region == region && entry.secret == secret && entry.state == State::Live;
                return if same { Ok(()) } else { Err(ExportError::Conflict.into()) };
            }
            return Ok(self.put(place, region, shadows, secret)?);
        }
        let entries = self.entries.as_ref();
        let place = self
            .probe(region.key)
            .filter(|&place| !entries[place].is_open())
            .min_by_key(|&place| (entries[place].state != State::Vacant, entries[place].ended))
            .ok_or(ExportError::Full)?;
        Ok(self.put(place, region, shadows, secret)?)
    }

    /// Checks that `sp` may import the region and knows its secret.
    ///
    /// # Errors
    /// [`ImportError`].
    pub fn authorise(&self, key: Key, secret: &Secret, sp: Sp) -> Result<Region, ImportError> {
        let entry = self.entries.as_ref().get(self.locate(key).ok_or(ImportError::UnknownRegion)?);
        let entry = entry.ok_or(ImportError::UnknownRegion)?;
        match entry.state {
            State::Orphaned => return Err(ImportError::OwnerGone),
            _ if entry.region.key != key => return Err(ImportError::StaleKey),
            State::Revoking | State::Revoked => return Err(ImportError::KeyRevoked),
            State::Vacant => return Err(ImportError::UnknownRegion),
            State::Live => {}
        }
        // The secret is compared even for a stranger, so that time tells nothing about the list.
        let knows = entry.secret == *secret;
        match (entry.shadows.contains(&sp), knows) {
            (false, _) => Err(ImportError::NotShadow),
            (true, false) => Err(ImportError::WrongSecret),
            (true, true) => Ok(entry.region),
        }
    }

    /// Asks leave to touch a span; `asker` is the service process that does the copy.
    ///
    /// # Errors
    /// [`HoldError`]; nothing is held then.
    #[inline]
    pub fn hold(&mut self, span: Span, right: Access, asker: Sp) -> Result<Held, HoldError> {
        let place = self.locate(span.key).ok_or(HoldError::UnknownRegion)?;
        let entry = self.entries.as_mut().get_mut(place).ok_or(HoldError::UnknownRegion)?;
        let address = check(entry, span, right, asker)?;
        entry.in_flight += 1;
        Ok(Held { place: place as u32, tenancy: entry.tenancy, key: span.key, address })
    }

    /// Whether `asker` may touch a span now, with its place and region: for a copy that ends before anything else is
    /// asked of this table, and so needs no hold.
    ///
    /// # Errors
    /// [`HoldError`].
    #[inline]
    pub fn may(&self, span: Span, right: Access, asker: Sp) -> Result<(usize, &Region), HoldError> {
        let place = self.locate(span.key).ok_or(HoldError::UnknownRegion)?;
        let entry = self.entries.as_ref().get(place).ok_or(HoldError::UnknownRegion)?;
        check(entry, span, right, asker)?;
        Ok((place, &entry.region))
    }

    /// The live region of `owner` that covers its address `address`.
    ///
    /// # Errors
    /// [`HoldError::OwnerGone`] if the owner died and exported nothing since, else
    /// [`HoldError::UnknownRegion`].
    pub fn find(&self, owner: Peer, address: u64) -> Result<Region, HoldError> {
        let (mut lives, mut died) = (false, false);
        for entry in self.entries.as_ref() {
            if entry.state == State::Vacant || entry.region.key.owner() != owner {
                continue;
            }
            match entry.state {
                State::Live if entry.region.covers(address) => return Ok(entry.region),
                State::Orphaned => died = true,
                // The end of a life takes along what it took back itself: this is of a life that goes on.
                _ => lives = true,
            }
        }
        Err(if died && !lives { HoldError::OwnerGone } else { HoldError::UnknownRegion })
    }

    /// The region of this key, if it is live or being revoked.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&Region> {
        let entry = self.entries.as_ref().get(self.locate(key)?)?;
        (entry.is_open() && entry.region.key == key).then_some(&entry.region)
    }

    /// All of a live region: what its owner tells to those on its access list.
    #[must_use]
    pub fn describe(&self, key: Key) -> Option<(&Region, &Secret, &Shadows)> {
        let entry = self.entries.as_ref().get(self.locate(key)?)?;
        (entry.is_open() && entry.region.key == key).then_some((&entry.region, &entry.secret, &entry.shadows))
    }

    /// The access list of a region that is live or being revoked.
    #[must_use]
    pub fn shadows(&self, key: Key) -> Option<&Shadows> {
        self.describe(key).map(|(_, _, shadows)| shadows)
    }

    /// The place of this key's region, if it is live or being revoked; see [`Held::place`].
    #[must_use]
    pub fn place(&self, key: Key) -> Option<usize> {
        let place = self.locate(key)?;
        let entry = self.entries.as_ref().get(place)?;
        (entry.is_open() && entry.region.key == key).then_some(place)
    }

    /// The region of a hold; `None` after it was forced out and its place has another one.
    #[must_use]
    pub fn of(&self, held: &Held) -> Option<&Region> {
        let entry = self.entries.as_ref().get(held.place())?;
        (entry.tenancy == held.tenancy).then_some(&entry.region)
    }

    fn put(&mut self, place: usize, region: Region, shadows: Shadows, secret: Secret) -> Result<(), ExportError> {
        if region.len == 0 {
            return Err(ExportError::Empty);
        }
        // The last byte must have an address; the one behind it need not.
        region.base.checked_add(region.len - 1).ok_or(ExportError::Conflict)?;
        let entry = &mut self.entries.as_mut()[place];
        if entry.unreaped {
            // Whoever fills the place replaces what the driver kept for its last region.
            self.unreaped -= 1;
        }
        let tenancy = entry.tenancy.wrapping_add(1);
        *entry = Entry { region, state: State::Live, tenancy, shadows, secret, ..Entry::VACANT };
        Ok(())
    }

    /// Where the search for a region begins: the regions of one owner lie side by side.
    #[inline]
    fn home(&self, owner: Peer, number: u32) -> usize {
        let capacity = self.entries.as_ref().len().max(1) as u64;
        let start = (u64::from(owner.to_bits().wrapping_mul(0x9e37_79b9)) * capacity) >> 32;
        // One subtraction instead of a division wherever the number was chosen by a table of this size.
        let at = start + u64::from(number);
        (if at < capacity {
            at
        } else if at < 2 * capacity {
            at - capacity
        } else {
            at % capacity
        }) as usize
    }

    #[inline]
    fn probe(&self, key: Key) -> impl Iterator<Item = usize> + use<S> {
        let capacity = self.entries.as_ref().len();
        let home = self.home(key.owner(), key.region());
        (home..home + REACH.min(capacity)).map(move |at| if at < capacity { at } else { at - capacity })
    }

    #[inline(never)]
    fn locate_far(&self, key: Key, named: impl FnMut(&usize) -> bool) -> Option<usize> {
        self.probe(key).find(named)
    }

    /// The place of this owner's region number, whatever its generation and state.
    #[inline]
    pub(super) fn locate(&self, key: Key) -> Option<usize> {
        let entries = self.entries.as_ref();
        let named = |place: &usize| {
            entries.get(*place).is_some_and(|e| {
                e.state != State::Vacant && (e.region.key.to_bits() ^ key.to_bits()) >> Key::GENERATION_BITS == 0
            })
        };
        // Nearly always where the search begins.
        let home = self.home(key.owner(), key.region());
        if named(&home) { Some(home) } else { self.locate_far(key, named) }
    }
}

#[inline]
fn check(entry: &Entry, span: Span, right: Access, asker: Sp) -> Result<u64, HoldError> {
    if entry.state != State::Live || entry.region.key != span.key {
        return Err(refusal(entry, span.key));
    }
    if !entry.shadows.contains(&asker) {
        return Err(HoldError::NotShadow);
    }
    if !entry.region.access.contains(right) {
        return Err(HoldError::PermissionDenied);
    }
    if span.offset > entry.region.len || span.len > entry.region.len - span.offset {
        return Err(HoldError::OutOfBounds);
    }
    // No overflow: offset <= len, and `put` checked base + len.
    Ok(entry.region.base.wrapping_add(span.offset))
}

#[cold]
fn refusal(entry: &Entry, key: Key) -> HoldError {
    match entry.state {
        State::Vacant => HoldError::UnknownRegion,
        State::Orphaned => HoldError::OwnerGone,
        _ if entry.region.key != key => HoldError::StaleKey,
        _ => HoldError::KeyRevoked,
    }
}
