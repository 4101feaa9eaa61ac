//! Where the gateways of other hosts listen.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use umbra_core::reference::{Object, Reference};

use super::error::Error;
use crate::link::Address;
use crate::reference;
use crate::secret::Secret;
use crate::sys::fork;

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

    /// Does something with those that are known. A child that is forked off meanwhile needs the lock, too.
    fn known<R>(&self, act: impl FnOnce(&mut BTreeMap<u64, Address>) -> R) -> R {
        // A map is whole whatever its user was doing.
        fork::undivided(|| act(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Says where the gateway of a host listens.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`].
    pub fn register(&self, host: u64, address: Address) -> Result<(), Error> {
        self.known(|known| match known.entry(host) {
            Entry::Occupied(_) => Err(Error::AlreadyRegistered(host)),
            Entry::Vacant(place) => {
                place.insert(address);
                Ok(())
            }
        })
    }

    /// Forgets the gateway of a host; lines to it stay.
    ///
    /// # Errors
    /// [`Error::NotRegistered`].
    pub fn unregister(&self, host: u64) -> Result<(), Error> {
        self.known(|known| known.remove(&host)).map(|_| ()).ok_or(Error::NotRegistered(host))
    }

    /// Forgets all of them.
    pub fn discard(&self) {
        self.known(BTreeMap::clear);
    }

    pub(super) fn address(&self, host: u64) -> Result<Address, Error> {
        self.known(|known| known.get(&host).cloned()).ok_or(Error::NoGateway(host))
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
