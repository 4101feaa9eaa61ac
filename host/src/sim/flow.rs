//! Between machines and network: connections, messages, what machines want done.

use umbra_core::error::Status;
use umbra_core::group::message::ops;
use umbra_core::machine::{Action, Identity, Link, Machine, Role};
use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::{Lapse, Time};
use umbra_core::wire::Frame;

use super::faults::is_doomed;
use super::links::{Connection, Happens, way};
use super::outcome::Happening;
use super::run::Sim;
use super::script::Process;

impl Sim {
    pub(super) fn alive(&self, node: usize) -> bool {
        match self.services.get(node) {
            Some(service) => service.machine.is_some(),
            None => self.ranks.get(node - self.services.len()).is_some_and(|rank| rank.machine.is_some()),
        }
    }

    pub(super) fn identity(&self, node: usize) -> Identity {
        match self.services.get(node) {
            Some(service) => Identity { role: Role::Service(Sp(node as u32)), incarnation: service.incarnation },
            None => {
                let incarnation = self.ranks[node - self.services.len()].config.incarnation;
                Identity { role: Role::Rank, incarnation }
            }
        }
    }

    pub(super) fn connected(&self, a: usize, b: usize) -> bool {
        self.wiring[a].links.iter().flatten().any(|&at| {
            let connection = &self.connections[at as usize];
            connection.up && connection.ends.iter().any(|&(end, _)| end == b)
        })
    }

    pub(super) fn connect(&mut self, from: usize, to: usize, attempt: u32) {
        let is_rank = from >= self.services.len();
        if !self.alive(from) || from == to || to >= self.services.len() || self.connected(from, to) {
            return;
        }
        if !self.alive(to) || self.cut.contains(&(from.min(to), from.max(to))) {
            if is_rank || self.job.network.mesh {
                // A rank's driver tries again by itself, with back-off; so does one that opens the whole mesh.
                let wait = Lapse(self.job.resend.0 << attempt.min(6));
                self.agenda.plan(self.now + wait, Happens::Connect { from, to, attempt: attempt + 1 });
            }
            return;
        }
        let at = self.connections.len() as u32;
        let ends = [(from, self.wiring[from].take_link(at)), (to, self.wiring[to].take_link(at))];
        self.connections.push(Connection { ends, up: true, last: [self.now; 2] });
        for end in 0..2 {
            let (node, link) = ends[end];
            let identity = self.identity(ends[1 - end].0);
            self.with_machine(node, |machine, now| machine.on_link(link, identity, now));
            self.settle(node);
        }
    }

    pub(super) fn with_machine(&mut self, node: usize, act: impl FnOnce(&mut dyn Hear, Time)) {
        let now = self.now;
        let count = self.services.len();
        if node < count {
            if let Some(machine) = &mut self.services[node].machine {
                act(machine, now);
            }
        } else if let Some(machine) = &mut self.ranks[node - count].machine {
            act(machine, now);
        }
    }

    /// Carries out what a machine wants, until it wants nothing, and plans its next waking.
    pub(super) fn settle(&mut self, node: usize) {
        let count = self.services.len();
        loop {
            let (now, buffer) = (self.now, self.buffer.as_mut_slice());
            let action = if node < count {
                let Some(machine) = &mut self.services[node].machine else { return };
                machine
                    .poll(now, buffer)
                    .map(|action| split(action, |event| Happening::Service(Sp(node as u32), event)))
            } else {
                let rank = node - count;
                let Some(machine) = &mut self.ranks[rank].machine else { return };
                machine
                    .poll(now, buffer)
                    .map(|action| split(action, |event| Happening::Rank(WorldRank(rank as u32), event)))
            };
            match action {
                None => break,
                Some(Action::Send { link, len_bytes }) => self.send(node, link, len_bytes),
                Some(Action::Connect { sp }) => {
                    let at = self.now + way(&self.job.network, &mut self.random);
                    self.agenda.plan(at, Happens::Connect { from: node, to: sp.index(), attempt: 0 });
                }
                Some(Action::Close { link, reason }) => self.close(node, link, reason),
                Some(Action::Event(happening)) => self.note(happening),
            }
        }
        let deadline = if node < count {
            self.services[node].machine.as_ref().and_then(Machine::deadline)
        } else {
            self.ranks[node - count].machine.as_ref().and_then(Machine::deadline)
        };
        let wiring = &mut self.wiring[node];
        if let Some(at) = deadline.map(|at| at.max(self.now + Lapse(1)))
            && (at < wiring.wake || wiring.wake <= self.now)
        {
            wiring.wake = at;
            self.agenda.plan(at, Happens::Wake { node });
        }
    }

    pub(super) fn note(&mut self, happening: Happening) {
        if let Happening::Service(sp, event) = &happening
            && let Some(machine) = self.services.get(sp.index()).and_then(|node| node.machine.as_ref())
        {
            self.watch.hears(self.now, *sp, machine, event, &self.ranks);
        }
        // What ranks were told is judged at the end of a run.
        if !self.job.keep_events && !matches!(happening, Happening::Rank(..)) {
            return;
        }
        match happening {
            Happening::Service(sp, event) => self.services[sp.index()].events.push((self.now, event)),
            Happening::Rank(rank, event) => self.ranks[rank.index()].events.push((self.now, event)),
            Happening::Fault(_) => self.faults.push((self.now, happening)),
        }
    }

    pub(super) fn close(&mut self, node: usize, link: Link, _reason: Status) {
        let Some(&Some(at)) = self.wiring[node].links.get(link.index()) else { return };
        self.wiring[node].links[link.index()] = None;
        let connection = &mut self.connections[at as usize];
        if core::mem::replace(&mut connection.up, false)
            && let Some(&(other, link)) = connection.ends.iter().find(|&&(end, _)| end != node)
        {
            let when = self.now + way(&self.job.network, &mut self.random);
            self.agenda.plan(when, Happens::Gone { node: other, link, connection: at });
        }
    }

    pub(super) fn send(&mut self, node: usize, link: Link, len: usize) {
        let Some(&Some(at)) = self.wiring[node].links.get(link.index()) else { return };
        let network = self.job.network;
        let connection = &self.connections[at as usize];
        if !connection.up {
            return;
        }
        let end = usize::from(connection.ends[0].0 == node);
        let between_services = connection.ends.iter().all(|&(end, _)| end < self.services.len());
        let mut doomed = false;
        if let Ok(frame) = Frame::parse(&self.buffer[..len]) {
            self.traffic.count(frame.op(), between_services, len as u64);
            doomed = is_doomed(&mut self.doomed, connection.ends[end].0, &frame);
        }
        let depth = self.wiring[node].depth + 1;
        let copies = if self.random.happens(network.loss) || doomed {
            self.lost += 1;
            0
        } else {
            1 + u32::from(self.random.happens(network.duplication))
        };
        for _ in 0..copies {
            let mut when = self.now + way(&network, &mut self.random);
            if !network.reorder {
                let last = &mut self.connections[at as usize].last[end];
                when = when.max(*last);
                *last = when;
            }
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(&self.buffer[..len]);
            self.agenda.plan(when, Happens::Arrive { connection: at, end, bytes, depth });
        }
    }

    pub(super) fn arrive(&mut self, at: u32, end: usize, bytes: &[u8], depth: u32) {
        let connection = &self.connections[at as usize];
        if !connection.up {
            return;
        }
        let (node, link) = connection.ends[end];
        let Ok(frame) = Frame::parse(bytes) else { return };
        // FNV-1a over what arrives where and when.
        for word in [self.now.0, node as u64, u64::from(frame.op().0), bytes.len() as u64] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01b3);
        }
        let data = matches!(frame, Frame::Call { op: ops::PART | ops::SNAPSHOT, .. });
        if data && self.time_to_full.is_none() {
            let wiring = &mut self.wiring[node];
            wiring.depth = wiring.depth.max(depth);
            self.rounds = self.rounds.max(wiring.depth);
        }
        self.with_machine(node, |machine, now| machine.on_frame(link, &frame, now));
        self.settle(node);
    }

    /// Hands bytes to a process as if they had come over a link, whatever they are.
    pub fn inject(&mut self, to: Process, link: Link, frame: &Frame<'_>) {
        let node = self.node(to);
        self.with_machine(node, |machine, now| machine.on_frame(link, frame, now));
        self.settle(node);
    }

    /// The link of a process to another, if there is one.
    #[must_use]
    pub fn link(&self, of: Process, to: Process) -> Option<Link> {
        let (of, to) = (self.node(of), self.node(to));
        let at = self.wiring.get(of)?.links.iter().position(|at| {
            at.is_some_and(|at| {
                let connection = &self.connections[at as usize];
                connection.up && connection.ends.iter().any(|&(end, _)| end == to)
            })
        })?;
        Some(Link(at as u32))
    }
}

fn split<E>(action: Action<E>, note: impl FnOnce(E) -> Happening) -> Action<Happening> {
    match action {
        Action::Send { link, len_bytes } => Action::Send { link, len_bytes },
        Action::Connect { sp } => Action::Connect { sp },
        Action::Close { link, reason } => Action::Close { link, reason },
        Action::Event(event) => Action::Event(note(event)),
    }
}

/// What both machines can be told, whatever they report.
pub(super) trait Hear {
    fn on_link(&mut self, link: Link, identity: Identity, now: Time);
    fn on_frame(&mut self, link: Link, frame: &Frame<'_>, now: Time);
    fn on_gone(&mut self, link: Link, now: Time);
    fn on_time(&mut self, now: Time);
}

impl<M: Machine> Hear for M {
    fn on_link(&mut self, link: Link, identity: Identity, now: Time) {
        Machine::on_link(self, link, identity, now);
    }
    fn on_frame(&mut self, link: Link, frame: &Frame<'_>, now: Time) {
        Machine::on_frame(self, link, frame, now);
    }
    fn on_gone(&mut self, link: Link, now: Time) {
        Machine::on_gone(self, link, now);
    }
    fn on_time(&mut self, now: Time) {
        Machine::on_time(self, now);
    }
}
