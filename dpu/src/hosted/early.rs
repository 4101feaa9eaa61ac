//! Fetches whose service process is not linked yet.
//!
//! Agents link with each other when a job begins, and its ranks may read before all have. Such a read waits for the
//! link, as long as it would for its bytes. A service process whose link was there and is gone has failed.

use std::collections::HashSet;

use umbra::driver;
use umbra_core::access::message::Fetch;
use umbra_core::access::relay::Asker;
use umbra_core::error::Status;
use umbra_core::machine::Link;
use umbra_core::peer::Sp;
use umbra_core::time::Time;

use super::process::Process;

/// Fetches that may wait at a time; more are refused as if the service process had failed.
const MOST: usize = 4096;

#[derive(Debug)]
struct Waiting {
    sp: Sp,
    asker: Asker,
    fetch: Fetch,
    until: Time,
}

/// Who was ever linked, and what waits for the others.
#[derive(Debug, Default)]
pub(super) struct Early {
    linked: HashSet<Sp>,
    waiting: Vec<Waiting>,
}

impl Early {
    /// Whether the fetch waits from now on.
    pub(super) fn keep(&mut self, sp: Sp, asker: Asker, fetch: Fetch, until: Time) -> bool {
        let waits = !self.linked.contains(&sp) && self.waiting.len() < MOST;
        if waits {
            self.waiting.push(Waiting { sp, asker, fetch, until });
        }
        waits
    }

    /// What has waited for a service process that is linked now, in order, each with what is left of its patience.
    fn linked(&mut self, sp: Sp, now: Time) -> Vec<(Asker, Fetch)> {
        self.linked.insert(sp);
        let left = |one: Waiting| (one.asker, Fetch { patience: one.until.since(now), ..one.fetch });
        self.waiting.extract_if(.., |one| one.sp == sp).map(left).collect()
    }

    /// Whose time is up, with whom each has waited for.
    fn late(&mut self, now: Time) -> Vec<(Asker, Sp)> {
        self.waiting.extract_if(.., |one| one.until <= now).map(|one| (one.asker, one.sp)).collect()
    }

    /// Nobody waits over this link any more.
    pub(super) fn left(&mut self, link: Link) {
        self.waiting.retain(|one| one.asker.link != link);
    }

    /// When the first one's time is up.
    pub(super) fn deadline(&self) -> Time {
        self.waiting.iter().map(|one| one.until).fold(Time::NEVER, Time::min)
    }
}

impl Process {
    /// A service process is linked: what has waited for that begins.
    pub(super) fn fetch_at_last(&mut self, sp: Sp) {
        for (asker, fetch) in self.early.linked(sp, driver::now()) {
            self.on_fetch(asker, Ok(fetch));
        }
    }

    /// Ends those that have waited for long enough, and names whom for.
    pub(super) fn early_on_time(&mut self, now: Time) {
        for (asker, sp) in self.early.late(now) {
            self.refuse_fetch(asker, (Status::Timeout, Some(sp)));
        }
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::key::{Key, Span};
    use umbra_core::time::Lapse;
    use umbra_core::wire::Token;

    use super::*;

    #[test]
    fn a_fetch_waits_for_who_was_never_linked_until_its_time_is_up() {
        let asker = |token: u32| Asker { link: Link(token % 2), token: Token(token.into()) };
        let span = Span { key: Key::from_bits(1), offset: 0, len: 8 };
        let fetch = Fetch { span, patience: Lapse(100), constant: false };
        let mut early = Early::default();
        for (token, sp) in [(0, 1), (1, 2), (2, 1), (3, 2)] {
            assert!(early.keep(Sp(sp), asker(token), fetch, Time(100 + u64::from(token))));
        }
        assert_eq!(early.deadline(), Time(100));
        assert_eq!(early.late(Time(100)), [(asker(0), Sp(1))]);
        let began = early.linked(Sp(1), Time(60));
        assert_eq!(began, [(asker(2), Fetch { patience: Lapse(42), ..fetch })]);
        assert!(!early.keep(Sp(1), asker(4), fetch, Time(200)), "it was linked: it has failed");
        early.left(Link(1));
        assert_eq!((early.deadline(), early.late(Time(1000))), (Time::NEVER, vec![]));
    }
}
