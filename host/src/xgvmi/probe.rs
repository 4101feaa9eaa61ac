//! Whether a card can do it, found out by doing it.
//!
//! Cards have been seen that say they can and then refuse, so what they say of themselves is not asked: memory of this
//! process is exported to itself and imported again, once with the wrong secret, which must be refused.

use umbra_core::key::{Access, Key};
use umbra_core::region::Secret;
use umbra_core::ticket::Ticket;

use super::card::Commands;
use super::error::XgvmiError;
use super::export::Exporter;
use super::import::Importer;
use crate::verbs::Local;

/// Tries everything that exports and imports need on one function, with registered `memory` that nobody else needs
/// and a secret that nobody else knows. What it makes is gone afterwards.
///
/// # Errors
/// The first thing that the card refused, or [`XgvmiError::Unguarded`] if it did not refuse what it must.
pub fn probe<C: Commands>(
    card: &mut C,
    device: u64,
    domain: u32,
    memory: &dyn Local,
    secret: &Secret,
) -> Result<(), XgvmiError> {
    let exported =
        Exporter::new(&mut *card, device, domain, 0)?.export(memory, 0, memory.size(), Access::READ, secret)?;
    let (base, len, locator) = (memory.address(0), memory.size() as u64, exported.locator());
    let ticket = Ticket { key: Key::from_bits(0), base, len, access: Access::READ, locator };
    let mut wrong = *secret;
    wrong.0[31] ^= 1;
    let mut tried = Importer::new(&mut *card, device, domain, 1);
    let guarded = match tried.import(&ticket, &wrong) {
        Err(XgvmiError::Refused { .. } | XgvmiError::BadAlias(_)) => Ok(()),
        Err(why) => Err(why),
        Ok(_) => Err(XgvmiError::Unguarded),
    };
    let imported = guarded.and_then(|()| tried.import(&ticket, secret)).and_then(|alias| tried.release(alias, false));
    drop(tried);
    let revoked = exported.revoke(card);
    imported.and(revoked)
}
