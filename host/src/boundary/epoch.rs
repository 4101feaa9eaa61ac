//! Building the exchange of a mesh together, and anew when the mesh has changed.

use std::ops::Range;
use std::time::{Duration, Instant};

use umbra_core::boundary::{Config, Peer, Vote, VoteError, agree};
use umbra_core::time::{Lapse, Time};

use super::balance::is_refined;
use super::build::{self, channels};
use super::error::{BoundaryError, Late};
use super::fields::{Field, NoMemory};
use super::levels::Levels;
use super::mesh::Mesh;
use super::overdue::ASK;
use super::pause::Pause;
use super::rows::Strips;
use super::scope::Half;
use super::settings::Settings;
use super::tasks::{Boundary, Machine};
use super::transport::{Transport, TransportError};
use crate::sys::heap;

impl<T: Transport> Boundary<T> {
    /// Builds the channels of a mesh, and compares them with those of all peers. All ranks do this together.
    ///
    /// # Errors
    /// [`BoundaryError::Mesh`] if levels do not fit together, and [`BoundaryError::Differs`] names the first channel in which
    /// a peer's plan is another one; the other ranks learn who has refused by [`BoundaryError::RefusedElsewhere`]. A rank that
    /// does not come is named after the deadline. Whoever tries again makes a new transport, of new memory if it is shared.
    pub fn build(
        mesh: &impl Mesh,
        fields: &[Field],
        mut transport: T,
        settings: Settings,
    ) -> Result<Boundary<T>, BoundaryError> {
        // Whether it has levels does not matter, but whether these fit together.
        let machine = is_refined(mesh).map_err(BoundaryError::from);
        let machine = machine.and_then(|_| machine_of(mesh, fields, &transport, settings, 1));
        let machine = machine.inspect_err(|_| refuse(&mut transport, 1, settings))?;
        let mut boundary = Boundary {
            sent: Vec::new(),
            shown: Vec::new(),
            head: Vec::new(),
            between: Vec::new(),
            machine,
            fields: fields.to_vec(),
            strips: Strips::new(&mesh.shape()),
            levels: Levels::new(&mesh.shape()),
            pause: Pause::default(),
            transport,
            settings,
            halves: [Half::Set; 2],
            started: Instant::now(),
            ask_at: Time::ZERO,
            sending: Duration::ZERO,
            stage: 0,
            round: 0,
            is_spent: false,
        };
        boundary.compare()?;
        Ok(boundary)
    }

    /// Changes how long an exchange or a vote may take, from the next one on; the [`Settings`] said it until now.
    pub fn set_deadline(&mut self, deadline: Option<Duration>) {
        self.settings.deadline = deadline;
        self.machine.set_deadline(deadline.map(lapse));
    }

    /// Takes part in what the others [`build`](Self::build), although this rank has no mesh to build for: then no rank does.
    pub fn refuse(mut transport: T, settings: Settings) {
        refuse(&mut transport, 1, settings);
    }

    /// Takes part in a [`remesh`](Self::remesh), although this rank has no mesh to change to: then no rank changes its own.
    pub fn refuse_remesh(&mut self) {
        let _ = self.quiesce(true);
    }

    /// Whether a change of the mesh, or the end, has failed on the way, or the transport did not take a message. Then only
    /// [`BoundaryError::Spent`] comes of this end.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Whether this end may be used.
    pub(super) const fn usable(&self) -> Result<(), BoundaryError> {
        if self.is_spent { Err(BoundaryError::Spent) } else { Ok(()) }
    }

    /// Shows the plans to the peers they are with.
    fn show(&mut self) -> Result<(), BoundaryError> {
        self.sent = vec![false; self.machine.peers().len()];
        self.head = vec![0; self.machine.head_bytes()];
        let local = self.machine.local().0;
        let between = (0..).zip(self.machine.entries()).filter(|(at, e)| local.contains(at) || e.step.crosses());
        let largest = between.map(|(_, entry)| entry).max_by_key(|entry| entry.count);
        let (count, key) = largest.map_or((0, None), |entry| (entry.count as usize, Some(entry.key)));
        let none = |_| {
            let (block, field) = key.map_or((0, 0), |key| (key.receiver, key.field));
            BoundaryError::NoMemory { rank: self.transport.rank(), what: NoMemory { block, field } }
        };
        self.between = heap::filled(0.0, count).map_err(none)?;
        let epoch = self.machine.config().epoch;
        self.transport.plans(epoch, self.machine.peers(), self.machine.entries())?;
        let before = std::mem::replace(&mut self.shown, self.machine.peers().iter().map(Peer::rank).collect());
        let keeps = self.transport.keeps_plans();
        for rank in others(&self.transport) {
            if let Some(at) = peer_of(&self.machine, rank) {
                let peer = &self.machine.peers()[at];
                let image = build::image(peer, &self.machine.entries()[part(peer.out())]);
                self.transport.write_plan(rank, &image)?;
            } else if !keeps || before.contains(&rank) {
                self.transport.write_plan(rank, &[])?;
            }
        }
        Ok(())
    }

    /// Compares the plans of others with those here, and learns how much of a message they take in a slot.
    fn read(&mut self) -> Result<(), BoundaryError> {
        let Boundary { machine, transport, settings, .. } = self;
        let keeps = transport.keeps_plans();
        let ranks = others(transport).filter(|&rank| !keeps || peer_of(machine, rank).is_some()).collect();
        read_all(transport, settings.deadline, ranks, |rank, image| {
            let at = peer_of(machine, rank);
            let peer = at.map(|at| &machine.peers()[at]);
            let ours = peer.map_or(&[][..], |peer| &machine.entries()[part(peer.inbound())]);
            let wish = build::compare(rank, peer.map(|peer| peer.fingerprints()[1]), ours, image);
            let wish = wish.map_err(BoundaryError::Differs)?;
            Ok(at.map_or(Ok(()), |at| machine.on_wish(at, wish))?)
        })
    }

    /// Shows the plans to the peers they are with, and looks at theirs.
    fn compare(&mut self) -> Result<(), BoundaryError> {
        let shown = self.show();
        // Once all have voted, everybody has written.
        let votes = self.vote(shown.is_err());
        shown?;
        votes.map_err(elsewhere)?;
        let read = self.read();
        // Nobody sends before everybody has read, for the lists lie where overflow will.
        let votes = self.vote(read.is_err());
        read?;
        votes.map(|_| ()).map_err(elsewhere)
    }

    /// Votes, and waits for everybody; the next epoch.
    pub(super) fn vote(&mut self, refuses: bool) -> Result<u32, BoundaryError> {
        self.round += 1;
        let vote = if refuses { Vote::REFUSAL } else { Vote { open: self.open(), ..self.machine.vote() } };
        all_vote(&mut self.transport, self.round, vote, self.settings)
    }

    /// Changes the mesh: waits until all ranks are between the same two exchanges, then builds anew for `mesh`, whose
    /// blocks may have moved. Moving their fields is the mesh's business, before the next exchange. All ranks do this
    /// together, also those without blocks.
    ///
    /// # Errors
    /// [`BoundaryError::StillOpen`] if this rank's exchange is not over, [`BoundaryError::Mesh`] if levels of its mesh do not
    /// fit together, [`BoundaryError::Vote`] if it is so with another: then nothing has changed on any rank, and it can be
    /// tried again. After any other error, and if a rank was [missing](VoteError::Missing), this end is
    /// [spent](Self::is_spent): make a new transport, and build anew. Ranks that share memory make new memory.
    pub fn remesh(&mut self, mesh: &impl Mesh) -> Result<(), BoundaryError> {
        let refined = is_refined(mesh);
        let epoch = self.quiesce(refined.is_err());
        refined?;
        let epoch = epoch?;
        // The others change from here on, whatever happens on this rank.
        self.is_spent = true;
        let counts = *self.machine.counts();
        let machine = machine_of(mesh, &self.fields, &self.transport, self.settings, epoch);
        self.machine = machine.inspect_err(|_| refuse(&mut self.transport, self.round + 1, self.settings))?;
        self.machine.resume(counts);
        self.strips = Strips::new(&mesh.shape());
        self.levels.reshape(&mesh.shape());
        self.compare()?;
        self.is_spent = false;
        Ok(())
    }

    /// Ends: waits until all ranks are between the same two exchanges, and begins no other. Then nobody needs anything of
    /// this rank's memory any more, so it may go. All ranks do this together.
    ///
    /// # Errors
    /// As [`remesh`](Self::remesh).
    pub fn close(&mut self) -> Result<(), BoundaryError> {
        self.quiesce(false)?;
        self.machine.close();
        Ok(())
    }

    /// Channels of the open exchange; one at least if a half of it is left, whose channels are as they were before it.
    fn open(&self) -> u32 {
        self.machine.open().max(u32::from(self.halves != [Half::Set; 2]))
    }

    pub(super) fn quiesce(&mut self, refuses: bool) -> Result<u32, BoundaryError> {
        self.usable()?;
        let open = self.open();
        let next = self.vote(refuses);
        if open > 0 {
            return Err(BoundaryError::StillOpen(Late { count: open as usize, ..self.late() }));
        }
        // Who has not heard everybody does not know whether the others change; after a refusal nobody does.
        let has_heard =
            !matches!(next, Err(BoundaryError::Vote(VoteError::Missing { .. }) | BoundaryError::Transport(_)));
        self.is_spent = !has_heard && !refuses;
        next
    }
}

/// All ranks but this one.
pub(super) fn others<T: Transport>(transport: &T) -> impl Iterator<Item = u32> + use<T> {
    let me = transport.rank();
    (0..transport.ranks()).filter(move |&rank| rank != me)
}

/// Reads what each of these ranks has written, as it comes. All of it may take half of the deadline: the others wait for the vote of
/// this rank meanwhile, and shall hear from it that something is missing.
pub(super) fn read_all(
    transport: &impl Transport,
    deadline: Option<Duration>,
    mut left: Vec<u32>,
    mut each: impl FnMut(u32, &[u8]) -> Result<(), BoundaryError>,
) -> Result<(), BoundaryError> {
    let (mut outcome, begun, mut pause) = (Ok(()), Instant::now(), Pause::default());
    loop {
        // What was written while this process was stopped is read before a rank is taken for silent.
        let is_late = deadline.is_some_and(|deadline| begun.elapsed() > deadline / 2);
        // After a failure the rest is read all the same: what is left unread would be taken for a plan of the next epoch.
        left.retain(|&rank| {
            let Some(image) = transport.read_plan(rank).transpose() else { return true };
            let read = image.map_err(BoundaryError::from).and_then(|image| each(rank, &image));
            if outcome.is_ok() {
                outcome = read;
            }
            false
        });
        let Some(&rank) = left.first() else { return outcome };
        if is_late {
            return outcome.and(Err(TransportError::Silent { rank }.into()));
        }
        pause.take();
    }
}

/// The number of the peer that is this rank.
fn peer_of(machine: &Machine, rank: u32) -> Option<usize> {
    machine.peers().binary_search_by_key(&rank, Peer::rank).ok()
}

const fn part(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// Why plans are of no use, if it is because a rank has refused.
pub(super) fn elsewhere(error: BoundaryError) -> BoundaryError {
    match error {
        BoundaryError::Vote(VoteError::Refuses { rank }) => BoundaryError::RefusedElsewhere(rank),
        error => error,
    }
}

/// Tells the others that this rank has no plans for them; why, its own error says.
fn refuse(transport: &mut impl Transport, round: u32, settings: Settings) {
    let _ = all_vote(transport, round, Vote::REFUSAL, settings);
}

/// Says what this rank says in a round, and waits for what everybody says; the next epoch.
fn all_vote(transport: &mut impl Transport, round: u32, vote: Vote, settings: Settings) -> Result<u32, BoundaryError> {
    transport.vote(round, vote)?;
    let mut votes = vec![None; transport.ranks() as usize];
    let (begun, mut asked, mut pause) = (Instant::now(), Instant::now(), Pause::default());
    loop {
        // What was said while this process was stopped is heard before a rank is taken for missing.
        let is_late = settings.deadline.is_some_and(|deadline| begun.elapsed() > deadline);
        // Asked before its vote is looked for: what it said before its end is seen.
        let asks = asked.elapsed() >= Duration::from_nanos(ASK.0);
        asked = if asks { Instant::now() } else { asked };
        for (rank, vote) in (0..).zip(&mut votes).filter(|(_, vote)| vote.is_none()) {
            let gone = if asks { transport.gone(rank) } else { None };
            *vote = transport.vote_of(rank, round)?;
            if vote.is_none() {
                gone.map_or(Ok(()), Err)?;
            }
        }
        if is_late || votes.iter().all(Option::is_some) {
            return Ok(agree(&votes)?);
        }
        pause.take();
    }
}

fn lapse(span: Duration) -> Lapse {
    Lapse(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

fn machine_of(
    mesh: &impl Mesh,
    fields: &[Field],
    transport: &impl Transport,
    settings: Settings,
    epoch: u32,
) -> Result<Machine, BoundaryError> {
    let lent = channels(mesh, fields, transport.rank(), settings.kind);
    let deadline = settings.deadline.map(lapse);
    let Settings { kind, smallest_slot: smallest, largest_slot: largest, .. } = settings;
    Ok(Machine::new(lent, Config { epoch, kind, slots: transport.slots(), smallest, largest, deadline })?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use umbra_core::boundary::Shape;

    use super::*;
    use crate::boundary::{Extent, Fabric, Grid};

    #[test]
    fn a_field_whose_strips_find_no_memory_is_refused_by_its_name() {
        let shape = Shape::new([4, 4, 1], [2, 2, 0]).unwrap();
        let mesh = Grid::new(shape, [2, 2, 1], [true; 3], 1);
        let fields = [Field::DENSE, Field { components: u32::MAX, ..Field::DENSE }];
        let extent = Extent { ranks: 1, slots: 2, message: 4096 };
        let fabric = Fabric::attach(Arc::new(Fabric::segment(extent).unwrap()), extent, 0).unwrap();
        let built = Boundary::build(&mesh, &fields, fabric, Settings::default()).map(drop);
        let refused = matches!(built, Err(BoundaryError::NoMemory { rank: 0, what: NoMemory { field: 1, .. } }));
        assert!(refused || heap::has(u64::from(u32::MAX) * 8), "{built:?}");
    }
}
