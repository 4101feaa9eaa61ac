//! Which regions are known to cover which addresses.

use crate::peer::Peer;
use crate::region::Region;

/// How many places an owner's regions may be in.
const WINDOW: usize = 8;

/// One remembered region; lent by the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    region: Option<Region>,
    /// When it was learned, in regions learned.
    at: u32,
}

#[derive(Debug)]
pub(super) struct Known<K> {
    places: K,
    learned: u32,
}

impl<K: AsRef<[Place]> + AsMut<[Place]>> Known<K> {
    pub(super) fn new(mut places: K) -> Self {
        places.as_mut().fill(Place::default());
        Known { places, learned: 0 }
    }

    #[inline]
    fn home(&self, owner: Peer) -> usize {
        let len = self.places.as_ref().len();
        ((u64::from(owner.to_bits().wrapping_mul(0x9e37_79b9)) * len as u64) >> 32) as usize
    }

    #[inline]
    fn window(&self, owner: Peer) -> impl Iterator<Item = usize> + use<K> {
        let (len, home) = (self.places.as_ref().len(), self.home(owner));
        (home..home + WINDOW.min(len)).map(move |at| if at < len { at } else { at - len })
    }

    #[inline(always)]
    pub(super) fn find(&self, owner: Peer, address: u64) -> Option<Region> {
        // Nearly always where the search begins.
        self.at_home(owner, address).copied().or_else(|| self.find_far(owner, address))
    }

    /// The region if it is where the search begins.
    #[inline(always)]
    pub(super) fn at_home(&self, owner: Peer, address: u64) -> Option<&Region> {
        let region = self.places.as_ref().get(self.home(owner))?.region.as_ref()?;
        (region.key.owner() == owner && region.covers(address)).then_some(region)
    }

    #[inline(never)]
    fn find_far(&self, owner: Peer, address: u64) -> Option<Region> {
        let places = self.places.as_ref();
        self.window(owner)
            .filter_map(|at| places[at].region)
            .find(|region| region.key.owner() == owner && region.covers(address))
    }

    /// Remembers a region in place of one that it overlaps, or else of the one learned longest ago.
    pub(super) fn learn(&mut self, region: Region) {
        self.learned = self.learned.wrapping_add(1);
        let places = self.places.as_ref();
        let overlaps = |known: &Region| {
            known.key.owner() == region.key.owner() && (known.covers(region.base) || region.covers(known.base))
        };
        let at = self.window(region.key.owner()).min_by_key(|&at| match &places[at].region {
            Some(known) if overlaps(known) => (0, 0),
            None => (1, 0),
            Some(_) => (2, self.learned.wrapping_neg().wrapping_add(places[at].at)),
        });
        if let Some(place) = at.and_then(|at| self.places.as_mut().get_mut(at)) {
            *place = Place { region: Some(region), at: self.learned };
        }
    }

    pub(super) fn forget(&mut self, which: impl Fn(&Region) -> bool) {
        for place in self.places.as_mut() {
            if place.region.as_ref().is_some_and(&which) {
                place.region = None;
            }
        }
    }
}
