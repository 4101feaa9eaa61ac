//! The importer's half: aliases of other functions' keys, kept for further use.
//!
//! Making an alias is a command to the firmware, so one serves all imports of the same registration, and one whose
//! owner merely went out of sight is kept for its return. A key's number says little: after its registration ended the
//! same number may stand for other memory while an old alias still works. So an alias serves only the registration that
//! it was made for: by its owner, its number, its range and its secret. One that is out of date is destroyed before a
//! new one is made, and whoever still names it finds it stale before anything is posted.

use umbra_core::id::Id;
use umbra_core::peer::Peer;
use umbra_core::region::Secret;
use umbra_core::slots::{Slot, Slots};
use umbra_core::ticket::{Locator, Ticket};

use super::card::{self, Commands};
use super::command::Mkey;
use super::error::XgvmiError;
use crate::verbs::Local;

/// Memory of another function as local memory of this one: what work is posted with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alias {
    key: Mkey,
    start: u64,
    len: usize,
}

impl Local for Alias {
    fn lkey(&self) -> u32 {
        self.key.0
    }

    fn address(&self, offset: usize) -> u64 {
        self.start.wrapping_add(offset as u64)
    }

    fn size(&self) -> usize {
        self.len
    }
}

/// An alias, what it was made for, and how many imports use it.
#[derive(Debug)]
pub struct Cached<O> {
    alias: Alias,
    object: O,
    made_for: Registration,
    users: u32,
}

/// One registration of memory by its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Registration {
    owner: Peer,
    vhca: u16,
    mkey: Mkey,
    number: u64,
    start: u64,
    len: usize,
    secret: Secret,
}

impl Registration {
    /// Whether one owner names the same object in both, now or at another time. Another owner may name it too, rightly
    /// or not: that is the card's to judge, and disturbs no alias of this one.
    fn same_object(&self, other: &Registration) -> bool {
        (self.owner, self.vhca, self.mkey.index()) == (other.owner, other.vhca, other.mkey.index())
    }
}

/// Names an alias in use; stale once the alias is gone.
pub type AliasId<O> = Id<Cached<O>>;

/// Makes and keeps the aliases of one function.
#[derive(Debug)]
pub struct Importer<C: Commands> {
    card: C,
    domain: u32,
    device: u64,
    aliases: Slots<Vec<Slot<Cached<C::Object>>>>,
}

impl<C: Commands> Importer<C> {
    /// Imports by the function behind `card`, whose device has the number `device`, for work of the protection domain
    /// with the number `domain`; room for `capacity` aliases, those that are kept included.
    pub fn new(card: C, device: u64, domain: u32, capacity: usize) -> Importer<C> {
        let aliases = (0..capacity).map(|_| Slot::EMPTY).collect();
        Importer { card, domain, device, aliases: Slots::new(aliases) }
    }

    /// An alias of the memory that a ticket names, for whoever knows its secret.
    ///
    /// # Errors
    /// [`XgvmiError::NoKey`], [`XgvmiError::OtherCard`], [`XgvmiError::Full`], or why the card did not make one.
    pub fn import(&mut self, ticket: &Ticket, secret: &Secret) -> Result<AliasId<C::Object>, XgvmiError> {
        let Locator::CrossVhca { mkey, vhca, device, registration: number } = ticket.locator else {
            return Err(XgvmiError::NoKey);
        };
        if device != self.device {
            return Err(XgvmiError::OtherCard { theirs: device, ours: self.device });
        }
        let len = usize::try_from(ticket.len).map_err(|_| XgvmiError::OutOfBounds)?;
        let (owner, mkey, start) = (ticket.key.owner(), Mkey(mkey), ticket.base);
        let wanted = Registration { owner, vhca, mkey, number, start, len, secret: *secret };
        let known = self.aliases.iter().find(|(_, cached)| cached.made_for.same_object(&wanted)).map(|(id, _)| id);
        if let Some(id) = known {
            match self.aliases.get_mut(id) {
                Ok(cached) if cached.made_for == wanted => {
                    cached.users += 1;
                    return Ok(id);
                }
                _ => self.destroy(id)?,
            }
        }
        if self.aliases.len() == self.aliases.capacity() {
            let idle = self.aliases.iter().find(|(_, cached)| cached.users == 0).map(|(id, _)| id);
            self.destroy(idle.ok_or(XgvmiError::Full)?)?;
        }
        let (key, object) = card::create_alias(&mut self.card, vhca, mkey, secret, self.domain)?;
        let alias = Alias { key, start, len };
        self.aliases.take(Cached { alias, object, made_for: wanted, users: 1 }).map_err(|_| XgvmiError::Full)
    }

    /// The alias, if it still stands for what it was imported for.
    #[must_use]
    pub fn alias(&self, id: AliasId<C::Object>) -> Option<&Alias> {
        self.aliases.get(id).ok().map(|cached| &cached.alias)
    }

    /// Ends one import. `keep` says that the owner did not take its memory back: the alias is kept then, in case the
    /// same registration is imported again. Else it goes with its last import, so that the owner may be told.
    ///
    /// # Errors
    /// [`XgvmiError::Call`] if the alias could not be destroyed; it is not used any more all the same.
    pub fn release(&mut self, id: AliasId<C::Object>, keep: bool) -> Result<(), XgvmiError> {
        let Ok(cached) = self.aliases.get_mut(id) else { return Ok(()) };
        cached.users = cached.users.saturating_sub(1);
        if cached.users > 0 || keep { Ok(()) } else { self.destroy(id) }
    }

    /// Aliases that exist, those that are only kept included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.aliases.len()
    }

    /// Whether no alias exists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.aliases.is_empty()
    }

    fn destroy(&mut self, id: AliasId<C::Object>) -> Result<(), XgvmiError> {
        match self.aliases.remove(id) {
            Ok(cached) => card::destroy(&mut self.card, cached.object),
            Err(_) => Ok(()),
        }
    }
}
