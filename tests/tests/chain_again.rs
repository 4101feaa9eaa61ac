//! Calls over lists that were called before.
//!
//! They begin as at a machine that has made no call yet.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::{Capacities, Heap};
use umbra::sim::Random;
use umbra_core::chain::{Action, Call, Config, HEAD, Life, Machine, Mode, Node, Plan, StartError, Verdict};
use umbra_core::time::Time;
use umbra_core::tree::Shape;
use umbra_core::tree::explicit::ROOT;
use umbra_tests::chain::SUM;

const MEMBERS: u32 = 12;
const LISTS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    /// A call over one of the lists.
    Call {
        list: usize,
        plan: usize,
        dedup: bool,
    },
    Gone(u32),
    Back(u32),
    House(u32),
}

fn step(random: &mut Random) -> Step {
    let member = random.below(u64::from(MEMBERS)) as u32;
    match random.below(11) {
        0 => Step::Gone(member),
        1 => Step::Back(member),
        2 => Step::House(member),
        _ => Step::Call {
            list: random.below(LISTS as u64) as usize,
            plan: random.below(6) as usize,
            dedup: random.below(5) == 0,
        },
    }
}

/// Who is known to be dead, and who lives at the machine.
#[derive(Clone, Copy, Default)]
struct Known {
    dead: [bool; MEMBERS as usize],
    housed: [bool; MEMBERS as usize],
}

fn fresh(own: Node, known: &Known) -> Machine<Heap> {
    let config = Config { classes: 0, ..Config::new(own, Life(1)) };
    let mut machine = Capacities { call_bytes: 4096, ..Capacities::new(MEMBERS) }.machine(config).unwrap();
    machine.register(SUM).unwrap();
    for (at, node) in (0..MEMBERS).map(Node).enumerate() {
        if known.housed[at] {
            machine.house(node).unwrap();
        }
        if known.dead[at] {
            machine.on_gone(node, Time(1));
        }
    }
    machine
}

/// Whom the machine sends what behind the head, and who runs the function, until nothing is left but to wait; or why it refuses.
type Begun = Result<Vec<(Node, Option<Vec<u8>>)>, StartError>;

fn begin(machine: &mut Machine<Heap>, call: &Call<'_>) -> Begun {
    let mut buffer = [0; 4096];
    let handle = machine.start(call, Time(1))?;
    let mut seen = Vec::new();
    while let Some(action) = machine.poll(Time(1), &mut buffer) {
        match action {
            Action::Send { to, len_bytes, .. } => seen.push((to, Some(buffer[HEAD..len_bytes].to_vec()))),
            Action::Run { handle, .. } => {
                let run = |_, work: &mut umbra_core::chain::Work<'_>| {
                    seen.push((work.node, None));
                    Verdict::Done
                };
                machine.run_on(handle, run).unwrap();
            }
            Action::Ended { .. } => {}
        }
    }
    let _ = machine.cancel(handle);
    machine.release(handle).unwrap();
    while machine.poll(Time(1), &mut buffer).is_some() {}
    assert!(machine.is_empty());
    Ok(seen)
}

#[test]
fn a_call_begins_as_if_it_were_the_first_one() {
    let parents = [ROOT, 0, 1, 0];
    let chain = |_, at: u32| at.checked_sub(1);
    let plans = [
        Plan::Shape(Shape::BINARY),
        Plan::Shape(Shape::BINOMIAL),
        Plan::Led(Shape::BINARY),
        Plan::Led(Shape::FLAT),
        Plan::Parents(&parents),
        Plan::Function(&chain),
    ];
    let (mut begun, mut refused) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let lists: [Vec<Node>; LISTS] = std::array::from_fn(|_| {
            let len = random.below(8);
            (0..len).map(|_| Node(random.below(u64::from(MEMBERS)) as u32)).collect()
        });
        let mut known = Known::default();
        let own = Node(random.below(u64::from(MEMBERS)) as u32);
        let mut machine = fresh(own, &known);
        for number in 0..60 {
            match step(&mut random) {
                Step::Call { list, plan, dedup } => {
                    let mode = if dedup { Mode::DEDUP } else { Mode::empty() };
                    let call = Call { plan: plans[plan], mode, ..Call::new(SUM, &lists[list]) };
                    let (here, there) = (begin(&mut machine, &call), begin(&mut fresh(own, &known), &call));
                    assert_eq!(here, there, "call {number} of seed {seed}: {call:?}");
                    *if here.is_ok() { &mut begun } else { &mut refused } += 1;
                }
                Step::Gone(member) if Node(member) != own && !known.housed[member as usize] => {
                    machine.on_gone(Node(member), Time(1));
                    known.dead[member as usize] = true;
                }
                Step::Back(member) if known.dead[member as usize] => {
                    machine.on_back(Node(member));
                    known.dead[member as usize] = false;
                }
                Step::House(member) if Node(member) != own => {
                    machine.house(Node(member)).unwrap();
                    // Whoever lives here is not dead, whatever was known.
                    known.housed[member as usize] = true;
                    known.dead[member as usize] = false;
                }
                Step::Gone(_) | Step::Back(_) | Step::House(_) => {}
            }
        }
    }
    assert!(begun > 1000 && refused > 1000, "{begun} begun, {refused} refused");
}
