//! How a call of a simulated world ended.

use umbra_core::chain::{Node, Record, Tallies};

use super::script::number_of;

/// How a call ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Well, with this reply.
    Done {
        /// Members that ended well.
        members: u32,
        /// Members that were left out, as they were dead.
        skipped: Vec<Node>,
        /// The header of the reply.
        header: Vec<u8>,
        /// The data of the reply.
        data: Vec<u8>,
    },
    /// Badly.
    Failed {
        /// What became of all members.
        tallies: Tallies,
        /// The failures.
        records: Vec<Record>,
        /// Who was not reached, as far as the maker can tell.
        unreached: Vec<Node>,
        /// The last of them, who were left out.
        skipped: Vec<Node>,
    },
}

impl End {
    /// The failures; none if there were none.
    pub fn records(&self) -> &[Record] {
        match self {
            End::Done { .. } => &[],
            End::Failed { records, .. } => records,
        }
    }

    /// The members that were not reached, as far as the maker can tell, sorted; none if all is well.
    pub fn unreached(&self) -> Vec<u32> {
        let End::Failed { unreached, .. } = self else { return Vec::new() };
        let mut named: Vec<u32> = unreached.iter().map(|node| node.0).collect();
        named.sort_unstable();
        named
    }

    /// The members that were left out.
    pub fn skipped(&self) -> &[Node] {
        match self {
            End::Done { skipped, .. } | End::Failed { skipped, .. } => skipped,
        }
    }

    /// The reply as one number: that of a [long](umbra_core::chain::Mode::RENDEZVOUS) one has multiples of it.
    pub fn sum(&self) -> Option<u64> {
        match self {
            End::Done { data, .. } => number_of(data),
            End::Failed { .. } => None,
        }
    }
}
