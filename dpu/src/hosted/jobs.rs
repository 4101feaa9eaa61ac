//! Jobs of an agent's network card: those that wait, are under way, or have ended.
//!
//! Every job takes one slot of a landing area; jobs beyond the slots wait in order. A job whose owner has yet to answer
//! a greeting lets others pass, for it would keep a slot from them. What has ended is told as [`News`], with the bytes still
//! in the slot: whoever takes it gives the slot back. A rank has [`CREDIT`] fetches here at once; one that waits ends when
//! it is late, and when its asker goes.
//!
//! *Cost*: a look for credit and a look at all deadlines each walk the jobs, and a look for the next job walks those that let
//! others pass; the rest is O(1).

use std::collections::VecDeque;

use umbra_core::access::relay::{Asker, CREDIT};
use umbra_core::access::serve::Copy;
use umbra_core::error::Status;
use umbra_core::key::{Access, Key, Span};
use umbra_core::machine::Link;
use umbra_core::peer::Peer;
use umbra_core::region::{Held, Region};
use umbra_core::time::Time;

/// Bytes of one job at most.
pub(super) const PIECE: u64 = 128 * 1024;

/// Why bytes are moved.
pub(super) enum Job {
    /// A service process asked for a copy of memory of a rank of ours.
    Serve {
        copy: Copy,
        /// What is to be written.
        store: Option<Vec<u8>>,
    },
    /// A piece of a read of an order.
    Read(DirectRead),
    /// A rank asked for bytes of another rank of ours.
    Fetch(RankFetch),
}

impl Job {
    /// When it ends even if it has not begun.
    const fn deadline(&self) -> Time {
        match self {
            Job::Fetch(fetch) => fetch.deadline,
            Job::Serve { .. } | Job::Read(_) => Time::NEVER,
        }
    }

    /// The fetch that it is, if it was asked for over this link.
    fn fetch_of(&mut self, link: Link) -> Option<&mut RankFetch> {
        match self {
            Job::Fetch(fetch) if fetch.is_of(link) => Some(fetch),
            _ => None,
        }
    }
}

/// A read for a rank: one answer, and so one piece.
pub(super) struct RankFetch {
    /// `None` once its link is gone.
    pub(super) asker: Option<Asker>,
    pub(super) len: u64,
    /// Keeps the region from being taken back meanwhile.
    pub(super) held: Held,
    pub(super) deadline: Time,
}

impl RankFetch {
    fn is_of(&self, link: Link) -> bool {
        self.asker.is_some_and(|asker| asker.link == link)
    }
}

/// A read that this process makes by itself, piece by piece.
pub(super) struct DirectRead {
    pub(super) tag: u64,
    pub(super) region: Region,
    pub(super) address: u64,
    pub(super) len: u64,
    /// Bytes that are there.
    pub(super) done: u64,
    pub(super) deadline: Time,
    /// The link to the service process that can be asked instead; none for a rank of ours.
    pub(super) via: Option<Link>,
    /// Keeps the region of a rank of ours from being taken back meanwhile.
    pub(super) held: Option<Held>,
    pub(super) retried: bool,
}

impl DirectRead {
    pub(super) fn piece(&self) -> Span {
        let offset = (self.address - self.region.base).saturating_add(self.done);
        Span { key: self.region.key, offset, len: (self.len - self.done).min(PIECE) }
    }
}

/// A job that has no slot yet.
pub(super) struct Waiting {
    pub(super) way: Access,
    pub(super) span: Span,
    pub(super) job: Job,
}

/// A job that the device works on.
struct Working {
    job: Job,
    owner: Peer,
    /// When it must have ended. Devices repeat what is lost and give up by themselves, but not all of them, always.
    due: Time,
}

/// What the card has to tell.
pub(super) enum News {
    /// A job ended; its bytes are in this slot, if it had one.
    Ended { job: Job, status: Status, slot: Option<usize> },
    /// The queue pair to an owner broke.
    Broken(Peer),
    /// A region is not touched any more.
    Revoked(Key),
}

/// All jobs of a card.
pub(super) struct Jobs {
    free: Vec<usize>,
    /// By slot.
    working: Vec<Option<Working>>,
    waiting: VecDeque<Waiting>,
    /// Nothing that waits is late before.
    soonest: Time,
    news: VecDeque<News>,
}

impl Jobs {
    /// No jobs, and so many slots.
    pub(super) fn new(slots: usize) -> Jobs {
        Jobs {
            free: (0..slots).rev().collect(),
            working: (0..slots).map(|_| None).collect(),
            waiting: VecDeque::new(),
            soonest: Time::NEVER,
            news: VecDeque::new(),
        }
    }

    /// Queues a job.
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.soonest = self.soonest.min(waiting.job.deadline());
        self.waiting.push_back(waiting);
    }

    /// Whether one more fetch is taken from a link.
    pub(super) fn has_credit(&self, link: Link) -> bool {
        let waiting = self.waiting.iter().map(|waiting| &waiting.job);
        let working = self.working.iter().flatten().map(|working| &working.job);
        let fetches = working.chain(waiting).filter(|job| matches!(job, Job::Fetch(fetch) if fetch.is_of(link)));
        fetches.count() < CREDIT as usize
    }

    /// Whoever asked over this link hears nothing any more: what waits for him ends.
    pub(super) fn forget_asker(&mut self, link: Link) {
        let waiting = self.waiting.iter_mut().map(|waiting| &mut waiting.job);
        let working = self.working.iter_mut().flatten().map(|working| &mut working.job);
        for fetch in working.chain(waiting).filter_map(|job| job.fetch_of(link)) {
            fetch.asker = None;
        }
        self.end_waiting(Status::PeerFailed, |job| matches!(job, Job::Fetch(RankFetch { asker: None, .. })));
    }

    /// Once something is due: the owners of what the device should have ended, which has until `next` then; what has waited too
    /// long ends. `hear` is told first, and tells what the device [has ended](Self::ended) by now: while this process was
    /// stopped, the device was not.
    #[must_use]
    pub(super) fn judge(&mut self, now: Time, next: Time, hear: impl FnOnce(&mut Jobs)) -> Vec<Peer> {
        if self.deadline() > now {
            return Vec::new();
        }
        hear(self);
        self.end_late(now);
        let late = self.working.iter_mut().flatten().filter(|working| working.due <= now);
        let owners = late.map(|working| {
            working.due = next;
            working.owner
        });
        owners.collect()
    }

    fn end_late(&mut self, now: Time) {
        if self.soonest <= now {
            self.end_waiting(Status::Timeout, |job| job.deadline() <= now);
            self.soonest = self.waiting.iter().map(|waiting| waiting.job.deadline()).fold(Time::NEVER, Time::min);
        }
    }

    fn end_waiting(&mut self, status: Status, ends: impl Fn(&Job) -> bool) {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (ended, rest): (VecDeque<Waiting>, _) = all.partition(|waiting| ends(&waiting.job));
        self.waiting = rest;
        self.news.extend(ended.into_iter().map(|Waiting { job, .. }| News::Ended { job, status, slot: None }));
    }

    /// When the device must have ended something, or something has waited too long.
    pub(super) fn deadline(&self) -> Time {
        self.working.iter().flatten().map(|working| working.due).fold(self.soonest, Time::min)
    }

    /// The next job to begin, and a slot for it: tell [`begun`](Self::begun) or [`refused`](Self::refused). It is the first
    /// whose owner is not greeting; an owner is not once it has answered, was refused, or is gone.
    pub(super) fn pop(&mut self, mut is_greeting: impl FnMut(Peer) -> bool) -> Option<(usize, Waiting)> {
        let slot = *self.free.last()?;
        let next = self.waiting.iter().position(|waiting| !is_greeting(waiting.span.key.owner()))?;
        let waiting = self.waiting.remove(next)?;
        self.free.pop();
        Some((slot, waiting))
    }

    /// The device works on a job.
    pub(super) fn begun(&mut self, slot: usize, job: Job, owner: Peer, due: Time) {
        if let Some(place) = self.working.get_mut(slot) {
            *place = Some(Working { job, owner, due });
        }
    }

    /// The device did not take a job, which ends without its slot.
    pub(super) fn refused(&mut self, slot: usize, job: Job, status: Status) {
        self.free.push(slot);
        self.news.push_back(News::Ended { job, status, slot: None });
    }

    /// The device has ended a job.
    pub(super) fn ended(&mut self, slot: usize, status: Status) {
        if let Some(Working { job, .. }) = self.working.get_mut(slot).and_then(Option::take) {
            self.news.push_back(News::Ended { job, status, slot: Some(slot) });
        }
    }

    /// A slot is free again.
    pub(super) fn give_back(&mut self, slot: Option<usize>) {
        self.free.extend(slot);
    }

    /// Adds what the device tells beside the end of jobs.
    pub(super) fn tell(&mut self, news: News) {
        self.news.push_back(news);
    }

    /// The jobs whose end was not told: those that wait, that the device worked on, or that have ended.
    pub(super) fn rest(self) -> impl Iterator<Item = Job> {
        let ended = self.news.into_iter().filter_map(|news| match news {
            News::Ended { job, .. } => Some(job),
            News::Broken(_) | News::Revoked(_) => None,
        });
        let working = self.working.into_iter().flatten().map(|working| working.job);
        ended.chain(working).chain(self.waiting.into_iter().map(|waiting| waiting.job))
    }

    /// What is to be told next.
    pub(super) fn news(&mut self) -> Option<News> {
        self.news.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use umbra_core::peer::{Incarnation, Sp, WorldRank};
    use umbra_core::region::{Entry, Regions, Secret};
    use umbra_core::wire::Token;

    use super::*;

    const SLOTS: usize = 2;

    /// A fetch of memory of rank `owner`, asked for over a link, that ends at `deadline`.
    fn fetch(owner: u32, link: u32, deadline: u64) -> Waiting {
        let (owner, me) = (Peer::rank(WorldRank(owner)).unwrap(), Sp(0));
        let mut regions = Regions::new([Entry::VACANT; 1]);
        let shadows = [me].into_iter().collect();
        let region = regions.export(owner, Incarnation(1), 4096, 64, Access::READ, shadows, Secret([1; 32])).unwrap();
        let span = Span { key: region.key, offset: 0, len: 8 };
        let held = regions.hold(span, Access::READ, me).unwrap();
        let asker = Some(Asker { link: Link(link), token: Token(deadline) });
        let job = Job::Fetch(RankFetch { asker, len: 8, held, deadline: Time(deadline) });
        Waiting { way: Access::READ, span, job }
    }

    fn begin(jobs: &mut Jobs) -> Option<usize> {
        begin_but(jobs, |_| false)
    }

    fn begin_but(jobs: &mut Jobs, is_greeting: impl Fn(Peer) -> bool) -> Option<usize> {
        let (slot, Waiting { span, job, .. }) = jobs.pop(is_greeting)?;
        jobs.begun(slot, job, span.key.owner(), Time(1000));
        Some(slot)
    }

    /// What ended: whether somebody is to be answered, why, and whether it had a slot.
    fn ended(jobs: &mut Jobs) -> Vec<(Option<u64>, Status, Option<usize>)> {
        let told = std::iter::from_fn(|| jobs.news());
        told.map(|news| match news {
            News::Ended { job: Job::Fetch(fetch), status, slot } => (fetch.asker.map(|a| a.token.0), status, slot),
            _ => panic!("only fetches were begun"),
        })
        .collect()
    }

    #[test]
    fn a_link_has_so_many_fetches_at_once_whether_they_wait_or_not() {
        let mut jobs = Jobs::new(SLOTS);
        for n in 0..u64::from(CREDIT) {
            assert!(jobs.has_credit(Link(1)));
            jobs.push(fetch(1, 1, 100 + n));
        }
        assert!(!jobs.has_credit(Link(1)) && jobs.has_credit(Link(2)), "another rank has its own");
        let slot = begin(&mut jobs).unwrap();
        assert!(!jobs.has_credit(Link(1)), "it has not ended");
        jobs.ended(slot, Status::Ok);
        assert!(jobs.has_credit(Link(1)));
        assert_eq!(ended(&mut jobs), [(Some(100), Status::Ok, Some(slot))]);
    }

    #[test]
    fn an_owner_that_has_yet_to_answer_keeps_no_slot_from_others() {
        let mut jobs = Jobs::new(SLOTS);
        for (owner, deadline) in [(1, 10), (1, 11), (1, 12), (2, 20), (1, 13), (3, 30)] {
            jobs.push(fetch(owner, owner, deadline));
        }
        let mut begun = |is_greeting: fn(Peer) -> bool| {
            let slots: Vec<_> = std::iter::from_fn(|| begin_but(&mut jobs, is_greeting)).collect();
            for slot in slots {
                jobs.ended(slot, Status::Ok);
                jobs.give_back(Some(slot));
            }
            ended(&mut jobs).into_iter().filter_map(|(token, ..)| token).collect::<Vec<_>>()
        };
        let silent = |owner| Some(owner) == Peer::rank(WorldRank(1));
        assert_eq!([begun(silent), begun(silent)], [vec![20, 30], vec![]]);
        // It has answered, or is known not to.
        assert_eq!([begun(|_| false), begun(|_| false), begun(|_| false)], [vec![10, 11], vec![12, 13], vec![]]);
    }

    #[test]
    fn what_waits_ends_when_it_is_late_and_nothing_else_does() {
        let mut jobs = Jobs::new(1);
        for deadline in [5, 70, 50, 60] {
            jobs.push(fetch(1, 1, deadline));
        }
        let slot = begin(&mut jobs).unwrap();
        let judge = |jobs: &mut Jobs, now| assert_eq!(jobs.judge(Time(now), Time(now), |_| ()), []);
        judge(&mut jobs, 49);
        assert_eq!((ended(&mut jobs), jobs.deadline()), (vec![], Time(50)), "the device has begun the first");
        judge(&mut jobs, 60);
        assert_eq!(ended(&mut jobs), [(Some(50), Status::Timeout, None), (Some(60), Status::Timeout, None)]);
        assert_eq!(jobs.deadline(), Time(70));
        jobs.ended(slot, Status::Ok);
        jobs.give_back(Some(slot));
        assert_eq!(begin(&mut jobs), Some(slot), "the last has its turn");
    }

    #[test]
    fn the_device_is_heard_before_it_is_judged_to_be_late() {
        let mut jobs = Jobs::new(SLOTS);
        for owner in [1, 2] {
            jobs.push(fetch(owner, owner, 5000));
        }
        let slots = [0, 1].map(|_| begin(&mut jobs).unwrap());
        let heard = |_: &mut Jobs| panic!("nothing is due");
        assert_eq!(jobs.judge(Time(999), Time(2000), heard), []);
        let late = jobs.judge(Time(1500), Time(2000), |jobs| jobs.ended(slots[0], Status::Ok));
        assert_eq!(late, [Peer::rank(WorldRank(2)).unwrap()], "the first has ended meanwhile");
        assert_eq!(ended(&mut jobs), [(Some(5000), Status::Ok, Some(slots[0]))]);
        assert_eq!(jobs.deadline(), Time(2000), "the other one has so long then");
    }

    #[test]
    fn what_has_ended_and_was_not_told_is_not_lost_with_the_device() {
        let mut jobs = Jobs::new(SLOTS);
        for deadline in [10, 11, 12] {
            jobs.push(fetch(1, 1, deadline));
        }
        let slot = begin(&mut jobs).unwrap();
        jobs.ended(slot, Status::Ok);
        jobs.tell(News::Broken(Peer::rank(WorldRank(1)).unwrap()));
        begin(&mut jobs).unwrap();
        let rest = jobs.rest().map(|job| match job {
            Job::Fetch(fetch) => fetch.deadline.0,
            Job::Serve { .. } | Job::Read(_) => panic!("only fetches were begun"),
        });
        assert_eq!(rest.collect::<Vec<_>>(), [10, 11, 12]);
    }

    #[test]
    fn what_waits_for_a_gone_link_ends_and_what_is_under_way_answers_nobody() {
        let mut jobs = Jobs::new(1);
        for (link, deadline) in [(1, 10), (1, 11), (2, 12), (1, 13)] {
            jobs.push(fetch(1, link, deadline));
        }
        let slot = begin(&mut jobs).unwrap();
        jobs.forget_asker(Link(1));
        assert_eq!(ended(&mut jobs), [(None, Status::PeerFailed, None), (None, Status::PeerFailed, None)]);
        assert!(jobs.has_credit(Link(1)), "the next link of that number owes nothing");
        jobs.ended(slot, Status::Ok);
        jobs.give_back(Some(slot));
        assert_eq!(begin(&mut jobs), Some(slot));
        jobs.ended(slot, Status::Ok);
        assert_eq!(ended(&mut jobs), [(None, Status::Ok, Some(slot)), (Some(12), Status::Ok, Some(slot))]);
    }
}
