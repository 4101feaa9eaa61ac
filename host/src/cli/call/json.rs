//! A call as one JSON object: what became of it, what ran when, and the answer.

use serde::Serialize;
use serde_json::{Value, json};
use umbra::call::Reply;
use umbra::call::built_in::{self, COUNT, GATHER, REDUCE};
use umbra_core::chain::{Node, Tallies};

use super::super::{Failure, Out, print_json};
use super::stats::{self, Answer};
use super::{Call, Ended, Name, between, spec, why};

#[derive(Serialize)]
struct Object<'a> {
    function: &'a str,
    tree: String,
    /// Who made the call, above the tree.
    maker: u32,
    members: Vec<u32>,
    done: bool,
    took_ns: u64,
    ok: u32,
    failed: u32,
    unreached: u32,
    unknown: u32,
    /// Those of the unreached whose names are known.
    unreached_members: Vec<u32>,
    failures: Vec<Failed>,
    /// Why nobody was watched, if so; there are no runs then.
    #[serde(skip_serializing_if = "Option::is_none")]
    unwatched: Option<String>,
    runs: Vec<Ran>,
    answer: Value,
}

#[derive(Serialize)]
struct Failed {
    member: u32,
    stage: String,
    why: String,
}

/// A function, or the callback for the answer of a child.
#[derive(Serialize)]
struct Ran {
    member: u32,
    parent: Option<u32>,
    child: Option<u32>,
    /// Behind the first of all.
    began_ns: u64,
    took_ns: u64,
}

impl Call {
    pub(super) fn print_json(
        &self,
        out: Out<'_>,
        members: &[Node],
        own: &umbra::call::Member,
        ended: &Ended,
    ) -> Result<(), Failure> {
        let (tallies, records, unreached) = match &ended.outcome {
            Ok(Reply { members, skipped, .. }) => {
                let tallies = Tallies { ok: *members, unreached: skipped.len() as u32, ..Tallies::default() };
                (tallies, &[][..], skipped.as_slice())
            }
            Err(failure) => (failure.tallies, failure.records.as_slice(), failure.unreached.as_slice()),
        };
        let first = ended.runs.first().map(|run| run.began);
        let object = Object {
            function: &self.function,
            tree: self.suited(own, &ended.living).to_string(),
            maker: own.node().0,
            members: members.iter().map(|node| node.0).collect(),
            done: ended.outcome.is_ok(),
            took_ns: ended.took.0,
            ok: tallies.ok,
            failed: tallies.failed,
            unreached: tallies.unreached,
            unknown: tallies.unknown,
            unreached_members: unreached.iter().map(|node| node.0).collect(),
            failures: records
                .iter()
                .map(|record| Failed {
                    member: record.origin.0,
                    stage: record.stage.to_string(),
                    why: why::of_record(record, &self.function, &ended.absent),
                })
                .collect(),
            unwatched: ended.unwatched.as_ref().map(|failure| why::of_failure(failure, &ended.absent)),
            runs: ended
                .runs
                .iter()
                .map(|run| Ran {
                    member: run.node.0,
                    parent: run.parent.map(|node| node.0),
                    child: run.child.map(|node| node.0),
                    began_ns: first.map_or(0, |first| between(first, run.began).0),
                    took_ns: between(run.began, run.ended).0,
                })
                .collect(),
            answer: match &ended.outcome {
                Ok(reply) => self.answer(own, &reply.data)?,
                Err(_) => Value::Null,
            },
        };
        print_json(out, &object)
    }

    fn answer(&self, own: &umbra::call::Member, data: &[u8]) -> Result<Value, Failure> {
        Ok(match self.name() {
            Name::Stats => {
                let rows = stats::rows_at(own.station().shape(), data)?;
                json!(Answer::of(&rows))
            }
            Name::BuiltIn(GATHER) => built_in::entries(data)
                .map(|(node, value)| json!({ "member": node.0, "value": spec::readable(value) }))
                .collect(),
            Name::BuiltIn(REDUCE) => json!(self.with.list(data)),
            Name::BuiltIn(COUNT) => json!(data.try_into().map_or(0, i64::from_le_bytes)),
            _ if data.is_empty() => Value::Null,
            _ => json!(spec::readable(data)),
        })
    }
}
