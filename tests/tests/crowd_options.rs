//! Ways to treat a call that it has to ask for, over threads and over processes.
//!
//! Numbers are those of decisions of the specification; `chain_options` has them in the simulator.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Shape as Place;
use umbra_core::chain::{Call, Code, Mode, Node, Plan, Stage, StartError};
use umbra_core::tree::Shape;
use umbra_tests::crowd::member::sum_of;
use umbra_tests::crowd::{Act, Crowd, Driver, Room, Script, What, sum_over};

umbra_tests::on_every_driver!(
    d13_everybody_sees_the_whole_list,
    d14_children_get_the_header_that_a_function_has_written,
    d14_headers_that_go_on_before_functions_run_are_not_replaced,
);

static NONE: Script = Script(Vec::new());

/// By what members note a list of these.
fn noted(list: impl IntoIterator<Item = u32>) -> (u32, u32) {
    let names: Vec<[u8; 4]> = list.into_iter().map(u32::to_le_bytes).collect();
    (names.len() as u32, sum_of(names.as_flattened()))
}

fn d13_everybody_sees_the_whole_list(driver: Driver) {
    // Everybody at a machine of his own, and the last six at one.
    for houses in [0, 5] {
        let room = |node| Room { houses: if node == 3 { houses } else { 0 }, ..Room::USUAL };
        let mut crowd = Crowd::with(driver, Place { message_bytes: 16 << 10, messages: 64, ..Place::new(9) }, room);
        let all: Vec<Node> = (0..9).map(Node).collect();
        for shape in [Shape::BINARY, Shape::BINOMIAL, Shape::FLAT, Shape::CHAIN] {
            let call = Call { plan: Plan::Shape(shape), ..sum_over(&all, &NONE) };
            assert_eq!(crowd.run(&call).unwrap().members, 9);
            assert_eq!(crowd.settle().count(What::Listed), 0, "nobody has asked for it");
            let reply = crowd.run(&Call { mode: Mode::FULL_LIST, ..call }).unwrap();
            assert_eq!(reply.data, 36_u64.to_le_bytes());
            let traces = crowd.settle();
            let (len, sum) = noted(shape.preorder(9));
            let told: Vec<_> = traces.all(What::Listed).map(|(_, len, sum, count)| (len, sum, count)).collect();
            assert!(told.iter().all(|&(told, names, _)| (told, names) == (len, sum)), "{told:?} over {shape:?}");
            assert_eq!(told.iter().map(|&(.., count)| count).sum::<u32>(), 9);
        }
    }
}

/// The sum of the depths of so many members.
fn depths(shape: Shape, members: u32) -> u64 {
    let depth = |at| std::iter::successors(Some(at), |&at| shape.parent(at)).count() as u64 - 1;
    (0..members).map(depth).sum()
}

fn d14_children_get_the_header_that_a_function_has_written(driver: Driver) {
    for houses in [0, 5] {
        let room = |node| Room { houses: if node == 3 { houses } else { 0 }, ..Room::USUAL };
        let mut crowd = Crowd::with(driver, Place { message_bytes: 16 << 10, messages: 64, ..Place::new(9) }, room);
        let all: Vec<Node> = (0..9).map(Node).collect();
        for shape in [Shape::BINARY, Shape::BINOMIAL, Shape::FLAT, Shape::CHAIN] {
            let script = Script::new().everybody(Act::Raise(10));
            let call = Call { plan: Plan::Shape(shape), mode: Mode::REWRITE, ..sum_over(&all, &script) };
            let reply = crowd.run(&call).unwrap();
            assert_eq!(reply.data, (36 + 10 * depths(shape, 9)).to_le_bytes(), "over {shape:?}");
            // Whoever lives with others is noted where they are.
            assert_eq!(crowd.settle().began().len(), 9);
        }
        // One alone, for those below him.
        let script = Script::new().func(1, Act::Raise(100));
        let reply = crowd.run(&Call { mode: Mode::REWRITE, ..sum_over(&all, &script) }).unwrap();
        assert_eq!(reply.data, (36 + 100 * 4_u64).to_le_bytes(), "3, 4, 7 and 8 are below 1");
        // Who does so in a call without it is told.
        let failure = crowd.run(&sum_over(&all, &script)).unwrap_err();
        let record = failure.records[0];
        assert_eq!((record.origin, record.stage, record.code, record.aux), (Node(1), Stage::Func, Code::Fault, 4));
        crowd.settle();
    }
}

fn d14_headers_that_go_on_before_functions_run_are_not_replaced(driver: Driver) {
    let mut crowd = Crowd::new(driver, 4);
    let all = crowd.all();
    let call = Call { mode: Mode::REWRITE | Mode::CUT_THROUGH, ..sum_over(&all, &NONE) };
    assert_eq!(crowd.refused(&call), StartError::RewriteCutThrough);
    assert_eq!(crowd.run(&Call { mode: Mode::REWRITE, ..call }).unwrap().members, 4);
    crowd.settle();
}
