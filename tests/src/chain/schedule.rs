//! Random schedules of chained calls, judged by what must hold in all of them.
//!
//! A seed decides how many members there are, how small their tables, which calls they make over which trees, what
//! user code does, how the network behaves, who shares a machine, and who dies, comes back or gives up when.

use umbra::call::Capacities;
use umbra::sim::Random;
use umbra_core::chain::{Call, Caps, Config, Data, Life, Mode, Node, Plan, StartError, Tag};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::domains::{self, Place};
use umbra_core::tree::{Shape, explicit};

use super::judge::Tree;
use super::script::ELSEWHERE;
pub use super::tally::Tally;
use super::{Act, End, Network, PREFIX, Planned, RARE, SUM, World};

/// What may go wrong in a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Delay, and small tables.
    Calm,
    /// Messages are lost, repeated and reordered.
    Network,
    /// User code fails, hangs, or answers too much.
    Faults,
    /// User code fails as well, members die and come back, and calls are given up.
    Deaths,
    /// User code fails or makes calls, members lack functions, and the network takes nothing from one to another.
    Steps,
}

fn network(trouble: Trouble, random: &mut Random) -> Network {
    let bad = trouble == Trouble::Network || (trouble == Trouble::Deaths && random.below(2) == 0);
    Network {
        delay: Lapse::from_micros(1 + random.below(5)),
        jitter: Lapse::from_micros([0, 20, 300][random.below(3) as usize]),
        loss: if bad { [0, 20_000, 100_000][random.below(3) as usize] } else { 0 },
        duplication: if bad { [0, 50_000, 300_000][random.below(3) as usize] } else { 0 },
        reorder: bad && random.below(4) != 0,
        work: Lapse::from_micros([0, 0, 10, 200][random.below(4) as usize]),
    }
}

/// Levels below the first of a tree at most, for which the budget of these calls is enough.
const LEVELS: u8 = 7;

/// A random tree over so many positions, as parents.
fn random_parents(len: u32, random: &mut Random) -> Vec<u32> {
    let (mut parents, mut levels) = (vec![explicit::ROOT], vec![0]);
    for at in 1..len {
        let mut parent = random.below(u64::from(at)) as u32;
        while levels[parent as usize] >= LEVELS {
            parent = parents[parent as usize];
        }
        parents.push(parent);
        levels.push(levels[parent as usize] + 1);
    }
    parents
}

/// Has some of the members share machines.
fn households(world: &mut World, members: u32, random: &mut Random) {
    let mut at = 0;
    while at < members {
        let end = members.min(at + [1, 1, 2, 5, 16, 64][random.below(6) as usize]);
        world.house(at..end);
        at = end;
    }
}

/// The tree over these members that follows the machines at which they live, or hosts of so many members.
fn parents_by_domain(world: &World, list: &[Node], over: Shape, random: &mut Random) -> Vec<u32> {
    let (by_home, each) = (random.below(2) == 0, 1 + random.below(16) as u32);
    let place = |at: u32| {
        let member = list[at as usize];
        let home = world.home(member);
        Place { domain: if by_home { home.0 } else { member.0 / each }, leads: home == member }
    };
    let most = list.iter().map(|member| member.0).max().unwrap_or(0);
    let (mut parents, mut leaders) = (vec![0; list.len()], vec![0; most as usize + 1]);
    domains::parents(place, over, &mut parents, &mut leaders).expect("every member has a domain");
    parents
}

/// Which seeds take trees that are led or follow the machines, and may do without classes. Seeds that were found for what
/// happens in them keep it.
const fn is_wide(seed: u64) -> bool {
    seed.is_multiple_of(4)
}

/// Which seeds have long replies among the others.
const fn is_long(seed: u64) -> bool {
    matches!(seed % 5, 1 | 3)
}

/// Which seeds have calls that take the newer ways to be treated. They are drawn apart, so that every seed has the calls that it
/// always had.
const fn has_options(seed: u64) -> bool {
    matches!(seed % 7, 4 | 5)
}

/// Has a call take some of these ways; it may come when deaths are known.
fn opt(planned: &mut Planned, after: &mut Lapse, random: &mut Random) {
    planned.call.mode.set(Mode::SKIP_DEAD, random.below(4) != 0);
    planned.call.mode.set(Mode::FULL_LIST, random.below(2) == 0);
    if random.below(2) == 0 && !planned.call.mode.contains(Mode::CUT_THROUGH) {
        planned.call.mode |= Mode::REWRITE;
        planned.call.header = PREFIX;
    }
    after.0 += random.below(3) * random.below(2_000_000);
}

/// Bytes of the longest reply that is not in an answer.
const LONGEST: u32 = 4000;

/// Has machines have little memory for long replies, and some of them none for a while.
fn memory(world: &mut World, members: u32, random: &mut Random) {
    world.reply_room([usize::MAX, 3 * LONGEST as usize, LONGEST as usize][random.below(3) as usize]);
    for _ in 0..random.below(4) {
        let (who, most) = (random.below(u64::from(members)) as u32, [300, 30_000, 600_000][random.below(3) as usize]);
        world.lack_memory(Node(who), Lapse::from_micros(random.below(most)));
    }
}

/// Has a call have replies that are not in answers, of whatever length.
fn lengthen(call: &mut Call<'_>, random: &mut Random) {
    call.mode |= Mode::RENDEZVOUS;
    if call.callback != Tag::NONE {
        call.caps.data = [8, 24, 320, LONGEST][random.below(4) as usize];
    }
}

fn planned(world: &World, members: u32, wide: Option<&mut Tally>, random: &mut Random) -> Planned {
    let mut all: Vec<Node> = (0..members).map(Node).collect();
    random.shuffle(&mut all);
    let root = world.home(all[random.below(u64::from(members)) as usize]);
    all.truncate(random.below(u64::from(members) + 1) as usize);
    let len = all.iter().filter(|&&member| member != root).count() as u32 + 1;
    let shapes = [Some(Shape::BINARY), Some(Shape::BINOMIAL), Some(Shape::FLAT), Shape::kary(3), Shape::knomial(4)];
    let chain = (len <= u32::from(LEVELS) + 1 && random.below(8) == 0).then_some(Shape::CHAIN);
    let shape = chain.or(shapes[random.below(5) as usize]).unwrap_or(Shape::BINARY);
    let mut mode = Mode::empty();
    for (flag, chance) in [(Mode::COLLECT, 2), (Mode::CANCEL_ON_FAIL, 4), (Mode::ORDERED, 4), (Mode::CUT_THROUGH, 4)] {
        mode.set(flag, random.below(chance) == 0);
    }
    let bare = random.below(4) == 0;
    let call = Call {
        callback: if bare { Tag::NONE } else { SUM },
        caps: if bare { Caps::default() } else { Caps { header: 0, data: 8 } },
        plan: Plan::Shape(shape),
        mode,
        budget: Lapse::from_secs(2),
        at_root: random.below(8) != 0,
        ..Call::new(SUM, &[])
    };
    let mut planned = Planned { root, members: all, call, parents: None };
    let Some(tally) = wide.filter(|_| random.below(3) != 0) else {
        planned.parents = (random.below(5) == 0).then(|| random_parents(len, random));
        return planned;
    };
    if random.below(2) == 0 {
        tally.led += 1;
        planned.call.plan = Plan::Led(shape);
    } else {
        tally.domains += 1;
        let list = Tree::of(&planned).members;
        planned.parents = Some(parents_by_domain(world, &list, shape, random));
    }
    planned
}

fn script(world: &mut World, members: u32, trouble: Trouble, random: &mut Random) {
    let some = |random: &mut Random| Node(random.below(u64::from(members)) as u32);
    for _ in 0..random.below(4) {
        let slow = Act::Slow(Lapse::from_micros(random.below(3000)));
        world.script.functions.insert(some(random), slow);
    }
    if matches!(trouble, Trouble::Faults | Trouble::Steps | Trouble::Deaths) {
        for _ in 0..=random.below(3) {
            let act = [Act::Fault(42), Act::Panic, Act::Hang, Act::Excess][random.below(4) as usize];
            if random.below(3) == 0 && act != Act::Hang {
                world.script.callbacks.insert((some(random), some(random)), act);
            } else {
                world.script.functions.insert(some(random), act);
            }
        }
    }
}

/// Has calls take what some members lack, and data that lies elsewhere.
fn rarely(planned: &mut Planned, random: &mut Random) {
    if random.below(3) == 0 {
        planned.call.func = RARE;
    }
    if planned.call.callback != Tag::NONE && random.below(3) == 0 {
        planned.call.callback = RARE;
    }
    if random.below(3) == 0 {
        planned.call.data = Data::Span(ELSEWHERE);
    }
}

/// Has steps fail that are not user code's, and functions make calls.
fn steps(world: &mut World, members: u32, random: &mut Random) {
    world.script.span = Some(ELSEWHERE);
    let some = |random: &mut Random| Node(random.below(u64::from(members)) as u32);
    for _ in 0..random.below(3) {
        let lacking = some(random);
        world.lack(world.home(lacking));
    }
    let edges: Vec<(Node, Node)> =
        world.planned.iter().flat_map(|planned| Tree::of(planned).edges().collect::<Vec<_>>()).collect();
    if !edges.is_empty() {
        let edge = edges[random.below(edges.len() as u64) as usize];
        match random.below(6) {
            0 | 1 => world.refuses = Some(edge),
            2 => world.full = Some(edge),
            _ => {}
        }
    }
    if random.below(2) == 0 {
        // What hangs until the deadline takes places that others want.
        world.script.functions.retain(|_, act| *act != Act::Hang);
    }
    for _ in 0..random.below(3) {
        world.script.functions.insert(some(random), Act::Within);
        world.script.inner = (0..random.below(4)).map(|_| some(random)).collect();
        world.script.inner.sort_unstable();
        world.script.inner.dedup();
    }
}

/// Runs one schedule; what went wrong, if anything did.
///
/// # Errors
/// A sentence that names the rule, the seed and the place.
pub fn run(seed: u64, trouble: Trouble) -> Result<Tally, String> {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9) ^ trouble as u64);
    let most = [3, 8, 24, 64][random.below(4) as usize];
    let members = 1 + random.below(most) as u32;
    let lossy = !matches!(trouble, Trouble::Calm | Trouble::Faults | Trouble::Steps);
    let calls = [1, 2, 6][random.below(3) as usize];
    let (wide, long) = (is_wide(seed), is_long(seed));
    let (classes, places) = if random.below(2) == 0 { (8, 8) } else { (if wide { 0 } else { 8 }, 64) };
    let call_bytes = if has_options(seed) { 8192 } else { 4096 };
    let capacities = Capacities { calls: places, call_bytes, remembered: 256, ..Capacities::new(members) };
    let config = Config {
        classes,
        open_max: 8,
        ask: if lossy { Lapse::from_millis(2) } else { Lapse(u64::MAX) },
        silence: if lossy { Lapse::from_millis(500) } else { Lapse(u64::MAX) },
        ..Config::new(Node(0), Life(1))
    };
    let mut world = World::with(seed, capacities, config);
    world.network = network(trouble, &mut random);
    script(&mut world, members, trouble, &mut random);
    // One machine for many has no places for all calls of all of them.
    if random.below(2) == 0 && classes > 0 {
        households(&mut world, members, &mut random);
    }
    if long {
        memory(&mut world, members, &mut random);
    }
    let mut options = Random::new(!seed);
    let mut drawn = Tally { roomy: u64::from(classes == 0), ..Tally::default() };
    for _ in 0..calls {
        let mut after = Lapse::from_micros(random.below(500));
        let mut planned = planned(&world, members, wide.then_some(&mut drawn), &mut random);
        if trouble == Trouble::Steps {
            rarely(&mut planned, &mut random);
        }
        if long && random.below(2) == 0 {
            lengthen(&mut planned.call, &mut random);
            drawn.long += 1;
        }
        if has_options(seed) {
            opt(&mut planned, &mut after, &mut options);
        }
        world.start_after(after, planned);
    }
    if trouble == Trouble::Steps {
        steps(&mut world, members, &mut random);
    }
    if trouble == Trouble::Deaths {
        for _ in 0..random.below(3) {
            let (after, who) = (Lapse::from_micros(random.below(1500)), Node(random.below(u64::from(members)) as u32));
            world.kill_after(after, who);
            if random.below(2) == 0 {
                world.restart_after(Lapse(after.0 + random.below(2_000_000)), who);
            }
        }
        world.cancels = random.below(2) == 0;
    }
    world.run(Lapse::from_secs(120));
    let context = || format!("seed {seed}, {trouble:?}, {members} members, {:?}", world.network);
    world.check().map_err(|wrong| format!("{wrong}; {}", context()))?;
    let mut tally = judge(&world, trouble).map_err(|wrong| format!("{wrong}; {}", context()))?;
    // No request is refused where there is a place for every call.
    if classes == 0 && tally.busy > 0 && world.full.is_none() {
        return Err(format!("{} requests found no place; {}", tally.busy, context()));
    }
    tally += drawn;
    Ok(tally)
}

fn judge(world: &World, trouble: Trouble) -> Result<Tally, String> {
    let figures = world.figures();
    let mut tally = Tally {
        schedules: 1,
        busy: figures.busy,
        messages: world.messages,
        stale: figures.stale,
        fates: world.fates(),
        ..Tally::default()
    };
    for (planned, error) in &world.refused {
        match error {
            StartError::WouldBlock => tally.blocked += 1,
            StartError::DeadId(_) if trouble == Trouble::Deaths && !planned.call.mode.contains(Mode::SKIP_DEAD) => {}
            StartError::UnknownFunc(RARE) | StartError::UnknownCallback(RARE) if world.lacks(planned.root) => {}
            // A stated tree may be deeper than there are classes.
            StartError::TooDeep { .. } if planned.parents.is_some() => {}
            other => return Err(format!("{other} for {planned:?}")),
        }
    }
    for made in &world.made {
        let Some((end, at)) = &made.end else { continue };
        if at.since(made.at) > made.plan.call.budget {
            return Err(format!("{} took longer than it may", made.id));
        }
        world.judge(made)?;
        tally.rewritten += u64::from(made.plan.call.mode.contains(Mode::REWRITE));
        tally.listed += u64::from(made.plan.call.mode.contains(Mode::FULL_LIST));
        tally.skipping += u64::from(!made.skipped.is_empty());
        match end {
            End::Done { .. } => {
                tally.done += 1;
                let mut all: Vec<Node> = made.plan.members.clone();
                if made.plan.call.at_root && !all.contains(&made.plan.root) {
                    all.push(made.plan.root);
                }
                all.retain(|&member| made.plan.call.at_root || member != made.plan.root);
                let sum: u64 = all.iter().map(|member| u64::from(member.0)).sum();
                let reply = end.sum().or((made.plan.call.callback == Tag::NONE || all.is_empty()).then_some(sum));
                if reply != Some(sum) {
                    return Err(format!("{} says {reply:?} instead of {sum}", made.id));
                }
            }
            End::Failed { records, tallies, .. } => {
                tally.failed += 1;
                if matches!(trouble, Trouble::Calm | Trouble::Network) {
                    return Err(format!("{} failed: {records:?}, {tallies}", made.id));
                }
            }
        }
    }
    if world.now() > Time::ZERO + Lapse::from_secs(119) {
        return Err("things still happen after two minutes".to_owned());
    }
    Ok(tally)
}
