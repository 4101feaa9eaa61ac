//! A future of which every group is known, in any order.

use umbra_core::stencil::{Future, Use};

use super::Groups;
use super::error::BuildError;
use crate::sys::heap::reserved;

/// When each input is used, from groups that were listed beforehand.
///
/// That is one run: a cache that is used again goes on with its numbers, and every input leaves after each of its uses.
///
/// *Cost*: O(log uses of the input) a question; 4 bytes a reference and 8 a possible input.
#[derive(Clone, Debug)]
pub struct Known {
    /// Numbers of groups, ascending for each input.
    uses: Vec<u32>,
    /// Where the uses of an input end, and those of the next one begin.
    ends: Vec<usize>,
}

impl Known {
    /// Bytes of memory for each reference.
    pub const BYTES_OF_REFERENCE: usize = size_of::<u32>();
    /// Bytes of memory for each possible input.
    pub const BYTES_OF_INPUT: usize = size_of::<usize>();

    /// The future that consists of these groups. Beyond 2^32 of them nothing is known.
    ///
    /// # Errors
    /// [`BuildError::NoMemory`].
    pub fn new(groups: &Groups) -> Result<Known, BuildError> {
        let mut ends = reserved(groups.inputs(), || 0)?;
        groups.iter().flatten().for_each(|&data| ends[data as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        // What starts as the begin of each input's uses ends as their end.
        let mut uses = reserved(groups.references(), || 0)?;
        for (number, group) in (0..u32::MAX).zip(groups.iter()) {
            for &data in group {
                let end = &mut ends[data as usize];
                uses[*end] = number;
                *end += 1;
            }
        }
        Ok(Known { uses, ends })
    }

    fn uses(&self, data: u64) -> Option<&[u32]> {
        let at = usize::try_from(data).ok()?;
        let start = if at == 0 { 0 } else { *self.ends.get(at - 1)? };
        self.uses.get(start..*self.ends.get(at)?)
    }
}

impl Future for Known {
    type Present = u64;

    fn present(&self, group: u64) -> u64 {
        group
    }

    fn next_use(&self, data: u64, present: u64) -> Use {
        let uses = self.uses(data).unwrap_or_default();
        let after = uses.partition_point(|&number| u64::from(number) <= present);
        uses.get(after).map_or(Use::Never, |&number| Use::At(u64::from(number)))
    }
}
