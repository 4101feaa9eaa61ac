//! Letting service processes reach exported memory over RDMA.
//!
//! A segment that nobody can map is registered with an RDMA device, for reading only. A service process that wants to
//! read it connects a queue pair; that is the one thing for which the rank has to call something.

use std::sync::Arc;

use umbra_core::access::direct::{CONNECT, Connect};
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::peer::Peer;
use umbra_core::wire::{Frame, Token};

use super::memory::Kept;
use super::{Rdma, Session, SessionError};
use crate::access::exposure::{Exposure, any_port};
use crate::driver::LinkId;
use crate::sys::segment::Segment;
use crate::verbs::{Address, VerbsError};

impl Session {
    /// Keeps a segment the way in which service processes will reach it.
    pub(super) fn keep(&mut self, segment: Segment) -> Result<Kept, SessionError> {
        let needed = self.settings.rdma != Rdma::WhereNeeded;
        if !needed && self.settings.sockets.is_some() {
            return Ok(Kept::Shared(segment));
        }
        match (self.register(segment), self.shadows.first()) {
            (Ok(kept), _) => Ok(kept),
            (Err(why), Some(shadow)) if !needed => Err(SessionError::CannotShare { sp: shadow.sp, why: Some(why) }),
            (Err(why), _) => Err(why.into()),
        }
    }

    fn register(&mut self, segment: Segment) -> Result<Kept, VerbsError> {
        let exposure = match &mut self.exposure {
            Some(exposure) => exposure,
            none => none.insert(Exposure::new(&any_port()?)?),
        };
        exposure.register(Arc::new(segment), Access::READ).map(Kept::Registered)
    }

    /// A reader wants to connect a queue pair; it came through a service process of this rank.
    pub(super) fn on_connect(&mut self, link: LinkId, token: Token, body: &[u8]) {
        let answer = match Connect::parse(body) {
            Ok(connect) => self.connect_reader(&connect),
            Err(_) => Err(Status::Malformed),
        };
        let (status, endpoint) = match answer {
            Ok(address) => (Status::Ok, Some(address.to_bytes())),
            Err(status) => (status, None),
        };
        let body = endpoint.as_ref().map_or(&[][..], |endpoint| endpoint);
        // If the link breaks, the reader asks again.
        let _ = self.driver.send(link, &Frame::Done { op: CONNECT, token, status, body }, Vec::new());
    }

    fn connect_reader(&mut self, connect: &Connect) -> Result<Address, Status> {
        let Connect { owner, reader, endpoint } = connect;
        if Some(*owner) != Peer::rank(self.settings.seat.rank) {
            return Err(Status::UnknownRegion);
        }
        if self.settings.rdma == Rdma::Asked && !self.shadows().any(|sp| sp == *reader) {
            return Err(Status::NotShadow);
        }
        let exposure = self.exposure.as_mut().ok_or(Status::UnknownRegion)?;
        let address = Address::from_bytes(endpoint).ok_or(Status::Malformed)?;
        exposure.connect(*reader, &address).map_err(|_| Status::Unreachable)
    }
}
