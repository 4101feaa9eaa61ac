//! Looking data up, and loading it if it is missing, in one step.
//!
//! Who does it has the cache to himself meanwhile, so nothing has to be held: a hit changes what the policy notes, and no count.

use core::fmt;

use super::Remembers;
use super::contract::SlotCache;
use super::counted::possible;
use super::error::{AllocError, Interrupted};
use super::grant::{Found, Grant};
use super::index::{Glance, Index};
use super::policy::{Next, Policy};
use super::references::NoHit;
use super::slot::{ABANDONED, Slot};

/// Why there is no content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum GetError<E> {
    /// There is no slot for the data.
    Alloc(AllocError),
    /// Somebody with a reference to the slot fills it.
    Filling {
        /// The data.
        data: u64,
    },
    /// It was not loaded: what the caller said. The data has no slot now, or one without content if there are references.
    Fill(E),
}

impl<E: fmt::Display> fmt::Display for GetError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GetError::Alloc(error) => error.fmt(f),
            GetError::Filling { data } => write!(f, "data {data} is being filled: ask again once it is remembered"),
            GetError::Fill(error) => error.fmt(f),
        }
    }
}
impl<E: fmt::Debug + fmt::Display> core::error::Error for GetError<E> {}

impl<E> From<AllocError> for GetError<E> {
    fn from(error: AllocError) -> Self {
        GetError::Alloc(error)
    }
}
impl<E> From<Interrupted> for GetError<E> {
    fn from(error: Interrupted) -> Self {
        GetError::Alloc(error.into())
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C: Remembers> SlotCache<S, I, P, C> {
    /// The slot with the content of `data`, which `fill` is asked to load into the slot it is given if it is not there. What
    /// [`alloc`](Self::alloc), [`remember`](Self::remember) and [`free`](Self::free) do one after the other, for who does not
    /// hold the slot longer than until the cache's next operation. If `fill` panics, nothing was loaded.
    ///
    /// ```
    /// use umbra_core::cache::policy::Sieve;
    /// use umbra_core::cache::{Cache, Dense, Slot};
    /// let mut cache = Cache::new([Slot::EMPTY; 2], Dense::new([0; 100]), Sieve::new(), 0..2)?;
    /// let mut contents = [0; 2];
    /// for data in [42, 7, 42] {
    ///     let slot = cache.get_or_fill(data, |slot| {
    ///         contents[slot as usize] = data * data; // The load.
    ///         Ok::<_, core::convert::Infallible>(())
    ///     })?;
    ///     assert_eq!(contents[slot as usize], data * data);
    /// }
    /// assert_eq!(cache.statistics().loads, 2);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GetError`].
    #[inline]
    pub fn get_or_fill<E>(&mut self, data: u64, fill: impl FnOnce(u32) -> Result<(), E>) -> Result<u32, GetError<E>> {
        self.working()?;
        let shift = self.index.shift();
        let no_hit = match self.index.glance(data) {
            Glance::Here(place, word) => match self.cut.used::<P>(*word) {
                Some((used, alone)) if possible::<P>() => {
                    // Of the word that was found: a search has that number already.
                    let slot = word.wrapping_shr(shift);
                    *word = used;
                    self.pool.note_use(slot, alone);
                    return Ok(self.pool.outer(slot));
                }
                _ => NoHit::ByRecord(place, *word),
            },
            Glance::Absent => NoHit::Absent,
            Glance::Further => NoHit::Further,
        };
        self.get_or_fill_without_hit(data, no_hit, fill)
    }

    #[inline(never)]
    fn get_or_fill_without_hit<E>(
        &mut self,
        data: u64,
        no_hit: NoHit,
        fill: impl FnOnce(u32) -> Result<(), E>,
    ) -> Result<u32, GetError<E>> {
        let grant = self.alloc_without_hit(data, no_hit)?;
        let held = GivenBack { cache: self, data, grant };
        match grant.found {
            Found::Remembered => {}
            Found::Assigned => return Err(GetError::Filling { data }),
            Found::Empty => {
                fill(grant.slot).map_err(GetError::Fill)?;
                held.remember();
            }
        }
        Ok(grant.slot)
    }
}

/// A reference that is given back whatever happens, also if who fills the slot panics.
struct GivenBack<'a, S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C> {
    cache: &'a mut SlotCache<S, I, P, C>,
    data: u64,
    grant: Grant,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C> GivenBack<'_, S, I, P, C> {
    /// The content is there; nobody else can have come for it meanwhile.
    #[inline]
    fn remember(self) {
        let GivenBack { cache, data, grant } = &mut *core::mem::ManuallyDrop::new(self);
        if let Some(slot) = cache.pool.inner(grant.slot) {
            cache.pool.fill(slot);
            // It was entered just now. The place in the grant is one to look at first: it has 32 bits.
            if let Some((place, word)) = cache.index.look(*data) {
                // There is this reference to be given back.
                let _ = cache.give_back_by_record(place, word, *data, Next::Unknown);
            }
        }
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>, I: Index, P: Policy, C> Drop for GivenBack<'_, S, I, P, C> {
    #[inline]
    fn drop(&mut self) {
        if self.grant.found == Found::Empty
            && let Some(slot) = self.cache.pool.inner(self.grant.slot)
        {
            // Others may have references to a slot that somebody gave up before.
            self.cache.pool.at_mut(slot).set(ABANDONED);
        }
        // As above.
        let place = self.grant.place();
        let _ = self.cache.free_where(self.data, Next::Unknown, |index| index.glance_at(place, self.data));
    }
}
