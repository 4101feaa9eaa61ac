//! Letting service processes reach exported memory over RDMA.
//!
//! Memory that nobody can map or copy is registered with an RDMA device, for reading only: a segment, or bytes of the heap. A
//! service process that wants to read it connects a queue pair; that is the one thing for which the rank has to call
//! something.

use std::sync::Arc;

use umbra_core::access::direct::{CONNECT, Connect};
use umbra_core::error::Status;
use umbra_core::key::Access;
use umbra_core::peer::Peer;
use umbra_core::wire::{Frame, Token};

use super::kept::{Exported, Kept};
use super::{Rdma, Session, SessionError};
use crate::access::exposure::Exposure;
use crate::driver::LinkId;
use crate::verbs::{Address, Choice, VerbsError};

/// Why a reader is not connected.
enum Refusal {
    /// It may not be, or said nonsense.
    Status(Status),
    /// The device does not do it.
    Verbs(VerbsError),
}

impl Session {
    /// Keeps memory the way in which service processes will reach it, or gives it back.
    pub(super) fn keep(&mut self, memory: Exported) -> Result<Kept, (Option<Exported>, Box<SessionError>)> {
        let needed = self.settings.rdma != Rdma::WhereNeeded;
        if !needed && self.settings.sockets.is_some() {
            return Ok(match memory {
                Exported::Segment(segment) => Kept::Shared(segment),
                Exported::Bytes(bytes) => Kept::Heap(bytes),
            });
        }
        match (self.register(memory), self.shadows.first()) {
            (Ok(kept), _) => Ok(kept),
            (Err((memory, why)), Some(shadow)) if !needed => {
                Err((memory, SessionError::CannotShare { sp: shadow.sp, why }.into()))
            }
            (Err((memory, why)), _) => Err((memory, SessionError::from(why).into())),
        }
    }

    fn register(&mut self, memory: Exported) -> Result<Kept, (Option<Exported>, VerbsError)> {
        let exposure = match self.expose() {
            Ok(exposure) => exposure,
            Err(why) => return Err((Some(memory), why)),
        };
        // What is not registered is nobody else's.
        match memory {
            Exported::Segment(segment) => {
                let segment = Arc::new(segment);
                let kept = exposure.register(Arc::clone(&segment), Access::READ).map(Kept::Registered);
                kept.map_err(|why| (Arc::into_inner(segment).map(Exported::Segment), why))
            }
            Exported::Bytes(bytes) => {
                let bytes = Arc::new(bytes);
                let kept = exposure.register_bytes(Arc::clone(&bytes)).map(Kept::RegisteredHeap);
                kept.map_err(|why| (Arc::into_inner(bytes).map(Exported::Bytes), why))
            }
        }
    }

    fn expose(&mut self) -> Result<&Exposure, VerbsError> {
        Ok(match &mut self.exposure {
            Some(exposure) => exposure,
            none => none.insert(Exposure::new(&Choice::open(self.settings.device())?)?),
        })
    }

    /// A reader wants to connect a queue pair; it came through a service process of this rank.
    pub(super) fn on_connect(&mut self, link: LinkId, token: Token, body: &[u8]) {
        let answer = match Connect::parse(body) {
            Ok(connect) => self.connect_reader(&connect),
            Err(_) => Err(Refusal::Status(Status::Malformed)),
        };
        let (status, body) = match answer {
            Ok(address) => (Status::Ok, address.to_bytes().to_vec()),
            Err(Refusal::Status(status)) => (status, Vec::new()),
            Err(Refusal::Verbs(why)) => (Status::Unreachable, why.to_string().into_bytes()),
        };
        // If the link breaks, the reader asks again.
        let _ = self.driver.send(link, &Frame::Done { op: CONNECT, token, status, body: &body }, Vec::new());
    }

    fn connect_reader(&mut self, connect: &Connect) -> Result<Address, Refusal> {
        let Connect { owner, reader, endpoint } = connect;
        if Some(*owner) != Peer::rank(self.settings.seat.rank) {
            return Err(Refusal::Status(Status::UnknownRegion));
        }
        if self.settings.rdma == Rdma::Asked && !self.shadows().any(|sp| sp == *reader) {
            return Err(Refusal::Status(Status::NotShadow));
        }
        let exposure = self.exposure.as_mut().ok_or(Refusal::Status(Status::UnknownRegion))?;
        let address = Address::from_bytes(endpoint).ok_or(Refusal::Status(Status::Malformed))?;
        exposure.connect(*reader, &address).map_err(Refusal::Verbs)
    }
}
