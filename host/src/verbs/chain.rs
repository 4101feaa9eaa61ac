//! Requests for posted work, chained for one call into the driver.
//!
//! They are built on the stack, from the last to the first, so that each knows its successor; only as many as there are
//! are written.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::VerbsError;
use super::abi::{self, Plain};
use super::completions::BATCH;
use super::numbers::{opcode, send};
use super::work::Work;

/// Room for a batch of requests.
pub(super) struct Chain {
    requests: [MaybeUninit<abi::SendWr>; BATCH],
    pieces: [MaybeUninit<abi::Sge>; BATCH],
}

impl Chain {
    /// No requests.
    #[inline]
    pub(super) const fn new() -> Chain {
        Chain { requests: [const { MaybeUninit::uninit() }; BATCH], pieces: [const { MaybeUninit::uninit() }; BATCH] }
    }

    /// Writes the requests for at most [`BATCH`] pieces of work, of which the last asks for a completion; bytes that the
    /// driver takes along, up to `inline` of them, need not be there later. The first request, null without work; it is
    /// valid as long as the chain is.
    ///
    /// # Errors
    /// [`VerbsError::OutOfBounds`].
    #[inline]
    pub(super) fn fill(&mut self, works: &[(u64, Work<'_>)], inline: u32) -> Result<*mut abi::SendWr, VerbsError> {
        let (mut next, mut flags) = (std::ptr::null_mut(), send::SIGNALED);
        for (((id, work), piece), request) in works.iter().zip(&mut self.pieces).zip(&mut self.requests).rev() {
            let (opcode, local, remote, immediate) = match work {
                Work::Read { from, to } => (opcode::RDMA_READ, to, Some(from), None),
                Work::Write { from, to, immediate: None } => (opcode::RDMA_WRITE, from, Some(to), None),
                Work::Write { from, to, immediate } => (opcode::RDMA_WRITE_WITH_IMM, from, Some(to), *immediate),
                Work::Send { from } => (opcode::SEND, from, None, None),
            };
            let (sge, here) = local.sge()?;
            let piece = piece.write(sge);
            // The driver itself reads what goes along, so it must lie in this process.
            if here && opcode != opcode::RDMA_READ && (1..=inline).contains(&piece.length) {
                flags |= send::INLINE;
            }
            let target = remote.map_or(abi::RdmaTarget { remote_addr: 0, rkey: 0 }, |remote| abi::RdmaTarget {
                remote_addr: remote.address,
                rkey: remote.rkey,
            });
            next = request.write(abi::SendWr {
                wr_id: *id,
                next,
                num_sge: c_int::from(piece.length > 0),
                sg_list: piece,
                opcode,
                send_flags: flags,
                imm_data_invalidated_rkey_union: abi::Word { imm_data: immediate.unwrap_or(0).to_be() },
                wr: abi::Target { rdma: target },
                ..Plain::ZERO
            });
            flags = 0;
        }
        Ok(next)
    }
}
