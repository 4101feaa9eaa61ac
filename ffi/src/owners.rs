//! Pools of objects whose owners are numbers that count once each.
//!
//! In Rust an owner is a value, which nobody drops twice. In C it is a number, and who drops that twice must not take the
//! object from others: so a second pool has a place for each owner, and its generations tell one that was dropped.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use umbra::sys::heap::reserved;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::boundary::{Class, GetError, Header, Owner, Pool, PoolError, PoolStatistics, Weak};
use umbra_core::error::Stale;

use crate::cached::{FULL, failures};
use crate::status::{Code, Failure};

/// Owners that a pool has place for beside two for each object.
const MORE_OWNERS: u32 = 64;

type Objects = Pool<Vec<Header>, Vec<Class>>;

/// A pool; whoever changes all of it has it alone, and nobody waits for that.
pub(crate) struct Owned(RwLock<Tables>);

struct Tables {
    objects: Objects,
    owners: Pool<Vec<Header>, [Class; 1]>,
    /// The object of each owner.
    owned: Vec<AtomicU64>,
    /// It was destroyed: whoever came to it before finds that out here.
    ended: bool,
}

const fn to_bits(weak: Weak) -> u64 {
    u64::from_le_bytes(weak.to_bytes())
}

const fn from_bits(bits: u64) -> Weak {
    Weak::from_bytes(bits.to_le_bytes())
}

impl Owned {
    /// A pool of these classes, with so many owners at most; 0 is two for each object and some more.
    pub(crate) fn new(classes: Vec<Class>, owners: u32) -> Result<Owned, Failure> {
        let slots: u64 = classes.iter().map(|class| u64::from(class.count())).sum();
        let most = u64::from(u32::MAX - 1);
        let Some(slots) = u32::try_from(slots).ok().filter(|slots| u64::from(*slots) <= most) else {
            return Err(Failure::new(Code::Invalid, format!("{slots} objects: a pool has at most {most}")));
        };
        let usual = slots.saturating_mul(2).saturating_add(MORE_OWNERS).min(u32::MAX - 1);
        let owners = if owners == 0 { usual } else { owners };
        if u64::from(owners) > most {
            return Err(Failure::new(Code::Invalid, format!("{owners} owners: a pool has at most {most}")));
        }
        let none = |error| Failure::new(Code::System, error);
        let headers = |count: u32| reserved(count as usize, Header::new).map_err(none);
        Ok(Owned(RwLock::new(Tables {
            objects: Pool::new(headers(slots)?, classes)?,
            owners: Pool::new(headers(owners)?, [Class::new(1, owners)])?,
            owned: reserved(owners as usize, || AtomicU64::new(0)).map_err(none)?,
            ended: false,
        })))
    }

    fn with(&self) -> Result<RwLockReadGuard<'_, Tables>, Failure> {
        let tables = self.0.try_read().map_err(refused)?;
        if tables.ended { Err(Stale.into()) } else { Ok(tables) }
    }

    fn alone(&self) -> Result<RwLockWriteGuard<'_, Tables>, Failure> {
        let tables = self.0.try_write().map_err(refused)?;
        if tables.ended { Err(Stale.into()) } else { Ok(tables) }
    }

    pub(crate) fn get(&self, bytes: u32) -> Result<u64, Failure> {
        let tables = self.with()?;
        tables.enter(tables.objects.get(bytes)?)
    }

    /// Another owner of the object of one.
    pub(crate) fn share(&self, owner: u64) -> Result<u64, Failure> {
        let tables = self.with()?;
        tables.enter(tables.objects.upgrade(tables.object(owner)?)?)
    }

    /// An owner of what a handle names.
    pub(crate) fn upgrade(&self, weak: Weak) -> Result<u64, Failure> {
        let tables = self.with()?;
        tables.enter(tables.objects.upgrade(weak)?)
    }

    /// Drops an owner; whether it was the last one of its object.
    pub(crate) fn drop(&self, owner: u64) -> Result<bool, Failure> {
        let tables = self.with()?;
        let object = tables.object(owner)?;
        // Who is told that it went well is the only one.
        tables.owners.release(from_bits(owner))?;
        Ok(tables.objects.release(object)?)
    }

    pub(crate) fn weak(&self, owner: u64) -> Result<Weak, Failure> {
        Ok(self.with()?.object(owner)?)
    }

    /// Where the object lies: offset and bytes.
    pub(crate) fn place(&self, owner: u64) -> Result<(u64, u32), Failure> {
        let tables = self.with()?;
        let object = tables.object(owner)?;
        Ok(tables.objects.place(object.index).ok_or(Stale)?)
    }

    pub(crate) fn is_valid(&self, weak: Weak) -> Result<bool, Failure> {
        Ok(self.with()?.objects.is_valid(weak))
    }

    pub(crate) fn arena_bytes(&self) -> Result<u64, Failure> {
        Ok(self.with()?.objects.arena_bytes())
    }

    /// What happened, and how many owners there are. What failed for lack of a place for the owner is a failure, too.
    pub(crate) fn statistics(&self) -> Result<(PoolStatistics, u32), Failure> {
        let tables = self.with()?;
        let (objects, owners) = (tables.objects.statistics(), tables.owners.statistics());
        let failures = objects.failures.saturating_add(owners.failures);
        Ok((PoolStatistics { failures, ..objects }, owners.live))
    }

    pub(crate) fn trim(&self, give_back: impl FnMut(u64, u32)) -> Result<u64, Failure> {
        Ok(self.alone()?.objects.trim(give_back))
    }

    /// No owner and no handle from before is one any more.
    pub(crate) fn reset(&self) -> Result<(), Failure> {
        let mut tables = self.alone()?;
        tables.owners.reset();
        tables.objects.reset();
        Ok(())
    }

    /// Ends it, unless objects are in use: whoever calls from then on is told that it is no more.
    pub(crate) fn end_unused(&self) -> Result<(), Failure> {
        let mut tables = self.alone()?;
        match tables.objects.statistics().live {
            0 => {
                tables.ended = true;
                Ok(())
            }
            live => Err(Failure::new(Code::InUse, format!("{live} objects have owners: drop them, or reset the pool"))),
        }
    }
}

impl Tables {
    /// Makes an owner a number.
    fn enter(&self, object: Owner<'_, Vec<Header>, Vec<Class>>) -> Result<u64, Failure> {
        let owner = self.owners.get(1).map_err(|_| {
            let (live, most) = (self.owners.statistics().live, self.owned.len());
            Failure::new(
                FULL,
                format!("the pool has {live} owners, and places for {most}: drop some, or make a larger pool"),
            )
        })?;
        let owned = self.owned.get(owner.weak().index as usize).ok_or(Stale)?;
        // ORDERING: release pairs with the load in `object`: who sees this sees too that the owner before was dropped.
        owned.store(to_bits(object.keep()), Ordering::Release);
        Ok(to_bits(owner.keep()))
    }

    /// The object of an owner.
    fn object(&self, owner: u64) -> Result<Weak, Stale> {
        let owner = from_bits(owner);
        let owned = self.owned.get(owner.index as usize).ok_or(Stale)?;
        // ORDERING: acquire, so that whether it is this owner's is asked after it was read.
        let object = from_bits(owned.load(Ordering::Acquire));
        if self.owners.is_valid(owner) { Ok(object) } else { Err(Stale) }
    }
}

fn refused<G>(error: TryLockError<G>) -> Failure {
    match error {
        TryLockError::WouldBlock => {
            Failure::new(Code::Busy, "another call is using or changing all of the pool: retry")
        }
        TryLockError::Poisoned(_) => Code::Panic.into(),
    }
}

failures! {
    GetError {
        GetError::Exhausted { .. } => FULL,
        GetError::TooLarge { .. } => Code::Never,
    }
    PoolError {
        PoolError::Unsorted { .. } => Code::Invalid,
    }
    Stale {
        Stale => Code::Stale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T, Failure>) -> Option<Code> {
        result.err().map(|failure| failure.code)
    }

    #[test]
    fn a_pool_that_has_ended_hands_nothing_out_and_one_in_use_does_not_end() {
        let pool = Owned::new(vec![Class::new(64, 2)], 3).unwrap();
        let owner = pool.get(10).unwrap();
        assert_eq!(code(pool.end_unused()), Some(Code::InUse));
        assert!(pool.drop(owner).unwrap());
        pool.end_unused().unwrap();
        let codes = [code(pool.get(10)), code(pool.end_unused()), code(pool.reset()), code(pool.statistics())];
        assert_eq!(codes, [Some(Code::Stale); 4]);
    }

    #[test]
    fn owners_without_a_place_are_counted_as_failures_and_too_many_are_refused() {
        let pool = Owned::new(vec![Class::new(64, 2)], 1).unwrap();
        let owner = pool.get(10).unwrap();
        assert_eq!([code(pool.get(10)), code(pool.share(owner))], [Some(FULL); 2]);
        let (told, owners) = pool.statistics().unwrap();
        assert_eq!((told.failures, told.live, owners), (2, 1, 1));
        assert_eq!(code(Owned::new(vec![Class::new(64, 2)], u32::MAX)), Some(Code::Invalid));
    }
}
