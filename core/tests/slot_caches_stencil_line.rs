//! The scenarios of those who wait for a stencil cache, one test each.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, Wake, Waker};

use umbra_core::cache::Slot;
use umbra_core::id::Id;
use umbra_core::stencil::waiting::{AllocError, Place, Waiter, Waiting};
use umbra_core::stencil::{
    Action, ByNumber, Group, GroupError, Input, Limits, Member, PreparedError, Reference, Stencil, Storage,
    SubmitError, Unknown,
};

type Vecs = Storage<Vec<Slot>, Vec<u32>, Vec<Input>, Vec<Group>, Vec<Reference>>;
type Line = Waiting<Vecs, ByNumber, Unknown, Vec<Waiter>>;

/// A cache of so many slots and records of groups, for which five can wait.
fn line(slots: u32, groups: usize) -> Line {
    let storage = Storage {
        slots: vec![Slot::EMPTY; slots as usize],
        buckets: vec![0; 64],
        inputs: vec![Input::UNBOUNDED; 20],
        groups: vec![Group::EMPTY; groups],
        references: vec![Reference::EMPTY; groups * 4],
    };
    let limits = Limits { largest_group: slots.min(4), active: 100, horizon: 100 };
    let stencil = Stencil::new(storage, ByNumber, Unknown, 0..slots, limits).unwrap();
    Waiting::new(stencil, (0..5).map(|_| Waiter::EMPTY).collect())
}

#[derive(Default)]
struct Alarm(AtomicU32);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Somebody who wants a group.
struct Client {
    alarm: Arc<Alarm>,
    place: Place,
    point: u64,
    group: Vec<u64>,
}

type Told = Poll<Result<Id<Group>, AllocError>>;

impl Client {
    fn new(point: u64, group: &[u64]) -> Client {
        Client { alarm: Arc::default(), place: Place::Outside, point, group: group.to_vec() }
    }
    fn ask(&mut self, line: &mut Line) -> Told {
        let group = self.group.iter().map(|&data| Member::Load(data));
        line.alloc(&mut self.place, self.point, group, &Waker::from(self.alarm.clone()))
    }
    /// The client stands in line, or its group does.
    fn waits(point: u64, group: &[u64], line: &mut Line) -> Client {
        let mut client = Client::new(point, group);
        assert_eq!(client.ask(line), Poll::Pending);
        client
    }
    fn woken(&self, line: &mut Line) -> u32 {
        while let Some(waker) = line.next_waker() {
            waker.wake();
        }
        self.alarm.0.swap(0, Ordering::Relaxed)
    }
    fn end(self, line: &mut Line) -> Option<Result<Id<Group>, AllocError>> {
        line.end(self.place)
    }
}

fn now(line: &mut Line, point: u64, group: &[u64]) -> Id<Group> {
    match Client::new(point, group).ask(line) {
        Poll::Ready(Ok(group)) => group,
        other => panic!("{other:?}"),
    }
}

/// Loads all that is asked for, and tells which points are ready.
fn ready(line: &mut Line) -> Vec<u64> {
    let mut points = Vec::new();
    while let Some(action) = line.poll() {
        match action {
            Action::Prepare { data, .. } => line.prepared(data).unwrap(),
            Action::Ready { point, .. } => points.push(point),
            other => panic!("{other:?}"),
        }
    }
    points
}

#[test]
fn alloc_waits_until_the_group_has_all_its_slots_and_not_for_its_loads() {
    let mut line = line(3, 5);
    let first = now(&mut line, 1, &[1, 2]);
    let mut client = Client::waits(2, &[3, 4], &mut line);
    assert!(matches!(client.place, Place::Accepted(..)));
    assert_eq!(ready(&mut line), [1]);
    assert_eq!((client.woken(&mut line), client.ask(&mut line)), (0, Poll::Pending));
    line.free_group(first).unwrap();
    assert_eq!(client.woken(&mut line), 1);
    let Poll::Ready(Ok(second)) = client.ask(&mut line) else { panic!("it has its slots") };
    assert_eq!(line.free_group(second), Err(GroupError::NotReady {}), "input 4 is not there yet");
    assert_eq!(ready(&mut line), [2]);
    assert_eq!((line.free_group(second), line.waiting()), (Ok(()), 0));
}

#[test]
fn s33_who_finds_all_records_taken_waits_in_line_and_nobody_passes() {
    let mut line = line(8, 1);
    let mut last = now(&mut line, 0, &[0]);
    let mut clients: Vec<Client> = (1..5).map(|n| Client::waits(n, &[n], &mut line)).collect();
    for n in 0..4 {
        assert_eq!(line.submit_members(9, []), Err(SubmitError::GroupsFull { groups: 1 }));
        assert_eq!(ready(&mut line), [n]);
        assert!(clients.iter().all(|client| client.woken(&mut line) == 0));
        line.free_group(last).unwrap();
        assert_eq!(line.submit_members(9, []), Err(SubmitError::GroupsFull { groups: 1 }), "the record is kept");
        let newcomer = Client::waits(9, &[], &mut line);
        let (first, others) = clients.split_first_mut().unwrap();
        assert_eq!(first.woken(&mut line), 1);
        assert!(others.iter_mut().all(|other| other.woken(&mut line) == 0 && other.ask(&mut line).is_pending()));
        let Poll::Ready(Ok(group)) = first.ask(&mut line) else { panic!("it is its turn") };
        last = group;
        clients.remove(0);
        assert_eq!(newcomer.end(&mut line), None);
    }
}

#[test]
fn s33_more_than_can_wait_are_refused_before_their_group_is_accepted_or_told_that_it_is() {
    let mut line = line(2, 2);
    now(&mut line, 0, &[0, 1]);
    let _clients = [2, 3, 4, 5, 6].map(|n| Client::waits(n, &[n], &mut line));
    let refused = Poll::Ready(Err(AllocError::TooManyWaiters { waiters: 5, accepted: None }));
    assert_eq!(Client::new(7, &[7]).ask(&mut line), refused);
    let mut none = Waiting::new(
        Stencil::new(
            Storage {
                slots: [Slot::EMPTY; 1],
                buckets: [0; 1],
                inputs: [Input::UNBOUNDED; 2],
                groups: [Group::EMPTY; 2],
                references: [Reference::EMPTY; 2],
            },
            ByNumber,
            Unknown,
            0..1,
            Limits { largest_group: 1, active: 9, horizon: 1 },
        )
        .unwrap(),
        [Waiter::EMPTY; 0],
    );
    let load = |data| [Member::Load(data)];
    assert!(none.alloc(&mut Place::Outside, 0, load(0), Waker::noop()).is_ready());
    let told = none.alloc(&mut Place::Outside, 1, load(1), Waker::noop());
    let Poll::Ready(Err(AllocError::TooManyWaiters { accepted: Some(group), .. })) = told else { panic!("{told:?}") };
    assert_eq!(none.stencil().slots(group).err(), Some(GroupError::NotReady {}), "it goes on");
}

#[test]
fn a_group_that_is_refused_in_its_turn_makes_way_for_the_next() {
    let mut line = line(2, 1);
    let first = now(&mut line, 0, &[0]);
    let mut unknown = Client::waits(1, &[77], &mut line);
    let mut large = Client::waits(2, &[1, 2, 3], &mut line);
    let mut good = Client::waits(3, &[1], &mut line);
    assert_eq!(ready(&mut line), [0]);
    line.free_group(first).unwrap();
    let refused = |error: SubmitError| Poll::Ready(Err(AllocError::Refused(error)));
    assert_eq!(unknown.ask(&mut line), refused(SubmitError::UnknownData { data: 77 }));
    assert_eq!(large.ask(&mut line), refused(SubmitError::GroupTooLarge { need: 3, have: 2 }));
    assert_eq!(good.woken(&mut line), 1);
    assert!(good.ask(&mut line).is_ready());
}

#[test]
fn s34_who_leaves_the_line_leaves_nothing_behind() {
    let mut line = line(4, 1);
    let first = now(&mut line, 0, &[0]);
    let mut clients: Vec<Client> = (1..5).map(|n| Client::waits(n, &[n], &mut line)).collect();
    let text = line.overdue(1, None).to_string();
    assert!(text.starts_with("the group of point 1 waits to be accepted; 1 group has its own"), "{text}");
    assert_eq!(clients.remove(1).end(&mut line), None);
    assert_eq!((ready(&mut line), line.waiting()), (vec![0], 3));
    line.free_group(first).unwrap();
    assert_eq!(clients[0].woken(&mut line), 1);
    assert_eq!(clients.remove(0).end(&mut line), None, "in its turn, which goes to the next");
    assert_eq!(clients[0].woken(&mut line), 1);
    assert!(clients[0].ask(&mut line).is_ready());
    assert_eq!(clients.remove(0).place, Place::Outside);
    assert_eq!(clients.remove(0).end(&mut line), None);
    assert_eq!((line.waiting(), line.stencil().len()), (0, Ok(2)), "inputs 0 and 3");
}

#[test]
fn s34_a_group_that_is_accepted_goes_on_without_who_waited_for_it() {
    let mut line = line(2, 3);
    let first = now(&mut line, 1, &[1, 2]);
    let client = Client::waits(2, &[3], &mut line);
    let Place::Accepted(group, Some(_)) = client.place else { panic!("{:?}", client.place) };
    let text = line.overdue(0, Some(group)).to_string();
    assert!(text.starts_with("the group of point 2 is accepted and waits for slots; 1 group has"), "{text}");
    assert!(text.contains("is not freed, for the points 1; others that wait: 1"), "{text}");
    assert_eq!((client.end(&mut line), line.waiting()), (None, 0));
    let mut place = Place::Outside;
    let waker = Waker::noop();
    assert_eq!(line.assigned(&mut place, group, waker), Poll::Pending, "somebody waits for it again");
    assert_eq!(ready(&mut line), [1]);
    line.free_group(first).unwrap();
    assert_eq!(line.assigned(&mut place, group, waker), Poll::Ready(Ok(())));
    assert_eq!(line.assigned(&mut place, group, waker), Poll::Ready(Ok(())), "at once");
    assert_eq!(ready(&mut line), [2]);
    line.free_group(group).unwrap();
    assert_eq!(line.assigned(&mut place, group, waker), Poll::Ready(Err(AllocError::Ended)));
}

#[test]
fn s34_who_leaves_when_its_group_has_its_slots_is_told_so() {
    let mut line = line(1, 3);
    let first = now(&mut line, 1, &[1]);
    let client = Client::waits(2, &[2], &mut line);
    assert_eq!(ready(&mut line), [1]);
    line.free_group(first).unwrap();
    assert!(matches!(client.end(&mut line), Some(Ok(_))));
    assert_eq!(ready(&mut line), [2]);
}

#[test]
fn s50_who_waits_for_a_group_that_fails_is_told_and_those_behind_go_on() {
    let mut line = line(2, 3);
    let first = now(&mut line, 1, &[1]);
    let mut fails = Client::waits(2, &[2, 3], &mut line);
    let mut next = Client::waits(3, &[4], &mut line);
    assert!(matches!(line.poll(), Some(Action::Prepare { data: 1, .. })));
    assert!(matches!(line.poll(), Some(Action::Prepare { data: 2, .. })));
    assert_eq!(line.failed(2), Ok(()));
    assert_eq!((fails.woken(&mut line), next.woken(&mut line)), (1, 1));
    assert_eq!(fails.ask(&mut line), Poll::Ready(Err(AllocError::Failed { data: 2 })));
    assert!(matches!(next.ask(&mut line), Poll::Ready(Ok(_))));
    assert!(matches!(line.poll(), Some(Action::Prepare { data: 4, .. })));
    assert_eq!(line.poll(), Some(Action::Failed { point: 2, data: 2 }), "those who take the news are told as well");
    line.prepared(1).unwrap();
    assert_eq!(line.poll(), Some(Action::Ready { point: 1, group: first }));
}

#[test]
fn s30_s31_an_interrupt_answers_each_who_waits_once_and_nothing_has_an_effect_after_it() {
    let mut line = line(1, 2);
    let first = now(&mut line, 1, &[1]);
    let mut clients: Vec<Client> = (2..6).map(|n| Client::waits(n, &[n], &mut line)).collect();
    assert_eq!(ready(&mut line), [1]);
    // The second group has its slot, and a record is kept for the third client: neither knows it yet.
    line.free_group(first).unwrap();
    line.interrupt();
    line.interrupt();
    let interrupted = Poll::Ready(Err(AllocError::Refused(SubmitError::Interrupted)));
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.woken(&mut line), 1, "{n}");
        assert_eq!(client.ask(&mut line), interrupted);
        assert_eq!(client.ask(&mut line), interrupted, "also those to come");
    }
    assert_eq!((line.waiting(), line.prepared(2)), (0, Err(PreparedError::Interrupted)));
    assert_eq!(line.submit_members(9, []), Err(SubmitError::Interrupted));
    assert_eq!(line.poll(), Some(Action::Interrupted { point: 2 }));
    assert_eq!(line.poll(), None);
    assert_eq!(line.reset(), Ok(()), "nobody was told to load input 2");
    now(&mut line, 1, &[1]);
    assert_eq!(Client::waits(2, &[2], &mut line).woken(&mut line), 0);
    assert_eq!(ready(&mut line), [1]);
}
