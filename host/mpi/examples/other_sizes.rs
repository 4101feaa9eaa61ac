//! Messages of another size than the plan says, over each transport, by `mpirun`.
//!
//! They are refused, with the rank that has sent them, and where each strip has a message also with its channel.
//! What did not fit into a slot of `MpiRma` is read by the size that the head says, and has none of its own. What is longer
//! than a message can be is refused before any of it is sent.
//!
//! ```text
//! mpirun -n RANKS other_sizes
//! ```
#![forbid(unsafe_code)]

mod together;

use std::error::Error;
use std::io::{self, Write as _};
use std::time::Duration;

use umbra::boundary::{
    Boundary, BoundaryError, Field, Grid, Mesh as _, Scope, Settings, Store, Transport, TransportError,
};
use umbra_core::boundary::{Entry, HEAD, Message, Peer, Place, Shape, Vote, bitmap_bytes};
use umbra_mpi::{Communicator, MpiRma, MpiSlot, MpiStrips, Window};

type Checked = Result<(), Box<dyn Error>>;

/// Cells of a block, and ghosts on each side of it.
const CELLS: u32 = 4;
const GHOSTS: u32 = 2;
const FIELDS: u16 = 6;
/// Bytes of a strip.
const STRIP: u64 = GHOSTS as u64 * 8;
/// The rank that sends what it should not.
const FAULTY: u32 = 1;
const DEADLINE: Option<Duration> = Some(Duration::from_secs(60));

/// What is wrong with the messages of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// The last strip of a plan has so many values more.
    Strip(i32),
    /// There are so many bytes more in the slot, or behind it.
    Slot(i32),
    Overflow(i32),
    /// Both are tried to be longer than MPI counts, and then they are right.
    Long,
}

/// A transport whose messages have another size than their heads say.
struct Faulty<T>(T, Fault);

impl<T: Transport> Transport for Faulty<T> {
    fn plans(&mut self, epoch: u32, peers: &[Peer], entries: &[Entry]) -> Result<(), TransportError> {
        let mut entries = entries.to_vec();
        let more = match self.1 {
            Fault::None | Fault::Long => 0,
            Fault::Strip(more) => more,
            // Memory for what is sent too much.
            Fault::Slot(_) | Fault::Overflow(_) => 1,
        };
        for last in peers.iter().map(|peer| peer.out().end as usize - 1) {
            entries[last].count = entries[last].count.saturating_add_signed(more);
        }
        self.0.plans(epoch, peers, &entries)
    }

    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        let mut message = *message;
        match self.1 {
            Fault::None | Fault::Strip(_) => {}
            Fault::Slot(more) => message.in_slot = message.in_slot.saturating_add_signed(more),
            Fault::Overflow(more) => message.overflow = message.overflow.saturating_add_signed(more),
            Fault::Long => {
                let most = i32::MAX as u32;
                for long in [Message { in_slot: most, ..message }, Message { overflow: most, ..message }] {
                    let refused = self.0.publish(&long, epoch, head);
                    let is_said = |error| matches!(error, TransportError::TooLong { bytes, most } if bytes > most);
                    assert!(refused.is_err_and(is_said), "{long:?}: {refused:?}");
                }
            }
        }
        self.0.publish(&message, epoch, head)
    }

    fn rank(&self) -> u32 {
        self.0.rank()
    }
    fn ranks(&self) -> u32 {
        self.0.ranks()
    }
    fn slots(&self) -> u32 {
        self.0.slots()
    }
    fn may_write(&mut self, to: u32, slot: u32) -> Result<bool, TransportError> {
        self.0.may_write(to, slot)
    }
    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        // What is written does not matter, but a shorter strip has a shorter place.
        let less = if matches!(self.1, Fault::Strip(..0)) { 1 } else { 0 };
        self.0.write(to, slot, place, behind, &values[less..])
    }
    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        self.0.look(from, slot, head)
    }
    fn fetch(&mut self, from: u32, slot: u32, bytes: u32) -> Result<bool, TransportError> {
        self.0.fetch(from, slot, bytes)
    }
    fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), TransportError> {
        self.0.taken(from, slot, room)
    }
    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        self.0.read(from, slot, place, behind, into)
    }
    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.0.vote(round, vote)
    }
    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        self.0.vote_of(rank, round)
    }
    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.0.write_plan(to, bytes)
    }
    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        self.0.read_plan(from)
    }
}

/// One exchange of a ring of blocks, one a rank; what the others say of the message of the faulty one.
fn exchange<T: Transport>(
    world: Communicator,
    transport: T,
    fault: Fault,
) -> Result<Option<TransportError>, Box<dyn Error>> {
    let grid =
        Grid::new(Shape::new([CELLS, 1, 1], [GHOSTS, 0, 0])?, [world.size(), 1, 1], [true, false, false], world.size());
    let fields = vec![Field::DENSE; FIELDS.into()];
    // Half of a message fits into the small slot.
    let smallest_slot = if matches!(fault, Fault::Overflow(_) | Fault::Long) { 128 } else { 4096 };
    let settings = Settings { deadline: DEADLINE, smallest_slot, ..Settings::default() };
    let faulty = world.rank() == FAULTY;
    let transport = Faulty(transport, if faulty { fault } else { Fault::None });
    let mut boundary = Boundary::build(&grid, &fields, transport, settings)?;
    let mut store = Store::new(grid.blocks(), grid.shape().len(), &fields, 1);
    (0..FIELDS).try_for_each(|field| store.allocate(world.rank(), field))?;
    let done = boundary.exchange(&mut store.stage(0));
    if faulty || fault == Fault::Long {
        done?;
        return Ok(None);
    }
    let Err(BoundaryError::Transport(error)) = done else {
        return Err(format!("not refused by the transport: {done:?}").into());
    };
    let again = boundary.receive(&mut store.stage(0), Scope::Any);
    if !matches!(again, Err(BoundaryError::Transport(other)) if other == error) {
        return Err(format!("{error}; and then {again:?}, which is not the same").into());
    }
    match boundary.set(&mut store.stage(0), Scope::Any) {
        Err(BoundaryError::NotReceived { first: Some(_), .. }) => Ok(Some(error)),
        other => Err(format!("set what was refused: {other:?}").into()),
    }
}

/// All faults over one transport, each with what has come of it.
fn check<T: Transport>(
    world: Communicator,
    name: &str,
    make: impl Fn() -> Result<T, TransportError>,
    cases: &[(Fault, u64, Option<u64>)],
) -> Checked {
    for &(fault, bytes, came) in cases {
        let told = exchange(world, make()?, fault).map_err(|error| format!("{name}, {fault:?}: {error}"))?;
        let right = match (fault, told) {
            (_, None) => world.rank() == FAULTY || fault == Fault::Long,
            (Fault::Strip(_), Some(TransportError::StripSize { rank: FAULTY, key, bytes: strip, came: some })) => {
                (key.sender, key.receiver, key.field) == (FAULTY, world.rank(), FIELDS - 1)
                    && (strip, some) == (bytes, came)
            }
            (Fault::Slot(_) | Fault::Overflow(_), Some(told)) => {
                told == TransportError::MessageSize { rank: FAULTY, bytes, came }
            }
            _ => false,
        };
        if !right {
            return Err(format!("{name}, {fault:?}: {told:?}").into());
        }
        if world.rank() == 0
            && let Some(told) = told
        {
            writeln!(io::stdout(), "{name}: {told}")?;
        }
        // What is left on its way is dropped with the ends, which all ranks have done then.
        world.gather(&[0])?;
    }
    Ok(())
}

fn run(world: Communicator) -> Checked {
    let strips = |longer| [(Fault::Strip(-1), STRIP, Some(STRIP - 8)), (Fault::Strip(1), STRIP, longer)];
    check(world, "mpi-early", || MpiStrips::early(world, DEADLINE), &strips(None))?;
    check(world, "mpi-probe", || MpiStrips::probing(world, DEADLINE), &strips(Some(STRIP + 8)))?;
    // A dense message has no bits, and their place. Peers that touch once have a strip of each field.
    let (fields, head) = (u64::from(FIELDS), (HEAD + bitmap_bytes(FIELDS.into())) as u64);
    let (whole, fits) = (head + fields * STRIP, (128 - head) / STRIP);
    let over = (fields - fits) * STRIP;
    let cases = [
        (Fault::Slot(-8), whole, Some(whole - 8)),
        (Fault::Slot(8), whole, None),
        (Fault::Overflow(-8), over, Some(over - 8)),
        (Fault::Overflow(8), over, Some(over + 8)),
        (Fault::Long, 0, None),
    ];
    check(world, "mpi-slot", || MpiSlot::new(world, DEADLINE), &cases)?;
    // Messages to two neighbours, or both of one, are the largest, and what is sent too much needs its place.
    let window = Window::allocate(&world, MpiRma::words(world.size(), 2 * u32::try_from(whole)?))?;
    let cases = [(Fault::Slot(-8), whole, Some(whole - 8)), (Fault::Slot(8), whole, Some(whole + 8))];
    check(world, "mpi-rma", || MpiRma::new(world, &window, DEADLINE), &cases)?;
    Ok(window.free()?)
}

fn main() -> Checked {
    together::main(run)
}
