//! Regions that a server has given to service processes, to read by themselves.
//!
//! A grant keeps a hold on its region, as a read that is under way does: so a revocation waits until every grant of the
//! region was given back. The machine remembers who has what, and whom to ask for it; its driver holds and releases.
//!
//! ```text
//! give(link, key, held)                 the region was opened for the asker
//! recall(which), recall_ended(regions) ──> poll() ──> a Call CLOSE to send
//! Done CLOSE ──> returned(link, token) ──> release this hold
//! the link went ──> gone(link) ──> release these holds
//! ```
//!
//! Invariants: a link has at most one grant of a region; a grant that was recalled is asked for once; what comes back
//! over another link than it was given to is nobody's.
//!
//! *Cost*: every call walks the table; none is on the way of a read.

use crate::error::Status;
use crate::id::Id;
use crate::key::Key;
use crate::machine::Link;
use crate::region::{Entry, Held, Regions};
use crate::slots::{Slot, Slots};
use crate::wire::Token;

/// A region that somebody reads by himself; lent by the caller.
#[derive(Debug)]
pub struct Grant {
    link: Link,
    key: Key,
    held: Held,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Given,
    /// Its holder has to be asked for it; `true` if the owner is gone.
    Wanted(bool),
    Asked,
}

/// A region to ask back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "its owner waits for it"]
pub struct Recall {
    /// From whom.
    pub link: Link,
    /// The question's name.
    pub token: Token,
    /// The region.
    pub key: Key,
    /// Its owner is gone: there is nothing to wait for.
    pub forced: bool,
}

/// The machine.
#[derive(Debug)]
pub struct Grants<G> {
    grants: Slots<G>,
    wanted: u32,
}

impl<G: AsRef<[Slot<Grant>]> + AsMut<[Slot<Grant>]>> Grants<G> {
    /// A machine over a lent table.
    pub fn new(grants: G) -> Self {
        Grants { grants: Slots::new(grants), wanted: 0 }
    }

    /// How many regions are given away.
    #[must_use]
    pub fn len(&self) -> usize {
        self.grants.len()
    }

    /// Whether nothing is given away.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// Whether a link has a grant of any region for which `which` holds.
    #[must_use]
    pub fn has(&self, link: Link, which: impl Fn(Key) -> bool) -> bool {
        self.grants.iter().any(|(_, grant)| grant.link == link && which(grant.key))
    }

    /// Gives a region away.
    ///
    /// # Errors
    /// The hold comes back with [`Status::Ok`] if the link has the region already, with [`Status::Conflict`] if it was
    /// asked to give it back, and with [`Status::Full`] if there is no room.
    pub fn give(&mut self, link: Link, key: Key, held: Held) -> Result<(), (Status, Held)> {
        let known = self.grants.iter().find(|(_, grant)| grant.link == link && grant.key == key);
        if let Some((_, grant)) = known {
            let status = if grant.state == State::Given { Status::Ok } else { Status::Conflict };
            return Err((status, held));
        }
        crate::log!(debug, "{:?} is given to {:?}", key, link);
        let grant = Grant { link, key, held, state: State::Given };
        self.grants.take(grant).map(|_| ()).map_err(|full| (Status::Full, full.0.held))
    }

    /// Asks for regions back; `forced` if their owner is gone. Poll afterwards.
    pub fn recall(&mut self, which: impl Fn(Key) -> bool, forced: bool) {
        self.want(|grant| which(grant.key), forced);
    }

    /// Asks for regions back that have ended: nothing is waited for. Another life of the owner may have exported one of the
    /// same key since, so it is the hold that tells. Poll afterwards.
    pub fn recall_ended<E>(&mut self, regions: &Regions<E>)
    where
        E: AsRef<[Entry]> + AsMut<[Entry]>,
    {
        self.want(|grant| regions.fate(&grant.held).is_some(), true);
    }

    fn want(&mut self, which: impl Fn(&Grant) -> bool, forced: bool) {
        for index in 0..u32::try_from(self.grants.capacity()).unwrap_or(u32::MAX) {
            let Some((id, _)) = self.grants.at(index).filter(|(_, grant)| which(grant)) else { continue };
            if let Ok(grant) = self.grants.get_mut(id)
                && grant.state == State::Given
            {
                grant.state = State::Wanted(forced);
                self.wanted += 1;
            }
        }
    }

    /// The next question to send. Poll after `recall` until `None`.
    pub fn poll(&mut self) -> Option<Recall> {
        if self.wanted == 0 {
            return None;
        }
        let wanted = self.grants.iter().find_map(|(id, grant)| match grant.state {
            State::Wanted(forced) => Some((id, forced)),
            _ => None,
        });
        self.wanted = if wanted.is_some() { self.wanted - 1 } else { 0 };
        let (id, forced) = wanted?;
        let grant = self.grants.get_mut(id).ok()?;
        grant.state = State::Asked;
        crate::log!(debug, "{:?} is asked back from {:?}, forced: {:?}", grant.key, grant.link, forced);
        Some(Recall { link: grant.link, token: Token(id.to_bits()), key: grant.key, forced })
    }

    /// A question was answered: release this hold.
    #[must_use]
    pub fn returned(&mut self, link: Link, token: Token) -> Option<Held> {
        let id = Id::<Grant>::from_bits(token.0);
        self.grants.get(id).ok().filter(|grant| grant.link == link && grant.state == State::Asked)?;
        self.grants.remove(id).ok().map(|grant| grant.held)
    }

    /// A link is gone, and with it whoever read over it: release this hold. Call until `None`.
    #[must_use]
    pub fn gone(&mut self, link: Link) -> Option<Held> {
        let id = self.grants.iter().find(|(_, grant)| grant.link == link).map(|(id, _)| id)?;
        let grant = self.grants.remove(id).ok()?;
        self.wanted -= u32::from(matches!(grant.state, State::Wanted(_)));
        Some(grant.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::Shadows;
    use crate::key::{Access, Span};
    use crate::peer::{Incarnation, Peer, Sp, WorldRank};
    use crate::region::{Region, Secret};

    const ME: Sp = Sp(0);
    const LIFE: Incarnation = Incarnation(1);

    fn owner() -> Peer {
        Peer::rank(WorldRank(1)).unwrap_or_else(|| unreachable!())
    }

    struct Bench {
        regions: Regions<[Entry; 4]>,
        grants: Grants<[Slot<Grant>; 3]>,
    }

    impl Bench {
        fn new() -> Bench {
            let regions = Regions::new([const { Entry::VACANT }; 4]);
            Bench { regions, grants: Grants::new([const { Slot::EMPTY }; 3]) }
        }

        fn export(&mut self) -> Key {
            let shadows: Shadows = [ME].into_iter().collect();
            let made = self.regions.export(owner(), LIFE, 64, 64, Access::READ, shadows, Secret([0; 32]));
            made.unwrap_or_else(|_| unreachable!()).key
        }

        fn give(&mut self, link: u32, key: Key) -> Status {
            let Ok(held) = self.regions.hold(Span { key, offset: 0, len: 0 }, Access::READ, ME) else { unreachable!() };
            let Err((status, held)) = self.grants.give(Link(link), key, held) else { return Status::Ok };
            assert_eq!(self.regions.release(held), None);
            status
        }
    }

    #[test]
    fn a_revocation_ends_when_everybody_has_given_the_region_back_or_is_gone() {
        let mut bench = Bench::new();
        let (key, other) = (bench.export(), bench.export());
        for (link, key) in [(7, key), (7, key), (8, key), (8, other)] {
            assert_eq!(bench.give(link, key), Status::Ok);
        }
        assert_eq!(bench.grants.len(), 3, "the same region twice over a link is one grant");
        assert_eq!(bench.give(9, key), Status::Full);
        assert_eq!(bench.grants.poll(), None);
        assert!(bench.regions.revoke(key).is_ok_and(|revocation| revocation.in_flight == 2));
        bench.grants.recall(|k| k == key, false);
        let asked: [Recall; 2] = [(); 2].map(|()| bench.grants.poll().unwrap_or_else(|| unreachable!()));
        assert_eq!((asked.map(|a| a.link), asked.map(|a| (a.key, a.forced))), ([Link(7), Link(8)], [(key, false); 2]));
        bench.grants.recall(|k| k == key, false);
        assert_eq!(bench.grants.poll(), None, "each is asked once");
        assert!(bench.grants.returned(Link(8), asked[0].token).is_none(), "somebody else's answer");
        let held = bench.grants.returned(Link(7), asked[0].token).unwrap_or_else(|| unreachable!());
        assert_eq!(bench.regions.release(held), None);
        assert!(bench.grants.returned(Link(7), asked[0].token).is_none(), "an answer twice");
        let mut ended = None;
        while let Some(held) = bench.grants.gone(Link(8)) {
            ended = ended.or(bench.regions.release(held));
        }
        assert_eq!((ended, bench.grants.is_empty()), (Some(key), true));
    }

    #[test]
    fn a_region_of_a_life_that_is_over_is_asked_back_although_the_next_one_has_its_key() {
        let mut bench = Bench::new();
        let (key, other) = (bench.export(), bench.export());
        assert_eq!([bench.give(7, key), bench.give(7, other)], [Status::Ok; 2]);
        bench.grants.recall_ended(&bench.regions);
        assert_eq!(bench.grants.poll(), None, "none has ended");
        // Two lives may begin to count at the same generation.
        bench.regions.orphan(owner(), |life| life == LIFE);
        let again = Region { key, incarnation: Incarnation(2), base: 64, len: 64, access: Access::READ };
        assert_eq!(bench.regions.admit(ME, again, [ME].into_iter().collect(), Secret([0; 32])), Ok(()));
        bench.grants.recall_ended(&bench.regions);
        let mut asked: [Key; 2] = [(); 2].map(|()| bench.grants.poll().unwrap_or_else(|| unreachable!()).key);
        asked.sort_unstable();
        assert_eq!((asked, bench.grants.poll()), ([key, other], None));
        assert_eq!(bench.give(7, key), Status::Conflict, "the answer is waited for");
    }
}
