//! A bounded map from integer keys to small values.
//!
//! Open addressing with linear probing; entries of one neighbourhood are kept in the order of their home
//! places (Robin Hood), so a look-up for an absent key stops early, and removal shifts the followers back
//! instead of leaving tombstones: the map does not age. The hash is keyed by a seed, because keys may be
//! chosen by a peer.
//!
//! ```
//! use umbra_core::map::{Entry, Map};
//! let mut places = Map::new([const { Entry::<u64, u32>::EMPTY }; 16], 0x5eed);
//! assert_eq!(places.insert(42, 7), Ok(None));
//! assert_eq!(places.get(42), Some(7));
//! assert_eq!(places.remove(42), Some(7));
//! assert_eq!(places.get(42), None);
//! ```
//!
//! Invariants: an entry lies at most [`PROBE_MAX`] places behind its home; along a run of entries the home
//! places never decrease; the place in front of an entry that is not at home is taken.
//!
//! *Cost*: O(1) expected, at most [`PROBE_MAX`] entries for a look-up; `insert` and `remove` also move the
//! rest of the run. Fill to at most 7/8 (the map refuses more): at that load a hit looks at about 4
//! entries, a miss at about 5.
//!
//! Source: Celis, Larson, Munro, "Robin Hood hashing", FOCS 1985.

use crate::error::Full;

/// How far behind its home place an entry may lie.
pub const PROBE_MAX: u32 = 256;

/// What can be a key: an integer whose bits are folded into a hash.
pub trait Key: Copy + Eq {
    /// The key without its bits in common, in 64 bits; equal keys fold equally.
    #[must_use]
    fn fold(self, seed: u64) -> u64;
}

// Odd constants without structure: digits of pi.
const A: u64 = 0x243f_6a88_85a3_08d3;
const B: u64 = 0x1319_8a2e_0370_7345;

const fn mix(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Key for u64 {
    #[inline]
    fn fold(self, seed: u64) -> u64 {
        mix(mix(self ^ seed ^ A, B ^ seed.rotate_left(32)), B)
    }
}
impl Key for u32 {
    #[inline]
    fn fold(self, seed: u64) -> u64 {
        u64::from(self).fold(seed)
    }
}
impl Key for u128 {
    #[inline]
    fn fold(self, seed: u64) -> u64 {
        mix(mix(self as u64 ^ seed ^ A, (self >> 64) as u64 ^ B ^ seed.rotate_left(32)) ^ self as u64, B)
    }
}

/// One place in the map; a [`Map`] is lent an array of them.
#[derive(Clone, Copy, Debug)]
pub struct Entry<K, V> {
    content: Option<(K, V)>,
    /// Places behind home.
    distance: u32,
}

impl<K, V> Entry<K, V> {
    /// A place without an entry.
    pub const EMPTY: Self = Entry { content: None, distance: 0 };
}
impl<K, V> Default for Entry<K, V> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The map.
#[derive(Clone, Debug)]
pub struct Map<S> {
    entries: S,
    len: usize,
    seed: u64,
}

enum Found {
    At(usize),
    /// Absent; this is where it belongs and how far from home that is.
    Before(usize, u32),
}

impl<S> Map<S> {
    /// An empty map over the lent entries, whatever these held before.
    #[must_use]
    pub fn new<K: Key, V: Copy>(mut entries: S, seed: u64) -> Self
    where
        S: AsRef<[Entry<K, V>]> + AsMut<[Entry<K, V>]>,
    {
        entries.as_mut().fill(Entry::EMPTY);
        Map { entries, len: 0, seed }
    }

    /// Keys in the map.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no key is in the map.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keys that the map takes: 7/8 of the lent places, at least one if there is a place.
    #[must_use]
    pub fn capacity<K: Key, V: Copy>(&self) -> usize
    where
        S: AsRef<[Entry<K, V>]>,
    {
        let places = self.entries.as_ref().len();
        (places - places / 8).min(places)
    }

    /// Remembers a value for the key and returns the value that it replaces.
    ///
    /// # Errors
    /// [`Full`] with the value if the key is new and the map is full; or if some entry would end up more
    /// than [`PROBE_MAX`] places from home, which below 7/8 load happens with negligible probability.
    /// Nothing has changed then.
    pub fn insert<K: Key, V: Copy>(&mut self, key: K, value: V) -> Result<Option<V>, Full<V>>
    where
        S: AsRef<[Entry<K, V>]> + AsMut<[Entry<K, V>]>,
    {
        let room = self.len < self.capacity();
        let (at, distance) = match self.find(key) {
            Found::At(index) => {
                let old = self.entries.as_mut()[index].content.replace((key, value));
                return Ok(old.map(|(_, old)| old));
            }
            Found::Before(at, distance) => (at, distance),
        };
        if !room || distance > PROBE_MAX {
            return Err(Full(value));
        }
        let entries = self.entries.as_mut();
        let places = entries.len();
        // The run from here on moves back by one place.
        let mut end = at;
        while entries[end].content.is_some() {
            if entries[end].distance >= PROBE_MAX {
                return Err(Full(value));
            }
            end = if end + 1 == places { 0 } else { end + 1 };
        }
        while end != at {
            let from = end.checked_sub(1).unwrap_or(places - 1);
            entries[end] = Entry { distance: entries[from].distance + 1, ..entries[from] };
            end = from;
        }
        entries[at] = Entry { content: Some((key, value)), distance };
        self.len += 1;
        Ok(None)
    }

    /// The value of a key.
    #[must_use]
    #[inline]
    pub fn get<K: Key, V: Copy>(&self, key: K) -> Option<V>
    where
        S: AsRef<[Entry<K, V>]>,
    {
        match self.find(key) {
            Found::At(index) => self.entries.as_ref()[index].content.map(|(_, value)| value),
            Found::Before(..) => None,
        }
    }

    /// Forgets a key and returns its value.
    pub fn remove<K: Key, V: Copy>(&mut self, key: K) -> Option<V>
    where
        S: AsRef<[Entry<K, V>]> + AsMut<[Entry<K, V>]>,
    {
        let Found::At(mut hole) = self.find(key) else { return None };
        let entries = self.entries.as_mut();
        let removed = entries[hole].content.take().map(|(_, value)| value);
        loop {
            let next = if hole + 1 == entries.len() { 0 } else { hole + 1 };
            let follower = entries[next];
            if follower.content.is_none() || follower.distance == 0 {
                break;
            }
            entries[hole] = Entry { distance: follower.distance - 1, ..follower };
            hole = next;
        }
        entries[hole] = Entry::EMPTY;
        self.len -= 1;
        removed
    }

    /// Forgets every key.
    pub fn clear<K: Key, V: Copy>(&mut self)
    where
        S: AsRef<[Entry<K, V>]> + AsMut<[Entry<K, V>]>,
    {
        self.entries.as_mut().fill(Entry::EMPTY);
        self.len = 0;
    }

    /// All keys and values, in no particular order; O(places).
    pub fn iter<'a, K: Key + 'a, V: Copy + 'a>(&'a self) -> impl Iterator<Item = (K, V)> + 'a
    where
        S: AsRef<[Entry<K, V>]>,
    {
        self.entries.as_ref().iter().filter_map(|entry| entry.content)
    }

    #[inline]
    fn find<K: Key, V: Copy>(&self, key: K) -> Found
    where
        S: AsRef<[Entry<K, V>]>,
    {
        let entries = self.entries.as_ref();
        let places = entries.len();
        // The upper half of a 128-bit product maps a hash evenly onto any number of places.
        let mut at = ((u128::from(key.fold(self.seed)) * places as u128) >> 64) as usize;
        for distance in 0..=PROBE_MAX {
            match entries.get(at) {
                Some(&Entry { content: Some((present, _)), distance: its }) if its >= distance => {
                    if present == key {
                        return Found::At(at);
                    }
                }
                _ => return Found::Before(at, distance),
            }
            at = if at + 1 == places { 0 } else { at + 1 };
        }
        Found::Before(at, PROBE_MAX + 1)
    }
}
