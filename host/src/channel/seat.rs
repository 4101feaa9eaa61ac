//! A process's place among those who use a channel.
//!
//! A child that was forked off has its parent's handle in its memory, but takes a place of its own when it uses it first.

use std::convert::Infallible;

use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::crew::Member;

use super::barrier;
use super::error::Error;
use super::identity;
use super::layout::View;
use crate::sys::fork;
use crate::sys::process::{ProcessId, Processes};

/// The number of the place (16 bits), its generation (32), and in which process it was taken (16).
#[derive(Debug)]
pub(super) struct Seat(AtomicU64);

fn packed(member: Member, life: u16) -> u64 {
    u64::from(life) << 48 | u64::from(member.generation) << 16 | u64::from(member.number)
}

/// How often processes were forked off up to this one, as far as a seat tells.
fn life() -> u16 {
    fork::life() as u16
}

impl Seat {
    /// Takes a place, if need be that of a dead process.
    pub(super) fn take(view: &View<'_>) -> Result<Seat, Error> {
        fork::watch();
        let life = life();
        Ok(Seat(AtomicU64::new(packed(join(view)?, life))))
    }

    /// The number of this process's place, if it has one already.
    pub(super) fn known(&self) -> Option<u16> {
        let seen = self.0.load(Ordering::Relaxed);
        ((seen >> 48) as u16 == life()).then_some(seen as u16)
    }

    /// The number of this process's place.
    pub(super) fn number(&self, view: &View<'_>) -> Result<u16, Error> {
        if let Some(number) = self.known() {
            return Ok(number);
        }
        let (seen, life) = (self.0.load(Ordering::Relaxed), life());
        let member = join(view)?;
        let placed = self.0.compare_exchange(seen, packed(member, life), Ordering::Relaxed, Ordering::Relaxed);
        placed.map(|_| member.number).or_else(|other| {
            // Another thread was first.
            leave(view, member);
            Ok(other as u16)
        })
    }

    /// Gives this process's place up; a parent's place stays its own.
    pub(super) fn leave(&self, view: &View<'_>) {
        let seen = self.0.load(Ordering::Relaxed);
        if (seen >> 48) as u16 == life()
            && let Some(member) = view.frame.crew.member(seen as u16)
            && member.generation == (seen >> 16) as u32
        {
            barrier::leave(view, member.number);
            leave(view, member);
        }
    }
}

fn join(view: &View<'_>) -> Result<Member, Error> {
    if !view.frame.is_of_this_space() {
        return Err(Error::OtherNamespace);
    }
    let identity = identity(ProcessId::current()?);
    let give_back = |dead: Member| {
        view.give_back(dead);
        Ok::<_, Infallible>(())
    };
    view.frame.crew.join_or_succeed(identity, &Processes, give_back).map_err(|_| Error::TooManyMembers(identity))
}

fn leave(view: &View<'_>, member: Member) {
    let give_back = |member| {
        view.give_back(member);
        Ok::<_, Infallible>(())
    };
    // A number that is another's by now is none of ours.
    let _ = view.frame.crew.bury(member, member.number, give_back);
}
