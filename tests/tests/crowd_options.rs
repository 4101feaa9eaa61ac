//! Ways to treat a call that it has to ask for, over threads and over processes.
//!
//! Numbers are those of decisions of the specification; `chain_options` has them in the simulator.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use umbra::call::Shape as Place;
use umbra_core::chain::{Call, Mode, Node, Plan};
use umbra_core::tree::Shape;
use umbra_tests::crowd::member::sum_of;
use umbra_tests::crowd::{Crowd, Driver, Room, Script, What, sum_over};

umbra_tests::on_every_driver!(d13_everybody_sees_the_whole_list,);

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
        let mut crowd = Crowd::with(driver, Place::new(9), room);
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
