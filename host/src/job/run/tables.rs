//! Whether the agents' tables are the same: bytes that one agent could have taken from any other.
//!
//! A table has one encoding, on every processor, so equal digests are equal tables.

use std::collections::BTreeMap;

use umbra_core::peer::{PeerKind, Sp, WorldRank};

use super::super::{JobError, Mismatch, TableOutcome};
use super::Run;
use crate::admin::ops;

/// What agents call the group of all ranks.
const WORLD: &str = "world";

impl Run<'_> {
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
