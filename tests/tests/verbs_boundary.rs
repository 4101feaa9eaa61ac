//! Boundary exchange over queue pairs (s7, s10, s31, s32, s34, s35, s38, s41, s45).
//!
//! Of a real device; the bits are the same as over shared memory. Without one each test says `skipped: ` and why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use umbra::advect::{Options, Problem, run, run_rank, summary};
use umbra::boundary::{
    Boundary, BoundaryError, Extent, Greeting, Grid, Scope, Settings, Store, Transport as _, TransportError, VerbsRing,
    largest_message,
};
use umbra::boundary::{Fields as _, Mesh as _};
use umbra::sys::segment::Segment;
use umbra::verbs::{Depths, Domain, Piece, Port, Queue, Region, Remote, Work, WorkStatus};
use umbra_core::atomic::Ordering;
use umbra_core::boundary::Message;
use umbra_core::key::Access;
use umbra_tests::answer::{good, value};
use umbra_tests::boundary_job::{SETTINGS, long_extent, send_to_one_that_does_not_receive, shape, sparse};
use umbra_tests::forged::{self, Fault, refuse};
use umbra_tests::late::in_time;
use umbra_tests::lost::{When, be, lose};
use umbra_tests::machine::until;
use umbra_tests::random_exchanges::Exchanges;
use umbra_tests::rig::{self, PATIENCE};
use umbra_tests::verbs::{device, rings};

/// Runs each rank in a thread.
fn all<R: Send>(port: &Port, extent: Extent, body: impl Fn(u32, VerbsRing) -> R + Sync) -> Vec<R> {
    let (ends, body) = (rings(port, extent), &body);
    thread::scope(|scope| {
        let ranks = (0..).zip(ends).map(|(rank, end)| scope.spawn(move || body(rank, end)));
        ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn port() -> Option<Port> {
    Some(device()?.active_port(1, None).unwrap())
}

#[test]
fn s34_and_s35_both_problems_give_the_same_bits_on_every_number_of_ranks() {
    let Some(port) = port() else { return };
    for (problem, dimensions) in [(Problem::Shift, 2), (Problem::Smooth, 2), (Problem::Smooth, 3)] {
        let (blocks, cells, cycles) = if dimensions == 2 { (4, 8, 24) } else { (2, 6, 8) };
        let options =
            Options { blocks, cells, fields: 3, radius: 2, cycles, ranks: 1, ..Options::new(problem, dimensions) };
        let expected = run(&Options { dense: true, ..options }, |_| ()).unwrap();
        for ranks in [1, 2, 3, 4, 8] {
            let (split, dense) = (ranks == 3 || ranks == 8, ranks == 4);
            let delay = Duration::from_micros(if ranks == 3 { 300 } else { 0 });
            let options = Options { ranks, split, dense, reversed: ranks % 2 == 0, delay, ..options };
            let extent = options.extent().unwrap();
            let outcome = summary(all(&port, extent, |rank, end| run_rank(&options, rank, end, |_| ()).unwrap()));
            assert_eq!(outcome.wrong, expected.wrong, "{problem:?}, {ranks} ranks");
            assert_eq!(
                (outcome.hash, outcome.nonzero),
                (expected.hash, expected.nonzero),
                "{problem:?}, {ranks} ranks"
            );
        }
    }
}

#[test]
fn s34_the_reference_plane_at_its_full_size_is_the_closed_form() {
    let Some(port) = port() else { return };
    let options = Options::new(Problem::Shift, 2);
    assert_eq!((options.ranks, options.cycles), (4, 512));
    let ranks = |rank, end| run_rank(&options, rank, end, |_| ()).unwrap();
    let outcome = summary(all(&port, options.extent().unwrap(), ranks));
    assert_eq!((outcome.wrong, outcome.nonzero), (Some(0), 8 * 317), "eight discs of radius 10");
}

#[test]
fn s32_ranks_without_blocks_take_part() {
    let Some(port) = port() else { return };
    let options = Options { ranks: 6, cycles: 8, ..Options::tiny(Problem::Smooth, 2) };
    let expected = run(&options.alone(), |_| ()).unwrap();
    for remesh in [None, Some(3)] {
        let options = Options { remesh, ..options };
        let extent = options.extent().unwrap();
        let outcome = summary(all(&port, extent, |rank, end| run_rank(&options, rank, end, |_| ()).unwrap()));
        assert_eq!((outcome.hash, outcome.nonzero), (expected.hash, expected.nonzero), "{remesh:?}");
        let idle = outcome.ranks.iter().filter(|rank| rank.counts[0] == 0).count();
        assert_eq!(idle, 2, "ranks without blocks send nothing");
    }
}

#[test]
fn s34_the_command_gives_the_same_bits_over_queue_pairs_as_over_shared_memory() {
    if device().is_none() {
        return;
    }
    let small =
        ["--blocks", "4", "--cells", "8", "--fields", "2", "--radius", "2", "--cycles", "12", "--json", "--quiet"];
    let hash = |way: &[&str]| {
        let output = Command::new(&rig::programs().0).arg("advect").args(small).args(way).output().unwrap();
        let object = good(&output);
        (value(&object, "hash").to_owned(), value(&object, "transport") == "\"verbs\"")
    };
    for problem in ["shift", "smooth"] {
        let (expected, is_verbs) = hash(&["--problem", problem]);
        assert!(!is_verbs);
        for ranks in ["1", "2", "5"] {
            let way = ["--problem", problem, "--transport", "verbs", "--ranks", ranks, "--split"];
            assert_eq!(hash(&way), (expected.clone(), true), "{problem} on {ranks} ranks");
        }
    }
}

#[test]
fn s10_random_exchanges_arrive_as_they_were_sent_and_what_does_not_fit_is_read() {
    let Some(port) = port() else { return };
    for (ranks, count) in [(2, 1_500), (4, 300), (8, 60)] {
        let exchanges = Exchanges { ranks, seed: 7, count };
        let overflows = Mutex::new(0);
        all(&port, exchanges.extent().unwrap(), |_, end| {
            *overflows.lock().unwrap() += exchanges.run(end).unwrap().overflows;
        });
        assert!(overflows.into_inner().unwrap() > 0, "bursts do not fit into the slots");
    }
}

#[test]
fn s31_and_s45_a_head_that_is_damaged_or_of_an_old_epoch_or_of_another_plan_is_refused_and_counted() {
    let Some(port) = port() else { return };
    for fault in Fault::ALL {
        let kept = all(&port, forged::extent().unwrap(), |_, end| refuse(end, fault, PATIENCE).unwrap());
        assert_eq!(kept.len(), 2, "{fault:?}");
    }
}

#[test]
fn s7_a_long_send_to_a_rank_that_never_receives_returns() {
    let Some(port) = port() else { return };
    for smallest_slot in [256, 1 << 18] {
        let Ok(ends) = rings(&port, long_extent()).try_into() else { unreachable!("two ranks") };
        assert!(send_to_one_that_does_not_receive::<VerbsRing>(ends, smallest_slot), "there is a second slot");
    }
}

/// The most and the least bytes that ranks hold to receive into, of those that were looked at.
fn bounds(held: &[u64]) -> [u64; 2] {
    [held.iter().copied().min().unwrap(), held.iter().copied().max().unwrap()]
}

#[test]
fn s38_slots_grow_and_shrink_with_what_is_announced_and_no_bit_changes() {
    let Some(port) = port() else { return };
    let exchanges = Exchanges { ranks: 2, seed: 11, count: 600 };
    // Room for all blocks on one rank.
    let extent = Exchanges { ranks: 1, ..exchanges }.extent().unwrap();
    let extent = Extent { ranks: 2, ..extent };
    for every in [u32::MAX, 40] {
        let held = all(&port, extent, |_, end| {
            let mut held = Vec::new();
            exchanges.run_dealt(end, every, |boundary| held.push(boundary.held().unwrap().receive)).unwrap();
            bounds(&held)
        });
        assert!(held.iter().all(|[least, most]| least < most), "{held:?}");
    }
}

#[test]
fn s38_what_a_burst_took_is_given_back() {
    const FIELDS: u16 = 60;
    let Some(port) = port() else { return };
    let mesh = Grid::new(shape(2, 32, 2), [2, 1, 1], [true; 3], 2);
    let fields = [sparse(0.5, 0.5, 0.0); FIELDS as usize];
    let extent = Extent { ranks: 2, slots: 2, message: largest_message(&mesh, &fields, 2) };
    all(&port, extent, |rank, end| {
        let mut boundary = Boundary::build(&mesh, &fields, end, SETTINGS).unwrap();
        let mut store = Store::new(mesh.blocks(), mesh.shape().len(), &fields, 1);
        (0..FIELDS).for_each(|field| store.allocate(rank, field).unwrap());
        let mut exchange = |value: f64| {
            (0..FIELDS).for_each(|field| store.stage(0).values_mut(rank, field).unwrap().fill(value));
            boundary.exchange(&mut store.stage(0)).unwrap();
            (boundary.receive_bytes().0, boundary.held().unwrap().receive)
        };
        for _ in 0..3 {
            exchange(0.0);
        }
        let (_, empty) = exchange(0.0);
        // Two slots of a page each, and what votes and plans are told on.
        assert!((2 * 4096..=5 * 4096).contains(&empty), "{empty}");
        for _ in 0..5 {
            exchange(1.0);
        }
        let (mut announced, burst) = exchange(1.0);
        assert!(announced > 100_000 && burst >= announced, "{burst} for {announced}");
        // What did not fit at first is there for a while.
        let beside = burst - announced;
        for _ in 0..300 {
            let (now, held) = exchange(0.0);
            // A slot shrinks when it was used once more; up to as much again, and four pages, may stay.
            assert!(held <= beside + 2 * announced + 2 * 6 * 4096, "{held} of {burst}, {announced} for slots");
            announced = now;
        }
        let (_, held) = exchange(0.0);
        assert!(held <= 2 * empty + 2 * 6 * 4096, "{held} of {burst}");
    });
}

#[test]
fn s38_a_sparse_exchange_holds_what_it_announces_and_less_than_a_third_of_a_dense_one() {
    let Some(port) = port() else { return };
    let mesh = Grid::new(shape(3, 8, 2), [2; 3], [true; 3], 2);
    let fields = [sparse(0.5, 0.5, 0.0); 10];
    let extent = Extent { ranks: 2, slots: 2, message: largest_message(&mesh, &fields, 2) };
    let held = |live: u16| {
        let ranks = all(&port, extent, |rank, end| {
            let mut boundary = Boundary::build(&mesh, &fields, end, SETTINGS).unwrap();
            let mut store = Store::new(mesh.blocks(), mesh.shape().len(), &fields, 1);
            for (block, field) in mesh.owned_by(rank).flat_map(|block| (0..live).map(move |field| (block, field))) {
                store.allocate(block, field).unwrap();
                store.stage(0).values_mut(block, field).unwrap().fill(1.0);
            }
            // Until what did not fit at first was given back.
            (0..180).for_each(|_| boundary.exchange(&mut store.stage(0)).unwrap());
            let held = boundary.held().unwrap().receive;
            let announced = boundary.receive_bytes().0;
            // Two slots in whole pages, and what votes are told on.
            assert!((announced..=announced + 3 * 4096).contains(&held), "{held} for {announced}");
            boundary.close().unwrap();
            held
        });
        ranks.iter().sum::<u64>()
    };
    let [sparse, dense] = [1, 10].map(held);
    assert!(sparse * 10 <= dense * 3, "{sparse} of {dense}");
}

/// A rank that writes what it likes to the board of another one.
struct Liar {
    queue: Queue,
    region: Region,
    board: Remote,
}

impl Liar {
    /// Another rank, with a liar for its only peer.
    fn with(port: &Port) -> (VerbsRing, Liar) {
        let extent = Extent { ranks: 2, slots: 2, message: 4096 };
        let mut ring = VerbsRing::new(port, extent, 0).unwrap();
        let domain = Domain::new(&port.device).unwrap();
        let mut queue = Queue::new(&domain, port, Depths { work: 4, receives: 4 }).unwrap();
        let segment = Segment::create("umbra-liar", 4096).unwrap();
        let region = Region::register(&domain, Arc::new(segment), Access::READ | Access::WRITE).unwrap();
        (0..4).for_each(|_| queue.receive(0, Piece { region: &region, offset: 0, len: 0 }).unwrap());
        let Greeting { address, board, .. } = ring.greeting(1).unwrap();
        queue.connect(&address).unwrap();
        let here = Remote { address: region.address(0), rkey: region.rkey() };
        ring.connect(1, &Greeting { address: queue.address(), board: here, outbox: here }).unwrap();
        (ring, Liar { queue, region, board })
    }

    /// Writes words to the board, so many bytes behind its beginning.
    fn says(&mut self, at: usize, words: &[u64]) {
        self.region.segment().words(0, words.len()).unwrap().iter().zip(words).for_each(|(to, word)| {
            to.store(word.to_le(), Ordering::Relaxed);
        });
        let from = Piece { region: &self.region, offset: 0, len: words.len() as u32 * 8 };
        let to = Remote { address: self.board.address + at as u64, ..self.board };
        self.queue.post(&[(7, Work::Write { from, to, immediate: None })]).unwrap();
        let mut ended = None;
        until("it is written", || {
            self.queue.poll(&mut |done| ended = Some(done.status)).unwrap();
            ended.is_some()
        });
        assert_eq!(ended, Some(WorkStatus::Success));
    }

    /// Where the second slot shall lie.
    fn slot(&self, len: u64, rkey: u32) -> [u64; 2] {
        [self.region.address(2048), len << 32 | u64::from(rkey)]
    }
}

/// Where a board has the place of the second slot, and the length of a plan.
const SLOT: usize = 80;
const PLAN: usize = 96;

#[test]
fn a_place_that_is_too_small_or_has_a_wrong_key_is_refused_with_a_typed_error() {
    let Some(port) = port() else { return };
    let message = Message { rank: 1, sequence: 1, slot: 1, head: 64, in_slot: 0, overflow: 0 };
    let (mut ring, mut liar) = Liar::with(&port);
    let no_room = |room| Err(TransportError::NoRoom { rank: 1, bytes: 64, room });
    assert_eq!(ring.publish(&message, 1, &[3; 64]), no_room(0), "nothing was told");
    let key = liar.region.rkey();
    liar.says(SLOT, &liar.slot(63, key));
    assert_eq!(ring.publish(&message, 1, &[3; 64]), no_room(63));
    // One that is right.
    liar.says(SLOT, &liar.slot(64, key));
    ring.publish(&message, 1, &[3; 64]).unwrap();
    until("it is sent", || ring.may_write(1, 1).unwrap());
    assert_eq!(liar.region.segment().word(2048).unwrap().load(Ordering::Relaxed), 0x0303_0303_0303_0303);
    // More than any plan has.
    liar.says(PLAN, &[1 << 40]);
    let read = ring.read_plan(1);
    assert!(matches!(read, Err(TransportError::MessageSize { rank: 1, came: Some(0x100_0000_0000), .. })), "{read:?}");
    liar.says(SLOT, &liar.slot(64, key ^ 0x5a5a));
    ring.publish(&message, 1, &[3; 64]).unwrap();
    let mut ended = None;
    until("it is refused", || {
        ended = ring.may_write(1, 1).err();
        ended.is_some()
    });
    assert_eq!(ended, Some(TransportError::Broken { rank: 1, status: WorkStatus::RemoteAccess }));
}

#[test]
fn a_greeting_with_a_wrong_key_breaks_the_way_between_its_two_ranks_and_none_is_built() {
    let Some(port) = port() else { return };
    let options = Options { ranks: 2, ..Options::tiny(Problem::Shift, 2) };
    let (mesh, fields, extent) = (options.mesh().unwrap(), options.exchanged().unwrap(), options.extent().unwrap());
    let deadline = Duration::from_secs(20);
    for is_board in [true, false] {
        let mut ends: Vec<_> = (0..2).map(|rank| VerbsRing::new(&port, extent, rank).unwrap()).collect();
        let [mut lies, right] = [1, 0].map(|from| ends[from as usize].greeting(1 - from).unwrap());
        let lie = if is_board { &mut lies.board } else { &mut lies.outbox };
        lie.rkey ^= 0x5a5a;
        ends[0].connect(1, &lies).unwrap();
        ends[1].connect(0, &right).unwrap();
        let settings = Settings { deadline: Some(deadline), ..SETTINGS };
        let build = |end| in_time(deadline, || Boundary::build(&mesh, &fields, end, settings).map(drop).unwrap_err());
        let errors: Vec<_> = thread::scope(|scope| {
            let ranks: Vec<_> = ends.into_iter().map(|end| scope.spawn(|| build(end))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        let refused = TransportError::Broken { rank: 1, status: WorkStatus::RemoteAccess };
        assert_eq!(errors[0], BoundaryError::Transport(refused), "board: {is_board}");
        // The device of the other one has refused the key, or its queue pair has no other end any more.
        let is_broken = matches!(errors[1], BoundaryError::Transport(TransportError::Broken { rank: 0, .. }));
        assert!(is_broken, "board: {is_board}: {}", errors[1]);
    }
}

#[test]
fn s41_a_rank_that_is_gone_is_named_with_its_channels_before_the_deadline_or_at_it() {
    let Some(port) = port() else { return };
    let options = Options { ranks: 2, ..Options::tiny(Problem::Shift, 2) };
    let (mesh, fields) = (options.mesh().unwrap(), options.exchanged().unwrap());
    let deadline = Duration::from_secs(4);
    let errors = all(&port, options.extent().unwrap(), |rank, end| {
        let mut boundary = Boundary::build(&mesh, &fields, end, SETTINGS).unwrap();
        let mut store = Store::new(mesh.blocks(), mesh.shape().len(), &fields, 1);
        boundary.exchange(&mut store.stage(0)).unwrap();
        boundary.set_deadline(Some(deadline));
        if rank == 1 {
            return None;
        }
        // Long enough that the other one is gone, whose queue pair was destroyed without a word.
        thread::sleep(Duration::from_millis(500));
        let mut stage = store.stage(0);
        assert!(stage.values(0, 0).is_none());
        let fails = || loop {
            if let Err(error) = boundary.send(&stage, Scope::Any) {
                break error;
            }
            if let Err(error) = boundary.receive(&mut stage, Scope::Any) {
                break error;
            }
        };
        Some(in_time(deadline, fails))
    });
    let error = errors[0].as_ref().unwrap();
    let (BoundaryError::Lost(late) | BoundaryError::Late(late)) = error else { panic!("{error}") };
    let of_the_other = |rank: u32, block: u32| rank == 1 && mesh.owner(block) == 1;
    let mut missing = late.missing.iter();
    assert!(late.count > 0 && missing.all(|missing| of_the_other(missing.rank, missing.key.sender)), "{error}");
    let text = error.to_string();
    assert!(text.contains("rank 1: block ") && text.contains(", field 0, element ("), "{text}");
}

/// A process of a ring; as a test of its own it does nothing.
#[test]
fn a_rank() {
    be::<VerbsRing>();
}

#[test]
fn s41_a_killed_process_is_named_by_all_others_and_all_of_them_end() {
    if device().is_some() {
        lose::<VerbsRing>("a_rank", When::Exchanging);
    }
}

#[test]
fn s41_a_stopped_process_is_named_by_all_others_at_the_deadline_although_no_way_breaks() {
    if device().is_some() {
        lose::<VerbsRing>("a_rank", When::Stopped);
    }
}
