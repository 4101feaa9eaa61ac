//! All interleavings of a few operations on a shared cache, by loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p umbra-core --release --test loom_shared_cache`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(loom)]

mod interleavings;

use std::sync::OnceLock;

use interleavings::bounded;
use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;
use umbra_core::atomic::{AtomicU64, Ordering};
use umbra_core::cache::{Forgetting, Found, State};
use umbra_core::shared_cache::{
    AllocError, Client, Forgetful, FreeError, Identity, Pin, Reclaimed, Sharing, words_for,
};

/// Where the lines of the index begin; there are four owners.
const LINES: usize = 32 + 4 * 16;
/// The mark of use in the word of a place.
const USED: u64 = 1 << 45;

/// A cache, and the memory of its slots: loom reports a read of it beside a write.
struct Table {
    words: Vec<AtomicU64>,
    content: Vec<Cell<u64>>,
}

impl Table {
    fn new(slots: usize) -> Arc<Table> {
        Arc::new(Table::of(slots))
    }

    fn of(slots: usize) -> Table {
        let sharing = Sharing::new(4, 3).unwrap();
        let words: Vec<_> = (0..words_for(slots, sharing).unwrap()).map(|_| AtomicU64::new(0)).collect();
        Forgetful::create(&words, slots, sharing, 1).unwrap();
        Table { words, content: (0..slots).map(|_| Cell::new(u64::MAX)).collect() }
    }

    fn cache(&self) -> Forgetful<'_> {
        Forgetful::attach(&self.words).unwrap()
    }

    fn join(&self, who: u32) -> Client<'_, Forgetting> {
        self.cache().join(Identity::new(who, 0)).unwrap()
    }

    /// The word of the first place of the first line.
    fn first_word(&self) -> u64 {
        self.words[LINES + 2].load(Ordering::Acquire)
    }

    /// Uses data as an application does; whether it got a slot.
    fn work(&self, client: Client<'_, Forgetting>, data: u64) -> bool {
        self.work_until(client, data, |pin| client.free(pin.data()))
    }

    /// The same, without an end.
    fn hold(&self, client: Client<'_, Forgetting>, data: u64) -> bool {
        self.work_until(client, data, |_| Ok(()))
    }

    fn work_until(
        &self,
        client: Client<'_, Forgetting>,
        data: u64,
        end: impl FnOnce(Pin) -> Result<(), FreeError>,
    ) -> bool {
        let pin = match client.pin(data) {
            Ok(pin) => pin,
            Err(AllocError::Full { .. } | AllocError::Blocked { .. }) => return false,
            Err(error) => panic!("{error}"),
        };
        let grant = pin.grant();
        let content = &self.content[grant.slot as usize];
        match grant.found {
            Found::Empty => {
                content.set(data);
                client.remember(data).unwrap();
            }
            Found::Remembered => assert_eq!(content.get(), data, "the content of the slot"),
            Found::Assigned => {}
        }
        end(pin).unwrap();
        true
    }
}

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = bounded(preemptions);
    // Whoever looks at every place of a few lines loads that many words.
    model.max_branches = 10_000;
    model.check(body);
}

/// Ids that belong into the first line.
fn of_home<const COUNT: usize>(cache: &Forgetful<'_>) -> [u64; COUNT] {
    let mut ids = (2..).filter(|&data| cache.home(data).0 == 0);
    std::array::from_fn(|_| ids.next().unwrap())
}

/// Ids that are looked for first in the same place.
fn of_place<const COUNT: usize>(cache: &Forgetful<'_>, place: (usize, usize)) -> [u64; COUNT] {
    let mut ids = (2..).filter(|&data| cache.home(data) == place);
    std::array::from_fn(|_| ids.next().unwrap())
}

/// Every slot can be taken again.
fn at_rest(table: &Table, slots: u64) {
    let client = table.join(9);
    let taken: Vec<u32> = (0..slots).map(|data| client.alloc(100 + data).unwrap().slot).collect();
    assert!((0..slots as u32).all(|slot| taken.contains(&slot)), "no slot is lost");
    assert_eq!(client.alloc(99), Err(AllocError::Full { slots: slots as u32 }));
}

#[test]
fn a_hit_beside_an_eviction_gets_the_data_that_it_asked_for() {
    check(4, || {
        let table = Table::new(1);
        let client = table.join(1);
        assert!(table.work(client, 1));
        let other = {
            let table = table.clone();
            thread::spawn(move || table.work(table.join(2), 2))
        };
        table.work(client, 1);
        other.join().unwrap();
        at_rest(&table, 1);
    });
}

/// In these models a place is in the same generation again after two contents. So a client that slept after it had read the
/// word finds that word again, of other data: what it then refers to is never what it asked for by mistake.
#[test]
fn s58_a_slot_that_is_referred_to_is_not_given_away_though_generations_come_round() {
    static MISTAKEN: OnceLock<()> = OnceLock::new();
    loom::lazy_static! {
        static ref TABLE: Table = Table::of(1);
    }
    // Content that is in use stays, and with it the mark that tells that somebody referred to it.
    for in_use in [false, true] {
        check(3, move || {
            let [client, sleeper] = [1, 2].map(|who| TABLE.join(who));
            let [first, second, third] = of_place(&TABLE.cache(), (0, 0));
            let work = move |data| if in_use { TABLE.hold(client, data) } else { TABLE.work(client, data) };
            assert!(work(first));
            let seen = TABLE.first_word();
            let others = thread::spawn(move || {
                if in_use {
                    client.free(first).unwrap();
                }
                TABLE.work(client, second) && work(third)
            });
            let found = TABLE.work(sleeper, first);
            let came_round = others.join().unwrap();
            if came_round && !found {
                let word = TABLE.first_word();
                assert_eq!(word & !USED, seen, "the word comes back");
                if word & USED != 0 {
                    MISTAKEN.get_or_init(|| ());
                }
            }
            if in_use && came_round {
                assert_eq!(TABLE.content[0].get(), third, "the slot was given away under a reference");
                client.free(third).unwrap();
            }
            at_rest(&TABLE, 1);
        });
    }
    assert!(MISTAKEN.get().is_some(), "nobody took the word for the one that he had seen");
}

#[test]
fn s58_a_forget_that_slept_until_generations_came_round_empties_a_slot_once() {
    static MISTAKEN: OnceLock<()> = OnceLock::new();
    loom::lazy_static! {
        static ref TABLE: Table = Table::of(1);
    }
    check(3, || {
        let [client, sleeper] = [1, 2].map(|who| TABLE.join(who));
        let [first, second, third] = of_place(&TABLE.cache(), (0, 0));
        assert!(TABLE.work(client, first));
        let others = thread::spawn(move || TABLE.work(client, second) && TABLE.work(client, third));
        let forgot = sleeper.forget(first);
        let came_round = others.join().unwrap();
        if came_round && client.state(third) != Ok(Some(State::Idle)) {
            assert_eq!((client.state(third), forgot), (Ok(None), Ok(true)));
            MISTAKEN.get_or_init(|| ());
        }
        at_rest(&TABLE, 1);
    });
    assert!(MISTAKEN.get().is_some(), "nobody took the word for the one that he had seen");
}

/// Data leaves with its slot, and comes back into its place with the other slot.
#[test]
fn a_hit_names_the_slot_that_its_data_is_in_though_it_gets_another_meanwhile() {
    static MOVED: OnceLock<()> = OnceLock::new();
    loom::lazy_static! {
        static ref TABLE: Table = Table::of(2);
    }
    check(2, || {
        let [client, mover] = [1, 2].map(|who| TABLE.join(who));
        let [[data], [idle], [other]] = [(0, 0), (1, 0), (1, 1)].map(|place| of_place(&TABLE.cache(), place));
        assert!(TABLE.work(client, data) && TABLE.work(client, idle));
        // The first takes the slot of the data away, and then the data gets that of the idle one.
        let mover = thread::spawn(move || TABLE.work(mover, other) && TABLE.work(mover, data));
        TABLE.work_until(client, data, |pin| {
            if pin.grant().found == Found::Remembered && pin.grant().slot == 1 {
                MOVED.get_or_init(|| ());
            }
            client.free_pin(pin)
        });
        mover.join().unwrap();
        at_rest(&TABLE, 2);
    });
    assert!(MOVED.get().is_some(), "the data never came back before the hit");
}

/// Two threads of one process, whose references are counted together; one of them then needs the slot for another process.
#[test]
fn pins_of_two_threads_are_all_given_back_and_no_other_reference_is() {
    loom::lazy_static! {
        static ref TABLE: Table = Table::of(1);
    }
    check(3, || {
        let [client, other] = [1, 2].map(|who| TABLE.join(who));
        assert!(TABLE.work(client, 1));
        let thread = thread::spawn(move || {
            let marked = |pin: Pin| client.free_marked(pin.data(), pin.grant().mark());
            [TABLE.work_until(client, 1, marked), TABLE.work(other, 2)]
        });
        let mine = TABLE.work_until(client, 1, |pin| client.free_pin(pin));
        let [theirs, others] = thread.join().unwrap();
        assert!(mine || theirs || others, "somebody gets on");
        assert_eq!([1, 2].map(|data| client.references(data)), [Ok(0); 2]);
        at_rest(&TABLE, 1);
    });
}

#[test]
fn two_that_miss_the_same_data_get_one_slot_and_one_fill() {
    check(4, || {
        let table = Table::new(2);
        let alloc = |table: &Table, who| {
            let client = table.join(who);
            loop {
                match client.alloc(5) {
                    Ok(grant) => return (grant.slot, grant.found),
                    Err(AllocError::Blocked { .. }) => thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let other = {
            let table = table.clone();
            thread::spawn(move || alloc(&table, 1))
        };
        let (mine, theirs) = (alloc(&table, 2), other.join().unwrap());
        assert_eq!(mine.0, theirs.0, "data has one slot");
        assert!((mine.1 == Found::Empty) != (theirs.1 == Found::Empty), "one of them fills it");
        assert_eq!(table.cache().empty(), 1);
    });
}

#[test]
fn two_that_need_each_others_slots_do_not_wait_for_each_other() {
    check(4, || {
        let table = Table::new(2);
        let first = table.join(1);
        assert!(table.work(first, 1) && table.work(first, 2));
        let other = {
            let table = table.clone();
            thread::spawn(move || table.work(table.join(2), 10))
        };
        let got = [table.work(first, 9), other.join().unwrap()];
        assert!(got.contains(&true), "somebody gets on");
    });
}

/// Data 1, 3 and 4 belong into the same line, and data 2 into the other, with the slot that the first three need too.
#[test]
fn a_slot_that_moves_is_in_one_place() {
    for others in [2, 4] {
        check(3, move || {
            let table = Table::new(2);
            let client = table.join(1);
            client.alloc(1).unwrap();
            let other = {
                let table = table.clone();
                thread::spawn(move || table.work(table.join(2), others))
            };
            let got = [table.work(client, 3), other.join().unwrap()];
            assert!(got.contains(&true), "somebody gets on");
            client.free(1).unwrap();
            at_rest(&table, 2);
        });
    }
}

/// Five ids of one home, which has room for three, and four slots.
#[test]
fn data_that_is_away_from_home_has_one_place() {
    for forgets in [false, true] {
        check(2, move || {
            let table = Table::new(4);
            let client = table.join(1);
            let [first, second, third, fourth, fifth] = of_home(&table.cache());
            assert!([first, second, third].iter().all(|&data| table.work(client, data)));
            let other = {
                let table = table.clone();
                thread::spawn(move || table.work(table.join(2), fourth))
            };
            if forgets {
                assert_eq!(client.forget(first), Ok(true));
            }
            let got = [table.work(client, if forgets { fourth } else { fifth }), other.join().unwrap()];
            assert!(got.contains(&true), "somebody gets on");
            at_rest(&table, 4);
        });
    }
}

/// It died when it had the home of four ids to itself and moved a slot to the next line for the fourth of them.
#[test]
fn a_death_in_the_middle_of_a_move_loses_no_slot_beside_use() {
    /// The number of the place from which the slot moves, to the second of the line before.
    const FROM: usize = 2 * 3;
    const NIL: u64 = 0xffff_ffff;
    for steps in 0..=7 {
        check(1, move || {
            let table = Table::new(4);
            let (client, dead) = (table.join(1), table.join(2));
            let [first, second, third, fourth, _] = of_home(&table.cache());
            assert!([first, second, third].iter().all(|&data| table.work(client, data)));
            let word = |line: usize, at: usize| &table.words[LINES + 8 * line + at];
            let change = |line, at, change: &dyn Fn(u64) -> u64| {
                let word = word(line, at);
                word.store(change(word.load(Ordering::Relaxed)), Ordering::Relaxed);
            };
            let by = u64::from(dead.owner().number()) << 40;
            let elsewhere = u64::from(table.cache().home(0).0 == 2);
            let before = [word(2, 2), word(2, 0), word(1, 3)].map(|word| word.load(Ordering::Relaxed));
            assert_eq!(before, [0, NIL << 32 | 2, 5 << 61]);
            change(0, 1, &|head| head | (u64::from(dead.owner().number()) + 1) << 59);
            change(2, 2, &|_| 1 << 61 | by);
            let moves: [&dyn Fn(); 7] = [
                &|| change(1, 3, &|_| 6 << 61 | by | FROM as u64),
                &|| change(1, 0, &|slots| slots & NIL | 2 << 32),
                &|| change(2, 0, &|slots| slots | NIL),
                &|| change(1, 3, &|_| 1 << 61 | by),
                &|| change(2, 5, &|_| elsewhere),
                &|| change(2, 2, &|_| 5 << 61),
                &|| {
                    change(0, 1, &|head| head & !((1 << 59) - (1 << 32)) | 1 << 32);
                    change(1, 6, &|_| fourth);
                },
            ];
            moves.iter().take(steps).for_each(|step| step());
            let other = {
                let table = table.clone();
                let dead = dead.owner();
                thread::spawn(move || table.join(3).reclaim(dead, Identity::new(2, 0), |_, _| ()).unwrap())
            };
            assert!(table.work(client, first), "a hit needs nothing that the dead one had");
            let _ = table.work(client, fourth);
            assert_eq!(other.join().unwrap(), Reclaimed { references: 0, fills: 0, emptied: 1 });
            at_rest(&table, 4);
        });
    }
}

#[test]
fn a_slot_emptied_beside_a_search_is_not_lost() {
    check(4, || {
        let table = Table::new(1);
        let client = table.join(1);
        client.alloc(1).unwrap();
        let other = {
            let table = table.clone();
            thread::spawn(move || table.work(table.join(2), 2))
        };
        client.free(1).unwrap();
        other.join().unwrap();
        at_rest(&table, 1);
    });
}

#[test]
fn reclaim_beside_use_gives_back_what_the_dead_one_held_and_nothing_else() {
    check(4, || {
        let table = Table::new(2);
        let burier = table.join(3);
        // It dies with a reference to content, and while it fills another slot.
        let dead = {
            let dead = table.join(1);
            assert!(table.work(dead, 1));
            dead.alloc(1).unwrap();
            dead.alloc(2).unwrap();
            dead.owner()
        };
        let other = {
            let table = table.clone();
            thread::spawn(move || {
                let client = table.join(2);
                assert_eq!(client.alloc(1).map(|grant| grant.found), Ok(Found::Remembered));
                let second = client.alloc(2).map(|grant| grant.found);
                assert_eq!(client.state(1), Ok(Some(State::InUse)));
                second
            })
        };
        let mut told = vec![];
        let reclaimed = burier.reclaim(dead, Identity::new(1, 0), |_, data| told.push(data)).unwrap();
        let second = other.join().unwrap().unwrap();
        assert_eq!((reclaimed.references, reclaimed.fills, told), (2, 1, vec![2]));
        assert_eq!(burier.references(1), Ok(1));
        // Who asked after the burial fills it; who asked before it learns from the state that nobody does.
        let state = if second == Found::Empty { State::Filling } else { State::Abandoned };
        assert_eq!(burier.state(2), Ok(Some(state)));
        assert_eq!(table.cache().members().count(), 2);
    });
}
