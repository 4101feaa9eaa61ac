//! One process a member: each tree beside the flat one, and data in requests.

use std::time::Instant;

use umbra::call::Shape;
use umbra_core::chain::{Call, Data, Plan};
use umbra_core::tree::Shape as Tree;
use umbra_tests::bench::{Report, Row};

use crate::procs::{Members, PATIENCE};
use crate::{LOWER, call, median};

const MEMBERS: u16 = 16;
const ROUNDS: usize = 5;
/// Calls a round, over each tree.
const CALLS: usize = 200;
/// Bytes of data.
const DATA: usize = 4096;

/// Seven alone below the maker, and one with seven more.
const WIDE: Tree = match Tree::knomial(8) {
    Some(shape) => shape,
    None => Tree::FLAT,
};

const TREES: [(&str, Plan<'static>); 5] = [
    ("binary", Plan::Shape(Tree::BINARY)),
    ("binomial", Plan::Shape(Tree::BINOMIAL)),
    ("8-nomial", Plan::Shape(WIDE)),
    ("chain", Plan::Shape(Tree::CHAIN)),
    ("auto", Plan::Auto),
];

/// Half of the calls take less than so many microseconds.
fn p50(members: &mut Members, plan: Plan<'_>, data: &[u8]) -> f64 {
    let all = members.all.clone();
    let call = Call { plan, data: Data::Bytes(data), ..call(&all) };
    let mut time = || {
        let start = Instant::now();
        let handle = members.first.start(&call).expect("room for one call");
        let reply = members.first.wait(handle, PATIENCE).expect("a good answer");
        assert_eq!(usize::try_from(reply.members), Ok(all.len()));
        start.elapsed().as_nanos() as f64 / 1000.0
    };
    median((0..CALLS).map(|_| time()).collect())
}

/// Adds the row of rounds: ours, and what they are beside.
fn row(report: &mut Report, case: &str, rounds: &[(f64, f64)], peer: &str) {
    let of = |figure: fn(&(f64, f64)) -> f64| median(rounds.iter().map(figure).collect());
    let row = Row::new(case, of(|round| round.0), of(|round| round.1), peer, "us", LOWER);
    report.row(Row { ratio: of(|round| round.1 / round.0), ..row });
}

fn trees(report: &mut Report) {
    let case = |tree: &str| format!("procs {MEMBERS} ids 8 B, {tree} tree");
    let wanted: Vec<_> = TREES.into_iter().filter(|(tree, _)| report.wants(&case(tree))).collect();
    if wanted.is_empty() {
        return;
    }
    let mut members = Members::start(MEMBERS);
    let mut rounds = vec![Vec::new(); wanted.len()];
    for _ in 0..ROUNDS {
        let flat = p50(&mut members, Plan::Shape(Tree::FLAT), &[]);
        for ((_, plan), rounds) in wanted.iter().zip(&mut rounds) {
            rounds.push((p50(&mut members, *plan, &[]), flat));
        }
    }
    for ((tree, _), rounds) in wanted.iter().zip(&rounds) {
        row(report, &case(tree), rounds, "for reference: the flat tree of the same processes");
    }
}

fn data(report: &mut Report) {
    let case = format!("procs {MEMBERS} ids 4 KiB");
    if !report.wants(&case) {
        return;
    }
    let mut members = Members::shaped(Shape { message_bytes: 2 * DATA as u32, ..Shape::new(MEMBERS) });
    let (data, mut rounds) = ([7; DATA], Vec::new());
    for _ in 0..ROUNDS {
        let least = p50(&mut members, Plan::Shape(Tree::FLAT), &[]);
        rounds.push((p50(&mut members, Plan::Shape(Tree::FLAT), &data), least));
    }
    row(report, &case, &rounds, "for reference: the same without data");
}

pub(crate) fn rows(report: &mut Report) {
    trees(report);
    data(report);
}
