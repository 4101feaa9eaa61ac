//! Marks on the members of a group, in one word.

/// Which members are marked: a bit for each of the first ones, and the last bit for all others together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks(u64);

/// Members from here on share a bit.
const SHARED: u32 = u64::BITS - 1;

impl Marks {
    pub(super) const NONE: Marks = Marks(0);
    pub(super) const ALL: Marks = Marks(u64::MAX);

    /// Marks this member.
    #[inline]
    pub(super) fn mark(&mut self, member: u32) {
        self.0 |= 1 << member.min(SHARED);
    }

    /// The first member from this one on that may be marked.
    #[inline]
    pub(super) fn from(self, member: u32) -> Option<u32> {
        let marks = self.0 >> member.min(SHARED);
        (marks != 0).then(|| member + marks.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;

    #[test]
    fn marked_members_are_found_in_order() {
        let mut marks = Marks::NONE;
        assert_eq!(marks.from(0), None);
        for member in [0, 3, 62] {
            marks.mark(member);
        }
        assert_eq!([0, 1, 3, 4, 62].map(|from| marks.from(from)), [Some(0), Some(3), Some(3), Some(62), Some(62)]);
        assert_eq!([63, 64, 1000].map(|from| marks.from(from)), [None; 3]);
        marks.mark(70);
        assert_eq!(
            [63, 64, 1000].map(|from| marks.from(from)),
            [Some(63), Some(64), Some(1000)],
            "each of them may be"
        );
        assert_eq!([0, 7, 63, 99].map(|from| Marks::ALL.from(from)), [Some(0), Some(7), Some(63), Some(99)]);
    }
}
