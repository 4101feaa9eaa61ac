//! What happens to processes and links, scripted or not.

use umbra_core::codec::Reader;
use umbra_core::endpoints::GroupKey;
use umbra_core::group::member;
use umbra_core::group::message::Head;
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Op};

use super::links::{Happens, way};
use super::node::{Wiring, member_machine, service_machine};
use super::outcome::Happening;
use super::run::Sim;
use super::script::{Fault, Process, Scripted};

impl Sim {
    /// Has something happen later.
    pub fn plan(&mut self, scripted: Scripted) {
        let at = scripted.at.max(self.now);
        self.agenda.plan(at, Happens::Fault(scripted.fault));
        self.last_fault = self.last_fault.max(Some(at + scripted.lasts.unwrap_or_default()));
        if let (Fault::Cut(a, b), Some(lapse)) = (scripted.fault, scripted.lasts) {
            self.agenda.plan(at + lapse, Happens::Fault(Fault::Heal(a, b)));
        }
    }

    /// Has something happen now.
    pub fn fault(&mut self, fault: Fault) {
        self.last_fault = self.last_fault.max(Some(self.now));
        if self.job.keep_events {
            self.faults.push((self.now, Happening::Fault(fault)));
        }
        match fault {
            Fault::Kill(process) => self.kill(process),
            Fault::Restart(process) => self.restart(process),
            Fault::Cut(a, b) => {
                let (a, b) = (self.node(a), self.node(b));
                self.cut.insert((a.min(b), a.max(b)));
                for at in 0..self.connections.len() as u32 {
                    let [one, other] = self.connections[at as usize].ends.map(|(node, _)| node);
                    if (one.min(other), one.max(other)) == (a.min(b), a.max(b)) {
                        self.disconnect(at);
                    }
                }
            }
            Fault::Heal(a, b) => {
                let (a, b) = (self.node(a), self.node(b));
                self.cut.remove(&(a.min(b), a.max(b)));
            }
        }
    }

    /// Has the network lose the next so many requests of a kind about a group to a process.
    pub fn lose(&mut self, to: Process, op: Op, key: GroupKey, count: u32) {
        let to = self.node(to);
        self.doomed.push((to, op, key, count));
    }

    pub(super) fn node(&self, process: Process) -> usize {
        match process {
            Process::Service(sp) => sp.index(),
            Process::Rank(rank) => self.services.len() + rank.index(),
        }
    }

    pub(super) fn kill(&mut self, process: Process) {
        let node = self.node(process);
        match process {
            Process::Service(sp) => {
                if let Some(service) = self.services.get_mut(sp.index()) {
                    service.machine = None;
                    self.watch.forgets(sp);
                }
            }
            Process::Rank(rank) => {
                if let Some(rank) = self.ranks.get_mut(rank.index()) {
                    rank.machine = None;
                }
            }
        }
        for at in 0..self.connections.len() as u32 {
            if self.connections[at as usize].ends.iter().any(|&(end, _)| end == node) {
                self.disconnect(at);
            }
        }
        if let Some(wiring) = self.wiring.get_mut(node) {
            *wiring = Wiring { wake: Time::NEVER, ..Wiring::default() };
        }
    }

    pub(super) fn restart(&mut self, process: Process) {
        self.kill(process);
        let node = self.node(process);
        let life = self.new_life();
        match process {
            Process::Service(sp) => {
                let machine = service_machine(&self.job, self.placement, sp, life, self.now, self.adjust);
                if let Some(service) = self.services.get_mut(sp.index()) {
                    service.machine = machine;
                    service.incarnation = life;
                }
            }
            Process::Rank(rank) => {
                let Some(config) = self.ranks.get(rank.index()).map(|rank| rank.config.clone()) else { return };
                let config = member::Config { incarnation: life, ..config };
                let machine = member_machine(&self.job, &self.placement, config.clone(), self.now);
                if let Some(rank) = self.ranks.get_mut(rank.index()) {
                    rank.machine = Some(machine);
                    rank.config = config;
                    rank.lives += 1;
                    let to = rank.sp.index();
                    self.agenda.plan(self.now, Happens::Connect { from: node, to, attempt: 0 });
                }
            }
        }
        self.settle(node);
    }

    /// Ends a connection; both ends hear of it a little later.
    pub(super) fn disconnect(&mut self, at: u32) {
        let connection = &mut self.connections[at as usize];
        if !core::mem::replace(&mut connection.up, false) {
            return;
        }
        for (node, link) in connection.ends {
            let when = self.now + way(&self.job.network, &mut self.random);
            self.agenda.plan(when, Happens::Gone { node, link, connection: at });
        }
    }
}

/// Whether this request to a process is to be lost; it is counted then.
pub(super) fn is_doomed(all: &mut [(usize, Op, GroupKey, u32)], to: usize, frame: &Frame<'_>) -> bool {
    let Frame::Call { op, body, .. } = *frame else { return false };
    let Ok(head) = Head::parse(&mut Reader::new(body)) else { return false };
    let doomed = all.iter_mut().find(|doom| (doom.0, doom.1, doom.2) == (to, op, head.key) && doom.3 > 0);
    doomed.map(|doom| doom.3 -= 1).is_some()
}
