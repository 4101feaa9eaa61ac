//! Short reads: one call checks, copies and answers.
//!
//! They are for a driver that copies at once.

use super::{Access, Answer, Asker, Entry, Incarnation, Job, Link, READ, STEP, Serve, Slot, TRANSFER, Transfer};
use super::{Status, asker_is_service};
use crate::access::device::Piece;
use crate::wire::Frame;

impl<E, J, A> Serve<E, J, A>
where
    E: AsRef<[Entry]> + AsMut<[Entry]>,
    J: AsRef<[Slot<Job>]> + AsMut<[Slot<Job>]>,
    A: AsRef<[Asker]> + AsMut<[Asker]>,
{
    /// A frame came; if it asks for at most [`STEP`] bytes that may be read, into the asker's landing segment, they are
    /// copied by `copy` now, and this is the answer. Nothing else happens meanwhile, so the region is not held, nor is
    /// the request outstanding. `copy` returns what the asker shall be told, or `None` if it can't copy at once.
    ///
    /// `None`: hand the frame to [`on_frame`](Self::on_frame), which says what is wrong with it, if anything.
    ///
    /// *Cost*: one look-up in the table of regions; nothing is written to it.
    #[inline(always)]
    pub fn read_now(
        &mut self,
        link: Link,
        frame: &Frame<'_>,
        copy: impl FnOnce(&Piece) -> Option<Status>,
    ) -> Option<Answer> {
        let &Frame::Call { op: READ, token, body } = frame else { return None };
        let body: &[u8; TRANSFER] = body.try_into().ok()?;
        let (Transfer { span, incarnation, landing }, _) = Transfer::parse(body).ok()?;
        let asker = self.askers.as_ref().get(link.index())?;
        asker_is_service(asker.who?).ok()?;
        let landing = landing.filter(|&at| at <= asker.landing && span.len <= asker.landing - at)?;
        if span.len > STEP || asker.outstanding >= asker.credit {
            return None;
        }
        let (place, region) = self.regions.may(span, Access::READ, self.me).ok()?;
        if incarnation != Incarnation::ANY && incarnation != region.incarnation {
            return None;
        }
        // No overflow: the region has the whole span, and an address for each of its bytes.
        let address = region.base.wrapping_add(span.offset);
        let status = copy(&Piece { place, offset: span.offset, address, landing, len: span.len })?;
        self.count(status, span.len);
        Some(Answer::plain(link, READ, token, status))
    }
}
