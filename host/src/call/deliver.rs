//! Replies that land in shared memory.
//!
//! [`Member::deliver`] waits for a call as [`Member::wait`] does, and puts the data of its reply into an
//! [`Allocation`] of a pool, where other processes read it. There is one copy, out of the memory of the call.
//!
//! ```
//! use std::time::Duration;
//! use umbra::call::{Member, Shape, Station};
//! use umbra::pool::{Attributes, Pool};
//! use umbra_core::chain::{Call, Caps, Node, Tag, Verdict};
//!
//! let pool = Pool::create(None, &Attributes { bytes: 1 << 16, ..Attributes::default() })?;
//! let place = pool.alloc(8, 0)?;
//! let station = Station::create("example", Shape::new(1))?;
//! let mut member = Member::join(&station, Node(0))?;
//! member.register("seven", |work| match work.reply.set_data(&[7]) {
//!     Ok(()) => Verdict::Done,
//!     Err(_) => Verdict::Fault(1),
//! })?;
//! let handle = member.start(&Call { caps: Caps { header: 0, data: 8 }, ..Call::new(Tag::of("seven"), &[]) })?;
//! let delivered = member.deliver(handle, Duration::from_secs(1), &place)?;
//! let mut byte = [0];
//! place.read(0, &mut byte)?;
//! assert_eq!((delivered.len, byte), (1, [7]));
//! # pool.destroy()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The allocation is not the maker's alone: whoever uses the pool may free it while the call goes on, or destroy the pool. Then the
//! call has failed at the stage [`Deliver`](Stage::Deliver) although everybody has run it, and not a byte was written, neither
//! there nor into what lies there next. A free in the very moment of the copy is the business of those who share the allocation, as with
//! every [write](Allocation::write).

use std::time::Duration;

use umbra_core::chain::{Code, Handle, Node, Record, Stage, Tallies};

use super::answer::{Failure, Reply, WaitError};
use super::member::Member;
use crate::pool::{Allocation, Error};

/// The reply to a call, the data of which lies elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    /// Members, all of which ended well.
    pub members: u32,
    /// Those beside them who were left out, as they were dead.
    pub skipped: Vec<Node>,
    /// The header of the combined reply.
    pub header: Vec<u8>,
    /// Bytes of its data.
    pub len: u64,
}

impl Member {
    /// Waits for a call, at most so long, and puts the data of its answer at the beginning of `into`; serves others meanwhile.
    /// The answer is taken, also if there is no place for it.
    ///
    /// # Errors
    /// [`WaitError`]. [`Failed`](WaitError::Failed) at the stage [`Deliver`](Stage::Deliver) if all went well but this: the
    /// allocation was freed, or its pool destroyed ([`Code::MemoryGone`]), or it is shorter than the data
    /// ([`Code::ReplyTooLarge`]). Nothing was written then.
    pub fn deliver(
        &mut self,
        handle: Handle,
        patience: Duration,
        into: &Allocation<'_>,
    ) -> Result<Delivered, WaitError> {
        self.serve_until(patience, |member| member.machine.outcome(handle).map_or(true, |outcome| outcome.is_some()));
        self.refuse_heirs()?;
        let origin = self.node;
        let delivered = match self.replies.answer(&self.machine, handle)?.ok_or(WaitError::NotYet)? {
            Ok(Reply { members, skipped, header, data }) => match into.kind().and_then(|_| into.write(0, &data)) {
                Ok(()) => Ok(Delivered { members, skipped, header, len: data.len() as u64 }),
                Err(error) => {
                    let (code, aux) = match error {
                        Error::OutOfBounds { .. } => (Code::ReplyTooLarge, data.len() as u32),
                        _ => (Code::MemoryGone, 0),
                    };
                    let record = Record { origin, stage: Stage::Deliver, code, depth: 0, aux, count: 1 };
                    let (ok, unreached) = (members.saturating_sub(1), skipped.len() as u32);
                    let tallies = Tallies { ok, failed: 1, unreached, unknown: 0 };
                    Err(Failure { tallies, records: vec![record], unreached: skipped })
                }
            },
            Err(failed) => Err(failed),
        };
        self.release(handle)?;
        delivered.map_err(WaitError::Failed)
    }
}
