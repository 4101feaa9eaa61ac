//! What crossed a border.

use super::Border;
use super::fetch::Fetch;

/// Counts of what crossed a border; they wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Crossings {
    /// Messages that went to other places.
    pub sent: u64,
    /// Messages that came from there.
    pub received: u64,
    /// Requests refused for lack of room, here or on the way.
    pub refused: u64,
    /// Messages dropped that were of or for an earlier life.
    pub stale: u64,
    /// Messages dropped that came for a member that takes nothing out of its inbox, behind a thousand others.
    pub lost: u64,
    /// Bytes of data offered here that went to other places.
    pub given_bytes: u64,
    /// Bytes of data offered elsewhere that came here.
    pub fetched_bytes: u64,
}

impl Border {
    /// What crossed so far.
    #[must_use]
    pub fn crossings(&self) -> Crossings {
        let fetched_bytes = self.fetch.as_ref().map_or(0, Fetch::bytes);
        Crossings { given_bytes: self.give.bytes(), fetched_bytes, ..self.crossings }
    }
}
