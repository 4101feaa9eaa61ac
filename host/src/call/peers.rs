//! The other members: in which life each is, and whether it lives.

use umbra_core::chain::{Life, Node};
use umbra_core::channel::Header;

use super::station::{Sitter, Station};
use crate::sys::process::Process;

/// Who says that he sent a message, and in which life.
const fn origin(header: &Header) -> (Node, Life) {
    (Node(header.sender as u32), Life((header.sender >> 32) as u32))
}

#[derive(Debug)]
struct Known {
    life: Life,
    /// `None`: not there.
    process: Option<Process>,
}

/// What is known of all members.
#[derive(Debug)]
pub(super) struct Peers {
    known: Vec<Known>,
    own: Node,
}

impl Peers {
    pub(super) fn new(station: &Station, own: Node) -> Peers {
        let nobody = || Known { life: Life(0), process: None };
        Peers { known: (0..station.shape().members).map(|_| nobody()).collect(), own }
    }

    /// The life of a member; zero if it was never seen.
    pub(super) fn life(&self, node: Node) -> Life {
        self.known.get(node.index()).map_or(Life(0), |known| known.life)
    }

    /// Whether a message is of a life that was not seen yet.
    pub(super) fn is_news(&self, header: &Header) -> bool {
        let (from, life) = origin(header);
        self.known.get(from.index()).is_some_and(|known| known.life != life)
    }

    /// Who sent a message, unless it is from an earlier life of his or for one of ours.
    pub(super) fn sender(&self, header: &Header, own: Life) -> Option<Node> {
        let (from, life) = origin(header);
        let known = self.known.get(from.index())?;
        let is_old = known.life.is_after(life) && known.life != Life(0);
        let is_for_another = header.hints != 0 && header.hints != u64::from(own.0);
        (!is_old && !is_for_another).then_some(from)
    }

    /// Looks at all seats, and tells what has changed.
    pub(super) fn look(&mut self, station: &Station, mut tell: impl FnMut(Node, News)) {
        for (node, known) in (0..).map(Node).zip(&mut self.known) {
            let Ok(seat) = station.seat(node) else { continue };
            if node == self.own {
                continue;
            }
            let Sitter { life, process } = seat.sitter();
            let same = life == known.life;
            let lives = same && process.is_some() && known.process.as_ref().is_some_and(Process::is_alive);
            if known.process.is_some() && !lives {
                known.process = None;
                tell(node, News::Gone(known.life));
            }
            if !same {
                *known = Known { life, process: process.and_then(|process| Process::open(process).ok()) };
                // One that died before it was ever seen is missed all the same.
                tell(node, if known.process.is_some() { News::Back } else { News::Gone(life) });
            }
        }
    }
}

/// What has changed about a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    /// This life of it is over.
    Gone(Life),
    /// It is there, in another life.
    Back,
}
