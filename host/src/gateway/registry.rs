//! Where the gateways of other hosts listen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use umbra_core::reference::{Object, Reference};

use super::error::Error;
use crate::link::Address;
use crate::reference;
use crate::secret::Secret;

/// The gateways that a process knows, by the number of their host; a clone is the same.
#[derive(Clone, Debug)]
pub struct Gateways {
    secret: Secret,
    is_masquerading: bool,
    known: Arc<Mutex<BTreeMap<u64, Address>>>,
}

impl Gateways {
    /// None yet; those who hold this secret will be talked to.
    #[must_use]
    pub fn new(secret: Secret) -> Gateways {
        Gateways { secret, is_masquerading: false, known: Arc::default() }
    }

    /// Also channels of this host are reached through a gateway, as if they were another's: to test programs on one machine.
    #[must_use]
    pub fn masquerading(self) -> Gateways {
        Gateways { is_masquerading: true, ..self }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Address>> {
        // A map is whole whatever its user was doing.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says where the gateway of a host listens.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`].
    pub fn register(&self, host: u64, address: Address) -> Result<(), Error> {
        let mut known = self.known();
        if known.contains_key(&host) {
            return Err(Error::AlreadyRegistered(host));
        }
        known.insert(host, address);
        Ok(())
    }

    /// Forgets the gateway of a host; lines to it stay.
    ///
    /// # Errors
    /// [`Error::NotRegistered`].
    pub fn unregister(&self, host: u64) -> Result<(), Error> {
        self.known().remove(&host).map(|_| ()).ok_or(Error::NotRegistered(host))
    }

    /// Forgets all of them.
    pub fn discard(&self) {
        self.known().clear();
    }

    pub(super) fn address(&self, host: u64) -> Result<Address, Error> {
        self.known().get(&host).cloned().ok_or(Error::NoGateway(host))
    }

    pub(super) const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The host of what these bytes name, if it is of the kind that is wanted, and elsewhere.
    pub(super) fn host_of(&self, bytes: &[u8], is_wanted: impl FnOnce(&Object) -> bool) -> Result<u64, Error> {
        let named = Reference::parse(bytes).map_err(reference::Error::Bytes)?;
        if !is_wanted(&named.object) {
            return Err(reference::Error::WrongObject.into());
        }
        if reference::is_local(&named) && !self.is_masquerading {
            return Err(Error::Local);
        }
        Ok(named.host)
    }
}
