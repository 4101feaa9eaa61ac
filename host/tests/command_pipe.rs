//! `umbra pipe` between two processes that come in any order, end, and die.
#![cfg(feature = "command")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;

use umbra::channel::Timeout;
use umbra::stream::{Error, Meeting, NAME_MAX, ReceiveOptions, Role, SendOptions};

/// Only a hang lasts longer.
const SECONDS: &str = "60";
const WAIT: Timeout = Timeout::After(Duration::from_secs(60));

/// A name that no other test, and no other run, uses.
fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

fn pipe(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
    command.arg("pipe").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// A process that ends by itself, as its input is not closed.
fn ended(mut child: Child) -> Child {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it waits for ever: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn fails(child: Child, code: i32, why: &str) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert!(status.code() == Some(code) && message.contains(why), "{status}: {message}");
}

#[test]
fn what_goes_in_comes_out_whoever_is_first() {
    let data: Vec<u8> = (0..5_000_000_u32).map(|n| (n ^ n >> 8) as u8).collect();
    for (round, is_sender_first) in [true, false, true].into_iter().enumerate() {
        // The same name again and again: nothing of the last round is left.
        let name = name("order");
        let sender = || pipe(&["send", &name, "--wait", SECONDS, "--ring", "64KiB"]);
        let receiver = || pipe(&["recv", &name, "--wait", SECONDS]);
        let (mut sends, receives) = if is_sender_first {
            let sends = sender();
            (sends, receiver())
        } else {
            let receives = receiver();
            (sender(), receives)
        };
        let data = if round == 2 { &[][..] } else { &data[..] };
        let got = std::thread::scope(|scope| {
            let mut input = sends.stdin.take().unwrap();
            scope.spawn(move || input.write_all(data).unwrap());
            receives.wait_with_output().unwrap()
        });
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        assert!(got.stdout == data && got.stderr.is_empty(), "{} bytes", got.stdout.len());
        assert!(sends.wait().unwrap().success());
    }
}

/// Both ends of a pipe of which five bytes came through, and what the sender reads.
fn in_the_middle(name: &str) -> (Child, Child, ChildStdin) {
    let (mut sends, mut receives) = (pipe(&["send", name]), pipe(&["recv", name]));
    let mut input = sends.stdin.take().unwrap();
    input.write_all(b"hello").unwrap();
    receives.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    (sends, receives, input)
}

#[test]
fn whose_other_end_dies_says_so_and_fails() {
    let name = name("dies");
    let (mut sends, receives, _input) = in_the_middle(&name);
    sends.kill().unwrap();
    sends.wait().unwrap();
    fails(receives, 1, "after 5 B: the process at the other end of the pipe died");

    let (sends, mut receives, mut input) = in_the_middle(&name);
    receives.kill().unwrap();
    receives.wait().unwrap();
    // It may have ended with all that the pipe held.
    let _ = input.write_all(&vec![7; 4 << 20]);
    drop(input);
    fails(sends, 1, "the process at the other end of the pipe died");
}

/// Also if nothing is sent to it any more: what it had not read is lost.
#[test]
fn a_sender_whose_receiver_died_before_its_end_fails() {
    let name = name("early");
    let (sends, mut receives, input) = in_the_middle(&name);
    receives.kill().unwrap();
    receives.wait().unwrap();
    drop(input);
    fails(sends, 1, "the process at the other end of the pipe died");
}

/// Also while it waits for more input, which never comes.
#[test]
fn a_sender_that_waits_for_its_input_hears_that_its_receiver_died_or_ended() {
    let name = name("waits");
    let (sends, mut receives, _input) = in_the_middle(&name);
    receives.kill().unwrap();
    receives.wait().unwrap();
    fails(ended(sends), 1, "the process at the other end of the pipe died");

    let (sends, mut receives, mut input) = in_the_middle(&name);
    drop(receives.stdout.take());
    input.write_all(b"nobody takes this").unwrap();
    assert!(receives.wait().unwrap().success());
    fails(ended(sends), 1, "the receiver has ended and takes no more");
}

#[test]
fn a_receiver_whose_output_nobody_takes_ends_and_its_sender_hears_it() {
    let name = name("cut");
    let (mut sends, mut receives) = (pipe(&["send", &name]), pipe(&["recv", &name]));
    drop(receives.stdout.take());
    let mut input = sends.stdin.take().unwrap();
    let _ = input.write_all(&vec![7; 4 << 20]);
    drop(input);
    assert!(receives.wait().unwrap().success(), "as a reader that has seen enough");
    fails(sends, 1, "the receiver has ended and takes no more");
}

#[test]
fn who_comes_alone_or_for_the_same_end_is_told() {
    fails(pipe(&["recv", &name("alone"), "--wait", "1"]), 1, "nobody sends as \"alone-");
    fails(pipe(&["send", &name("alone"), "--wait", "500ms"]), 1, "nobody receives as \"alone-");
    fails(pipe(&["send", &name("alone"), "--wait", "soon"]), 2, "does not start with a number");
    fails(pipe(&["send", ""]), 2, "name of 0 bytes");
    fails(pipe(&["send", &"x".repeat(NAME_MAX + 1)]), 2, "name of 65 bytes");
    let name = name("same");
    let first = Meeting::begin(&name, Role::Sender, 4096, WAIT).unwrap();
    let mut sender = first.adapter().send(&SendOptions::default(), WAIT).unwrap();
    assert_eq!(first.join(Timeout::After(Duration::from_millis(20))), Err(Error::Timeout), "the name is still ours");
    std::thread::scope(|scope| {
        let joined = scope.spawn(|| first.join(WAIT));
        fails(pipe(&["send", &name]), 1, "another process already sends under this name");
        let second = Meeting::begin(&name, Role::Receiver, 4096, WAIT).unwrap();
        let mut receiver = second.adapter().receive(&ReceiveOptions::default(), WAIT).unwrap();
        second.join(WAIT).unwrap();
        joined.join().unwrap().unwrap();
        sender.send(b"hello", 7, WAIT).unwrap();
        assert_eq!(receiver.receive(WAIT).unwrap().bytes, b"hello");
    });
}

/// The time to wait is that until both are there, not one for each thing that is waited for.
#[test]
fn who_waits_for_a_name_that_others_hold_waits_no_longer_than_was_said() {
    let name = name("held");
    let path = format!("umbra-stream.{}.{name}", rustix::process::geteuid().as_raw());
    let holder = UnixListener::bind_addr(&SocketAddr::from_abstract_name(path).unwrap()).unwrap();
    let began = Instant::now();
    let receives = pipe(&["recv", &name, "--wait", "6s"]);
    // From then on it is alone.
    std::thread::sleep(Duration::from_secs(5));
    drop(holder);
    fails(ended(receives), 1, "nobody sends as \"held-");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn who_waits_on_a_terminal_says_for_whom() {
    let near = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&near).unwrap();
    rustix::pty::unlockpt(&near).unwrap();
    let far = rustix::pty::ptsname(&near, Vec::new()).unwrap();
    let far = File::options().read(true).write(true).open(far.to_str().unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
    // Long enough to say it.
    command.args(["pipe", "recv", &name("awaited"), "--wait", "5s"]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut receives = command.stderr(far).spawn().unwrap();
    drop(command);
    assert!(!receives.wait().unwrap().success(), "nobody sends");
    let mut said = vec![0; 4096];
    let len = File::from(near).read(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said[..len]);
    assert!(said.starts_with("waiting for a process that sends as \"awaited-"), "{said}");
}
