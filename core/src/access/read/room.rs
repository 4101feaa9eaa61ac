//! How many requests there may be, and of whom they are.

use super::{Piece, Place, Reader, Server, Waiting};
use crate::machine::Link;
use crate::peer::Sp;
use crate::pending::Request;
use crate::slots::Slot;

impl<R, P, K, L> Reader<R, P, K, L>
where
    R: AsRef<[Request<Waiting>]> + AsMut<[Request<Waiting>]>,
    P: AsRef<[Slot<Piece>]> + AsMut<[Slot<Piece>]>,
    K: AsRef<[Place]> + AsMut<[Place]>,
    L: AsRef<[Server]> + AsMut<[Server]>,
{
    /// Whether another request over this link fits and leaves room for those over others. It may have as many as
    /// there are places free, so a link that does not answer leaves half of those that it found: 256 places are all
    /// taken by nine such links.
    #[must_use]
    pub fn has_room_for(&self, link: Link) -> bool {
        let requests = self.servers.as_ref().get(link.index()).map_or(0, |server| server.requests);
        (requests as usize) < self.requests.capacity() - self.requests.len()
    }

    /// Who has not answered requests over this link, if there are any.
    #[must_use]
    pub fn awaited(&self, link: Link) -> Option<Sp> {
        self.servers.as_ref().get(link.index()).filter(|server| server.requests > 0)?.sp
    }

    /// Whether another request fits.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.requests.len() < self.requests.capacity()
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.requests.len()
    }

    /// A request over a link has ended.
    #[inline]
    pub(super) fn uncount(&mut self, link: Link) {
        if let Some(server) = self.servers.as_mut().get_mut(link.index()) {
            server.requests = server.requests.saturating_sub(1);
        }
    }
}
