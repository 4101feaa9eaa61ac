//! Calls of four members in which one thing fails: at every member, step and tree.
//!
//! Each is run in every order of what can happen, and its failure has to be named in all of them.

use umbra_core::chain::{Code, Mode, Node, Plan, Stage};
use umbra_core::tree::Shape;

use super::explore::{Clock, every_order};
use super::{Act, End, PREFIX, Planned, SUM, World, sum_over};

/// The trees over few members.
pub const SHAPES: [Shape; 4] = [Shape::BINARY, Shape::BINOMIAL, Shape::FLAT, Shape::CHAIN];
/// Who of up to four members lives at whose machine.
pub const HOMES: [[u32; 4]; 4] = [[0, 1, 2, 3], [0, 0, 2, 2], [0, 1, 1, 1], [0, 0, 0, 0]];
/// Ways to report failures.
const MODES: [Mode; 5] = [
    Mode::empty(),
    Mode::COLLECT,
    Mode::COLLECT.union(Mode::CANCEL_ON_FAIL),
    Mode::CUT_THROUGH,
    Mode::FULL_LIST.union(Mode::REWRITE),
];

/// The sum over so many members, along this tree.
#[must_use]
pub fn planned(members: u32, shape: Shape, mode: Mode) -> Planned {
    let mut planned = sum_over(0..members);
    (planned.call.plan, planned.call.mode) = (Plan::Shape(shape), mode);
    if mode.contains(Mode::REWRITE) {
        planned.call.header = PREFIX;
    }
    planned
}

/// A world in which that call is under way and messages may overtake each other; `change` is done to it before.
///
/// # Panics
/// If the call is refused.
pub fn world(members: u32, homes: [u32; 4], shape: Shape, mode: Mode, change: impl Fn(&mut World)) -> World {
    let mut world = World::new(members, 1);
    world.network.reorder = true;
    for head in 0..members {
        world.house((head..members).filter(|&member| homes[member as usize] == head));
    }
    change(&mut world);
    world.start(&planned(members, shape, mode)).expect("a call that is not refused");
    world
}

/// What fails.
#[derive(Clone, Copy, Debug)]
enum What {
    /// User code of this member does this, which is to be reported so.
    Function(Node, Act, Stage, Code),
    /// So does the callback of the member above this one.
    Callback(u32, Act),
    /// This member has no such function.
    Lacks(u32),
    /// The network takes nothing to this member.
    Refused(u32),
    /// Or there is no room for it.
    Full(u32),
}

/// One such call.
#[derive(Clone, Copy, Debug)]
pub struct Single {
    shape: Shape,
    homes: [u32; 4],
    mode: Mode,
    what: What,
}

fn each(modes: &[Mode], whats: impl IntoIterator<Item = What> + Clone) -> Vec<Single> {
    let places = SHAPES.into_iter().flat_map(|shape| HOMES.map(|homes| (shape, homes)));
    let ways = places.flat_map(|(shape, homes)| modes.iter().map(move |&mode| (shape, homes, mode)));
    let all = ways.flat_map(|(shape, homes, mode)| {
        let single = move |what| Single { shape, homes, mode, what };
        whats.clone().into_iter().map(single)
    });
    all.filter(Single::can_be).collect()
}

/// Those whose function fails.
#[must_use]
pub fn functions() -> Vec<Single> {
    let acts = [
        (Act::Fault(42), Stage::Func, Code::Fault),
        (Act::Panic, Stage::Func, Code::Panic),
        (Act::Excess, Stage::Reply, Code::ReplyTooLarge),
        (Act::Hang, Stage::Func, Code::Timeout),
    ];
    let at = |(act, stage, code)| (0..4).map(move |bad| What::Function(Node(bad), act, stage, code));
    each(&MODES, acts.into_iter().flat_map(at))
}

/// Those whose callback fails.
#[must_use]
pub fn callbacks() -> Vec<Single> {
    let at = |act| move |child| What::Callback(child, act);
    let faults = each(&[Mode::empty(), Mode::COLLECT], (1..4).map(at(Act::Fault(7))));
    [faults, each(&[Mode::COLLECT], (1..4).map(at(Act::Hang)))].concat()
}

/// Those in which a member lacks the function.
#[must_use]
pub fn unknown() -> Vec<Single> {
    each(&MODES, (1..4).map(What::Lacks))
}

/// Those in which no request reaches a member.
#[must_use]
pub fn unreachable() -> Vec<Single> {
    each(&MODES, (1..4).flat_map(|bad| [What::Refused(bad), What::Full(bad)]))
}

impl Single {
    /// Whether this can fail: whoever lives with the member above takes part in the function that this one has, and hears
    /// from it without the network.
    fn can_be(&self) -> bool {
        let home = |at: u32| self.homes[at as usize];
        match self.what {
            What::Lacks(bad) => home(bad) == bad && self.homes.iter().filter(|&&other| other == bad).count() == 1,
            What::Refused(bad) | What::Full(bad) => home(self.above(bad)) != home(bad),
            What::Function(..) | What::Callback(..) => true,
        }
    }

    fn above(&self, at: u32) -> u32 {
        self.shape.parent(at).expect("not the maker")
    }

    fn change(&self, world: &mut World) {
        let edge = |bad| Some((Node(self.above(bad)), Node(bad)));
        match self.what {
            What::Function(bad, act, ..) => _ = world.script.functions.insert(bad, act),
            What::Callback(child, act) => {
                _ = world.script.callbacks.insert((Node(self.above(child)), Node(child)), act);
            }
            What::Lacks(bad) => _ = world.at(Node(bad)).unregister(SUM),
            What::Refused(bad) => world.refuses = edge(bad),
            What::Full(bad) => world.full = edge(bad),
        }
    }

    /// How deep a member is, and how many are below and with it.
    fn place(&self, at: u32) -> (u8, u32) {
        let up = |at: u32| std::iter::successors(Some(at), |&at| self.shape.parent(at));
        (up(at).count() as u8 - 1, (0..4).filter(|&other| up(other).any(|above| above == at)).count() as u32)
    }

    fn is_named(&self, end: &End) -> bool {
        let records = end.records();
        let is_all = |expected: (u32, Stage, Code), depth: u8, taken: u32| {
            matches!(records, [record] if (record.origin.0, record.stage, record.code) == expected
                && (record.depth, record.count) == (depth, taken))
        };
        match self.what {
            What::Function(bad, _, stage, code) => {
                records.iter().any(|record| (record.origin, record.stage, record.code) == (bad, stage, code))
            }
            What::Callback(child, _) => {
                let expected = (Node(self.above(child)), Stage::Callback, child);
                matches!(records, [record] if (record.origin, record.stage, record.aux) == expected)
            }
            What::Lacks(bad) => {
                let (depth, taken) = self.place(bad);
                is_all((bad, Stage::Setup, Code::UnknownFunc), depth, taken)
            }
            What::Refused(bad) | What::Full(bad) => {
                let (depth, taken) = self.place(bad);
                let code = if matches!(self.what, What::Full(_)) { Code::NoResource } else { Code::Transport };
                is_all((bad, Stage::Forward, code), depth - 1, taken)
            }
        }
    }

    /// Runs it in every order; how many there are.
    ///
    /// # Errors
    /// What was reported instead, and in which order.
    ///
    /// # Panics
    /// If the call does not end.
    pub fn every_order(&self) -> Result<u64, String> {
        let build = || world(4, self.homes, self.shape, self.mode, |world| self.change(world));
        every_order(Clock::Last, build, |world| {
            let (end, _) = world.made[0].end.as_ref().expect("the call has ended");
            if self.is_named(end) { Ok(()) } else { Err(format!("{end:?} of {self:?}")) }
        })
    }
}
