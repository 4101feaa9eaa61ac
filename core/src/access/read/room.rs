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
    /// Whether another request over this link fits and leaves room for those over others. A place is kept for each link
    /// that has none, so where there are as many places as links, any number of links that do not answer leave one to
    /// every other; of the places beyond that, a link may have as many as it leaves.
    #[must_use]
    pub fn has_room_for(&self, link: Link) -> bool {
        let requests = self.servers.as_ref().get(link.index()).map_or(0, |server| server.requests as usize);
        let free = self.requests.capacity() - self.requests.len();
        if requests == 0 { free > 0 } else { requests < free.saturating_sub(self.idle as usize) }
    }

    /// Who has not answered requests over this link, if there are any.
    #[must_use]
    pub fn awaited(&self, link: Link) -> Option<Sp> {
        self.servers.as_ref().get(link.index()).filter(|server| server.requests > 0)?.sp
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
            self.idle += server.uncount();
        }
    }
}

impl Server {
    /// Another request over it; by how many links there are fewer without any.
    #[inline]
    pub(super) const fn count(&mut self) -> u32 {
        self.requests += 1;
        (self.requests == 1) as u32
    }

    /// One request less over it; by how many links there are more without any.
    #[inline]
    pub(super) const fn uncount(&mut self) -> u32 {
        let last = self.requests == 1;
        self.requests = self.requests.saturating_sub(1);
        last as u32
    }
}
