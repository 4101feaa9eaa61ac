//! Typed calls: what comes back, and what becomes of bytes not of the type.
#![cfg(feature = "typed")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use umbra::call::{Failure, Fault, Member, Procedure, Reply, Shape, Station, TypedError, WaitError};
use umbra_core::chain::{Call, Code, Data, Node, Phase, Record, Stage, Tag, Verdict};
use umbra_core::time::Lapse;
use umbra_core::tree;

const MEMBERS: u16 = 7;
/// From words to how often each was said.
const COUNT: Procedure<Words, BTreeMap<String, u64>> = Procedure::new("count").reply_bytes(200);
/// The same name with a reply that others do not know.
const OTHER: Procedure<Words, Vec<(String, f64)>> = Procedure::new("count").reply_bytes(200);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Words {
    None,
    These(Vec<String>),
    Fails { node: u32, number: u32 },
}

/// Members that this thread drives in turn.
struct Crowd(Vec<Member>);

impl Crowd {
    fn new() -> Crowd {
        let station = Station::create("typed", Shape::new(MEMBERS)).unwrap();
        let mut members: Vec<Member> =
            (0..MEMBERS.into()).map(|at| Member::join(&station, Node(at)).unwrap()).collect();
        for member in &mut members {
            let count = |here: umbra::call::Here, words: Words| match words {
                Words::None => Ok(BTreeMap::new()),
                Words::These(words) => Ok(words.into_iter().map(|word| (word, u64::from(here.node.0))).collect()),
                Words::Fails { node, number } if node == here.node.0 => Err(Fault(number)),
                Words::Fails { .. } => Ok(BTreeMap::from([("well".into(), 1)])),
            };
            let sum = |_, mut ours: BTreeMap<String, u64>, theirs: BTreeMap<String, u64>| {
                theirs.into_iter().for_each(|(word, number)| *ours.entry(word).or_default() += number);
                Ok(ours)
            };
            member.register_typed(COUNT, count, sum).unwrap();
        }
        Crowd(members)
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        // As long as a machine that stands still now and then may need.
        let handle = self.0[0].start(&Call { budget: Lapse::from_secs(30), ..*call }).unwrap();
        while !self.0[0].test(handle).unwrap() {
            self.0.iter_mut().for_each(|member| _ = member.turn());
        }
        match self.0[0].wait(handle, Duration::ZERO) {
            Ok(reply) => Ok(reply),
            Err(WaitError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other}"),
        }
    }

    fn failure(&mut self, call: &Call<'_>) -> Record {
        let failure = self.run(call).unwrap_err();
        assert_eq!(failure.tallies.total(), MEMBERS.into(), "{failure}");
        failure.records[0]
    }
}

fn all() -> Vec<Node> {
    (0..MEMBERS.into()).map(Node).collect()
}

#[test]
fn replies_of_all_members_become_one_of_the_same_type() {
    let (mut crowd, all) = (Crowd::new(), all());
    let request = COUNT.request(&Words::These(vec!["a".into(), "bc".into()])).unwrap();
    let expected = BTreeMap::from([("a".to_owned(), 21), ("bc".to_owned(), 21)]);
    for shape in [tree::Shape::BINARY, tree::Shape::FLAT, tree::Shape::CHAIN] {
        let call = Call { plan: umbra_core::chain::Plan::Shape(shape), ..request.call(&all) };
        assert_eq!(COUNT.reply(&crowd.run(&call).unwrap()), Ok(expected.clone()), "{shape:?}");
        // Whoever only makes the call has no part in the reply: here that is member 0, which counts as nothing.
        assert_eq!(COUNT.reply(&crowd.run(&Call { at_root: false, ..call }).unwrap()), Ok(expected.clone()));
    }
    let nothing = COUNT.request(&Words::None).unwrap();
    assert_eq!(COUNT.reply(&crowd.run(&nothing.call(&all)).unwrap()), Ok(BTreeMap::new()));
}

#[test]
fn a_fault_keeps_its_number_and_its_origin() {
    let (mut crowd, all) = (Crowd::new(), all());
    for node in 0..MEMBERS.into() {
        let request = COUNT.request(&Words::Fails { node, number: 77 }).unwrap();
        let record = crowd.failure(&request.call(&all));
        assert_eq!((record.origin, record.stage, record.code), (Node(node), Stage::Func, Code::Fault));
        assert_eq!(record.aux, 77);
    }
}

#[test]
fn arguments_that_are_none_fail_the_call_where_they_are_read() {
    let (mut crowd, all) = (Crowd::new(), all());
    let whole = COUNT.request(&Words::These(vec!["word".into()])).unwrap();
    let Data::Bytes(whole) = whole.call(&[]).data else { panic!("they go along") };
    let longer = [whole, &[0]].concat();
    // A variant that there is not, one cut short, one with more behind it, a length without end, and text that is none.
    let huge = [1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    for bytes in [&[][..], &[9], &whole[..whole.len() - 1], &longer, &huge, &[1, 1, 1, 0xff]] {
        let good = COUNT.request(&Words::None).unwrap();
        let record = crowd.failure(&Call { data: Data::Bytes(bytes), ..good.call(&all) });
        assert_eq!((record.origin, record.stage, record.code), (Node(0), Stage::Func, Code::Undecodable), "{bytes:?}");
        assert_eq!(record.aux as usize, bytes.len());
        // Where the maker does not read it, whoever is below it does.
        let record = crowd.failure(&Call { data: Data::Bytes(bytes), at_root: false, ..good.call(&all) });
        assert!(record.origin != Node(0) && record.code == Code::Undecodable && record.stage == Stage::Func);
        assert!(record.to_string().ends_with(&format!("({} bytes)", bytes.len())), "{record}");
    }
    // The members are well.
    let good = COUNT.request(&Words::None).unwrap();
    assert!(crowd.run(&good.call(&all)).is_ok());
}

#[test]
fn answers_that_are_none_fail_the_call_where_they_are_combined() {
    let (mut crowd, all) = (Crowd::new(), all());
    // Another version of the program runs on member 5, a child of member 2.
    let strange = &mut crowd.0[5];
    strange.unregister("count");
    strange
        .register("count", |work| match work.phase {
            Phase::Wait(_) => Verdict::Done,
            _ => work.reply.set_data(&[3, 200]).map_or(Verdict::Fault(1), |()| Verdict::Done),
        })
        .unwrap();
    let request = COUNT.request(&Words::None).unwrap();
    let record = crowd.failure(&request.call(&all));
    assert_eq!((record.origin, record.stage, record.code), (Node(2), Stage::Callback, Code::Undecodable));
    assert_eq!(record.aux, 5);
    assert!(record.to_string().ends_with("(from member 5)"), "{record}");
}

#[test]
fn replies_that_are_too_long_or_of_another_type_are_errors_of_their_own() {
    let (mut crowd, all) = (Crowd::new(), all());
    let long = COUNT.request(&Words::These(vec!["x".repeat(300)])).unwrap();
    let record = crowd.failure(&long.call(&all));
    assert_eq!((record.stage, record.code), (Stage::Reply, Code::ReplyTooLarge));
    // A map of one: its length, that of the text in two bytes, the text, and the number.
    assert_eq!(record.aux, 1 + 2 + 300 + 1);
    let request = OTHER.request(&Words::These(vec!["a".into()])).unwrap();
    let reply = crowd.run(&request.call(&all)).unwrap();
    let bytes = reply.data.len();
    let error = OTHER.reply(&reply).unwrap_err();
    assert_eq!(error, TypedError::Reply { name: "count", bytes });
    assert!(error.to_string().contains("count"), "{error}");
}

#[test]
fn an_argument_without_a_form_as_bytes_is_not_sent() {
    struct Endless;
    impl Serialize for Endless {
        fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            use serde::ser::SerializeSeq;
            to.serialize_seq(None)?.end()
        }
    }
    let endless: Procedure<Endless, ()> = Procedure::new("endless");
    assert!(matches!(endless.request(&Endless), Err(TypedError::Argument { name: "endless", .. })));
    assert_eq!((endless.tag(), endless.name()), (Tag::of("endless"), "endless"));
}
