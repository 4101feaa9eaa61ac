//! The agents' tables: whether all have the world's, and whether they are the same.
//!
//! They are the same if one agent could have taken the bytes from any other. A table has one encoding, on every
//! processor, so equal digests are equal tables.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use umbra_core::peer::{Peer, PeerKind, Sp, WorldRank};
use umbra_core::wire::Op;

use super::super::{JobError, Mismatch, TableOutcome};
use super::{Run, lapse};
use crate::admin::ops;
use crate::driver;

/// What agents call the group of all ranks.
const WORLD: &str = "world";
/// Between two questions to an agent.
const PAUSE: Duration = Duration::from_millis(1);

impl Run<'_> {
    /// Waits until every agent has the table of the world and a link to every other one. That all ranks have the table does
    /// not say so: an agent without ranks may hear of it later than they do, and it is to read from them all the same.
    pub(super) fn wait_for_tables(&mut self) -> Result<(), JobError> {
        let others = self.options.agents().saturating_sub(1);
        self.wait_until(ops::GROUPS, |text| text.lines().filter_map(digest).any(|(group, _)| group == WORLD))?;
        self.wait_until(ops::STATUS, |text| {
            let links = text.lines().find_map(|line| line.strip_prefix("links_to_services ")?.parse().ok());
            links.is_some_and(|links: u32| links >= others)
        })
    }

    /// Asks the agents again and again, until the answer of each is right.
    fn wait_until(&mut self, op: Op, is_right: impl Fn(&str) -> bool) -> Result<(), JobError> {
        let until = driver::now() + lapse(self.options.deadline);
        let mut missing: BTreeSet<Peer> = self.agents().collect();
        loop {
            let mut right = BTreeSet::new();
            self.ask(missing.iter().copied(), op, 6, &[], |_, peer, body| {
                if is_right(&String::from_utf8_lossy(body)) {
                    right.insert(peer);
                }
                Ok(())
            })?;
            missing.retain(|peer| !right.contains(peer));
            if missing.is_empty() {
                return Ok(());
            }
            if driver::now() >= until {
                let missing = missing.into_iter().collect();
                return Err(JobError::Timeout { phase: self.phase, after: self.options.deadline, missing });
            }
            thread::sleep(PAUSE);
        }
    }

    /// Asks every agent for the digests of its tables. All have the world's; those of other groups are where they are
    /// needed.
    pub(super) fn compare_tables(&mut self) -> Result<Vec<TableOutcome>, JobError> {
        let mut told = Vec::new();
        self.ask(self.agents(), ops::GROUPS, 5, &[], |_, peer, body| {
            let PeerKind::Service(sp) = peer.kind() else { return Err(JobError::BadAnswer(peer)) };
            told.push((sp, String::from_utf8_lossy(body).into_owned()));
            Ok(())
        })?;
        let (tables, mismatches) = compare(&told);
        self.results.mismatches.extend(mismatches);
        Ok(tables)
    }
}

fn compare(told: &[(Sp, String)]) -> (Vec<TableOutcome>, Vec<Mismatch>) {
    let mut tables: BTreeMap<&str, TableOutcome> = BTreeMap::new();
    let mut mismatches = Vec::new();
    for (sp, text) in told {
        let mut differs = |what| mismatches.push(Mismatch { reader: *sp, rank: WorldRank(0), what });
        let found: Vec<(&str, &str)> = text.lines().filter_map(digest).collect();
        if !found.iter().any(|(group, _)| *group == WORLD) {
            differs("has no table of the world".to_owned());
        }
        for (group, digest) in found {
            let table = tables.entry(group).or_insert_with(|| TableOutcome {
                group: group.to_owned(),
                digest: digest.to_owned(),
                agents: 0,
            });
            if table.digest == digest {
                table.agents += 1;
            } else {
                differs(format!("table of {group} has digest {digest}, at others {}", table.digest));
            }
        }
    }
    (tables.into_values().collect(), mismatches)
}

/// Group and digest in a line such as `world: generation 1, Ready, 8 ranks, handle 0x1, digest 00ff`; groups that are
/// not full have none.
fn digest(line: &str) -> Option<(&str, &str)> {
    Some((line.split_once(':')?.0, line.rsplit_once(", digest ")?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = "world: generation 1, Ready, 8 ranks, handle 0x1, digest 00ff\n";

    #[test]
    fn equal_digests_are_counted() {
        let column = "group 2 led by rank 1: generation 1, Ready, 2 ranks, handle 0x2, digest 0a\n";
        let told = [(Sp(0), format!("{FULL}{column}")), (Sp(1), FULL.to_owned())];
        let (tables, mismatches) = compare(&told);
        assert_eq!(mismatches, []);
        let counts: Vec<_> = tables.iter().map(|t| (t.group.as_str(), t.digest.as_str(), t.agents)).collect();
        assert_eq!(counts, [("group 2 led by rank 1", "0a", 1), ("world", "00ff", 2)]);
    }

    #[test]
    fn another_digest_and_a_missing_table_are_told_with_the_agent() {
        let other = FULL.replace("00ff", "00fe");
        let told = [(Sp(0), FULL.to_owned()), (Sp(1), other), (Sp(2), "world: generation 1, Collecting\n".to_owned())];
        let (_, mismatches) = compare(&told);
        let said: Vec<_> = mismatches.iter().map(|m| (m.reader, m.what.as_str())).collect();
        let differs = "table of world has digest 00fe, at others 00ff";
        assert_eq!(said, [(Sp(1), differs), (Sp(2), "has no table of the world")]);
    }
}
