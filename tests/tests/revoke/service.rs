//! The model's service process: one record, as in `umbra_core::group::service`.

use super::{ALL, Doing, Generation, Message, Party, Says, State, Table, Variant, rank_party};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    Absent,
    Gathering,
    Full,
    Ended { late: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Service {
    pub(crate) generation: Generation,
    pub(crate) phase: Phase,
    /// Ranks known to have joined and left: own ones and, at the authority, everybody's.
    pub(crate) joined: u8,
    pub(crate) left: u8,
    /// Joined ranks by bare counting, for the variant that does so.
    pub(crate) counted: u8,
    /// The parent has acknowledged.
    pub(crate) joined_ok: bool,
    pub(crate) left_ok: bool,
    /// Children that have the table, or know of the end.
    pub(crate) pushed: u8,
    /// The own rank has joined, left, acknowledged the latest news; or has yet to hear of the generation before.
    pub(crate) local_joined: bool,
    pub(crate) local_left: bool,
    pub(crate) known: bool,
    pub(crate) behind: Generation,
    /// The generation before, of whose end some children may not know yet.
    pub(crate) before: Generation,
    /// The own rank is known to be dead.
    pub(crate) rank_dead: bool,
    /// The slot of the table arena.
    pub(crate) slot: u8,
    pub(crate) table: Option<Table>,
    /// History, for the properties: the last generation that ended here, and the handle that a user of this process
    /// took when generation 1 was full.
    pub(crate) ended: Generation,
    pub(crate) user: Option<(u8, Generation)>,
}

enum Entered {
    Here,
    Stale(Generation),
    Busy,
}

impl Service {
    pub(crate) const NEW: Service = Service {
        generation: 0,
        phase: Phase::Absent,
        joined: 0,
        left: 0,
        counted: 0,
        joined_ok: false,
        left_ok: false,
        pushed: 0,
        local_joined: false,
        local_left: false,
        known: false,
        behind: 0,
        before: 0,
        rank_dead: false,
        slot: 0,
        table: None,
        ended: 0,
        user: None,
    };

    pub(crate) fn outbox(&self, me: usize, out: &mut Vec<Message>) {
        let from = me as Party;
        let mut send = |to, generation, says| out.push(Message { from, to, generation, says });
        let generation = self.generation;
        if me != 0 {
            if self.phase == Phase::Gathering {
                let news = if self.local_joined && !self.joined_ok { self.joined } else { 0 };
                if news != 0 || me != 1 || self.local_joined {
                    send(0, generation, Says::Joined(news));
                }
            }
            if matches!(self.phase, Phase::Gathering | Phase::Full) && self.left != 0 && !self.left_ok {
                send(0, generation, Says::Left(self.left));
            }
        }
        for child in 1..=2 {
            if me == 0 && self.pushed >> child & 1 == 0 {
                match (self.phase, self.table) {
                    (Phase::Gathering, _) if self.before != 0 => send(child, self.before, Says::End { late: false }),
                    (Phase::Full, Some(table)) => send(child, generation, Says::Snapshot(table)),
                    (Phase::Ended { late }, _) => send(child, generation, Says::End { late }),
                    _ => {}
                }
            }
        }
        if me < 2 && !self.rank_dead {
            let rank = rank_party(me);
            if self.behind != 0 {
                send(rank, self.behind, Says::Ended { late: false });
            }
            match self.phase {
                Phase::Full if self.local_joined && !self.local_left && !self.known => {
                    send(rank, generation, Says::Ready(self.slot));
                }
                Phase::Ended { late } if self.local_joined && !self.known => {
                    send(rank, generation, Says::Ended { late });
                }
                _ => {}
            }
        }
    }

    fn begin(&mut self, generation: Generation, variant: Variant) {
        // Children that have not heard of the end of the last generation are told while the next one runs.
        let ended = matches!(self.phase, Phase::Ended { .. }) && variant != Variant::EndForgotten;
        let (before, pushed) = if ended { (self.generation, self.pushed) } else { (0, 0) };
        let behind = if self.local_joined && !self.known { self.generation } else { self.behind };
        *self = Service {
            generation,
            phase: Phase::Gathering,
            behind,
            before,
            pushed,
            rank_dead: self.rank_dead,
            slot: self.slot,
            table: self.table,
            ended: self.ended,
            user: self.user,
            ..Service::NEW
        };
    }

    fn enter(&mut self, generation: Generation, remote: bool, variant: Variant) -> Entered {
        if self.phase == Phase::Absent {
            self.begin(generation, variant);
            return Entered::Here;
        }
        if variant == Variant::ReversedNextGeneration && remote && generation != self.generation {
            // As upstream has it: mine == theirs + 1.
            if self.generation != generation + 1 {
                return Entered::Busy;
            }
        }
        if generation < self.generation {
            return Entered::Stale(self.generation - 1);
        }
        if generation == self.generation {
            return if matches!(self.phase, Phase::Ended { .. }) { Entered::Stale(generation) } else { Entered::Here };
        }
        if !matches!(self.phase, Phase::Ended { .. }) {
            if !remote {
                return Entered::Busy;
            }
            self.end(false, variant);
            self.pushed = ALL << 1;
        }
        self.begin(generation, variant);
        Entered::Here
    }

    pub(crate) fn end(&mut self, late: bool, variant: Variant) {
        if matches!(self.phase, Phase::Ended { .. }) {
            return;
        }
        if self.table.take().is_some() && variant != Variant::SlotNotAged {
            self.slot += 1;
        }
        self.phase = Phase::Ended { late };
        self.pushed = 0;
        self.known = false;
        self.ended = self.ended.max(self.generation);
    }

    fn count(&mut self, more: u8, variant: Variant) {
        if variant == Variant::BareCounter {
            self.counted = (self.counted + more).min(2);
        }
    }

    fn publish(&mut self, table: Table) {
        self.table = Some(table);
        self.phase = Phase::Full;
        self.pushed = 0;
        self.known = false;
        self.user.get_or_insert((self.slot, table.generation));
    }

    fn forget_if_settled(&mut self, me: usize, variant: Variant) {
        let told = me != 0 || self.pushed == ALL << 1;
        let known = self.known || !self.local_joined || self.rank_dead;
        if variant == Variant::NoTombstone && matches!(self.phase, Phase::Ended { .. }) && told && known {
            let Service { rank_dead, slot, ended, user, .. } = *self;
            *self = Service { rank_dead, slot, ended, user, ..Service::NEW };
        }
    }
}

/// What follows from the sets: at the authority a full group gets its table, one that all have left ends.
pub(crate) fn check(state: &mut State, me: usize, variant: Variant) {
    let service = &mut state.services[me];
    if me == 0 {
        let all = if variant == Variant::BareCounter { service.counted >= 2 } else { service.joined == ALL };
        if service.phase == Phase::Gathering && all {
            state.builds += 1;
            let table = Table { generation: service.generation, build: state.builds };
            service.publish(table);
            state.tables.insert(table);
        }
        if matches!(service.phase, Phase::Gathering | Phase::Full) && service.left == ALL {
            service.end(false, variant);
        }
    }
    service.forget_if_settled(me, variant);
}

/// The service process learns that its rank has died: it has left.
pub(crate) fn rank_died(state: &mut State, me: usize, variant: Variant) {
    let service = &mut state.services[me];
    service.rank_dead = true;
    if matches!(service.phase, Phase::Gathering | Phase::Full) && service.local_joined {
        service.local_left = true;
        service.left |= 1 << me;
    }
    check(state, me, variant);
}

/// A message arrives at a service process.
pub(crate) fn takes(state: &mut State, me: usize, message: Message, variant: Variant, answers: &mut Vec<Message>) {
    let Message { from, to, generation, says } = message;
    let service = &mut state.services[me];
    let mut answer = |generation, says| answers.push(Message { from: to, to: from, generation, says });
    let current = generation == service.generation;
    match says {
        Says::Join => {
            let over = service.generation > generation || matches!(service.phase, Phase::Ended { .. });
            if service.phase != Phase::Absent && over && service.generation >= generation {
                let ended = matches!(service.phase, Phase::Ended { .. });
                answer(if ended { service.generation } else { service.generation - 1 }, Says::Stale);
                return;
            }
            if current && service.local_left {
                // An old copy: the rank has left since.
                return;
            }
            match service.enter(generation, false, variant) {
                Entered::Here => {
                    service.count(u8::from(!service.local_joined), variant);
                    service.local_joined = true;
                    service.joined |= 1 << me;
                    service.behind = 0;
                    state.joined_ever[usize::from(generation)] |= 1 << me;
                    answer(generation, Says::JoinOk);
                }
                Entered::Stale(last) => answer(last, Says::Stale),
                Entered::Busy => {}
            }
        }
        Says::Leave => {
            if service.phase != Phase::Absent && service.generation > generation {
                if variant == Variant::AskedIsTold {
                    service.behind = 0;
                }
                answer(service.generation - 1, Says::Stale);
            } else if current && matches!(service.phase, Phase::Ended { .. }) {
                answer(generation, Says::Stale);
            } else if current && service.local_joined {
                service.local_left = true;
                service.left |= 1 << me;
                answer(generation, Says::LeaveOk);
            }
        }
        Says::ReadyKnown if current && service.phase == Phase::Full => service.known = true,
        Says::EndedKnown => {
            if current && matches!(service.phase, Phase::Ended { .. }) {
                service.known = true;
            }
            if generation == service.behind {
                service.behind = 0;
            }
        }
        Says::Joined(ranks) => match service.enter(generation, true, variant) {
            Entered::Here if service.phase == Phase::Full => {
                service.pushed &= !(1 << from);
                answer(generation, Says::JoinedOk);
            }
            Entered::Here => {
                service.count(ranks.count_ones() as u8, variant);
                service.joined |= ranks;
                answer(generation, Says::JoinedOk);
            }
            Entered::Stale(last) => {
                let late = service.phase == Phase::Ended { late: true } && last == service.generation;
                answer(last, Says::End { late });
            }
            Entered::Busy => {}
        },
        Says::Left(ranks) => match service.enter(generation, true, variant) {
            Entered::Here => {
                service.left |= ranks;
                answer(generation, Says::LeftOk);
            }
            Entered::Stale(last) => {
                let late = service.phase == Phase::Ended { late: true } && last == service.generation;
                answer(last, Says::End { late });
            }
            Entered::Busy => {}
        },
        Says::JoinedOk if current => service.joined_ok |= service.local_joined,
        Says::LeftOk if current => service.left_ok |= service.left != 0,
        Says::Snapshot(table) => match service.enter(generation, true, variant) {
            Entered::Here => {
                if service.phase == Phase::Gathering {
                    service.publish(table);
                    state.tables.insert(table);
                }
                answer(generation, Says::SnapshotOk);
            }
            Entered::Stale(_) => answer(generation, Says::SnapshotOk),
            Entered::Busy => {}
        },
        Says::End { late } => {
            if variant == Variant::ReversedNextGeneration
                && generation > service.generation
                && service.phase != Phase::Absent
            {
                return;
            }
            answer(generation, Says::EndOk);
            if service.phase == Phase::Absent || service.generation < generation {
                if !matches!(service.phase, Phase::Absent | Phase::Ended { .. }) {
                    service.end(false, variant);
                }
                service.begin(generation, variant);
            }
            if service.generation == generation {
                service.end(late, variant);
            }
        }
        Says::SnapshotOk if current && service.phase == Phase::Full => service.pushed |= 1 << from,
        Says::EndOk if current && matches!(service.phase, Phase::Ended { .. }) => service.pushed |= 1 << from,
        Says::EndOk if generation == service.before && service.phase == Phase::Gathering => service.pushed |= 1 << from,
        _ => {}
    }
    check(state, me, variant);
    debug_assert!(state.ranks.iter().all(|rank| rank.doing != Doing::In || rank.handle.is_some()));
}
