//! An agent's endpoint cache: an arena in a segment that its ranks map read-only.

use std::sync::Arc;

use umbra::sys::segment::{Segment, SegmentError};
use umbra_core::atomic::AtomicU64;
use umbra_core::endpoints::{ArenaError, Endpoints};
use umbra_core::memory::Block;
use umbra_core::peer::Incarnation;

/// Words that this process writes and its ranks read.
#[derive(Clone, Debug)]
pub(super) struct SharedWords(Arc<Segment>);

impl AsRef<[AtomicU64]> for SharedWords {
    fn as_ref(&self) -> &[AtomicU64] {
        self.0.all_words()
    }
}

/// All full groups.
pub(super) type Tables = Endpoints<SharedWords, Vec<Block>>;

/// The arena cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TablesError {
    /// No shared memory.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The segment is too small for its slots.
    #[error("endpoint arena: {0}")]
    Arena(ArenaError),
}

/// Makes room for `slots` groups with `table_bytes` of tables; also gives the segment, to be shared. Handles are of this life of
/// the agent: ranks may have some of an earlier one.
pub(super) fn create(slots: u32, table_bytes: usize, life: Incarnation) -> Result<(Tables, Arc<Segment>), TablesError> {
    let words = Tables::words_needed(slots, table_bytes);
    let segment = Arc::new(Segment::create("umbra-endpoints", words.saturating_mul(8))?);
    let blocks = vec![Block::default(); 2 * slots as usize + 1];
    let words = SharedWords(Arc::clone(&segment));
    let tables = Endpoints::create_in_life(words, blocks, slots, life).map_err(TablesError::Arena)?;
    Ok((tables, segment))
}
