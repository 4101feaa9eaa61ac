//! Reliably connected queue pairs.
//!
//! A [`Queue`] is a queue pair with a completion queue of its own, so what breaks here disturbs nobody else. Any error
//! of posted work breaks the pair on both sides: everything behind it ends as [`WorkStatus::Flushed`](super::WorkStatus::Flushed), and
//! [`connect`](Queue::connect) makes it usable again once both sides have exchanged fresh [`Address`]es.
//!
//! *Cost*: a post builds its requests on the stack and makes one call into the driver, for up to [`BATCH`] pieces of
//! work; a poll is one call for up to [`BATCH`] completions.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::VerbsError;
use super::abi::{self, Plain};
use super::address::Address;
use super::chain::Chain;
use super::completions::{BATCH, Completions};
use super::memory::Domain;
use super::numbers::{RELIABLE_CONNECTION, access, mask, state};
use super::port::{Link, Port};
use super::shared::{self, Shared, SharedReceives};
use super::status::WorkKind;
use super::work::{Completion, Piece, Work};

/// Bytes that requests take along where the device can: a cell.
const INLINE: u32 = 64;

/// How much may be under way at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depths {
    /// Posted work.
    pub work: u32,
    /// Posted buffers to receive into.
    pub receives: u32,
}

/// A queue pair, its completions, and the port it speaks through.
#[derive(Debug)]
pub struct Queue {
    // Dropped in this order: the pair before the completions that it uses.
    pair: Pair,
    completions: Completions,
    port: Port,
    depths: Depths,
    first_packet: u32,
    connected: bool,
    /// Bytes that a request may take along, instead of where they lie.
    inline: u32,
    /// How many posted pieces of work each requested completion stands for, the oldest first.
    runs: VecDeque<u32>,
    under_way: u32,
}

#[derive(Debug)]
struct Pair {
    domain: Arc<Domain>,
    qp: NonNull<abi::Qp>,
    /// What it receives into, if it has no buffers of its own.
    shared: Option<Arc<Shared>>,
}

/// Makes a queue pair as wanted, and writes down what it can do.
fn create(domain: &Domain, wanted: &mut abi::QpInitAttr) -> Option<NonNull<abi::Qp>> {
    // SAFETY: the domain lives, and the completion queue that is wanted, too: both longer than the pair does.
    NonNull::new(unsafe { (domain.device.library.create_qp)(domain.pd.as_ptr(), wanted) })
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: made once, freed once; the driver forgets all posted work.
        unsafe { (self.domain.device.library.destroy_qp)(self.qp.as_ptr()) };
    }
}

// SAFETY: rdma-core's calls on queue pairs and completion queues may be made from any thread, one at a time here.
unsafe impl Send for Queue {}
// SAFETY: as above, and what is called through a shared reference is safe to be called from several threads at once.
unsafe impl Sync for Queue {}

impl Queue {
    /// A queue pair on a port, not connected yet.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the device cannot make it so deep.
    pub fn new(domain: &Arc<Domain>, port: &Port, depths: Depths) -> Result<Queue, VerbsError> {
        Queue::make(domain, port, depths, None)
    }

    /// A queue pair on a port that takes at most so much work and receives into shared buffers, not connected yet. What
    /// arrives is told by [`SharedReceives::poll`], with the number of this queue pair's [`Address`].
    ///
    /// Its peer must be one of this kind, too: both wait without end as long as the other has no buffer, while a peer whose
    /// process or card is gone is told as ever. Soft-RoCE of Linux 6.1 takes a peer without buffers for gone after half a
    /// second.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn sharing(receives: &SharedReceives, port: &Port, work: u32) -> Result<Queue, VerbsError> {
        let shared = receives.shared();
        Queue::make(&shared.completions.domain, port, Depths { work, receives: 0 }, Some(shared))
    }

    fn make(
        domain: &Arc<Domain>,
        port: &Port,
        depths: Depths,
        shared: Option<&Arc<Shared>>,
    ) -> Result<Queue, VerbsError> {
        let completions = Completions::new(domain, depths.work.saturating_add(depths.receives))?;
        let cap = abi::QpCap {
            max_send_wr: depths.work,
            max_recv_wr: depths.receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: INLINE,
        };
        let (send_cq, qp_type) = (completions.place.cq.as_ptr(), RELIABLE_CONNECTION);
        let (srq, recv_cq) = match shared {
            Some(shared) => (shared.srq.as_ptr(), shared.completions.cq.as_ptr()),
            None => (std::ptr::null_mut(), send_cq),
        };
        let mut wanted = abi::QpInitAttr { send_cq, recv_cq, srq, cap, qp_type, ..Plain::ZERO };
        let qp = create(domain, &mut wanted).or_else(|| {
            // It may be that the device takes no bytes along.
            wanted.cap = abi::QpCap { max_inline_data: 0, ..cap };
            create(domain, &mut wanted)
        });
        let qp = qp.ok_or_else(|| VerbsError::last("making a queue pair"))?;
        let runs = VecDeque::with_capacity(depths.work as usize);
        let inline = wanted.cap.max_inline_data;
        let (pair, port) = (Pair { domain: domain.clone(), qp, shared: shared.cloned() }, port.clone());
        let mut queue =
            Queue { pair, completions, port, depths, first_packet: 0, connected: false, inline, runs, under_way: 0 };
        queue.reset()?;
        Ok(queue)
    }

    /// What the other side needs to connect; another one after each [`reset`](Self::reset).
    #[must_use]
    pub fn address(&self) -> Address {
        let Port { gid, lid, mtu, device, .. } = &self.port;
        // SAFETY: the pair lives, and its number never changes.
        let number = unsafe { (*self.pair.qp.as_ptr()).qp_num };
        let (first_packet, reads) = (self.first_packet, device.reads());
        Address { number, first_packet, mtu: *mtu, lid: *lid, reads, gid: gid.bytes }
    }

    /// Forgets all posted work and every completion of it, and makes the pair ready to be connected.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn reset(&mut self) -> Result<(), VerbsError> {
        self.connected = false;
        self.modify("resetting a queue pair", abi::QpAttr { qp_state: state::RESET, ..Plain::ZERO }, 0)?;
        let most = (self.depths.work + self.depths.receives) as usize;
        for _ in 0..=most {
            if self.completions.poll()?.is_empty() {
                break;
            }
        }
        self.runs.clear();
        self.under_way = 0;
        // A late packet of another connection must not count in the next, whichever process had that number of a pair.
        let drawn = crate::secret::random::<4>()
            .map_err(|error| VerbsError::Call { what: "drawing the number of a first packet", error })?;
        self.first_packet = u32::from_le_bytes(drawn) & 0x00ff_ffff;
        let attributes = abi::QpAttr {
            qp_state: state::INIT,
            port_num: self.port.number,
            qp_access_flags: (access::REMOTE_READ | access::REMOTE_WRITE).cast_unsigned(),
            ..Plain::ZERO
        };
        self.modify("preparing a queue pair", attributes, mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)
    }

    /// Connects to the queue pair with this address, which must be connected to this one likewise.
    ///
    /// # Errors
    /// [`VerbsError::Unreachable`], [`VerbsError::Mtu`] or [`VerbsError::NoSuchGid`] if no way leads there from this port
    /// any more; [`VerbsError::Call`] if it was connected before and not [`reset`](Self::reset).
    pub fn connect(&mut self, peer: &Address) -> Result<(), VerbsError> {
        let route = abi::AhAttr {
            grh: abi::GlobalRoute {
                dgid: abi::Gid { raw: peer.gid },
                sgid_index: u8::try_from(self.port.gid.index).unwrap_or(0),
                hop_limit: 64,
                flow_label: 0,
                traffic_class: 0,
            },
            dlid: peer.lid,
            is_global: u8::from(self.port.link == Link::Ethernet),
            port_num: self.port.number,
            ..Plain::ZERO
        };
        let (reads, mtu) = (self.address().reads_with(peer), self.port.mtu.min(peer.mtu));
        self.port.check_mtu(mtu)?;
        let ready_to_receive = abi::QpAttr {
            qp_state: state::RTR,
            // An `enum ibv_mtu` counts doublings from 128.
            path_mtu: (mtu / 128).max(2).ilog2(),
            dest_qp_num: peer.number,
            rq_psn: peer.first_packet,
            ah_attr: route,
            max_dest_rd_atomic: reads,
            // 10.24 ms: how long a peer that finds no buffer here waits before it tries again.
            min_rnr_timer: 20,
            ..Plain::ZERO
        };
        let receive =
            mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER;
        let connected = self.modify("connecting a queue pair", ready_to_receive, receive);
        connected.map_err(|error| self.port.explain(error, peer))?;
        let ready_to_send = abi::QpAttr {
            qp_state: state::RTS,
            sq_psn: self.first_packet,
            // 4.096 us x 2^14 = 67 ms, six times: a dead peer is told in about half a second. Seven would mean "for ever"
            // to soft-RoCE, as it does to every device for a peer that has no buffer: shared buffers run out without
            // anybody's fault.
            timeout: 14,
            retry_cnt: 6,
            rnr_retry: if self.pair.shared.is_some() { 7 } else { 6 },
            max_rd_atomic: reads,
            ..Plain::ZERO
        };
        let send = mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::SQ_PSN | mask::MAX_QP_RD_ATOMIC;
        self.modify("connecting a queue pair", ready_to_send, send)?;
        self.connected = true;
        Ok(())
    }

    fn modify(&mut self, what: &'static str, mut attributes: abi::QpAttr, mask: c_int) -> Result<(), VerbsError> {
        let modify = &self.pair.domain.device.library.modify_qp;
        // SAFETY: the pair lives; the call reads the struct and keeps nothing of it.
        VerbsError::check(what, unsafe { modify(self.pair.qp.as_ptr(), &raw mut attributes, mask | mask::STATE) })
    }

    /// Bytes that posted work may take along at most, so that the card need not fetch them; 0 on devices that cannot.
    #[must_use]
    pub const fn inline(&self) -> u32 {
        self.inline
    }

    /// Whether there is no room for one more piece of work until a completion is polled.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.under_way >= self.depths.work
    }

    /// Posts work in this order, each piece with its number; only the last asks for a completion, which then stands
    /// for all of them. At most [`BATCH`] pieces.
    ///
    /// # Errors
    /// [`VerbsError::NotConnected`], [`VerbsError::Full`] if not all of them find room, or
    /// [`VerbsError::OutOfBounds`]; nothing was posted then. [`VerbsError::Call`] if the driver refuses: the queue is
    /// broken then.
    pub fn post(&mut self, works: &[(u64, Work<'_>)]) -> Result<(), VerbsError> {
        let count = works.len();
        if !self.connected {
            return Err(VerbsError::NotConnected);
        }
        if count > BATCH || count as u32 > self.depths.work - self.under_way {
            return Err(VerbsError::Full);
        }
        let Some(last) = works.len().checked_sub(1) else { return Ok(()) };
        let mut chain = Chain::new();
        let first = chain.fill(works, self.inline)?;
        self.hand_over(first, last as u32 + 1)
    }

    /// Posts a request that is no [`Work`].
    pub(super) fn post_one(&mut self, request: &mut abi::SendWr) -> Result<(), VerbsError> {
        if !self.connected {
            return Err(VerbsError::NotConnected);
        }
        if self.is_full() {
            return Err(VerbsError::Full);
        }
        self.hand_over(request, 1)
    }

    /// Gives so many chained requests to the driver, the last of which asks for a completion.
    fn hand_over(&mut self, first: *mut abi::SendWr, count: u32) -> Result<(), VerbsError> {
        let mut refused = std::ptr::null_mut();
        // SAFETY: requests and pieces live through the call, which copies them; the local bytes belong to registered
        // segments, which stay mapped until they are taken back from the card.
        let code = unsafe { abi::post_send(self.pair.qp.as_ptr(), first, &raw mut refused) };
        VerbsError::check("posting work", code).inspect_err(|_| self.connected = false)?;
        self.under_way += count;
        self.runs.push_back(count);
        Ok(())
    }

    /// Posts a buffer for the peer's next SEND or WRITE with immediate data.
    ///
    /// # Errors
    /// [`VerbsError::OutOfBounds`], [`VerbsError::ReceivesAreShared`], or [`VerbsError::Call`] if there is no room.
    pub fn receive(&mut self, id: u64, into: Piece<'_>) -> Result<(), VerbsError> {
        if self.pair.shared.is_some() {
            return Err(VerbsError::ReceivesAreShared);
        }
        let (mut piece, _) = into.sge()?;
        let mut request = shared::request(id, &mut piece);
        let mut refused = std::ptr::null_mut();
        // SAFETY: as in `hand_over`.
        let code = unsafe { abi::post_recv(self.pair.qp.as_ptr(), &raw mut request, &raw mut refused) };
        VerbsError::check("posting a buffer", code)
    }

    /// Breaks the pair on purpose: it receives nothing any more, and what was posted ends as [`WorkStatus::Flushed`](super::WorkStatus::Flushed).
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn stop(&mut self) -> Result<(), VerbsError> {
        self.connected = false;
        self.modify("stopping a queue pair", abi::QpAttr { qp_state: state::ERROR, ..Plain::ZERO }, 0)
    }

    /// Whether posted work has not ended yet.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// Tells up to [`BATCH`] completions; how many. An error among them breaks the queue.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the driver fails.
    pub fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> Result<usize, VerbsError> {
        let Queue { completions, connected, under_way, runs, .. } = self;
        let ended = completions.poll()?;
        for wc in ended {
            let ended = Completion::of(wc);
            match ended.kind {
                WorkKind::Failed => *connected = false,
                WorkKind::Received | WorkKind::Written => {}
                _ => *under_way -= runs.pop_front().unwrap_or(0).min(*under_way),
            }
            sink(ended);
        }
        Ok(ended.len())
    }

    /// Makes [`descriptor`](Self::descriptor) readable at the next completion; what completed before does not. Once is
    /// enough until the event was taken.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn arm(&mut self) -> Result<(), VerbsError> {
        self.completions.arm()
    }

    /// Readable once something completed after [`arm`](Self::arm).
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.completions.descriptor()
    }

    /// Takes the event that made the descriptor readable; waits for one if it is not.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn take_event(&mut self) -> Result<(), VerbsError> {
        self.completions.take_event()
    }

    /// As [`poll`](Self::poll), but sleeps if there is nothing, at most so long.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn wait(&mut self, at_most: Duration, sink: &mut dyn FnMut(Completion)) -> Result<usize, VerbsError> {
        self.completions.arm()?;
        // What completed before it was armed makes no event.
        let told = self.poll(sink)?;
        if told == 0 && self.completions.sleep(at_most)? { self.poll(sink) } else { Ok(told) }
    }
}
