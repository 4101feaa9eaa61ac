//! Chained calls where nothing goes wrong, over threads and over processes.
//!
//! Numbers are as in the list of scenarios; `chain_normal` has them in the simulator, with the order of messages as
//! well.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::HashSet;

use umbra::call::{Reply, Shape as Place};
use umbra_core::chain::{Call, Caps, Data, Mode, Node, Plan, Tag};
use umbra_core::time::Lapse;
use umbra_core::tree::Shape;
use umbra_tests::crowd::trace::NOBODY;
use umbra_tests::crowd::{Act, Crowd, Driver, HOLD, Making, Room, SUM, Script, Traces, What, sum_over};

umbra_tests::on_every_driver!(
    s1_binary_shape,
    s2_binomial_shape,
    s2_binomial_shape_of_1_to_130_members,
    s2_the_largest_subtree_is_sent_to_first,
    s3_the_maker_stands_first_and_the_list_keeps_its_order,
    s4_an_empty_list_is_the_maker_alone_and_sends_nothing,
    s5_sums_of_64_members_go_up_every_tree,
    s6_headers_are_concatenated_and_in_order_if_that_is_wanted,
    s7_a_bare_confirmation_has_no_reply_and_runs_no_callback,
    s8_the_callback_runs_though_no_reply_is_expected,
    s9_headers_and_data_of_every_length_arrive_as_they_were,
    s10_a_stated_tree_runs_like_the_function_that_states_it,
    s11_one_function_serves_in_both_roles_and_may_be_pending,
    s12_a_pending_function_lets_other_calls_go_on,
);

static NONE: Script = Script(Vec::new());

fn over(members: &[Node], shape: Shape) -> Call<'_> {
    Call { plan: Plan::Shape(shape), ..sum_over(members, &NONE) }
}

/// Everybody began once, and pairs of member and parent.
fn once(traces: &Traces, count: u32) -> Vec<(u32, u32)> {
    assert_eq!(traces.began(), (0..count).collect::<Vec<_>>());
    traces.parents()
}

fn s1_binary_shape(driver: Driver) {
    let mut crowd = Crowd::new(driver, 7);
    let all = crowd.all();
    let reply = crowd.run(&sum_over(&all, &NONE)).unwrap();
    assert_eq!(reply, Reply { members: 7, data: 21_u64.to_le_bytes().to_vec(), ..Reply::default() });
    let traces = crowd.settle();
    assert_eq!(once(&traces, 7), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)]);
    assert_eq!((traces.combined(0), traces.count(What::Combined)), (vec![1, 2], 6));
}

fn s2_binomial_shape(driver: Driver) {
    let mut crowd = Crowd::new(driver, 11);
    let all = crowd.all();
    for count in [8_u32, 11] {
        crowd.run(&over(&all[..count as usize], Shape::BINOMIAL)).unwrap();
        let traces = crowd.settle();
        // The parent is the number without its lowest bit.
        let expected: Vec<_> = (1..count).map(|node| (node, node & (node - 1))).collect();
        assert_eq!((once(&traces, count), traces.combined(0).len()), (expected, if count == 8 { 3 } else { 4 }));
    }
}

fn s2_binomial_shape_of_1_to_130_members(driver: Driver) {
    const MOST: u32 = 130;
    let place = Place { message_bytes: 8 << 10, messages: 16, ..Place::new(MOST as u16) };
    let mut crowd = Crowd::with(driver, place, |_| Room { calls: 16, call_bytes: 16 << 10, ..Room::USUAL });
    let all = crowd.all();
    for count in 1..=MOST {
        let reply = crowd.run(&over(&all[..count as usize], Shape::BINOMIAL)).unwrap();
        assert_eq!((reply.members, reply.data), (count, u64::from(count * (count - 1) / 2).to_le_bytes().to_vec()));
    }
    // Each took part in the calls that it is listed in, and had the same parent in all.
    let began = crowd.settle().all(What::Began).collect::<Vec<_>>();
    let parent = |node: u32| if node == 0 { NOBODY } else { node & (node - 1) };
    assert_eq!(began, (0..MOST).map(|node| (node, parent(node), 0, MOST - node)).collect::<Vec<_>>());
}

fn s2_the_largest_subtree_is_sent_to_first(driver: Driver) {
    // All members but the maker have one inbox, and begin in the order in which they were asked.
    let place = Place { message_bytes: 16 << 10, messages: 64, ..Place::new(8) };
    let mut crowd = Crowd::with(driver, place, |node| Room { houses: if node == 1 { 6 } else { 0 }, ..Room::USUAL });
    let all = crowd.all();
    let stamps = Script::new().everybody(Act::Stamp);
    for _ in 0..50 {
        let plan = Plan::Shape(Shape::BINOMIAL);
        let reply = crowd.run(&Call { caps: Caps { header: 32, data: 8 }, plan, ..sum_over(&all, &stamps) }).unwrap();
        let begun =
            reply.header.as_chunks::<4>().0.iter().map(|&[node, _, low, high]| (u16::from_le_bytes([low, high]), node));
        let mut children: Vec<_> = begun.filter(|&(_, node)| [1, 2, 4].contains(&node)).collect();
        children.sort_unstable();
        assert_eq!(children.iter().map(|child| child.1).collect::<Vec<_>>(), [4, 2, 1]);
        assert_eq!(reply.data, 28_u64.to_le_bytes());
    }
    crowd.settle();
}

fn s3_the_maker_stands_first_and_the_list_keeps_its_order(driver: Driver) {
    let mut crowd = Crowd::new(driver, 10);
    for members in [vec![5, 9, 3, 0, 7], vec![5, 9, 0, 7]] {
        crowd.make(3, &Making::new(1, members));
        let traces = crowd.settle();
        assert_eq!(traces.parents(), [(0, 5), (5, 3), (7, 5), (9, 3)]);
        assert_eq!(traces.all(What::Done).collect::<Vec<_>>(), [(3, 5, 0, 1)], "the sum was right");
    }
}

fn s4_an_empty_list_is_the_maker_alone_and_sends_nothing(driver: Driver) {
    let mut crowd = Crowd::new(driver, 3);
    for members in [&[][..], &[Node(0)]] {
        let before = crowd.first.member.figures().requests;
        assert_eq!(crowd.run(&sum_over(members, &NONE)).unwrap().members, 1);
        assert_eq!(crowd.first.member.figures().requests, before);
        let traces = crowd.settle();
        assert_eq!((traces.began(), traces.count(What::Combined)), (vec![0], 0));
    }
}

fn s5_sums_of_64_members_go_up_every_tree(driver: Driver) {
    let mut crowd = Crowd::new(driver, 64);
    let all = crowd.all();
    let more = [Shape::kary(3).unwrap(), Shape::knomial(4).unwrap()];
    for shape in [Shape::BINARY, Shape::BINOMIAL, Shape::FLAT, Shape::CHAIN, more[0], more[1]] {
        let reply = crowd.run(&over(&all, shape)).unwrap();
        assert_eq!((reply.members, reply.data), (64, 2016_u64.to_le_bytes().to_vec()), "{shape:?}");
    }
    let traces = crowd.settle();
    assert_eq!((traces.began().len(), traces.count(What::Combined)), (6 * 64, 6 * 63));
}

fn s6_headers_are_concatenated_and_in_order_if_that_is_wanted(driver: Driver) {
    let mut crowd = Crowd::new(driver, 9);
    let all = crowd.all();
    // A leaf that comes late, so that an order of arrival would be another one.
    let late = Script::new().func(7, Act::Slow(60));
    for ordered in [false, true] {
        let mut orders = HashSet::new();
        for round in 0..100 {
            let script = if round % 20 == 0 { &late } else { &NONE };
            let mut call = Call { caps: Caps { header: 36, data: 0 }, ..sum_over(&all, script) };
            call.mode.set(Mode::ORDERED, ordered);
            let header = crowd.run(&call).unwrap().header;
            let ids: Vec<u32> = header.as_chunks::<4>().0.iter().map(|&id| u32::from_le_bytes(id)).collect();
            let mut sorted = ids.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..9).collect::<Vec<_>>());
            orders.insert(ids);
        }
        if ordered {
            assert_eq!(orders, HashSet::from([Shape::BINARY.preorder(9).collect::<Vec<_>>()]));
        } else {
            assert!(orders.len() > 1, "arrival decides");
        }
    }
    crowd.settle();
}

fn s7_a_bare_confirmation_has_no_reply_and_runs_no_callback(driver: Driver) {
    let mut crowd = Crowd::new(driver, 9);
    let all = crowd.all();
    let call = Call { callback: Tag::NONE, caps: Caps::default(), ..sum_over(&all, &NONE) };
    assert_eq!(crowd.run(&call).unwrap(), Reply { members: 9, ..Reply::default() });
    let traces = crowd.settle();
    assert_eq!((once(&traces, 9).len(), traces.count(What::Combined)), (8, 0));
}

fn s8_the_callback_runs_though_no_reply_is_expected(driver: Driver) {
    let mut crowd = Crowd::new(driver, 9);
    let all = crowd.all();
    let reply = crowd.run(&Call { caps: Caps::default(), ..sum_over(&all, &NONE) }).unwrap();
    assert_eq!(reply, Reply { members: 9, ..Reply::default() });
    let traces = crowd.settle();
    assert_eq!(traces.combined(0), [1, 2]);
    assert_eq!((traces.combined(1), traces.combined(3), traces.count(What::Combined)), (vec![3, 4], vec![7, 8], 8));
}

fn s9_headers_and_data_of_every_length_arrive_as_they_were(driver: Driver) {
    const LONGEST: usize = (1 << 20) + 3;
    let place = Place { message_bytes: 2 << 20, messages: 8, ..Place::new(3) };
    let header_max = u16::MAX;
    let room = Room { call_bytes: LONGEST + (80 << 10), calls: 8, header_max, ..Room::USUAL };
    let mut crowd = Crowd::with(driver, place, |_| room);
    let lengths =
        [(0, 0), (1, 1), (usize::from(header_max), 0), (3, 4095), (0, 4096), (5, 4097), (1, 65536), (7, LONGEST)];
    for (header, data) in lengths {
        let (mut header, mut data) = (vec![0xa5; header], (0..data).map(|at| (at * 7) as u8).collect::<Vec<u8>>());
        let members = crowd.all();
        let call = Call {
            header: &header,
            data: Data::Bytes(&data),
            budget: Lapse::from_secs(30),
            ..Call::new(HOLD, &members)
        };
        let handle = crowd.first.member.start(&call).unwrap();
        let sum = |bytes: &[u8]| bytes.iter().fold(0_u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let expected = [(What::Header, header.len(), sum(&header)), (What::Data, data.len(), sum(&data))];
        // What was handed over may change at once.
        header.fill(0);
        data.fill(0);
        assert_eq!(crowd.end(handle, &members).unwrap().members, 3);
        let traces = crowd.settle();
        for (what, len, sum) in expected {
            let all: Vec<_> = (0..3).map(|node| (node, len as u32, sum, 1)).collect();
            assert_eq!(traces.all(what).collect::<Vec<_>>(), all);
        }
    }
}

fn s10_a_stated_tree_runs_like_the_function_that_states_it(driver: Driver) {
    // A comb: teeth at every second position.
    fn comb(_: u32, at: u32) -> Option<u32> {
        at.checked_sub(1).map(|before| before - before % 2)
    }
    let mut crowd = Crowd::new(driver, 9);
    let all = crowd.all();
    let parents: Vec<u32> = (0..9).map(|at| comb(9, at).unwrap_or(umbra_core::tree::explicit::ROOT)).collect();
    let expected = [(1, 0), (2, 0), (3, 2), (4, 2), (5, 4), (6, 4), (7, 6), (8, 6)];
    for plan in [Plan::Function(&comb), Plan::Parents(&parents)] {
        let reply = crowd.run(&Call { plan, ..sum_over(&all, &NONE) }).unwrap();
        assert_eq!(reply.data, 36_u64.to_le_bytes());
        assert_eq!(once(&crowd.settle(), 9), expected);
    }
}

fn s11_one_function_serves_in_both_roles_and_may_be_pending(driver: Driver) {
    let mut crowd = Crowd::new(driver, 7);
    let all = crowd.all();
    let slow = Script::new().everybody(Act::Slow(2));
    let call = sum_over(&all, &slow);
    assert_eq!((call.func, call.callback), (SUM, SUM));
    assert_eq!(crowd.run(&call).unwrap().data, 21_u64.to_le_bytes());
    let traces = crowd.settle();
    assert_eq!((once(&traces, 7).len(), traces.count(What::Combined)), (6, 6));
    let probed: HashSet<u32> = traces.all(What::Probed).map(|(node, ..)| node).collect();
    assert_eq!(probed.len(), 7, "everybody was pending, and asked again");
}

fn s12_a_pending_function_lets_other_calls_go_on(driver: Driver) {
    let mut crowd = Crowd::new(driver, 7);
    let all = crowd.all();
    let hangs = Script::new().func(5, Act::Hang);
    let slow = crowd.first.member.start(&sum_over(&all, &hangs)).unwrap();
    crowd.until(5, What::Began);
    // Calls end that 5 takes part in, and one that it makes.
    assert_eq!(crowd.sum(&all), 21);
    crowd.make(5, &Making::new(1, 0..7));
    crowd.until(5, What::Done);
    assert!(!crowd.first.member.test(slow).unwrap(), "it hangs");
    crowd.first.member.cancel(slow).unwrap();
    assert_eq!(crowd.end(slow, &all).unwrap_err().records[0].code, umbra_core::chain::Code::Cancelled);
    crowd.settle();
}
