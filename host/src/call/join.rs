//! How a member comes to its seat.

use umbra_core::chain::{Life, Node};

use super::station::{Station, StationError};
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
}

/// Takes a seat, for whoever receives at `home`; the life that begins.
pub(super) fn sit(station: &Station, node: Node, home: Node) -> Result<Life, JoinError> {
    let seat = station.seat(node)?;
    let before = seat.sitter();
    let taken = |pid| JoinError::Taken { node, pid };
    if let Some(process) = before.process
        && lives(process)
    {
        return Err(taken(process.pid()));
    }
    seat.take(before, ProcessId::current()?, home).ok_or_else(|| taken(0))
}

#[cfg(test)]
mod tests {
    use super::super::border::Border;
    use super::super::{Member, Outgoing, Shape};
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
        let first = sit(&station, Node(0), Node(0)).unwrap();
        seat.leave();
        let second = seat.take(seen, me, Node(0)).unwrap();
        assert!(second.is_after(first), "{second:?} after {first:?}");
    }
}
