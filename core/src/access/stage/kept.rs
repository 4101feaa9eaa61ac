//! Regions of which copies may be kept, or were asked for.

use crate::id::Id;
use crate::key::Key;
use crate::machine::Link;
use crate::map::{Entry, Map};
use crate::slots::{Slot, Slots};
use crate::time::{Lapse, Time};
use crate::wire::Token;

/// After a refusal nobody asks again before.
const LATER: Lapse = Lapse::from_secs(1);

/// A region; lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct Keeping {
    key: Key,
    via: Link,
    leave: Leave,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leave {
    /// To be asked for.
    New,
    Asked,
    Given,
    /// Refused; not asked for again before this time.
    Refused(Time),
}

/// Whether spans of a region may be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Open,
    /// It has been asked.
    Asked,
    /// Or there is no room.
    Refused,
}

#[derive(Debug)]
pub(super) struct Kept<R, K> {
    regions: Slots<R>,
    keys: Map<K>,
    /// Regions to be asked for.
    new: u32,
}

impl<R, K> Kept<R, K>
where
    R: AsRef<[Slot<Keeping>]> + AsMut<[Slot<Keeping>]>,
    K: AsRef<[Entry<u64, u32>]> + AsMut<[Entry<u64, u32>]>,
{
    pub(super) fn new(regions: R, keys: K, seed: u64) -> Self {
        Kept { regions: Slots::new(regions), keys: Map::new(keys, seed), new: 0 }
    }

    fn find(&self, key: Key) -> Option<Id<Keeping>> {
        let index = self.keys.get(key.to_bits())?;
        self.regions.at(index).map(|(id, _)| id)
    }

    /// Whether spans of a region may be kept that is reached over this link; a region that is not known is asked for.
    pub(super) fn enter(&mut self, key: Key, via: Link, now: Time) -> Standing {
        let Some(id) = self.find(key) else { return self.learn(key, via, now) };
        let Ok(region) = self.regions.get_mut(id) else { return Standing::Refused };
        match region.leave {
            Leave::Refused(until) if now < until => Standing::Refused,
            Leave::Refused(_) => {
                *region = Keeping { key, via, leave: Leave::New };
                self.new += 1;
                Standing::Asked
            }
            _ if region.via != via => Standing::Refused,
            Leave::New | Leave::Asked => Standing::Asked,
            Leave::Given => Standing::Open,
        }
    }

    fn learn(&mut self, key: Key, via: Link, now: Time) -> Standing {
        if self.regions.len() == self.regions.capacity() {
            // What was refused is not worth its place.
            let over = |leave| matches!(leave, Leave::Refused(until) if until <= now);
            let old = self.regions.iter().find(|(_, region)| over(region.leave)).map(|(id, _)| id);
            match old {
                Some(old) => self.take_out(old),
                None => return Standing::Refused,
            };
        }
        let Ok(id) = self.regions.take(Keeping { key, via, leave: Leave::New }) else { return Standing::Refused };
        if self.keys.insert(key.to_bits(), id.index()).is_err() {
            let _ = self.regions.remove(id);
            return Standing::Refused;
        }
        self.new += 1;
        Standing::Asked
    }

    fn take_out(&mut self, id: Id<Keeping>) -> Option<Key> {
        let Keeping { key, leave, .. } = self.regions.remove(id).ok()?;
        self.new -= u32::from(leave == Leave::New);
        self.keys.remove(key.to_bits());
        Some(key)
    }

    pub(super) fn poll(&mut self) -> Option<(Link, Token, Key)> {
        if self.new == 0 {
            return None;
        }
        let new = self.regions.iter().find(|(_, region)| region.leave == Leave::New).map(|(id, _)| id)?;
        let region = self.regions.get_mut(new).ok()?;
        region.leave = Leave::Asked;
        self.new -= 1;
        Some((region.via, Token(new.to_bits()), region.key))
    }

    /// The region that was answered for, if it was asked for over this link.
    pub(super) fn answered(&mut self, link: Link, token: Token, given: bool, now: Time) -> Option<Key> {
        let region = self.regions.get_mut(Id::<Keeping>::from_bits(token.0)).ok()?;
        if region.via != link || region.leave != Leave::Asked {
            return None;
        }
        region.leave = if given { Leave::Given } else { Leave::Refused(now + LATER) };
        Some(region.key)
    }

    /// Its server wants a region back; whether it was given.
    pub(super) fn remove(&mut self, key: Key, link: Link) -> bool {
        let Some(id) = self.find(key) else { return false };
        let of_link = self.regions.get(id).is_ok_and(|region| region.via == link);
        of_link && self.take_out(id).is_some()
    }

    /// A region that was reached over a link which is gone. Call until `None`.
    pub(super) fn gone(&mut self, link: Link) -> Option<Key> {
        let id = self.regions.iter().find(|(_, region)| region.via == link).map(|(id, _)| id)?;
        self.take_out(id)
    }

    pub(super) fn open(&self) -> usize {
        self.regions.iter().filter(|(_, region)| region.leave == Leave::Given).count()
    }
}
