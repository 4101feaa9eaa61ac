//! Time, death, cancellation, and messages that come twice or from strangers.
//!
//! Numbers are as in the list of scenarios.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Capacities;
use umbra_core::chain::{Action, Code, Config, HEAD, Life, Mode, Node, Plan, Stage, Tallies, peek_cancel};
use umbra_core::time::{Lapse, Time};
use umbra_core::tree::Shape;
use umbra_tests::chain::check::{failed, fifteen, origins, tallies};
use umbra_tests::chain::{Act, Planned, RARE, SUM, World, sum_over};

#[test]
fn s33_a_leaf_that_hangs_is_named_and_not_its_parents() {
    for leaf in 15..31 {
        let mut world = World::new(31, 1);
        world.script.functions.insert(Node(leaf), Act::Hang);
        let end = world.call(&sum_over(0..31));
        assert_eq!(origins(failed(&end).1), [(leaf, Stage::Func, Code::Timeout)]);
        assert!(world.made[0].end.as_ref().unwrap().1 <= Time::ZERO + Lapse::from_secs(1));
    }
}

#[test]
fn s33_a_leaf_whose_code_never_returns_is_named_by_its_parent() {
    for leaf in [15, 22, 30] {
        let mut world = World::new(31, 1);
        world.stuck = Some(Node(leaf));
        let at = world.start(&sum_over(0..31)).unwrap();
        world.run(Lapse::from_secs(60));
        let (end, when) = world.made[at].end.clone().unwrap();
        assert_eq!(origins(failed(&end).1), [(leaf, Stage::Child, Code::Timeout)]);
        assert!(when <= Time::ZERO + Lapse::from_secs(1));
    }
}

#[test]
fn s34_slow_is_not_dead() {
    let config =
        Config { ask: Lapse::from_millis(5), silence: Lapse::from_millis(40), ..Config::new(Node(0), Life(1)) };
    let mut world = World::with(1, Capacities { call_bytes: 4096, ..Capacities::new(31) }, config);
    world.script.functions.insert(Node(22), Act::Slow(Lapse::from_millis(900)));
    assert_eq!(world.call(&sum_over(0..31)).sum(), Some(465));
    assert!(world.figures().alive > 100, "the leaf says that it lives");
}

#[test]
fn s35_a_silent_child_is_found_long_before_the_deadline() {
    let config =
        Config { ask: Lapse::from_millis(5), silence: Lapse::from_millis(40), ..Config::new(Node(0), Life(1)) };
    let mut world = World::with(1, Capacities { call_bytes: 4096, ..Capacities::new(31) }, config);
    world.stuck = Some(Node(22));
    let at = world.start(&sum_over(0..31)).unwrap();
    world.run(Lapse::from_secs(60));
    let (end, when) = world.made[at].end.clone().unwrap();
    assert_eq!(origins(failed(&end).1), [(22, Stage::Child, Code::Timeout)]);
    assert!(when <= Time::ZERO + Lapse::from_millis(60));
}

#[test]
fn s35_a_death_is_named_wherever_it_happens() {
    // Before setup, while the function runs, while it waits for its children, after it has answered.
    for (after, well) in [(0, false), (20, false), (90, false), (4000, true)] {
        let mut world = World::new(15, 1);
        world.network.delay = Lapse::from_micros(10);
        world.network.work = Lapse::from_micros(5);
        world.script.functions.insert(Node(6), Act::Slow(Lapse::from_micros(60)));
        world.script.functions.insert(Node(14), Act::Slow(Lapse::from_micros(60)));
        world.script.functions.insert(Node(1), Act::Slow(Lapse::from_micros(9000)));
        world.kill_after(Lapse::from_micros(after), Node(6));
        let at = world.start(&fifteen(true)).unwrap();
        world.run(Lapse::from_secs(10));
        world.check().unwrap();
        let (end, _) = world.made[at].end.clone().unwrap();
        if well {
            assert_eq!(end.sum(), Some(105), "it has answered before it died");
            continue;
        }
        let (account, records) = failed(&end);
        assert!(matches!(origins(records)[..], [(6, Stage::Child | Stage::Forward, Code::PeerDead)]), "{records:?}");
        assert_eq!((account.ok, account.failed, account.unreached + account.unknown), (12, 1, 2));
    }
}

#[test]
fn s36_a_dead_interior_member_leaves_no_place_taken() {
    let mut world = World::new(15, 1);
    world.network.delay = Lapse::from_micros(10);
    for leaf in 7..15 {
        world.script.functions.insert(Node(leaf), Act::Slow(Lapse::from_micros(500)));
    }
    world.kill_after(Lapse::from_micros(100), Node(2));
    let at = world.start(&fifteen(true)).unwrap();
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    let (end, when) = world.made[at].end.clone().unwrap();
    assert_eq!(failed(&end).0, tallies(8, 1, 0, 6));
    assert!(when < Time::ZERO + Lapse::from_millis(2), "nobody waits for a deadline");
}

#[test]
fn s37_a_dead_maker_frees_all_places() {
    let mut world = World::new(15, 1);
    world.network.delay = Lapse::from_micros(10);
    world.script.functions.insert(Node(9), Act::Slow(Lapse::from_micros(500)));
    world.kill_after(Lapse::from_micros(100), Node(0));
    world.start(&fifteen(false)).unwrap();
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    assert_eq!(world.call(&sum_over(1..15)).sum(), Some(105));
}

#[test]
fn s38_another_life_of_the_maker_is_not_its_earlier_one() {
    let mut world = World::new(16, 1);
    world.spy = true;
    world.network.delay = Lapse::from_micros(10);
    world.script.functions.insert(Node(9), Act::Slow(Lapse::from_micros(500)));
    world.script.only = Some((Node(0), 1));
    world.kill_after(Lapse::from_micros(100), Node(0));
    world.restart_after(Lapse::from_micros(120), Node(0));
    world.start(&fifteen(false)).unwrap();
    world.run(Lapse::from_micros(130));
    // The number of the call is the same again, the life is not.
    let at = world.start(&sum_over((0..7).chain([15]))).unwrap();
    world.run(Lapse::from_secs(10));
    world.check().unwrap();
    assert_eq!(world.made[at].end.as_ref().unwrap().0.sum(), Some(36));
    assert_eq!((world.made[0].id.seq, world.made[1].id.seq), (1, 1));
    // A request of the first life that comes only now is refused by whoever knows the second one.
    let request = world.heard.iter().find(|(to, _)| *to == Node(1)).unwrap().1.clone();
    assert_eq!(refusal(&mut world, Node(0), Node(15), &request), Code::StaleRoot as u8);
}

/// The code with which a member refuses a request, as it tells whoever sent it.
fn refusal(world: &mut World, from: Node, to: Node, request: &[u8]) -> u8 {
    let now = world.now();
    world.at(to).on_message(from, to, request, now).unwrap();
    let mut buffer = [0; 4096];
    let told = world.at(to).poll(now, &mut buffer);
    assert!(matches!(told, Some(Action::Send { to, len_bytes: 64, .. }) if to == from), "{told:?}");
    buffer[53]
}

/// A world of three whose settings are these, and the request that 0 has sent to 1; that call is over.
fn asked_before(capacities: Capacities) -> (World, Vec<u8>) {
    let mut world = World::with(1, capacities, Config::new(Node(0), Life(1)));
    world.spy = true;
    assert_eq!(world.call(&sum_over(0..3)).sum(), Some(3));
    world.spy = false;
    let request = world.heard.iter().find(|(to, _)| *to == Node(1)).unwrap().1.clone();
    (world, request)
}

/// The same request for another call of its maker.
fn of_call(seq: u32, request: &[u8]) -> Vec<u8> {
    let mut request = request.to_vec();
    request[12..16].copy_from_slice(&seq.to_le_bytes());
    request
}

#[test]
fn d49_a_request_of_another_version_is_refused_with_the_own_one() {
    let (mut world, mut request) = asked_before(Capacities::new(3));
    for (version, seq) in [(0, 100), (2, 101), (255, 102)] {
        request = of_call(seq, &request);
        request[0] = version;
        assert_eq!(refusal(&mut world, Node(0), Node(1), &request), Code::Version as u8);
        // Nothing was remembered: in the version of its receiver the same request is taken.
        request[0] = umbra_core::chain::VERSION;
        let (now, runs) = (world.now(), world.figures().runs);
        world.at(Node(1)).on_message(Node(0), Node(1), &request, now).unwrap();
        let told = world.at(Node(1)).poll(now, &mut [0; 4096]);
        assert!(matches!(told, Some(Action::Run { .. })), "{told:?}");
        assert_eq!(world.figures().runs, runs + 1);
    }
}

#[test]
fn d54_a_request_for_replies_that_nobody_combines_is_refused_as_malformed() {
    let mut world = World::with(1, Capacities::new(3), Config::new(Node(0), Life(1)));
    world.spy = true;
    let mut planned = sum_over(0..3);
    planned.call.plan = Plan::Shape(Shape::CHAIN);
    assert_eq!(world.call(&planned).sum(), Some(3));
    // Of 1, which asks 2, and of 2, which asks nobody.
    for (seq, node, accepted) in [(100, Node(1), false), (101, Node(2), true)] {
        let mut request = of_call(seq, &world.heard.iter().find(|(to, _)| *to == node).unwrap().1);
        request[HEAD + 4..HEAD + 8].fill(0);
        let (from, now) = (Node(node.0 - 1), world.now());
        if accepted {
            world.at(node).on_message(from, node, &request, now).unwrap();
            assert!(matches!(world.at(node).poll(now, &mut [0; 4096]), Some(Action::Run { .. })));
        } else {
            assert_eq!(refusal(&mut world, from, node, &request), Code::Malformed as u8);
        }
    }
}

#[test]
fn d54_a_request_that_contradicts_itself_is_refused_as_malformed_each_time_it_comes() {
    let (mut world, request) = asked_before(Capacities::new(3));
    let len = request.len();
    let changes: [fn(&mut Vec<u8>); 6] = [
        // Cut off, too long, more members than there are bytes, none at all, another one first, deeper than calls may be.
        |bytes| _ = bytes.pop(),
        |bytes| bytes.push(0),
        |bytes| bytes[24..28].copy_from_slice(&u32::MAX.to_le_bytes()),
        |bytes| bytes[24..28].fill(0),
        |bytes| bytes[72] = 2,
        |bytes| bytes[17] = 200,
    ];
    for (seq, change) in (100..).zip(changes) {
        let mut bad = of_call(seq, &request);
        change(&mut bad);
        for time in 0..2 {
            assert_eq!(refusal(&mut world, Node(0), Node(1), &bad), Code::Malformed as u8, "{seq}, time {time}");
        }
        // Also if it is whole then: whoever sent it counts it as failed.
        assert_eq!(refusal(&mut world, Node(0), Node(1), &of_call(seq, &request)), Code::Malformed as u8);
    }
    assert_eq!((request.len(), world.began.len()), (len, 3));
    world.run(Lapse::from_secs(1));
    world.check().unwrap();
}

#[test]
fn d32_an_answer_that_is_not_kept_is_gone_and_its_function_runs_no_more() {
    // The answer is longer than those that are kept.
    let (mut world, request) = asked_before(Capacities { answer_bytes: 16, ..Capacities::new(3) });
    assert_eq!(refusal(&mut world, Node(0), Node(1), &request), Code::ReplyGone as u8);
    // So many calls came since that nothing is known of this one.
    let (mut world, request) = asked_before(Capacities { remembered: 2, ..Capacities::new(3) });
    for _ in 0..3 {
        assert_eq!(world.call(&sum_over(0..3)).sum(), Some(3));
    }
    assert_eq!(refusal(&mut world, Node(0), Node(1), &request), Code::ReplyGone as u8);
    // So is whoever asks after it: its head alone, as a question.
    let mut question = request[..32].to_vec();
    question[1] = ASK;
    assert_eq!(refusal(&mut world, Node(0), Node(1), &question), Code::ReplyGone as u8);
    assert_eq!(world.began.len(), 4 * 3, "nothing ran for these");
    world.check().unwrap();
}

/// What a question says that it is.
const ASK: u8 = 7;

/// Request and cancellation are lost, and only the question after the answer comes.
#[test]
fn whoever_is_asked_after_a_call_that_never_came_does_not_begin_it_and_has_not_failed() {
    let (mut world, request) = asked_before(Capacities::new(3));
    let late = of_call(100, &request);
    let mut question = late[..32].to_vec();
    question[1] = ASK;
    let (now, mut buffer) = (world.now(), [0; 4096]);
    for message in [&question, &late] {
        world.at(Node(1)).on_message(Node(0), Node(1), message, now).unwrap();
        let told = world.at(Node(1)).poll(now, &mut buffer);
        assert!(matches!(told, Some(Action::Send { to: Node(0), len_bytes: 48, .. })), "{told:?}");
        // One member is not reached, and no failure.
        assert_eq!((buffer[1], buffer[40], &buffer[24..28]), (3, 1, &[0; 4][..]));
        assert_eq!(world.at(Node(1)).poll(now, &mut buffer), None);
    }
}

/// A member asks after a call that the one it asks is to make only later, and lives beside another one.
#[test]
fn a_question_after_a_call_that_is_not_made_yet_does_not_keep_it_from_being_made() {
    let (mut world, request) = asked_before(Capacities::new(3));
    world.house([1, 2]);
    let mut question = of_call(4, &request)[..32].to_vec();
    question[1] = ASK;
    // Its maker is member 1, in its first life.
    question[4..8].copy_from_slice(&1_u32.to_le_bytes());
    assert_eq!(refusal(&mut world, Node(0), Node(2), &question), Code::ReplyGone as u8);
    let mut planned = Planned { root: Node(1), ..sum_over([1, 0, 2]) };
    planned.call.plan = Plan::Shape(Shape::CHAIN);
    for _ in 0..5 {
        assert_eq!(world.call(&planned).sum(), Some(3));
    }
    world.check().unwrap();
}

#[test]
fn d21_d23_what_is_released_at_another_member_is_unknown_there_and_runs_to_its_end() {
    for (func, callback, code) in [(RARE, SUM, Code::UnknownFunc), (SUM, RARE, Code::UnknownCallback)] {
        let mut world = World::new(7, 1);
        world.script.functions.insert(Node(1), Act::Slow(Lapse::from_millis(1)));
        let mut planned = sum_over(0..7);
        (planned.call.func, planned.call.callback, planned.call.mode) = (func, callback, Mode::COLLECT);
        let under_way = world.start(&planned).unwrap();
        world.run(Lapse::from_micros(10));
        assert!(world.at(Node(1)).unregister(RARE));
        let after = world.start(&planned).unwrap();
        world.run(Lapse::from_secs(1));
        world.check().unwrap();
        let end = |at: usize| world.made[at].end.clone().unwrap().0;
        assert_eq!(end(under_way).sum(), Some(21), "the call that was there before");
        let end = end(after);
        let (account, records) = failed(&end);
        assert_eq!((origins(records), records[0].aux), (vec![(1, Stage::Setup, code)], RARE.0));
        assert_eq!(account, tallies(4, 1, 2, 0));
        // It is there again, in another life of its place.
        world.at(Node(1)).register(RARE).unwrap();
        assert_eq!(world.call(&planned).sum(), Some(21));
    }
}

#[test]
fn s33_whoever_waits_with_answers_in_order_for_one_that_hangs_is_not_blamed() {
    // 2 is below 1 and hangs; the answer of 3 waits for that of 1.
    for together in [false, true] {
        let mut world = World::new(4, 1);
        if together {
            world.house(0..4);
        }
        world.script.functions.insert(Node(2), Act::Hang);
        let mut planned = sum_over(0..4);
        planned.call.mode = Mode::COLLECT | Mode::ORDERED;
        planned.parents = Some(vec![umbra_core::tree::explicit::ROOT, 0, 1, 0]);
        let end = world.call(&planned);
        let (account, records) = failed(&end);
        assert_eq!(origins(records), [(2, Stage::Func, Code::Timeout)], "at one machine: {together}");
        assert_eq!(account, tallies(3, 1, 0, 0));
    }
}

/// `UMBRA_CHAIN_CANCELS` seeds (default 2000; the full form takes 100000).
#[test]
fn s39_a_call_can_be_given_up_at_any_moment() {
    let seeds = std::env::var("UMBRA_CHAIN_CANCELS").map_or(2000, |text| text.parse().unwrap());
    let (mut given_up, mut done) = (0, 0);
    for seed in 0..seeds {
        let mut world = World::new(15, seed);
        let mut random = umbra::sim::Random::new(seed);
        world.network.delay = Lapse::from_micros(5);
        world.network.jitter = Lapse::from_micros(random.below(20));
        world.network.work = Lapse::from_micros(20);
        let at = world.start(&fifteen(seed % 2 == 0)).unwrap();
        let (root, handle) = (Node(0), world.made[at].handle);
        world.cancel_after(Lapse(random.below(300_000)), root, handle);
        world.run(Lapse::from_secs(10));
        world.check().unwrap_or_else(|wrong| panic!("{wrong}, seed {seed}"));
        assert!(world.began.values().all(|&count| count == 1), "seed {seed}");
        match &world.made[at].end.as_ref().unwrap().0 {
            end if end.sum() == Some(105) => done += 1,
            end => {
                assert_eq!(origins(end.records()), [(0, Stage::Cancelled, Code::Cancelled)], "seed {seed}");
                given_up += 1;
            }
        }
    }
    println!("{seeds} calls: {given_up} given up, {done} done");
    assert!(given_up > seeds / 10 && done > seeds / 10, "{given_up} given up, {done} done");
}

const STOPS: Mode = Mode::COLLECT.union(Mode::CANCEL_ON_FAIL);

#[test]
fn s40_a_failure_stops_those_who_have_not_begun() {
    let (account, cancelled) = stops_those_who_have_not_begun(STOPS, None);
    // 2 has begun, and has asked nobody below when it ends.
    assert_eq!((account, cancelled), (tallies(2, 1, 200, 0), vec![2]));
}

#[test]
fn s40_a_failure_stops_them_also_while_the_own_function_runs() {
    let own = Act::Slow(Lapse::from_millis(20));
    let (account, cancelled) = stops_those_who_have_not_begun(STOPS | Mode::CUT_THROUGH, Some(own));
    // Requests that are sent on at once are ahead of whoever stops them: all have begun, and each is told once.
    assert_eq!(account, tallies(202, 1, 0, 0));
    assert!(cancelled.into_iter().eq(2..203));
}

#[test]
fn s40_a_failure_stops_whoever_has_no_room_yet_while_the_own_function_runs() {
    let mut world = World::new(7, 1);
    world.spy = true;
    world.script.functions.extend([
        (Node(0), Act::Slow(Lapse::from_millis(20))),
        (Node(1), Act::Fault(1)),
        (Node(2), Act::Hang),
    ]);
    // Calls of 6 take all places that 2 has.
    world.replace(Node(2), Capacities { calls: 8, call_bytes: 4096, ..Capacities::new(7) });
    let mut long = sum_over([6, 2]);
    long.call.budget = Lapse::from_secs(60);
    for _ in 0..8 {
        world.start(&long).unwrap();
    }
    world.run(Lapse::from_millis(5));
    let mut planned = sum_over(0..6);
    planned.call.mode = STOPS | Mode::CUT_THROUGH;
    planned.parents = Some(vec![umbra_core::tree::explicit::ROOT, 0, 0, 2, 2, 2]);
    let at = world.start(&planned).unwrap();
    world.run(Lapse::from_millis(10));
    // The own function runs still.
    assert!(world.made[at].end.is_none());
    assert_eq!((cancelled(&world), begun(&world, at)), (vec![2], vec![0, 1]));
    world.run(Lapse::from_secs(1));
    let (account, records) = failed(&world.made[at].end.as_ref().unwrap().0);
    assert_eq!((origins(records), account), (vec![(1, Stage::Func, Code::Fault)], tallies(1, 1, 4, 0)));
    assert_eq!((cancelled(&world), begun(&world, at)), (vec![2], vec![0, 1]), "and nobody else in the end");
}

/// Who was told to stop, once for each time.
fn cancelled(world: &World) -> Vec<u32> {
    let told = world.heard.iter().filter(|(_, bytes)| peek_cancel(bytes).is_some());
    let mut told: Vec<u32> = told.map(|(to, _)| to.0).collect();
    told.sort_unstable();
    told
}

/// Whose functions have begun in a call.
fn begun(world: &World, at: usize) -> Vec<u32> {
    let mut begun: Vec<u32> = world.began.keys().filter(|key| key.0 == world.made[at].id).map(|key| key.1.0).collect();
    begun.sort_unstable();
    begun
}

/// 1 fails at once, and two hundred others are below 2. The account, and who was told to stop.
fn stops_those_who_have_not_begun(mode: Mode, own: Option<Act>) -> (Tallies, Vec<u32>) {
    let capacities = Capacities { call_bytes: 8192, ..Capacities::new(203) };
    let mut world = World::with(1, capacities, Config::new(Node(0), Life(1)));
    world.spy = true;
    world.network.delay = Lapse::from_micros(10);
    world.script.functions.insert(Node(1), Act::Fault(1));
    world.script.functions.extend(own.map(|act| (Node(0), act)));
    for slow in 2..203 {
        world.script.functions.insert(Node(slow), Act::Slow(Lapse::from_micros(300)));
    }
    let mut planned = sum_over(0..203);
    planned.call.mode = mode;
    // 1 and 2 below the root, all others below 2, in a tree of their own.
    planned.parents = Some(
        (0..203)
            .map(|at: u32| match at {
                0 => umbra_core::tree::explicit::ROOT,
                1 | 2 => 0,
                other => 2 + (other - 3) / 2,
            })
            .collect(),
    );
    let end = world.call(&planned);
    let (account, records) = failed(&end);
    assert_eq!(origins(records), [(1, Stage::Func, Code::Fault)]);
    assert_eq!((account.failed, account.unknown, account.total()), (1, 0, 203));
    assert_eq!(world.began.len() as u32, account.ok + 1, "whoever began is counted, and nobody was interrupted");
    (account, cancelled(&world))
}

#[test]
fn s42_requests_that_come_again_run_nothing_twice() {
    let config = Config { ask: Lapse::from_millis(2), silence: Lapse::from_secs(5), ..Config::new(Node(0), Life(1)) };
    let mut world = World::with(3, Capacities { call_bytes: 4096, ..Capacities::new(15) }, config);
    world.network.duplication = 1_000_000;
    world.network.jitter = Lapse::from_millis(3);
    world.network.reorder = true;
    world.network.work = Lapse::from_millis(2);
    assert_eq!(world.call(&fifteen(false)).sum(), Some(105));
    let figures = world.figures();
    assert!(figures.repeated > 0 && figures.alive > 0 && figures.stale > 0, "{figures:?}");
}

#[test]
fn s44_strangers_and_old_answers_have_no_effect() {
    let mut world = World::new(4, 1);
    world.spy = true;
    let mut planned = sum_over(0..4);
    planned.call.plan = Plan::Shape(Shape::FLAT);
    let at = world.start(&planned).unwrap();
    world.run(Lapse::from_secs(1));
    assert_eq!(world.made[at].end.as_ref().unwrap().0.sum(), Some(6));
    // Everything that was ever said is said again, by everybody, in the middle of another call.
    let heard = std::mem::take(&mut world.heard);
    let at = world.start(&planned).unwrap();
    let now = world.now();
    for (to, bytes) in &heard {
        for from in (0..4).map(Node).filter(|from| from != to) {
            world.at(*to).on_message(from, *to, bytes, now).unwrap();
        }
    }
    world.run(Lapse::from_secs(1));
    world.check().unwrap();
    assert_eq!(world.made[at].end.as_ref().unwrap().0.sum(), Some(6));
    assert!(world.figures().stale >= 9);
}

#[test]
fn s45_a_second_parent_is_refused_and_the_first_keeps_the_call() {
    let mut world = World::new(4, 1);
    world.spy = true;
    world.script.functions.insert(Node(1), Act::Slow(Lapse::from_millis(1)));
    let at = world.start(&sum_over(0..3)).unwrap();
    world.run(Lapse::from_micros(10));
    let request = world.heard.iter().find(|(to, _)| *to == Node(1)).unwrap().1.clone();
    assert_eq!(refusal(&mut world, Node(3), Node(1), &request), Code::SecondParent as u8);
    world.run(Lapse::from_secs(1));
    world.check().unwrap();
    assert_eq!(world.made[at].end.as_ref().unwrap().0.sum(), Some(3));
}
