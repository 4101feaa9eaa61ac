//! How much of the memory of a segment is held, and giving it back.
//!
//! Pages of a segment that nobody has touched take no memory. What was touched once is held until it is given back.

use std::os::fd::OwnedFd;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::{Backing, Segment, SegmentError};

impl Segment {
    /// Bytes of memory that these bytes of the segment take, in whole pages, whoever has touched them; all of them where the
    /// system does not say so, and of memory that is no file.
    ///
    /// *Cost*: two system calls for each piece that is held.
    #[must_use]
    pub fn held(&self, offset: usize, len: usize) -> u64 {
        let len = len.min(self.len.saturating_sub(offset)) as u64;
        let Backing::File(file, first) = &self.backing else { return len };
        let first = first.saturating_add(offset as u64);
        held(file, first, first.saturating_add(len)).unwrap_or(len)
    }

    /// Gives back the memory of these bytes, which are zeros then. Nobody may need them.
    ///
    /// # Errors
    /// [`SegmentError::OutOfBounds`], [`SegmentError::ReadOnly`], [`SegmentError::Private`]; [`SegmentError::Descriptor`] if the
    /// system keeps them, as it does where new writers were [forbidden](Self::forbid_new_writers). Nothing has changed then.
    pub fn give_back(&self, offset: usize, len: usize) -> Result<(), SegmentError> {
        self.at_writable(offset, len)?;
        let Backing::File(file, first) = &self.backing else { return Err(SegmentError::Private) };
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let done = rustix::fs::fallocate(file, flags, first.saturating_add(offset as u64), len as u64);
        done.map_err(SegmentError::Descriptor)
    }
}

/// Bytes of a file from one place up to another that are no holes. Its position is of no use to anybody.
fn held(file: &OwnedFd, from: u64, end: u64) -> Result<u64, Errno> {
    let (mut at, mut held) = (from, 0);
    while at < end {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            // No data behind it.
            Err(Errno::NXIO) => break,
            data => data?.max(at),
        };
        if data >= end {
            break;
        }
        at = rustix::fs::seek(file, SeekFrom::Hole(data))?.clamp(data + 1, end);
        held += at - data;
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::super::Mapping;
    use super::*;

    const PAGES: usize = 1 << 16;

    #[test]
    fn what_was_touched_is_held_until_it_is_given_back() {
        let segment = Segment::create("pages", 8 * PAGES).unwrap();
        assert_eq!(segment.held(0, segment.len()), 0);
        segment.write(PAGES, &vec![7; 3 * PAGES]).unwrap();
        segment.write(7 * PAGES, &vec![7; PAGES]).unwrap();
        let held = |from: usize, count| segment.held(from * PAGES, count * PAGES);
        assert_eq!([held(0, 8), held(0, 1), held(2, 1), held(2, 6)], [4, 0, 1, 3].map(|pages| pages * PAGES as u64));
        segment.give_back(2 * PAGES, 2 * PAGES).unwrap();
        assert_eq!([held(0, 8), held(1, 1)], [2, 1].map(|pages| pages * PAGES as u64));
        let mut bytes = [1; 2];
        segment.read(2 * PAGES - 1, &mut bytes).unwrap();
        assert_eq!(bytes, [7, 0], "what is next to it stays");
        assert_eq!(segment.held(usize::MAX, 1), 0);
    }

    #[test]
    fn a_part_of_a_segment_has_its_own_pages() {
        let segment = Segment::create("pages", 4 * PAGES).unwrap();
        let part = Segment::attach_at(segment.share().unwrap(), Mapping::ReadWrite, PAGES, 2 * PAGES).unwrap();
        part.write(0, &vec![7; 2 * PAGES]).unwrap();
        part.give_back(0, PAGES).unwrap();
        assert_eq!((part.held(0, PAGES), part.held(PAGES, PAGES)), (0, PAGES as u64));
        assert_eq!((segment.held(PAGES, PAGES), segment.held(2 * PAGES, PAGES)), (0, PAGES as u64));
    }

    #[test]
    fn pages_that_cannot_be_given_back_stay() {
        let own = Segment::private(PAGES).unwrap();
        assert_eq!((own.give_back(0, PAGES), own.held(0, PAGES)), (Err(SegmentError::Private), PAGES as u64));
        let sealed = Segment::create("pages", PAGES).unwrap();
        sealed.write(0, &vec![7; PAGES]).unwrap();
        sealed.forbid_new_writers().unwrap();
        assert_eq!(sealed.give_back(0, PAGES), Err(SegmentError::Descriptor(Errno::PERM)));
        assert_eq!(sealed.held(0, PAGES), PAGES as u64);
        assert!(matches!(sealed.give_back(1, PAGES), Err(SegmentError::OutOfBounds { .. })));
    }
}
