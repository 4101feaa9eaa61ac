//! Random schedules of a small job, judged by what must hold in all of them.
//!
//! A seed decides the job's shape, the network's manners, which groups there are, when every rank joins and leaves,
//! and, if wanted, who dies when. Afterwards the safety properties are checked on everything that was reported, and
//! the liveness properties on where everybody ended up (spec 2.7).

use std::collections::HashMap;
use std::fmt::Write;

use umbra::sim::{Fault, Job, Network, Order, Process, Random, Scripted, Sim};
use umbra_core::endpoints::GroupKey;
use umbra_core::error::Status;
use umbra_core::group::Stage;
use umbra_core::group::member::{Event, JoinError, State};
use umbra_core::group::message::WORLD;
use umbra_core::id::Generation;
use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::{Lapse, Time};

/// What may go wrong in a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Delay only.
    Calm,
    /// Messages are lost, repeated and reordered, links break and come back.
    Network,
    /// As well, processes die, and some come back.
    Deaths,
}

/// One rank's way through one group.
#[derive(Clone, Debug)]
struct Walk {
    rank: WorldRank,
    group: usize,
    /// Generations still to be lived through.
    rounds: u32,
    /// When it acts next.
    at: Time,
    key: Option<GroupKey>,
    /// Leaves before the group is full, in this round.
    early: bool,
    inside: bool,
}

/// What a schedule has exercised, for the test's own report.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Schedules.
    pub schedules: u64,
    /// Of them, those whose network loses, repeats and reorders messages.
    pub bad: u64,
    /// Of them, those in which a process dies.
    pub deaths: u64,
    /// Of them, those in which one comes back without memory.
    pub restarts: u64,
    /// Tables that ranks were told of.
    pub ready: u64,
    /// Generations that ended well, as ranks were told.
    pub ended: u64,
    /// Waits that ended with an error.
    pub errors: u64,
    /// Messages between service processes.
    pub messages: u64,
    /// Messages that the network lost.
    pub lost: u64,
}

impl core::fmt::Display for Tally {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Tally { schedules, bad, deaths, restarts, ready, ended, errors, messages, lost } = self;
        write!(f, "{schedules} schedules: {bad} with loss, duplication and reordering, {deaths} with deaths, ")?;
        write!(f, "{restarts} with restarts; {messages} messages, {lost} lost; ranks were told of {ready} tables, ")?;
        write!(f, "{ended} ends, {errors} failures")
    }
}

impl core::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.schedules += other.schedules;
        self.bad += other.bad;
        self.deaths += other.deaths;
        self.restarts += other.restarts;
        self.ready += other.ready;
        self.ended += other.ended;
        self.errors += other.errors;
        self.messages += other.messages;
        self.lost += other.lost;
    }
}

fn job(seed: u64, trouble: Trouble, random: &mut Random) -> Job {
    let hosts = 1 + random.below(4);
    let mut ranks_on: Vec<u32> = (0..hosts).map(|_| random.below(4) as u32).collect();
    if ranks_on.iter().sum::<u32>() == 0 {
        ranks_on[0] = 1;
    }
    let bad = trouble != Trouble::Calm;
    let network = Network {
        delay: Lapse::from_micros(1 + random.below(20)),
        jitter: Lapse::from_micros([10, 100, 1000][random.below(3) as usize]),
        loss: if bad { [0, 10_000, 100_000][random.below(3) as usize] } else { 0 },
        duplication: if bad { [0, 50_000, 300_000][random.below(3) as usize] } else { 0 },
        reorder: bad && random.below(4) != 0,
        mesh: random.below(2) == 0,
        start: Lapse::from_micros([10, 1000, 20_000][random.below(3) as usize]),
    };
    let order = [Order::Block, Order::Cyclic, Order::Shuffled][random.below(3) as usize];
    Job {
        ranks_on,
        per_dpu: 1 + random.below(3) as u32,
        order,
        arity: 1 + random.below(3) as u32,
        network,
        seed,
        timeout: Lapse::from_secs(2),
        // Pings are lost too: a process that is silent for so long is dead with near certainty.
        silence: if network.loss > 0 { Lapse::from_secs(1) } else { Lapse::from_millis(200) },
        groups: 6,
        ..Job::new(1, 1, 1)
    }
}

/// Plans deaths and broken links; when the last process dies or comes back.
fn misfortune(sim: &mut Sim, trouble: Trouble, random: &mut Random, tally: &mut Tally) -> Time {
    let mut last = Time::ZERO;
    let (services, ranks) = (sim.services().len() as u64, sim.ranks().len() as u64);
    let when = |random: &mut Random| Time::ZERO + Lapse::from_micros(random.below(40_000));
    let some_service = |random: &mut Random| Process::Service(Sp(random.below(services) as u32));
    let some_rank = |random: &mut Random| Process::Rank(WorldRank(random.below(ranks) as u32));
    if trouble != Trouble::Calm {
        for _ in 0..random.below(3) {
            let a = some_service(random);
            let b = if random.below(3) == 0 { some_rank(random) } else { some_service(random) };
            let at = when(random);
            sim.plan(Scripted { at, fault: Fault::Cut(a, b), lasts: None });
            let healed = at + Lapse::from_micros(random.below(30_000));
            sim.plan(Scripted { at: healed, fault: Fault::Heal(a, b), lasts: None });
        }
    }
    if trouble == Trouble::Deaths {
        for _ in 0..=random.below(2) {
            tally.deaths = 1;
            let whom = if random.below(2) == 0 { some_rank(random) } else { some_service(random) };
            let at = when(random);
            last = last.max(at);
            sim.plan(Scripted { at, fault: Fault::Kill(whom), lasts: None });
            if random.below(2) == 0 {
                // At once, before anybody has noticed, and long after everybody has.
                let most = [5_000, 50_000, 600_000][random.below(3) as usize];
                let back = at + Lapse::from_micros(random.below(most));
                (last, tally.restarts) = (last.max(back), 1);
                sim.plan(Scripted { at: back, fault: Fault::Restart(whom), lasts: None });
            }
        }
    }
    last
}

/// How long after the last death its traces are awaited.
const NOTICED: Lapse = Lapse::from_millis(300);

/// By then the state in which everybody ends up is reached; as a rule far sooner.
const SETTLED: Lapse = Lapse::from_secs(3);

/// One schedule in so many is judged only then, since waits that nobody is in any more may still expire.
const PATIENT: u64 = 32;

/// Runs one schedule; what went wrong, if anything did.
///
/// # Errors
/// A sentence that names the property, the seed and the place.
pub fn run(seed: u64, trouble: Trouble) -> Result<Tally, String> {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9) ^ trouble as u64);
    let job = job(seed, trouble, &mut random);
    let context = format!("seed {seed}, {trouble:?}, {job:?}");
    let mut sim = Sim::new(job).map_err(|error| error.to_string())?;
    let Network { loss, duplication, reorder, .. } = sim.job().network;
    let mut tally = Tally { schedules: 1, bad: u64::from(loss > 0 && duplication > 0 && reorder), ..Tally::default() };
    let last = misfortune(&mut sim, trouble, &mut random, &mut tally);
    let noticed = if last > Time::ZERO { last + NOTICED } else { last };
    let ranks = sim.job().ranks();
    let mut groups: Vec<Vec<WorldRank>> = Vec::new();
    for _ in 0..random.below(4) {
        let mut members: Vec<WorldRank> = (0..ranks).map(WorldRank).collect();
        random.shuffle(&mut members);
        members.truncate(1 + random.below(u64::from(ranks)) as usize);
        // The same members under another number are another group; the same group twice would not be.
        if !groups.contains(&members) {
            groups.push(members);
        }
    }
    let mut walks = Vec::new();
    for (group, members) in groups.iter().enumerate() {
        let rounds = 1 + random.below(3) as u32;
        for &rank in members {
            let at = Time::ZERO + Lapse::from_micros(random.below(20_000));
            walks.push(Walk { rank, group, rounds, at, key: None, early: false, inside: false });
        }
    }
    let patience = Lapse::from_secs(30);
    let end = Time::ZERO + patience;
    let mut done = false;
    while !done && sim.now() < end {
        let next = sim.now() + Lapse::from_micros(200);
        sim.run_until(next);
        done = true;
        for walk in &mut walks {
            done &= advance(&mut sim, walk, &groups, &mut random)?;
        }
        done &= sim.is_full(WORLD) || trouble == Trouble::Deaths;
        done &= sim.now() >= noticed;
        if walks.is_empty() && !done {
            let full = sim.run_until_world_is_full(Lapse::from_secs(5));
            if trouble != Trouble::Deaths && !full {
                return Err(format!("L1: the world is not full: {}; {context}", brief(&sim)));
            }
        }
        // Nothing happens for a while once everybody waits for a deadline: larger steps then.
        if sim.now() > Time::ZERO + Lapse::from_millis(100) {
            sim.run_until(sim.now() + Lapse::from_millis(10));
        }
    }
    if std::env::var_os("UMBRA_TIMELINE").is_some() {
        for (at, happening) in sim.outcome().timeline {
            println!("{:>12} {happening:?}", at.0);
        }
    }
    if !done {
        let states: Vec<_> = walks.iter().map(|w| (w.rank, w.group, w.rounds, state(&sim, w))).collect();
        return Err(format!("L2: still waiting after {patience:?}: {states:?} {}; {context}", brief(&sim)));
    }
    let settled = sim.now() + SETTLED;
    if seed.is_multiple_of(PATIENT) {
        sim.run_until(settled);
    }
    loop {
        sim.run_until(sim.now() + Lapse::from_millis(10));
        match judge(&sim, trouble, &walks) {
            Ok(found) => {
                tally += found;
                return Ok(tally);
            }
            Err(wrong) if sim.now() >= settled => return Err(format!("{wrong}; {context}")),
            Err(_) => {}
        }
    }
}

/// Where every group stands, one line for each service process.
#[must_use]
pub fn brief(sim: &Sim) -> String {
    let mut text = String::new();
    for (sp, report) in sim.outcome().groups {
        let _ = write!(
            text,
            "\n  sp {sp}: {:.8} g{} {:?} {}/{} root {} parent {:?} missing {}",
            report.key.to_string(),
            report.generation.0,
            report.stage,
            report.joined,
            report.size,
            report.root,
            report.parent.map(|sp| sp.0),
            report.missing
        );
        if let Some(cause) = report.cause {
            let _ = write!(text, " because {cause}");
        }
    }
    text
}

fn state(sim: &Sim, walk: &Walk) -> State {
    match (sim.member(walk.rank), walk.key) {
        (Some(member), Some(key)) => member.state(key),
        _ => State::Out,
    }
}

/// Lets a rank go on in its group; whether it has come to the end of its way.
fn advance(sim: &mut Sim, walk: &mut Walk, groups: &[Vec<WorldRank>], random: &mut Random) -> Result<bool, String> {
    if sim.member(walk.rank).is_none() {
        return Ok(true);
    }
    let now = sim.now();
    if now < walk.at {
        return Ok(false);
    }
    let now_state = state(sim, walk);
    match now_state {
        State::Out if walk.inside => {
            // The generation has ended, well or not.
            walk.inside = false;
            walk.at = now + Lapse::from_micros(random.below(500));
            Ok(walk.rounds == 0)
        }
        State::Out if walk.rounds == 0 => Ok(true),
        State::Out => {
            match sim.join(walk.rank, walk.group as u32 + 1, &groups[walk.group]) {
                Ok(key) => walk.key = Some(key),
                Err(JoinError::AlreadyJoined) => {}
                Err(error) => return Err(format!("rank {} cannot join: {error}", walk.rank)),
            }
            walk.rounds -= 1;
            walk.inside = true;
            walk.early = random.below(8) == 0;
            walk.at = now + Lapse::from_micros(random.below(3000));
            Ok(false)
        }
        State::Ready => {
            leave(sim, walk)?;
            Ok(false)
        }
        State::Joined if walk.early => {
            leave(sim, walk)?;
            Ok(false)
        }
        _ => Ok(false),
    }
}

fn leave(sim: &mut Sim, walk: &Walk) -> Result<(), String> {
    let Some(key) = walk.key else { return Ok(()) };
    sim.leave(walk.rank, key).map_err(|error| format!("rank {} cannot leave: {error}", walk.rank))
}

fn judge(sim: &Sim, trouble: Trouble, walks: &[Walk]) -> Result<Tally, String> {
    let mut tally = Tally::default();
    // S1, S2: one table for each generation of a group, whoever reports it; of the size that was asked for.
    let mut digests: HashMap<(GroupKey, Generation), (u64, u32)> = HashMap::new();
    for (rank, node) in sim.ranks().iter().enumerate() {
        for &(at, event) in &node.events {
            match event {
                Event::Ready { key, generation, size, digest, .. } => {
                    tally.ready += 1;
                    let known = *digests.entry((key, generation)).or_insert((digest, size));
                    if known != (digest, size) {
                        return Err(format!("S2: rank {rank} has another table of {key} {generation:?} at {at:?}"));
                    }
                }
                Event::Ended { cause, .. } if cause.status == Status::Ok => tally.ended += 1,
                Event::Ended { cause, key, generation } => {
                    tally.errors += 1;
                    if trouble != Trouble::Deaths {
                        return Err(format!("L1: rank {rank}, {key} {generation:?} at {at:?}: {cause}"));
                    }
                }
                Event::Refused { key, status, word } if trouble != Trouble::Deaths => {
                    return Err(format!("L1: rank {rank} is refused in {key}: {status} {word}"));
                }
                _ => {}
            }
        }
    }
    let mut reports: HashMap<GroupKey, (Generation, Stage)> = HashMap::new();
    for (sp, node) in (0..).map(Sp).zip(sim.services()) {
        let Some(machine) = &node.machine else { continue };
        for report in machine.reports() {
            if report.handle.is_some()
                && let Some(&(digest, _)) = digests.get(&(report.key, report.generation))
                && digest != report.digest
            {
                return Err(format!("S2: service process {sp} has another table of {}", report.key));
            }
            if trouble == Trouble::Deaths {
                continue;
            }
            // L3: in the end all service processes hold the same state of the same generation.
            let stage = if report.stage == Stage::Full { Stage::Pushed } else { report.stage };
            let known = *reports.entry(report.key).or_insert((report.generation, stage));
            if known != (report.generation, stage) {
                return Err(format!("L3: service process {sp} is in {report:?}, another in {known:?}"));
            }
            let expected = if report.key == WORLD { Stage::Pushed } else { Stage::Ended };
            if stage != expected {
                return Err(format!("L3: service process {sp} is in {report:?}"));
            }
        }
        if trouble != Trouble::Deaths && machine.bytes_in_use() > 64 {
            return Err(format!("service process {sp} holds {} bytes for ended groups", machine.bytes_in_use()));
        }
    }
    if trouble == Trouble::Deaths {
        // L2: nobody waits for ever.
        for walk in walks {
            let now = state(sim, walk);
            if matches!(now, State::Waiting | State::Joining | State::Joined) {
                return Err(format!("L2: rank {} is {now:?} in group {}", walk.rank, walk.group));
            }
        }
    }
    let outcome = sim.outcome();
    tally.messages = outcome.traffic.services.messages;
    tally.lost = outcome.lost;
    Ok(tally)
}
