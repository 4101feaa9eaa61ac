//! A rank's way to chained calls: a seat at a meeting place.
//!
//! The meeting place is that of the rank's first service process. For every rank a member lives at the agent, which
//! does its part in calls while the rank computes or sleeps. The rank has a seat of its own beside that one: to make
//! calls, and to serve functions that only it can run.

use std::os::fd::OwnedFd;

use umbra_core::chain::Node;
use umbra_core::error::Status;
use umbra_core::wire::Frame;

use super::{Session, SessionError};
use crate::admin::{self, Body as _, ops};
use crate::call::{JoinError, Member, Station};

/// What came with the answer about calls.
pub(super) type Invitation = (Status, Vec<u8>, Option<OwnedFd>);

/// A rank's seat, and who lives at the agent.
#[derive(Debug)]
pub struct Calls {
    /// The rank's own member.
    pub member: Member,
    /// The member that lives at the agent for this rank.
    pub resident: Node,
    /// Members that live there, from the [first](crate::call::Shape::first) number of the place on.
    pub residents: u32,
}

impl Calls {
    /// The members that live at all agents of the job, those of one agent after those of another: at each the first one
    /// leads the others ([`Station::parents`](crate::call::Station::parents)).
    #[must_use]
    pub fn everywhere(&self) -> Vec<Node> {
        self.member.station().shape().residents(self.residents)
    }
}

impl Session {
    /// Takes this rank's seat at the meeting place of chained calls of its first service process.
    ///
    /// # Errors
    /// [`SessionError::Calls`] if the seat is taken, [`SessionError::NoMember`] if the agent has none for this rank,
    /// [`SessionError::NoMembers`] if the agent is on another machine or the job has more agents than can be joined, or who
    /// did not answer.
    pub fn calls(&mut self) -> Result<Calls, SessionError> {
        self.refuse_heirs()?;
        let Some((sp, link)) = self.shadows.first().map(|shadow| (shadow.sp, shadow.link)) else {
            return Err(SessionError::NoSuchSeat);
        };
        let token = self.next_asked();
        let call = Frame::Call { op: ops::CALLS, token, body: &[] };
        self.driver.send(link, &call, Vec::new()).map_err(|_| SessionError::ServiceLost { sp })?;
        let deadline = self.deadline();
        self.wait("the meeting place of calls", deadline, &[sp], |s| s.invitation.is_some(), None)?;
        let (body, descriptor) = match self.invitation.take() {
            Some((Status::Ok, body, Some(descriptor))) => (body, descriptor),
            Some((Status::Ok, _, None)) | None => {
                return Err(SessionError::Refused { status: Status::Malformed, word: 0 });
            }
            Some((status, why, _)) => {
                return Err(SessionError::NoMembers { sp, status, why: String::from_utf8_lossy(&why).into_owned() });
            }
        };
        let calls = admin::Calls::from_body(&body);
        let calls = calls.map_err(|_| SessionError::Refused { status: Status::Malformed, word: 0 })?;
        let station = Station::attach(descriptor).map_err(JoinError::from)?;
        let local = self.settings.seat.local.0;
        if local >= calls.residents {
            return Err(SessionError::NoMember { members: calls.residents, local });
        }
        let first = station.shape().first;
        let member = Member::join(&station, Node(first + calls.residents + local))?;
        Ok(Calls { member, resident: Node(first + local), residents: calls.residents })
    }
}
