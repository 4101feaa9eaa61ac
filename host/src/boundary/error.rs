//! Why an exchange failed: what was missing, who differed.

use std::fmt;

use umbra_core::boundary::{BuildError, Entry, ExchangeError, Key, Missing, NotMyChannel, Refusal, Step, VoteError};

use super::balance::MeshError;
use super::fields::NoMemory;
use super::transport::TransportError;

/// Channels that an error names one by one.
const NAMED: usize = 4;

/// An exchange was not over in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Late {
    /// The first channels that are missing.
    pub missing: Vec<Missing>,
    /// How many are missing in all.
    pub count: usize,
    /// What else than the peers may have kept them away, an agent that does nothing; or why a rank is [lost](BoundaryError::Lost).
    pub hindered: Option<TransportError>,
}

impl Late {
    pub(super) fn new(missing: impl Iterator<Item = Missing>) -> Late {
        let mut late = Late { missing: Vec::new(), count: 0, hindered: None };
        for channel in missing {
            late.count += 1;
            // Every rank that is missing is named before a second channel of one.
            let known = late.missing.iter().any(|named| named.rank == channel.rank);
            if !known || late.missing.len() < NAMED {
                late.missing.push(channel);
            }
        }
        late
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} channels were not received in time", self.count)?;
        for missing in &self.missing {
            write!(f, "; {missing}")?;
        }
        f.write_str(if self.missing.len() < self.count { "; and more" } else { "" })?;
        self.hindered.iter().try_for_each(|hindered| write!(f, "; {hindered}"))
    }
}

/// Two ranks have built different plans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Differs {
    /// The other rank.
    pub rank: u32,
    /// The first channel in which they differ.
    pub at: usize,
    /// What this rank has there.
    pub ours: Option<Entry>,
    /// What the other rank has there.
    pub theirs: Option<Entry>,
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Differs { rank, at, ours, theirs } = self;
        let mut side = |who: &str, entry: &Option<Entry>| match entry {
            None => write!(f, "{who} none"),
            Some(Entry { key, count, always, step }) => {
                write!(f, "{who} {key} of {count} values{}", if *always { ", dense" } else { "" })?;
                match step {
                    Step::Same => Ok(()),
                    Step::Coarser(octant) => write!(f, ", from child {} to a coarser block", octant.number()),
                    Step::Finer(octant) => write!(f, ", to child {}, a finer block", octant.number()),
                }
            }
        };
        side(&format!("plan of rank {rank} differs in channel {at}: it has"), theirs)?;
        side(", here is", ours)?;
        f.write_str(": all ranks must have the same mesh, and name the same fields in the same order")
    }
}

/// Why an exchange did not go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoundaryError {
    /// The mesh says something impossible.
    #[error("{0}")]
    NotMine(#[from] NotMyChannel),
    /// The mesh has several levels, which do not fit together.
    #[error("{0}")]
    Mesh(#[from] MeshError),
    /// The plans cannot be used.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// A peer has another plan.
    #[error("{0}")]
    Differs(Differs),
    /// Some rank cannot use its mesh, or found a peer with another plan; it says why.
    #[error("rank {0} refuses its mesh or a plan: see its error")]
    RefusedElsewhere(u32),
    /// The order of calls.
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
    /// A channel within this rank.
    #[error("{key}: {refusal}")]
    Channel {
        /// Which.
        key: Key,
        /// Why.
        refusal: Refusal,
    },
    /// The exchange is not over although its deadline is.
    #[error("{0}")]
    Late(Late),
    /// A rank has ended or cannot be reached any more, and has not sent all of the open exchange; the first that is missing from it.
    #[error("{}{} of its channels are missing{}", .0.hindered.as_ref().map_or_else(String::new, |why| format!("{why}; ")),
        .0.count, .0.missing.first().map_or_else(String::new, |first| format!(", the first is {first}")))]
    Lost(Late),
    /// Ranks did not agree in time to change the mesh.
    #[error("{0}")]
    Vote(#[from] VoteError),
    /// The mesh shall change, but this rank's exchange is open.
    #[error("the mesh cannot change, {} channels are in an open exchange, the first is {}", .0.count,
        .0.missing.first().map_or_else(|| "within this rank or not sent".to_owned(), ToString::to_string))]
    StillOpen(Late),
    /// An earlier change of the mesh, or the end, has failed after some rank had begun it, or the transport did not take a message.
    #[error(
        "an earlier change of the mesh has failed on the way, or a message could not be handed over: make a new transport, \
         and build anew"
    )]
    Spent,
    /// The half of the exchange that was asked for is over, and the other half is not.
    #[error("one half of this exchange is over: do the other half (local or nonlocal) before the next exchange")]
    OtherHalf,
    /// Set was called before everything was received.
    #[error("{}call receive until it is ready, then set", .first.map_or_else(
        || "nothing was received that could be set: send, ".to_owned(),
        |key| format!("{count} channels are not received, the first is {key}: ")))]
    NotReceived {
        /// The first channel that is missing; `None` if all are there, or no exchange is open, and receiving was not ready.
        first: Option<Key>,
        /// How many are missing.
        count: usize,
    },
    /// A dense field is not there.
    #[error("dense field {field} is absent from block {block}: allocate dense fields on every block")]
    Absent {
        /// The block.
        block: u32,
        /// The field.
        field: u16,
    },
    /// An array is not as long as blocks are.
    #[error("field {field} on block {block} has {len} values, its shape {expected}")]
    Length {
        /// The block.
        block: u32,
        /// The field.
        field: u16,
        /// Values that are there.
        len: usize,
        /// Values of the shape.
        expected: usize,
    },
    /// No memory for a field that became present. Free some, and make the same call again.
    #[error("rank {rank} has {what}")]
    NoMemory {
        /// The rank.
        rank: u32,
        /// What it has no memory for.
        what: NoMemory,
    },
    /// What a rank hands over between exchanges cannot be taken.
    #[error("what rank {rank} hands over {why}")]
    Parcel {
        /// The rank.
        rank: u32,
        /// What is wrong with it, and what to do.
        why: &'static str,
    },
    /// A field did not become present where something of it came.
    #[error("field {field} was allocated on block {block}, and is absent: see that the arrays have a place for it")]
    NotMade {
        /// The block.
        block: u32,
        /// The field.
        field: u16,
    },
    /// The transport.
    #[error("{0}")]
    Transport(#[from] TransportError),
}
