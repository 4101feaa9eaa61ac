//! The other members: in which life each is, and whether it lives.

use std::sync::Arc;

use umbra_core::chain::{Life, Node};
use umbra_core::channel::Header;
use umbra_core::crew::Identity;

use super::address::{header, receiver, sender};
use super::station::{Sitter, Station};
use crate::sys::process::{Process, ProcessError, all_live};

/// Whether somebody is there.
#[derive(Debug)]
enum There {
    Nobody,
    /// Somebody whose process could be opened.
    Lives(Arc<Process>),
    /// Somebody who died before that, of whom that is not told yet.
    Died,
}

#[derive(Debug)]
struct Known {
    life: Life,
    home: Node,
    /// It is one of ours, in this life.
    own: bool,
    there: There,
}

impl Known {
    const fn watched(&self) -> Option<&Arc<Process>> {
        match &self.there {
            There::Lives(process) => Some(process),
            There::Nobody | There::Died => None,
        }
    }

    /// Whether there is nothing new about it; asks whether its process lives if it has to.
    fn is(&self, sitter: &Sitter, is_alive: impl FnOnce(&Process) -> bool) -> bool {
        sitter.life == self.life
            && match (&self.there, sitter.process) {
                (There::Nobody, _) => true,
                (There::Lives(process), Some(_)) => is_alive(process),
                (There::Lives(_), None) | (There::Died, _) => false,
            }
    }
}

/// What is known of all members.
#[derive(Debug)]
pub(super) struct Peers {
    known: Vec<Known>,
    /// The life of whoever is the first to sit anywhere: what was sent before is for him.
    first: Life,
}

impl Peers {
    pub(super) fn new(station: &Station) -> Peers {
        let shape = station.shape();
        // What is for members elsewhere goes by way of the first member here.
        let home = |node| if shape.is_here(node) { node } else { Node(shape.first) };
        let nobody = |node| Known { life: Life(0), home: home(node), own: false, there: There::Nobody };
        Peers { known: shape.nodes().map(nobody).collect(), first: station.first_life() }
    }

    /// Notes that a member is one of ours from now on.
    pub(super) fn settle(&mut self, node: Node, life: Life, home: Node) {
        if let Some(known) = self.known.get_mut(node.index()) {
            *known = Known { life, home, own: true, there: There::Nobody };
        }
    }

    /// Members that are ours.
    pub(super) fn own(&self) -> impl Iterator<Item = Node> + '_ {
        (0..).map(Node).zip(&self.known).filter(|(_, known)| known.own).map(|(node, _)| node)
    }

    /// Whether a member is one of ours.
    pub(super) fn is_own(&self, node: Node) -> bool {
        self.known.get(node.index()).is_some_and(|known| known.own)
    }

    /// In whose inbox messages for a member go.
    pub(super) fn home(&self, node: Node) -> Node {
        self.known.get(node.index()).map_or(node, |known| known.home)
    }

    /// The life of a member; zero if it was never seen.
    pub(super) fn life(&self, node: Node) -> Life {
        self.known.get(node.index()).map_or(Life(0), |known| known.life)
    }

    /// The life of a member that is there; zero if nobody is known to be.
    pub(super) fn present(&self, node: Node) -> Life {
        let there = self.known.get(node.index()).filter(|known| known.own || matches!(known.there, There::Lives(_)));
        there.map_or(Life(0), |known| known.life)
    }

    /// Who sent a message, if that is of a life that was not seen yet.
    pub(super) fn new_life(&self, header: &Header) -> Option<Node> {
        let (from, life) = sender(header);
        self.known.get(from.index()).filter(|known| known.life != life).map(|_| from)
    }

    /// Who sent a message, and for which of ours, unless it is from or for an earlier life.
    pub(super) fn ends(&self, header: &Header) -> Option<(Node, Node)> {
        let ((from, life), (to, wanted)) = (sender(header), receiver(header));
        let (sender, own) = (self.known.get(from.index())?, self.known.get(to.index())?);
        let is_old = sender.life.is_after(life) && sender.life != Life(0);
        let wanted = if wanted == Life(0) { self.first } else { wanted };
        let is_for_another = !own.own || wanted != own.life;
        (!is_old && !is_for_another).then_some((from, to))
    }

    /// What the header of a message says of who sends it, and to whom.
    pub(super) fn header(&self, from: Node, to: Node) -> Header {
        header((from, self.life(from)), (to, self.life(to)))
    }

    /// The members about whom something has changed, and who sits there now.
    pub(super) fn changed(&self, station: &Station) -> Vec<(Node, Sitter)> {
        // Many by one system call first: every member asks for all others, and nearly always nobody has died. A household is
        // one process.
        let watched = || self.known.iter().filter_map(Known::watched);
        let pairs = watched().zip(std::iter::once(None).chain(watched().map(Some)));
        let others = pairs.filter(|(process, before)| !before.is_some_and(|before| Arc::ptr_eq(before, process)));
        let all_live = all_live(others.map(|(process, _)| process.as_ref()));
        let mut last = None;
        let mut is_alive = |process: &Process| match last {
            _ if all_live => true,
            Some((asked, alive)) if asked == process.id() => alive,
            _ => last.insert((process.id(), process.is_alive())).1,
        };
        let changed = |(node, known): (Node, &Known)| {
            let sitter = station.seat(node).ok().filter(|_| !known.own)?.sitter();
            (!known.is(&sitter, &mut is_alive)).then_some((node, sitter))
        };
        (0..).map(Node).zip(&self.known).filter_map(changed).collect()
    }

    /// Whether somebody was there when this was last looked at.
    pub(super) fn was_there(&self, node: Node) -> bool {
        self.known.get(node.index()).is_some_and(|known| !matches!(known.there, There::Nobody))
    }

    /// A process, held once for all the seats that it has.
    fn open(&self, identity: Identity) -> Result<Arc<Process>, ProcessError> {
        let held = self.known.iter().find_map(|known| match &known.there {
            There::Lives(process) if Identity::from(process.id()) == identity => Some(Arc::clone(process)),
            _ => None,
        });
        held.map_or_else(|| Process::watch(identity).map(Arc::new), Ok)
    }

    /// Takes note of who sits somewhere, and tells what is new about that.
    pub(super) fn note(&mut self, node: Node, sitter: Sitter, mut tell: impl FnMut(Node, News)) {
        let first = self.first;
        let Some(known) =
            self.known.get_mut(node.index()).filter(|known| !known.own && !known.is(&sitter, Process::is_alive))
        else {
            return;
        };
        if !matches!(std::mem::replace(&mut known.there, There::Nobody), There::Nobody) {
            tell(node, News::Gone(known.life));
        }
        let Sitter { life, home, process } = sitter;
        if life != known.life {
            let unseen = if known.life == Life(0) { first } else { Life(known.life.0.wrapping_add(1)) };
            Station::lives(unseen, life).for_each(|life| tell(node, News::Passed(life)));
            let there = match process.map(|process| self.open(process)) {
                Some(Ok(process)) => There::Lives(process),
                None | Some(Err(ProcessError::Gone(_))) => There::Died,
                // It cannot be told, as without a free descriptor: this is still new at the next look.
                Some(Err(_)) => return,
            };
            if let Some(known) = self.known.get_mut(node.index()) {
                *known = Known { life, home, own: false, there };
            }
            tell(node, News::Back(life));
        }
    }
}

/// What has changed about a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    /// This life of it is over.
    Gone(Life),
    /// This life of it began and was over before anybody looked.
    Passed(Life),
    /// It is there, in another life.
    Back(Life),
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    #[test]
    fn lives_that_nobody_saw_are_told_too() -> Result<(), Box<dyn std::error::Error>> {
        let station = Station::create("passed", Shape::new(2))?;
        let mut peers = Peers::new(&station);
        let life = |at| Life(station.first_life().0 + at);
        let process = Some(Identity::from(crate::sys::process::ProcessId::current()?));
        let mut heard = |at| {
            let mut news = Vec::new();
            let sitter = Sitter { life: life(at), home: Node(1), process };
            peers.note(Node(1), sitter, |node, what| news.push((node.0, what)));
            news
        };
        assert_eq!(heard(1), [(1, News::Passed(life(0))), (1, News::Back(life(1)))]);
        assert_eq!(heard(2), [(1, News::Gone(life(1))), (1, News::Back(life(2)))]);
        let passed = [(1, News::Passed(life(3))), (1, News::Passed(life(4)))];
        assert_eq!(heard(5), [&[(1, News::Gone(life(2)))], &passed[..], &[(1, News::Back(life(5)))]].concat());
        // Each life has another number than the one that is there.
        let numbers: Vec<_> = Station::lives(life(5), life(500)).map(|life| station.number(Node(1), life)).collect();
        assert!(numbers.len() == 62 && !numbers.contains(&station.number(Node(1), life(500))));
        Ok(())
    }

    #[test]
    fn what_was_sent_before_anybody_sat_there_is_for_the_first_who_does() -> Result<(), Box<dyn std::error::Error>> {
        let station = Station::create("first", Shape::new(2))?;
        let (mut sender, mut receiver) = (Peers::new(&station), Peers::new(&station));
        let (first, next) = (station.first_life(), Life(station.first_life().0 + 1));
        sender.settle(Node(0), first, Node(0));
        let header = sender.header(Node(0), Node(1));
        for (life, ends) in [(first, Some((Node(0), Node(1)))), (next, None)] {
            receiver.settle(Node(1), life, Node(1));
            assert_eq!(receiver.ends(&header), ends, "in life {life:?}");
        }
        Ok(())
    }
}
