//! What happens next in a world, and when.

use umbra_core::chain::{Handle, Node};
use umbra_core::time::{Lapse, Time};

use super::{Happens, Planned, Seat, World};

/// What happens next.
enum Next {
    /// What lies in the agenda.
    Event,
    /// A deadline of this member.
    Timer(Node),
    /// A long reply, or an answer of this machine that waits for memory, is not waited for any more.
    Look(Node),
}

impl World {
    pub(super) fn plan_at(&mut self, at: Time, what: Happens) {
        self.order += 1;
        self.agenda.insert((at, self.order), what);
    }

    /// Has a member die after a while.
    pub fn kill_after(&mut self, after: Lapse, node: Node) {
        self.plan_at(self.now + after, Happens::Kill(node));
    }

    /// Has a member that died begin another life after a while.
    pub fn restart_after(&mut self, after: Lapse, node: Node) {
        self.plan_at(self.now + after, Happens::Restart(node));
    }

    /// Has a call given up after a while.
    pub fn cancel_after(&mut self, after: Lapse, node: Node, handle: Handle) {
        self.plan_at(self.now + after, Happens::Cancel { node, handle });
    }

    /// Has a call made after a while.
    pub fn start_after(&mut self, after: Lapse, planned: Planned) {
        self.planned.push(planned);
        self.plan_at(self.now + after, Happens::Start(self.planned.len() - 1));
    }

    /// Lets things happen until nothing more does, at most so long.
    pub fn run(&mut self, at_most: Lapse) {
        let until = self.now + at_most;
        while let Some((at, _)) = self.earliest().filter(|&(at, _)| at <= until) {
            self.now = self.now.max(at);
            self.step();
        }
        if self.earliest().is_some() {
            self.now = until;
        }
    }

    /// When something happens next, and what.
    fn earliest(&self) -> Option<(Time, Next)> {
        let due = |(node, seat): (usize, &Seat)| {
            let at = seat.machine.as_ref().filter(|_| !seat.frozen)?.deadline()?;
            Some((at, Next::Timer(Node(node as u32))))
        };
        let timer = self.seats.iter().enumerate().filter_map(due).min_by_key(|&(at, _)| at);
        let event = self.agenda.keys().next().map(|&(at, _)| (at, Next::Event));
        let look = self.replies.due().map(|(at, home)| (at, Next::Look(home)));
        // What comes at the same time goes first.
        event.into_iter().chain(timer).chain(look).min_by_key(|&(at, _)| at)
    }

    fn step(&mut self) {
        match self.earliest() {
            Some((_, Next::Timer(node))) => {
                let now = self.now;
                self.at(node).on_time(now);
                self.drain(node);
            }
            Some((_, Next::Look(home))) => self.look(home),
            Some((_, Next::Event)) => {
                if let Some((_, what)) = self.agenda.pop_first() {
                    self.happen(what);
                }
            }
            None => {}
        }
    }
}
