//! Which inputs will be loaded soon: those of the next groups that have no slot.
//!
//! A guess, for sources that can prepare a load. An input that has a slot may lose it before its group's turn, and is not
//! told; what is told will be loaded, because some group needs it and it is not there.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Groups, Source};

/// What a source was told.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    /// Inputs that were told and are not being loaded yet, and which group needs each.
    told: VecDeque<(u64, u64)>,
    /// The next group to look at, and the next of its members.
    group: u64,
    member: usize,
}

impl Foresight {
    /// Tells the source what it wants to know, of no more groups behind those under way than it wants inputs.
    pub(super) fn tell<S: Source + ?Sized>(
        &mut self,
        source: &S,
        groups: &Groups,
        under_way: Range<u64>,
        has_slot: impl Fn(u64) -> bool,
    ) {
        let most = source.ahead();
        if most == 0 {
            return;
        }
        self.told.retain(|&(_, group)| group >= under_way.start);
        let end = (groups.len() as u64).min(under_way.end.saturating_add(most as u64));
        if self.group < under_way.start {
            (self.group, self.member) = (under_way.start, 0);
        }
        while self.group < end {
            let members = groups.get(self.group as usize);
            while let Some(&data) = members.get(self.member) {
                if !has_slot(data) && self.told.iter().all(|&(told, _)| told != data) {
                    if self.told.len() >= most {
                        return;
                    }
                    source.expect(data);
                    self.told.push_back((data, self.group));
                }
                self.member += 1;
            }
            (self.group, self.member) = (self.group + 1, 0);
        }
    }

    /// An input is being loaded.
    pub(super) fn begun(&mut self, data: u64) {
        self.told.retain(|&(told, _)| told != data);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Instant;

    use super::*;
    use crate::stencil::LoadError;

    /// Hears of so many inputs.
    struct Ears(Mutex<Vec<u64>>, usize);

    impl Source for Ears {
        fn load(&self, _: u64, _: &mut [u8], _: Instant) -> Result<(), LoadError> {
            Err(LoadError::GivenUp)
        }
        fn ahead(&self) -> usize {
            self.1
        }
        fn expect(&self, data: u64) {
            self.0.lock().unwrap().push(data);
        }
    }

    #[test]
    fn what_has_no_slot_is_told_once_and_more_as_loads_begin() {
        let groups: Groups = (0..20_u64).map(|point| [point, point + 1, point + 2]).collect();
        let ears = Ears(Mutex::new(Vec::new()), 3);
        let heard = || std::mem::take(&mut *ears.0.lock().unwrap());
        let mut foresight = Foresight::default();
        foresight.tell(&ears, &groups, 0..2, |data| data < 3);
        assert_eq!(heard(), [3, 4, 5]);
        foresight.tell(&ears, &groups, 0..2, |data| data < 3);
        assert_eq!(heard(), [0; 0]);
        foresight.begun(3);
        foresight.tell(&ears, &groups, 0..2, |data| data < 4);
        assert_eq!(heard(), [6]);
        // Whatever became of what was told for groups that are over, it is not waited for.
        foresight.tell(&ears, &groups, 9..10, |data| data < 4);
        assert_eq!(heard(), [9, 10, 11]);
        for data in 9..12 {
            foresight.begun(data);
        }
        // No further than three groups.
        foresight.tell(&ears, &groups, 9..10, |data| data < 15);
        assert_eq!(heard(), [0; 0]);
        foresight.tell(&ears, &groups, 18..20, |data| data < 20);
        assert_eq!(heard(), [20, 21]);
    }

    #[test]
    fn who_wants_to_be_told_of_everything_is() {
        let groups: Groups = (0..3_u64).map(|point| [point]).collect();
        let ears = Ears(Mutex::new(Vec::new()), usize::MAX);
        Foresight::default().tell(&ears, &groups, 1..2, |_| false);
        assert_eq!(*ears.0.lock().unwrap(), [1, 2]);
    }
}
