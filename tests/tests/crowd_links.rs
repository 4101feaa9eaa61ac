//! What comes damaged, again, late, in another order or from somebody else.
//!
//! The test plays a member itself, over threads and over processes, and does with its messages what links do. Numbers
//! are as in the list of scenarios; `chain_links`, `chain_time` and `chain_orders` have them in the simulator.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::{Duration, Instant};

use umbra::call::Shape as Place;
use umbra::sim::Random;
use umbra_core::chain::{Call, Code, Config, Life, Node, Plan, REQUEST, RESPONSE};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_tests::crowd::wire::{End, Message};
use umbra_tests::crowd::{Act, Crowd, Driver, Room, Script, What, Wire, sum_over};

umbra_tests::on_every_driver!(
    s22_a_damaged_request_is_refused_or_dropped_and_its_sender_ends_in_time,
    s42_a_request_that_comes_again_runs_nothing_twice_and_is_answered_as_before,
    s43_delays_and_other_orders_change_no_outcome,
    s44_answers_that_come_again_or_from_others_have_no_effect,
    s45_a_second_parent_is_refused_and_the_first_keeps_the_call,
    s46_a_link_that_says_all_again_has_no_function_run_twice,
);

static NONE: Script = Script(Vec::new());
/// Where a refusal says why.
const CODE_AT: usize = 53;
/// Bytes of it.
const REFUSAL: usize = 64;

/// Members 0 to 6, and two seats for the test to play.
fn crowd(driver: Driver) -> Crowd {
    Crowd::beside(driver, Place { message_bytes: 16 << 10, messages: 64, ..Place::new(9) }, 2, |_| Room::USUAL)
}

const FIRST: u32 = 7;
const SECOND: Node = Node(8);

/// A transport that may lose messages.
const fn lossy(config: Config) -> Config {
    Config { ask: Lapse::from_millis(5), silence: Lapse::from_secs(20), ..config }
}

fn nodes(numbers: impl IntoIterator<Item = u32>) -> Vec<Node> {
    numbers.into_iter().map(Node).collect()
}

/// 7 above 1 and 2, 1 above 3 and 4, 2 above 5 and 6.
fn tree() -> Vec<Node> {
    nodes([7, 1, 2, 3, 4, 5, 6])
}

const TREE_SUM: u64 = 28;

fn is_request(message: &Message) -> bool {
    message.1.len() > REQUEST && message.1[1] == 1
}

/// The bits of a request that say in which life its maker is.
const LIFE: std::ops::Range<usize> = 64..96;

/// Whether a bit of a request is of the life of its maker, or of the number of the call in that.
fn is_of_name(bit: usize) -> bool {
    (24..32).contains(&bit) || (LIFE.start..128).contains(&bit)
}

/// Every so-manieth bit of the request to an inner member is turned over, in a call of its own each, and the next call is as it was.
fn s22_a_damaged_request_is_refused_or_dropped_and_its_sender_ends_in_time(driver: Driver) {
    let mut usual = crowd(driver);
    let mut usual_wire = usual.wire(FIRST, |config| config);
    let all = tree();
    let call = Call { budget: Lapse::from_millis(60), ..sum_over(&all, &NONE) };
    let undamaged = |wire: &mut Wire| {
        let handle = wire.start(&Call { budget: Lapse::from_secs(20), ..call });
        wire.carry(handle, |wire, message| message.map_or((), |message| wire.pass(message)))
    };
    // 72 bytes of request and three members; every seventh meets each bit of a byte.
    let bits = 8 * (REQUEST + 3 * 4);
    let (mut failed, mut turned) = (0, 0);
    for bit in (0..bits).step_by(7) {
        // Whoever is told of a later life or call believes it, so he is none of those that the other bits are shown.
        let mut own = is_of_name(bit).then(|| {
            let crowd = crowd(driver);
            let wire = crowd.wire(FIRST, |config| config);
            (crowd, wire)
        });
        let wire = own.as_mut().map_or(&mut usual_wire, |(_, wire)| wire);
        assert_eq!(undamaged(wire), Ok(TREE_SUM), "before bit {bit}");
        let mut attempt = || {
            let handle = wire.start(&call);
            wire.carry(handle, |wire, message| {
                let Some((is_ours, mut message)) = message else { return };
                if is_ours && message.0 == Node(1) && is_request(&message) {
                    message.1[bit / 8] ^= 1 << (bit % 8);
                }
                wire.pass((is_ours, message));
            })
        };
        // Whoever got the request, is below it, or is named in it now; beside other work somebody else may be late.
        let is_right = |end: &End| match end {
            Ok(sum) => *sum == TREE_SUM,
            Err(record) => [1, 3, 4].contains(&record.origin.0) || bit >= 8 * REQUEST,
        };
        let mut ends = (0..8).map(|_| attempt());
        let end = ends.find(is_right).unwrap_or_else(|| panic!("bit {bit}: eight times another one is named"));
        turned += 1;
        failed += u32::from(end.is_err());
        let life = wire.machine.config().life;
        if LIFE.contains(&bit) && Life(life.0 ^ 1 << (bit - LIFE.start)).is_after(life) {
            let record = undamaged(wire).unwrap_err();
            assert_eq!((record.origin, record.code), (Node(1), Code::StaleRoot), "after bit {bit}");
        } else {
            assert_eq!(undamaged(wire), Ok(TREE_SUM), "after bit {bit}");
        }
    }
    assert!(failed > turned / 2, "{failed} of {turned}");
    // Nobody has ended, and nobody's table is full.
    let others = usual.all()[..7].to_vec();
    assert_eq!(usual.sum(&others), 21);
}

fn s42_a_request_that_comes_again_runs_nothing_twice_and_is_answered_as_before(driver: Driver) {
    let mut crowd = crowd(driver);
    let mut wire = crowd.wire(FIRST, lossy);
    let (members, slow) = (nodes([7, 1]), Script::new().func(1, Act::Slow(30)));
    let mut requests = Vec::new();
    let handle = wire.start(&sum_over(&members, &slow));
    let (mut answers, mut again) = (Vec::new(), None);
    let end = wire.carry(handle, |wire, message| match message {
        Some((true, message)) if is_request(&message) => {
            // Before it runs, and while it does.
            (0..3).for_each(|_| wire.give(&message));
            again.get_or_insert_with(|| Instant::now() + Duration::from_millis(10));
            requests.push(message);
        }
        Some((true, message)) => wire.give(&message),
        Some((false, message)) => {
            if message.1.len() == RESPONSE + 8 {
                answers.push(message.clone());
            }
            wire.take(&message);
        }
        None => {
            if again.is_some_and(|at| at <= Instant::now()) {
                again = None;
                wire.give(&requests[0]);
            }
        }
    });
    assert_eq!(end, Ok(8));
    // After it ran.
    crowd.first.serve(Duration::from_millis(20), || false);
    while wire.came().is_some() {}
    wire.give(&requests[0]);
    let begun = Instant::now();
    let later = loop {
        match wire.came() {
            Some(message) if message.1.len() == RESPONSE + 8 => break message,
            _ => assert!(begun.elapsed() < Duration::from_secs(20), "it is not answered"),
        }
        crowd.first.serve(Duration::from_millis(1), || false);
    };
    assert_eq!(later, answers[0], "the same answer");
    assert_eq!(crowd.settle().began(), [1], "its function ran once");
}

fn s43_delays_and_other_orders_change_no_outcome(driver: Driver) {
    let mut crowd = crowd(driver);
    let mut wire = crowd.wire(FIRST, |config| config);
    let all = tree();
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let mut held: Vec<(bool, Message)> = Vec::new();
        let flat = Call { plan: Plan::Shape(Shape::FLAT), ..sum_over(&all, &NONE) };
        let call = if seed % 2 == 0 { flat } else { sum_over(&all, &NONE) };
        let handle = wire.start(&call);
        let end = wire.carry(handle, |wire, message| {
            held.extend(message);
            // Any of them goes now, or none does.
            if random.below(3) == 0 && !held.is_empty() {
                let next = held.swap_remove(random.below(held.len() as u64) as usize);
                wire.pass(next);
            }
        });
        assert_eq!(end, Ok(TREE_SUM), "seed {seed}");
        assert!(held.is_empty(), "seed {seed}");
    }
    let traces = crowd.settle();
    assert_eq!(traces.began().len(), 600);
}

/// The test is a child: what it answers comes again, with another generation, from others, and when all is over.
fn s44_answers_that_come_again_or_from_others_have_no_effect(driver: Driver) {
    let mut crowd = crowd(driver);
    let mut wire = crowd.wire(FIRST, |config| config);
    // 0 above 1, 1 above 7 and 2; 2 is slow, so that 1 still waits.
    let (members, parents) = (nodes([0, 1, 7, 2]), [umbra_core::tree::explicit::ROOT, 0, 1, 1]);
    let slow = Script::new().func(2, Act::Slow(50));
    let plan = Plan::Parents(&parents);
    let mut old: Option<Message> = None;
    for round in 0..3 {
        let handle = crowd.first.member.start(&Call { plan, ..sum_over(&members, &slow) }).unwrap();
        let request = until(&mut crowd, || wire.came());
        assert!(is_request(&request));
        wire.take(&request);
        let answer = wire.said.pop().unwrap();
        assert_eq!((answer.0, answer.1.len()), (Node(1), RESPONSE + 8));
        let mut changed = answer.clone();
        // The generation of the place that it answers to.
        changed.1[22] ^= 1;
        wire.give(&changed);
        wire.give_as(Node(3), &answer);
        if let Some(old) = &old {
            wire.give(old);
        }
        (0..3).for_each(|_| wire.give(&answer));
        let reply = crowd.end(handle, &members).unwrap();
        assert_eq!(reply.data, 10_u64.to_le_bytes(), "round {round}");
        wire.give(&answer);
        old = Some(answer);
    }
    let traces = crowd.settle();
    // Each round two repetitions, one of another generation, one when all was over; and of every round but the first an old one. One
    // from another member is dropped before, or is one of them.
    assert!(traces.0[&1].figures[2] >= 3 * 4 + 2, "{:?}", traces.0[&1]);
    assert_eq!(traces.combined(1).len(), 2, "of each child the same number of answers: {:?}", traces.combined(1));
    assert_eq!(traces.count(What::Combined), 3 * 3);
}

/// Serves the test's own member until there is something.
fn until<T>(crowd: &mut Crowd, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not come");
        crowd.first.serve(Duration::from_millis(1), || false);
    }
}

fn s45_a_second_parent_is_refused_and_the_first_keeps_the_call(driver: Driver) {
    let mut crowd = crowd(driver);
    let mut wire = crowd.wire(FIRST, |config| config);
    let (members, slow) = (nodes([7, 1]), Script::new().func(1, Act::Slow(1500)));
    let handle = wire.start(&sum_over(&members, &slow));
    let request = wire.said.pop().unwrap();
    wire.give(&request);
    crowd.until(1, What::Began);
    wire.give_as(SECOND, &request);
    let (from, refusal) = until(&mut crowd, || wire.came_for(SECOND));
    assert_eq!((from, refusal.len(), refusal[CODE_AT]), (Node(1), REFUSAL, Code::SecondParent as u8));
    let end = wire.carry(handle, |wire, message| message.map_or((), |message| wire.pass(message)));
    assert_eq!(end, Ok(8), "the first keeps it");
    assert!(wire.came_for(SECOND).is_none(), "and the second hears nothing more");
    assert_eq!(crowd.settle().began(), [1]);
}

/// At every message of a call everything that went before on this link is said again, in its order.
fn s46_a_link_that_says_all_again_has_no_function_run_twice(driver: Driver) {
    let mut crowd = crowd(driver);
    let mut wire = crowd.wire(FIRST, lossy);
    let (all, slow) = (tree(), Script::new().everybody(Act::Slow(2)));
    // Two requests and two answers, at least.
    for moment in 0..4 {
        for again in 1..3 {
            let (mut passed, mut lost) = (Vec::new(), 0);
            let handle = wire.start(&sum_over(&all, &slow));
            let end = wire.carry(handle, |wire, message| {
                let Some(message) = message else { return };
                passed.push(message.clone());
                if passed.len() == moment + 1 {
                    // What is on its way is lost, and said again.
                    lost += 1;
                    (0..again).for_each(|_| passed.iter().cloned().for_each(|message| wire.pass(message)));
                } else {
                    wire.pass(message);
                }
            });
            assert_eq!((end, lost), (Ok(TREE_SUM), 1), "reset at message {moment}, said {again} times");
        }
    }
    let traces = crowd.settle();
    assert_eq!(traces.began().len(), 8 * 6);
}
