//! What a run takes of memory, refused before it takes any.
//!
//! A system that promises more than it has ends the process later, without a word. So all that lives at the same time is
//! added up before.

use umbra::quantity::Bytes;
use umbra::stencil::field::Field;
use umbra::stencil::{BuildError, Groups, Known, Run, Source};
use umbra::sys::heap;
use umbra_core::cache::Slot;
use umbra_core::stencil::{Group, Input, Reference};

use crate::cli::Failure;

/// A part of what is needed at the same time.
pub(super) struct Part {
    pub(super) what: &'static str,
    pub(super) bytes: u64,
    /// What makes it less.
    pub(super) instead: &'static str,
}

/// What the memory of a run follows from.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) bricks: u64,
    /// Bricks that others are computed from: those of all of them together, and of one at most. Before the list is made that
    /// is what a look at some of them says.
    pub(super) references: u64,
    pub(super) largest: u64,
    pub(super) slots: u64,
    pub(super) slot_bytes: u64,
    pub(super) threads: u64,
    /// Bytes that a thread computes in.
    pub(super) scratch: u64,
    /// Groups that the cache knows at the same time.
    pub(super) window: u64,
    /// The whole order is known to the cache.
    pub(super) known: bool,
}

impl Size {
    /// Bytes for each slot.
    pub(super) fn of_slot(&self) -> u64 {
        // A policy may remember as many bricks that left as there are slots.
        let ghost = size_of::<u64>();
        let beside = size_of::<Slot>() + Run::<dyn Source>::BYTES_OF_SLOT + ghost;
        self.slot_bytes.saturating_add(beside as u64)
    }

    /// The groups, and which brick each computes.
    pub(super) fn list(&self) -> Part {
        let of_brick = Groups::BYTES_OF_GROUP + size_of::<u64>();
        let bytes = sum(self.bricks, of_brick, self.references, Groups::BYTES_OF_MEMBER);
        Part { what: "the list of bricks that each is computed from", bytes, instead: "use larger bricks (--brick)" }
    }

    /// What a run takes beside the list.
    pub(super) fn rest(&self) -> [Part; 4] {
        // A record, and whether it was seen: that counts how many are different.
        let of_brick = size_of::<Input>() + size_of::<bool>();
        let tables = match self.known {
            true => sum(self.bricks, of_brick + Known::BYTES_OF_INPUT, self.references, Known::BYTES_OF_REFERENCE),
            false => sum(self.bricks, of_brick, 0, 0),
        };
        // A reference to each input, and a handle of its slot.
        let of_member = size_of::<Reference>() + size_of::<usize>();
        let ahead = sum(self.window, size_of::<Group>(), self.window.saturating_mul(self.largest), of_member);
        // Only who has computed has taken it.
        let threads = self.threads.min(self.bricks);
        [
            Part {
                what: "the slots",
                bytes: self.slots.saturating_mul(self.of_slot()),
                instead: "use fewer (--slots)",
            },
            Part { what: "what is known of each brick", bytes: tables, instead: "use larger bricks (--brick)" },
            Part { what: "what is known ahead", bytes: ahead, instead: "use a smaller --window, or fewer --active" },
            Part {
                what: "the bricks that threads compute",
                bytes: threads.saturating_mul(self.scratch),
                instead: "use fewer --threads, or smaller bricks (--brick)",
            },
        ]
    }

    /// The list and the rest.
    pub(super) fn all(&self) -> impl Iterator<Item = Part> {
        std::iter::once(self.list()).chain(self.rest())
    }
}

/// So many of one size and so many of another.
fn sum(count: u64, bytes: usize, others: u64, other_bytes: usize) -> u64 {
    count.saturating_mul(bytes as u64).saturating_add(others.saturating_mul(other_bytes as u64))
}

/// Bytes of all parts together.
pub(super) fn total(parts: impl IntoIterator<Item = Part>) -> u64 {
    parts.into_iter().map(|part| part.bytes).fold(0, u64::saturating_add)
}

/// A file that is still to be written, if that takes memory.
pub(super) fn of_file(file: &Field) -> Option<Part> {
    let instead = "put it on a disk (--output, --keep-input; without these TMPDIR)";
    file.in_memory().then(|| Part { what: "a file that lies in memory", bytes: file.bytes(), instead })
}

/// Refuses parts that together take more than is free, and names the largest.
pub(super) fn enough(parts: impl IntoIterator<Item = Part>) -> Result<(), Failure> {
    match heap::free().and_then(|free| lacking(free, parts)) {
        Some(why) => Err(Failure::failed(why)),
        None => Ok(()),
    }
}

/// Why the parts are too many for so many bytes; `None` if they are not.
fn lacking(free: u64, parts: impl IntoIterator<Item = Part>) -> Option<String> {
    let parts: Vec<Part> = parts.into_iter().collect();
    let &Part { what, bytes, instead } = parts.iter().max_by_key(|part| part.bytes)?;
    let all = total(parts);
    let rest = if all == bytes { String::new() } else { format!(", {} with the rest of the run", Bytes(all)) };
    (all > free)
        .then(|| format!("{what}: {} of memory needed{rest}, and {} free: {instead}", Bytes(bytes), Bytes(free)))
}

/// A list with room for so many.
pub(super) fn room<T>(count: usize) -> Result<Vec<T>, BuildError> {
    Ok(heap::room(count)?)
}

/// So many of one value.
pub(super) fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>, BuildError> {
    Ok(heap::reserved(count, || value.clone())?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    const SIZE: Size = Size {
        bricks: 100,
        references: 900,
        largest: 9,
        slots: 40,
        slot_bytes: 1000,
        threads: 4,
        scratch: 2000,
        window: 5,
        known: true,
    };

    #[test]
    fn parts_that_fit_each_alone_but_not_together_are_refused() {
        let all = total(SIZE.all());
        assert!(SIZE.all().all(|part| lacking(all - 1, [part]).is_none()));
        let why = lacking(all - 1, SIZE.all()).unwrap();
        assert!(why.starts_with("the slots: ") && why.contains(" with the rest of the run"), "{why}");
        assert_eq!(lacking(all, SIZE.all()), None);
    }

    #[test]
    fn whatever_a_run_has_more_of_takes_more() {
        let Size { bricks, references, largest, slots, slot_bytes, threads, scratch, window, .. } = SIZE;
        for more in [
            Size { bricks: bricks + 1, ..SIZE },
            Size { references: references + 1, ..SIZE },
            Size { largest: largest + 1, ..SIZE },
            Size { slots: slots + 1, ..SIZE },
            Size { slot_bytes: slot_bytes + 1, ..SIZE },
            Size { threads: threads + 1, ..SIZE },
            Size { scratch: scratch + 1, ..SIZE },
            Size { window: window + 1, ..SIZE },
        ] {
            assert!(total(more.all()) > total(SIZE.all()));
        }
        // No more threads compute than there are bricks.
        let [few, many] = [100, 4096].map(|threads| total(Size { threads, ..SIZE }.all()));
        assert_eq!(few, many);
    }
}
