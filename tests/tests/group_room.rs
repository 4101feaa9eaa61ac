//! Scenarios of too little room: frames that are short, and words that run out.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use umbra::sim::{Fault, Job, Network, Process, Random, Sim};
use umbra_core::codec::Writer;
use umbra_core::endpoints::{Descriptor, GroupKey, Shape, TableBuilder};
use umbra_core::group::Cause;
use umbra_core::group::member::State;
use umbra_core::group::message::{End, Head, Part, Phase, Snapshot, ops};
use umbra_core::id::Generation;
use umbra_core::machine::Link;
use umbra_core::peer::{Host, Incarnation, LocalRank, Rank, Sp, WorldRank};
use umbra_core::placement::Placement;
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Op, Token};

const RANKS: u32 = 24;
/// Groups of the same ranks under different numbers.
const GROUPS: u32 = 3;

/// A job whose world is full.
fn full(job: Job) -> Sim {
    let mut sim = Sim::new(job).unwrap();
    assert!(sim.run_until_world_is_full(Lapse::from_secs(5)), "the world is not full");
    sim.run_until(sim.now() + Lapse::from_millis(5));
    sim
}

fn state(sim: &Sim, rank: WorldRank, key: GroupKey) -> State {
    sim.member(rank).unwrap().state(key)
}

/// All ranks in an order without rule, so that their descriptor is long.
fn scattered() -> Vec<WorldRank> {
    let mut ranks: Vec<WorldRank> = (0..RANKS).map(WorldRank).collect();
    Random::new(1).shuffle(&mut ranks);
    ranks
}

/// A job whose frames are so short that the descriptor of a group takes several.
fn with_short_frames() -> Sim {
    full(Job { frame_bytes: 128, ..Job::new(1, 1, RANKS) })
}

/// Groups of which nobody else knows, whose sets hold words of a service process.
struct Ballast {
    at: Sp,
    link: Link,
    keys: Vec<GroupKey>,
}

impl Ballast {
    /// No words are held yet. The service process needs another one that seems to speak.
    fn new(sim: &Sim, at: Sp, other: Sp) -> Ballast {
        let link = sim.link(Process::Service(at), Process::Service(other)).unwrap();
        Ballast { at, link, keys: Vec::new() }
    }

    fn in_use(&self, sim: &Sim) -> u64 {
        sim.service(self.at).unwrap().bytes_in_use()
    }

    fn next_key(&mut self) -> GroupKey {
        let key = GroupKey(0xba11 << 64 | u128::from(self.at.0) << 32 | self.keys.len() as u128);
        self.keys.push(key);
        key
    }

    fn say(&self, sim: &mut Sim, op: Op, key: GroupKey, what: impl FnOnce(&mut Writer<'_>)) {
        let mut body = [0; 1 << 16];
        let mut w = Writer::new(&mut body);
        Head { key, generation: Generation::FIRST, from: Incarnation(1) }.emit(&mut w).unwrap();
        what(&mut w);
        let len = w.len();
        sim.inject(Process::Service(self.at), self.link, &Frame::Call { op, token: Token(1), body: &body[..len] });
    }

    /// Takes about so many bytes; whether there was room for them.
    fn take(&mut self, sim: &mut Sim, bytes: u32) -> bool {
        let (root, before) = (self.at, self.in_use(sim));
        let key = self.next_key();
        self.say(sim, ops::PART, key, |w| {
            Part::emit_head(w, root, bytes * 8, Phase::Join, true).unwrap();
            // One service process from number 0 on: one rank, number 0.
            for word in [0, 1, 0, 1] {
                w.var(word).unwrap();
            }
        });
        self.in_use(sim) > before
    }

    /// Takes all that is left.
    fn fill(&mut self, sim: &mut Sim) {
        let mut bytes = 1 << 16;
        while bytes > 0 {
            if !self.take(sim, bytes) {
                bytes /= 2;
            }
        }
    }

    /// Takes all that is left for tables, with ones that seem to come from service process 0.
    fn fill_shelf(&mut self, sim: &mut Sim) {
        let (root, mut size) = (Sp(0), 1 << 9);
        while size > 0 {
            let before = sim.service(self.at).unwrap().counters().full;
            let key = self.next_key();
            let bytes = table(sim.placement(), key, size);
            self.say(sim, ops::SNAPSHOT, key, |w| {
                let total = bytes.len() as u32;
                let whole = Snapshot { root, size, total, offset: 0, digest: 0, answer: true, bytes: &bytes };
                whole.emit(w).unwrap();
            });
            if sim.service(self.at).unwrap().counters().full == before {
                size /= 2;
            }
        }
    }

    /// Gives back what was taken as the so manieth.
    fn give(&mut self, sim: &mut Sim, nth: impl Fn(usize) -> bool) {
        let (root, keys) = (self.at, self.keys.clone());
        for (_, key) in keys.into_iter().enumerate().filter(|&(at, _)| nth(at)) {
            self.say(sim, ops::END, key, |w| End { root, cause: Cause::LEFT }.emit(w).unwrap());
        }
    }
}

#[test]
fn ranks_that_join_several_groups_whose_descriptors_take_several_frames_join_them_all() {
    let mut sim = with_short_frames();
    let members = scattered();
    let mut keys = Vec::new();
    for &rank in &members {
        keys = (1..=GROUPS).map(|id| sim.join(rank, id, &members).unwrap()).collect();
    }
    sim.run_until(sim.now() + Lapse::from_millis(50));
    for key in keys {
        for &rank in &members {
            assert_eq!(state(&sim, rank, key), State::Ready, "rank {rank}");
        }
    }
}

/// The table of a group of so many ranks without rule, all of them served by service process 0.
fn table(job: &Placement<'_>, key: GroupKey, size: u32) -> Vec<u8> {
    let mut ranks: Vec<WorldRank> = (0..size).map(WorldRank).collect();
    Random::new(1).shuffle(&mut ranks);
    let mut bytes = vec![0; Descriptor::bytes_needed(size)];
    let shape = Shape::new(&Descriptor::write(1, ranks.iter().copied(), &mut bytes).unwrap(), key, job);
    let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).unwrap();
    for (rank, world_rank) in (0..).map(Rank).zip(ranks) {
        builder.set(rank, &job.entry(world_rank, Host(0), LocalRank(0)).unwrap()).unwrap();
    }
    builder.finish(Generation::FIRST).unwrap().to_vec()
}

/// As many ranks as there are, at the first of two service processes, whose words are held.
fn with_ballast() -> (Sim, Ballast) {
    let network = Network { mesh: true, ..Network::default() };
    let sim = full(Job { network, ranks_on: vec![RANKS, 0], groups: 64, frame_bytes: 128, ..Job::new(1, 1, 1) });
    let ballast = Ballast::new(&sim, Sp(0), Sp(1));
    (sim, ballast)
}

#[test]
fn a_descriptor_that_was_dropped_for_want_of_room_is_offered_again_from_its_start() {
    let (mut sim, mut ballast) = with_ballast();
    let members = scattered();
    // There is room for the descriptor, and for nothing else that belongs to a group.
    assert!(ballast.take(&mut sim, 128));
    ballast.fill(&mut sim);
    ballast.give(&mut sim, |nth| nth == 0);
    let key = sim.join(members[0], 1, &members).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert_eq!((state(&sim, members[0], key), sim.generation(Sp(0), key)), (State::Joining, None));
    ballast.give(&mut sim, |_| true);
    sim.run_until(sim.now() + Lapse::from_millis(100));
    assert_eq!(state(&sim, members[0], key), State::Joined);
}

#[test]
fn a_descriptor_for_which_there_is_no_room_lets_others_pass() {
    let (mut sim, mut ballast) = with_ballast();
    let members = scattered();
    // There are holes for the half of the descriptor.
    for _ in 0..16 {
        assert!(ballast.take(&mut sim, 64));
    }
    ballast.fill(&mut sim);
    ballast.give(&mut sim, |nth| nth < 16 && nth % 2 == 0);
    let rank = members[0];
    let large = sim.join(rank, 1, &members).unwrap();
    let small = sim.join(rank, 2, &members[..12]).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(50));
    assert_eq!((state(&sim, rank, large), state(&sim, rank, small)), (State::Joining, State::Joined));
    ballast.give(&mut sim, |_| true);
    sim.run_until(sim.now() + Lapse::from_millis(100));
    assert_eq!(state(&sim, rank, large), State::Joined);
}

/// A group of ranks 0 and 1, whose table is at both service processes and led by the second, and ballast at the first.
fn led_elsewhere() -> (Sim, Ballast, GroupKey, [WorldRank; 3]) {
    let network = Network { mesh: true, ..Network::default() };
    let mut sim = full(Job { network, ranks_on: vec![2, 1], groups: 64, ..Job::new(1, 1, 1) });
    let ballast = Ballast::new(&sim, Sp(0), Sp(1));
    let members = [2, 0, 1].map(WorldRank);
    let key = sim.join(members[0], 1, &members).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(5));
    (sim, ballast, key, members)
}

#[test]
fn ranks_that_died_while_there_was_no_room_to_say_so_have_left_when_there_is() {
    let (mut sim, mut ballast, key, members) = led_elsewhere();
    for rank in &members[1..] {
        sim.join(*rank, 1, &members).unwrap();
    }
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert!(sim.is_full(key));
    ballast.fill(&mut sim);
    for rank in &members[1..] {
        sim.fault(Fault::Kill(Process::Rank(*rank)));
    }
    sim.leave(members[0], key).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(200));
    assert_eq!(state(&sim, members[0], key), State::Leaving);
    ballast.give(&mut sim, |_| true);
    sim.run_until(sim.now() + Lapse::from_millis(200));
    assert_eq!(state(&sim, members[0], key), State::Out);
}

#[test]
fn ranks_that_joined_while_there_was_no_room_to_say_so_have_joined_when_there_is() {
    let (mut sim, mut ballast, key, members) = led_elsewhere();
    sim.join(members[1], 1, &members).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(5));
    ballast.fill(&mut sim);
    sim.join(members[2], 1, &members).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert_eq!(members.map(|rank| state(&sim, rank, key)), [State::Joined; 3]);
    ballast.give(&mut sim, |_| true);
    sim.run_until(sim.now() + Lapse::from_millis(200));
    assert_eq!(members.map(|rank| state(&sim, rank, key)), [State::Ready; 3]);
}

#[test]
fn a_full_group_holds_the_sets_of_its_local_ranks_and_nothing_else() {
    let (mut sim, _, key, members) = led_elsewhere();
    for rank in &members[1..] {
        sim.join(*rank, 1, &members).unwrap();
    }
    sim.run_until(sim.now() + Lapse::from_millis(20));
    let in_use = |sim: &Sim| sim.service(Sp(0)).unwrap().bytes_in_use();
    let (before, process) = (in_use(&sim), Process::Service(Sp(0)));
    sim.fault(Fault::Kill(process));
    sim.fault(Fault::Restart(process));
    sim.run_until(sim.now() + Lapse::from_millis(300));
    assert_eq!(members.map(|rank| state(&sim, rank, key)), [State::Ready; 3]);
    assert_eq!(in_use(&sim), before, "its ranks have told it that they are members");
}

/// A full group of a rank of the second service process, and two of the first, which gets its table in its second life
/// without having room for the two, of which none or one lives.
fn restarted_without_room(lives: bool) -> (Sim, GroupKey, [WorldRank; 3]) {
    let network = Network { mesh: true, ..Network::default() };
    // The sets of so many local ranks are longer than the table, which is given back before they are taken.
    let mut sim = full(Job { network, ranks_on: vec![700, 1], groups: 64, ..Job::new(1, 1, 1) });
    let members = [700, 0, 1].map(WorldRank);
    let key = members.map(|rank| sim.join(rank, 1, &members).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert!(sim.is_full(key));
    let table = sim.table(Sp(0), key).unwrap().len() as u32;
    let first = Process::Service(Sp(0));
    sim.fault(Fault::Kill(first));
    for rank in if lives { &members[2..] } else { &members[1..] } {
        sim.fault(Fault::Kill(Process::Rank(*rank)));
    }
    sim.fault(Fault::Restart(first));
    // The world's table comes, and a little later that of the group.
    sim.lose(first, ops::SNAPSHOT, key, 1);
    assert!(sim.run_for(Lapse::from_millis(20), |sim| sim.service(Sp(0)).unwrap().world().is_some()));
    assert_eq!(sim.service(Sp(0)).unwrap().handle(key), None);
    let mut ballast = Ballast::new(&sim, Sp(0), Sp(1));
    ballast.take(&mut sim, table - 64);
    ballast.fill(&mut sim);
    ballast.give(&mut sim, |nth| nth == 0);
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert!(sim.service(Sp(0)).unwrap().handle(key).is_some());
    assert!(!lives || state(&sim, members[1], key) == State::Joining, "there is no room for it");
    ballast.give(&mut sim, |_| true);
    (sim, key, members)
}

/// A rank that leaves is not out before those have left who might come back, and out after so long.
fn waits_before_it_is_out(sim: &mut Sim, rank: WorldRank, key: GroupKey, patience: Lapse) {
    sim.run_until(sim.now() + Lapse::from_millis(200));
    assert_eq!(state(sim, rank, key), State::Leaving);
    sim.run_until(sim.now() + patience);
    assert_eq!(state(sim, rank, key), State::Out);
}

#[test]
fn a_member_for_which_there_was_no_room_after_a_restart_leaves_without_another_that_may_come_back() {
    let (mut sim, key, members) = restarted_without_room(true);
    sim.run_until(sim.now() + Lapse::from_millis(200));
    assert_eq!(state(&sim, members[1], key), State::Ready);
    for rank in &members[..2] {
        sim.leave(*rank, key).unwrap();
    }
    waits_before_it_is_out(&mut sim, members[0], key, Lapse::from_secs(2));
}

#[test]
fn members_for_which_there_was_no_room_after_a_restart_have_left_if_they_do_not_come_back() {
    let (mut sim, key, members) = restarted_without_room(false);
    sim.leave(members[0], key).unwrap();
    waits_before_it_is_out(&mut sim, members[0], key, Lapse::from_secs(3));
}

#[test]
fn a_table_in_pieces_for_which_there_was_no_room_comes_when_there_is() {
    let (mut sim, _) = with_ballast();
    let members = scattered();
    let mut ballast = Ballast::new(&sim, Sp(1), Sp(0));
    ballast.fill_shelf(&mut sim);
    let key = members.iter().map(|&rank| sim.join(rank, 1, &members).unwrap()).last().unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(20));
    assert_eq!(state(&sim, members[0], key), State::Ready);
    assert_eq!(sim.service(Sp(1)).unwrap().handle(key), None);
    ballast.give(&mut sim, |_| true);
    sim.run_until(sim.now() + Lapse::from_millis(200));
    assert!(sim.is_full(key));
}

/// A job of three service processes. The second, the authority of a full group with ranks of the first two, is dead; the
/// third keeps the group's table, and may have no room for another.
fn orphaned(groups: u32, room: bool) -> (Sim, GroupKey) {
    let network = Network { mesh: true, ..Network::default() };
    let mut sim = full(Job { network, ranks_on: vec![2, 1, 1], groups, ..Job::new(1, 1, 1) });
    let members = [2, 0].map(WorldRank);
    let key = members.map(|rank| sim.join(rank, 1, &members).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(5));
    assert!(sim.is_full(key));
    if !room {
        Ballast::new(&sim, Sp(2), Sp(0)).fill_shelf(&mut sim);
    }
    for process in [Process::Service(Sp(1)), Process::Rank(members[0])] {
        sim.fault(Fault::Kill(process));
    }
    sim.run_until(sim.now() + Lapse::from_millis(500));
    sim.leave(members[1], key).unwrap();
    sim.run_until(sim.now() + Lapse::from_millis(5));
    assert_eq!(state(&sim, members[1], key), State::Out);
    let handles = [0, 2].map(|sp| sim.service(Sp(sp)).unwrap().handle(key).is_some());
    assert_eq!(handles, [false, true], "the third service process cannot know that all have left");
    (sim, key)
}

fn is_full(sim: &mut Sim, members: [WorldRank; 2], id: u32) -> bool {
    let key = members.map(|rank| sim.join(rank, id, &members).unwrap())[0];
    sim.run_until(sim.now() + Lapse::from_millis(100));
    sim.is_full(key)
}

#[test]
fn a_table_whose_authority_is_dead_gives_way_where_it_serves_nobody_to_one_that_is_built_or_comes() {
    for members in [[3, 0], [0, 1]] {
        let (mut sim, key) = orphaned(64, false);
        assert!(is_full(&mut sim, members.map(WorldRank), 2), "of ranks {members:?}");
        assert_eq!(sim.service(Sp(2)).unwrap().handle(key), None);
    }
}

#[test]
fn a_record_whose_authority_is_dead_gives_way_where_it_serves_nobody() {
    let (mut sim, _) = orphaned(2, true);
    for id in [2, 3] {
        assert!(is_full(&mut sim, [0, 1].map(WorldRank), id), "group {id}");
    }
}
