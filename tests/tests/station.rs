//! The engine of firmware in a thread of this process.
//!
//! It is the same code that the images run, under the same questions.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use umbra::firmware::{Firmware, FirmwareError, GUEST_BYTES, GuestMemory, Map, Patience, WINDOW_AT};
use umbra::sys::segment::Segment;
use umbra_core::atomic::AtomicU64;
use umbra_core::error::Status;
use umbra_core::key::{Access, Span};
use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::ring::line::{Line, Ring};
use umbra_core::segment::VERSION;
use umbra_core::time::Time;
use umbra_core::window::{Claim, LANES, LINES, Phase, Window};
use umbra_dpu::station::{Station, Storage, TABLE, life_of};
use umbra_tests::firmware::exercise;
use umbra_tests::rig::Scratch;

const SOON: Patience = Patience { deadline: Duration::from_secs(20), silence: Duration::from_secs(4) };

/// Runs a station over a board's memory while `body` runs.
fn with_station<T>(seed: u64, map: &Map, body: impl FnOnce(&AtomicBool) -> T) -> T {
    with_pausing_station(seed, map, |stop, _| body(stop))
}

/// Makes a station do nothing for a while.
#[derive(Default)]
struct Pause {
    wanted: AtomicBool,
    kept: AtomicBool,
}

impl Pause {
    /// Returns when the station has heard it.
    fn set(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
        while self.kept.load(Ordering::Acquire) != wanted {
            thread::yield_now();
        }
    }

    fn keep(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Relaxed);
        self.kept.store(wanted, Ordering::Release);
        wanted
    }
}

/// The same; `body` can make the station pause.
fn with_pausing_station<T>(seed: u64, map: &Map, body: impl FnOnce(&AtomicBool, &Pause) -> T) -> T {
    let (stop, pause) = (AtomicBool::new(false), Pause::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let window = Window::create(map.bytes().unwrap(), *b"thread\0\0", life_of(seed)).unwrap();
            let mut storage = Box::new(Storage::new());
            let mut table = Box::new([0; TABLE]);
            let mut station = Station::new(Sp(0), &window, &mut storage, &mut table).unwrap();
            let begun = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                if pause.keep() || !station.step(Time(u64::try_from(begun.elapsed().as_nanos()).unwrap())) {
                    thread::yield_now();
                }
            }
        });
        // A body that panics must end the station as well, else the scope waits for ever.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&stop, &pause)));
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn rank(number: u32) -> Peer {
    Peer::rank(WorldRank(number)).unwrap()
}

#[test]
fn every_answer_is_right_and_the_end_is_noticed() {
    let memory = GuestMemory::create().unwrap();
    let map = memory.map().unwrap();
    with_station(1, &map, |stop| {
        let mut exercised = exercise(&map, SOON, 20_000).unwrap();
        stop.store(true, Ordering::Relaxed);
        drop(exercised.rank);
        let late = Firmware::attach(&map, rank(9), SOON).unwrap_err();
        assert!(matches!(late, FirmwareError::Stopped { .. }), "{late}");
        let error = exercised.service.read(Span { key: exercised.key, offset: 0, len: 8 }, &mut [0; 8]).unwrap_err();
        let FirmwareError::Stopped { ref board, beats, .. } = error else { panic!("{error}") };
        assert_eq!((board.as_str(), beats > 0), ("thread", true));
        assert!(error.to_string().contains("firmware on thread has stopped: no heartbeat for"), "{error}");
    });
}

#[test]
fn memory_of_a_rank_that_left_or_died_is_served_no_more() {
    let memory = GuestMemory::create().unwrap();
    let map = memory.map().unwrap();
    with_station(2, &map, |_| {
        let mut service = Firmware::attach(&map, Peer::service(Sp(1)).unwrap(), SOON).unwrap();
        let mut owner = Firmware::attach(&map, rank(0), SOON).unwrap();
        let key = owner.export(0, 64, Access::READ).unwrap().key;
        let span = Span { key, offset: 0, len: 8 };
        service.read(span, &mut [0; 8]).unwrap();
        drop(owner);
        let begun = Instant::now();
        let status = loop {
            match service.read(span, &mut [0; 8]) {
                Err(FirmwareError::Refused { status, .. }) => break status,
                other => other.unwrap(),
            }
            assert!(begun.elapsed() < SOON.deadline, "it is served for ever");
        };
        assert_eq!(status, Status::OwnerGone);
    });
}

#[test]
fn lanes_of_the_living_are_kept_and_those_of_the_dead_are_taken_over() {
    let memory = GuestMemory::create().unwrap();
    let map = memory.map().unwrap();
    with_station(3, &map, |_| {
        let mut living: Vec<Firmware<'_>> =
            (0..LANES as u32).map(|number| Firmware::attach(&map, rank(number), SOON).unwrap()).collect();
        let full = Firmware::attach(&map, rank(9), SOON).unwrap_err();
        let FirmwareError::NoLane { owners, .. } = full else { panic!("{full}") };
        assert_eq!(owners, [std::process::id(); LANES]);
        living.truncate(LANES - 1);
        // No process has this id: `pid_max` is never so high and so old at once.
        let dead = Claim { mark: u64::MAX - 7, peer: Some(rank(8)), life: Incarnation(1) };
        assert!(map.window().unwrap().lane(LANES - 1).unwrap().take(0, &dead));
        let mut successor = Firmware::attach(&map, rank(9), SOON).unwrap();
        successor.export(0, 64, Access::READ).unwrap();
    });
}

#[test]
fn a_write_does_not_carry_the_bytes_of_a_read_that_was_given_up() {
    let memory = GuestMemory::create().unwrap();
    let map = memory.map().unwrap();
    with_pausing_station(6, &map, |_, pause| {
        let mut owner = Firmware::attach(&map, rank(0), SOON).unwrap();
        owner.share().write(0, &[1; 4096]).unwrap();
        let key = owner.export(0, 4096, Access::READ | Access::WRITE).unwrap().key;
        let span = Span { key, offset: 0, len: 4096 };
        let patience = Patience { deadline: Duration::from_secs(2), silence: Duration::from_secs(60) };
        let mut service = Firmware::attach(&map, Peer::service(Sp(1)).unwrap(), patience).unwrap();
        pause.set(true);
        let late = service.read(span, &mut [0; 4096]).unwrap_err();
        assert!(matches!(late, FirmwareError::Late { .. }), "{late}");
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(200));
                pause.set(false);
            });
            service.write(span, &[2; 4096]).unwrap();
        });
        let mut written = [0; 4096];
        owner.share().read_only().read(0, &mut written).unwrap();
        assert!(written == [2; 4096], "what was read is written instead");
    });
}

#[test]
fn who_gives_up_while_he_attaches_keeps_no_lane() {
    let memory = GuestMemory::create().unwrap();
    let map = memory.map().unwrap();
    with_pausing_station(7, &map, |_, pause| {
        Firmware::attach(&map, rank(0), SOON).unwrap();
        pause.set(true);
        let brief = Patience { deadline: Duration::from_millis(10), ..SOON };
        for number in 0..2 * LANES as u32 {
            let late = Firmware::attach(&map, rank(number), brief).unwrap_err();
            assert!(matches!(late, FirmwareError::Late { .. }), "{late}");
        }
        pause.set(false);
        Firmware::attach(&map, rank(9), SOON).unwrap();
    });
}

#[test]
fn a_new_life_of_the_firmware_is_told_from_the_old_one() {
    let memory = GuestMemory::create().unwrap();
    let map = memory.map().unwrap();
    let mut old = with_station(4, &map, |_| Firmware::attach(&map, rank(0), SOON).unwrap());
    with_station(5, &map, |_| {
        let error = loop {
            match old.export(0, 64, Access::READ).unwrap_err() {
                // Its window is laid out a moment later.
                FirmwareError::Stopped { .. } => {}
                error => break error,
            }
        };
        assert!(matches!(error, FirmwareError::Restarted { .. }), "{error}");
        Firmware::attach(&map, rank(0), SOON).unwrap();
    });
}

#[test]
fn what_a_former_owner_left_in_the_rings_does_not_hinder_the_next_one() {
    let memory = GuestMemory::create().unwrap();
    let map = memory.map().unwrap();
    let mut old = with_station(8, &map, |_| {
        let mut old = Firmware::attach(&map, rank(0), SOON).unwrap();
        old.export(0, 64, Access::READ).unwrap();
        old
    });
    with_station(9, &map, |_| {
        while map.window().and_then(|window| Ok(window.state()?.life())).ok() != Some(life_of(9)) {
            thread::yield_now();
        }
        let mut next = Firmware::attach(&map, rank(1), SOON).unwrap();
        let key = next.export(0, 4096, Access::READ | Access::WRITE).unwrap().key;
        let lane = map.window().unwrap().lane(0).unwrap();
        lane.landing.write(0, &[5; 64]).unwrap();
        // Neither a command nor bytes for one come into a lane that is another's by now.
        for error in [
            old.export(0, 64, Access::READ).unwrap_err(),
            old.write(Span { key, offset: 0, len: 4096 }, &[6; 4096]).unwrap_err(),
        ] {
            assert!(matches!(error, FirmwareError::Restarted { .. }), "{error}");
        }
        let mut landed = [0; 64];
        lane.landing.read_only().read(0, &mut landed).unwrap();
        assert_eq!(landed, [5; 64]);
        drop((old, next));
        let nobodys_lane = || {
            let lane = map.window().unwrap().lane(0).unwrap();
            while lane.accepted() != 0 {
                thread::yield_now();
            }
            lane
        };
        // Up to as many as a ring holds: no number of lines leaves the lane unusable.
        for lines in [0, 1, 3, LINES] {
            let lane = nobodys_lane();
            let mut stray = Ring::attach(lane.commands).unwrap().sender().unwrap();
            let line = Line::new([7; 8]).unwrap();
            (0..lines).for_each(|_| stray.push(line).unwrap());
            Firmware::attach(&map, rank(1), SOON).unwrap().export(0, 64, Access::READ).unwrap();
        }
        // A word that was written over, too.
        let lane = nobodys_lane();
        lane.commands.iter().chain(lane.answers).for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        Firmware::attach(&map, rank(1), SOON).unwrap().export(0, 64, Access::READ).unwrap();
    });
}

#[test]
fn images_of_other_versions_are_refused_with_a_remedy() {
    let memory = GuestMemory::create().unwrap();
    let map = memory.map().unwrap();
    let waiting = Patience { deadline: Duration::from_millis(50), ..SOON };
    let error = Firmware::attach(&map, rank(0), waiting).unwrap_err();
    assert!(error.to_string().contains("is the image running on this memory?"), "{error}");

    let bytes = map.bytes().unwrap();
    Window::create(bytes, *b"other\0\0\0", Incarnation(1)).unwrap().state().unwrap().enter(Phase::Serving);
    let version: &AtomicU64 = &bytes.words(8, 1).unwrap()[0];
    version.fetch_add(1, Ordering::Relaxed);
    let error = Firmware::attach(&map, rank(0), waiting).unwrap_err();
    assert!(matches!(error, FirmwareError::Layout { theirs } if theirs == VERSION + 1), "{error}");
    assert!(error.to_string().contains("`cargo xtask firmware`"), "{error}");

    // The same version, but a part of another length, as an image with other constants would lay it out.
    version.fetch_sub(1, Ordering::Relaxed);
    for part in 0..4 {
        let len: &AtomicU64 = &bytes.words(8 * (5 + 2 * part), 1).unwrap()[0];
        len.fetch_sub(8, Ordering::Relaxed);
        let error = Firmware::attach(&map, rank(0), waiting).unwrap_err();
        assert!(matches!(error, FirmwareError::Window(_)), "part {part}: {error}");
        assert!(error.to_string().contains("`cargo xtask firmware`"), "part {part}: {error}");
        len.fetch_add(8, Ordering::Relaxed);
    }
}

#[test]
fn files_that_are_no_memory_of_a_board_are_refused_by_name_with_a_remedy() {
    let scratch = Scratch::new("no-board");
    let [none, short, named] = ["none", "short", "named"].map(|name| scratch.path().join(name));
    fs::write(&short, "not a board").unwrap();
    fs::write(&named, vec![0; GUEST_BYTES]).unwrap();
    // As long as the memory of a board without its window, and sealed like it.
    let small = Segment::create("small", WINDOW_AT).unwrap();
    let small_path = PathBuf::from(format!("/proc/self/fd/{}", small.number().unwrap()));
    let open = |path: &Path| Map::open(path).unwrap_err();
    for path in [&none, scratch.path()] {
        let error = open(path);
        assert!(matches!(error, FirmwareError::Open { .. }), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    for path in [&short, &named, &small_path] {
        let error = open(path);
        assert!(matches!(error, FirmwareError::NoBoard { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains(path.to_str().unwrap()) && said.contains("name the path"), "{said}");
    }
    // A board's memory on which no image ever ran, looked at without patience.
    let memory = GuestMemory::create().unwrap();
    let error = memory.map().unwrap().window().map(drop).unwrap_err();
    assert!(matches!(error, FirmwareError::Empty) && error.to_string().contains("start the image on it"), "{error}");
}
