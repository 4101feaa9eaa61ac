//! How a member comes to its seat.

use umbra_core::chain::{Life, Node};

use super::forked::Forked;
use super::station::{Seat, Station, StationError};
use crate::sys::heap::NoMemory;
use crate::sys::process::{ProcessError, ProcessId, lives};

/// Why a member cannot take its seat.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The meeting place.
    #[error(transparent)]
    Station(#[from] StationError),
    /// Somebody sits there and lives, or it cannot be told that he does not.
    #[error("member {node} is process {pid}: take another seat, or wait until it has left")]
    Taken {
        /// The seat.
        node: Node,
        /// The process.
        pid: u32,
    },
    /// This process cannot say who it is.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// There is no memory for what the member should hold.
    #[error("room for a member: {0}")]
    Memory(#[from] NoMemory),
    /// The member that was to take another seat is another process's.
    #[error(transparent)]
    Forked(#[from] Forked),
}

/// A seat that was taken; it is left again unless it is [kept](Self::keep).
///
/// So nobody has a seat whose member did not come about: as long as its process lives it would be free for nobody.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    seat: Seat<'a>,
    /// The life that begins.
    pub(super) life: Life,
    is_kept: bool,
}

impl Taken<'_> {
    /// The member is there, and leaves its seat itself; its life.
    pub(super) fn keep(mut self) -> Life {
        self.is_kept = true;
        self.life
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.seat.leave();
        }
    }
}

/// Takes a seat, for whoever receives at `home`.
pub(super) fn sit(station: &Station, node: Node, home: Node) -> Result<Taken<'_>, JoinError> {
    let seat = station.seat(node)?;
    let before = seat.sitter();
    let taken = |pid| JoinError::Taken { node, pid };
    if let Some(process) = before.process
        && lives(process)
    {
        return Err(taken(process.pid()));
    }
    let life = seat.take(before, ProcessId::current()?, home).ok_or_else(|| taken(0))?;
    Ok(Taken { seat, life, is_kept: false })
}

#[cfg(test)]
mod tests {
    use super::super::border::Border;
    use super::super::{Capacities, Member, Outgoing, Shape};
    use super::*;

    #[test]
    fn a_border_takes_no_seat_of_somebody_who_lives() {
        let station = Station::create("border", Shape::new(2)).unwrap();
        let border = |node| Border::new(&station, Node(node), Outgoing::new(|| ())).map(drop);
        let member = Member::join(&station, Node(1)).unwrap();
        let refused = border(1);
        assert!(matches!(refused, Err(JoinError::Taken { node: Node(1), .. })), "{refused:?}");
        border(0).unwrap();
        drop(member);
        border(1).unwrap();
    }

    #[test]
    fn a_member_for_whom_there_is_no_memory_takes_no_seat() {
        let station = Station::create("memory", Shape::new(1)).unwrap();
        let usual = Capacities::new(1);
        for refused in [
            Capacities { call_bytes: 1 << 50, ..usual },
            Capacities { call_bytes: usize::MAX, ..usual },
            Capacities { answer_bytes: 1 << 50, ..usual },
            Capacities { notes: usize::MAX, ..usual },
        ] {
            let joined = Member::join_with(&station, Node(0), refused, |config| config);
            assert!(matches!(joined, Err(JoinError::Memory(_))), "{refused:?}: {joined:?}");
        }
        Member::join(&station, Node(0)).unwrap();
    }

    #[test]
    fn whoever_has_just_won_a_seat_keeps_it() {
        let station = Station::create("won", Shape::new(1)).unwrap();
        let seat = station.seat(Node(0)).unwrap();
        let me = ProcessId::current().unwrap();
        // One who is stopped before he says anything but that.
        assert!(seat.wins(seat.sitter(), me));
        let second = sit(&station, Node(0), Node(0));
        assert!(matches!(second, Err(JoinError::Taken { pid, .. }) if pid == me.pid), "{second:?}");
    }

    #[test]
    fn lives_of_a_seat_differ_though_somebody_came_and_left_meanwhile() {
        let station = Station::create("left", Shape::new(1)).unwrap();
        let (seat, me) = (station.seat(Node(0)).unwrap(), ProcessId::current().unwrap());
        let seen = seat.sitter();
        let first = sit(&station, Node(0), Node(0)).unwrap().keep();
        seat.leave();
        let second = seat.take(seen, me, Node(0)).unwrap();
        assert!(second.is_after(first), "{second:?} after {first:?}");
    }
}
