//! Images on emulated boards: answers, the log, the end, and the stack.
//!
//! Every answer is checked. The end comes by pulling the plug. How much of the stack was used is told, and one stack is
//! too small.
//!
//! `cargo xtask firmware` builds the images and says where they are; without them these tests say `skipped: `.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use umbra::firmware::{Firmware, FirmwareError, From, GuestMemory, Patience};
use umbra_core::key::Span;
use umbra_core::peer::{Peer, Rank, Sp, WorldRank};
use umbra_tests::firmware::{Board, Exercised, PATIENCE, Processor, RANKS, exercise, with_table};
use umbra_tests::rig::skip;

/// Verified reads, bad keys beside them.
const READS: u32 = 100_000;

/// The image for a processor, and the folder for consoles.
fn image(variable: &str) -> Option<(PathBuf, PathBuf)> {
    let Some(image) = std::env::var_os(variable).map(PathBuf::from) else {
        skip(format_args!("no image in {variable}: `cargo xtask firmware` builds it"));
        return None;
    };
    let folder = image.parent().unwrap().to_owned();
    Some((image, folder))
}

fn board_is_put_to_the_test(processor: Processor, variable: &str) {
    let Some((image, folder)) = image(variable) else { return };
    let console = folder.join("console.log");
    let _ = std::fs::remove_file(&console);
    let memory = GuestMemory::create().unwrap();
    let mut board = Board::start(processor, &image, &memory, &console).unwrap();
    let map = memory.map().unwrap();
    let told = || std::fs::read_to_string(&console).unwrap_or_default();

    let exercised = exercise(&map, PATIENCE, READS).unwrap_or_else(|error| panic!("{error}\n{}", told()));
    let Exercised { mut service, mut rank, key, group, read, lookup } = exercised;
    assert!(told().contains("self-tests passed"), "{}", told());
    let name = service.board();
    // The stack is measured twice a second.
    thread::sleep(Duration::from_millis(1200));
    let ((size, used), (served, refused)) = (service.stack(), service.counters());
    assert!(used > 0 && used < size, "stack: {used} of {size} bytes");
    assert!(served >= u64::from(READS) && refused >= 10, "{served} served, {refused} refused");
    println!("firmware: {name}: {READS} verified reads, {read:?} each; {lookup:?} a look-up");
    println!("firmware: {name}: stack {used} of {size} bytes");

    if processor == Processor::Aarch64 {
        the_log_tells_what_happened(&image, &memory, &name);
    }

    // The plug is pulled while reads are under way.
    let span = Span { key, offset: 0, len: 4096 };
    let error = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let begun = Instant::now();
            loop {
                if let Err(error) = service.read(span, &mut [0; 4096]) {
                    break error;
                }
                assert!(begun.elapsed() < PATIENCE.deadline, "it goes on without power");
            }
        });
        thread::sleep(Duration::from_millis(200));
        board.power_off().unwrap();
        reader.join().unwrap()
    });
    let FirmwareError::Stopped { board: stopped, beats, .. } = &error else { panic!("{error}") };
    assert_eq!((stopped, *beats > 0), (&name, true));
    println!("firmware: {error}");
    with_table(|table| {
        for asked in (0..RANKS).step_by(17).map(Rank) {
            let found = rank.cached(group, asked).unwrap();
            assert_eq!((Ok(found.endpoint), found.from), (table.endpoint(asked), From::Window));
        }
        let found = rank.lookup(group, Rank(1)).unwrap();
        assert_eq!(found.from, From::Window, "the look-up falls back");
    });

    // The same memory, another life.
    let former = service.life();
    let _board = Board::start(processor, &image, &memory, &console).unwrap();
    let begun = Instant::now();
    let restarted = loop {
        match service.read(span, &mut [0; 4096]).unwrap_err() {
            FirmwareError::Stopped { .. } if begun.elapsed() < PATIENCE.deadline => {}
            error => break error,
        }
    };
    assert!(matches!(restarted, FirmwareError::Restarted { .. }), "{restarted}");
    drop((service, rank));
    let again = Firmware::attach(&map, Peer::rank(WorldRank(3)).unwrap(), PATIENCE).unwrap();
    assert_ne!(again.life(), former);
    drop(again);
    let mut service = Firmware::attach(&map, Peer::service(Sp(1)).unwrap(), PATIENCE).unwrap();
    let status = service.read(span, &mut [0; 4096]).unwrap_err();
    assert!(matches!(status, FirmwareError::Refused { .. }), "its regions are forgotten: {status}");
}

/// `umbra firmware-log` finds the words of the log in the image.
fn the_log_tells_what_happened(image: &Path, memory: &GuestMemory, name: &str) {
    let Some(program) = std::env::var_os("UMBRA_FIRMWARE_LOG") else {
        return skip("no program in UMBRA_FIRMWARE_LOG: `cargo xtask firmware` builds it");
    };
    let decode = |memory: &Path| {
        let mut command = Command::new(&program);
        let output = command.arg("firmware-log").arg("--elf").arg(image).arg(memory).output().unwrap();
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{err}");
        out
    };
    let told = decode(&memory.path());
    // The board logs more than it keeps; what is kept ends with what happened last.
    for words in ["group of 64 ranks is in the cache", "a group was retired"] {
        assert!(told.lines().any(|line| line.contains("INFO") && line.contains(words)), "no {words:?} in:\n{told}");
    }
    // The first line may have lost its beginning to later ones.
    assert!(!told.lines().skip(1).any(|line| line.contains("did not write")), "{told}");
    println!("firmware: {name}: {} lines of log, the last: {}", told.lines().count(), told.lines().last().unwrap());
    let copy = image.with_extension("memory");
    std::fs::copy(memory.path(), &copy).unwrap();
    let of_copy = decode(&copy);
    std::fs::remove_file(&copy).unwrap();
    assert_eq!(of_copy, told, "nothing was logged between the two");
}

/// What lies below the stack is not written over: the image says so and ends.
fn a_small_stack_is_told(processor: Processor, variable: &str) {
    let Some((image, folder)) = image(variable) else { return };
    let console = folder.join("console-shallow.log");
    let _ = std::fs::remove_file(&console);
    let memory = GuestMemory::create().unwrap();
    let _board = Board::start(processor, &image, &memory, &console).unwrap();
    let begun = Instant::now();
    let told = loop {
        let told = std::fs::read_to_string(&console).unwrap_or_default();
        if told.contains("umbra-firmware: a stack of 4096 bytes is too small") {
            break told;
        }
        assert!(begun.elapsed() < PATIENCE.deadline, "{told}");
        thread::sleep(Duration::from_millis(20));
    };
    assert!(!told.contains("self-tests passed"), "it serves nobody: {told}");
    let map = memory.map().unwrap();
    let waiting = Patience { deadline: Duration::from_millis(200), ..PATIENCE };
    let error = Firmware::attach(&map, Peer::rank(WorldRank(3)).unwrap(), waiting).unwrap_err();
    println!("firmware: {}; a host process: {error}", told.lines().last().unwrap());
}

#[test]
fn a_stack_that_is_too_small_is_told_on_arm() {
    a_small_stack_is_told(Processor::Aarch64, "UMBRA_FIRMWARE_AARCH64_SHALLOW");
}

#[test]
fn a_stack_that_is_too_small_is_told_on_risc_v() {
    a_small_stack_is_told(Processor::Riscv64, "UMBRA_FIRMWARE_RISCV64_SHALLOW");
}

#[test]
fn the_image_for_arm_serves_host_processes() {
    board_is_put_to_the_test(Processor::Aarch64, "UMBRA_FIRMWARE_AARCH64");
}

#[test]
fn the_image_for_risc_v_serves_host_processes() {
    board_is_put_to_the_test(Processor::Riscv64, "UMBRA_FIRMWARE_RISCV64");
}
