//! How large the memory of a fabric is, and how it is written in a command line.
//!
//! ```
//! use umbra::boundary::Extent;
//! let extent: Extent = "4,2,65536".parse()?;
//! assert_eq!(extent, Extent { ranks: 4, slots: 2, message: 65_536 });
//! assert_eq!(extent.to_string(), "4,2,65536");
//! assert!("4,2".parse::<Extent>().is_err() && "0,2,64".parse::<Extent>().is_err());
//! # Ok::<(), umbra::boundary::ExtentError>(())
//! ```

use std::fmt;
use std::str::FromStr;

/// Bytes that words which different ranks write are kept apart.
pub(super) const LINE: usize = 128;
/// Words of a stamp line, the most slots that a pair can have.
pub(super) const STAMPS: u32 = (LINE / 8) as u32;
pub(super) const PAGE: usize = 4096;

/// How large a fabric is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Ranks.
    pub ranks: u32,
    /// Slots of each ordered pair: 2, 4, 8 or 16; what is between is taken for the next larger one.
    pub slots: u32,
    /// Bytes of the largest message of a pair, its head counted.
    pub message: u32,
}

impl Extent {
    pub(super) fn capacity(&self) -> usize {
        (self.message as usize).next_multiple_of(PAGE)
    }

    fn pairs(&self) -> usize {
        self.ranks as usize * self.ranks as usize
    }

    pub(super) fn stamps(&self) -> usize {
        self.ranks as usize * 2 * LINE
    }

    pub(super) fn areas(&self) -> usize {
        in_pages(self.pairs().saturating_mul(LINE).saturating_add(self.stamps()))
    }

    /// With as many slots as a pair can have.
    pub(super) fn usable(self) -> Extent {
        Extent { slots: self.slots.clamp(2, STAMPS).next_power_of_two(), ..self }
    }

    /// Bytes of the segment: of addresses, not of memory; `usize::MAX` if they are more than can be counted, which no segment has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let places = self.pairs().saturating_mul(self.usable().slots as usize * 2);
        places.saturating_mul(self.capacity()).saturating_add(self.areas())
    }
}

/// So many bytes, and the rest of their last page, as far as that can be counted.
fn in_pages(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX)
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Extent { ranks, slots, message } = self;
        write!(f, "{ranks},{slots},{message}")
    }
}

/// Most ranks of a text: the memory of so many can be counted in bytes, whatever the rest.
const RANKS: u32 = 4096;

/// A text that is no extent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is no extent: write ranks (1 to {RANKS}), slots of a pair (2, 4, 8 or {STAMPS}) and bytes of the largest message, with \
     commas between"
)]
pub struct ExtentError(String);

impl FromStr for Extent {
    type Err = ExtentError;

    fn from_str(text: &str) -> Result<Extent, ExtentError> {
        let numbers: Option<Vec<u32>> = text.split(',').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[ranks @ 1..=RANKS, slots @ 2..=STAMPS, message @ 1..=u32::MAX]) if slots.is_power_of_two() => {
                Ok(Extent { ranks, slots, message })
            }
            _ => Err(ExtentError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::boundary::{Agent, Fabric, Unshared};
    use crate::sys::segment::SegmentError;

    #[test]
    fn a_fabric_has_room_for_as_many_slots_as_it_takes() {
        for (slots, taken) in [(0, 2), (1, 2), (2, 2), (3, 4), (9, 16), (16, 16), (100, 16)] {
            let extent = Extent { ranks: 2, slots, message: 64 };
            let segment = Fabric::segment(extent).unwrap();
            assert_eq!(Fabric::attach(Arc::new(segment), extent, 1).unwrap().extent().slots, taken);
        }
    }

    #[test]
    fn a_fabric_of_more_bytes_than_can_be_counted_is_refused() {
        for ranks in [65_536, u32::MAX] {
            let extent = Extent { ranks, slots: STAMPS, message: u32::MAX };
            assert_eq!([extent.bytes(), Agent::bytes(extent)], [usize::MAX; 2], "{ranks}");
            for made in [Fabric::segment(extent), Agent::segment(extent)] {
                assert!(matches!(made, Err(SegmentError::Create { len: usize::MAX, .. })), "{ranks}: {made:?}");
            }
            assert!(matches!(Fabric::offer(extent), Err(Unshared::Make(_))), "{ranks}");
        }
        // Neither is a smaller segment taken for one of them.
        let small = || Arc::new(Fabric::segment(Extent { ranks: 1, slots: 2, message: 64 }).unwrap());
        let extent = Extent { ranks: 65_536, slots: STAMPS, message: u32::MAX };
        assert!(Fabric::attach(small(), extent, 0).is_err() && Agent::attach(small(), extent).is_err());
    }

    #[test]
    fn a_text_is_an_extent_or_is_refused_and_no_extent_of_a_text_is_too_large_to_count() {
        let largest = Extent { ranks: RANKS, slots: STAMPS, message: u32::MAX };
        assert_eq!(largest.to_string().parse(), Ok(largest));
        assert!(Agent::bytes(largest) > largest.bytes() && largest.bytes() > 1 << 60);
        for text in [
            "",
            "1",
            "1,2",
            "1,2,1,1",
            "0,2,1",
            "1,0,1",
            "1,1,1",
            "1,3,1",
            "1,2,0",
            "4097,2,1",
            "1,32,1",
            "1,2,4294967296",
            "a,2,1",
            "-1,2,1",
        ] {
            let error = text.parse::<Extent>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is no extent: ")), "{error}");
        }
    }
}
