//! Aliases of other functions' keys, on a card in memory.

use std::collections::HashMap;
use std::sync::Arc;

use umbra::sys::segment::Segment;
use umbra::xgvmi::{Aliased, Command, Exported, Exporter, Importer, XgvmiError, probe};
use umbra_core::access::message::Export;
use umbra_core::access::queues::{Lane, Posted, Queues};
use umbra_core::access::{Event, MemoryAccess};
use umbra_core::error::Status;
use umbra_core::key::{Access, Key};
use umbra_core::region::{Entry, Region, Secret};
use umbra_core::slots::Slot;
use umbra_core::ticket::{Locator, Ticket};
use umbra_core::time::Time;
use umbra_tests::conformance::{DEEP, LANDING, LIFE, ME, MEMORY, REGIONS, Rig, SECRET, owner};
use umbra_tests::fake_card::{Card, Function, Moods, Object, Registered, Worker, domain};

/// The card's number, that of the importer's function, and where owners' functions begin.
const CARD: u64 = 0x0011_2233_4455_6677;
const IMPORTER: u16 = 3;
const OWNERS: u16 = 20;

const CREATE_ALIAS: u16 = 0xa00;

type Way = Queues<Aliased<Function, Worker>, Vec<Entry>, Vec<Slot<Posted>>, Vec<Lane>>;

/// A rank: its memory, and its function of the card.
struct Owner {
    memory: Arc<Segment>,
    registered: Registered,
    exporter: Exporter<Function>,
}

impl Owner {
    fn new(card: &Card, vhca: u16) -> Owner {
        let memory = Arc::new(Segment::create("owner", MEMORY as usize).unwrap());
        let function = card.function(vhca);
        let registered = function.register(memory.clone(), u64::from(vhca) << 32);
        let exporter = Exporter::new(function, CARD, domain(vhca), u64::from(vhca) << 40).unwrap();
        Owner { memory, registered, exporter }
    }
}

pub(crate) struct Carded {
    card: Card,
    owners: [Owner; 2],
    exports: HashMap<Key, (usize, Exported<Object>)>,
    way: Way,
}

impl Rig for Carded {
    type Way = Way;

    fn new() -> Self {
        let card = Card::default();
        let function = card.function(IMPORTER);
        let worker = Worker::new(function.clone(), Segment::create("landing", LANDING as usize).unwrap());
        let importer = Importer::new(function, CARD, domain(IMPORTER), REGIONS);
        let device = Aliased::new(importer, REGIONS, worker);
        let work = (0..=DEEP).map(|_| Slot::EMPTY).collect();
        let way = Queues::new(ME, device, vec![Entry::VACANT; REGIONS], work, vec![Lane::default(); REGIONS]);
        let owners = [0, 1].map(|n| Owner::new(&card, OWNERS + n));
        Carded { card, owners, exports: HashMap::new(), way }
    }

    fn way(&mut self) -> &mut Way {
        &mut self.way
    }

    fn memory(&self, n: usize) -> &Segment {
        &self.owners[n].memory
    }

    fn base(&self, n: usize) -> u64 {
        use umbra::verbs::Local;
        self.owners[n].registered.address(0)
    }

    fn locate(&mut self, n: usize, region: &Region) -> Locator {
        let offset = (region.base - self.base(n)) as usize;
        let Owner { registered, exporter, .. } = &mut self.owners[n];
        let exported = exporter.export(registered, offset, region.len as usize, region.access, &SECRET).unwrap();
        let locator = exported.locator();
        self.exports.insert(region.key, (n, exported));
        locator
    }

    fn progress(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.way.poll(Time(1), &mut |event| events.push(event));
        // The owner learns that nobody uses its memory any more, and closes the door.
        for event in &events {
            if let Event::Revoked { key } = event
                && let Some((n, exported)) = self.exports.remove(key)
            {
                self.owners[n].exporter.revoke(exported).unwrap();
            }
        }
        events
    }

    fn fault(&mut self, n: usize, on: bool) {
        let dark = if on { vec![OWNERS + n as u16] } else { Vec::new() };
        self.card.set(Moods { dark, ..Moods::default() });
    }
}

/// An owner, and an importer that talks to the card itself.
struct Pair {
    card: Card,
    owner: Owner,
    importer: Importer<Function>,
}

impl Pair {
    fn new(room: usize) -> Pair {
        let card = Card::default();
        let owner = Owner::new(&card, OWNERS);
        let importer = Importer::new(card.function(IMPORTER), CARD, domain(IMPORTER), room);
        Pair { card, owner, importer }
    }

    fn export(&mut self, offset: usize, len: usize, secret: &Secret) -> Exported<Object> {
        self.owner.exporter.export(&self.owner.registered, offset, len, Access::READ, secret).unwrap()
    }
}

fn ticket(locator: Locator, offset: u64, len: u64) -> Ticket {
    let base = (u64::from(OWNERS) << 32) + offset;
    Ticket { key: Key::new(owner(0), 0, 1), base, len, access: Access::READ, locator }
}

/// Aliases made since the card was last told how to behave.
fn made(card: &Card) -> usize {
    card.commands().iter().filter(|&&command| command == CREATE_ALIAS).count()
}

#[test]
fn only_the_right_secret_makes_an_alias() {
    let mut pair = Pair::new(2);
    let exported = pair.export(0, 64, &SECRET);
    let ticket = ticket(exported.locator(), 0, 64);
    let mut wrong = SECRET;
    wrong.0[0] ^= 1;
    let refused = pair.importer.import(&ticket, &wrong).unwrap_err();
    assert!(matches!(refused, XgvmiError::Refused { command: Command::CreateAlias, status: 3, syndrome: 9 }));
    assert!(refused.to_string().contains("status 0x3"), "{refused}");
    assert!(pair.importer.is_empty());
    let alias = pair.importer.import(&ticket, &SECRET).unwrap();
    // Another rank that names this key, whatever it says of it, neither gets at the memory nor disturbs its owner.
    let stranger = Ticket { key: Key::new(owner(1), 0, 1), ..ticket };
    let refused = pair.importer.import(&stranger, &wrong);
    assert!(matches!(refused, Err(XgvmiError::Refused { command: Command::CreateAlias, .. })));
    assert!(pair.importer.alias(alias).is_some());
}

#[test]
fn memory_behind_another_card_is_not_even_tried() {
    let mut pair = Pair::new(2);
    let locator = Locator::CrossVhca { mkey: 0x100, vhca: OWNERS, device: CARD + 1, registration: 0 };
    pair.card.set(Moods::default());
    let refused = pair.importer.import(&ticket(locator, 0, 64), &SECRET).unwrap_err();
    assert!(matches!(refused, XgvmiError::OtherCard { theirs, ours: CARD } if theirs == CARD + 1));
    let elsewhere = pair.importer.import(&ticket(Locator::Process { pid: 1, start: 1 }, 0, 64), &SECRET).unwrap_err();
    assert!(matches!(elsewhere, XgvmiError::NoKey));
    assert!(pair.card.commands().is_empty());
}

#[test]
fn one_alias_serves_all_imports_of_a_registration_and_goes_with_the_last() {
    let mut pair = Pair::new(2);
    let exported = pair.export(0, 64, &SECRET);
    let ticket = ticket(exported.locator(), 0, 64);
    pair.card.set(Moods::default());
    let [one, other] = [0; 2].map(|_| pair.importer.import(&ticket, &SECRET).unwrap());
    assert_eq!((one, made(&pair.card)), (other, 1));
    pair.importer.release(one, false).unwrap();
    assert!(pair.importer.alias(other).is_some());
    pair.importer.release(other, false).unwrap();
    assert!(pair.importer.alias(other).is_none() && pair.importer.is_empty());
}

#[test]
fn an_owner_that_comes_back_finds_its_alias_and_a_new_registration_does_not() {
    let mut pair = Pair::new(2);
    let exported = pair.export(0, 64, &SECRET);
    let first = ticket(exported.locator(), 0, 64);
    pair.card.set(Moods::default());
    let kept = pair.importer.import(&first, &SECRET).unwrap();
    pair.importer.release(kept, true).unwrap();
    assert_eq!(pair.importer.import(&first, &SECRET).unwrap(), kept, "the same registration");
    assert_eq!(made(&pair.card), 1);
    // The owner takes it back unheard and exports other bytes: the card gives the same number out again, so the alias
    // that is still there would open them.
    pair.owner.exporter.revoke(exported).unwrap();
    let again = pair.export(128, 64, &SECRET);
    let second = ticket(again.locator(), 128, 64);
    let numbers = [first, second].map(|ticket| match ticket.locator {
        Locator::CrossVhca { mkey, registration, .. } => (mkey, registration),
        other => panic!("{other:?}"),
    });
    assert!(numbers[0].0 == numbers[1].0 && numbers[0].1 != numbers[1].1, "{numbers:x?}");
    let fresh = pair.importer.import(&second, &SECRET).unwrap();
    assert_eq!((made(&pair.card), pair.importer.len()), (2, 1));
    assert!(pair.importer.alias(kept).is_none(), "whoever still holds the old one finds it stale");
    assert!(pair.importer.alias(fresh).is_some());
    // Giving the stale one back takes nothing from the new one.
    pair.importer.release(kept, false).unwrap();
    assert!(pair.importer.alias(fresh).is_some());
}

#[test]
fn an_alias_that_is_only_kept_makes_room() {
    let mut pair = Pair::new(1);
    let exported = [0, 1].map(|n| pair.export(64 * n, 64, &SECRET));
    let tickets = [0, 1].map(|n: usize| ticket(exported[n].locator(), 64 * n as u64, 64));
    let first = pair.importer.import(&tickets[0], &SECRET).unwrap();
    assert!(matches!(pair.importer.import(&tickets[1], &SECRET), Err(XgvmiError::Full)));
    pair.importer.release(first, true).unwrap();
    let second = pair.importer.import(&tickets[1], &SECRET).unwrap();
    assert!(pair.importer.alias(first).is_none() && pair.importer.alias(second).is_some());
}

#[test]
fn whatever_the_card_refuses_is_told_and_leaves_nothing_behind() {
    let secret = Secret([7; 32]);
    for quietly in [false, true] {
        // What a probe asks for first; the aliases come behind.
        for (after, command) in [Command::Query, Command::CreateMkey, Command::Allow].into_iter().enumerate() {
            let pair = Pair::new(1);
            let objects = pair.card.objects();
            pair.card.set(Moods { refuse: Some((after, 0x0f, 0xabcd)), quietly, ..Moods::default() });
            let mut function = pair.card.function(OWNERS);
            let refused = probe(&mut function, CARD, domain(OWNERS), &pair.owner.registered, &secret).unwrap_err();
            let XgvmiError::Refused { command: said, status: 0x0f, syndrome: 0xabcd } = refused else {
                panic!("{refused}")
            };
            assert_eq!((said, pair.card.objects()), (command, objects));
            // The next attempt finds a card that is as it was.
            pair.card.set(Moods { quietly, ..Moods::default() });
            probe(&mut function, CARD, domain(OWNERS), &pair.owner.registered, &secret).unwrap();
            assert_eq!(pair.card.objects(), objects);
        }
        let mut pair = Pair::new(1);
        let exported = pair.export(0, 64, &SECRET);
        let objects = pair.card.objects();
        pair.card.set(Moods { refuse: Some((0, 0x06, 1)), quietly, ..Moods::default() });
        let ticket = ticket(exported.locator(), 0, 64);
        let refused = pair.importer.import(&ticket, &SECRET).unwrap_err();
        assert!(matches!(refused, XgvmiError::Refused { command: Command::CreateAlias, status: 6, .. }), "{refused}");
        assert_eq!((pair.importer.len(), pair.card.objects()), (0, objects));
    }
}

#[test]
fn an_alias_that_cannot_be_used_is_destroyed_again() {
    let moods = [
        Moods { alias_state: 1, ..Moods::default() },
        Moods { alias_state: 7, ..Moods::default() },
        Moods { alias_bits: 1 << 24, ..Moods::default() },
    ];
    for moods in moods {
        let mut pair = Pair::new(1);
        let exported = pair.export(0, 64, &SECRET);
        let objects = pair.card.objects();
        let wide = moods.alias_bits != 0;
        pair.card.set(moods);
        let refused = pair.importer.import(&ticket(exported.locator(), 0, 64), &SECRET).unwrap_err();
        match refused {
            XgvmiError::BadAlias(1 | 7) => assert!(!wide),
            XgvmiError::Nonsense { command: Command::CreateAlias, number } => assert!(wide && number > 1 << 24),
            other => panic!("{other}"),
        }
        assert_eq!((pair.importer.len(), pair.card.objects()), (0, objects));
    }
}

#[test]
fn a_card_that_does_not_check_secrets_is_found_out() {
    let pair = Pair::new(1);
    let objects = pair.card.objects();
    pair.card.set(Moods { credulous: true, ..Moods::default() });
    let mut function = pair.card.function(OWNERS);
    let found = probe(&mut function, CARD, domain(OWNERS), &pair.owner.registered, &SECRET);
    assert!(matches!(found, Err(XgvmiError::Unguarded)), "{found:?}");
    assert_eq!(pair.card.objects(), objects, "what it should not have made is gone again");
}

#[test]
fn what_does_not_lie_in_the_registered_memory_is_not_exported() {
    let mut pair = Pair::new(1);
    pair.card.set(Moods::default());
    let size = MEMORY as usize;
    for (offset, len) in [(0, size + 1), (size, 1), (size + 1, 1), (usize::MAX, 2), (1, usize::MAX), (0, 0)] {
        let refused = pair.owner.exporter.export(&pair.owner.registered, offset, len, Access::READ, &SECRET);
        assert!(matches!(refused, Err(XgvmiError::OutOfBounds)), "{len} at {offset}");
    }
    assert!(pair.card.commands().is_empty());
}

#[test]
fn an_alias_that_the_card_refuses_is_no_import() {
    let mut rig = Carded::new();
    let key = Key::new(owner(0), 0, 1);
    let region = Region { key, incarnation: LIFE, base: rig.base(0), len: 64, access: Access::READ };
    let locator = rig.locate(0, &region);
    let export = Export { ticket: ticket(locator, 0, 64), secret: SECRET, shadows: [ME].into_iter().collect() };
    rig.card.set(Moods { refuse: Some((0, 0x0f, 1)), ..Moods::default() });
    assert_eq!(rig.hand_over(0, &export, LIFE), Err(Status::CopyFailed));
    let span = umbra_core::key::Span { key, offset: 0, len: 8 };
    assert!(rig.way.read(span, 0, umbra_core::wire::Token(1)).is_err());
    assert_eq!(rig.card.commands(), [CREATE_ALIAS], "and nobody tried again");
}

#[test]
fn s46_the_card_itself_refuses_an_alias_whose_export_was_taken_back_by_force() {
    let mut rig = Carded::new();
    let key = Key::new(owner(0), 0, 1);
    let base = rig.base(0);
    let region = Region { key, incarnation: LIFE, base, len: 64, access: Access::READ };
    let locator = rig.locate(0, &region);
    let export = Export { ticket: ticket(locator, 0, 64), secret: SECRET, shadows: [ME].into_iter().collect() };
    assert_eq!(rig.hand_over(0, &export, LIFE), Ok(()));
    // The owner does not wait for the importer, whose own table still says that it may.
    let (n, exported) = rig.exports.remove(&key).unwrap();
    rig.owners[n].exporter.revoke(exported).unwrap();
    let span = umbra_core::key::Span { key, offset: 0, len: 8 };
    rig.way.read(span, 0, umbra_core::wire::Token(1)).unwrap();
    let done = Event::Done { token: umbra_core::wire::Token(1), status: Status::CopyFailed };
    assert_eq!(rig.progress(), [done, Event::Broken { owner: owner(0) }]);
}
