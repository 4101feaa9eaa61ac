//! Reads whose service process is not linked yet.
//!
//! Agents link with each other when a job begins, and its ranks may read, or its launcher give the order to, before all
//! have. Such a read waits for the link, as long as it would for its bytes. A service process whose link was there and is
//! gone has failed.

use std::collections::HashSet;

use umbra::driver::{self, LinkId};
use umbra_core::access::message::Fetch;
use umbra_core::access::relay::{Asker, CREDIT};
use umbra_core::error::Status;
use umbra_core::machine::Link;
use umbra_core::peer::Sp;
use umbra_core::time::Time;

use super::machines::ASKS;
use super::process::{OUTSTANDING, Process};
use super::reading::Wanted;

/// Reads that may wait at a time: every rank's whole credit, and an order's.
const MOST: usize = ASKS + OUTSTANDING;

/// A read that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// Of a rank.
    Fetch(Asker, Fetch),
    /// Of the order that is being carried out.
    Order(Wanted),
}

impl Wish {
    fn is_of(&self, link: Link) -> bool {
        matches!(self, Wish::Fetch(asker, _) if asker.link == link)
    }
}

#[derive(Debug)]
struct Waiting {
    sp: Sp,
    wish: Wish,
    until: Time,
}

/// Who was ever linked, and what waits for the others.
#[derive(Debug, Default)]
pub(super) struct Early {
    linked: HashSet<Sp>,
    waiting: Vec<Waiting>,
}

impl Early {
    /// The read waits from now on.
    ///
    /// # Errors
    /// [`Status::PeerFailed`] if the service process was linked, [`Status::Full`] if as many reads of this rank wait as it may
    /// have, or there is no room at all.
    pub(super) fn keep(&mut self, sp: Sp, wish: Wish, until: Time) -> Result<(), Status> {
        if self.linked.contains(&sp) {
            return Err(Status::PeerFailed);
        }
        let of_rank = |link| self.waiting.iter().filter(|one| one.wish.is_of(link)).count();
        let has_credit = match wish {
            Wish::Fetch(asker, _) => of_rank(asker.link) < CREDIT as usize,
            Wish::Order(_) => true,
        };
        if !has_credit || self.waiting.len() >= MOST {
            return Err(Status::Full);
        }
        self.waiting.push(Waiting { sp, wish, until });
        Ok(())
    }

    /// What has waited for a service process that is linked now, in order, and until when it would have.
    fn linked(&mut self, sp: Sp) -> Vec<(Wish, Time)> {
        self.linked.insert(sp);
        self.waiting.extract_if(.., |one| one.sp == sp).map(|one| (one.wish, one.until)).collect()
    }

    /// Whose time is up, with whom each has waited for.
    fn late(&mut self, now: Time) -> Vec<(Wish, Sp)> {
        self.waiting.extract_if(.., |one| one.until <= now).map(|one| (one.wish, one.sp)).collect()
    }

    /// Nobody waits over this link any more.
    pub(super) fn left(&mut self, link: Link) {
        self.waiting.retain(|one| !one.wish.is_of(link));
    }

    /// When the first one's time is up.
    pub(super) fn deadline(&self) -> Time {
        self.waiting.iter().map(|one| one.until).fold(Time::NEVER, Time::min)
    }
}

impl Process {
    /// A service process is linked: what has waited for that begins.
    pub(super) fn read_at_last(&mut self, sp: Sp) {
        for (wish, until) in self.early.linked(sp) {
            match wish {
                // A link that ended over the answer to another one has been told to everybody else.
                Wish::Fetch(asker, _) if !self.links.contains_key(&LinkId(asker.link.0)) => {}
                Wish::Fetch(asker, fetch) => {
                    let patience = until.since(driver::now());
                    self.on_fetch(asker, Ok(Fetch { patience, ..fetch }));
                }
                Wish::Order(wanted) => {
                    if let Err(status) = self.begin(&wanted, until) {
                        self.read_ended(wanted.tag, status, None);
                    }
                }
            }
        }
    }

    /// Ends those that have waited for long enough, and names whom for where a rank asked.
    pub(super) fn early_on_time(&mut self, now: Time) {
        for (wish, sp) in self.early.late(now) {
            match wish {
                Wish::Fetch(asker, _) => self.refuse_fetch(asker, (Status::Timeout, Some(sp))),
                Wish::Order(wanted) => self.read_ended(wanted.tag, Status::Timeout, None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use umbra::admin::Slice;
    use umbra_core::key::{Key, Span};
    use umbra_core::peer::WorldRank;
    use umbra_core::time::Lapse;
    use umbra_core::wire::Token;

    use super::*;

    fn fetch(link: u32, token: u64) -> Wish {
        let span = Span { key: Key::from_bits(1), offset: 0, len: 8 };
        let asker = Asker { link: Link(link), token: Token(token) };
        Wish::Fetch(asker, Fetch { span, patience: Lapse(100), constant: false })
    }

    #[test]
    fn a_read_waits_for_who_was_never_linked_until_its_time_is_up() {
        let slice = Slice { rank: WorldRank(1), address: 4096, len: 8 };
        let order = Wish::Order(Wanted { slice, address: 4096, len: 8, tag: 7 });
        let mut early = Early::default();
        for (sp, wish, until) in [
            (1, fetch(0, 0), 100),
            (2, fetch(1, 1), 101),
            (1, fetch(0, 2), 102),
            (1, order, 103),
            (2, fetch(1, 3), 103),
        ] {
            assert_eq!(early.keep(Sp(sp), wish, Time(until)), Ok(()));
        }
        assert_eq!(early.deadline(), Time(100));
        assert_eq!(early.late(Time(100)), [(fetch(0, 0), Sp(1))]);
        assert_eq!(early.linked(Sp(1)), [(fetch(0, 2), Time(102)), (order, Time(103))]);
        let again = early.keep(Sp(1), fetch(0, 4), Time(200));
        assert_eq!(again, Err(Status::PeerFailed), "it was linked: it has failed");
        early.left(Link(1));
        assert_eq!((early.deadline(), early.late(Time(1000))), (Time::NEVER, vec![]));
    }

    #[test]
    fn a_rank_that_asks_for_more_than_it_may_takes_nobody_the_place() {
        let mut early = Early::default();
        let mut ask = |link, times: usize| {
            let kept = (0..times).map(|token| early.keep(Sp(1), fetch(link, token as u64), Time(1)));
            kept.filter(|kept| *kept != Err(Status::Full)).inspect(|kept| assert_eq!(*kept, Ok(()))).count()
        };
        assert_eq!(ask(0, 2 * MOST), CREDIT as usize);
        // Of so many links ranks may be at the other end.
        for link in 1..(ASKS / CREDIT as usize) as u32 {
            assert_eq!(ask(link, CREDIT as usize), CREDIT as usize, "of link {link}");
        }
        let slice = Slice { rank: WorldRank(1), address: 4096, len: 8 };
        let order = |tag| Wish::Order(Wanted { slice, address: 4096, len: 8, tag });
        assert!((0..OUTSTANDING as u64).all(|tag| early.keep(Sp(2), order(tag), Time(1)).is_ok()));
    }
}
