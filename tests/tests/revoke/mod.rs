//! The ending and re-making of groups, reduced to what can go wrong.
//!
//! One group, ranks 0 and 1. Service process 0 serves rank 0 and is the authority, 1 serves rank 1, 2 serves
//! nobody; 1 and 2 are children of 0. A process repeats what was not acknowledged ([`State::outbox`]): each of these
//! messages may arrive at any time, any number of times, in any order, or never, and its answer may be lost. The
//! network also keeps messages that nobody repeats any more and delivers them at any later time, as often as it
//! likes ([`State::held`]).
//!
//! The answers to the four messages of a rank and to those between service processes follow the machine in
//! `umbra_core::group`: a rank joins generation `after + 1`, the authority ends a generation once everybody has
//! left, and a record stays as the tombstone of its generation.

pub(crate) mod service;

use std::collections::BTreeSet;

use service::{Phase, Service};

pub(crate) type Generation = u8;

/// Which rule is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Variant {
    /// None.
    Sound,
    /// "Is this the next generation" is asked the wrong way round.
    ReversedNextGeneration,
    /// A group that has ended is forgotten, not remembered.
    NoTombstone,
    /// Once the next generation has begun, nobody is told of the end of the last one any more.
    EndForgotten,
    /// A rank that asks to leave an ended generation counts as told of its end, whatever becomes of the answer.
    AskedIsTold,
    /// A slot of the table arena keeps its generation when its table is retired.
    SlotNotAged,
    /// Joined ranks are counted, not collected.
    BareCounter,
}

pub(crate) const SERVICES: usize = 3;
pub(crate) const RANKS: usize = 2;
/// Generations that each rank goes through; the last one it does not leave.
pub(crate) const ROUNDS: Generation = 2;
pub(crate) const ALL: u8 = 0b11;

/// A published table: which generation, and which act of building made it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Table {
    pub(crate) generation: Generation,
    pub(crate) build: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Says {
    Join,
    JoinOk,
    Leave,
    LeaveOk,
    /// Answer to a rank: the generation asked for is over.
    Stale,
    /// The table is published under this generation of its slot.
    Ready(u8),
    ReadyKnown,
    Ended {
        late: bool,
    },
    EndedKnown,
    /// Up: these ranks have joined; none means "what is the state?".
    Joined(u8),
    JoinedOk,
    Left(u8),
    LeftOk,
    /// Down: the table.
    Snapshot(Table),
    SnapshotOk,
    End {
        late: bool,
    },
    EndOk,
}

/// Service processes are 0..3, ranks 10 and 11.
pub(crate) type Party = u8;
pub(crate) const fn rank_party(rank: usize) -> Party {
    10 + rank as Party
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Message {
    pub(crate) from: Party,
    pub(crate) to: Party,
    pub(crate) generation: Generation,
    pub(crate) says: Says,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Doing {
    /// In no group; the last generation that it knows to be over is remembered beside.
    Out,
    Joining {
        acked: bool,
    },
    In,
    Leaving {
        acked: bool,
    },
    /// Its group ended because somebody else never came.
    Failed,
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RankState {
    pub(crate) doing: Doing,
    pub(crate) generation: Generation,
    pub(crate) over: Generation,
    /// What `Ready` said: generation of the slot, generation of the group.
    pub(crate) handle: Option<(u8, Generation)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(crate) services: [Service; SERVICES],
    pub(crate) ranks: [RankState; RANKS],
    /// Old messages that the network may still deliver.
    pub(crate) held: BTreeSet<Message>,
    /// History, for the properties: tables ever published, and who has ever joined generation g.
    pub(crate) tables: BTreeSet<Table>,
    pub(crate) joined_ever: [u8; 8],
    pub(crate) builds: u8,
}

impl State {
    pub(crate) fn start() -> State {
        State {
            services: [Service::NEW; SERVICES],
            ranks: [RankState { doing: Doing::Out, generation: 0, over: 0, handle: None }; RANKS],
            held: BTreeSet::new(),
            tables: BTreeSet::new(),
            joined_ever: [0; 8],
            builds: 0,
        }
    }

    /// Everything that is repeated until it is acknowledged.
    pub(crate) fn outbox(&self, out: &mut Vec<Message>) {
        for (index, rank) in self.ranks.iter().enumerate() {
            let says = match rank.doing {
                Doing::Joining { acked: false } => Says::Join,
                Doing::Leaving { acked: false } => Says::Leave,
                _ => continue,
            };
            out.push(Message { from: rank_party(index), to: index as Party, generation: rank.generation, says });
        }
        for (index, service) in self.services.iter().enumerate() {
            service.outbox(index, out);
        }
    }

    /// A message arrives; answers are sent once.
    pub(crate) fn deliver(&mut self, message: Message, variant: Variant, answers: &mut Vec<Message>) {
        match message.to {
            rank @ 10.. => self.rank_takes(usize::from(rank - 10), message, answers),
            sp => service::takes(self, usize::from(sp), message, variant, answers),
        }
    }

    fn rank_takes(&mut self, index: usize, message: Message, answers: &mut Vec<Message>) {
        let rank = &mut self.ranks[index];
        if rank.doing == Doing::Dead {
            return;
        }
        let mut answer = |says| answers.push(Message { from: message.to, to: message.from, says, ..message });
        let mine = message.generation == rank.generation;
        match message.says {
            Says::JoinOk if mine && rank.doing == (Doing::Joining { acked: false }) => {
                rank.doing = Doing::Joining { acked: true };
            }
            Says::LeaveOk if mine && rank.doing == (Doing::Leaving { acked: false }) => {
                rank.doing = Doing::Leaving { acked: true };
            }
            Says::Ready(slot) => {
                if mine && matches!(rank.doing, Doing::Joining { .. }) {
                    rank.doing = Doing::In;
                    rank.handle = Some((slot, message.generation));
                }
                answer(Says::ReadyKnown);
            }
            // The word of a refusal is the last generation that is over.
            Says::Stale if message.generation >= rank.generation => {
                rank.over = rank.over.max(message.generation);
                match rank.doing {
                    // The model ends here; a real rank would go on with the next one.
                    Doing::Joining { acked: false } if message.generation >= ROUNDS => rank.doing = Doing::Failed,
                    Doing::Joining { acked: false } => rank.generation = message.generation + 1,
                    Doing::Leaving { .. } => rank.doing = Doing::Out,
                    _ => {}
                }
            }
            Says::Ended { late } => {
                if mine && matches!(rank.doing, Doing::Joining { .. } | Doing::In | Doing::Leaving { .. }) {
                    rank.over = message.generation;
                    rank.doing = if late { Doing::Failed } else { Doing::Out };
                }
                answer(Says::EndedKnown);
            }
            _ => {}
        }
    }

    pub(crate) fn join(&mut self, index: usize) {
        let rank = &mut self.ranks[index];
        rank.generation = rank.over + 1;
        rank.doing = Doing::Joining { acked: false };
    }

    /// Looks a rank up under a handle: the generation of the table that answers, or nothing if it is stale.
    pub(crate) fn look_up(&self, service: usize, slot: u8) -> Option<Generation> {
        let service = &self.services[service];
        service.table.filter(|_| service.slot == slot).map(|table| table.generation)
    }

    pub(crate) fn anyone_dead(&self) -> bool {
        self.ranks.iter().any(|rank| rank.doing == Doing::Dead)
    }

    /// The authority may give up waiting for a rank that has died.
    pub(crate) fn may_time_out(&self) -> bool {
        self.anyone_dead() && self.services[0].phase == Phase::Gathering
    }
}
