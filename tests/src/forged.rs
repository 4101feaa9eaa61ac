//! Messages of a boundary exchange whose head is not that of the exchange.
//!
//! Over any transport, one rank sends them in the place of its own; the others refuse and count them. The programs over MPI run the same, from
//! this file.

use std::fmt::Display;
use std::time::Duration;

use umbra::boundary::{
    Boundary, BoundaryError, Extent, Field, Fields as _, Grid, Mesh as _, Scope, Settings, Store, Transport,
    TransportError, largest_message,
};
use umbra_core::boundary::{Entry, Head, Message, Peer, Place, Shape, Vote};

/// Cells of a block, as many ghosts, and so many ranks in a row.
const CELLS: u32 = 4;
const RANKS: u32 = 2;
/// The rank whose messages are forged.
const FORGER: u32 = 1;
/// Of an exchange whose message never comes.
const SHORT: Duration = Duration::from_secs(1);
/// Bytes of a slot that has no room for a payload.
const NO_PAYLOAD: u32 = 72;
/// Where a head says how long the payload is.
const PAYLOAD: usize = 24;

/// What is wrong with the head of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A bit is another one.
    Damaged,
    /// It is that of the message with the same number in the epoch before. The right one follows it.
    Old,
    /// The same, and its payload is another one, none of which fits into a slot.
    Beside,
    /// It is whole, and of another plan.
    Foreign,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 4] = [Fault::Damaged, Fault::Old, Fault::Beside, Fault::Foreign];

    /// Whether the right message follows.
    const fn is_followed(self) -> bool {
        matches!(self, Fault::Old | Fault::Beside)
    }
}

/// What was to be published: it is, once a message of the other side is here, or was taken.
type Held = (Message, u32, Vec<u8>);
/// What was written into a message: where, and which values.
type Written = (u32, u32, Place, usize, Vec<f64>);

/// An end that forges, or one that waits for what is forged before it sends.
struct Forging<T> {
    end: T,
    fault: Fault,
    /// Of the first message.
    first: Option<Vec<u8>>,
    held: Option<Held>,
    /// Of the message that is being packed.
    written: Vec<Written>,
}

impl<T: Transport> Forging<T> {
    const fn new(end: T, fault: Fault) -> Forging<T> {
        Forging { end, fault, first: None, held: None, written: Vec::new() }
    }

    /// Writes what was written once more, each value times this.
    fn rewrite(&mut self, times: f64) -> Result<(), TransportError> {
        let Forging { end, written, .. } = self;
        written.iter().try_for_each(|(to, slot, place, behind, values)| {
            let values: Vec<f64> = values.iter().map(|value| value * times).collect();
            end.write(*to, *slot, *place, *behind, &values)
        })
    }

    /// Whether nothing is held any more.
    fn let_go(&mut self) -> Result<bool, TransportError> {
        let Some((message, ..)) = &self.held else { return Ok(true) };
        if !self.end.may_write(message.rank, message.slot)? {
            return Ok(false);
        }
        self.rewrite(1.0)?;
        let Some((message, epoch, head)) = self.held.take() else { return Ok(true) };
        self.end.publish(&message, epoch, &head)?;
        Ok(true)
    }
}

impl<T: Transport> Transport for Forging<T> {
    fn publish(&mut self, message: &Message, epoch: u32, head: &[u8]) -> Result<(), TransportError> {
        if epoch == 1 {
            self.first.get_or_insert_with(|| head.to_vec());
            self.written.clear();
            return self.end.publish(message, epoch, head);
        }
        let hold = Some((*message, epoch, head.to_vec()));
        match self.fault {
            Fault::Damaged if self.rank() == FORGER => {
                let mut head = head.to_vec();
                head[PAYLOAD] ^= 1;
                return self.end.publish(message, epoch, &head);
            }
            Fault::Foreign if self.rank() == FORGER => {
                let silent = TransportError::Silent { rank: FORGER };
                return self.end.publish(message, epoch, &of_another_plan(head).ok_or(silent)?);
            }
            Fault::Damaged | Fault::Foreign => return self.end.publish(message, epoch, head),
            Fault::Old | Fault::Beside => self.held = hold,
        }
        match self.first.clone() {
            Some(first) if self.rank() == FORGER => {
                if self.fault == Fault::Beside {
                    self.rewrite(-1.0)?;
                }
                self.end.publish(message, epoch - 1, &first)
            }
            _ => Ok(()),
        }
    }

    fn look(&mut self, from: u32, slot: u32, head: &mut [u8]) -> Result<bool, TransportError> {
        // The message of the other side comes when what was forged was taken there.
        Ok(self.end.look(from, slot, head)? && (self.rank() != FORGER || self.let_go()?))
    }

    fn taken(&mut self, from: u32, slot: u32, room: u32) -> Result<(), TransportError> {
        self.end.taken(from, slot, room)?;
        if self.rank() != FORGER && !self.let_go()? {
            return Err(TransportError::Silent { rank: from });
        }
        Ok(())
    }

    fn rank(&self) -> u32 {
        self.end.rank()
    }
    fn ranks(&self) -> u32 {
        self.end.ranks()
    }
    fn slots(&self) -> u32 {
        self.end.slots()
    }
    fn plans(&mut self, epoch: u32, peers: &[Peer], entries: &[Entry]) -> Result<(), TransportError> {
        self.end.plans(epoch, peers, entries)
    }
    fn may_write(&mut self, to: u32, slot: u32) -> Result<bool, TransportError> {
        self.end.may_write(to, slot)
    }
    fn write(&mut self, to: u32, slot: u32, place: Place, behind: usize, values: &[f64]) -> Result<(), TransportError> {
        self.written.push((to, slot, place, behind, values.to_vec()));
        self.end.write(to, slot, place, behind, values)
    }
    fn fetch(&mut self, from: u32, slot: u32, bytes: u32) -> Result<bool, TransportError> {
        self.end.fetch(from, slot, bytes)
    }
    fn read(&self, from: u32, slot: u32, place: Place, behind: usize, into: &mut [f64]) -> Result<(), TransportError> {
        self.end.read(from, slot, place, behind, into)
    }
    fn vote(&mut self, round: u32, vote: Vote) -> Result<(), TransportError> {
        self.end.vote(round, vote)
    }
    fn vote_of(&self, rank: u32, round: u32) -> Result<Option<Vote>, TransportError> {
        self.end.vote_of(rank, round)
    }
    fn keeps_plans(&self) -> bool {
        self.end.keeps_plans()
    }
    fn write_plan(&mut self, to: u32, bytes: &[u8]) -> Result<(), TransportError> {
        self.end.write_plan(to, bytes)
    }
    fn read_plan(&self, from: u32) -> Result<Option<Vec<u8>>, TransportError> {
        self.end.read_plan(from)
    }
}

/// This head, with another fingerprint and the checksum that belongs to it.
fn of_another_plan(head: &[u8]) -> Option<Vec<u8>> {
    let (ours, live) = Head::parse(head).ok()?;
    let live = (0..ours.channels as usize).filter(|&channel| live.is(channel)).count();
    let mut forged = head.to_vec();
    Head { fingerprint: !ours.fingerprint, ..ours }.emit(live, &mut forged).ok()?;
    Some(forged)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Two blocks in a row.
fn row() -> Result<Grid, String> {
    let shape = Shape::new([CELLS, 1, 1], [CELLS, 0, 0]).map_err(text)?;
    Ok(Grid::new(shape, [RANKS, 1, 1], [false; 3], RANKS))
}

/// The ranks, and what they need.
///
/// # Errors
/// A sentence.
pub fn extent() -> Result<Extent, String> {
    let message = largest_message(&row()?, &[Field::DENSE], RANKS);
    Ok(Extent { ranks: RANKS, slots: 2, message })
}

/// One of two ranks, both of which call this. It exchanges in one epoch, and again in the next, where the second rank forges.
/// What it returns is kept until the other one has ended.
///
/// # Errors
/// What is not as it should be, in a sentence.
pub fn refuse<T: Transport>(end: T, fault: Fault, patience: Duration) -> Result<impl Sized, String> {
    let (mesh, rank) = (row()?, end.rank());
    let mut settings = Settings { deadline: Some(patience), ..Settings::default() };
    if fault == Fault::Beside {
        // A head, and the place of its bits.
        (settings.smallest_slot, settings.largest_slot) = (NO_PAYLOAD, NO_PAYLOAD);
    }
    let mut boundary = Boundary::build(&mesh, &[Field::DENSE], Forging::new(end, fault), settings).map_err(text)?;
    let mut store = Store::new(RANKS, mesh.shape().len(), &[Field::DENSE], 1);
    store.allocate(rank, 0).map_err(text)?;
    let fill = |store: &mut Store, exchange: u32| {
        let mut stage = store.stage(0);
        let value = f64::from(exchange * 10 + rank);
        stage.values_mut(rank, 0).into_iter().flatten().for_each(|cell| *cell = value);
    };
    let came = |store: &Store, exchange: u32| {
        let values = store.values(rank, 0, 0).unwrap_or(&[]);
        let first = if rank == 0 { 2 * CELLS as usize } else { 0 };
        let right = f64::from(exchange * 10 + 1 - rank);
        let ghosts = values.get(first..first + CELLS as usize);
        if ghosts == Some(&[right; CELLS as usize]) { Ok(()) } else { Err(format!("{ghosts:?} and not {right}")) }
    };
    // So often that the slot of the message to come was used, and was given back.
    for exchange in 1..=3 {
        fill(&mut store, exchange);
        boundary.exchange(&mut store.stage(0)).map_err(text)?;
        came(&store, exchange)?;
    }
    boundary.remesh(&mesh).map_err(text)?;
    fill(&mut store, 4);
    let before = *boundary.counts();
    let victim = rank != FORGER;
    let refuses = victim && !fault.is_followed();
    if refuses {
        boundary.set_deadline(Some(SHORT));
        named(&boundary.exchange(&mut store.stage(0)))?;
        let set = boundary.set(&mut store.stage(0), Scope::Any);
        if !is_of_forger(&set) {
            return Err(format!("set what was refused: {set:?}"));
        }
    } else {
        boundary.exchange(&mut store.stage(0)).map_err(text)?;
        came(&store, 4)?;
    }
    let counts = *boundary.counts();
    if (fault == Fault::Beside) != (counts.overflows > 0) {
        return Err(format!("{} messages have not fitted", counts.overflows));
    }
    let counted = (counts.refused - before.refused, counts.old - before.old);
    let expected = (u64::from(refuses), u64::from(victim && fault.is_followed()));
    if counted == expected { Ok(boundary) } else { Err(format!("refused and old: {counted:?} and not {expected:?}")) }
}

/// Whether nothing was set because the channel of the rank that forges is not received.
fn is_of_forger(set: &Result<(), BoundaryError>) -> bool {
    matches!(set, Err(BoundaryError::NotReceived { first: Some(key), count: 1 }) if (key.sender, key.field) == (FORGER, 0))
}

/// Whether an exchange has ended with the rank that forges, and its block and field.
fn named(ended: &Result<(), BoundaryError>) -> Result<(), String> {
    let Err(BoundaryError::Late(late)) = ended else { return Err(format!("not late: {ended:?}")) };
    let of_forger = |missing: &umbra_core::boundary::Missing| {
        (missing.rank, missing.key.sender, missing.key.field) == (FORGER, FORGER, 0)
    };
    let right = late.count == 1 && late.missing.iter().all(of_forger);
    if right { Ok(()) } else { Err(format!("another is missing: {late:?}")) }
}
