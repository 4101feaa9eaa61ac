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
    home: Node,
    /// It is one of ours, in this life.
    own: bool,
    /// `None`: not there.
    process: Option<Process>,
}

/// What is known of all members.
#[derive(Debug)]
pub(super) struct Peers {
    known: Vec<Known>,
}

impl Peers {
    pub(super) fn new(station: &Station) -> Peers {
        let nobody = |node| Known { life: Life(0), home: Node(node), own: false, process: None };
        Peers { known: (0..u32::from(station.shape().members)).map(nobody).collect() }
    }

    /// Notes that a member is one of ours from now on.
    pub(super) fn settle(&mut self, node: Node, life: Life, home: Node) {
        if let Some(known) = self.known.get_mut(node.index()) {
            *known = Known { life, home, own: true, process: None };
        }
    }

    /// Members that are ours.
    pub(super) fn own(&self) -> impl Iterator<Item = Node> + '_ {
        (0..).map(Node).zip(&self.known).filter(|(_, known)| known.own).map(|(node, _)| node)
    }

    /// In whose inbox messages for a member go.
    pub(super) fn home(&self, node: Node) -> Node {
        self.known.get(node.index()).map_or(node, |known| known.home)
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

    /// Who sent a message, and for which of ours, unless it is from or for an earlier life.
    pub(super) fn ends(&self, header: &Header) -> Option<(Node, Node)> {
        let (from, life) = origin(header);
        let (to, wanted) = (Node((header.hints >> 32) as u32), Life(header.hints as u32));
        let (sender, own) = (self.known.get(from.index())?, self.known.get(to.index())?);
        let is_old = sender.life.is_after(life) && sender.life != Life(0);
        let is_for_another = !own.own || (wanted != Life(0) && wanted != own.life);
        (!is_old && !is_for_another).then_some((from, to))
    }

    /// What the header of a message says of who sends it, and to whom.
    pub(super) fn header(&self, from: Node, to: Node) -> Header {
        let name = |node: Node| u64::from(self.life(node).0);
        Header {
            hints: u64::from(to.0) << 32 | name(to),
            sender: name(from) << 32 | u64::from(from.0),
            ..Header::default()
        }
    }

    /// Looks at all seats, and tells what has changed.
    pub(super) fn look(&mut self, station: &Station, mut tell: impl FnMut(Node, News)) {
        for (node, known) in (0..).map(Node).zip(&mut self.known) {
            let Ok(seat) = station.seat(node) else { continue };
            if known.own {
                continue;
            }
            let Sitter { life, home, process } = seat.sitter();
            let same = life == known.life;
            let lives = same && process.is_some() && known.process.as_ref().is_some_and(Process::is_alive);
            if known.process.is_some() && !lives {
                known.process = None;
                tell(node, News::Gone(known.life));
            }
            if !same {
                let process = process.and_then(|process| Process::open(process).ok());
                *known = Known { life, home, own: false, process };
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
