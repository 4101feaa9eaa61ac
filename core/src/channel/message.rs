//! Messages: what they say about themselves, and their bytes.
//!
//! The bytes lie in memory that others may change at any time, so they are copied, or looked at as
//! [`Bytes`] and [`BytesMut`]; lengths are checked against the block each time.

use super::error::{AttachError, ReceiveError, SendError};
use super::layout::{SLOT_HEADER, Shape};
use super::queue::{Position, Queue, Take};
use super::slots::Claim;
use crate::atomic::{AtomicU64, Ordering};
use crate::cell::{Bytes, BytesMut};

const WORD: usize = size_of::<u64>();

/// What goes along with the bytes of a message, unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Header {
    /// The user's.
    pub hints: u64,
    /// Who sent it, by a number of the user's.
    pub sender: u64,
    /// Through which send handle it came.
    pub handle: [u64; 2],
    /// Bits of the layer above.
    pub flags: u32,
}

/// What was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Received {
    /// Its bytes.
    pub len: usize,
    /// What came along.
    pub header: Header,
    /// Where it stood.
    pub position: Position,
}

/// What was seen of the message that is the next to be received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Peeked {
    /// Its bytes; as many as there was room for were copied.
    pub len: usize,
    /// What came along.
    pub header: Header,
}

/// A queue and the bytes of its messages; copies are cheap.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    queue: Queue<'a>,
    slots: BytesMut<'a>,
    /// Bytes of a block.
    block: usize,
    /// Bytes from slot to slot.
    stride: usize,
}

impl<'a> Messages<'a> {
    /// Makes an empty channel; nobody may use the memory as one meanwhile.
    ///
    /// # Errors
    /// [`AttachError`] if the shape is impossible or does not fit.
    pub fn create(memory: BytesMut<'a>, shape: Shape) -> Result<Self, AttachError> {
        Self::over(memory, |words| Queue::create(words, shape))
    }

    /// The same in memory that is zero, as fresh pages are: see [`Queue::create_in_zeros`].
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn create_in_zeros(memory: BytesMut<'a>, shape: Shape) -> Result<Self, AttachError> {
        Self::over(memory, |words| Queue::create_in_zeros(words, shape))
    }

    /// Looks at a channel that another process created; the memory may be larger than it.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(memory: BytesMut<'a>) -> Result<Self, AttachError> {
        Self::over(memory, Queue::attach)
    }

    // Inlined, so that the compiler leaves out what is not used.
    #[inline(always)]
    pub(super) fn over(
        memory: BytesMut<'a>,
        queue: impl FnOnce(&'a [AtomicU64]) -> Result<Queue<'a>, AttachError>,
    ) -> Result<Self, AttachError> {
        let words = memory.words(0, memory.len() / WORD).map_err(|_| AttachError::NotChannel)?;
        let queue = queue(words)?;
        let plan = queue.plan;
        let needed = AttachError::TooSmall { words: words.len(), needed: plan.words };
        let slots = memory.part(plan.slots_at * WORD, plan.slots * plan.stride * WORD).map_err(|_| needed)?;
        Ok(Messages { queue, slots, block: plan.block, stride: plan.stride * WORD })
    }

    /// The same channel, seen by somebody who calls it damaged after `spare` steps for which only contention could
    /// account, instead of 65536: for who knows that there is little.
    #[must_use]
    pub const fn with_spare(mut self, spare: usize) -> Self {
        self.queue.spare = spare;
        self
    }

    /// The order of the messages, without their bytes.
    #[must_use]
    pub const fn queue(&self) -> &Queue<'a> {
        &self.queue
    }

    /// Bytes that fit into a message.
    #[must_use]
    pub const fn block(&self) -> usize {
        self.block
    }

    /// The words of a slot behind its own: what its message says about itself.
    #[inline]
    fn about(&self, slot: usize) -> Option<&'a [AtomicU64]> {
        let at = slot * self.queue.plan.stride;
        self.queue.slots.get(at + 1..at + SLOT_HEADER)
    }

    #[inline]
    fn bytes(&self, slot: usize) -> Option<BytesMut<'a>> {
        self.slots.part(slot * self.stride + SLOT_HEADER * WORD, self.block).ok()
    }

    #[inline]
    pub(super) fn describe(&self, slot: usize, len: usize, header: Header) {
        let Some([about, hints, sender, handle @ ..]) = self.about(slot) else { return };
        about.store(len as u64 | u64::from(header.flags) << 32, Ordering::Relaxed);
        hints.store(header.hints, Ordering::Relaxed);
        sender.store(header.sender, Ordering::Relaxed);
        for (to, &from) in handle.iter().zip(&header.handle) {
            to.store(from, Ordering::Relaxed);
        }
    }

    /// What a message says about itself; its length lies within the block.
    #[inline]
    fn description(&self, slot: usize) -> Option<(usize, Header)> {
        let [about, hints, sender, first, second] = self.about(slot)? else { return None };
        let about = about.load(Ordering::Relaxed);
        let header = Header {
            hints: hints.load(Ordering::Relaxed),
            sender: sender.load(Ordering::Relaxed),
            handle: [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)],
            flags: (about >> 32) as u32,
        };
        let len = about as u32 as usize;
        (len <= self.block).then_some((len, header))
    }

    /// Sends a message as process number `by`: the bytes are copied. Where it stands.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then.
    #[inline]
    pub fn send(&self, by: u16, header: Header, bytes: &[u8]) -> Result<Position, SendError> {
        let (claim, block) = self.claim(by, bytes.len())?;
        if block.write(0, bytes).is_err() {
            self.queue.give_up(claim);
            return Err(SendError::Damaged);
        }
        self.describe(claim.slot(), bytes.len(), header);
        self.queue.publish(claim)
    }

    /// A slot for `len` bytes, and where they go.
    #[inline]
    pub(super) fn claim(&self, by: u16, len: usize) -> Result<(Claim, BytesMut<'a>), SendError> {
        if self.queue.is_destroyed() {
            return Err(SendError::Destroyed);
        }
        if len > self.block {
            return Err(SendError::TooLarge { len, block: self.block });
        }
        self.queue.fetch_to_send(SLOT_HEADER * WORD + len);
        let claim = self.queue.claim(by)?;
        match self.bytes(claim.slot()).and_then(|block| block.part(0, len).ok()) {
            Some(bytes) => Ok((claim, bytes)),
            None => {
                self.queue.give_up(claim);
                Err(SendError::Damaged)
            }
        }
    }

    /// Receives the first message as process number `by`, into the caller's memory.
    ///
    /// # Errors
    /// [`ReceiveError`]; a message that does not fit stays the first.
    #[inline]
    pub fn receive(&self, by: u16, pad: &mut [u8]) -> Result<Received, ReceiveError> {
        let taken = self.take_within(by, pad.len())?;
        taken.copy_to(pad)?;
        Ok(taken.received())
    }

    /// Receives the first message where it lies; its slot is free again when what this returns is dropped.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn take(&self, by: u16) -> Result<Taken<'a>, ReceiveError> {
        self.take_within(by, usize::MAX)
    }

    /// Receives the first message if it is no longer than `pad` bytes.
    #[inline]
    pub(super) fn take_within(&self, by: u16, pad: usize) -> Result<Taken<'a>, ReceiveError> {
        let fits = |_, bytes: Bytes<'_>| {
            let len = bytes.len();
            if len > pad { Err(ReceiveError::PadTooSmall { len, pad }) } else { Ok(()) }
        };
        self.take_if(by, fits)
    }

    /// Receives the first message, unless `judge`, who looks at it before, refuses: then it stays the first. What is
    /// judged may be another message's by the time that is done; then the next first one is judged.
    ///
    /// # Errors
    /// [`ReceiveError`], and those of `judge`.
    #[inline]
    pub fn take_if<E: From<ReceiveError>>(
        &self,
        by: u16,
        mut judge: impl FnMut(Header, Bytes<'a>) -> Result<(), E>,
    ) -> Result<Taken<'a>, E> {
        for _ in 0..self.queue.spare {
            if self.queue.is_destroyed() {
                return Err(ReceiveError::Destroyed.into());
            }
            let glimpse = self.queue.first()?;
            if let Some((bytes, header)) = self.content(glimpse.slot())
                && let Err(refused) = judge(header, bytes)
            {
                if self.queue.still(&glimpse) {
                    return Err(refused);
                }
                continue;
            }
            let Some(take) = self.queue.take(&glimpse, by) else { continue };
            self.queue.fetch_next(take.position);
            return self.taken(take).ok_or_else(|| ReceiveError::Damaged.into());
        }
        Err(ReceiveError::Damaged.into())
    }

    /// The bytes of a message, and what it says about itself.
    #[inline]
    pub(super) fn content(&self, slot: usize) -> Option<(Bytes<'a>, Header)> {
        let (len, header) = self.description(slot)?;
        Some((self.bytes(slot)?.read_only().part(0, len).ok()?, header))
    }

    /// A message that is ours; given back if it is none.
    #[inline]
    pub(super) fn taken(&self, take: Take) -> Option<Taken<'a>> {
        let Some((bytes, header)) = self.content(take.slot()) else {
            self.queue.release(take);
            return None;
        };
        Some(Taken { messages: *self, take: Some(take), bytes, header })
    }

    /// Looks at the first message and copies as much of it as there is room for; it stays the first.
    ///
    /// # Errors
    /// [`ReceiveError`], but not for a pad that is too small.
    pub fn peek(&self, pad: &mut [u8]) -> Result<Peeked, ReceiveError> {
        for _ in 0..self.queue.spare {
            if self.queue.is_destroyed() {
                return Err(ReceiveError::Destroyed);
            }
            let glimpse = self.queue.first()?;
            let (Some(bytes), seen) = (self.bytes(glimpse.slot()), self.description(glimpse.slot())) else {
                return Err(ReceiveError::Damaged);
            };
            let Some((len, header)) = seen else {
                if self.queue.still(&glimpse) {
                    return Err(ReceiveError::Damaged);
                }
                continue;
            };
            let copied = len.min(pad.len());
            if let Some(pad) = pad.get_mut(..copied) {
                bytes.read_only().read(0, pad).map_err(|_| ReceiveError::Damaged)?;
            }
            if self.queue.still(&glimpse) {
                return Ok(Peeked { len, header });
            }
        }
        Err(ReceiveError::Damaged)
    }
}

/// A received message where it lies; dropping it gives the slot back.
#[derive(Debug)]
pub struct Taken<'a> {
    messages: Messages<'a>,
    pub(super) take: Option<Take>,
    bytes: Bytes<'a>,
    header: Header,
}

impl Taken<'_> {
    /// Its bytes; what another process writes there meanwhile is seen.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        self.bytes
    }

    /// Its length, what came along, and where it stood.
    #[must_use]
    #[inline]
    pub fn received(&self) -> Received {
        let position = self.take.as_ref().map_or(Position(0), |take| take.position);
        Received { len: self.bytes.len(), header: self.header, position }
    }

    /// Copies its bytes to the front of `pad`.
    ///
    /// # Errors
    /// [`ReceiveError::PadTooSmall`]; the message is still there.
    #[inline]
    pub fn copy_to(&self, pad: &mut [u8]) -> Result<(), ReceiveError> {
        let (len, room) = (self.bytes.len(), pad.len());
        let pad = pad.get_mut(..len).ok_or(ReceiveError::PadTooSmall { len, pad: room })?;
        self.bytes.read(0, pad).map_err(|_| ReceiveError::Damaged)
    }
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(take) = self.take.take() {
            self.messages.queue.release(take);
        }
    }
}
