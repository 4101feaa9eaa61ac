//! The owner's half: memory for functions of the same card, until taken back.

use umbra_core::key::Access;
use umbra_core::region::Secret;
use umbra_core::ticket::Locator;

use super::card::{self, Commands};
use super::command::{Indirect, Mkey};
use super::error::XgvmiError;
use crate::verbs::Local;

/// Makes and ends exports of one function.
#[derive(Debug)]
pub struct Exporter<C> {
    card: C,
    domain: u32,
    device: u64,
    vhca: u16,
    next: u64,
}

/// An indirect key that others may use; end it with [`Exporter::revoke`]. It ends when it is dropped as well, but then
/// nobody learns whether the card did it.
#[derive(Debug)]
#[must_use = "memory stays open to others until the export is revoked"]
pub struct Exported<O> {
    object: O,
    locator: Locator,
}

impl<O> Exported<O> {
    /// What importers need besides the region's secret.
    pub const fn locator(&self) -> Locator {
        self.locator
    }

    pub(super) fn revoke<C: Commands<Object = O>>(self, card: &mut C) -> Result<(), XgvmiError> {
        card::destroy(card, self.object)
    }
}

impl<C: Commands> Exporter<C> {
    /// Exports by the function behind `card`, whose device has the number `device` (its system image GUID, which all
    /// functions of a card share); memory must be registered in the protection domain with the number `domain`.
    /// Registrations are counted from `first`, which should be random: an importer tells by it whether a key is
    /// still the one that it knew.
    ///
    /// # Errors
    /// [`XgvmiError`] if the card does not say which function this is.
    pub fn new(mut card: C, device: u64, domain: u32, first: u64) -> Result<Exporter<C>, XgvmiError> {
        let vhca = card::function(&mut card)?;
        Ok(Exporter { card, domain, device, vhca, next: first })
    }

    /// Exports `len` bytes at `offset` of registered memory to whoever knows `secret`, and on the same card only. The
    /// memory must stay registered until the export is revoked, or the card refuses what importers do.
    ///
    /// # Errors
    /// [`XgvmiError::OutOfBounds`], or why the card did not do it; nothing is open then.
    pub fn export(
        &mut self,
        memory: &dyn Local,
        offset: usize,
        len: usize,
        access: Access,
        secret: &Secret,
    ) -> Result<Exported<C::Object>, XgvmiError> {
        let size = memory.size();
        if len == 0 || offset > size || len > size - offset {
            return Err(XgvmiError::OutOfBounds);
        }
        let (direct, start) = (Mkey(memory.lkey()), memory.address(offset));
        let wanted = Indirect { direct, domain: self.domain, start, len: len as u64, access };
        let (key, object) = card::create_mkey(&mut self.card, &wanted)?;
        if let Err(why) = card::allow(&mut self.card, key, secret) {
            // Nobody was told of the key; the first error says more than a second.
            let _ = card::destroy(&mut self.card, object);
            return Err(why);
        }
        let registration = self.next;
        self.next = self.next.wrapping_add(1);
        let locator = Locator::CrossVhca { mkey: key.0, vhca: self.vhca, device: self.device, registration };
        Ok(Exported { object, locator })
    }

    /// Takes an export back: from now on the card refuses every alias of it.
    ///
    /// # Errors
    /// [`XgvmiError::Call`] if it could not be taken back: the memory must not be reused then.
    pub fn revoke(&mut self, exported: Exported<C::Object>) -> Result<(), XgvmiError> {
        exported.revoke(&mut self.card)
    }
}
