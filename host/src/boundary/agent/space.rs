//! Who may judge whether the holder of a board lives.
//!
//! A name says which process it is of by the number that this has in its own space of process numbers. In another space that number
//! is nobody's, or that of a stranger, so who lives there cannot be told from the dead. Therefore all who may hold a board note
//! their space there before they ask for it or take it. Only as long as that is the same of all, anybody judges; else the holder
//! stays until it leaves, and only who is known to live is given the place of another.
//!
//! Source: `pid_namespaces(7)`.

use umbra_core::atomic::{AtomicU64, Ordering, fence};

use super::name::Name;
use crate::sys::host;

/// What is noted where those who came are of several spaces, or somebody does not know his own.
const SEVERAL: u64 = u64::MAX;

/// A space of process numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Space(u64);

impl Space {
    /// That of this process.
    pub(super) fn here() -> Space {
        match host::namespace() {
            0 => Space(SEVERAL),
            known => Space(known),
        }
    }

    /// Says on a board that somebody of this space may hold it.
    pub(super) fn note(self, noted: &AtomicU64) {
        if let Err(other) = noted.compare_exchange(0, self.0, Ordering::Relaxed, Ordering::Relaxed)
            && other != self.0
        {
            noted.store(SEVERAL, Ordering::Relaxed);
        }
        // ORDERING: with the fence in `lives`: whoever sees the name of this one as a wish or as the holder sees its space.
        fence(Ordering::Release);
    }

    /// Whether the process of a name that was read on a board lives; `None` if that cannot be told here.
    pub(super) fn lives(self, noted: &AtomicU64, name: Name) -> Option<bool> {
        // ORDERING: with the fence in `note`.
        fence(Ordering::Acquire);
        let noted = noted.load(Ordering::Relaxed);
        (noted == self.0 && noted != SEVERAL).then(|| name.is_alive())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;
    use std::thread;

    use umbra_core::crew::Identity;

    use super::super::board::Board;
    use super::super::name::OwnName;
    use super::super::{ALIVE, Agent, Attended};
    use super::*;
    use crate::boundary::{Extent, Transport as _};
    use crate::sys::process::ProcessId;

    const EXTENT: Extent = Extent { ranks: 2, slots: 2, message: 64 };

    /// The end of a rank, and what it shares with who may look out for it, who is of its space or of another one.
    fn rank(is_here: bool) -> (Attended, Arc<crate::sys::segment::Segment>) {
        let segment = Arc::new(Agent::segment(EXTENT).unwrap());
        let end = Attended::attach(segment.clone(), EXTENT, 0).unwrap();
        let Space(here) = Space::here();
        Space(if is_here { here } else { here ^ 1 }).note(Board::of(&segment, EXTENT, 0).spaces().unwrap());
        (end, segment)
    }

    #[test]
    fn a_holder_whose_number_is_nobodys_is_buried_by_its_own_space_only() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let gone = Identity::from(ProcessId::of(child.id()).unwrap()).to_bits();
        child.kill().unwrap();
        child.wait().unwrap();
        for is_here in [true, false] {
            let (mut end, segment) = rank(is_here);
            let board = Board::of(&segment, EXTENT, 0);
            assert!(board.post().unwrap().take(gone).is_some());
            thread::sleep(2 * ALIVE);
            end.look_alone().unwrap();
            assert_eq!(end.is_alone().unwrap(), is_here, "of this space: {is_here}");
            assert_eq!(board.post().unwrap().holder() == gone, !is_here);
        }
    }

    #[test]
    fn a_rank_that_looks_for_itself_is_handed_over_to_who_is_known_to_live() {
        let agent = OwnName::new().unwrap();
        for is_here in [true, false] {
            let (mut end, segment) = rank(is_here);
            end.look_alone().unwrap();
            assert!(end.is_alone().unwrap());
            Board::of(&segment, EXTENT, 0).post().unwrap().ask(agent.word());
            assert!(!end.ready(1).unwrap());
            assert_eq!(end.is_alone().unwrap(), !is_here, "of this space: {is_here}");
        }
    }

    #[test]
    fn nobody_judges_once_two_spaces_were_noted_or_one_is_not_known() {
        let (noted, here, there) = (AtomicU64::new(0), Space(7), Space(8));
        let name = Name(OwnName::new().unwrap().word());
        here.note(&noted);
        here.note(&noted);
        assert_eq!([here, there].map(|space| space.lives(&noted, name)), [Some(true), None]);
        there.note(&noted);
        here.note(&noted);
        assert_eq!([here, there].map(|space| space.lives(&noted, name)), [None; 2]);
        let (noted, unknown) = (AtomicU64::new(0), Space(SEVERAL));
        unknown.note(&noted);
        assert_eq!([here, unknown].map(|space| space.lives(&noted, name)), [None; 2]);
    }
}
