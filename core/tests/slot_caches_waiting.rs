//! Scenarios of the line for a slot cache, one test each, without threads.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::task::{Wake, Waker};

use umbra_core::atomic::{AtomicU32, Ordering};
use umbra_core::cache::policy::Lru;
use umbra_core::cache::waiting::{Answer, Asked, ContentError, WaitError, Waiter, Waiting};
use umbra_core::cache::{
    AllocError, Dense, FillError, ForgetError, Forgetful, Forgetting, Found, FreeError, Grant, Pin, ResetError, Slot,
    Stack, State,
};
use umbra_core::id::Id;

type Line = Waiting<Vec<Slot>, Dense<Vec<u32>>, Lru, Forgetting, Vec<Waiter>>;

/// A cache of so many slots, for which ten can wait.
fn line(slots: u32) -> Line {
    let records = vec![Slot::EMPTY; slots as usize];
    let cache = Forgetful::new(records, Dense::new(vec![0; 100]), Lru::new(), 0..slots).unwrap();
    Waiting::new(cache.with_most_references(5), (0..10).map(|_| Waiter::EMPTY).collect())
}

/// Counts how often somebody is woken.
#[derive(Default)]
struct Alarm(AtomicU32);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Somebody who waits.
struct Client {
    alarm: Arc<Alarm>,
    waiter: Id<Waiter>,
}

impl Client {
    fn new<T>(ask: impl FnOnce(&Waker) -> Asked<T>) -> Client {
        let alarm = Arc::new(Alarm::default());
        let Asked::Later(waiter) = ask(&Waker::from(alarm.clone())) else { panic!("need not wait") };
        Client { alarm, waiter }
    }
    fn for_slot(line: &mut Line, data: u64) -> Client {
        Client::new(|waker| line.alloc(data, waker).unwrap())
    }
    fn for_content(line: &mut Line, data: u64) -> Client {
        Client::new(|waker| line.content(data, waker).unwrap())
    }
    /// How often it was woken.
    fn woken(&self, line: &mut Line) -> u32 {
        while let Some(waker) = line.next_waker() {
            waker.wake();
        }
        self.alarm.0.load(Ordering::Relaxed)
    }
    /// What it is told; it is woken for that, once.
    fn told(&self, line: &mut Line) -> Option<Answer> {
        let woken = self.woken(line);
        let waker = Waker::from(self.alarm.clone());
        let told = line.poll(self.waiter, &waker);
        assert_eq!(woken, u32::from(told.is_some()));
        assert!(told.is_none() || line.poll(self.waiter, &waker).is_none(), "an answer is given once");
        told
    }
    fn granted(&self, line: &mut Line) -> (Pin, Grant) {
        match self.told(line) {
            Some(Answer::Slot(Ok(given))) => given,
            other => panic!("{other:?}"),
        }
    }
}

fn now(line: &mut Line, data: u64) -> (Pin, Grant) {
    match line.alloc(data, Waker::noop()) {
        Ok(Asked::Now(given)) => given,
        other => panic!("{other:?}"),
    }
}

fn grant(slot: u32, found: Found, references: u32) -> Grant {
    Grant::new(slot, found, references)
}
use Found::{Assigned, Empty, Remembered};

/// As many new data get slots as there are slots: none was lost.
fn no_slot_is_lost(mut line: Line, slots: u32) {
    let (held, idle) = (line.cache().len().unwrap() - line.cache().idle().unwrap(), slots);
    assert_eq!(held, 0);
    let taken: std::collections::BTreeSet<u32> = (0..idle).map(|n| now(&mut line, 50 + u64::from(n)).1.slot).collect();
    assert_eq!(taken.len() as u32, slots);
    assert_eq!(line.try_alloc(99), Err(AllocError::Full { slots }));
}

#[test]
fn s25_who_waits_gets_exactly_the_slot_that_is_freed() {
    let mut line = line(3);
    let pins: Vec<Pin> = (0..3).map(|data| now(&mut line, data).0).collect();
    let client = Client::for_slot(&mut line, 7);
    assert_eq!((line.waiting(), line.cache().statistics().refused), (1, 0));
    assert!(client.told(&mut line).is_none());
    let mut pins = pins.into_iter();
    line.free_pin(pins.nth(1).unwrap()).unwrap();
    assert_eq!(line.waiting(), 0);
    let (pin, given) = client.granted(&mut line);
    assert_eq!(given, grant(1, Empty, 1));
    assert_eq!((pin.data(), pin.slot()), (7, 1));
}

#[test]
fn s26_two_who_wait_for_the_same_data_get_one_slot_and_none_is_lost() {
    let mut line = line(2);
    let (first, _) = now(&mut line, 1);
    let (second, _) = now(&mut line, 2);
    let clients = [3, 4, 3].map(|data| Client::for_slot(&mut line, data));
    line.free_pin(first).unwrap();
    let (filler, given) = clients[0].granted(&mut line);
    assert_eq!(given, grant(0, Empty, 1));
    assert!(clients[1].told(&mut line).is_none(), "one slot was freed");
    let (other, given) = clients[2].granted(&mut line);
    assert_eq!(given, grant(0, Assigned, 2));
    line.free_pin(second).unwrap();
    let (last, _) = clients[1].granted(&mut line);
    for pin in [filler, other, last] {
        line.free_pin(pin).unwrap();
    }
    no_slot_is_lost(line, 2);
}

#[test]
fn s27_the_line_is_first_come_first_served() {
    let mut line = line(1);
    let (mut pin, _) = now(&mut line, 0);
    let clients: Vec<Client> = (1..9).map(|data| Client::for_slot(&mut line, data)).collect();
    for (served, client) in clients.iter().enumerate() {
        assert_eq!(line.try_alloc(80), Err(AllocError::Full { slots: 1 }), "nobody passes the line");
        line.free_pin(pin).unwrap();
        assert_eq!(line.try_alloc(81), Err(AllocError::Full { slots: 1 }), "the slot has a new owner already");
        assert!(clients[served + 1..].iter().all(|later| later.told(&mut line).is_none()));
        pin = client.granted(&mut line).0;
    }
}

#[test]
fn s28_content_is_found_while_others_wait_for_slots() {
    let mut line = line(1);
    let (pin, _) = now(&mut line, 1);
    line.remember_pin(&pin).unwrap();
    let client = Client::for_slot(&mut line, 2);
    assert_eq!(now(&mut line, 1).1, grant(0, Remembered, 2));
    assert!(client.told(&mut line).is_none());
}

#[test]
fn s30_an_interrupt_answers_each_who_waits_once() {
    let mut line = line(2);
    let (mine, _) = now(&mut line, 1);
    let (_, _) = now(&mut line, 2);
    let for_content = Client::for_content(&mut line, 2);
    let for_slots = [3, 4, 3].map(|data| Client::for_slot(&mut line, data));
    line.interrupt();
    line.interrupt();
    let interrupted = Some(Answer::Content(Err(ContentError::Interrupted)));
    assert_eq!(for_content.told(&mut line), interrupted);
    for client in &for_slots {
        assert_eq!(client.told(&mut line), Some(Answer::Slot(Err(AllocError::Interrupted))));
    }
    assert_eq!(line.free_pin(mine), Err(FreeError::Interrupted));
    assert_eq!(line.waiting(), 0);
}

#[test]
fn s30_each_of_64_who_wait_is_answered_and_woken_once() {
    let cache = Forgetful::new(vec![Slot::EMPTY; 2], Dense::new(vec![0; 100]), Lru::new(), 0..2).unwrap();
    let mut line = Waiting::new(cache, (0..64).map(|_| Waiter::EMPTY).collect());
    let (_mine, _others) = (now(&mut line, 0), now(&mut line, 1));
    let clients: Vec<Client> = (0..64)
        .map(|n| if n % 4 == 0 { Client::for_content(&mut line, 1) } else { Client::for_slot(&mut line, 2 + n % 40) })
        .collect();
    line.interrupt();
    for (n, client) in clients.iter().enumerate() {
        let told = client.told(&mut line);
        let content = Answer::Content(Err(ContentError::Interrupted));
        assert_eq!(told, Some(if n % 4 == 0 { content } else { Answer::Slot(Err(AllocError::Interrupted)) }), "{n}");
    }
    line.interrupt();
    assert!(clients.iter().all(|client| client.woken(&mut line) == 1));
    assert_eq!(line.waiting(), 0);
}

#[test]
fn s31_no_operation_has_an_effect_after_an_interrupt() {
    let mut line = line(1);
    let (pin, _) = now(&mut line, 1);
    line.interrupt();
    let before = format!("{line:?}");
    assert_eq!(line.alloc(1, Waker::noop()), Err(WaitError::Refused(AllocError::Interrupted)));
    assert_eq!(line.alloc(2, Waker::noop()), Err(WaitError::Refused(AllocError::Interrupted)));
    assert_eq!(line.try_alloc(1), Err(AllocError::Interrupted));
    assert_eq!(line.content(1, Waker::noop()), Err(ContentError::Interrupted));
    assert_eq!(line.free(1), Err(FreeError::Interrupted));
    assert_eq!(line.remember_pin(&pin), Err(FillError::Interrupted));
    assert_eq!(line.give_up(pin), Err(FreeError::Interrupted));
    assert_eq!((line.remember(1), line.abandon(1)), (Err(FillError::Interrupted), Err(FillError::Interrupted)));
    assert_eq!(line.forget(1), Err(ForgetError::Interrupted));
    assert_eq!(line.forget_later(1), Err(ForgetError::Interrupted));
    line.interrupt();
    assert_eq!(format!("{line:?}"), before);
}

#[test]
fn s33_an_interrupt_takes_back_a_slot_that_its_owner_does_not_know_of() {
    let mut line = line(1);
    let (pin, _) = now(&mut line, 1);
    let clients = [2, 2].map(|data| Client::for_slot(&mut line, data));
    line.free_pin(pin).unwrap();
    assert_eq!(line.cache().state(2), Ok(Some(State::Filling)));
    line.interrupt();
    for client in clients {
        assert_eq!(client.told(&mut line), Some(Answer::Slot(Err(AllocError::Interrupted))));
    }
    assert_eq!(line.cache().outstanding_fills().count(), 0, "nobody was told to fill it");
    assert_eq!(line.reset(), Ok(()));
    no_slot_is_lost(line, 1);
}

#[test]
fn s34_who_stops_waiting_leaves_its_place_to_the_next_who_wants_the_same() {
    let mut line = line(1);
    let (pin, _) = now(&mut line, 1);
    let clients = [2, 3, 2, 2].map(|data| Client::for_slot(&mut line, data));
    assert_eq!(line.end(clients[0].waiter), None);
    assert_eq!(line.end(clients[0].waiter), None, "it has gone");
    assert_eq!(line.end(clients[3].waiter), None);
    line.free_pin(pin).unwrap();
    let (pin, given) = clients[2].granted(&mut line);
    assert_eq!(given, grant(0, Empty, 1), "before the one who wants something else");
    line.free_pin(pin).unwrap();
    assert_eq!(clients[1].granted(&mut line).1, grant(0, Empty, 1));
    assert_eq!(line.waiting(), 0);
}

#[test]
fn s34_who_stops_waiting_between_gift_and_news_has_the_slot_and_may_give_it_back() {
    let mut line = line(1);
    let (pin, _) = now(&mut line, 1);
    let clients = [2, 2, 3].map(|data| Client::for_slot(&mut line, data));
    line.free_pin(pin).unwrap();
    let Some(Answer::Slot(Ok((pin, _)))) = line.end(clients[0].waiter) else { panic!("it was given a slot") };
    line.give_up(pin).unwrap();
    assert_eq!(clients[0].woken(&mut line), 0, "it does not sleep any more");
    assert_eq!(line.content(2, Waker::noop()), Err(ContentError::Abandoned { data: 2 }));
    let (other, _) = clients[1].granted(&mut line);
    assert_eq!(now(&mut line, 2).1.found, Empty, "the next to ask fills it");
    line.free_pin(other).unwrap();
    assert!(clients[2].told(&mut line).is_none());
    line.free(2).unwrap();
    let (pin, _) = clients[2].granted(&mut line);
    line.free_pin(pin).unwrap();
    no_slot_is_lost(line, 1);
}

#[test]
fn s35_a_reset_waits_for_fills_and_refuses_what_was_pinned_before() {
    let mut line = line(2);
    assert_eq!(line.reset(), Err(ResetError::NotInterrupted));
    let (filling, _) = now(&mut line, 1);
    line.interrupt();
    assert_eq!(line.reset(), Err(ResetError::Filling { slot: 0, data: 1 }));
    assert!(line.settle(0) && !line.settle(0));
    assert_eq!(line.reset(), Ok(()));
    let (new, _) = now(&mut line, 1);
    assert_eq!(line.remember_pin(&filling), Err(FillError::NotAssigned { data: 1 }), "of an earlier life");
    assert_eq!(line.give_up(filling), Err(FreeError::NotAssigned { data: 1 }));
    assert_eq!(line.remember_pin(&new), Ok(()));
    assert_eq!(line.remember_pin(&new), Err(FillError::AlreadyRemembered { data: 1 }));
}

#[test]
fn s18_who_waits_for_content_is_told_when_it_is_there_or_will_not_come() {
    let mut line = line(2);
    assert_eq!(line.content(1, Waker::noop()), Err(ContentError::NotAssigned { data: 1 }));
    let (filler, _) = now(&mut line, 1);
    let (second, _) = now(&mut line, 1);
    let clients = [Client::for_content(&mut line, 1), Client::for_content(&mut line, 1)];
    line.remember_pin(&filler).unwrap();
    for client in clients {
        assert_eq!(client.told(&mut line), Some(Answer::Content(Ok(()))));
    }
    assert!(matches!(line.content(1, Waker::noop()), Ok(Asked::Now(()))));
    line.free_pin(filler).unwrap();
    line.free_pin(second).unwrap();

    let (filler, _) = now(&mut line, 2);
    let (second, _) = now(&mut line, 2);
    let client = Client::for_content(&mut line, 2);
    line.give_up(filler).unwrap();
    assert_eq!(client.told(&mut line), Some(Answer::Content(Err(ContentError::Abandoned { data: 2 }))));
    let (filler, given) = now(&mut line, 2);
    assert_eq!(given, grant(1, Empty, 2), "it may fill the slot itself");
    let client = Client::for_content(&mut line, 2);
    line.free_pin(filler).unwrap();
    assert!(client.told(&mut line).is_none(), "a reference is left, and whoever has it may fill the slot");
    line.free_pin(second).unwrap();
    assert_eq!(client.told(&mut line), Some(Answer::Content(Err(ContentError::NotAssigned { data: 2 }))));
}

#[test]
fn s07_of_those_who_wait_for_the_same_only_as_many_get_a_reference_as_are_counted() {
    let mut line = line(1);
    let (pin, _) = now(&mut line, 1);
    let clients = [2; 7].map(|data| Client::for_slot(&mut line, data));
    line.free_pin(pin).unwrap();
    let told = clients.map(|client| client.told(&mut line).unwrap());
    assert!(told[..5].iter().all(|told| matches!(told, Answer::Slot(Ok(_)))));
    let refused = Answer::Slot(Err(AllocError::TooManyReferences { data: 2, most: 5 }));
    assert!(told[5..].iter().all(|told| *told == refused));
}

#[test]
fn no_more_wait_than_there_are_records_and_who_goes_makes_room() {
    let mut line = line(1);
    let (pin, _) = now(&mut line, 1);
    let content = Client::for_content(&mut line, 1);
    let clients: Vec<Client> = (2..11).map(|data| Client::for_slot(&mut line, data)).collect();
    assert_eq!(line.alloc(50, Waker::noop()), Err(WaitError::TooManyWaiters { waiters: 10 }));
    assert_eq!(line.content(1, Waker::noop()), Err(ContentError::TooManyWaiters { waiters: 10 }));
    assert_eq!(line.end(clients[3].waiter), None);
    let late = Client::for_slot(&mut line, 50);
    assert_eq!(line.end(clients[3].waiter), None, "the record is somebody else's now");
    line.give_up(pin).unwrap();
    assert!(content.told(&mut line).is_some());
    let mut pin = clients[0].granted(&mut line).0;
    for client in clients[1..3].iter().chain(&clients[4..]).chain([&late]) {
        line.free_pin(pin).unwrap();
        pin = client.granted(&mut line).0;
    }
}

#[test]
fn s09_what_holds_the_slots_is_known_to_who_gives_up() {
    let mut line = line(6);
    let _pins: Vec<Pin> = [1, 2, 3, 4, 5, 6, 1].map(|data| now(&mut line, data).0).into();
    line.remember(1).unwrap();
    let client = Client::for_slot(&mut line, 7);
    let scene = line.scene(7);
    assert_eq!((scene.slots, scene.waiting), (6, 1));
    let held = scene.held.map(|holding| holding.unwrap());
    assert_eq!(held.map(|h| (h.data, h.references)), [(1, 2), (2, 1), (3, 1), (4, 1)]);
    assert_eq!((held[0].state, held[1].state), (State::InUse, State::Filling));
    assert!(scene.to_string().contains("slot 0 for data 1 (2 references), slot 1 for data 2 (1 reference, being"));
    assert_eq!(line.scene(5).held.iter().flatten().count(), 1, "of data with a slot only that is of interest");
    assert!(client.told(&mut line).is_none());
}

#[test]
fn a_stack_has_a_line_as_well_and_who_gives_up_leaves_the_slot_as_it_is() {
    let stack = Stack::stack(vec![Slot::EMPTY; 1], Dense::new(vec![0; 10]), 0..1).unwrap();
    let mut line = Waiting::new(stack, [const { Waiter::EMPTY }; 2]);
    let Ok(Asked::Now((pin, _))) = line.alloc(1, Waker::noop()) else { panic!("there was a slot") };
    let Ok(Asked::Now((other, _))) = line.alloc(1, Waker::noop()) else { panic!("it is assigned") };
    let Ok(Asked::Later(waiter)) = line.alloc(2, Waker::noop()) else { panic!("there was none") };
    line.give_up(pin).unwrap();
    assert_eq!(line.cache().state(1), Ok(Some(State::Filling)));
    line.free_pin(other).unwrap();
    let Some(Answer::Slot(Ok((_, given)))) = line.poll(waiter, Waker::noop()) else { panic!("not answered") };
    assert_eq!(given, grant(0, Empty, 1));
}

#[test]
fn a_batch_that_is_given_back_serves_the_line_and_tells_who_waits_for_content() {
    for granted in [true, false] {
        let mut line = line(3);
        let (data, mut grants) = ([1, 2, 3, 1], [Grant::NONE; 4]);
        line.try_alloc_all(&data, &mut grants).unwrap();
        assert_eq!(grants, [grant(0, Empty, 1), grant(1, Empty, 1), grant(2, Empty, 1), grant(0, Assigned, 2)]);
        line.remember(3).unwrap();
        let contents = [1, 2].map(|data| Client::for_content(&mut line, data));
        let clients = [7, 8].map(|data| Client::for_slot(&mut line, data));
        let mut more = [Grant::NONE; 3];
        let refused = line.try_alloc_all(&[3, 9, 2], &mut more).unwrap_err();
        assert_eq!((refused.done, refused.error), (1, AllocError::Full { slots: 3 }), "nobody passes the line");
        assert_eq!((more[0], more[1]), (grant(2, Remembered, 2), Grant::NONE));

        // The last two leave their slots, and data 3 is in use still.
        let freed = if granted { line.free_all_granted(&data, &grants) } else { line.free_all(&data) };
        assert_eq!(freed, Ok(()));
        for (client, data) in contents.iter().zip([1, 2]) {
            assert_eq!(client.told(&mut line), Some(Answer::Content(Err(ContentError::NotAssigned { data }))));
        }
        let pins = clients.map(|client| client.granted(&mut line).0);
        let slots: std::collections::BTreeSet<u32> = pins.iter().map(Pin::slot).collect();
        assert_eq!((line.waiting(), slots.into_iter().collect::<Vec<_>>()), (0, vec![0, 1]));
        for pin in pins {
            line.free_pin(pin).unwrap();
        }
        line.free(3).unwrap();
        line.forget(3).unwrap();
        no_slot_is_lost(line, 3);
    }
}

#[test]
fn a_batch_ends_at_what_is_freed_too_often_and_those_in_line_get_what_was_freed_before() {
    let mut line = line(2);
    let mut grants = [Grant::NONE; 2];
    line.try_alloc_all(&[1, 2], &mut grants).unwrap();
    let client = Client::for_slot(&mut line, 5);
    // What somebody is in line for comes behind the one that is refused.
    let ended = line.free_all_granted(&[1, 1, 5], &[grants[0], grants[0], grants[1]]).unwrap_err();
    assert_eq!((ended.done, ended.error), (1, FreeError::NotAssigned { data: 1 }));
    assert_eq!(client.granted(&mut line).1, grant(0, Empty, 1));
    // Grants of a slot that has other data by now, and of another cache: the data counts.
    assert_eq!(line.free_all_granted(&[1], &grants).unwrap_err().error, FreeError::NotAssigned { data: 1 });
    line.remember(2).unwrap();
    assert_eq!(line.free_all_granted(&[2], &[grant(9, Empty, 9).hinted(77)]), Ok(()));
    let over = line.free_all_granted(&[2], &grants[1..]).unwrap_err();
    assert_eq!((over.done, over.error), (0, FreeError::NotInUse { data: 2 }));
    // As many as the shorter list has.
    assert_eq!(line.free_all_granted(&[5, 5], &grants[..1]), Ok(()));
    line.interrupt();
    assert_eq!(line.free_all_granted(&[5], &grants).unwrap_err().error, FreeError::Interrupted);
    assert_eq!(line.try_alloc_all(&[5], &mut grants).unwrap_err().error, AllocError::Interrupted);
}
