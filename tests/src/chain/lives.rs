//! Deaths and new lives, and who knows of which.
//!
//! This is what a [`Machine`](umbra_core::chain::Machine) is promised, no more. Every machine learns of a death a while
//! after it, and sends to the life that it knows until then. A message for another life than the one that runs is lost;
//! one of a life that its receiver does not know yet tells of the death before it.

use umbra_core::chain::Node;
use umbra_core::time::Lapse;

use super::figures::add;
use super::judge::News;
use super::{Happens, Seat, World};

impl World {
    /// Kills a member now; the others hear of it a little later.
    pub fn kill(&mut self, node: Node) {
        let node = self.home(node);
        let seat = &mut self.seats[node.index()];
        let life = seat.life;
        let Some(machine) = seat.machine.take() else { return };
        add(&mut self.dead, machine.figures());
        self.replies.kill(node);
        let dead: Vec<Node> = self.household(node).collect();
        self.done.deaths.extend(dead.iter().map(|&dead| (dead, self.now)));
        for at in (0..self.seats.len() as u32).map(Node) {
            if at == node || self.home(at) != at {
                continue;
            }
            let late = Lapse::from_micros(self.random.below(200));
            for &who in &dead {
                // A transport tells of a death after everything that the dead one sent.
                let sent = self.household(at).filter_map(|to| self.last.get(&(who, to)).copied()).max();
                self.plan_at(sent.unwrap_or(self.now).max(self.now) + late, Happens::Gone { at, who, life });
            }
        }
    }

    /// Has a member that is dead begin another life, if it is; it sees at once who else lives.
    pub(super) fn restart(&mut self, node: Node) {
        let node = self.home(node);
        if self.seats[node.index()].machine.is_some() {
            return;
        }
        let life = self.seats[node.index()].life + 1;
        self.replies.restart(node);
        self.gone.retain(|&(at, _)| at != node);
        self.seats[node.index()] = Seat { machine: Some(self.machine(node, life)), life, frozen: false };
        let all = (0..self.seats.len() as u32).map(Node);
        let (back, others): (Vec<Node>, Vec<Node>) = all.partition(|&who| self.home(who) == node);
        for who in others {
            let Seat { machine, life, .. } = &self.seats[self.home(who).index()];
            let (life, lives) = (*life, machine.is_some());
            self.known.insert((node, who), life);
            if lives {
                self.note_news(node, who, true);
            } else {
                self.hear_gone(node, who, life);
            }
        }
        // Whoever has not heard of the death yet does not know the new life either.
        for at in (0..self.seats.len() as u32).map(Node) {
            for &who in &back {
                if self.known_life(at, who) == life
                    && let Some(machine) = self.seats[at.index()].machine.as_mut()
                {
                    machine.on_back(who);
                    self.gone.remove(&(at, who));
                    self.note_news(at, who, true);
                }
            }
        }
    }

    fn note_news(&mut self, at: Node, who: Node, lives: bool) {
        self.done.news.push(News { at, who, when: self.now, lives });
    }

    /// In which life this machine knows a member to be, or to be next.
    pub(super) fn known_life(&self, at: Node, who: Node) -> u32 {
        self.known.get(&(at, who)).copied().unwrap_or(1)
    }

    /// A machine hears that this life of a member is over, if it did not know.
    pub(super) fn hear_gone(&mut self, at: Node, who: Node, life: u32) {
        if life < self.known_life(at, who) {
            return;
        }
        let seat = &self.seats[self.home(who).index()];
        let lives = seat.machine.is_some() && seat.life == life + 1;
        let now = self.now;
        let Some(machine) = self.seats[at.index()].machine.as_mut() else { return };
        self.replies.gone(at, who);
        machine.on_gone(who, now);
        if lives {
            machine.on_back(who);
            self.gone.remove(&(at, who));
        } else {
            self.gone.insert((at, who));
        }
        self.note_news(at, who, false);
        if lives {
            self.note_news(at, who, true);
        }
        self.known.insert((at, who), life + 1);
        self.drain(at);
    }

    /// Whether a message is from the life that its receiver knows, and for the one that it lives. The first message of a
    /// new life tells that the one before is over.
    pub(super) fn is_for_now(&mut self, from: Node, to: Node, (theirs, ours): (u32, u32)) -> bool {
        let home = self.home(to);
        if self.seats[home.index()].life != ours {
            return false;
        }
        if theirs > self.known_life(home, from) {
            self.hear_gone(home, from, theirs - 1);
        }
        theirs == self.known_life(home, from)
    }
}
