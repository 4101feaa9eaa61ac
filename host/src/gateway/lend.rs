//! What a gateway does for a line about a pool: it allocates, copies and frees.
//!
//! To the pool the blocks of a client are the gateway's. Those that the client did not free or leave to the pool, and
//! that nobody else made his own, are freed when his line ends, so a client that dies leaves nothing behind.

use std::collections::BTreeMap;

use umbra_core::gateway::{Answer, MESSAGE_MAX, PoolRequest, Request};
use umbra_core::heap::BlockId;
use umbra_core::wire::Token;

use super::converse::asked;
use super::refusals::of_pool;
use super::serve::{Late, Over, Served, deadline};
use crate::channel::Timeout;
use crate::pool::{Allocation, Error, Pool};

impl Late for Error {
    fn is_late(&self) -> bool {
        matches!(self, Error::Timeout { .. })
    }
}

/// The blocks that a client has.
struct Lent<'p> {
    pool: &'p Pool,
    /// And whose each was when it was allocated: that of a member of this handle.
    blocks: BTreeMap<BlockId, u16>,
    /// At how many it is looked which of them others freed.
    look_at: usize,
}

/// Blocks of one client that are not looked at.
const FEW: usize = 1024;

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        for (&id, &owner) in &self.blocks {
            // Somebody else may have freed it, or made it his own; in this process, too.
            let _ = self.pool.free_of(id, owner);
        }
    }
}

/// Serves the line until its client is gone.
pub(super) fn lend(mut line: Served, token: Token, reference: &[u8]) -> Result<(), Over> {
    let pool = match Pool::attach_reference(reference) {
        Ok(pool) => pool,
        Err(error) => {
            // The client closes the line when it has read this.
            line.answer(token, &of_pool(&error))?;
            return line.next().map(drop);
        }
    };
    line.answer(token, &Answer::Lent { bytes: pool.figures().bytes, uid: pool.uid() })?;
    let mut lent = Lent { pool: &pool, blocks: BTreeMap::new(), look_at: FEW };
    let (mut frame, mut pad) = (Vec::new(), Vec::new());
    loop {
        let (token, request) = asked(&mut line, &mut frame)?;
        let Request::Pool(request) = request else { return Err(Over) };
        let answer = lent.answer(&mut line, request, &mut pad)?.unwrap_or_else(|error| of_pool(&error));
        line.answer(token, &answer)?;
    }
}

impl Lent<'_> {
    fn keep(&mut self, block: &Allocation<'_>) {
        if self.blocks.len() >= self.look_at {
            self.blocks.retain(|&id, _| self.pool.allocation(id).is_ok());
            self.look_at = FEW.max(2 * self.blocks.len());
        }
        // One that somebody has freed by now is not the client's.
        if let Ok(owner) = block.owner() {
            self.blocks.insert(block.id(), owner);
        }
    }

    fn answer<'a>(
        &mut self,
        line: &mut Served,
        request: PoolRequest<'_>,
        pad: &'a mut Vec<u8>,
    ) -> Result<Result<Answer<'a>, Error>, Over> {
        let pool = self.pool;
        Ok(match request {
            PoolRequest::Open { .. } => return Err(Over),
            PoolRequest::Alloc { patience, len, kind } => {
                let alloc = |timeout| match timeout {
                    Timeout::Now | Timeout::Never => pool.alloc(len, kind),
                    Timeout::After(slice) => pool.alloc_within(len, kind, slice),
                };
                line.patiently(deadline(patience), alloc)?.map(|block| {
                    self.keep(&block);
                    Answer::Block { id: block.id(), len: block.len(), kind }
                })
            }
            PoolRequest::Look { id } => {
                pool.allocation(id).and_then(|block| Ok(Answer::Block { id, len: block.len(), kind: block.kind()? }))
            }
            PoolRequest::Get { id, at, len } => {
                pad.resize((len as usize).min(MESSAGE_MAX), 0);
                match pool.allocation(id).and_then(|block| block.read(at, pad)) {
                    Ok(()) => Ok(Answer::Bytes(pad)),
                    Err(error) => Err(error),
                }
            }
            PoolRequest::Put { id, at, bytes } => {
                pool.allocation(id).and_then(|block| block.write(at, bytes)).map(|()| Answer::Done(0))
            }
            PoolRequest::Free { id } => {
                self.blocks.remove(&id);
                pool.allocation(id).and_then(Allocation::free).map(|()| Answer::Done(0))
            }
            PoolRequest::Leave { id } => pool
                .allocation(id)
                .and_then(|_| if self.blocks.remove(&id).is_some() { Ok(Answer::Done(0)) } else { Err(Error::Stale) }),
            PoolRequest::Figures => {
                let all = pool.figures();
                Ok(Answer::Used([all.bytes, all.free, all.asked, all.blocks, all.longest_free]))
            }
        })
    }
}
