//! Plans: the channels of an ordered pair of ranks.
//!
//! A plan is the same on both sides without a word between them. A channel's identity on the wire is its position in
//! the plan, so there are neither tags nor headers for channels. Both sides sort the same keys, and compare a
//! fingerprint of them when they build; if these differ, the keys themselves are compared, and the first that differs
//! is named.
//!
//! ```
//! use umbra_core::boundary::{Element, Entry, Key, Kind, Step, fingerprint, first_difference};
//! let element = Element::new(1, 0, 0).ok_or("no such element")?;
//! let key = |field| Key { sender: 0, receiver: 1, field, element, kind: Kind::GHOST };
//! let plan = [0, 1].map(|field| Entry { key: key(field), count: 16, always: false, step: Step::Same });
//! assert_eq!(fingerprint(1, &plan)?, fingerprint(1, &plan.clone())?);
//! assert_ne!(fingerprint(1, &plan)?, fingerprint(2, &plan)?, "another epoch");
//! let [first, second] = plan;
//! assert!(fingerprint(1, &[second, first]).is_err(), "not sorted");
//! assert_eq!(first_difference(&plan, &plan[..1]), Some((1, Some(second), None)));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::levels::Step;
use super::strip::Element;
use crate::codec::{Reader, Short, Writer};

/// Which exchange a channel belongs to; two kinds may be open at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Kind(pub u8);

impl Kind {
    /// Ghost cells.
    pub const GHOST: Kind = Kind(0);
}

/// Names a channel; ordered as plans are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Key {
    /// The block that sends.
    pub sender: u32,
    /// The block that receives.
    pub receiver: u32,
    /// The field.
    pub field: u16,
    /// Where the receiver lies, as the sender sees it; blocks of a periodic mesh may touch several times. Between blocks of
    /// two levels it is what is opposite to the ghosts of the receiver.
    pub element: Element,
    /// Which exchange.
    pub kind: Kind,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { sender, receiver, field, element, kind: Kind(kind) } = self;
        write!(f, "block {sender} to block {receiver}, field {field}, element {element}")?;
        if *kind == 0 { Ok(()) } else { write!(f, ", kind {kind}") }
    }
}

/// One channel of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which channel.
    pub key: Key,
    /// Elements of its strip.
    pub count: u32,
    /// Never a null: the channel of a dense field.
    pub always: bool,
    /// From the level of its sender to that of its receiver.
    pub step: Step,
}

impl Entry {
    /// Bytes of an entry in a list of them.
    pub const BYTES: usize = 20;

    /// Bytes of its strip in a message.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.count as u64 * ELEMENT
    }

    /// Writes it, for a peer to compare.
    ///
    /// # Errors
    /// [`Short`].
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Short> {
        let Key { sender, receiver, field, element, kind } = self.key;
        to.u32(sender)?;
        to.u32(receiver)?;
        to.u16(field)?;
        to.u8(element.number())?;
        to.u8(kind.0)?;
        to.u32(self.count)?;
        to.u32(u32::from(self.always) | u32::from(self.step.number()) << 8)
    }

    /// Reads what a peer wrote; `None` if it is no entry.
    #[must_use]
    pub fn parse(from: &mut Reader<'_>) -> Option<Entry> {
        let (sender, receiver, field) = (from.u32().ok()?, from.u32().ok()?, from.u16().ok()?);
        let (element, kind) = (Element::from_number(from.u8().ok()?)?, Kind(from.u8().ok()?));
        let (count, [always, step, 0, 0]) = (from.u32().ok()?, from.u32().ok()?.to_le_bytes()) else { return None };
        let (always, step) = (always == 1, Step::from_number(step).filter(|_| always < 2)?);
        Some(Entry { key: Key { sender, receiver, field, element, kind }, count, always, step })
    }
}

/// Bytes of an element: fields are of 64-bit floating-point numbers.
pub(super) const ELEMENT: u64 = 8;

/// Why channels are no plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PlanError {
    /// The keys do not grow.
    Unsorted {
        /// Which key is not above the one before.
        at: usize,
    },
    /// A strip without elements, which could not be told from a null.
    Empty {
        /// Its channel.
        key: Key,
    },
    /// More than a message can have.
    TooLarge,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Unsorted { at } => write!(f, "channel {at} of a plan is not above the one before: sort by key"),
            PlanError::Empty { key } => write!(f, "channel without elements in a plan: {key}"),
            PlanError::TooLarge => {
                f.write_str("a message would be larger than 4 GiB: use more ranks or smaller blocks")
            }
        }
    }
}
impl core::error::Error for PlanError {}

/// The fingerprint of a plan: of its epoch, keys, counts, steps between levels and type of elements.
///
/// # Errors
/// [`PlanError`] if it is none.
pub fn fingerprint(epoch: u32, plan: &[Entry]) -> Result<u64, PlanError> {
    let mut hash = SipHasher13::new();
    hash.write_u32(epoch);
    hash.write_u64(ELEMENT);
    let mut bytes = 0u64;
    for (at, entry) in plan.iter().enumerate() {
        if at > 0 && plan[at - 1].key >= entry.key {
            return Err(PlanError::Unsorted { at });
        }
        if entry.count == 0 {
            return Err(PlanError::Empty { key: entry.key });
        }
        bytes = bytes.saturating_add(entry.bytes());
        let mut image = [0; Entry::BYTES];
        entry.emit(&mut Writer::new(&mut image)).map_err(|Short| PlanError::TooLarge)?;
        hash.write(&image);
    }
    if bytes > u64::from(u32::MAX) || plan.len() > u32::MAX as usize {
        return Err(PlanError::TooLarge);
    }
    Ok(hash.finish())
}

/// The first place at which two lists of channels differ, with what each has there.
#[must_use]
pub fn first_difference(ours: &[Entry], theirs: &[Entry]) -> Option<(usize, Option<Entry>, Option<Entry>)> {
    (0..ours.len().max(theirs.len())).find_map(|at| {
        let (our, their) = (ours.get(at).copied(), theirs.get(at).copied());
        (our != their).then_some((at, our, their))
    })
}

#[cfg(test)]
mod tests {
    use super::super::levels::Octant;
    use super::*;

    fn image(entry: &Entry) -> [u8; Entry::BYTES] {
        let mut image = [0; Entry::BYTES];
        entry.emit(&mut Writer::new(&mut image)).unwrap();
        image
    }

    #[test]
    fn an_entry_comes_back_with_its_step_and_other_numbers_are_none() {
        let octant = Octant::new(5).unwrap();
        let element = Element::new(0, -1, 1).unwrap();
        let key = Key { sender: 1, receiver: u32::MAX, field: 3, element, kind: Kind(2) };
        let steps = [Step::Same, Step::Coarser(octant), Step::Finer(octant)];
        for (step, always) in steps.into_iter().flat_map(|step| [(step, false), (step, true)]) {
            let entry = Entry { key, count: 9, always, step };
            assert_eq!(Entry::parse(&mut Reader::new(&image(&entry))), Some(entry));
        }
        let plain = image(&Entry { key, count: 9, always: true, step: Step::Same });
        assert_eq!(plain[16..], [1, 0, 0, 0], "within a level an image tells nothing of levels");
        for (at, wrong) in [(16, 2), (17, 1), (17, 24), (18, 1), (19, 1)] {
            let mut bytes = plain;
            bytes[at] = wrong;
            assert_eq!(Entry::parse(&mut Reader::new(&bytes)), None, "byte {at} is {wrong}");
        }
    }

    #[test]
    fn plans_that_differ_in_a_step_have_other_fingerprints() {
        let element = Element::new(1, 0, 0).unwrap();
        let key = Key { sender: 0, receiver: 1, field: 0, element, kind: Kind::GHOST };
        let octants = [0, 3].map(|number| Octant::new(number).unwrap());
        let steps = [Step::Same, Step::Coarser(octants[0]), Step::Coarser(octants[1]), Step::Finer(octants[0])];
        let prints = steps.map(|step| fingerprint(1, &[Entry { key, count: 4, always: false, step }]).unwrap());
        assert!((1..4).all(|at| !prints[..at].contains(&prints[at])), "{prints:?}");
    }
}
