//! Data of any length through calls: one for each segment, several under way.
//!
//! A segment is [offered](super::offer) while its call goes on, so memory for a window of them is all that is needed,
//! however long the data is, and however many members read it. Functions and callbacks work on a segment as soon as it
//! is there: while the answers for one are combined element by element, the next ones are being computed further down.
//! No function sees a part of a segment; if a call fails, those after it are given up.
//!
//! ```
//! use std::time::Duration;
//! use umbra::call::{Member, Segment, Shape, Station, Window};
//! use umbra_core::chain::{Call, Node, Tag, Verdict};
//!
//! let station = Station::create("example", Shape { offer_bytes: 4096, ..Shape::new(1) })?;
//! let mut member = Member::join(&station, Node(0))?;
//! member.register_local("check", |work, local| {
//!     let Some((segment, _)) = Segment::parse(work.header) else { return Verdict::Fault(1) };
//!     let mut bytes = vec![0; segment.len as usize];
//!     let read = local.read(work.data, 0, &mut bytes);
//!     if read.is_ok() && bytes.iter().all(|&byte| byte == 7) { Verdict::Done } else { Verdict::Fault(2) }
//! })?;
//! let window = Window { segment: 1024, calls: 4, patience: Duration::from_secs(1) };
//! let mut segments = 0;
//! member.stream(&Call::new(Tag::of("check"), &[]), &[7; 10_000], window, |_, _| segments += 1)?;
//! assert_eq!(segments, 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use umbra_core::chain::{Call, Handle, StartError};

use super::answer::{Reply, WaitError};
use super::member::Member;
use super::offer::{OFFERS, Offer, OfferError};

/// Which part of the data a call is about; the first bytes of its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it begins.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// Bytes of all segments.
    pub total: u64,
}

impl Segment {
    /// Bytes of it in the header.
    pub const BYTES: usize = 24;

    /// Reads it off a header; the rest is the header of the call that was streamed.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<(Segment, &[u8])> {
        let (own, rest) = header.split_at_checked(Self::BYTES)?;
        let [offset, len, total] = own.as_chunks::<8>().0 else { return None };
        let [offset, len, total] = [offset, len, total].map(|bytes| u64::from_le_bytes(*bytes));
        Some((Segment { offset, len, total }, rest))
    }

    fn header(self, rest: &[u8]) -> Vec<u8> {
        let own = [self.offset, self.len, self.total].map(u64::to_le_bytes);
        [own.as_flattened(), rest].concat()
    }
}

/// How data is cut, and how much of it is on its way at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Bytes of a segment.
    pub segment: usize,
    /// Calls under way at once, at most: fewer where there is no room to offer as many segments.
    pub calls: usize,
    /// How long to wait for each.
    pub patience: Duration,
}

/// Why not all segments got through.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Segments of no bytes, or none at once, would never end.
    #[error("a window of no bytes or no calls moves nothing")]
    NoWindow,
    /// A segment could not be offered.
    #[error("segment at {offset}: {error}")]
    Offer {
        /// Where it begins.
        offset: u64,
        /// Why.
        error: OfferError,
    },
    /// Its call could not be begun.
    #[error("segment at {offset}: {error}")]
    Start {
        /// Where it begins.
        offset: u64,
        /// Why.
        error: StartError,
    },
    /// Its call failed.
    #[error("segment at {offset}: {error}")]
    Call {
        /// Where it begins.
        offset: u64,
        /// Why.
        error: WaitError,
    },
}

/// A call that is under way, and what it is about.
type Begun = (Segment, Handle, Offer);

impl Member {
    /// Makes this call for each segment of `data`, and has `each` look at the replies in their order. Functions find the
    /// [`Segment`] in front of the header.
    ///
    /// # Errors
    /// [`StreamError`] of the first segment that failed: those before it got through, those after it may have.
    pub fn stream(
        &mut self,
        call: &Call<'_>,
        data: &[u8],
        window: Window,
        mut each: impl FnMut(Segment, Reply),
    ) -> Result<(), StreamError> {
        if window.segment == 0 || window.calls == 0 {
            return Err(StreamError::NoWindow);
        }
        let mut begun: VecDeque<Begun> = VecDeque::with_capacity(window.calls.min(OFFERS));
        let (mut offset, mut laid) = (0, None);
        let result = loop {
            let has_place = begun.len() < window.calls;
            let next = laid.take().map(Ok);
            let next = next.or_else(|| has_place.then(|| self.lay_next(data, &mut offset, window)).flatten());
            match next {
                Some(Ok((segment, offer))) => {
                    let header = segment.header(call.header);
                    match self.start(&Call { header: &header, data: offer.data(), ..*call }) {
                        Ok(handle) => {
                            begun.push_back((segment, handle, offer));
                            continue;
                        }
                        // There is no place for another call now; one of those under way will free it.
                        Err(StartError::WouldBlock) if !begun.is_empty() => laid = Some((segment, offer)),
                        Err(error) => {
                            self.take_back(offer);
                            break Err(StreamError::Start { offset: segment.offset, error });
                        }
                    }
                }
                // Nor room for its data.
                Some(Err(error)) if error.is_for_now() && !begun.is_empty() => {}
                Some(Err(error)) => break Err(StreamError::Offer { offset: offset as u64, error }),
                None => {}
            }
            let Some((segment, handle, offer)) = begun.pop_front() else { break Ok(()) };
            match self.wait(handle, window.patience) {
                Ok(reply) => {
                    self.take_back(offer);
                    each(segment, reply);
                }
                Err(error) => {
                    begun.push_front((segment, handle, offer));
                    break Err(StreamError::Call { offset: segment.offset, error });
                }
            }
        };
        if let Some((_, offer)) = laid {
            self.take_back(offer);
        }
        for (_, handle, offer) in begun {
            // The answer of the one that failed was taken already.
            if self.cancel(handle).is_ok() {
                let _ = self.wait(handle, Duration::ZERO);
            }
            self.take_back(offer);
        }
        result
    }

    /// Offers the segment that begins at `offset`, if there is one, and moves that on.
    fn lay_next(
        &mut self,
        data: &[u8],
        offset: &mut usize,
        window: Window,
    ) -> Option<Result<(Segment, Offer), OfferError>> {
        let rest = data.get(*offset..).filter(|rest| !rest.is_empty())?;
        let bytes = rest.get(..window.segment).unwrap_or(rest);
        let segment = Segment { offset: *offset as u64, len: bytes.len() as u64, total: data.len() as u64 };
        Some(self.offer(bytes).map(|offer| {
            *offset += bytes.len();
            (segment, offer)
        }))
    }
}
